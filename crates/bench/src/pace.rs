//! Open loops: requests are sent when they are due, whether or not earlier ones are answered, and a latency counts
//! from when its request was due. So a server that falls behind cannot hide it by slowing down those who ask.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::mpsc;

use crate::load::{self, Connection, Outcome, What};

/// Latencies in nanoseconds.
pub(crate) type Latencies = Histogram<u64>;

/// Enough to tell 1.00 ms from 1.01 ms.
const DIGITS: u8 = 3;
/// What takes longer counts as this long.
const LATENCY_MAX: Duration = Duration::from_secs(600);
/// Beyond this the server does not keep up, and memory would run out.
const UNDER_WAY_MAX: usize = 200_000;
/// How far apart the pacer wakes at least: with a wake-up for each request it would take the processor from the server.
const WAKE: Duration = Duration::from_micros(100);

pub(crate) fn latencies() -> Latencies {
    Histogram::new_with_bounds(1, LATENCY_MAX.as_secs() * 1_000_000_000, DIGITS).expect("these are allowed")
}

pub(crate) fn record(latencies: &mut Latencies, latency: Duration) {
    latencies.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
}

/// How long an uncontended take lasts when `rate` pairs a second are due.
pub(crate) async fn run<C: Connection>(
    address: &str,
    connections: usize,
    rate: f64,
    span: Duration,
) -> Outcome<Latencies> {
    let connections = load::open::<C>(&[address.to_owned()], connections).await?;
    let measured = Arc::new(Measured { latencies: Mutex::new(latencies()), free: Mutex::default() });
    let mut due = pacer(rate, span + span / 4);
    let warm = Instant::now() + span / 4;
    let mut tasks = tokio::task::JoinSet::new();
    let mut next = connections.iter().cycle();
    let mut names = 0;
    while let Some(batch) = due.recv().await {
        for due in batch {
            let free = measured.free.lock().expect("nobody panics with it").pop();
            let what = free.unwrap_or_else(|| {
                names += 1;
                What::Own(format!("paced-{names}"))
            });
            let connection = next.next().expect("there is one").clone();
            tasks.spawn(pair(connection, what, due, due >= warm, measured.clone()));
        }
        while let Some(done) = tasks.try_join_next() {
            done??;
        }
        if tasks.len() > UNDER_WAY_MAX {
            return Err(format!("{} requests are unanswered at {rate:.0} pairs/s", tasks.len()).into());
        }
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    connections.iter().for_each(C::close);
    let measured = measured.latencies.lock().expect("nobody panics with it").clone();
    Ok(measured)
}

struct Measured {
    latencies: Mutex<Latencies>,
    /// Names that nobody has.
    free: Mutex<Vec<What>>,
}

async fn pair<C: Connection>(
    mut connection: C,
    what: What,
    due: Instant,
    counts: bool,
    measured: Arc<Measured>,
) -> Outcome<()> {
    let taken = connection.take(&what).await?;
    if counts {
        record(&mut measured.latencies.lock().expect("nobody panics with it"), due.elapsed());
    }
    connection.give_back(taken).await?;
    measured.free.lock().expect("nobody panics with it").push(what);
    Ok(())
}

/// Tells what is due, evenly spread. From a thread, because the runtime's own timers count in milliseconds.
fn pacer(rate: f64, span: Duration) -> mpsc::UnboundedReceiver<Vec<Instant>> {
    let (tell, due) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let started = Instant::now();
        let mut next = 0_u32;
        loop {
            let passed = started.elapsed().min(span);
            let mut batch = Vec::new();
            while f64::from(next) / rate <= passed.as_secs_f64() {
                batch.push(started + Duration::from_secs_f64(f64::from(next) / rate));
                next += 1;
            }
            let over = passed >= span;
            if tell.send(batch).is_err() || over {
                return;
            }
            let until_next = Duration::from_secs_f64(f64::from(next) / rate).saturating_sub(started.elapsed());
            std::thread::sleep(until_next.max(WAKE));
        }
    });
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_told_as_it_was_recorded() {
        let mut measured = latencies();
        for micros in [100, 2_000, 30_000_000] {
            record(&mut measured, Duration::from_micros(micros));
        }
        let told = [0.0, 0.5, 1.0].map(|quantile| measured.value_at_quantile(quantile) as f64 / 1e3);
        for (told, recorded) in told.into_iter().zip([100.0, 2_000.0, 30_000_000.0]) {
            assert!((told / recorded - 1.0).abs() < 0.001, "{told} of {recorded}");
        }
    }

    #[tokio::test]
    async fn what_is_due_is_due_at_even_distances_whenever_it_is_told() {
        let mut told = Vec::new();
        let mut due = pacer(1_000.0, Duration::from_millis(20));
        while let Some(batch) = due.recv().await {
            told.extend(batch);
        }
        assert_eq!(told.len(), 21);
        assert!(told.windows(2).all(|pair| (pair[1] - pair[0]).as_micros().abs_diff(1_000) <= 1), "{told:?}");
    }
}

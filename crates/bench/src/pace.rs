//! Open loops: requests are sent when they are due, whether or not earlier ones are answered, and a latency counts
//! from when its request was due. So a server that falls behind cannot hide it by slowing down those who ask.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::{Notify, mpsc};

use crate::load::{self, Connection, Outcome, What};

/// Latencies in nanoseconds.
pub(crate) type Latencies = Histogram<u64>;

/// Enough to tell 1.00 ms from 1.01 ms.
const DIGITS: u8 = 3;
/// What takes longer counts as this long.
const LATENCY_MAX: Duration = Duration::from_secs(600);
/// How many may be served at the same time, each with a name of its own: more than the closed loops have tasks.
const CLIENTS: usize = 1_024;
/// Beyond this the server does not keep up.
const UNSERVED_MAX: usize = 1_000_000;
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
    let agenda = Arc::<Agenda>::default();
    let measured = Arc::new(Mutex::new(latencies()));
    let warm = Instant::now() + span / 4;
    let mut clients = tokio::task::JoinSet::new();
    for (number, connection) in (0..CLIENTS).zip(connections.iter().cycle()) {
        let what = What::Own(format!("paced-{number}"));
        clients.spawn(serve(connection.clone(), what, agenda.clone(), warm, measured.clone()));
    }
    let mut due = pacer(rate, span + span / 4);
    while let Some(batch) = due.recv().await {
        if agenda.add(batch) > UNSERVED_MAX {
            return Err(format!("{UNSERVED_MAX} requests are not yet made at {rate:.0} pairs/s").into());
        }
        // One that has ended has failed.
        if let Some(ended) = clients.try_join_next() {
            ended??;
        }
    }
    agenda.end();
    while let Some(client) = clients.join_next().await {
        client??;
    }
    connections.iter().for_each(C::close);
    let measured = measured.lock().expect("nobody panics with it").clone();
    Ok(measured)
}

/// What is due and not yet begun.
#[derive(Debug, Default)]
struct Agenda {
    due: Mutex<(VecDeque<Instant>, bool)>,
    more: Notify,
}

impl Agenda {
    /// Gives how much there is.
    fn add(&self, batch: Vec<Instant>) -> usize {
        let count = batch.len();
        let mut due = self.due.lock().expect("nobody panics with it");
        due.0.extend(batch);
        let all = due.0.len();
        drop(due);
        (0..count).for_each(|_| self.more.notify_one());
        all
    }

    fn end(&self) {
        self.due.lock().expect("nobody panics with it").1 = true;
        self.more.notify_waiters();
        // For one that is about to wait.
        self.more.notify_one();
    }

    /// None when there is no more to come.
    async fn next(&self) -> Option<Instant> {
        loop {
            let told = self.more.notified();
            {
                let mut due = self.due.lock().expect("nobody panics with it");
                if let Some(next) = due.0.pop_front() {
                    return Some(next);
                }
                if due.1 {
                    self.more.notify_one();
                    return None;
                }
            }
            told.await;
        }
    }
}

/// A client with a name of its own, which takes and gives it back whenever something is due. What is due while all clients
/// are busy waits for one of them, and that counts.
async fn serve<C: Connection>(
    mut connection: C,
    what: What,
    agenda: Arc<Agenda>,
    warm: Instant,
    measured: Arc<Mutex<Latencies>>,
) -> Outcome<()> {
    while let Some(due) = agenda.next().await {
        let taken = connection.take(&what).await?;
        if due >= warm {
            record(&mut measured.lock().expect("nobody panics with it"), due.elapsed());
        }
        connection.give_back(taken).await?;
    }
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

//! Open loops: requests are sent when they are due, whether or not earlier ones are answered, and a latency counts
//! from when its request was due. So a server that falls behind cannot hide it by slowing down those who ask.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::load::{self, Connection, Outcome, What};

/// Enough to tell 1.000 ms from 1.001 ms.
pub(crate) const DIGITS: u8 = 3;
/// There are many slices, and to clear their memory must not take time from what is measured.
const DIGITS_OF_SLICE: u8 = 2;
/// Long enough for hundreds of syncs, and short enough that most have no pause of the machine in them.
const SLICE: Duration = Duration::from_millis(100);
/// What takes longer counts as this long.
const LATENCY_MAX: Duration = Duration::from_secs(600);
/// How many may be served at the same time, each with a name of its own: more than the closed loops have tasks.
const CLIENTS: usize = 1_024;
/// Beyond this the server does not keep up.
const UNSERVED_MAX: usize = 1_000_000;

/// Latencies in nanoseconds, of a whole measurement and of each [`SLICE`] of it.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    pub(crate) all: Histogram<u64>,
    began: Instant,
    slices: Vec<Histogram<u64>>,
}

impl Latencies {
    pub(crate) fn since(began: Instant) -> Self {
        Self { all: histogram(DIGITS), began, slices: Vec::new() }
    }

    /// Of what was due, or begun, at that time.
    pub(crate) fn record(&mut self, at: Instant, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let slice = (at.duration_since(self.began).as_nanos() / SLICE.as_nanos()) as usize;
        if slice >= self.slices.len() {
            self.slices.resize_with(slice + 1, || histogram(DIGITS_OF_SLICE));
        }
        self.all.saturating_record(nanos);
        self.slices[slice].saturating_record(nanos);
    }

    /// A quantile of each slice in which there was something.
    pub(crate) fn of_slices(&self, quantile: f64) -> impl Iterator<Item = f64> {
        self.slices.iter().filter(|slice| !slice.is_empty()).map(move |slice| slice.value_at_quantile(quantile) as f64)
    }
}

pub(crate) fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX.as_secs() * 1_000_000_000, digits).expect("these are allowed")
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
    let mut pace = Pace::new(rate, span + span / 4);
    let warm = pace.started + span / 4;
    let measured = Arc::new(Mutex::new(Latencies::since(warm)));
    let mut clients = tokio::task::JoinSet::new();
    for (number, connection) in (0..CLIENTS).zip(connections.iter().cycle()) {
        let what = What::Own(format!("paced-{number}"));
        clients.spawn(serve(connection.clone(), what, agenda.clone(), warm, measured.clone()));
    }
    while let Some(due) = pace.due() {
        if agenda.add(due) > UNSERVED_MAX {
            return Err(format!("{UNSERVED_MAX} requests are not yet made at {rate:.0} pairs/s").into());
        }
        // One that has ended has failed.
        if let Some(ended) = clients.try_join_next() {
            ended??;
        }
        // To be woken takes as long as some syncs, so this thread stays awake; but whoever else wants the processor comes first.
        std::thread::yield_now();
        tokio::task::yield_now().await;
    }
    agenda.end();
    while let Some(client) = clients.join_next().await {
        client??;
    }
    for connection in &connections {
        connection.close().await;
    }
    let measured = measured.lock().expect("nobody panics with it").clone();
    Ok(measured)
}

/// When what is due: at even distances, whenever it is asked.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: f64,
    span: Duration,
    started: Instant,
    next: u32,
}

impl Pace {
    pub(crate) fn new(rate: f64, span: Duration) -> Self {
        Self { rate, span, started: Instant::now(), next: 0 }
    }

    /// What has become due since it was last asked; none when all has.
    pub(crate) fn due(&mut self) -> Option<Vec<Instant>> {
        let after = |next: u32| Duration::from_secs_f64(f64::from(next) / self.rate);
        let passed = self.started.elapsed();
        let mut due = Vec::new();
        while after(self.next) <= passed.min(self.span) {
            due.push(self.started + after(self.next));
            self.next += 1;
        }
        (!due.is_empty() || passed < self.span).then_some(due)
    }
}

/// What is due and not yet begun, and who could begin it.
#[derive(Debug, Default)]
struct Agenda(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    due: VecDeque<Instant>,
    /// Those who have waited longest come first, so that all names are used.
    idle: VecDeque<Waker>,
    over: bool,
}

impl Agenda {
    /// Gives how much there is.
    fn add(&self, batch: Vec<Instant>) -> usize {
        let mut open = self.open();
        let woken = batch.len().min(open.idle.len());
        open.due.extend(batch);
        open.idle.drain(..woken).for_each(Waker::wake);
        open.due.len()
    }

    fn end(&self) {
        let mut open = self.open();
        open.over = true;
        open.idle.drain(..).for_each(Waker::wake);
    }

    /// None when there is no more to come.
    async fn next(&self) -> Option<Instant> {
        poll_fn(|cx| {
            let mut open = self.open();
            match open.due.pop_front() {
                None if !open.over => {
                    open.idle.push_back(cx.waker().clone());
                    Poll::Pending
                }
                next => Poll::Ready(next),
            }
        })
        .await
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().expect("nobody panics with it")
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
            measured.lock().expect("nobody panics with it").record(due, due.elapsed());
        }
        connection.give_back(taken).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_told_as_it_was_recorded() {
        let began = Instant::now();
        let mut measured = Latencies::since(began);
        for micros in [100, 2_000, 30_000_000] {
            measured.record(began + Duration::from_micros(micros), Duration::from_micros(micros));
        }
        let all = [0.0, 0.5, 1.0].map(|quantile| measured.all.value_at_quantile(quantile) as f64);
        let slices: Vec<_> = measured.of_slices(1.0).collect();
        let is_near = |told: &[f64], micros: &[f64], bound: f64| {
            assert_eq!(told.len(), micros.len());
            for (told, micros) in std::iter::zip(told, micros) {
                assert!((told / 1e3 / micros - 1.0).abs() < bound, "{told} of {micros}");
            }
        };
        is_near(&all, &[100.0, 2_000.0, 30_000_000.0], 0.001);
        is_near(&slices, &[2_000.0, 30_000_000.0], 0.01);
    }

    #[test]
    fn what_is_due_is_due_at_even_distances_whenever_it_is_told() {
        let mut pace = Pace::new(1_000.0, Duration::from_millis(20));
        let mut told = Vec::new();
        while let Some(due) = pace.due() {
            told.extend(due);
            std::thread::sleep(Duration::from_millis(3));
        }
        assert_eq!(told.len(), 21);
        assert!(told.windows(2).all(|pair| (pair[1] - pair[0]).as_micros().abs_diff(1_000) <= 1), "{told:?}");
    }

    #[tokio::test]
    async fn whatever_is_due_is_begun_once_and_then_all_are_told_that_it_is_over() {
        let agenda = Arc::<Agenda>::default();
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let agenda = agenda.clone();
            clients.spawn(async move {
                let mut begun = Vec::new();
                while let Some(due) = agenda.next().await {
                    begun.push(due);
                    tokio::task::yield_now().await;
                }
                begun
            });
        }
        tokio::task::yield_now().await;
        let due: Vec<_> = (0..100).map(|n| Instant::now() + Duration::from_millis(n)).collect();
        for some in due.chunks(7) {
            agenda.add(some.to_vec());
            tokio::task::yield_now().await;
        }
        agenda.end();
        let mut begun: Vec<_> = clients.join_all().await.into_iter().flatten().collect();
        begun.sort_unstable();
        assert_eq!(begun, due);
    }
}

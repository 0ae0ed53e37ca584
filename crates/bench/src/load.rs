//! What everything under load has in common, and closed loops: each task takes and gives back one thing after another
//! until the time is up.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How many connections, and how many tasks share each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) connections: usize,
    pub(crate) tasks: usize,
}

/// What a task takes.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A name that nobody else uses.
    Own(String),
    /// A name, or one of the units of a pool, that others want too: it is waited for.
    Shared { name: String, units: u32 },
    /// Any resource of the pool that the selector fits.
    Chosen { pool: String, select: String },
    /// A place in a rate window, which is not given back: it passes.
    Place(String),
}

/// A connection to something that can be taken and given back, shared by tasks.
pub(crate) trait Connection: Clone + Send + 'static {
    type Taken: Send;

    fn open(address: &str) -> impl Future<Output = Outcome<Self>> + Send;

    /// Answered, and as durable as the server is.
    fn take(&mut self, what: &What) -> impl Future<Output = Outcome<Self::Taken>> + Send;

    fn give_back(&mut self, taken: Self::Taken) -> impl Future<Output = Outcome<()>> + Send;

    /// Leaves nothing behind, if there is something that would stay.
    fn close(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

pub(crate) async fn open<C: Connection>(addresses: &[String], connections: usize) -> Outcome<Vec<C>> {
    let mut opened = Vec::new();
    for address in addresses.iter().cycle().take(connections) {
        opened.push(C::open(address).await?);
    }
    Ok(opened)
}

/// Tasks at work.
pub(crate) struct Running<C> {
    connections: Vec<C>,
    tasks: Vec<JoinHandle<Outcome<()>>>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    done: AtomicU64,
    over: AtomicBool,
}

/// Connections go to the servers in turn. `what` is told the number of the connection and of the task.
pub(crate) async fn start<C: Connection>(
    addresses: &[String],
    shape: Shape,
    what: impl Fn(usize, usize) -> What,
) -> Outcome<Running<C>> {
    let connections = open::<C>(addresses, shape.connections).await?;
    let counts = Arc::<Counts>::default();
    let mut tasks = Vec::new();
    for (number, connection) in connections.iter().enumerate() {
        for task in 0..shape.tasks {
            tasks.push(tokio::spawn(take_turns(connection.clone(), what(number, task), counts.clone())));
        }
    }
    Ok(Running { connections, tasks, counts })
}

async fn take_turns<C: Connection>(mut connection: C, what: What, counts: Arc<Counts>) -> Outcome<()> {
    while !counts.over.load(Ordering::Relaxed) {
        let taken = connection.take(&what).await?;
        connection.give_back(taken).await?;
        counts.done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Threads that compute and do nothing else, one for each processor: what a server meets that has the machine not to itself. They end when
/// this goes.
pub(crate) struct Crowd {
    over: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Crowd {
    pub(crate) fn start() -> std::io::Result<Self> {
        let mut crowd = Self { over: Arc::default(), threads: Vec::new() };
        for _ in 0..std::thread::available_parallelism()?.get() {
            let over = crowd.over.clone();
            let compute = move || {
                let mut number = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    number = std::hint::black_box(number.wrapping_add(1));
                }
            };
            crowd.threads.push(std::thread::Builder::new().name("crowd".to_owned()).spawn(compute)?);
        }
        Ok(crowd)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("to compute nothing does not panic");
        }
    }
}

/// What becomes of tasks when the time is up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Then {
    /// Each finishes what it is at.
    Finish,
    /// They wait in a queue that would take long: they are left.
    Leave,
}

impl<C: Connection> Running<C> {
    /// Lets the tasks run on; gives how many times a second something was taken and given back.
    pub(crate) async fn measure(self, span: Duration, then: Then) -> Outcome<f64> {
        let done = || self.counts.done.load(Ordering::Relaxed);
        tokio::time::sleep(span / 4).await;
        let (before, started) = (done(), Instant::now());
        tokio::time::sleep(span).await;
        let (after, passed) = (done(), started.elapsed());
        // Whoever has ended by now has failed.
        let failed = self.tasks.iter().any(JoinHandle::is_finished);
        self.counts.over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            if then == Then::Finish || failed && task.is_finished() {
                task.await??;
            } else {
                task.abort();
            }
        }
        for connection in &self.connections {
            connection.close().await;
        }
        Ok((after - before) as f64 / passed.as_secs_f64())
    }
}

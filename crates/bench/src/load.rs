//! Closed loops: each task does one thing after another until the time is up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many connections, and how many tasks share each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) connections: usize,
    pub(crate) tasks: usize,
}

/// Counts what tasks have done between the end of the warm-up and the end of the time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    done: AtomicU64,
    over: AtomicBool,
}

impl Meter {
    pub(crate) fn count(&self) {
        self.0.done.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.over.load(Ordering::Relaxed)
    }

    /// Lets the tasks run; gives how many a second were counted.
    pub(crate) async fn measure(&self, span: Duration) -> f64 {
        tokio::time::sleep(span / 4).await;
        let (before, started) = (self.0.done.load(Ordering::Relaxed), Instant::now());
        tokio::time::sleep(span).await;
        let (after, passed) = (self.0.done.load(Ordering::Relaxed), started.elapsed());
        self.0.over.store(true, Ordering::Relaxed);
        (after - before) as f64 / passed.as_secs_f64()
    }
}

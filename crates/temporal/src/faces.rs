//! Faces: workflows of the public samples that people run today, hosted by Tenure under the same names, with the same signals
//! and payloads, and kept by the same rules as everything else. What each says and hears is pure (`pool`, `lock_manager`,
//! `permit`, over a `book`); `hosted` is all that knows the SDK.

mod book;
#[cfg(test)]
mod fuzzing;
mod hosted;
mod lock_manager;
mod past;
mod permit;
mod pool;
mod roster;
mod start;
mod takeover;
mod watch;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use temporalio_sdk::WorkerOptions;

use tenure_core::{Stamp, Timestamp};
use tokio::sync::Notify;

use crate::host::Host;
use crate::link::Link;
pub(crate) use book::mark;
use book::{Book, Dropped};
use hosted::{LockManagerWorkflow, PermitSlotWorkflow, ResourcePoolWorkflow, TypeScriptPermitSlotWorkflow};
use takeover::Takeover;
use watch::Watch;
pub(crate) use watch::{is_running, running};
use wire::{Held, TakesOver};

pub use start::{PoolType, StartPool, StartPoolError};

/// Where pools are hosted unless it is said otherwise. Not a queue of people's own workers: each worker of a queue must know
/// every type of workflow that is started there.
pub const TASK_QUEUE: &str = "tenure-pools";
/// How long a pool stands still if the server that has it in memory was killed.
const STICKY_TIMEOUT: Duration = Duration::from_secs(1);

/// Hosts faces on these task queues until the host is stopped, and watches over their users until what it gives is dropped.
pub(crate) fn start(host: &Host, link: &Arc<Link>, task_queues: &[String]) -> impl Future<Output = ()> + use<> {
    for task_queue in task_queues {
        let options = WorkerOptions::new(task_queue.clone())
            .sticky_queue_schedule_to_start_timeout(STICKY_TIMEOUT)
            .register_activities(Takeover { link: link.clone() })
            .register_workflow::<ResourcePoolWorkflow>()
            .and_then(|options| options.register_workflow::<LockManagerWorkflow>())
            .and_then(|options| options.register_workflow::<PermitSlotWorkflow>())
            .and_then(|options| options.register_workflow::<TypeScriptPermitSlotWorkflow>())
            .expect("each has a name of its own");
        // Pools do not wear a worker out.
        host.run(task_queue, options.build(), Arc::new(Notify::new()));
    }
    Watch::new(link.clone(), task_queues.to_vec()).run()
}

/// What a start or a continuation says, read but not yet opened.
pub(crate) struct Start<F> {
    pub(crate) face: F,
    /// The run whose holds and waits come first.
    pub(crate) takes_over: Option<TakesOver>,
}

/// A stand-in for a workflow that hands out resources by signals.
pub(crate) trait Face: Sized {
    /// Reads a start input. `mint` gives numbers that nobody can guess.
    fn open(
        workflow_id: &str,
        input: Option<&[u8]>,
        at: Timestamp,
        mint: &mut dyn FnMut() -> u128,
    ) -> Result<Start<Self>, String>;

    fn hear(&mut self, stamp: Stamp, signal: &str, argument: Option<&[u8]>) -> Result<(), Dropped>;

    /// The name of the signal by which a workflow is told what it got.
    fn assign_signal(&self) -> &str;

    /// The start input of the next run.
    fn hand_on(&self) -> Vec<u8>;

    /// The start input of one that begins like this, as the samples write it.
    fn as_started(&self) -> Vec<u8>;

    fn book(&self) -> &Book;

    fn book_mut(&mut self) -> &mut Book;

    /// The answer to `get_current_holders`, itself a start input's `resources`.
    fn holders(&self) -> BTreeMap<String, Option<Held>> {
        self.book().holders().into_iter().collect()
    }
}

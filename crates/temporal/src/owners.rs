//! Watches over the workflows to which holds are bound, and says that they are gone when their chain of runs has closed.
//! Whom to watch is asked of the engine, so that watching goes on after a restart; nobody is declared gone by silence.

mod chain;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure_core::{Command, Namespace, OwnerId, PAGE_MAX, Query, View};
use tenure_engine::{Calls, Engine};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use crate::link::Link;
pub use chain::WorkflowOwner;
pub(crate) use chain::{Life, life, until_closed};

/// Long polls at once. They are cheap, but a front end of Temporal has only 1,200 for a namespace, for all our servers and
/// for everybody else who waits for a workflow; the owners beyond them are asked for in turn.
pub(crate) const POLLS_MAX: usize = 200;
/// Workflows that are asked for at the same moment.
const QUESTIONS_MAX: usize = 16;
/// How often the engine is asked for the owners there are, while anything happens: at most so often, and less often
/// when they are many.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
const LOOK_SHARE: Duration = Duration::from_micros(100);
/// How much longer it is left alone when nothing happens: an answer may have been missed.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// How often an owner is asked for who has no long poll, and what a question costs of it: about a hundred a second.
const ASK_INTERVAL: Duration = Duration::from_secs(2);
const ASK_SHARE: Duration = Duration::from_millis(10);
/// The pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(500);
/// Owners that were told of and are not watched yet. Those that do not fit are found by asking the engine.
const EXPECTED_MAX: usize = 4_096;

type Owner = (Namespace, OwnerId);

/// Cheap to clone: all are the same.
#[derive(Clone)]
pub(crate) struct Owners {
    shared: Arc<Shared>,
    expected: mpsc::Sender<Owner>,
    expecting: Arc<tokio::sync::Mutex<mpsc::Receiver<Owner>>>,
}

struct Shared {
    link: Arc<Link>,
    engine: Arc<dyn Engine>,
    polls: Semaphore,
    questions: Semaphore,
    watched: AtomicUsize,
}

impl Owners {
    pub(crate) fn new(link: Arc<Link>, engine: Arc<dyn Engine>) -> Self {
        let (expected, expecting) = mpsc::channel(EXPECTED_MAX);
        let shared = Shared {
            link,
            engine,
            polls: Semaphore::new(POLLS_MAX),
            questions: Semaphore::new(QUESTIONS_MAX),
            watched: AtomicUsize::new(0),
        };
        Self { shared: Arc::new(shared), expected, expecting: Arc::new(tokio::sync::Mutex::new(expecting)) }
    }

    /// Says that something may have been bound to this owner just now, so that it is watched sooner than it would be
    /// found.
    pub(crate) fn expect(&self, namespace: &Namespace, owner: &OwnerId) {
        // If there are too many it is found by asking the engine.
        let _ = self.expected.try_send((namespace.clone(), owner.clone()));
    }

    /// Watches until it is dropped.
    pub(crate) async fn watch(self) {
        let mut expecting = self.expecting.lock().await;
        let mut watches = Watches { shared: self.shared.clone(), all: HashMap::new(), round: 0 };
        let mut last_event = self.shared.engine.last_event();
        loop {
            last_event.borrow_and_update();
            watches.look().await;
            let count = u32::try_from(watches.all.len()).unwrap_or(u32::MAX);
            let interval = LOOK_INTERVAL.max(LOOK_SHARE.saturating_mul(count));
            let mut rest = std::pin::pin!(tokio::time::sleep(interval));
            let mut idle = std::pin::pin!(tokio::time::sleep(interval + IDLE_INTERVAL));
            let mut rested = false;
            loop {
                tokio::select! {
                    Some(owner) = expecting.recv() => watches.add(owner),
                    () = &mut rest, if !rested => rested = true,
                    () = &mut idle => break,
                    changed = last_event.changed(), if rested => match changed {
                        Ok(()) => break,
                        // The engine has stopped.
                        Err(_) => return,
                    },
                }
            }
        }
    }
}

impl std::fmt::Debug for Owners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owners").field("watched", &self.shared.watched).finish_non_exhaustive()
    }
}

/// Those who are watched.
struct Watches {
    shared: Arc<Shared>,
    all: HashMap<Owner, Watch>,
    /// How often all have been looked at.
    round: u64,
}

struct Watch {
    /// When it was last seen to be an owner.
    seen: u64,
    task: AbortHandle,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watches {
    /// Asks the engine who owns something, and watches those and nobody else.
    async fn look(&mut self) {
        self.round += 1;
        let mut after = None;
        loop {
            let query = Query::Owners { after: after.take(), limit: PAGE_MAX };
            let page = match self.shared.engine.query(query).await {
                Ok(Ok(View::Owners(page))) => page,
                // Overloaded, or stopping: whoever is watched is watched on.
                _ => return,
            };
            for owner in page.items {
                self.add(owner);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let round = self.round;
        // One that was told of since the engine was asked may not be there yet.
        self.all.retain(|_, watch| watch.seen + 1 >= round && !watch.task.is_finished());
        self.shared.watched.store(self.all.len(), Ordering::Relaxed);
    }

    fn add(&mut self, owner: Owner) {
        if let Some(watch) = self.all.get_mut(&owner)
            && !watch.task.is_finished()
        {
            watch.seen = self.round;
            return;
        }
        let Some(workflow) = WorkflowOwner::parse(&owner.1) else { return };
        if workflow.namespace != self.shared.link.namespace() {
            return;
        }
        let task = tokio::spawn(self.shared.clone().follow(owner.clone(), workflow)).abort_handle();
        self.all.insert(owner, Watch { seen: self.round, task });
    }
}

impl Shared {
    /// Follows the workflow through its runs, and when the last has closed says that the owner is gone.
    async fn follow(self: Arc<Self>, owner: Owner, workflow: WorkflowOwner) {
        loop {
            let question = self.questions.acquire().await.expect("it is never closed");
            let known = life(&self.link, &workflow).await;
            drop(question);
            let run_id = match known {
                Ok(Life::Over) => break,
                Ok(Life::Running { run_id }) => run_id,
                Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let is_polled = match self.polls.try_acquire() {
                Ok(_poll) => until_closed(&self.link, &workflow, &run_id).await.is_ok(),
                Err(_) => false,
            };
            // Temporal may refuse a poll because there are too many, so trying again at once would make it worse.
            if !is_polled {
                let count = u32::try_from(self.watched.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
                tokio::time::sleep(ASK_INTERVAL.max(ASK_SHARE.saturating_mul(count))).await;
            }
        }
        let (namespace, id) = owner;
        tracing::debug!(owner = %id, "a workflow is gone, and what was bound to it ends");
        while let Err(failure) = {
            let gone = Command::OwnerGone { namespace: namespace.clone(), owner: id.clone() };
            self.engine.call(gone).await
        } {
            tracing::debug!(%failure, owner = %id, "what was bound to it could not be ended yet");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

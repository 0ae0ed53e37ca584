//! Workers of Temporal's SDK, each on a thread of its own because its future cannot move between threads. A worker
//! that fails is made anew: the server outlives whatever happens to Temporal.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use temporalio_sdk::runtime::RuntimeOptions;
use temporalio_sdk::{Runtime, Worker, WorkerOptions};
use tokio::sync::{Notify, mpsc, watch};

use crate::link::Link;

/// How long after a failure a worker is made anew.
const RETRY_DELAY: Duration = Duration::from_secs(1);

pub struct Host {
    link: Arc<Link>,
    stopping: watch::Sender<bool>,
    /// Each thread has one while it runs; taken when nobody is to be started any more.
    running: Mutex<Option<mpsc::Sender<()>>>,
    all_ended: tokio::sync::Mutex<mpsc::Receiver<()>>,
}

impl Host {
    pub fn new(link: Arc<Link>) -> Self {
        let (running, all_ended) = mpsc::channel(1);
        Self {
            link,
            stopping: watch::Sender::new(false),
            running: Mutex::new(Some(running)),
            all_ended: tokio::sync::Mutex::new(all_ended),
        }
    }

    /// Runs a worker until the host is stopped, on a thread of this name. When it is said to be worn out it is
    /// replaced by another one like it.
    pub fn run(&self, name: &str, options: WorkerOptions, worn_out: Arc<Notify>) {
        let Some(running) = self.running().clone() else { return };
        let (link, mut stopping) = (self.link.clone(), self.stopping.subscribe());
        let runtime = tokio::runtime::Handle::current();
        let task_queue = options.task_queue.clone();
        let serve = async move || {
            let _running = running;
            while !*stopping.borrow_and_update() {
                let run = run_once(&link, options.clone(), &mut stopping, &worn_out);
                if let Err(why) = survive(run).await {
                    tracing::warn!(why, task_queue, "a worker of Temporal failed and is started again");
                    let _ = tokio::time::timeout(RETRY_DELAY, stopping.changed()).await;
                }
            }
        };
        std::thread::Builder::new()
            .name(name.into())
            .spawn(move || runtime.block_on(serve()))
            .expect("the system can start a thread");
    }

    /// Lets workers take nothing more and end.
    pub fn stop(&self) {
        self.running().take();
        self.stopping.send_replace(true);
    }

    /// Resolves when every worker has ended.
    pub async fn ended(&self) {
        self.all_ended.lock().await.recv().await;
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<mpsc::Sender<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends when the host stops or the worker is worn out, or with what went wrong.
async fn run_once(
    link: &Link,
    options: WorkerOptions,
    stopping: &mut watch::Receiver<bool>,
    worn_out: &Notify,
) -> Result<(), String> {
    let runtime = RuntimeOptions::builder().heartbeat_interval(None).build()?;
    let runtime = Runtime::from_current_tokio(runtime).map_err(|error| error.to_string())?;
    let mut worker = Worker::new(&runtime, link.client().clone(), options).map_err(|error| error.to_string())?;
    let shut_down = worker.shutdown_handle();
    let mut running = std::pin::pin!(worker.run());
    tokio::select! {
        ended = &mut running => return ended.map_err(|error| full_text(&error)),
        _ = stopping.changed() => {}
        () = worn_out.notified() => {}
    }
    shut_down();
    running.await.map_err(|error| full_text(&error))
}

/// A panic in the SDK must not end the thread: the server would go on without its worker, and nobody would notice.
async fn survive(run: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let ended = AssertUnwindSafe(run).catch_unwind().await;
    ended.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("it panicked: {}", text.unwrap_or("nobody knows why")))
    })
}

/// With all that is below it.
fn full_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(source) = below {
        text += &format!(": {source}");
        below = source.source();
    }
    text
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("link", &self.link).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_failure_like_any_other() {
        assert_eq!(survive(async { Ok(()) }).await, Ok(()));
        assert_eq!(survive(async { Err("no".into()) }).await, Err("no".into()));
        assert_eq!(survive(async { panic!("at the {}", "disco") }).await, Err("it panicked: at the disco".into()));
    }
}

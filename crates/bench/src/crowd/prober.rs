//! Somebody else: takes a lock and releases it, all the while, on a connection and a thread of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tenure_proto::v1::{AcquireRequest, ReleaseRequest};

use super::asking::{code, connect};
use super::server::Server;
use super::{Outcome, PATIENCE};

/// Steady, not hungry: the load is made by others.
const PACE: Duration = Duration::from_millis(5);

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Probed {
    /// Pairs of acquire and release.
    pub(crate) done: u64,
    /// By code.
    pub(crate) failures: BTreeMap<String, u64>,
    /// The longest that one call took.
    pub(crate) worst: Duration,
}

pub(crate) struct Prober {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Outcome<Probed>>,
}

impl Prober {
    pub(crate) fn start(server: &Server) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (address, over) = (server.grpc.clone(), is_over.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(probe(&address, &over))
        });
        Self { is_over, thread }
    }

    pub(crate) fn stop(self) -> Outcome<Probed> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the prober panicked")?
    }
}

async fn probe(address: &str, is_over: &AtomicBool) -> Outcome<Probed> {
    let mut client = connect(address).await?;
    let mut probed = Probed::default();
    let acquire = AcquireRequest { pool: "prober".into(), holder: "prober".into(), ..Default::default() };
    while !is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let granted = tokio::time::timeout(PATIENCE, client.acquire(acquire.clone())).await?;
        probed.worst = probed.worst.max(began.elapsed());
        match granted {
            Ok(grant) => {
                // It is its own: it must go, however often that takes.
                let release = ReleaseRequest { key: grant.into_inner().key, ..Default::default() };
                let began = Instant::now();
                while let Err(status) = client.release(release.clone()).await {
                    *probed.failures.entry(code(&status)).or_default() += 1;
                    if began.elapsed() > PATIENCE {
                        return Err(status.into());
                    }
                    tokio::time::sleep(PACE).await;
                }
                probed.worst = probed.worst.max(began.elapsed());
                probed.done += 1;
            }
            Err(status) => *probed.failures.entry(code(&status)).or_default() += 1,
        }
        tokio::time::sleep(PACE).await;
    }
    Ok(probed)
}

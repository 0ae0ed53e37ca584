//! Somebody else: takes a lock and releases it, all the while, on a connection and a thread of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tenure_proto::v1::{AcquireRequest, ReleaseRequest};
use tokio::sync::watch;

use super::asking::{code, connect};
use super::server::Server;
use super::{Outcome, PATIENCE};

/// Steady, not hungry: the load is made by others.
const PACE: Duration = Duration::from_millis(5);

/// One may have been begun before.
const PAIRS_MEANWHILE: u64 = 2;
/// Under so many rounds of a load others are served, or they never are.
const ROUNDS_MAX: usize = 500;

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

/// How far the prober is, for those who make the load.
#[derive(Clone)]
pub(crate) struct Others(watch::Receiver<u64>);

impl Others {
    fn done(&self) -> u64 {
        *self.0.borrow()
    }

    /// Waits until they have begun and ended a pair from now on, while whoever asks leaves the load as it is. False if they never do.
    pub(crate) async fn are_served(&self) -> bool {
        // One may be under way.
        let enough = self.done() + PAIRS_MEANWHILE;
        let mut done = self.0.clone();
        tokio::time::timeout(PATIENCE, done.wait_for(|done| *done >= enough)).await.is_ok_and(|done| done.is_ok())
    }

    /// Tells whether they are served under a load that would be over by itself.
    pub(crate) fn meanwhile(&self) -> Meanwhile {
        Meanwhile { others: self.clone(), enough: Arc::default() }
    }
}

/// Whether others are served under a load that goes on until they are, so that it is no matter of how long it takes.
#[derive(Clone)]
pub(crate) struct Meanwhile {
    others: Others,
    enough: Arc<OnceLock<u64>>,
}

impl Meanwhile {
    /// The server has something of the load: what counts is done from now on.
    pub(crate) fn begins(&self) {
        self.enough.get_or_init(|| self.others.done() + PAIRS_MEANWHILE);
    }

    pub(crate) fn were_served(&self) -> bool {
        self.enough.get().is_some_and(|enough| self.others.done() >= *enough)
    }

    /// Whether there is to be another round of it, after so many.
    pub(crate) fn goes_on(&self, rounds: usize) -> bool {
        rounds < ROUNDS_MAX && !self.were_served()
    }
}

pub(crate) struct Prober {
    is_over: Arc<AtomicBool>,
    others: Others,
    thread: JoinHandle<Outcome<Probed>>,
}

impl Prober {
    pub(crate) fn start(server: &Server) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (address, over) = (server.grpc.clone(), is_over.clone());
        let (told, done) = watch::channel(0);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(probe(&address, &over, &told))
        });
        Self { is_over, others: Others(done), thread }
    }

    pub(crate) fn others(&self) -> &Others {
        &self.others
    }

    pub(crate) fn stop(self) -> Outcome<Probed> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the prober panicked")?
    }
}

async fn probe(address: &str, is_over: &AtomicBool, told: &watch::Sender<u64>) -> Outcome<Probed> {
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
                told.send_replace(probed.done);
            }
            Err(status) => *probed.failures.entry(code(&status)).or_default() += 1,
        }
        tokio::time::sleep(PACE).await;
    }
    Ok(probed)
}

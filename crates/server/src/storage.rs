//! The embedded engine over a data directory, as a server needs it.

use std::path::PathBuf;
use std::sync::Arc;

use tenure_core::{Limits, Policies, State};
use tenure_engine::{
    DiskOptions, DiskStore, Durability, Embedded, Engine, Hosting, MemoryStore, Options, Retention, StoreError,
    SystemClock,
};
use tenure_script::RhaiPolicies;

/// Where holds and history are kept, and how much of them.
#[derive(Clone, Debug)]
pub struct Storage {
    /// None: in memory, until the process ends.
    pub disk: Option<Disk>,
    pub limits: Limits,
    /// How many commands may wait to be applied; beyond it they are refused at once.
    pub mailbox_max: usize,
    /// Whether the engine is run by the runtime in which it is started, instead of by threads of its own. For machines of few processors.
    pub hosted: bool,
}

#[derive(Clone, Debug)]
pub struct Disk {
    pub dir: PathBuf,
    pub durability: Durability,
    pub retention: Retention,
}

impl Default for Storage {
    fn default() -> Self {
        Self { disk: None, limits: Limits::default(), mailbox_max: Options::default().mailbox_max, hosted: false }
    }
}

impl Storage {
    /// Takes over what is stored, and goes on from there. A write that fails later stops the process.
    pub fn start_engine(&self) -> Result<Arc<dyn Engine>, StoreError> {
        let policies: Option<Arc<dyn Policies>> = Some(Arc::new(RhaiPolicies::new()));
        let spawn = |hosting: Hosting| drop(tokio::spawn(hosting));
        let host = self.hosted.then(|| Box::new(spawn) as Box<dyn FnOnce(Hosting) + Send>);
        let options =
            Options { limits: self.limits, mailbox_max: self.mailbox_max, policies, host, ..Options::default() };
        Ok(match &self.disk {
            Some(Disk { dir, durability, retention }) => {
                let pool_idle = self.limits.pool_idle;
                let disk =
                    DiskOptions { durability: *durability, retention: *retention, pool_idle, ..DiskOptions::default() };
                let (store, state) = DiskStore::open(dir, disk)?;
                let clock = Arc::new(SystemClock::start(state.counters().now));
                Arc::new(Embedded::start(state, store, clock, options))
            }
            None => {
                let state = State::new(self.limits.pool_idle);
                let clock = Arc::new(SystemClock::start(state.counters().now));
                Arc::new(Embedded::start(state, MemoryStore::new(), clock, options))
            }
        })
    }
}

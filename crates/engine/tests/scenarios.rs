//! The scenarios on the embedded engine, with threads of its own and without, and with a clock that the scenario moves. Those with a restart run on disk;
//! for the others opening a data directory would take fifty times as long as the scenario.

mod stage;

use std::process::ExitCode;
use std::sync::Arc;

use stage::{OnEngine, World};
use tempfile::TempDir;
use tenure_core::{Limits, State};
use tenure_engine::{DiskOptions, DiskStore, Durability, Embedded, Engine, Hosting, ManualClock, MemoryStore, Options};
use tenure_scenario::{Millis, Scenario, run_tests, translate, trials};
use tenure_script::RhaiPolicies;

fn main() -> ExitCode {
    let mut all = trials("engine", |_| true, async |scenario| OnEngine::new(Here::new(scenario, false)).await);
    all.extend(trials("hosted", |_| true, async |scenario| OnEngine::new(Here::new(scenario, true)).await));
    run_tests(all)
}

/// In this process.
struct Here {
    /// None while the server is stopped.
    engine: Option<Embedded>,
    clock: Arc<ManualClock>,
    limits: Limits,
    /// None: nothing has to outlive the engine.
    data: Option<TempDir>,
    /// Whether the scenario's own thread runs the engine.
    hosted: bool,
}

impl Here {
    fn new(scenario: &Scenario, hosted: bool) -> Self {
        Self {
            engine: None,
            clock: Arc::new(ManualClock::new(translate::START)),
            limits: translate::limits(&scenario.limits),
            data: scenario.restarts().then(|| TempDir::new().expect("a directory for one test")),
            hosted,
        }
    }
}

impl World for Here {
    fn engine(&self) -> &dyn Engine {
        self.engine.as_ref().expect("nothing is asked of a server that is stopped")
    }

    async fn start(&mut self) {
        let spawn = |hosting: Hosting| drop(tokio::spawn(hosting));
        let options = Options {
            limits: self.limits,
            policies: Some(Arc::new(RhaiPolicies::new())),
            host: self.hosted.then(|| Box::new(spawn) as _),
            ..Options::default()
        };
        let (clock, pool_idle) = (self.clock.clone(), self.limits.pool_idle);
        self.engine = Some(match &self.data {
            None => Embedded::start(State::new(pool_idle), MemoryStore::new(), clock, options),
            Some(data) => {
                // What survives a loss of power is for the store's own tests; here the process goes on.
                let disk = DiskOptions { durability: Durability::Os, pool_idle, ..DiskOptions::default() };
                let (store, state) = DiskStore::open(data.path(), disk).expect("the data of this test can be opened");
                Embedded::start(state, store, clock, options)
            }
        });
    }

    async fn kill(&mut self) {
        self.engine = None;
    }

    async fn advance(&mut self, to: Millis) {
        self.clock.advance_to(translate::instant(to));
        self.settle().await;
    }

    /// A grant that finds nobody comes back to the engine as mail, which the second tick finds handled.
    async fn settle(&self) {
        if let Some(engine) = &self.engine {
            engine.tick().await;
            engine.tick().await;
        }
    }
}

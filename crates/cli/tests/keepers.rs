//! The engine whose pools live in Temporal keeps the contract and plays the scenarios, on a real Temporal. Its time is
//! told, as that of the embedded engine is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../engine/tests/stage/mod.rs"]
mod stage;
mod support;

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use libtest_mimic::Trial;
use stage::{OnEngine, World};
use tenure_core::{Limits, Timestamp, Ttl};
use tenure_engine::Engine;
use tenure_engine::contract::{CASES, Harness};
use tenure_scenario::{Millis, Scenario, run_waiting_tests, translate, trials};
use tenure_temporal::{Host, Keepers, Link, Options, Settings};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

fn main() -> ExitCode {
    let mut tests = trials("engine", |_| true, async |scenario| OnEngine::new(There::new(scenario)).await);
    for (claim, case) in CASES {
        for keepers in [1, 3] {
            if keepers > 1 && !OF_SEVERAL.contains(claim) {
                continue;
            }
            let run = move || {
                let mut there = There::with(Limits::default(), keepers, Timestamp::from_millis(1_000_000));
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    World::start(&mut there).await;
                    case(&mut there).await;
                });
                Ok(())
            };
            tests.push(Trial::test(format!("contract, {keepers} keepers: {claim}"), run));
        }
    }
    run_waiting_tests(tests)
}

/// What it means to a session, and to a server that comes and goes, that pools are spread over several keepers. The
/// other claims are about one pool. Three are not made of several keepers: answers come in the order of the commands of
/// one pool, tokens rise in each pool, and events have the numbers that the server gave them.
const OF_SEVERAL: [&str; 4] = [
    "whoever_carries_a_session_is_told_which_of_its_holds_are_lost_and_no_others",
    "only_the_newest_connection_of_a_session_is_told_what_is_lost",
    "a_session_gets_its_grace_again_after_a_crash_and_its_waiter_keeps_its_place",
    "a_stop_answers_everybody_and_loses_nothing",
];

/// One Temporal, one connection and one worker for all tests of this process.
struct Ground {
    runtime: Runtime,
    link: Arc<Link>,
    _host: Host,
}

fn ground() -> &'static Ground {
    static GROUND: OnceLock<Ground> = OnceLock::new();
    // On a thread of its own: a runtime cannot wait inside another.
    let make = || {
        let temporal = support::temporal::Temporal::shared();
        let runtime = Runtime::new().unwrap();
        let settings = Settings { address: temporal.address(), namespace: temporal.namespace() };
        let link = Arc::new(runtime.block_on(Link::connect(&settings)).unwrap());
        let host = Host::new(link.clone());
        {
            let _inside = runtime.enter();
            host.run("keepers", Keepers::worker(), Arc::new(Notify::new()));
        }
        Ground { runtime, link, _host: host }
    };
    GROUND.get_or_init(|| std::thread::spawn(make).join().unwrap())
}

/// In keepers of its own.
struct There {
    engine: Option<Arc<Keepers>>,
    options: Options,
    now: Timestamp,
}

impl There {
    fn new(scenario: &Scenario) -> Self {
        Self::with(translate::limits(&scenario.limits), 1, translate::START)
    }

    fn with(limits: Limits, keepers: usize, from: Timestamp) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let prefix = format!("test-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let (name, time_told_from) = ("server".to_owned(), Some(from));
        let options = Options { limits, keepers, mailbox_max: 65_536, prefix, name, time_told_from };
        Self { engine: None, options, now: from }
    }

    fn open(&self, name: &str) -> Keepers {
        let ground = ground();
        let _inside = ground.runtime.enter();
        Keepers::start(ground.link.clone(), Options { name: name.to_owned(), ..self.options.clone() })
    }
}

impl World for There {
    fn engine(&self) -> &dyn Engine {
        &**self.engine.as_ref().expect("nothing is asked of a server that is stopped")
    }

    async fn start(&mut self) {
        let engine = self.open("server");
        engine.advance(0).await;
        self.engine = Some(Arc::new(engine));
    }

    async fn kill(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.kill();
        }
    }

    async fn advance(&mut self, to: Millis) {
        let to = translate::instant(to);
        let passed = to.millis_since(self.now);
        self.now = to;
        match &self.engine {
            Some(engine) => engine.advance(passed).await,
            // Somebody else tells the time meanwhile.
            None => {
                let other = self.open("another");
                other.advance(passed).await;
                other.stop().await;
            }
        }
    }

    async fn settle(&self) {
        if let Some(engine) = &self.engine {
            engine.advance(0).await;
        }
    }
}

impl Harness for There {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone().expect("it runs")
    }

    fn pass(&mut self, time: Ttl) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let engine = self.engine.clone().expect("it runs");
        Box::pin(async move { engine.advance(time.as_millis()).await })
    }

    fn crash(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            World::kill(self).await;
            World::start(self).await;
        })
    }

    fn restart(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            Harness::engine(self).stop().await;
            self.crash().await;
        })
    }
}

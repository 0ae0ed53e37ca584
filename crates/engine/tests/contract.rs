//! The embedded engine keeps the contract, on disk and with a clock that tests set, whoever runs it.

use std::pin::Pin;
use std::sync::Arc;

use tempfile::TempDir;
use tenure_core::{Timestamp, Ttl};
use tenure_engine::contract::{Harness, run};
use tenure_engine::{Clock, DiskOptions, DiskStore, Embedded, Engine, Hosting, ManualClock, Options};

struct OnDisk {
    data: TempDir,
    clock: Arc<ManualClock>,
    engine: Arc<Embedded>,
    hosted: bool,
}

impl OnDisk {
    fn fresh(hosted: bool) -> Self {
        let data = TempDir::new().expect("a folder to write to");
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000)));
        let engine = start(&data, &clock, hosted);
        Self { data, clock, engine, hosted }
    }
}

fn start(data: &TempDir, clock: &Arc<ManualClock>, hosted: bool) -> Arc<Embedded> {
    let spawn = |hosting: Hosting| drop(tokio::spawn(hosting));
    let options = Options { host: hosted.then(|| Box::new(spawn) as _), ..Options::default() };
    let (store, state) = DiskStore::open(data.path(), DiskOptions::default()).expect("the folder opens");
    Arc::new(Embedded::start(state, store, clock.clone(), options))
}

impl Harness for OnDisk {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    fn pass(&mut self, time: Ttl) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.clock.advance_to(self.clock.now() + time);
        Box::pin(self.engine.tick())
    }

    fn crash(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.engine.kill();
        self.engine = start(&self.data, &self.clock, self.hosted);
        Box::pin(self.engine.tick())
    }

    fn restart(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            self.engine.stop().await;
            self.crash().await;
        })
    }
}

#[tokio::test]
async fn the_embedded_engine_keeps_the_contract() {
    run(async || OnDisk::fresh(false)).await;
}

/// Engine and callers in one thread: whoever waited for the other without yielding would wait for ever.
#[tokio::test]
async fn an_engine_that_is_hosted_by_the_thread_of_its_callers_keeps_the_contract() {
    run(async || OnDisk::fresh(true)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_engine_that_is_hosted_by_another_thread_keeps_the_contract() {
    run(async || OnDisk::fresh(true)).await;
}

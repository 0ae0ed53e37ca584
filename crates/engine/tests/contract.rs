//! The embedded engine keeps the contract, on disk and with a clock that tests set.

use std::pin::Pin;
use std::sync::Arc;

use tempfile::TempDir;
use tenure_core::{Timestamp, Ttl};
use tenure_engine::contract::{Harness, run};
use tenure_engine::{Clock, DiskOptions, DiskStore, Embedded, Engine, ManualClock, Options};

struct OnDisk {
    data: TempDir,
    clock: Arc<ManualClock>,
    engine: Arc<Embedded>,
}

impl OnDisk {
    fn fresh() -> Self {
        let data = TempDir::new().expect("a folder to write to");
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000)));
        let engine = start(&data, &clock);
        Self { data, clock, engine }
    }
}

fn start(data: &TempDir, clock: &Arc<ManualClock>) -> Arc<Embedded> {
    let (store, state) = DiskStore::open(data.path(), DiskOptions::default()).expect("the folder opens");
    Arc::new(Embedded::start(state, store, clock.clone(), Options::default()))
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
        self.engine = start(&self.data, &self.clock);
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
    run(async || OnDisk::fresh()).await;
}

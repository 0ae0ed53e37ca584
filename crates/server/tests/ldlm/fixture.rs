//! A server on ports of its own, whose time is told and whose data outlives it.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Limits, Namespace, PoolName, PoolPath, Query, SessionView, State, Timestamp, Ttl, View};
use tenure_engine::{DiskOptions, DiskStore, Embedded, Engine, ManualClock, MemoryStore, Options};
use tenure_server::{Config, LdlmConfig, Server};

use crate::client::Client;

/// Longer than anything takes on a slow machine; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Fixture {
    pub(crate) server: Server,
    pub(crate) engine: Arc<Embedded>,
    clock: Arc<ManualClock>,
    config: LdlmConfig,
    /// None: it keeps nothing.
    dir: Option<tempfile::TempDir>,
}

impl Fixture {
    pub(crate) async fn start() -> Self {
        Self::with(LdlmConfig::default()).await
    }

    pub(crate) async fn with(config: LdlmConfig) -> Self {
        Self::over(None, Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000))), config).await
    }

    pub(crate) async fn durable(config: LdlmConfig) -> Self {
        let dir = Some(tempfile::tempdir().unwrap());
        Self::over(dir, Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000))), config).await
    }

    async fn over(dir: Option<tempfile::TempDir>, clock: Arc<ManualClock>, config: LdlmConfig) -> Self {
        let options = Options::default();
        let engine = match &dir {
            Some(dir) => {
                let (store, state) = DiskStore::open(dir.path(), DiskOptions::default()).unwrap();
                Embedded::start(state, store, clock.clone(), options)
            }
            None => {
                Embedded::start(State::new(Limits::default().pool_idle), MemoryStore::new(), clock.clone(), options)
            }
        };
        let engine = Arc::new(engine);
        // A restart has its time, and that is over before any other begins.
        engine.tick().await;
        let config_of_server = Config { ldlm: config.clone(), ..Config::any_ports() };
        let server = Server::start(engine.clone(), config_of_server).await.unwrap();
        Self { server, engine, clock, config, dir }
    }

    /// As after a SIGTERM.
    pub(crate) async fn restart(self) -> Self {
        within(self.server.stop()).await;
        self.engine.kill();
        Self::over(self.dir, self.clock, self.config).await
    }

    /// As after a SIGKILL: first everything the server would do is cut off, then its connections go.
    pub(crate) async fn crash(self) -> Self {
        let engine = self.engine.clone();
        tokio::task::spawn_blocking(move || engine.kill()).await.unwrap();
        within(self.server.stop()).await;
        Self::over(self.dir, self.clock, self.config).await
    }

    /// A client with a connection of its own.
    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.server.grpc_addr()).await
    }

    pub(crate) async fn later(&self, millis: u64) {
        self.clock.advance_to(self.engine.now() + Ttl::from_millis(millis));
        self.engine.tick().await;
    }

    /// How many wait for a lock.
    pub(crate) async fn waiters(&self, name: &str) -> usize {
        let pool = PoolPath::new(Namespace::default(), PoolName::parse(name).unwrap());
        match self.engine.query(Query::Pool { pool }).await.unwrap() {
            Ok(View::Pool(detail)) => detail.summary.waiters,
            Ok(other) => panic!("{other:?}"),
            Err(_) => 0,
        }
    }

    pub(crate) async fn until_waiters(&self, name: &str, count: usize) {
        eventually(async || (self.waiters(name).await == count).then_some(())).await;
    }

    pub(crate) async fn sessions(&self) -> Vec<SessionView> {
        let query = Query::Sessions { namespace: Namespace::default(), after: None, limit: 1_000 };
        match self.engine.query(query).await.unwrap() {
            Ok(View::Sessions(page)) => page.items,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn until_sessions(&self, count: usize) {
        eventually(async || (self.sessions().await.len() == count).then_some(())).await;
    }

    pub(crate) async fn holds(&self) -> Vec<tenure_core::HoldView> {
        let (namespace, limit) = (Namespace::default(), 1_000);
        let query = Query::Holds { namespace, pool: None, holder: None, after: None, limit };
        match self.engine.query(query).await.unwrap() {
            Ok(View::Holds(page)) => page.items,
            other => panic!("{other:?}"),
        }
    }
}

/// A test that hangs should say so.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it came in time")
}

/// For what nobody announces: looks again until it is so.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(mut look: impl FnMut() -> F) -> T {
    within(async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

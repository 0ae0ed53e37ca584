//! A server in a runtime of its own, so that it can be killed without a word, and ways to wait for what it did.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use tenure_client::{Api, Client, Guard, v1};
use tenure_engine::{Durability, Retention};
use tenure_server::{Config, Disk, Server, Storage};

/// Longer than anything takes on a slow machine; only a failing test waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Host {
    runtime: Option<tokio::runtime::Runtime>,
    server: Option<Server>,
    pub(crate) address: SocketAddr,
    pub(crate) http: SocketAddr,
}

impl Host {
    /// In memory.
    pub(crate) async fn start() -> Self {
        Self::start_with(Config::any_ports()).await
    }

    pub(crate) async fn start_with(config: Config) -> Self {
        Self::with(Storage::default(), config).await
    }

    /// With what is in the folder. A server that was killed a moment ago may still be letting go of it.
    pub(crate) async fn on(folder: &Path) -> Self {
        Self::on_with(folder, Config::any_ports()).await
    }

    pub(crate) async fn on_with(folder: &Path, config: Config) -> Self {
        let retention = Retention::default();
        let disk = Disk { dir: folder.to_owned(), durability: Durability::Os, retention };
        Self::with(Storage { disk: Some(disk), ..Storage::default() }, config).await
    }

    async fn with(storage: Storage, config: Config) -> Self {
        let engine = eventually(|| async { storage.start_engine().ok() }).await;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.spawn(Server::start(engine, config)).await.unwrap().unwrap();
        let (address, http) = (server.grpc_addr(), server.http_addr());
        Self { runtime: Some(runtime), server: Some(server), address, http }
    }

    pub(crate) async fn client(&self, holder: &str) -> Client {
        connect(&self.address.to_string(), holder).await
    }

    /// An onlooker with a connection of its own.
    pub(crate) async fn api(&self) -> Api {
        within(tenure_client::connect_api(&self.address.to_string())).await.unwrap()
    }

    /// In good order.
    pub(crate) async fn stop(mut self) {
        let (runtime, server) = (self.runtime.take().unwrap(), self.server.take().unwrap());
        within(runtime.spawn(server.stop())).await.unwrap();
        runtime.shutdown_background();
    }

    /// Without a word: connections are torn down and whatever was not answered is lost.
    pub(crate) fn kill(self) {}
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.server.take());
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub(crate) async fn connect(address: &str, holder: &str) -> Client {
    within(Client::builder(address).holder(holder).connect()).await.unwrap()
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

pub(crate) async fn holds(api: &Api, pool: &str) -> Vec<v1::Hold> {
    let request = v1::ListHoldsRequest { pool: Some(pool.into()), ..Default::default() };
    within(api.clone().list_holds(request)).await.unwrap().into_inner().holds
}

pub(crate) async fn queue(api: &Api, pool: &str) -> Vec<v1::Waiter> {
    let request = v1::ListQueueRequest { pool: pool.into(), ..Default::default() };
    within(api.clone().list_queue(request)).await.unwrap().into_inner().waiters
}

pub(crate) async fn sessions(api: &Api) -> Vec<v1::Session> {
    within(api.clone().list_sessions(v1::ListSessionsRequest::default())).await.unwrap().into_inner().sessions
}

/// Waits until so many wait for the pool.
pub(crate) async fn until_queued(api: &Api, pool: &str, count: usize) {
    eventually(|| async { (queue(api, pool).await.len() == count).then_some(()) }).await;
}

/// Waits until nobody holds anything of the pool.
pub(crate) async fn until_free(api: &Api, pool: &str) {
    eventually(|| async { holds(api, pool).await.is_empty().then_some(()) }).await;
}

/// Waits until this has happened so many times in the pool.
pub(crate) async fn until_happened(api: &Api, pool: &str, kind: v1::EventKind, times: usize) {
    eventually(|| async {
        let request = v1::HistoryRequest { pool: Some(pool.into()), limit: Some(1_000), ..Default::default() };
        let events = within(api.clone().history(request)).await.unwrap().into_inner().events;
        (events.iter().filter(|event| event.kind() == kind).count() >= times).then_some(())
    })
    .await;
}

/// Waits until the guard's deadline has moved past what it was.
pub(crate) async fn until_renewed(guard: &Guard, before: Instant) {
    let mut deadlines = guard.deadlines();
    within(async {
        while deadlines.current().expect("it ends by time") <= before {
            deadlines.changed().await;
        }
    })
    .await;
}

pub(crate) fn deadline(guard: &Guard) -> Instant {
    guard.deadlines().current().expect("it ends by time")
}

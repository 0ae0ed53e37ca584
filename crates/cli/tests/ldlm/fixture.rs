//! A server as a process of its own, which can be stopped or killed and started again on its data. What is inside it is
//! looked at through Tenure's own interface.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tempfile::TempDir;
use tenure_proto::v1;
use tenure_proto::v1::tenure_client::TenureClient;
use tonic::transport::Channel;

use crate::client::{Client, timed};
use crate::support::{Process, command};

/// Longer than anything takes on a slow machine; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Fixture {
    pub(crate) server: Process,
    pub(crate) data: TempDir,
    ours: TenureClient<Channel>,
    options: Vec<String>,
    clocks: AtomicUsize,
}

impl Fixture {
    /// One that keeps nothing, which is faster.
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    pub(crate) async fn with(options: &[&str]) -> Self {
        Self::durable(&[&["--durability", "memory"], options].concat()).await
    }

    pub(crate) async fn durable(options: &[&str]) -> Self {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Self::over(tempfile::tempdir().unwrap(), options).await
    }

    async fn over(data: TempDir, options: Vec<String>) -> Self {
        let mut serve = serve(&data);
        serve.args(&options);
        let server = blocking(move || Process::spawn(&mut serve)).await;
        let ours = server.client().await;
        Self { server, data, ours, options, clocks: AtomicUsize::new(0) }
    }

    /// Stopped by SIGTERM, and started again. Its clients are connected all the while.
    pub(crate) async fn restart(self) -> Self {
        let Self { server, data, options, .. } = self;
        assert_eq!(stopped(server).await.code(), Some(0));
        Self::over(data, options).await
    }

    /// Killed by SIGKILL, and started again.
    pub(crate) async fn crash(self) -> Self {
        let Self { server, data, options, .. } = self;
        killed(server).await;
        Self::over(data, options).await
    }

    pub(crate) fn grpc_addr(&self) -> SocketAddr {
        self.server.grpc.parse().unwrap()
    }

    pub(crate) fn http_addr(&self) -> SocketAddr {
        self.server.http.trim_start_matches("http://").parse().unwrap()
    }

    /// A client with a connection of its own.
    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.grpc_addr()).await
    }

    /// Tenure's own interface.
    pub(crate) fn ours(&self) -> TenureClient<Channel> {
        self.ours.clone()
    }

    /// Waits for a lock that ends so many seconds after now. By the server's clock that much time has passed then.
    pub(crate) async fn later(&self, seconds: i32) {
        let client = self.client().await;
        let name = format!("clock {}", self.clocks.fetch_add(1, Ordering::Relaxed));
        client.locked(timed(&name, seconds)).await;
        client.until_free(&name).await;
    }

    /// How many wait for a lock.
    pub(crate) async fn waiters(&self, name: &str) -> u64 {
        let request = v1::GetPoolRequest { pool: name.into(), ..v1::GetPoolRequest::default() };
        match self.ours().get_pool(request).await {
            Ok(detail) => detail.into_inner().summary.unwrap().waiters,
            Err(status) if status.code() == tonic::Code::NotFound => 0,
            Err(status) => panic!("{status:?}"),
        }
    }

    pub(crate) async fn until_waiters(&self, name: &str, count: u64) {
        eventually(async || (self.waiters(name).await == count).then_some(())).await;
    }

    pub(crate) async fn sessions(&self) -> Vec<v1::Session> {
        let request = v1::ListSessionsRequest { limit: Some(1_000), ..v1::ListSessionsRequest::default() };
        self.ours().list_sessions(request).await.unwrap().into_inner().sessions
    }

    pub(crate) async fn until_sessions(&self, count: usize) {
        eventually(async || (self.sessions().await.len() == count).then_some(())).await;
    }

    pub(crate) async fn holds(&self) -> Vec<v1::Hold> {
        let request = v1::ListHoldsRequest { limit: Some(1_000), ..v1::ListHoldsRequest::default() };
        self.ours().list_holds(request).await.unwrap().into_inner().holds
    }

    /// The one hold of a lock.
    pub(crate) async fn hold(&self, name: &str) -> v1::Hold {
        let holds: Vec<_> = self.holds().await.into_iter().filter(|hold| hold.pool == name).collect();
        <[_; 1]>::try_from(holds).unwrap_or_else(|holds| panic!("{holds:?}"))[0].clone()
    }
}

/// `tenure serve`, whatever the environment of the tests says.
pub(crate) fn serve(data: &TempDir) -> Command {
    let mut serve = command(data.path());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TENURE_")) {
        serve.env_remove(name);
    }
    serve
}

/// SIGTERM, and how it ends.
async fn stopped(mut server: Process) -> std::process::ExitStatus {
    nix::sys::signal::kill(Pid::from_raw(i32::try_from(server.id()).unwrap()), Signal::SIGTERM).unwrap();
    blocking(move || server.wait()).await
}

pub(crate) async fn killed(mut server: Process) {
    blocking(move || server.kill()).await;
}

/// Meanwhile the clients go on.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    within(tokio::task::spawn_blocking(work)).await.unwrap()
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

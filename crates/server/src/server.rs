//! Both listeners around one service: started together, stopped together.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use tenure_engine::Engine;
use tenure_proto::v1::tenure_server::TenureServer;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::server::HealthReporter;
use tower::Layer;
use tower::util::{MapRequest, MapResponse};

use crate::auth::{Door, Face, Password};
use crate::grpc::{Direct, Grpc, Services};
use crate::http2::{self, KeepAlive};
use crate::ldlm::{self, Ldlm, LdlmConfig};
use crate::service::Service;
use crate::tls::Tls;
use crate::{accept, http, metrics, rest, version};

/// The largest message a client may send.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The same for those who ask how the server is, without a password, or what it can be asked.
const QUESTION_BYTES_MAX: usize = 4 * 1024;
/// Connections that may wait to be accepted. With fewer, a restart of many clients makes some of them wait a second.
const BACKLOG: u32 = 4_096;
/// How long a stop waits for clients to read their last answers.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// How long a stop waits for the sessions of clients that had hung up to end, before no command is taken any more. Each
/// connection finds out with its next write, which is a goodbye, so this is a matter of milliseconds; a session that does
/// not make it keeps its locks for a while, as if its client were still there.
const SETTLING_MAX: Duration = Duration::from_secs(2);

/// Where to listen, whom to let in, and how to notice clients that are gone without a word.
#[derive(Clone, Debug)]
pub struct Config {
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    /// Without it whoever reaches the ports may do everything.
    pub password: Option<Password>,
    /// Without it everything is said in clear.
    pub tls: Option<Tls>,
    /// After this long without a word a connection is asked whether it is still there.
    pub keepalive_interval: Duration,
    /// How long it has to say so.
    pub keepalive_timeout: Duration,
    /// How long a new connection has for its TLS handshake, and then for its first words.
    pub opening_timeout: Duration,
    pub ldlm: LdlmConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            grpc: SocketAddr::from(([127, 0, 0, 1], 3144)),
            http: SocketAddr::from(([127, 0, 0, 1], 3180)),
            password: None,
            tls: None,
            keepalive_interval: Duration::from_secs(60),
            keepalive_timeout: Duration::from_secs(10),
            // A few round trips, over bad lines too.
            opening_timeout: Duration::from_secs(10),
            ldlm: LdlmConfig::default(),
        }
    }
}

impl Config {
    /// Loopback, on ports that the system chooses.
    pub fn any_ports() -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { grpc: any, http: any, ..Self::default() }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {addr} for gRPC: {error}")]
    Grpc { addr: SocketAddr, error: io::Error },
    #[error("cannot listen on {addr} for HTTP: {error}")]
    Http { addr: SocketAddr, error: io::Error },
}

/// A server that is running. Dropped without [`Server::stop`] it takes no more connections; those there are go on
/// until their clients hang up.
pub struct Server {
    grpc_addr: SocketAddr,
    http_addr: SocketAddr,
    engine: Arc<dyn Engine>,
    health: HealthReporter,
    /// The sessions of LDLM's connections listen to it.
    unsettled: watch::Sender<()>,
    /// No new connections; readiness says no.
    stopping: CancellationToken,
    /// The engine has answered all it is going to answer.
    closing: CancellationToken,
    tasks: JoinSet<()>,
}

impl Server {
    /// Listens, and answers from now on. The engine is anybody's; the server stops it when it is stopped.
    pub async fn start(engine: Arc<dyn Engine>, config: Config) -> Result<Self, StartError> {
        let (grpc, grpc_addr) =
            listen(config.grpc).await.map_err(|error| StartError::Grpc { addr: config.grpc, error })?;
        let (http, http_addr) =
            listen(config.http).await.map_err(|error| StartError::Http { addr: config.http, error })?;
        metrics::figures();

        let service = Service { engine: engine.clone() };
        let (stopping, closing) = (CancellationToken::new(), CancellationToken::new());
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<TenureServer<Grpc>>().await;

        let mut tasks = JoinSet::new();
        let tenure = Grpc { service: service.clone(), closing: closing.clone() };
        let unsettled = watch::Sender::new(());
        let ldlm = Ldlm { engine: engine.clone(), config: config.ldlm.clone(), unsettled: unsettled.clone() };
        tasks.spawn(serve_grpc(grpc, tenure, ldlm.clone(), health_service, config.clone(), stopping.clone()));
        if let Some(tls) = config.tls.clone() {
            tasks.spawn(tls.follow(stopping.clone()));
        }
        let app = rest::App { service, ldlm, stopping: stopping.clone() };
        tasks.spawn(http::serve(http, rest::router(app), config, engine.crowd(), stopping.clone()));
        Ok(Self { grpc_addr, http_addr, engine, health, unsettled, stopping, closing, tasks })
    }

    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc_addr
    }

    pub fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// Takes no new connections, refuses those who wait, finishes what was handed over, and ends when everybody has
    /// their answer or has had time to read it.
    pub async fn stop(mut self) {
        self.health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
        self.health.set_not_serving::<TenureServer<Grpc>>().await;
        self.stopping.cancel();
        if tokio::time::timeout(SETTLING_MAX, self.unsettled.closed()).await.is_err() {
            tracing::warn!("locks of clients that have just hung up may be kept");
        }
        self.engine.stop().await;
        self.closing.cancel();
        // Whoever watches the health would otherwise keep its connection, and this waiting for it.
        self.health.clear_service_status("").await;
        self.health.clear_service_status(<TenureServer<Grpc> as NamedService>::NAME).await;
        let all_ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_GRACE, all_ended).await.is_err() {
            tracing::warn!("some clients did not hang up in time");
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("grpc", &self.grpc_addr).field("http", &self.http_addr).finish_non_exhaustive()
    }
}

async fn listen(addr: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    let listener = socket.listen(BACKLOG)?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

async fn serve_grpc(
    listener: TcpListener,
    tenure: Grpc,
    ldlm: Ldlm,
    health: HealthServer<impl Health>,
    config: Config,
    stopping: CancellationToken,
) {
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(tenure_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tenure_proto::LDLM_FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("the descriptors were made by the build");
    let door = Door::new(config.password.clone(), Face::Grpc);
    let crowd = tenure.service.engine.crowd();
    let (own, by_ldlm) = (tenure.service.clone(), ldlm::Grpc(ldlm.clone()));
    let services = Arc::new(Services { own, ldlm: by_ldlm, door: door.clone() });
    let routes = Routes::new(TenureServer::new(tenure).max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(ldlm::GrpcService::new(ldlm.clone(), MESSAGE_BYTES_MAX))
        .add_service(health.max_decoding_message_size(QUESTION_BYTES_MAX))
        .add_service(reflection.max_decoding_message_size(QUESTION_BYTES_MAX))
        .prepare();
    let service = MapResponse::new(door.layer(routes), version::sign);
    let keep_alive = KeepAlive { interval: config.keepalive_interval, timeout: config.keepalive_timeout };
    let connections = TaskTracker::new();
    let mut incoming = accept::incoming(listener, &config, Face::Grpc, crowd);
    while let Some(Some(socket)) = stopping.run_until_cancelled(incoming.next()).await {
        let carried = ldlm::Carried::new(socket, &ldlm, &stopping);
        let connection = carried.connection();
        let direct = Direct { services: services.clone(), connection: connection.clone() };
        let service = MapRequest::new(service.clone(), move |mut request: Request<Body>| {
            request.extensions_mut().insert(connection.clone());
            request
        });
        let stopping = stopping.child_token();
        connections.spawn(async move { http2::serve(carried, service, direct, keep_alive, &stopping).await });
    }
    drop(incoming);
    connections.close();
    connections.wait().await;
}

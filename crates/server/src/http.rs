//! The HTTP port: serves a router on each connection, with the bounds that hyper leaves open.

use std::net::SocketAddr;
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;
use tower::Layer;
use tower::util::MapResponse;

use crate::auth::{Door, Face};
use crate::server::Config;
use crate::{accept, version};

/// The headers of one request. Ours are short; a cookie jar of another site on the same host may come along.
const HEADER_BYTES_MAX: u32 = 64 * 1024;
/// Calls of one connection that may have been cancelled before they were looked at; beyond it the connection is closed. A client with
/// thousands of tasks may give up all it has just asked for while the server stands still for a moment, and then both come at once.
/// hyper allows 20, which saves nothing here: calls that are not cancelled cost more, and have no limit.
const CANCELLED_MAX: usize = 10_000;
/// Calls of one connection that may break the rules of HTTP/2, in all its life. No sound client breaks any, but an answer
/// that comes before its request has ended may look like it, and connections live long.
const BROKEN_MAX: usize = 10_000;
/// What a connection may send that is not yet looked at. hyper also takes half of it for the overhead of small messages, 256
/// bytes each, and closes a connection that has more of them under way: this is room for 65,000 calls at once. Only those count
/// whose end comes by itself, as from clients in Rust and in Node.
const UNREAD_BYTES_MAX: u32 = 32 * 1024 * 1024;
/// A request line and headers that take longer are not going to come.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Until `stopping`, and then until the connections there are have ended.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    config: Config,
    crowd: watch::Receiver<bool>,
    stopping: CancellationToken,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(config.keepalive_interval)
        .keep_alive_timeout(config.keepalive_timeout)
        .max_concurrent_streams(None)
        .max_header_list_size(HEADER_BYTES_MAX)
        .initial_connection_window_size(UNREAD_BYTES_MAX)
        .max_pending_accept_reset_streams(CANCELLED_MAX)
        .max_local_error_reset_streams(BROKEN_MAX);
    // Whoever is not let in is told so by a signed answer too.
    let guarded = MapResponse::new(Door::new(config.password.clone(), Face::Http).layer(router), version::sign);
    let connections = GracefulShutdown::new();
    let mut incoming = accept::incoming(listener, &config, Face::Http, crowd);
    while let Some(Some(socket)) = stopping.run_until_cancelled(incoming.next()).await {
        let peer = socket.connect_info().remote_addr();
        let service = TowerToHyperService::new(Extension(peer).layer(guarded.clone()));
        let connection = builder.serve_connection(TokioIo::new(socket), service).into_owned();
        tokio::spawn(log_end(peer, connections.watch(connection)));
    }
    drop(incoming);
    connections.shutdown().await;
}

async fn log_end(
    peer: Option<SocketAddr>,
    connection: impl Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>>,
) {
    if let Err(error) = connection.await {
        tracing::debug!(?peer, error, "a connection ended early");
    }
}

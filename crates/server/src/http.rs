//! The HTTP port: serves a router on each connection, with the bounds that hyper leaves open.

use std::net::SocketAddr;
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;
use tower::Layer;
use tower::util::MapResponse;

use crate::auth::{Door, Face};
use crate::server::{BROKEN_MAX, CANCELLED_MAX, Config, UNREAD_BYTES_MAX};
use crate::{accept, version};

/// The headers of one request. Ours are short; a cookie jar of another site on the same host may come along.
const HEADER_BYTES_MAX: u32 = 64 * 1024;
/// A request line and headers that take longer are not going to come.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Until `stopping`, and then until the connections there are have ended.
pub(crate) async fn serve(listener: TcpListener, router: Router, config: Config, stopping: CancellationToken) {
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
    let mut incoming = accept::incoming(listener, &config, Face::Http);
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

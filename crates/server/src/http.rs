//! The HTTP listener: accepts connections and serves a router on each, with the bounds that hyper leaves open.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::server::Config;

/// The headers of one request. Ours are short; a cookie jar of another site on the same host may come along.
const HEADER_BYTES_MAX: u32 = 64 * 1024;
/// A request line and headers that take longer are not going to come.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// After a failed accept, usually for lack of file descriptors, others need time to let go of theirs.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

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
        .max_header_list_size(HEADER_BYTES_MAX);
    let service = TowerToHyperService::new(router);
    let connections = GracefulShutdown::new();
    while let Some(accepted) = stopping.run_until_cancelled(listener.accept()).await {
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        prepare(&socket, &config);
        let connection = builder.serve_connection(TokioIo::new(socket), service.clone()).into_owned();
        tokio::spawn(log_end(connections.watch(connection), peer));
    }
    drop(listener);
    connections.shutdown().await;
}

/// A caller that waits over HTTP/1 says nothing; only TCP can tell that its host is gone.
fn prepare(socket: &TcpStream, config: &Config) {
    let keepalive = TcpKeepalive::new().with_time(config.keepalive_interval).with_interval(config.keepalive_timeout);
    let prepared = socket.set_nodelay(true).and_then(|()| SockRef::from(socket).set_tcp_keepalive(&keepalive));
    if let Err(error) = prepared {
        tracing::debug!(%error, "a connection has no keep-alive");
    }
}

async fn log_end(
    connection: impl Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>>,
    peer: SocketAddr,
) {
    if let Err(error) = connection.await {
        tracing::debug!(%peer, error, "a connection ended early");
    }
}

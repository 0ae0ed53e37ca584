//! The HTTP port: serves a router on each connection, with the bounds that hyper leaves open.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
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
use crate::error::{Error, HttpError};
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
    // A browser on this machine is let in by where it is, and so is any page in it that has its own name lead here. With a password, or a
    // certificate for other names, that does not help the page.
    let is_open = config.password.is_none() && config.tls.is_none();
    let router = match listener.local_addr() {
        Ok(addr) if is_open && addr.ip().is_loopback() => router.layer(from_fn(only_by_names_of_loopback)),
        _ => router,
    };
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

async fn only_by_names_of_loopback(request: Request, next: Next) -> Result<Response, Error> {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()?.parse().ok());
    // Over HTTP/2 it is part of the address. Who says none is no browser.
    match request.uri().authority().or(host.as_ref()) {
        Some(asked_for) if !is_of_loopback(asked_for) => Err(Error::Http(HttpError::UnknownHost)),
        _ => Ok(next.run(request).await),
    }
}

/// Names that nobody can have lead elsewhere, or here from elsewhere. Any address will do: it can be no page's name.
fn is_of_loopback(asked_for: &Authority) -> bool {
    let host = asked_for.host().trim_end_matches('.').to_ascii_lowercase();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.ends_with(".localhost") || address.parse::<IpAddr>().is_ok()
}

async fn log_end(
    peer: Option<SocketAddr>,
    connection: impl Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>>,
) {
    if let Err(error) = connection.await {
        tracing::debug!(?peer, error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_its_names_and_by_addresses_alone() {
        let is_known = |text: &str| is_of_loopback(&text.parse().unwrap());
        for name in
            ["localhost", "LocalHost:3180", "localhost.", "a.localhost:1", "127.0.0.1:3180", "[::1]:3180", "10.0.0.1"]
        {
            assert!(is_known(name), "{name}");
        }
        for name in ["evil.example", "localhost.evil.example:3180", "127.0.0.1.evil.example", "notlocalhost", "1.2.3"] {
            assert!(!is_known(name), "{name}");
        }
    }
}

//! The first connection: it succeeds, or says at once and clearly why not.

use std::time::Duration;

use axum::Router;
use axum::http::HeaderMap;
use tenure_client::{Client, Error, connect_api};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fixture::{Host, within};

async fn refused(address: &str) -> (Error, Error) {
    let session = within(Client::builder(address).connect_timeout(Duration::from_secs(3)).connect()).await.unwrap_err();
    let calls = within(connect_api(address)).await.unwrap_err();
    (session, calls)
}

async fn assert_unreachable(address: &str, why_part: &str) {
    let (session, calls) = refused(address).await;
    for error in [session, calls] {
        let Error::Unreachable { address: named, why } = &error else { panic!("{error:?}") };
        assert_eq!(named, address);
        assert!(why.contains(why_part), "{why}");
        assert_eq!(error.code(), "unreachable");
    }
}

async fn assert_foreign(address: &str, why_part: &str) {
    let (session, calls) = refused(address).await;
    for error in [session, calls] {
        let Error::Foreign { address: named, why } = &error else { panic!("{error:?}") };
        assert_eq!(named, address);
        assert!(why.contains(why_part), "{why}");
        assert!(!error.may_have_happened());
    }
}

/// Somebody who says this to whoever says anything.
async fn stranger(words: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut heard = [0; 1_024];
                let _ = socket.read(&mut heard).await;
                let _ = socket.write_all(words).await;
                if words.is_empty() {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    address
}

/// A gRPC server that knows none of our calls.
async fn other_grpc(server: Option<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = move || async move {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/grpc".parse().unwrap());
        headers.insert("grpc-status", "12".parse().unwrap());
        if let Some(name) = server {
            headers.insert("server", name.parse().unwrap());
        }
        headers
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    address
}

#[tokio::test]
async fn an_address_may_be_a_url() {
    let host = Host::start().await;
    let client = within(Client::connect(format!("http://{}", host.address))).await.unwrap();
    assert!(client.holder().contains('@'), "{}", client.holder());
    drop(within(client.lock("db")).await.unwrap());
}

#[tokio::test]
async fn nobody_is_there() {
    let (session, calls) = refused("not an address").await;
    assert!(!session.may_have_happened() && !calls.may_have_happened());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    assert_unreachable(&address, "nothing listens there").await;
    assert_unreachable("no-such-host.invalid:3144", "lookup").await;
    assert_unreachable("not an address", "host:port").await;
    assert_unreachable("ftp://127.0.0.1:3144", "host:port").await;
}

#[tokio::test]
async fn nobody_answers() {
    let address = stranger(b"").await;
    let builder = Client::builder(address.clone()).connect_timeout(Duration::from_millis(200));
    let error = within(builder.connect()).await.unwrap_err();
    assert!(matches!(&error, Error::Unreachable { why, .. } if why.contains("does not answer")), "{error:?}");
}

#[tokio::test]
async fn somebody_else_answers() {
    assert_foreign(
        &stranger(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await,
        "speaks HTTP and not gRPC",
    )
    .await;
    assert_foreign(&stranger(b"\x15\x03\x03\0\x02\x02\x50").await, "TLS").await;
    assert_foreign(&stranger(b"SSH-2.0-OpenSSH_9.9\r\n").await, "SSH-2.0-OpenSSH").await;
    assert_foreign(&other_grpc(None).await, "does not know this call").await;
}

#[tokio::test]
async fn a_server_of_another_version_answers() {
    let address = other_grpc(Some("tenure/9.9.9")).await;
    assert_foreign(&address, "9.9.9").await;
    assert_foreign(&address, env!("CARGO_PKG_VERSION")).await;
}

#[tokio::test]
async fn the_port_for_http_is_not_the_one_for_grpc() {
    let host = Host::start().await;
    assert_foreign(&host.http.to_string(), "not gRPC").await;
}

#[tokio::test]
async fn a_session_that_is_refused_says_why() {
    let host = Host::start().await;
    let builder = Client::builder(host.address.to_string()).holder("x".repeat(1_000));
    let error = within(builder.connect()).await.unwrap_err();
    assert_eq!(error.code(), "invalid_argument", "{error:?}");
}

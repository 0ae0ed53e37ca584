//! Callers that go away: they leave the queue, and what they did not receive goes to the next.

use std::io::ErrorKind;

use tenure_core::{Event, WaitEnd};
use tenure_proto::v1::tenure_client::TenureClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fixture::{Fixture, acquire, eventually, waiting, within};

fn left_the_queue(event: &Event) -> bool {
    matches!(event, Event::WaitEnded { how: WaitEnd::CallerGone, holder, .. } if holder.as_str() == "bob")
}

/// With the lock held by alice and bob in the queue.
async fn hold_and(fixture: &Fixture) -> tenure_proto::v1::Grant {
    fixture.grpc().await.acquire(acquire("db", "alice")).await.unwrap().into_inner()
}

async fn nobody_is_left(fixture: &Fixture, key: String) {
    fixture.until(left_the_queue).await;
    let release = tenure_proto::v1::ReleaseRequest { key, ..Default::default() };
    let mut client = fixture.grpc().await;
    client.release(release).await.unwrap();
    within(client.acquire(acquire("db", "carol"))).await.expect("nobody was granted it in between");
}

#[tokio::test]
async fn a_cancelled_grpc_call_leaves_the_queue() {
    let fixture = Fixture::start().await;
    let held = hold_and(&fixture).await;
    let mut bob = fixture.grpc().await;
    let mut connection = bob.clone();
    let call = tokio::spawn(async move { bob.acquire(waiting("db", "bob")).await });
    fixture.until_queued("bob").await;
    call.abort();
    nobody_is_left(&fixture, held.key).await;
    connection.list_pools(tenure_proto::v1::ListPoolsRequest::default()).await.expect("the connection lives on");
}

#[tokio::test]
async fn a_grpc_call_past_its_deadline_leaves_the_queue() {
    let fixture = Fixture::start().await;
    let held = hold_and(&fixture).await;
    let mut request = tonic::Request::new(waiting("db", "bob"));
    request.set_timeout(std::time::Duration::from_millis(200));
    fixture.grpc().await.acquire(request).await.unwrap_err();
    nobody_is_left(&fixture, held.key).await;
}

#[tokio::test]
async fn a_closed_grpc_connection_leaves_the_queue() {
    let fixture = Fixture::start().await;
    let held = hold_and(&fixture).await;
    // In a runtime of its own, which takes the connection with it.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let addr = fixture.server.grpc_addr();
    runtime.spawn(async move {
        let channel = tonic::transport::Channel::from_shared(format!("http://{addr}")).unwrap();
        let mut bob = TenureClient::new(channel.connect().await.unwrap());
        let _ = bob.acquire(waiting("db", "bob")).await;
    });
    fixture.until_queued("bob").await;
    runtime.shutdown_background();
    nobody_is_left(&fixture, held.key).await;
}

#[tokio::test]
async fn a_closed_http_connection_leaves_the_queue() {
    let fixture = Fixture::start().await;
    let held = hold_and(&fixture).await;
    let bob = wait_over_http(&fixture).await;
    drop(bob);
    nobody_is_left(&fixture, held.key).await;
}

#[tokio::test]
async fn an_http_connection_that_is_reset_leaves_the_queue() {
    let fixture = Fixture::start().await;
    let held = hold_and(&fixture).await;
    let bob = wait_over_http(&fixture).await;
    bob.set_zero_linger().unwrap();
    drop(bob);
    nobody_is_left(&fixture, held.key).await;
}

async fn wait_over_http(fixture: &Fixture) -> TcpStream {
    let mut socket = TcpStream::connect(fixture.server.http_addr()).await.unwrap();
    let body = r#"{"pool": "db", "holder": "bob", "wait_forever": true}"#;
    let request = format!(
        "POST /api/v1/acquire HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    fixture.until_queued("bob").await;
    socket
}

#[tokio::test]
async fn a_watcher_that_hangs_up_costs_nothing_more() {
    let fixture = Fixture::start().await;
    // Once it answers, all of its parts have begun.
    fixture.get("/api/v1/pools").await;
    let watching = fixture.engine_users();
    let mut socket = TcpStream::connect(fixture.server.http_addr()).await.unwrap();
    socket.write_all(b"GET /api/v1/watch HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut head = [0; 64];
    socket.read_exact(&mut head).await.unwrap();
    assert!(fixture.engine_users() > watching);
    drop(socket);
    eventually(async || (fixture.engine_users() <= watching).then_some(())).await;
}

#[tokio::test]
async fn a_stopping_server_refuses_those_who_wait() {
    let fixture = Fixture::start().await;
    hold_and(&fixture).await;
    let mut client = fixture.grpc().await;
    let over_grpc = tokio::spawn(async move { client.acquire(waiting("db", "bob")).await });
    fixture.until_queued("bob").await;
    let mut over_http = wait_over_http_as_second(&fixture).await;

    let http_addr = fixture.server.http_addr();
    within(fixture.server.stop()).await;
    let status = over_grpc.await.unwrap().unwrap_err();
    let refusal = crate::fixture::refusal(&status);
    assert_eq!((status.code(), refusal.code.as_str()), (tonic::Code::Unavailable, "stopping"));
    assert!(!refusal.may_have_happened);
    let mut answer = String::new();
    over_http.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\"stopping\""), "{answer}");
    let refused = TcpStream::connect(http_addr).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

async fn wait_over_http_as_second(fixture: &Fixture) -> TcpStream {
    let socket = wait_over_http(fixture).await;
    fixture.until_times(2, |event| matches!(event, Event::Queued { .. })).await;
    socket
}

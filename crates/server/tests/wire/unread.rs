//! Clients that never read their answers: they are hung up on after a while, and others never notice.

use std::collections::BTreeMap;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tenure_proto::v1;
use tenure_server::Config;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;

use crate::fixture::{Fixture, acquire, within};

/// More than the system keeps for one whose own buffer is small.
const REQUESTS: usize = 100_000;

/// One that could keep little of what it does not read.
fn deaf(fixture: &Fixture) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.connect(&fixture.server.http_addr().into()).unwrap();
    socket.set_nonblocking(true).unwrap();
    TcpStream::from_std(socket.into()).unwrap()
}

/// Waits until it is hung up on, without reading.
async fn is_hung_up_on(socket: &TcpStream) {
    loop {
        let ready = within(socket.ready(Interest::READABLE | Interest::ERROR)).await.unwrap();
        if ready.is_read_closed() || ready.is_error() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn who_never_reads_over_http_1_is_hung_up_on_and_others_are_served() {
    let second = Duration::from_secs(1);
    let config = Config { keepalive_interval: second, keepalive_timeout: second, ..Config::any_ports() };
    let fixture = Fixture::start_with(config).await;
    let mut client = fixture.grpc().await;
    // A history of several megabytes.
    let meta: BTreeMap<_, _> = (0..16).map(|number| (format!("reason-{number}"), "x".repeat(512))).collect();
    for number in 0..1_000 {
        let acquire = v1::AcquireRequest { meta: meta.clone(), ..acquire(&format!("pool-{number}"), "alice") };
        within(client.acquire(acquire)).await.unwrap();
    }

    let mut watching = deaf(&fixture);
    watching.write_all(b"GET /api/v1/watch?after=0 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut asking = deaf(&fixture);
    let many = b"GET /api/v1/pools?limit=1000 HTTP/1.1\r\nhost: x\r\n\r\n".repeat(REQUESTS);
    assert!(within(asking.write_all(&many)).await.is_err(), "all was listened to");
    is_hung_up_on(&watching).await;
    fixture.assert_serves().await;
}

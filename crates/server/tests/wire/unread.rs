//! Clients that never read their answers, and clients that never stop asking: others are served all the same.

#![allow(clippy::cast_possible_truncation, reason = "what is counted here is small")]

use std::collections::BTreeMap;
use std::io::Write;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    watching.write_all(b"GET /api/v1/watch?after=0 HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut asking = deaf(&fixture);
    let many = b"GET /api/v1/pools?limit=1000 HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(REQUESTS);
    assert!(within(asking.write_all(&many)).await.is_err(), "all was listened to");
    is_hung_up_on(&watching).await;
    fixture.assert_serves().await;
}

/// Calls by hand, as fast as they go: no library would let one.
fn calls(first: u32, count: u32) -> Vec<u8> {
    let frame = |bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        bytes.extend(&u32::try_from(payload.len()).unwrap().to_be_bytes()[1..]);
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
    };
    // `:method: POST` and `:scheme: http` by their numbers, the rest spelled out.
    let mut headers = vec![0x83, 0x86];
    for (name, value) in [
        (":path", "/tenure.v1.Tenure/Release"),
        (":authority", "x"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        headers.extend([0, name.len().try_into().unwrap()]);
        headers.extend(name.bytes());
        headers.push(value.len().try_into().unwrap());
        headers.extend(value.bytes());
    }
    let mut bytes = Vec::new();
    for number in first..first + count {
        let stream = 2 * number + 1;
        frame(&mut bytes, 1, 4, stream, &headers);
        frame(&mut bytes, 0, 1, stream, b"\0\0\0\0\0");
    }
    bytes
}

/// With one thread for everybody, as on a small machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn who_asks_without_a_break_does_not_keep_others_waiting() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;
    let address = fixture.server.grpc_addr();
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    let flooder = std::thread::spawn(move || {
        let mut socket = std::net::TcpStream::connect(address).unwrap();
        let mut answers = socket.try_clone().unwrap();
        // It reads, so that it is listened to.
        let reader = std::thread::spawn(move || std::io::copy(&mut answers, &mut std::io::sink()));
        socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        let mut said = 0;
        while !over.load(Ordering::Relaxed) {
            socket.write_all(&calls(said, 1_000)).unwrap();
            said += 1_000;
        }
        socket.shutdown(Shutdown::Both).unwrap();
        reader.join().unwrap().ok();
        said
    });
    for number in 0..50 {
        within(client.acquire(acquire(&format!("pool-{number}"), "alice"))).await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    assert_ne!(flooder.join().unwrap(), 0);
}

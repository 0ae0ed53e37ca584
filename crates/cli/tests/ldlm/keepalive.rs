//! Whether the other side is still there: clients that do not say so are dropped, and those that ask all the time too.

use tenure_proto::ldlm::{LockResponse, TryLockRequest};

use crate::client::{Ask, lock};
use crate::fixture::{Fixture, within};
use crate::raw;

fn try_lock(name: &str) -> TryLockRequest {
    name.message()
}

// With threads of its own for the clients that are alive, and time enough for them to answer: nothing that keeps this test
// waiting may cost them their connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_answers_no_pings_loses_its_connection_and_its_locks() {
    let fixture = Fixture::with(&["--keepalive-interval", "1s", "--keepalive-timeout", "6s"]).await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    // It answers, because its library does.
    alice.locked("y").await;
    // It reads nothing, and so answers nothing, and does not hang up.
    let mute = raw::send(fixture.grpc_addr(), "TryLock", &try_lock("x")).await;
    let muter = raw::send(fixture.grpc_addr(), "Lock", &lock("y")).await;
    fixture.until_sessions(3).await;
    fixture.until_waiters("y", 1).await;
    bob.until_free("x").await;
    fixture.until_waiters("y", 0).await;
    assert!(!bob.is_free("y").await);
    drop((mute, muter));
}

#[tokio::test]
async fn a_client_that_pings_all_the_time_is_told_so_and_loses_its_connection() {
    let fixture = Fixture::start().await;
    let bob = fixture.client().await;
    // One after another, all at once, and so many that they come in pieces.
    for (turns, times) in [(7, 1), (1, 7), (1, 2_000)] {
        let mut socket = raw::send(fixture.grpc_addr(), "TryLock", &try_lock("x")).await;
        // What is sent to it is an excuse, so that comes first.
        assert!(within(raw::answer::<LockResponse>(&mut socket)).await.unwrap().locked);
        for _ in 0..turns {
            raw::ping(&mut socket, times).await;
        }
        let last = async {
            loop {
                let frame = raw::heard(&mut socket).await.expect("it is told before it is hung up on");
                if frame.kind == raw::GO_AWAY {
                    return frame;
                }
            }
        };
        assert_eq!(within(last).await.payload[4..], *b"\0\0\0\x0btoo_many_pings", "ENHANCE_YOUR_CALM");
        assert!(within(raw::heard(&mut socket)).await.is_none(), "that was the last word");
        drop(socket);
        let key = bob.until_free("x").await;
        bob.unlocked("x", &key).await;
    }
}

#[tokio::test]
async fn pings_of_a_client_that_is_spoken_to_are_not_too_many() {
    let fixture = Fixture::start().await;
    let mut socket = raw::send(fixture.grpc_addr(), "TryLock", &try_lock("x")).await;
    for stream in (3..203).step_by(2) {
        raw::ping(&mut socket, 3).await;
        raw::send_more(&mut socket, stream, "TryLock", &try_lock("x")).await;
        let answered = async {
            while let Some(frame) = raw::heard(&mut socket).await {
                assert_ne!(frame.kind, raw::GO_AWAY, "{frame:?}");
                if frame.kind == raw::DATA && frame.stream == stream {
                    return;
                }
            }
            panic!("it was hung up on");
        };
        within(answered).await;
    }
}

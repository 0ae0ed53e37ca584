//! Calls that come at the same moment: one of them is first, and no answer is wrong afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure_proto::ldlm::{ErrorCode, LockResponse, UnlockRequest};
use tokio::net::TcpStream;

use crate::client::{Ask, lock, timed};
use crate::fixture::{Fixture, within};
use crate::raw;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_unlocked_while_it_is_renewed_is_free() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    for round in 0..200 {
        let key = alice.locked(timed("x", 3_600)).await;
        let (renewed, unlocked) = tokio::join!(bob.renew("x", &key, 3_600), alice.unlock("x", &key));
        assert!(unlocked.unlocked, "round {round}: {unlocked:?}");
        let told = renewed.error.as_ref().map(|error| error.code());
        let expected = if renewed.locked { None } else { Some(ErrorCode::LockDoesNotExistOrInvalidKey) };
        assert_eq!(told, expected, "round {round}: {renewed:?}");
        assert!(fixture.holds().await.is_empty(), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_at_the_same_time_all_succeed() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked(timed("x", 3_600)).await;
    for round in 0..200 {
        let (one, other) = tokio::join!(alice.renew("x", &key, 3_600), bob.renew("x", &key, 3_600));
        assert!(one.locked && other.locked, "round {round}: {one:?} {other:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_at_a_time_has_a_lock_whose_name_is_forgotten_as_soon_as_it_is_idle() {
    let fixture = Fixture::with(&["--pool-idle", "1ms"]).await;
    let inside = Arc::new(AtomicUsize::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (client, inside) = (fixture.client().await, inside.clone());
        workers.spawn(async move {
            for turn in 0..100 {
                let key = client.lock(lock("x")).await.key;
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "turn {turn}: nobody else is inside");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                client.unlocked("x", &key).await;
            }
        });
    }
    within(workers.join_all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_unlocks_by_a_connection_that_is_gone_harm_nobody() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    for round in 0..12 {
        let mut unlocks = Vec::new();
        for at in 0..100 {
            let name = format!("x{at}");
            let key = alice.locked(&*name).await;
            unlocks.push(UnlockRequest { name, key });
        }
        let socket = raw::send_all(fixture.grpc_addr(), "Unlock", &unlocks).await;
        if round % 2 == 0 {
            socket.set_zero_linger().unwrap();
        }
        drop(socket);
        for UnlockRequest { name, key } in &unlocks {
            // It may have been read, or not.
            alice.unlock(name, key).await;
        }
        assert_eq!(fixture.holds().await, [], "round {round}");
    }
    fixture.until_sessions(1).await;
}

#[tokio::test]
async fn a_client_that_gives_up_many_calls_at_once_keeps_its_connection_and_its_locks() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    alice.locked("x").await;
    let mut bob = raw::send(fixture.grpc_addr(), "TryLock", &"y".message()).await;
    assert!(within(raw::answer::<LockResponse>(&mut bob)).await.unwrap().locked);
    within(give_up_and_ask_again(&mut bob)).await;
    fixture.until_waiters("x", 0).await;
    assert!(!alice.is_free("y").await);
    // The HTTP port knows no such call, and says so over the same HTTP/2.
    let mut carol = raw::send(fixture.http_addr(), "TryLock", &"y".message()).await;
    within(give_up_and_ask_again(&mut carol)).await;
}

/// Asks for `x` and gives it up so often that the server cannot have looked at each before it is cancelled.
async fn give_up_and_ask_again(socket: &mut TcpStream) {
    let next = raw::give_up(socket, 3, "Lock", &lock("x"), 2_000).await;
    ask_again(socket, next).await;
}

#[tokio::test]
async fn a_client_that_makes_thousands_of_calls_at_once_keeps_its_connection_and_its_locks() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    alice.locked("x").await;
    let mut bob = raw::send(fixture.grpc_addr(), "TryLock", &"y".message()).await;
    assert!(within(raw::answer::<LockResponse>(&mut bob)).await.unwrap().locked);
    let next = raw::send_many(&mut bob, 3, "Lock", &lock("x"), 5_000).await;
    within(ask_again(&mut bob, next)).await;
    fixture.until_waiters("x", 5_000).await;
    assert!(!alice.is_free("y").await);
}

/// Whether it is still answered on a new stream.
async fn ask_again(socket: &mut TcpStream, next: u32) {
    raw::send_more(socket, next, "TryLock", &"x".message()).await;
    while let Some(frame) = raw::heard(socket).await {
        assert_ne!(frame.kind, raw::GO_AWAY, "{frame:?}");
        if frame.stream == next {
            return;
        }
    }
    panic!("it was hung up on");
}

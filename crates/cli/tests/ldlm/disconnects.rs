//! Connections that end: what they held goes to the next at once, however calls, grants and the end interleave.

use std::time::Duration;

use tenure_proto::ldlm::{TryLockRequest, UnlockRequest};
use tokio::net::TcpStream;

use crate::client::{lock, timed};
use crate::fixture::{Fixture, eventually, within};
use crate::raw;

#[tokio::test]
async fn a_connection_that_ends_gives_back_all_it_had_and_nothing_else() {
    let fixture = Fixture::start().await;
    let (alice, bob, carol) = (fixture.client().await, fixture.client().await, fixture.client().await);
    for name in ["x", "y"] {
        alice.locked(name).await;
    }
    alice.locked(timed("long", 3_600)).await;
    bob.locked("z").await;
    let waiting = bob.start_lock(lock("x"));
    fixture.until_waiters("x", 1).await;
    drop(alice);
    assert!(within(waiting).await.unwrap().unwrap().locked);
    fixture.until_sessions(1).await;
    assert!(carol.is_free("y").await && carol.is_free("long").await);
    assert!(!carol.is_free("z").await && !carol.is_free("x").await);
}

#[tokio::test]
async fn a_connection_has_a_session_from_its_first_lock_on_and_another_for_those_with_a_time() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    alice.unlock("x", "key").await;
    alice.renew("x", "key", 5).await;
    assert_eq!(fixture.sessions().await, []);
    for name in ["x", "y"] {
        alice.locked(name).await;
    }
    assert_eq!(fixture.sessions().await.len(), 1);
    for seconds in [30, 3_600, i32::MAX] {
        alice.locked(timed(&format!("{seconds} s"), seconds)).await;
    }
    let sessions = fixture.sessions().await;
    assert!(sessions.iter().all(|session| session.attached), "{sessions:?}");
    assert_eq!(sessions.iter().map(|session| session.holds).collect::<Vec<_>>(), [2, 3]);
    drop(alice);
    fixture.until_sessions(0).await;
}

#[tokio::test]
async fn many_first_calls_at_once_share_one_session() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let mut calls = tokio::task::JoinSet::new();
    for at in 0..100 {
        let alice = alice.clone();
        calls.spawn(async move { alice.locked(&*format!("x{at}")).await });
    }
    within(calls.join_all()).await;
    assert_eq!(fixture.sessions().await.len(), 1);
}

/// With so many connections that only said this, nothing is left over and the server goes on.
async fn assert_leaves_nothing(fixture: &Fixture, names: &[String]) {
    let checker = fixture.client().await;
    for name in names {
        eventually(async || checker.is_free(name).await.then_some(())).await;
    }
    fixture.until_sessions(1).await;
    assert_eq!(fixture.holds().await.len(), names.len());
}

/// Resets the connection, with which its unread bytes are gone too, or closes it in order.
fn hang_up(socket: TcpStream, at: usize) {
    if at.is_multiple_of(2) {
        socket.set_zero_linger().unwrap();
    }
    drop(socket);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_was_asked_for_by_a_connection_that_is_gone_is_nobodys() {
    let fixture = Fixture::start().await;
    let addr = fixture.grpc_addr();
    let names: Vec<_> = (0..400).map(|at| format!("x{at}")).collect();
    for (at, name) in names.iter().enumerate() {
        let socket = if at % 4 < 2 {
            raw::send(addr, "TryLock", &TryLockRequest { name: name.clone(), ..TryLockRequest::default() }).await
        } else {
            raw::send(addr, "Lock", &lock(name)).await
        };
        // Some are gone before their request is read, some while it is served, some when it is answered.
        for _ in 0..at % 7 {
            tokio::task::yield_now().await;
        }
        hang_up(socket, at);
    }
    assert_leaves_nothing(&fixture, &names).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlock_by_a_connection_that_is_gone_harms_nobody() {
    let fixture = Fixture::start().await;
    let (addr, alice) = (fixture.grpc_addr(), fixture.client().await);
    for at in 0..400 {
        let key = alice.locked("x").await;
        let socket = raw::send(addr, "Unlock", &UnlockRequest { name: "x".into(), key: key.clone() }).await;
        hang_up(socket, at);
        // It may have been read, or not.
        alice.unlock("x", &key).await;
    }
    alice.locked("x").await;
    assert_eq!((fixture.holds().await.len(), fixture.sessions().await.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_whose_connections_are_gone_are_not_served() {
    let fixture = Fixture::start().await;
    let (addr, alice) = (fixture.grpc_addr(), fixture.client().await);
    let key = alice.locked("x").await;
    let mut gone = Vec::new();
    for _ in 0..200 {
        gone.push(raw::send(addr, "Lock", &lock("x")).await);
    }
    fixture.until_waiters("x", 200).await;
    // While they hang up the lock is handed on, so that some of them are just being served.
    for (at, socket) in gone.into_iter().enumerate() {
        if at == 50 {
            alice.unlocked("x", &key).await;
        }
        hang_up(socket, at);
    }
    eventually(async || alice.is_free("x").await.then_some(())).await;
    fixture.until_sessions(1).await;
    assert_eq!((fixture.holds().await.len(), fixture.waiters("x").await), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_cancelled_while_it_is_served_leaves_the_lock_to_others() {
    let fixture = Fixture::start().await;
    let (addr, alice) = (fixture.grpc_addr(), fixture.client().await);
    let mut open = Vec::new();
    for round in 0..300 {
        let key = alice.locked("x").await;
        let mut waiting = raw::send(addr, "Lock", &lock("x")).await;
        fixture.until_waiters("x", 1).await;
        // Both at once, whichever is first.
        let unlocking = tokio::spawn({
            let alice = alice.clone();
            async move { alice.unlocked("x", &key).await }
        });
        if round % 3 > 0 {
            tokio::time::sleep(Duration::from_micros(50 * (round % 20))).await;
        }
        raw::cancel(&mut waiting).await;
        open.push(waiting);
        within(unlocking).await.unwrap();
        let key = eventually(async || Some(alice.try_lock("x").await).filter(|response| response.locked)).await.key;
        alice.unlocked("x", &key).await;
    }
    fixture.until_sessions(open.len() + 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_cancelled_at_once_leaves_nothing_locked() {
    let fixture = Fixture::start().await;
    let (addr, alice) = (fixture.grpc_addr(), fixture.client().await);
    let mut open = Vec::new();
    for round in 0..300 {
        let name = format!("x{round}");
        let mut socket = raw::send(addr, "Lock", &lock(&name)).await;
        tokio::time::sleep(Duration::from_micros(50 * (round % 40))).await;
        raw::cancel(&mut socket).await;
        open.push((name, socket));
    }
    for (name, _) in &open {
        eventually(async || alice.is_free(name).await.then_some(())).await;
    }
}

#[tokio::test]
async fn an_answer_is_not_taken_for_lost_because_its_client_goes_on() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    for round in 0..50 {
        let key = alice.locked("x").await;
        let waiting = bob.start_lock(lock("x"));
        let cancelled = bob.start_lock(lock("x"));
        fixture.until_waiters("x", 2).await;
        cancelled.abort();
        fixture.until_waiters("x", 1).await;
        alice.unlocked("x", &key).await;
        let key = within(waiting).await.unwrap().unwrap().key;
        assert!(!alice.is_free("x").await, "round {round}");
        alice.unlocked("x", &key).await;
    }
}

#[tokio::test]
async fn with_no_clear_on_disconnect_locks_outlive_their_connection() {
    let fixture = Fixture::with(&["--no-clear-on-disconnect"]).await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked("x").await;
    let long = alice.locked(timed("long", 3_600)).await;
    alice.locked(timed("short", 2)).await;
    let waiting = alice.start_lock(lock("x"));
    fixture.until_waiters("x", 1).await;
    waiting.abort();
    drop(alice);
    fixture.until_waiters("x", 0).await;
    assert!(bob.renew("long", &long, 1).await.locked && !bob.renew("x", &key, 1).await.locked);
    // Both end by themselves and not before, and what has no time does not.
    bob.until_free("short").await;
    bob.until_free("long").await;
    assert!(!bob.is_free("x").await);
    bob.unlocked("x", &key).await;
    assert!(bob.is_free("x").await);
    assert_eq!(fixture.sessions().await, []);
}

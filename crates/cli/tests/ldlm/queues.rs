//! Who waits, in which order they are served, and who leaves.

use std::time::Duration;

use tenure_proto::ldlm::{LockRequest, LockResponse};
use tonic::Code;

use crate::client::{busy, lock};
use crate::fixture::{Fixture, within};
use crate::raw;

#[tokio::test]
async fn waiters_are_served_in_the_order_they_came() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let mut key = alice.locked("x").await;
    let mut waiting = Vec::new();
    for place in 1..=5_u64 {
        let client = fixture.client().await;
        waiting.push((client.start_lock(lock("x")), client));
        fixture.until_waiters("x", place).await;
    }
    for (left, (served, _client)) in (0..5).rev().zip(&mut waiting) {
        alice.unlocked("x", &key).await;
        key = within(served).await.unwrap().unwrap().key;
        assert_eq!(fixture.waiters("x").await, left);
    }
}

#[tokio::test]
async fn nobody_overtakes_a_waiter() {
    let fixture = Fixture::start().await;
    let (alice, bob, carol) = (fixture.client().await, fixture.client().await, fixture.client().await);
    let key = alice.locked("x").await;
    let waiting = bob.start_lock(lock("x"));
    fixture.until_waiters("x", 1).await;
    alice.unlocked("x", &key).await;
    assert_eq!(carol.try_lock("x").await, busy("x"));
    assert!(within(waiting).await.unwrap().unwrap().locked);
}

#[tokio::test]
async fn a_waiter_is_served_as_soon_as_the_lock_is_free() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked("x").await;
    let waiting = bob.start_lock(LockRequest { wait_timeout_seconds: Some(3_600), ..lock("x") });
    fixture.until_waiters("x", 1).await;
    alice.unlocked("x", &key).await;
    let LockResponse { locked, name, key: new, error } = within(waiting).await.unwrap().unwrap();
    assert!(locked && name == "x" && error.is_none() && new != key);
}

#[tokio::test]
async fn those_behind_a_waiter_that_gives_up_keep_their_order() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked("x").await;
    let mut waiting = Vec::new();
    // The one in the middle has time for all three to come, however slow it is.
    for (place, seconds) in [(1, None), (2, Some(4)), (3, None)] {
        waiting.push(bob.start_lock(LockRequest { wait_timeout_seconds: seconds, ..lock("x") }));
        fixture.until_waiters("x", place).await;
    }
    let [first, second, third] = waiting.try_into().unwrap();
    assert!(!within(second).await.unwrap().unwrap().locked);
    alice.unlocked("x", &key).await;
    let key = within(first).await.unwrap().unwrap().key;
    assert!(!third.is_finished());
    alice.unlocked("x", &key).await;
    assert!(within(third).await.unwrap().unwrap().locked);
}

#[tokio::test]
async fn a_waiter_that_disconnects_is_passed_over() {
    let fixture = Fixture::start().await;
    let (alice, bob, carol) = (fixture.client().await, fixture.client().await, fixture.client().await);
    let key = alice.locked("x").await;
    let waiting = bob.start_lock(lock("x"));
    fixture.until_waiters("x", 1).await;
    drop(bob);
    waiting.abort();
    fixture.until_waiters("x", 0).await;
    alice.unlocked("x", &key).await;
    assert!(carol.is_free("x").await);
}

#[tokio::test]
async fn a_waiter_that_cancels_leaves_and_its_connection_lives_on() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked("x").await;
    bob.locked("y").await;
    let waiting = bob.start_lock(lock("x"));
    fixture.until_waiters("x", 1).await;
    waiting.abort();
    fixture.until_waiters("x", 0).await;
    alice.unlocked("x", &key).await;
    assert!(alice.is_free("x").await && !alice.is_free("y").await);
}

#[tokio::test]
async fn a_waiter_whose_deadline_passes_leaves() {
    let fixture = Fixture::start().await;
    let (alice, bob, carol) = (fixture.client().await, fixture.client().await, fixture.client().await);
    let key = alice.locked("x").await;
    let mut request = tonic::Request::new(lock("x"));
    request.set_timeout(Duration::from_millis(200));
    let status = within(bob.0.clone().lock(request)).await.unwrap_err();
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status:?}");
    fixture.until_waiters("x", 0).await;
    alice.unlocked("x", &key).await;
    assert!(carol.is_free("x").await);
}

/// By hand: a library may have the whole answer and throw it away, because it looks at its clock first.
#[tokio::test]
async fn a_lock_that_is_granted_when_its_callers_deadline_passes_is_not_left_with_nobody() {
    let fixture = Fixture::start().await;
    let (alice, carol) = (fixture.client().await, fixture.client().await);
    let mut open = Vec::new();
    for round in 0..60 {
        let key = alice.locked("x").await;
        let mut socket = raw::send_until(fixture.grpc_addr(), "Lock", &lock("x"), "50m").await;
        let waiting = tokio::spawn(async move {
            let answer = raw::answer::<LockResponse>(&mut socket);
            let granted = tokio::time::timeout(Duration::from_millis(50), answer).await;
            if granted.is_err() {
                raw::cancel(&mut socket).await;
            }
            (granted.ok().flatten(), socket)
        });
        // Around the deadline, a little before or after it.
        tokio::time::sleep(Duration::from_millis(30 + round % 30)).await;
        alice.unlocked("x", &key).await;
        let (granted, socket) = within(waiting).await.unwrap();
        open.push(socket);
        let key = match granted {
            Some(granted) => granted.key,
            None => carol.until_free("x").await,
        };
        carol.unlocked("x", &key).await;
    }
}

#[tokio::test]
async fn however_many_wait_on_a_connection_it_is_served() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked("x").await;
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..1_500 {
        let mut client = bob.0.clone();
        waiting.spawn(async move { client.lock(lock("x")).await });
    }
    fixture.until_waiters("x", 1_500).await;
    let other = bob.locked("y").await;
    bob.unlocked("y", &other).await;
    bob.unlocked("x", &key).await;
    let granted = within(waiting.join_next()).await.unwrap().unwrap().unwrap().into_inner();
    assert!(granted.locked);
    assert_eq!(fixture.waiters("x").await, 1_499, "exactly one of them was");
}

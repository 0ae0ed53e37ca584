//! Locks that end by themselves, waits that do, and renewals.

use std::time::Duration;

use tenure_proto::ldlm::{ErrorCode, LockRequest, LockResponse};

use crate::client::{NOT_RENEWED, busy, error, lock, refused, timed};
use crate::fixture::{Fixture, eventually, within};

fn not_renewed(name: &str, key: &str) -> LockResponse {
    LockResponse { key: key.into(), ..refused(name, NOT_RENEWED.0, NOT_RENEWED.1) }
}

#[tokio::test]
async fn a_lock_without_a_time_does_not_end_by_itself() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    alice.locked("x").await;
    alice.locked(timed("y", 0)).await;
    fixture.later(2).await;
    assert_eq!((bob.try_lock("x").await, bob.try_lock("y").await), (busy("x"), busy("y")));
    assert_eq!((fixture.hold("x").await.deadline_ms, fixture.hold("y").await.deadline_ms), (None, None));
}

#[tokio::test]
async fn a_lock_with_a_time_goes_to_who_waits_when_it_is_over() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked(timed("x", 3)).await;
    let until = fixture.hold("x").await.deadline_ms.unwrap();
    let waiting = bob.start_lock(LockRequest { lock_timeout_seconds: Some(3_600), ..lock("x") });
    let granted = within(waiting).await.unwrap().unwrap();
    assert!(granted.locked && granted.error.is_none());
    let hold = fixture.hold("x").await;
    assert!(hold.since_ms >= until, "not before the other was over: {hold:?}");
    assert_eq!(
        hold.deadline_ms,
        Some(hold.since_ms + 3_600_000),
        "its time began with the grant, not with the question"
    );
    // The old key opens nothing any more, and the new holder keeps what it has.
    assert_eq!(alice.unlock("x", &key).await.error, error(ErrorCode::InvalidLockKey, "invalid lock key"));
    assert_eq!(fixture.hold("x").await, hold);
    assert!(bob.renew("x", &granted.key, 1).await.locked);
    eventually(async || fixture.holds().await.is_empty().then_some(())).await;
    assert_eq!(bob.unlock("x", &granted.key).await.error, error(ErrorCode::InvalidLockKey, "invalid lock key"));
    assert!(alice.is_free("x").await);
}

#[tokio::test]
async fn a_renewal_restarts_the_time_and_may_shorten_it() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked(timed("x", 5)).await;
    let renewed = LockResponse { locked: true, name: "x".into(), key: key.clone(), error: None };
    assert_eq!(alice.renew("x", &key, 3_600).await, renewed);
    fixture.later(5).await;
    assert!(!bob.is_free("x").await, "the time that it had at first is over");
    assert_eq!(bob.renew("x", &key, 1).await, renewed, "whoever has the key may");
    bob.until_free("x").await;
    assert_eq!(alice.renew("x", &key, 5).await, not_renewed("x", &key));
}

#[tokio::test]
async fn a_renewed_lock_ends_so_long_after_the_renewal() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let key = alice.locked(timed("x", 3_600)).await;
    let before = fixture.hold("x").await;
    fixture.later(1).await;
    assert!(alice.renew("x", &key, 3_600).await.locked);
    let after = fixture.hold("x").await;
    assert_eq!((after.token, after.since_ms), (before.token, before.since_ms), "it is the same hold");
    assert!(after.deadline_ms >= before.deadline_ms.map(|until| until + 1_000), "{before:?} {after:?}");
}

#[tokio::test]
async fn a_lock_is_kept_by_renewals_for_as_long_as_they_come() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked(timed("x", 4)).await;
    let mut waiting = bob.start_lock(lock("x"));
    fixture.until_waiters("x", 1).await;
    let later = fixture.later(6);
    tokio::pin!(later);
    // Much more often than need be, so that a machine that stands still for a while does no harm.
    while tokio::time::timeout(Duration::from_millis(100), &mut later).await.is_err() {
        assert!(alice.renew("x", &key, 4).await.locked && !waiting.is_finished());
    }
    assert!(alice.renew("x", &key, 1).await.locked);
    assert!(within(&mut waiting).await.unwrap().unwrap().locked);
}

#[tokio::test]
async fn what_is_not_there_to_be_renewed_is_one_error() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let (key, timeless) = (alice.locked(timed("x", 9)).await, alice.locked("y").await);
    let nobodys = "00000000-0000-4000-8000-000000000000";
    for (name, key) in
        [("x", nobodys), ("x", ""), ("x", "key"), ("z", &*key), ("y", &key), ("", &key), ("y", &timeless)]
    {
        assert_eq!(alice.renew(name, key, 5).await, not_renewed(name, key));
    }
}

#[tokio::test]
async fn a_renewal_needs_a_time_before_anything_else() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let key = alice.locked(timed("x", 4)).await;
    let before = fixture.hold("x").await;
    for (name, seconds) in [("x", 0), ("x", -5), ("y", 0), ("", i32::MIN)] {
        let refusal = refused(name, ErrorCode::Unknown, "lock timeout must be greater than 0");
        assert_eq!(alice.renew(name, &key, seconds).await, refusal);
    }
    assert_eq!(fixture.hold("x").await, before, "the time goes on as it was");
    alice.until_free("x").await;
}

#[tokio::test]
async fn a_name_and_a_key_split_elsewhere_do_nothing() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let key = alice.locked(timed("x", 4)).await;
    let before = fixture.hold("x").await;
    let (name, rest) = (format!("x{}", &key[..4]), &key[4..]);
    assert!(!alice.renew(&name, rest, 60).await.locked);
    assert_eq!(alice.unlock(&name, rest).await.error.unwrap().code(), ErrorCode::LockDoesNotExist);
    assert_eq!(fixture.hold("x").await, before, "its time is neither longer nor gone");
    alice.until_free("x").await;
}

#[tokio::test]
async fn the_older_name_of_a_renewal_is_known() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let key = alice.locked(timed("x", 5)).await;
    let request = tenure_proto::ldlm::RenewRequest { name: "x".into(), key: key.clone(), lock_timeout_seconds: 60 };
    assert!(alice.0.clone().refresh_lock(request).await.unwrap().into_inner().locked);
    assert_eq!(fixture.hold("x").await.ttl_ms, Some(60_000));
}

#[tokio::test]
async fn the_longest_times_can_be_asked_for() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let request =
        LockRequest { lock_timeout_seconds: Some(i32::MAX), wait_timeout_seconds: Some(i32::MAX), ..lock("x") };
    let key = alice.lock(request).await.key;
    assert!(alice.renew("x", &key, i32::MAX).await.locked);
}

#[tokio::test]
async fn a_wait_that_has_an_end_ends_with_an_error() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    alice.locked("x").await;
    for client in [&bob, &alice] {
        let waited = client.lock(LockRequest { wait_timeout_seconds: Some(1), ..lock("x") }).await;
        assert_eq!(waited, refused("x", ErrorCode::LockWaitTimeout, "timeout waiting to acquire lock"));
    }
    assert_eq!(fixture.waiters("x").await, 0);
}

#[tokio::test]
async fn a_wait_of_zero_is_for_ever() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked("x").await;
    let waiting =
        [Some(0), None].map(|seconds| bob.start_lock(LockRequest { wait_timeout_seconds: seconds, ..lock("x") }));
    fixture.until_waiters("x", 2).await;
    fixture.later(3).await;
    assert_eq!(fixture.waiters("x").await, 2);
    assert!(!waiting.iter().any(tokio::task::JoinHandle::is_finished));
    alice.unlocked("x", &key).await;
    fixture.until_waiters("x", 1).await;
}

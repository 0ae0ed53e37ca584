//! Locks that end by themselves, waits that do, and renewals.

use tenure_proto::ldlm::{ErrorCode, LockRequest, LockResponse};

use crate::client::{NOT_RENEWED, busy, error, lock, refused, timed};
use crate::fixture::{Fixture, within};

fn not_renewed(name: &str, key: &str) -> LockResponse {
    LockResponse { key: key.into(), ..refused(name, NOT_RENEWED.0, NOT_RENEWED.1) }
}

#[tokio::test]
async fn a_lock_without_a_time_does_not_end_by_itself() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    alice.locked("x").await;
    alice.locked(timed("y", 0)).await;
    fixture.later(100 * 24 * 3_600_000).await;
    assert_eq!((bob.try_lock("x").await, bob.try_lock("y").await), (busy("x"), busy("y")));
}

#[tokio::test]
async fn a_lock_with_a_time_goes_to_who_waits_when_it_is_over() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked(timed("x", 2)).await;
    let waiting = bob.start_lock(LockRequest { lock_timeout_seconds: Some(10), ..lock("x") });
    fixture.until_waiters("x", 1).await;
    fixture.later(1_999).await;
    assert!(!waiting.is_finished());
    fixture.later(1).await;
    let granted = within(waiting).await.unwrap().unwrap();
    assert!(granted.locked && granted.error.is_none());
    // The old key opens nothing any more, and the new holder keeps what it has.
    assert_eq!(alice.unlock("x", &key).await.error, error(ErrorCode::InvalidLockKey, "invalid lock key"));
    // Its time began with the grant, not with the question.
    fixture.later(9_999).await;
    assert!(!alice.is_free("x").await);
    fixture.later(1).await;
    assert_eq!(bob.unlock("x", &granted.key).await.error, error(ErrorCode::InvalidLockKey, "invalid lock key"));
    assert!(alice.is_free("x").await);
}

#[tokio::test]
async fn a_renewal_restarts_the_time_and_may_shorten_it() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked(timed("x", 2)).await;
    fixture.later(1_000).await;
    let renewed = LockResponse { locked: true, name: "x".into(), key: key.clone(), error: None };
    assert_eq!(alice.renew("x", &key, 5).await, renewed);
    fixture.later(4_999).await;
    assert!(!bob.is_free("x").await);
    assert_eq!(bob.renew("x", &key, 1).await, renewed, "whoever has the key may");
    fixture.later(999).await;
    assert!(!bob.is_free("x").await);
    fixture.later(1).await;
    assert!(bob.is_free("x").await);
    assert_eq!(alice.renew("x", &key, 5).await, not_renewed("x", &key));
}

#[tokio::test]
async fn a_lock_is_kept_by_renewals_for_as_long_as_they_come() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked(timed("x", 1)).await;
    let waiting = bob.start_lock(lock("x"));
    fixture.until_waiters("x", 1).await;
    for _ in 0..6 {
        fixture.later(500).await;
        assert!(alice.renew("x", &key, 1).await.locked && !waiting.is_finished());
    }
    fixture.later(1_000).await;
    assert!(within(waiting).await.unwrap().unwrap().locked);
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
    let key = alice.locked(timed("x", 2)).await;
    for (name, seconds) in [("x", 0), ("x", -5), ("y", 0), ("", i32::MIN)] {
        let refusal = refused(name, ErrorCode::Unknown, "lock timeout must be greater than 0");
        assert_eq!(alice.renew(name, &key, seconds).await, refusal);
    }
    fixture.later(1_999).await;
    assert!(!alice.is_free("x").await, "the time goes on as it was");
    fixture.later(1).await;
    assert!(alice.is_free("x").await);
}

#[tokio::test]
async fn a_name_and_a_key_split_elsewhere_do_nothing() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let key = alice.locked(timed("x", 5)).await;
    let (name, rest) = (format!("x{}", &key[..4]), &key[4..]);
    assert!(!alice.renew(&name, rest, 60).await.locked);
    assert_eq!(alice.unlock(&name, rest).await.error.unwrap().code(), ErrorCode::LockDoesNotExist);
    fixture.later(5_000).await;
    assert!(alice.is_free("x").await, "its time is neither longer nor gone");
}

#[tokio::test]
async fn the_older_name_of_a_renewal_is_known() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let key = alice.locked(timed("x", 2)).await;
    let request = tenure_proto::ldlm::RenewRequest { name: "x".into(), key: key.clone(), lock_timeout_seconds: 60 };
    assert!(alice.0.clone().refresh_lock(request).await.unwrap().into_inner().locked);
    fixture.later(59_000).await;
    assert!(!alice.is_free("x").await);
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
        let waiting = client.start_lock(LockRequest { wait_timeout_seconds: Some(1), ..lock("x") });
        fixture.until_waiters("x", 1).await;
        fixture.later(999).await;
        assert!(!waiting.is_finished());
        fixture.later(1).await;
        let refusal = refused("x", ErrorCode::LockWaitTimeout, "timeout waiting to acquire lock");
        assert_eq!(within(waiting).await.unwrap().unwrap(), refusal);
    }
}

#[tokio::test]
async fn a_wait_of_zero_is_for_ever() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked("x").await;
    let waiting =
        [Some(0), None].map(|seconds| bob.start_lock(LockRequest { wait_timeout_seconds: seconds, ..lock("x") }));
    fixture.until_waiters("x", 2).await;
    fixture.later(365 * 24 * 3_600_000).await;
    assert_eq!(fixture.waiters("x").await, 2);
    alice.unlocked("x", &key).await;
    fixture.until_waiters("x", 1).await;
    drop(waiting);
}

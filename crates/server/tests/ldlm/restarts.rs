//! The server stops or crashes and comes back: what was held still is, with the time it had left.

use tenure_core::Ttl;
use tenure_proto::ldlm::ErrorCode;
use tenure_server::LdlmConfig;
use tonic::Code;

use crate::client::{lock, sized, timed};
use crate::fixture::{Fixture, within};

fn config() -> LdlmConfig {
    LdlmConfig { default_lock_timeout: Ttl::from_millis(3_000), ..LdlmConfig::default() }
}

/// However it ends, with its clients connected.
async fn ended(fixture: Fixture, gracefully: bool) -> Fixture {
    if gracefully { fixture.restart().await } else { fixture.crash().await }
}

#[tokio::test]
async fn a_lock_without_a_time_can_be_claimed_for_so_long_and_is_then_free() {
    for gracefully in [true, false] {
        let fixture = Fixture::durable(config()).await;
        let alice = fixture.client().await;
        alice.locked("x").await;
        let fixture = ended(fixture, gracefully).await;
        let bob = fixture.client().await;
        fixture.later(2_999).await;
        assert!(!bob.is_free("x").await);
        fixture.later(1).await;
        assert!(bob.is_free("x").await);
        assert_eq!(fixture.sessions().await.len(), 1);
    }
}

#[tokio::test]
async fn whoever_has_the_key_can_renew_a_lock_though_it_had_no_time() {
    for gracefully in [true, false] {
        let fixture = Fixture::durable(config()).await;
        let alice = fixture.client().await;
        let key = alice.locked("x").await;
        let fixture = ended(fixture, gracefully).await;
        let bob = fixture.client().await;
        assert!(bob.renew("x", &key, 10).await.locked);
        fixture.later(9_999).await;
        assert!(!bob.is_free("x").await, "it is nobody's session's any more");
        assert!(bob.renew("x", &key, 10).await.locked);
        fixture.later(10_000).await;
        assert!(bob.is_free("x").await);
    }
}

#[tokio::test]
async fn whoever_has_the_key_can_unlock_and_lock_again_and_it_is_held_once() {
    let mut fixture = Fixture::durable(config()).await;
    let mut key: Option<String> = None;
    for gracefully in [false, true, false, true] {
        let alice = fixture.client().await;
        if let Some(key) = key {
            alice.unlocked("x", &key).await;
        }
        key = Some(alice.locked("x").await);
        fixture = ended(fixture, gracefully).await;
        assert_eq!(fixture.holds().await.len(), 1);
    }
}

#[tokio::test]
async fn a_lock_with_a_time_has_what_was_left_of_it() {
    for gracefully in [true, false] {
        let fixture = Fixture::durable(config()).await;
        let alice = fixture.client().await;
        alice.locked(timed("short", 2)).await;
        alice.locked(timed("long", 3_600)).await;
        fixture.later(1_000).await;
        let fixture = ended(fixture, gracefully).await;
        let bob = fixture.client().await;
        fixture.later(999).await;
        assert!(!bob.is_free("short").await);
        fixture.later(1).await;
        assert!(bob.is_free("short").await);
        fixture.later(3_597_999).await;
        assert!(!bob.is_free("long").await, "however much longer than the time of those that have none");
        fixture.later(1).await;
        assert!(bob.is_free("long").await);
    }
}

#[tokio::test]
async fn names_keep_their_size() {
    let fixture = Fixture::durable(config()).await;
    let alice = fixture.client().await;
    alice.locked(sized("x", 2)).await;
    let fixture = ended(fixture, true).await;
    let bob = fixture.client().await;
    assert_eq!(bob.try_lock("x").await.error.unwrap().code(), ErrorCode::LockSizeMismatch);
    bob.locked(sized("x", 2)).await;
    assert!(!bob.try_lock(sized("x", 2)).await.locked);
}

#[tokio::test]
async fn those_who_wait_when_the_server_stops_are_told_that_it_is_unavailable() {
    let fixture = Fixture::durable(config()).await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    alice.locked("x").await;
    let waiting = bob.start_lock(lock("x"));
    fixture.until_waiters("x", 1).await;
    let fixture = fixture.restart().await;
    assert_eq!(within(waiting).await.unwrap().unwrap_err().code(), Code::Unavailable);
    assert_eq!(fixture.waiters("x").await, 0);
    assert!(!fixture.client().await.is_free("x").await);
}

#[tokio::test]
async fn a_connection_that_ends_after_a_restart_takes_only_what_it_locked_since() {
    let fixture = Fixture::durable(config()).await;
    let alice = fixture.client().await;
    let key = alice.locked("x").await;
    let fixture = fixture.restart().await;
    let (bob, carol) = (fixture.client().await, fixture.client().await);
    bob.locked("y").await;
    assert!(bob.renew("x", &key, 60).await.locked);
    drop(bob);
    // The session of before the restart is still there.
    fixture.until_sessions(1).await;
    assert!(carol.is_free("y").await && !carol.is_free("x").await);
}

//! Locks that several may have at once.

use std::collections::BTreeSet;

use tenure_proto::ldlm::{ErrorCode, LockRequest};

use crate::client::{busy, lock, refused, sized};
use crate::fixture::Fixture;

const MISMATCH: (ErrorCode, &str) = (ErrorCode::LockSizeMismatch, "lock size mismatch");

#[tokio::test]
async fn a_lock_without_a_size_has_size_one() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    alice.locked("x").await;
    assert_eq!(bob.try_lock(sized("x", 1)).await, busy("x"));
    assert_eq!(bob.try_lock(sized("x", 2)).await, refused("x", MISMATCH.0, MISMATCH.1));
    let code = bob.try_lock(sized("x", 0)).await.error.unwrap().code();
    assert_eq!(code, ErrorCode::InvalidLockSize, "that is wrong whatever the size of the lock");
}

#[tokio::test]
async fn another_size_is_told_at_once_though_it_would_have_to_wait() {
    let fixture = Fixture::start().await;
    let (alice, bob, carol) = (fixture.client().await, fixture.client().await, fixture.client().await);
    alice.locked(sized("x", 2)).await;
    bob.locked(sized("x", 2)).await;
    assert_eq!(carol.try_lock(sized("x", 2)).await, busy("x"));
    assert_eq!(carol.lock(lock("x")).await, refused("x", MISMATCH.0, MISMATCH.1));
    assert_eq!(carol.lock(LockRequest { size: Some(3), ..lock("x") }).await, refused("x", MISMATCH.0, MISMATCH.1));
}

#[tokio::test]
async fn the_size_is_remembered_while_nobody_has_the_lock() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let key = alice.locked(sized("x", 2)).await;
    alice.unlocked("x", &key).await;
    assert_eq!(alice.try_lock(sized("x", 3)).await, refused("x", MISMATCH.0, MISMATCH.1));
    alice.locked(sized("x", 2)).await;
}

#[tokio::test]
async fn one_client_can_have_as_many_as_there_are() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let mut keys = BTreeSet::new();
    for _ in 0..3 {
        keys.insert(alice.locked(sized("x", 3)).await);
    }
    assert_eq!(keys.len(), 3);
    assert_eq!(alice.try_lock(sized("x", 3)).await, busy("x"));
    alice.unlocked("x", keys.first().unwrap()).await;
    alice.locked(sized("x", 3)).await;
    assert_eq!(alice.try_lock(sized("x", 3)).await, busy("x"));
}

#[tokio::test]
async fn the_largest_number_is_a_size() {
    let fixture = Fixture::start().await;
    fixture.client().await.locked(sized("x", i32::MAX)).await;
}

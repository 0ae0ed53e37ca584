//! Locking and unlocking: who gets what, and whose key opens it.

use tenure_proto::ldlm::{ErrorCode, LockRequest};
use tenure_proto::v1;

use crate::client::{busy, error, lock, sized};
use crate::fixture::{Fixture, eventually, within};

#[tokio::test]
async fn a_free_lock_is_locked_with_a_key_that_is_a_random_uuid() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let response = alice.try_lock("x").await;
    assert!(response.locked && response.name == "x" && response.error.is_none(), "{response:?}");
    let shape: String = response.key.chars().map(|c| if c.is_ascii_hexdigit() { 'x' } else { c }).collect();
    assert_eq!(shape, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
    assert_eq!((&response.key[14..15], response.key.to_lowercase()), ("4", response.key.clone()));
    let at_once = alice.lock(LockRequest { wait_timeout_seconds: Some(0), ..lock("y") }).await;
    assert!(at_once.locked && at_once.key != response.key);
}

#[tokio::test]
async fn that_somebody_has_a_lock_is_no_error() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    alice.locked("x").await;
    assert_eq!(alice.try_lock("x").await, busy("x"), "not even its own holder gets it again");
    assert_eq!(bob.try_lock("x").await, busy("x"));
}

#[tokio::test]
async fn any_text_is_a_name_and_comes_back_as_it_was() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let long = "x".repeat(100_000);
    for name in ["größe/🔒", "a\nb", "a\0b", " ", "ldlm:sha256:0", &long, &format!("{long}x")] {
        let response = alice.try_lock(name).await;
        assert!(response.locked && response.name == name, "{:?}", response.error);
        assert_eq!(bob.try_lock(name).await, busy(name));
        assert_eq!(bob.renew(name, &response.key, 5).await.name, name);
        bob.unlocked(name, &response.key).await;
        assert!(bob.is_free(name).await);
    }
}

#[tokio::test]
async fn a_key_unlocks_once_and_from_any_connection() {
    let fixture = Fixture::start().await;
    let (alice, bob, carol) = (fixture.client().await, fixture.client().await, fixture.client().await);
    let key = alice.locked("x").await;
    bob.unlocked("x", &key).await;
    let again = bob.unlock("x", &key).await;
    assert!(!again.unlocked && again.name == "x");
    assert_eq!(again.error, error(ErrorCode::InvalidLockKey, "invalid lock key"));
    carol.locked("x").await;
    assert_eq!(fixture.holds().await.len(), 1, "nothing of what alice had is left");
    // What alice had is carol's now, and does not go with alice.
    drop(alice);
    fixture.until_sessions(1).await;
    assert!(!bob.is_free("x").await);
}

#[tokio::test]
async fn a_wrong_key_does_not_unlock() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.client().await, fixture.client().await);
    let key = alice.locked("x").await;
    let other = alice.locked("y").await;
    for wrong in ["", "key", &other, &key.to_uppercase(), "00000000-0000-4000-8000-000000000000"] {
        let response = bob.unlock("x", wrong).await;
        assert_eq!(response.error, error(ErrorCode::InvalidLockKey, "invalid lock key"), "{wrong}");
        assert!(!response.unlocked);
    }
    assert!(!bob.is_free("x").await && !bob.is_free("y").await);
}

#[tokio::test]
async fn what_was_never_locked_does_not_exist() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let key = alice.locked("x").await;
    for name in ["y", "", "y\n"] {
        let response = alice.unlock(name, &key).await;
        assert_eq!(response.error, error(ErrorCode::LockDoesNotExist, "a lock by that name does not exist"), "{name}");
        assert_eq!((response.unlocked, &*response.name), (false, name));
    }
    // One that was not made because of its size does not exist either.
    alice.try_lock(sized("z", 0)).await;
    let code = alice.unlock("z", &key).await.error.unwrap().code();
    assert_eq!(code, ErrorCode::LockDoesNotExist);
}

#[tokio::test]
async fn a_name_that_is_idle_for_long_is_forgotten_with_its_size() {
    let fixture = Fixture::with(&["--pool-idle", "1s"]).await;
    let alice = fixture.client().await;
    alice.locked(sized("held", 2)).await;
    let key = alice.locked(sized("x", 2)).await;
    alice.unlocked("x", &key).await;
    let code = async |key: &str| alice.unlock("x", key).await.error.unwrap().code();
    eventually(async || (code(&key).await == ErrorCode::LockDoesNotExist).then_some(())).await;
    alice.locked(sized("x", 3)).await;
    assert_eq!(alice.try_lock(sized("held", 3)).await.error.unwrap().code(), ErrorCode::LockSizeMismatch);
}

#[tokio::test]
async fn a_lock_shows_in_our_own_interface_and_competes_there() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let key = alice.locked("x").await;
    let mut ours = fixture.ours();

    let holds = ours.list_holds(v1::ListHoldsRequest::default()).await.unwrap().into_inner().holds;
    let [hold] = &*holds else { panic!("{holds:?}") };
    assert!(hold.pool == "x" && hold.token == 1 && hold.session.is_some(), "{hold:?}");
    assert!(hold.holder.starts_with("ldlm 127.0.0.1:"), "{hold:?}");
    assert_eq!(hold.meta["via"], "ldlm grpc");
    assert_eq!(format!("ldlm {}", hold.meta["peer"]), hold.holder);
    assert!(hold.meta["user_agent"].contains("tonic"), "{hold:?}");

    let acquire = v1::AcquireRequest { pool: "x".into(), holder: "ours".into(), ..v1::AcquireRequest::default() };
    assert_eq!(ours.acquire(acquire.clone()).await.unwrap_err().code(), tonic::Code::Aborted);
    alice.unlocked("x", &key).await;
    let grant = ours.acquire(acquire).await.unwrap().into_inner();
    assert_eq!((grant.token, alice.try_lock("x").await), (2, busy("x")));
    let waiting = alice.start_lock(lock("x"));
    fixture.until_waiters("x", 1).await;
    let queue = v1::ListQueueRequest { pool: "x".into(), ..v1::ListQueueRequest::default() };
    let queue = ours.list_queue(queue).await.unwrap().into_inner().waiters;
    assert_eq!(queue[0].holder, hold.holder);
    ours.release(v1::ReleaseRequest { key: grant.key, ..v1::ReleaseRequest::default() }).await.unwrap();
    assert!(within(waiting).await.unwrap().unwrap().locked);
}

#[tokio::test]
async fn what_happened_to_a_lock_is_in_the_history() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let key = alice.locked("x").await;
    alice.unlocked("x", &key).await;
    let request = v1::HistoryRequest { pool: Some("x".into()), ..v1::HistoryRequest::default() };
    let events = fixture.ours().history(request).await.unwrap().into_inner().events;
    let kinds: Vec<_> = events.iter().map(|event| event.kind()).collect();
    assert!(kinds.contains(&v1::EventKind::Granted) && kinds.contains(&v1::EventKind::Ended), "{kinds:?}");
}

#[tokio::test]
async fn a_pool_that_is_no_lock_is_told_as_an_error() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let mut ours = fixture.ours();
    let spec = v1::PoolSpec { units: Some(1), window_ms: Some(60_000), ..v1::PoolSpec::default() };
    let set = v1::SetPoolRequest { pool: "rate".into(), spec: Some(spec), ..v1::SetPoolRequest::default() };
    ours.set_pool(set).await.unwrap();
    let response = alice.try_lock("rate").await;
    assert_eq!((response.locked, response.error.unwrap().code()), (false, ErrorCode::Unknown));
    assert_eq!(fixture.holds().await, []);
}

//! What is wrong with a request: in which order it is told, and that nothing happens.

use tenure_proto::ldlm::{ErrorCode, LockRequest, TryLockRequest};

use crate::client::{lock, refused};
use crate::fixture::Fixture;

const NO_NAME: (ErrorCode, &str) = (ErrorCode::Unknown, "lock name cannot be empty");
const LOCK_TIMEOUT: (ErrorCode, &str) = (ErrorCode::Unknown, "lock timeout must be greater than 0");
const WAIT_TIMEOUT: (ErrorCode, &str) = (ErrorCode::Unknown, "wait timeout must be greater than 0");
const NO_SIZE: (ErrorCode, &str) = (ErrorCode::InvalidLockSize, "lock size must be greater than 0");

#[tokio::test]
async fn the_first_thing_wrong_with_a_try_is_told() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let cases = [
        ("", None, None, NO_NAME),
        ("", None, Some(-1), LOCK_TIMEOUT),
        ("", Some(0), None, NO_NAME),
        ("x", None, Some(-1), LOCK_TIMEOUT),
        ("x", Some(0), Some(-1), LOCK_TIMEOUT),
        ("x", Some(0), None, NO_SIZE),
        ("x", Some(-1), None, NO_SIZE),
        ("x", Some(i32::MIN), None, NO_SIZE),
    ];
    for (name, size, lock_timeout_seconds, (code, message)) in cases {
        let request = TryLockRequest { name: name.into(), size, lock_timeout_seconds };
        assert_eq!(alice.try_lock(request.clone()).await, refused(name, code, message), "{request:?}");
        let TryLockRequest { name: text, size, lock_timeout_seconds } = request;
        let request = LockRequest { name: text, size, lock_timeout_seconds, wait_timeout_seconds: None };
        assert_eq!(alice.lock(request).await, refused(name, code, message));
    }
    assert_eq!(fixture.holds().await, []);
}

#[tokio::test]
async fn a_wait_cannot_be_negative_though_the_lock_is_free() {
    let fixture = Fixture::start().await;
    let alice = fixture.client().await;
    let wait = LockRequest { wait_timeout_seconds: Some(-1), ..lock("x") };
    assert_eq!(alice.lock(wait.clone()).await, refused("x", WAIT_TIMEOUT.0, WAIT_TIMEOUT.1));
    let both = LockRequest { lock_timeout_seconds: Some(-1), ..wait.clone() };
    assert_eq!(alice.lock(both).await, refused("x", LOCK_TIMEOUT.0, LOCK_TIMEOUT.1));
    let nameless = LockRequest { name: String::new(), size: Some(0), ..wait };
    assert_eq!(alice.lock(nameless).await, refused("", WAIT_TIMEOUT.0, WAIT_TIMEOUT.1));
}

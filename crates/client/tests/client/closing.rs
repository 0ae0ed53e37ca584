//! The end of a client: what it held and waited for ends with it.

use tenure_client::{Error, Lost};

use crate::fixture::{Host, eventually, holds, queue, sessions, until_free, until_queued, within};

#[tokio::test]
async fn closing_releases_what_is_held_and_ends_what_waits() {
    let host = Host::start().await;
    let (client, api) = (host.client("alice").await, host.api().await);
    let guards = [
        within(client.lock("db")).await.unwrap(),
        within(client.acquire("kept").kept().into_future()).await.unwrap(),
        within(client.acquire("session").until_session_ends().into_future()).await.unwrap(),
    ];
    let waiting = tokio::spawn(client.acquire("db").into_future());
    until_queued(&api, "db", 1).await;
    let other = client.clone();
    within(client.close()).await.unwrap();

    for pool in ["db", "kept", "session"] {
        assert!(holds(&api, pool).await.is_empty(), "{pool}");
    }
    assert!(queue(&api, "db").await.is_empty());
    assert!(sessions(&api).await.is_empty());
    assert!(matches!(within(waiting).await.unwrap(), Err(Error::Closed)));
    for guard in guards {
        assert_eq!(within(guard.lost()).await, Lost::Closed);
        assert!(guard.is_lost());
        within(guard.release()).await.unwrap();
    }
    assert!(matches!(within(other.lock("db")).await, Err(Error::Closed)));
    within(other.close()).await.unwrap();
}

#[tokio::test]
async fn the_session_ends_with_the_last_client_and_guard() {
    let host = Host::start().await;
    let (client, api) = (host.client("alice").await, host.api().await);
    let guard = within(client.acquire("db").until_session_ends().into_future()).await.unwrap();
    drop(client);
    assert_eq!(holds(&api, "db").await.len(), 1, "the guard keeps it");
    assert!(!guard.is_lost());
    drop(guard);
    until_free(&api, "db").await;
    eventually(|| async { sessions(&api).await.is_empty().then_some(()) }).await;
}

#[tokio::test]
async fn a_client_that_cannot_reach_the_server_says_so_when_it_is_closed() {
    let host = Host::start().await;
    let client = host.client("alice").await;
    let guard = within(client.lock("db")).await.unwrap();
    host.kill();
    let error = within(client.close()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert_eq!(within(guard.lost()).await, Lost::Closed);
}

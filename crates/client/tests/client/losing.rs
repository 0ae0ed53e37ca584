//! Guards that are lost, and how they hear of it.

use std::time::{Duration, Instant};

use tenure_client::{Client, Lost, v1};

use crate::fixture::{Host, connect, deadline, holds, until_queued, until_renewed, within};
use crate::proxy::Proxy;

#[tokio::test]
async fn a_forced_release_is_told_with_its_reason() {
    let host = Host::start().await;
    let (client, mut api) = (host.client("alice").await, host.api().await);
    for asked in [client.acquire("db"), client.acquire("db").kept(), client.acquire("db").until_session_ends()] {
        let guard = within(asked.into_future()).await.unwrap();
        let force = v1::ForceReleaseRequest {
            pool: "db".into(),
            holder: "alice".into(),
            token: guard.token(),
            reason: "moving house".into(),
            ..Default::default()
        };
        within(api.force_release(force)).await.unwrap();
        assert_eq!(within(guard.lost()).await, Lost::Forced { note: "moving house".into() });
        assert!(guard.is_lost());
        assert_eq!(within(guard.lost()).await.to_string(), "an operator ended it: moving house");
        let error = within(guard.release()).await.unwrap_err();
        assert_eq!(error.code(), "not_held");
    }
}

#[tokio::test]
async fn the_end_of_the_owner_is_told() {
    let host = Host::start().await;
    let (client, mut api) = (host.client("alice").await, host.api().await);
    let guard = within(client.acquire("db").owner("workflow-1").into_future()).await.unwrap();
    let gone = v1::OwnerGoneRequest { owner: "workflow-1".into(), ..Default::default() };
    within(api.owner_gone(gone)).await.unwrap();
    assert_eq!(within(guard.lost()).await, Lost::OwnerGone);
}

#[tokio::test]
async fn a_release_by_somebody_else_shows_in_the_next_renewal() {
    let host = Host::start().await;
    let (client, mut api) = (host.client("alice").await, host.api().await);
    let guard = within(client.acquire("db").ttl(Duration::from_secs(6)).into_future()).await.unwrap();
    let release = v1::ReleaseRequest { key: guard.grant().key.clone(), ..Default::default() };
    within(api.release(release)).await.unwrap();
    assert_eq!(within(guard.lost()).await, Lost::Released);
}

#[tokio::test]
async fn a_place_in_a_window_expires() {
    let host = Host::start().await;
    let client = host.client("alice").await;
    let asked = client.acquire("rate").size(1).window(Duration::from_millis(50));
    let guard = within(asked.into_future()).await.unwrap();
    assert_eq!(within(guard.lost()).await, Lost::Expired);
}

#[tokio::test]
async fn a_frozen_line_loses_a_lease_before_the_server_does() {
    let host = Host::start().await;
    let api = host.api().await;
    let proxy = Proxy::before(host.address).await;
    let client = connect(&proxy.address.to_string(), "alice").await;
    let guard = within(client.acquire("db").ttl(Duration::from_secs(5)).into_future()).await.unwrap();
    let bob = host.client("bob").await;
    let next = tokio::spawn(async move {
        let _guard = bob.lock("db").await.unwrap();
        Instant::now()
    });
    until_queued(&api, "db", 1).await;
    proxy.freeze();
    assert_eq!(within(guard.lost()).await, Lost::Unreachable);
    let until = deadline(&guard);
    let granted = within(next).await.unwrap();
    assert!(until <= granted, "believed held for {:?} after somebody else had it", until - granted);
}

#[tokio::test]
async fn a_frozen_line_loses_what_lives_with_the_session() {
    let host = Host::start().await;
    let proxy = Proxy::before(host.address).await;
    let builder = Client::builder(proxy.address.to_string()).session_grace(Duration::from_secs(5));
    let client = within(builder.connect()).await.unwrap();
    let guard = within(client.acquire("db").until_session_ends().into_future()).await.unwrap();
    assert!(!guard.is_lost());
    proxy.freeze();
    assert_eq!(within(guard.lost()).await, Lost::Unreachable);
    assert!(guard.deadlines().current().unwrap() <= Instant::now());
    // It may be there all the same, so a guard that is dropped is released as soon as it can be.
    proxy.open();
    drop(guard);
    crate::fixture::until_free(&host.api().await, "db").await;
}

#[tokio::test]
async fn what_lives_with_the_session_is_certain_for_as_long_as_the_line_is_good() {
    let host = Host::start().await;
    let builder = Client::builder(host.address.to_string()).session_grace(Duration::from_secs(6));
    let client = within(builder.connect()).await.unwrap();
    let guard = within(client.acquire("db").until_session_ends().into_future()).await.unwrap();
    for _ in 0..3 {
        until_renewed(&guard, deadline(&guard)).await;
    }
    assert!(!guard.is_lost());
}

#[tokio::test]
async fn what_the_server_has_forgotten_is_lost() {
    let first = Host::start().await;
    let proxy = Proxy::before(first.address).await;
    let client = connect(&proxy.address.to_string(), "alice").await;
    let leased = within(client.lock("leased")).await.unwrap();
    let of_session = within(client.acquire("session").until_session_ends().into_future()).await.unwrap();
    let kept = within(client.acquire("kept").kept().into_future()).await.unwrap();
    let blocker = within(first.client("bob").await.lock("busy")).await.unwrap();
    let waiting = tokio::spawn(client.acquire("busy").into_future());
    until_queued(&first.api().await, "busy", 1).await;

    // A server that kept nothing: its data is gone.
    let second = Host::start().await;
    proxy.lead_to(second.address);
    first.kill();
    assert_eq!(within(of_session.lost()).await, Lost::SessionEnded);
    assert_eq!(within(leased.lost()).await, Lost::Released);
    assert_eq!(within(kept.lost()).await, Lost::Released);
    let granted = within(waiting).await.unwrap().unwrap();
    assert_eq!(holds(&second.api().await, "busy").await[0].token, granted.token(), "asked anew");
    drop(blocker);
}

//! Lines that break and servers that come back: what was held and waited for goes on.

use std::time::Duration;

use tenure_client::{Client, Error, Lost, v1};

use crate::fixture::{
    Host, connect, deadline, holds, queue, sessions, until_free, until_happened, until_queued, until_renewed, within,
};
use crate::proxy::Proxy;

#[tokio::test]
async fn a_cut_line_keeps_holds_and_places() {
    let host = Host::start().await;
    let api = host.api().await;
    let proxy = Proxy::before(host.address).await;
    let (alice, bob) = (connect(&proxy.address.to_string(), "alice").await, host.client("bob").await);
    let leased = within(alice.lock("leased")).await.unwrap();
    let of_session = within(alice.acquire("session").until_session_ends().into_future()).await.unwrap();
    let blocker = within(bob.lock("busy")).await.unwrap();
    let waiting = tokio::spawn(alice.acquire("busy").into_future());
    until_queued(&api, "busy", 1).await;
    let behind = tokio::spawn(bob.acquire("busy").into_future());
    until_queued(&api, "busy", 2).await;

    let before = deadline(&leased);
    for times in 1..=3 {
        proxy.cut();
        until_happened(&api, "busy", v1::EventKind::WaiterBack, times).await;
    }
    until_renewed(&leased, before).await;
    assert!(!leased.is_lost() && !of_session.is_lost());
    assert_eq!(queue(&api, "busy").await.len(), 2);
    within(blocker.release()).await.unwrap();
    let granted = within(waiting).await.unwrap().unwrap();
    assert_eq!(holds(&api, "busy").await[0].holder, "alice", "the place was kept");
    within(granted.release()).await.unwrap();
    drop(within(behind).await.unwrap().unwrap());
    within(leased.release()).await.unwrap();
    within(of_session.release()).await.unwrap();
    assert_eq!(sessions(&api).await.len(), 2, "the session was resumed");
}

#[tokio::test]
async fn a_killed_server_keeps_holds_and_places() {
    restarted(|host| async { host.kill() }).await;
}

#[tokio::test]
async fn a_stopped_server_keeps_holds_and_places() {
    restarted(Host::stop).await;
}

async fn restarted<F: Future<Output = ()>>(end: impl FnOnce(Host) -> F) {
    let folder = tempfile::tempdir().unwrap();
    let first = Host::on(folder.path()).await;
    let proxy = Proxy::before(first.address).await;
    let client = connect(&proxy.address.to_string(), "alice").await;
    let leased = within(client.lock("leased")).await.unwrap();
    let of_session = within(client.acquire("session").until_session_ends().into_future()).await.unwrap();
    let blocker = within(client.lock("busy")).await.unwrap();
    let waiting = tokio::spawn(client.acquire("busy").into_future());
    until_queued(&first.api().await, "busy", 1).await;

    let before = deadline(&leased);
    proxy.close();
    end(first).await;
    let second = Host::on(folder.path()).await;
    proxy.lead_to(second.address);
    proxy.open();
    let api = second.api().await;
    until_renewed(&leased, before).await;
    until_happened(&api, "busy", v1::EventKind::WaiterBack, 1).await;
    assert!(!of_session.is_lost());
    assert_eq!(holds(&api, "session").await[0].token, of_session.token());
    within(blocker.release()).await.unwrap();
    let granted = within(waiting).await.unwrap().unwrap();
    within(granted.release()).await.unwrap();
    within(leased.release()).await.unwrap();
}

#[tokio::test]
async fn what_is_let_go_while_the_line_is_down_is_let_go_later() {
    let host = Host::start().await;
    let api = host.api().await;
    let proxy = Proxy::before(host.address).await;
    let client = connect(&proxy.address.to_string(), "alice").await;
    let (dropped, released) = (within(client.lock("a")).await.unwrap(), within(client.lock("b")).await.unwrap());
    let blocker = within(client.acquire("c").kept().into_future()).await.unwrap();
    let waiting = tokio::spawn(client.acquire("c").into_future());
    until_queued(&api, "c", 1).await;

    proxy.close();
    drop(dropped);
    waiting.abort();
    let releasing = tokio::spawn(released.release());
    proxy.open();
    within(releasing).await.unwrap().unwrap();
    until_free(&api, "a").await;
    until_queued(&api, "c", 0).await;
    drop(blocker);
}

#[tokio::test]
async fn a_wait_that_ends_while_the_line_is_down_says_so() {
    let host = Host::start().await;
    let proxy = Proxy::before(host.address).await;
    let client = connect(&proxy.address.to_string(), "alice").await;
    let _blocker = within(client.lock("db")).await.unwrap();
    let waiting = tokio::spawn(client.acquire("db").wait(Duration::from_secs(5)).into_future());
    until_queued(&host.api().await, "db", 1).await;
    proxy.close();
    let error = within(waiting).await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::Unreachable { .. }) && error.may_have_happened(), "{error:?}");
    assert!(error.to_string().contains(&proxy.address.to_string()), "{error}");
}

#[tokio::test]
async fn a_wait_without_end_outlasts_a_server_that_is_away() {
    let host = Host::start().await;
    let api = host.api().await;
    let proxy = Proxy::before(host.address).await;
    let client = connect(&proxy.address.to_string(), "alice").await;
    proxy.close();
    let waiting = tokio::spawn(client.acquire("db").into_future());
    let deadline = client.acquire("other").wait(Duration::from_millis(200));
    within(deadline.into_future()).await.unwrap_err();
    assert!(!waiting.is_finished());
    proxy.open();
    let guard = within(waiting).await.unwrap().unwrap();
    assert_eq!(holds(&api, "db").await[0].token, guard.token());
}

#[tokio::test]
async fn a_session_that_expires_while_the_line_is_down_is_replaced() {
    let host = Host::start().await;
    let api = host.api().await;
    let proxy = Proxy::before(host.address).await;
    let builder = Client::builder(proxy.address.to_string()).session_grace(Duration::from_secs(5)).holder("alice");
    let client = within(builder.connect()).await.unwrap();
    let leased = within(client.lock("leased")).await.unwrap();
    let of_session = within(client.acquire("session").until_session_ends().into_future()).await.unwrap();
    let bob = host.client("bob").await;
    let blocker = within(bob.lock("busy")).await.unwrap();
    let waiting = tokio::spawn(client.acquire("busy").into_future());
    until_queued(&api, "busy", 1).await;

    let before = deadline(&leased);
    assert!(!of_session.is_lost());
    proxy.close();
    assert_eq!(within(of_session.lost()).await, Lost::Unreachable);
    until_queued(&api, "busy", 0).await;
    until_free(&api, "session").await;
    proxy.open();
    until_queued(&api, "busy", 1).await;
    until_renewed(&leased, before).await;
    assert!(!leased.is_lost(), "a lease does not depend on the session");
    within(blocker.release()).await.unwrap();
    drop(within(waiting).await.unwrap().unwrap());
    assert!(of_session.is_lost());
}

#[tokio::test]
async fn a_frozen_line_is_noticed_and_left() {
    let host = Host::start().await;
    let proxy = Proxy::before(host.address).await;
    let client = connect(&proxy.address.to_string(), "alice").await;
    let of_session = within(client.acquire("session").until_session_ends().into_future()).await.unwrap();
    // A short lease makes the client look after the line closely.
    let leased = within(client.acquire("db").ttl(Duration::from_secs(9)).into_future()).await.unwrap();
    let before = deadline(&leased);
    proxy.freeze_what_is_there();
    drop(within(client.lock("other")).await.unwrap());
    until_renewed(&leased, before).await;
    assert!(!leased.is_lost() && !of_session.is_lost());
    // What was under way on the old line arrives now, and disturbs nobody.
    proxy.open();
    drop(within(client.lock("other")).await.unwrap());
    within(leased.release()).await.unwrap();
    within(of_session.release()).await.unwrap();
    assert_eq!(sessions(&host.api().await).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_breaks_all_the_time_still_takes_turns() {
    let host = Host::start().await;
    let proxy = Proxy::before(host.address).await;
    let client = connect(&proxy.address.to_string(), "alice").await;
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let tasks: Vec<_> = (0..60)
        .map(|_| {
            let (client, inside) = (client.clone(), inside.clone());
            tokio::spawn(async move {
                let guard = client.acquire("db").await.unwrap();
                assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0, "alone");
                tokio::time::sleep(Duration::from_millis(5)).await;
                assert!(!guard.is_lost());
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                guard.release().await.unwrap();
            })
        })
        .collect();
    let all = async {
        for task in tasks {
            task.await.unwrap();
        }
    };
    let cuts = async {
        loop {
            tokio::time::sleep(Duration::from_millis(120)).await;
            proxy.cut();
        }
    };
    within(async {
        tokio::select! { () = all => {}, () = cuts => {} }
    })
    .await;
    until_free(&host.api().await, "db").await;
}

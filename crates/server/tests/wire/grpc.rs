//! Unary gRPC calls.

use tenure_proto::v1;
use tonic::Code;

use crate::fixture::{Fixture, START_MS, acquire, refusal, waiting};

#[tokio::test]
async fn a_hold_is_granted_renewed_and_released() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;

    let request = v1::AcquireRequest {
        ttl_ms: Some(10_000),
        meta: [("host".to_owned(), "a1".to_owned())].into(),
        ..acquire("db", "alice")
    };
    let grant = client.acquire(request).await.unwrap().into_inner();
    assert_eq!((grant.namespace.as_str(), grant.pool.as_str(), grant.token, grant.units), ("default", "db", 1, 1));
    assert_eq!(grant.lifetime(), v1::Lifetime::Leased);
    assert_eq!((grant.since_ms, grant.deadline_ms), (START_MS, Some(START_MS + 10_000)));

    let holds = client.list_holds(v1::ListHoldsRequest::default()).await.unwrap().into_inner().holds;
    assert_eq!(holds.len(), 1);
    assert_eq!((holds[0].holder.as_str(), holds[0].meta["host"].as_str()), ("alice", "a1"));

    let renew = v1::RenewRequest { key: grant.key.clone(), ttl_ms: Some(60_000), ..v1::RenewRequest::default() };
    let renewed = client.renew(renew).await.unwrap().into_inner();
    assert_eq!(renewed, v1::Renewed { token: 1, ttl_ms: 60_000, deadline_ms: START_MS + 60_000 });

    let release = v1::ReleaseRequest { key: grant.key, ..v1::ReleaseRequest::default() };
    assert_eq!(client.release(release.clone()).await.unwrap().into_inner().token, 1);
    let again = client.release(release).await.unwrap_err();
    assert_eq!((again.code(), refusal(&again).code.as_str()), (Code::FailedPrecondition, "not_held"));
}

#[tokio::test]
async fn a_refusal_says_who_holds_and_what_to_do() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;
    client.acquire(v1::AcquireRequest { ttl_ms: Some(10_000), ..acquire("db", "alice") }).await.unwrap();

    let status = client.acquire(acquire("db", "bob")).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
    let refusal = refusal(&status);
    assert_eq!(refusal.message, status.message());
    assert_eq!((refusal.code.as_str(), refusal.retry, refusal.may_have_happened), ("busy", true, false));
    assert_eq!((refusal.pool.as_deref(), refusal.position, refusal.holders_total), (Some("db"), Some(1), Some(1)));
    assert_eq!((refusal.holders[0].holder.as_str(), refusal.holders[0].token), ("alice", 1));
    assert_eq!(refusal.holders[0].deadline_ms, Some(START_MS + 10_000));
    assert!(!refusal.advice.is_empty());
}

#[tokio::test]
async fn a_waiting_call_is_answered_when_its_turn_comes() {
    let fixture = Fixture::start().await;
    let mut alice = fixture.grpc().await;
    let grant = alice.acquire(acquire("db", "alice")).await.unwrap().into_inner();

    let mut bob = alice.clone();
    let waiting = tokio::spawn(async move { bob.acquire(waiting("db", "bob")).await });
    fixture.until_queued("bob").await;
    let request = v1::ListQueueRequest { pool: "db".into(), ..v1::ListQueueRequest::default() };
    let queue = alice.list_queue(request).await.unwrap().into_inner().waiters;
    assert_eq!((queue[0].holder.as_str(), queue[0].position, queue[0].units), ("bob", Some(1), Some(1)));

    alice.release(v1::ReleaseRequest { key: grant.key, ..v1::ReleaseRequest::default() }).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().into_inner().token, 2);
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_told_apart_from_being_busy() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;
    client.acquire(v1::AcquireRequest { lifetime: v1::Lifetime::Kept.into(), ..acquire("db", "alice") }).await.unwrap();
    let mut bob = client.clone();
    let request = v1::AcquireRequest { wait_ms: Some(5_000), ..acquire("db", "bob") };
    let waiting = tokio::spawn(async move { bob.acquire(request).await });
    fixture.until_queued("bob").await;
    fixture.clock.advance_to(tenure_core::Timestamp::from_millis(START_MS + 5_000));
    fixture.engine.tick().await;
    let status = waiting.await.unwrap().unwrap_err();
    assert_eq!((status.code(), refusal(&status).code.as_str()), (Code::Aborted, "timed_out"));
}

#[tokio::test]
async fn sessions_are_opened_kept_and_ended_by_calls() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;
    let open = v1::OpenSessionRequest { holder: "alice".into(), grace_ms: Some(5_000), ..Default::default() };
    let session = client.open_session(open).await.unwrap().into_inner();
    assert_eq!(session.deadline_ms, Some(START_MS + 5_000));

    let session_key = session.session_key;
    let in_session = v1::AcquireRequest { session_key: Some(session_key.clone()), ..acquire("db", "alice") };
    let grant = client.acquire(in_session).await.unwrap().into_inner();
    assert_eq!((grant.lifetime(), grant.deadline_ms), (v1::Lifetime::Session, None));

    fixture.clock.advance_to(tenure_core::Timestamp::from_millis(START_MS + 3_000));
    let keep = v1::KeepAliveRequest { session_key: session_key.clone(), ..Default::default() };
    assert_eq!(client.keep_alive(keep).await.unwrap().into_inner().deadline_ms, Some(START_MS + 8_000));
    let sessions = client.list_sessions(v1::ListSessionsRequest::default()).await.unwrap().into_inner().sessions;
    assert_eq!((sessions[0].session, sessions[0].holds, sessions[0].attached), (session.session, 1, false));

    let end = v1::EndSessionRequest { session_key, ..Default::default() };
    client.end_session(end.clone()).await.unwrap();
    assert_eq!(client.list_holds(v1::ListHoldsRequest::default()).await.unwrap().into_inner().holds, []);
    let gone = client.end_session(end).await.unwrap_err();
    assert_eq!((gone.code(), refusal(&gone).code.as_str()), (Code::NotFound, "unknown_session"));
}

#[tokio::test]
async fn pools_are_set_shown_and_removed() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;
    let resource = |name: &str, mem: &str| v1::Resource {
        name: name.into(),
        labels: [("mem".to_owned(), mem.to_owned())].into(),
        properties: [("url".to_owned(), format!("ssh://{name}"))].into(),
    };
    let spec = v1::PoolSpec {
        resources: vec![resource("a", "40"), resource("b", "80")],
        named: true,
        placement: v1::Placement::LeastRecentlyUsed.into(),
        order: v1::Order::Backfill.into(),
        ..Default::default()
    };
    let set = v1::SetPoolRequest { pool: "gpus".into(), spec: Some(spec.clone()), ..Default::default() };
    assert!(client.set_pool(set).await.unwrap().into_inner().created);

    let request = v1::AcquireRequest { select: Some("mem >= 80".into()), ..acquire("gpus", "alice") };
    let grant = client.acquire(request).await.unwrap().into_inner();
    assert_eq!((grant.resources[0].name.as_str(), grant.resources[0].properties["url"].as_str()), ("b", "ssh://b"));

    let quarantine = v1::SetConditionRequest {
        pool: "gpus".into(),
        resource: Some("a".into()),
        condition: Some(v1::Condition {
            state: v1::ConditionState::Quarantined.into(),
            note: Some("fan is loud".into()),
        }),
        ..Default::default()
    };
    client.set_condition(quarantine).await.unwrap();
    let get = v1::GetPoolRequest { pool: "gpus".into(), ..Default::default() };
    let detail = client.get_pool(get).await.unwrap().into_inner();
    assert_eq!(detail.spec, Some(spec), "what is shown can be set again");
    assert_eq!(detail.resources[0].condition.as_ref().unwrap().note.as_deref(), Some("fan is loud"));
    assert_eq!(detail.resources[1].token, Some(grant.token));

    let remove = v1::RemovePoolRequest { pool: "gpus".into(), ..Default::default() };
    assert_eq!(client.remove_pool(remove).await.unwrap().into_inner().holds_left, 1);
    let force = v1::ForceReleaseRequest {
        pool: "gpus".into(),
        holder: "alice".into(),
        token: grant.token,
        reason: "the pool goes away".into(),
        ..Default::default()
    };
    client.force_release(force).await.unwrap();
    assert_eq!(client.list_pools(v1::ListPoolsRequest::default()).await.unwrap().into_inner().pools, []);
}

#[tokio::test]
async fn listings_come_in_pages() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;
    for name in ["a", "b", "c"] {
        client.acquire(acquire(name, "alice")).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let request = v1::ListPoolsRequest { after, limit: Some(2), ..Default::default() };
        let page = client.list_pools(request).await.unwrap().into_inner();
        seen.extend(page.pools.into_iter().map(|pool| pool.pool));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["a", "b", "c"]);

    let mut waiters = Vec::new();
    for (holder, priority) in [("low", -5), ("high", 7), ("mid", 0)] {
        let mut client = client.clone();
        let request = v1::AcquireRequest { priority, ..waiting("a", holder) };
        waiters.push(tokio::spawn(async move { client.acquire(request).await }));
        fixture.until_queued(holder).await;
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let request = v1::ListQueueRequest { pool: "a".into(), after, limit: Some(1), ..Default::default() };
        let page = client.list_queue(request).await.unwrap().into_inner();
        seen.extend(page.waiters.into_iter().map(|waiter| (waiter.holder, waiter.position)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let expected = [("high", 1), ("mid", 2), ("low", 3)];
    assert_eq!(seen, expected.map(|(holder, position)| (holder.to_owned(), Some(position))));
    waiters.iter().for_each(|waiter| waiter.abort());
}

#[tokio::test]
async fn a_thousand_waiting_calls_on_one_connection_do_not_block_the_release() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;
    let grant = client.acquire(acquire("db", "alice")).await.unwrap().into_inner();
    let mut waiters = tokio::task::JoinSet::new();
    for n in 0..1_000 {
        let mut client = client.clone();
        waiters.spawn(async move {
            let grant = client.acquire(waiting("db", &format!("w{n}"))).await.unwrap().into_inner();
            client.release(v1::ReleaseRequest { key: grant.key, ..Default::default() }).await.unwrap();
        });
    }
    fixture.until_times(1_000, |event| matches!(event, tenure_core::Event::Queued { .. })).await;
    client.release(v1::ReleaseRequest { key: grant.key, ..Default::default() }).await.unwrap();
    let all = async { while waiters.join_next().await.transpose().unwrap().is_some() {} };
    crate::fixture::within(all).await;
}

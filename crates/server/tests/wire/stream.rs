//! The bidirectional stream.

use std::collections::BTreeSet;

use tenure_core::{Command, Event, HoldEnd, Namespace, PoolName, PoolPath, WaitEnd};
use tenure_engine::{Engine, Hosting, MemoryStore, Options, ReplyTo, answers};
use tenure_proto::v1::{self, client_request::Request, server_answer::Answer};
use tokio::sync::{mpsc, watch};
use tonic::Code;

use crate::fixture::{Fixture, acquire, refusal, waiting, within};
use crate::talk::{Talk, in_stream, message};

#[tokio::test]
async fn requests_of_many_tasks_are_answered_by_id() {
    let fixture = Fixture::start().await;
    let (mut alice, opened) = Talk::open(&fixture, "alice").await;
    assert_eq!(opened.deadline_ms, None, "the stream carries it");

    alice.say(1, Request::Acquire(Box::new(in_stream("db"))));
    let grant = alice.hear_granted(1).await;
    assert_eq!(grant.lifetime(), v1::Lifetime::Session);
    alice.say(2, Request::Acquire(Box::new(v1::AcquireRequest { wait_forever: true, ..in_stream("db") })));
    match alice.hear().await {
        (2, Answer::Queued(v1::Queued { position: 1, deadline_ms: None })) => {}
        other => panic!("{other:?}"),
    }
    alice.say(3, Request::Ping(v1::Ping {}));
    assert!(matches!(alice.hear().await, (3, Answer::Pong(_))));
    alice.say(4, Request::Acquire(Box::new(in_stream("db"))));
    assert_eq!(alice.hear_refused(4).await.code, "busy");

    alice.say(5, Request::Release(Box::new(v1::ReleaseRequest { key: grant.key, ..Default::default() })));
    let heard = [alice.hear().await, alice.hear().await];
    assert!(heard.iter().any(|answer| matches!(answer, (5, Answer::Released(_)))), "{heard:?}");
    assert!(heard.iter().any(|answer| matches!(answer, (2, Answer::Granted(_)))), "{heard:?}");
}

/// With an engine that stands still as long as the test wants.
#[tokio::test]
async fn in_a_crowd_a_stream_is_heard_and_gives_back_but_does_not_take_the_room_of_others() {
    const ROOM: usize = 400;
    const OTHERS: usize = ROOM / 2 + 1;
    const ACQUIRES: u64 = 100;
    const UNDER_WAY: usize = 64;
    let (gate, mut is_open) = watch::channel(true);
    let host = move |mut hosting: Hosting| {
        tokio::spawn(async move {
            while is_open.wait_for(|is_open| *is_open).await.is_ok() {
                tokio::select! {
                    biased;
                    changed = is_open.changed() => changed.unwrap(),
                    () = &mut hosting => return,
                }
            }
        });
    };
    let options = Options { mailbox_max: ROOM, host: Some(Box::new(host)), ..Options::default() };
    let fixture = Fixture::with(MemoryStore::new(), options).await;
    let (mut alice, _) = Talk::open(&fixture, "alice").await;
    alice.say(1, Request::Acquire(Box::new(in_stream("first"))));
    let first = alice.hear_granted(1).await;

    gate.send_replace(false);
    let (of_others, _unheard) = answers::channel();
    let admitted = |count: usize| {
        let pool = PoolPath::new(Namespace::default(), PoolName::parse("nobody's").unwrap());
        let reply_to = ReplyTo { id: 0, answers: of_others.clone(), returns: false };
        let command = (Command::RemovePool { pool }, reply_to);
        fixture.engine.submit_all(vec![command; count]).iter().filter(|submitted| submitted.is_ok()).count()
    };
    assert_eq!(admitted(OTHERS), OTHERS);
    let acquires = 2..2 + ACQUIRES;
    for id in acquires.clone() {
        alice.say(id, Request::Acquire(Box::new(in_stream(&format!("lock-{id}")))));
    }
    let (released, ping) = (acquires.end, acquires.end + 1);
    alice.say(released, Request::Release(Box::new(v1::ReleaseRequest { key: first.key, ..Default::default() })));
    alice.say(ping, Request::Ping(v1::Ping {}));
    match alice.hear().await {
        (id, Answer::Pong(_)) if id == ping => {}
        other => panic!("{other:?}"),
    }
    // The release is one of them, or one more if it was read later.
    let left = ROOM - OTHERS - UNDER_WAY;
    let is_left = admitted(ROOM);
    assert!((left - 1..=left).contains(&is_left), "{is_left} places are left, and should be {left}");

    gate.send_replace(true);
    let mut heard = BTreeSet::new();
    while heard.len() as u64 != ACQUIRES + 1 {
        match alice.hear().await {
            (id, Answer::Granted(_)) => assert!(acquires.contains(&id) && heard.insert(id)),
            (id, Answer::Released(_)) => assert!(id == released && heard.insert(id)),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn leases_are_renewed_and_requests_withdrawn_in_the_stream() {
    let fixture = Fixture::start().await;
    let (mut alice, _) = Talk::open(&fixture, "alice").await;
    let leased = v1::AcquireRequest { ttl_ms: Some(1_000), request_id: Some("r1".into()), ..in_stream("db") };
    alice.say(1, Request::Acquire(Box::new(leased.clone())));
    let grant = alice.hear_granted(1).await;
    alice.say(2, Request::Renew(Box::new(v1::RenewRequest { key: grant.key.clone(), ..Default::default() })));
    assert!(matches!(alice.hear().await, (2, Answer::Renewed(v1::Renewed { token: 1, ttl_ms: 1_000, .. }))));
    alice.say(3, Request::Acquire(Box::new(leased.clone())));
    assert_eq!(alice.hear_granted(3).await.key, grant.key, "the same request, the same hold");
    alice.say(4, Request::Withdraw(Box::new(v1::WithdrawRequest { request_id: "r1".into(), ..Default::default() })));
    assert!(matches!(alice.hear().await, (4, Answer::Withdrawn(_))));
    alice.say(5, Request::Acquire(Box::new(leased)));
    assert_eq!(alice.hear_refused(5).await.code, "request_ended");
}

#[tokio::test]
async fn ending_the_session_ends_its_holds_and_the_stream() {
    let fixture = Fixture::start().await;
    let (mut alice, _) = Talk::open(&fixture, "alice").await;
    alice.say(1, Request::Acquire(Box::new(in_stream("db"))));
    alice.hear_granted(1).await;
    alice.say(2, Request::End(v1::EndSession {}));
    assert!(matches!(alice.hear().await, (2, Answer::Ended(_))));
    alice.hear_the_end().await;
    fixture.until(|event| matches!(event, Event::Ended { how: HoldEnd::SessionEnded, .. })).await;
}

#[tokio::test]
async fn a_lost_stream_is_resumed_with_its_holds_and_places() {
    let fixture = Fixture::start().await;
    let mut bob = fixture.grpc().await;
    let other = bob.acquire(acquire("busy", "bob")).await.unwrap().into_inner();

    let (mut alice, opened) = Talk::open(&fixture, "alice").await;
    alice.say(1, Request::Acquire(Box::new(in_stream("db"))));
    let grant = alice.hear_granted(1).await;
    let wait = v1::AcquireRequest { wait_forever: true, request_id: Some("w1".into()), ..in_stream("busy") };
    alice.say(2, Request::Acquire(Box::new(wait.clone())));
    assert!(matches!(alice.hear().await, (2, Answer::Queued(_))));
    alice.say(3, Request::Acquire(Box::new(v1::AcquireRequest { wait_forever: true, ..in_stream("busy") })));
    assert!(matches!(alice.hear().await, (3, Answer::Queued(_))));
    drop(alice);
    fixture.until(|event| matches!(event, Event::SessionDetached { .. })).await;
    fixture.until(|event| matches!(event, Event::WaiterAway { .. })).await;
    // Nobody could ever hear of the grant of the other.
    fixture.until(|event| matches!(event, Event::WaitEnded { how: WaitEnd::CallerGone, .. })).await;

    let resume =
        v1::ResumeSession { session_key: opened.session_key.clone(), holder: "alice".into(), ..Default::default() };
    let mut alice = Talk::start(&fixture, Request::Resume(Box::new(resume))).await;
    match alice.hear().await {
        (0, Answer::Opened(again)) => assert_eq!(again.session, opened.session),
        other => panic!("{other:?}"),
    }
    alice.say(1, Request::Acquire(Box::new(wait)));
    assert!(matches!(alice.hear().await, (1, Answer::Queued(v1::Queued { position: 1, .. }))));
    bob.release(v1::ReleaseRequest { key: other.key, ..Default::default() }).await.unwrap();
    assert_eq!(alice.hear_granted(1).await.pool, "busy");
    alice.say(2, Request::Release(Box::new(v1::ReleaseRequest { key: grant.key, ..Default::default() })));
    assert!(matches!(alice.hear().await, (2, Answer::Released(_))));
}

#[tokio::test]
async fn a_session_that_is_not_resumed_ends_after_its_grace() {
    let fixture = Fixture::start().await;
    let (mut alice, _) = Talk::open(&fixture, "alice").await;
    alice.say(1, Request::Acquire(Box::new(in_stream("db"))));
    alice.hear_granted(1).await;
    drop(alice);
    let detached = fixture.until(|event| matches!(event, Event::SessionDetached { .. })).await;
    let Event::SessionDetached { deadline, .. } = detached.event else { unreachable!() };
    fixture.clock.advance_to(deadline);
    fixture.engine.tick().await;
    fixture.until(|event| matches!(event, Event::Ended { how: HoldEnd::SessionEnded, .. })).await;
}

#[tokio::test]
async fn a_stream_must_begin_with_its_session() {
    let fixture = Fixture::start().await;
    let mut talk = Talk::start(&fixture, Request::Acquire(Box::new(acquire("db", "alice")))).await;
    let refusal = talk.hear_refused(0).await;
    assert_eq!((refusal.code.as_str(), refusal.field.as_deref()), ("invalid_argument", Some("request")));
    talk.hear_the_end().await;

    let resume = v1::ResumeSession { session_key: "00000000-0000-4000-8000-000000000000".into(), ..Default::default() };
    let mut talk = Talk::start(&fixture, Request::Resume(Box::new(resume))).await;
    assert_eq!(talk.hear_refused(0).await.code, "unknown_session");
    talk.hear_the_end().await;
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_and_the_stream_goes_on() {
    let fixture = Fixture::start().await;
    let (mut alice, _) = Talk::open(&fixture, "alice").await;
    alice.say(1, Request::Acquire(Box::new(in_stream(""))));
    let refusal = alice.hear_refused(1).await;
    assert_eq!((refusal.code.as_str(), refusal.field.as_deref()), ("invalid_argument", Some("pool")));
    alice.say(2, Request::Release(Box::new(v1::ReleaseRequest { key: "no key".into(), ..Default::default() })));
    assert_eq!(alice.hear_refused(2).await.field.as_deref(), Some("key"));
    alice.requests.send(message(3, None)).unwrap();
    assert_eq!(alice.hear_refused(3).await.field.as_deref(), Some("request"));
    alice.say(4, Request::Open(Box::new(v1::OpenSessionRequest { holder: "alice".into(), ..Default::default() })));
    assert_eq!(alice.hear_refused(4).await.field.as_deref(), Some("request"));

    alice.say(5, Request::Acquire(Box::new(in_stream("db"))));
    alice.hear_granted(5).await;
    alice.say(6, Request::Acquire(Box::new(v1::AcquireRequest { wait_forever: true, ..in_stream("db") })));
    assert!(matches!(alice.hear().await, (6, Answer::Queued(_))));
    alice.say(6, Request::Acquire(Box::new(in_stream("other"))));
    assert_eq!(alice.hear_refused(6).await.field.as_deref(), Some("id"), "the id belongs to the wait");
}

#[tokio::test]
async fn a_client_that_says_no_more_hears_what_it_asked() {
    let fixture = Fixture::start().await;
    let (mut alice, _) = Talk::open(&fixture, "alice").await;
    for id in 1..=100 {
        alice.say(id, Request::Acquire(Box::new(in_stream(&format!("p{id}")))));
    }
    let (closed, _) = mpsc::unbounded_channel();
    alice.requests = closed;
    for id in 1..=100 {
        alice.hear_granted(id).await;
    }
    alice.hear_the_end().await;
}

#[tokio::test]
async fn more_requests_than_may_be_unanswered_are_all_answered() {
    let fixture = Fixture::start().await;
    let (mut alice, _) = Talk::open(&fixture, "alice").await;
    for id in 1..=10_000 {
        alice.say(id, Request::Acquire(Box::new(in_stream("db"))));
    }
    alice.hear_granted(1).await;
    for id in 2..=10_000 {
        assert_eq!(alice.hear_refused(id).await.code, "busy");
    }
}

#[tokio::test]
async fn a_message_with_too_many_requests_ends_the_stream() {
    let fixture = Fixture::start().await;
    let (mut alice, _) = Talk::open(&fixture, "alice").await;
    let pings = |count| {
        let ping = |id| v1::ClientRequest { id, request: Some(Request::Ping(v1::Ping {})) };
        v1::ClientMessage { requests: (1..=count).map(ping).collect() }
    };
    alice.requests.send(pings(4_096)).unwrap();
    for id in 1..=4_096 {
        assert!(matches!(alice.hear().await, (heard, Answer::Pong(_)) if heard == id));
    }
    alice.requests.send(pings(4_097)).unwrap();
    let status = within(alice.answers.message()).await.unwrap_err();
    assert_eq!((status.code(), refusal(&status).field.as_deref()), (Code::InvalidArgument, Some("requests")));
    fixture.until(|event| matches!(event, Event::SessionDetached { .. })).await;
}

#[test]
fn a_request_takes_little_room_before_it_says_anything() {
    assert!(size_of::<v1::ClientRequest>() <= 24);
}

#[tokio::test]
async fn a_closed_half_is_not_kept_open_by_waits_that_are_queued() {
    let fixture = Fixture::start().await;
    let (mut alice, _) = Talk::open(&fixture, "alice").await;
    alice.say(1, Request::Acquire(Box::new(in_stream("db"))));
    alice.hear_granted(1).await;
    alice.say(2, Request::Acquire(Box::new(waiting("db", "alice"))));
    assert!(matches!(alice.hear().await, (2, Answer::Queued(_))));
    let (closed, _) = mpsc::unbounded_channel();
    alice.requests = closed;
    alice.hear_the_end().await;
}

#[tokio::test]
async fn more_waits_than_may_be_unanswered_leave_room_for_the_release() {
    let fixture = Fixture::start().await;
    let (mut alice, _) = Talk::open(&fixture, "alice").await;
    alice.say(1, Request::Acquire(Box::new(in_stream("db"))));
    let grant = alice.hear_granted(1).await;
    for id in 2..=5_000 {
        alice.say(id, Request::Acquire(Box::new(waiting("db", "alice"))));
        assert!(matches!(alice.hear().await, (_, Answer::Queued(_))));
    }
    alice.say(1, Request::Release(Box::new(v1::ReleaseRequest { key: grant.key, ..Default::default() })));
    let heard = [alice.hear().await, alice.hear().await];
    assert!(heard.iter().any(|answer| matches!(answer, (2, Answer::Granted(_)))), "{heard:?}");
}

#[tokio::test]
async fn a_stopping_server_answers_what_waits_and_ends_the_stream() {
    let fixture = Fixture::start().await;
    let (mut alice, _) = Talk::open(&fixture, "alice").await;
    alice.say(1, Request::Acquire(Box::new(in_stream("db"))));
    alice.hear_granted(1).await;
    alice.say(2, Request::Acquire(Box::new(waiting("db", "alice"))));
    assert!(matches!(alice.hear().await, (2, Answer::Queued(_))));
    within(fixture.server.stop()).await;
    let refusal = alice.hear_refused(2).await;
    assert_eq!((refusal.code.as_str(), refusal.retry), ("stopping", true));
    alice.hear_the_end().await;
}

#[tokio::test]
async fn many_long_answers_do_not_make_a_message_that_clients_refuse() {
    let fixture = Fixture::start().await;
    let (mut alice, _) = Talk::open(&fixture, "alice").await;
    let meta = (0..16).map(|n| (n.to_string(), "v".repeat(512))).collect();
    let long = v1::AcquireRequest { size: Some(8), meta, ..acquire("db", "alice") };
    for id in 1..=8 {
        alice.say(id, Request::Acquire(Box::new(long.clone())));
        alice.hear_granted(id).await;
    }
    for id in 9..=300 {
        alice.say(id, Request::Acquire(Box::new(in_stream("db"))));
    }
    for id in 9..=300 {
        assert_eq!(alice.hear_refused(id).await.holders.len(), 8);
    }
}

#[tokio::test]
async fn a_stream_whose_session_is_taken_over_is_told_and_ends() {
    let fixture = Fixture::start().await;
    let (mut old, opened) = Talk::open(&fixture, "alice").await;
    let resume = v1::ResumeSession { session_key: opened.session_key, holder: "alice".into(), ..Default::default() };
    let mut new = Talk::start(&fixture, Request::Resume(resume.into())).await;
    assert!(matches!(new.hear().await, (0, Answer::Opened(_))));
    assert_eq!(old.hear_refused(0).await.code, "session_taken_over");
    old.hear_the_end().await;
    new.say(1, Request::Acquire(in_stream("db").into()));
    new.hear_granted(1).await;
}

#[tokio::test]
async fn a_stream_whose_session_is_ended_by_another_call_is_told_and_ends() {
    let fixture = Fixture::start().await;
    let (mut alice, opened) = Talk::open(&fixture, "alice").await;
    alice.say(1, Request::Acquire(in_stream("db").into()));
    alice.hear_granted(1).await;
    let end = v1::EndSessionRequest { session_key: opened.session_key, ..Default::default() };
    fixture.grpc().await.end_session(end).await.unwrap();
    assert_eq!(alice.hear_refused(0).await.code, "unknown_session");
    alice.hear_the_end().await;
}

#[tokio::test]
async fn an_acquire_with_metadata_of_its_own_has_the_holder_of_its_session() {
    let fixture = Fixture::start().await;
    let (mut alice, _) = Talk::open(&fixture, "alice").await;
    let meta = [("job".to_owned(), "7".to_owned())].into();
    alice.say(1, Request::Acquire(v1::AcquireRequest { meta, ..in_stream("db") }.into()));
    alice.hear_granted(1).await;
}

#[tokio::test]
async fn a_resumed_stream_has_the_holder_of_its_session() {
    let fixture = Fixture::start().await;
    let (alice, opened) = Talk::open(&fixture, "alice").await;
    drop(alice);
    let mut alice = Talk::resume(&fixture, &opened).await;
    alice.say(1, Request::Acquire(in_stream("db").into()));
    alice.hear_granted(1).await;
    let holds = fixture.grpc().await.list_holds(v1::ListHoldsRequest::default()).await.unwrap().into_inner().holds;
    assert_eq!(holds[0].holder, "alice");
}

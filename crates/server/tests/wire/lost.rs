//! Streams that hear which holds are lost.

use tenure_core::Timestamp;
use tenure_proto::v1::{self, client_request::Request, server_answer::Answer};

use crate::fixture::{Fixture, refusal, waiting, within};
use crate::talk::{Talk, in_stream};

#[tokio::test]
async fn a_stream_is_told_which_of_its_holds_were_forced_and_why_and_goes_on() {
    let fixture = Fixture::start().await;
    let (mut alice, opened) = Talk::open(&fixture, "alice").await;
    alice.say(1, Request::Acquire(in_stream("db").into()));
    let grant = alice.hear_granted(1).await;
    alice.say(2, Request::Acquire(waiting("db", "alice").into()));
    assert!(matches!(alice.hear().await, (2, Answer::Queued(_))));
    force_release(&fixture, &grant, "a drill").await;
    let lost = alice.hear_lost().await;
    assert_eq!((lost.token, lost.how(), lost.note.as_deref()), (grant.token, v1::How::Forced, Some("a drill")));
    let next = alice.hear_granted(2).await;
    force_release(&fixture, &next, "another").await;
    assert_eq!(alice.hear_lost().await.note.as_deref(), Some("another"), "as often as it happens");
    alice.say(0, Request::Acquire(in_stream("db").into()));
    assert_eq!(alice.hear_refused(0).await.field.as_deref(), Some("id"), "the id still belongs to the session");
    alice.say(3, Request::Ping(v1::Ping {}));
    assert!(matches!(alice.hear().await, (3, Answer::Pong(_))));

    let history = v1::HistoryRequest { pool: Some("db".into()), ..Default::default() };
    let events = fixture.grpc().await.history(history).await.unwrap().into_inner().events;
    let ended: Vec<_> = events.iter().filter(|event| event.kind() == v1::EventKind::Ended).collect();
    assert_eq!(ended.iter().map(|event| event.session).collect::<Vec<_>>(), [Some(opened.session); 2]);
}

#[tokio::test]
async fn a_stream_is_told_of_a_lease_that_ran_out_but_not_of_what_was_released() {
    let fixture = Fixture::start().await;
    let (mut alice, _) = Talk::open(&fixture, "alice").await;
    let leased = v1::AcquireRequest { ttl_ms: Some(1_000), ..in_stream("released") };
    alice.say(1, Request::Acquire(leased.clone().into()));
    let released = alice.hear_granted(1).await;
    alice.say(2, Request::Acquire(v1::AcquireRequest { pool: "expired".into(), ..leased }.into()));
    let expired = alice.hear_granted(2).await;
    alice.say(3, Request::Release(v1::ReleaseRequest { key: released.key, ..Default::default() }.into()));
    assert!(matches!(alice.hear().await, (3, Answer::Released(_))));
    fixture.clock.advance_to(Timestamp::from_millis(expired.deadline_ms.unwrap()));
    fixture.engine.tick().await;
    let lost = alice.hear_lost().await;
    assert_eq!((lost.token, lost.how(), lost.note), (expired.token, v1::How::Expired, None));
}

#[tokio::test]
async fn only_the_newest_stream_of_a_session_is_told_what_is_lost() {
    let fixture = Fixture::start().await;
    let (mut old, opened) = Talk::open(&fixture, "alice").await;
    old.say(1, Request::Acquire(in_stream("db").into()));
    let grant = old.hear_granted(1).await;
    let mut new = Talk::resume(&fixture, &opened).await;
    force_release(&fixture, &grant, "a drill").await;
    assert_eq!(new.hear_lost().await.token, grant.token);
    assert_eq!(old.hear_refused(0).await.code, "session_taken_over");
    old.hear_the_end().await;
}

#[tokio::test]
async fn a_hold_that_was_adopted_while_its_stream_was_lost_is_told_of_as_any_lease_of_the_session() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;
    let (mut alice, opened) = Talk::open(&fixture, "alice").await;
    alice.say(1, Request::Acquire(in_stream("db").into()));
    let grant = alice.hear_granted(1).await;
    let mut watched =
        client.watch(v1::WatchRequest { after: Some(0), ..Default::default() }).await.unwrap().into_inner();
    drop(alice);
    while within(watched.message()).await.unwrap().unwrap().event.unwrap().kind() != v1::EventKind::SessionDetached {}

    let renew = v1::RenewRequest { key: grant.key, ..Default::default() };
    let told = refusal(&client.renew(renew.clone()).await.unwrap_err());
    assert_eq!((told.code.as_str(), told.token), ("not_renewable", Some(grant.token)));
    assert!(told.advice.contains("how long"), "{}", told.advice);
    let renew = v1::RenewRequest { ttl_ms: Some(1_000), ..renew };
    let renewed = client.renew(renew).await.unwrap().into_inner();
    let event = within(watched.message()).await.unwrap().unwrap().event.unwrap();
    assert_eq!((event.kind(), event.session), (v1::EventKind::Renewed, Some(opened.session)));

    let mut alice = Talk::resume(&fixture, &opened).await;
    fixture.clock.advance_to(Timestamp::from_millis(renewed.deadline_ms));
    fixture.engine.tick().await;
    let lost = alice.hear_lost().await;
    assert_eq!((lost.token, lost.how()), (grant.token, v1::How::Expired));
}

async fn force_release(fixture: &Fixture, grant: &v1::Grant, reason: &str) {
    let force = v1::ForceReleaseRequest {
        pool: grant.pool.clone(),
        holder: "alice".into(),
        token: grant.token,
        reason: reason.into(),
        ..Default::default()
    };
    fixture.grpc().await.force_release(force).await.unwrap();
}

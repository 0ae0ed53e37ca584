//! What a session says and does, with a server that is written out and a clock that is told.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use tenure_proto::v1::{self, client_request::Request as Wire, server_answer::Answer};
use tokio::sync::{oneshot, watch};

use super::*;

const SECOND: Duration = Duration::from_secs(1);
/// What the server's clock says at the start.
const START_MS: u64 = 1_000_000;

/// A session, and the other side of its connection.
struct Scene {
    session: Session,
    start: Instant,
    now: Instant,
    opening: u64,
    /// As the server says it.
    grace: Duration,
}

/// An acquire's end in the application.
struct Asked {
    id: u64,
    answer: oneshot::Receiver<Result<Granted, Error>>,
    _progress: watch::Receiver<Option<v1::Queued>>,
}

impl Asked {
    fn granted(&mut self) -> Granted {
        self.answer.try_recv().unwrap().unwrap()
    }

    fn error(&mut self) -> Error {
        self.answer.try_recv().unwrap().unwrap_err()
    }

    fn waits(&mut self) -> bool {
        self.answer.try_recv() == Err(oneshot::error::TryRecvError::Empty)
    }
}

impl PartialEq for Granted {
    fn eq(&self, other: &Self) -> bool {
        self.hold == other.hold
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.code() == other.code()
    }
}

impl Scene {
    fn new() -> Self {
        let identity = Identity {
            address: "server:1".into(),
            holder: "alice".into(),
            meta: BTreeMap::new(),
            namespace: String::new(),
            grace: 30 * SECOND,
            connect_timeout: 5 * SECOND,
        };
        let start = Instant::now();
        let session = Session::new(identity, Arc::new(AtomicU64::new(1)), oneshot::channel().0);
        let mut scene = Self { session, start, now: start, opening: 0, grace: 30 * SECOND };
        let Wire::Open(open) = scene.connect() else { panic!("a first connection opens a session") };
        assert_eq!((open.holder.as_str(), open.grace_ms), ("alice", Some(30_000)));
        scene.opened();
        let first = &scene.session.requests[scene.session.urgent.front().unwrap()];
        assert!(matches!(first.what, What::Ping), "the server's time is known before anything is granted");
        assert!(scene.said().is_empty());
        scene
    }

    /// Gives what the new connection begins with.
    fn connect(&mut self) -> Wire {
        let mut first = self.session.connecting(self.now).requests;
        self.opening = first[0].id;
        first.remove(0).request.unwrap()
    }

    fn opened(&mut self) {
        let grace_ms = millis(self.grace);
        let opened = v1::SessionOpened { session: 1, session_key: "secret".into(), grace_ms, deadline_ms: None };
        self.answer(self.opening, Answer::Opened(opened)).unwrap();
    }

    fn disconnect(&mut self) {
        let error = Error::Unreachable { address: "server:1".into(), why: "cut".into() };
        self.session.disconnected(self.now, error);
    }

    fn reconnect(&mut self) {
        self.disconnect();
        assert!(matches!(self.connect(), Wire::Resume(resume) if resume.session_key == "secret"));
        self.opened();
    }

    fn answer(&mut self, id: u64, answer: Answer) -> Result<(), Broken> {
        let answers = vec![v1::ServerAnswer { id, answer: Some(answer) }];
        self.session.hear(self.now, v1::ServerMessage { answers })
    }

    fn refuse(&mut self, id: u64, code: &str) -> Result<(), Broken> {
        let refusal = v1::Refusal { code: code.into(), ..v1::Refusal::default() };
        self.answer(id, Answer::Refused(Box::new(refusal)))
    }

    /// Everything that is to be said, pings answered and left out.
    fn said(&mut self) -> Vec<(u64, Wire)> {
        let mut said = Vec::new();
        while let Some(message) = self.session.say(self.now) {
            assert!(message.requests.len() <= REQUESTS_PER_MESSAGE_MAX);
            said.extend(message.requests.into_iter().map(|it| (it.id, it.request.unwrap())));
        }
        let pings: Vec<_> = said.iter().filter(|(_, it)| matches!(it, Wire::Ping(_))).map(|(id, _)| *id).collect();
        for id in pings {
            let at_ms = START_MS + millis(self.now - self.start);
            self.answer(id, Answer::Pong(v1::Pong { at_ms })).unwrap();
        }
        said.retain(|(_, it)| !matches!(it, Wire::Ping(_)));
        said
    }

    fn says_one(&mut self) -> (u64, Wire) {
        let mut said = self.said();
        assert_eq!(said.len(), 1, "{said:?}");
        said.remove(0)
    }

    /// Lets time pass, stopping wherever something is due, with a server that answers pings.
    fn pass(&mut self, duration: Duration) -> Vec<(u64, Wire)> {
        let end = self.now + duration;
        let mut said = Vec::new();
        while let Some(due) = self.session.next_due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.session.tick(self.now).unwrap();
            said.extend(self.said());
        }
        self.now = end;
        said
    }

    fn ask(&mut self, patience: Patience) -> Asked {
        let request = v1::AcquireRequest {
            pool: "db".into(),
            request_id: Some(crate::random_id()),
            ttl_ms: Some(30_000),
            wait_ms: match patience {
                Patience::Until(end) => Some(millis(end - self.now)),
                _ => None,
            },
            wait_forever: patience == Patience::Endless,
            ..v1::AcquireRequest::default()
        };
        self.ask_for(request, patience)
    }

    fn ask_for(&mut self, request: v1::AcquireRequest, patience: Patience) -> Asked {
        let (sender, answer) = oneshot::channel();
        let (progress, _progress) = watch::channel(None);
        let id = self.session.next_id();
        let ask = Ask { id, request: Box::new(request), own_id: true, patience, answer: sender, progress };
        self.session.ask(self.now, ask);
        Asked { id, answer, _progress }
    }

    fn grant(&self, token: u64, lifetime: v1::Lifetime) -> v1::Grant {
        let ttl_ms = (lifetime == v1::Lifetime::Leased).then_some(30_000);
        let now_ms = START_MS + millis(self.now - self.start);
        v1::Grant {
            pool: "db".into(),
            token,
            key: format!("key-{token}"),
            lifetime: lifetime.into(),
            ttl_ms,
            deadline_ms: ttl_ms.map(|ttl| now_ms + ttl),
            ..v1::Grant::default()
        }
    }

    fn hold(&mut self, token: u64, lifetime: v1::Lifetime) -> Granted {
        let mut asked = self.ask(Patience::None);
        let (id, _) = self.says_one();
        self.answer(id, Answer::Granted(self.grant(token, lifetime))).unwrap();
        asked.granted()
    }

    fn release(&mut self, hold: HoldId) -> oneshot::Receiver<Result<(), Error>> {
        let (answer, released) = oneshot::channel();
        self.session.note(self.now, Note::Release { hold, answer: Some(answer) });
        released
    }
}

/// Without the wall clock: what the session itself has decided.
fn lost(granted: &Granted) -> Option<Lost> {
    granted.standing.borrow().lost_for_good()
}

fn until(granted: &Granted) -> Instant {
    granted.standing.borrow().until.unwrap()
}

#[test]
fn a_try_is_given_up_when_nobody_answers() {
    let mut scene = Scene::new();
    scene.disconnect();
    let mut asked = scene.ask(Patience::None);
    scene.pass(CALL_PATIENCE - SECOND);
    assert!(asked.waits());
    scene.pass(SECOND);
    assert_eq!(asked.error().code(), "unreachable");
    scene.connect();
    scene.opened();
    assert!(scene.said().is_empty(), "what was never said need not be withdrawn");
}

#[test]
fn a_try_that_was_said_is_withdrawn_when_it_is_given_up() {
    let mut scene = Scene::new();
    let mut asked = scene.ask(Patience::None);
    let (_, Wire::Acquire(acquire)) = scene.says_one() else { panic!() };
    let said = scene.pass(CALL_PATIENCE);
    assert_eq!(asked.error().code(), "unreachable");
    let [(_, Wire::Withdraw(withdraw))] = &said[..] else { panic!("{said:?}") };
    assert_eq!(Some(&withdraw.request_id), acquire.request_id.as_ref());
}

#[test]
fn the_server_says_when_a_wait_is_over_unless_it_cannot() {
    let mut scene = Scene::new();
    let end = scene.now + 5 * SECOND;
    let (mut one, mut other) = (scene.ask(Patience::Until(end)), scene.ask(Patience::Until(end)));
    let said = scene.said();
    for (id, _) in &said {
        scene.answer(*id, Answer::Queued(v1::Queued { position: 1, deadline_ms: None })).unwrap();
    }
    scene.pass(6 * SECOND);
    assert!(one.waits() && other.waits(), "the answer, with who holds it, may be on its way");
    scene.refuse(said[0].0, "timed_out").unwrap();
    assert_eq!(one.error().code(), "timed_out");
    scene.disconnect();
    assert_eq!(other.error().code(), "unreachable");
}

#[test]
fn a_server_that_does_not_say_that_a_wait_is_over_is_not_waited_for_long() {
    let mut scene = Scene::new();
    let mut asked = scene.ask(Patience::Until(scene.now + 5 * SECOND));
    let (id, _) = scene.says_one();
    scene.answer(id, Answer::Queued(v1::Queued { position: 1, deadline_ms: None })).unwrap();
    scene.pass(6 * SECOND);
    assert!(asked.waits());
    let said = scene.pass(SECOND);
    assert_eq!(asked.error().code(), "unreachable");
    assert!(matches!(said[..], [(_, Wire::Withdraw(_))]), "{said:?}");
}

#[test]
fn a_wait_that_ends_without_a_connection_says_so() {
    let mut scene = Scene::new();
    let mut asked = scene.ask(Patience::Until(scene.now + 5 * SECOND));
    scene.says_one();
    scene.disconnect();
    scene.pass(4 * SECOND);
    assert!(asked.waits());
    scene.pass(SECOND);
    assert_eq!(asked.error().code(), "unreachable");
}

#[test]
fn what_was_not_answered_is_said_again_with_the_same_ids_and_what_is_left() {
    let mut scene = Scene::new();
    let held = scene.hold(1, v1::Lifetime::Kept);
    let _forever = scene.ask(Patience::Endless);
    let _a_while = scene.ask(Patience::Until(scene.now + 20 * SECOND));
    let _released = scene.release(held.hold);
    let before = scene.said();
    scene.disconnect();
    scene.pass(8 * SECOND);
    scene.connect();
    scene.opened();
    let after = scene.said();
    assert_eq!(after.len(), 3);
    for (id, request) in &before {
        let again = &after.iter().find(|(other, _)| other == id).expect("it is said again").1;
        match (request, again) {
            (Wire::Acquire(before), Wire::Acquire(again)) => {
                assert_eq!(again.request_id, before.request_id);
                assert_eq!(again.wait_ms, before.wait_ms.map(|wait| wait - 8_000));
            }
            _ => assert_eq!(request, again),
        }
    }
}

#[test]
fn a_release_that_finds_nothing_is_done_only_if_it_may_have_been_itself() {
    let mut scene = Scene::new();
    let (one, other) = (scene.hold(1, v1::Lifetime::Kept), scene.hold(2, v1::Lifetime::Kept));
    let mut released = scene.release(one.hold);
    let (id, _) = scene.says_one();
    scene.refuse(id, "not_held").unwrap();
    assert_eq!(released.try_recv().unwrap().unwrap_err().code(), "not_held");

    let mut released = scene.release(other.hold);
    let (id, _) = scene.says_one();
    scene.reconnect();
    assert_eq!(scene.says_one().0, id);
    scene.refuse(id, "not_held").unwrap();
    released.try_recv().unwrap().unwrap();
}

#[test]
fn a_release_that_was_certainly_not_done_before_is_not_taken_for_done() {
    for (first, then) in [("overloaded", Some("not_held")), ("stopping", Some("not_held")), ("lost", None)] {
        let mut scene = Scene::new();
        let held = scene.hold(1, v1::Lifetime::Kept);
        let mut released = scene.release(held.hold);
        let (id, _) = scene.says_one();
        scene.refuse(id, first).unwrap();
        let said = scene.pass(3 * SECOND);
        assert!(matches!(said[..], [(again, Wire::Release(_))] if again == id), "{said:?}");
        scene.refuse(id, "not_held").unwrap();
        let error = released.try_recv().unwrap().err();
        assert_eq!(error.as_ref().map(Error::code), then, "after `{first}`");
    }
}

#[test]
fn whoever_watches_a_guard_that_is_let_go_hears_just_that() {
    let mut scene = Scene::new();
    let [released, dropped, kept, forced] = [1, 2, 3, 4].map(|token| scene.hold(token, v1::Lifetime::Leased));
    let _released = scene.release(released.hold);
    scene.session.note(scene.now, Note::Release { hold: dropped.hold, answer: None });
    scene.session.note(scene.now, Note::Keep { hold: kept.hold });
    let how = v1::How::Forced.into();
    let gone = v1::HoldLost { token: 4, how, note: Some("moved".into()) };
    scene.answer(scene.opening, Answer::Lost(gone)).unwrap();
    let _forced = scene.release(forced.hold);
    for held in [&released, &dropped, &kept] {
        assert_eq!(lost(held), Some(Lost::LetGo));
    }
    assert_eq!(lost(&forced), Some(Lost::Forced { note: "moved".into() }), "what came first");
    assert_eq!(scene.said().len(), 2, "what is kept is not released");
}

#[test]
fn a_release_goes_on_when_nobody_waits_for_it_any_more() {
    let mut scene = Scene::new();
    let held = scene.hold(1, v1::Lifetime::Kept);
    scene.disconnect();
    let mut released = scene.release(held.hold);
    scene.pass(CALL_PATIENCE + SECOND);
    assert_eq!(released.try_recv().unwrap().unwrap_err().code(), "unreachable");
    scene.connect();
    scene.opened();
    assert!(matches!(scene.says_one(), (_, Wire::Release(release)) if release.key == "key-1"));
}

#[test]
fn a_grant_that_finds_nobody_is_released() {
    let mut scene = Scene::new();
    let asked = scene.ask(Patience::Endless);
    let (id, _) = scene.says_one();
    drop(asked.answer);
    scene.answer(id, Answer::Granted(scene.grant(1, v1::Lifetime::Leased))).unwrap();
    assert!(matches!(scene.says_one(), (_, Wire::Release(release)) if release.key == "key-1"));
    assert!(scene.session.holds.is_empty());
}

#[test]
fn a_forgotten_acquire_is_withdrawn_if_it_was_said() {
    let mut scene = Scene::new();
    let unsaid = scene.ask(Patience::Endless);
    scene.session.note(scene.now, Note::Forget { id: unsaid.id });
    assert!(scene.said().is_empty());
    let asked = scene.ask(Patience::Endless);
    scene.said();
    scene.session.note(scene.now, Note::Forget { id: asked.id });
    assert!(matches!(scene.says_one(), (_, Wire::Withdraw(_))));
    assert_eq!(scene.session.agenda.len(), 0);
}

#[test]
fn an_overloaded_server_is_asked_again_after_a_pause() {
    let mut scene = Scene::new();
    let mut asked = scene.ask(Patience::Endless);
    for _ in 0..5 {
        let (id, _) = scene.says_one();
        scene.refuse(id, "overloaded").unwrap();
        assert!(scene.said().is_empty() && asked.waits());
        let due = scene.session.requests[&id].retry_at.unwrap();
        assert!(due > scene.now && due <= scene.now + 2 * SECOND);
        scene.now = due;
        scene.session.tick(scene.now).unwrap();
    }
    let (id, _) = scene.says_one();
    scene.answer(id, Answer::Granted(scene.grant(1, v1::Lifetime::Leased))).unwrap();
    asked.granted();
}

#[test]
fn a_lease_is_renewed_at_a_third_and_lost_when_it_cannot_be() {
    let mut scene = Scene::new();
    let granted_at = scene.now;
    let held = scene.hold(1, v1::Lifetime::Leased);
    assert!(until(&held) > granted_at + 29 * SECOND && until(&held) < granted_at + 30 * SECOND);
    assert!(scene.pass(9 * SECOND).is_empty());
    let said = scene.pass(2 * SECOND);
    let [(id, Wire::Renew(renew))] = &said[..] else { panic!("{said:?}") };
    assert_eq!(renew.key, "key-1");
    let said_at = scene.session.requests[id].last_said.unwrap();
    let id = *id;
    scene.answer(id, Answer::Renewed(v1::Renewed { token: 1, ttl_ms: 30_000, deadline_ms: 0 })).unwrap();
    assert_eq!(until(&held), time::certain(said_at, 30 * SECOND), "from before it was said, not from the answer");

    // The server has no time for the next one.
    let said = scene.pass(10 * SECOND);
    scene.refuse(said[0].0, "overloaded").unwrap();
    let said = scene.pass(SECOND);
    assert!(matches!(said[..], [(_, Wire::Renew(_))]), "{said:?}");
    // It is not answered.
    scene.pass(until(&held) - scene.now - SECOND);
    assert_eq!(lost(&held), None);
    scene.pass(SECOND);
    assert_eq!(lost(&held), Some(Lost::Unreachable));
    // It may be there all the same.
    scene.session.note(scene.now, Note::Release { hold: held.hold, answer: None });
    assert!(matches!(scene.says_one(), (_, Wire::Release(_))));
}

#[test]
fn a_lease_that_was_waited_for_is_counted_by_the_servers_clock() {
    let mut scene = Scene::new();
    let mut asked = scene.ask(Patience::Endless);
    let (id, _) = scene.says_one();
    scene.answer(id, Answer::Queued(v1::Queued { position: 1, deadline_ms: None })).unwrap();
    scene.pass(600 * SECOND);
    scene.answer(id, Answer::Granted(scene.grant(1, v1::Lifetime::Leased))).unwrap();
    let held = asked.granted();
    assert!(until(&held) <= scene.now + 30 * SECOND);
    assert!(until(&held) > scene.now + 29 * SECOND);
}

#[test]
fn a_grant_that_is_over_when_it_is_heard_of_is_asked_for_anew() {
    let mut scene = Scene::new();
    let mut asked = scene.ask(Patience::Endless);
    let (id, Wire::Acquire(first)) = scene.says_one() else { panic!() };
    let grant = scene.grant(1, v1::Lifetime::Leased);
    scene.disconnect();
    scene.pass(40 * SECOND);
    scene.connect();
    scene.opened();
    scene.said();
    scene.answer(id, Answer::Granted(grant)).unwrap();
    assert!(asked.waits());
    let said = scene.said();
    let [(_, Wire::Withdraw(withdraw)), (again, Wire::Acquire(second))] = &said[..] else { panic!("{said:?}") };
    assert_eq!(Some(&withdraw.request_id), first.request_id.as_ref());
    assert_ne!(first.request_id, second.request_id);
    let again = *again;
    scene.answer(again, Answer::Granted(scene.grant(2, v1::Lifetime::Leased))).unwrap();
    assert_eq!(asked.granted().hold.token, 2);
}

#[test]
fn a_grant_that_was_over_before_it_was_read_is_asked_for_anew() {
    let mut scene = Scene::new();
    let mut asked = scene.ask(Patience::Endless);
    let (id, _) = scene.says_one();
    scene.answer(id, Answer::Queued(v1::Queued { position: 1, deadline_ms: None })).unwrap();
    let grant = scene.grant(1, v1::Lifetime::Leased);
    // The process was paused, or the host was suspended: the connection is as it was.
    scene.now += 40 * SECOND;
    scene.answer(id, Answer::Granted(grant)).unwrap();
    assert!(asked.waits());
    let said = scene.said();
    let [(_, Wire::Withdraw(_)), (again, Wire::Acquire(_))] = &said[..] else { panic!("{said:?}") };
    scene.answer(*again, Answer::Granted(scene.grant(2, v1::Lifetime::Leased))).unwrap();
    let held = asked.granted();
    assert_eq!((held.hold.token, lost(&held)), (2, None));
    assert!(until(&held) > scene.now + 29 * SECOND);
}

#[test]
fn a_lease_too_short_for_the_way_is_not_asked_for_without_end() {
    let leased = |scene: &Scene, token, ttl: u64| {
        let deadline_ms = Some(START_MS + millis(scene.now - scene.start) + ttl);
        v1::Grant { ttl_ms: Some(ttl), deadline_ms, ..scene.grant(token, v1::Lifetime::Leased) }
    };
    // A millisecond is never certain, a tenth of a second might be. A way of a second is too long for both.
    for (ttl, anew) in [(1, 0), (100, 3)] {
        let mut scene = Scene::new();
        let mut asked = scene.ask(Patience::Endless);
        for token in 1..=anew {
            let (id, _) = scene.said().pop().unwrap();
            let grant = leased(&scene, token, ttl);
            scene.now += SECOND;
            scene.answer(id, Answer::Granted(grant)).unwrap();
            assert!(asked.waits(), "{ttl} ms, {token}");
        }
        let (id, _) = scene.said().pop().unwrap();
        let grant = leased(&scene, anew + 1, ttl);
        scene.now += SECOND;
        scene.answer(id, Answer::Granted(grant)).unwrap();
        let held = asked.granted();
        assert!(until(&held) <= scene.now);
        scene.session.tick(scene.now).unwrap();
        assert_eq!(lost(&held), Some(Lost::Unreachable), "it is not handed out as if it were there");
    }
}

#[test]
fn after_a_reconnect_every_hold_is_asked_about() {
    let mut scene = Scene::new();
    let holds = [
        scene.hold(1, v1::Lifetime::Leased),
        scene.hold(2, v1::Lifetime::Session),
        scene.hold(3, v1::Lifetime::Kept),
        scene.hold(4, v1::Lifetime::Kept),
    ];
    scene.reconnect();
    let said = scene.said();
    assert_eq!(said.len(), 4);
    scene.answer(said[0].0, Answer::Renewed(v1::Renewed { token: 1, ttl_ms: 30_000, deadline_ms: 0 })).unwrap();
    scene.refuse(said[1].0, "not_renewable").unwrap();
    scene.refuse(said[2].0, "not_renewable").unwrap();
    scene.refuse(said[3].0, "not_held").unwrap();
    assert_eq!(holds.each_ref().map(lost), [None, None, None, Some(Lost::Released)]);
}

#[test]
fn a_session_that_is_unknown_is_replaced() {
    let mut scene = Scene::new();
    let (leased, of_session) = (scene.hold(1, v1::Lifetime::Leased), scene.hold(2, v1::Lifetime::Session));
    let mut waiting = scene.ask(Patience::Endless);
    let (_, Wire::Acquire(first)) = scene.says_one() else { panic!() };
    scene.disconnect();
    scene.connect();
    scene.refuse(scene.opening, "unknown_session").unwrap_err();
    assert_eq!(lost(&of_session), Some(Lost::SessionEnded));
    scene.disconnect();
    assert!(matches!(scene.connect(), Wire::Open(_)));
    scene.opened();
    let said = scene.said();
    assert!(said.iter().any(|(_, it)| matches!(it, Wire::Renew(renew) if renew.key == "key-1")), "{said:?}");
    assert!(
        said.iter()
            .any(|(_, it)| matches!(it, Wire::Withdraw(it) if Some(&it.request_id) == first.request_id.as_ref()))
    );
    assert!(said.iter().any(|(_, it)| matches!(it, Wire::Acquire(it) if it.request_id != first.request_id)));
    assert!(waiting.waits());
    assert_eq!(lost(&leased), None);
}

#[test]
fn a_session_that_is_taken_over_twice_is_left_to_the_other() {
    let mut scene = Scene::new();
    let held = scene.hold(1, v1::Lifetime::Session);
    scene.refuse(scene.opening, "session_taken_over").unwrap_err();
    scene.reconnect();
    assert_eq!(lost(&held), None, "it was an earlier connection of our own");
    scene.refuse(scene.opening, "session_taken_over").unwrap_err();
    assert_eq!(lost(&held), Some(Lost::SessionEnded));
    scene.disconnect();
    assert!(matches!(scene.connect(), Wire::Open(_)));
}

#[test]
fn a_session_is_certain_for_its_grace_from_the_last_answered_ping() {
    let mut scene = Scene::new();
    let held = scene.hold(1, v1::Lifetime::Session);
    scene.pass(120 * SECOND);
    assert_eq!(lost(&held), None);
    scene.disconnect();
    let end = until(&held);
    assert!(end > scene.now + 24 * SECOND && end <= scene.now + 30 * SECOND);
    scene.pass(end - scene.now);
    assert_eq!(lost(&held), Some(Lost::Unreachable));
}

#[test]
fn a_session_hold_with_a_time_is_renewed_and_certain_no_longer_than_either() {
    let mut scene = Scene::new();
    let mut asked = scene.ask(Patience::None);
    let (id, _) = scene.says_one();
    let grant = v1::Grant { ttl_ms: Some(60_000), ..scene.grant(1, v1::Lifetime::Session) };
    scene.answer(id, Answer::Granted(grant)).unwrap();
    let held = asked.granted();
    assert!(until(&held) <= scene.now + 30 * SECOND, "the session's grace is shorter");
    let said = scene.pass(25 * SECOND);
    let [(id, Wire::Renew(renew))] = &said[..] else { panic!("{said:?}") };
    assert_eq!((renew.key.as_str(), renew.ttl_ms), ("key-1", None));
    scene.answer(*id, Answer::Renewed(v1::Renewed { token: 1, ttl_ms: 12_000, deadline_ms: 0 })).unwrap();
    let end = until(&held);
    assert!(end <= scene.now + 12 * SECOND, "its own time is shorter now");
    let said = scene.pass(end - scene.now - SECOND);
    assert!(matches!(&said[..], [(_, Wire::Renew(_))]), "{said:?}");
    assert_eq!(until(&held), end, "pings alone do not prolong it");
    scene.pass(SECOND);
    assert_eq!(lost(&held), Some(Lost::Unreachable));
}

#[test]
fn a_session_hold_that_somebody_made_a_lease_is_renewed_and_outlives_the_session() {
    let mut scene = Scene::new();
    let held = scene.hold(1, v1::Lifetime::Session);
    scene.reconnect();
    let (id, _) = scene.says_one();
    scene.answer(id, Answer::Renewed(v1::Renewed { token: 1, ttl_ms: 30_000, deadline_ms: 0 })).unwrap();
    let said = scene.pass(15 * SECOND);
    let [(id, Wire::Renew(_))] = &said[..] else { panic!("{said:?}") };
    scene.answer(*id, Answer::Renewed(v1::Renewed { token: 1, ttl_ms: 30_000, deadline_ms: 0 })).unwrap();
    scene.refuse(scene.opening, "unknown_session").unwrap_err();
    assert_eq!(lost(&held), None);
}

#[test]
fn a_silent_connection_is_given_up() {
    let mut scene = Scene::new();
    scene.hold(1, v1::Lifetime::Leased);
    let mut broken = None;
    let begun = scene.now;
    while broken.is_none() {
        scene.now = scene.session.next_due().unwrap();
        // It is said, and nobody answers.
        scene.session.say(scene.now);
        broken = scene.session.tick(scene.now).err();
    }
    assert!(scene.now <= begun + 10 * SECOND, "while two thirds of the lease are left");
}

#[test]
fn a_session_with_a_short_grace_is_certain_for_as_long_as_the_line_is_good() {
    let mut scene = Scene::new();
    scene.grace = SECOND * 3 / 10;
    scene.reconnect();
    let held = scene.hold(1, v1::Lifetime::Session);
    scene.pass(60 * SECOND);
    assert_eq!(lost(&held), None);
    assert!(until(&held) > scene.now && until(&held) <= scene.now + scene.grace);
}

#[test]
fn renewals_are_said_before_acquires_and_acquires_leave_them_room() {
    let mut scene = Scene::new();
    scene.hold(1, v1::Lifetime::Leased);
    let asked: Vec<_> = (0..5_000).map(|_| scene.ask(Patience::Endless)).collect();
    let said = scene.said();
    assert_eq!(said.len(), ASKS_UNANSWERED_MAX);
    let later = scene.pass(11 * SECOND);
    assert!(matches!(later[..], [(_, Wire::Renew(_))]), "{} more are said", later.len());
    for (id, _) in said {
        scene.answer(id, Answer::Queued(v1::Queued { position: 1, deadline_ms: None })).unwrap();
    }
    assert_eq!(scene.said().len(), ASKS_UNANSWERED_MAX - 1);
    drop(asked);
}

#[test]
fn a_message_is_no_larger_than_the_server_takes() {
    let mut scene = Scene::new();
    let meta: BTreeMap<_, _> = (0..16).map(|n| (n.to_string(), "v".repeat(512))).collect();
    let request = v1::AcquireRequest { pool: "p".into(), meta, ..v1::AcquireRequest::default() };
    let _asked: Vec<_> = (0..1_000).map(|_| scene.ask_for(request.clone(), Patience::Endless)).collect();
    let message = scene.session.say(scene.now).unwrap();
    assert!(message.encoded_len() < MESSAGE_BYTES_MAX * 2, "{}", message.encoded_len());
    let huge = v1::AcquireRequest { pool: "p".repeat(100_000), ..v1::AcquireRequest::default() };
    assert_eq!(scene.ask_for(huge, Patience::Endless).error().code(), "invalid_argument");
}

#[test]
fn the_end_is_said_when_everything_else_was_answered() {
    let mut scene = Scene::new();
    let held = scene.hold(1, v1::Lifetime::Kept);
    let mut waiting = scene.ask(Patience::Endless);
    scene.said();
    let (answer, mut closed) = oneshot::channel();
    scene.session.note(scene.now, Note::Close { answer });
    assert_eq!(waiting.error().code(), "closed");
    assert_eq!(lost(&held), Some(Lost::Closed));
    let said = scene.said();
    let [(withdraw, Wire::Withdraw(_)), (release, Wire::Release(_))] = &said[..] else { panic!("{said:?}") };
    scene.answer(*withdraw, Answer::Withdrawn(v1::Withdrawn {})).unwrap();
    assert!(scene.said().is_empty());
    scene.answer(*release, Answer::Released(v1::Released { token: 1 })).unwrap();
    let (end, Wire::End(_)) = scene.says_one() else { panic!() };
    assert!(closed.try_recv().is_err());
    scene.answer(end, Answer::Ended(v1::SessionEnded {})).unwrap();
    closed.try_recv().unwrap().unwrap();
    assert!(scene.session.is_over());
}

#[test]
fn an_end_whose_answer_was_lost_is_an_end() {
    let mut scene = Scene::new();
    let (answer, mut closed) = oneshot::channel();
    scene.session.note(scene.now, Note::Close { answer });
    assert!(matches!(scene.says_one(), (_, Wire::End(_))));
    scene.disconnect();
    scene.connect();
    scene.refuse(scene.opening, "unknown_session").unwrap_err();
    closed.try_recv().unwrap().unwrap();
    assert!(scene.session.is_over());
}

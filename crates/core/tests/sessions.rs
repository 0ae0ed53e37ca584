//! Sessions that outlast what they hold. No front end can ask for one, so scenarios cannot either.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use tenure_core::*;

/// A machine, and a session with a grace of 10 s that a connection carries.
struct Scene {
    machine: Machine,
    session: SessionOpen,
    nonce: u128,
}

impl Scene {
    fn new(outlasts_holds: bool) -> Self {
        let mut machine = Machine::new(Limits::default());
        let open = Command::OpenSession(OpenSession {
            namespace: Namespace::default(),
            holder: Arc::new(Holder::parse("alice", []).unwrap()),
            grace: Ttl::from_millis(10_000),
            attached: true,
            outlasts_holds,
        });
        let Reply::Session(session) = machine.apply(stamp(0, 0), open).reply else { panic!("no session") };
        Self { machine, session, nonce: 1 }
    }

    fn apply(&mut self, second: u64, command: Command) -> Reply {
        while self.machine.next_deadline().is_some_and(|deadline| deadline.as_millis() <= second * 1_000) {
            self.machine.apply(stamp(second, self.nonce), Command::Expire);
        }
        self.nonce += 1;
        self.machine.apply(stamp(second, self.nonce), command).reply
    }

    fn acquire(&mut self, second: u64, name: &str, ttl: Option<u64>) -> Grant {
        let acquire = Command::Acquire(Acquire {
            pool: PoolPath::new(Namespace::default(), PoolName::parse(name).unwrap()),
            demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
            size: None,
            lifetime: Some(Lifetime::Session(ttl.map(seconds))),
            wait: Wait::Try,
            priority: Priority::default(),
            holder: Arc::new(Holder::parse("alice", []).unwrap()),
            session: Some(self.session.key),
            request: None,
            also: Box::default(),
            holds_on: false,
        });
        match self.apply(second, acquire) {
            Reply::Granted(grant) => *grant,
            other => panic!("not granted: {other:?}"),
        }
    }

    fn renew(&mut self, second: u64, hold: &Grant, ttl: u64) {
        let (namespace, key) = (Namespace::default(), hold.key);
        let renew = Command::Renew(Renew { namespace, key, pool: None, ttl: Some(seconds(ttl)) });
        assert!(matches!(self.apply(second, renew), Reply::Renewed { .. }));
    }

    fn detach(&mut self, second: u64) {
        let (session, attachment) = (self.session.id, self.session.attachment);
        self.apply(second, Command::DetachSession { session, attachment });
    }

    fn is_held(&mut self, second: u64, hold: &Grant) -> bool {
        self.apply(second, Command::Expire);
        self.machine.state().hold(hold.token).is_some()
    }

    fn has_session(&self) -> bool {
        self.machine.state().session(self.session.id).is_some()
    }
}

fn stamp(second: u64, nonce: u128) -> Stamp {
    Stamp { at: Timestamp::from_millis(second * 1_000), nonce }
}

fn seconds(seconds: u64) -> Ttl {
    Ttl::from_millis(seconds * 1_000)
}

#[test]
fn a_hold_that_was_renewed_for_longer_than_the_grace_has_all_its_time_after_a_restart() {
    let mut scene = Scene::new(true);
    let hold = scene.acquire(1, "x", Some(3));
    scene.renew(2, &hold, 120);
    scene.apply(5, Command::Restart);
    assert!(scene.is_held(121, &hold));
    assert!(!scene.is_held(122, &hold) && !scene.has_session());
}

#[test]
fn so_it_has_when_the_connection_is_lost() {
    let mut scene = Scene::new(true);
    let hold = scene.acquire(1, "x", Some(120));
    scene.detach(5);
    assert!(scene.is_held(120, &hold));
    assert!(!scene.is_held(121, &hold) && !scene.has_session());
}

#[test]
fn it_has_its_time_however_many_restarts_there_are() {
    let mut scene = Scene::new(true);
    let hold = scene.acquire(1, "x", Some(120));
    for second in [5, 50, 110] {
        scene.apply(second, Command::Restart);
    }
    assert!(scene.is_held(120, &hold));
    assert!(!scene.is_held(121, &hold));
}

#[test]
fn a_session_that_holds_nothing_with_a_time_has_its_grace() {
    let mut scene = Scene::new(true);
    let (over, untimed) = (scene.acquire(1, "over", Some(120)), scene.acquire(1, "untimed", None));
    let release = Release { namespace: Namespace::default(), key: over.key, pool: None };
    scene.apply(2, Command::Release(release));
    scene.apply(5, Command::Restart);
    assert!(scene.is_held(14, &untimed));
    assert!(!scene.is_held(15, &untimed) && !scene.has_session());
}

#[test]
fn asked_to_end_it_waits_for_nothing() {
    let mut scene = Scene::new(true);
    let hold = scene.acquire(1, "x", Some(120));
    scene.apply(5, Command::EndSession { namespace: Namespace::default(), session: scene.session.key });
    assert!(!scene.is_held(5, &hold) && !scene.has_session());
}

#[test]
fn any_other_session_takes_its_holds_with_it_after_its_grace() {
    let mut scene = Scene::new(false);
    let hold = scene.acquire(1, "x", Some(120));
    scene.apply(5, Command::Restart);
    assert!(scene.is_held(14, &hold));
    assert!(!scene.is_held(15, &hold));
}

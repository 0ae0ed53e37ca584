//! What the cases of the contract ask of an engine, and what they expect to hear.

use std::sync::Arc;

use tenure_core::*;

use crate::{Acquiring, Calls, Engine, Failure, ReplyTo, answers};

pub(super) fn request(pool: &str) -> Acquire {
    Acquire {
        pool: PoolPath::new(Namespace::default(), PoolName::parse(pool).expect("a pool name")),
        demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
        size: None,
        lifetime: None,
        wait: Wait::Try,
        priority: Priority::default(),
        holder: Arc::new(Holder::parse("tester", []).expect("a holder")),
        session: None,
        request: None,
        also: Box::default(),
        holds_on: false,
    }
}

pub(super) fn kept(pool: &str) -> Acquire {
    Acquire { lifetime: Some(Lifetime::Kept), ..request(pool) }
}

pub(super) async fn granted(engine: &Arc<dyn Engine>, acquire: Acquire) -> Box<Grant> {
    match engine.acquire(acquire).expect("there is room").settle().await {
        Ok(Reply::Granted(grant)) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

pub(super) async fn queued(engine: &Arc<dyn Engine>, acquire: Acquire, position: usize) -> Acquiring {
    let mut acquiring = engine.acquire(acquire).expect("there is room");
    match acquiring.next().await {
        Ok(Reply::Queued(queued)) => assert_eq!(queued.position, position),
        other => panic!("not queued: {other:?}"),
    }
    acquiring
}

pub(super) async fn settled(acquiring: &mut Acquiring) -> Box<Grant> {
    match acquiring.next().await {
        Ok(Reply::Granted(grant)) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

pub(super) fn release_of(grant: &Grant) -> Command {
    Command::Release(Release { namespace: grant.pool.namespace().clone(), key: grant.key, pool: None })
}

pub(super) async fn release(engine: &Arc<dyn Engine>, grant: &Grant) {
    let released = engine.call(release_of(grant)).await;
    assert_eq!(released, Ok(Reply::Released { token: grant.token }));
}

pub(super) async fn force_release(engine: &Arc<dyn Engine>, grant: &Grant, reason: &str) {
    let force = ForceRelease {
        pool: grant.pool.clone(),
        holder: HolderId::parse("tester").expect("a holder"),
        token: grant.token,
        reason: Note::parse(reason).expect("a note"),
    };
    let released = engine.call(Command::ForceRelease(force)).await;
    assert_eq!(released, Ok(Reply::Released { token: grant.token }));
}

pub(super) fn opening(grace: u64, attached: bool) -> OpenSession {
    OpenSession {
        namespace: Namespace::default(),
        holder: Arc::new(Holder::parse("tester", []).expect("a holder")),
        grace: Ttl::from_millis(grace),
        attached,
        outlasts_holds: false,
    }
}

/// Opens or takes over a session as a connection does that carries it. Gives what it hears from then on, by the id 7.
pub(super) async fn carry(engine: &Arc<dyn Engine>, command: Command) -> (SessionOpen, answers::Receiver) {
    let (answers, mut heard) = answers::channel();
    engine.submit(command, ReplyTo { id: 7, answers, returns: false }).expect("there is room");
    match heard.recv().await.map(|answered| answered.reply) {
        Some(Ok(Reply::Session(open))) => (open, heard),
        other => panic!("no session: {other:?}"),
    }
}

pub(super) async fn open_session(engine: &Arc<dyn Engine>, grace: u64) -> Key {
    match engine.call(Command::OpenSession(opening(grace, false))).await {
        Ok(Reply::Session(session)) => session.key,
        other => panic!("no session: {other:?}"),
    }
}

pub(super) async fn holds(engine: &Arc<dyn Engine>, pool: &str) -> Vec<HoldView> {
    let query = Query::Holds {
        namespace: Namespace::default(),
        pool: PoolName::parse(pool).ok(),
        holder: None,
        after: None,
        limit: PAGE_MAX,
    };
    match engine.query(query).await.expect("the engine runs") {
        Ok(View::Holds(page)) => page.items,
        other => panic!("no holds: {other:?}"),
    }
}

pub(super) fn refusal(reply: Result<Reply, Failure>) -> &'static str {
    match reply {
        Ok(Reply::Refused(refusal)) => refusal.code(),
        other => panic!("not refused: {other:?}"),
    }
}

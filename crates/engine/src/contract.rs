//! What every engine must do, whatever it is made of. An engine's tests run [`run`] with a [`Harness`].
//!
//! The rules themselves are covered by the scenarios, which run on every engine too; this is about what an
//! engine adds: order, durability, callers that come and go.

mod asking;

use std::pin::Pin;
use std::sync::Arc;

use tenure_core::*;

use self::asking::*;
use crate::{Answered, Calls, Engine, EventQuery, Failure, ReplyTo, answers};

/// An engine under test, and the world around it.
pub trait Harness: Send {
    fn engine(&self) -> Arc<dyn Engine>;

    /// Lets this much time pass, and what is due happen.
    fn pass(&mut self, time: Ttl) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Kills the engine without a word and starts it again on what it had made durable.
    fn crash(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Stops the engine in good order and starts it again.
    fn restart(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

type Case = for<'a> fn(&'a mut dyn Harness) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// Every case with its claim.
        pub const CASES: &[(&str, Case)] = &[$((stringify!($name), |harness| Box::pin($name(harness)))),*];
    };
}

cases![
    answers_come_in_the_order_of_the_commands,
    what_was_answered_is_seen_by_whoever_asks_next,
    a_thousand_waiters_are_served_once_each_and_in_order,
    a_lease_that_runs_out_is_given_to_the_waiter,
    a_caller_that_hangs_up_leaves_the_queue,
    a_grant_that_nobody_received_is_taken_back,
    a_request_made_twice_is_one_hold_and_one_caller_hanging_up_does_not_end_it,
    a_caller_within_a_session_that_hangs_up_is_granted_nothing,
    a_caller_whose_connection_is_lost_keeps_its_place_until_nobody_listens_for_it,
    only_so_many_may_listen_for_one_wait,
    whoever_carries_a_session_is_told_which_of_its_holds_are_lost_and_no_others,
    only_the_newest_connection_of_a_session_is_told_what_is_lost,
    what_was_answered_survives_a_crash_with_its_deadline_and_tokens_go_on_rising,
    a_session_gets_its_grace_again_after_a_crash_and_its_waiter_keeps_its_place,
    a_stop_answers_everybody_and_loses_nothing,
    every_event_can_be_read_once_in_order_from_any_point,
    a_refusal_rests_on_what_is_durable,
];

/// Runs every case on an engine of its own.
pub async fn run<H: Harness>(mut fresh: impl AsyncFnMut() -> H) {
    for (claim, case) in CASES {
        eprintln!("contract: {claim}");
        case(&mut fresh().await).await;
    }
}

async fn answers_come_in_the_order_of_the_commands(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let (answers, mut received) = answers::channel();
    for id in 0..500 {
        let command = Command::Acquire(request(&format!("pool-{}", id % 7)));
        engine.submit(command, ReplyTo { id, answers: answers.clone(), returns: false }).expect("there is room");
    }
    for expected in 0..500 {
        let Answered { id, .. } = received.recv().await.expect("every command is answered");
        assert_eq!(id, expected);
    }
}

async fn what_was_answered_is_seen_by_whoever_asks_next(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let grant = granted(&engine, request("db")).await;
    let holds = holds(&engine, "db").await;
    assert_eq!(holds.iter().map(|hold| hold.token).collect::<Vec<_>>(), [grant.token]);
    release(&engine, &grant).await;
    assert_eq!(asking::holds(&engine, "db").await, []);
}

async fn a_thousand_waiters_are_served_once_each_and_in_order(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let mut held = granted(&engine, request("hot")).await;
    let mut waiting = Vec::new();
    for position in 1..=1_000 {
        waiting.push(queued(&engine, Acquire { wait: Wait::Forever, ..request("hot") }, position).await);
    }
    for mut next in waiting {
        release(&engine, &held).await;
        let grant = settled(&mut next).await;
        assert!(grant.token > held.token);
        held = grant;
    }
}

async fn a_lease_that_runs_out_is_given_to_the_waiter(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let lease = Some(Lifetime::Leased(Ttl::from_millis(2_000)));
    let first = granted(&engine, Acquire { lifetime: lease, ..request("db") }).await;
    let mut waiter = queued(&engine, Acquire { wait: Wait::Forever, ..request("db") }, 1).await;
    harness.pass(Ttl::from_millis(2_000)).await;
    let second = settled(&mut waiter).await;
    assert!(second.since >= first.deadline.expect("a lease"), "not before the deadline");
    let late = engine.call(release_of(&first)).await;
    assert_eq!(refusal(late), "not_held");
}

async fn a_caller_that_hangs_up_leaves_the_queue(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let held = granted(&engine, request("db")).await;
    let first = queued(&engine, Acquire { wait: Wait::Forever, ..request("db") }, 1).await;
    let mut second = queued(&engine, Acquire { wait: Wait::Forever, ..request("db") }, 2).await;
    drop(first);
    release(&engine, &held).await;
    settled(&mut second).await;
    assert_eq!(holds(&engine, "db").await.len(), 1);
}

async fn a_grant_that_nobody_received_is_taken_back(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let held = granted(&engine, request("db")).await;
    let waiter = queued(&engine, Acquire { wait: Wait::Forever, ..request("db") }, 1).await;
    release(&engine, &held).await;
    // The grant is on its way to a caller who does not look any more.
    drop(waiter);
    let next = Acquire { wait: Wait::Forever, lifetime: Some(Lifetime::Kept), ..request("db") };
    let next = engine.acquire(next).expect("there is room").settle().await;
    assert!(matches!(next, Ok(Reply::Granted(_))), "{next:?}");

    // One that hung up before its command was even looked at.
    let gone = Acquire { lifetime: Some(Lifetime::Kept), ..request("other") };
    drop(engine.acquire(gone).expect("there is room"));
    let next = Acquire { wait: Wait::Forever, ..request("other") };
    let next = engine.acquire(next).expect("there is room").settle().await;
    assert!(matches!(next, Ok(Reply::Granted(_))), "{next:?}");
}

async fn a_request_made_twice_is_one_hold_and_one_caller_hanging_up_does_not_end_it(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let held = granted(&engine, request("db")).await;
    let again = Acquire { wait: Wait::Forever, request: RequestId::parse("r-1").ok(), ..request("db") };
    let mut first = queued(&engine, again.clone(), 1).await;
    let second = queued(&engine, again.clone(), 1).await;
    release(&engine, &held).await;
    let grant = settled(&mut first).await;
    drop(second);
    let third = granted(&engine, again.clone()).await;
    assert_eq!((third.token, third.key), (grant.token, grant.key));
    drop(engine.acquire(again).expect("there is room"));
    assert_eq!(holds(&engine, "db").await.len(), 1);
    release(&engine, &grant).await;
}

async fn a_caller_within_a_session_that_hangs_up_is_granted_nothing(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let session = Some(open_session(&engine, 60_000).await);
    let in_session = Acquire { session, request: RequestId::parse("r-1").ok(), ..kept("db") };
    drop(engine.acquire(in_session.clone()).expect("there is room"));
    let held = engine.acquire(Acquire { wait: Wait::Forever, ..kept("db") }).expect("there is room").settle().await;
    let Ok(Reply::Granted(held)) = held else { panic!("{held:?}") };
    drop(queued(&engine, Acquire { wait: Wait::Forever, ..in_session }, 1).await);
    release(&engine, &held).await;
    assert_eq!(holds(&engine, "db").await, []);
}

async fn a_caller_whose_connection_is_lost_keeps_its_place_until_nobody_listens_for_it(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let held = granted(&engine, kept("db")).await;
    let session = Some(open_session(&engine, 60_000).await);
    let request = RequestId::parse("r-1").ok();
    let in_session = Acquire { session, request, wait: Wait::Forever, ..kept("db") };
    // Through a connection that is lost while it waits.
    let (answers, mut received) = answers::channel();
    let reply_to = ReplyTo { id: 0, answers, returns: true };
    let ticket = engine.submit(Command::Acquire(in_session.clone()), reply_to).expect("there is room");
    assert!(matches!(received.recv().await.map(|it| it.reply), Some(Ok(Reply::Queued(_)))));
    drop(received);
    engine.hang_up(ticket, None);
    // Passed over, but in its old place when it is asked for again.
    let later = queued(&engine, Acquire { wait: Wait::Forever, ..kept("db") }, 1).await;
    let back = queued(&engine, in_session.clone(), 1).await;
    // That one gives up: nobody listens any more, and nobody is granted it.
    drop(back);
    drop(later);
    release(&engine, &held).await;
    assert_eq!(holds(&engine, "db").await, []);
    assert_eq!(granted(&engine, in_session).await.token.0, held.token.0 + 1);
}

async fn only_so_many_may_listen_for_one_wait(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let held = granted(&engine, request("db")).await;
    let again = Acquire { wait: Wait::Forever, request: RequestId::parse("r-1").ok(), ..request("db") };
    let mut listening = Vec::new();
    let refused = loop {
        let mut acquiring = engine.acquire(again.clone()).expect("there is room");
        match acquiring.next().await {
            Ok(Reply::Queued(_)) => listening.push(acquiring),
            other => break other,
        }
        assert!(listening.len() < 1_000, "there is a bound");
    };
    assert_eq!(refusal(refused), "limit_reached");
    release(&engine, &held).await;
    for mut acquiring in listening {
        settled(&mut acquiring).await;
    }
    assert_eq!(holds(&engine, "db").await.len(), 1);
}

async fn whoever_carries_a_session_is_told_which_of_its_holds_are_lost_and_no_others(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let (open, mut heard) = carry(&engine, Command::OpenSession(opening(60_000, true))).await;
    let mine = |pool: &str, lifetime| Acquire { session: Some(open.key), lifetime, ..request(pool) };
    let owner = OwnerId::parse("workflow-7").expect("an owner");
    let second = Ttl::from_millis(1_000);

    let released = granted(&engine, mine("a", None)).await;
    release(&engine, &released).await;
    let withdrawn = Acquire { request: RequestId::parse("r-1").ok(), ..mine("b", None) };
    granted(&engine, withdrawn).await;
    let request_id = RequestId::parse("r-1").expect("a request id");
    let withdraw = Command::Withdraw { namespace: Namespace::default(), request: request_id };
    engine.call(withdraw).await.expect("it is withdrawn");
    drop(engine.acquire(mine("c", Some(Lifetime::Kept))).expect("there is room"));

    let forced = granted(&engine, mine("d", None)).await;
    force_release(&engine, &forced, "a drill").await;
    let bound = granted(&engine, mine("e", Some(Lifetime::Bound(owner.clone())))).await;
    engine.call(Command::OwnerGone { namespace: Namespace::default(), owner }).await.expect("it is done");
    granted(&engine, mine("rate", Some(Lifetime::Window(second)))).await;
    let expired = granted(&engine, mine("f", Some(Lifetime::Leased(second)))).await;
    harness.pass(second).await;
    granted(&engine, mine("g", None)).await;
    // Holds of nobody's session are nobody's loss.
    let others = granted(&engine, request("h")).await;
    force_release(&engine, &others, "another").await;
    let end = Command::EndSession { namespace: Namespace::default(), session: open.key };
    engine.call(end).await.expect("it ends");

    let note = Note::parse("a drill").expect("a note");
    for expected in
        [(forced.token, HoldEnd::Forced(note)), (bound.token, HoldEnd::OwnerGone), (expired.token, HoldEnd::Expired)]
    {
        match heard.recv().await {
            Some(Answered { id: 7, reply: Ok(Reply::Lost(lost)) }) => {
                assert_eq!((lost.token, lost.how.clone()), expected);
            }
            other => panic!("not lost: {other:?}"),
        }
    }
    let last = heard.recv().await.expect("the end is told");
    assert_eq!((last.id, refusal(last.reply)), (7, "unknown_session"));
}

async fn only_the_newest_connection_of_a_session_is_told_what_is_lost(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let (open, mut old) = carry(&engine, Command::OpenSession(opening(60_000, true))).await;
    let attach = Command::AttachSession { namespace: Namespace::default(), session: open.key };
    let (again, mut new) = carry(&engine, attach).await;
    let grant = granted(&engine, Acquire { session: Some(open.key), ..request("db") }).await;
    force_release(&engine, &grant, "a drill").await;
    let told = new.recv().await.expect("it is told").reply;
    assert!(matches!(&told, Ok(Reply::Lost(lost)) if lost.token == grant.token), "{told:?}");
    assert_eq!(refusal(old.recv().await.expect("it is told").reply), "session_taken_over");
    assert!(old.recv().await.is_none(), "nothing more is said to the old one");

    // Nor is one told that is gone.
    engine.detach(again.id, again.attachment);
    let grant = granted(&engine, Acquire { session: Some(open.key), ..request("db") }).await;
    force_release(&engine, &grant, "another").await;
    assert!(new.recv().await.is_none());
}

async fn what_was_answered_survives_a_crash_with_its_deadline_and_tokens_go_on_rising(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let mut grants = Vec::new();
    for n in 0..100 {
        let lease = Some(Lifetime::Leased(Ttl::from_millis(60_000 + n)));
        grants.push(granted(&engine, Acquire { lifetime: lease, ..request(&format!("pool-{n}")) }).await);
    }
    release(&engine, &grants.remove(0)).await;
    harness.crash().await;
    let engine = harness.engine();
    for grant in &grants {
        let holds = holds(&engine, grant.pool.name().as_str()).await;
        let found: Vec<_> = holds.iter().map(|hold| (hold.token, hold.deadline)).collect();
        assert_eq!(found, [(grant.token, grant.deadline)]);
    }
    let last = grants.last().expect("many").token;
    assert!(granted(&engine, request("pool-0")).await.token > last);
    for grant in &grants {
        release(&engine, grant).await;
    }
}

async fn a_session_gets_its_grace_again_after_a_crash_and_its_waiter_keeps_its_place(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let session = open_session(&engine, 10_000).await;
    let in_session = |pool: &str, id: &str| Acquire {
        session: Some(session),
        wait: Wait::Forever,
        request: RequestId::parse(id).ok(),
        ..request(pool)
    };
    let mine = granted(&engine, in_session("mine", "r-mine")).await;
    let held = granted(&engine, Acquire { lifetime: Some(Lifetime::Kept), ..request("db") }).await;
    let waiter = queued(&engine, in_session("db", "r-db"), 1).await;
    harness.pass(Ttl::from_millis(9_000)).await;
    harness.crash().await;
    drop(waiter);
    harness.pass(Ttl::from_millis(9_000)).await;

    let engine = harness.engine();
    let kept = engine.call(Command::KeepAlive { namespace: Namespace::default(), session }).await;
    assert!(matches!(kept, Ok(Reply::Session(_))), "the grace has begun anew: {kept:?}");
    let later = queued(&engine, Acquire { wait: Wait::Forever, ..request("db") }, 1).await;
    let mut back = queued(&engine, in_session("db", "r-db"), 1).await;
    release(&engine, &held).await;
    settled(&mut back).await;
    drop(later);
    assert_eq!(holds(&engine, "mine").await[0].token, mine.token);

    harness.pass(Ttl::from_millis(10_000)).await;
    assert_eq!(holds(&engine, "mine").await, [], "the session ended with its grace");
}

async fn a_stop_answers_everybody_and_loses_nothing(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let held = granted(&engine, Acquire { lifetime: Some(Lifetime::Kept), ..request("db") }).await;
    let mut waiter = queued(&engine, Acquire { wait: Wait::Forever, ..request("db") }, 1).await;
    let pending: Vec<_> = (0..50).map(|n| engine.acquire(kept(&format!("pool-{n}"))).expect("there is room")).collect();
    engine.stop().await;
    assert_eq!(waiter.next().await, Err(Failure::Stopping));
    let mut answered = Vec::new();
    for acquiring in pending {
        if let Ok(Reply::Granted(grant)) = acquiring.settle().await {
            answered.push(grant);
        }
    }
    assert!(engine.acquire(request("late")).is_err(), "a stopped engine takes nothing");
    harness.restart().await;
    let engine = harness.engine();
    release(&engine, &held).await;
    for grant in &answered {
        release(&engine, grant).await;
    }
}

async fn every_event_can_be_read_once_in_order_from_any_point(harness: &mut dyn Harness) {
    let engine = harness.engine();
    for n in 0..200 {
        let grant = granted(&engine, request(&format!("pool-{}", n % 5))).await;
        release(&engine, &grant).await;
    }
    let last = *engine.last_event().borrow();
    let read = async |after: Option<Seq>, limit: usize| {
        let mut seqs = Vec::new();
        let mut query = EventQuery { after, limit, ..EventQuery::default() };
        loop {
            let page = engine.events(query.clone()).await.expect("the log is read").expect("nothing is gone");
            seqs.extend(page.items.iter().map(|recorded| recorded.seq.0));
            if page.done {
                return seqs;
            }
            query.after = page.reached;
        }
    };
    assert_eq!(read(None, 7).await, (1..=last.0).collect::<Vec<_>>());
    assert_eq!(read(Some(Seq(100)), 1_000).await, (101..=last.0).collect::<Vec<_>>());
    assert_eq!(read(Some(last), 1_000).await, [] as [u64; 0]);
}

async fn a_refusal_rests_on_what_is_durable(harness: &mut dyn Harness) {
    let engine = harness.engine();
    let (answers, mut received) = answers::channel();
    let submit = |id, pool: &str| {
        engine
            .submit(Command::Acquire(kept(pool)), ReplyTo { id, answers: answers.clone(), returns: false })
            .expect("there is room");
    };
    submit(0, "db");
    submit(1, "db");
    let second = loop {
        let answered = received.recv().await.expect("both are answered");
        if answered.id == 1 {
            break answered.reply;
        }
    };
    assert_eq!(refusal(second), "busy");
    harness.crash().await;
    assert_eq!(holds(&harness.engine(), "db").await.len(), 1, "what it was refused for is there");
}

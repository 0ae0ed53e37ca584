//! One batch after another: mail in, a commit and the answers that may be sent once it is durable out.
//!
//! No threads, no clock and no disk here, so that a simulator can drive it; [`crate::Embedded`] adds them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};

use tenure_core::{
    Command, Event, HoldLost, Machine, Query, Refusal, Reply, Seq, SessionId, Stamp, Timestamp, Token, Ttl, View,
    WaiterId,
};
use tokio::sync::oneshot;

use crate::store::{Commit, Entry, Rows};
use crate::{Answered, Failure, ReplyTo, Ticket};

/// The most mail in a batch: enough to share a sync, little enough that the first does not wait for the last.
const MAILS_PER_BATCH_MAX: usize = 4_096;
/// The most events in a batch, give or take one command's: readers of the log read whole entries.
const EVENTS_PER_BATCH_MAX: usize = 8_192;
/// Rows are written at least this often while anything happens: only what they have can be let go of the history.
const ROWS_AGE_MAX: Ttl = Ttl::from_millis(60_000);
/// How many calls may listen for one wait: one, and those that repeated it because they feared for the first.
const LISTENERS_PER_WAITER_MAX: usize = 16;
/// How many lost holds a connection may have been told of and not have heard yet: some batches full. Holds can also be
/// taken by calls beside it, so one that does not listen might otherwise be told without end.
const LOSSES_UNHEARD_MAX: usize = 65_536;

/// What reaches the writer, in the order in which it is handled.
#[derive(Debug)]
pub(crate) enum Mail {
    Command {
        ticket: Ticket,
        command: Command,
        reply_to: ReplyTo,
    },
    HangUp {
        ticket: Ticket,
        unreceived: Option<Token>,
    },
    Detach {
        session: SessionId,
        attachment: u64,
    },
    Query {
        query: Query,
        answer: oneshot::Sender<Result<View, Refusal>>,
    },
    /// Answered when everything due has been ended.
    Tick {
        done: oneshot::Sender<()>,
    },
    Stop,
    /// The engine was dropped: end without another batch.
    Abort,
}

/// Where nonces come from.
pub(crate) type Nonces = Box<dyn FnMut() -> u128 + Send>;

pub(crate) struct Driver {
    machine: Machine,
    rows: Rows,
    /// When rows were last written.
    rows_written: Timestamp,
    nonces: Nonces,
    /// Who listens for what comes of a wait: usually one, more if a request was made again.
    listeners: BTreeMap<WaiterId, Vec<Listener>>,
    waiting: HashMap<Ticket, WaiterId>,
    /// The connections that carry sessions: they hear what is lost, and when it is over.
    carriers: HashMap<SessionId, Carrier>,
    /// Sessions that have ended, and whose carriers have not been told yet.
    over: Vec<SessionId>,
    /// Sessions whose carriers did not listen, by attachment: to be detached when nothing is due.
    unheeded: Vec<(SessionId, u64)>,
    /// Holds whose grant was told more than once, and how often: one caller's hanging up must not take the
    /// hold from another.
    told: BTreeMap<Token, usize>,
    batch: Batch,
}

#[derive(Debug)]
struct Listener {
    ticket: Ticket,
    reply_to: ReplyTo,
}

#[derive(Debug)]
struct Carrier {
    ticket: Ticket,
    attachment: u64,
    reply_to: ReplyTo,
    /// What it was told is lost, as far as it may not have heard of it.
    unheard: VecDeque<Weak<HoldLost>>,
}

impl Carrier {
    /// How many losses it has still to hear of. They are heard in order, and dropped by whoever hears them.
    fn unheard(&mut self) -> usize {
        while self.unheard.front().is_some_and(|lost| lost.strong_count() == 0) {
            self.unheard.pop_front();
        }
        self.unheard.len()
    }
}

/// A batch under way.
#[derive(Debug, Default)]
struct Batch {
    at: Timestamp,
    first: Seq,
    events: Vec<Event>,
    deliveries: Vec<Delivery>,
    /// Whether somebody can go on once it is durable.
    urgent: bool,
    commands: usize,
    mails: usize,
}

/// What came of a command: its reply, how many events, and how many listeners heard of a wait's end.
struct Applied {
    reply: Reply,
    events: usize,
    told: usize,
}

/// A batch ready to be made durable, and what to send when it is.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) commit: Commit,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) commands: usize,
    /// The number of the last event once this is durable.
    pub(crate) last: Seq,
}

impl Prepared {
    pub(crate) fn is_empty(&self) -> bool {
        self.commit.entry.is_none() && self.commit.rows.is_none() && self.deliveries.is_empty()
    }
}

#[derive(Debug)]
pub(crate) enum Delivery {
    Reply { ticket: Ticket, reply_to: ReplyTo, reply: Result<Reply, Failure> },
    View(oneshot::Sender<Result<View, Refusal>>, Result<View, Refusal>),
    Tick(oneshot::Sender<()>),
}

impl Delivery {
    /// Sends it. What comes back is mail: that a grant found nobody.
    pub(crate) fn send(self) -> Option<Mail> {
        match self {
            Self::Reply { ticket, reply_to, reply } => {
                let unreceived = match &reply {
                    Ok(Reply::Granted(grant)) if !(reply_to.returns && grant.ends_by_itself()) => Some(grant.token),
                    _ => None,
                };
                let sent = reply_to.answers.send(Answered { id: reply_to.id, reply });
                if sent.is_ok() {
                    return None;
                }
                unreceived.map(|token| Mail::HangUp { ticket, unreceived: Some(token) })
            }
            // A query or a tick that nobody waits for any more is of no interest.
            Self::View(answer, view) => {
                let _ = answer.send(view);
                None
            }
            Self::Tick(done) => {
                let _ = done.send(());
                None
            }
        }
    }
}

impl Driver {
    pub(crate) fn new(machine: Machine, nonces: Nonces) -> Self {
        Self {
            rows: Rows::new(machine.state()),
            rows_written: machine.state().counters().now,
            machine,
            nonces,
            listeners: BTreeMap::new(),
            waiting: HashMap::new(),
            carriers: HashMap::new(),
            over: Vec::new(),
            unheeded: Vec::new(),
            told: BTreeMap::new(),
            batch: Batch::default(),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.machine.next_deadline()
    }

    /// The time of the last thing that happened: no batch may be earlier.
    pub(crate) fn now(&self) -> Timestamp {
        self.machine.state().counters().now
    }

    /// Opens a batch and ends what is due by then.
    pub(crate) fn begin(&mut self, at: Timestamp) {
        assert!(at >= self.now(), "time runs forward");
        self.batch = Batch { at, first: Seq(self.machine.state().counters().seq.0 + 1), ..Batch::default() };
        self.expire();
    }

    /// The first thing a recovered machine must hear.
    pub(crate) fn restart(&mut self, at: Timestamp) -> Prepared {
        self.batch = Batch { at, first: Seq(self.machine.state().counters().seq.0 + 1), ..Batch::default() };
        self.apply(Command::Restart);
        self.expire();
        self.finish()
    }

    pub(crate) fn handle(&mut self, mail: Mail) {
        assert!(!self.is_full(), "a full batch is closed first");
        self.batch.mails += 1;
        match mail {
            Mail::Command { ticket, command, reply_to } => self.command(ticket, command, reply_to),
            Mail::HangUp { ticket, unreceived } => self.hang_up(ticket, unreceived),
            Mail::Detach { session, attachment } => {
                if self.carriers.get(&session).is_some_and(|carrier| carrier.attachment == attachment) {
                    self.carriers.remove(&session);
                }
                self.apply(Command::DetachSession { session, attachment });
            }
            Mail::Query { query, answer } => {
                let view = self.machine.state().query(&query);
                self.deliver(Delivery::View(answer, view));
            }
            Mail::Tick { done } => self.deliver(Delivery::Tick(done)),
            Mail::Stop => self.refuse_listeners(),
            Mail::Abort => {}
        }
        self.expire();
    }

    /// Whether somebody can go on once this batch is durable. Those who were put in a queue cannot.
    pub(crate) fn is_urgent(&self) -> bool {
        self.batch.urgent || self.batch.deliveries.is_empty()
    }

    fn deliver(&mut self, delivery: Delivery) {
        self.batch.urgent |= !matches!(delivery, Delivery::Reply { reply: Ok(Reply::Queued(_)), .. });
        self.batch.deliveries.push(delivery);
    }

    pub(crate) fn finish(&mut self) -> Prepared {
        let due = self.rows.is_due() || self.batch.at >= self.rows_written + ROWS_AGE_MAX;
        self.close(due)
    }

    /// The last batch: with all rows written, the next start replays nothing.
    pub(crate) fn finish_for_good(&mut self) -> Prepared {
        self.close(true)
    }

    fn close(&mut self, with_rows: bool) -> Prepared {
        let Batch { at, first, events, deliveries, commands, .. } = std::mem::take(&mut self.batch);
        let entry = (!events.is_empty()).then(|| Arc::new(Entry { first, at, events }));
        let rows = (with_rows && !self.rows.is_empty()).then(|| self.rows.drain(self.machine.state()));
        if rows.is_some() {
            self.rows_written = at;
        }
        let last = self.machine.state().counters().seq;
        Prepared { commit: Commit { entry, rows }, deliveries, commands, last }
    }

    fn command(&mut self, ticket: Ticket, command: Command, reply_to: ReplyTo) {
        self.batch.commands += 1;
        let carries = match &command {
            Command::OpenSession(open) => open.attached,
            Command::AttachSession { .. } => true,
            _ => false,
        };
        let Applied { mut reply, events, told } = self.apply(command);
        match &reply {
            Reply::Queued(queued) => {
                let listeners = self.listeners.entry(queued.waiter).or_default();
                if listeners.len() < LISTENERS_PER_WAITER_MAX {
                    self.waiting.insert(ticket, queued.waiter);
                    listeners.push(Listener { ticket, reply_to: reply_to.clone() });
                } else {
                    let (limit, max) = ("listeners_per_waiter_max", LISTENERS_PER_WAITER_MAX);
                    reply = Reply::Refused(Box::new(Refusal::LimitReached { limit: limit.into(), max }));
                }
            }
            // Granted without anything happening: what an earlier caller was told is told again.
            Reply::Granted(grant) if events == 0 => *self.told.entry(grant.token).or_insert(1) += 1,
            // Back in the queue and served at once, together with whoever still listened.
            Reply::Granted(grant) if told > 0 => {
                self.told.insert(grant.token, told + 1);
            }
            Reply::Session(open) if carries => {
                let unheard = VecDeque::new();
                let carrier = Carrier { ticket, attachment: open.attachment, reply_to: reply_to.clone(), unheard };
                self.dismiss(open.id, Refusal::SessionTakenOver);
                self.carriers.insert(open.id, carrier);
            }
            _ => {}
        }
        self.deliver(Delivery::Reply { ticket, reply_to, reply: Ok(reply) });
    }

    /// Tells the connection that carried a session that it does not any more: the last answer to the command by which
    /// it came to.
    fn dismiss(&mut self, session: SessionId, why: Refusal) {
        if let Some(Carrier { ticket, reply_to, .. }) = self.carriers.remove(&session) {
            self.deliver(Delivery::Reply { ticket, reply_to, reply: Ok(Reply::Refused(Box::new(why))) });
        }
    }

    /// Tells the connection that carries the session, if there is one: another answer to the same command, and not its
    /// end.
    fn tell_lost(&mut self, session: SessionId, lost: HoldLost) {
        let Some(carrier) = self.carriers.get_mut(&session) else { return };
        if carrier.unheard() >= LOSSES_UNHEARD_MAX {
            let (limit, max) = ("losses_unheard_max", LOSSES_UNHEARD_MAX);
            let attachment = carrier.attachment;
            self.dismiss(session, Refusal::LimitReached { limit: limit.into(), max });
            // Nobody else would say so, and a session that is not detached never ends.
            self.unheeded.push((session, attachment));
            return;
        }
        let lost = Arc::new(lost);
        carrier.unheard.push_back(Arc::downgrade(&lost));
        let (ticket, reply_to) = (carrier.ticket, carrier.reply_to.clone());
        self.deliver(Delivery::Reply { ticket, reply_to, reply: Ok(Reply::Lost(lost)) });
    }

    fn hang_up(&mut self, ticket: Ticket, unreceived: Option<Token>) {
        if let Some(token) = unreceived {
            if let Some(times) = self.told.get_mut(&token)
                && *times > 1
            {
                *times -= 1;
            } else {
                self.apply(Command::TakeBack { token });
            }
        }
        let Some(waiter) = self.waiting.remove(&ticket) else { return };
        let Some(listeners) = self.listeners.get_mut(&waiter) else { return };
        let gone = listeners.iter().position(|listener| listener.ticket == ticket).map(|at| listeners.remove(at));
        if listeners.is_empty() {
            self.listeners.remove(&waiter);
            let may_return = gone.is_some_and(|listener| listener.reply_to.returns);
            self.apply(Command::Abandon { waiter, may_return });
        }
    }

    /// Ends what is due, unless there is so much of it that the rest is left to the next batch.
    fn expire(&mut self) {
        while !self.is_full() && self.is_due() {
            self.apply(Command::Expire);
        }
        // Losses mostly come of what is due, and that must all have ended before a session can be detached.
        if !self.is_due() {
            for (session, attachment) in std::mem::take(&mut self.unheeded) {
                self.apply(Command::DetachSession { session, attachment });
            }
        }
        // A session with much to end may end in a later batch than the one in which it was asked to.
        for session in std::mem::take(&mut self.over) {
            self.dismiss(session, Refusal::UnknownSession);
        }
    }

    fn is_due(&self) -> bool {
        self.machine.next_deadline().is_some_and(|deadline| deadline <= self.batch.at)
    }

    /// Whether the batch must be closed before anything else is handled.
    pub(crate) fn is_full(&self) -> bool {
        self.batch.mails >= MAILS_PER_BATCH_MAX || self.batch.events.len() >= EVENTS_PER_BATCH_MAX
    }

    /// Applies a command, keeps its events and answers whoever waited.
    fn apply(&mut self, command: Command) -> Applied {
        let stamp = Stamp { at: self.batch.at, nonce: (self.nonces)() };
        let outcome = self.machine.apply(stamp, command);
        for event in &outcome.events {
            self.rows.note(event);
            match event {
                Event::Ended { token, .. } => {
                    self.told.remove(token);
                }
                Event::SessionEnded { id, .. } => self.over.push(*id),
                _ => {}
            }
        }
        let events = outcome.events.len();
        self.batch.events.extend(outcome.events);
        // Before whoever is served in its place.
        for (session, lost) in outcome.lost {
            self.tell_lost(session, lost);
        }
        let told = outcome.settled.into_iter().map(|(waiter, reply)| self.settle(waiter, &reply)).sum();
        Applied { reply: outcome.reply, events, told }
    }

    /// Tells those who listen what came of a wait. Gives how many they are.
    fn settle(&mut self, waiter: WaiterId, reply: &Reply) -> usize {
        let listeners = self.listeners.remove(&waiter).unwrap_or_default();
        let told = listeners.len();
        if let (Reply::Granted(grant), 2..) = (reply, told) {
            self.told.insert(grant.token, told);
        }
        for Listener { ticket, reply_to } in listeners {
            self.waiting.remove(&ticket);
            self.deliver(Delivery::Reply { ticket, reply_to, reply: Ok(reply.clone()) });
        }
        told
    }

    /// The server stops: nobody is going to be served by it any more.
    fn refuse_listeners(&mut self) {
        self.waiting.clear();
        for (_, listeners) in std::mem::take(&mut self.listeners) {
            for Listener { ticket, reply_to } in listeners {
                self.deliver(Delivery::Reply { ticket, reply_to, reply: Err(Failure::Stopping) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{
        Acquire, Amount, Demand, HoldEnd, Holder, Lifetime, Limits, Namespace, OpenSession, PoolName, PoolPath,
        Priority, State, Ttl, Wait,
    };

    use super::*;

    fn acquire(pool: &str, ticket: u64) -> Mail {
        let acquire = Acquire {
            pool: PoolPath::new(Namespace::default(), PoolName::parse(pool).unwrap()),
            demand: Demand { amount: Amount::Count(1), selector: None },
            size: None,
            lifetime: None,
            wait: Wait::Try,
            priority: Priority::default(),
            holder: Arc::new(Holder::parse("tester", []).unwrap()),
            session: None,
            request: None,
        };
        let reply_to = ReplyTo { id: ticket, answers: tokio::sync::mpsc::unbounded_channel().0, returns: false };
        Mail::Command { ticket: Ticket(ticket), command: Command::Acquire(acquire), reply_to }
    }

    fn driver() -> Driver {
        let limits = Limits::default();
        let mut nonce = 0;
        let nonces = Box::new(move || {
            nonce += 1;
            nonce
        });
        let mut driver = Driver::new(Machine::restored(State::new(limits.pool_idle), limits), nonces);
        driver.restart(Timestamp::from_millis(1));
        driver
    }

    fn open() -> (Mail, tokio::sync::mpsc::UnboundedReceiver<Answered>) {
        let (answers, heard) = tokio::sync::mpsc::unbounded_channel();
        let holder = Arc::new(Holder::parse("tester", []).unwrap());
        let grace = Ttl::from_millis(30_000);
        let open =
            OpenSession { namespace: Namespace::default(), holder, grace, attached: true, outlasts_holds: false };
        let reply_to = ReplyTo { id: 0, answers, returns: false };
        (Mail::Command { ticket: Ticket(0), command: Command::OpenSession(open), reply_to }, heard)
    }

    #[test]
    fn a_connection_that_does_not_listen_is_told_of_so_many_losses_and_then_dismissed() {
        let mut driver = driver();
        driver.begin(Timestamp::from_millis(1));
        let (mail, mut heard) = open();
        driver.handle(mail);
        send(driver.finish());
        let Some(Answered { reply: Ok(Reply::Session(session)), .. }) = heard.try_recv().ok() else { panic!() };
        let lost = |token| HoldLost { token: Token(token), how: HoldEnd::Expired };
        let lose = |driver: &mut Driver, tokens: std::ops::Range<u64>| {
            driver.begin(Timestamp::from_millis(1));
            tokens.for_each(|token| driver.tell_lost(session.id, lost(token)));
            driver.expire();
            send(driver.finish());
        };
        let most = LOSSES_UNHEARD_MAX as u64;
        lose(&mut driver, 0..most);
        for token in 0..10 {
            let answered = heard.try_recv().unwrap();
            assert_eq!(answered.reply, Ok(Reply::Lost(Arc::new(lost(token)))));
        }
        // As many again as have been heard, and one too many; then nobody is there to be told.
        lose(&mut driver, most..most + 20);
        for token in 10..most + 10 {
            let answered = heard.try_recv().unwrap();
            assert_eq!(answered.reply, Ok(Reply::Lost(Arc::new(lost(token)))));
        }
        let last = heard.try_recv().unwrap().reply;
        assert!(matches!(&last, Ok(Reply::Refused(why)) if why.code() == "limit_reached"), "{last:?}");
        assert!(heard.try_recv().is_err());
        let until = Some(Timestamp::from_millis(30_001));
        assert_eq!(driver.next_deadline(), until, "the session has its grace to be resumed, and ends if it is not");
    }

    #[test]
    fn more_losses_than_a_connection_can_hear_may_all_be_due_at_once() {
        let mut driver = driver();
        driver.begin(Timestamp::from_millis(1));
        let (mail, mut heard) = open();
        driver.handle(mail);
        send(driver.finish());
        let Some(Answered { reply: Ok(Reply::Session(session)), .. }) = heard.try_recv().ok() else { panic!() };
        driver.begin(Timestamp::from_millis(1));
        for n in 0..LOSSES_UNHEARD_MAX as u64 + 10_000 {
            if driver.is_full() {
                driver.finish();
                driver.begin(Timestamp::from_millis(1));
            }
            let Mail::Command { ticket, command: Command::Acquire(acquire), reply_to } = acquire("many", n) else {
                panic!()
            };
            let (session, lifetime) = (Some(session.key), Some(Lifetime::Session(Some(Ttl::from_millis(1_000)))));
            let acquire = Acquire { session, lifetime, size: Some(1_000_000), ..acquire };
            driver.handle(Mail::Command { ticket, command: Command::Acquire(acquire), reply_to });
        }
        driver.finish();
        let due = driver.next_deadline().unwrap();
        while driver.next_deadline().is_some_and(|deadline| deadline <= due) {
            driver.begin(due);
            send(driver.finish());
        }
        assert_eq!(driver.machine.state().stats().holds, 0);
        assert_eq!(heard.len(), LOSSES_UNHEARD_MAX + 1, "and that it is dismissed");
        assert!(!driver.machine.state().session(session.id).unwrap().attached);
    }

    fn send(prepared: Prepared) {
        prepared.deliveries.into_iter().for_each(|delivery| {
            delivery.send();
        });
    }

    #[test]
    fn the_last_batch_has_every_row_however_many_there_are() {
        let mut driver = driver();
        driver.begin(Timestamp::from_millis(1));
        for n in 0..3_000 {
            driver.handle(acquire(&format!("pool-{n}"), n));
        }
        driver.handle(Mail::Stop);
        let rows = driver.finish_for_good().commit.rows.expect("the last batch has rows");
        assert_eq!(rows.len(), 6_000, "a pool and a hold each");
    }

    #[test]
    fn what_is_due_is_ended_in_batches_of_bounded_size_before_anything_else_is_handled() {
        let mut driver = driver();
        driver.begin(Timestamp::from_millis(1));
        let mut at = 1;
        for n in 0..20_000 {
            if driver.is_full() {
                driver.finish();
                at += 1;
                driver.begin(Timestamp::from_millis(at));
            }
            driver.handle(acquire(&format!("pool-{n}"), n));
        }
        driver.finish();
        let due = Timestamp::from_millis(at) + Ttl::from_millis(30_000);
        let mut batches = 0;
        while driver.next_deadline().is_some_and(|deadline| deadline <= due) {
            driver.begin(due);
            let entry = driver.finish().commit.entry.expect("something has ended");
            assert!(entry.events.len() < EVENTS_PER_BATCH_MAX + 1_000);
            batches += 1;
        }
        assert!(batches > 1, "20,000 leases do not end in one");
        assert_eq!(driver.machine.state().stats().holds, 0);
    }
}

//! One batch after another: mail in, a commit and the answers that may be sent once it is durable out.
//!
//! No threads, no clock and no disk here, so that a simulator can drive it; [`crate::Embedded`] adds them.

use std::sync::Arc;
use std::task::Waker;

use tenure_core::{Command, Machine, Query, Refusal, Reply, Seq, SessionId, State, Timestamp, Token, View};
use tokio::sync::oneshot;

use crate::desk::{Batch, Caller, Desk, Nonces};
use crate::store::{Commit, Entry, RowChanges, Rows};
use crate::{Answered, Failure, ReplyTo, Ticket};

/// The most mail in a batch: enough to share a sync, little enough that the first does not wait for the last.
pub(crate) const MAILS_PER_BATCH_MAX: usize = 4_096;

/// What reaches the writer, in the order in which it is handled.
#[derive(Debug)]
pub enum Mail {
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

/// A caller in this process.
#[derive(Clone, Debug)]
pub struct Local {
    ticket: Ticket,
    reply_to: ReplyTo,
}

impl Caller for Local {
    type Id = Ticket;

    fn id(&self) -> Ticket {
        self.ticket
    }

    fn returns(&self) -> bool {
        self.reply_to.returns
    }
}

/// Mail in, batches out.
pub struct Driver {
    desk: Desk<Local>,
    rows: Rows,
    /// When rows were last written.
    rows_written: Timestamp,
    /// The time of the last batch.
    closed_at: Timestamp,
    /// How much mail the batch under way has.
    mails: usize,
    /// What it answers besides commands.
    others: Vec<Delivery>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("desk", &self.desk).finish_non_exhaustive()
    }
}

/// A batch ready to be made durable, and what to send when it is.
#[derive(Debug)]
pub struct Prepared {
    pub commit: Commit,
    pub deliveries: Vec<Delivery>,
    pub commands: usize,
    /// The number of the last event once this is durable.
    pub last: Seq,
}

impl Prepared {
    pub fn is_empty(&self) -> bool {
        self.commit.entry.is_none() && self.commit.rows.is_none() && self.deliveries.is_empty()
    }
}

#[derive(Debug)]
pub enum Delivery {
    Reply { to: Local, reply: Result<Reply, Failure> },
    View(oneshot::Sender<Result<View, Refusal>>, Result<View, Refusal>),
    Tick(oneshot::Sender<()>),
}

impl Delivery {
    /// Which command it answers, and how; none if it answers something else.
    pub fn reply(&self) -> Option<(Ticket, &Result<Reply, Failure>)> {
        match self {
            Self::Reply { to, reply } => Some((to.ticket, reply)),
            Self::View(..) | Self::Tick(_) => None,
        }
    }

    /// Sends it. Whoever waits for it is to be woken when all is sent. What comes back is mail: that a grant found nobody.
    pub fn send(self, listeners: &mut Vec<Waker>) -> Option<Mail> {
        match self {
            Self::Reply { to: Local { ticket, reply_to }, reply } => match reply_to.push(reply) {
                Ok(listener) => {
                    listeners.extend(listener);
                    None
                }
                Err(unreceived) => Some(Mail::HangUp { ticket, unreceived: Some(unreceived?) }),
            },
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

impl ReplyTo {
    /// Sends an answer. If it was a grant that found nobody, and that does not end by itself in the hands of a caller
    /// who returns, it is to be taken back.
    pub fn send(&self, reply: Result<Reply, Failure>) -> Option<Token> {
        match self.push(reply) {
            Ok(listener) => {
                listener.into_iter().for_each(Waker::wake);
                None
            }
            Err(unreceived) => unreceived,
        }
    }

    /// The same, but whoever waits for it is given back, to be woken when there is no more to send.
    fn push(&self, reply: Result<Reply, Failure>) -> Result<Option<Waker>, Option<Token>> {
        let unreceived = match &reply {
            Ok(Reply::Granted(grant)) if !(self.returns && grant.ends_by_itself()) => Some(grant.token),
            _ => None,
        };
        self.answers.push(Answered { id: self.id, reply }).map_err(|_| unreceived)
    }
}

impl Driver {
    pub fn new(machine: Machine, nonces: Nonces) -> Self {
        Self {
            rows: Rows::new(machine.state()),
            rows_written: machine.state().counters().now,
            closed_at: machine.state().counters().now,
            desk: Desk::new(machine, nonces),
            mails: 0,
            others: Vec::new(),
        }
    }

    pub fn state(&self) -> &State {
        self.desk.state()
    }

    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.desk.next_deadline()
    }

    /// The time of the last thing that happened: no batch may be earlier.
    pub fn now(&self) -> Timestamp {
        self.desk.now()
    }

    /// Opens a batch and ends what is due by then.
    pub fn begin(&mut self, at: Timestamp) {
        self.mails = 0;
        self.desk.begin(at);
    }

    /// The first thing a recovered machine must hear.
    pub fn restart(&mut self, at: Timestamp) -> Prepared {
        self.desk.restart(at);
        self.finish()
    }

    pub fn handle(&mut self, mail: Mail) {
        assert!(!self.is_full(), "a full batch is closed first");
        self.mails += 1;
        match mail {
            Mail::Command { ticket, command, reply_to } => self.desk.command(command, Local { ticket, reply_to }),
            Mail::HangUp { ticket, unreceived } => self.desk.hang_up(ticket, unreceived),
            Mail::Detach { session, attachment } => self.desk.detach(session, attachment),
            Mail::Query { query, answer } => {
                let view = self.desk.query(&query);
                self.others.push(Delivery::View(answer, view));
            }
            Mail::Tick { done } => self.others.push(Delivery::Tick(done)),
            Mail::Stop => {
                // The server stops: nobody is going to be served by it any more.
                for to in self.desk.dismiss_listeners() {
                    self.others.push(Delivery::Reply { to, reply: Err(Failure::Stopping) });
                }
            }
            Mail::Abort => {}
        }
    }

    /// Whether somebody can go on once this batch is durable. Those who were put in a queue cannot.
    pub fn is_urgent(&self) -> bool {
        !self.others.is_empty() || self.desk.is_urgent()
    }

    /// Whether the batch must be closed before anything else is handled.
    pub fn is_full(&self) -> bool {
        self.mails >= MAILS_PER_BATCH_MAX || self.desk.is_full()
    }

    /// Closes the batch, with what rows are due.
    pub fn finish(&mut self) -> Prepared {
        let mut prepared = self.finish_without_rows();
        prepared.commit.rows = self.rows_due();
        prepared
    }

    /// The last batch: with all rows written, the next start replays nothing.
    pub fn finish_for_good(&mut self) -> Prepared {
        let mut prepared = self.finish_without_rows();
        prepared.commit.rows = (!self.rows.is_empty()).then(|| self.drain());
        prepared
    }

    /// For those who look after [`Driver::rows_due`] when nobody waits for an answer: to encode them takes milliseconds.
    pub fn finish_without_rows(&mut self) -> Prepared {
        let Batch { at, first, events, answers, commands, .. } = self.desk.finish();
        events.iter().for_each(|event| self.rows.note(event));
        self.closed_at = at;
        let entry = (!events.is_empty()).then(|| Arc::new(Entry { first, at, events }));
        let last = self.desk.state().counters().seq;
        let replies = answers.into_iter().map(|(to, reply)| Delivery::Reply { to, reply: Ok(reply) });
        let deliveries = replies.chain(std::mem::take(&mut self.others)).collect();
        Prepared { commit: Commit { entry, rows: None }, deliveries, commands, last }
    }

    /// The rows that are to be written, if it is time to, as of the last batch that was closed; none may be open. They may not be written before
    /// that is durable.
    pub fn rows_due(&mut self) -> Option<RowChanges> {
        let millis = self.closed_at.millis_since(self.rows_written);
        self.rows.are_due(self.desk.state(), millis).then(|| self.drain())
    }

    fn drain(&mut self) -> RowChanges {
        self.rows_written = self.closed_at;
        self.rows.drain(self.desk.state())
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{
        Acquire, Amount, Demand, HoldEnd, HoldLost, Holder, Lifetime, Limits, Namespace, OpenSession, PoolName,
        PoolPath, Priority, Ttl, Wait,
    };

    use super::*;
    use crate::desk::{EVENTS_PER_BATCH_MAX, LOSSES_UNHEARD_MAX};

    fn acquire(pool: &str, ticket: u64) -> Mail {
        let acquire = Acquire {
            pool: PoolPath::new(Namespace::default(), PoolName::parse(pool).unwrap()),
            demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
            size: None,
            lifetime: None,
            wait: Wait::Try,
            priority: Priority::default(),
            holder: Arc::new(Holder::parse("tester", []).unwrap()),
            session: None,
            request: None,
            also: Box::default(),
            holds_on: false,
        };
        let reply_to = ReplyTo { id: ticket, answers: crate::answers::channel().0, returns: false };
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

    fn open() -> (Mail, crate::answers::Receiver) {
        let (answers, heard) = crate::answers::channel();
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
        let Some(Answered { reply: Ok(Reply::Session(session)), .. }) = heard.try_recv() else { panic!() };
        let lost = |token| HoldLost { token: Token(token), how: HoldEnd::Expired };
        let lose = |driver: &mut Driver, tokens: std::ops::Range<u64>| {
            driver.begin(Timestamp::from_millis(1));
            tokens.for_each(|token| driver.desk.tell_lost(session.id, lost(token)));
            driver.desk.expire();
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
        assert!(heard.try_recv().is_none());
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
        let Some(Answered { reply: Ok(Reply::Session(session)), .. }) = heard.try_recv() else { panic!() };
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
        assert_eq!(driver.desk.state().stats().holds, 0);
        assert_eq!(heard.len(), LOSSES_UNHEARD_MAX + 1, "and that it is dismissed");
        assert!(!driver.desk.state().session(session.id).unwrap().attached);
    }

    fn send(prepared: Prepared) {
        prepared.deliveries.into_iter().for_each(|delivery| {
            delivery.send(&mut Vec::new());
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
        assert_eq!(driver.desk.state().stats().holds, 0);
    }
}

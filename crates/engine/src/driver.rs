//! One batch after another: mail in, a commit and the answers that may be sent once it is durable out.
//!
//! No threads, no clock and no disk here, so that a simulator can drive it; [`crate::Embedded`] adds them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tenure_core::{
    Command, Event, Machine, Query, Refusal, Reply, Seq, SessionId, Stamp, Timestamp, Token, View, WaiterId,
};
use tokio::sync::oneshot;

use crate::store::{Commit, Entry, Rows};
use crate::{Answered, Failure, ReplyTo, Ticket};

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
    nonces: Nonces,
    /// Who listens for what comes of a wait: usually one, more if a request was made again.
    listeners: BTreeMap<WaiterId, Vec<Listener>>,
    waiting: HashMap<Ticket, WaiterId>,
    /// Holds whose grant was told more than once, and how often: one caller's hanging up must not take the
    /// hold from another.
    told: BTreeMap<Token, usize>,
    batch: Batch,
}

#[derive(Debug)]
struct Listener {
    ticket: Ticket,
    reply_to: ReplyTo,
    reclaimable: bool,
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
    Reply {
        ticket: Ticket,
        reply_to: ReplyTo,
        reply: Result<Reply, Failure>,
        /// The caller can ask for the grant again, so it is kept if it does not arrive.
        reclaimable: bool,
    },
    View(oneshot::Sender<Result<View, Refusal>>, Result<View, Refusal>),
    Tick(oneshot::Sender<()>),
}

impl Delivery {
    /// Sends it. What comes back is mail: that a grant found nobody.
    pub(crate) fn send(self) -> Option<Mail> {
        match self {
            Self::Reply { ticket, reply_to, reply, reclaimable } => {
                let token = match &reply {
                    Ok(Reply::Granted(grant)) if !reclaimable => Some(grant.token),
                    _ => None,
                };
                let sent = reply_to.answers.send(Answered { id: reply_to.id, reply });
                // A query or a tick that nobody waits for is of no interest to anybody.
                if sent.is_err() { token.map(|token| Mail::HangUp { ticket, unreceived: Some(token) }) } else { None }
            }
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
            machine,
            nonces,
            listeners: BTreeMap::new(),
            waiting: HashMap::new(),
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
        match mail {
            Mail::Command { ticket, command, reply_to } => self.command(ticket, command, reply_to),
            Mail::HangUp { ticket, unreceived } => self.hang_up(ticket, unreceived),
            Mail::Detach { session, attachment } => {
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

    pub(crate) fn commands(&self) -> usize {
        self.batch.commands
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
        let Batch { at, first, events, deliveries, commands, .. } = std::mem::take(&mut self.batch);
        let entry = (!events.is_empty()).then(|| Arc::new(Entry { first, at, events }));
        let rows = self.rows.is_due().then(|| self.rows.drain(self.machine.state()));
        let last = self.machine.state().counters().seq;
        Prepared { commit: Commit { entry, rows }, deliveries, commands, last }
    }

    /// The last batch: with all rows written, the next start replays nothing.
    pub(crate) fn finish_for_good(&mut self) -> Prepared {
        let mut prepared = self.finish();
        prepared.commit.rows = Some(self.rows.drain(self.machine.state()));
        prepared
    }

    fn command(&mut self, ticket: Ticket, command: Command, reply_to: ReplyTo) {
        self.batch.commands += 1;
        let reclaimable = match &command {
            Command::Acquire(acquire) => acquire.session.is_some() && acquire.request.is_some(),
            _ => false,
        };
        let (reply, events) = self.apply(command);
        match &reply {
            Reply::Queued(queued) => {
                self.waiting.insert(ticket, queued.waiter);
                let listener = Listener { ticket, reply_to: reply_to.clone(), reclaimable };
                self.listeners.entry(queued.waiter).or_default().push(listener);
            }
            // Granted without anything happening: the answer of an earlier request was told again.
            Reply::Granted(grant) if events == 0 => *self.told.entry(grant.token).or_insert(1) += 1,
            _ => {}
        }
        self.deliver(Delivery::Reply { ticket, reply_to, reply: Ok(reply), reclaimable });
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
        listeners.retain(|listener| listener.ticket != ticket);
        if listeners.is_empty() {
            self.listeners.remove(&waiter);
            self.apply(Command::Abandon { waiter });
        }
    }

    fn expire(&mut self) {
        while self.machine.next_deadline().is_some_and(|deadline| deadline <= self.batch.at) {
            self.apply(Command::Expire);
        }
    }

    /// Applies a command, keeps its events and answers whoever waited. Gives the reply and the number of events.
    fn apply(&mut self, command: Command) -> (Reply, usize) {
        let stamp = Stamp { at: self.batch.at, nonce: (self.nonces)() };
        let outcome = self.machine.apply(stamp, command);
        for event in &outcome.events {
            self.rows.note(event);
            if let Event::Ended { token, .. } = event {
                self.told.remove(token);
            }
        }
        let events = outcome.events.len();
        self.batch.events.extend(outcome.events);
        for (waiter, reply) in outcome.settled {
            self.settle(waiter, reply);
        }
        (outcome.reply, events)
    }

    fn settle(&mut self, waiter: WaiterId, reply: Reply) {
        let listeners = self.listeners.remove(&waiter).unwrap_or_default();
        if let (Reply::Granted(grant), 2..) = (&reply, listeners.len()) {
            self.told.insert(grant.token, listeners.len());
        }
        for Listener { ticket, reply_to, reclaimable } in listeners {
            self.waiting.remove(&ticket);
            self.deliver(Delivery::Reply { ticket, reply_to, reply: Ok(reply.clone()), reclaimable });
        }
    }

    /// The server stops: nobody is going to be served by it any more.
    fn refuse_listeners(&mut self) {
        self.waiting.clear();
        for (_, listeners) in std::mem::take(&mut self.listeners) {
            for Listener { ticket, reply_to, reclaimable } in listeners {
                let reply = Err(Failure::Stopping);
                self.deliver(Delivery::Reply { ticket, reply_to, reply, reclaimable });
            }
        }
    }
}

//! The rules and those who wait for what comes of them: commands in, events and answers out, a batch at a time.
//!
//! No threads, no clock and no disk: those are an engine's. A caller is whatever an engine can send an answer to.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};

use tenure_core::mutation::Mistake;
use tenure_core::{
    Command, Event, HoldLost, Machine, Query, Refusal, Reply, Seq, SessionId, Stamp, State, Timestamp, Token, View,
    WaiterId,
};

/// The most events in a batch, give or take one command's: readers of the log read whole entries.
pub(crate) const EVENTS_PER_BATCH_MAX: usize = 8_192;
/// The most events and answers that a batch has room for from the start: one that turns out small keeps it as long as it is kept.
const ROOM_MAX: usize = 256;
/// The most operations of scripts in a batch, give or take one command's: nobody in it is answered before it is closed.
const OPERATIONS_PER_BATCH_MAX: u64 = 500_000;
/// How many calls may listen for one wait: one, and those that repeated it because they feared for the first.
const LISTENERS_PER_WAITER_MAX: usize = 16;
/// How many lost holds a connection may have been told of and not have heard yet: some batches full. Holds can also be
/// taken by calls beside it, so one that does not listen might otherwise be told without end.
pub(crate) const LOSSES_UNHEARD_MAX: usize = 65_536;

/// Whoever asked for something and is told what came of it.
pub trait Caller: Clone {
    /// Names one command of one caller.
    type Id: Copy + Ord + fmt::Debug;

    fn id(&self) -> Self::Id;

    /// Whether it comes back with its session and asks again, if its connection is lost: then its place in the queue
    /// is kept.
    fn returns(&self) -> bool;
}

/// Where nonces come from.
pub type Nonces = Box<dyn FnMut() -> u128 + Send>;

pub struct Desk<C: Caller> {
    machine: Machine,
    nonces: Nonces,
    /// Who listens for what comes of a wait: usually one, more if a request was made again.
    listeners: BTreeMap<WaiterId, Vec<C>>,
    waiting: BTreeMap<C::Id, WaiterId>,
    /// The connections that carry sessions: they hear what is lost, and when it is over.
    carriers: BTreeMap<SessionId, Carrier<C>>,
    /// Sessions that have ended, and whose carriers have not been told yet.
    over: Vec<SessionId>,
    /// Sessions whose carriers did not listen, by attachment: to be detached when nothing is due.
    unheeded: Vec<(SessionId, u64)>,
    /// Holds whose grant was told more than once, and how often: one caller's hanging up must not take the
    /// hold from another.
    told: BTreeMap<Token, usize>,
    batch: Batch<C>,
    /// For how many events and answers the next batch has room from the start: what the last one had.
    room: [usize; 2],
}

#[derive(Debug)]
struct Carrier<C> {
    caller: C,
    attachment: u64,
    /// What it was told is lost, as far as it may not have heard of it.
    unheard: VecDeque<Weak<HoldLost>>,
}

impl<C> Carrier<C> {
    /// How many losses it has still to hear of. They are heard in order, and dropped by whoever hears them.
    fn unheard(&mut self) -> usize {
        while self.unheard.front().is_some_and(|lost| lost.strong_count() == 0) {
            self.unheard.pop_front();
        }
        self.unheard.len()
    }
}

/// What happened since [`Desk::begin`], all at one time, and who is to be told what once it is durable.
#[derive(Debug)]
pub struct Batch<C> {
    pub at: Timestamp,
    pub first: Seq,
    pub events: Vec<Event>,
    pub answers: Vec<(C, Reply)>,
    pub commands: usize,
    /// What scripts took.
    operations: u64,
    /// Whether somebody can go on once it is durable.
    urgent: bool,
}

impl<C> Default for Batch<C> {
    fn default() -> Self {
        let (at, first) = (Timestamp::default(), Seq::default());
        Self { at, first, events: Vec::new(), answers: Vec::new(), commands: 0, operations: 0, urgent: false }
    }
}

/// What came of a command: its reply, how many events, and how many listeners heard of a wait's end.
struct Applied {
    reply: Reply,
    events: usize,
    told: usize,
}

/// Who listens for what, without the state that it is about. For engines that move.
#[derive(Clone, Debug)]
pub struct Audience<C> {
    pub listeners: Vec<(WaiterId, Vec<C>)>,
    pub carriers: Vec<(SessionId, u64, C)>,
    pub told: Vec<(Token, usize)>,
}

impl<C: Caller> Desk<C> {
    pub fn new(machine: Machine, nonces: Nonces) -> Self {
        Self {
            machine,
            nonces,
            listeners: BTreeMap::new(),
            waiting: BTreeMap::new(),
            carriers: BTreeMap::new(),
            over: Vec::new(),
            unheeded: Vec::new(),
            told: BTreeMap::new(),
            batch: Batch::default(),
            room: [0; 2],
        }
    }

    /// Goes on where another left off, which must have had nothing due: nobody is told that anything happened.
    pub fn moved(machine: Machine, nonces: Nonces, audience: Audience<C>) -> Self {
        let mut desk = Self::new(machine, nonces);
        for (waiter, callers) in audience.listeners {
            desk.waiting.extend(callers.iter().map(|caller| (caller.id(), waiter)));
            desk.listeners.insert(waiter, callers);
        }
        for (session, attachment, caller) in audience.carriers {
            desk.carriers.insert(session, Carrier { caller, attachment, unheard: VecDeque::new() });
        }
        desk.told = audience.told.into_iter().collect();
        desk
    }

    pub fn audience(&self) -> Audience<C> {
        Audience {
            listeners: self.listeners.iter().map(|(waiter, callers)| (*waiter, callers.clone())).collect(),
            carriers: self.carriers.iter().map(|(id, it)| (*id, it.attachment, it.caller.clone())).collect(),
            told: self.told.iter().map(|(token, times)| (*token, *times)).collect(),
        }
    }

    pub fn state(&self) -> &State {
        self.machine.state()
    }

    /// How things stand, as of the batch under way.
    pub fn query(&self, query: &Query) -> Result<View, Refusal> {
        self.query_at(query, self.batch_time())
    }

    pub fn query_at(&self, query: &Query, at: Timestamp) -> Result<View, Refusal> {
        self.machine.query_at(query, at)
    }

    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.machine.next_deadline()
    }

    /// The time of the last thing that happened: no batch may be earlier.
    pub fn now(&self) -> Timestamp {
        self.state().counters().now
    }

    /// The time of the batch under way.
    pub fn batch_time(&self) -> Timestamp {
        self.batch.at.max(self.now())
    }

    /// Opens a batch and ends what is due by then.
    pub fn begin(&mut self, at: Timestamp) {
        assert!(at >= self.now(), "time runs forward");
        self.open(at);
        self.expire();
    }

    /// The first thing a recovered machine must hear.
    pub fn restart(&mut self, at: Timestamp) {
        self.open(at);
        self.apply(Command::Restart);
        self.expire();
    }

    fn open(&mut self, at: Timestamp) {
        let first = Seq(self.state().counters().seq.0 + 1);
        let [events, answers] = self.room.map(|room| room.min(ROOM_MAX));
        let (events, answers) = (Vec::with_capacity(events), Vec::with_capacity(answers));
        self.batch = Batch { at, first, events, answers, ..Batch::default() };
    }

    /// Whether somebody can go on once this batch is durable. Those who were put in a queue cannot.
    pub fn is_urgent(&self) -> bool {
        self.batch.urgent || self.batch.answers.is_empty()
    }

    /// Whether the batch must be closed before anything else is handled.
    pub fn is_full(&self) -> bool {
        self.batch.events.len() >= EVENTS_PER_BATCH_MAX || self.batch.operations >= OPERATIONS_PER_BATCH_MAX
    }

    pub fn finish(&mut self) -> Batch<C> {
        self.room = [self.batch.events.len(), self.batch.answers.len()];
        std::mem::take(&mut self.batch)
    }

    pub fn command(&mut self, command: Command, caller: C) {
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
                    self.waiting.insert(caller.id(), queued.waiter);
                    listeners.push(caller.clone());
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
                let carrier = Carrier { caller: caller.clone(), attachment: open.attachment, unheard: VecDeque::new() };
                self.dismiss(open.id, Refusal::SessionTakenOver);
                self.carriers.insert(open.id, carrier);
            }
            _ => {}
        }
        self.answer(caller, reply);
        self.expire();
    }

    /// Nobody listens for the answers to this command any more. A grant that was answered but did not arrive is named.
    pub fn hang_up(&mut self, caller: C::Id, unreceived: Option<Token>) {
        if let Some(token) = unreceived {
            if let Some(times) = self.told.get_mut(&token)
                && *times > 1
                && !Mistake::MiscountsListeners.is_made()
            {
                *times -= 1;
            } else {
                self.apply(Command::TakeBack { token });
            }
        }
        self.stop_listening(caller, false);
        self.expire();
    }

    /// The caller is gone with all that connected it, and may come back by its session and ask again.
    pub fn lose(&mut self, caller: C::Id) {
        self.stop_listening(caller, true);
        self.expire();
    }

    fn stop_listening(&mut self, caller: C::Id, may_return: bool) {
        let Some(waiter) = self.waiting.remove(&caller) else { return };
        let Some(listeners) = self.listeners.get_mut(&waiter) else { return };
        let gone = listeners.iter().position(|listener| listener.id() == caller).map(|at| listeners.remove(at));
        if listeners.is_empty() {
            self.listeners.remove(&waiter);
            let may_return = may_return || gone.is_some_and(|listener| listener.returns());
            self.apply(Command::Abandon { waiter, may_return });
        }
    }

    /// The connection that carried a session is gone.
    pub fn detach(&mut self, session: SessionId, attachment: u64) {
        if self.carriers.get(&session).is_some_and(|carrier| carrier.attachment == attachment) {
            self.carriers.remove(&session);
        }
        self.apply(Command::DetachSession { session, attachment });
        self.expire();
    }

    /// Gives those who wait, and listens for nothing any more on their behalf.
    pub fn dismiss_listeners(&mut self) -> Vec<C> {
        self.waiting.clear();
        std::mem::take(&mut self.listeners).into_values().flatten().collect()
    }

    fn answer(&mut self, caller: C, reply: Reply) {
        self.batch.urgent |= !matches!(reply, Reply::Queued(_));
        self.batch.answers.push((caller, reply));
    }

    /// Tells the connection that carried a session that it does not any more: the last answer to the command by which
    /// it came to.
    fn dismiss(&mut self, session: SessionId, why: Refusal) {
        if let Some(Carrier { caller, .. }) = self.carriers.remove(&session) {
            self.answer(caller, Reply::Refused(Box::new(why)));
        }
    }

    /// Tells the connection that carries the session, if there is one: another answer to the same command, and not its
    /// end.
    pub(crate) fn tell_lost(&mut self, session: SessionId, lost: HoldLost) {
        let Some(carrier) = self.carriers.get_mut(&session) else { return };
        if Mistake::KeepsLossesQuiet.is_made() {
            return;
        }
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
        let caller = carrier.caller.clone();
        self.answer(caller, Reply::Lost(lost));
    }

    /// Ends what is due, unless there is so much of it that the rest is left to the next batch.
    pub(crate) fn expire(&mut self) {
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

    /// Applies a command, keeps its events and answers whoever waited.
    fn apply(&mut self, command: Command) -> Applied {
        let stamp = Stamp { at: self.batch.at, nonce: (self.nonces)() };
        let outcome = self.machine.apply(stamp, command);
        for event in &outcome.events {
            match event {
                Event::Ended { token, .. } => {
                    self.told.remove(token);
                }
                Event::SessionEnded { id, .. } => self.over.push(*id),
                _ => {}
            }
        }
        self.batch.operations = self.batch.operations.saturating_add(outcome.operations);
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
        for caller in listeners {
            self.waiting.remove(&caller.id());
            self.answer(caller, reply.clone());
        }
        told
    }
}

impl<C: Caller> fmt::Debug for Desk<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("listeners", &self.listeners.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{
        Acquire, Amount, Budget, Capacity, Demand, Fault, Holder, Labels, Limits, Namespace, Offer, Order, Placement,
        Policies, Policy, PoolName, PoolPath, PoolSpec, Priority, Request, ResourceName, ResourceSpec, Script, Scripts,
        SetPool, Wait, Which,
    };

    use super::*;

    /// Takes 6,000 operations for each score.
    struct Slow;

    impl Policies for Slow {
        fn compile(&self, _: Which, _: &str) -> Result<Arc<dyn Policy>, Fault> {
            Ok(Arc::new(Self))
        }
    }

    impl Policy for Slow {
        fn score(&self, _: &Request<'_>, _: Option<&Offer<'_>>, budget: &mut Budget) -> Result<i64, Fault> {
            budget.spend(6_000)?;
            Ok(1)
        }
    }

    #[derive(Clone, Debug)]
    struct Numbered(usize);

    impl Caller for Numbered {
        type Id = usize;

        fn id(&self) -> usize {
            self.0
        }

        fn returns(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_batch_in_which_scripts_took_much_is_full_and_the_next_goes_on() {
        let machine = Machine::new(Limits::default()).with_policies(Arc::new(Slow));
        let mut nonce = 0_u128;
        let nonces = move || {
            nonce += 1;
            nonce << 64 | nonce
        };
        let mut desk = Desk::new(machine, Box::new(nonces));
        let path = PoolPath::new(Namespace::default(), PoolName::parse("gpus").expect("a name"));
        let resource = |n| ResourceSpec {
            name: ResourceName::parse(&format!("r{n}")).expect("a name"),
            labels: Labels::default(),
            properties: Labels::default(),
        };
        let spec = PoolSpec {
            capacity: Capacity::Resources { placement: Placement::First, resources: (0..16).map(resource).collect() },
            order: Order::Strict,
            window: None,
            declared: true,
            cleaning: false,
            fair: None,
            scripts: Scripts { place: Some(Script::parse("slow").expect("a script")), order: None },
        };
        desk.begin(Timestamp::from_millis(1));
        desk.command(Command::SetPool(SetPool { pool: path.clone(), spec }), Numbered(0));
        let mut batches = Vec::new();
        for n in 1..=16 {
            if desk.is_full() {
                batches.push(desk.finish().answers.len());
                desk.begin(Timestamp::from_millis(1));
            }
            let acquire = Acquire {
                pool: path.clone(),
                demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
                size: None,
                lifetime: None,
                wait: Wait::Try,
                priority: Priority::default(),
                holder: Arc::new(Holder::parse(&format!("h{n}"), []).expect("a holder")),
                session: None,
                request: None,
                also: Box::default(),
                holds_on: false,
            };
            desk.command(Command::Acquire(acquire), Numbered(n));
        }
        batches.push(desk.finish().answers.len());
        // 96,000 operations for the first, 6,000 less for each that comes.
        assert_eq!(batches, [8, 9]);
        assert_eq!(desk.state().stats().holds, 16);
    }
}

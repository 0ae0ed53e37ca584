//! A second opinion on everything: the rules once more, written to be obvious and not to be fast. Plain lists that are
//! searched from one end to the other, no indexes, nothing remembered that can be worked out.
//!
//! It predicts every answer to every caller. What the rules leave open (keys, and which resources a random placement takes)
//! is read from what the engine did, and checked for being allowed.

mod compare;
mod deadlocks;
mod ending;
mod operators;
mod placement;
mod pools;
mod requests;
mod scripts;
mod sessions;
mod turns;

use std::collections::VecDeque;
use std::sync::Arc;

use tenure_core::*;
use tenure_engine::{Failure, Ticket};

pub use compare::same_answer;

#[derive(Clone, Debug)]
pub struct Model {
    limits: Limits,
    now: Timestamp,
    token_next: u64,
    waiter_next: u64,
    session_next: u64,
    /// Rises with every resource that is given back.
    uses: u64,
    pools: Vec<Pool>,
    holds: Vec<Hold>,
    waiters: Vec<Waiter>,
    sessions: Vec<Session>,
    ended: Vec<Ended>,

    // Who is to be told what.
    listeners: Vec<Listener>,
    carriers: Vec<Carrier>,
    told: Vec<(Token, usize)>,

    // The batch under way.
    choices: Choices,
    answers: Vec<Expected>,
    to_serve: Vec<PoolPath>,
    over: Vec<SessionId>,
    /// Waits that were refused because they could never end.
    knots: Vec<deadlocks::Knot>,
    wrong: Option<String>,
}

#[derive(Clone, Debug)]
struct Pool {
    path: PoolPath,
    /// None for resources, which are listed below.
    units: Option<u32>,
    placement: Placement,
    resources: Vec<Resource>,
    order: Order,
    window: Option<Ttl>,
    declared: bool,
    condition: Condition,
    removing: bool,
    idle_since: Option<Timestamp>,
    /// When it returns to service by itself.
    until: Option<Timestamp>,
    cleaning: bool,
    fair: Option<FairShare>,
    /// The turn that was served last, by priority, while somebody of that priority waits.
    served: Vec<(Priority, i64)>,
    scripts: Scripts,
    /// How often they have failed since they were set.
    faults: u32,
}

#[derive(Clone, Debug)]
struct Resource {
    spec: ResourceSpec,
    condition: Condition,
    leaving: bool,
    /// When it was last given back, in order; 0 if never.
    used: u64,
    until: Option<Timestamp>,
    dirty: bool,
    reserved: Option<Reservation>,
}

#[derive(Clone, Debug)]
struct Hold {
    token: Token,
    pool: PoolPath,
    key: Key,
    holder: Arc<Holder>,
    units: u32,
    resources: Vec<ResourceName>,
    all: bool,
    dirty: bool,
    lifetime: Lifetime,
    since: Timestamp,
    deadline: Option<Timestamp>,
    session: Option<SessionId>,
    request: Option<RequestId>,
    /// Of further pools; places in windows are holds of their own, and only told of here.
    also: Vec<HeldPart>,
}

impl Hold {
    /// What it has of a pool, if anything.
    fn has(&self, path: &PoolPath) -> Option<Has<'_>> {
        if self.pool == *path {
            return Some(Has {
                hold: self,
                units: self.units,
                resources: &self.resources,
                all: self.all,
                dirty: self.dirty,
            });
        }
        let part = self.also.iter().find(|part| part.pool == *path && part.until.is_none())?;
        let taken = &part.taken;
        Some(Has { hold: self, units: taken.units, resources: &taken.resources, all: taken.all, dirty: taken.dirty })
    }

    /// The pools of which it has something.
    fn pools(&self) -> Vec<PoolPath> {
        let also = self.also.iter().filter(|part| part.until.is_none()).map(|part| part.pool.clone());
        std::iter::once(self.pool.clone()).chain(also).collect()
    }
}

/// What a hold has of one pool.
struct Has<'a> {
    hold: &'a Hold,
    units: u32,
    resources: &'a [ResourceName],
    all: bool,
    dirty: bool,
}

#[derive(Clone, Debug)]
struct Waiter {
    id: WaiterId,
    pool: PoolPath,
    key: Key,
    holder: Arc<Holder>,
    demand: Demand,
    lifetime: Lifetime,
    priority: Priority,
    since: Timestamp,
    deadline: Option<Timestamp>,
    session: Option<SessionId>,
    request: Option<RequestId>,
    away: bool,
    /// The lower is served first within a priority. In this order they stand in the list.
    turn: i64,
    /// Of further pools.
    also: Vec<WaitedPart>,
    /// Its holder lets go of nothing before it is answered.
    holds_on: bool,
}

impl Waiter {
    /// What it wants of each of its pools.
    fn parts(&self) -> Vec<(PoolPath, Demand)> {
        let also = self.also.iter().map(|part| (part.pool.clone(), part.demand.clone()));
        std::iter::once((self.pool.clone(), self.demand.clone())).chain(also).collect()
    }

    fn wants(&self, path: &PoolPath) -> Option<&Demand> {
        let part = self.also.iter().find(|part| part.pool == *path).map(|part| &part.demand);
        if self.pool == *path { Some(&self.demand) } else { part }
    }

    /// The window that one of its pools was when it came.
    fn window(&self, path: &PoolPath) -> Option<Ttl> {
        match (self.also.iter().find(|part| part.pool == *path), &self.lifetime) {
            (Some(part), _) => part.window,
            (None, Lifetime::Window(window)) => Some(*window),
            (None, _) => None,
        }
    }
}

#[derive(Clone, Debug)]
struct Session {
    id: SessionId,
    namespace: Namespace,
    key: Key,
    holder: Arc<Holder>,
    grace: Ttl,
    outlasts_holds: bool,
    attached: bool,
    away: bool,
    attachments: u64,
    deadline: Option<Timestamp>,
}

/// A request that is over and still remembered.
#[derive(Clone, Debug)]
struct Ended {
    namespace: Namespace,
    request: RequestId,
    at: Timestamp,
    token: Option<Token>,
}

#[derive(Clone, Debug)]
struct Listener {
    waiter: WaiterId,
    ticket: Ticket,
    returns: bool,
}

#[derive(Clone, Debug)]
struct Carrier {
    session: SessionId,
    attachment: u64,
    ticket: Ticket,
}

/// What the engine chose where the rules leave a choice, in the order in which it did.
#[derive(Clone, Debug, Default)]
struct Choices {
    granted: VecDeque<(Key, Vec<Vec<ResourceName>>)>,
    queued: VecDeque<Key>,
    opened: VecDeque<Key>,
}

/// An answer, and whose it is.
pub type Expected = (Ticket, Result<Reply, Failure>);

/// Something that reached the engine.
#[derive(Clone, Debug)]
pub enum Heard {
    Command { ticket: Ticket, command: Command, returns: bool },
    HangUp { ticket: Ticket, unreceived: Option<Token> },
    Detach { session: SessionId, attachment: u64 },
    Stop,
}

impl Model {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            now: Timestamp::default(),
            token_next: 1,
            waiter_next: 1,
            session_next: 1,
            uses: 0,
            pools: Vec::new(),
            holds: Vec::new(),
            waiters: Vec::new(),
            sessions: Vec::new(),
            ended: Vec::new(),
            listeners: Vec::new(),
            carriers: Vec::new(),
            told: Vec::new(),
            choices: Choices::default(),
            answers: Vec::new(),
            to_serve: Vec::new(),
            over: Vec::new(),
            knots: Vec::new(),
            wrong: None,
        }
    }

    /// What a batch is to be answered with. An error says what the engine did that it may not.
    pub fn batch(
        &mut self,
        at: Timestamp,
        restart: bool,
        heard: &[Heard],
        events: &[Event],
    ) -> Result<Vec<Expected>, String> {
        self.now = at;
        self.choices = Choices::default();
        self.knots.clear();
        for event in events {
            match event {
                Event::Granted { hold, .. } => {
                    let also = hold.also.iter().map(|part| part.taken.resources.to_vec());
                    let resources = std::iter::once(hold.taken.resources.to_vec()).chain(also).collect();
                    self.choices.granted.push_back((hold.key, resources));
                }
                Event::Queued { waiter, .. } => self.choices.queued.push_back(waiter.key),
                Event::SessionOpened { key, .. } => self.choices.opened.push_back(*key),
                _ => {}
            }
        }
        if restart {
            self.restart();
        }
        self.end_what_is_due();
        for heard in heard {
            self.hear(heard);
            self.end_what_is_due();
        }
        let answers = std::mem::take(&mut self.answers);
        let left = self.choices.granted.len() + self.choices.queued.len() + self.choices.opened.len();
        match self.wrong.take() {
            Some(wrong) => Err(wrong),
            None if left > 0 => Err(format!("more was granted, queued or opened than asked for: {:?}", self.choices)),
            None => Ok(answers),
        }
    }

    fn hear(&mut self, heard: &Heard) {
        match heard {
            Heard::Command { ticket, command, returns } => self.command(*ticket, command.clone(), *returns),
            Heard::HangUp { ticket, unreceived } => self.hang_up(*ticket, *unreceived),
            Heard::Detach { session, attachment } => {
                self.carriers.retain(|it| (it.session, it.attachment) != (*session, *attachment));
                self.detach(*session, *attachment);
            }
            Heard::Stop => {
                for listener in std::mem::take(&mut self.listeners) {
                    self.answers.push((listener.ticket, Err(Failure::Stopping)));
                }
            }
        }
    }

    fn command(&mut self, ticket: Ticket, command: Command, returns: bool) {
        let carries = match &command {
            Command::OpenSession(open) => open.attached,
            Command::AttachSession { .. } => true,
            _ => false,
        };
        let reply = match self.decide(ticket, command, returns) {
            Ok(reply) => reply,
            Err(refusal) => Reply::Refused(Box::new(refusal)),
        };
        if let (Reply::Session(open), true) = (&reply, carries) {
            self.dismiss(open.id, Refusal::SessionTakenOver);
            self.carriers.push(Carrier { session: open.id, attachment: open.attachment, ticket });
        }
        self.answers.push((ticket, Ok(reply)));
    }

    fn decide(&mut self, ticket: Ticket, command: Command, returns: bool) -> Result<Reply, Refusal> {
        match command {
            Command::Acquire(acquire) => self.acquire(ticket, acquire, returns),
            Command::Renew(renew) => self.renew(&renew),
            Command::Release(release) => self.release(&release),
            Command::Withdraw { namespace, request } => Ok(self.withdraw(namespace, request)),
            Command::ForceRelease(force) => self.force_release(force),
            Command::OwnerGone { namespace, owner } => Ok(self.owner_gone(&namespace, &owner)),
            Command::OpenSession(open) => self.open_session(open),
            Command::KeepAlive { namespace, session } => self.keep_alive(&namespace, session),
            Command::AttachSession { namespace, session } => self.attach(&namespace, session),
            Command::EndSession { namespace, session } => self.end_session(&namespace, session),
            Command::SetPool(set) => self.set_pool(set),
            Command::SetCondition(set) => self.set_condition(set),
            Command::RemovePool { pool } => self.remove_pool(pool),
            Command::Steal(steal) => self.steal(steal),
            Command::MoveWaiter(to) => self.move_waiter(to),
            Command::Reserve(reserve) => self.reserve(reserve),
            Command::Unreserve(unreserve) => self.unreserve(unreserve),
            Command::ChangeSeen { seen, change } => {
                self.check_seen(seen)?;
                match change {
                    Change::Pool(set) => self.set_pool(set),
                    Change::Condition(set) => self.set_condition(set),
                }
            }
            Command::DetachSession { .. }
            | Command::Expire
            | Command::Restart
            | Command::Abandon { .. }
            | Command::TakeBack { .. } => unreachable!("no client can say this"),
        }
    }

    fn hang_up(&mut self, ticket: Ticket, unreceived: Option<Token>) {
        if let Some(token) = unreceived {
            match self.told.iter_mut().find(|(it, times)| *it == token && *times > 1) {
                Some((_, times)) => *times -= 1,
                None => {
                    // A place in a rate window is used up by being granted.
                    let held = self.holds.iter().any(|hold| hold.token == token && !is_window(&hold.lifetime));
                    if held {
                        let pool = self.end_hold(token, HoldEnd::Unreceived);
                        self.serve(&pool);
                    }
                }
            }
        }
        let Some(at) = self.listeners.iter().position(|listener| listener.ticket == ticket) else { return };
        let gone = self.listeners.remove(at);
        if self.listeners.iter().any(|listener| listener.waiter == gone.waiter) {
            return;
        }
        if let Some(pool) = self.lose_caller(gone.waiter, gone.returns) {
            self.serve(&pool);
        }
    }

    /// Nobody listens for a wait any more. Gives the pool whose queue has changed.
    fn lose_caller(&mut self, id: WaiterId, may_return: bool) -> Option<PoolPath> {
        let waiter = self.waiters.iter_mut().find(|waiter| waiter.id == id)?;
        if may_return && waiter.session.is_some() && waiter.request.is_some() {
            let pools = waiter.parts();
            if pools.len() > 1 && !waiter.away {
                self.to_serve.extend(pools.into_iter().map(|(pool, _)| pool));
            }
            waiter.away = true;
            return Some(waiter.pool.clone());
        }
        Some(self.end_wait(id, WaitEnd::CallerGone))
    }

    fn restart(&mut self) {
        self.listeners.clear();
        self.carriers.clear();
        self.told.clear();
        self.over.clear();
        self.to_serve.clear();
        for id in self.waiters.iter().map(|waiter| waiter.id).collect::<Vec<_>>() {
            self.lose_caller(id, true);
        }
        for at in 0..self.sessions.len() {
            let deadline = self.session_deadline(&self.sessions[at]);
            let session = &mut self.sessions[at];
            session.away |= session.attached;
            session.attached = false;
            session.deadline = Some(deadline);
        }
    }

    /// Tells the connection that carried a session that it does not any more.
    fn dismiss(&mut self, session: SessionId, why: Refusal) {
        if let Some(at) = self.carriers.iter().position(|carrier| carrier.session == session) {
            let ticket = self.carriers.remove(at).ticket;
            self.answers.push((ticket, Ok(Reply::Refused(Box::new(why)))));
        }
    }

    /// Tells those who listen what came of a wait.
    fn settle(&mut self, waiter: WaiterId, reply: &Reply) {
        let (told, rest): (Vec<_>, Vec<_>) = self.listeners.drain(..).partition(|listener| listener.waiter == waiter);
        self.listeners = rest;
        if let Reply::Granted(grant) = reply
            && told.len() > 1
        {
            self.told.push((grant.token, told.len()));
        }
        self.answers.extend(told.iter().map(|listener| (listener.ticket, Ok(reply.clone()))));
    }

    fn choose<T>(&mut self, what: &str, choice: Option<T>, otherwise: T) -> T {
        choice.unwrap_or_else(|| {
            self.wrong.get_or_insert_with(|| format!("{what} should have happened, and did not"));
            otherwise
        })
    }

    fn pool(&self, path: &PoolPath) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.path == *path)
    }

    fn known(&self, path: &PoolPath) -> &Pool {
        self.pool(path).expect("the pool of a hold or a waiter is there")
    }

    fn holds_of<'a>(&'a self, path: &'a PoolPath) -> impl Iterator<Item = Has<'a>> {
        self.holds.iter().filter_map(move |hold| hold.has(path))
    }

    /// Everybody in a queue, those away too, in order.
    fn queue(&self, path: &PoolPath) -> Vec<&Waiter> {
        self.waiters.iter().filter(|waiter| waiter.wants(path).is_some()).collect()
    }

    /// From 1, among those who can be served.
    fn position(&self, path: &PoolPath, id: WaiterId) -> usize {
        let queue = self.queue(path);
        queue.iter().take_while(|waiter| waiter.id != id).filter(|waiter| !waiter.away).count() + 1
    }
}

fn is_window(lifetime: &Lifetime) -> bool {
    matches!(lifetime, Lifetime::Window(_))
}

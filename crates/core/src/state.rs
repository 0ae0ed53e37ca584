//! Everything the machine knows, its indexes, and [`State::evolve`], the one function that changes it.
//!
//! Nothing here decides: an event is a fact, and applying it to the state it was made from cannot fail.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::command::*;
use crate::event::{Event, HoldEnd, WaitEnd};
use crate::limits::{REQUEST_MEMORY, REQUESTS_REMEMBERED_MAX};
use crate::mutation::Mistake;
use crate::names::*;
use crate::pool::{Pool, Resource, Taken};
use crate::pools::Pools;
use crate::record::*;
use crate::time::{Timestamp, Ttl};
use crate::view::{Rank, Reservation};

/// What is bound to an outside owner and ends with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) holds: BTreeSet<Token>,
    pub(crate) waiters: BTreeSet<WaiterId>,
}

/// What comes due. In this order at the same instant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    Hold(Token),
    Wait(WaiterId),
    Session(SessionId),
    Idle(PoolPath),
    /// A pool, or one of its resources, returns to service.
    Return(PoolPath, Option<ResourceName>),
    /// Nobody came for what was reserved.
    Reservation(PoolPath, ResourceName),
}

#[derive(Debug, PartialEq, Eq)]
pub struct State {
    pub(crate) counters: Counters,
    pub(crate) pools: Pools,
    pub(crate) holds: BTreeMap<Token, Box<Hold>>,
    pub(crate) waiters: BTreeMap<WaiterId, Box<Waiter>>,
    pub(crate) sessions: BTreeMap<SessionId, Box<Session>>,
    pub(crate) hold_keys: BTreeMap<Key, Token>,
    pub(crate) session_keys: BTreeMap<Key, SessionId>,
    pub(crate) owners: BTreeMap<(Namespace, OwnerId), Owned>,
    /// The waits of those who let go of nothing meanwhile.
    pub(crate) holding_on: BTreeMap<(Namespace, HolderId), BTreeSet<WaiterId>>,
    pub(crate) requests: BTreeMap<(Namespace, RequestId), RequestStage>,
    requests_ended: VecDeque<EndedRequest>,
    pub(crate) deadlines: BTreeSet<(Timestamp, Due)>,
    /// How long an undeclared pool may be idle.
    pool_idle: Ttl,
    requests_remembered_max: usize,
    numbering: Numbering,
}

/// Which of all numbers tokens, waiters and sessions get, where several machines share what they serve: the first is
/// `index + 1`, and each is `of` more than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    pub index: u64,
    pub of: u64,
}

impl Default for Numbering {
    /// All of them.
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

impl State {
    pub fn new(pool_idle: Ttl) -> Self {
        Self {
            counters: Counters {
                now: Timestamp::default(),
                token_next: 1,
                waiter_next: 1,
                session_next: 1,
                seq: Seq(0),
                requests_forgotten: 0,
            },
            pools: Pools::default(),
            holds: BTreeMap::new(),
            waiters: BTreeMap::new(),
            sessions: BTreeMap::new(),
            hold_keys: BTreeMap::new(),
            session_keys: BTreeMap::new(),
            owners: BTreeMap::new(),
            holding_on: BTreeMap::new(),
            requests: BTreeMap::new(),
            requests_ended: VecDeque::new(),
            deadlines: BTreeSet::new(),
            pool_idle,
            requests_remembered_max: REQUESTS_REMEMBERED_MAX,
            numbering: Numbering::default(),
        }
    }

    /// Remembers fewer ended requests than usual, for a state that must stay small.
    pub fn remember_at_most(&mut self, requests: usize) {
        self.requests_remembered_max = requests;
    }

    /// Gives only some of all numbers from here on. To be called again when it was restored.
    pub fn number(&mut self, numbering: Numbering) {
        let Numbering { index, of } = numbering;
        assert!(index < of, "the first of every `of` numbers is below it");
        let counters = &mut self.counters;
        for next in [&mut counters.token_next, &mut counters.waiter_next, &mut counters.session_next] {
            // The lowest one of ours that has not been given.
            *next += (index + 1 + of - *next % of) % of;
        }
        self.numbering = numbering;
    }

    /// Changes the state by one event.
    pub fn evolve(&mut self, at: Timestamp, event: &Event) {
        assert!(at >= self.counters.now, "time runs forward");
        self.counters.now = at;
        self.counters.seq.0 += 1;
        match event {
            Event::Queued { id, waiter } => {
                self.counters.waiter_next = self.counters.waiter_next.max(id.0 + self.numbering.of);
                self.insert_waiter(*id, waiter.clone(), true);
            }
            Event::Granted { token, hold, waiter } => {
                self.counters.token_next = self.counters.token_next.max(token.0 + self.numbering.of);
                if let Some(id) = waiter {
                    self.remove_waiter(*id, true);
                }
                self.insert_hold(*token, hold.clone());
                self.use_up_reservations(hold);
            }
            Event::Renewed { token, ttl, deadline, adopted_from, .. } => {
                let hold = self.holds.get_mut(token).expect("a renewed hold is there");
                if let Some(before) = hold.deadline.replace(*deadline) {
                    self.deadlines.remove(&(before, Due::Hold(*token)));
                }
                self.deadlines.insert((*deadline, Due::Hold(*token)));
                hold.lifetime = match (&hold.lifetime, adopted_from) {
                    (Lifetime::Session(_), None) => Lifetime::Session(Some(*ttl)),
                    _ => Lifetime::Leased(*ttl),
                };
                if let Some(id) = adopted_from {
                    self.sessions.get_mut(id).expect("a hold's session is there").holds.remove(token);
                }
            }
            Event::Ended { token, how, .. } => {
                let hold = self.remove_hold(at, *token, how);
                // A caller that never got the hold may ask again with the same request id.
                if let (Some(request), false) = (&hold.request, *how == HoldEnd::Unreceived) {
                    self.remember(at, hold.pool.namespace().clone(), request.clone(), Some(*token));
                }
            }
            Event::WaitEnded { id, how, .. } => {
                let waiter = self.remove_waiter(*id, false);
                // A caller that hung up may ask again with the same request id.
                if let (Some(request), false) = (&waiter.request, *how == WaitEnd::CallerGone) {
                    self.remember(at, waiter.pool.namespace().clone(), request.clone(), None);
                }
                for (pool, _) in waiter.parts() {
                    self.note_idle(at, pool);
                }
            }
            Event::WaiterAway { id, .. } => self.move_waiter(*id, false),
            Event::WaiterBack { id, .. } => self.move_waiter(*id, true),
            Event::RequestWithdrawn { namespace, request } => {
                self.remember(at, namespace.clone(), request.clone(), None);
            }
            Event::SessionOpened { id, namespace, key, holder, grace, attached, outlasts_holds } => {
                self.counters.session_next = self.counters.session_next.max(id.0 + self.numbering.of);
                let session = Session {
                    namespace: namespace.clone(),
                    key: *key,
                    holder: holder.clone(),
                    grace: *grace,
                    outlasts_holds: *outlasts_holds,
                    attached: *attached,
                    away: false,
                    attachments: u64::from(*attached),
                    deadline: (!attached).then(|| at + *grace),
                    closing: false,
                    holds: BTreeSet::new(),
                    waiters: BTreeSet::new(),
                };
                self.insert_session(*id, session);
            }
            Event::SessionKept { id, deadline } => {
                self.set_session(*id, false, Some(*deadline));
                self.sessions.get_mut(id).expect("a kept session is there").away = false;
            }
            Event::SessionAttached { id, .. } => {
                self.set_session(*id, true, None);
                self.sessions.get_mut(id).expect("an attached session is there").attachments += 1;
            }
            Event::SessionDetached { id, deadline, .. } => self.set_session(*id, false, Some(*deadline)),
            Event::SessionClosing { id, .. } => {
                self.set_session(*id, false, Some(at));
                self.sessions.get_mut(id).expect("a closing session is there").closing = true;
            }
            Event::SessionEnded { id, .. } => {
                let session = self.sessions.remove(id).expect("a session that ends is there");
                assert!(session.holds.is_empty() && session.waiters.is_empty(), "a session ends after what it has");
                self.session_keys.remove(&session.key);
                if let Some(deadline) = session.deadline {
                    self.deadlines.remove(&(deadline, Due::Session(*id)));
                }
            }
            Event::PoolSet { pool, spec, .. } => {
                match self.pools.contains(pool) {
                    true => self.change_pool(pool, spec),
                    false => self.pools.insert(pool.clone(), Pool::new(spec)),
                }
                self.note_busy(pool);
                self.note_idle(at, pool);
            }
            Event::ConditionSet { pool, resource, condition, until, .. } => {
                let before = self.pool_mut(pool).set_condition(resource.as_ref(), condition, *until);
                self.reschedule(Due::Return(pool.clone(), resource.clone()), before, *until);
                self.note_busy(pool);
                self.note_idle(at, pool);
            }
            Event::PoolRemoving { pool } => self.pool_mut(pool).removing = true,
            Event::PoolGone { pool } => {
                self.note_busy(pool);
                for due in self.due_of_pool(pool) {
                    self.deadlines.remove(&due);
                }
                let pool = self.pools.remove(pool).expect("a pool that goes is there");
                assert!(pool.holds.is_empty() && pool.queue.is_empty(), "a pool goes when nobody has or wants it");
            }
            Event::Restarted => {
                let open = self.sessions.iter().filter(|(_, session)| !session.closing);
                let sessions: Vec<_> = open.map(|(id, session)| (*id, self.session_deadline(at, session))).collect();
                for (id, deadline) in sessions {
                    self.set_session(id, false, Some(deadline));
                }
            }
            Event::Reserved { pool, resource, holder, until, reason } => {
                let reservation = Reservation { holder: holder.clone(), until: *until, reason: reason.clone() };
                self.set_reserved(pool, resource, Some(reservation));
            }
            Event::ReservationEnded { pool, resource, .. } => self.set_reserved(pool, resource, None),
            Event::WaiterMoved { id, priority, rank, .. } => self.rank_waiter(*id, *priority, *rank),
            Event::PolicyFailed { pool, .. } => {
                if let Some(scripting) = &mut self.pool_mut(pool).scripting {
                    scripting.faults += 1;
                }
            }
        }
    }

    /// When something comes due next.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if Mistake::OverlooksSessions.is_made() {
            let mut others = self.deadlines.iter().filter(|(_, due)| !matches!(due, Due::Session(_)));
            return others.next().map(|(deadline, _)| *deadline);
        }
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// When a session ends that no connection carries, if its client was last heard of at `at`.
    pub(crate) fn session_deadline(&self, at: Timestamp, session: &Session) -> Timestamp {
        if Mistake::IgnoresGrace.is_made() {
            return at;
        }
        let times = session.holds.iter().filter_map(|token| self.holds[token].deadline);
        let outlasted = if session.outlasts_holds { times.max() } else { None };
        outlasted.map_or(at + session.grace, |last| last.max(at + session.grace))
    }

    /// How far a request has come, if it is remembered.
    pub(crate) fn request_stage(
        &self,
        namespace: &Namespace,
        request: &RequestId,
        now: Timestamp,
    ) -> Option<RequestStage> {
        let stage = *self.requests.get(&(namespace.clone(), request.clone()))?;
        let forgotten = matches!(stage, RequestStage::Ended { at, .. } if at + REQUEST_MEMORY <= now);
        (!forgotten).then_some(stage)
    }

    // What recovery reads from rows is put back by these: counters first, then pools, sessions, holds,
    // waiters and ended requests.

    pub fn restore_counters(&mut self, counters: Counters) {
        self.counters = counters;
    }

    pub fn restore_pool(&mut self, path: PoolPath, pool: Pool) {
        if let Some(since) = pool.idle_since {
            self.deadlines.insert((since + self.pool_idle, Due::Idle(path.clone())));
        }
        self.pools.insert(path.clone(), pool);
        let due = self.due_of_pool(&path);
        self.deadlines.extend(due);
    }

    pub fn restore_session(&mut self, id: SessionId, session: Session) {
        self.insert_session(id, session);
    }

    pub fn restore_hold(&mut self, token: Token, hold: Hold) {
        self.insert_hold(token, Box::new(hold));
    }

    pub fn restore_waiter(&mut self, id: WaiterId, waiter: Waiter, present: bool) {
        self.insert_waiter(id, Box::new(waiter), present);
    }

    pub fn restore_ended_request(&mut self, ended: EndedRequest) {
        let entry = (ended.namespace.clone(), ended.request.clone());
        // It may have been used again since: then what it is now counts.
        if !matches!(self.requests.get(&entry), Some(RequestStage::Waiting(_) | RequestStage::Held(_))) {
            self.requests.insert(entry, RequestStage::Ended { at: ended.at, token: ended.token });
        }
        self.requests_ended.push_back(ended);
    }

    // What the store needs to write rows.

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub fn pool(&self, path: &PoolPath) -> Option<&Pool> {
        self.pools.get(path)
    }

    pub fn hold(&self, token: Token) -> Option<&Hold> {
        self.holds.get(&token).map(|hold| &**hold)
    }

    /// A waiter, and whether it can be served.
    pub fn waiter(&self, id: WaiterId) -> Option<(&Waiter, bool)> {
        let waiter = self.waiters.get(&id)?;
        Some((waiter, !self.pools[&waiter.pool].queue.is_away(waiter.place(id))))
    }

    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id).map(|session| &**session)
    }

    pub fn pools(&self) -> impl Iterator<Item = &PoolPath> {
        self.pools.paths()
    }

    pub fn holds(&self) -> impl Iterator<Item = Token> {
        self.holds.keys().copied()
    }

    pub fn waiters(&self) -> impl Iterator<Item = WaiterId> {
        self.waiters.keys().copied()
    }

    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.sessions.iter().map(|(id, session)| (*id, &**session))
    }

    /// Remembered requests from the `from`th ever on, oldest first.
    pub fn ended_requests(&self, from: u64) -> impl ExactSizeIterator<Item = &EndedRequest> {
        let skip = from.saturating_sub(self.counters.requests_forgotten);
        self.requests_ended.iter().skip(usize::try_from(skip).expect("fits in memory"))
    }

    /// How many requests have ever ended.
    pub fn requests_ended_total(&self) -> u64 {
        self.counters.requests_forgotten + self.requests_ended.len() as u64
    }

    // Inserting and removing, with every index. Live changes and recovery both come through here.

    pub(crate) fn pool_mut(&mut self, path: &PoolPath) -> &mut Pool {
        self.pools.get_mut(path).expect("the pool of a hold, a waiter or a change is there")
    }

    fn insert_hold(&mut self, token: Token, mut hold: Box<Hold>) {
        self.take(token, &mut hold.pool, &hold.taken);
        for part in hold.also.iter_mut().filter(|part| part.until.is_none()) {
            self.take(token, &mut part.pool, &part.taken);
        }
        self.hold_keys.insert(hold.key, token);
        if let Some(deadline) = hold.deadline {
            self.deadlines.insert((deadline, Due::Hold(token)));
        }
        if let Some(request) = &hold.request {
            self.set_request(&hold.pool, request, RequestStage::Held(token));
        }
        match (&hold.lifetime, hold.session) {
            (Lifetime::Session(_), Some(id)) => {
                self.sessions.get_mut(&id).expect("a hold's session is there").holds.insert(token);
            }
            (Lifetime::Bound(owner), _) => {
                self.owners.entry((hold.pool.namespace().clone(), owner.clone())).or_default().holds.insert(token);
            }
            _ => {}
        }
        self.holds.insert(token, hold);
    }

    fn take(&mut self, token: Token, path: &mut PoolPath, taken: &Taken) {
        // All holds of a pool share one copy of its name.
        let (known, pool) = self.pools.get_key_value(path).expect("a hold's pool is there");
        debug_assert!(!pool.holds.contains(token));
        *path = known.clone();
        self.note_busy(path).take(token, taken);
    }

    fn remove_hold(&mut self, at: Timestamp, token: Token, how: &HoldEnd) -> Box<Hold> {
        let hold = self.holds.remove(&token).expect("a hold that ends is there");
        for (path, taken) in hold.parts() {
            let pool = self.pools.get_mut(path).expect("a hold's pool is there");
            for name in &taken.resources {
                // It vanishes, and does not return.
                if let Some((_, Resource { leaving: true, until: Some(until), .. })) = pool.resource(name) {
                    self.deadlines.remove(&(*until, Due::Return(path.clone(), Some(name.clone()))));
                }
            }
            pool.give_back(at, token, taken, left_dirty(taken, how));
            note_idle(pool, path, at, self.pool_idle, &mut self.deadlines);
        }
        self.hold_keys.remove(&hold.key);
        if let Some(deadline) = hold.deadline {
            self.deadlines.remove(&(deadline, Due::Hold(token)));
        }
        if let Some(request) = &hold.request {
            self.requests.remove(&(hold.pool.namespace().clone(), request.clone()));
        }
        match (&hold.lifetime, hold.session) {
            (Lifetime::Session(_), Some(id)) => {
                self.sessions.get_mut(&id).expect("a hold's session is there").holds.remove(&token);
            }
            (Lifetime::Bound(owner), _) => {
                self.disown(hold.pool.namespace(), owner, |owned| owned.holds.remove(&token));
            }
            _ => {}
        }
        hold
    }

    fn insert_waiter(&mut self, id: WaiterId, mut waiter: Box<Waiter>, present: bool) {
        self.note_busy(&waiter.pool.clone());
        let (path, _) = self.pools.get_key_value(&waiter.pool).expect("a waiter's pool is there");
        waiter.pool = path.clone();
        for part in &mut waiter.also {
            self.note_busy(&part.pool);
            let (path, _) = self.pools.get_key_value(&part.pool).expect("a waiter's pools are there");
            part.pool = path.clone();
        }
        let place = waiter.place(id);
        if let Some(turns) = &mut self.pool_mut(&waiter.pool).turns {
            turns.enter(waiter.priority, &waiter.holder, place.rank().turn);
        }
        self.enter_queues(id, &waiter, present);
        if let Some(deadline) = waiter.deadline {
            self.deadlines.insert((deadline, Due::Wait(id)));
        }
        if let Some(request) = &waiter.request {
            self.set_request(&waiter.pool, request, RequestStage::Waiting(id));
        }
        if let Some(session) = waiter.session {
            self.sessions.get_mut(&session).expect("a waiter's session is there").waiters.insert(id);
        }
        if let Lifetime::Bound(owner) = &waiter.lifetime {
            self.owners.entry((waiter.pool.namespace().clone(), owner.clone())).or_default().waiters.insert(id);
        }
        if waiter.holds_on {
            let entry = (waiter.pool.namespace().clone(), waiter.holder.id.clone());
            self.holding_on.entry(entry).or_default().insert(id);
        }
        self.waiters.insert(id, waiter);
    }

    fn remove_waiter(&mut self, id: WaiterId, served: bool) -> Box<Waiter> {
        let waiter = self.waiters.remove(&id).expect("a waiter that leaves is there");
        self.leave_queues(id, &waiter);
        let turn = waiter.place(id).rank().turn;
        if let Some(turns) = &mut self.pool_mut(&waiter.pool).turns {
            turns.leave(waiter.priority, &waiter.holder, turn, served);
        }
        if let Some(deadline) = waiter.deadline {
            self.deadlines.remove(&(deadline, Due::Wait(id)));
        }
        if let Some(request) = &waiter.request {
            self.requests.remove(&(waiter.pool.namespace().clone(), request.clone()));
        }
        if let Some(session) = waiter.session {
            self.sessions.get_mut(&session).expect("a waiter's session is there").waiters.remove(&id);
        }
        if let Lifetime::Bound(owner) = &waiter.lifetime {
            self.disown(waiter.pool.namespace(), owner, |owned| owned.waiters.remove(&id));
        }
        if waiter.holds_on {
            let entry = (waiter.pool.namespace().clone(), waiter.holder.id.clone());
            let waits = self.holding_on.get_mut(&entry).expect("a waiter that holds on is known by its holder");
            waits.remove(&id);
            if waits.is_empty() {
                self.holding_on.remove(&entry);
            }
        }
        waiter
    }

    fn disown(&mut self, namespace: &Namespace, owner: &OwnerId, remove: impl FnOnce(&mut Owned) -> bool) {
        let entry = (namespace.clone(), owner.clone());
        let owned = self.owners.get_mut(&entry).expect("what is bound is known by its owner");
        assert!(remove(owned), "what is bound is known by its owner");
        if *owned == Owned::default() {
            self.owners.remove(&entry);
        }
    }

    fn move_waiter(&mut self, id: WaiterId, present: bool) {
        let waiter = self.waiters.remove(&id).expect("a waiter that moves is there");
        self.leave_queues(id, &waiter);
        self.enter_queues(id, &waiter, present);
        self.waiters.insert(id, waiter);
    }

    fn enter_queues(&mut self, id: WaiterId, waiter: &Waiter, present: bool) {
        let place = waiter.place(id);
        for (pool, demand) in waiter.parts() {
            self.pool_mut(pool).enter(place, waiter, demand, present);
        }
    }

    fn leave_queues(&mut self, id: WaiterId, waiter: &Waiter) {
        for (pool, demand) in waiter.parts() {
            self.pool_mut(pool).leave(waiter.place(id), waiter, demand);
        }
    }

    /// Never a set: its place is the same in all its pools.
    fn rank_waiter(&mut self, id: WaiterId, priority: Priority, rank: Rank) {
        let waiter = self.waiters.get_mut(&id).expect("a waiter that is moved is there");
        let pool = self.pools.get_mut(&waiter.pool).expect("a waiter's pool is there");
        let before = waiter.place(id);
        let present = !pool.queue.is_away(before);
        pool.leave(before, waiter, &waiter.demand);
        let was = (waiter.priority, before.rank().turn);
        (waiter.priority, waiter.rank) = (priority, Some(rank));
        pool.enter(waiter.place(id), waiter, &waiter.demand, present);
        if let Some(turns) = &mut pool.turns {
            // In this order: a priority at which nobody waits is forgotten.
            turns.enter(priority, &waiter.holder, rank.turn);
            turns.leave(was.0, &waiter.holder, was.1, false);
        }
    }

    fn change_pool(&mut self, path: &PoolPath, spec: &PoolSpec) {
        for due in self.due_of_pool(path) {
            self.deadlines.remove(&due);
        }
        let Self { pools, waiters, .. } = self;
        let pool = pools.get_mut(path).expect("a pool that changes is there");
        let (expected, share) = (pool.expects(), pool.turns.as_ref().map(|turns| turns.share.clone()));
        pool.set(spec);
        if pool.expects() != expected {
            pool.sort_into_lanes(waiters);
        }
        if share != spec.fair
            && let Some(turns) = &mut pool.turns
        {
            for place in pool.queue.after(None) {
                let (priority, turn) = (place.priority(), place.rank().turn);
                turns.enter(priority, &waiters[&place.arrival()].holder, turn);
                // Those who are there already stay in front of those to come.
                if share.is_none() {
                    turns.set_clock(priority, turn);
                }
            }
        }
        let due = self.due_of_pool(path);
        self.deadlines.extend(due);
    }

    fn set_reserved(&mut self, path: &PoolPath, resource: &ResourceName, reserved: Option<Reservation>) {
        let until = reserved.as_ref().and_then(|it| it.until);
        let Self { pools, waiters, .. } = self;
        let pool = pools.get_mut(path).expect("the pool of a change is there");
        let before = pool.set_reserved(resource, reserved);
        pool.sort_into_lanes(waiters);
        let before = before.and_then(|before| before.until);
        self.reschedule(Due::Reservation(path.clone(), resource.clone()), before, until);
    }

    /// A reservation is over when its holder has what it was for.
    fn use_up_reservations(&mut self, hold: &Hold) {
        if hold.taken.dirty {
            return;
        }
        for (pool, taken) in hold.parts() {
            for name in &taken.resources {
                let reserved = self.pools[pool].resource(name).and_then(|(_, it)| it.reserved.as_deref());
                if reserved.is_some_and(|reserved| reserved.holder == hold.holder.id) {
                    self.set_reserved(pool, name, None);
                }
            }
        }
    }

    fn reschedule(&mut self, due: Due, before: Option<Timestamp>, after: Option<Timestamp>) {
        let Some(before) = before else {
            self.deadlines.extend(after.map(|after| (after, due)));
            return;
        };
        self.deadlines.remove(&(before, due.clone()));
        self.deadlines.extend(after.map(|after| (after, due)));
    }

    /// What of a pool and its resources comes due, besides its idleness.
    fn due_of_pool(&self, path: &PoolPath) -> Vec<(Timestamp, Due)> {
        let pool = &self.pools[path];
        let mut due: Vec<_> = pool.until.map(|until| (until, Due::Return(path.clone(), None))).into_iter().collect();
        for (name, resource) in pool.resources() {
            let until = resource.until.map(|until| (until, Due::Return(path.clone(), Some(name.clone()))));
            let reserved = resource.reserved.as_ref().and_then(|it| it.until);
            due.extend(until);
            due.extend(reserved.map(|until| (until, Due::Reservation(path.clone(), name.clone()))));
        }
        due
    }

    fn insert_session(&mut self, id: SessionId, session: Session) {
        self.session_keys.insert(session.key, id);
        if let Some(deadline) = session.deadline {
            self.deadlines.insert((deadline, Due::Session(id)));
        }
        self.sessions.insert(id, Box::new(session));
    }

    fn set_session(&mut self, id: SessionId, attached: bool, deadline: Option<Timestamp>) {
        let session = self.sessions.get_mut(&id).expect("a session that changes is there");
        session.away = !attached && (session.away || session.attached);
        session.attached = attached;
        if let Some(before) = core::mem::replace(&mut session.deadline, deadline) {
            self.deadlines.remove(&(before, Due::Session(id)));
        }
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, Due::Session(id)));
        }
    }

    /// The pool is in use, or stays anyway: it does not vanish.
    fn note_busy(&mut self, path: &PoolPath) -> &mut Pool {
        let pool = self.pools.get_mut(path).expect("a pool that is used is there");
        if let Some(since) = pool.idle_since.take() {
            self.deadlines.remove(&(since + self.pool_idle, Due::Idle(path.clone())));
        }
        pool
    }

    fn note_idle(&mut self, at: Timestamp, path: &PoolPath) {
        let pool = self.pools.get_mut(path).expect("a pool outlives its holds and waiters");
        note_idle(pool, path, at, self.pool_idle, &mut self.deadlines);
    }

    fn remember(&mut self, at: Timestamp, namespace: Namespace, request: RequestId, token: Option<Token>) {
        self.forget_requests(at, self.requests_remembered_max.saturating_sub(1));
        self.requests.insert((namespace.clone(), request.clone()), RequestStage::Ended { at, token });
        self.requests_ended.push_back(EndedRequest { at, namespace, request, token });
    }

    /// Notes how far a request has come that is not over.
    fn set_request(&mut self, pool: &PoolPath, request: &RequestId, stage: RequestStage) {
        let before = self.requests.insert((pool.namespace().clone(), request.clone()), stage);
        // Used again when it was long over. What is remembered of its first use must go now: it would be all that is left
        // after a restart, should the second be forgotten.
        if let Some(RequestStage::Ended { .. }) = before {
            self.forget_requests(self.counters.now, usize::MAX);
        }
    }

    /// Forgets ended requests that have been remembered long enough, and the oldest of more than so many.
    fn forget_requests(&mut self, at: Timestamp, remembered_max: usize) {
        while let Some(oldest) = self.requests_ended.front() {
            if self.requests_ended.len() <= remembered_max && oldest.at + REQUEST_MEMORY > at {
                break;
            }
            let oldest = self.requests_ended.pop_front().expect("it was just seen");
            self.counters.requests_forgotten += 1;
            let entry = (oldest.namespace, oldest.request);
            if self.requests.get(&entry) == Some(&RequestStage::Ended { at: oldest.at, token: oldest.token }) {
                self.requests.remove(&entry);
            }
        }
    }
}

/// If nobody has or wants anything of the pool, and it may vanish, it will.
fn note_idle(
    pool: &mut Pool,
    path: &PoolPath,
    at: Timestamp,
    pool_idle: Ttl,
    deadlines: &mut BTreeSet<(Timestamp, Due)>,
) {
    // Out of service it stays: an operator's quarantine must not end by itself.
    let may_vanish = !pool.declared && pool.condition == Condition::InService;
    if may_vanish && pool.holds.is_empty() && pool.queue.is_empty() && pool.idle_since.is_none() {
        pool.idle_since = Some(at);
        deadlines.insert((at + pool_idle, Due::Idle(path.clone())));
    }
}

/// What resources are after a hold, if that changes. Only a release says that they have been cleaned; what nobody received
/// was not used, and what somebody else got is not free yet.
fn left_dirty(taken: &Taken, how: &HoldEnd) -> Option<bool> {
    match how {
        HoldEnd::Unreceived | HoldEnd::Stolen { .. } => None,
        HoldEnd::Released if taken.dirty => Some(false),
        _ => Some(true),
    }
}

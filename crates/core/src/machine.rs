//! Commands in, a reply and events out. Deciding happens here and in the modules below; changing the state
//! is left to [`State::evolve`].

mod acquire;
mod operators;
mod policy;
mod pools;
mod sessions;
mod sets;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use crate::command::*;
use crate::event::{Event, HoldEnd, ReservationEnd, WaitEnd};
use crate::handout::Handout;
use crate::limits::{Limits, WORK_PER_COMMAND_MAX};
use crate::mutation::Mistake;
use crate::names::*;
use crate::placement;
use crate::policy::Policies;
use crate::pool::{Kind, Pool, Taken};
use crate::record::{Hold, RequestStage, Waiter};
use crate::refusal::Refusal;
use crate::reply::{Grant, HoldLost, Reply};
use crate::scores::Compiler;
use crate::state::{Due, State};
use crate::time::{Stamp, Timestamp, Ttl};
use crate::view::{Query, View};

#[derive(Debug)]
pub struct Machine {
    state: State,
    limits: Limits,
    /// Pools in which waiters may be served, left over when a command had done its share of work. Not part of
    /// the state: after a restart no waiter is present until it asks again, and then its pool is served.
    unserved: BTreeSet<PoolPath>,
    /// Of these, the one in which it stopped. It is gone on with first, so that who is served before whom does not depend on how much a command
    /// may do.
    stopped_in: Option<PoolPath>,
    /// Of pools with scripts, until nothing is left over.
    handouts: BTreeMap<PoolPath, Handout>,
    compiler: Compiler,
}

/// What came of a command.
#[derive(Debug)]
pub struct Outcome {
    pub reply: Reply,
    pub events: Vec<Event>,
    /// What came of waits, for whoever listens: a grant, or why there is none.
    pub settled: Vec<(WaiterId, Reply)>,
    /// Holds that were lost, for whoever carries their session.
    pub lost: Vec<(SessionId, HoldLost)>,
    /// What scripts took, in operations.
    pub operations: u64,
}

impl Machine {
    pub fn new(limits: Limits) -> Self {
        Self::restored(State::new(limits.pool_idle), limits)
    }

    /// Goes on from a recovered state. The first command must be [`Command::Restart`], unless those who listened are
    /// still there.
    pub fn restored(state: State, limits: Limits) -> Self {
        let (unserved, handouts) = (BTreeSet::new(), BTreeMap::new());
        Self { state, limits, unserved, stopped_in: None, handouts, compiler: Compiler::new(None) }
    }

    /// Lets pools carry code of the user's own. Without it those that do are refused, and those that there are do without.
    #[must_use]
    pub fn with_policies(self, policies: Arc<dyn Policies>) -> Self {
        Self { compiler: Compiler::new(Some(policies)), ..self }
    }

    /// How things stand, told at a time that is not before the last thing that happened.
    pub fn query_at(&self, query: &Query, now: Timestamp) -> Result<View, Refusal> {
        match query {
            Query::Explain { pool, who, limit } => {
                let compiled = self.state.pool(pool).and_then(|it| self.compiler.look(pool, it));
                let explained = self.state.explain(pool, who.as_ref(), *limit, now, compiled.as_deref())?;
                Ok(View::Explained(Box::new(explained)))
            }
            _ => self.state.query_at(query, now),
        }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// When [`Command::Expire`] must be applied next, at the latest. Anything due must have been ended before
    /// another command is applied, so that a lease is over for everyone who asks after its deadline.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if Mistake::ExpiresEarly.is_made() && self.unserved.is_empty() {
            return self.state.next_deadline().map(|deadline| Timestamp::from_millis(deadline.as_millis() - 1));
        }
        if Mistake::ExpiresLate.is_made() && self.unserved.is_empty() {
            return self.state.next_deadline().map(|deadline| deadline + Ttl::from_millis(1));
        }
        if self.unserved.is_empty() { self.state.next_deadline() } else { Some(self.state.counters.now) }
    }

    pub fn apply(&mut self, stamp: Stamp, command: Command) -> Outcome {
        assert!(
            matches!(command, Command::Expire | Command::Restart)
                || self.next_deadline().is_none_or(|deadline| deadline > stamp.at),
            "what is due is ended before another command"
        );
        let (events, settled, lost) = (Vec::new(), Vec::new(), Vec::new());
        let mut step = Step { machine: self, stamp, events, settled, lost, work: 0, asked: 0 };
        let reply = match step.decide(command) {
            Ok(reply) => reply,
            Err(refusal) => {
                assert!(step.events.is_empty(), "a refusal has no effect");
                Reply::Refused(Box::new(refusal))
            }
        };
        let Step { events, settled, lost, asked: operations, .. } = step;
        if self.unserved.is_empty() {
            self.handouts.clear();
        }
        Outcome { reply, events, settled, lost, operations }
    }

    fn grant(&self, token: Token) -> Box<Grant> {
        Box::new(self.state.grant(token, &self.state.holds[&token]))
    }
}

/// One command being applied.
struct Step<'a> {
    machine: &'a mut Machine,
    stamp: Stamp,
    events: Vec<Event>,
    settled: Vec<(WaiterId, Reply)>,
    lost: Vec<(SessionId, HoldLost)>,
    /// How much has been done, against [`WORK_PER_COMMAND_MAX`].
    work: usize,
    /// What scripts took, in operations.
    asked: u64,
}

impl Step<'_> {
    fn decide(&mut self, command: Command) -> Result<Reply, Refusal> {
        match command {
            Command::Acquire(acquire) => self.acquire(acquire),
            Command::Renew(renew) => self.renew(renew),
            Command::Release(release) => self.release(release),
            Command::Withdraw { namespace, request } => Ok(self.withdraw(namespace, request)),
            Command::ForceRelease(force) => self.force_release(force),
            Command::OwnerGone { namespace, owner } => Ok(self.owner_gone(namespace, owner)),
            Command::OpenSession(open) => self.open_session(open),
            Command::KeepAlive { namespace, session } => self.keep_alive(&namespace, session),
            Command::AttachSession { namespace, session } => self.attach_session(&namespace, session),
            Command::DetachSession { session, attachment } => Ok(self.detach_session(session, attachment)),
            Command::EndSession { namespace, session } => self.end_session(&namespace, session),
            Command::SetPool(set) => self.set_pool(set),
            Command::SetCondition(set) => self.set_condition(set),
            Command::RemovePool { pool } => self.remove_pool(pool),
            Command::Expire => Ok(self.expire()),
            Command::Restart => Ok(self.restart()),
            Command::Abandon { waiter, may_return } => Ok(self.abandon(waiter, may_return)),
            Command::TakeBack { token } => Ok(self.take_back(token)),
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
        }
    }

    fn at(&self) -> Timestamp {
        self.stamp.at
    }

    fn state(&self) -> &State {
        &self.machine.state
    }

    fn emit(&mut self, event: Event) {
        self.machine.state.evolve(self.stamp.at, &event);
        if let Event::PoolGone { pool } = &event {
            self.machine.compiler.forget(pool);
        }
        self.events.push(event);
        self.work += 1;
    }

    fn worked_enough(&self) -> bool {
        self.work >= WORK_PER_COMMAND_MAX
    }

    fn renew(&mut self, renew: Renew) -> Result<Reply, Refusal> {
        let token = self.token_of(&renew.namespace, renew.key, renew.pool.as_ref())?;
        let hold = &self.state().holds[&token];
        let not = |why: &'static str| {
            let advice = "nothing: it does not end by time".into();
            Refusal::NotRenewable { token, why: why.into(), advice }
        };
        let adopted_from = self.away_session_of(hold);
        let ttl = match (&hold.lifetime, renew.ttl) {
            (Lifetime::Leased(own) | Lifetime::Session(Some(own)), asked) => asked.unwrap_or(*own),
            (Lifetime::Session(None), Some(asked)) if adopted_from.is_some() => asked,
            (Lifetime::Session(None), None) if adopted_from.is_some() => {
                let why = "ends with its session, which is away".into();
                let advice = "resume the session, or say how long from now it is to last without it".into();
                return Err(Refusal::NotRenewable { token, why, advice });
            }
            (Lifetime::Session(None), _) => return Err(not("ends with its session, not by time")),
            (Lifetime::Window(_), _) => return Err(not("is a place in a rate window, which is not prolonged")),
            (Lifetime::Kept, _) => return Err(not("is kept until it is released")),
            (Lifetime::Bound(_), _) => return Err(not("ends with its owner, not by time")),
        };
        let deadline = self.at() + ttl;
        let (pool, holder) = (hold.pool.clone(), hold.holder.id.clone());
        self.emit(Event::Renewed { token, pool, holder, ttl, deadline, adopted_from });
        Ok(Reply::Renewed { token, deadline, ttl })
    }

    /// The session that the hold ends with, if that is away. Whoever renews the hold then must not lose it with a client
    /// that may never come back.
    fn away_session_of(&self, hold: &Hold) -> Option<SessionId> {
        let id = hold.session.filter(|_| matches!(hold.lifetime, Lifetime::Session(_)))?;
        self.state().sessions[&id].away.then_some(id)
    }

    fn release(&mut self, release: Release) -> Result<Reply, Refusal> {
        let token = self.token_of(&release.namespace, release.key, release.pool.as_ref())?;
        let hold = &self.state().holds[&token];
        if let (Lifetime::Window(_), Some(deadline)) = (&hold.lifetime, hold.deadline) {
            return Err(Refusal::NotReleasable { token, deadline });
        }
        self.end_hold(token, HoldEnd::Released);
        Ok(Reply::Released { token })
    }

    fn token_of(&self, namespace: &Namespace, key: Key, pool: Option<&PoolName>) -> Result<Token, Refusal> {
        let token = *self.state().hold_keys.get(&key).ok_or(Refusal::NotHeld)?;
        let hold = &self.state().holds[&token];
        let has = |name| hold.parts().any(|(path, _)| path.name() == name);
        if hold.pool.namespace() != namespace || !pool.is_none_or(has) {
            return Err(Refusal::NotHeld);
        }
        Ok(token)
    }

    fn withdraw(&mut self, namespace: Namespace, request: RequestId) -> Reply {
        match self.state().request_stage(&namespace, &request, self.at()) {
            Some(RequestStage::Waiting(_)) if Mistake::KeepsWithdrawnWaits.is_made() => {}
            Some(RequestStage::Waiting(id)) => self.end_wait(id, WaitEnd::Withdrawn),
            Some(RequestStage::Held(token)) => {
                // A place in a rate window was used up by being granted.
                if !matches!(self.state().holds[&token].lifetime, Lifetime::Window(_)) {
                    self.end_hold(token, HoldEnd::Withdrawn);
                }
            }
            Some(RequestStage::Ended { .. }) => {}
            // It may be on its way, behind the withdrawal.
            None => self.emit(Event::RequestWithdrawn { namespace, request }),
        }
        Reply::Withdrawn
    }

    fn owner_gone(&mut self, namespace: Namespace, owner: OwnerId) -> Reply {
        let owned = self.state().owners.get(&(namespace, owner)).cloned().unwrap_or_default();
        // Nobody is served before all of it has ended, or the owner might be granted what nobody would end.
        for id in &owned.waiters {
            let pool = self.end_wait_only(*id, WaitEnd::OwnerGone);
            self.machine.unserved.insert(pool);
        }
        for token in &owned.holds {
            let pool = self.end_hold_only(*token, HoldEnd::OwnerGone);
            self.machine.unserved.insert(pool);
        }
        Reply::OwnerGone { holds: owned.holds.len() }
    }

    fn abandon(&mut self, id: WaiterId, may_return: bool) -> Reply {
        if self.state().waiters.contains_key(&id) {
            let pool = self.caller_lost(id, may_return);
            // It may have stood in front of others.
            self.serve(&pool);
        }
        Reply::Done
    }

    fn caller_lost(&mut self, id: WaiterId, may_return: bool) -> PoolPath {
        let waiter = &self.state().waiters[&id];
        if !may_return || waiter.session.is_none() || waiter.request.is_none() {
            return self.end_wait_only(id, WaitEnd::CallerGone);
        }
        let (pool, holder) = (waiter.pool.clone(), waiter.holder.id.clone());
        let also: Box<[_]> = waiter.also.iter().map(|part| part.pool.clone()).collect();
        if !self.state().pools[&pool].queue.is_away(waiter.place(id)) {
            self.set_unserved(&pool, &also);
            self.emit(Event::WaiterAway { id, pool: pool.clone(), holder });
        }
        pool
    }

    fn take_back(&mut self, token: Token) -> Reply {
        if Mistake::KeepsUnreceivedGrants.is_made() {
            return Reply::Done;
        }
        // A place in a rate window is used up by being granted, received or not.
        if self.state().holds.get(&token).is_some_and(|hold| !matches!(hold.lifetime, Lifetime::Window(_))) {
            self.end_hold(token, HoldEnd::Unreceived);
        }
        Reply::Done
    }

    /// Ends a hold and serves whoever waits for it.
    fn end_hold(&mut self, token: Token, how: HoldEnd) {
        let pool = self.end_hold_only(token, how);
        if !Mistake::ForgetsTheWaiters.is_made() {
            self.serve(&pool);
        }
    }

    fn end_hold_only(&mut self, token: Token, how: HoldEnd) -> PoolPath {
        let hold = &self.state().holds[&token];
        let (pool, holder, since) = (hold.pool.clone(), hold.holder.id.clone(), hold.since);
        let also: Box<[_]> = hold.parts().skip(1).map(|(pool, _)| pool.clone()).collect();
        let session = hold.session;
        if let Some(id) = session
            && is_loss(hold, &how)
        {
            self.lost.push((id, HoldLost { token, how: how.clone() }));
        }
        self.set_unserved(&pool, &also);
        self.emit(Event::Ended { token, pool: pool.clone(), holder, session, since, how, also });
        pool
    }

    /// Ends a wait and serves whoever it stood in front of.
    fn end_wait(&mut self, id: WaiterId, how: WaitEnd) {
        let pool = self.end_wait_only(id, how);
        self.serve(&pool);
    }

    fn end_wait_only(&mut self, id: WaiterId, how: WaitEnd) -> PoolPath {
        let waiter = &self.state().waiters[&id];
        let (pool, holder, since) = (waiter.pool.clone(), waiter.holder.id.clone(), waiter.since);
        let also: Box<[_]> = waiter.also.iter().map(|part| part.pool.clone()).collect();
        let refusal = self.why_not(id, waiter, how);
        self.settled.push((id, Reply::Refused(Box::new(refusal))));
        self.set_unserved(&pool, &also);
        self.emit(Event::WaitEnded { id, pool: pool.clone(), holder, since, how, also });
        pool
    }

    fn why_not(&self, id: WaiterId, waiter: &Waiter, how: WaitEnd) -> Refusal {
        let pool = &self.state().pools[&waiter.pool];
        match how {
            WaitEnd::TimedOut if waiter.is_set() => Refusal::TimedOut(Box::new(self.no_room_for_set(id))),
            WaitEnd::TimedOut => {
                let position = pool.queue.ahead_of(waiter.place(id)) + 1;
                Refusal::TimedOut(Box::new(self.state().no_room(&waiter.pool, position, self.at())))
            }
            WaitEnd::Withdrawn | WaitEnd::CallerGone | WaitEnd::OwnerGone => {
                Refusal::Withdrawn { request: waiter.request.clone() }
            }
            WaitEnd::SessionEnded => Refusal::UnknownSession,
            WaitEnd::NeverFits => {
                let pools = || waiter.parts().map(|(path, demand)| (path, &self.state().pools[path], demand));
                let never = pools().find_map(|(path, pool, demand)| never_fits(path, pool, demand));
                never.unwrap_or_else(|| {
                    let other = |&(path, pool, _): &(&PoolPath, &Pool, _)| waiter.part(path).1 != pool.window;
                    let (path, pool, _) = pools().find(other).expect("its pool has become another window");
                    Refusal::WindowMismatch { pool: path.clone(), window: pool.window }
                })
            }
            WaitEnd::PoolRemoved => {
                let removing = |path: &&PoolPath| self.state().pools[*path].removing;
                let path = waiter.parts().map(|(path, _)| path).find(removing);
                Refusal::PoolRemoving { pool: path.unwrap_or(&waiter.pool).clone() }
            }
        }
    }

    /// Gives what is free to those who wait, until nothing fits or the command has done its share; in the further pools of
    /// a set too.
    fn serve(&mut self, path: &PoolPath) {
        self.serve_pool(path);
        while !self.worked_enough()
            && let Some(path) = self.next_unserved()
        {
            self.serve_pool(&path);
        }
    }

    fn next_unserved(&mut self) -> Option<PoolPath> {
        let stopped_in = self.machine.stopped_in.take().filter(|path| self.machine.unserved.remove(path));
        stopped_in.or_else(|| self.machine.unserved.pop_first())
    }

    /// The command has done its share.
    fn stop_in(&mut self, path: &PoolPath) {
        self.machine.unserved.insert(path.clone());
        self.machine.stopped_in = Some(path.clone());
    }

    fn serve_pool(&mut self, path: &PoolPath) {
        loop {
            let Some(pool) = self.state().pools.get(path) else { return };
            if pool.removing {
                return self.go_on_removing(path);
            }
            if pool.queue.has_sets() {
                match self.serve_beside_sets(path) {
                    ControlFlow::Continue(()) => continue,
                    ControlFlow::Break(()) => return,
                }
            }
            if pool.scripting.is_some() {
                match self.serve_by_scripts(path) {
                    ControlFlow::Continue(()) => continue,
                    ControlFlow::Break(()) => return,
                }
            }
            let Some((place, taken)) = placement::next(pool, None, self.stamp.nonce) else { return };
            if self.worked_enough() {
                return self.stop_in(path);
            }
            let id = place.arrival();
            let grant = self.grant_to_waiter(id, taken);
            self.settled.push((id, Reply::Granted(grant)));
        }
    }

    fn grant_to_waiter(&mut self, id: WaiterId, taken: Taken) -> Box<Grant> {
        let waiter = &self.state().waiters[&id];
        let hold = Hold {
            pool: waiter.pool.clone(),
            key: waiter.key,
            holder: waiter.holder.clone(),
            taken,
            lifetime: waiter.lifetime.clone(),
            asked: waiter.since,
            since: self.at(),
            deadline: deadline(self.at(), &waiter.lifetime),
            session: waiter.session,
            request: waiter.request.clone(),
            also: Box::default(),
        };
        let token = Token(self.state().counters.token_next);
        self.emit(Event::Granted { token, hold: Box::new(hold), waiter: Some(id) });
        self.machine.grant(token)
    }

    fn go_on_removing(&mut self, path: &PoolPath) {
        loop {
            let next = self.state().pools[path].queue.after(None).next();
            let Some(place) = next else { break };
            if self.worked_enough() {
                return self.stop_in(path);
            }
            self.end_wait_only(place.arrival(), WaitEnd::PoolRemoved);
        }
        if self.state().pools[path].holds.is_empty() {
            self.emit(Event::PoolGone { pool: path.clone() });
        }
    }

    /// Ends what is due. Nobody is served before everything due has ended, or a wait that is itself over
    /// might be granted.
    fn expire(&mut self) -> Reply {
        let early = Ttl::from_millis(u64::from(Mistake::ExpiresEarly.is_made()));
        while !self.worked_enough() {
            let due = self.state().deadlines.first().filter(|(deadline, _)| *deadline <= self.at() + early);
            match due.map(|(_, due)| due.clone()) {
                Some(Due::Hold(token)) if Mistake::ServesTooSoon.is_made() => self.end_hold(token, HoldEnd::Expired),
                Some(Due::Hold(token)) => {
                    let pool = self.end_hold_only(token, HoldEnd::Expired);
                    self.machine.unserved.insert(pool);
                }
                Some(Due::Wait(id)) => {
                    let pool = self.end_wait_only(id, WaitEnd::TimedOut);
                    self.machine.unserved.insert(pool);
                }
                Some(Due::Session(id)) => self.end_some_of_session(id),
                Some(Due::Idle(pool)) => self.emit(Event::PoolGone { pool }),
                Some(Due::Return(pool, resource)) => {
                    let condition = Condition::InService;
                    let event =
                        Event::ConditionSet { pool: pool.clone(), resource, condition, until: None, automatic: true };
                    self.emit(event);
                    self.machine.unserved.insert(pool);
                }
                Some(Due::Reservation(pool, resource)) => {
                    self.end_reservation(&pool, resource, ReservationEnd::Expired);
                    self.machine.unserved.insert(pool);
                }
                None => match self.next_unserved() {
                    Some(pool) => self.serve_pool(&pool),
                    None => break,
                },
            }
        }
        Reply::Done
    }
}

/// The refusal of a demand that the pool can never meet, whoever lets go.
fn never_fits(path: &PoolPath, pool: &Pool, demand: &Demand) -> Option<Refusal> {
    if demand.selector.is_some() && matches!(pool.kind, Kind::Units(_)) {
        let why = "has anonymous units: a selector has nothing to choose from".into();
        return Some(Refusal::WrongKind { pool: path.clone(), why });
    }
    if demand.dirty && !matches!(&pool.kind, Kind::Resources(kept) if kept.cleaning) {
        let why = "has nothing to be cleaned: it does not ask for cleaning".into();
        return Some(Refusal::WrongKind { pool: path.clone(), why });
    }
    let most = pool.most_for(demand);
    let asked = match demand.amount {
        Amount::Count(count) => count,
        Amount::All => most.max(1),
    };
    (asked > most).then(|| Refusal::NeverFits { pool: path.clone(), asked, most })
}

/// Whether its holder may not know that it is over.
fn is_loss(hold: &Hold, how: &HoldEnd) -> bool {
    match how {
        // A place in a rate window was used up by being granted: that it passes takes nothing from anybody.
        HoldEnd::Expired => !matches!(hold.lifetime, Lifetime::Window(_)),
        HoldEnd::Forced(_) | HoldEnd::OwnerGone | HoldEnd::Stolen { .. } => true,
        HoldEnd::Released | HoldEnd::Withdrawn | HoldEnd::Unreceived | HoldEnd::SessionEnded => false,
    }
}

/// When a hold with this lifetime ends by itself.
fn deadline(at: Timestamp, lifetime: &Lifetime) -> Option<Timestamp> {
    let early = |ttl: Ttl| Ttl::from_millis(ttl.as_millis() - 1);
    match lifetime {
        Lifetime::Window(ttl) if Mistake::EndsWindowsEarly.is_made() => Some(at + early(*ttl)),
        Lifetime::Leased(ttl) if Mistake::GrantsLess.is_made() => Some(at + early(*ttl)),
        Lifetime::Leased(ttl) | Lifetime::Window(ttl) | Lifetime::Session(Some(ttl)) => Some(at + *ttl),
        Lifetime::Session(None) | Lifetime::Kept | Lifetime::Bound(_) => None,
    }
}

//! A request for a hold: checked in the order of [`Refusal`]'s variants, then granted, queued or refused.

use alloc::boxed::Box;

use super::{Step, deadline, never_fits};
use crate::command::*;
use crate::deadlock;
use crate::event::Event;
use crate::limits::{HOLDS_PER_OWNER_MAX, LANES_PER_POOL_MAX, LEASE_DEFAULT};
use crate::mutation::Mistake;
use crate::names::*;
use crate::placement;
use crate::policy::Scripts;
use crate::pool::{Kind, Pool, Taken};
use crate::record::{Hold, RequestStage, Waiter};
use crate::refusal::Refusal;
use crate::reply::{Queued, Reply};
use crate::sets;
use crate::time::Timestamp;
use crate::view::Place;

impl Step<'_> {
    pub(super) fn acquire(&mut self, acquire: Acquire) -> Result<Reply, Refusal> {
        let namespace = acquire.pool.namespace();
        let session = match acquire.session {
            Some(key) => Some(self.session_of(namespace, key)?),
            None if matches!(acquire.lifetime, Some(Lifetime::Session(_))) => return Err(Refusal::UnknownSession),
            None => None,
        };
        if let Some(request) = &acquire.request
            && let Some(stage) = self.state().request_stage(namespace, request, self.at())
        {
            return self.acquire_again(&acquire, session, request, stage);
        }
        if !acquire.also.is_empty() {
            return self.acquire_set(acquire, session);
        }

        // An unknown pool is checked as what it would become, and made only if nothing is wrong.
        let made;
        let (pool, unknown) = match self.state().pools.get(&acquire.pool) {
            Some(pool) => (pool, None),
            None => {
                let Acquire { pool, demand, size, lifetime, .. } = &acquire;
                let spec = pool_on_first_use(pool, demand, *size, lifetime.as_ref())?;
                made = Pool::new(&spec);
                (&made, Some(spec))
            }
        };
        check_kind(&acquire.pool, &acquire.demand, acquire.size, pool)?;
        let lifetime = self.lifetime(&acquire, pool, session.is_some())?;
        if pool.removing {
            return Err(Refusal::PoolRemoving { pool: acquire.pool });
        }
        if let Some(refusal) = never_fits(&acquire.pool, pool, &acquire.demand) {
            return Err(refusal);
        }
        self.check_limits(namespace, usize::from(unknown.is_some()), 1, &lifetime)?;

        let id = WaiterId(self.state().counters.waiter_next);
        let place = self.place_of_newcomer(pool, &acquire, id);
        let holder = &acquire.holder.id;
        let served = if pool.queue.has_sets() {
            let taken = sets::room(self.state(), pool, place, &acquire.demand, holder, self.stamp.nonce);
            taken.map(|taken| (place, taken))
        } else if pool.scripting.is_some() {
            return self.acquire_by_scripts(acquire, lifetime, session, place);
        } else {
            placement::next(pool, Some((place, &acquire.demand, Some(holder))), self.stamp.nonce)
        };
        match served {
            Some((first, taken)) if first == place => {
                Ok(self.grant_to_newcomer(acquire, lifetime, session, place, taken, unknown))
            }
            // Somebody in the queue fits, so the queue has not been served: that would be a bug.
            Some(_) => unreachable!("a waiter that fits is served before anybody else is heard"),
            None => self.queue_or_refuse(acquire, lifetime, session, place),
        }
    }

    pub(super) fn grant_to_newcomer(
        &mut self,
        acquire: Acquire,
        lifetime: Lifetime,
        session: Option<SessionId>,
        place: Place,
        taken: Taken,
        unknown: Option<PoolSpec>,
    ) -> Reply {
        let known = self.state().pools.get(&acquire.pool);
        // It takes its turn before others who wait for theirs: that counts, and is counted when a waiter is served.
        if known.is_some_and(|pool| pool.turns.is_some() && !pool.queue.is_empty()) {
            let id = place.arrival();
            let waiter = self.waiter(acquire, lifetime, session, place, None);
            self.emit(Event::Queued { id, waiter: Box::new(waiter) });
            return Reply::Granted(self.grant_to_waiter(id, taken));
        }
        let hold = Hold {
            key: Key::from_nonce(self.stamp.nonce),
            taken,
            asked: self.at(),
            since: self.at(),
            deadline: deadline(self.at(), &lifetime),
            pool: acquire.pool,
            holder: acquire.holder,
            lifetime,
            session,
            request: acquire.request,
            also: Box::default(),
        };
        self.make_pool(&hold.pool, unknown);
        let token = Token(self.state().counters.token_next);
        self.emit(Event::Granted { token, hold: Box::new(hold), waiter: None });
        Reply::Granted(self.machine.grant(token))
    }

    pub(super) fn queue_or_refuse(
        &mut self,
        acquire: Acquire,
        lifetime: Lifetime,
        session: Option<SessionId>,
        place: Place,
    ) -> Result<Reply, Refusal> {
        let id = place.arrival();
        let pool = self.state().pools.get(&acquire.pool).expect("a new pool has room for what it was made for");
        let wait_deadline = match acquire.wait {
            Wait::Try if pool.condition != Condition::InService => {
                return Err(Refusal::OutOfService { pool: acquire.pool, condition: pool.condition.clone() });
            }
            Wait::Try => {
                let position = pool.queue.ahead_of(place) + 1;
                return Err(Refusal::Busy(Box::new(self.state().no_room(&acquire.pool, position, self.at()))));
            }
            Wait::For(ttl) => Some(self.at() + ttl),
            Wait::Forever => None,
        };
        self.check_queue_limits(pool, Some(&acquire.demand))?;
        let waiter = self.waiter(acquire, lifetime, session, place, wait_deadline);
        self.check_deadlock(id, &waiter)?;
        self.emit(Event::Queued { id, waiter: Box::new(waiter) });
        Ok(Reply::Queued(self.queued(id)))
    }

    fn place_of_newcomer(&self, pool: &Pool, acquire: &Acquire, id: WaiterId) -> Place {
        if Mistake::ForgetsTurns.is_made() {
            return pool.queue.place_of_arrival(acquire.priority, id);
        }
        pool.place_of_newcomer(acquire.priority, &acquire.holder, &acquire.demand, id)
    }

    fn waiter(
        &self,
        acquire: Acquire,
        lifetime: Lifetime,
        session: Option<SessionId>,
        place: Place,
        deadline: Option<Timestamp>,
    ) -> Waiter {
        Waiter {
            key: Key::from_nonce(self.stamp.nonce),
            since: self.at(),
            deadline,
            pool: acquire.pool,
            holder: acquire.holder,
            demand: acquire.demand,
            lifetime,
            priority: acquire.priority,
            session,
            request: acquire.request,
            also: Box::default(),
            holds_on: acquire.holds_on,
            rank: place.is_ranked().then(|| place.rank()),
        }
    }

    /// Refuses a wait that could never end.
    pub(super) fn check_deadlock(&self, id: WaiterId, waiter: &Waiter) -> Result<(), Refusal> {
        match waiter.holds_on.then(|| deadlock::cycle(self.state(), id, waiter)).flatten() {
            Some(cycle) => Err(Refusal::Deadlock { cycle }),
            None => Ok(()),
        }
    }

    /// The same request id again: the answer is where that request stands now.
    fn acquire_again(
        &mut self,
        acquire: &Acquire,
        session: Option<SessionId>,
        request: &RequestId,
        stage: RequestStage,
    ) -> Result<Reply, Refusal> {
        let reused = || Refusal::RequestReused { request: request.clone() };
        match stage {
            RequestStage::Ended { token, .. } => Err(Refusal::RequestEnded { request: request.clone(), token }),
            RequestStage::Held(token) => {
                let hold = &self.state().holds[&token];
                let has = |pool: &PoolPath, demand: &Demand| {
                    let taken = if hold.pool == *pool {
                        Some(&hold.taken)
                    } else {
                        hold.also.iter().find(|part| part.pool == *pool).map(|part| &part.taken)
                    };
                    taken.is_some_and(|taken| match demand.amount {
                        Amount::Count(count) => count == taken.units && !taken.all,
                        Amount::All => taken.all,
                    })
                };
                let same_caller = hold.session == session && hold.holder.id == acquire.holder.id;
                let same_size = hold.also.len() == acquire.also.len();
                if !same_caller || !same_size || !acquire.parts().all(|(pool, demand)| has(pool, demand)) {
                    return Err(reused());
                }
                Ok(Reply::Granted(self.machine.grant(token)))
            }
            RequestStage::Waiting(id) => {
                let waiter = &self.state().waiters[&id];
                let same_caller = waiter.session == session && waiter.holder.id == acquire.holder.id;
                let wants = |pool, demand| waiter.parts().any(|part| part == (pool, demand));
                let same_size = waiter.also.len() == acquire.also.len();
                if !same_caller || !same_size || !acquire.parts().all(|(pool, demand)| wants(pool, demand)) {
                    return Err(reused());
                }
                if acquire.wait == Wait::Try && waiter.is_set() {
                    return Err(Refusal::Busy(Box::new(self.no_room_for_set(id))));
                }
                if acquire.wait == Wait::Try {
                    let position = self.queued(id).position;
                    return Err(Refusal::Busy(Box::new(self.state().no_room(&acquire.pool, position, self.at()))));
                }
                let (pool, holder) = (waiter.pool.clone(), waiter.holder.id.clone());
                let also: Box<[_]> = waiter.also.iter().map(|part| part.pool.clone()).collect();
                if self.state().pools[&pool].queue.is_away(waiter.place(id)) {
                    self.set_unserved(&pool, &also);
                    self.emit(Event::WaiterBack { id, pool: pool.clone(), holder });
                    self.serve(&pool);
                }
                // Coming back, it may have been served at once.
                match self.state().requests.get(&(pool.namespace().clone(), request.clone())) {
                    Some(RequestStage::Held(token)) => Ok(Reply::Granted(self.machine.grant(*token))),
                    _ => Ok(Reply::Queued(self.queued(id))),
                }
            }
        }
    }

    /// A set's place is that in the pool where most are before it.
    pub(super) fn queued(&self, id: WaiterId) -> Queued {
        let waiter = &self.state().waiters[&id];
        let ahead = waiter.parts().map(|(pool, _)| self.state().pools[pool].queue.ahead_of(waiter.place(id))).max();
        let ahead = ahead.expect("it has a pool");
        Queued { waiter: id, position: ahead + 1, deadline: waiter.deadline }
    }

    fn lifetime(&self, acquire: &Acquire, pool: &Pool, in_session: bool) -> Result<Lifetime, Refusal> {
        let mismatch = || Refusal::WindowMismatch { pool: acquire.pool.clone(), window: pool.window };
        match (&acquire.lifetime, pool.window) {
            (None, Some(window)) => Ok(Lifetime::Window(window)),
            (Some(Lifetime::Window(asked)), Some(window)) if *asked == window => Ok(Lifetime::Window(window)),
            (Some(_), Some(_)) | (Some(Lifetime::Window(_)), None) => Err(mismatch()),
            (None, None) if in_session => Ok(Lifetime::Session(None)),
            (None, None) => Ok(Lifetime::Leased(LEASE_DEFAULT)),
            (Some(lifetime), None) => Ok(lifetime.clone()),
        }
    }

    /// Whether there may be so many more pools and holds.
    pub(super) fn check_limits(
        &self,
        namespace: &Namespace,
        pools: usize,
        holds: usize,
        lifetime: &Lifetime,
    ) -> Result<(), Refusal> {
        let limits = &self.machine.limits;
        if pools > 0 && self.state().pools.len() + pools > limits.pools_max {
            return Err(limit("pools_max", limits.pools_max));
        }
        if self.state().holds.len() + holds > limits.holds_max {
            return Err(limit("holds_max", limits.holds_max));
        }
        self.check_owner(namespace, lifetime)
    }

    pub(super) fn check_owner(&self, namespace: &Namespace, lifetime: &Lifetime) -> Result<(), Refusal> {
        if let Lifetime::Bound(owner) = lifetime
            && let Some(owned) = self.state().owners.get(&(namespace.clone(), owner.clone()))
            && owned.holds.len() + owned.waiters.len() >= HOLDS_PER_OWNER_MAX
        {
            return Err(limit("holds_per_owner_max", HOLDS_PER_OWNER_MAX));
        }
        Ok(())
    }

    /// Whether one more may wait, in a lane if it wants nothing of other pools.
    pub(super) fn check_queue_limits(&self, pool: &Pool, lane: Option<&Demand>) -> Result<(), Refusal> {
        let limits = &self.machine.limits;
        if pool.queue.len() >= limits.waiters_per_pool_max {
            return Err(limit("waiters_per_pool_max", limits.waiters_per_pool_max));
        }
        if self.state().waiters.len() >= limits.waiters_max {
            return Err(limit("waiters_max", limits.waiters_max));
        }
        let new_lane = lane.is_some_and(|demand| !pool.queue.has_lane(demand));
        if new_lane && pool.queue.lanes() >= LANES_PER_POOL_MAX {
            return Err(limit("lanes_per_pool_max", LANES_PER_POOL_MAX));
        }
        Ok(())
    }

    pub(super) fn make_pool(&mut self, path: &PoolPath, unknown: Option<PoolSpec>) {
        if let Some(spec) = unknown {
            self.emit(Event::PoolSet { pool: path.clone(), spec, created: true });
        }
    }
}

/// What an unknown pool becomes by being asked for.
pub(super) fn pool_on_first_use(
    path: &PoolPath,
    demand: &Demand,
    size: Option<u32>,
    lifetime: Option<&Lifetime>,
) -> Result<PoolSpec, Refusal> {
    // Resources cannot be guessed: a pool of them is declared.
    if demand.selector.is_some() || demand.dirty {
        return Err(Refusal::UnknownPool { pool: path.clone() });
    }
    let window = match lifetime {
        Some(Lifetime::Window(window)) => Some(*window),
        _ => None,
    };
    Ok(PoolSpec {
        capacity: Capacity::Units(size.unwrap_or(1)),
        order: Order::Strict,
        window,
        declared: false,
        cleaning: false,
        fair: None,
        scripts: Scripts::default(),
    })
}

pub(super) fn check_kind(path: &PoolPath, demand: &Demand, size: Option<u32>, pool: &Pool) -> Result<(), Refusal> {
    if demand.selector.is_some() && matches!(pool.kind, Kind::Units(_)) {
        return Err(Refusal::WrongKind {
            pool: path.clone(),
            why: "has anonymous units: a selector has nothing to choose from".into(),
        });
    }
    if demand.dirty && !matches!(&pool.kind, Kind::Resources(kept) if kept.cleaning) {
        let why = "has nothing to be cleaned: it does not ask for cleaning".into();
        return Err(Refusal::WrongKind { pool: path.clone(), why });
    }
    match size {
        Some(asked) if asked != pool.size() => {
            Err(Refusal::SizeMismatch { pool: path.clone(), size: pool.size(), asked })
        }
        _ => Ok(()),
    }
}

pub(super) fn limit(limit: &'static str, max: usize) -> Refusal {
    Refusal::LimitReached { limit: limit.into(), max }
}

//! Sets: acquires that want something of several pools, granted as a whole or not at all.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::acquire::{check_kind, pool_on_first_use};
use super::{Step, deadline, never_fits};
use crate::command::*;
use crate::event::Event;
use crate::limits::LEASE_DEFAULT;
use crate::mutation::Mistake;
use crate::names::*;
use crate::pool::{Pool, Taken};
use crate::record::{HeldPart, Hold, WaitedPart, Waiter};
use crate::refusal::{NoRoom, Refusal};
use crate::reply::Reply;
use crate::sets::{self, Next};
use crate::time::Ttl;
use crate::view::Place;

/// What a set wants of one pool, while it is decided.
struct Wanted {
    path: PoolPath,
    demand: Demand,
    /// What the pool would become, and what it would be made as.
    unknown: Option<(PoolSpec, Pool)>,
    window: Option<Ttl>,
}

impl Step<'_> {
    pub(super) fn acquire_set(&mut self, acquire: Acquire, session: Option<SessionId>) -> Result<Reply, Refusal> {
        let (lifetime, wanted) = self.check_set(&acquire, session.is_some())?;
        let id = WaiterId(self.state().counters.waiter_next);
        // Behind all of its priority in each of its pools.
        let places = wanted.iter().map(|it| self.pool_of(it).queue.place_of_arrival(acquire.priority, id));
        let place = places.max().expect("a set has pools");
        let room = |it: &Wanted| {
            sets::room(self.state(), self.pool_of(it), place, &it.demand, &acquire.holder.id, self.stamp.nonce)
        };
        let taken: Vec<_> = wanted.iter().map(room).collect();
        let deadline = match acquire.wait {
            _ if taken.iter().all(Option::is_some) => None,
            Wait::Try => return Err(self.refuse_set(&wanted, &taken, place)),
            Wait::For(ttl) => Some(self.at() + ttl),
            Wait::Forever => None,
        };
        let served: Option<Vec<_>> = taken.into_iter().collect();
        if served.is_none() {
            for it in wanted.iter().filter(|it| it.unknown.is_none()) {
                self.check_queue_limits(&self.state().pools[&it.path], None)?;
            }
        }
        let mut parts = Vec::with_capacity(wanted.len());
        let mut unknown = Vec::new();
        for Wanted { path: pool, demand, unknown: made, window } in wanted {
            unknown.extend(made.map(|(spec, _)| (pool.clone(), spec)));
            parts.push(WaitedPart { pool, demand, window });
        }
        let first = parts.remove(0);
        let waiter = Waiter {
            pool: first.pool,
            key: Key::from_nonce(self.stamp.nonce),
            holder: acquire.holder,
            demand: first.demand,
            lifetime,
            priority: acquire.priority,
            since: self.at(),
            deadline,
            session,
            request: acquire.request,
            also: parts.into(),
            holds_on: acquire.holds_on,
            rank: place.is_ranked().then(|| place.rank()),
        };
        if served.is_none() {
            self.check_deadlock(id, &waiter)?;
        }
        for (pool, spec) in unknown {
            self.make_pool(&pool, Some(spec));
        }
        Ok(match served {
            Some(taken) => {
                let token = self.grant_set(&waiter, None, taken);
                Reply::Granted(self.machine.grant(token))
            }
            None => {
                self.emit(Event::Queued { id, waiter: Box::new(waiter) });
                Reply::Queued(self.queued(id))
            }
        })
    }

    /// The set's lifetime, and what it wants of each pool: of one that is no rate window first, so that the hold is one of
    /// that.
    fn check_set(&self, acquire: &Acquire, in_session: bool) -> Result<(Lifetime, Vec<Wanted>), Refusal> {
        let sizes = core::iter::once(acquire.size).chain(acquire.also.iter().map(|part| part.size));
        let mut wanted = Vec::with_capacity(acquire.also.len() + 1);
        for ((path, demand), size) in acquire.parts().zip(sizes.clone()) {
            let unknown = match self.state().pools.get(path) {
                Some(_) => None,
                None => {
                    let spec = pool_on_first_use(path, demand, size, acquire.lifetime.as_ref())?;
                    let pool = Pool::new(&spec);
                    Some((spec, pool))
                }
            };
            wanted.push(Wanted { path: path.clone(), demand: demand.clone(), unknown, window: None });
        }
        for (it, size) in wanted.iter().zip(sizes) {
            let pool = self.pool_of(it);
            check_kind(&it.path, &it.demand, size, pool)?;
            // Its place has to be the same in all its pools.
            let why = match () {
                () if pool.turns.is_some() => "serves its waiters in turn, and a set has no turn",
                () if pool.scripting.is_some() => "has scripts, which a set has no score by",
                () if it.demand.dirty => "can be cleaned only by itself, not as part of a set",
                () => continue,
            };
            return Err(Refusal::WrongKind { pool: it.path.clone(), why: why.into() });
        }
        for it in &mut wanted {
            let window = self.pool_of(it).window;
            if matches!(acquire.lifetime, Some(Lifetime::Window(asked)) if window != Some(asked)) {
                return Err(Refusal::WindowMismatch { pool: it.path.clone(), window });
            }
            it.window = window;
        }
        wanted.sort_by_key(|it| it.window.is_some());
        let lifetime = match (&acquire.lifetime, wanted[0].window) {
            (None | Some(Lifetime::Window(_)), Some(window)) => Lifetime::Window(window),
            (Some(_), Some(window)) => {
                return Err(Refusal::WindowMismatch { pool: wanted[0].path.clone(), window: Some(window) });
            }
            (Some(lifetime), None) => lifetime.clone(),
            (None, None) if in_session => Lifetime::Session(None),
            (None, None) => Lifetime::Leased(LEASE_DEFAULT),
        };
        if let Some(it) = wanted.iter().find(|it| self.pool_of(it).removing) {
            return Err(Refusal::PoolRemoving { pool: it.path.clone() });
        }
        if let Some(refusal) = wanted.iter().find_map(|it| never_fits(&it.path, self.pool_of(it), &it.demand)) {
            return Err(refusal);
        }
        let unknown = wanted.iter().filter(|it| it.unknown.is_some()).count();
        let windows = wanted.iter().skip(1).filter(|it| it.window.is_some()).count();
        self.check_limits(acquire.pool.namespace(), unknown, 1 + windows, &lifetime)?;
        Ok((lifetime, wanted))
    }

    fn pool_of<'a>(&'a self, wanted: &'a Wanted) -> &'a Pool {
        match &wanted.unknown {
            Some((_, pool)) => pool,
            None => &self.state().pools[&wanted.path],
        }
    }

    fn refuse_set(&self, wanted: &[Wanted], taken: &[Option<Taken>], place: Place) -> Refusal {
        let out = wanted.iter().find(|it| self.pool_of(it).condition != Condition::InService);
        if let Some(it) = out {
            let condition = self.pool_of(it).condition.clone();
            return Refusal::OutOfService { pool: it.path.clone(), condition };
        }
        let lacking = wanted.iter().zip(taken).filter(|(_, taken)| taken.is_none()).map(|(it, _)| &it.path);
        Refusal::Busy(Box::new(self.no_room_in(lacking, place)))
    }

    /// Why a set that waits is not served.
    pub(super) fn no_room_for_set(&self, id: WaiterId) -> NoRoom {
        let waiter = &self.state().waiters[&id];
        let place = waiter.place(id);
        let lacks = |(path, demand): &(&PoolPath, &Demand)| {
            sets::room(self.state(), &self.state().pools[*path], place, demand, &waiter.holder.id, self.stamp.nonce)
                .is_none()
        };
        let mut lacking: Vec<_> = waiter.parts().filter(lacks).map(|(path, _)| path).collect();
        // What is due at the same instant may have made room that nobody has been given yet.
        if lacking.is_empty() {
            lacking.push(&waiter.pool);
        }
        self.no_room_in(lacking.into_iter(), place)
    }

    fn no_room_in<'a>(&self, lacking: impl Iterator<Item = &'a PoolPath>, place: Place) -> NoRoom {
        let mut rooms = lacking.map(|path| {
            let position = self.state().pools[path].queue.ahead_of(place) + 1;
            self.state().no_room(path, position, self.at())
        });
        let first = rooms.next().expect("some pool has no room");
        NoRoom { also: rooms.collect(), ..first }
    }

    /// Serves the next of a pool where sets wait, if there is one and there is work left to do.
    pub(super) fn serve_beside_sets(&mut self, path: &PoolPath) -> ControlFlow<()> {
        let next = sets::next(self.state(), &self.machine.unserved, path, self.stamp.nonce);
        let Some(next) = next else { return ControlFlow::Break(()) };
        if self.worked_enough() {
            self.stop_in(path);
            return ControlFlow::Break(());
        }
        match next {
            Next::One(place, taken) => {
                let id = place.arrival();
                let grant = self.grant_to_waiter(id, taken);
                self.settled.push((id, Reply::Granted(grant)));
            }
            Next::Set(place, taken) => {
                let id = place.arrival();
                let waiter = self.state().waiters[&id].clone();
                let token = self.grant_set(&waiter, Some(id), taken);
                self.settled.push((id, Reply::Granted(self.machine.grant(token))));
                // What was kept aside for it is not any more.
                let others = waiter.parts().map(|(other, _)| other).filter(|other| *other != path).cloned();
                self.machine.unserved.extend(others);
            }
        }
        ControlFlow::Continue(())
    }

    /// Grants a set what it wants, as one hold, and each of its places in rate windows as one more: they end by themselves.
    fn grant_set(&mut self, waiter: &Waiter, id: Option<WaiterId>, taken: Vec<Taken>) -> Token {
        let at = self.at();
        let mut taken = taken.into_iter();
        let first = taken.next().expect("a set has a first pool");
        let also: Box<[_]> = waiter
            .also
            .iter()
            .zip(taken)
            .map(|(part, taken)| HeldPart {
                pool: part.pool.clone(),
                taken,
                until: part.window.and_then(|window| deadline(at, &Lifetime::Window(window))),
            })
            .collect();
        let hold = Hold {
            pool: waiter.pool.clone(),
            key: waiter.key,
            holder: waiter.holder.clone(),
            taken: first,
            lifetime: waiter.lifetime.clone(),
            asked: waiter.since,
            since: at,
            deadline: deadline(at, &waiter.lifetime),
            session: waiter.session,
            request: waiter.request.clone(),
            also,
        };
        let token = Token(self.state().counters.token_next);
        let windows = waiter.also.iter().zip(&hold.also).enumerate().filter_map(|(nth, (part, held))| {
            Some(Hold {
                pool: part.pool.clone(),
                key: waiter.key.of_part(nth),
                taken: held.taken.clone(),
                lifetime: Lifetime::Window(part.window?),
                deadline: held.until,
                request: None,
                also: Box::default(),
                ..hold.clone()
            })
        });
        let windows: Vec<_> = windows.collect();
        self.emit(Event::Granted { token, hold: Box::new(hold), waiter: id });
        for window in windows {
            let token = Token(self.state().counters.token_next);
            self.emit(Event::Granted { token, hold: Box::new(window), waiter: None });
        }
        token
    }

    /// In the pools of a set, if it is one, something has changed.
    pub(super) fn set_unserved(&mut self, first: &PoolPath, also: &[PoolPath]) {
        if !also.is_empty() && !Mistake::ServesOnePoolOfASet.is_made() {
            self.machine.unserved.extend(core::iter::once(first).chain(also).cloned());
        }
    }

    /// The pool is in service again, or is not any more: so what is kept aside for its sets elsewhere changes.
    pub(super) fn neighbours_unserved(&mut self, path: &PoolPath) {
        let sets = self.state().pools[path].queue.sets().map(|(place, _)| &self.state().waiters[&place.arrival()]);
        let others = sets.flat_map(|waiter| waiter.parts()).map(|(other, _)| other).filter(|other| *other != path);
        let others: Vec<_> = others.cloned().collect();
        self.machine.unserved.extend(others);
    }
}

//! What operators do: each only if things are as they were believed to be.

use tenure_core::*;

use super::{Model, Waiter};

impl Model {
    pub(super) fn steal(&mut self, steal: Steal) -> Result<Reply, Refusal> {
        if let Some(request) = &steal.request
            && let Some(done) = self.steal_again(&steal, request)
        {
            return done;
        }
        if self.pool(&steal.pool).is_none() {
            return Err(Refusal::UnknownPool { pool: steal.pool });
        }
        let found = self.holds_of(&steal.pool).map(|has| has.hold).find(|hold| hold.token == steal.token);
        let Some(hold) = found.filter(|hold| hold.holder.id == steal.holder).cloned() else {
            let now = self.no_room(&steal.pool, 0).holders;
            return Err(Refusal::MovedOn { pool: steal.pool, expected: steal.token, now });
        };
        let pool = self.known(&steal.pool);
        if pool.window.is_some() {
            return Err(Refusal::WindowMismatch { pool: steal.pool, window: pool.window });
        }
        if let Some(pool) = hold.pools().into_iter().find(|path| self.known(path).removing) {
            return Err(Refusal::PoolRemoving { pool });
        }
        for path in hold.pools() {
            let leaving = self.known(&path).resources.iter().filter(|it| it.leaving).map(|it| &it.spec.name);
            let leaving: Vec<_> = leaving.collect();
            let has = hold.has(&path).expect("it is one of its pools");
            if let Some(name) = has.resources.iter().find(|name| leaving.contains(name)) {
                return Err(Refusal::UnknownResource { pool: path, resource: name.clone() });
            }
        }
        // All of a set, but its places in windows, which nobody can give back.
        let given = hold.pools().into_iter().map(|path| {
            let has = hold.has(&path).expect("it is one of its pools");
            Taken { units: has.units, resources: has.resources.into(), all: has.all, dirty: has.dirty }
        });
        let given = given.collect();
        let anything = Demand { amount: Amount::All, selector: None, dirty: false };
        let also = hold.pools().into_iter().skip(1);
        let also = also.map(|pool| WaitedPart { pool, demand: anything.clone(), window: None }).collect();
        let how = HoldEnd::Stolen { to: steal.to.id.clone(), reason: steal.reason };
        self.end_hold(steal.token, how);
        let as_if = Waiter {
            id: WaiterId(0),
            pool: hold.pool,
            key: Key::from_bits(0),
            holder: steal.to,
            demand: anything,
            lifetime: steal.lifetime.unwrap_or(Lifetime::Leased(LEASE_DEFAULT)),
            priority: Priority::default(),
            since: self.now,
            deadline: None,
            session: None,
            request: steal.request,
            away: false,
            turn: 0,
            also,
            holds_on: false,
        };
        Ok(Reply::Granted(Box::new(self.give(&as_if, given, false))))
    }

    pub(super) fn move_waiter(&mut self, to: MoveWaiter) -> Result<Reply, Refusal> {
        let MoveWaiter { pool: path, waiter: id, holder, before, .. } = to;
        if self.pool(&path).is_none() {
            return Err(Refusal::UnknownPool { pool: path });
        }
        let changed = || Refusal::Changed { pool: path.clone(), why: String::new() };
        let queue = self.queue(&path);
        let Some(waiter) = queue.iter().find(|waiter| waiter.id == id && waiter.holder.id == holder) else {
            return Err(changed());
        };
        // It has the same place in all its pools.
        if !waiter.also.is_empty() {
            return Err(Refusal::WrongKind { pool: path, why: "".into() });
        }
        let target = match before {
            Some(other) if other == id => return Err(changed()),
            Some(other) => Some(queue.iter().find(|waiter| waiter.id == other).ok_or_else(changed)?),
            None => queue.iter().find(|waiter| waiter.id != id),
        };
        if let Some(target) = target {
            let (other, priority, turn) = (target.id, target.priority, target.turn);
            let at = self.waiters.iter().position(|waiter| waiter.id == id).expect("it waits");
            let was = self.waiters.remove(at);
            if before.is_some() {
                let at = self.waiters.iter().position(|waiter| waiter.id == other).expect("it waits");
                self.waiters.insert(at, Waiter { priority, turn, ..was.clone() });
            } else {
                self.enter(Waiter { priority, turn: turn - 1, ..was.clone() });
            }
            self.note_turn(&was, false);
        }
        self.serve(&path);
        Ok(Reply::Done)
    }

    pub(super) fn reserve(&mut self, reserve: Reserve) -> Result<Reply, Refusal> {
        let Reserve { pool: path, resource, holder, lasts, instead_of, reason } = reserve;
        if self.reserved_for(&path, &resource)? != instead_of {
            return Err(Refusal::Changed { pool: path, why: String::new() });
        }
        if self.known(&path).removing {
            return Err(Refusal::PoolRemoving { pool: path });
        }
        let until = lasts.map(|lasts| self.now + lasts);
        self.set_reserved(&path, &resource, Some(Reservation { holder, until, reason }));
        self.serve(&path);
        Ok(Reply::Done)
    }

    pub(super) fn unreserve(&mut self, unreserve: Unreserve) -> Result<Reply, Refusal> {
        let Unreserve { pool: path, resource, holder, .. } = unreserve;
        if self.reserved_for(&path, &resource)? != Some(holder) {
            return Err(Refusal::Changed { pool: path, why: String::new() });
        }
        self.set_reserved(&path, &resource, None);
        self.serve(&path);
        Ok(Reply::Done)
    }

    fn reserved_for(&self, path: &PoolPath, name: &ResourceName) -> Result<Option<HolderId>, Refusal> {
        let pool = self.pool(path).ok_or_else(|| Refusal::UnknownPool { pool: path.clone() })?;
        match pool.resources.iter().find(|it| it.spec.name == *name && !it.leaving) {
            Some(resource) => Ok(resource.reserved.as_ref().map(|it| it.holder.clone())),
            None => Err(Refusal::UnknownResource { pool: path.clone(), resource: name.clone() }),
        }
    }

    pub(super) fn set_reserved(&mut self, path: &PoolPath, name: &ResourceName, reserved: Option<Reservation>) {
        let pool = self.pool_mut(path);
        let found = pool.resources.iter_mut().find(|it| it.spec.name == *name);
        found.expect("what is reserved is there").reserved = reserved;
    }
}

//! What operators do to what others have, wait for or will come for. Each acts only on what is as it was believed to be,
//! says why, and is refused if that has changed.

use alloc::boxed::Box;
use alloc::format;

use super::acquire::limit;
use super::{Step, deadline};
use crate::command::*;
use crate::event::{Event, HoldEnd, ReservationEnd};
use crate::limits::{LEASE_DEFAULT, MOVES_BEFORE_ONE_MAX};
use crate::names::*;
use crate::pool::Pool;
use crate::record::{Hold, RequestStage};
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::view::{Place, Rank};

impl Step<'_> {
    pub(super) fn force_release(&mut self, force: ForceRelease) -> Result<Reply, Refusal> {
        self.check_held(&force.pool, &force.holder, force.token)?;
        self.end_hold(force.token, HoldEnd::Forced(force.reason));
        Ok(Reply::Released { token: force.token })
    }

    /// One holder loses it and another has it, with nothing in between: it is never free.
    pub(super) fn steal(&mut self, steal: Steal) -> Result<Reply, Refusal> {
        if let Some(request) = &steal.request
            && let Some(stage) = self.state().request_stage(steal.pool.namespace(), request, self.at())
        {
            return self.steal_again(&steal, request, stage);
        }
        if matches!(steal.lifetime, Some(Lifetime::Session(_))) {
            return Err(Refusal::UnknownSession);
        }
        let pool = self.check_held(&steal.pool, &steal.holder, steal.token)?;
        if pool.window.is_some() || matches!(steal.lifetime, Some(Lifetime::Window(_))) {
            return Err(Refusal::WindowMismatch { pool: steal.pool, window: pool.window });
        }
        let stolen = &self.state().holds[&steal.token];
        if let Some((pool, _)) = stolen.parts().find(|(pool, _)| self.state().pools[*pool].removing) {
            return Err(Refusal::PoolRemoving { pool: pool.clone() });
        }
        // What is no longer listed leaves when it is let go: there is nothing to hand on.
        for (pool, taken) in stolen.parts() {
            let leaves =
                |name: &&ResourceName| self.state().pools[pool].resource(name).is_none_or(|(_, it)| it.leaving);
            if let Some(name) = taken.resources.iter().find(leaves) {
                return Err(Refusal::UnknownResource { pool: pool.clone(), resource: name.clone() });
            }
        }
        let lifetime = steal.lifetime.unwrap_or(Lifetime::Leased(LEASE_DEFAULT));
        self.check_owner(steal.pool.namespace(), &lifetime)?;
        let stolen = &self.state().holds[&steal.token];
        // What it has of rate windows stays there as it is: nobody can give that back.
        let also = stolen.also.iter().filter(|part| part.until.is_none()).cloned().collect();
        let (pool, taken) = (stolen.pool.clone(), stolen.taken.clone());
        self.end_hold_only(steal.token, HoldEnd::Stolen { to: steal.to.id.clone(), reason: steal.reason });
        let hold = Hold {
            key: Key::from_nonce(self.stamp.nonce),
            taken,
            asked: self.at(),
            since: self.at(),
            deadline: deadline(self.at(), &lifetime),
            pool,
            holder: steal.to,
            lifetime,
            session: None,
            request: steal.request,
            also,
        };
        let token = Token(self.state().counters.token_next);
        self.emit(Event::Granted { token, hold: Box::new(hold), waiter: None });
        Ok(Reply::Granted(self.machine.grant(token)))
    }

    /// The same request id again: it was done, and the answer may not have arrived.
    fn steal_again(&self, steal: &Steal, request: &RequestId, stage: RequestStage) -> Result<Reply, Refusal> {
        match stage {
            RequestStage::Ended { token, .. } => Err(Refusal::RequestEnded { request: request.clone(), token }),
            RequestStage::Held(token) => {
                let hold = &self.state().holds[&token];
                if !hold.parts().any(|(pool, _)| *pool == steal.pool) || hold.holder.id != steal.to.id {
                    return Err(Refusal::RequestReused { request: request.clone() });
                }
                Ok(Reply::Granted(self.machine.grant(token)))
            }
            RequestStage::Waiting(_) => Err(Refusal::RequestReused { request: request.clone() }),
        }
    }

    fn check_held(&self, path: &PoolPath, holder: &HolderId, token: Token) -> Result<&Pool, Refusal> {
        let pool = self.known(path)?;
        if !pool.holds.contains(token) || self.state().holds[&token].holder.id != *holder {
            let now = self.state().holders(path, pool);
            return Err(Refusal::MovedOn { pool: path.clone(), expected: token, now });
        }
        Ok(pool)
    }

    pub(super) fn move_waiter(&mut self, to: MoveWaiter) -> Result<Reply, Refusal> {
        let MoveWaiter { pool: path, waiter: id, holder, before, reason } = to;
        let pool = self.known(&path)?;
        let waits =
            |id: WaiterId| self.state().waiters.get(&id).filter(|waiter| waiter.parts().any(|(pool, _)| *pool == path));
        let changed = |why| Err(Refusal::Changed { pool: path.clone(), why });
        let Some(waiter) = waits(id).filter(|waiter| waiter.holder.id == holder) else {
            return changed(format!("`{holder}` does not wait as number {}", id.0));
        };
        if waiter.is_set() {
            let why = format!("number {} waits for several pools, and has the same place in all of them", id.0);
            return Err(Refusal::WrongKind { pool: path, why: why.into() });
        }
        let (priority, rank) = match before {
            None => match pool.queue.after(None).find(|place| place.arrival() != id) {
                Some(first) => (first.priority(), Rank::at(first.rank().turn.saturating_sub(1))),
                None => (waiter.priority, waiter.place(id).rank()),
            },
            Some(other) if other == id => return changed(format!("number {} is that waiter itself", id.0)),
            Some(other) => match waits(other) {
                Some(waiter) => directly_before(pool, waiter.place(other), id)?,
                None => return changed(format!("number {} does not wait any more", other.0)),
            },
        };
        self.emit(Event::WaiterMoved { id, pool: path.clone(), holder, before, priority, rank, reason });
        self.serve(&path);
        Ok(Reply::Done)
    }

    pub(super) fn reserve(&mut self, reserve: Reserve) -> Result<Reply, Refusal> {
        let Reserve { pool, resource, holder, lasts, instead_of, reason } = reserve;
        let reserved_for = self.reserved_for(&pool, &resource)?;
        if reserved_for != instead_of.as_ref() {
            return Err(reservation_changed(pool.clone(), &resource, reserved_for));
        }
        if self.known(&pool)?.removing {
            return Err(Refusal::PoolRemoving { pool });
        }
        let until = lasts.map(|lasts| self.at() + lasts);
        self.emit(Event::Reserved { pool: pool.clone(), resource, holder, until, reason });
        self.serve(&pool);
        Ok(Reply::Done)
    }

    pub(super) fn unreserve(&mut self, unreserve: Unreserve) -> Result<Reply, Refusal> {
        let Unreserve { pool, resource, holder, reason } = unreserve;
        let reserved_for = self.reserved_for(&pool, &resource)?;
        if reserved_for != Some(&holder) {
            return Err(reservation_changed(pool.clone(), &resource, reserved_for));
        }
        self.end_reservation(&pool, resource, ReservationEnd::Cancelled(reason));
        self.serve(&pool);
        Ok(Reply::Done)
    }

    pub(super) fn end_reservation(&mut self, pool: &PoolPath, resource: ResourceName, how: ReservationEnd) {
        let reserved = self.state().pools[pool].resource(&resource).and_then(|(_, it)| it.reserved.as_ref());
        let holder = reserved.expect("a reservation that ends is there").holder.clone();
        self.emit(Event::ReservationEnded { pool: pool.clone(), resource, holder, how });
    }

    fn reserved_for(&self, path: &PoolPath, resource: &ResourceName) -> Result<Option<&HolderId>, Refusal> {
        match self.known(path)?.resource(resource).filter(|(_, it)| !it.leaving) {
            Some((_, it)) => Ok(it.reserved.as_ref().map(|reserved| &reserved.holder)),
            None => Err(Refusal::UnknownResource { pool: path.clone(), resource: resource.clone() }),
        }
    }

    fn known(&self, path: &PoolPath) -> Result<&Pool, Refusal> {
        self.state().pool(path).ok_or_else(|| Refusal::UnknownPool { pool: path.clone() })
    }
}

/// Half-way between somebody and whoever stands in front of it, if they have the same turn.
fn directly_before(pool: &Pool, place: Place, moved: WaiterId) -> Result<(Priority, Rank), Refusal> {
    let Rank { turn, within } = place.rank();
    let neighbour = pool.queue.directly_before(place, moved);
    let neighbour = neighbour.filter(|it| it.priority() == place.priority() && it.rank().turn == turn);
    let least = neighbour.map_or(0, |it| it.rank().within);
    let halfway = least + (within - least) / 2;
    if halfway == least {
        return Err(limit("moves_before_one_max", MOVES_BEFORE_ONE_MAX));
    }
    Ok((place.priority(), Rank { turn, within: halfway }))
}

fn reservation_changed(pool: PoolPath, resource: &ResourceName, now: Option<&HolderId>) -> Refusal {
    let why = match now {
        Some(holder) => format!("`{resource}` is reserved for `{holder}`"),
        None => format!("`{resource}` is not reserved"),
    };
    Refusal::Changed { pool, why }
}

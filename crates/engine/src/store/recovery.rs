//! From rows and log entries back to the state. Everything read is checked against what is there already, so
//! that damaged data ends in an error that says what and where, and not in an assertion of the rules.

use std::collections::BTreeSet;

use tenure_core::{
    Capacity, Counters, Event, Hold, Lifetime, PoolPath, ResourceName, Seq, SessionId, State, Timestamp, Ttl, Waiter,
    WaiterId,
};

use super::codec::{self, NUMBER_MAX, Watermark, Wrong};
use super::layout::Address;
use super::{Entry, StoreError};

/// A state being put together: first rows, in the order of their kinds in [`Recovery::row`], then entries.
pub(super) struct Recovery {
    state: State,
    /// Rows of ended requests: index of the first, and how many.
    ended: Vec<(u64, u64)>,
    watermark: Watermark,
}

impl Recovery {
    pub(super) fn new(watermark: Watermark, pool_idle: Ttl) -> Result<Self, StoreError> {
        let Counters { now: _, token_next, waiter_next, session_next, seq, requests_forgotten } = watermark.counters;
        if [token_next, waiter_next, session_next, seq.0, requests_forgotten].iter().any(|it| *it >= NUMBER_MAX) {
            return Err(Address::Watermark.damaged("is impossibly high"));
        }
        let mut state = State::new(pool_idle);
        state.restore_counters(watermark.counters);
        Ok(Self { state, ended: Vec::new(), watermark })
    }

    pub(super) fn last(&self) -> Seq {
        self.state.counters().seq
    }

    /// Takes a row. Pools come first, then sessions, holds, waiters and ended requests.
    pub(super) fn row(&mut self, address: &Address, value: &[u8]) -> Result<(), StoreError> {
        self.restore(address, value).map_err(|problem| match problem {
            Problem::Value(error) => error,
            Problem::Wrong(why) => address.damaged(why),
        })
    }

    fn restore(&mut self, address: &Address, value: &[u8]) -> Result<(), Problem> {
        match address {
            Address::Pool(path) => {
                let pool = codec::to_pool(address.unseal(value)?)?;
                check_new(self.state.pool(path).is_none())?;
                self.state.restore_pool(path.clone(), pool);
            }
            Address::Session(id) => {
                let session = codec::to_session(address.unseal(value)?)?;
                self.check_number("session", id.0, self.state.counters().session_next)?;
                check_new(self.state.session(*id).is_none())?;
                self.state.restore_session(*id, session);
            }
            Address::Hold(token) => {
                let hold = codec::to_hold_of_row(address.unseal(value)?)?;
                self.check_number("token", token.0, self.state.counters().token_next)?;
                check_new(self.state.hold(*token).is_none())?;
                check_hold(&self.state, &hold)?;
                self.state.restore_hold(*token, hold);
            }
            Address::Waiter(id) => {
                let (waiter, present) = codec::to_waiter_of_row(address.unseal(value)?)?;
                self.check_number("waiter", id.0, self.state.counters().waiter_next)?;
                check_new(self.state.waiter(*id).is_none())?;
                check_waiter(&self.state, &waiter)?;
                self.state.restore_waiter(*id, waiter, present);
            }
            Address::Ended(first) => self.restore_ended(*first, address.unseal(value)?)?,
            Address::Watermark | Address::LogBounds | Address::Entry(_) => return Err(Wrong::from("is no row").into()),
        }
        Ok(())
    }

    fn restore_ended(&mut self, first: u64, row: codec::stored::EndedRow) -> Result<(), Problem> {
        let forgotten = self.state.counters().requests_forgotten;
        let count = row.requests.len() as u64;
        let next = self.state.requests_ended_total();
        // The first may be forgotten in part: its row goes when all of it is.
        if first.checked_add(count).is_none() || first != next && !(self.ended.is_empty() && first < next) {
            return Err(format!("the row of request {next} should come here").into());
        }
        self.ended.push((first, count));
        for (index, request) in (first..).zip(row.requests) {
            if index >= forgotten {
                self.state.restore_ended_request(codec::to_ended(request)?);
            }
        }
        Ok(())
    }

    fn check_number(&self, what: &str, number: u64, next: u64) -> Result<(), Wrong> {
        if number < next { Ok(()) } else { Err(format!("{what} {number} has not been given: the next is {next}")) }
    }

    /// After the last row: whether all that were written are there.
    pub(super) fn rows_end(&self) -> Result<(), StoreError> {
        let found = codec::RowCounts::of(&self.state);
        if found == self.watermark.counts {
            return Ok(());
        }
        Err(Address::Watermark.damaged(format!("tells of {:?}, but there are {found:?}", self.watermark.counts)))
    }

    /// Replays an entry of the log.
    pub(super) fn entry(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let address = Address::Entry(entry.first);
        let expected = self.last().0 + 1;
        if entry.first.0 != expected {
            return Err(address.damaged(format!("event {expected} should come here: the log has a gap")));
        }
        for (seq, event) in (entry.first.0..).zip(&entry.events) {
            check_event(&self.state, entry.at, event).map_err(|why| address.damaged(format!("event {seq}: {why}")))?;
            self.state.evolve(entry.at, event);
        }
        Ok(())
    }

    /// The state as of now, and where the rows of ended requests are.
    pub(super) fn finish(self) -> (State, Vec<(u64, u64)>) {
        (self.state, self.ended)
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }
}

enum Problem {
    Value(StoreError),
    Wrong(Wrong),
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::Value(error)
    }
}

impl From<Wrong> for Problem {
    fn from(why: Wrong) -> Self {
        Self::Wrong(why)
    }
}

/// Whether [`State::evolve`] can take the event: everything it refers to is there.
fn check_event(state: &State, at: Timestamp, event: &Event) -> Result<(), Wrong> {
    if at < state.counters().now {
        return Err("is earlier than the one before".into());
    }
    match event {
        Event::Queued { id, waiter } => {
            if state.waiter(*id).is_some() {
                return Err(format!("waiter {} is there already", id.0));
            }
            check_waiter(state, waiter)
        }
        Event::Granted { token, hold, waiter } => {
            if state.hold(*token).is_some() {
                return Err(format!("hold {} is there already", token.0));
            }
            if let Some(id) = waiter {
                waiter_there(state, *id)?;
            }
            check_hold(state, hold)
        }
        Event::Renewed { token, adopted_from, .. } => match (state.hold(*token), adopted_from) {
            (Some(hold), Some(id)) => match (&hold.lifetime, hold.session) {
                (Lifetime::Session(_), Some(own)) if own == *id => session_there(state, own),
                _ => Err(format!("hold {} does not end with session {}", token.0, id.0)),
            },
            (Some(hold), None) => match hold.lifetime {
                Lifetime::Leased(_) | Lifetime::Session(Some(_)) => Ok(()),
                _ => Err(format!("hold {} is no lease", token.0)),
            },
            (None, _) => Err(format!("there is no hold {}", token.0)),
        },
        Event::Ended { token, .. } => {
            state.hold(*token).map(|_| ()).ok_or_else(|| format!("there is no hold {}", token.0))
        }
        Event::WaitEnded { id, .. } | Event::WaiterAway { id, .. } | Event::WaiterBack { id, .. } => {
            waiter_there(state, *id)
        }
        Event::SessionOpened { id, .. } => match state.session(*id) {
            Some(_) => Err(format!("session {} is there already", id.0)),
            None => Ok(()),
        },
        Event::SessionKept { id, .. }
        | Event::SessionAttached { id, .. }
        | Event::SessionDetached { id, .. }
        | Event::SessionClosing { id, .. } => session_there(state, *id),
        Event::SessionEnded { id, .. } => match state.session(*id) {
            Some(session) if session.is_empty() => Ok(()),
            Some(_) => Err(format!("session {} ends before what it has", id.0)),
            None => Err(format!("there is no session {}", id.0)),
        },
        Event::PoolSet { pool: path, spec, .. } => match state.pool(path) {
            Some(pool) if pool.has_holds() => {
                let units = |capacity: &Capacity| matches!(capacity, Capacity::Units(_));
                let same = units(&pool.spec().capacity) == units(&spec.capacity);
                if same { Ok(()) } else { Err(format!("pool {path:?} changes its kind while it is held")) }
            }
            _ => Ok(()),
        },
        Event::ConditionSet { pool, resource: None, .. }
        | Event::PoolRemoving { pool }
        | Event::PolicyFailed { pool, .. } => pool_there(state, pool),
        Event::ConditionSet { pool: path, resource: Some(name), .. } => resource_there(state, path, name),
        Event::Reserved { pool: path, resource: name, .. }
        | Event::ReservationEnded { pool: path, resource: name, .. } => {
            resource_there(state, path, name)?;
            let leaving = state.pool(path).and_then(|pool| pool.resource(name)).is_some_and(|(_, it)| it.leaving);
            if leaving { Err(format!("resource {name} of pool {path:?} is leaving")) } else { Ok(()) }
        }
        Event::WaiterMoved { id, .. } => waiter_there(state, *id),
        Event::PoolGone { pool: path } => match state.pool(path) {
            Some(pool) if pool.has_holds() || pool.has_waiters() => {
                Err(format!("pool {path:?} goes while it is in use"))
            }
            Some(_) => Ok(()),
            None => Err(format!("there is no pool {path:?}")),
        },
        Event::RequestWithdrawn { .. } | Event::Restarted => Ok(()),
    }
}

/// No database has a row twice, but a snapshot could.
fn check_new(is_new: bool) -> Result<(), Wrong> {
    if is_new { Ok(()) } else { Err("is there already".into()) }
}

fn check_hold(state: &State, hold: &Hold) -> Result<(), Wrong> {
    each_once(hold.parts().map(|(path, _)| path))?;
    for (path, taken) in hold.parts() {
        let pool = state.pool(path).ok_or_else(|| format!("there is no pool {path:?}"))?;
        let mut seen = BTreeSet::new();
        for name in &taken.resources {
            match pool.resource(name) {
                None => return Err(format!("pool {path:?} has no resource {name}")),
                Some((_, resource)) if resource.hold().is_some() || !seen.insert(name) => {
                    return Err(format!("resource {name} of pool {path:?} would have two holders"));
                }
                Some(_) => {}
            }
        }
    }
    match (&hold.lifetime, hold.session) {
        (Lifetime::Leased(_) | Lifetime::Session(Some(_)), _) if hold.deadline.is_none() => {
            Err("is a lease without a deadline".into())
        }
        (Lifetime::Session(_), Some(id)) => session_there(state, id),
        (Lifetime::Session(_), None) => Err("ends with a session, and names none".into()),
        _ => Ok(()),
    }
}

fn check_waiter(state: &State, waiter: &Waiter) -> Result<(), Wrong> {
    each_once(waiter.parts().map(|(path, _)| path))?;
    waiter.parts().try_for_each(|(path, _)| pool_there(state, path))?;
    waiter.session.map_or(Ok(()), |id| session_there(state, id))
}

/// Of every pool a set has, or wants, something once.
fn each_once<'a>(paths: impl Iterator<Item = &'a PoolPath>) -> Result<(), Wrong> {
    let mut seen = BTreeSet::new();
    for path in paths {
        if path.namespace() != seen.first().map_or(path, |first: &&PoolPath| first).namespace() || !seen.insert(path) {
            return Err(format!("pool {path:?} cannot be one more of a set"));
        }
    }
    Ok(())
}

fn pool_there(state: &State, path: &PoolPath) -> Result<(), Wrong> {
    state.pool(path).map(|_| ()).ok_or_else(|| format!("there is no pool {path:?}"))
}

fn resource_there(state: &State, path: &PoolPath, name: &ResourceName) -> Result<(), Wrong> {
    let known = state.pool(path).is_some_and(|pool| pool.resource(name).is_some());
    if known { Ok(()) } else { Err(format!("pool {path:?} has no resource {name}")) }
}

fn session_there(state: &State, id: SessionId) -> Result<(), Wrong> {
    state.session(id).map(|_| ()).ok_or_else(|| format!("there is no session {}", id.0))
}

fn waiter_there(state: &State, id: WaiterId) -> Result<(), Wrong> {
    state.waiter(id).map(|_| ()).ok_or_else(|| format!("there is no waiter {}", id.0))
}

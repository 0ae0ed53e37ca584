//! Which rows are out of date, and the writing of them.
//!
//! Rows are written behind the log, many events at a time: what came and went in between never becomes one.
//! Nothing is lost by waiting, because the log has the events; a start has only more of them to replay.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use tenure_core::mutation::Mistake;
use tenure_core::{Event, PoolPath, Seq, SessionId, State, Token, Ttl, WaiterId};

use super::codec;
use super::layout::Address;

/// Rows are due after this many events, if [`INTERVAL_MIN`] has passed: a start replays them in well under a second.
const EVENTS_DUE: usize = 131_072;
/// A server that is so busy that more come in this time writes rows once in it: each time it is kept from its work for a millisecond, and
/// what came in the meantime a start replays in less than it took.
const INTERVAL_MIN: Ttl = Ttl::from_millis(1_000);
/// After this many events they are due whenever the last were written.
const EVENTS_MAX: usize = 524_288;
/// Rows are due after so long, if anything has happened: only what they have can be let go of the history.
const INTERVAL_MAX: Ttl = Ttl::from_millis(60_000);
/// Rows are due when this many requests have ended, which are one row together: as with rows, it takes some time to encode them.
const REQUESTS_DUE: u64 = 4_096;
/// Rows are due when this many wait: few enough to be encoded in some milliseconds, during which nothing
/// is applied.
const ROWS_DUE: usize = 4_096;

/// Rows to be written. It must hear of every event.
#[derive(Debug)]
pub struct Rows {
    /// Whether there is a row of it already.
    pools: HashMap<PoolPath, bool>,
    sessions: BTreeSet<SessionId>,
    holds: BTreeSet<Token>,
    waiters: BTreeSet<WaiterId>,
    sessions_all: bool,
    events: usize,
    written: Written,
}

/// What the rows have, as of the last time: what has a higher number has no row.
#[derive(Clone, Copy, Debug)]
struct Written {
    token_next: Token,
    waiter_next: WaiterId,
    session_next: SessionId,
    requests_ended: u64,
}

/// Rows as they are to be, up to a watermark. Encoded, so that the machine can go on.
#[derive(Debug)]
pub struct RowChanges {
    pub(super) puts: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) deletes: Vec<Vec<u8>>,
    /// The event up to which the rows have everything, once these are written.
    pub(super) watermark: Seq,
    pub(super) watermark_value: Vec<u8>,
    /// The row of requests that have ended since, if any: index of the first, and how many.
    pub(super) ended: Option<(u64, u64)>,
    /// Requests before this index are forgotten.
    pub(super) ended_forgotten: u64,
}

impl RowChanges {
    /// How many rows are written or deleted.
    pub fn len(&self) -> usize {
        self.puts.len() + self.deletes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The event up to which the rows have everything, once these are written.
    pub fn watermark(&self) -> Seq {
        self.watermark
    }

    /// How much is written.
    pub(super) fn bytes(&self) -> u64 {
        let puts: usize = self.puts.iter().map(|(key, value)| key.len() + value.len()).sum();
        let deletes: usize = self.deletes.iter().map(Vec::len).sum();
        (puts + deletes) as u64
    }
}

impl Rows {
    /// All of `state` has been written.
    pub fn new(state: &State) -> Self {
        Self {
            pools: HashMap::new(),
            sessions: BTreeSet::new(),
            holds: BTreeSet::new(),
            waiters: BTreeSet::new(),
            sessions_all: false,
            events: 0,
            written: Written::of(state),
        }
    }

    /// Nothing of `state` has been written.
    pub(super) fn all(state: &State) -> Self {
        let mut rows = Self::new(state);
        rows.pools.extend(state.pools().map(|path| (path.clone(), false)));
        rows.sessions.extend(state.sessions().map(|(id, _)| id));
        rows.holds.extend(state.holds());
        rows.waiters.extend(state.waiters());
        rows.written.requests_ended = 0;
        rows
    }

    /// How many rows are out of date.
    pub fn len(&self) -> usize {
        self.pools.len() + self.sessions.len() + self.holds.len() + self.waiters.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.events == 0
    }

    /// Whether it is time to write them, when the last were written so many milliseconds ago.
    pub fn are_due(&self, state: &State, millis: u64) -> bool {
        let requests = state.requests_ended_total() - self.written.requests_ended;
        let events_due = if millis < INTERVAL_MIN.as_millis() { EVENTS_MAX } else { EVENTS_DUE };
        // After a restart every session has changed. Better now, while nobody is served yet.
        let is_much = self.sessions_all || self.len() >= ROWS_DUE || requests >= REQUESTS_DUE;
        !self.is_empty() && (is_much || self.events >= events_due || millis >= INTERVAL_MAX.as_millis())
    }

    pub fn note(&mut self, event: &Event) {
        self.events += 1;
        match event {
            Event::Queued { id, waiter } => {
                self.waiters.insert(*id);
                waiter.parts().for_each(|(pool, _)| self.pool_changed(pool));
            }
            Event::Granted { token, hold, waiter } => {
                if let Some(id) = waiter {
                    self.waiter_gone(*id);
                }
                self.holds.insert(*token);
                hold.parts().for_each(|(pool, _)| self.pool_changed(pool));
            }
            Event::Renewed { .. } if Mistake::ForgetsARow.is_made() => {}
            Event::Renewed { token, .. } => {
                self.holds.insert(*token);
            }
            // The pool may be idle now, and a resource has been used, or has left.
            Event::Ended { token, pool, also, .. } => {
                if *token >= self.written.token_next {
                    self.holds.remove(token);
                } else {
                    self.holds.insert(*token);
                }
                self.pool_changed(pool);
                also.iter().for_each(|pool| self.pool_changed(pool));
            }
            Event::WaitEnded { id, pool, also, .. } => {
                self.waiter_gone(*id);
                self.pool_changed(pool);
                also.iter().for_each(|pool| self.pool_changed(pool));
            }
            Event::WaiterAway { id, .. } | Event::WaiterBack { id, .. } => {
                self.waiters.insert(*id);
            }
            // The turns of the pool too.
            Event::WaiterMoved { id, pool, .. } => {
                self.waiters.insert(*id);
                self.pool_changed(pool);
            }
            // Ended requests are counted by the state.
            Event::RequestWithdrawn { .. } => {}
            Event::SessionOpened { id, .. }
            | Event::SessionKept { id, .. }
            | Event::SessionAttached { id, .. }
            | Event::SessionDetached { id, .. }
            | Event::SessionClosing { id, .. } => {
                self.sessions.insert(*id);
            }
            Event::SessionEnded { id, .. } => {
                if *id >= self.written.session_next {
                    self.sessions.remove(id);
                } else {
                    self.sessions.insert(*id);
                }
            }
            Event::PoolSet { pool, created: true, .. } => {
                self.pools.entry(pool.clone()).or_insert(false);
            }
            Event::PoolSet { pool, created: false, .. }
            | Event::ConditionSet { pool, .. }
            | Event::Reserved { pool, .. }
            | Event::ReservationEnded { pool, .. }
            | Event::PoolRemoving { pool }
            | Event::PolicyFailed { pool, .. } => self.pool_changed(pool),
            Event::PoolGone { pool } => {
                if self.pools.get(pool) == Some(&false) {
                    self.pools.remove(pool);
                } else {
                    self.pools.insert(pool.clone(), true);
                }
            }
            Event::Restarted => self.sessions_all = true,
        }
    }

    /// The rows of everything out of date, as it is in `state`, which has had every event noted here.
    pub fn drain(&mut self, state: &State) -> RowChanges {
        let counters = state.counters();
        let mut changes = RowChanges {
            puts: Vec::with_capacity(self.len()),
            deletes: Vec::new(),
            watermark: counters.seq,
            watermark_value: codec::encode_watermark(state),
            ended: None,
            ended_forgotten: counters.requests_forgotten,
        };
        for path in std::mem::take(&mut self.pools).into_keys() {
            let row = state.pool(&path).map(codec::pool_row);
            changes.push(&Address::Pool(path), row);
        }
        // Their lists only grow to what changes between two drains; a restart's list of all is not kept.
        let mut sessions = std::mem::take(&mut self.sessions);
        if std::mem::take(&mut self.sessions_all) {
            sessions.extend(state.sessions().map(|(id, _)| id));
        }
        for id in sessions {
            changes.push(&Address::Session(id), state.session(id).map(codec::session_row));
        }
        for token in std::mem::take(&mut self.holds) {
            changes.push(&Address::Hold(token), state.hold(token).map(codec::hold_row));
        }
        for id in std::mem::take(&mut self.waiters) {
            let row = state.waiter(id).map(|(waiter, present)| codec::waiter_row(waiter, present));
            changes.push(&Address::Waiter(id), row);
        }
        let first = self.written.requests_ended.max(counters.requests_forgotten);
        let ended = state.ended_requests(first);
        if ended.len() > 0 {
            changes.ended = Some((first, ended.len() as u64));
            changes.push(&Address::Ended(first), Some(codec::ended_row(ended)));
        }
        self.events = 0;
        self.written = Written::of(state);
        changes
    }

    fn pool_changed(&mut self, path: &PoolPath) {
        if !self.pools.contains_key(path) {
            self.pools.insert(path.clone(), true);
        }
    }

    fn waiter_gone(&mut self, id: WaiterId) {
        if id >= self.written.waiter_next {
            self.waiters.remove(&id);
        } else {
            self.waiters.insert(id);
        }
    }
}

impl Written {
    fn of(state: &State) -> Self {
        let counters = state.counters();
        Self {
            token_next: Token(counters.token_next),
            waiter_next: WaiterId(counters.waiter_next),
            session_next: SessionId(counters.session_next),
            requests_ended: state.requests_ended_total(),
        }
    }
}

impl RowChanges {
    fn push<M: prost::Message>(&mut self, address: &Address, row: Option<M>) {
        match row {
            Some(row) => self.puts.push((address.key(), address.seal(&row))),
            None => self.deletes.push(address.key()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_events_are_written_once_a_second_unless_they_are_too_many_to_be_replayed() {
        let state = State::new(Ttl::from_millis(1_000));
        let mut rows = Rows::new(&state);
        let are_due = |rows: &Rows| [0, 999, 1_000, 59_999, 60_000].map(|millis| rows.are_due(&state, millis));
        assert_eq!(are_due(&rows), [false; 5], "there is nothing to write");
        rows.events = 131_071;
        assert_eq!(are_due(&rows), [false, false, false, false, true]);
        rows.events = 131_072;
        assert_eq!(are_due(&rows), [false, false, true, true, true]);
        rows.events = 524_287;
        assert_eq!(are_due(&rows), [false, false, true, true, true]);
        rows.events = 524_288;
        assert_eq!(are_due(&rows), [true; 5]);
    }
}

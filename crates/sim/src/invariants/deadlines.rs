//! A lease ends no earlier than its deadline and, for everyone who asks afterwards, not later. So do waits and sessions.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::*;

use super::{Answer, Applied, Invariant, Ledger, Looked};

/// How much later than a deadline an engine that has nothing else to do may wake up: what `sleep` adds for rounding, and
/// the millisecond under way.
const WAKE_UP_MILLIS_MAX: u64 = 3;

#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// All that a hold ever had.
    stored: BTreeMap<Token, BTreeSet<Timestamp>>,
    /// When a pool or a resource returns by itself, as it was said last.
    returns: BTreeMap<(PoolPath, Option<ResourceName>), Option<Timestamp>>,
    /// When something comes due next.
    due: Option<Timestamp>,
}

impl Invariant for Deadlines {
    fn name(&self) -> &'static str {
        "deadlines neither early nor late"
    }

    fn applied(&mut self, batch: &Applied<'_>) -> Looked {
        let (state, at) = (batch.state, batch.at);
        self.due = state.next_deadline();
        if at != batch.now {
            return Err(format!("the engine's time is {at:?}, and should be {:?}", batch.now));
        }
        let over = |deadline: Option<Timestamp>| deadline.is_some_and(|deadline| deadline <= at);
        if let Some(token) = state.holds().find(|token| over(state.hold(*token).and_then(|hold| hold.deadline))) {
            return Err(format!("hold {} is there after its deadline", token.0));
        }
        if let Some(id) = state.waiters().find(|id| over(state.waiter(*id).and_then(|(waiter, _)| waiter.deadline))) {
            return Err(format!("waiter {} waits after its deadline", id.0));
        }
        for path in state.pools() {
            let pool = state.pool(path).ok_or("a pool is listed and not there")?;
            let resources = || pool.resources().map(|(_, it)| it);
            let reserved = resources().filter_map(|it| it.reserved.as_ref()).any(|it| over(it.until));
            if over(pool.until()) || resources().any(|it| over(it.until)) || reserved {
                return Err(format!("something of pool {path:?} is there after its deadline"));
            }
        }
        match state.sessions().find(|(_, session)| over(session.deadline)) {
            Some((id, _)) => Err(format!("session {} is there after its deadline", id.0)),
            None => Ok(true),
        }
    }

    fn event(&mut self, before: &Ledger, at: Timestamp, event: &Event) -> Looked {
        match event {
            Event::Granted { token, hold, .. } => {
                let ttl = match hold.lifetime {
                    Lifetime::Leased(ttl) | Lifetime::Window(ttl) | Lifetime::Session(Some(ttl)) => Some(ttl),
                    Lifetime::Session(None) | Lifetime::Kept | Lifetime::Bound(_) => None,
                };
                if hold.since != at || hold.deadline != ttl.map(|ttl| at + ttl) {
                    return Err(format!("hold {} does not last {ttl:?} from {at:?}", token.0));
                }
                self.stored.entry(*token).or_default().extend(hold.deadline);
            }
            Event::Renewed { token, ttl, deadline, .. } => {
                if *deadline != at + *ttl {
                    return Err(format!("hold {} does not last {ttl:?} from {at:?}", token.0));
                }
                self.stored.entry(*token).or_default().insert(*deadline);
            }
            Event::Ended { token, how: HoldEnd::Expired, .. } => {
                let deadline = before.holds.get(token).and_then(|hold| hold.deadline);
                if deadline.is_none_or(|deadline| deadline > at) {
                    return Err(format!("hold {} ended at {at:?}, before {deadline:?}", token.0));
                }
            }
            Event::ConditionSet { pool, resource, automatic: true, .. } => {
                let until = self.returns.get(&(pool.clone(), resource.clone())).copied().flatten();
                if until.is_none_or(|until| until > at) {
                    return Err(format!("{resource:?} of pool {pool:?} returned at {at:?}, before {until:?}"));
                }
            }
            Event::ConditionSet { pool, resource, until, .. } => {
                self.returns.insert((pool.clone(), resource.clone()), *until);
                return Ok(false);
            }
            Event::WaitEnded { id, how: WaitEnd::TimedOut, .. } => {
                let deadline = before.waiters.get(id).and_then(|(waiter, _)| waiter.deadline);
                if deadline.is_none_or(|deadline| deadline > at) {
                    return Err(format!("waiter {} timed out at {at:?}, before {deadline:?}", id.0));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn answered(&mut self, answer: &Answer<'_>) -> Looked {
        let (token, deadline) = match answer.reply {
            Reply::Granted(grant) => (grant.token, grant.deadline),
            Reply::Renewed { token, deadline, .. } => (*token, Some(*deadline)),
            _ => return Ok(false),
        };
        match deadline {
            Some(told) if !self.stored.get(&token).is_some_and(|stored| stored.contains(&told)) => {
                Err(format!("hold {} was told to end at {told:?}, which is not stored", token.0))
            }
            told => Ok(told.is_some()),
        }
    }

    fn idle(&mut self, now: Timestamp) -> Looked {
        match self.due {
            Some(due) if now.millis_since(due) > WAKE_UP_MILLIS_MAX => {
                Err(format!("the engine sleeps at {now:?}, though something was due at {due:?}"))
            }
            due => Ok(due.is_some()),
        }
    }
}

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
    /// Until when something is reserved, as it was said last.
    reserved: BTreeMap<(PoolPath, ResourceName), Option<Timestamp>>,
    /// The grace of each session, and when it is over, which a connection puts off.
    sessions: BTreeMap<SessionId, (Ttl, Option<Timestamp>)>,
    /// When the first of all that is there comes due.
    due: Option<Timestamp>,
}

impl Invariant for Deadlines {
    fn name(&self) -> &'static str {
        "deadlines neither early nor late"
    }

    fn applied(&mut self, batch: &Applied<'_>) -> Looked {
        let at = batch.at;
        if at != batch.now {
            return Err(format!("the engine's time is {at:?}, and should be {:?}", batch.now));
        }
        let first = first_due(batch.state);
        self.due = first.map(|(due, _)| due);
        match first {
            Some((due, what)) if due <= at => Err(format!("{what:?} is there after its deadline")),
            _ => Ok(true),
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
            Event::Reserved { pool, resource, until, .. } => {
                self.reserved.insert((pool.clone(), resource.clone()), *until);
                return Ok(false);
            }
            Event::ReservationEnded { pool, resource, how: ReservationEnd::Expired, .. } => {
                let until = self.reserved.get(&(pool.clone(), resource.clone())).copied().flatten();
                if until.is_none_or(|until| until > at) {
                    return Err(format!("{resource:?} of pool {pool:?} was kept until {at:?}, not until {until:?}"));
                }
            }
            Event::SessionOpened { id, grace, attached, .. } => {
                self.sessions.insert(*id, (*grace, (!attached).then(|| at + *grace)));
                return Ok(false);
            }
            Event::SessionAttached { id, .. } => {
                self.set_session(*id, None);
                return Ok(false);
            }
            Event::SessionKept { id, deadline } | Event::SessionDetached { id, deadline, .. } => {
                // One that does not end before its holds may last longer.
                if self.sessions.get(id).is_none_or(|(grace, _)| *deadline < at + *grace) {
                    return Err(format!("session {} has no grace at {at:?}: it ends at {deadline:?}", id.0));
                }
                self.set_session(*id, Some(*deadline));
            }
            // From here on it has none.
            Event::SessionClosing { id, .. } => {
                self.sessions.insert(*id, (Ttl::from_millis(0), Some(at)));
                return Ok(false);
            }
            // They have lost their connections.
            Event::Restarted => {
                self.sessions.values_mut().for_each(|(grace, until)| *until = Some(at + *grace));
                return Ok(false);
            }
            Event::SessionEnded { id, .. } => {
                let until = self.sessions.remove(id).and_then(|(_, until)| until);
                if until.is_none_or(|until| until > at) {
                    return Err(format!("session {} ended at {at:?}, before {until:?}", id.0));
                }
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

impl Deadlines {
    fn set_session(&mut self, id: SessionId, until: Option<Timestamp>) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.1 = until;
        }
    }
}

/// Something that has an end.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "it is read by whoever reads what is wrong")]
enum What<'a> {
    Hold(Token),
    Waiter(WaiterId),
    Session(SessionId),
    Idleness(&'a PoolPath),
    /// Out of service.
    Pool(&'a PoolPath),
    Resource(&'a PoolPath, &'a ResourceName),
    Reservation(&'a PoolPath, &'a ResourceName),
}

/// What comes due first. It is found by looking at everything: the state's own index of what comes due is what wakes the
/// engine up, and what it has forgotten would be missed by both.
fn first_due(state: &State) -> Option<(Timestamp, What<'_>)> {
    let pool_idle = crate::world::limits(false).pool_idle;
    let holds = state.holds().filter_map(|token| Some((state.hold(token)?.deadline?, What::Hold(token))));
    let waiters = state.waiters().filter_map(|id| Some((state.waiter(id)?.0.deadline?, What::Waiter(id))));
    let sessions = state.sessions().filter_map(|(id, session)| Some((session.deadline?, What::Session(id))));
    let pools = || state.pools().filter_map(|path| Some((path, state.pool(path)?)));
    let idle = pools().filter_map(|(path, pool)| Some((pool.idle_since()? + pool_idle, What::Idleness(path))));
    let out = pools().filter_map(|(path, pool)| Some((pool.until()?, What::Pool(path))));
    let resources = || pools().flat_map(|(path, pool)| pool.resources().map(move |(name, it)| (path, name, it)));
    let returning = resources().filter_map(|(path, name, it)| Some((it.until?, What::Resource(path, name))));
    let reserved =
        resources().filter_map(|(path, name, it)| Some((it.reserved.as_ref()?.until?, What::Reservation(path, name))));
    let all = holds.chain(waiters).chain(sessions).chain(idle).chain(out).chain(returning).chain(reserved);
    all.min_by_key(|(due, _)| *due)
}

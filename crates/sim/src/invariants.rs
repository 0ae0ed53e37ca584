//! What must be true at every step, one file each. They look at what happened (durable events), at what was said (answers)
//! and at the state; none of them knows how the rules or the reference model come to it.

mod acknowledged;
mod capacity;
mod deadlines;
mod deadlock;
mod no_idle_unit;
mod one_holder;
mod order;
mod rate;
mod replay;
mod resource_life;
mod rising_tokens;
mod scores;
mod withdrawn;

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::*;
use tenure_engine::{Entry, Ticket};

use crate::model::Heard;

/// Whether there was something to compare, or what is wrong. Only what was compared is counted as a check: an invariant that
/// is asked and finds nothing of its own proves nothing.
pub type Looked = Result<bool, String>;

/// Every method is called at its moment; an error is a violation, and says how.
pub trait Invariant {
    fn name(&self) -> &'static str;

    /// A batch was applied in memory; this is the state that the next one finds.
    fn applied(&mut self, _batch: &Applied<'_>) -> Looked {
        Ok(false)
    }

    /// An event has become durable. `before` is what all durable events before it came to.
    fn event(&mut self, _before: &Ledger, _at: Timestamp, _event: &Event) -> Looked {
        Ok(false)
    }

    /// An answer has left the engine.
    fn answered(&mut self, _answer: &Answer<'_>) -> Looked {
        Ok(false)
    }

    /// A process has read what its predecessor left. `entries` is all of the log.
    fn recovered(&mut self, _state: &State, _entries: &[Entry]) -> Looked {
        Ok(false)
    }

    /// The engine has nothing to do at this time.
    fn idle(&mut self, _now: Timestamp) -> Looked {
        Ok(false)
    }
}

#[derive(Debug)]
pub struct Applied<'a> {
    pub at: Timestamp,
    /// What time it really is, for the engine.
    pub now: Timestamp,
    pub heard: &'a [Heard],
    pub entry: Option<&'a Entry>,
    pub answers: &'a [(Ticket, &'a Reply)],
    pub state: &'a State,
}

#[derive(Debug)]
pub struct Answer<'a> {
    pub ticket: Ticket,
    pub reply: &'a Reply,
    /// The last event that the answer may tell of, and the last on the disk when it was sent.
    pub rests_on: Seq,
    pub durable: Seq,
}

pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(capacity::Capacity),
        Box::new(one_holder::OneHolder),
        Box::<rising_tokens::RisingTokens>::default(),
        Box::<order::Order>::default(),
        Box::<withdrawn::Withdrawn>::default(),
        Box::new(no_idle_unit::NoIdleUnit),
        Box::<acknowledged::Acknowledged>::default(),
        Box::<deadlines::Deadlines>::default(),
        Box::<rate::Rate>::default(),
        Box::<replay::Replay>::default(),
        Box::new(resource_life::ResourceLife),
        Box::new(scores::Scores),
        Box::<deadlock::Deadlock>::default(),
    ]
}

/// What the durable events come to, as far as the invariants need it. Not the engine's state: kept apart from it.
#[derive(Debug, Default)]
pub struct Ledger {
    pub pools: BTreeMap<PoolPath, Listed>,
    pub holds: BTreeMap<Token, Hold>,
    /// Whether they can be served.
    pub waiters: BTreeMap<WaiterId, (Waiter, bool)>,
    /// What has just been taken from its holder in order to be given to somebody else.
    pub stolen: Option<(Hold, HolderId)>,
    /// Which scripts have just failed, in the decision that comes next.
    pub failed: Vec<Which>,
}

#[derive(Debug)]
pub struct Listed {
    pub spec: PoolSpec,
    pub condition: Condition,
    pub resource_conditions: BTreeMap<ResourceName, Condition>,
    pub removing: bool,
    /// What was held and has not been cleaned since.
    pub dirty: BTreeSet<ResourceName>,
    pub reserved: BTreeMap<ResourceName, HolderId>,
    /// How often its scripts have failed since they were set.
    pub faults: u32,
}

impl Listed {
    /// Whether a resource is one that somebody who waits may have at all.
    pub fn is_for(&self, waiter: &Waiter, demand: &Demand, name: &ResourceName) -> bool {
        let dirty = self.dirty.contains(name);
        let reserved = self.reserved.get(name).is_some_and(|holder| *holder != waiter.holder.id);
        if demand.dirty { dirty } else { !dirty && !reserved }
    }

    fn names(&self) -> Vec<ResourceName> {
        match &self.spec.capacity {
            Capacity::Units(_) => Vec::new(),
            Capacity::Resources { resources, .. } => resources.iter().map(|resource| resource.name.clone()).collect(),
        }
    }
}

impl Ledger {
    pub fn note(&mut self, event: &Event) {
        self.stolen = None;
        // Whoever takes its turn at once is queued first.
        if !matches!(event, Event::PolicyFailed { .. } | Event::Queued { .. }) {
            self.failed.clear();
        }
        match event {
            Event::Queued { id, waiter } => {
                self.waiters.insert(*id, (Waiter::clone(waiter), true));
            }
            Event::Granted { token, hold, waiter } => {
                if let Some(id) = waiter {
                    self.waiters.remove(id);
                }
                self.holds.insert(*token, Hold::clone(hold));
                for (pool, taken) in hold.parts().filter(|(_, taken)| !taken.dirty) {
                    let Some(listed) = self.pools.get_mut(pool) else { continue };
                    let came = |name: &ResourceName| taken.resources.contains(name);
                    listed.reserved.retain(|name, holder| *holder != hold.holder.id || !came(name));
                }
            }
            Event::Renewed { token, deadline, .. } => {
                if let Some(hold) = self.holds.get_mut(token) {
                    hold.deadline = Some(*deadline);
                }
            }
            Event::Ended { token, how, .. } => {
                let Some(hold) = self.holds.remove(token) else { return };
                if let HoldEnd::Stolen { to, .. } = how {
                    self.stolen = Some((hold.clone(), to.clone()));
                }
                for (pool, taken) in hold.parts() {
                    let Some(listed) = self.pools.get_mut(pool) else { continue };
                    if listed.spec.cleaning && !matches!(how, HoldEnd::Unreceived | HoldEnd::Stolen { .. }) {
                        let cleaned = taken.dirty && *how == HoldEnd::Released;
                        for name in &taken.resources {
                            let _ = if cleaned { listed.dirty.remove(name) } else { listed.dirty.insert(name.clone()) };
                        }
                    }
                    // What is no longer listed leaves when it is let go.
                    let names = listed.names();
                    let leaves = |name: &ResourceName| taken.resources.contains(name) && !names.contains(name);
                    listed.resource_conditions.retain(|name, _| !leaves(name));
                    listed.dirty.retain(|name| !leaves(name));
                }
            }
            Event::WaitEnded { id, .. } => {
                self.waiters.remove(id);
            }
            Event::WaiterAway { id, .. } => self.set_present(*id, false),
            Event::WaiterBack { id, .. } => self.set_present(*id, true),
            Event::PoolSet { pool, spec, .. } => {
                let listed = self.pools.entry(pool.clone()).or_insert_with(|| Listed {
                    spec: spec.clone(),
                    condition: Condition::InService,
                    resource_conditions: BTreeMap::new(),
                    removing: false,
                    dirty: BTreeSet::new(),
                    reserved: BTreeMap::new(),
                    faults: 0,
                });
                listed.spec = spec.clone();
                listed.faults = 0;
                let names = listed.names();
                let held = |name: &ResourceName| {
                    let parts = self.holds.values().flat_map(Hold::parts);
                    parts.into_iter().any(|(path, taken)| path == pool && taken.resources.contains(name))
                };
                listed.resource_conditions.retain(|name, _| names.contains(name) || held(name));
                listed.dirty.retain(|name| spec.cleaning && (names.contains(name) || held(name)));
                listed.reserved.retain(|name, _| names.contains(name));
            }
            Event::ConditionSet { pool, resource, condition, .. } => {
                if let Some(listed) = self.pools.get_mut(pool) {
                    match resource {
                        None => listed.condition = condition.clone(),
                        Some(name) => {
                            listed.resource_conditions.insert(name.clone(), condition.clone());
                        }
                    }
                }
            }
            Event::PoolRemoving { pool } => {
                if let Some(listed) = self.pools.get_mut(pool) {
                    listed.removing = true;
                }
            }
            Event::PoolGone { pool } => {
                self.pools.remove(pool);
            }
            Event::Reserved { pool, resource, holder, .. } => {
                if let Some(listed) = self.pools.get_mut(pool) {
                    listed.reserved.insert(resource.clone(), holder.clone());
                }
            }
            Event::ReservationEnded { pool, resource, .. } => {
                if let Some(listed) = self.pools.get_mut(pool) {
                    listed.reserved.remove(resource);
                }
            }
            Event::WaiterMoved { id, priority, rank, .. } => {
                if let Some((waiter, _)) = self.waiters.get_mut(id) {
                    (waiter.priority, waiter.rank) = (*priority, Some(*rank));
                }
            }
            Event::PolicyFailed { pool, which, .. } => {
                self.failed.push(*which);
                if let Some(listed) = self.pools.get_mut(pool) {
                    listed.faults += 1;
                }
            }
            Event::RequestWithdrawn { .. }
            | Event::SessionOpened { .. }
            | Event::SessionKept { .. }
            | Event::SessionAttached { .. }
            | Event::SessionDetached { .. }
            | Event::SessionClosing { .. }
            | Event::SessionEnded { .. }
            | Event::Restarted => {}
        }
    }

    fn set_present(&mut self, id: WaiterId, present: bool) {
        if let Some((_, is_present)) = self.waiters.get_mut(&id) {
            *is_present = present;
        }
    }

    /// What holds have of a pool.
    pub fn holds_of<'a>(&'a self, pool: &'a PoolPath) -> impl Iterator<Item = &'a Taken> {
        self.holds.values().flat_map(Hold::parts).filter(move |(path, _)| *path == pool).map(|(_, taken)| taken)
    }

    /// Units that nobody has.
    pub fn free_units(&self, pool: &PoolPath, size: u32) -> u32 {
        let used: u64 = self.holds_of(pool).map(|taken| u64::from(taken.units)).sum();
        let all_taken = self.holds_of(pool).any(|taken| taken.all);
        if all_taken { 0 } else { u32::try_from(u64::from(size).saturating_sub(used)).expect("at most the size") }
    }
}

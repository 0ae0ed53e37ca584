//! Pools as operators change them. A change never drops a hold: what is too much drains.

use alloc::vec::Vec;

use super::acquire::limit;
use super::{Step, never_fits};
use crate::command::*;
use crate::event::{Event, WaitEnd};
use crate::mutation::Mistake;
use crate::names::*;
use crate::pool::{Kind, Pool};
use crate::refusal::Refusal;
use crate::reply::Reply;

impl Step<'_> {
    pub(super) fn set_pool(&mut self, set: SetPool) -> Result<Reply, Refusal> {
        let SetPool { pool: path, spec } = set;
        let known = self.state().pools.get(&path);
        match known {
            Some(pool) => self.check_change(&path, pool, &spec)?,
            None if self.state().pools.len() >= self.machine.limits.pools_max => {
                return Err(limit("pools_max", self.machine.limits.pools_max));
            }
            None => {}
        }
        let created = known.is_none();
        let compiled = self.check_scripts(&path, &spec)?;
        self.machine.compiler.remember(&path, compiled);
        self.emit(Event::PoolSet { pool: path.clone(), spec, created });
        self.end_waits_that_cannot_end(&path);
        self.serve(&path);
        Ok(Reply::PoolSet { created })
    }

    fn check_change(&self, path: &PoolPath, pool: &Pool, spec: &PoolSpec) -> Result<(), Refusal> {
        let same_kind = matches!(pool.kind, Kind::Units(_)) == matches!(spec.capacity, Capacity::Units(_));
        if !same_kind && !pool.holds.is_empty() {
            let why = "cannot change between units and resources while somebody holds it".into();
            return Err(Refusal::WrongKind { pool: path.clone(), why });
        }
        // One whose caller is away is no part of what is served, and comes back.
        let mut waiters = pool.queue.after(None).map(|place| &self.state().waiters[&place.arrival()]);
        if (spec.fair.is_some() || !spec.scripts.is_empty()) && waiters.any(|waiter| waiter.is_set()) {
            let why = match spec.fair {
                Some(_) => "cannot serve its waiters in turn while a set waits for it, which has no turn",
                None => "cannot have scripts while a set waits for it, which has no score by them",
            };
            return Err(Refusal::WrongKind { pool: path.clone(), why: why.into() });
        }
        // The holds there are were not granted for this window.
        if spec.window != pool.window && !pool.holds.is_empty() {
            return Err(Refusal::WindowMismatch { pool: path.clone(), window: pool.window });
        }
        if pool.removing {
            return Err(Refusal::PoolRemoving { pool: path.clone() });
        }
        Ok(())
    }

    /// A changed pool may never have what somebody waits for.
    fn end_waits_that_cannot_end(&mut self, path: &PoolPath) {
        let pool = &self.state().pools[path];
        let waiters: Vec<_> = pool.queue.after(None).map(|place| place.arrival()).collect();
        // Judged by what each wants; many want the same, so the answer is kept.
        let mut judged = alloc::collections::BTreeMap::new();
        let doomed: Vec<_> = waiters
            .into_iter()
            .filter(|id| {
                let (demand, window) = self.state().waiters[id].part(path);
                window != pool.window
                    || *judged.entry(demand).or_insert_with(|| never_fits(path, pool, demand).is_some())
            })
            .collect();
        for id in doomed {
            self.end_wait_only(id, WaitEnd::NeverFits);
        }
    }

    pub(super) fn set_condition(&mut self, set: SetCondition) -> Result<Reply, Refusal> {
        let SetCondition { pool: path, resource, condition, lasts } = set;
        let Some(pool) = self.state().pools.get(&path) else {
            return Err(Refusal::UnknownPool { pool: path });
        };
        if let Some(name) = &resource
            && pool.resource(name).is_none_or(|(_, it)| it.leaving)
        {
            return Err(Refusal::UnknownResource { pool: path, resource: name.clone() });
        }
        if pool.removing {
            return Err(Refusal::PoolRemoving { pool: path });
        }
        // What is in service has nothing to return from.
        let lasts = lasts.filter(|_| condition != Condition::InService && !Mistake::NeverReturns.is_made());
        let until = lasts.map(|lasts| self.at() + lasts);
        self.emit(Event::ConditionSet { pool: path.clone(), resource, condition, until, automatic: false });
        self.neighbours_unserved(&path);
        self.serve(&path);
        Ok(Reply::Done)
    }

    /// Whether the pool is still what the operator decided upon.
    pub(super) fn check_seen(&self, seen: Seen) -> Result<(), Refusal> {
        let Seen { pool: path, resource, size, state } = seen;
        let Some(pool) = self.state().pools.get(&path) else {
            return Err(Refusal::UnknownPool { pool: path });
        };
        let condition = match &resource {
            None => &pool.condition,
            Some(name) => match pool.resource(name).filter(|(_, it)| !it.leaving) {
                Some((_, resource)) => &resource.condition,
                None => return Err(Refusal::UnknownResource { pool: path, resource: name.clone() }),
            },
        };
        let same = size.is_none_or(|size| size == pool.size()) && state.is_none_or(|state| state == condition.state());
        if same {
            return Ok(());
        }
        let (size, condition) = (pool.size(), condition.clone());
        Err(Refusal::PoolChanged { pool: path, resource, size, condition })
    }

    pub(super) fn remove_pool(&mut self, path: PoolPath) -> Result<Reply, Refusal> {
        let Some(pool) = self.state().pools.get(&path) else {
            return Err(Refusal::UnknownPool { pool: path });
        };
        let holds_left = pool.holds.len();
        if !pool.removing {
            self.emit(Event::PoolRemoving { pool: path.clone() });
            self.serve(&path);
        }
        Ok(Reply::PoolRemoved { holds_left })
    }
}

//! Pools: made, changed, drained, removed, and gone when idle.

use tenure_core::*;

use super::requests::limit;
use super::{Model, Pool, Resource};
use crate::selectors::chosen;

impl Pool {
    pub(super) fn new(path: PoolPath, spec: &PoolSpec) -> Self {
        let mut pool = Self {
            path,
            units: None,
            placement: Placement::First,
            resources: Vec::new(),
            order: spec.order,
            window: None,
            declared: false,
            condition: Condition::InService,
            removing: false,
            idle_since: None,
            until: None,
            cleaning: false,
            fair: None,
            served: Vec::new(),
            scripts: Scripts::default(),
            faults: 0,
        };
        pool.set(spec, |_| false);
        pool
    }

    fn set(&mut self, spec: &PoolSpec, is_held: impl Fn(&ResourceName) -> bool) {
        self.order = spec.order;
        self.window = spec.window;
        self.declared = spec.declared;
        self.cleaning = spec.cleaning;
        self.fair = spec.fair.clone();
        self.scripts = spec.scripts.clone();
        self.faults = 0;
        let before = std::mem::take(&mut self.resources);
        match &spec.capacity {
            Capacity::Units(units) => {
                self.units = Some(*units);
            }
            Capacity::Resources { placement, resources } => {
                self.units = None;
                let spec_cleans = spec.cleaning;
                self.placement = placement.clone();
                for spec in resources {
                    let kept = before.iter().find(|resource| resource.spec.name == spec.name);
                    self.resources.push(Resource {
                        spec: spec.clone(),
                        condition: kept.map_or(Condition::InService, |kept| kept.condition.clone()),
                        leaving: false,
                        used: kept.map_or(0, |kept| kept.used),
                        until: kept.and_then(|kept| kept.until),
                        dirty: kept.is_some_and(|kept| kept.dirty && spec_cleans),
                        reserved: kept.and_then(|kept| kept.reserved.clone()),
                    });
                }
                for resource in before {
                    let listed = resources.iter().any(|spec| spec.name == resource.spec.name);
                    if !listed && is_held(&resource.spec.name) {
                        let dirty = resource.dirty && spec_cleans;
                        self.resources.push(Resource { leaving: true, dirty, reserved: None, ..resource });
                    }
                }
            }
        }
    }

    pub(super) fn size(&self) -> u32 {
        let staying = self.resources.iter().filter(|resource| !resource.leaving).count();
        self.units.unwrap_or_else(|| u32::try_from(staying).expect("a few"))
    }

    /// Those that belong to the pool and that the demand could use.
    pub(super) fn matching(&self, demand: &Demand) -> Vec<&Resource> {
        let fits = |resource: &&Resource| {
            !resource.leaving && chosen(demand.selector.as_ref(), &resource.spec.name, &resource.spec.labels)
        };
        self.resources.iter().filter(fits).collect()
    }

    pub(super) fn never_fits(&self, demand: &Demand) -> Option<Refusal> {
        if demand.selector.is_some() && self.units.is_some() {
            return Some(Refusal::WrongKind { pool: self.path.clone(), why: "".into() });
        }
        if demand.dirty && !self.cleaning {
            return Some(Refusal::WrongKind { pool: self.path.clone(), why: "".into() });
        }
        let matching = u32::try_from(self.matching(demand).len()).expect("a few");
        let most = self.units.unwrap_or(matching);
        let asked = match demand.amount {
            Amount::Count(count) => count,
            Amount::All => most.max(1),
        };
        (asked > most).then(|| Refusal::NeverFits { pool: self.path.clone(), asked, most })
    }
}

impl Model {
    pub(super) fn set_pool(&mut self, set: SetPool) -> Result<Reply, Refusal> {
        let SetPool { pool: path, spec } = set;
        let held = self.holds_of(&path).count() > 0;
        let created = match self.pool(&path) {
            Some(pool) => {
                if pool.units.is_some() != matches!(spec.capacity, Capacity::Units(_)) && held {
                    return Err(Refusal::WrongKind { pool: path, why: "".into() });
                }
                // A set has no turn, and no score.
                if (spec.fair.is_some() || !spec.scripts.is_empty())
                    && self.queue(&path).iter().any(|waiter| !waiter.also.is_empty())
                {
                    return Err(Refusal::WrongKind { pool: path, why: "".into() });
                }
                if pool.window != spec.window && held {
                    return Err(Refusal::WindowMismatch { pool: path, window: pool.window });
                }
                if pool.removing {
                    return Err(Refusal::PoolRemoving { pool: path });
                }
                false
            }
            None if self.pools.len() >= self.limits.pools_max => return Err(limit("pools_max", self.limits.pools_max)),
            None => true,
        };
        Self::check_scripts(&path, &spec)?;
        if created {
            self.pools.push(Pool::new(path.clone(), &spec));
        } else {
            let names: Vec<_> = self.holds_of(&path).flat_map(|has| has.resources.to_vec()).collect();
            let took_turns = self.known(&path).fair.is_some();
            self.pool_mut(&path).set(&spec, |name| names.contains(name));
            match spec.fair {
                Some(_) if !took_turns => self.begin_turns(&path),
                Some(_) => {}
                None => self.pool_mut(&path).served.clear(),
            }
        }
        self.note_busy(&path);
        self.note_idle(&path);
        for id in self.queue(&path).iter().map(|waiter| waiter.id).collect::<Vec<_>>() {
            let waiter = self.waiters.iter().find(|waiter| waiter.id == id).expect("it waits");
            let pool = self.known(&path);
            let demand = waiter.wants(&path).expect("it waits for it");
            if waiter.window(&path) != pool.window || pool.never_fits(demand).is_some() {
                self.end_wait(id, WaitEnd::NeverFits);
            }
        }
        self.serve(&path);
        Ok(Reply::PoolSet { created })
    }

    pub(super) fn check_seen(&self, seen: Seen) -> Result<(), Refusal> {
        let Some(pool) = self.pool(&seen.pool) else { return Err(Refusal::UnknownPool { pool: seen.pool }) };
        let size = pool.size();
        let condition = match &seen.resource {
            None => pool.condition.clone(),
            Some(name) => match pool.resources.iter().find(|it| it.spec.name == *name && !it.leaving) {
                Some(resource) => resource.condition.clone(),
                None => return Err(Refusal::UnknownResource { pool: seen.pool, resource: name.clone() }),
            },
        };
        match (seen.size, seen.state) {
            (Some(other), _) if other != size => {}
            (_, Some(other)) if other != condition.state() => {}
            _ => return Ok(()),
        }
        Err(Refusal::PoolChanged { pool: seen.pool, resource: seen.resource, size, condition })
    }

    pub(super) fn set_condition(&mut self, set: SetCondition) -> Result<Reply, Refusal> {
        let SetCondition { pool: path, resource, condition, lasts } = set;
        let Some(pool) = self.pool(&path) else { return Err(Refusal::UnknownPool { pool: path }) };
        if let Some(name) = &resource
            && !pool.resources.iter().any(|it| it.spec.name == *name && !it.leaving)
        {
            return Err(Refusal::UnknownResource { pool: path, resource: name.clone() });
        }
        if pool.removing {
            return Err(Refusal::PoolRemoving { pool: path });
        }
        let until = lasts.filter(|_| condition != Condition::InService).map(|lasts| self.now + lasts);
        self.change_condition(&path, resource.as_ref(), condition, until);
        // What is kept aside elsewhere for those who want something of this pool too is, or is not any more.
        let others = self.queue(&path).into_iter().filter(|waiter| !waiter.away).flat_map(|waiter| waiter.parts());
        let others: Vec<_> = others.map(|(other, _)| other).filter(|other| *other != path).collect();
        self.to_serve.extend(others);
        self.serve(&path);
        Ok(Reply::Done)
    }

    pub(super) fn change_condition(
        &mut self,
        path: &PoolPath,
        resource: Option<&ResourceName>,
        condition: Condition,
        until: Option<Timestamp>,
    ) {
        let pool = self.pool_mut(path);
        match resource {
            None => (pool.condition, pool.until) = (condition, until),
            Some(name) => {
                let found = pool.resources.iter_mut().find(|it| it.spec.name == *name);
                let found = found.expect("what changes is there");
                (found.condition, found.until) = (condition, until);
            }
        }
        self.note_busy(path);
        self.note_idle(path);
    }

    pub(super) fn remove_pool(&mut self, path: PoolPath) -> Result<Reply, Refusal> {
        if self.pool(&path).is_none() {
            return Err(Refusal::UnknownPool { pool: path });
        }
        let holds_left = self.holds_of(&path).count();
        self.pool_mut(&path).removing = true;
        self.serve(&path);
        Ok(Reply::PoolRemoved { holds_left })
    }

    pub(super) fn pool_mut(&mut self, path: &PoolPath) -> &mut Pool {
        self.pools.iter_mut().find(|pool| pool.path == *path).expect("the pool is there")
    }

    pub(super) fn note_busy(&mut self, path: &PoolPath) {
        self.pool_mut(path).idle_since = None;
    }

    pub(super) fn note_idle(&mut self, path: &PoolPath) {
        let in_use = self.holds_of(path).count() + self.queue(path).len() > 0;
        let now = self.now;
        let pool = self.pool_mut(path);
        if !pool.declared && pool.condition == Condition::InService && !in_use && pool.idle_since.is_none() {
            pool.idle_since = Some(now);
        }
    }
}

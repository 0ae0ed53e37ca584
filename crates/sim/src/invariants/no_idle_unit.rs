//! No free unit beside a waiter that it would serve: whoever can be served has been.

use tenure_core::*;

use super::{Applied, Invariant, Looked};
use crate::selectors::chosen;

#[derive(Debug)]
pub(super) struct NoIdleUnit;

impl Invariant for NoIdleUnit {
    fn name(&self) -> &'static str {
        "no free unit beside a fitting waiter"
    }

    fn applied(&mut self, batch: &Applied<'_>) -> Looked {
        let mut looked = false;
        for path in batch.state.pools() {
            looked |= check(batch.state, path)?;
        }
        Ok(looked)
    }
}

fn check(state: &State, path: &PoolPath) -> Looked {
    let Some(pool) = state.pool(path) else { return Ok(false) };
    if !pool.has_waiters() || *pool.condition() != Condition::InService {
        return Ok(false);
    }
    if pool.is_removing() {
        return Err(format!("pool {path:?} is being removed, and somebody waits for it"));
    }
    let mut left = Left::of(state, path, pool);
    let queue = queue(state, path);
    let looked = !queue.is_empty();
    for (place, waiter) in queue {
        let demand = wanted(waiter, path);
        let others = || waiter.parts().filter(|(other, _)| *other != path);
        let room = |(other, demand)| has_room(state, other, (place, waiter), demand);
        if left.fits(waiter, demand) && others().all(room) {
            return Err(format!("waiter {} of pool {path:?} could be served", place.arrival().0));
        }
        left.keep_aside(state, waiter, demand);
        if left.nothing() {
            break;
        }
    }
    Ok(looked)
}

/// Whether a pool has room for somebody by its own order.
fn has_room(state: &State, path: &PoolPath, (place, waiter): (Place, &Waiter), demand: &Demand) -> bool {
    let Some(pool) = state.pool(path).filter(|pool| hands_out(pool)) else { return false };
    let mut left = Left::of(state, path, pool);
    for (_, ahead) in queue(state, path).into_iter().take_while(|(ahead, _)| *ahead < place) {
        left.keep_aside(state, ahead, wanted(ahead, path));
    }
    left.fits(waiter, demand)
}

fn queue<'a>(state: &'a State, path: &PoolPath) -> Vec<(Place, &'a Waiter)> {
    let waiters = state.waiters().filter_map(|id| state.waiter(id).map(|(waiter, present)| (id, waiter, present)));
    let mut queue: Vec<_> = waiters
        .filter(|(_, waiter, present)| *present && waiter.parts().any(|(part, _)| part == path))
        .map(|(id, waiter, _)| (waiter.place(id), waiter))
        .collect();
    queue.sort_by_key(|(place, _)| *place);
    queue
}

fn wanted<'a>(waiter: &'a Waiter, path: &PoolPath) -> &'a Demand {
    waiter.parts().find(|(part, _)| *part == path).map_or(&waiter.demand, |(_, demand)| demand)
}

fn hands_out(pool: &Pool) -> bool {
    *pool.condition() == Condition::InService && !pool.is_removing()
}

/// What is free, and not kept aside for those ahead.
struct Left<'a> {
    spec: PoolSpec,
    /// Nobody has or keeps any of it.
    untouched: bool,
    units: u64,
    resources: Vec<(&'a ResourceName, &'a Resource)>,
}

impl<'a> Left<'a> {
    fn of(state: &'a State, path: &PoolPath, pool: &'a Pool) -> Self {
        let holds = state.holds().filter_map(|token| state.hold(token)).flat_map(Hold::parts);
        let taken: Vec<_> = holds.filter(|(part, _)| *part == path).map(|(_, taken)| taken).collect();
        let spec = pool.spec();
        let used: u64 = taken.iter().map(|taken| u64::from(taken.units)).sum();
        let all_taken = taken.iter().any(|taken| taken.all);
        let units = match spec.capacity {
            Capacity::Units(size) if !all_taken => u64::from(size).saturating_sub(used),
            _ => 0,
        };
        let held = |name: &ResourceName| taken.iter().any(|taken| taken.resources.contains(name));
        let free = |(name, it): &(&ResourceName, &Resource)| {
            !it.leaving && it.condition == Condition::InService && !held(name)
        };
        // In the order in which they are preferred, as far as it matters for what is kept aside.
        let mut resources: Vec<_> = pool.resources().filter(free).collect();
        resources.sort_by_key(|(_, it)| match &spec.capacity {
            Capacity::Resources { placement: Placement::LeastRecentlyUsed, .. } => (it.used, it.ordinal),
            Capacity::Resources { placement: Placement::MostRecentlyUsed, .. } => (u64::MAX - it.used, it.ordinal),
            _ => (0, it.ordinal),
        });
        Self { spec, untouched: taken.is_empty(), units, resources }
    }

    fn nothing(&self) -> bool {
        self.units == 0 && self.resources.is_empty()
    }

    /// How many are wanted, and how many there are for it.
    fn wanted(&self, waiter: &Waiter, demand: &Demand) -> (usize, usize) {
        let matches = |name: &ResourceName, labels: &Labels| chosen(demand.selector.as_ref(), name, labels);
        let (open, all) = match &self.spec.capacity {
            Capacity::Units(size) => (usize::try_from(self.units).unwrap_or(usize::MAX), *size as usize),
            Capacity::Resources { resources, .. } => (
                self.resources.iter().filter(|(name, it)| could_use(waiter, demand, name, it)).count(),
                resources.iter().filter(|it| matches(&it.name, &it.labels)).count(),
            ),
        };
        match demand.amount {
            Amount::Count(count) => (count as usize, open),
            Amount::All => (all, open),
        }
    }

    fn fits(&self, waiter: &Waiter, demand: &Demand) -> bool {
        let (wanted, open) = self.wanted(waiter, demand);
        let units = matches!(self.spec.capacity, Capacity::Units(_));
        let alone = demand.amount != Amount::All || !units || self.untouched;
        wanted > 0 && wanted <= open && alone
    }

    /// In strict order a waiter has a claim on all it could use. A set keeps what it needs in any order, unless one of its
    /// pools is out of service.
    fn keep_aside(&mut self, state: &State, waiter: &Waiter, demand: &Demand) {
        let keeps = match waiter.also.is_empty() {
            true => self.spec.order == Order::Strict,
            false => waiter.parts().all(|(path, _)| state.pool(path).is_some_and(hands_out)),
        };
        if !keeps {
            return;
        }
        let kept = if self.fits(waiter, demand) { self.wanted(waiter, demand).0 } else { usize::MAX };
        self.units = self.units.saturating_sub(kept as u64);
        // What is reserved for it is what it gets first.
        let mut usable = self.resources.clone();
        usable.retain(|(name, it)| could_use(waiter, demand, name, it));
        usable.sort_by_key(|(_, it)| it.reserved.is_none());
        usable.truncate(kept);
        self.resources.retain(|(name, _)| !usable.iter().any(|(other, _)| other == name));
    }
}

fn could_use(waiter: &Waiter, demand: &Demand, name: &ResourceName, resource: &Resource) -> bool {
    let others = resource.reserved.as_ref().is_some_and(|reserved| reserved.holder != waiter.holder.id);
    let is_for = if demand.dirty { resource.dirty } else { !resource.dirty && !others };
    is_for && chosen(demand.selector.as_ref(), name, &resource.labels)
}

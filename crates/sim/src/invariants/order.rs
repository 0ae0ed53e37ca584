//! Higher priority first, then arrival: nobody overtakes a waiter for something both could use. In a backfill pool nobody
//! overtakes a waiter that could have been served. A set is left what it needs in either.

use tenure_core::{
    Amount, Capacity, Condition, Demand, Event, Place, PoolPath, Priority, ResourceName, Taken, Timestamp, Waiter,
    WaiterId,
};

use super::{Invariant, Ledger, Listed, Looked};
use crate::selectors::chosen;

#[derive(Debug, Default)]
pub(super) struct Order {
    /// The place of the set that was granted last, and the rate windows in which it has places: each is a hold of its own,
    /// which is told of next and does not say whose turn it was.
    windows: Option<(Place, Vec<PoolPath>)>,
}

impl Invariant for Order {
    fn name(&self) -> &'static str {
        "order"
    }

    fn event(&mut self, before: &Ledger, _at: Timestamp, event: &Event) -> Looked {
        let Event::Granted { token, hold, waiter } = event else { return Ok(false) };
        let mut looked = false;
        // An operator's doing is not a matter of turns.
        if before.stolen.is_some() {
            return Ok(false);
        }
        let place = match waiter.and_then(|id| Some((id, before.waiters.get(&id)?))) {
            Some((id, (waiter, _))) => waiter.place(id),
            None => match self.windows.take().filter(|(_, windows)| windows.contains(&hold.pool)) {
                Some((place, windows)) => {
                    self.windows = Some((place, windows.into_iter().filter(|path| *path != hold.pool).collect()));
                    place
                }
                // An event does not tell the priority of somebody who never waited: the highest there is in a plan.
                None => Place::new(Priority::parse(1).map_err(|error| error.to_string())?, WaiterId(u64::MAX)),
            },
        };
        let windows: Vec<_> =
            hold.also.iter().filter(|part| part.until.is_some()).map(|part| part.pool.clone()).collect();
        if !windows.is_empty() {
            self.windows = Some((place, windows));
        }
        for (path, taken) in hold.parts() {
            let Some(pool) = before.pools.get(path) else { continue };
            for (id, (ahead, present)) in &before.waiters {
                let Some((_, demand)) = ahead.parts().find(|(part, _)| *part == path) else { continue };
                if !present || Some(*id) == *waiter {
                    continue;
                }
                looked = true;
                if ahead.place(*id) >= place {
                    continue;
                }
                let overtaken = match pool.spec.order {
                    // Another invariant's.
                    _ if pool.spec.scripts.order.is_some() => false,
                    _ if !ahead.also.is_empty() => lacks_then(before, path, pool, ahead, demand, taken),
                    tenure_core::Order::Strict => wants_the_same(pool, ahead, demand, taken),
                    // What a set further ahead needs is not there for it.
                    tenure_core::Order::Backfill if behind_a_set(before, path, ahead.place(*id)) => false,
                    tenure_core::Order::Backfill => could_be_served(before, path, pool, ahead, demand),
                };
                if overtaken {
                    return Err(format!("hold {} was granted though waiter {} was ahead", token.0, id.0));
                }
            }
        }
        Ok(looked)
    }
}

fn wants_the_same(pool: &Listed, waiter: &Waiter, demand: &Demand, taken: &Taken) -> bool {
    match &pool.spec.capacity {
        Capacity::Units(_) => true,
        Capacity::Resources { .. } => taken.resources.iter().any(|name| could_use(pool, waiter, demand, name)),
    }
}

/// Whether what is taken leaves less than a waiting set needs. For one that waits for a pool out of service nothing is kept.
fn lacks_then(before: &Ledger, path: &PoolPath, pool: &Listed, set: &Waiter, demand: &Demand, taken: &Taken) -> bool {
    let out = |path| before.pools.get(path).is_none_or(|it| it.removing || it.condition != Condition::InService);
    if set.parts().any(|(path, _)| out(path)) {
        return false;
    }
    let (free, takes, all) = match &pool.spec.capacity {
        Capacity::Units(size) => (before.free_units(path, *size) as usize, taken.units as usize, *size as usize),
        Capacity::Resources { resources, .. } => {
            let takes = taken.resources.iter().filter(|name| could_use(pool, set, demand, name)).count();
            let all = resources.iter().filter(|listed| matches(pool, demand, &listed.name)).count();
            (free_for(before, path, pool, set, demand), takes, all)
        }
    };
    let needs = match demand.amount {
        Amount::Count(count) => count as usize,
        Amount::All => all,
    };
    takes > 0 && free - takes < needs
}

fn behind_a_set(before: &Ledger, path: &PoolPath, place: Place) -> bool {
    let mut sets = before.waiters.iter().filter(|(_, (waiter, present))| *present && !waiter.also.is_empty());
    sets.any(|(id, (set, _))| set.place(*id) < place && set.parts().any(|(part, _)| part == path))
}

pub(super) fn could_be_served(
    before: &Ledger,
    path: &PoolPath,
    pool: &Listed,
    waiter: &Waiter,
    demand: &Demand,
) -> bool {
    match &pool.spec.capacity {
        Capacity::Units(size) => {
            let free = before.free_units(path, *size);
            match demand.amount {
                Amount::Count(count) => count <= free,
                Amount::All => *size > 0 && before.holds_of(path).next().is_none(),
            }
        }
        Capacity::Resources { resources, .. } => {
            let free = free_for(before, path, pool, waiter, demand);
            match demand.amount {
                Amount::Count(count) => count as usize <= free,
                Amount::All => {
                    free > 0 && free == resources.iter().filter(|listed| matches(pool, demand, &listed.name)).count()
                }
            }
        }
    }
}

/// How many resources are free that a waiter could use.
fn free_for(before: &Ledger, path: &PoolPath, pool: &Listed, waiter: &Waiter, demand: &Demand) -> usize {
    let Capacity::Resources { resources, .. } = &pool.spec.capacity else { return 0 };
    let usable = resources.iter().map(|listed| &listed.name).filter(|name| could_use(pool, waiter, demand, name));
    usable.filter(|name| is_free(before, path, pool, name)).count()
}

pub(super) fn is_free(before: &Ledger, path: &PoolPath, pool: &Listed, name: &ResourceName) -> bool {
    let condition = pool.resource_conditions.get(name);
    let taken = before.holds_of(path).any(|taken| taken.resources.contains(name));
    condition.is_none_or(|condition| *condition == Condition::InService) && !taken
}

pub(super) fn could_use(pool: &Listed, waiter: &Waiter, demand: &Demand, name: &ResourceName) -> bool {
    matches(pool, demand, name) && pool.is_for(waiter, demand, name)
}

pub(super) fn matches(pool: &Listed, demand: &Demand, name: &ResourceName) -> bool {
    let Capacity::Resources { resources, .. } = &pool.spec.capacity else { return false };
    let Some(listed) = resources.iter().find(|listed| listed.name == *name) else { return false };
    chosen(demand.selector.as_ref(), name, &listed.labels)
}

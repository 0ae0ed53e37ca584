//! No free unit beside a waiter that it would serve: whoever can be served has been.

use tenure_core::*;

use super::{Applied, Invariant};
use crate::selectors::chosen;

#[derive(Debug)]
pub(super) struct NoIdleUnit;

impl Invariant for NoIdleUnit {
    fn name(&self) -> &'static str {
        "no free unit beside a fitting waiter"
    }

    fn applied(&mut self, batch: &Applied<'_>) -> Result<(), String> {
        for path in batch.state.pools() {
            check(batch.state, path)?;
        }
        Ok(())
    }
}

fn check(state: &State, path: &PoolPath) -> Result<(), String> {
    let Some(pool) = state.pool(path) else { return Ok(()) };
    if !pool.has_waiters() || *pool.condition() != Condition::InService {
        return Ok(());
    }
    if pool.is_removing() {
        return Err(format!("pool {path:?} is being removed, and somebody waits for it"));
    }
    let mut queue: Vec<_> = state
        .waiters()
        .filter_map(|id| state.waiter(id).map(|(waiter, present)| (id, waiter, present)))
        .filter(|(_, waiter, present)| waiter.pool == *path && *present)
        .map(|(id, waiter, _)| (waiter.place(id), waiter))
        .collect();
    queue.sort_by_key(|(place, _)| *place);
    let holds: Vec<_> = state.holds().filter_map(|token| state.hold(token)).filter(|hold| hold.pool == *path).collect();
    let spec = pool.spec();
    let free: Vec<_> = pool
        .resources()
        .filter(|(name, it)| {
            let held = holds.iter().any(|hold| hold.taken.resources.contains(*name));
            !it.leaving && it.condition == Condition::InService && !held
        })
        .collect();
    let mut claimed: Vec<&ResourceName> = Vec::new();
    for (place, waiter) in queue {
        let demand = &waiter.demand;
        let is_for = |it: &Resource| {
            let others = it.reserved.as_ref().is_some_and(|reserved| reserved.holder != waiter.holder.id);
            if demand.dirty { it.dirty } else { !it.dirty && !others }
        };
        let fits = match &spec.capacity {
            Capacity::Units(size) => {
                let used: u64 = holds.iter().map(|hold| u64::from(hold.taken.units)).sum();
                let all_taken = holds.iter().any(|hold| hold.taken.all);
                match demand.amount {
                    Amount::Count(count) => !all_taken && u64::from(count) + used <= u64::from(*size),
                    Amount::All => holds.is_empty() && *size > 0,
                }
            }
            Capacity::Resources { resources, .. } => {
                let wanted = |name: &ResourceName, labels: &Labels| chosen(demand.selector.as_ref(), name, labels);
                let matching: Vec<_> = free
                    .iter()
                    .filter(|(name, it)| wanted(name, &it.labels) && is_for(it))
                    .map(|(name, _)| *name)
                    .collect();
                let open = matching.iter().filter(|name| !claimed.contains(name)).count();
                claimed.extend(matching.iter().filter(|_| spec.order == Order::Strict));
                match demand.amount {
                    Amount::Count(count) => count as usize <= open,
                    Amount::All => {
                        open > 0 && open == resources.iter().filter(|it| wanted(&it.name, &it.labels)).count()
                    }
                }
            }
        };
        if fits {
            return Err(format!("waiter {} of pool {path:?} could be served", place.arrival().0));
        }
        if spec.order == Order::Strict && matches!(spec.capacity, Capacity::Units(_)) {
            break;
        }
    }
    Ok(())
}

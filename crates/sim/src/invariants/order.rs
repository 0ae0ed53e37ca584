//! Higher priority first, then arrival: nobody overtakes a waiter for something both could use. In a backfill pool nobody
//! overtakes a waiter that could have been served.

use tenure_core::{
    Amount, Capacity, Condition, Demand, Event, Hold, Place, Priority, ResourceName, Timestamp, Waiter, WaiterId,
};

use super::{Invariant, Ledger, Listed};
use crate::selectors::chosen;

#[derive(Debug)]
pub(super) struct Order;

impl Invariant for Order {
    fn name(&self) -> &'static str {
        "order"
    }

    fn event(&mut self, before: &Ledger, _at: Timestamp, event: &Event) -> Result<(), String> {
        let Event::Granted { token, hold, waiter } = event else { return Ok(()) };
        let Some(pool) = before.pools.get(&hold.pool) else { return Ok(()) };
        // An operator's doing is not a matter of turns.
        if before.stolen.is_some() {
            return Ok(());
        }
        let place = match waiter.and_then(|id| Some((id, before.waiters.get(&id)?))) {
            Some((id, (waiter, _))) => waiter.place(id),
            // An event does not tell the priority of somebody who never waited: the highest there is in a plan.
            None => Place::new(Priority::parse(1).map_err(|error| error.to_string())?, WaiterId(u64::MAX)),
        };
        for (id, (ahead, present)) in &before.waiters {
            if !present || ahead.pool != hold.pool || ahead.place(*id) >= place {
                continue;
            }
            let overtaken = match pool.spec.order {
                tenure_core::Order::Strict => wants_the_same(pool, ahead, hold),
                tenure_core::Order::Backfill => could_be_served(before, pool, ahead, hold),
            };
            if overtaken {
                return Err(format!("hold {} was granted though waiter {} was ahead", token.0, id.0));
            }
        }
        Ok(())
    }
}

fn wants_the_same(pool: &Listed, waiter: &Waiter, hold: &Hold) -> bool {
    match &pool.spec.capacity {
        Capacity::Units(_) => true,
        Capacity::Resources { .. } => {
            hold.taken.resources.iter().any(|name| pool.is_for(waiter, name) && matches(pool, &waiter.demand, name))
        }
    }
}

fn could_be_served(before: &Ledger, pool: &Listed, waiter: &Waiter, hold: &Hold) -> bool {
    let demand = &waiter.demand;
    match &pool.spec.capacity {
        Capacity::Units(size) => {
            let free = before.free_units(&hold.pool, *size);
            match demand.amount {
                Amount::Count(count) => count <= free,
                Amount::All => *size > 0 && before.holds_of(&hold.pool).next().is_none(),
            }
        }
        Capacity::Resources { resources, .. } => {
            let in_service = |name: &ResourceName| {
                pool.resource_conditions.get(name).is_none_or(|condition| *condition == Condition::InService)
            };
            let taken = |name: &ResourceName| before.holds_of(&hold.pool).any(|it| it.taken.resources.contains(name));
            let matching = || resources.iter().map(|listed| &listed.name).filter(|name| matches(pool, demand, name));
            let free = matching().filter(|name| in_service(name) && !taken(name) && pool.is_for(waiter, name)).count();
            match demand.amount {
                Amount::Count(count) => count as usize <= free,
                Amount::All => free > 0 && free == matching().count(),
            }
        }
    }
}

fn matches(pool: &Listed, demand: &Demand, name: &ResourceName) -> bool {
    let Capacity::Resources { resources, .. } = &pool.spec.capacity else { return false };
    let Some(listed) = resources.iter().find(|listed| listed.name == *name) else { return false };
    chosen(demand.selector.as_ref(), name, &listed.labels)
}

//! Higher priority first, then arrival: nobody overtakes a waiter for something both could use. In a backfill pool nobody
//! overtakes a waiter that could have been served. A set is left what it needs in either.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::{
    Amount, Capacity, Command, Condition, Demand, Event, Hold, Place, PoolPath, Priority, Reply, ResourceName, Taken,
    Timestamp, Token, Waiter, WaiterId,
};

use super::{Applied, Invariant, Ledger, Listed, Looked};
use crate::model::Heard;
use crate::selectors::chosen;

#[derive(Debug, Default)]
pub(super) struct Order {
    /// The place of the set that was granted last, and the rate windows in which it has places: each is a hold of its own,
    /// which is told of next and does not say whose turn it was.
    windows: Option<(Place, Vec<PoolPath>)>,
    /// With which priority was asked for what was granted at once: the event does not tell it.
    asked: BTreeMap<Token, Priority>,
}

impl Invariant for Order {
    fn name(&self) -> &'static str {
        "order"
    }

    fn applied(&mut self, batch: &Applied<'_>) -> Looked {
        let events = batch.entry.iter().flat_map(|entry| &entry.events);
        let at_once = events.filter_map(|event| match event {
            Event::Granted { token, waiter: None, .. } => Some(*token),
            _ => None,
        });
        let at_once: BTreeSet<_> = at_once.collect();
        let granted = batch.answers.iter().filter_map(|(ticket, reply)| match reply {
            Reply::Granted(grant) if at_once.contains(&grant.token) => Some((*ticket, grant.token)),
            _ => None,
        });
        let granted: BTreeMap<_, _> = granted.collect();
        // From the last to the first: whoever asks again, perhaps with another priority, is given what the first was granted.
        for heard in batch.heard.iter().rev() {
            if let Heard::Command { ticket, command: Command::Acquire(acquire), .. } = heard
                && let Some(token) = granted.get(ticket)
            {
                // Perhaps not for the first time: after a crash what it undid is granted to others with the same tokens.
                self.asked.insert(*token, acquire.priority);
            }
        }
        Ok(false)
    }

    fn event(&mut self, before: &Ledger, _at: Timestamp, event: &Event) -> Looked {
        let Event::Granted { token, hold, waiter } = event else { return Ok(false) };
        let asked = self.asked.remove(token);
        // An operator's doing is not a matter of turns.
        if before.stolen.is_some() {
            return Ok(false);
        }
        let place = match waiter.and_then(|id| Some((id, before.waiters.get(&id)?))) {
            Some((id, (waiter, _))) => waiter.place(id),
            None => match (self.place_of_set(hold), asked) {
                (Some(place), _) => place,
                // Whoever is served at once comes after all who wait with the same priority.
                (None, Some(priority)) => Place::new(priority, WaiterId(u64::MAX)),
                (None, None) => return Err(format!("hold {} was granted to nobody who asked for it", token.0)),
            },
        };
        let mut looked = false;
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

impl Order {
    /// If this is a place that a set has in a rate window, which is granted with it.
    fn place_of_set(&mut self, hold: &Hold) -> Option<Place> {
        let (place, mut windows) = self.windows.take()?;
        let at = windows.iter().position(|path| *path == hold.pool)?;
        windows.remove(at);
        self.windows = Some((place, windows));
        Some(place)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tenure_core::mutation::{self, Mistake};
    use tenure_core::{Acquire, Holder, Lifetime, Limits, Machine, Namespace, PoolName, Seq, Stamp, State, Wait};
    use tenure_engine::{Entry, Ticket};

    use super::*;

    /// One of two units is held, somebody waits for both with the ordinary priority, and a newcomer of this one takes the other.
    fn a_newcomer_of(priority: i64) -> Looked {
        let acquire = |holder, count, priority| Acquire {
            pool: PoolPath::new(Namespace::default(), PoolName::parse("db").expect("a name")),
            demand: Demand { amount: Amount::Count(count), selector: None, dirty: false },
            size: Some(2),
            lifetime: Some(Lifetime::Kept),
            wait: Wait::Forever,
            priority: Priority::parse(priority).expect("a small priority"),
            holder: Arc::new(Holder::parse(holder, []).expect("a name")),
            session: None,
            request: None,
            also: Box::default(),
            holds_on: false,
        };
        let mut machine = Machine::new(Limits::default());
        let (mut order, mut ledger) = (Order::default(), Ledger::default());
        let mut looked = Ok(false);
        let acquires = [acquire("holds", 1, 0), acquire("waits", 2, 0), acquire("comes", 1, priority)];
        for (ticket, acquire) in (1..).map(Ticket).zip(acquires) {
            let (at, command) = (Timestamp::from_millis(1), Command::Acquire(acquire));
            let heard = [Heard::Command { ticket, command: command.clone(), returns: false }];
            let outcome = machine.apply(Stamp { at, nonce: u128::from(ticket.0) << 64 }, command);
            let entry = Entry { first: Seq(1), at, events: outcome.events };
            let (answers, state): (_, &State) = ([(ticket, &outcome.reply)], machine.state());
            let batch = Applied { at, now: at, heard: &heard, entry: Some(&entry), answers: &answers, state };
            order.applied(&batch)?;
            for event in &entry.events {
                looked = order.event(&ledger, at, event);
                ledger.note(event);
            }
        }
        looked
    }

    #[test]
    fn a_newcomer_comes_after_those_who_wait_with_the_same_priority() {
        mutation::make(Some(Mistake::LetsNewcomersPass));
        let (same, higher) = (a_newcomer_of(0), a_newcomer_of(1));
        mutation::make(None);
        assert_eq!(same, Err("hold 2 was granted though waiter 1 was ahead".into()));
        assert_eq!(higher, Ok(true), "it goes before those of a lower one, and was compared with them");
    }
}

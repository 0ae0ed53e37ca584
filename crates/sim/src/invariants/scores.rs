//! Where a script scores, the highest score wins: nobody with a lower one is served before somebody who fits too, nor with
//! the same from behind; and no resource is granted while one that suits better is free. Pools that have failed scripts are
//! left to their ordinary rules for that decision.

use tenure_core::*;

use super::order::{could_be_served, could_use, is_free};
use super::{Invariant, Ledger, Listed, Looked};
use crate::scripts::score;

#[derive(Debug)]
pub(super) struct Scores;

impl Invariant for Scores {
    fn name(&self) -> &'static str {
        "the highest score wins"
    }

    fn event(&mut self, before: &Ledger, at: Timestamp, event: &Event) -> Looked {
        let Event::Granted { token, hold, waiter } = event else { return Ok(false) };
        // An operator's doing is not a matter of scores, and a set has none.
        if before.stolen.is_some() || !hold.also.is_empty() {
            return Ok(false);
        }
        let Some(pool) = before.pools.get(&hold.pool).filter(|pool| pool.faults < SCRIPT_FAULTS_MAX) else {
            return Ok(false);
        };
        let mut looked = false;
        let served = waiter.and_then(|id| Some((id, &before.waiters.get(&id)?.0)));
        if let (Some((id, served)), false) = (served, before.failed.contains(&Which::Order)) {
            looked |= in_order(before, at, pool, id, served)?;
        }
        match served {
            Some((id, waiter)) if !before.failed.contains(&Which::Place) => {
                Ok(best_place(before, at, pool, *token, hold, (id, waiter))? || looked)
            }
            _ => Ok(looked),
        }
    }
}

/// In pools of units, where nothing but the request is scored.
fn in_order(before: &Ledger, at: Timestamp, pool: &Listed, id: WaiterId, served: &Waiter) -> Looked {
    let (Some(script), Capacity::Units(size)) = (&pool.spec.scripts.order, &pool.spec.capacity) else {
        return Ok(false);
    };
    let scored = |waiter: &Waiter| score(Which::Order, script, &request(at, *size, waiter), None);
    let own = scored(served).map_err(|fault| format!("waiter {} was served though the script fails: {fault}", id.0));
    let present = before.waiters.iter().filter(|(_, (waiter, present))| *present && waiter.pool == served.pool);
    let others: Vec<_> = present.filter(|(other, _)| **other != id).collect();
    // Behind so many it is not looked at any more.
    if others.len() >= ORDER_LOOKED_AT_MAX {
        return Ok(false);
    }
    let mut looked = false;
    for (other, (waiter, _)) in others {
        if !could_be_served(before, &served.pool, pool, waiter, &waiter.demand) {
            continue;
        }
        looked = true;
        if waiter.priority > served.priority {
            return Err(format!("waiter {} was served before {}, of higher priority", id.0, other.0));
        }
        if waiter.priority < served.priority {
            continue;
        }
        let (own, its) =
            (own.clone()?, scored(waiter).map_err(|fault| format!("it failed, and nobody said so: {fault}"))?);
        if its > own || its == own && waiter.place(*other) < served.place(id) {
            return Err(format!("waiter {} was served with a score of {own} before {} with {its}", id.0, other.0));
        }
    }
    Ok(looked)
}

fn best_place(
    before: &Ledger,
    at: Timestamp,
    pool: &Listed,
    token: Token,
    hold: &Hold,
    (id, waiter): (WaiterId, &Waiter),
) -> Looked {
    let (Some(script), Capacity::Resources { resources, .. }) = (&pool.spec.scripts.place, &pool.spec.capacity) else {
        return Ok(false);
    };
    let matching = resources.iter().filter(|it| super::order::matches(pool, &waiter.demand, &it.name)).count();
    let request = request(at, u32::try_from(matching).expect("a few"), waiter);
    let own = |name: &ResourceName| pool.reserved.get(name) == Some(&waiter.holder.id);
    let scored = |it: &ResourceSpec| {
        let offer = Offer { name: &it.name, labels: &it.labels };
        score(Which::Place, script, &request, Some(&offer)).map(|score| (own(&it.name), score))
    };
    let open: Vec<_> = resources
        .iter()
        .filter(|it| could_use(pool, waiter, &waiter.demand, &it.name) && is_free(before, &hold.pool, pool, &it.name))
        .collect();
    let (taken, left): (Vec<_>, Vec<_>) = open.into_iter().partition(|it| hold.taken.resources.contains(&it.name));
    // What somebody ahead wants, and does not get enough of, may be kept for it.
    let ahead: Vec<_> = before
        .waiters
        .iter()
        .filter(|(other, (it, present))| *present && it.place(**other) < waiter.place(id))
        .flat_map(|(_, (it, _))| it.parts().filter(|(path, _)| **path == hold.pool).map(|(_, demand)| demand))
        .collect();
    let is_wanted = |it: &&ResourceSpec| ahead.iter().any(|demand| super::order::matches(pool, demand, &it.name));
    let left: Vec<_> = left.into_iter().filter(|it| !is_wanted(it)).collect();
    // Where all is taken nobody chose.
    if left.is_empty() {
        return Ok(false);
    }
    let silent = |fault: Fault| format!("it failed, and nobody said so: {fault}");
    let worst = taken.into_iter().map(scored).collect::<Result<Vec<_>, _>>().map_err(silent)?.into_iter().min();
    let best = left.into_iter().map(scored).collect::<Result<Vec<_>, _>>().map_err(silent)?.into_iter().max();
    match (worst, best) {
        (Some(worst), Some(best)) if best > worst => {
            Err(format!("hold {} was granted what has the score {worst:?} while {best:?} was free", token.0))
        }
        _ => Ok(true),
    }
}

fn request(at: Timestamp, all: u32, waiter: &Waiter) -> Request<'_> {
    Request {
        holder: &waiter.holder,
        units: match waiter.demand.amount {
            Amount::Count(count) => count,
            Amount::All => all,
        },
        priority: waiter.priority,
        selector: waiter.demand.selector.as_ref().map(|selector| selector.as_str()),
        dirty: waiter.demand.dirty,
        waited_ms: at.millis_since(waiter.since),
    }
}

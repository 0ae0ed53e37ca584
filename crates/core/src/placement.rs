//! Who is next, and what they get: the choice of a waiter for what is free, and of resources for a waiter.
//!
//! Only looks; the machine turns a choice into an event.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::command::{Amount, Demand, Order, Placement};
use crate::names::ResourceName;
use crate::pool::{Kind, Pool, Resources, Taken, Units, fits};
use crate::view::Place;

/// The first in order that can be served now: a waiter, or a newcomer who is not in the queue yet.
pub(crate) fn next(pool: &Pool, newcomer: Option<(Place, &Demand)>, nonce: u128) -> Option<(Place, Taken)> {
    if !pool.hands_out() {
        return None;
    }
    match &pool.kind {
        Kind::Units(units) => next_for_units(pool, units, newcomer),
        Kind::Resources(resources) => next_for_resources(pool, resources, newcomer, nonce),
    }
}

fn next_for_units(pool: &Pool, units: &Units, newcomer: Option<(Place, &Demand)>) -> Option<(Place, Taken)> {
    // A full pool serves nobody, however many lanes there are.
    if units.free() == 0 {
        return None;
    }
    let fitting = pool
        .queue
        .heads()
        .chain(newcomer)
        .filter_map(|(place, demand)| Some((place, take_units(units, demand.amount)?)))
        .min_by_key(|(place, _)| *place)?;
    let head = pool.queue.head().into_iter().chain(newcomer.map(|(place, _)| place)).min()?;
    // In strict order a head that does not fit has a claim on every unit.
    (pool.order == Order::Backfill || fitting.0 == head).then_some(fitting)
}

fn take_units(units: &Units, amount: Amount) -> Option<Taken> {
    let (count, all) = match amount {
        Amount::Count(count) => (count, false),
        Amount::All if units.used == 0 => (units.total, true),
        Amount::All => return None,
    };
    (count <= units.free()).then(|| Taken { units: count, resources: [].into(), all })
}

fn next_for_resources(
    pool: &Pool,
    resources: &Resources,
    newcomer: Option<(Place, &Demand)>,
    nonce: u128,
) -> Option<(Place, Taken)> {
    if resources.free.is_empty() {
        return None;
    }
    let mut heads: Vec<_> = pool.queue.heads().chain(newcomer).collect();
    heads.sort_unstable_by_key(|(place, _)| *place);
    // What somebody further ahead could use is not given to those behind.
    let mut claimed = BTreeSet::new();
    for (place, demand) in heads {
        if let Some(names) = choose(resources, demand, &claimed, nonce) {
            let units = u32::try_from(names.len()).expect("resources of a pool are bounded");
            return Some((place, Taken { units, resources: names.into(), all: demand.amount == Amount::All }));
        }
        if pool.order == Order::Strict {
            claimed.extend(free_for(resources, demand));
            if claimed.len() == resources.free.len() {
                return None;
            }
        }
    }
    None
}

fn free_for<'a>(resources: &'a Resources, demand: &'a Demand) -> impl Iterator<Item = &'a ResourceName> {
    resources.free.iter().map(|slot| &slot.name).filter(|name| fits(demand, name, &resources.all[*name]))
}

/// Free resources for a demand by the pool's placement, if there are enough.
fn choose(
    resources: &Resources,
    demand: &Demand,
    claimed: &BTreeSet<&ResourceName>,
    nonce: u128,
) -> Option<Vec<ResourceName>> {
    let wanted = match demand.amount {
        Amount::Count(count) => usize::try_from(count).expect("a count fits in memory"),
        Amount::All => resources.matching(demand).count(),
    };
    let open = free_for(resources, demand).filter(|name| !claimed.contains(name));
    let chosen: Vec<_> = match &resources.placement {
        // The free ones are kept in these orders.
        Placement::First | Placement::LeastRecentlyUsed | Placement::MostRecentlyUsed => {
            open.take(wanted).cloned().collect()
        }
        Placement::Random => shuffle(open.cloned().collect(), wanted, nonce),
        Placement::Spread(label) => spread(resources, open.collect(), wanted, label.as_str()),
    };
    (chosen.len() == wanted && wanted > 0).then_some(chosen)
}

/// The first `wanted` of a fair shuffle.
fn shuffle(mut names: Vec<ResourceName>, wanted: usize, nonce: u128) -> Vec<ResourceName> {
    let mut random = nonce ^ (nonce >> 64);
    for at in 0..wanted.min(names.len()) {
        // A linear congruential step over 128 bits, of which the upper half is used.
        random = random.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
        let left = names.len() - at;
        let pick = usize::try_from((random >> 64) % left as u128).expect("less than a length");
        names.swap(at, at + pick);
    }
    names.truncate(wanted);
    names
}

/// One by one, each where its label's value is in use least; the earlier declared on a tie.
fn spread(resources: &Resources, mut open: Vec<&ResourceName>, wanted: usize, label: &str) -> Vec<ResourceName> {
    let value = |name: &ResourceName| resources.all[name].labels.get(label).unwrap_or_default();
    let mut in_use: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, resource) in &resources.all {
        if resource.hold.is_some() {
            *in_use.entry(value(name)).or_default() += 1;
        }
    }
    let mut chosen = Vec::new();
    while chosen.len() < wanted {
        let least = (0..open.len()).min_by_key(|at| in_use.get(value(open[*at])).copied().unwrap_or(0));
        let Some(least) = least else { break };
        let name = open.remove(least);
        *in_use.entry(value(name)).or_default() += 1;
        chosen.push(name.clone());
    }
    chosen
}

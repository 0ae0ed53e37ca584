//! Who is next, and what they get: the choice of a waiter for what is free, and of resources for a waiter.
//!
//! Only looks; the machine turns a choice into an event.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::command::{Amount, Demand, Order, Placement};
use crate::mutation::Mistake;
use crate::names::{HolderId, ResourceName};
use crate::pool::{Kind, Pool, Resource, Resources, Taken, Units};
use crate::queue::Ordinals;
use crate::view::Place;

/// Somebody who could be served: where it stands, what it wants, and who it is if something may be reserved for it.
pub(crate) type Candidate<'a> = (Place, &'a Demand, Option<&'a HolderId>);

/// The first in order that can be served now: a waiter, or a newcomer who is not in the queue yet.
pub(crate) fn next(pool: &Pool, newcomer: Option<Candidate<'_>>, nonce: u128) -> Option<(Place, Taken)> {
    if !pool.hands_out() {
        return None;
    }
    match &pool.kind {
        Kind::Units(units) => next_for_units(pool, units, newcomer),
        Kind::Resources(resources) => next_for_resources(pool, resources, newcomer, nonce),
    }
}

fn next_for_units(pool: &Pool, units: &Units, newcomer: Option<Candidate<'_>>) -> Option<(Place, Taken)> {
    // A full pool serves nobody, however many lanes there are.
    if units.free() == 0 {
        return None;
    }
    let fitting = pool
        .queue
        .heads()
        .chain(newcomer)
        .filter_map(|(place, demand, _)| Some((place, take_units(units, demand.amount)?)))
        .min_by_key(|(place, _)| *place)?;
    let head = pool.queue.head().into_iter().chain(newcomer.map(|(place, ..)| place)).min()?;
    if Mistake::LetsNewcomersPass.is_made()
        && let Some((place, demand, _)) = newcomer
        && let Some(taken) = take_units(units, demand.amount)
    {
        return Some((place, taken));
    }
    if Mistake::Overtakes.is_made() {
        return Some(fitting);
    }
    // In strict order a head that does not fit has a claim on every unit.
    (pool.order == Order::Backfill || fitting.0 == head).then_some(fitting)
}

pub(crate) fn take_units(units: &Units, amount: Amount) -> Option<Taken> {
    let (count, all) = match amount {
        Amount::Count(count) => (count, false),
        Amount::All if units.used == 0 => (units.total, true),
        Amount::All => return None,
    };
    (count <= units.free()).then(|| Taken { units: count, resources: [].into(), all, dirty: false })
}

fn next_for_resources(
    pool: &Pool,
    resources: &Resources,
    newcomer: Option<Candidate<'_>>,
    nonce: u128,
) -> Option<(Place, Taken)> {
    let fit = first_fitting(pool, resources, newcomer)?;
    Some((fit.place, fit.taken(choose_for(resources, &fit.open, fit.wanted, fit.holder, nonce))))
}

/// The first in order that can be served now, and what it can be given.
pub(crate) fn first_fitting<'a>(
    pool: &'a Pool,
    resources: &'a Resources,
    newcomer: Option<Candidate<'a>>,
) -> Option<Fit<'a>> {
    if resources.free.is_empty() {
        return None;
    }
    let mut heads: Vec<_> = pool.queue.heads().chain(newcomer).collect();
    heads.sort_unstable_by_key(|(place, ..)| *place);
    // What somebody further ahead could use is not given to those behind.
    let mut unclaimed = Cow::Borrowed(&resources.open);
    for candidate in heads {
        let (_, demand, holder) = candidate;
        let matching = pool.matching(resources, demand);
        let open = resources.only_for(unclaimed.and(&matching), demand, holder);
        let open = match Fit::of(&matching, candidate, open) {
            Ok(fit) => return Some(fit),
            Err(open) => open,
        };
        if pool.order == Order::Strict && !Mistake::IgnoresClaims.is_made() {
            unclaimed.to_mut().subtract(&open);
            if unclaimed.is_empty() {
                return None;
            }
        }
    }
    None
}

/// Somebody for whom there is room, and the resources it could be given.
pub(crate) struct Fit<'a> {
    pub(crate) place: Place,
    demand: &'a Demand,
    holder: Option<&'a HolderId>,
    pub(crate) open: Ordinals,
    pub(crate) wanted: usize,
}

impl<'a> Fit<'a> {
    /// Gives the open ones back if they are too few.
    pub(crate) fn of(matching: &Ordinals, candidate: Candidate<'a>, open: Ordinals) -> Result<Self, Ordinals> {
        let (place, demand, holder) = candidate;
        let wanted = match demand.amount {
            Amount::Count(count) => usize::try_from(count).expect("a count fits in memory"),
            Amount::All => matching.len(),
        };
        if wanted > 0 && wanted <= open.len() { Ok(Self { place, demand, holder, open, wanted }) } else { Err(open) }
    }

    pub(crate) fn taken(&self, names: Vec<ResourceName>) -> Taken {
        let units = u32::try_from(names.len()).expect("resources of a pool are bounded");
        let (all, dirty) = (self.demand.amount == Amount::All, self.demand.dirty);
        Taken { units, resources: names.into(), all, dirty }
    }
}

/// So many of the open ones; first of all what is reserved for whoever gets them.
pub(crate) fn choose_for(
    resources: &Resources,
    open: &Ordinals,
    wanted: usize,
    holder: Option<&HolderId>,
    nonce: u128,
) -> Vec<ResourceName> {
    let reserved = holder.and_then(|holder| resources.reserved_for(holder)).map(|own| own.and(open));
    match reserved.filter(|reserved| !reserved.is_empty()) {
        None => choose(resources, open, wanted, nonce),
        Some(reserved) => {
            let mut names = choose(resources, &reserved, wanted.min(reserved.len()), nonce);
            let mut others = open.clone();
            others.subtract(&reserved);
            names.extend(choose(resources, &others, wanted - names.len(), nonce));
            names
        }
    }
}

/// So many of the open ones, by the pool's placement.
fn choose(resources: &Resources, open: &Ordinals, wanted: usize, nonce: u128) -> Vec<ResourceName> {
    let preferred = resources.free.iter().filter(|slot| open.contains(slot.ordinal)).map(|slot| &slot.name);
    let chosen: Vec<_> = match &resources.placement {
        // The free ones are kept in these orders.
        Placement::First | Placement::LeastRecentlyUsed | Placement::MostRecentlyUsed => {
            preferred.take(wanted).cloned().collect()
        }
        Placement::Random => shuffle(preferred.cloned().collect(), wanted, nonce),
        Placement::Spread(label) => spread(resources, preferred, wanted, label.as_str()),
    };
    assert_eq!(chosen.len(), wanted, "there are enough");
    chosen
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
fn spread<'a>(
    resources: &'a Resources,
    open: impl Iterator<Item = &'a ResourceName>,
    wanted: usize,
    label: &str,
) -> Vec<ResourceName> {
    let value = |resource: &'a Resource| resource.labels.get(label).unwrap_or_default();
    let mut in_use: BTreeMap<&str, usize> = BTreeMap::new();
    for resource in resources.all.values().filter(|resource| resource.hold.is_some()) {
        *in_use.entry(value(resource)).or_default() += 1;
    }
    let mut by_value: BTreeMap<&str, VecDeque<(usize, &ResourceName)>> = BTreeMap::new();
    for (at, name) in open.enumerate() {
        by_value.entry(value(&resources.all[name])).or_default().push_back((at, name));
    }
    // The first of each value, those of the value in use least first.
    let mut turns: BTreeSet<_> = by_value
        .into_iter()
        .filter_map(|(value, mut names)| {
            let (at, name) = names.pop_front()?;
            Some((in_use.get(value).copied().unwrap_or(0), at, name, names))
        })
        .collect();
    let mut chosen = Vec::with_capacity(wanted);
    while chosen.len() < wanted
        && let Some((in_use, _, name, mut names)) = turns.pop_first()
    {
        chosen.push(name.clone());
        if let Some((at, name)) = names.pop_front() {
            turns.insert((in_use + 1, at, name, names));
        }
    }
    chosen
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "the numbers are small")]
mod tests {
    use super::*;
    use alloc::format;

    use crate::command::{Capacity, PoolSpec, ResourceSpec};
    use crate::names::{LabelName, Labels, Priority, Token, WaiterId};
    use crate::policy::Scripts;
    use crate::pool::fits;
    use crate::selector::Selector;

    /// The rules as one would say them, however slow.
    fn plain_next(pool: &Pool, resources: &Resources, nonce: u128) -> Option<(Place, Vec<ResourceName>)> {
        let mut claimed: BTreeSet<&ResourceName> = BTreeSet::new();
        let mut heads: Vec<_> = pool.queue.heads().collect();
        heads.sort_unstable_by_key(|(place, ..)| *place);
        for (place, demand, _) in heads {
            let matches = |name: &ResourceName| fits(demand, name, &resources.all[name].labels);
            let wanted = match demand.amount {
                Amount::Count(count) => count as usize,
                Amount::All => resources.staying().filter(|(name, _)| matches(name)).count(),
            };
            let free = || resources.free.iter().map(|slot| &slot.name).filter(|name| matches(name));
            let open: Vec<_> = free().filter(|name| !claimed.contains(name)).collect();
            if wanted > 0 && wanted <= open.len() {
                return Some((
                    place,
                    match &resources.placement {
                        Placement::Spread(label) => plain_spread(resources, open, wanted, label.as_str()),
                        Placement::Random => shuffle(open.into_iter().cloned().collect(), wanted, nonce),
                        _ => open.into_iter().take(wanted).cloned().collect(),
                    },
                ));
            }
            if pool.order == Order::Strict {
                claimed.extend(free());
            }
        }
        None
    }

    fn plain_spread(
        resources: &Resources,
        mut open: Vec<&ResourceName>,
        wanted: usize,
        label: &str,
    ) -> Vec<ResourceName> {
        let value = |name: &ResourceName| resources.all[name].labels.get(label).unwrap_or_default();
        let mut in_use: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, resource) in &resources.all {
            *in_use.entry(value(name)).or_default() += usize::from(resource.hold.is_some());
        }
        let mut chosen = Vec::new();
        while chosen.len() < wanted {
            let least = (0..open.len()).min_by_key(|at| in_use[value(open[*at])]).expect("there are enough");
            let name = open.remove(least);
            *in_use.entry(value(name)).or_default() += 1;
            chosen.push(name.clone());
        }
        chosen
    }

    #[test]
    fn what_is_remembered_of_selectors_changes_no_choice() {
        let mut random = 7_u64;
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let mut served = 0;
        for _ in 0..2_000 {
            let placement = match below(4) {
                0 => Placement::First,
                1 => Placement::LeastRecentlyUsed,
                2 => Placement::Random,
                _ => Placement::Spread(LabelName::parse("zone").expect("a label")),
            };
            let mut spec = || PoolSpec {
                capacity: Capacity::Resources {
                    placement: placement.clone(),
                    resources: (0..below(150))
                        .map(|n| ResourceSpec {
                            name: ResourceName::parse(&format!("r{n}")).expect("a name"),
                            labels: Labels::parse([("zone", &*format!("{}", below(5)))]).expect("labels"),
                            properties: Labels::default(),
                        })
                        .collect(),
                },
                order: if below(2) == 0 { Order::Strict } else { Order::Backfill },
                window: None,
                declared: true,
                cleaning: false,
                fair: None,
                scripts: Scripts::default(),
            };
            let (first, second) = (spec(), spec());
            let mut pool = Pool::new(&first);
            let take = |pool: &mut Pool, token: u64, below: &mut dyn FnMut(u64) -> u64| {
                let Kind::Resources(resources) = &pool.kind else { unreachable!("it has resources") };
                let free: Vec<_> = resources.free.iter().map(|slot| slot.name.clone()).collect();
                let names: Vec<_> = free.into_iter().filter(|_| below(2) == 0).collect();
                pool.take(Token(token), &Taken { units: 1, resources: names.into(), all: false, dirty: false });
            };
            take(&mut pool, 1, &mut below);
            for n in 0..below(8) {
                let selectors = ["zone == 1", "zone > 2", "name == r7", "!(zone == 0)"];
                let selector = selectors.get(below(5) as usize).map(|text| Selector::parse(text).expect("a selector"));
                let amount = if below(5) == 0 { Amount::All } else { Amount::Count(below(60) as u32 + 1) };
                let demand = Demand { amount, selector, dirty: false };
                pool.queue.enter(Place::new(Priority::default(), WaiterId(n)), &demand, None);
                // Lanes are there before and after a change of the pool.
                if n == 3 {
                    pool.set(&second);
                    take(&mut pool, 2, &mut below);
                }
            }
            let Kind::Resources(resources) = &pool.kind else { unreachable!("it has resources") };
            let nonce = u128::from(below(u64::MAX)) << 64;
            let chosen = next(&pool, None, nonce).map(|(place, taken)| (place, taken.resources.to_vec()));
            assert_eq!(chosen, plain_next(&pool, resources, nonce));
            served += usize::from(chosen.is_some());
        }
        assert!((200..1_900).contains(&served), "both ways are tried: {served}");
    }
}

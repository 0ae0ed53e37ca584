//! Who is next in pools where sets wait: requests that want something of several pools at once, and are served when each of
//! the pools has room for them by its own order.
//!
//! A set takes nothing while it waits. But what it needs of a pool is kept aside from those behind it, in pools of any
//! order: so the first of all waiters lacks only what is held, sets cannot wait for each other, and none is overtaken for
//! ever. Only looks; the machine turns a choice into events.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::command::{Amount, Demand, Order};
use crate::limits::SETS_LOOKED_AT_MAX;
use crate::mutation::Mistake;
use crate::names::{HolderId, PoolPath, WaiterId};
use crate::placement::{choose_for, take_units};
use crate::pool::{Kind, Pool, Taken};
use crate::queue::Ordinals;
use crate::state::State;
use crate::view::Place;

/// Who is served.
pub(crate) enum Next {
    One(Place, Taken),
    /// With what it gets of each of its pools.
    Set(Place, Vec<Taken>),
}

/// The first in order that can be served now in a pool where sets wait. A set with a pool that is itself `unserved` has to
/// wait for that: somebody there may be before it.
pub(crate) fn next(state: &State, unserved: &BTreeSet<PoolPath>, path: &PoolPath, nonce: u128) -> Option<Next> {
    let pool = &state.pools[path];
    if !pool.hands_out() {
        return None;
    }
    let mut left = Left::of(pool);
    for wish in wishes(state, pool).known {
        if left.is_empty() {
            return None;
        }
        let Wish { place, demand, holder, set } = wish;
        let taken = left.fit(pool, demand, holder, nonce);
        match taken {
            Some(taken) if !set => return Some(Next::One(place, taken)),
            Some(taken) => {
                if let Some(all) = everywhere(state, unserved, path, place, &taken, nonce) {
                    return Some(Next::Set(place, all));
                }
            }
            None => {}
        }
        left.keep_aside(state, pool, &wish);
    }
    None
}

/// What somebody at `place` would get of a pool by its order, whoever of those ahead can be served or not.
pub(crate) fn room(
    state: &State,
    pool: &Pool,
    place: Place,
    demand: &Demand,
    holder: &HolderId,
    nonce: u128,
) -> Option<Taken> {
    if !pool.hands_out() {
        return None;
    }
    let mut left = Left::of(pool);
    // Most of the time it is full, and then nobody's place matters.
    left.fit(pool, demand, Some(holder), nonce)?;
    let Wishes { known, end } = wishes(state, pool);
    if end.is_some_and(|end| end <= place) {
        return None;
    }
    let mut ahead: BTreeMap<_, _> = known.into_iter().map(|wish| (wish.place, wish)).collect();
    while let Some((_, wish)) = ahead.pop_first() {
        if wish.place >= place {
            break;
        }
        // There may be room for more of a lane than its head, where nobody has been served since it was made.
        if left.keep_aside(state, pool, &wish)
            && !wish.set
            && let Some(next) = pool.queue.next_in_lane(wish.place, wish.demand, wish.holder)
        {
            ahead.insert(next, Wish { place: next, ..wish });
        }
        if left.is_empty() {
            return None;
        }
    }
    left.fit(pool, demand, Some(holder), nonce)
}

/// What the set at `place`, for which `path` has room, gets of all its pools if the others have room too.
fn everywhere(
    state: &State,
    unserved: &BTreeSet<PoolPath>,
    path: &PoolPath,
    place: Place,
    taken: &Taken,
    nonce: u128,
) -> Option<Vec<Taken>> {
    let waiter = &state.waiters[&place.arrival()];
    let parts = waiter.parts().map(|(pool, demand)| {
        if pool == path {
            return Some(taken.clone());
        }
        if unserved.contains(pool) {
            return None;
        }
        room(state, &state.pools[pool], place, demand, &waiter.holder.id, nonce)
    });
    parts.collect()
}

/// What a waiter wants of one pool.
#[derive(Clone, Copy)]
struct Wish<'a> {
    place: Place,
    demand: &'a Demand,
    /// Who it is, if something may be reserved for it.
    holder: Option<&'a HolderId>,
    set: bool,
}

/// Who could be next.
struct Wishes<'a> {
    /// The heads of lanes, and the first so many sets, in order.
    known: Vec<Wish<'a>>,
    /// Where there are more sets, which are not looked at: from here on nobody knows who is ahead.
    end: Option<Place>,
}

fn wishes<'a>(state: &'a State, pool: &'a Pool) -> Wishes<'a> {
    let heads = pool.queue.heads().map(|(place, demand, holder)| Wish { place, demand, holder, set: false });
    let mut known: Vec<_> = heads.collect();
    let mut sets = pool.queue.sets();
    known.extend(sets.by_ref().take(SETS_LOOKED_AT_MAX).map(|(place, demand)| {
        let holder = Some(&state.waiters[&place.arrival()].holder.id);
        Wish { place, demand, holder, set: true }
    }));
    let end = sets.next().map(|(place, _)| place);
    known.retain(|wish| end.is_none_or(|end| wish.place < end));
    known.sort_unstable_by_key(|wish| wish.place);
    Wishes { known, end }
}

/// What of a pool is free and not kept aside for somebody ahead.
enum Left {
    Units(u32),
    Resources(Ordinals),
}

impl Left {
    fn of(pool: &Pool) -> Self {
        match &pool.kind {
            Kind::Units(units) => Self::Units(units.free()),
            Kind::Resources(resources) => Self::Resources(resources.open.clone()),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Units(units) => *units == 0,
            Self::Resources(open) => open.is_empty(),
        }
    }

    fn fit(&self, pool: &Pool, demand: &Demand, holder: Option<&HolderId>, nonce: u128) -> Option<Taken> {
        match (self, &pool.kind) {
            (Self::Units(left), Kind::Units(units)) => {
                let taken = take_units(units, demand.amount)?;
                (taken.units <= *left).then_some(taken)
            }
            (Self::Resources(left), Kind::Resources(resources)) => {
                let matching = pool.matching(resources, demand);
                let wanted = wanted(demand.amount, &matching);
                let open = resources.only_for(left.and(&matching), demand, holder);
                (wanted > 0 && wanted <= open.len()).then(|| {
                    let names = choose_for(resources, &open, wanted, holder, nonce);
                    let units = u32::try_from(names.len()).expect("resources of a pool are bounded");
                    let (all, dirty) = (demand.amount == Amount::All, demand.dirty);
                    Taken { units, resources: names.into(), all, dirty }
                })
            }
            _ => unreachable!("what is left of a pool is of its kind"),
        }
    }

    /// Takes out what those behind do not get because of a waiter that is not served yet. Whether it could be: if so, and only then, there
    /// may be something for another one who wants the same.
    fn keep_aside(&mut self, state: &State, pool: &Pool, wish: &Wish<'_>) -> bool {
        let claims = if wish.set { claims(state, wish.place.arrival()) } else { pool.order == Order::Strict };
        if !claims || Mistake::ForgetsTheSets.is_made() {
            return false;
        }
        match (self, &pool.kind) {
            (Self::Units(left), Kind::Units(units)) => {
                let taken = take_units(units, wish.demand.amount).map(|taken| taken.units);
                let taken = taken.filter(|taken| taken <= left);
                *left -= taken.unwrap_or(*left);
                taken.is_some()
            }
            (Self::Resources(left), Kind::Resources(resources)) => {
                let matching = pool.matching(resources, wish.demand);
                let wanted = wanted(wish.demand.amount, &matching);
                let open = resources.only_for(left.and(&matching), wish.demand, wish.holder);
                // What is reserved for it, and else what the placement prefers. Which it will be is not decided yet: a random
                // choice is made once.
                let own = wish.holder.and_then(|holder| resources.reserved_for(holder));
                let is_own = |ordinal| own.is_some_and(|own| own.contains(ordinal));
                let ordinals = || resources.free.iter().map(|slot| slot.ordinal).filter(|it| open.contains(*it));
                let preferred = ordinals().filter(|it| is_own(*it)).chain(ordinals().filter(|it| !is_own(*it)));
                let fits = wanted > 0 && wanted <= open.len();
                let kept: Vec<_> = preferred.take(if fits { wanted } else { usize::MAX }).collect();
                kept.into_iter().for_each(|ordinal| left.remove(ordinal));
                fits
            }
            _ => unreachable!("what is left of a pool is of its kind"),
        }
    }
}

fn wanted(amount: Amount, matching: &Ordinals) -> usize {
    match amount {
        Amount::Count(count) => usize::try_from(count).expect("a count fits in memory"),
        Amount::All => matching.len(),
    }
}

/// Whether a waiting set has anything kept aside: not while one of its pools is out of service, for nobody knows for how
/// long, and its other pools are not to stand still because of that.
fn claims(state: &State, id: WaiterId) -> bool {
    state.waiters[&id].parts().all(|(path, _)| state.pools[path].hands_out())
}

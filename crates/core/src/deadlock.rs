//! Whether a wait could ever end, where holders wait for each other.
//!
//! The question is answered for the best of all futures: whoever does not wait lets go of all it has, whoever is served
//! does so too, windows pass, pools and resources come back into service, and nobody new arrives. Only what is blocked even
//! then is refused, so a wait that could end never is. Only looks.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::command::{Amount, Demand, Lifetime, Order};
use crate::limits::DEADLOCK_LOOKED_AT_MAX;
use crate::mutation::Mistake;
use crate::names::*;
use crate::pool::{Kind, Pool, Taken};
use crate::queue::Ordinals;
use crate::record::{Hold, Waiter};
use crate::refusal::Blocked;
use crate::state::State;
use crate::time::Timestamp;
use crate::view::Place;

/// The cycle that `asker` would close by waiting, if it would. None too if there is more to look at than may be.
pub(crate) fn cycle(state: &State, id: WaiterId, asker: &Waiter) -> Option<Vec<Blocked>> {
    let mut world = World::around(state, id, asker)?;
    // Nobody waits for what it has: most of the time the question ends here.
    if Mistake::MissesDeadlocks.is_made() || !world.holds.iter().any(|(_, hold)| hold.holder.id == asker.holder.id) {
        return None;
    }
    world.serve_all();
    let asks = world.waits.iter().position(|wait| wait.place.arrival() == id).expect("it is one of them");
    if world.waits[asks].served {
        return None;
    }
    world.way_back(asks).filter(|way| way.len() <= 2 || !Mistake::SeesShortCyclesOnly.is_made())
}

/// All that what comes of the asker's wait depends on.
struct World<'a> {
    asker: &'a HolderId,
    pools: BTreeMap<&'a PoolPath, &'a Pool>,
    holds: Vec<(Token, &'a Hold)>,
    /// In order.
    waits: Vec<Wait<'a>>,
    /// Those who let go of nothing before one of these waits is served.
    holding_on: BTreeMap<&'a HolderId, Vec<usize>>,
}

struct Wait<'a> {
    place: Place,
    waiter: &'a Waiter,
    /// Whether something is kept aside for it, if it is a set.
    claims: bool,
    served: bool,
}

impl<'a> World<'a> {
    fn around(state: &'a State, id: WaiterId, asker: &'a Waiter) -> Option<Self> {
        let namespace = asker.pool.namespace();
        let holding_on = |holder: &HolderId| {
            let waits = state.holding_on.get(&(namespace.clone(), holder.clone()));
            waits.into_iter().flatten().map(|id| (*id, &*state.waiters[id]))
        };
        let mut pools = BTreeMap::new();
        let mut holds = BTreeMap::new();
        let mut waits = BTreeMap::from([(asker.place(id), asker)]);
        let mut open: Vec<&PoolPath> = asker.parts().map(|(path, _)| path).collect();
        let mut looked_at = 0;
        while let Some(path) = open.pop() {
            // One that is not there yet has room.
            let Some((path, pool)) = state.pools.get_key_value(path) else { continue };
            if pools.insert(path, pool).is_some() {
                continue;
            }
            looked_at += pool.holds.len() + pool.queue.len();
            if looked_at > DEADLOCK_LOOKED_AT_MAX {
                return None;
            }
            for token in pool.holds.from(Token(0)) {
                let hold = &*state.holds[&token];
                holds.insert(token, hold);
                open.extend(holding_on(&hold.holder.id).flat_map(|(_, waiter)| waiter.parts()).map(|(path, _)| path));
            }
            for place in pool.queue.after(None).filter(|place| !pool.queue.is_away(*place)) {
                let waiter = &*state.waiters[&place.arrival()];
                waits.insert(place, waiter);
                open.extend(waiter.parts().map(|(path, _)| path));
            }
        }
        let lasts = |waiter: &Waiter| outlasts(waiter.deadline, asker.deadline) && !removing(state, waiter);
        let waits: Vec<_> = waits
            .into_iter()
            .filter(|(_, waiter)| lasts(waiter))
            .map(|(place, waiter)| Wait { place, waiter, claims: in_service(state, waiter), served: false })
            .collect();
        let mut holders: BTreeSet<_> = holds.values().map(|hold| &hold.holder.id).collect();
        holders.insert(&asker.holder.id);
        let mut all_holding_on = BTreeMap::new();
        for holder in holders {
            let own = (*holder == asker.holder.id && asker.holds_on).then_some(id);
            let ids: Vec<_> = holding_on(holder).map(|(id, _)| id).chain(own).collect();
            let at = |id: &WaiterId| waits.iter().position(|wait| wait.place.arrival() == *id);
            // One that is away, or that gives up in time, may let go after all.
            let known: Option<Vec<_>> = ids.iter().map(at).collect();
            if let Some(known) = known.filter(|known| !known.is_empty()) {
                all_holding_on.insert(holder, known);
            }
        }
        Some(Self {
            asker: &asker.holder.id,
            pools,
            holds: holds.into_iter().collect(),
            waits,
            holding_on: all_holding_on,
        })
    }

    /// Serves everybody who could be served in the best of all futures.
    fn serve_all(&mut self) {
        while let Some(at) = (0..self.waits.len()).find(|at| !self.waits[*at].served && self.fits(*at)) {
            self.waits[at].served = true;
        }
    }

    fn fits(&self, at: usize) -> bool {
        self.waits[at].waiter.parts().all(|(path, demand)| self.fits_in(at, path, demand))
    }

    fn fits_in(&self, at: usize, path: &PoolPath, demand: &Demand) -> bool {
        let Some(pool) = self.pools.get(path) else { return true };
        self.fits_behind(at, self.left(path, pool), path, demand)
    }

    fn fits_behind(&self, at: usize, mut left: Left, path: &PoolPath, demand: &Demand) -> bool {
        let pool = self.pools[path];
        for ahead in self.ahead(at, path) {
            let wait = &self.waits[ahead];
            left.keep_aside(pool, wait.waiter, path, &self.waits[at].waiter.holder.id);
        }
        left.fits(pool, demand)
    }

    /// What somebody could get, were nobody before it.
    fn left(&self, path: &PoolPath, pool: &Pool) -> Left {
        let mut left = Left::of(pool);
        for (_, _, taken) in self.stuck(path) {
            left.take(pool, taken);
        }
        left
    }

    /// What nobody lets go of, and who has it.
    fn stuck<'b>(&'b self, path: &'b PoolPath) -> impl Iterator<Item = (Token, &'a HolderId, &'a Taken)> + 'b {
        let lasting = self.holds.iter().filter(|(_, hold)| !matches!(hold.lifetime, Lifetime::Window(_)));
        let blocked = |holder| {
            self.holding_on.get(holder).is_some_and(|waits: &Vec<usize>| waits.iter().all(|at| !self.waits[*at].served))
        };
        lasting.filter(move |(_, hold)| blocked(&hold.holder.id)).filter_map(move |(token, hold)| {
            let (_, taken) = hold.parts().find(|(part, _)| *part == path)?;
            Some((*token, &hold.holder.id, taken))
        })
    }

    /// Those before somebody in a queue who keep something of the pool from those behind them.
    fn ahead<'b>(&'b self, at: usize, path: &'b PoolPath) -> impl Iterator<Item = usize> + 'b {
        (0..at).filter(move |ahead| {
            let wait = &self.waits[*ahead];
            let claims = if wait.waiter.is_set() { wait.claims } else { self.pools[path].order == Order::Strict };
            // Whoever cleans and whoever does not want nothing of each other.
            let wants_the_same = |demand: &Demand| demand.dirty == self.waits[at].waiter.part(path).0.dirty;
            claims && !wait.served && wait.waiter.parts().any(|(part, demand)| part == path && wants_the_same(demand))
        })
    }

    /// The shortest way from the asker's wait to what the asker has.
    fn way_back(&self, asks: usize) -> Option<Vec<Blocked>> {
        // From where each was reached, and by what.
        let mut reached: BTreeMap<usize, (usize, Blocked)> = BTreeMap::new();
        let mut open = VecDeque::from([asks]);
        while let Some(at) = open.pop_front() {
            let wait = &self.waits[at];
            let step = |pool: &PoolPath, token| Blocked {
                holder: wait.waiter.holder.id.clone(),
                session: wait.waiter.session,
                pool: pool.clone(),
                token,
            };
            for (path, demand) in wait.waiter.parts().filter(|(path, demand)| !self.fits_in(at, path, demand)) {
                let pool = self.pools[path];
                // Where it stands behind somebody, and would whatever was let go of, it does not wait for holders.
                let lacks =
                    !self.left(path, pool).fits(pool, demand) || self.fits_behind(at, Left::of(pool), path, demand);
                let holders = self.stuck(path).filter(|(_, _, taken)| lacks && self.could_use(path, demand, taken));
                for (token, holder, _) in holders {
                    if holder == self.asker {
                        let mut way = Vec::from([step(path, Some(token))]);
                        let mut from = at;
                        while let Some((before, step)) = reached.get(&from).filter(|_| from != asks) {
                            way.push(step.clone());
                            from = *before;
                        }
                        way.reverse();
                        return Some(way);
                    }
                    for next in &self.holding_on[holder] {
                        if *next != asks && !reached.contains_key(next) {
                            reached.insert(*next, (at, step(path, Some(token))));
                            open.push_back(*next);
                        }
                    }
                }
                for next in self.ahead(at, path) {
                    if next != asks && !reached.contains_key(&next) {
                        reached.insert(next, (at, step(path, None)));
                        open.push_back(next);
                    }
                }
            }
        }
        None
    }

    fn could_use(&self, path: &PoolPath, demand: &Demand, taken: &Taken) -> bool {
        let pool = self.pools[path];
        match &pool.kind {
            Kind::Units(_) => true,
            Kind::Resources(resources) => {
                let matching = pool.matching(resources, demand);
                let ordinals = taken.resources.iter().filter_map(|name| pool.resource(name));
                ordinals.map(|(_, resource)| resource.ordinal).any(|ordinal| matching.contains(ordinal))
            }
        }
    }
}

/// Whether a wait is not over before another one is.
fn outlasts(deadline: Option<Timestamp>, other: Option<Timestamp>) -> bool {
    let outlasts = deadline.is_none_or(|deadline| other.is_some_and(|other| deadline >= other));
    outlasts || Mistake::ForgetsWhoGivesUp.is_made()
}

fn removing(state: &State, waiter: &Waiter) -> bool {
    waiter.parts().any(|(path, _)| state.pools.get(path).is_some_and(|pool| pool.removing))
}

fn in_service(state: &State, waiter: &Waiter) -> bool {
    waiter.parts().all(|(path, _)| state.pools.get(path).is_none_or(|pool| pool.hands_out()))
}

/// What of a pool somebody could get, some time.
enum Left {
    Units(u64),
    Resources(Ordinals),
}

impl Left {
    fn of(pool: &Pool) -> Self {
        match &pool.kind {
            Kind::Units(units) => Self::Units(u64::from(units.total)),
            Kind::Resources(resources) => Self::Resources(resources.own.clone()),
        }
    }

    fn take(&mut self, pool: &Pool, taken: &Taken) {
        match self {
            Self::Units(left) if taken.all || Mistake::IgnoresOtherUnits.is_made() => *left = 0,
            Self::Units(left) => *left = left.saturating_sub(u64::from(taken.units)),
            Self::Resources(left) => {
                for (_, resource) in taken.resources.iter().filter_map(|name| pool.resource(name)) {
                    left.remove(resource.ordinal);
                }
            }
        }
    }

    fn fits(&self, pool: &Pool, demand: &Demand) -> bool {
        match (self, &pool.kind, demand.amount) {
            (Self::Units(left), _, Amount::Count(count)) => u64::from(count) <= *left,
            (Self::Units(left), _, Amount::All) => *left == u64::from(pool.size()),
            (Self::Resources(left), Kind::Resources(resources), amount) => {
                let matching = pool.matching(resources, demand);
                let wanted = match amount {
                    Amount::Count(count) => usize::try_from(count).expect("a count fits in memory"),
                    Amount::All => matching.len(),
                };
                left.and(&matching).len() >= wanted
            }
            (Self::Resources(_), Kind::Units(_), _) => unreachable!("what is left of a pool is of its kind"),
        }
    }

    /// Keeps from `behind` what is for somebody ahead of it.
    fn keep_aside(&mut self, pool: &Pool, ahead: &Waiter, path: &PoolPath, behind: &HolderId) {
        let (demand, set) = (ahead.part(path).0, ahead.is_set());
        let fits = self.fits(pool, demand);
        match (self, &pool.kind, demand.amount) {
            (Self::Units(left), _, Amount::Count(count)) if set && fits => *left -= u64::from(count),
            (Self::Units(left), ..) => *left = 0,
            // Which ones it is that are kept aside for a set may change; those that somebody behind wants may be others.
            (Self::Resources(_), ..) if fits => {}
            (Self::Resources(left), Kind::Resources(resources), _) => {
                let mut claimed = pool.matching(resources, demand).into_owned();
                // What is reserved for another is nobody's to claim, unless it is there to clean it.
                if let Some(own) =
                    resources.reserved_for(behind).filter(|_| !demand.dirty && ahead.holder.id != *behind)
                {
                    claimed.subtract(own);
                }
                left.subtract(&claimed);
            }
            (Self::Resources(_), Kind::Units(_), _) => unreachable!("what is left of a pool is of its kind"),
        }
    }
}

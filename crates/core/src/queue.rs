//! The waiters of one pool, in order, with the two questions that must stay cheap however many wait: who is
//! at the head of each lane, and what place does somebody have.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::command::Demand;
use crate::names::{Labels, Priority, ResourceName, WaiterId};
use crate::pool::fits;
use crate::view::Place;

/// Waiters are counted in runs of this many arrivals, so that a place among 100,000 is found by adding up
/// some hundred numbers.
const RUN_BITS: u32 = 8;

type Run = (Reverse<Priority>, u64);

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Everybody who can be served.
    present: BTreeSet<Place>,
    /// The same, by what they want. Within a lane all want the same, so only its head can be next.
    lanes: BTreeMap<Demand, Lane>,
    /// Those of the present who want something of other pools too, with what they want of this one. In no lane: whether
    /// they are next is not for this pool alone to say.
    sets: BTreeMap<Place, Demand>,
    runs: BTreeMap<Run, usize>,
    /// Those whose session lost its connection: passed over, but their place is kept.
    away: BTreeSet<Place>,
    /// The resources that belong to the pool, for lanes to come. None in a pool of units.
    listed: Box<[Listed]>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Lane {
    places: BTreeSet<Place>,
    /// Which resources it could use. Kept, because evaluating its selector on each of them whenever something
    /// is free costs more than all the rest.
    matching: Ordinals,
}

/// What a selector asks of a resource.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) ordinal: u64,
    pub(crate) name: ResourceName,
    pub(crate) labels: Arc<Labels>,
}

impl Queue {
    /// Says which resources belong to the pool.
    pub(crate) fn list(&mut self, listed: Box<[Listed]>) {
        self.listed = listed;
        for (demand, lane) in &mut self.lanes {
            lane.matching = matching(&self.listed, demand);
        }
    }

    /// The resources that a demand could use: remembered if somebody here has it.
    pub(crate) fn matching(&self, demand: &Demand) -> Cow<'_, Ordinals> {
        match self.lanes.get(demand) {
            Some(lane) => Cow::Borrowed(&lane.matching),
            None => Cow::Owned(matching(&self.listed, demand)),
        }
    }

    pub(crate) fn enter(&mut self, place: Place, demand: &Demand) {
        self.enter_present(place);
        match self.lanes.get_mut(demand) {
            Some(lane) => {
                lane.places.insert(place);
            }
            None => {
                let lane = Lane { places: BTreeSet::from([place]), matching: matching(&self.listed, demand) };
                self.lanes.insert(demand.clone(), lane);
            }
        }
    }

    /// Somebody who wants something of other pools too.
    pub(crate) fn enter_set(&mut self, place: Place, demand: &Demand) {
        self.enter_present(place);
        self.sets.insert(place, demand.clone());
    }

    fn enter_present(&mut self, place: Place) {
        assert!(self.present.insert(place), "a waiter enters once");
        *self.runs.entry(run_of(place)).or_default() += 1;
    }

    pub(crate) fn enter_away(&mut self, place: Place) {
        assert!(self.away.insert(place), "a waiter goes away once");
    }

    /// Takes a waiter out, present or away.
    pub(crate) fn leave(&mut self, place: Place, demand: &Demand) {
        if self.away.remove(&place) {
            return;
        }
        assert!(self.present.remove(&place), "only a waiter leaves");
        // Most pools have none, and then this costs nothing.
        if self.sets.remove(&place).is_none() {
            let lane = self.lanes.get_mut(demand).expect("a present waiter is in its lane");
            lane.places.remove(&place);
            if lane.places.is_empty() {
                self.lanes.remove(demand);
            }
        }
        let run = self.runs.get_mut(&run_of(place)).expect("a present waiter is counted");
        *run -= 1;
        if *run == 0 {
            self.runs.remove(&run_of(place));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.present.is_empty() && self.away.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.present.len() + self.away.len()
    }

    pub(crate) fn is_away(&self, place: Place) -> bool {
        self.away.contains(&place)
    }

    pub(crate) fn head(&self) -> Option<Place> {
        self.present.first().copied()
    }

    /// The first of each lane with what it wants.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (Place, &Demand)> {
        self.lanes.iter().map(|(demand, lane)| (*lane.places.first().expect("an empty lane is removed"), demand))
    }

    /// Those who want something of other pools too, in order, with what they want of this one.
    pub(crate) fn sets(&self) -> impl Iterator<Item = (Place, &Demand)> {
        self.sets.iter().map(|(place, demand)| (*place, demand))
    }

    pub(crate) fn has_sets(&self) -> bool {
        !self.sets.is_empty()
    }

    pub(crate) fn has_lane(&self, demand: &Demand) -> bool {
        self.lanes.contains_key(demand)
    }

    pub(crate) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// How many are served before somebody at `place`.
    pub(crate) fn ahead_of(&self, place: Place) -> usize {
        let run = run_of(place);
        let run_start = Place::new(place.priority(), WaiterId(run.1 << RUN_BITS));
        let whole_runs: usize = self.runs.range(..run).map(|(_, count)| count).sum();
        whole_runs + self.present.range(run_start..place).count()
    }

    /// Everybody after a place, those away included.
    pub(crate) fn after(&self, place: Option<Place>) -> impl Iterator<Item = Place> {
        use core::ops::Bound::{Excluded, Unbounded};
        let from = place.map_or(Unbounded, Excluded);
        let mut present = self.present.range((from, Unbounded)).copied().peekable();
        let mut away = self.away.range((from, Unbounded)).copied().peekable();
        core::iter::from_fn(move || match (present.peek(), away.peek()) {
            (Some(here), Some(gone)) if gone < here => away.next(),
            (Some(_), _) => present.next(),
            (None, _) => away.next(),
        })
    }

    /// Who came first of all that wait, whatever the priority.
    pub(crate) fn oldest(&self) -> Option<WaiterId> {
        let mut oldest = None;
        let mut next = self.after(None).next();
        while let Some(first) = next {
            oldest = Some(oldest.map_or(first.arrival(), |old: WaiterId| old.min(first.arrival())));
            next = self.after(Some(Place::new(first.priority(), WaiterId(u64::MAX)))).next();
        }
        oldest
    }
}

fn matching(listed: &[Listed], demand: &Demand) -> Ordinals {
    listed.iter().filter(|it| fits(demand, &it.name, &it.labels)).map(|it| it.ordinal).collect()
}

/// A set of resources by the numbers they were declared with, 64 to a word, so that what is free, what matches
/// and what is claimed are compared word by word. Those of a pool are declared together: their words are dense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ordinals(Vec<Word>);

/// `ordinal / 64`, and a bit for each `ordinal % 64`. In order, and none without a bit.
type Word = (u64, u64);

impl Ordinals {
    fn find(&self, ordinal: u64) -> (Result<usize, usize>, u64) {
        (self.0.binary_search_by_key(&(ordinal / 64), |(at, _)| *at), 1 << (ordinal % 64))
    }

    pub(crate) fn insert(&mut self, ordinal: u64) {
        match self.find(ordinal) {
            (Ok(at), bit) => self.0[at].1 |= bit,
            (Err(at), bit) => self.0.insert(at, (ordinal / 64, bit)),
        }
    }

    pub(crate) fn remove(&mut self, ordinal: u64) {
        if let (Ok(at), bit) = self.find(ordinal) {
            self.0[at].1 &= !bit;
            if self.0[at].1 == 0 {
                self.0.remove(at);
            }
        }
    }

    pub(crate) fn contains(&self, ordinal: u64) -> bool {
        matches!(self.find(ordinal), (Ok(at), bit) if self.0[at].1 & bit != 0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|(_, bits)| bits.count_ones() as usize).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those in both.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let mut others = other.0.iter().peekable();
        let both = self.0.iter().filter_map(|(at, bits)| {
            while others.next_if(|(other, _)| other < at).is_some() {}
            let (_, other) = others.next_if(|(other, _)| other == at)?;
            (bits & other != 0).then_some((*at, bits & other))
        });
        Self(both.collect())
    }

    /// Takes those of another set out.
    pub(crate) fn subtract(&mut self, other: &Self) {
        let mut others = other.0.iter().peekable();
        self.0.retain_mut(|(at, bits)| {
            while others.next_if(|(other, _)| other < at).is_some() {}
            if let Some((_, other)) = others.next_if(|(other, _)| other == at) {
                *bits &= !other;
            }
            *bits != 0
        });
    }
}

impl FromIterator<u64> for Ordinals {
    fn from_iter<I: IntoIterator<Item = u64>>(ordinals: I) -> Self {
        let mut set = Self::default();
        for ordinal in ordinals {
            set.insert(ordinal);
        }
        set
    }
}

fn run_of(place: Place) -> Run {
    (Reverse(place.priority()), place.arrival().0 >> RUN_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Amount;

    #[test]
    fn a_place_counts_everybody_served_before_it() {
        let mut queue = Queue::default();
        let one = Demand { amount: Amount::Count(1), selector: None };
        let two = Demand { amount: Amount::Count(2), selector: None };
        let place = |n: u64| Place::new(Priority::parse((n % 3) as i64).expect("small"), WaiterId(n));
        for n in 0..2_000 {
            queue.enter(place(n), if n % 2 == 0 { &one } else { &two });
        }
        for n in (0..2_000).step_by(7) {
            queue.leave(place(n), if n % 2 == 0 { &one } else { &two });
        }
        for (ahead, present) in queue.after(None).enumerate() {
            assert_eq!(queue.ahead_of(present), ahead);
        }
        assert_eq!(queue.oldest(), Some(WaiterId(1)));
    }
}

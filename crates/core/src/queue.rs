//! The waiters of one pool, in order, with the two questions that must stay cheap however many wait: who is
//! at the head of each lane, and what place does somebody have.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::command::Demand;
use crate::names::{HolderId, Labels, Priority, ResourceName, WaiterId};
use crate::pool::fits;
use crate::view::{Place, Rank};

/// Waiters are counted in runs of this many arrivals, so that a place among 100,000 is found by adding up
/// some hundred numbers.
const RUN_BITS: u32 = 8;

/// The same where turns are counted in steps of some 100,000 (see `fair`): those of a few dozen steps are one run.
const RUN_BITS_IN_TURN: u32 = 24;

type Run = (Reverse<Priority>, i64);

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Everybody who can be served.
    present: BTreeSet<Place>,
    /// The same, by what they want. Within a lane all want the same, so only its head can be next.
    lanes: BTreeMap<Demand, Lane>,
    /// Those of the present who want something of other pools too, with what they want of this one. In no lane: whether
    /// they are next is not for this pool alone to say.
    sets: BTreeMap<Place, Demand>,
    /// Lanes of those holders that something is reserved for: they can be next where others with the same demand cannot.
    expected: BTreeMap<HolderId, BTreeMap<Demand, Lane>>,
    /// How many of all are not where their arrival would put them.
    ranked: usize,
    in_turn: bool,
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
        for (demand, lane) in self.lanes.iter_mut().chain(self.expected.values_mut().flatten()) {
            lane.matching = matching(&self.listed, demand);
        }
    }

    /// Says whether the pool serves its waiters in turn, which spreads their places.
    pub(crate) fn serve_in_turn(&mut self, in_turn: bool) {
        if in_turn != self.in_turn {
            self.in_turn = in_turn;
            self.runs.clear();
            for place in &self.present {
                *self.runs.entry(self.run_of(*place)).or_default() += 1;
            }
        }
    }

    /// Puts those who are present into their lanes anew: each with what it wants, and as whom if something is reserved for
    /// it.
    pub(crate) fn sort_into_lanes<'a>(
        &mut self,
        present: impl Iterator<Item = (Place, &'a Demand, Option<&'a HolderId>)>,
    ) {
        self.lanes.clear();
        self.expected.clear();
        for (place, demand, expected) in present {
            self.enter_lane(place, demand, expected);
        }
    }

    /// The resources that a demand could use: remembered if somebody here has it.
    pub(crate) fn matching(&self, demand: &Demand) -> Cow<'_, Ordinals> {
        match self.lanes.get(demand) {
            Some(lane) => Cow::Borrowed(&lane.matching),
            None => Cow::Owned(matching(&self.listed, demand)),
        }
    }

    /// `expected` is who it is, if something of the pool is reserved for it.
    pub(crate) fn enter(&mut self, place: Place, demand: &Demand, expected: Option<&HolderId>) {
        self.enter_present(place);
        self.enter_lane(place, demand, expected);
    }

    fn enter_lane(&mut self, place: Place, demand: &Demand, expected: Option<&HolderId>) {
        let lanes = match expected {
            None => &mut self.lanes,
            Some(holder) => self.expected.entry(holder.clone()).or_default(),
        };
        match lanes.get_mut(demand) {
            Some(lane) => {
                lane.places.insert(place);
            }
            None => {
                let lane = Lane { places: BTreeSet::from([place]), matching: matching(&self.listed, demand) };
                lanes.insert(demand.clone(), lane);
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
        self.ranked += usize::from(place.is_ranked());
        *self.runs.entry(self.run_of(place)).or_default() += 1;
    }

    pub(crate) fn enter_away(&mut self, place: Place) {
        assert!(self.away.insert(place), "a waiter goes away once");
        self.ranked += usize::from(place.is_ranked());
    }

    /// Takes a waiter out, present or away.
    pub(crate) fn leave(&mut self, place: Place, demand: &Demand, expected: Option<&HolderId>) {
        self.ranked -= usize::from(place.is_ranked());
        if self.away.remove(&place) {
            return;
        }
        assert!(self.present.remove(&place), "only a waiter leaves");
        // Most pools have no sets, and then this costs nothing.
        let set = self.sets.remove(&place).is_some();
        match expected {
            _ if set => {}
            None => leave_lane(&mut self.lanes, place, demand),
            Some(holder) => {
                let lanes = self.expected.get_mut(holder).expect("a present waiter is in its lane");
                leave_lane(lanes, place, demand);
                if lanes.is_empty() {
                    self.expected.remove(holder);
                }
            }
        }
        let at = self.run_of(place);
        let run = self.runs.get_mut(&at).expect("a present waiter is counted");
        *run -= 1;
        if *run == 0 {
            self.runs.remove(&at);
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

    /// The first of each lane with what it wants, and as whom if something is reserved for it.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (Place, &Demand, Option<&HolderId>)> {
        let head = |lane: &Lane| *lane.places.first().expect("an empty lane is removed");
        let expected = self.expected.iter().flat_map(move |(holder, lanes)| {
            lanes.iter().map(move |(demand, lane)| (head(lane), demand, Some(holder)))
        });
        self.lanes.iter().map(move |(demand, lane)| (head(lane), demand, None)).chain(expected)
    }

    /// Who comes after a place in the lane of those who want this, as that holder if something is reserved for it.
    pub(crate) fn next_in_lane(&self, place: Place, demand: &Demand, expected: Option<&HolderId>) -> Option<Place> {
        use core::ops::Bound::{Excluded, Unbounded};
        let lanes = match expected {
            None => &self.lanes,
            Some(holder) => self.expected.get(holder)?,
        };
        lanes.get(demand)?.places.range((Excluded(place), Unbounded)).next().copied()
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
        self.lanes.len() + self.expected.values().map(BTreeMap::len).sum::<usize>()
    }

    /// How many are served before somebody at `place`.
    pub(crate) fn ahead_of(&self, place: Place) -> usize {
        let run = self.run_of(place);
        let first = Rank { turn: run.1 << self.run_bits(), within: 0 };
        let run_start = Place::ranked(place.priority(), first, WaiterId(0));
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
        if self.ranked > 0 {
            return self.after(None).map(|place| place.arrival()).min();
        }
        let mut oldest = None;
        let mut next = self.after(None).next();
        while let Some(first) = next {
            oldest = Some(oldest.map_or(first.arrival(), |old: WaiterId| old.min(first.arrival())));
            next = self.after(Some(Place::end_of(first.priority()))).next();
        }
        oldest
    }

    /// The last of a priority.
    pub(crate) fn last(&self, priority: Priority) -> Option<Place> {
        let all = Place::ranked(priority, Rank { turn: i64::MIN, within: 0 }, WaiterId(0))..=Place::end_of(priority);
        self.present.range(all.clone()).next_back().max(self.away.range(all).next_back()).copied()
    }

    /// The place of somebody who comes now, where arrival decides: behind all of its priority, wherever they were put. It has a
    /// turn of its own, so that somebody can be put between it and those before it.
    pub(crate) fn place_of_arrival(&self, priority: Priority, arrival: WaiterId) -> Place {
        let place = Place::new(priority, arrival);
        match self.last(priority).filter(|_| self.ranked > 0) {
            Some(last) if last > place => Place::ranked(priority, Rank::at(last.rank().turn + 1), arrival),
            _ => place,
        }
    }

    /// The rank of somebody who comes for this turn: behind those who have the same, with room between them.
    pub(crate) fn rank_at(&self, priority: Priority, turn: i64) -> Rank {
        let at = |within, arrival| Place::ranked(priority, Rank { turn, within }, WaiterId(arrival));
        let same = at(0, 0)..=at(u32::MAX, u64::MAX);
        let last = self.present.range(same.clone()).next_back().max(self.away.range(same).next_back());
        match last.map(|last| last.rank().within).filter(|within| *within >= Rank::WITHIN) {
            Some(within) => Rank { turn, within: within + (u32::MAX - within) / 2 },
            None => Rank::at(turn),
        }
    }

    /// Who stands directly in front of a place, other than `but`; present or away.
    pub(crate) fn directly_before(&self, place: Place, but: WaiterId) -> Option<Place> {
        let before = |places: &BTreeSet<Place>| places.range(..place).rfind(|it| it.arrival() != but).copied();
        before(&self.present).max(before(&self.away))
    }

    fn run_bits(&self) -> u32 {
        if self.in_turn { RUN_BITS_IN_TURN } else { RUN_BITS }
    }

    fn run_of(&self, place: Place) -> Run {
        (Reverse(place.priority()), place.rank().turn >> self.run_bits())
    }
}

fn leave_lane(lanes: &mut BTreeMap<Demand, Lane>, place: Place, demand: &Demand) {
    let lane = lanes.get_mut(demand).expect("a present waiter is in its lane");
    lane.places.remove(&place);
    if lane.places.is_empty() {
        lanes.remove(demand);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Amount;

    #[test]
    fn a_place_counts_everybody_served_before_it() {
        let mut queue = Queue::default();
        let one = Demand { amount: Amount::Count(1), selector: None, dirty: false };
        let two = Demand { amount: Amount::Count(2), selector: None, dirty: false };
        let place = |n: u64| Place::new(Priority::parse((n % 3) as i64).expect("small"), WaiterId(n));
        for n in 0..2_000 {
            queue.enter(place(n), if n % 2 == 0 { &one } else { &two }, None);
        }
        for n in (0..2_000).step_by(7) {
            queue.leave(place(n), if n % 2 == 0 { &one } else { &two }, None);
        }
        for (ahead, present) in queue.after(None).enumerate() {
            assert_eq!(queue.ahead_of(present), ahead);
        }
        assert_eq!(queue.oldest(), Some(WaiterId(1)));
    }

    #[test]
    fn a_place_counts_everybody_before_it_where_turns_are_spread() {
        let mut queue = Queue::default();
        let one = Demand { amount: Amount::Count(1), selector: None, dirty: false };
        let place = |n: u64| {
            let turn = i64::try_from((n * 7_919) % 1_000).expect("small") * 720_720 - 1_000_000;
            Place::ranked(Priority::parse((n % 3) as i64).expect("small"), Rank::at(turn), WaiterId(n))
        };
        for n in 0..1_000 {
            queue.enter(place(n), &one, None);
        }
        queue.serve_in_turn(true);
        for n in (0..1_000).step_by(3) {
            queue.leave(place(n), &one, None);
        }
        for in_turn in [true, false] {
            queue.serve_in_turn(in_turn);
            for (ahead, present) in queue.after(None).enumerate() {
                assert_eq!(queue.ahead_of(present), ahead);
            }
        }
        assert_eq!(queue.oldest(), Some(WaiterId(1)));
    }
}

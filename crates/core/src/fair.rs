//! Turns by weight: which turn a waiter gets in a pool that serves groups of waiters in turn, and what has to be remembered
//! for it.
//!
//! Self-clocked fair queueing. A waiter's turn is decided when it comes: after the turn that was served last, and after the
//! last turn of its own group, by as much as it asks for divided by its group's weight. Turns are never changed afterwards,
//! and what is served moves the clock forward, so only a bounded number of later ones can come before anybody.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;

use crate::limits::{META_VALUE_BYTES_MAX, NAME_BYTES_MAX, WEIGHT_MAX, WEIGHTS_MAX};
use crate::names::{Holder, Invalid, LabelName, Priority};

/// What one unit moves a group of weight 1. Divides without remainder by the small weights that people use.
const STEP: i64 = 720_720;
/// A request for more counts as much as this many units, or one wait might use up all the turns there are.
const COST_MAX: u32 = 1_000;

/// How waiters of the same priority take turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FairShare {
    pub by: FairBy,
    /// Of those groups that do not weigh 1.
    weights: BTreeMap<Box<str>, u32>,
}

/// What makes a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FairBy {
    /// The holder's id.
    Holder,
    /// A value of the holder's metadata, such as its tenant. Those without it are one group, whose name is empty.
    Meta(LabelName),
}

impl FairShare {
    /// `by` is `holder`, or the name of a piece of metadata.
    pub fn parse<'a>(by: &str, weights: impl IntoIterator<Item = (&'a str, u32)>) -> Result<Self, Invalid> {
        let by = match by {
            "holder" => FairBy::Holder,
            name => FairBy::Meta(LabelName::parse(name).map_err(|error| Invalid::new("fair.by", error.why))?),
        };
        let refuse = |why| Err(Invalid::new("fair.weights", why));
        let mut parsed = BTreeMap::new();
        for (group, weight) in weights {
            if group.len() > META_VALUE_BYTES_MAX.max(NAME_BYTES_MAX) {
                return refuse(format!("has a group with a name of {} bytes", group.len()));
            }
            if !(1..=WEIGHT_MAX).contains(&weight) {
                return refuse(format!("has {weight} for `{group}`; it must lie between 1 and {WEIGHT_MAX}"));
            }
            if parsed.insert(Box::from(group), weight).is_some() {
                return refuse(format!("has `{group}` twice"));
            }
            if parsed.len() > WEIGHTS_MAX {
                return refuse(format!("has more than {WEIGHTS_MAX} entries"));
            }
        }
        Ok(Self { by, weights: parsed })
    }

    /// As it is parsed.
    pub fn by(&self) -> &str {
        match &self.by {
            FairBy::Holder => "holder",
            FairBy::Meta(name) => name.as_str(),
        }
    }

    pub fn weights(&self) -> impl Iterator<Item = (&str, u32)> {
        self.weights.iter().map(|(group, weight)| (&**group, *weight))
    }

    pub fn weight(&self, group: &str) -> u32 {
        self.weights.get(group).copied().unwrap_or(1)
    }

    pub fn group<'a>(&self, holder: &'a Holder) -> &'a str {
        match &self.by {
            FairBy::Holder => holder.id.as_str(),
            FairBy::Meta(name) => holder.meta().find(|(it, _)| *it == name.as_str()).map_or("", |(_, value)| value),
        }
    }

    /// How far a request for so much moves its group.
    pub fn cost(&self, group: &str, units: u32) -> i64 {
        i64::from(units.clamp(1, COST_MAX)) * STEP / i64::from(self.weight(group))
    }
}

/// Who takes turns in a pool, and how far they have come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Turns {
    pub(crate) share: FairShare,
    /// The turn that was served last, by priority, while somebody of that priority waits.
    clock: BTreeMap<Priority, i64>,
    /// How many wait with each turn. Not kept by groups alone, because turns of different priorities have nothing to do
    /// with each other.
    waiting: BTreeMap<Priority, BTreeMap<Box<str>, BTreeMap<i64, usize>>>,
}

impl Turns {
    pub(crate) fn new(share: FairShare) -> Self {
        Self { share, clock: BTreeMap::new(), waiting: BTreeMap::new() }
    }

    /// The turn of somebody who comes now and asks for so much.
    pub(crate) fn turn(&self, priority: Priority, holder: &Holder, units: u32) -> i64 {
        let group = self.share.group(holder);
        let last = self.waiting.get(&priority).and_then(|groups| groups.get(group)?.last_key_value());
        let last = last.map_or(0, |(turn, _)| *turn);
        let clock = self.clock.get(&priority).copied().unwrap_or(0);
        clock.max(last).saturating_add(self.share.cost(group, units))
    }

    pub(crate) fn enter(&mut self, priority: Priority, holder: &Holder, turn: i64) {
        let groups = self.waiting.entry(priority).or_default();
        *groups.entry(self.share.group(holder).into()).or_default().entry(turn).or_default() += 1;
    }

    pub(crate) fn leave(&mut self, priority: Priority, holder: &Holder, turn: i64, served: bool) {
        let group = self.share.group(holder);
        let groups = self.waiting.get_mut(&priority).expect("who leaves has entered");
        let turns = groups.get_mut(group).expect("who leaves has entered");
        let count = turns.get_mut(&turn).expect("who leaves has entered");
        *count -= 1;
        if *count == 0 {
            turns.remove(&turn);
        }
        if turns.is_empty() {
            groups.remove(group);
        }
        if groups.is_empty() {
            self.waiting.remove(&priority);
            self.clock.remove(&priority);
        } else if served {
            let clock = self.clock.entry(priority).or_default();
            *clock = turn.max(*clock);
        }
    }

    pub(crate) fn clock(&self) -> impl Iterator<Item = (Priority, i64)> {
        self.clock.iter().map(|(priority, turn)| (*priority, *turn))
    }

    pub(crate) fn set_clock(&mut self, priority: Priority, turn: i64) {
        self.clock.insert(priority, turn);
    }

    /// How many of a group wait, of the given priority.
    pub(crate) fn waiting(&self, priority: Priority, group: &str) -> usize {
        let turns = self.waiting.get(&priority).and_then(|groups| groups.get(group));
        turns.map_or(0, |turns| turns.values().sum())
    }
}

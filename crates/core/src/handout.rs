//! What a pool with scripts hands out before anything else is heard: how much its scripts may still cost, and the scores they
//! have given. Not part of the state: it is over before the next command, and events say what was granted.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::limits::HANDOUT_OPERATIONS_MAX;
use crate::names::{Labels, WaiterId};
use crate::policy::{Budget, Request, Sight};
use crate::time::Timestamp;

#[derive(Debug)]
pub(crate) struct Handout {
    left: u64,
    /// Not once it was too little: what is left to hand out is so without scripts.
    asks: bool,
    /// When the scores were given: they may be others later.
    at: Timestamp,
    pub(crate) place: Scores,
    pub(crate) order: Scores,
}

impl Default for Handout {
    fn default() -> Self {
        let (place, order) = (Scores::default(), Scores::default());
        Self { left: HANDOUT_OPERATIONS_MAX, asks: true, at: Timestamp::default(), place, order }
    }
}

impl Handout {
    /// Whether scripts may still be asked.
    pub(crate) fn asks(&self) -> bool {
        self.asks
    }

    /// For the next decision.
    pub(crate) fn budget(&mut self, at: Timestamp) -> Budget {
        if at != self.at {
            (self.at, self.place, self.order) = (at, Scores::default(), Scores::default());
        }
        Budget::at_most(self.left)
    }

    pub(crate) fn pay(&mut self, budget: &Budget) {
        self.left = self.left.saturating_sub(budget.spent());
        self.asks &= !budget.was_the_last();
    }
}

/// The scores of one script, by what it sees of a request and of a resource.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    requests: Kinds<WaiterId, Seen>,
    resources: Kinds<u64, Vec<Option<String>>>,
    /// By the kind of request.
    given: Vec<BTreeMap<Option<usize>, i64>>,
}

/// What looks the same to a script has the same number.
#[derive(Debug)]
struct Kinds<K, S> {
    of: BTreeMap<K, usize>,
    numbers: BTreeMap<S, usize>,
    count: usize,
}

/// What a script sees of a request that does not look at who asks.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    meta: Vec<Option<String>>,
    waited_ms: u64,
    units: u32,
    priority: i16,
    selector: Option<String>,
    dirty: bool,
}

impl Scores {
    /// The kind of a request.
    pub(crate) fn request(&mut self, id: WaiterId, request: &Request<'_>, sight: &Sight) -> usize {
        let seen = || {
            let meta = |name: &String| request.holder.meta().find(|(own, _)| own == name).map(|(_, it)| it.to_string());
            Some(Seen {
                meta: sight.meta.as_ref()?.iter().map(meta).collect(),
                waited_ms: if sight.waited { request.waited_ms } else { 0 },
                units: request.units,
                priority: request.priority.get(),
                selector: request.selector.map(ToString::to_string),
                dirty: request.dirty,
            })
        };
        let kind = self.requests.number(id, seen);
        self.given.resize_with(self.requests.count, BTreeMap::new);
        kind
    }

    /// The kind of a resource, which is known by its number in the pool.
    pub(crate) fn resource(&mut self, ordinal: u64, labels: &Labels, sight: &Sight) -> usize {
        let value = |name: &String| labels.get(name).map(ToString::to_string);
        self.resources.number(ordinal, || Some(sight.labels.as_ref()?.iter().map(value).collect()))
    }

    pub(crate) fn get(&self, request: usize, resource: Option<usize>) -> Option<i64> {
        self.given[request].get(&resource).copied()
    }

    pub(crate) fn keep(&mut self, request: usize, resource: Option<usize>, score: i64) {
        self.given[request].insert(resource, score);
    }
}

impl<K: Ord, S: Ord> Kinds<K, S> {
    /// Its own, if a script sees all of it.
    fn number(&mut self, id: K, seen: impl FnOnce() -> Option<S>) -> usize {
        if let Some(number) = self.of.get(&id) {
            return *number;
        }
        let number = match seen() {
            Some(seen) => *self.numbers.entry(seen).or_insert(self.count),
            None => self.count,
        };
        self.count = self.count.max(number + 1);
        self.of.insert(id, number);
        number
    }
}

impl<K, S> Default for Kinds<K, S> {
    fn default() -> Self {
        Self { of: BTreeMap::new(), numbers: BTreeMap::new(), count: 0 }
    }
}

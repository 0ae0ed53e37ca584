//! Looking through the log: which entries a question needs, and when to stop. Where entries come from is told
//! by [`Entries`], of which there are two: on disk, and in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use tenure_core::{Seq, Timestamp};

use super::{Entry, StoreError};
use crate::{EventPage, EventQuery, EventsGone, Recorded};

/// The most events in a page.
const PAGE_MAX: usize = 1_000;
/// How many events one call looks at: some tens of milliseconds' worth, so that a filter that matches
/// nothing does not keep anybody.
const LOOKED_AT_MAX: usize = 20_000;

/// Entries without a gap, whose times never decrease.
pub(super) trait Entries {
    /// The first event kept, and the last. The first is one after the last if there are none.
    fn bounds(&self) -> (Seq, Seq);

    /// Two events between which the first one at or after a time is, the second included. The second may be one after the last.
    fn near(&self, since: Timestamp) -> (Seq, Seq) {
        let _ = since;
        let (first, last) = self.bounds();
        (first, Seq(last.0 + 1))
    }

    /// The entry that has this event; none if it is no longer kept.
    fn entry_with(&self, seq: Seq) -> Result<Option<Arc<Entry>>, StoreError>;
}

impl Entry {
    /// The number of its last event.
    pub fn last(&self) -> Seq {
        Seq(self.first.0 + self.events.len() as u64 - 1)
    }
}

pub(super) fn events(log: &impl Entries, query: &EventQuery) -> Result<Result<EventPage, EventsGone>, StoreError> {
    if query.newest_first { newest_first(log, query).map(Ok) } else { oldest_first(log, query) }
}

fn oldest_first(log: &impl Entries, query: &EventQuery) -> Result<Result<EventPage, EventsGone>, StoreError> {
    let (first, last) = log.bounds();
    let mut next = match (query.after, query.filter.since) {
        (Some(after), _) if after.0 < first.0 - 1 => return Ok(Err(EventsGone { oldest: first })),
        (Some(after), _) => after.0.saturating_add(1),
        (None, Some(since)) => since_seq(log, since)?.0,
        (None, None) => first.0,
    };
    let mut page = Search::new(query);
    page.reached = (next > 1).then(|| Seq(next - 1));
    while next <= last.0 {
        let Some(entry) = log.entry_with(Seq(next))? else {
            // Let go since we began. If somebody asked for just these, they must know.
            let (first, _) = log.bounds();
            match page.looked_at {
                0 if query.after.is_some() => return Ok(Err(EventsGone { oldest: first })),
                0 => next = first.0.max(next + 1),
                _ => return Ok(Ok(page.end(false))),
            }
            continue;
        };
        // Later ones are later still.
        if query.filter.until.is_some_and(|until| entry.at >= until) {
            return Ok(Ok(page.end(true)));
        }
        for (seq, event) in (entry.first.0..).zip(&entry.events) {
            if seq < next || seq > last.0 {
                continue;
            }
            if page.is_full() {
                return Ok(Ok(page.end(false)));
            }
            page.look_at(Seq(seq), entry.at, event);
        }
        next = entry.last().0 + 1;
    }
    Ok(Ok(page.end(true)))
}

fn newest_first(log: &impl Entries, query: &EventQuery) -> Result<EventPage, StoreError> {
    let (first, last) = log.bounds();
    let mut next = match (query.after, query.filter.until) {
        (Some(before), _) => before.0.saturating_sub(1).min(last.0),
        (None, Some(until)) => since_seq(log, until)?.0 - 1,
        (None, None) => last.0,
    };
    let mut page = Search::new(query);
    page.reached = query.after;
    while next >= first.0 {
        // Older ones may be let go while we look.
        let Some(entry) = log.entry_with(Seq(next))? else { break };
        if query.filter.since.is_some_and(|since| entry.at < since) {
            break;
        }
        for (seq, event) in (entry.first.0..=entry.last().0).rev().zip(entry.events.iter().rev()) {
            if seq > next {
                continue;
            }
            if page.is_full() {
                return Ok(page.end(false));
            }
            page.look_at(Seq(seq), entry.at, event);
        }
        next = entry.first.0 - 1;
    }
    Ok(page.end(true))
}

/// The first event at or after a time, or the one after the last. By halving: times never decrease.
fn since_seq(log: &impl Entries, since: Timestamp) -> Result<Seq, StoreError> {
    let (Seq(mut low), Seq(mut high)) = log.near(since);
    while low < high {
        let middle = low + (high - low) / 2;
        match log.entry_with(Seq(middle))? {
            Some(entry) if entry.at >= since => high = entry.first.0.max(low),
            Some(entry) => low = entry.last().0 + 1,
            // Let go since we began, so it was before everything that is kept.
            None => low = middle + 1,
        }
    }
    Ok(Seq(low))
}

/// A page being filled.
struct Search<'a> {
    query: &'a EventQuery,
    limit: usize,
    items: Vec<Recorded>,
    looked_at: usize,
    reached: Option<Seq>,
}

impl<'a> Search<'a> {
    fn new(query: &'a EventQuery) -> Self {
        let limit = query.limit.clamp(1, PAGE_MAX);
        Self { query, limit, items: Vec::new(), looked_at: 0, reached: None }
    }

    fn is_full(&self) -> bool {
        self.items.len() == self.limit || self.looked_at == LOOKED_AT_MAX
    }

    fn look_at(&mut self, seq: Seq, at: Timestamp, event: &tenure_core::Event) {
        self.looked_at += 1;
        self.reached = Some(seq);
        if self.query.filter.matches(at, event) {
            self.items.push(Recorded { seq, at, event: event.clone() });
        }
    }

    fn end(self, done: bool) -> EventPage {
        EventPage { items: self.items, reached: self.reached, done }
    }
}

/// The last entries, in memory.
#[derive(Debug)]
pub(super) struct Recent {
    entries: VecDeque<Arc<Entry>>,
    events: usize,
    events_max: usize,
}

impl Recent {
    pub(super) fn new(events_max: usize) -> Self {
        Self { entries: VecDeque::new(), events: 0, events_max }
    }

    /// Forgets the oldest entries to make room, but never the one that is added.
    pub(super) fn push(&mut self, entry: Arc<Entry>) {
        self.events += entry.events.len();
        self.entries.push_back(entry);
        while self.events > self.events_max && self.entries.len() > 1 {
            let oldest = self.entries.pop_front().expect("there are two");
            self.events -= oldest.events.len();
        }
    }

    pub(super) fn first(&self) -> Option<Seq> {
        self.entries.front().map(|entry| entry.first)
    }

    pub(super) fn entry_with(&self, seq: Seq) -> Option<Arc<Entry>> {
        let after = self.entries.partition_point(|entry| entry.first <= seq);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        (seq <= entry.last()).then(|| entry.clone())
    }
}

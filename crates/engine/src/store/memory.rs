//! The store of those who ask for no durability: the last events, in memory, for history and watchers.

use std::sync::{Arc, PoisonError, RwLock};

use tenure_core::Seq;

use super::log::{self, Entries, Recent};
use super::{Commit, Entry, LogReader, Store, StoreError};
use crate::{EventPage, EventQuery, EventsGone};

/// About 50 MB when every event is a grant.
const EVENTS_MAX: usize = 65_536;

/// Keeps nothing but the last events.
#[derive(Debug)]
pub struct MemoryStore {
    log: Arc<Log>,
}

#[derive(Debug)]
struct Log(RwLock<(Recent, Seq)>);

impl MemoryStore {
    pub fn new() -> Self {
        Self::with_events_max(EVENTS_MAX)
    }

    /// Keeps about this many events.
    pub fn with_events_max(events_max: usize) -> Self {
        Self { log: Arc::new(Log(RwLock::new((Recent::new(events_max), Seq(0))))) }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    fn commit(&mut self, commit: Commit) -> Result<(), StoreError> {
        if let Some(entry) = &commit.entry {
            let mut log = self.log.0.write().unwrap_or_else(PoisonError::into_inner);
            log.1 = entry.last();
            log.0.push(entry.clone());
        }
        Ok(())
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        self.log.clone()
    }
}

impl Entries for Log {
    fn bounds(&self) -> (Seq, Seq) {
        let log = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (log.0.first().unwrap_or(Seq(log.1.0 + 1)), log.1)
    }

    fn entry_with(&self, seq: Seq) -> Result<Option<Arc<Entry>>, StoreError> {
        Ok(self.0.read().unwrap_or_else(PoisonError::into_inner).0.entry_with(seq))
    }
}

impl LogReader for Log {
    fn events(&self, query: &EventQuery) -> Result<Result<EventPage, EventsGone>, StoreError> {
        log::events(self, query)
    }
}

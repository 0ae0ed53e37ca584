//! The durable store: one fjall database, whose journal makes a batch durable with one sync.
//!
//! docs/storage.md draws the bytes, and says what is relied on.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;

use fjall::{AbstractTree, Database, Keyspace, PersistMode};
use tenure_core::{Seq, State, Timestamp, Ttl};

use super::codec::{self, LogBounds};
use super::directory::{Directory, Keyspaces};
use super::journal::{self, Written};
use super::layout::Address;
use super::log::{self, Entries, Recent};
use super::recovery::Recovery;
use super::rows::{RowChanges, Rows};
use super::{Commit, Entry, LogReader, Store, StoreError};
use crate::{EventPage, EventQuery, EventsGone};

/// How many entries a commit lets go at most, so that no commit does much more than another.
const RELEASED_PER_COMMIT_MAX: usize = 64;
/// How many of the oldest entries are looked up at a time, to know which to let go.
const OLDEST_LOOKED_UP: usize = 256;
/// Fewer if they are large.
const OLDEST_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Space is given back to the file system in pieces of about this size.
const RECLAIM_BYTES: u64 = 16 * 1024 * 1024;
/// Events kept decoded, so that watchers who keep up need not read the disk: about 10 MB.
const RECENT_EVENTS_MAX: usize = 16_384;

/// When a commit counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the disk has it: it survives a loss of power.
    #[default]
    Sync,
    /// When the operating system has it: it survives the end of the process, not that of the machine.
    Os,
}

/// How long the log is kept: until it is older than this, or larger than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub age: Ttl,
    pub bytes: u64,
}

impl Default for Retention {
    /// Long enough to find out on Monday what happened on Friday night.
    fn default() -> Self {
        Self { age: Ttl::from_millis(7 * 24 * 60 * 60 * 1_000), bytes: 1024 * 1024 * 1024 }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct DiskOptions {
    pub durability: Durability,
    pub retention: Retention,
    /// How long an undeclared pool may be idle.
    pub pool_idle: Ttl,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            retention: Retention::default(),
            pool_idle: tenure_core::Limits::default().pool_idle,
        }
    }
}

pub struct DiskStore {
    // In the order in which they are dropped: the lock goes last.
    reclaiming: Option<JoinHandle<()>>,
    log: Arc<Log>,
    keyspaces: Keyspaces,
    db: Database,
    directory: Directory,

    durability: Durability,
    retention: Retention,
    watermark: Seq,
    history: History,
    /// Rows of ended requests, oldest first: index of the first, and how many.
    ended: VecDeque<(u64, u64)>,
    /// Let go, but not yet given back.
    reclaimable: u64,
    failed: bool,
}

/// What is known of the log's older end.
#[derive(Debug, Default)]
struct History {
    bytes: u64,
    /// The time of the first entry kept.
    first_at: Option<Timestamp>,
    /// The oldest entries, if they were looked up.
    oldest: VecDeque<Stored>,
    /// It cannot be read, so nothing of it is let go.
    unreadable: bool,
}

#[derive(Clone, Copy, Debug)]
struct Stored {
    first: Seq,
    at: Timestamp,
    bytes: u64,
}

/// The log as readers see it: nothing before it is durable.
struct Log {
    entries: Keyspace,
    recent: RwLock<Recent>,
    /// The first event that is kept.
    first: AtomicU64,
    /// The last event that is durable.
    last: AtomicU64,
}

impl DiskStore {
    /// Opens the data directory, or makes it, and gives the state as of the last commit.
    pub fn open(dir: &Path, options: DiskOptions) -> Result<(Self, State), StoreError> {
        let directory = Directory::open(dir)?;
        let written = if directory.is_unsynced() { Written::Unsynced } else { Written::Synced };
        journal::check(&directory.db(), written)?;
        let (db, keyspaces) = directory.open_db()?;
        let recovered = recover(&keyspaces, options.pool_idle)?;
        let log = Arc::new(Log {
            entries: keyspaces.log.clone(),
            recent: RwLock::new(Recent::new(RECENT_EVENTS_MAX)),
            first: AtomicU64::new(recovered.first.0),
            last: AtomicU64::new(recovered.state.counters().seq.0),
        });
        let mut store = Self {
            reclaiming: None,
            log,
            keyspaces,
            db,
            directory,
            durability: options.durability,
            retention: options.retention,
            watermark: recovered.watermark,
            history: recovered.history,
            ended: recovered.ended,
            reclaimable: RECLAIM_BYTES,
            failed: false,
        };
        // So that the rows have all of the state again, and a crash right away has no more to replay.
        if let Some(rows) = recovered.rows {
            store.commit(&Commit { entry: None, rows: Some(rows) })?;
        }
        Ok((store, recovered.state))
    }

    /// Moves everything from memory into tables. The database does so by itself when there is enough; tests
    /// have little.
    #[doc(hidden)]
    pub fn flush(&self) -> Result<(), StoreError> {
        for keyspace in [&self.keyspaces.meta, &self.keyspaces.rows, &self.keyspaces.log] {
            keyspace.rotate_memtable_and_wait().map_err(read_error)?;
        }
        Ok(())
    }

    fn write(&mut self, commit: &Commit) -> Result<(), StoreError> {
        let persist = match self.durability {
            // The journal's length and where its blocks are get synced with its data, and nothing else about
            // it matters, so the cheaper of the two syncs does.
            Durability::Sync => PersistMode::SyncData,
            Durability::Os => PersistMode::Buffer,
        };
        let mut batch = self.db.batch().durability(Some(persist));
        let mut last = Seq(self.log.last.load(Ordering::Acquire));
        if let Some(entry) = &commit.entry {
            assert_eq!(entry.first.0, last.0 + 1, "entries are committed in order, without a gap");
            let value = codec::encode_entry(entry);
            self.history.bytes += stored_bytes(&value);
            self.history.first_at.get_or_insert(entry.at);
            batch.insert(&self.keyspaces.log, Address::Entry(entry.first).key(), value);
            last = entry.last();
        }
        if let Some(rows) = &commit.rows {
            assert!(rows.watermark <= last, "rows never have what the log has not");
            for (key, value) in &rows.puts {
                batch.insert(&self.keyspaces.rows, key.as_slice(), value.as_slice());
            }
            for key in &rows.deletes {
                batch.remove(&self.keyspaces.rows, key.as_slice());
            }
            self.ended.extend(rows.ended);
            while let Some((first, count)) = self.ended.front()
                && first + count <= rows.ended_forgotten
            {
                batch.remove(&self.keyspaces.rows, Address::Ended(*first).key());
                self.ended.pop_front();
            }
            batch.insert(&self.keyspaces.meta, Address::Watermark.key(), rows.watermark_value.as_slice());
            self.watermark = rows.watermark;
        }
        let first = match &commit.entry {
            Some(entry) => self.release(entry.at),
            None => self.log.first(),
        };
        if commit.rows.is_some() || first != self.log.first() {
            let bounds = LogBounds { first, last, bytes: self.history.bytes };
            batch.insert(&self.keyspaces.meta, Address::LogBounds.key(), codec::encode_bounds(bounds));
        }
        // The mark is there before the first write that it is about, and goes when a sync has covered the last: a
        // sync of the journal is one of everything in it, whoever wrote it.
        if self.durability == Durability::Os {
            self.directory.set_unsynced(true)?;
        }
        batch.commit().map_err(write_error)?;
        if self.durability == Durability::Sync {
            self.directory.set_unsynced(false)?;
        }
        // Only now: it is durable.
        if let Some(entry) = &commit.entry {
            self.log.recent.write().unwrap_or_else(PoisonError::into_inner).push(entry.clone());
            self.log.last.store(last.0, Ordering::Release);
        }
        self.log.first.store(first.0, Ordering::Release);
        Ok(())
    }

    /// Lets some of the oldest entries go, if they are too old or too much, and gives the first that stays.
    /// What has not reached the rows stays, and so does the last entry, to which the rows are compared.
    fn release(&mut self, now: Timestamp) -> Seq {
        let mut first = self.log.first();
        for _ in 0..RELEASED_PER_COMMIT_MAX {
            let old = self.history.first_at.is_some_and(|at| at + self.retention.age <= now);
            if self.history.unreadable || !old && self.history.bytes <= self.retention.bytes {
                break;
            }
            if self.history.oldest.len() < 2 {
                self.look_up_oldest(first);
            }
            let (Some(oldest), Some(next)) = (self.history.oldest.front(), self.history.oldest.get(1)) else { break };
            if next.first.0 - 1 > self.watermark.0 {
                break;
            }
            first = next.first;
            self.history.first_at = Some(next.at);
            self.history.bytes = self.history.bytes.saturating_sub(oldest.bytes);
            self.reclaimable += oldest.bytes;
            self.history.oldest.pop_front();
        }
        first
    }

    fn look_up_oldest(&mut self, first: Seq) {
        self.history.oldest.clear();
        let mut bytes = 0;
        for guard in self.keyspaces.log.range(Address::Entry(first).key()..).take(OLDEST_LOOKED_UP) {
            let found = guard.into_inner().map_err(read_error).and_then(|(key, value)| {
                let first = Address::of_entry(&key)?;
                let at = codec::decode_entry_time(first, &value)?;
                Ok(Stored { first, at, bytes: stored_bytes(&value) })
            });
            match found {
                Ok(stored) => {
                    self.history.oldest.push_back(stored);
                    bytes += stored.bytes;
                    if bytes > OLDEST_BYTES_MAX && self.history.oldest.len() >= 2 {
                        break;
                    }
                }
                // It stays then, and whoever reads it will hear why it cannot be read.
                Err(error) => {
                    tracing::warn!(%error, "cannot read the oldest part of the log, so it is kept");
                    self.history.unreadable = true;
                    break;
                }
            }
        }
    }

    /// Gives the space of what was let go back to the file system. Beside the commits: it waits for a
    /// compaction to end.
    fn reclaim(&mut self) {
        if self.reclaimable < RECLAIM_BYTES || self.reclaiming.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        self.reclaimable = 0;
        let log = self.log.clone();
        let reclaim = move || {
            // Whole tables only, so nothing is rewritten and no tombstones are left. Deleting the keys instead
            // would make every later compaction read all of the log.
            let before = Address::Entry(log.first()).key();
            if let Err(error) = log.entries.tree.drop_range(..before) {
                tracing::warn!(%error, "cannot give back the space of old log entries");
            }
        };
        self.reclaiming = std::thread::Builder::new().name("tenure-reclaim".into()).spawn(reclaim).ok();
    }
}

impl Store for DiskStore {
    fn commit(&mut self, commit: &Commit) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Io("an earlier commit failed, so nobody knows what is on the disk".into()));
        }
        if commit.entry.is_none() && commit.rows.is_none() {
            return Ok(());
        }
        self.write(commit).inspect_err(|_| self.failed = true)?;
        self.reclaim();
        Ok(())
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        self.log.clone()
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        if let Some(thread) = self.reclaiming.take() {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskStore")
            .field("watermark", &self.watermark)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl Log {
    fn first(&self) -> Seq {
        Seq(self.first.load(Ordering::Acquire))
    }

    fn read(&self, seq: Seq) -> Result<Option<Arc<Entry>>, StoreError> {
        // Most often the first event of an entry is asked for: the one after the last of another.
        let key = Address::Entry(seq).key();
        let (first, value) = match self.entries.get(&key).map_err(read_error)? {
            Some(value) => (seq, value),
            None => match self.entries.range(..key).next_back() {
                Some(guard) => {
                    let (key, value) = guard.into_inner().map_err(read_error)?;
                    (Address::of_entry(&key)?, value)
                }
                None => return Ok(None),
            },
        };
        let entry = codec::decode_entry(first, &value)?;
        Ok((entry.last() >= seq).then(|| Arc::new(entry)))
    }
}

impl Entries for Log {
    fn bounds(&self) -> (Seq, Seq) {
        (self.first(), Seq(self.last.load(Ordering::Acquire)))
    }

    fn entry_with(&self, seq: Seq) -> Result<Option<Arc<Entry>>, StoreError> {
        let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner).entry_with(seq);
        if recent.is_some() {
            return Ok(recent);
        }
        let found = self.read(seq)?;
        let (first, last) = self.bounds();
        if found.is_none() && (first..=last).contains(&seq) {
            return Err(StoreError::Damaged(format!("event {} is missing from the log", seq.0)));
        }
        Ok(found)
    }
}

impl LogReader for Log {
    fn events(&self, query: &EventQuery) -> Result<Result<EventPage, EventsGone>, StoreError> {
        log::events(self, query)
    }
}

struct Recovered {
    state: State,
    watermark: Seq,
    /// What was replayed, if anything was.
    rows: Option<RowChanges>,
    ended: VecDeque<(u64, u64)>,
    first: Seq,
    history: History,
}

fn recover(keyspaces: &Keyspaces, pool_idle: Ttl) -> Result<Recovered, StoreError> {
    let meta = |address: Address| {
        let value = keyspaces.meta.get(address.key()).map_err(read_error)?;
        value.ok_or_else(|| address.damaged("is missing"))
    };
    let watermark = codec::decode_watermark(&meta(Address::Watermark)?)?;
    let bounds = codec::decode_bounds(&meta(Address::LogBounds)?)?;
    let mut recovery = Recovery::new(watermark, pool_idle)?;
    // In this order because each refers to those before it.
    for kind in [b"p", b"s", b"h", b"w", b"e"] {
        for guard in keyspaces.rows.prefix(kind) {
            let (key, value) = guard.into_inner().map_err(read_error)?;
            recovery.row(&Address::of_row(&key)?, &value)?;
        }
    }
    recovery.rows_end()?;
    let mut rows = Rows::new(recovery.state());
    let watermark = watermark.counters.seq;
    let mut history = History { bytes: bounds.bytes, ..History::default() };
    for guard in keyspaces.log.range(Address::Entry(Seq(watermark.0 + 1)).key()..) {
        let (key, value) = guard.into_inner().map_err(read_error)?;
        let entry = codec::decode_entry(Address::of_entry(&key)?, &value)?;
        recovery.entry(&entry)?;
        entry.events.iter().for_each(|event| rows.note(event));
        if entry.first > bounds.last {
            history.bytes += stored_bytes(&value);
        }
    }
    let (state, ended) = recovery.finish();
    check_log_end(keyspaces, state.counters().seq)?;
    history.first_at = first_at(keyspaces, bounds.first);
    let rows = (state.counters().seq > watermark).then(|| rows.drain(&state));
    Ok(Recovered { state, watermark, rows, ended: ended.into(), first: bounds.first, history })
}

/// The time of an entry. The state does not need it, so if it cannot be read the server starts all the same.
fn first_at(keyspaces: &Keyspaces, first: Seq) -> Option<Timestamp> {
    let guard = keyspaces.log.range(Address::Entry(first).key()..).next()?;
    let read = guard.into_inner().map_err(read_error);
    let at = read.and_then(|(key, value)| codec::decode_entry_time(Address::of_entry(&key)?, &value));
    at.inspect_err(|error| tracing::warn!(%error, "cannot read the oldest part of the log")).ok()
}

/// The last entry is never let go, so that a log that lost its end is noticed.
fn check_log_end(keyspaces: &Keyspaces, last: Seq) -> Result<(), StoreError> {
    let found = match keyspaces.log.last_key_value() {
        Some(guard) => {
            let (key, value) = guard.into_inner().map_err(read_error)?;
            codec::decode_entry(Address::of_entry(&key)?, &value)?.last()
        }
        None => Seq(0),
    };
    if found == last {
        return Ok(());
    }
    Err(StoreError::Damaged(format!("the log ends with event {}, but the rows have event {}", found.0, last.0)))
}

fn stored_bytes(value: &[u8]) -> u64 {
    // The key is a number.
    value.len() as u64 + 8
}

fn write_error(error: fjall::Error) -> StoreError {
    let why = match error {
        fjall::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    };
    StoreError::Io(format!("cannot write to the data directory: {why}"))
}

fn read_error(error: fjall::Error) -> StoreError {
    match error {
        fjall::Error::Io(error) => StoreError::Io(format!("cannot read the data directory: {error}")),
        error => StoreError::Damaged(format!("the database cannot be read: {error}")),
    }
}

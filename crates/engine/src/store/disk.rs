//! The durable store: a tail that makes a batch durable with one sync, and a fjall database that gets the same batches
//! later, some at a time, with the rows.
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
use super::tail::{self, Tail};
use super::{Commit, Entry, LogReader, Store, StoreError};
use crate::{EventPage, EventQuery, EventsGone};

/// How many entries are let go for each that the database gets, so that it never has much more to do than usual.
const RELEASED_PER_ENTRY_MAX: usize = 64;
/// How many of the oldest entries are looked up at a time, to know which to let go.
const OLDEST_LOOKED_UP: usize = 256;
/// Fewer if they are large.
const OLDEST_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Space is given back to the file system in pieces of about this size.
const RECLAIM_BYTES: u64 = 16 * 1024 * 1024;
/// How much the database's journal may have that is not synced. Much at once would keep commits waiting for the disk.
const UNSYNCED_BYTES_MAX: u64 = 1024 * 1024;
/// How many events the database may lag behind the tail: with many at once each costs less.
const BEHIND_EVENTS_MAX: usize = 512;
/// Events kept decoded, so that watchers who keep up need not read the disk: about 10 MB. They
/// include all that the database lags behind.
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
    /// The size of tails, for tests that want to fill them, or none.
    #[doc(hidden)]
    pub tail_bytes: Option<u64>,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            retention: Retention::default(),
            pool_idle: tenure_core::Limits::default().pool_idle,
            tail_bytes: None,
        }
    }
}

pub struct DiskStore {
    // In the order in which they are dropped: the lock goes last.
    reclaiming: Option<JoinHandle<()>>,
    syncing: Option<JoinHandle<Result<(), StoreError>>>,
    log: Arc<Log>,
    keyspaces: Keyspaces,
    db: Database,
    directory: Directory,

    tail: Tail,
    behind: Behind,
    durability: Durability,
    retention: Retention,
    watermark: Seq,
    history: History,
    /// Rows of ended requests, oldest first: index of the first, and how many.
    ended: VecDeque<(u64, u64)>,
    /// Let go, but not yet given back.
    reclaimable: u64,
    /// Written to the journal since it was last told to be synced.
    unsynced: u64,
    failed: bool,
}

/// What the database has still to get. The tail has the entries.
#[derive(Default)]
struct Behind {
    entries: Vec<(Arc<Entry>, Vec<u8>)>,
    events: usize,
    rows: Option<RowChanges>,
}

impl Behind {
    fn push(&mut self, entry: Arc<Entry>, value: Vec<u8>) {
        self.events += entry.events.len();
        self.entries.push((entry, value));
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.rows.is_none()
    }
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
        let found = tail::read(&directory.db(), written)?;
        // The tail has what the end of the journal may not have.
        let cut = journal::check(&directory.db(), if found.is_empty() { written } else { Written::Unsynced })?;
        let tail = Tail::new(&directory.db(), &found, options.tail_bytes);
        // What is given up below would be in the way of what gets the same numbers.
        let is_obsolete = written == Written::Unsynced && !found.is_empty();
        let opened = directory.open_db().and_then(|(db, keyspaces)| {
            let recovered = recover(&keyspaces, found, written, options.pool_idle)?;
            Ok((db, keyspaces, recovered))
        });
        let (db, keyspaces, recovered) = match (opened, cut) {
            (Err(error), Some(cut)) => return Err(cut.undo(error)),
            (opened, _) => opened?,
        };
        let log = Arc::new(Log {
            entries: keyspaces.log.clone(),
            recent: RwLock::new(Recent::new(RECENT_EVENTS_MAX)),
            first: AtomicU64::new(recovered.first.0),
            last: AtomicU64::new(recovered.state.counters().seq.0),
        });
        let mut store = Self {
            reclaiming: None,
            syncing: None,
            log,
            keyspaces,
            db,
            directory,
            tail,
            behind: Behind::default(),
            durability: options.durability,
            retention: options.retention,
            watermark: recovered.watermark,
            history: recovered.history,
            ended: recovered.ended,
            reclaimable: RECLAIM_BYTES,
            unsynced: 0,
            failed: false,
        };
        recovered.tail.into_iter().for_each(|(entry, value)| store.behind.push(entry, value));
        store.behind.rows = recovered.rows;
        store.take_over(is_obsolete).inspect_err(|_| store.failed = true)?;
        Ok((store, recovered.state))
    }

    /// The first that is written: what the database lacks, so that a crash right away has no more to replay, and the rows have all
    /// of the state again. Tails that are obsolete go before the mark that excuses them.
    fn take_over(&mut self, are_tails_obsolete: bool) -> Result<(), StoreError> {
        let is_behind = !self.behind.is_empty();
        // What of them was acknowledged as synced, by an earlier server, stays so.
        if are_tails_obsolete {
            self.do_without_tails(PersistMode::SyncAll)?;
        }
        if is_behind {
            self.mark_unsynced()?;
            self.write_through()?;
        }
        self.directory.set_format()
    }

    /// Moves everything from memory into tables. The database does so by itself when there is enough; tests
    /// have little.
    #[doc(hidden)]
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.write_behind(PersistMode::Buffer)?;
        for keyspace in [&self.keyspaces.meta, &self.keyspaces.rows, &self.keyspaces.log] {
            keyspace.rotate_memtable_and_wait().map_err(read_error)?;
        }
        Ok(())
    }

    /// Makes a batch durable; the database gets it later.
    fn write(&mut self, commit: Commit) -> Result<(), StoreError> {
        self.mark_unsynced()?;
        if let Some(entry) = commit.entry {
            self.write_entry(&entry)?;
            // Only now: it is durable.
            self.log.recent.write().unwrap_or_else(PoisonError::into_inner).push(entry.clone());
            self.log.last.store(entry.last().0, Ordering::Release);
        }
        if let Some(rows) = commit.rows {
            // There is place for one, and rows come after their entries.
            if self.behind.rows.is_some() {
                self.write_behind(PersistMode::Buffer)?;
            }
            self.behind.rows = Some(rows);
        }
        Ok(())
    }

    fn write_entry(&mut self, entry: &Arc<Entry>) -> Result<(), StoreError> {
        assert_eq!(entry.first.0, self.log.last().0 + 1, "entries are committed in order, without a gap");
        let value = codec::encode_entry(entry);
        if !self.tail.has_room(&value) && self.tail.could_have_room(&value) {
            self.write_behind(PersistMode::Buffer)?;
            if !self.tail.is_prepared() {
                self.prepare_tail()?;
            }
            self.all_synced_so_far()?;
            self.tail.begin(entry.first)?;
        }
        if self.tail.has_room(&value) {
            self.tail.append(entry, &value, self.durability == Durability::Sync)?;
            self.behind.push(entry.clone(), value);
            self.all_synced()
        } else {
            // It is too large for a tail.
            self.behind.push(entry.clone(), value);
            self.tail.end();
            self.write_through()
        }
    }

    /// The mark is there before the first write that it is about.
    fn mark_unsynced(&mut self) -> Result<(), StoreError> {
        if self.durability == Durability::Os { self.directory.set_unsynced(true) } else { Ok(()) }
    }

    /// The mark goes when the last write that it is about is synced.
    fn all_synced(&mut self) -> Result<(), StoreError> {
        if self.durability == Durability::Os || !self.directory.is_unsynced() {
            return Ok(());
        }
        self.db.persist(PersistMode::SyncData).map_err(write_error)?;
        self.directory.set_unsynced(false)
    }

    /// Gives the database all that it lacks, and removes the tails: there is nothing in them that it has not.
    fn do_without_tails(&mut self, persist: PersistMode) -> Result<(), StoreError> {
        self.write_behind(PersistMode::Buffer)?;
        self.all_synced_so_far()?;
        self.db.persist(persist).map_err(write_error)?;
        self.tail.remove()
    }

    /// Gives the database all that it lacks, as durable as anything.
    fn write_through(&mut self) -> Result<(), StoreError> {
        let persist = match self.durability {
            // The journal's length and where its blocks are get synced with its data, and nothing else about
            // it matters, so the cheaper of the two syncs does.
            Durability::Sync => PersistMode::SyncData,
            Durability::Os => PersistMode::Buffer,
        };
        self.write_behind(persist)?;
        self.all_synced()
    }

    /// Gives the database all that it lacks.
    fn write_behind(&mut self, persist: PersistMode) -> Result<(), StoreError> {
        if self.behind.is_empty() {
            return Ok(());
        }
        let Behind { entries, rows, .. } = std::mem::take(&mut self.behind);
        let mut batch = self.db.batch().durability(Some(persist));
        let at = entries.last().map(|(entry, _)| entry.at);
        let last = entries.last().map_or(self.log.last(), |(entry, _)| entry.last());
        let released_max = RELEASED_PER_ENTRY_MAX * entries.len();
        for (entry, value) in entries {
            self.history.bytes += stored_bytes(&value);
            self.unsynced += stored_bytes(&value);
            self.history.first_at.get_or_insert(entry.at);
            batch.insert(&self.keyspaces.log, Address::Entry(entry.first).key(), value);
        }
        if let Some(rows) = &rows {
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
        let first = at.map_or(self.log.first(), |at| self.release(at, released_max));
        if rows.is_some() || first != self.log.first() {
            let bounds = LogBounds { first, last, bytes: self.history.bytes };
            batch.insert(&self.keyspaces.meta, Address::LogBounds.key(), codec::encode_bounds(bounds));
        }
        batch.commit().map_err(write_error)?;
        self.log.first.store(first.0, Ordering::Release);
        self.reclaim();
        Ok(())
    }

    fn prepare_tail(&mut self) -> Result<(), StoreError> {
        let db = self.directory.db();
        self.tail.prepare(move || journal::sync(&db))
    }

    /// What nobody waits for.
    fn follow(&mut self) -> Result<(), StoreError> {
        if self.behind.events >= BEHIND_EVENTS_MAX || self.behind.rows.is_some() {
            self.write_behind(PersistMode::Buffer)?;
        }
        if self.tail.is_half_full() {
            self.prepare_tail()?;
        }
        if self.unsynced >= UNSYNCED_BYTES_MAX && self.durability == Durability::Sync {
            self.sync_some()?;
        }
        Ok(())
    }

    /// Syncs the journal beside the commits, so that whoever makes the next tail ready, which relies on all of it, has less to do.
    fn sync_some(&mut self) -> Result<(), StoreError> {
        if self.syncing.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(());
        }
        self.all_synced_so_far()?;
        self.unsynced = 0;
        let db = self.directory.db();
        let sync = move || journal::sync(&db);
        self.syncing = std::thread::Builder::new().name("tenure-sync".into()).spawn(sync).ok();
        Ok(())
    }

    /// A sync that has failed is told once, so whoever makes the next tail ready may not hear of it.
    fn all_synced_so_far(&mut self) -> Result<(), StoreError> {
        match self.syncing.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(_)) => Err(StoreError::Io("cannot sync the journal".into())),
        }
    }

    /// Lets some of the oldest entries go, if they are too old or too much, and gives the first that stays.
    /// What has not reached the rows stays, and so does the last entry, to which the rows are compared.
    fn release(&mut self, now: Timestamp, released_max: usize) -> Seq {
        let mut first = self.log.first();
        for _ in 0..released_max {
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
    fn commit(&mut self, commit: Commit) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Io("an earlier commit failed, so nobody knows what is on the disk".into()));
        }
        self.write(commit).inspect_err(|_| self.failed = true)
    }

    fn follow(&mut self) -> Result<(), StoreError> {
        Self::follow(self).inspect_err(|_| self.failed = true)
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
        // Nor has this, if nobody relies on it any more; it must not outlive the lock.
        self.failed |= self.all_synced_so_far().is_err();
        let unused = !self.tail.is_used() && self.behind.is_empty();
        if !unused && !self.failed {
            let persist = if self.durability == Durability::Sync { PersistMode::SyncAll } else { PersistMode::Buffer };
            // If that fails, the next start finds the tail.
            let _ = self.do_without_tails(persist).and_then(|()| self.all_synced());
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

    fn last(&self) -> Seq {
        Seq(self.last.load(Ordering::Acquire))
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
        (self.first(), self.last())
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
    /// What the database has not got.
    tail: Vec<(Arc<Entry>, Vec<u8>)>,
    ended: VecDeque<(u64, u64)>,
    first: Seq,
    history: History,
}

fn recover(
    keyspaces: &Keyspaces,
    found: tail::Found,
    written: Written,
    pool_idle: Ttl,
) -> Result<Recovered, StoreError> {
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
    check_log_end(keyspaces, recovery.last())?;
    let mut tail = Vec::new();
    let mut generations = found.generations.into_iter().peekable();
    while let Some(generation) = generations.next() {
        let expected = Seq(recovery.last().0 + 1);
        if generation.base > expected {
            let why = format!("event {} is missing: the tail begins with event {}", expected.0, generation.base.0);
            tail::given_up(why, written)?;
            break;
        }
        // One of which the database has everything may be damaged: perhaps it was being begun anew.
        let is_needed = generations.peek().is_none_or(|newer| newer.base > expected);
        if let Some(why) = generation.damage.filter(|_| is_needed) {
            tail::given_up(why, written)?;
        }
        for (first, value) in generation.entries.into_iter().filter(|(first, _)| *first >= expected) {
            let entry = codec::decode_entry(first, &value)?;
            recovery.entry(&entry)?;
            entry.events.iter().for_each(|event| rows.note(event));
            tail.push((Arc::new(entry), value));
        }
    }
    let (state, ended) = recovery.finish();
    history.first_at = first_at(keyspaces, bounds.first);
    let rows = (state.counters().seq > watermark).then(|| rows.drain(&state));
    Ok(Recovered { state, watermark, rows, tail, ended: ended.into(), first: bounds.first, history })
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

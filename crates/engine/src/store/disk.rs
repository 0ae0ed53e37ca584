//! The durable store: a log in which a batch is durable after one sync, and a fjall database that gets the rows later.
//!
//! docs/storage.md draws the bytes, and says what is relied on.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, ready};

use fjall::{Database, Keyspace, PersistMode};
use tenure_core::{Seq, State, Timestamp, Ttl};

use super::background::{Background, Task};
use super::codec;
use super::directory::{Directory, Keyspaces};
use super::journal::{self, Written};
use super::layout::Address;
use super::log::{self, Entries, Recent};
use super::replay::{self, EachRow, Recovered, Replay, Replayed, Stored, replay_segments};
use super::rows::RowChanges;
use super::segments::{self, Folder, Found, Segments};
use super::{Commit, Entry, LogReader, Store, StoreError};
use crate::courtesy::Courtesy;
use crate::{EventPage, EventQuery, EventsGone};

/// How much the database's journal may have that is not synced. Much at once would keep commits waiting for the disk.
const UNSYNCED_BYTES_MAX: u64 = 1024 * 1024;
/// Events kept decoded, so that watchers who keep up need not read the disk: about 1 MB. With more, what is let go and used again has left
/// the processor's own memory.
const RECENT_EVENTS_MAX: usize = 2_048;
/// The thread that writes rows gives way after so many, for which it takes less time than a sync does.
const ROWS_BEFORE_YIELD: usize = 32;

/// When a commit counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the disk has it: it survives a loss of power.
    #[default]
    Sync,
    /// When the operating system has it: it survives the end of the process, not that of the machine.
    Os,
}

/// How long the log is kept: until it is older than this, or larger than that. It is let go in segments, so that some of it is
/// kept a little longer.
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
    /// The size of segments of the log, for tests that want to fill them.
    #[doc(hidden)]
    pub segment_bytes: Option<u64>,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            retention: Retention::default(),
            pool_idle: tenure_core::Limits::default().pool_idle,
            segment_bytes: None,
        }
    }
}

pub struct DiskStore {
    // In the order in which they are dropped: the lock goes last.
    background: Background,
    syncing: Option<Task<Result<(), StoreError>>>,
    writing: Option<Task<Result<(), StoreError>>>,
    writer: segments::Writer,
    log: Arc<Log>,
    keyspaces: Keyspaces,
    db: Database,
    directory: Directory,

    /// What the database has still to get.
    rows: Option<RowChanges>,
    durability: Durability,
    retention: Retention,
    /// Up to where the database has everything, but for what is being written, and up to where with that.
    watermark: Seq,
    watermark_next: Seq,
    /// Rows of ended requests, oldest first: index of the first, and how many.
    ended: VecDeque<(u64, u64)>,
    /// Written to the journal since it was last told to be synced.
    unsynced: u64,
    /// Something has changed that may let go of old segments.
    may_let_go: bool,
    is_used: bool,
    failed: bool,
    /// What was begun and is not yet known to be durable.
    under_way: Option<Commit>,
}

/// The log as readers see it: nothing before it is durable.
struct Log {
    segments: Arc<Segments>,
    recent: RwLock<Recent>,
    /// The first event that is kept.
    first: AtomicU64,
    /// The last event that is durable, and its time.
    last: AtomicU64,
    last_at: AtomicU64,
}

impl DiskStore {
    /// Opens the data directory, or makes it, and gives the state as of the last commit.
    pub fn open(dir: &Path, options: DiskOptions) -> Result<(Self, State), StoreError> {
        let directory = Directory::open(dir)?;
        let written = if directory.is_unsynced() { Written::Unsynced } else { Written::Synced };
        let files = Folder(directory.log());
        // Rows come after their entries and are not synced: what the journal lacks, the log has.
        let (found, journal) = match directory.has_old_log() {
            true => (Found::default(), written),
            false => (segments::find(&files)?, Written::Unsynced),
        };
        let cut = journal::check(&directory.db(), journal)?;
        let opened = directory.open_db().and_then(|(db, keyspaces)| {
            if let Some(cut) = &cut {
                cut.check([&keyspaces.meta, &keyspaces.rows])?;
            }
            let recovered =
                replay::recover(&keyspaces, options.pool_idle, |first, watermark, replay| match &keyspaces.old_log {
                    Some(old) => replay_old(old, watermark, replay),
                    None => replay_segments(&files, &found, first, watermark, written, replay),
                })?;
            Ok((db, keyspaces, recovered))
        });
        let (db, keyspaces, mut recovered) = match (opened, cut) {
            (Err(error), Some(cut)) => return Err(cut.undo(error)),
            (opened, _) => opened?,
        };
        let log = &mut recovered.log;
        let (listed, unreadable) = (std::mem::take(&mut log.listed), std::mem::take(&mut log.unreadable));
        let writer = segments::Writer::new(&directory.log(), listed, unreadable, &options);
        let log = Arc::new(Log {
            segments: writer.segments().clone(),
            recent: RwLock::new(Recent::new(RECENT_EVENTS_MAX)),
            first: AtomicU64::new(recovered.first.0),
            last: AtomicU64::new(recovered.state.counters().seq.0),
            last_at: AtomicU64::new(0),
        });
        let mut store = Self {
            background: Background::new("tenure-rows"),
            syncing: None,
            writing: None,
            log,
            keyspaces,
            db,
            directory,
            writer,
            rows: recovered.rows.take(),
            durability: options.durability,
            retention: options.retention,
            watermark: recovered.watermark,
            watermark_next: recovered.watermark,
            ended: std::mem::take(&mut recovered.ended),
            unsynced: 0,
            may_let_go: true,
            is_used: false,
            failed: false,
            under_way: None,
        };
        store.take_over(&mut recovered).inspect_err(|_| store.failed = true)?;
        Ok((store, recovered.state))
    }

    /// The first that is written: the log ends where it could be read, and the rows have all of the state again, so that a crash
    /// right away has no more to replay.
    fn take_over(&mut self, recovered: &mut Recovered) -> Result<(), StoreError> {
        if let Some(old) = self.keyspaces.old_log.take() {
            self.move_log(&old, recovered.first)?;
            self.write_all_rows()?;
            self.directory.set_format()?;
            return self.db.delete_keyspace(old).map_err(write_error);
        }
        // First what is behind the log's end: it must not be found again, when other events have got the same numbers.
        self.writer.remove(std::mem::take(&mut recovered.log.unneeded))?;
        if let Some(end) = recovered.log.end.take() {
            self.writer.resume(end)?;
        }
        if self.rows.is_some() { self.write_all_rows() } else { Ok(()) }
    }

    /// Earlier versions had the log in the database. Nothing of it is removed before all of it is in segments.
    fn move_log(&mut self, old: &Keyspace, first: Seq) -> Result<(), StoreError> {
        self.directory.make_log()?;
        for guard in old.range(Address::Entry(first).key()..) {
            let (key, value) = guard.into_inner().map_err(read_error)?;
            let entry = codec::decode_entry(Address::of_entry(&key)?, &value)?;
            self.writer.append(&entry, &value, false, self.retention.age)?;
        }
        self.log.segments.sync_all()
    }

    /// Moves everything from memory into tables. The database does so by itself when there is enough; tests
    /// have little.
    #[doc(hidden)]
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.write_rows()?;
        for keyspace in [&self.keyspaces.meta, &self.keyspaces.rows] {
            keyspace.rotate_memtable_and_wait().map_err(read_error)?;
        }
        Ok(())
    }

    /// Waits for what is done beside the commits, for tests that look at the files.
    #[doc(hidden)]
    pub fn settle(&mut self) -> Result<(), StoreError> {
        self.all_written_so_far()?;
        self.all_synced_so_far()?;
        self.writer.chores_done()
    }

    /// Begins to make a batch durable, beside what else is done if it may be; the database gets the rows later.
    fn begin_to_write(&mut self, commit: Commit, beside: bool) -> Result<(), StoreError> {
        self.is_used = true;
        self.mark_unsynced()?;
        if let Some(entry) = &commit.entry {
            assert_eq!(entry.first.0, self.log.last().0 + 1, "entries are committed in order, without a gap");
            let value = codec::encode_entry(entry);
            let (sync, age) = (self.durability == Durability::Sync, self.retention.age);
            self.may_let_go |= match beside && sync {
                true => self.writer.begin_to_append(entry, &value, age)?,
                false => self.writer.append(entry, &value, sync, age)?,
            };
        }
        self.under_way = Some(commit);
        Ok(())
    }

    /// What was begun is in the log, as durable as it is to be.
    fn written(&mut self) -> Result<(), StoreError> {
        let Some(commit) = self.under_way.take() else { return Ok(()) };
        if let Some(entry) = commit.entry {
            self.all_synced()?;
            // Only now: it is durable.
            self.log.last_at.store(entry.at.as_millis(), Ordering::Relaxed);
            let last = entry.last().0;
            self.log.recent.write().unwrap_or_else(PoisonError::into_inner).push(entry);
            self.log.last.store(last, Ordering::Release);
        }
        if let Some(rows) = commit.rows {
            self.add_rows(rows)?;
        }
        Ok(())
    }

    fn add_rows(&mut self, rows: RowChanges) -> Result<(), StoreError> {
        self.is_used = true;
        self.mark_unsynced()?;
        let known = self.rows.as_ref().map_or(self.watermark_next, |others| others.watermark);
        assert!(known <= rows.watermark, "rows are given in the order of their states");
        // There is place for one, beside those that are being written.
        if self.rows.is_some() {
            self.write_rows()?;
        }
        self.rows = Some(rows);
        Ok(())
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.failed {
            true => Err(StoreError::Io("an earlier commit failed, so nobody knows what is on the disk".into())),
            false => Ok(()),
        }
    }

    /// The mark is there before the first write that it is about.
    fn mark_unsynced(&mut self) -> Result<(), StoreError> {
        if self.durability == Durability::Os { self.directory.set_unsynced(true) } else { Ok(()) }
    }

    /// The mark goes when all that it is about is synced.
    fn all_synced(&mut self) -> Result<(), StoreError> {
        if self.durability == Durability::Os || !self.directory.is_unsynced() {
            return Ok(());
        }
        self.log.segments.sync_all()?;
        self.db.persist(PersistMode::SyncAll).map_err(write_error)?;
        self.directory.set_unsynced(false)
    }

    /// Gives the database all that it lacks, as durable as anything.
    fn write_all_rows(&mut self) -> Result<(), StoreError> {
        self.mark_unsynced()?;
        if self.directory.is_unsynced() {
            self.log.segments.sync_all()?;
        }
        self.write_rows()?;
        if self.durability == Durability::Sync {
            self.db.persist(PersistMode::SyncAll).map_err(write_error)?;
        }
        self.all_synced()
    }

    /// Gives the database the rows that it lacks.
    fn write_rows(&mut self) -> Result<(), StoreError> {
        self.all_written_so_far()?;
        if let Some(write) = self.rows_to_write(Courtesy::none())? {
            write()?;
        }
        self.rows_written();
        Ok(())
    }

    /// The same, beside the commits: thousands of rows take milliseconds, in which nobody would be answered.
    fn begin_to_write_rows(&mut self) -> Result<(), StoreError> {
        self.writing = self.rows_to_write(Courtesy::new())?.map(|write| self.background.begin(write));
        Ok(())
    }

    /// What writes them. The database never has what the log has not, whatever of both is lost.
    fn rows_to_write(
        &mut self,
        mut courtesy: Courtesy,
    ) -> Result<Option<impl FnOnce() -> Result<(), StoreError> + Send + use<>>, StoreError> {
        let Some(mut rows) = self.rows.take() else { return Ok(None) };
        assert!(rows.watermark <= self.log.last(), "rows never have what the log has not");
        if self.durability == Durability::Os {
            self.writer.sync()?;
        }
        self.watermark_next = rows.watermark;
        self.unsynced += rows.bytes();
        self.ended.extend(rows.ended);
        let mut forgotten = Vec::new();
        while let Some((first, count)) = self.ended.front()
            && first + count <= rows.ended_forgotten
        {
            forgotten.push(Address::Ended(*first).key());
            self.ended.pop_front();
        }
        let (db, keyspaces) = (self.db.clone(), self.keyspaces.clone());
        Ok(Some(move || {
            // In order, because the database finds the place of a row the faster the nearer it is to that of the row before.
            rows.puts.sort_unstable();
            let mut batch = db.batch().durability(Some(PersistMode::Buffer));
            for rows in rows.puts.chunks(ROWS_BEFORE_YIELD) {
                courtesy.give_way();
                for (key, value) in rows {
                    batch.insert(&keyspaces.rows, key.as_slice(), value.as_slice());
                }
            }
            for key in rows.deletes.iter().chain(&forgotten) {
                batch.remove(&keyspaces.rows, key.as_slice());
            }
            batch.insert(&keyspaces.meta, Address::Watermark.key(), rows.watermark_value.as_slice());
            batch.commit().map_err(write_error)
        }))
    }

    fn rows_written(&mut self) {
        self.may_let_go |= self.watermark != self.watermark_next;
        self.watermark = self.watermark_next;
    }

    /// Waits for the rows that are being written, if any are.
    fn all_written_so_far(&mut self) -> Result<(), StoreError> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        writing.join().map_err(|_| StoreError::Io("cannot write rows to the database".into()))??;
        self.rows_written();
        Ok(())
    }

    /// What nobody waits for.
    fn follow(&mut self) -> Result<(), StoreError> {
        self.writer.look_after_chores()?;
        if self.syncing.as_mut().is_some_and(Task::is_done) {
            self.all_synced_so_far()?;
        }
        if self.writing.as_mut().is_some_and(Task::is_done) {
            self.all_written_so_far()?;
        }
        if self.writing.is_none() {
            // It writes to the database too, and would wait for the rows.
            if std::mem::take(&mut self.may_let_go) {
                self.let_go()?;
            }
            self.begin_to_write_rows()?;
        }
        // They rely on what is being synced, and would not hear that it failed.
        if self.writer.has_chores() && self.syncing.is_none() {
            self.writer.do_chores(&self.directory.db());
        }
        let is_beside = self.writing.is_some() || self.syncing.is_some();
        if self.unsynced >= UNSYNCED_BYTES_MAX && self.durability == Durability::Sync && !is_beside {
            self.sync_some();
        }
        Ok(())
    }

    /// Lets old segments go, if the rows have what is in them.
    fn let_go(&mut self) -> Result<(), StoreError> {
        let now = self.log.last_at.load(Ordering::Relaxed);
        let before = Timestamp::from_millis(now.saturating_sub(self.retention.age.as_millis()));
        let gone = self.writer.dispensable(self.watermark, before, self.retention.bytes);
        let Some(first) = gone.last().and_then(|last| self.log.segments.after(last)) else { return Ok(()) };
        // It is on the disk before any of them is removed, so that one that is missing is known to be.
        let mut batch = self.db.batch().durability(Some(PersistMode::Buffer));
        batch.insert(&self.keyspaces.meta, Address::LogBounds.key(), codec::encode_first(first));
        batch.commit().map_err(write_error)?;
        self.log.first.store(first.0, Ordering::Release);
        self.writer.let_go(gone);
        Ok(())
    }

    /// Syncs the journal beside the commits, so that whoever relies on all of it has less to do.
    fn sync_some(&mut self) {
        self.unsynced = 0;
        let db = self.directory.db();
        self.syncing = Some(self.background.begin(move || journal::sync(&db)));
    }

    /// A sync that has failed is told once, so whoever syncs next may not hear of it.
    fn all_synced_so_far(&mut self) -> Result<(), StoreError> {
        match self.syncing.take().map(Task::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(_)) => Err(StoreError::Io("cannot sync the journal".into())),
        }
    }

    /// Brings everything up to date for good.
    fn close(&mut self) -> Result<(), StoreError> {
        let sync = self.durability == Durability::Sync;
        self.write_rows()?;
        // What is removed must be in the rows, whatever is lost.
        let persist = if sync || self.writer.has_let_go() { PersistMode::SyncAll } else { PersistMode::Buffer };
        self.db.persist(persist).map_err(write_error)?;
        self.writer.close(sync)
    }
}

impl Store for DiskStore {
    fn commit(&mut self, commit: Commit) -> Result<(), StoreError> {
        self.check()?;
        match commit {
            // Nothing that could meet what is under way.
            Commit { entry: None, rows } => rows.map_or(Ok(()), |rows| self.add_rows(rows)),
            commit => self.begin_to_write(commit, false).and_then(|()| self.written()),
        }
        .inspect_err(|_| self.failed = true)
    }

    fn begin(&mut self, commit: Commit) -> Result<(), StoreError> {
        self.check()?;
        self.begin_to_write(commit, true).inspect_err(|_| self.failed = true)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        let written = ready!(self.writer.poll(cx)).and_then(|()| self.written());
        Poll::Ready(written.inspect_err(|_| self.failed = true))
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
        // They must not outlive the lock.
        for done in [self.writer.wait(), self.all_written_so_far(), self.all_synced_so_far(), self.writer.chores_done()]
        {
            self.failed |= told(done);
        }
        if self.is_used && !self.failed {
            told(self.close());
        }
    }
}

/// Nobody waits for it, and nothing is lost: the log has it, and the next start finds what is there. Whether there was a mistake to tell of.
fn told(done: Result<(), StoreError>) -> bool {
    done.inspect_err(|error| tracing::error!(%error, "cannot bring the database up to date")).is_err()
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
}

impl Entries for Log {
    fn bounds(&self) -> (Seq, Seq) {
        (self.first(), self.last())
    }

    fn near(&self, since: Timestamp) -> (Seq, Seq) {
        let (first, last) = self.bounds();
        let (low, high) = self.segments.near(since).unwrap_or((first, None));
        (low.max(first), high.unwrap_or(Seq(last.0 + 1)).max(first))
    }

    fn entry_with(&self, seq: Seq) -> Result<Option<Arc<Entry>>, StoreError> {
        let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner).entry_with(seq);
        if recent.is_some() {
            return Ok(recent);
        }
        let found = self.segments.read(seq);
        let (first, last) = self.bounds();
        // Let go while it was being read, and perhaps written over.
        if seq < first {
            return Ok(None);
        }
        let found = found?;
        if found.is_none() && seq <= last {
            return Err(StoreError::Damaged(format!("event {} is missing from the log", seq.0)));
        }
        Ok(found.map(Arc::new))
    }
}

impl LogReader for Log {
    fn events(&self, query: &EventQuery) -> Result<Result<EventPage, EventsGone>, StoreError> {
        log::events(self, query)
    }
}

impl Stored for Keyspaces {
    fn meta(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.meta.get(key).map_err(read_error)?.map(|value| value.to_vec()))
    }

    fn rows(&self, kind: u8, each: &mut EachRow<'_>) -> Result<(), StoreError> {
        for guard in self.rows.prefix([kind]) {
            let (key, value) = guard.into_inner().map_err(read_error)?;
            each(&key, &value)?;
        }
        Ok(())
    }
}

/// The log as earlier versions had it, in the database.
fn replay_old(old: &Keyspace, watermark: Seq, replay: &mut Replay<'_>) -> Result<Replayed, StoreError> {
    for guard in old.range(Address::Entry(Seq(watermark.0 + 1)).key()..) {
        let (key, value) = guard.into_inner().map_err(read_error)?;
        replay(&codec::decode_entry(Address::of_entry(&key)?, &value)?)?;
    }
    // The last entry was never let go, so that a log that lost its end is noticed.
    let last = match old.last_key_value() {
        Some(guard) => {
            let (key, value) = guard.into_inner().map_err(read_error)?;
            codec::decode_entry(Address::of_entry(&key)?, &value)?.last()
        }
        None => Seq(0),
    };
    Ok(Replayed { last, ..Replayed::default() })
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

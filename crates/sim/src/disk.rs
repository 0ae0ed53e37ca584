//! A disk made of memory, of which only what was synced is sure to be there after a crash. The log's files have the store's own bytes in
//! its own places, written in whole blocks, and are read by what reads the real ones. The rows go to tables, a batch at a time, and are
//! synced now and then: a crash leaves the first few of those that were not. It is harder on what was not synced than a disk, which writes
//! sectors as a whole: only on the headers of files it is not, because for them that is relied on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tenure_core::{Event, Seq, State, Timestamp, Ttl};
use tenure_engine::simulation::{Log, LogWrite, Opened, RowWrite, Tables, Writer, look, open};
use tenure_engine::{
    Commit, Entry, EventPage, EventQuery, EventsGone, LogReader, Recorded, RowChanges, Store, StoreError,
};

use crate::plan::Left;
use crate::sabotage::Sabotage;

/// How large a hole is, at most.
const HOLE_BYTES: usize = 512;
/// The database is synced after so many batches of rows.
const UNSYNCED_MAX: usize = 3;

/// The disk, and the store that writes to it.
#[derive(Clone, Debug)]
pub struct Disk(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    log: Log,
    /// The rows that are sure to be there, and those that the system has in its memory.
    tables: Tables,
    unsynced: Vec<Vec<RowWrite>>,
    /// Rows that the store was given, and will write when it has time; and up to which event it was ever given any.
    rows: Option<RowChanges>,
    given: Seq,
    /// The last event that was synced.
    last: Seq,
    writing: Option<Writing>,
    writer: Writer,
    /// What will be left of what is written next, if its sync is going to fail.
    failing: Option<Left>,
    pool_idle: Ttl,
    sabotage: Option<Sabotage>,
    /// Of everything that was ever written.
    bytes: u64,
    /// Entries of which a part was left.
    torn: u64,
}

/// An entry whose sync has not returned.
#[derive(Debug)]
struct Writing {
    write: LogWrite,
    last: Seq,
    rows: Option<RowChanges>,
}

/// What a start finds.
#[derive(Debug)]
pub struct Found {
    pub state: State,
    pub entries: Vec<Entry>,
    /// What it writes first, so that there is no more to replay.
    pub rows: Option<RowChanges>,
}

impl Disk {
    pub fn new(pool_idle: Ttl, sabotage: Option<Sabotage>) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            log: Log::default(),
            tables: Tables::new(pool_idle),
            unsynced: Vec::new(),
            rows: None,
            given: Seq(0),
            last: Seq(0),
            writing: None,
            writer: Writer::default(),
            failing: None,
            pool_idle,
            sabotage,
            bytes: 0,
            torn: 0,
        })))
    }

    /// The next sync fails, and leaves this much of what it was to write.
    pub fn fail_next(&self, left: Left) {
        self.lock().failing = Some(left);
    }

    /// The power is gone. So much is left of what was not synced.
    pub fn lose_power(&self, left: Left) {
        let mut disk = self.lock();
        disk.leave_log(left);
        disk.leave_rows(left);
    }

    /// The last event that is sure to be there.
    pub fn durable(&self) -> Seq {
        self.lock().last
    }

    /// Files of the log that were begun, and entries of which a crash left a part.
    pub fn counts(&self) -> (u64, u64) {
        let disk = self.lock();
        (disk.writer.segments(), disk.torn)
    }

    /// A checksum of everything that was ever written.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Reads everything, as a start does.
    pub fn open(&self) -> Result<Found, StoreError> {
        let mut disk = self.lock();
        // The process that had this is gone.
        (disk.failing, disk.rows) = (None, None);
        // What it gave to the system is written, if the machine goes on.
        disk.leave_log(Left::All);
        let all = disk.tables(disk.unsynced.len());
        let pool_idle = disk.pool_idle;
        let Opened { state, writer, entries, rows } = open(&mut disk.log, &all, pool_idle)?;
        disk.writer = writer;
        disk.last = state.counters().seq;
        disk.given = Seq(0);
        Ok(Found { state, entries, rows })
    }

    /// What a start writes first, as a whole: it waits for it.
    pub fn write_first(&self, rows: &RowChanges) {
        let mut disk = self.lock();
        disk.write_rows(rows);
        disk.sync_rows();
    }

    /// What a start would read if the machine lost its power now, after the last sync and before anything else was begun, and the disk had
    /// `kept` of the batches of rows that were not synced: nothing is changed by looking.
    pub fn look(&self, kept: usize) -> Result<State, StoreError> {
        let disk = self.lock();
        look(&disk.log, &disk.tables(kept), disk.pool_idle)
    }

    /// Batches of rows that are not synced.
    pub fn unsynced(&self) -> usize {
        self.lock().unsynced.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn begin(&mut self, commit: Commit) {
        let Commit { entry, rows } = commit;
        let Some(entry) = entry else {
            // They need no sync of their own: the log has what they tell.
            rows.into_iter().for_each(|rows| self.add_rows(rows));
            return;
        };
        assert!(self.writing.is_none() || self.sabotage == Some(Sabotage::SyncsNothing), "one after the other");
        self.write_log();
        let write = match self.sabotage {
            Some(sabotage) if sabotage.rewrites_events() => {
                let events = entry.events.iter().map(|event| sabotage.rewrite(event.clone())).collect::<Vec<Event>>();
                self.writer.append(&mut self.log, &Entry { first: entry.first, at: entry.at, events })
            }
            _ => self.writer.append(&mut self.log, &entry),
        };
        self.writing = Some(Writing { write, last: entry.last(), rows });
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        let Some(writing) = &self.writing else { return Ok(()) };
        let last = writing.last;
        if let Some(left) = self.failing.take() {
            self.leave_log(left);
            return match self.sabotage {
                Some(Sabotage::IgnoresDiskErrors) => Ok(()),
                _ => Err(StoreError::Io("the disk failed".into())),
            };
        }
        self.last = last;
        // Otherwise it is really there only with the next one.
        if self.sabotage != Some(Sabotage::SyncsNothing) {
            self.write_log();
        }
        Ok(())
    }

    fn write_log(&mut self) {
        let Some(Writing { write, rows, .. }) = self.writing.take() else { return };
        self.note(&write.bytes);
        self.log.apply(&write);
        rows.into_iter().for_each(|rows| self.add_rows(rows));
    }

    fn add_rows(&mut self, rows: RowChanges) {
        assert!(self.given <= rows.watermark(), "rows are given in the order of their states");
        self.given = rows.watermark();
        // There is place for one.
        self.write_given_rows();
        self.rows = Some(rows);
    }

    fn write_given_rows(&mut self) {
        if let Some(rows) = self.rows.take() {
            self.write_rows(&rows);
        }
    }

    fn write_rows(&mut self, rows: &RowChanges) {
        let is_durable = rows.watermark() <= self.last;
        assert!(is_durable || self.sabotage == Some(Sabotage::WritesRowsFirst), "rows never have what the log has not");
        let writes = self.writer.rows(rows);
        for (_, key, value) in &writes {
            self.note(key);
            self.note(value.as_deref().unwrap_or_default());
        }
        self.unsynced.push(writes);
        if self.unsynced.len() > UNSYNCED_MAX {
            self.sync_rows();
        }
    }

    fn sync_rows(&mut self) {
        self.tables.apply(std::mem::take(&mut self.unsynced).into_iter().flatten());
    }

    /// With so many of the batches that were not synced.
    fn tables(&self, kept: usize) -> Tables {
        let mut tables = self.tables.clone();
        tables.apply(self.unsynced.iter().take(kept).flatten().cloned());
        tables
    }

    fn note(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.rotate_left(7) ^ checksum(bytes);
    }

    /// What a disk has of an entry whose sync did not return.
    fn leave_log(&mut self, left: Left) {
        let Some(Writing { mut write, rows, .. }) = self.writing.take() else { return };
        let before = self.log.before(&write);
        let is_new = |at: &usize| write.bytes[*at] != before[*at];
        let first = (0..before.len()).find(is_new).expect("an entry is not there before");
        let end = 1 + (first..before.len()).rfind(is_new).expect("there is a first");
        let within = |share: u16| match first + (end - first) * usize::from(share) / 256 {
            at if at < write.whole() => first,
            at => at,
        };
        let lost = match left {
            Left::Nothing => first..end,
            Left::Torn(share) => within(share)..end,
            Left::Hole(share) => within(share)..(within(share) + HOLE_BYTES.min((end - first).div_ceil(4))).min(end),
            Left::All => end..end,
        };
        self.torn += u64::from(!lost.is_empty() && lost != (first..end));
        write.bytes[lost.clone()].copy_from_slice(&before[lost]);
        self.note(&write.bytes);
        self.log.apply(&write);
        if self.sabotage == Some(Sabotage::WritesRowsFirst)
            && left != Left::All
            && let Some(rows) = rows
        {
            self.write_rows(&rows);
            self.sync_rows();
        }
    }

    /// What the database has of batches that were not synced: as many of the first as are left of anything.
    fn leave_rows(&mut self, left: Left) {
        self.rows = None;
        let kept = match left {
            Left::Nothing => 0,
            Left::Torn(share) | Left::Hole(share) => self.unsynced.len() * usize::from(share) / 256,
            Left::All => self.unsynced.len(),
        };
        self.unsynced.truncate(kept);
        self.sync_rows();
    }
}

impl Store for Disk {
    fn commit(&mut self, commit: Commit) -> Result<(), StoreError> {
        let mut disk = self.lock();
        let is_entry = commit.entry.is_some();
        disk.begin(commit);
        if is_entry { disk.finish() } else { Ok(()) }
    }

    fn begin(&mut self, commit: Commit) -> Result<(), StoreError> {
        self.lock().begin(commit);
        Ok(())
    }

    /// Whoever asks has waited until the sync returns.
    fn poll(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        Poll::Ready(self.lock().finish())
    }

    fn follow(&mut self) -> Result<(), StoreError> {
        self.lock().write_given_rows();
        Ok(())
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        Arc::new(self.clone())
    }
}

impl LogReader for Disk {
    /// All events after one, oldest first: whoever reads a simulated log reads all of it.
    fn events(&self, query: &EventQuery) -> Result<Result<EventPage, EventsGone>, StoreError> {
        let entries = self.lock().log.entries()?;
        let recorded = entries.into_iter().flat_map(|entry| {
            let at: Timestamp = entry.at;
            (entry.first.0..).zip(entry.events).map(move |(seq, event)| Recorded { seq: Seq(seq), at, event })
        });
        let after = query.after.unwrap_or_default();
        let items: Vec<_> =
            recorded.filter(|it| it.seq > after && query.filter.matches(it.at, &it.event)).take(query.limit).collect();
        let reached = items.last().map(|it| it.seq);
        Ok(Ok(EventPage { done: items.len() < query.limit, items, reached }))
    }
}

/// FNV-1a: enough to tell one run from another.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

//! A disk made of memory: a file that batches are appended to, of which only what was synced is sure to be there after a
//! crash. What is written are the store's real bytes; the file around them takes fjall's place, and promises what fjall's
//! journal does: after a crash a batch is there as a whole or not at all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::{Event, Seq, State, Timestamp, Ttl};
use tenure_engine::simulation::{Keyspace, Tables, Write, Writer};
use tenure_engine::{Commit, Entry, EventPage, EventQuery, EventsGone, LogReader, Recorded, Store, StoreError};

use crate::plan::Left;
use crate::sabotage::Sabotage;

/// What a disk writes at once.
const SECTOR_BYTES: usize = 512;

/// The disk, and the store that writes to it.
#[derive(Clone, Debug)]
pub struct Disk(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    /// What was synced, read.
    tables: Tables,
    /// The last event that was synced.
    last: Seq,
    /// What follows it: a batch whose sync has not returned, or what a crash has left of it.
    tail: Vec<u8>,
    writer: Writer,
    /// What will be left of the next batch, if its sync is going to fail.
    failing: Option<Left>,
    pool_idle: Ttl,
    sabotage: Option<Sabotage>,
    syncs: u64,
    /// Of everything that was ever written.
    bytes: u64,
}

/// What a start finds.
#[derive(Debug)]
pub struct Found {
    pub state: State,
    pub entries: Vec<Entry>,
    /// What it writes first, so that there is no more to replay.
    pub first: Option<Commit>,
}

impl Disk {
    pub fn new(pool_idle: Ttl, sabotage: Option<Sabotage>) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            tables: Tables::new(pool_idle),
            last: Seq(0),
            tail: Vec::new(),
            writer: Writer::default(),
            failing: None,
            pool_idle,
            sabotage,
            syncs: 0,
            bytes: 0,
        })))
    }

    /// The next sync fails, and leaves this much.
    pub fn fail_next(&self, left: Left) {
        self.lock().failing = Some(left);
    }

    pub fn is_failing(&self) -> bool {
        self.lock().failing.is_some()
    }

    /// The power is gone while this was being written.
    pub fn tear(&self, commit: &Commit, left: Left) {
        let mut disk = self.lock();
        let writes = disk.writes(commit);
        disk.leave(&writes, left);
    }

    /// The last event that is sure to be there.
    pub fn durable(&self) -> Seq {
        self.lock().last
    }

    /// A checksum of everything that was ever written.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// Reads everything, as a start does.
    pub fn open(&self) -> Result<Found, StoreError> {
        let mut disk = self.lock();
        disk.failing = None;
        let tail = std::mem::take(&mut disk.tail);
        let whole = read(&tail, disk.sabotage == Some(Sabotage::TrustsTornWrites));
        for batch in whole {
            disk.sync(batch);
        }
        let (state, writer, first) = disk.tables.recover(disk.pool_idle)?;
        disk.writer = writer;
        disk.last = state.counters().seq;
        Ok(Found { state, entries: disk.tables.entries()?, first })
    }

    /// What a start would read if the machine stopped now: nothing is changed by looking.
    pub fn look(&self) -> Result<State, StoreError> {
        let disk = self.lock();
        disk.tables.recover(disk.pool_idle).map(|(state, _, _)| state)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The bytes of a commit, always in the same order.
    fn writes(&mut self, commit: &Commit) -> Vec<Write> {
        let mut writes = match (self.sabotage, &commit.entry) {
            (Some(sabotage), Some(entry)) if sabotage.rewrites_events() => {
                let events = entry.events.iter().map(|event| sabotage.rewrite(event.clone())).collect::<Vec<Event>>();
                let entry = Some(Arc::new(Entry { first: entry.first, at: entry.at, events }));
                let mut writes = self.writer.writes(&Commit { entry, rows: None });
                if let Some(rows) = &commit.rows {
                    writes.extend(self.writer.row_writes(rows));
                }
                writes
            }
            _ => self.writer.writes(commit),
        };
        writes.sort();
        writes
    }

    fn commit(&mut self, commit: &Commit) -> Result<(), StoreError> {
        let writes = self.writes(commit);
        if self.sabotage == Some(Sabotage::SyncsNothing) {
            // Only with the next one is it really there.
            let before = std::mem::replace(&mut self.tail, encode(&writes));
            read(&before, false).into_iter().for_each(|batch| self.sync(batch));
            self.last = commit.entry.as_ref().map_or(self.last, |entry| entry.last());
            return Ok(());
        }
        match self.failing.take() {
            Some(left) => {
                self.leave(&writes, left);
                if self.sabotage == Some(Sabotage::IgnoresDiskErrors) {
                    return Ok(());
                }
                Err(StoreError::Io("the disk failed".into()))
            }
            None => {
                self.sync(writes);
                self.syncs += 1;
                self.last = commit.entry.as_ref().map_or(self.last, |entry| entry.last());
                Ok(())
            }
        }
    }

    fn sync(&mut self, writes: Vec<Write>) {
        for (_, key, value) in &writes {
            let value = checksum(value.as_deref().unwrap_or_default());
            self.bytes = self.bytes.rotate_left(7) ^ checksum(key) ^ value;
        }
        self.tables.apply(writes);
    }

    fn leave(&mut self, writes: &[Write], left: Left) {
        let mut bytes = encode(writes);
        match left {
            Left::Nothing => bytes.clear(),
            Left::Torn(share) => bytes.truncate(bytes.len() * usize::from(share) / 256),
            Left::Hole(share) => {
                let sectors = bytes.len().div_ceil(SECTOR_BYTES);
                let first = sectors * usize::from(share) / 256 * SECTOR_BYTES;
                let last = (first + SECTOR_BYTES).min(bytes.len());
                bytes[first..last].fill(0);
            }
            Left::All => {}
        }
        if self.sabotage == Some(Sabotage::WritesRowsFirst) && left != Left::All {
            self.sync(writes.iter().filter(|(keyspace, ..)| *keyspace != Keyspace::Log).cloned().collect());
        }
        self.tail = bytes;
    }
}

impl Store for Disk {
    fn commit(&mut self, commit: Commit) -> Result<(), StoreError> {
        self.lock().commit(&commit)
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        Arc::new(self.clone())
    }
}

impl LogReader for Disk {
    /// All events after one, oldest first: whoever reads a simulated log reads all of it.
    fn events(&self, query: &EventQuery) -> Result<Result<EventPage, EventsGone>, StoreError> {
        let entries = self.lock().tables.entries()?;
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

/// A length, a checksum, and for each write its keyspace, key and value.
fn encode(writes: &[Write]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (keyspace, key, value) in writes {
        payload.push(match keyspace {
            Keyspace::Meta => 0,
            Keyspace::Rows => 1,
            Keyspace::Log => 2,
        });
        push(&mut payload, key);
        payload.push(u8::from(value.is_some()));
        push(&mut payload, value.as_deref().unwrap_or_default());
    }
    let mut bytes = Vec::new();
    bytes.extend(length(payload.len()).to_le_bytes());
    bytes.extend(checksum(&payload).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// The batches that are there as a whole. What follows the first that is not was never answered.
fn read(mut bytes: &[u8], trusting: bool) -> Vec<Vec<Write>> {
    let mut batches = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>()
        && let Some((sum, rest)) = rest.split_first_chunk::<8>()
    {
        let length = u32::from_le_bytes(*length) as usize;
        let (payload, rest) = rest.split_at(length.min(rest.len()));
        let whole = payload.len() == length && length > 0 && checksum(payload) == u64::from_le_bytes(*sum);
        if !whole && !trusting {
            break;
        }
        batches.push(decode(payload));
        bytes = rest;
    }
    batches
}

fn decode(mut payload: &[u8]) -> Vec<Write> {
    let mut writes = Vec::new();
    while let Some((keyspace, rest)) = payload.split_first() {
        let keyspace = match keyspace {
            0 => Keyspace::Meta,
            1 => Keyspace::Rows,
            _ => Keyspace::Log,
        };
        let Some((key, rest)) = take(rest) else { break };
        let Some((is_put, rest)) = rest.split_first() else { break };
        let Some((value, rest)) = take(rest) else { break };
        writes.push((keyspace, key.to_vec(), (*is_put == 1).then(|| value.to_vec())));
        payload = rest;
    }
    writes
}

fn push(bytes: &mut Vec<u8>, piece: &[u8]) {
    bytes.extend(length(piece.len()).to_le_bytes());
    bytes.extend(piece);
}

fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a batch is far smaller than 4 GiB")
}

/// FNV-1a: enough to tell a torn batch from a whole one.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

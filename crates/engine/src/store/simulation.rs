//! For simulators whose disk is made of memory: the writes of a commit as bytes, and what a start makes of what is left of them. The bytes
//! of the log, their places, and all that reads them are the real ones; instead of the database there are tables, which promise what it
//! does: of the batches that were not synced, a crash leaves the first few, each as a whole. Not part of the interface.

use std::collections::{BTreeMap, VecDeque};

use tenure_core::{Seq, State, Ttl};

use super::codec;
use super::journal::Written;
use super::layout::Address;
use super::replay::{self, EachRow, Recovered, Stored, replay_segments};
use super::rows::RowChanges;
use super::segments::{
    self, BLOCK_BYTES, Contents, ENTRIES_BEGIN, Files, HEADER_BYTES, RECORD_ALIGN, header, record_bytes, record_header,
};
use super::{Entry, StoreError};

/// Small, so that a run fills some.
const SEGMENT_BYTES: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keyspace {
    Meta,
    Rows,
}

/// A row, or none to delete what is there.
pub type RowWrite = (Keyspace, Vec<u8>, Option<Vec<u8>>);

/// What is in the database.
#[derive(Clone, Debug, Default)]
pub struct Tables(BTreeMap<(Keyspace, Vec<u8>), Vec<u8>>);

/// The files of the log, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Log(BTreeMap<u64, Vec<u8>>);

/// Bytes on their way to a file of the log: whole blocks, of which the first may have been written before.
#[derive(Clone, Debug)]
pub struct LogWrite {
    number: u64,
    at: usize,
    pub bytes: Vec<u8>,
}

impl LogWrite {
    /// How much of it is written as a whole or not at all, because it lies in a sector and is relied on to be.
    pub fn whole(&self) -> usize {
        if self.at == 0 { HEADER_BYTES } else { 0 }
    }
}

/// What a start finds.
#[derive(Debug)]
pub struct Opened {
    pub state: State,
    pub writer: Writer,
    /// All that the log has.
    pub entries: Vec<Entry>,
    /// What the rows lack, which a start writes first.
    pub rows: Option<RowChanges>,
}

impl Tables {
    /// What a new data directory has.
    pub fn new(pool_idle: Ttl) -> Self {
        let mut tables = Self::default();
        let watermark = codec::encode_watermark(&State::new(pool_idle));
        tables.apply([
            (Keyspace::Meta, Address::Watermark.key(), Some(watermark)),
            (Keyspace::Meta, Address::LogBounds.key(), Some(codec::encode_first(Seq(1)))),
        ]);
        tables
    }

    pub fn apply(&mut self, writes: impl IntoIterator<Item = RowWrite>) {
        for (keyspace, key, value) in writes {
            match value {
                Some(value) => self.0.insert((keyspace, key), value),
                None => self.0.remove(&(keyspace, key)),
            };
        }
    }
}

impl Stored for Tables {
    fn meta(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(&(Keyspace::Meta, key.to_vec())).cloned())
    }

    fn rows(&self, kind: u8, each: &mut EachRow<'_>) -> Result<(), StoreError> {
        let rows = self.0.range((Keyspace::Rows, vec![kind])..);
        let mut rows = rows.take_while(|((_, key), _)| key.first() == Some(&kind));
        rows.try_for_each(|((_, key), value)| each(key, value))
    }
}

impl Files for Log {
    fn numbers(&self) -> Result<Vec<u64>, StoreError> {
        Ok(self.0.keys().copied().collect())
    }

    fn name(&self, number: u64) -> String {
        format!("{number}.log")
    }

    fn begin(&self, number: u64, most: usize) -> Result<(Vec<u8>, u64), StoreError> {
        let file = &self.0[&number];
        Ok((file[..file.len().min(most)].to_vec(), file.len() as u64))
    }

    fn read(&self, number: u64) -> Result<Vec<u8>, StoreError> {
        Ok(self.0[&number].clone())
    }
}

impl Log {
    /// What was written is in the file.
    pub fn apply(&mut self, LogWrite { number, at, bytes }: &LogWrite) {
        let file = self.0.get_mut(number).expect("it was made before");
        file[*at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// What is in the file where this would go.
    pub fn before(&self, LogWrite { number, at, bytes }: &LogWrite) -> Vec<u8> {
        self.0[number][*at..at + bytes.len()].to_vec()
    }

    /// Some files are made of one that was let go, and have its bytes but for its beginning.
    fn use_again(&mut self, old: u64, number: u64) {
        let mut file = self.0[&old].clone();
        file[..HEADER_BYTES].fill(0);
        self.0.insert(number, file);
    }

    /// All entries that can be read, oldest first.
    pub fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let found = segments::find(self)?;
        let begun: Vec<_> = found.segments.iter().filter_map(|segment| segment.as_ref().ok()).collect();
        let mut entries = Vec::new();
        for (index, segment) in begun.iter().enumerate() {
            let bytes = &self.0[&segment.number];
            let end = begun.get(index + 1).map(|next| next.base);
            for (first, value) in Contents::read(bytes, segment, segment.base, end).needed {
                entries.push(codec::decode_entry(first, &bytes[value])?);
            }
        }
        Ok(entries)
    }
}

/// What opening the data directory makes of it, without changing anything.
fn recover(log: &Log, tables: &Tables, pool_idle: Ttl) -> Result<Recovered, StoreError> {
    let found = segments::find(log)?;
    replay::recover(tables, pool_idle, |first, watermark, replay| {
        replay_segments(log, &found, first, watermark, Written::Synced, replay)
    })
}

/// The state that a start would have.
pub fn look(log: &Log, tables: &Tables, pool_idle: Ttl) -> Result<State, StoreError> {
    recover(log, tables, pool_idle).map(|recovered| recovered.state)
}

/// Opens what is there. As in a real start, what is behind the log's end is nobody's, and goes.
pub fn open(log: &mut Log, tables: &Tables, pool_idle: Ttl) -> Result<Opened, StoreError> {
    let Recovered { state, rows, ended, log: read, .. } = recover(log, tables, pool_idle)?;
    log.0.retain(|number, _| !read.unneeded.contains(number));
    let mut current = None;
    if let Some(end) = read.end {
        let newest = read.listed.back().expect("the log ends in a segment");
        let at = usize::try_from(end.at).expect("it is in memory");
        log.0.get_mut(&end.number).expect("it was read").truncate(at);
        current = Some(Current { number: end.number, salt: newest.salt, at });
    }
    let writer = Writer { last: state.counters().seq, current, ended };
    Ok(Opened { state, writer, entries: log.entries()?, rows })
}

/// Turns commits into writes.
#[derive(Debug, Default)]
pub struct Writer {
    last: Seq,
    current: Option<Current>,
    /// Rows of ended requests, oldest first: index of the first, and how many.
    ended: VecDeque<(u64, u64)>,
}

/// The segment that is being filled.
#[derive(Debug)]
struct Current {
    number: u64,
    salt: u64,
    /// Where the next entry goes.
    at: usize,
}

impl Writer {
    /// How many files of the log were begun.
    pub fn segments(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.number)
    }

    /// What appends an entry, in the place where it belongs. A file that is needed is there at once, as one that was made beforehand.
    pub fn append(&mut self, log: &mut Log, entry: &Entry) -> LogWrite {
        assert_eq!(entry.first.0, self.last.0 + 1, "entries are committed in order, without a gap");
        self.last = entry.last();
        let value = codec::encode_entry(entry);
        let needed = record_bytes(&value);
        let has_room = self.current.as_ref().is_some_and(|current| current.at + needed <= SEGMENT_BYTES);
        let current = match self.current.take() {
            Some(current) if has_room => current,
            last => {
                let number = last.map_or(1, |last| last.number + 1);
                // In a real one nobody knows it; here runs are to be the same.
                Current { number, salt: number.wrapping_mul(0x9e37_79b9_7f4a_7c15), at: 0 }
            }
        };
        let Current { number, salt, at } = current;
        let begins = at == 0;
        let entry_at = if begins { ENTRIES_BEGIN } else { at };
        let end = entry_at + needed;
        if begins && number > 1 && number.is_multiple_of(2) {
            log.use_again(number - 1, number);
        }
        let file = log.0.entry(number).or_default();
        if file.len() < end.next_multiple_of(BLOCK_BYTES) {
            file.resize(end.next_multiple_of(BLOCK_BYTES).max(SEGMENT_BYTES), 0);
        }
        let start = if begins { 0 } else { at - at % BLOCK_BYTES };
        let mut bytes = file[start..at].to_vec();
        if begins {
            bytes.extend(header(number, entry.first, entry.at, salt));
            bytes.resize(ENTRIES_BEGIN, 0);
        }
        bytes.extend(record_header(entry, &value, salt));
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(RECORD_ALIGN), 0);
        assert_eq!(start + bytes.len(), end, "it is where it was meant to be");
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        self.current = Some(Current { number, salt, at: end });
        LogWrite { number, at: start, bytes }
    }

    /// One batch of the database.
    pub fn rows(&mut self, rows: &RowChanges) -> Vec<RowWrite> {
        let mut writes = Vec::new();
        writes.extend(rows.puts.iter().map(|(key, value)| (Keyspace::Rows, key.clone(), Some(value.clone()))));
        writes.extend(rows.deletes.iter().map(|key| (Keyspace::Rows, key.clone(), None)));
        self.ended.extend(rows.ended);
        while let Some((first, count)) = self.ended.front()
            && first + count <= rows.ended_forgotten
        {
            writes.push((Keyspace::Rows, Address::Ended(*first).key(), None));
            self.ended.pop_front();
        }
        writes.push((Keyspace::Meta, Address::Watermark.key(), Some(rows.watermark_value.clone())));
        // The order of a hash is not that of another run.
        writes.sort();
        writes
    }
}

//! For simulators whose disk is made of memory: the writes of a commit as bytes, and recovery from what is left of them.
//! The bytes, and what recovery makes of them, are the real ones; only fjall, which would keep them, is not there.
//! Not part of the interface.

use std::collections::{BTreeMap, VecDeque};

use tenure_core::{Seq, State, Ttl};

use super::layout::Address;
use super::recovery::Recovery;
use super::rows::{RowChanges, Rows};
use super::{Commit, Entry, StoreError, codec};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keyspace {
    Meta,
    Rows,
    Log,
}

/// A value, or none to delete what is there.
pub type Write = (Keyspace, Vec<u8>, Option<Vec<u8>>);

/// Everything that is stored, as it would be read from disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables(BTreeMap<(Keyspace, Vec<u8>), Vec<u8>>);

impl Tables {
    /// What a new data directory has.
    pub fn new(pool_idle: Ttl) -> Self {
        let mut tables = Self::default();
        let watermark = codec::encode_watermark(&State::new(pool_idle));
        tables.apply([(Keyspace::Meta, Address::Watermark.key(), Some(watermark))]);
        tables
    }

    pub fn apply(&mut self, writes: impl IntoIterator<Item = Write>) {
        for (keyspace, key, value) in writes {
            match value {
                Some(value) => self.0.insert((keyspace, key), value),
                None => self.0.remove(&(keyspace, key)),
            };
        }
    }

    fn all(&self, keyspace: Keyspace) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().filter(move |((found, _), _)| *found == keyspace).map(|((_, key), value)| (&key[..], &value[..]))
    }

    /// The events that are kept, in order.
    pub fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        self.all(Keyspace::Log).map(|(key, value)| codec::decode_entry(Address::of_entry(key)?, value)).collect()
    }

    /// What opening the data directory gives, and the writes that it then begins with.
    pub fn recover(&self, pool_idle: Ttl) -> Result<(State, Writer, Option<Commit>), StoreError> {
        let watermark = self.0.get(&(Keyspace::Meta, Address::Watermark.key()));
        let watermark = watermark.ok_or_else(|| Address::Watermark.damaged("is missing"))?;
        let watermark = codec::decode_watermark(watermark)?;
        let mut recovery = Recovery::new(watermark, pool_idle)?;
        for kind in b"pshwe" {
            for (key, value) in self.all(Keyspace::Rows).filter(|(key, _)| key.first() == Some(kind)) {
                recovery.row(&Address::of_row(key)?, value)?;
            }
        }
        recovery.rows_end()?;
        let mut rows = Rows::new(recovery.state());
        let watermark = watermark.counters.seq;
        let after = (Keyspace::Log, Address::Entry(Seq(watermark.0 + 1)).key());
        for ((_, key), value) in self.0.range(after..) {
            let entry = codec::decode_entry(Address::of_entry(key)?, value)?;
            recovery.entry(&entry)?;
            entry.events.iter().for_each(|event| rows.note(event));
        }
        let (state, ended) = recovery.finish();
        let newest = self.0.range((Keyspace::Log, Vec::new())..).next_back();
        let last = match newest {
            Some(((_, key), value)) => codec::decode_entry(Address::of_entry(key)?, value)?.last(),
            None => Seq(0),
        };
        if last != state.counters().seq {
            return Err(Address::Watermark.damaged(format!("the log ends with event {}", last.0)));
        }
        let rows = (state.counters().seq > watermark).then(|| rows.drain(&state));
        let commit = rows.map(|rows| Commit { entry: None, rows: Some(rows) });
        Ok((state, Writer { last, ended: ended.into() }, commit))
    }
}

/// Turns commits into writes.
#[derive(Debug, Default)]
pub struct Writer {
    last: Seq,
    /// Rows of ended requests, oldest first: index of the first, and how many.
    ended: VecDeque<(u64, u64)>,
}

impl Writer {
    pub fn writes(&mut self, commit: &Commit) -> Vec<Write> {
        let mut writes = Vec::new();
        if let Some(entry) = &commit.entry {
            assert_eq!(entry.first.0, self.last.0 + 1, "entries are committed in order, without a gap");
            writes.push((Keyspace::Log, Address::Entry(entry.first).key(), Some(codec::encode_entry(entry))));
            self.last = entry.last();
        }
        if let Some(rows) = &commit.rows {
            assert!(rows.watermark <= self.last, "rows never have what the log has not");
            writes.extend(self.row_writes(rows));
        }
        writes
    }

    pub fn row_writes(&mut self, rows: &RowChanges) -> Vec<Write> {
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
        writes
    }
}

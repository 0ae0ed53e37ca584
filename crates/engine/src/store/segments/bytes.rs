//! What is in a file of the log. docs/storage.md draws the bytes.

use tenure_core::mutation::Mistake;
use tenure_core::{Seq, Timestamp};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{Entry, Segment};
use crate::store::codec::{self, NUMBER_MAX};

const MAGIC: &[u8; 8] = b"tenure l";
/// Magic, number, first event, its time, salt, checksum of these; within a sector, so that it is written or not.
pub(in crate::store) const HEADER_BYTES: usize = 48;
/// Entries begin after the first block.
pub(in crate::store) const ENTRIES_BEGIN: usize = 4_096;
/// Length of the value, number of events, number of the first, checksum of these and of how the value begins, with the segment's salt.
/// Nobody knows the salt, so that nothing that somebody had written, as a label perhaps, can be taken for an entry; and what the file
/// had when it was another segment has another.
pub(in crate::store) const RECORD_HEADER_BYTES: usize = 24;
pub(in crate::store) const RECORD_ALIGN: usize = 8;
/// The envelope of a value, with its checksum.
const VALUE_BEGIN_BYTES: usize = 9;

/// What a segment has.
#[derive(Debug, Default)]
pub(in crate::store) struct Contents {
    /// Of all entries.
    pub(in crate::store) places: Vec<(Seq, u64)>,
    /// Entries that are needed: where their values are.
    pub(in crate::store) needed: Vec<(Seq, std::ops::Range<usize>)>,
    /// The event that would come next, and where.
    pub(in crate::store) next: Seq,
    pub(in crate::store) at: usize,
    /// There is more that cannot be read.
    pub(in crate::store) is_damaged: bool,
}

impl Contents {
    /// Reads a file. Entries with events from `needed` on must be what was written; of others it is enough where they are. The segment
    /// ends before `end`. The newest has none: an entry that was not completely written ends it, unless there is one
    /// behind it, since each was synced before the next was written.
    pub(in crate::store) fn read(bytes: &[u8], segment: &Segment, needed: Seq, end: Option<Seq>) -> Self {
        let mut contents = Self { next: segment.base, at: ENTRIES_BEGIN, ..Self::default() };
        while Some(contents.next) != end
            && let Some((header, value)) = record(bytes, contents.at, segment.salt)
            && header.first == contents.next
        {
            let next = Seq(header.first.0.saturating_add(header.events.into()));
            if end.is_some_and(|end| next > end) {
                break;
            }
            if next > needed {
                let is_whole = codec::decode_entry_time(header.first, &bytes[value.clone()]).is_ok();
                if !is_whole && !Mistake::TrustsTornWrites.is_made() {
                    break;
                }
                contents.needed.push((header.first, value.clone()));
            }
            contents.places.push((header.first, contents.at as u64));
            contents.next = next;
            contents.at += record_bytes(&bytes[value]);
        }
        contents.is_damaged = match end {
            Some(end) => contents.next != end,
            None => (contents.at..bytes.len()).step_by(RECORD_ALIGN).any(|at| {
                let found = record(bytes, at, segment.salt);
                found.is_some_and(|(header, value)| codec::decode_entry_time(header.first, &bytes[value]).is_ok())
            }),
        };
        contents
    }
}

pub(in crate::store) struct RecordHeader {
    pub(super) length: u32,
    events: u32,
    pub(super) first: Seq,
    pub(super) checksum: u64,
}

impl RecordHeader {
    pub(super) fn read(bytes: &[u8; RECORD_HEADER_BYTES]) -> Self {
        let (length, rest) = bytes.split_first_chunk().expect("there are twenty-four");
        let (events, rest) = rest.split_first_chunk().expect("there are twenty");
        let (first, checksum) = rest.split_first_chunk().expect("there are sixteen");
        Self {
            length: u32::from_le_bytes(*length),
            events: u32::from_le_bytes(*events),
            first: Seq(u64::from_le_bytes(*first)),
            checksum: u64::from_le_bytes(checksum.try_into().expect("there are eight")),
        }
    }

    /// Over the beginning of the value too, where its own checksum is.
    pub(super) fn right_checksum(&self, salt: u64, value: &[u8]) -> u64 {
        let mut hasher = Xxh3::with_seed(salt);
        hasher.update(&self.length.to_le_bytes());
        hasher.update(&self.events.to_le_bytes());
        hasher.update(&self.first.0.to_le_bytes());
        hasher.update(&value[..value.len().min(VALUE_BEGIN_BYTES)]);
        hasher.digest()
    }

    fn sealed(&self, salt: u64, value: &[u8]) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.events.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[16..].copy_from_slice(&self.right_checksum(salt, value).to_le_bytes());
        bytes
    }

    /// The same with the right checksum, whatever it says.
    pub(in crate::store) fn reseal(
        bytes: &[u8; RECORD_HEADER_BYTES],
        salt: u64,
        value: &[u8],
    ) -> [u8; RECORD_HEADER_BYTES] {
        Self::read(bytes).sealed(salt, value)
    }
}

/// What precedes the value of an entry.
pub(in crate::store) fn record_header(entry: &Entry, value: &[u8], salt: u64) -> [u8; RECORD_HEADER_BYTES] {
    let length = u32::try_from(value.len()).expect("it has room in a file");
    let events = u32::try_from(entry.events.len()).expect("a batch is bounded");
    RecordHeader { length, events, first: entry.first, checksum: 0 }.sealed(salt, value)
}

/// The entry that begins there, and where its value is, if its header is what was written.
fn record(bytes: &[u8], at: usize, salt: u64) -> Option<(RecordHeader, std::ops::Range<usize>)> {
    let header = RecordHeader::read(bytes.get(at..)?.first_chunk()?);
    let begin = at + RECORD_HEADER_BYTES;
    let end = begin.checked_add(usize::try_from(header.length).ok()?)?;
    let value = bytes.get(begin..end)?;
    (header.events > 0 && header.checksum == header.right_checksum(salt, value)).then_some((header, begin..end))
}

pub(in crate::store) fn record_bytes(value: &[u8]) -> usize {
    (RECORD_HEADER_BYTES + value.len()).next_multiple_of(RECORD_ALIGN)
}

pub(in crate::store) fn header(number: u64, base: Seq, at: Timestamp, salt: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    for (to, word) in header[8..40].chunks_exact_mut(8).zip([number, base.0, at.as_millis(), salt]) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    let checksum = xxh3_64(&header[..40]);
    header[40..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// How large the file is, others must tell.
pub(in crate::store) fn read_header(bytes: &[u8]) -> Option<Segment> {
    let word = |at: usize| bytes.get(at..at + 8)?.try_into().map(u64::from_le_bytes).ok();
    let (number, base, at, salt) = (word(8)?, Seq(word(16)?), Timestamp::from_millis(word(24)?), word(32)?);
    // One is added to each.
    let are_possible = number < NUMBER_MAX && (1..NUMBER_MAX).contains(&base.0);
    (are_possible && bytes == header(number, base, at, salt)).then_some(Segment { number, base, at, salt, bytes: 0 })
}

//! For fuzzers and tests that play at damage: what recovery makes of messages whose checksums are right, whatever
//! they say. Not part of the interface.

use tenure_core::{Seq, State, Timestamp, Ttl};

use super::layout::Address;
use super::recovery::Recovery;
use super::segments::{self, Contents, RecordHeader};
use super::{Entry, RowChanges, StoreError, codec, journal};

/// The key of a row, and its message.
pub type Row = (Vec<u8>, Vec<u8>);

/// For how long pools that nobody declared stay, where [`recover`] reads them.
pub const POOL_IDLE: Ttl = Ttl::from_millis(60_000);

/// The message of a log entry.
pub fn entry(entry: &Entry) -> Vec<u8> {
    Address::message(&codec::encode_entry(entry)).to_vec()
}

/// The watermark's message, and the rows.
pub fn rows(changes: &RowChanges) -> (Vec<u8>, Vec<Row>) {
    let rows = changes.puts.iter().map(|(key, value)| (key.clone(), Address::message(value).to_vec()));
    (Address::message(&changes.watermark_value).to_vec(), rows.collect())
}

/// What opening a directory would make of it: a state, or an error, but no panic.
pub fn recover(watermark: &[u8], rows: &[Row], entries: &[Vec<u8>]) -> Result<State, StoreError> {
    let watermark = codec::decode_watermark(&Address::Watermark.seal_bytes(watermark))?;
    let mut recovery = Recovery::new(watermark, POOL_IDLE)?;
    for (key, message) in rows {
        let address = Address::of_row(key)?;
        recovery.row(&address, &address.seal_bytes(message))?;
    }
    recovery.rows_end()?;
    for message in entries {
        let first = Seq(recovery.last().0 + 1);
        recovery.entry(&codec::decode_entry(first, &Address::Entry(first).seal_bytes(message))?)?;
    }
    Ok(recovery.finish().0)
}

/// What a segment of the log tells.
#[derive(Debug)]
pub struct SegmentRead {
    pub base: Seq,
    /// By the numbers of their first events.
    pub entries: Vec<(Seq, Vec<u8>)>,
    /// Whether there is more that cannot be read.
    pub is_damaged: bool,
}

/// What a start would read in a file of the log; none if it does not begin as a segment does.
pub fn segment(bytes: &[u8]) -> Option<SegmentRead> {
    let segment = segments::read_header(bytes.get(..segments::HEADER_BYTES)?)?;
    let contents = Contents::read(bytes, &segment, segment.base, None);
    let entries = contents.needed.into_iter().map(|(first, value)| (first, bytes[value].to_vec()));
    Some(SegmentRead { base: segment.base, entries: entries.collect(), is_damaged: contents.is_damaged })
}

/// The same file with right checksums, of what begins it and of what could be entries, whatever they say.
pub fn reseal_segment(bytes: &mut [u8]) {
    let word = |bytes: &[u8], at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
    let Some(begun) = bytes.get_mut(..segments::HEADER_BYTES) else { return };
    let (number, base, at, salt) = (word(begun, 8), word(begun, 16), word(begun, 24), word(begun, 32));
    begun.copy_from_slice(&segments::header(number, Seq(base), Timestamp::from_millis(at), salt));
    let mut rest = bytes.get_mut(segments::ENTRIES_BEGIN..).unwrap_or_default();
    while let Some((begun, record)) = rest.split_first_chunk_mut::<{ segments::RECORD_HEADER_BYTES }>() {
        let length = word(begun, 0) & u64::from(u32::MAX);
        let Some(value) = usize::try_from(length).ok().and_then(|length| record.get_mut(..length)) else { return };
        let sealed = Address::Entry(Seq(word(begun, 8))).seal_bytes(Address::message(value));
        if sealed.len() != value.len() {
            return;
        }
        value.copy_from_slice(&sealed);
        *begun = RecordHeader::reseal(begun, salt, value);
        let next = segments::record_bytes(value) - segments::RECORD_HEADER_BYTES;
        rest = record.get_mut(next..).unwrap_or_default();
    }
}

/// Reads an entry as the log has it.
pub fn decode_entry(first: Seq, value: &[u8]) -> Result<Entry, StoreError> {
    codec::decode_entry(first, value)
}

/// An entry as the log has it.
pub fn encode_entry(entry: &Entry) -> Vec<u8> {
    codec::encode_entry(entry)
}

/// How many bytes of a journal are whole batches, and whether what follows is damage rather than a torn end.
pub fn journal(bytes: &[u8]) -> (usize, bool) {
    let valid = journal::valid_bytes(bytes, &mut None);
    let rest = journal::used(&bytes[valid..]);
    (valid, !rest.is_empty() && journal::is_damage(rest, valid))
}

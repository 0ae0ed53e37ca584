//! For fuzzers and tests that play at damage: what recovery makes of messages whose checksums are right, whatever
//! they say. Not part of the interface.

use tenure_core::{Seq, State, Ttl};

use super::layout::Address;
use super::recovery::Recovery;
use super::{Entry, RowChanges, StoreError, codec};

/// The key of a row, and its message.
pub type Row = (Vec<u8>, Vec<u8>);

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
    let mut recovery = Recovery::new(watermark, Ttl::from_millis(60_000))?;
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

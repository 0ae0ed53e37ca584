//! A whole state as bytes, for engines that keep it somewhere else: the same rows as on disk, one after another.

use tenure_core::{State, Ttl};

use super::codec;
use super::layout::Address;
use super::recovery::Recovery;
use super::{Rows, StoreError};

/// Everything the state knows.
pub fn snapshot(state: &State) -> Vec<u8> {
    let mut rows = Rows::all(state).drain(state);
    // In the order in which they are restored, and the same for the same state.
    rows.puts.sort_by_cached_key(|(key, _)| (b"pshwe".iter().position(|kind| key.first() == Some(kind)), key.clone()));
    let mut bytes = Vec::new();
    push(&mut bytes, &rows.watermark_value);
    for (key, value) in &rows.puts {
        push(&mut bytes, key);
        push(&mut bytes, value);
    }
    bytes
}

/// Reads what [`snapshot`] wrote.
pub fn restore(mut bytes: &[u8], pool_idle: Ttl) -> Result<State, StoreError> {
    let watermark = codec::decode_watermark(take(&mut bytes)?)?;
    let mut recovery = Recovery::new(watermark, pool_idle)?;
    while !bytes.is_empty() {
        let address = Address::of_row(take(&mut bytes)?)?;
        recovery.row(&address, take(&mut bytes)?)?;
    }
    recovery.rows_end()?;
    Ok(recovery.finish().0)
}

fn push(bytes: &mut Vec<u8>, piece: &[u8]) {
    let length = u32::try_from(piece.len()).expect("a row is far smaller than 4 GiB");
    bytes.extend(length.to_le_bytes());
    bytes.extend(piece);
}

fn take<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], StoreError> {
    let short = || StoreError::Damaged("the snapshot is cut short".to_owned());
    let (length, rest) = bytes.split_first_chunk().ok_or_else(short)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (piece, rest) = rest.split_at_checked(length).ok_or_else(short)?;
    *bytes = rest;
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use tenure_core::{Command, Limits, Machine, Stamp, Timestamp};

    use super::*;

    #[test]
    fn what_is_no_snapshot_is_refused_and_what_is_comes_back() {
        let limits = Limits::default();
        let mut machine = Machine::new(limits);
        machine.apply(Stamp { at: Timestamp::from_millis(5), nonce: 1 }, Command::Restart);
        let bytes = snapshot(machine.state());
        assert_eq!(&restore(&bytes, limits.pool_idle).unwrap(), machine.state());
        assert!(restore(&bytes[1..], limits.pool_idle).is_err());
        assert!(restore(&bytes[..bytes.len() - 1], limits.pool_idle).is_err());
        assert!(restore(b"", limits.pool_idle).is_err());
    }
}

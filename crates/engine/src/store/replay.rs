//! What a start makes of what is stored: first the rows, then the log's entries that they lack. The same whether files and a database have
//! it, or the memory of a simulator.

use std::collections::VecDeque;

use tenure_core::{Seq, State, Ttl};

use super::journal::Written;
use super::layout::Address;
use super::recovery::Recovery;
use super::rows::{RowChanges, Rows};
use super::segments::{Contents, End, Files, Found, Segment, why_damaged};
use super::{Entry, StoreError, codec};

/// What a start reads beside the log.
pub(super) trait Stored {
    fn meta(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// All rows whose keys begin with this, in the order of their keys.
    fn rows(&self, kind: u8, each: &mut EachRow<'_>) -> Result<(), StoreError>;
}

/// Hears of a row: its key and value.
pub(super) type EachRow<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), StoreError> + 'a;

pub(super) struct Recovered {
    pub(super) state: State,
    pub(super) watermark: Seq,
    /// What was replayed, if anything was.
    pub(super) rows: Option<RowChanges>,
    pub(super) ended: VecDeque<(u64, u64)>,
    /// The first event that is kept.
    pub(super) first: Seq,
    pub(super) log: Replayed,
}

/// What came of reading the log.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    pub(super) last: Seq,
    /// Segments that are kept, and where the last of them ends.
    pub(super) listed: VecDeque<Segment>,
    pub(super) end: Option<End>,
    /// Files that nobody needs, and those that are only needed by the history and have a damaged beginning.
    pub(super) unneeded: Vec<u64>,
    pub(super) unreadable: Vec<u64>,
}

/// Hears of each entry that the rows lack.
pub(super) type Replay<'a> = dyn FnMut(&Entry) -> Result<(), StoreError> + 'a;

/// The log is read by `read`, which is told the first event that is kept and the last that the rows have.
pub(super) fn recover(
    stored: &dyn Stored,
    pool_idle: Ttl,
    read: impl FnOnce(Seq, Seq, &mut Replay<'_>) -> Result<Replayed, StoreError>,
) -> Result<Recovered, StoreError> {
    let meta = |address: Address| stored.meta(&address.key())?.ok_or_else(|| address.damaged("is missing"));
    let watermark = codec::decode_watermark(&meta(Address::Watermark)?)?;
    let first = codec::decode_first(&meta(Address::LogBounds)?)?;
    let mut recovery = Recovery::new(watermark, pool_idle)?;
    // In this order because each refers to those before it.
    for kind in *b"pshwe" {
        stored.rows(kind, &mut |key, value| recovery.row(&Address::of_row(key)?, value))?;
    }
    recovery.rows_end()?;
    let mut rows = Rows::new(recovery.state());
    let watermark = watermark.counters.seq;
    let mut replay = |entry: &Entry| {
        recovery.entry(entry)?;
        entry.events.iter().for_each(|event| rows.note(event));
        Ok(())
    };
    let log = read(first, watermark, &mut replay)?;
    if log.last < watermark {
        let why = format!("the log ends with event {}, but the rows have event {}", log.last.0, watermark.0);
        return Err(StoreError::Damaged(why));
    }
    let (state, ended) = recovery.finish();
    let rows = (state.counters().seq > watermark).then(|| rows.drain(&state));
    Ok(Recovered { state, watermark, rows, ended: ended.into(), first, log })
}

/// Reads the segments that have what the rows lack.
pub(super) fn replay_segments(
    files: &dyn Files,
    found: &Found,
    first: Seq,
    watermark: Seq,
    written: Written,
    replay: &mut Replay<'_>,
) -> Result<Replayed, StoreError> {
    let needed = Seq(watermark.0 + 1);
    let is_needed = |segment: &Result<Segment, _>| !matches!(segment, Ok(segment) if segment.base > needed);
    // The last that begins with what is needed or before; the newest, if it has nothing of it.
    let from = found.segments.iter().rposition(|segment| segment.is_ok() && is_needed(segment));
    let mut last = Seq(0);
    let mut end = None;
    let (mut unneeded, mut unreadable) = (found.unbegun.clone(), Vec::new());
    let mut listed: VecDeque<Segment> = VecDeque::new();
    if from.is_none()
        && let Some(Ok(oldest)) = found.segments.front()
    {
        let (needed, oldest) = (needed.0, oldest.base.0);
        return Err(StoreError::Damaged(format!("event {needed} is missing: the log begins with event {oldest}")));
    }
    for (index, segment) in found.segments.iter().enumerate() {
        let is_read = from.is_some_and(|from| from <= index);
        match segment {
            Ok(segment) if !is_read => listed.push_back(*segment),
            // Whoever asks for what was in it hears that it is missing.
            Err((number, why)) if !is_read && from.is_some() => {
                tracing::warn!("{why}: the history has a gap");
                unreadable.push(*number);
            }
            Err((number, why)) => {
                given_up(why, written)?;
                unneeded.extend(*number..=last_number(found));
                break;
            }
            Ok(segment) => {
                let bytes = files.read(segment.number)?;
                let next = match found.segments.get(index + 1) {
                    Some(Ok(next)) => Some(next.base),
                    _ => None,
                };
                let contents = Contents::read(&bytes, segment, needed, next);
                for (first, value) in &contents.needed {
                    replay(&codec::decode_entry(*first, &bytes[value.clone()])?)?;
                }
                listed.push_back(*segment);
                last = Seq(contents.next.0 - 1);
                end = Some(End { number: segment.number, at: contents.at as u64, places: contents.places });
                if contents.is_damaged {
                    given_up(&why_damaged(&files.name(segment.number), contents.at as u64), written)?;
                    unneeded.extend(segment.number + 1..=last_number(found));
                    break;
                }
            }
        }
    }
    // What was let go, and not yet removed.
    while let Some(next) = listed.get(1)
        && next.base <= first
    {
        unneeded.extend(listed.pop_front().map(|segment| segment.number));
    }
    Ok(Replayed { last, listed, end, unneeded, unreadable })
}

fn last_number(found: &Found) -> u64 {
    found.segments.iter().last().map_or(0, |segment| match segment {
        Ok(segment) => segment.number,
        Err((number, _)) => *number,
    })
}

/// What was synced must be there; of what was not, any part may be missing.
fn given_up(why: &str, written: Written) -> Result<(), StoreError> {
    if written == Written::Synced {
        return Err(StoreError::Damaged(why.into()));
    }
    tracing::warn!("{why}: what is there was never synced");
    Ok(())
}

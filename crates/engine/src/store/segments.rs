//! The log: entries in files whose blocks were written before, so that a sync is one write of data, and not also one of what
//! the file system keeps about it.
//!
//! A file, a segment, is filled and then only read. When the history lets go of it, it is filled again, as another segment, or
//! removed. docs/storage.md draws the bytes.

mod blocks;
mod bytes;
#[cfg_attr(
    not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))),
    path = "segments/no_ring.rs"
)]
mod ring;
mod writer;

use std::collections::VecDeque;
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tenure_core::{Seq, Timestamp};

pub(super) use self::blocks::BLOCK_BYTES;
pub(super) use self::bytes::{
    Contents, ENTRIES_BEGIN, HEADER_BYTES, RECORD_ALIGN, RECORD_HEADER_BYTES, RecordHeader, header, read_header,
    record_bytes, record_header,
};
pub(super) use self::writer::{End, Writer};
use super::{Entry, StoreError, codec};

const ENTRIES_START: u64 = ENTRIES_BEGIN as u64;
/// How many segments readers remember the places of.
const LOOKED_UP_MAX: usize = 4;

/// A segment that was begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) number: u64,
    /// Its first event, and when that was.
    pub(super) base: Seq,
    pub(super) at: Timestamp,
    pub(super) salt: u64,
    /// How large its file is.
    pub(super) bytes: u64,
}

/// The segments that the history has, for those who read beside the writer.
#[derive(Debug)]
pub(super) struct Segments {
    folder: PathBuf,
    /// Oldest first.
    listed: RwLock<VecDeque<Segment>>,
    /// The last of them, which is being filled.
    newest: RwLock<Option<(u64, Arc<Places>)>>,
    /// Others, that were looked at last.
    looked_up: Mutex<VecDeque<(u64, Arc<Places>)>>,
}

/// Where the entries of a segment are, by the numbers of their first events.
#[derive(Debug)]
struct Places {
    file: File,
    entries: RwLock<Vec<(Seq, u64)>>,
}

impl Segments {
    /// The first event after a segment, if there is one that follows it.
    pub(super) fn after(&self, segment: &Segment) -> Option<Seq> {
        self.listed().iter().find(|next| next.number > segment.number).map(|next| next.base)
    }

    fn listed(&self) -> std::sync::RwLockReadGuard<'_, VecDeque<Segment>> {
        self.listed.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn listed_mut(&self) -> std::sync::RwLockWriteGuard<'_, VecDeque<Segment>> {
        self.listed.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry with this event; none if it is not there.
    pub(super) fn read(&self, seq: Seq) -> Result<Option<Entry>, StoreError> {
        let (segment, end) = {
            let listed = self.listed();
            let after = listed.partition_point(|segment| segment.base <= seq);
            let Some(segment) = after.checked_sub(1).map(|at| listed[at]) else { return Ok(None) };
            (segment, listed.get(after).map(|next| next.base))
        };
        let places = self.places(segment, end)?;
        let found = {
            let entries = places.entries.read().unwrap_or_else(PoisonError::into_inner);
            let after = entries.partition_point(|(first, _)| *first <= seq);
            after.checked_sub(1).map(|at| entries[at])
        };
        let Some((first, at)) = found else { return Ok(None) };
        let entry = self.read_entry(segment, &places.file, first, at)?;
        Ok((entry.last() >= seq).then_some(entry))
    }

    fn read_entry(&self, segment: Segment, file: &File, first: Seq, at: u64) -> Result<Entry, StoreError> {
        let path = self.path(segment.number);
        let unreadable = |error: io::Error| unreadable(&path, &error);
        let mut begun = [0; RECORD_HEADER_BYTES];
        file.read_exact_at(&mut begun, at).map_err(unreadable)?;
        let room = file.metadata().map_err(unreadable)?.len().saturating_sub(at + RECORD_HEADER_BYTES as u64);
        let header = RecordHeader::read(&begun);
        let is_damaged = || StoreError::Damaged(why_damaged(&path.display(), at));
        if header.first != first || u64::from(header.length) > room {
            return Err(is_damaged());
        }
        let mut value = vec![0; header.length as usize];
        file.read_exact_at(&mut value, at + RECORD_HEADER_BYTES as u64).map_err(unreadable)?;
        if header.checksum != header.right_checksum(segment.salt, &value) {
            return Err(is_damaged());
        }
        codec::decode_entry(first, &value)
    }

    fn places(&self, segment: Segment, end: Option<Seq>) -> Result<Arc<Places>, StoreError> {
        let newest = self.newest.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, places)) = newest.filter(|(number, _)| *number == segment.number) {
            return Ok(places);
        }
        let mut looked_up = self.looked_up.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, places)) = looked_up.iter().find(|(number, _)| *number == segment.number) {
            return Ok(places.clone());
        }
        let path = self.path(segment.number);
        let open = || -> io::Result<(File, Vec<u8>)> { Ok((File::open(&path)?, fs::read(&path)?)) };
        let (file, bytes) = open().map_err(|error| unreadable(&path, &error))?;
        // What cannot be read is found out by whoever asks for it.
        let entries = Contents::read(&bytes, &segment, Seq(u64::MAX), end).places;
        let places = Arc::new(Places { file, entries: RwLock::new(entries) });
        looked_up.push_back((segment.number, places.clone()));
        if looked_up.len() > LOOKED_UP_MAX {
            looked_up.pop_front();
        }
        Ok(places)
    }

    /// Two events between which the first one at or after a time is, the second included.
    pub(super) fn near(&self, since: Timestamp) -> Option<(Seq, Option<Seq>)> {
        let listed = self.listed();
        let after = listed.partition_point(|segment| segment.at < since);
        let before = listed.get(after.saturating_sub(1))?;
        Some((before.base, listed.get(after).map(|segment| segment.base)))
    }

    /// Whatever was written to any of them is on the disk then.
    pub(super) fn sync_all(&self) -> Result<(), StoreError> {
        for segment in self.listed().iter() {
            let path = self.path(segment.number);
            let synced = File::options().write(true).open(&path).and_then(|file| file.sync_all());
            synced.map_err(|error| failed(&path, &error))?;
        }
        sync_folder(&self.folder)
    }

    fn next_number(&self) -> u64 {
        self.listed().back().map_or(1, |newest| newest.number + 1)
    }

    fn path(&self, number: u64) -> PathBuf {
        path(&self.folder, number)
    }
}

/// Where the segments are.
pub(super) trait Files {
    /// In any order.
    fn numbers(&self) -> Result<Vec<u64>, StoreError>;

    /// As people know it.
    fn name(&self, number: u64) -> String;

    /// How a file begins, as far as this, and how long it is.
    fn begin(&self, number: u64, most: usize) -> Result<(Vec<u8>, u64), StoreError>;

    fn read(&self, number: u64) -> Result<Vec<u8>, StoreError>;
}

/// Files named by their numbers.
pub(super) struct Folder(pub(super) PathBuf);

impl Files for Folder {
    fn numbers(&self) -> Result<Vec<u64>, StoreError> {
        let mut numbers = Vec::new();
        for file in self.0.read_dir().map_err(|error| unreadable(&self.0, &error))? {
            let name = file.map_err(|error| unreadable(&self.0, &error))?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".log")?.parse().ok());
            let path = self.0.join(&name);
            numbers.push(
                number.ok_or_else(|| StoreError::Damaged(format!("{} is no name of a segment", path.display())))?,
            );
        }
        Ok(numbers)
    }

    fn name(&self, number: u64) -> String {
        path(&self.0, number).display().to_string()
    }

    fn begin(&self, number: u64, most: usize) -> Result<(Vec<u8>, u64), StoreError> {
        let read = || -> io::Result<(Vec<u8>, u64)> {
            let file = File::open(path(&self.0, number))?;
            let length = file.metadata()?.len();
            let mut begun = vec![0; usize::try_from(length).unwrap_or(most).min(most)];
            file.read_exact_at(&mut begun, 0)?;
            Ok((begun, length))
        };
        read().map_err(|error| unreadable(&self.0, &error))
    }

    fn read(&self, number: u64) -> Result<Vec<u8>, StoreError> {
        let path = path(&self.0, number);
        fs::read(&path).map_err(|error| unreadable(&path, &error))
    }
}

fn unreadable(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io(format!("cannot read {}: {error}", path.display()))
}

/// What there is, without having been read.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Oldest first. Those whose beginning is damaged are told by their numbers.
    pub(super) segments: VecDeque<Result<Segment, (u64, String)>>,
    /// Files that nothing was begun in.
    pub(super) unbegun: Vec<u64>,
}

/// Looks at the beginnings of all files.
pub(super) fn find(files: &dyn Files) -> Result<Found, StoreError> {
    let mut found = Found::default();
    let mut numbers = files.numbers()?;
    numbers.sort_unstable();
    if let Some(pair) = numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
        return Err(StoreError::Damaged(format!("{} is missing", files.name(pair[0] + 1))));
    }
    for number in &numbers {
        let (begun, length) = files.begin(*number, HEADER_BYTES)?;
        let why = |at| (*number, why_damaged(&files.name(*number), at));
        match begun_as(&begun, *number, number == numbers.last().expect("there is one")) {
            // A file is larger than this before it is begun.
            Ok(Some(_)) if length < ENTRIES_START => found.segments.push_back(Err(why(length))),
            Ok(Some(segment)) => found.segments.push_back(Ok(Segment { bytes: length, ..segment })),
            Ok(None) => found.unbegun.push(*number),
            Err(()) => found.segments.push_back(Err(why(0))),
        }
    }
    Ok(found)
}

/// The segment that a file begins as, or nothing yet.
fn begun_as(begun: &[u8], number: u64, is_last: bool) -> Result<Option<Segment>, ()> {
    if is_last && begun.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    match read_header(begun) {
        Some(segment) if segment.number == number => Ok(Some(segment)),
        // It was another segment, and is about to be this one.
        Some(segment) if is_last && segment.number < number => Ok(None),
        _ => Err(()),
    }
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.log"))
}

fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|it| it.sync_all()).map_err(|error| failed(folder, &error))
}

fn failed(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io(format!("cannot write to the data directory: {}: {error}", path.display()))
}

pub(super) fn why_damaged(name: &dyn Display, at: u64) -> String {
    format!("{name} cannot be read from byte {at} on")
}

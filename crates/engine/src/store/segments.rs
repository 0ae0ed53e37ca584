//! The log: entries in files whose blocks were written before, so that a sync is one write of data, and not also one of what
//! the file system keeps about it.
//!
//! A file, a segment, is filled and then only read. When the history lets go of it, it is filled again, as another segment, or
//! removed. docs/storage.md draws the bytes.

use std::collections::VecDeque;
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tenure_core::{Seq, Timestamp, Ttl};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::codec::NUMBER_MAX;
use super::{DiskOptions, Entry, StoreError, codec, journal};

const MAGIC: &[u8; 8] = b"tenure l";
/// Magic, number, first event, its time, salt, checksum of these; within a sector, so that it is written or not.
pub(super) const HEADER_BYTES: usize = 48;
/// Entries begin after the first block.
pub(super) const ENTRIES_BEGIN: usize = 4_096;
const ENTRIES_START: u64 = ENTRIES_BEGIN as u64;
/// Length of the value, number of events, number of the first, checksum of these and of how the value begins, with the segment's salt.
/// Nobody knows the salt, so that nothing that somebody had written, as a label perhaps, can be taken for an entry; and what the file
/// had when it was another segment has another.
pub(super) const RECORD_HEADER_BYTES: usize = 24;
const RECORD_ALIGN: usize = 8;
/// The envelope of a value, with its checksum.
const VALUE_BEGIN_BYTES: usize = 9;
/// Each segment may have twice as much as the one before, up to a second's worth of a busy server, or this part of what is kept: most
/// servers never need more than the first.
const PARTS_OF_BYTES: u64 = 8;
const FIRST_BYTES: u64 = 1024 * 1024;
const BYTES_MAX: u64 = 32 * 1024 * 1024;
/// A file that is made beside the commits is written in pieces, with pauses that are so many times as long as a piece took, until
/// somebody waits for it: much at once would keep commits waiting for the disk.
const PIECE_BYTES: usize = 1024 * 1024;
const PAUSE_FACTOR: u32 = 2;
/// A segment is ended when it has been filled for this part of the time for which history is kept, so that it can be let go in time;
/// but not sooner than this.
const PARTS_OF_AGE: u64 = 8;
const PART_MILLIS_MIN: u64 = 60_000;
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
        let unreadable = |error: io::Error| StoreError::Io(format!("cannot read {}: {error}", path.display()));
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
        let unreadable = |error| StoreError::Io(format!("cannot read {}: {error}", path.display()));
        let (file, bytes) = open().map_err(unreadable)?;
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

/// The writing side.
pub(super) struct Writer {
    segments: Arc<Segments>,
    current: Option<Current>,
    chores: Option<JoinHandle<Result<(), StoreError>>>,
    /// Somebody waits for the chores.
    is_waited_for: Arc<AtomicBool>,
    /// The file of the next segment is ready, or will be when the chores are done.
    is_prepared: bool,
    /// Let go, and not yet removed.
    gone: Vec<Segment>,
    /// The newest of those that were let go, if its file can be used again.
    spare: Option<Segment>,
    /// Files that cannot be read, and go with those around them.
    unreadable: Vec<u64>,
    /// For values under way to the disk.
    buffer: Vec<u8>,
    first_bytes: u64,
    bytes_max: u64,
}

struct Current {
    number: u64,
    since: Timestamp,
    salt: u64,
    places: Arc<Places>,
    /// Where the next entry goes.
    at: u64,
    bytes: u64,
}

/// Where the log ends that a start has read.
#[derive(Debug)]
pub(super) struct End {
    pub(super) number: u64,
    pub(super) at: u64,
    pub(super) places: Vec<(Seq, u64)>,
}

impl Writer {
    /// Nothing is written before there is an entry.
    pub(super) fn new(folder: &Path, listed: VecDeque<Segment>, unreadable: Vec<u64>, options: &DiskOptions) -> Self {
        let bytes_max = (options.retention.bytes / PARTS_OF_BYTES).clamp(FIRST_BYTES, BYTES_MAX);
        let segments = Segments {
            folder: folder.to_owned(),
            listed: RwLock::new(listed),
            newest: RwLock::default(),
            looked_up: Mutex::default(),
        };
        Self {
            segments: Arc::new(segments),
            current: None,
            chores: None,
            is_waited_for: Arc::default(),
            is_prepared: false,
            gone: Vec::new(),
            spare: None,
            unreadable,
            buffer: Vec::new(),
            first_bytes: options.segment_bytes.unwrap_or(FIRST_BYTES),
            bytes_max: options.segment_bytes.unwrap_or(bytes_max),
        }
    }

    pub(super) fn segments(&self) -> &Arc<Segments> {
        &self.segments
    }

    /// Removes files that nobody needs, from both ends, so that a crash on the way leaves no gap.
    pub(super) fn remove(&self, mut unneeded: Vec<u64>) -> Result<(), StoreError> {
        if unneeded.is_empty() {
            return Ok(());
        }
        let first = self.segments.listed().front().map_or(0, |first| first.number);
        unneeded.sort_unstable();
        let later = unneeded.split_off(unneeded.partition_point(|number| *number < first));
        for number in unneeded.into_iter().chain(later.into_iter().rev()) {
            remove(&self.segments.path(number))?;
        }
        sync_folder(&self.segments.folder)
    }

    /// Goes on where the log ends. What is behind it is nobody's, and must not be found again.
    pub(super) fn resume(&mut self, end: End) -> Result<(), StoreError> {
        let path = self.segments.path(end.number);
        let newest = self.segments.listed_mut().back_mut().map(|newest| {
            newest.bytes = end.at;
            *newest
        });
        let newest = newest.expect("the log ends in a segment");
        let open = || -> io::Result<File> {
            let file = File::options().read(true).write(true).open(&path)?;
            file.set_len(end.at)?;
            // Whoever wrote the last entry may not have synced it, or may have failed to: then the system takes it for clean.
            if let Some((_, at)) = end.places.last() {
                let mut entry = vec![0; usize::try_from(end.at - at).map_err(io::Error::other)?];
                file.read_exact_at(&mut entry, *at)?;
                file.write_all_at(&entry, *at)?;
            }
            file.sync_all()?;
            Ok(file)
        };
        let file = open().map_err(|error| failed(&path, &error))?;
        self.set_current(Current {
            number: end.number,
            since: newest.at,
            salt: newest.salt,
            places: Arc::new(Places { file, entries: RwLock::new(end.places) }),
            at: end.at,
            bytes: end.at,
        });
        Ok(())
    }

    fn set_current(&mut self, current: Current) {
        let newest = Some((current.number, current.places.clone()));
        *self.segments.newest.write().unwrap_or_else(PoisonError::into_inner) = newest;
        self.current = Some(current);
    }

    fn has_room(&self, value: &[u8]) -> bool {
        self.current.as_ref().is_some_and(|current| current.at + record_bytes(value) as u64 <= current.bytes)
    }

    /// Appends an entry, and syncs it if it is to be. Says whether that took a new segment.
    pub(super) fn append(&mut self, entry: &Entry, value: &[u8], sync: bool, age: Ttl) -> Result<bool, StoreError> {
        let part = Ttl::from_millis((age.as_millis() / PARTS_OF_AGE).max(PART_MILLIS_MIN));
        let is_old = self.current.as_ref().is_some_and(|current| current.since + part <= entry.at);
        let begins = is_old || !self.has_room(value) && !self.grow(value)?;
        if begins {
            self.begin(entry, value, sync)?;
        }
        let current = self.current.as_mut().expect("it was just begun");
        let length = u32::try_from(value.len()).expect("it has room in a file");
        let events = u32::try_from(entry.events.len()).expect("a batch is bounded");
        let header = RecordHeader { length, events, first: entry.first, checksum: 0 };
        self.buffer.clear();
        self.buffer.extend(header.sealed(current.salt, value));
        self.buffer.extend(value);
        let written = current.places.file.write_all_at(&self.buffer, current.at);
        let synced = written.and_then(|()| if sync { current.places.file.sync_data() } else { Ok(()) });
        synced.map_err(|error| failed(&self.segments.path(current.number), &error))?;
        // Only now: it is durable.
        current.places.entries.write().unwrap_or_else(PoisonError::into_inner).push((entry.first, current.at));
        current.at += record_bytes(value) as u64;
        Ok(begins)
    }

    /// Makes the file larger in which an earlier server stopped, if that is enough.
    fn grow(&mut self, value: &[u8]) -> Result<bool, StoreError> {
        let Some(current) = &mut self.current else { return Ok(false) };
        if current.bytes >= self.first_bytes || current.at + record_bytes(value) as u64 > self.first_bytes {
            return Ok(false);
        }
        let path = self.segments.path(current.number);
        make(&path, self.first_bytes, || true).map_err(|error| failed(&path, &error))?;
        current.bytes = self.first_bytes;
        if let Some(newest) = self.segments.listed_mut().back_mut() {
            newest.bytes = self.first_bytes;
        }
        Ok(true)
    }

    /// Begins a segment with this entry.
    fn begin(&mut self, entry: &Entry, value: &[u8], sync: bool) -> Result<(), StoreError> {
        self.chores_done()?;
        // Segments before the newest are whole, whatever is lost.
        if !sync {
            self.sync()?;
        }
        let number = self.segments.next_number();
        let path = self.segments.path(number);
        let needed = self.first_bytes.max(ENTRIES_START + record_bytes(value) as u64);
        let salt =
            getrandom::u64().map_err(|error| StoreError::Io(format!("the system has no randomness: {error}")))?;
        let open = || -> io::Result<(File, u64)> {
            make(&path, needed, || true)?;
            let file = File::options().read(true).write(true).open(&path)?;
            file.write_all_at(&header(number, entry.first, entry.at, salt), 0)?;
            let bytes = file.metadata()?.len();
            Ok((file, bytes))
        };
        let (file, bytes) = open().map_err(|error| failed(&path, &error))?;
        self.is_prepared = false;
        self.segments.listed_mut().push_back(Segment { number, base: entry.first, at: entry.at, salt, bytes });
        let places = Arc::new(Places { file, entries: RwLock::default() });
        self.set_current(Current { number, since: entry.at, salt, places, at: ENTRIES_START, bytes });
        Ok(())
    }

    /// What was appended without being synced is on the disk then.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        let Some(current) = &self.current else { return Ok(()) };
        let synced = current.places.file.sync_data();
        synced.map_err(|error| failed(&self.segments.path(current.number), &error))
    }

    /// Which of the oldest are too old, or too much, and are in the rows as of `watermark`. The newest stays.
    pub(super) fn dispensable(&self, watermark: Seq, before: Timestamp, bytes_max: u64) -> Vec<Segment> {
        let listed = self.segments.listed();
        let mut bytes: u64 = listed.iter().map(|segment| segment.bytes).sum();
        let mut found = Vec::new();
        for (oldest, next) in listed.iter().zip(listed.iter().skip(1)) {
            let is_wanted = next.at > before && bytes <= bytes_max;
            if is_wanted || next.base.0 - 1 > watermark.0 {
                break;
            }
            bytes -= oldest.bytes;
            found.push(*oldest);
        }
        found
    }

    /// Nobody is told of these any more. Their files go with the next chores, but for the newest, which is kept to be used again.
    pub(super) fn let_go(&mut self, gone: Vec<Segment>) {
        let mut listed = self.segments.listed_mut();
        listed.retain(|segment| !gone.contains(segment));
        let first = listed.front().map_or(u64::MAX, |first| first.number);
        drop(listed);
        self.gone.extend(self.spare.take().into_iter().chain(gone));
        // They are of no use, whatever they are.
        let unreadable = self.unreadable.extract_if(.., |number| *number < first);
        self.gone.extend(unreadable.map(|number| Segment { number, ..Segment::default() }));
        // In their order, so that a crash on the way leaves no gap.
        self.gone.sort_unstable_by_key(|segment| segment.number);
        self.spare = self.gone.pop_if(|newest| newest.bytes == self.bytes_max);
    }

    pub(super) fn has_chores(&self) -> bool {
        !self.gone.is_empty() || self.needs_next()
    }

    pub(super) fn has_let_go(&self) -> bool {
        !self.gone.is_empty() || self.spare.is_some()
    }

    /// Whether the next file is to be made ready: there is time for it while this one is filled.
    fn needs_next(&self) -> bool {
        let is_used = |current: &Current| current.bytes > current.at && current.at > current.bytes / 8;
        !self.is_prepared && self.current.as_ref().is_some_and(is_used)
    }

    /// Beside what else happens, if nothing of the kind does already: syncs all that the database `db` has been told, removes what was
    /// let go, and makes the next file ready if it is time to.
    pub(super) fn do_chores(&mut self, db: &Path) -> Result<(), StoreError> {
        if self.chores.is_some() {
            return Ok(());
        }
        let next = self.needs_next().then(|| {
            let bytes = self.current.as_ref().map_or(self.first_bytes, |current| current.bytes * 2);
            (self.segments.path(self.segments.next_number()), bytes.clamp(self.first_bytes, self.bytes_max))
        });
        self.is_prepared |= next.is_some();
        let spare = self.spare.take_if(|spare| next.as_ref().is_some_and(|(_, bytes)| *bytes == spare.bytes));
        let spare = spare.map(|spare| self.segments.path(spare.number));
        let gone: Vec<_> = self.gone.drain(..).map(|it| self.segments.path(it.number)).collect();
        let (folder, db) = (self.segments.folder.clone(), db.to_owned());
        self.is_waited_for.store(false, Ordering::Relaxed);
        let is_waited_for = self.is_waited_for.clone();
        let chores = move || {
            journal::sync(&db)?;
            gone.iter().try_for_each(|path| remove(path))?;
            if !gone.is_empty() {
                sync_folder(&folder)?;
            }
            let Some((next, bytes)) = next else { return Ok(()) };
            let ready = || -> io::Result<()> {
                if let Some(spare) = &spare {
                    reuse(spare, &next)?;
                }
                make(&next, bytes, || is_waited_for.load(Ordering::Relaxed))
            };
            // Without room for more it stays as it is, and is made large enough when it is begun.
            if let Err(error) = ready() {
                tracing::warn!(file = %next.display(), %error, "cannot make a file ready");
            }
            Ok(())
        };
        match std::thread::Builder::new().name("tenure-log".into()).spawn(chores.clone()) {
            Ok(thread) => self.chores = Some(thread),
            // They have to be done, whoever does them.
            Err(_) => chores()?,
        }
        Ok(())
    }

    /// Hears of chores that are done.
    pub(super) fn look_after_chores(&mut self) -> Result<(), StoreError> {
        if self.chores.as_ref().is_some_and(JoinHandle::is_finished) { self.chores_done() } else { Ok(()) }
    }

    pub(super) fn chores_done(&mut self) -> Result<(), StoreError> {
        self.is_waited_for.store(true, Ordering::Relaxed);
        match self.chores.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(_)) => Err(StoreError::Io("cannot make the next segment of the log ready".into())),
        }
    }

    /// Nothing more is written: the files are as large as what they have.
    pub(super) fn close(&mut self, sync: bool) -> Result<(), StoreError> {
        self.chores_done()?;
        let Some(current) = &self.current else { return Ok(()) };
        let path = self.segments.path(current.number);
        let cut = || -> io::Result<()> {
            current.places.file.set_len(current.at)?;
            if sync { current.places.file.sync_all() } else { Ok(()) }
        };
        cut().map_err(|error| failed(&path, &error))?;
        let gone = self.gone.drain(..).chain(self.spare.take()).map(|it| it.number);
        let unneeded = gone.chain([self.segments.next_number()]).collect();
        self.remove(unneeded)
    }
}

/// What there is, without having been read.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Oldest first. Those whose beginning is damaged are told by their numbers.
    pub(super) segments: VecDeque<Result<Segment, (u64, String)>>,
    /// Files that nothing was begun in.
    pub(super) unbegun: Vec<u64>,
    folder: PathBuf,
}

/// Looks at the beginnings of all files.
pub(super) fn find(folder: &Path) -> Result<Found, StoreError> {
    let unreadable = |error: io::Error| StoreError::Io(format!("cannot read {}: {error}", folder.display()));
    let mut found = Found { folder: folder.to_owned(), ..Found::default() };
    let mut numbers = Vec::new();
    for file in folder.read_dir().map_err(unreadable)? {
        let name = file.map_err(unreadable)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".log")?.parse().ok());
        let path = folder.join(&name);
        numbers.push(number.ok_or_else(|| StoreError::Damaged(format!("{} is no name of a segment", path.display())))?);
    }
    numbers.sort_unstable();
    if let Some(pair) = numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
        let missing = path(folder, pair[0] + 1);
        return Err(StoreError::Damaged(format!("{} is missing", missing.display())));
    }
    for number in &numbers {
        let path = path(folder, *number);
        let read = || -> io::Result<(Vec<u8>, u64)> {
            let file = File::open(&path)?;
            let mut begun = vec![0; HEADER_BYTES];
            let length = file.metadata()?.len();
            begun.truncate(usize::try_from(length).unwrap_or(HEADER_BYTES));
            file.read_exact_at(&mut begun, 0)?;
            Ok((begun, length))
        };
        let (begun, length) = read().map_err(unreadable)?;
        match begun_as(&begun, *number, number == numbers.last().expect("there is one")) {
            // A file is larger than this before it is begun.
            Ok(Some(_)) if length < ENTRIES_START => {
                found.segments.push_back(Err((*number, why_damaged(&path.display(), length))));
            }
            Ok(Some(segment)) => found.segments.push_back(Ok(Segment { bytes: length, ..segment })),
            Ok(None) => found.unbegun.push(*number),
            Err(()) => found.segments.push_back(Err((*number, why_damaged(&path.display(), 0)))),
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

impl Found {
    pub(super) fn read(&self, segment: &Segment) -> Result<Vec<u8>, StoreError> {
        let path = path(&self.folder, segment.number);
        fs::read(&path).map_err(|error| StoreError::Io(format!("cannot read {}: {error}", path.display())))
    }

    pub(super) fn name(&self, number: u64) -> String {
        path(&self.folder, number).display().to_string()
    }
}

/// What a segment has.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Of all entries.
    pub(super) places: Vec<(Seq, u64)>,
    /// Entries that are needed: where their values are.
    pub(super) needed: Vec<(Seq, std::ops::Range<usize>)>,
    /// The event that would come next, and where.
    pub(super) next: Seq,
    pub(super) at: usize,
    /// There is more that cannot be read.
    pub(super) is_damaged: bool,
}

impl Contents {
    /// Reads a file. Entries with events from `needed` on must be what was written; of others it is enough where they are. The segment
    /// ends before `end`. The newest has none: an entry that was not completely written ends it, unless there is one
    /// behind it, since each was synced before the next was written.
    pub(super) fn read(bytes: &[u8], segment: &Segment, needed: Seq, end: Option<Seq>) -> Self {
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
                if codec::decode_entry_time(header.first, &bytes[value.clone()]).is_err() {
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

pub(super) struct RecordHeader {
    length: u32,
    events: u32,
    first: Seq,
    checksum: u64,
}

impl RecordHeader {
    fn read(bytes: &[u8; RECORD_HEADER_BYTES]) -> Self {
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
    fn right_checksum(&self, salt: u64, value: &[u8]) -> u64 {
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
    pub(super) fn reseal(bytes: &[u8; RECORD_HEADER_BYTES], salt: u64, value: &[u8]) -> [u8; RECORD_HEADER_BYTES] {
        Self::read(bytes).sealed(salt, value)
    }
}

/// The entry that begins there, and where its value is, if its header is what was written.
fn record(bytes: &[u8], at: usize, salt: u64) -> Option<(RecordHeader, std::ops::Range<usize>)> {
    let header = RecordHeader::read(bytes.get(at..)?.first_chunk()?);
    let begin = at + RECORD_HEADER_BYTES;
    let end = begin.checked_add(usize::try_from(header.length).ok()?)?;
    let value = bytes.get(begin..end)?;
    (header.events > 0 && header.checksum == header.right_checksum(salt, value)).then_some((header, begin..end))
}

pub(super) fn record_bytes(value: &[u8]) -> usize {
    (RECORD_HEADER_BYTES + value.len()).next_multiple_of(RECORD_ALIGN)
}

pub(super) fn header(number: u64, base: Seq, at: Timestamp, salt: u64) -> [u8; HEADER_BYTES] {
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
pub(super) fn read_header(bytes: &[u8]) -> Option<Segment> {
    let word = |at: usize| bytes.get(at..at + 8)?.try_into().map(u64::from_le_bytes).ok();
    let (number, base, at, salt) = (word(8)?, Seq(word(16)?), Timestamp::from_millis(word(24)?), word(32)?);
    // One is added to each.
    let are_possible = number < NUMBER_MAX && (1..NUMBER_MAX).contains(&base.0);
    (are_possible && bytes == header(number, base, at, salt)).then_some(Segment { number, base, at, salt, bytes: 0 })
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.log"))
}

/// Makes a file at least this large, of blocks that have been written; slowly if nobody waits for it.
fn make(path: &Path, bytes: u64, is_waited_for: impl Fn() -> bool) -> io::Result<()> {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.create(true).truncate(false).write(true).open(path)?;
    let had = file.metadata()?.len();
    if had >= bytes {
        return Ok(());
    }
    let zeros = vec![0; PIECE_BYTES];
    let grow = || -> io::Result<()> {
        let mut at = had;
        while at < bytes {
            let began = Instant::now();
            let piece = usize::try_from(bytes - at).map_or(zeros.len(), |left| left.min(zeros.len()));
            file.write_all_at(&zeros[..piece], at)?;
            at += piece as u64;
            if !is_waited_for() {
                file.sync_data()?;
                std::thread::sleep((began.elapsed() * PAUSE_FACTOR).min(Duration::from_millis(10)));
            }
        }
        file.sync_all()?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    // Half of it is of no use.
    grow().inspect_err(|_| drop(file.set_len(had)))
}

/// Makes a file ready to be another segment. It gets its new name first: with that it is of no segment.
fn reuse(path: &Path, next: &Path) -> io::Result<()> {
    fs::rename(path, next)?;
    let file = File::options().write(true).open(next)?;
    file.write_all_at(&[0; HEADER_BYTES], 0)?;
    file.sync_all()?;
    next.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, &error)),
        _ => Ok(()),
    }
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

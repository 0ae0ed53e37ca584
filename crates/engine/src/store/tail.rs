//! The newest entries of the log, in files whose blocks were written before: there a sync is one write of data, and not
//! also one of what the file system keeps about it. The database gets the same entries later, many at a time.
//!
//! Two files are used in turn. A file is begun anew, as another generation, once all that it had is in the database and
//! synced. docs/storage.md draws the bytes.

use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use tenure_core::Seq;
use xxhash_rust::xxh3::xxh3_64;

use super::codec::NUMBER_MAX;
use super::journal::Written;
use super::{Entry, StoreError, codec};

const MAGIC: &[u8; 8] = b"tenure t";
/// Magic, generation, number of the first event, checksum of these; within a sector, so that it is written or not.
pub(super) const HEADER_BYTES: usize = 32;
/// Entries begin after the first block.
pub(super) const ENTRIES_BEGIN: usize = 4_096;
const ENTRIES_START: u64 = ENTRIES_BEGIN as u64;
/// Length of the value, number of events, number of the first.
pub(super) const RECORD_HEADER_BYTES: usize = 16;
const RECORD_ALIGN: usize = 8;
/// Each generation may have twice as much as the one before, up to a second's worth of a busy server: most servers never
/// need more than the first.
const FIRST_BYTES: u64 = 1024 * 1024;
const BYTES_MAX: u64 = 32 * 1024 * 1024;

pub(super) struct Tail {
    db: PathBuf,
    generation: u64,
    /// The last generation of whoever was here before.
    found: u64,
    current: Option<Current>,
    /// Makes the file of the next generation ready.
    preparing: Option<JoinHandle<Result<(), StoreError>>>,
    /// For values under way to the disk.
    buffer: Vec<u8>,
    first_bytes: u64,
    bytes_max: u64,
}

struct Current {
    file: File,
    /// Where the next entry goes.
    at: u64,
    bytes: u64,
}

/// What a server that was not stopped left behind, oldest first.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) generations: Vec<Generation>,
}

#[derive(Debug)]
pub(super) struct Generation {
    pub(super) number: u64,
    /// The number of the first event in it. What is before was in the database, and synced, when this was begun.
    pub(super) base: Seq,
    /// By the numbers of their first events.
    pub(super) entries: Vec<(Seq, Vec<u8>)>,
    /// Where there is more that cannot be read. It matters if the database has not got it either.
    pub(super) damage: Option<String>,
}

impl Found {
    pub(super) fn is_empty(&self) -> bool {
        self.generations.is_empty()
    }
}

impl Tail {
    /// Nothing is written before there is an entry.
    pub(super) fn new(db: &Path, found: &Found, bytes: Option<u64>) -> Self {
        let found = found.generations.last().map_or(0, |newest| newest.number);
        Self {
            db: db.to_owned(),
            generation: found,
            found,
            current: None,
            preparing: None,
            buffer: Vec::new(),
            first_bytes: bytes.unwrap_or(FIRST_BYTES),
            bytes_max: bytes.unwrap_or(BYTES_MAX),
        }
    }

    pub(super) fn has_room(&self, value: &[u8]) -> bool {
        self.current.as_ref().is_some_and(|current| current.at + record_bytes(value) as u64 <= current.bytes)
    }

    /// Whether it would have if it were begun anew.
    pub(super) fn could_have_room(&self, value: &[u8]) -> bool {
        ENTRIES_START + record_bytes(value) as u64 <= self.first_bytes
    }

    /// Begins a generation: all before this event is in the database.
    pub(super) fn begin(&mut self, base: Seq) -> Result<(), StoreError> {
        self.current = None;
        self.prepared()?;
        let number = self.generation + 1;
        let path = self.path(number);
        let open = || -> io::Result<Current> {
            make(&path, self.first_bytes)?;
            let file = File::options().read(true).write(true).open(&path)?;
            file.write_all_at(&header(number, base), 0)?;
            let bytes = file.metadata()?.len();
            Ok(Current { file, at: ENTRIES_START, bytes })
        };
        self.current = Some(open().map_err(|error| failed(&path, &error))?);
        self.generation = number;
        Ok(())
    }

    /// Nothing more is added to this generation: the database has all of it, and what came after it.
    pub(super) fn end(&mut self) {
        self.current = None;
    }

    /// There must be room for it.
    pub(super) fn append(&mut self, entry: &Entry, value: &[u8], sync: bool) -> Result<(), StoreError> {
        let path = self.path(self.generation);
        let current = self.current.as_mut().expect("there is room in a generation that was begun");
        let length = u32::try_from(value.len()).expect("it has room in a file");
        let events = u32::try_from(entry.events.len()).expect("a batch is bounded");
        self.buffer.clear();
        self.buffer.extend(length.to_le_bytes());
        self.buffer.extend(events.to_le_bytes());
        self.buffer.extend(entry.first.0.to_le_bytes());
        self.buffer.extend(value);
        let written = current.file.write_all_at(&self.buffer, current.at);
        let synced = written.and_then(|()| if sync { current.file.sync_data() } else { Ok(()) });
        synced.map_err(|error| failed(&path, &error))?;
        current.at += record_bytes(value) as u64;
        Ok(())
    }

    /// Whether anything was written to it.
    pub(super) fn is_used(&self) -> bool {
        self.generation != self.found
    }

    /// Whether it is time to make the next file ready: by then the one before this must be in the database.
    pub(super) fn is_half_full(&self) -> bool {
        self.preparing.is_none() && self.current.as_ref().is_some_and(|current| current.at > current.bytes / 2)
    }

    /// Makes the next file ready, beside what else happens. `persist` syncs all that the database has been told.
    pub(super) fn prepare<P>(&mut self, persist: P) -> Result<(), StoreError>
    where
        P: FnOnce() -> Result<(), StoreError> + Clone + Send + 'static,
    {
        let next = self.path(self.generation + 1);
        let bytes = self.current.as_ref().map_or(self.first_bytes, |current| (current.bytes * 2).min(self.bytes_max));
        let prepare = move || {
            persist()?;
            // Without room for more it stays as it is, and will do.
            if let Err(error) = make(&next, bytes) {
                tracing::warn!(file = %next.display(), %error, "cannot make a file larger");
            }
            Ok(())
        };
        match std::thread::Builder::new().name("tenure-tail".into()).spawn(prepare.clone()) {
            Ok(thread) => self.preparing = Some(thread),
            // It has to be done before the next file is begun, whoever does it.
            Err(_) => prepare()?,
        }
        Ok(())
    }

    pub(super) fn is_prepared(&self) -> bool {
        self.preparing.is_some()
    }

    fn prepared(&mut self) -> Result<(), StoreError> {
        match self.preparing.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(_)) => Err(StoreError::Io("cannot make the next tail ready".into())),
        }
    }

    /// The database has everything, and is closed: there is nothing to find.
    pub(super) fn remove(&mut self) -> Result<(), StoreError> {
        self.current = None;
        self.prepared()?;
        for number in 0..2 {
            let path = self.path(number);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&path, &error)),
                _ => {}
            }
        }
        let synced = File::open(&self.db).and_then(|folder| folder.sync_all());
        synced.map_err(|error| failed(&self.db, &error))
    }

    fn path(&self, generation: u64) -> PathBuf {
        path(&self.db, generation)
    }
}

/// Reads what is there.
pub(super) fn read(db: &Path, written: Written) -> Result<Found, StoreError> {
    let mut generations = Vec::new();
    for slot in 0..2 {
        let path = path(db, slot);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(StoreError::Io(format!("cannot read {}: {error}", path.display()))),
        };
        match read_generation(&bytes, slot, &path.display()) {
            Ok(generation) => generations.extend(generation),
            Err(why) => given_up(why, written)?,
        }
    }
    generations.sort_unstable_by_key(|generation| generation.number);
    if let [older, newer] = generations.as_slice()
        && older.number + 1 != newer.number
    {
        let (older, newer) = (older.number, newer.number);
        let why = format!(
            "the tails in {} are of generations {older} and {newer}, which do not follow each other",
            db.display()
        );
        given_up(why, written)?;
    }
    Ok(Found { generations })
}

/// Reads a file; none if it was made and not begun. An entry that was not completely written ends it, unless there is one
/// behind it: each was synced before the next was written.
pub(super) fn read_generation(bytes: &[u8], slot: u64, name: &dyn Display) -> Result<Option<Generation>, String> {
    let damaged = |at: usize| format!("{name} cannot be read from byte {at} on");
    let mut at = ENTRIES_BEGIN;
    let begun = &bytes[..bytes.len().min(HEADER_BYTES)];
    if begun.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    // A file is made as large as it is going to be before it is begun.
    let header = read_header(begun).filter(|(number, _)| number % 2 == slot && bytes.len() >= at);
    let Some((number, base)) = header else { return Err(damaged(0)) };
    let mut next = base;
    let mut entries = Vec::new();
    while let Some(record) = read_record(bytes, at, |first| first == next) {
        next = Seq(next.0.saturating_add(record.events));
        entries.push((record.first, record.value.to_vec()));
        at += record_bytes(record.value);
    }
    // What earlier generations left has lower numbers, and there are fewer events than bytes. So what only looks like an
    // entry is seldom looked at: its checksum may be over the rest of the file.
    let could_be = |first: Seq| first >= base && first.0 - base.0 < bytes.len() as u64;
    let mut rest = (at..bytes.len()).step_by(RECORD_ALIGN);
    let damage = rest.any(|at| read_record(bytes, at, could_be).is_some()).then(|| damaged(at));
    Ok(Some(Generation { number, base, entries, damage }))
}

/// What was synced must be there; of what was not, any part may be missing.
pub(super) fn given_up(why: String, written: Written) -> Result<(), StoreError> {
    if written == Written::Synced {
        return Err(StoreError::Damaged(why));
    }
    tracing::warn!("{why}: what is there was never synced");
    Ok(())
}

struct Record<'a> {
    first: Seq,
    events: u64,
    value: &'a [u8],
}

/// The whole entry that is there, if its number is wanted.
fn read_record(bytes: &[u8], at: usize, is_wanted: impl FnOnce(Seq) -> bool) -> Option<Record<'_>> {
    let (begun, rest) = bytes.get(at..)?.split_at_checked(RECORD_HEADER_BYTES)?;
    let length = u32::from_le_bytes(begun[..4].try_into().expect("four bytes"));
    let events = u32::from_le_bytes(begun[4..8].try_into().expect("four bytes"));
    let first = Seq(u64::from_le_bytes(begun[8..].try_into().expect("eight bytes")));
    if events == 0 || !is_wanted(first) {
        return None;
    }
    let value = rest.get(..usize::try_from(length).ok()?)?;
    codec::decode_entry_time(first, value).ok()?;
    Some(Record { first, events: events.into(), value })
}

pub(super) fn record_bytes(value: &[u8]) -> usize {
    (RECORD_HEADER_BYTES + value.len()).next_multiple_of(RECORD_ALIGN)
}

pub(super) fn header(generation: u64, base: Seq) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..16].copy_from_slice(&generation.to_le_bytes());
    header[16..24].copy_from_slice(&base.0.to_le_bytes());
    let checksum = xxh3_64(&header[..24]);
    header[24..].copy_from_slice(&checksum.to_le_bytes());
    header
}

fn read_header(bytes: &[u8]) -> Option<(u64, Seq)> {
    let number = |at: usize| bytes.get(at..at + 8)?.try_into().map(u64::from_le_bytes).ok();
    let (generation, base) = (number(8)?, Seq(number(16)?));
    // One is added to each.
    let are_possible = generation < NUMBER_MAX && base.0 < NUMBER_MAX;
    (are_possible && bytes == header(generation, base)).then_some((generation, base))
}

/// Generations take turns.
fn path(db: &Path, generation: u64) -> PathBuf {
    db.join(format!("{}.tail", generation % 2))
}

/// Makes a file at least this large, of blocks that have been written.
fn make(path: &Path, bytes: u64) -> io::Result<()> {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.create(true).truncate(false).write(true).open(path)?;
    let had = file.metadata()?.len();
    if had >= bytes {
        return Ok(());
    }
    let zeros = vec![0; 64 * 1024];
    let grow = || -> io::Result<()> {
        let mut at = had;
        while at < bytes {
            let piece = usize::try_from(bytes - at).map_or(zeros.len(), |left| left.min(zeros.len()));
            file.write_all_at(&zeros[..piece], at)?;
            at += piece as u64;
        }
        file.sync_all()?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    // Half of it is of no use.
    grow().inspect_err(|_| drop(file.set_len(had)))
}

fn failed(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io(format!("cannot write to the data directory: {}: {error}", path.display()))
}

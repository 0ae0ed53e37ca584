//! The writing side of the log: entries are appended, segments begun, made ready beforehand, let go and used again.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use tenure_core::{Seq, Timestamp, Ttl};

use super::blocks::{BLOCK_BYTES, Blocks};
use super::bytes::{ENTRIES_BEGIN, HEADER_BYTES, RECORD_ALIGN, header, record_bytes, record_header};
use super::ring::{Ring, Written};
use super::{ENTRIES_START, Places, Segment, Segments, failed, sync_folder};
use crate::store::background::{Background, Task};
use crate::store::{DiskOptions, Durability, Entry, StoreError, journal};

/// Each segment may have twice as much as the one before, up to a second's worth of a busy server, or this part of what is kept: most
/// servers never need more than the first.
const PARTS_OF_BYTES: u64 = 8;
const FIRST_BYTES: u64 = 1024 * 1024;
const BYTES_MAX: u64 = 32 * 1024 * 1024;
/// The next file is made from when this part of the current one is filled, and is to be ready when this part is.
const BEGUN_AT: f64 = 1.0 / 8.0;
const READY_AT: f64 = 5.0 / 8.0;
/// A file that is made beside the commits is written in pieces, with pauses that are so many times as long as a piece took, as long as
/// that is soon enough: more at once would keep commits waiting for the disk.
const PIECE_BYTES: usize = 64 * 1024;
const PAUSE_FACTOR: u32 = 8;
const PAUSE_MAX: Duration = Duration::from_millis(2);
/// The pieces while somebody waits for it.
const PIECE_BYTES_MAX: usize = 1024 * 1024;
/// File systems of which it is known that a direct write to a file that was opened with `O_DSYNC` is on the disk when it returns. On
/// some that are served from elsewhere it is not synced there.
const SYNC_DIRECT_WRITES: [u64; 4] = [EXT4, XFS, BTRFS, F2FS];
const EXT4: u64 = 0xef53;
const XFS: u64 = 0x5846_5342;
/// Some versions of it do not sync what a ring has written (Linux 8184620ae212 mends that), so there it is waited for.
const BTRFS: u64 = 0x9123_683e;
const F2FS: u64 = 0xf2f5_2010;
/// A segment is ended when it has been filled for this part of the time for which history is kept, so that it can be let go in time;
/// but not sooner than this.
const PARTS_OF_AGE: u64 = 8;
const PART_MILLIS_MIN: u64 = 60_000;

/// The writing side.
pub(in crate::store) struct Writer {
    segments: Arc<Segments>,
    current: Option<Current>,
    background: Background,
    chores: Option<Task<Result<(), StoreError>>>,
    need: Arc<Need>,
    /// The file of the next segment is ready, or will be when the chores are done.
    is_prepared: bool,
    /// Let go, and not yet removed.
    gone: Vec<Segment>,
    /// The newest of those that were let go, if its file can be used again.
    spare: Option<Segment>,
    /// Files that cannot be read, and go with those around them.
    unreadable: Vec<u64>,
    /// How the current file ends. The ring has it while that is written.
    blocks: Blocks,
    /// None as long as nobody needed one, or where there is none, which to find out costs next to nothing.
    ring: Option<Ring>,
    durability: Durability,
    first_bytes: u64,
    bytes_max: u64,
}

/// How soon the next file is needed, for the thread that makes it.
#[derive(Debug, Default)]
struct Need {
    /// What the current file has, and could have.
    filled: AtomicU64,
    bytes: AtomicU64,
    is_waited_for: AtomicBool,
}

impl Need {
    fn note(&self, current: &Current) {
        self.filled.store(current.at, Ordering::Relaxed);
        self.bytes.store(current.bytes, Ordering::Relaxed);
    }

    fn is_waited_for(&self) -> bool {
        self.is_waited_for.load(Ordering::Relaxed)
    }

    /// Whether a file of which this part is made will be ready in time.
    fn is_met_by(&self, made: f64) -> bool {
        let [filled, bytes] = [&self.filled, &self.bytes].map(|it| it.load(Ordering::Relaxed) as f64);
        made >= (filled / bytes - BEGUN_AT) / (READY_AT - BEGUN_AT)
    }
}

struct Current {
    number: u64,
    since: Timestamp,
    salt: u64,
    places: Arc<Places>,
    out: Out,
    /// Where the next entry goes.
    at: u64,
    bytes: u64,
    /// The entry that is being written there, and its length.
    adds: Option<(Seq, u64)>,
}

impl Current {
    /// What is being written is on the disk: only now it can be found.
    fn added(&mut self, need: &Need) {
        let (first, bytes) = self.adds.take().expect("something was written");
        self.places.entries.write().unwrap_or_else(PoisonError::into_inner).push((first, self.at));
        self.at += bytes;
        need.note(self);
    }
}

/// What a segment is written by, beside the file that it is read by.
#[derive(Debug)]
struct Out {
    file: File,
    /// Every write goes to the disk, past what the system keeps in memory, and is synced when it returns. That takes two thirds of what
    /// a write and a sync take, but not every file system can do it.
    is_direct: bool,
    /// So it is when it is given to the ring.
    is_synced_beside: bool,
    /// Where the blocks go that are not yet full, or not yet written.
    start: u64,
}

/// Where the log ends that a start has read.
#[derive(Debug)]
pub(in crate::store) struct End {
    pub(in crate::store) number: u64,
    pub(in crate::store) at: u64,
    pub(in crate::store) places: Vec<(Seq, u64)>,
}

impl Writer {
    /// Nothing is written before there is an entry.
    pub(in crate::store) fn new(
        folder: &Path,
        listed: VecDeque<Segment>,
        unreadable: Vec<u64>,
        options: &DiskOptions,
    ) -> Self {
        let bytes_max = (options.retention.bytes / PARTS_OF_BYTES).clamp(FIRST_BYTES, BYTES_MAX);
        let bytes = |bytes: u64| options.segment_bytes.unwrap_or(bytes).next_multiple_of(BLOCK_BYTES as u64);
        let segments = Segments {
            folder: folder.to_owned(),
            listed: RwLock::new(listed),
            newest: RwLock::default(),
            looked_up: Mutex::default(),
        };
        Self {
            segments: Arc::new(segments),
            current: None,
            background: Background::new("tenure-log"),
            chores: None,
            need: Arc::default(),
            is_prepared: false,
            gone: Vec::new(),
            spare: None,
            unreadable,
            blocks: Blocks::default(),
            ring: None,
            durability: options.durability,
            first_bytes: bytes(FIRST_BYTES),
            bytes_max: bytes(bytes_max),
        }
    }

    pub(in crate::store) fn segments(&self) -> &Arc<Segments> {
        &self.segments
    }

    /// Removes files that nobody needs, from both ends, so that a crash on the way leaves no gap.
    pub(in crate::store) fn remove(&self, mut unneeded: Vec<u64>) -> Result<(), StoreError> {
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
    pub(in crate::store) fn resume(&mut self, end: End) -> Result<(), StoreError> {
        let path = self.segments.path(end.number);
        let newest = self.segments.listed_mut().back_mut().map(|newest| {
            newest.bytes = end.at;
            *newest
        });
        let newest = newest.expect("the log ends in a segment");
        let mut open = || -> io::Result<(File, Out)> {
            let file = File::options().read(true).write(true).open(&path)?;
            file.set_len(end.at)?;
            // Whoever wrote the last entry may not have synced it, or may have failed to: then the system takes it for clean.
            if let Some((_, at)) = end.places.last() {
                let mut entry = vec![0; usize::try_from(end.at - at).map_err(io::Error::other)?];
                file.read_exact_at(&mut entry, *at)?;
                file.write_all_at(&entry, *at)?;
            }
            file.sync_all()?;
            let mut last = vec![0; usize::try_from(end.at).map_err(io::Error::other)? % BLOCK_BYTES];
            let start = end.at - last.len() as u64;
            file.read_exact_at(&mut last, start)?;
            self.blocks.clear();
            self.blocks.extend(&last);
            Ok((file, Out::open(&path, start, self.durability == Durability::Sync)?))
        };
        let (file, out) = open().map_err(|error| failed(&path, &error))?;
        self.set_current(Current {
            number: end.number,
            since: newest.at,
            salt: newest.salt,
            places: Arc::new(Places { file, entries: RwLock::new(end.places) }),
            out,
            at: end.at,
            bytes: end.at,
            adds: None,
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
    pub(in crate::store) fn append(
        &mut self,
        entry: &Entry,
        value: &[u8],
        sync: bool,
        age: Ttl,
    ) -> Result<bool, StoreError> {
        let begins = self.prepare(entry, value, sync, age)?;
        self.write(sync)?;
        Ok(begins)
    }

    /// Appends an entry and begins to sync it, if that can be done beside other things; otherwise it is done when this returns.
    /// [`Writer::poll`] tells when it is. Says whether that took a new segment.
    pub(in crate::store) fn begin_to_append(
        &mut self,
        entry: &Entry,
        value: &[u8],
        age: Ttl,
    ) -> Result<bool, StoreError> {
        let begins = self.prepare(entry, value, true, age)?;
        let current = self.current.as_ref().expect("it is prepared");
        if current.out.is_synced_beside
            && let Some(ring) = self.ring.take().or_else(Ring::open)
        {
            match ring.write(&current.out.file, std::mem::take(&mut self.blocks), current.out.start) {
                Ok(writing) => {
                    self.ring = Some(writing);
                    return Ok(begins);
                }
                Err(blocks) => self.blocks = blocks,
            }
        }
        self.write(true)?;
        Ok(begins)
    }

    /// Ready when what was appended last is on the disk.
    pub(in crate::store) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        match self.ring.as_mut().filter(|ring| ring.is_writing()) {
            Some(ring) => {
                let written = ready!(ring.poll(cx));
                Poll::Ready(self.written(written))
            }
            None => Poll::Ready(Ok(())),
        }
    }

    /// Waits for it.
    pub(in crate::store) fn wait(&mut self) -> Result<(), StoreError> {
        let written = self.ring.as_mut().filter(|ring| ring.is_writing()).map(Ring::wait);
        written.map_or(Ok(()), |written| self.written(written))
    }

    /// What the ring says of the entry that was appended last.
    fn written(&mut self, (mut blocks, result): Written) -> Result<(), StoreError> {
        let length = blocks.whole().len();
        self.blocks = blocks;
        let current = self.current.as_mut().expect("it was written there");
        match result {
            Ok(written) if written == length => {
                current.out.start += self.blocks.keep_last();
                current.added(&self.need);
                Ok(())
            }
            // Nothing failed yet, but not all of it was done.
            Ok(_) => self.write(true),
            Err(error) if is_impossible(&error) || is_undone(&error) => self.write(true),
            Err(error) => Err(failed(&self.segments.path(current.number), &error)),
        }
    }

    /// Puts an entry where the next write finds it.
    fn prepare(&mut self, entry: &Entry, value: &[u8], sync: bool, age: Ttl) -> Result<bool, StoreError> {
        let part = Ttl::from_millis((age.as_millis() / PARTS_OF_AGE).max(PART_MILLIS_MIN));
        let is_old = self.current.as_ref().is_some_and(|current| current.since + part <= entry.at);
        let begins = is_old || !self.has_room(value) && !self.grow(value)?;
        if begins {
            self.begin(entry, value, sync)?;
        }
        let current = self.current.as_mut().expect("it was just begun");
        self.blocks.extend(&record_header(entry, value, current.salt));
        self.blocks.extend(value);
        self.blocks.pad(RECORD_ALIGN);
        current.adds = Some((entry.first, record_bytes(value) as u64));
        Ok(begins)
    }

    fn write(&mut self, sync: bool) -> Result<(), StoreError> {
        let current = self.current.as_mut().expect("it is prepared");
        let path = self.segments.path(current.number);
        current.out.write(&mut self.blocks, sync, &path).map_err(|error| failed(&path, &error))?;
        current.added(&self.need);
        Ok(())
    }

    /// Makes the file larger in which an earlier server stopped, if that is enough.
    fn grow(&mut self, value: &[u8]) -> Result<bool, StoreError> {
        let Some(current) = &mut self.current else { return Ok(false) };
        if current.bytes >= self.first_bytes || current.at + record_bytes(value) as u64 > self.first_bytes {
            return Ok(false);
        }
        let path = self.segments.path(current.number);
        make(&path, self.first_bytes, None).map_err(|error| failed(&path, &error))?;
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
        let needed = (ENTRIES_START + record_bytes(value) as u64).next_multiple_of(BLOCK_BYTES as u64);
        let needed = self.first_bytes.max(needed);
        let salt =
            getrandom::u64().map_err(|error| StoreError::Io(format!("the system has no randomness: {error}")))?;
        let open = || -> io::Result<(File, Out, u64)> {
            make(&path, needed, None)?;
            let file = File::options().read(true).write(true).open(&path)?;
            let bytes = file.metadata()?.len();
            Ok((file, Out::open(&path, 0, sync)?, bytes))
        };
        let (file, out, bytes) = open().map_err(|error| failed(&path, &error))?;
        // It goes to the disk with the first entry.
        self.blocks.clear();
        self.blocks.extend(&header(number, entry.first, entry.at, salt));
        self.blocks.pad(ENTRIES_BEGIN);
        self.is_prepared = false;
        self.segments.listed_mut().push_back(Segment { number, base: entry.first, at: entry.at, salt, bytes });
        let places = Arc::new(Places { file, entries: RwLock::default() });
        self.set_current(Current { number, since: entry.at, salt, places, out, at: ENTRIES_START, bytes, adds: None });
        Ok(())
    }

    /// What was appended without being synced is on the disk then.
    pub(in crate::store) fn sync(&self) -> Result<(), StoreError> {
        let Some(current) = &self.current else { return Ok(()) };
        let synced = current.places.file.sync_data();
        synced.map_err(|error| failed(&self.segments.path(current.number), &error))
    }

    /// Which of the oldest are too old, or too much, and are in the rows as of `watermark`. The newest stays.
    pub(in crate::store) fn dispensable(&self, watermark: Seq, before: Timestamp, bytes_max: u64) -> Vec<Segment> {
        let listed = self.segments.listed();
        let mut bytes: u64 = listed.iter().map(|segment| segment.bytes).sum();
        let mut found = Vec::new();
        for (oldest, next) in listed.iter().zip(listed.iter().skip(1)) {
            let is_wanted = next.at > before && bytes <= bytes_max;
            // If the rows have something of the next, that was begun on the disk too, and the log does not come to its end here.
            if is_wanted || next.base > watermark {
                break;
            }
            bytes -= oldest.bytes;
            found.push(*oldest);
        }
        found
    }

    /// Nobody is told of these any more. Their files go with the next chores, but for the newest, which is kept to be used again.
    pub(in crate::store) fn let_go(&mut self, gone: Vec<Segment>) {
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

    pub(in crate::store) fn has_chores(&self) -> bool {
        !self.gone.is_empty() || self.needs_next()
    }

    pub(in crate::store) fn has_let_go(&self) -> bool {
        !self.gone.is_empty() || self.spare.is_some()
    }

    /// Whether the next file is to be made ready: there is time for it while this one is filled.
    fn needs_next(&self) -> bool {
        let is_used =
            |current: &Current| current.bytes > current.at && current.at as f64 > current.bytes as f64 * BEGUN_AT;
        !self.is_prepared && self.current.as_ref().is_some_and(is_used)
    }

    /// Beside what else happens, if nothing of the kind does already: syncs all that the database `db` has been told, removes what was
    /// let go, and makes the next file ready if it is time to.
    pub(in crate::store) fn do_chores(&mut self, db: &Path) {
        if self.chores.is_some() {
            return;
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
        self.need.is_waited_for.store(false, Ordering::Relaxed);
        let need = self.need.clone();
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
                make(&next, bytes, Some(&need))
            };
            // Without room for more it stays as it is, and is made large enough when it is begun.
            if let Err(error) = ready() {
                tracing::warn!(file = %next.display(), %error, "cannot make a file ready");
            }
            Ok(())
        };
        self.chores = Some(self.background.begin(chores));
    }

    /// Hears of chores that are done.
    pub(in crate::store) fn look_after_chores(&mut self) -> Result<(), StoreError> {
        if self.chores.as_mut().is_some_and(Task::is_done) { self.chores_done() } else { Ok(()) }
    }

    pub(in crate::store) fn chores_done(&mut self) -> Result<(), StoreError> {
        self.need.is_waited_for.store(true, Ordering::Relaxed);
        match self.chores.take().map(Task::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(_)) => Err(StoreError::Io("cannot make the next segment of the log ready".into())),
        }
    }

    /// Nothing more is written: the files are as large as what they have.
    pub(in crate::store) fn close(&mut self, sync: bool) -> Result<(), StoreError> {
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

impl Out {
    fn open(path: &Path, start: u64, directly: bool) -> io::Result<Self> {
        if let Some((file, system)) = directly.then(|| open_direct(path, OFlags::DSYNC)).flatten() {
            return Ok(Self { file, is_direct: true, is_synced_beside: system != BTRFS, start });
        }
        Ok(Self { file: File::options().write(true).open(path)?, is_direct: false, is_synced_beside: false, start })
    }

    fn write(&mut self, blocks: &mut Blocks, sync: bool, path: &Path) -> io::Result<()> {
        let mut written = self.file.write_all_at(blocks.whole(), self.start);
        if self.is_direct && written.as_ref().is_err_and(is_impossible) {
            *self = Self::open(path, self.start, false)?;
            written = self.file.write_all_at(blocks.whole(), self.start);
        }
        written?;
        if sync && !self.is_direct {
            self.file.sync_data()?;
        }
        self.start += blocks.keep_last();
        Ok(())
    }
}

/// A file to which only whole blocks are written, past what the system keeps in memory, and what file system it is on; none where that is not
/// possible.
fn open_direct(path: &Path, flags: OFlags) -> Option<(File, u64)> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = (OFlags::DIRECT | flags).bits().cast_signed();
        let file = File::options().write(true).custom_flags(flags).open(path).ok()?;
        let kind = rustix::fs::fstatfs(&file).ok()?.f_type;
        SYNC_DIRECT_WRITES.into_iter().find(|known| i128::from(kind) == i128::from(*known)).map(|known| (file, known))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (path, flags);
        None
    }
}

/// It could not wait, or somebody disturbed it.
fn is_undone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

/// Some file systems say so only then; and some want larger blocks.
fn is_impossible(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

/// Makes a file at least this large, of blocks that have been written; as slowly as the need allows, if there is time.
fn make(path: &Path, bytes: u64, need: Option<&Need>) -> io::Result<()> {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.create(true).truncate(false).write(true).open(path)?;
    let had = file.metadata()?.len();
    if had >= bytes {
        return Ok(());
    }
    let mut zeros = Blocks::default();
    let is_whole = had.is_multiple_of(BLOCK_BYTES as u64);
    let mut direct = is_whole.then(|| open_direct(path, OFlags::empty())).flatten().map(|(file, _)| file);
    let mut grow = || -> io::Result<()> {
        let mut at = had;
        while at < bytes {
            let began = Instant::now();
            let need = need.filter(|need| !need.is_waited_for());
            let most = if need.is_some() { PIECE_BYTES } else { PIECE_BYTES_MAX };
            let piece = usize::try_from(bytes - at).map_or(most, |left| left.min(most));
            // No more than is needed: to be given memory takes the system about as long as to write it.
            if zeros.whole().len() < piece {
                zeros = Blocks::zeros(piece);
            }
            let piece = &zeros.whole()[..piece];
            let written = direct.as_ref().map(|direct| direct.write_all_at(piece, at));
            match written {
                Some(written) if !written.as_ref().is_err_and(is_impossible) => written?,
                _ => {
                    direct = None;
                    file.write_all_at(piece, at)?;
                }
            }
            at += piece.len() as u64;
            let Some(need) = need else { continue };
            // What is kept in memory would be written all at once.
            if direct.is_none() {
                file.sync_data()?;
            }
            if need.is_met_by((at - had) as f64 / (bytes - had) as f64) {
                std::thread::sleep((began.elapsed() * PAUSE_FACTOR).min(PAUSE_MAX));
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

#[cfg(test)]
mod tests {
    use super::super::bytes::RECORD_HEADER_BYTES;
    use super::*;

    #[test]
    fn what_the_ring_left_undone_is_done_and_what_failed_is_told() {
        let errno = |errno: rustix::io::Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        let undone = [
            Ok(0),
            Ok(BLOCK_BYTES),
            Err(errno(rustix::io::Errno::INVAL)),
            Err(errno(rustix::io::Errno::INTR)),
            Err(errno(rustix::io::Errno::AGAIN)),
        ];
        let folder = tempfile::tempdir().unwrap();
        let options = DiskOptions { segment_bytes: Some(64 * BLOCK_BYTES as u64), ..DiskOptions::default() };
        let mut writer = Writer::new(folder.path(), VecDeque::new(), Vec::new(), &options);
        let age = Ttl::from_millis(1_000_000);
        let count = undone.len() as u64;
        let entry = |number: u64| {
            let event = tenure_core::Event::Restarted;
            Entry { first: Seq(number), at: Timestamp::from_millis(number), events: vec![event] }
        };
        // More than a block, so that a part of it can be there.
        let value = |number: u64| vec![u8::try_from(number).unwrap(); BLOCK_BYTES + 100];
        for (number, result) in (1..).zip(undone) {
            writer.prepare(&entry(number), &value(number), true, age).unwrap();
            let blocks = std::mem::take(&mut writer.blocks);
            writer.written((blocks, result)).unwrap();
        }
        let bytes = fs::read(folder.path().join("1.log")).unwrap();
        let mut at = ENTRIES_BEGIN;
        for number in 1..=count {
            at += RECORD_HEADER_BYTES;
            let value = value(number);
            assert!(bytes[at..at + value.len()] == value, "entry {number} is where it belongs");
            at = (at + value.len()).next_multiple_of(RECORD_ALIGN);
        }
        writer.prepare(&entry(count + 1), &value(count + 1), true, age).unwrap();
        let blocks = std::mem::take(&mut writer.blocks);
        let failed = writer.written((blocks, Err(errno(rustix::io::Errno::IO))));
        assert!(matches!(failed, Err(StoreError::Io(_))), "{failed:?}");
    }

    #[test]
    fn the_next_file_is_made_the_sooner_the_faster_this_one_is_filled() {
        let need = Need::default();
        need.bytes.store(1_000, Ordering::Relaxed);
        for (filled, enough) in [(125, 0.0), (250, 0.25), (375, 0.5), (625, 1.0)] {
            need.filled.store(filled, Ordering::Relaxed);
            assert!(need.is_met_by(enough), "{enough} at {filled}");
            assert!(!need.is_met_by(enough - 0.01), "less than {enough} at {filled}");
        }
    }

    #[test]
    fn what_cannot_be_written_directly_is_written_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.log");
        make(&path, 3 * BLOCK_BYTES as u64, None).unwrap();
        assert_eq!(fs::read(&path).unwrap(), vec![0; 3 * BLOCK_BYTES]);
        // No place for a direct write.
        let mut out = Out::open(&path, 100, true).unwrap();
        let mut blocks = Blocks::default();
        for text in [b"one", b"two"] {
            blocks.extend(text);
            out.write(&mut blocks, true, &path).unwrap();
            assert!(!out.is_direct);
        }
        let bytes = fs::read(&path).unwrap();
        assert_eq!((&bytes[..100], &bytes[100..106]), (&[0; 100][..], &b"onetwo"[..]));
        assert!(bytes[106..].iter().all(|byte| *byte == 0));
    }
}

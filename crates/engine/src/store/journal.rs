//! A look at fjall's journals before fjall opens them.
//!
//! On opening, fjall takes the first thing in a journal that it cannot read for the end of it, and cuts off
//! what follows. That is right for a batch that a crash cut short, and silent loss for anything else. So
//! damage is told apart from a torn end here, while all of it is still there.
//!
//! A journal is a sequence of batches: a start, its items, and an end with a checksum over the items. The rest
//! of the file is zeros, because fjall makes it larger than it needs to be. The start has the batch's number,
//! which no checksum covers: with a wrong one fjall would take it for older or newer than it is.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fjall::{AbstractTree, Keyspace};
use xxhash_rust::xxh3::Xxh3;

use super::StoreError;

const END_MAGIC: &[u8] = b"FJL\x03";
/// What a disk writes at once.
const SECTOR_BYTES: usize = 512;
/// Numbers rise from batch to batch, by one and a few more for each table that was written in between.
const NUMBER_STEP_MAX: u64 = 1 << 20;

/// Whether what was written last was synced before anything was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Synced,
    /// After a crash of the machine any part of it may be missing: what follows the first gap is given up.
    Unsynced,
}

/// What was cut off, until it is known that nobody misses it.
#[derive(Debug)]
pub(super) struct Cut {
    path: PathBuf,
    at: u64,
    bytes: Vec<u8>,
    /// The number of the batch before it.
    number: Option<u64>,
}

impl Cut {
    /// Whether the database has nothing of it. It syncs its journal before it writes a table, so tables that are ahead of where
    /// the journal could be read tell that it could be read further once.
    pub(super) fn check(&self, keyspaces: [&Keyspace; 2]) -> Result<(), StoreError> {
        let highest = keyspaces.iter().filter_map(|keyspace| keyspace.tree.get_highest_persisted_seqno()).max();
        if highest > self.number {
            return Err(StoreError::Damaged("the tables have what the journal has not".into()));
        }
        Ok(())
    }

    /// Puts it back, and tells of it: where the log has what the journal lacks, a batch that is damaged looks like one that was never
    /// completed.
    pub(super) fn undo(self, missed: StoreError) -> StoreError {
        let put_back = || -> std::io::Result<()> {
            let file = OpenOptions::new().write(true).open(&self.path)?;
            file.set_len(self.at)?;
            file.write_all_at(&self.bytes, self.at)?;
            file.sync_all()
        };
        if let Err(error) = put_back() {
            return StoreError::Io(format!("cannot put back the end of {}: {error}", self.path.display()));
        }
        match missed {
            StoreError::Damaged(why) => StoreError::Damaged(format!(
                "{why}; the journal {} cannot be read from byte {} on",
                self.path.display(),
                self.at
            )),
            missed => missed,
        }
    }
}

/// Errs on damage; cuts off a batch that was never completed, so that fjall need not judge it.
pub(super) fn check(db: &Path, written: Written) -> Result<Option<Cut>, StoreError> {
    let mut journals = find(db)?;
    journals.sort_unstable();
    let Some((active, sealed)) = journals.split_last() else {
        return Err(StoreError::Damaged(format!("{} has no journal", db.display())));
    };
    if journals.windows(2).any(|pair| pair[0].0 + 1 != pair[1].0) {
        return Err(StoreError::Damaged(format!("a journal is missing from {}", db.display())));
    }
    let mut number = None;
    for (_, path) in sealed {
        let bytes = read(path)?;
        let valid = valid_bytes(&bytes, &mut number);
        // It was synced before the next one was begun, whatever the durability.
        if bytes[valid..].iter().any(|byte| *byte != 0) {
            return Err(damaged(path, valid));
        }
    }
    check_active(&active.1, written, number)
}

/// Syncs all that has been written so far. By a descriptor of its own, because whoever writes would wait for fjall's. What is not in
/// the newest journal was synced by fjall when that was begun.
pub(super) fn sync(db: &Path) -> Result<(), StoreError> {
    let newest = find(db)?.into_iter().max();
    let (_, path) = newest.ok_or_else(|| StoreError::Damaged(format!("{} has no journal", db.display())))?;
    let synced = OpenOptions::new().write(true).open(&path).and_then(|file| file.sync_data());
    synced.map_err(|error| StoreError::Io(format!("cannot write to the data directory: {}: {error}", path.display())))
}

fn check_active(path: &Path, written: Written, mut number: Option<u64>) -> Result<Option<Cut>, StoreError> {
    let bytes = read(path)?;
    let valid = valid_bytes(&bytes, &mut number);
    let rest = used(&bytes[valid..]);
    if rest.is_empty() {
        return Ok(None);
    }
    if written == Written::Synced && is_damage(rest, valid) {
        return Err(damaged(path, valid));
    }
    tracing::warn!(journal = %path.display(), at = valid, bytes = rest.len(), "dropping a batch that was never completed");
    let cut = || -> std::io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(valid as u64)?;
        file.sync_all()
    };
    cut().map_err(|error| StoreError::Io(format!("cannot repair {}: {error}", path.display())))?;
    Ok(Some(Cut { path: path.to_owned(), at: valid as u64, bytes: bytes[valid..].to_vec(), number }))
}

/// All before the zeros at the end.
pub(super) fn used(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)]
}

/// Whether what follows the last batch that can be read is more than one that was never completed.
pub(super) fn is_damage(rest: &[u8], at: usize) -> bool {
    is_whole(rest, at) || (1..rest.len()).any(|at| batch(&rest[at..]).is_some())
}

/// Whether all of it reached the disk: it ends as a batch does, and no sector of it is missing.
fn is_whole(rest: &[u8], at: usize) -> bool {
    if let Some(Items { length, .. }) = checked_items(rest) {
        // If its number is not wrong, only its very end is: cut short, or damaged.
        let end = &rest[length..];
        return end.len() >= END_MAGIC.len() || !END_MAGIC.starts_with(end);
    }
    // The batch before ends in the sector where this one begins: if that was not written again, it still has
    // zeros here. A batch does not begin with a zero, so they are not its own.
    let to_sector = at.next_multiple_of(SECTOR_BYTES) - at;
    let (begun, sectors) = rest.split_at(to_sector.min(rest.len()));
    let mut sectors = sectors.chunks_exact(SECTOR_BYTES).chain((!begun.is_empty()).then_some(begun));
    rest.ends_with(END_MAGIC) && !sectors.any(|sector| sector.iter().all(|byte| *byte == 0))
}

fn find(db: &Path) -> Result<Vec<(u64, PathBuf)>, StoreError> {
    let listing = || -> std::io::Result<Vec<PathBuf>> { std::fs::read_dir(db)?.map(|file| Ok(file?.path())).collect() };
    let paths = listing().map_err(|error| StoreError::Io(format!("cannot list {}: {error}", db.display())))?;
    let journals = paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "jnl"));
    journals
        .map(|path| {
            let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            let number =
                number.ok_or_else(|| StoreError::Damaged(format!("{} is no name of a journal", path.display())))?;
            Ok((number, path))
        })
        .collect()
}

fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    use std::io::Read;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| StoreError::Io(format!("cannot read {}: {error}", path.display())))
}

fn damaged(path: &Path, at: usize) -> StoreError {
    StoreError::Damaged(format!("the journal {} cannot be read from byte {at} on", path.display()))
}

/// How many bytes from the beginning are whole batches, whose numbers go on from `number`.
pub(super) fn valid_bytes(bytes: &[u8], number: &mut Option<u64>) -> usize {
    let mut at = 0;
    while let Some(Items { length, number: next }) = batch(&bytes[at..]) {
        let goes_on = match *number {
            Some(before) => before < next && next - before <= NUMBER_STEP_MAX,
            // The highest bit has a meaning of its own.
            None => next < 1 << 62,
        };
        if !goes_on {
            break;
        }
        *number = Some(next);
        at += length;
    }
    at
}

struct Items {
    length: usize,
    number: u64,
}

/// The whole batch at the beginning, if there is one.
fn batch(bytes: &[u8]) -> Option<Items> {
    let Items { length, number } = checked_items(bytes)?;
    bytes[length..].starts_with(END_MAGIC).then_some(Items { length: length + END_MAGIC.len(), number })
}

/// The batch at the beginning up to its checksum, if that is right.
fn checked_items(bytes: &[u8]) -> Option<Items> {
    let mut cursor = Cursor { bytes, at: 0 };
    if cursor.number::<1>()? != 1 {
        return None;
    }
    let items = cursor.number::<4>()?;
    let number = cursor.number::<8>()?;
    let mut hasher = Xxh3::new();
    for _ in 0..items {
        let start = cursor.at;
        cursor.item()?;
        hasher.update(&bytes[start..cursor.at]);
    }
    let right = cursor.number::<1>()? == 3 && cursor.take(8)? == hasher.digest().to_le_bytes();
    right.then_some(Items { length: cursor.at, number })
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    /// Little-endian.
    fn number<const BYTES: usize>(&mut self) -> Option<u64> {
        let mut number = [0; 8];
        number[..BYTES].copy_from_slice(self.take(BYTES)?);
        Some(u64::from_le_bytes(number))
    }

    /// A value put or deleted, or a keyspace cleared.
    fn item(&mut self) -> Option<()> {
        match self.number::<1>()? {
            2 => {
                let _kind = self.take(1)?;
                // Nothing we write is compressed.
                if self.number::<1>()? != 0 {
                    return None;
                }
                let _keyspace = self.take(8)?;
                let key = self.number::<2>()?;
                let value = self.number::<4>()?;
                if self.number::<4>()? != value {
                    return None;
                }
                self.take(usize::try_from(key + value).ok()?)?;
            }
            4 => {
                let _keyspace = self.take(8)?;
            }
            _ => return None,
        }
        Some(())
    }
}

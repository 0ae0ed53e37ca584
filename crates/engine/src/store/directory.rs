//! The data directory around the database: whose it is, which format it has, and that only one server uses it.

use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fjall::config::{CompressionPolicy, PinningPolicy};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use tenure_core::{Seq, State, Ttl};

use super::StoreError;
use super::codec;
use super::layout::{Address, FORMAT, FORMAT_WITH_OLD_LOG};

/// Locked by the server that uses the directory, as long as it lives.
const LOCK: &str = "lock";
/// The database. It gets this name when it is complete, with its format written in it.
const DB: &str = "db";
/// The database while it is being made.
const NEW: &str = "new";
/// There while the journal may have commits that were not synced.
const UNSYNCED: &str = "unsynced";
const FORMAT_FILE: &str = "format";

/// The log, beside what is fjall's.
const LOG: &str = "log";

/// Keyspaces get their numbers in this order, from 1 on; 0 is fjall's own.
const KEYSPACES: [&str; 2] = ["meta", "rows"];
/// Of format 1, the third.
const OLD_LOG: &str = "log";

/// Blocks read lately. Rows are read once, at the start, and the newest history is kept decoded.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// What is not yet in tables is also in journals, and a start reads them.
const JOURNAL_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Writes wait once four of these are full and not yet in tables.
const ROWS_BUFFER_BYTES: u64 = 16 * 1024 * 1024;

/// A data directory that nobody else can use.
pub(super) struct Directory {
    path: PathBuf,
    format: u64,
    /// Whether the mark is there.
    unsynced: bool,
    _lock: File,
}

#[derive(Clone)]
pub(super) struct Keyspaces {
    pub(super) meta: Keyspace,
    pub(super) rows: Keyspace,
    /// Until it is moved.
    pub(super) old_log: Option<Keyspace>,
}

impl Directory {
    /// Takes the directory, making it and its database if need be.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        make_private(path).map_err(|error| io_error("make", path, error))?;
        check_ours(path)?;
        let lock = lock(path)?;
        let unsynced = path.join(UNSYNCED).exists();
        let mut directory = Self { path: path.to_owned(), format: FORMAT, unsynced, _lock: lock };
        if !directory.db().exists() {
            directory.make_db()?;
        }
        directory.format = directory.read_format()?;
        directory.check_complete()?;
        Ok(directory)
    }

    pub(super) fn db(&self) -> PathBuf {
        self.path.join(DB)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.db().join(LOG)
    }

    /// Whether the log is still in the database.
    pub(super) fn has_old_log(&self) -> bool {
        self.format == FORMAT_WITH_OLD_LOG
    }

    /// Makes place for the log of a database that has none yet; an earlier try may have ended half way.
    pub(super) fn make_log(&self) -> Result<(), StoreError> {
        let log = self.log();
        let make = || -> io::Result<()> {
            if log.exists() {
                fs::remove_dir_all(&log)?;
            }
            make_private(&log)
        };
        make().map_err(|error| io_error("make", &log, error))
    }

    /// Whether there may be commits that were not synced.
    pub(super) fn is_unsynced(&self) -> bool {
        self.unsynced
    }

    /// Costs nothing if it is so already: every commit says it.
    pub(super) fn set_unsynced(&mut self, unsynced: bool) -> Result<(), StoreError> {
        if unsynced == self.unsynced {
            return Ok(());
        }
        let mark = self.path.join(UNSYNCED);
        let set = || -> io::Result<()> {
            if unsynced {
                File::create(&mark)?.sync_all()?;
            } else {
                fs::remove_file(&mark)?;
            }
            sync_dir(&self.path)
        };
        set().map_err(|error| io_error("write", &mark, error))?;
        self.unsynced = unsynced;
        Ok(())
    }

    pub(super) fn open_db(&self) -> Result<(Database, Keyspaces), StoreError> {
        // fjall's own bookkeeping is damaged where it panics.
        let opened = catch_unwind(AssertUnwindSafe(|| open_fjall(&self.db(), self.has_old_log())));
        let (db, keyspaces) = opened.map_err(|_| self.damaged("its bookkeeping cannot be read"))??;
        Ok((db, keyspaces))
    }

    /// Beside the final name, so that a crash leaves either nothing or all of it.
    fn make_db(&self) -> Result<(), StoreError> {
        let new = self.path.join(NEW);
        let fresh = || -> io::Result<()> {
            if new.exists() {
                fs::remove_dir_all(&new)?;
            }
            make_private(&new)?;
            make_private(&new.join(LOG))?;
            fs::write(new.join(FORMAT_FILE), format!("tenure {FORMAT}\n"))?;
            File::open(new.join(FORMAT_FILE))?.sync_all()
        };
        fresh().map_err(|error| io_error("make", &new, error))?;
        let db = builder(&new).open().map_err(|error| StoreError::Io(format!("cannot make the database: {error}")))?;
        let make = || -> fjall::Result<()> {
            let keyspaces = make_keyspaces(&db)?;
            let mut batch = db.batch().durability(Some(PersistMode::SyncAll));
            let nothing = State::new(Ttl::from_millis(1));
            batch.insert(&keyspaces.meta, Address::Watermark.key(), codec::encode_watermark(&nothing));
            batch.insert(&keyspaces.meta, Address::LogBounds.key(), codec::encode_first(Seq(1)));
            batch.commit()
        };
        make().map_err(|error| StoreError::Io(format!("cannot make the database: {error}")))?;
        drop(db);
        let place = || -> io::Result<()> {
            sync_dir(&new)?;
            fs::rename(&new, self.db())?;
            sync_dir(&self.path)
        };
        place().map_err(|error| io_error("make", &self.db(), error))
    }

    /// What is here from now on is in the newest format.
    pub(super) fn set_format(&mut self) -> Result<(), StoreError> {
        self.format = FORMAT;
        let path = self.db().join(FORMAT_FILE);
        let format = format!("tenure {FORMAT}\n");
        let set = || -> io::Result<()> {
            if fs::read(&path)? == format.as_bytes() {
                return Ok(());
            }
            let new = path.with_extension("new");
            fs::write(&new, format)?;
            File::open(&new)?.sync_all()?;
            fs::rename(&new, &path)?;
            sync_dir(&self.db())
        };
        set().map_err(|error| io_error("write", &path, error))
    }

    fn read_format(&self) -> Result<u64, StoreError> {
        let path = self.db().join(FORMAT_FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::Foreign(self.name(), format!("`{DB}` has no file `{FORMAT_FILE}`")));
            }
            Err(error) => return Err(io_error("read", &path, error)),
        };
        let format = std::str::from_utf8(&text)
            .ok()
            .and_then(|text| text.strip_prefix("tenure ")?.strip_suffix('\n')?.parse().ok());
        match format {
            Some(format @ (FORMAT | FORMAT_WITH_OLD_LOG)) => Ok(format),
            Some(found) => Err(StoreError::Format { dir: self.name(), found, known: FORMAT }),
            None => Err(StoreError::Damaged(format!("{} does not tell a format", path.display()))),
        }
    }

    /// What fjall does not look at, or looks at too late: without its file `version` it makes a new database;
    /// a keyspace without its file `current` it takes for one that was never finished, and deletes it; and
    /// what a damaged manifest says it believes, or panics.
    fn check_complete(&self) -> Result<(), StoreError> {
        let version = self.db().join("version");
        if !version.exists() {
            return Err(StoreError::Damaged(format!("{} is missing", version.display())));
        }
        for number in 0..=KEYSPACES.len() + usize::from(self.has_old_log()) {
            let keyspace = self.db().join("keyspaces").join(number.to_string());
            let current = keyspace.join("current");
            // The number of the manifest, and its checksum.
            let (version, checksum) = match read_part(&current)?.as_slice().split_at_checked(8) {
                Some((version, [checksum @ .., 0])) if checksum.len() == 16 => {
                    (u64::from_le_bytes(version.try_into().expect("eight bytes")), checksum.to_vec())
                }
                _ => return Err(StoreError::Damaged(format!("{} names no manifest", current.display()))),
            };
            let manifest = keyspace.join(format!("v{version}"));
            if xxhash_rust::xxh3::xxh3_128(&read_part(&manifest)?).to_le_bytes() != checksum.as_slice() {
                return Err(StoreError::Damaged(format!(
                    "{} does not have the checksum it was written with",
                    manifest.display()
                )));
            }
        }
        Ok(())
    }

    fn damaged(&self, why: impl std::fmt::Display) -> StoreError {
        StoreError::Damaged(format!("the database {}: {why}", self.db().display()))
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn open_fjall(path: &Path, has_old_log: bool) -> Result<(Database, Keyspaces), StoreError> {
    let damaged = |why: String| StoreError::Damaged(format!("the database {}: {why}", path.display()));
    let db = builder(path).open().map_err(|error| match error {
        fjall::Error::Locked => StoreError::InUse(path.display().to_string()),
        error => damaged(error.to_string()),
    })?;
    for name in KEYSPACES.into_iter().chain(has_old_log.then_some(OLD_LOG)) {
        if !db.keyspace_exists(name) {
            return Err(damaged(format!("keyspace `{name}` is missing")));
        }
    }
    let failed = |error: fjall::Error| damaged(error.to_string());
    let mut keyspaces = make_keyspaces(&db).map_err(failed)?;
    if db.keyspace_exists(OLD_LOG) {
        let old = db.keyspace(OLD_LOG, keyspace_options).map_err(failed)?;
        match has_old_log {
            true => keyspaces.old_log = Some(old),
            // It was moved, and the server ended before it was removed.
            false => db.delete_keyspace(old).map_err(failed)?,
        }
    }
    Ok((db, keyspaces))
}

fn builder(path: &Path) -> fjall::DatabaseBuilder<Database> {
    // One thread for flushes and compactions. With more, one of them spins whenever a compaction waits.
    Database::builder(path).worker_threads(1).cache_size(CACHE_BYTES).max_journaling_size(JOURNAL_BYTES_MAX)
}

fn make_keyspaces(db: &Database) -> fjall::Result<Keyspaces> {
    let [meta, rows] = KEYSPACES;
    Ok(Keyspaces {
        meta: db.keyspace(meta, keyspace_options)?,
        rows: db.keyspace(rows, keyspace_options)?,
        old_log: None,
    })
}

fn keyspace_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(ROWS_BUFFER_BYTES)
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
        .index_block_pinning_policy(PinningPolicy::all(false))
        .filter_block_pinning_policy(PinningPolicy::all(false))
}

/// It holds the keys of other people's locks.
fn make_private(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)?;
    path.parent().map_or(Ok(()), |parent| if parent.as_os_str().is_empty() { Ok(()) } else { sync_dir(parent) })
}

/// Nothing is written to a directory that has something else in it.
fn check_ours(path: &Path) -> Result<(), StoreError> {
    let foreign = |why: String| StoreError::Foreign(path.display().to_string(), why);
    if path.join(DB).exists() {
        return Ok(());
    }
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(foreign("it is a file".into())),
        Err(error) => return Err(io_error("list", path, error)),
    };
    for entry in entries {
        let name = entry.map_err(|error| io_error("list", path, error))?.file_name();
        // The last is what a fresh file system has.
        if ![LOCK, NEW, UNSYNCED, "lost+found"].iter().any(|ours| name == *ours) {
            return Err(foreign(format!("it has no `{DB}`, but `{}`", name.display())));
        }
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let name = path.join(LOCK);
    let file = File::options().create(true).truncate(false).write(true).open(&name);
    let file = file.map_err(|error| io_error("open", &name, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(StoreError::InUse(path.display().to_string())),
        Err(fs::TryLockError::Error(error)) => Err(io_error("lock", &name, error)),
    }
}

/// A file without which the database is not whole.
fn read_part(path: &Path) -> Result<Vec<u8>, StoreError> {
    fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => StoreError::Damaged(format!("{} is missing", path.display())),
        _ => io_error("read", path, error),
    })
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn io_error(verb: &str, path: &Path, error: io::Error) -> StoreError {
    StoreError::Io(format!("cannot {verb} {}: {error}", path.display()))
}

//! Damaged directories: a clear error, or everything. Never less without a word.

use std::fs;
use std::path::{Path, PathBuf};

use tenure_core::*;
use tenure_engine::fuzzing;
use tenure_engine::*;

use crate::world::{Random, World, copy};

/// A small directory with everything in it: tables, journal, rows, a log with entries after the watermark.
struct Specimen {
    dir: tempfile::TempDir,
    world: World,
}

impl Specimen {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // Small segments, so that there are some.
        let options = DiskOptions { segment_bytes: Some(16 * 1024), ..DiskOptions::default() };
        let mut world = World::new(seed, dir.path(), options);
        world.live(150);
        world.commit(true);
        world.store.as_mut().expect("open").flush().expect("flushes");
        world.live(80);
        // Opening cuts the zeros off the journal.
        world.reopen();
        world.live(40);
        drop(world.store.take());
        Self { dir, world }
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().expect("lists") {
                let path = entry.expect("lists").path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files.sort();
        files.into_iter().map(|path| path.strip_prefix(self.dir.path()).expect("inside").to_owned()).collect()
    }

    fn copy(&self) -> tempfile::TempDir {
        copy(self.dir.path(), |_| false)
    }

    /// Opens a damaged copy: how many events it has, or why it does not open.
    fn open(&self, dir: &Path) -> Result<usize, StoreError> {
        let (store, state) = DiskStore::open(dir, self.world.options)?;
        let events = usize::try_from(state.counters().seq.0).expect("small");
        assert_eq!(state, self.world.state_after(events), "what opens is what was, up to some event");
        assert!(events == 0 || self.world.ends.contains(&(events as u64)), "batches are whole");
        // What opens can be gone on with, and history may be unreadable but says so.
        let mut store = store;
        let entry = Entry { first: Seq(events as u64 + 1), at: state.counters().now, events: vec![Event::Restarted] };
        store.commit(Commit { entry: Some(std::sync::Arc::new(entry)), rows: None }).expect("commits");
        drop(store);
        let (_, state) = DiskStore::open(dir, self.world.options).expect("opens again");
        assert_eq!(state.counters().seq, Seq(events as u64 + 1), "what was committed since is there");
        Ok(events)
    }

    fn all(&self) -> usize {
        self.world.events.len()
    }

    /// Without the last entry: damage to it looks as if it had just been being written.
    fn but_the_last(&self) -> usize {
        self.world.ends[self.world.ends.len() - 2] as usize
    }

    /// The segment that was being filled.
    fn newest_log(&self) -> PathBuf {
        let logs = self.files().into_iter().filter(|file| file.extension().is_some_and(|it| it == "log"));
        logs.max_by_key(|file| file.file_stem().and_then(|it| it.to_str()?.parse::<u64>().ok())).expect("there is one")
    }
}

#[test]
fn an_undamaged_copy_opens() {
    let specimen = Specimen::new(20);
    let copy = specimen.copy();
    assert_eq!(specimen.open(copy.path()).expect("opens"), specimen.all());
}

#[test]
fn a_flipped_bit_is_noticed_or_makes_no_difference() {
    let specimen = Specimen::new(21);
    let mut random = Random::new(21);
    let mut errors = 0;
    for file in specimen.files() {
        let size = specimen.dir.path().join(&file).metadata().expect("is there").len();
        let flips = if file.extension().is_some_and(|it| it == "jnl" || it == "log") { 60 } else { 25 };
        for _ in 0..flips.min(size) {
            let copy = specimen.copy();
            let path = copy.path().join(&file);
            let mut bytes = fs::read(&path).expect("reads");
            let at = (random.next() % size) as usize;
            bytes[at] ^= 1 << random.below(8);
            fs::write(&path, bytes).expect("writes");
            match specimen.open(copy.path()) {
                Ok(events) if file == specimen.newest_log() && events == specimen.but_the_last() => {}
                Ok(events) => assert_eq!(events, specimen.all(), "{} at byte {at} of {size}", file.display()),
                Err(_) => errors += 1,
            }
        }
    }
    assert!(errors > 50, "most flips hit something that matters: {errors}");
}

#[test]
fn a_file_that_is_cut_short_emptied_filled_with_garbage_or_gone_is_noticed_or_makes_no_difference() {
    let specimen = Specimen::new(22);
    let mut random = Random::new(22);
    for file in specimen.files() {
        let size = specimen.dir.path().join(&file).metadata().expect("is there").len();
        let newest_log = file == specimen.newest_log();
        for round in 0..6 {
            let copy = specimen.copy();
            let path = copy.path().join(&file);
            match round {
                0 => fs::remove_file(&path).expect("removes"),
                1 => fs::write(&path, "").expect("writes"),
                2 => fs::write(&path, (0..size).map(|_| random.next() as u8).collect::<Vec<_>>()).expect("writes"),
                3 => fs::write(&path, vec![0; size as usize]).expect("writes"),
                _ => {
                    let file = fs::OpenOptions::new().write(true).open(&path).expect("opens");
                    file.set_len(random.next() % size.max(1)).expect("cuts");
                }
            }
            match specimen.open(copy.path()) {
                // A log that ends early looks like one that was being written when the machine stopped.
                Ok(events) if newest_log => assert!(events <= specimen.all()),
                Ok(events) => assert_eq!(events, specimen.all(), "{} in round {round}", file.display()),
                Err(error) => assert!(!matches!(error, StoreError::InUse(_)), "{error}"),
            }
        }
    }
}

/// A directory of the format that had the log in the database, whose journal was synced.
struct Old {
    events: Vec<Recorded>,
    /// Its journal, and where the last batches in it end, of which nothing is in tables.
    journal: Vec<u8>,
    ends: Vec<usize>,
}

impl Old {
    fn new() -> Self {
        let copy = Self::copy();
        let bytes = fs::read(journal(copy.path())).expect("reads");
        let (used, is_damaged) = fuzzing::journal(&bytes);
        assert!(!is_damaged);
        let mut ends = vec![used];
        while ends.len() < 16 {
            let end = ends[ends.len() - 1];
            ends.push(fuzzing::journal(&bytes[..end - 1]).0);
        }
        ends.reverse();
        let (store, _) = DiskStore::open(copy.path(), DiskOptions::default()).expect("opens");
        let query = EventQuery { limit: 1_000, ..EventQuery::default() };
        let page = store.reader().events(&query).expect("readable").expect("kept");
        Self { events: page.items, journal: bytes[..used].to_vec(), ends }
    }

    fn copy() -> tempfile::TempDir {
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/format-1"), |_| false)
    }

    /// How many events there are with another journal, or why there are none.
    fn with(&self, bytes: &[u8], is_unsynced: bool) -> Result<usize, StoreError> {
        let copy = Self::copy();
        fs::write(journal(copy.path()), bytes).expect("writes");
        if is_unsynced {
            fs::write(copy.path().join("unsynced"), "").expect("writes");
        }
        self.open(copy.path())
    }

    fn open(&self, dir: &Path) -> Result<usize, StoreError> {
        let (store, state) = DiskStore::open(dir, DiskOptions::default())?;
        let events = usize::try_from(state.counters().seq.0).expect("small");
        let query = EventQuery { limit: 1_000, ..EventQuery::default() };
        let page = store.reader().events(&query).expect("readable").expect("kept");
        assert_eq!(page.items, self.events[..events], "what opens is what was, up to some event");
        Ok(events)
    }
}

#[test]
fn in_an_old_directory_a_batch_that_was_being_written_is_dropped_as_a_whole() {
    let old = Old::new();
    let mut before = 0;
    // The last batch, cut anywhere, with zeros behind it or not.
    for pair in old.ends.windows(2).step_by(3) {
        let whole = old.with(&old.journal[..pair[0]], false).expect("opens");
        assert!(whole >= before);
        before = whole;
        for cut in (pair[0] + 1..pair[1]).step_by(23) {
            for zeros in [0, 700] {
                let mut bytes = old.journal[..cut].to_vec();
                bytes.extend(vec![0; zeros]);
                assert_eq!(old.with(&bytes, false).expect("opens"), whole, "cut at {cut}");
            }
        }
    }
}

#[test]
fn in_an_old_directory_a_batch_whose_first_sector_was_not_written_is_dropped_though_later_ones_were() {
    let old = Old::new();
    let mut torn = 0;
    for batch in old.ends.windows(2) {
        let (start, end) = (batch[0], batch[1]);
        let sector = start.next_multiple_of(512);
        if sector - start < 2 || end <= sector {
            continue;
        }
        torn += 1;
        let whole = old.with(&old.journal[..start], false).expect("opens");
        // The sector as it was when the batch before had been synced, with and without the zeros behind it all.
        let mut bytes = old.journal[..end].to_vec();
        bytes[start..sector].fill(0);
        assert_eq!(old.with(&bytes, false).expect("opens"), whole, "from byte {start} to {sector}");
        bytes.extend([0; 700]);
        assert_eq!(old.with(&bytes, false).expect("opens"), whole, "from byte {start} to {sector}");

        // A sector that is neither as it was nor as it was to be; or one that was synced before the next batch was begun.
        let mut flipped = old.journal[..end].to_vec();
        flipped[start] ^= 2;
        let mut missing = old.journal.clone();
        missing[start..sector].fill(0);
        for bytes in [Some(flipped), (end < old.journal.len()).then_some(missing)].into_iter().flatten() {
            let error = old.with(&bytes, false).expect_err("it is damaged");
            assert!(matches!(error, StoreError::Damaged(_)), "{error}");
        }
    }
    assert!(torn > 2, "some batches begin in the middle of a sector and go on in the next: {torn}");
}

#[test]
fn in_an_old_directory_a_hole_in_what_was_synced_is_damage_and_in_what_was_not_it_is_the_end() {
    let old = Old::new();
    let mut bytes = old.journal.clone();
    let middle = old.ends[4].next_multiple_of(512);
    bytes[middle..middle + 1024].fill(0);
    let error = old.with(&bytes, false).expect_err("synced data is missing");
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    assert!(old.with(&bytes, true).expect("opens") < old.events.len());
}

#[test]
fn a_journal_that_was_sealed_may_have_nothing_torn() {
    let specimen = Specimen::new(26);
    let name = journal(specimen.dir.path()).strip_prefix(specimen.dir.path()).expect("inside").to_owned();
    let next = name.with_file_name("1.jnl");
    assert_eq!(name.file_name(), Some("0.jnl".as_ref()));

    let copy = specimen.copy();
    fs::write(copy.path().join(&next), [0; 1_000]).expect("writes");
    assert_eq!(specimen.open(copy.path()).expect("opens"), specimen.all());

    let copy = specimen.copy();
    fs::write(copy.path().join(&next), [0; 1_000]).expect("writes");
    let sealed = fs::read(copy.path().join(&name)).expect("reads");
    let used = sealed.iter().rposition(|byte| *byte != 0).expect("it was written to") + 1;
    fs::write(copy.path().join(&name), &sealed[..used - 1]).expect("writes");
    let error = specimen.open(copy.path()).expect_err("it is damaged");
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");

    // And none may be missing in between.
    let copy = specimen.copy();
    fs::write(copy.path().join(name.with_file_name("2.jnl")), [0; 1_000]).expect("writes");
    let error = specimen.open(copy.path()).expect_err("it is damaged");
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
}

#[test]
fn a_server_that_refuses_to_start_has_written_nothing() {
    let specimen = Specimen::new(28);
    // The journal is in order, and so is everything else that is looked at before the rows.
    let tables = specimen.dir.path().join("db/keyspaces/2/tables");
    let table = tables.read_dir().expect("lists").next().expect("there is one").expect("lists").path();
    let mut bytes = fs::read(&table).expect("reads");
    bytes[200] ^= 1;
    fs::write(&table, bytes).expect("writes");
    let written = fs::read(journal(specimen.dir.path())).expect("reads");

    for durability in [Durability::Sync, Durability::Os] {
        for unsynced in [false, true] {
            let copy = specimen.copy();
            let mark = copy.path().join("unsynced");
            if unsynced {
                fs::write(&mark, "").expect("writes");
            }
            let options = DiskOptions { durability, ..specimen.world.options };
            let error = DiskStore::open(copy.path(), options).expect_err("a row cannot be read");
            assert!(matches!(error, StoreError::Damaged(_)), "{error}");
            assert_eq!(mark.exists(), unsynced, "{durability:?}");
            assert!(fs::read(journal(copy.path())).expect("reads") == written, "{durability:?}");
        }
    }
}

fn journal(dir: &Path) -> PathBuf {
    let files = dir.join("db").read_dir().expect("lists").map(|it| it.expect("lists").path());
    files.filter(|path| path.extension().is_some_and(|it| it == "jnl")).max().expect("there is one")
}

#[test]
fn unreadable_history_is_an_error_and_not_a_gap() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(25, dir.path(), DiskOptions::default());
    world.live(500);
    world.commit(true);
    world.reopen();
    drop(world.store.take());
    let log = dir.path().join("db/log/1.log");
    let mut bytes = fs::read(&log).expect("reads");
    // In the first entry.
    bytes[4_096 + 48] ^= 1;
    fs::write(&log, bytes).expect("writes");
    let (store, state) = DiskStore::open(dir.path(), world.options).expect("the state does not need it");
    assert_eq!(state.counters().seq, Seq(world.events.len() as u64));
    let error =
        store.reader().events(&EventQuery { limit: 1_000, ..EventQuery::default() }).expect_err("it is damaged");
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
}

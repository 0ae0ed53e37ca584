//! Damaged directories: a clear error, or everything. Never less without a word.

use std::fs;
use std::path::{Path, PathBuf};

use tenure_core::*;
use tenure_engine::*;

use crate::world::{Random, World};

/// A small directory with everything in it: tables, journal, rows, a log with entries after the watermark.
struct Specimen {
    dir: tempfile::TempDir,
    world: World,
}

impl Specimen {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // Without a tail every batch goes into the journal by itself.
        let options = DiskOptions { tail_bytes: Some(0), ..DiskOptions::default() };
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
        let copy = tempfile::tempdir().expect("a directory");
        for file in self.files() {
            let to = copy.path().join(&file);
            fs::create_dir_all(to.parent().expect("inside")).expect("makes");
            fs::copy(self.dir.path().join(&file), to).expect("copies");
        }
        copy
    }

    /// Opens a damaged copy: how many events it has, or why it does not open.
    fn open(&self, dir: &Path) -> Result<usize, StoreError> {
        let (store, state) = DiskStore::open(dir, self.world.options)?;
        let events = usize::try_from(state.counters().seq.0).expect("small");
        assert_eq!(state, self.world.state_after(events), "what opens is what was, up to some event");
        assert!(events == 0 || self.world.ends.contains(&(events as u64)), "batches are whole");
        // What opens can be written to, and history may be unreadable but says so.
        drop(store);
        Ok(events)
    }

    fn all(&self) -> usize {
        self.world.events.len()
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
        let flips = if file.extension().is_some_and(|it| it == "jnl") { 120 } else { 25 };
        for _ in 0..flips.min(size) {
            let copy = specimen.copy();
            let path = copy.path().join(&file);
            let mut bytes = fs::read(&path).expect("reads");
            let at = (random.next() % size) as usize;
            bytes[at] ^= 1 << random.below(8);
            fs::write(&path, bytes).expect("writes");
            match specimen.open(copy.path()) {
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
        let journal = file.extension().is_some_and(|it| it == "jnl");
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
                // A journal that ends early looks like one that was being written when the machine stopped.
                Ok(events) if journal && round != 0 => assert!(events <= specimen.all()),
                Ok(events) => assert_eq!(events, specimen.all(), "{} in round {round}", file.display()),
                Err(error) => assert!(!matches!(error, StoreError::InUse(_)), "{error}"),
            }
        }
    }
}

#[test]
fn a_batch_that_was_being_written_when_the_machine_stopped_is_dropped_as_a_whole() {
    let specimen = Specimen::new(23);
    let whole = journal(specimen.dir.path());
    let bytes = fs::read(&whole).expect("reads");
    let name = whole.strip_prefix(specimen.dir.path()).expect("inside");
    let before_last = specimen.world.ends[specimen.world.ends.len() - 2] as usize;
    // The last batch, cut anywhere, with zeros behind it or not.
    for cut in 1..60 {
        for zeros in [0, 700] {
            let copy = specimen.copy();
            let mut bytes = bytes[..bytes.len() - cut].to_vec();
            bytes.extend(vec![0; zeros]);
            fs::write(copy.path().join(name), bytes).expect("writes");
            assert_eq!(specimen.open(copy.path()).expect("opens"), before_last, "without the last {cut} bytes");
            assert_eq!(specimen.open(copy.path()).expect("opens again"), before_last);
        }
    }
}

#[test]
fn a_batch_whose_first_sector_was_not_written_is_dropped_though_later_ones_were() {
    let mut specimen = Specimen::new(27);
    specimen.world.reopen();
    let path = journal(specimen.dir.path());
    let name = path.strip_prefix(specimen.dir.path()).expect("inside").to_owned();
    let mut torn = 0;
    let mut last: Option<std::ops::Range<usize>> = None;
    for _ in 0..20 {
        let before = specimen.all();
        let start = fs::read(&path).expect("reads").len();
        for _ in 0..12 {
            let acquire = specimen.world.acquire();
            specimen.world.apply(Command::Acquire(acquire));
        }
        specimen.world.commit(false);
        let bytes = fs::read(&path).expect("reads");
        let sector = start.next_multiple_of(512);
        if sector - start < 2 || bytes.len() <= sector {
            continue;
        }
        torn += 1;
        let open = |bytes: &[u8]| {
            let copy = specimen.copy();
            fs::write(copy.path().join(&name), bytes).expect("writes");
            specimen.open(copy.path())
        };
        let assert_damaged = |bytes: &[u8]| {
            let error = open(bytes).expect_err("it is damaged");
            assert!(matches!(error, StoreError::Damaged(_)), "{error}");
        };

        // The sector as it was when the batch before had been synced, with and without the zeros behind it all.
        let mut old = bytes.clone();
        old[start..sector].fill(0);
        assert_eq!(open(&old).expect("opens"), before, "from byte {start} to {sector}");
        old.extend([0; 700]);
        assert_eq!(open(&old).expect("opens"), before, "from byte {start} to {sector}");

        // A sector that is neither as it was nor as it was to be.
        let mut flipped = bytes.clone();
        flipped[start] ^= 2;
        assert_damaged(&flipped);

        // It was synced before the next batch was begun.
        if let Some(last) = last.replace(start..sector) {
            let mut old = bytes.clone();
            old[last].fill(0);
            assert_damaged(&old);
        }
    }
    assert!(torn > 10, "most batches begin in the middle of a sector and go on in the next: {torn}");
}

#[test]
fn a_hole_in_what_was_synced_is_damage_and_in_what_was_not_it_is_the_end() {
    let specimen = Specimen::new(24);
    let whole = journal(specimen.dir.path());
    let name = whole.strip_prefix(specimen.dir.path()).expect("inside");
    let mut bytes = fs::read(&whole).expect("reads");
    let middle = bytes.len() / 2 / 512 * 512;
    bytes[middle..middle + 1024].fill(0);

    let copy = specimen.copy();
    fs::write(copy.path().join(name), &bytes).expect("writes");
    for _ in 0..2 {
        let error = specimen.open(copy.path()).expect_err("synced data is missing");
        assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    }

    let copy = specimen.copy();
    fs::write(copy.path().join(name), &bytes).expect("writes");
    fs::write(copy.path().join("unsynced"), "").expect("writes");
    assert!(specimen.open(copy.path()).expect("opens") < specimen.all());
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
    fs::write(copy.path().join(&name), &sealed[..sealed.len() - 1]).expect("writes");
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
    world.store.as_mut().expect("open").flush().expect("flushes");
    world.reopen();
    drop(world.store.take());
    // The log's table.
    let tables = dir.path().join("db/keyspaces/3/tables");
    let table = tables.read_dir().expect("lists").next().expect("there is one").expect("lists").path();
    let mut bytes = fs::read(&table).expect("reads");
    bytes[200] ^= 1;
    fs::write(&table, bytes).expect("writes");
    let (store, state) = DiskStore::open(dir.path(), world.options).expect("the state does not need it");
    assert_eq!(state.counters().seq, Seq(world.events.len() as u64));
    let error =
        store.reader().events(&EventQuery { limit: 1_000, ..EventQuery::default() }).expect_err("it is damaged");
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
}

//! Servers that were not stopped: what the tail has, the database may lack.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure_engine::*;

use crate::world::World;

/// Small, so that files are used many times over.
const TAIL_BYTES: u64 = 16 * 1024;

fn small() -> DiskOptions {
    DiskOptions { tail_bytes: Some(TAIL_BYTES), ..DiskOptions::default() }
}

/// The directory as it would be found if the process had died now, or with some older database.
fn copy(from: &Path, but: impl Fn(&Path) -> bool) -> tempfile::TempDir {
    let to = tempfile::tempdir().expect("a directory");
    let mut folders = vec![from.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("lists") {
            let path = entry.expect("lists").path();
            let target = to.path().join(path.strip_prefix(from).expect("inside"));
            if path.is_dir() {
                fs::create_dir_all(target).expect("makes");
                folders.push(path);
            } else if !but(&path) {
                fs::copy(path, target).expect("copies");
            }
        }
    }
    to
}

fn is_tail(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "tail")
}

fn tails(dir: &Path) -> Vec<PathBuf> {
    let files = dir.join("db").read_dir().expect("lists").map(|it| it.expect("lists").path());
    let mut tails: Vec<_> = files.filter(|path| is_tail(path)).collect();
    // Oldest first.
    tails.sort_by_key(|path| generation_and_base(path).0);
    tails
}

fn generation_and_base(tail: &Path) -> (u64, u64) {
    let bytes = fs::read(tail).expect("reads");
    // The next file may just be being made.
    let number =
        |at: usize| bytes.get(at..at + 8).map_or(0, |it| u64::from_le_bytes(it.try_into().expect("eight bytes")));
    (number(8), number(16))
}

/// How many events a directory has, which are those that happened.
fn open(world: &World, dir: &Path) -> Result<usize, StoreError> {
    let (store, state) = DiskStore::open(dir, world.options)?;
    let events = usize::try_from(state.counters().seq.0).expect("small");
    assert_eq!(state, world.state_after(events), "what opens is what was, up to some event");
    let query = EventQuery { after: Some(tenure_core::Seq(0)), limit: 1_000, ..EventQuery::default() };
    let page = store.reader().events(&query).expect("readable").expect("all is kept");
    assert_eq!(page.items, world.events[..events.min(page.items.len())], "and so is the history");
    Ok(events)
}

#[test]
fn whatever_was_committed_is_there_after_a_crash_at_any_time() {
    for (seed, durability) in [(40, Durability::Sync), (41, Durability::Os)] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut world = World::new(seed, dir.path(), DiskOptions { durability, ..small() });
        for _ in 0..60 {
            world.live(20);
            let crashed = copy(dir.path(), |_| false);
            assert_eq!(open(&world, crashed.path()).expect("opens"), world.events.len());
            assert_eq!(open(&world, crashed.path()).expect("opens again"), world.events.len());
        }
        let newest = tails(dir.path()).last().map(|tail| generation_and_base(tail).0);
        assert!(newest > Some(3), "files were begun anew: {newest:?}");
    }
}

#[test]
fn what_the_database_had_not_synced_is_in_the_tail() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(42, dir.path(), small());
    // As the database was at some time, and how far it went.
    let mut databases = Vec::new();
    let (mut whole, mut missing) = (0, 0);
    for _ in 0..25 {
        world.live(25);
        let database = copy(dir.path(), is_tail);
        let alone = copy(database.path(), |_| false);
        databases.push((database, open(&world, alone.path()).expect("opens")));
        let tails = tails(dir.path());
        let (_, base) = generation_and_base(tails.first().expect("it was written to"));
        for (database, events) in &databases {
            let crashed = copy(database.path(), |_| false);
            for tail in &tails {
                fs::copy(tail, crashed.path().join("db").join(tail.file_name().expect("a name"))).expect("copies");
            }
            match open(&world, crashed.path()) {
                Ok(found) => {
                    whole += 1;
                    assert_eq!(found, world.events.len(), "a database with {events} events, a tail from {base} on");
                }
                Err(error) => {
                    missing += 1;
                    assert!(*events as u64 + 1 < base, "{events} events, a tail from {base} on: {error}");
                    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
                }
            }
        }
    }
    assert!(whole > 50 && missing > 20, "{whole} were whole, {missing} were refused");
}

#[test]
fn a_journal_that_is_torn_beside_a_tail_makes_no_difference() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(43, dir.path(), DiskOptions::default());
    world.live(400);
    world.commit(true);
    let crashed = copy(dir.path(), |_| false);
    let journal = crashed.path().join("db/0.jnl");
    let bytes = fs::read(&journal).expect("reads");
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("it was written to") + 1;
    // The first batch is what the directory was made with.
    for cut in (400..used).step_by(used / 40) {
        for (from, to) in [(cut, used), (cut, cut + 600)] {
            let torn = copy(crashed.path(), |_| false);
            let mut bytes = bytes.clone();
            bytes[from..to.min(used)].fill(0);
            fs::write(torn.path().join("db/0.jnl"), bytes).expect("writes");
            assert_eq!(open(&world, torn.path()).expect("opens"), world.events.len(), "from {from} to {to}");
        }
    }
}

#[test]
fn an_entry_that_was_being_written_is_dropped_and_damage_before_it_is_noticed() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(44, dir.path(), DiskOptions::default());
    world.live(150);
    let database = copy(dir.path(), is_tail);
    world.live(20);
    while world.ends.last() == world.ends.iter().rev().nth(1) || world.pending.is_empty() {
        let acquire = world.acquire();
        world.apply(tenure_core::Command::Acquire(acquire));
    }
    world.commit(false);
    let [tail] = tails(dir.path()).try_into().expect("one is enough");
    let bytes = fs::read(&tail).expect("reads");
    let before_last = world.ends[world.ends.len() - 2] as usize;
    let with = |bytes: &[u8]| {
        let crashed = copy(database.path(), |_| false);
        fs::write(crashed.path().join("db").join(tail.file_name().expect("a name")), bytes).expect("writes");
        let opened = open(&world, crashed.path());
        if opened.is_ok() {
            assert_eq!(open(&world, crashed.path()).ok(), opened.as_ref().ok().copied(), "opens again");
        }
        opened
    };
    assert_eq!(with(&bytes).expect("opens"), world.events.len());

    let used = bytes.iter().rposition(|byte| *byte != 0).expect("it was written to") + 1;
    let record = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize + 16;
    let mut last = 4_096;
    while bytes[last + 8..last + 16] != (before_last as u64 + 1).to_le_bytes() {
        last += record(last).next_multiple_of(8);
    }
    for torn in (last..used).step_by(7) {
        let mut bytes = bytes.clone();
        bytes[torn..used].fill(0);
        assert_eq!(with(&bytes).expect("opens"), before_last, "torn at {torn} of {last} to {used}");
    }
    let mut noticed = 0;
    for at in (0..32).chain((4_096..last).step_by(61)) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 4;
        match with(&bytes) {
            Ok(events) => assert_eq!(events, world.events.len(), "byte {at}"),
            Err(error) => {
                noticed += 1;
                assert!(matches!(error, StoreError::Damaged(_)), "{error}");
            }
        }
    }
    assert!(noticed > 100, "{noticed}");
    for cut in [1, 20, 31, 32, 4_095] {
        assert!(matches!(with(&bytes[..cut]), Err(StoreError::Damaged(_))), "a file of {cut} bytes was never made");
    }
}

#[test]
fn an_entry_that_is_too_large_for_a_tail_goes_into_the_database_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(45, dir.path(), small());
    for _ in 0..6 {
        world.live(10);
        for _ in 0..600 {
            let acquire = world.acquire();
            world.apply(tenure_core::Command::Acquire(acquire));
        }
        world.commit(false);
        let crashed = copy(dir.path(), |_| false);
        assert_eq!(open(&world, crashed.path()).expect("opens"), world.events.len());
        world.live(10);
        let crashed = copy(dir.path(), |_| false);
        assert_eq!(open(&world, crashed.path()).expect("opens"), world.events.len());
    }
}

#[test]
fn a_server_that_is_stopped_leaves_no_tail() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(46, dir.path(), DiskOptions::default());
    world.live(200);
    assert_eq!(tails(dir.path()).len(), 1);
    drop(world.store.take());
    assert_eq!(tails(dir.path()), [] as [PathBuf; 0]);
    assert_eq!(open(&world, dir.path()).expect("opens"), world.events.len());
}

#[test]
fn a_directory_of_the_format_without_tails_is_taken_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(47, dir.path(), DiskOptions::default());
    world.live(50);
    drop(world.store.take());
    let format = dir.path().join("db/format");
    fs::write(&format, "tenure 1\n").expect("writes");
    assert_eq!(open(&world, dir.path()).expect("opens"), world.events.len());
    assert_eq!(fs::read_to_string(&format).expect("reads"), "tenure 2\n", "an older server must not miss a tail");
}

/// Commits once more what happened from this event on, as somebody who knows nothing of the first time.
fn commit_again(world: &World, store: &mut DiskStore, from: usize, count: usize) -> usize {
    for recorded in world.events[from..].iter().take(count) {
        let entry = Entry { first: recorded.seq, at: recorded.at, events: vec![recorded.event.clone()] };
        store.commit(Commit { entry: Some(Arc::new(entry)), rows: None }).expect("commits");
    }
    world.events.len().min(from + count)
}

#[test]
fn what_was_given_up_because_it_was_never_synced_is_not_found_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let os = DiskOptions { durability: Durability::Os, ..small() };
    let mut world = World::new(48, dir.path(), os);
    world.live(100);
    let database = copy(dir.path(), is_tail);
    // Some of what the database had then is in the older tail, and the rest of both is new.
    let then = open(&world, copy(database.path(), |_| false).path()).expect("opens");
    let next = |dir: &Path| generation_and_base(&tails(dir)[0]).1 > then as u64;
    while !next(dir.path()) {
        world.live(5);
    }
    world.live(5);
    let older = tails(dir.path());
    for (lost, durability) in [0, 1].into_iter().flat_map(|lost| [(lost, Durability::Os), (lost, Durability::Sync)]) {
        let crashed = copy(database.path(), |_| false);
        for (number, tail) in older.iter().enumerate() {
            let mut bytes = fs::read(tail).expect("reads");
            if number == lost {
                // The first blocks of entries were not written when the power went.
                bytes[4_096..4_096 + 1_024].fill(0);
            }
            fs::write(crashed.path().join("db").join(tail.file_name().expect("a name")), bytes).expect("writes");
        }
        world.options.durability = durability;
        let found = open(&world, crashed.path()).expect("opens");
        assert!(found < world.events.len(), "something is lost");
        assert_eq!(open(&world, crashed.path()).expect("opens again"), found, "{lost}, {durability:?}");

        let (mut store, _) = DiskStore::open(crashed.path(), world.options).expect("opens");
        let all = commit_again(&world, &mut store, found, 5);
        let killed = copy(crashed.path(), |_| false);
        assert_eq!(open(&world, killed.path()).expect("opens after a crash"), all, "{lost}, {durability:?}");
    }
}

#[test]
fn a_tail_that_was_being_begun_when_the_power_went_is_not_missed() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(49, dir.path(), small());
    let mut begun = 0;
    while begun < 5 {
        let before: Vec<_> =
            tails(dir.path()).into_iter().map(|tail| (fs::read(&tail).expect("reads"), tail)).collect();
        let known = world.events.len();
        let acquire = world.acquire();
        world.apply(tenure_core::Command::Acquire(acquire));
        world.commit(false);
        let newest = tails(dir.path()).pop();
        let [(older, path), (_, newer)] = before.as_slice() else { continue };
        if newest.as_ref() == Some(newer) {
            continue;
        }
        begun += 1;
        // Its first entry is on the disk, and its header is not yet.
        let crashed = copy(dir.path(), |_| false);
        let mut bytes = fs::read(path).expect("reads");
        // Before the file was made there was nothing.
        bytes[..4_096].fill(0);
        let had = older.len().min(4_096);
        bytes[..had].copy_from_slice(&older[..had]);
        fs::write(crashed.path().join("db").join(path.file_name().expect("a name")), bytes).expect("writes");
        assert_eq!(open(&world, crashed.path()).expect("opens"), known, "nobody had an answer to the last");
    }
}

#[test]
fn damage_in_a_journal_that_the_tails_do_not_make_up_for_costs_nothing_but_what_is_damaged() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(50, dir.path(), small());
    while tails(dir.path()).len() < 2 || generation_and_base(&tails(dir.path())[0]).1 < 200 {
        world.live(20);
    }
    let crashed = copy(dir.path(), |_| false);
    let journal = crashed.path().join("db/0.jnl");
    let whole = fs::read(&journal).expect("reads");
    let mut damaged = whole.clone();
    // The first batch is what the directory was made with.
    damaged[2_000] ^= 4;
    fs::write(&journal, &damaged).expect("writes");
    for _ in 0..2 {
        let error = open(&world, crashed.path()).expect_err("something is missing");
        assert!(matches!(error, StoreError::Damaged(_)), "{error}");
        assert!(error.to_string().contains("0.jnl cannot be read from byte"), "{error}");
        assert!(fs::read(&journal).expect("reads") == damaged, "all of it is still there");
    }
    fs::write(&journal, whole).expect("writes");
    assert_eq!(open(&world, crashed.path()).expect("opens"), world.events.len());
}

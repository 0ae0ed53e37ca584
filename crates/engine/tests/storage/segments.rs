//! Servers that were not stopped: what the log has, the rows may lack.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure_engine::fuzzing;
use tenure_engine::*;

use crate::world::{World, copy};

/// Small, so that there are many.
const SEGMENT_BYTES: u64 = 16 * 1024;

fn small() -> DiskOptions {
    DiskOptions { segment_bytes: Some(SEGMENT_BYTES), ..DiskOptions::default() }
}

/// Small, and let go soon: files are used again.
fn short_lived() -> DiskOptions {
    DiskOptions { retention: Retention { bytes: 3 * SEGMENT_BYTES, ..Retention::default() }, ..small() }
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

fn number(segment: &Path) -> u64 {
    segment.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok()).expect("a number")
}

/// Those that were begun, oldest first.
fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = dir.join("db/log").read_dir().expect("lists").map(|it| it.expect("lists").path());
    let mut segments: Vec<_> = files.filter(|path| base(path).is_some()).collect();
    segments.sort_by_key(|path| number(path));
    segments
}

/// The first event of a segment, if it was begun.
fn base(segment: &Path) -> Option<u64> {
    let bytes = fs::read(segment).unwrap_or_default();
    let word = |at: usize| bytes.get(at..at + 8).map(|it| u64::from_le_bytes(it.try_into().expect("eight bytes")));
    (word(8)? == number(segment)).then(|| word(16))?
}

/// How many events a directory has, which are those that happened.
fn open(world: &World, dir: &Path) -> Result<usize, StoreError> {
    let (store, state) = DiskStore::open(dir, world.options)?;
    let events = usize::try_from(state.counters().seq.0).expect("small");
    assert_eq!(state, world.state_after(events), "what opens is what was, up to some event");
    let query = EventQuery { after: Some(tenure_core::Seq(0)), limit: 1_000, ..EventQuery::default() };
    let page = match store.reader().events(&query).expect("readable") {
        Ok(page) => page,
        Err(gone) => {
            let query = EventQuery { after: Some(tenure_core::Seq(gone.oldest.0 - 1)), ..query };
            store.reader().events(&query).expect("readable").expect("this is kept")
        }
    };
    let first = page.items.first().map_or(0, |first| first.seq.0 as usize - 1);
    assert_eq!(page.items, world.events[first..events.min(first + page.items.len())], "and so is the history");
    Ok(events)
}

#[test]
fn whatever_was_committed_is_there_after_a_crash_at_any_time() {
    let cases = [(40, Durability::Sync, small()), (41, Durability::Os, small()), (42, Durability::Sync, short_lived())];
    for (seed, durability, options) in cases {
        let dir = tempfile::tempdir().expect("a directory");
        let mut world = World::new(seed, dir.path(), DiskOptions { durability, ..options });
        for _ in 0..60 {
            world.live(20);
            let crashed = copy(dir.path(), |_| false);
            assert_eq!(open(&world, crashed.path()).expect("opens"), world.events.len());
            assert_eq!(open(&world, crashed.path()).expect("opens again"), world.events.len());
        }
        let newest = segments(dir.path()).last().map(|segment| number(segment));
        assert!(newest > Some(3), "there are some: {newest:?}");
    }
}

#[test]
fn what_the_rows_lack_is_in_the_log_however_old_they_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(42, dir.path(), short_lived());
    // As the database was at some time, and how far its log went then.
    let mut databases = Vec::new();
    let (mut whole, mut missing) = (0, 0);
    for _ in 0..40 {
        world.live(25);
        databases.push((copy(dir.path(), is_log), world.events.len()));
        let segments = segments(dir.path());
        let oldest = base(segments.first().expect("it was written to")).expect("it was begun");
        for (database, events) in databases.iter().rev().step_by(3) {
            let crashed = copy(database.path(), |_| false);
            for segment in &segments {
                let name = segment.file_name().expect("a name");
                fs::copy(segment, crashed.path().join("db/log").join(name)).expect("copies");
            }
            match DiskStore::open(crashed.path(), world.options) {
                Ok((_, state)) => {
                    whole += 1;
                    let (now, then) = (world.events.len(), *events);
                    assert_eq!(state, world.state_after(now), "rows of {then} events or less, a log from {oldest} on");
                }
                Err(error) => {
                    missing += 1;
                    assert!(oldest > 1 && matches!(error, StoreError::Damaged(_)), "{error}");
                }
            }
        }
    }
    assert!(whole > 50 && missing > 20, "{whole} were whole, {missing} were refused");
}

#[test]
fn a_journal_that_is_torn_makes_no_difference() {
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
    let database = copy(dir.path(), is_log);
    world.live(170);
    while world.pending.is_empty() {
        let acquire = world.acquire();
        world.apply(tenure_core::Command::Acquire(acquire));
    }
    world.commit(false);
    let [segment] = segments(dir.path()).try_into().expect("one is enough");
    let bytes = fs::read(&segment).expect("reads");
    let before_last = world.ends[world.ends.len() - 2] as usize;
    let with = |bytes: &[u8]| {
        let crashed = copy(database.path(), |_| false);
        fs::write(crashed.path().join("db/log").join(segment.file_name().expect("a name")), bytes).expect("writes");
        let opened = open(&world, crashed.path());
        if opened.is_ok() {
            assert_eq!(open(&world, crashed.path()).ok(), opened.as_ref().ok().copied(), "opens again");
        }
        opened
    };
    assert_eq!(with(&bytes).expect("opens"), world.events.len());

    let used = bytes.iter().rposition(|byte| *byte != 0).expect("it was written to") + 1;
    let record = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize + 24;
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
    for at in (0..48).chain((4_096..last).step_by(61)).chain(last..last + 24) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 4;
        match with(&bytes) {
            // Damage to the last looks as if it had just been being written.
            Ok(events) if at >= last => assert_eq!(events, before_last, "byte {at}"),
            Ok(events) => assert_eq!(events, world.events.len(), "byte {at}"),
            Err(error) => {
                noticed += 1;
                assert!(matches!(error, StoreError::Damaged(_)), "{error}");
            }
        }
    }
    assert!(noticed > 100, "{noticed}");
    for cut in [1, 20, 39, 47, 48, 4_095] {
        assert!(matches!(with(&bytes[..cut]), Err(StoreError::Damaged(_))), "a file of {cut} bytes was never begun");
    }
}

#[test]
fn an_entry_that_is_too_large_for_a_segment_gets_one_that_is_large_enough() {
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
    let sizes = segments(dir.path()).into_iter().map(|it| it.metadata().expect("is there").len());
    assert!(sizes.max() > Some(SEGMENT_BYTES));
}

#[test]
fn a_server_that_is_stopped_leaves_no_room_and_the_next_one_goes_on_in_the_same_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(46, dir.path(), DiskOptions::default());
    for _ in 0..5 {
        world.live(40);
        let [segment] = segments(dir.path()).try_into().expect("one is enough");
        assert_eq!(segment.metadata().expect("is there").len(), 1024 * 1024);
        world.reopen();
        drop(world.store.take());
        assert!(segment.metadata().expect("is there").len() < 512 * 1024, "it has what was written");
        assert_eq!(open(&world, dir.path()).expect("opens"), world.events.len());
        world.store = Some(DiskStore::open(dir.path(), world.options).expect("opens").0);
    }
}

#[test]
fn files_are_used_again_when_the_history_has_let_go_of_them() {
    for bytes in [SEGMENT_BYTES, 8 * SEGMENT_BYTES] {
        let dir = tempfile::tempdir().expect("a directory");
        let retention = Retention { bytes: 3 * bytes, ..Retention::default() };
        let options =
            DiskOptions { durability: Durability::Os, segment_bytes: Some(bytes), retention, ..DiskOptions::default() };
        let mut world = World::new(47, dir.path(), options);
        let (mut newest, mut most, mut used_before) = (0, 0, 0);
        while newest < 16 {
            for _ in 0..4 {
                let acquire = world.acquire();
                world.apply(tenure_core::Command::Acquire(acquire));
            }
            world.commit(world.events.len().is_multiple_of(5));
            world.pass(5);
            most = most.max(dir.path().join("db/log").read_dir().expect("lists").count());
            let file = segments(dir.path()).pop().expect("there is one");
            if number(&file) > newest {
                newest = number(&file);
                let bytes = fs::read(&file).expect("reads");
                used_before += usize::from(bytes[bytes.len() / 2..].iter().any(|byte| *byte != 0));
            }
        }
        assert!(used_before >= 8, "of 16 segments of {bytes} bytes {used_before} are in files that were used before");
        assert!(most <= 7, "{most} files, of which three may be full");
        let crashed = copy(dir.path(), |_| false);
        assert_eq!(open(&world, crashed.path()).expect("opens"), world.events.len());
        world.reopen();
    }
}

#[test]
fn a_file_that_was_never_begun_has_nothing_that_could_be_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let os = DiskOptions { durability: Durability::Os, ..DiskOptions::default() };
    let mut world = World::new(52, dir.path(), os);
    world.live(60);
    // The power went before the rows were written, and of the first block nothing had been.
    let fresh = tempfile::tempdir().expect("a directory");
    drop(DiskStore::open(fresh.path(), os).expect("opens"));
    let mut bytes = fs::read(dir.path().join("db/log/1.log")).expect("reads");
    bytes[..4_096].fill(0);
    fs::write(fresh.path().join("db/log/1.log"), bytes).expect("writes");
    fs::write(fresh.path().join("unsynced"), "").expect("writes");
    let (mut store, state) = DiskStore::open(fresh.path(), DiskOptions::default()).expect("opens");
    assert_eq!(state.counters().seq.0, 0);
    let all = commit_again(&world, &mut store, 0, 3);
    let killed = copy(fresh.path(), |_| false);
    assert_eq!(open(&world, killed.path()).expect("opens after a crash"), all);
}

#[test]
fn what_somebody_had_written_is_never_taken_for_an_entry() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(53, dir.path(), short_lived());
    // What would be an entry in a segment whose salt is zero, as text, at every place within eight bytes.
    let forged = |first: u64, at: u8| {
        let mut segment = vec![0; 4_096];
        segment.extend(11_u32.to_le_bytes());
        segment.extend(1_u32.to_le_bytes());
        segment.extend(first.to_le_bytes());
        segment.extend([0; 8]);
        segment.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 8, at]);
        fuzzing::reseal_segment(&mut segment);
        String::from_utf8(segment.split_off(4_096)).ok()
    };
    let record = (0..).flat_map(|first| (1..127).map(move |at| (first, at))).find_map(|(first, at)| forged(first, at));
    let record = record.expect("some are text");
    let mut text = String::new();
    for shift in 0..8 {
        while text.len() % 8 != shift {
            text.push('x');
        }
        text.push_str(&record);
    }
    let mut round = 0;
    while segments(dir.path()).last().is_none_or(|newest| number(newest) < 12) {
        round += 1;
        let spec = tenure_core::ResourceSpec {
            name: tenure_core::ResourceName::parse("a").expect("valid"),
            labels: tenure_core::Labels::default(),
            properties: tenure_core::Labels::parse([("url", text.as_str())]).expect("valid"),
        };
        let resources = [spec].into_iter().collect();
        let capacity = tenure_core::Capacity::Resources { placement: tenure_core::Placement::First, resources };
        let spec = tenure_core::PoolSpec {
            capacity,
            order: tenure_core::Order::Strict,
            window: None,
            declared: true,
            cleaning: false,
            fair: None,
            scripts: tenure_core::Scripts::default(),
        };
        let name = tenure_core::PoolName::parse(&format!("evil/{round}")).expect("valid");
        let pool = tenure_core::PoolPath::new(tenure_core::Namespace::default(), name);
        world.apply(tenure_core::Command::SetPool(tenure_core::SetPool { pool, spec }));
        world.commit(true);
        let crashed = copy(dir.path(), |_| false);
        assert_eq!(open(&world, crashed.path()).expect("opens"), world.events.len());
    }
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
    let database = copy(dir.path(), is_log);
    let then = world.events.len() as u64;
    // Some of what the rows lack is in each of several segments.
    while segments(dir.path()).iter().filter(|it| base(it).expect("was begun") > then).count() < 3 {
        world.live(5);
    }
    let all = segments(dir.path());
    for lost in 0..all.len() {
        if base(&all[lost]).expect("was begun") <= then {
            continue;
        }
        for durability in [Durability::Os, Durability::Sync] {
            let crashed = copy(database.path(), |_| false);
            for (index, segment) in all.iter().enumerate() {
                let mut bytes = fs::read(segment).expect("reads");
                if index == lost {
                    // The first blocks of entries were not written when the power went.
                    bytes[4_096..4_096 + 1_024].fill(0);
                }
                let name = segment.file_name().expect("a name");
                fs::write(crashed.path().join("db/log").join(name), bytes).expect("writes");
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
}

#[test]
fn a_segment_that_was_being_begun_when_the_power_went_is_not_missed() {
    for options in [small(), short_lived()] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut world = World::new(49, dir.path(), options);
        let mut begun = 0;
        while begun < 8 {
            let before = segments(dir.path());
            let header = |segment: &PathBuf| fs::read(segment).expect("reads")[..48].to_vec();
            let another = before.first().map(header);
            let known = world.events.len();
            let acquire = world.acquire();
            world.apply(tenure_core::Command::Acquire(acquire));
            world.commit(false);
            let Some(newest) = segments(dir.path()).pop() else { continue };
            if before.contains(&newest) || before.is_empty() {
                continue;
            }
            begun += 1;
            // Its first entry is on the disk, and its header is not yet; or it still has the name and the header of another.
            for older in [Some([0; 48].to_vec()), another].into_iter().flatten() {
                // The file of the next one is made ready later.
                let crashed = copy(dir.path(), |path| is_log(path) && number(path) > number(&newest));
                let mut bytes = fs::read(&newest).expect("reads");
                bytes[..48].copy_from_slice(&older);
                fs::write(crashed.path().join("db/log").join(newest.file_name().expect("a name")), bytes)
                    .expect("writes");
                assert_eq!(open(&world, crashed.path()).expect("opens"), known, "nobody had an answer to the last");
            }
            // So that segments can be let go.
            world.commit(true);
        }
    }
}

#[test]
fn damage_in_a_journal_that_the_log_does_not_make_up_for_costs_nothing_but_what_is_damaged() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(50, dir.path(), short_lived());
    while segments(dir.path()).first().and_then(|oldest| base(oldest)).is_none_or(|base| base < 200) {
        world.live(20);
        world.commit(true);
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

#[test]
fn a_segment_that_is_missing_or_damaged_is_known_to_be() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(51, dir.path(), small());
    while segments(dir.path()).len() < 5 {
        world.live(20);
    }
    world.commit(true);
    drop(world.store.take());
    let all = segments(dir.path());
    let ask = |dir: &Path| {
        let (store, state) = DiskStore::open(dir, world.options)?;
        assert_eq!(state, world.state_after(world.events.len()));
        store.reader().events(&EventQuery { limit: 1_000, ..EventQuery::default() })
    };
    for (index, segment) in all.iter().enumerate() {
        let name = segment.file_name().expect("a name");
        let gone = copy(dir.path(), |path| path.file_name() == Some(name));
        let damaged = copy(dir.path(), |_| false);
        let mut bytes = fs::read(segment).expect("reads");
        bytes[9] ^= 1;
        fs::write(damaged.path().join("db/log").join(name), bytes).expect("writes");
        for crashed in [gone, damaged] {
            let error = ask(crashed.path()).expect_err("it is missed");
            assert!(matches!(error, StoreError::Damaged(_)), "segment {index}: {error}");
        }
    }
}

//! A closed store, opened again.

use tenure_core::*;
use tenure_engine::*;

use crate::world::World;

#[test]
fn what_is_replayed_is_what_was() {
    let mut kinds = std::collections::BTreeSet::new();
    let (mut timed, mut adopted) = (0, 0);
    for seed in 0..8 {
        let dir = tempfile::tempdir().expect("a directory");
        let durability = if seed % 4 == 0 { Durability::Sync } else { Durability::Os };
        let mut world = World::new(seed, dir.path(), DiskOptions { durability, ..DiskOptions::default() });
        for _ in 0..12 {
            let steps = 1 + world.random.below(400);
            world.live(steps);
            world.reopen();
            if world.random.one_in(3) {
                world.reopen();
            }
        }
        for it in &world.events {
            match &it.event {
                Event::Granted { hold, .. } => {
                    timed += usize::from(matches!(hold.lifetime, Lifetime::Session(Some(_))))
                }
                Event::Renewed { adopted_from, .. } => adopted += usize::from(adopted_from.is_some()),
                _ => {}
            }
        }
        kinds.extend(
            world.events.iter().map(|it| format!("{:?}", it.event).split([' ', '{']).next().map(str::to_owned)),
        );
    }
    assert_eq!(kinds.len(), 22, "every kind of event has happened: {kinds:?}");
    assert!(timed > 0 && adopted > 0, "{timed} session's holds had a time, {adopted} became leases");
}

#[test]
fn a_hold_that_ended_before_the_rows_were_written_never_becomes_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(1, dir.path(), DiskOptions::default());
    let pool = world.pool();
    for _ in 0..100 {
        let acquire = Acquire {
            pool: pool.clone(),
            demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
            lifetime: None,
            session: None,
            request: None,
            also: Box::default(),
            holds_on: false,
            size: None,
            ..world.acquire()
        };
        let Reply::Granted(grant) = world.apply(Command::Acquire(acquire)) else { panic!("the pool is free") };
        world.commit(false);
        let release = Release { namespace: pool.namespace().clone(), key: grant.key, pool: None };
        world.apply(Command::Release(release));
        world.commit(false);
    }
    assert_eq!(world.rows.len(), 1, "the pool's");
    let rows = world.rows.drain(world.machine.state());
    assert_eq!(rows.len(), 1);
    world.store.as_mut().expect("open").commit(Commit { entry: None, rows: Some(rows) }).expect("commits");
    world.reopen();
}

#[test]
fn a_crash_while_the_directory_is_made_leaves_nothing_in_the_way() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("lock"), "").expect("writes");
    std::fs::create_dir(dir.path().join("new")).expect("makes");
    std::fs::write(dir.path().join("new/0.jnl"), "half").expect("writes");
    let mut world = World::new(2, dir.path(), DiskOptions::default());
    world.live(50);
    world.reopen();
}

#[test]
fn a_directory_is_made_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("a/b");
    drop(DiskStore::open(&data, DiskOptions::default()).expect("opens"));
    assert_eq!(data.metadata().expect("is there").permissions().mode() & 0o777, 0o700);
    // One that somebody else made keeps its mode; what is in it is private all the same.
    let made = dir.path().join("made");
    std::fs::create_dir(&made).expect("makes");
    std::fs::set_permissions(&made, PermissionsExt::from_mode(0o755)).expect("opens it up");
    drop(DiskStore::open(&made, DiskOptions::default()).expect("opens"));
    assert_eq!(made.join("db").metadata().expect("is there").permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_second_server_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (store, _) = DiskStore::open(dir.path(), DiskOptions::default()).expect("opens");
    let second = DiskStore::open(dir.path(), DiskOptions::default()).expect_err("it is in use");
    assert!(matches!(second, StoreError::InUse(_)), "{second}");
    drop(store);
    DiskStore::open(dir.path(), DiskOptions::default()).expect("nobody uses it any more");
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("thesis.txt"), "precious").expect("writes");
    let error = DiskStore::open(dir.path(), DiskOptions::default()).expect_err("it is not ours");
    assert!(matches!(error, StoreError::Foreign(..)), "{error}");
    let left: Vec<_> = dir.path().read_dir().expect("lists").map(|it| it.expect("lists").file_name()).collect();
    assert_eq!(left, ["thesis.txt"]);

    let error = DiskStore::open(&dir.path().join("thesis.txt"), DiskOptions::default()).expect_err("it is a file");
    assert!(matches!(error, StoreError::Foreign(..)), "{error}");
}

#[test]
fn another_format_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(DiskStore::open(dir.path(), DiskOptions::default()).expect("opens"));
    std::fs::write(dir.path().join("db/format"), "tenure 3\n").expect("writes");
    let error = DiskStore::open(dir.path(), DiskOptions::default()).expect_err("it is not known");
    assert!(matches!(error, StoreError::Format { found: 3, known: 2, .. }), "{error}");
}

#[test]
fn unsynced_commits_survive_the_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(3, dir.path(), DiskOptions { durability: Durability::Os, ..DiskOptions::default() });
    world.live(300);
    world.reopen();
    world.options.durability = Durability::Sync;
    world.reopen();
    world.live(300);
    world.reopen();
}

#[test]
fn the_mark_of_unsynced_commits_comes_before_the_first_and_goes_after_a_synced_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let mark = dir.path().join("unsynced");
    let os = DiskOptions { durability: Durability::Os, ..DiskOptions::default() };
    let mut world = World::new(9, dir.path(), os);
    assert!(!mark.exists(), "nothing was written yet");
    world.live(50);
    assert!(mark.exists());

    // Nothing is replayed, so opening writes nothing: what was found is not yet known to be synced.
    world.commit(true);
    drop(world.store.take());
    world.options.durability = Durability::Sync;
    drop(DiskStore::open(dir.path(), world.options).expect("opens"));
    assert!(mark.exists());
    world.reopen();
    world.live(50);
    assert!(!mark.exists(), "commits were synced");

    world.commit(true);
    drop(world.store.take());
    drop(DiskStore::open(dir.path(), os).expect("opens"));
    assert!(!mark.exists(), "nothing was written, so all of it is synced");
    world.options.durability = Durability::Os;
    world.reopen();
    world.live(50);
    assert!(mark.exists());

    // What is replayed is written as rows, and synced.
    drop(world.store.take());
    world.options.durability = Durability::Sync;
    drop(DiskStore::open(dir.path(), world.options).expect("opens"));
    assert!(!mark.exists());
}

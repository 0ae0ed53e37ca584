//! A directory that an earlier version wrote must open for ever.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use tenure_core::*;
use tenure_engine::*;

use crate::world::{World, copy};

/// The state as text, by what anybody can see of it.
fn dump(state: &State, reader: &dyn LogReader) -> String {
    let mut text = String::new();
    let query = EventQuery { limit: 1_000, ..EventQuery::default() };
    let page = reader.events(&query).expect("readable").expect("kept");
    assert!(page.done, "a fixture is small");
    writeln!(text, "{:?}", state.counters()).expect("writes");
    writeln!(text, "{} requests remembered", state.ended_requests(0).len()).expect("writes");
    for namespace in ["default", "other"] {
        let namespace = Namespace::parse(namespace).expect("valid");
        let queries = [
            Query::Pools { namespace: namespace.clone(), prefix: String::new(), after: None, limit: 1_000 },
            Query::Holds { namespace: namespace.clone(), pool: None, holder: None, after: None, limit: 1_000 },
            Query::Sessions { namespace, after: None, limit: 1_000 },
        ];
        for query in queries {
            writeln!(text, "{:#?}", state.query(&query).expect("an answer")).expect("writes");
        }
    }
    for recorded in page.items {
        writeln!(text, "{} {} {:?}", recorded.seq.0, recorded.at.as_millis(), recorded.event).expect("writes");
    }
    text
}

#[test]
fn what_every_format_wrote_still_opens() {
    for format in [1, 2] {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let (stored, expected) = (data.join(format!("format-{format}")), data.join(format!("format-{format}.txt")));
        let write = std::env::var_os("TENURE_WRITE_FIXTURE").is_some();
        if write && !stored.exists() {
            make(&stored);
        }
        let copy = copy(&stored, |_| false);
        let (store, state) = DiskStore::open(copy.path(), DiskOptions::default()).expect("it opens");
        let found = dump(&state, &*store.reader());
        if write {
            fs::write(&expected, &found).expect("writes");
        }
        let expected = fs::read_to_string(&expected).expect("reads");
        assert!(found == expected, "the fixture of format {format} reads differently now:\n{found}");
        // What was moved is there for good, and can be gone on with.
        drop((store, state));
        let (store, state) = DiskStore::open(copy.path(), DiskOptions::default()).expect("it opens again");
        assert!(
            dump(&state, &*store.reader()) == expected,
            "the fixture of format {format} was changed by being opened"
        );
        let newest = fs::read_to_string(copy.path().join("db/format")).expect("reads");
        assert_eq!(newest, "tenure 2\n", "an older server must not miss the log");
    }
}

#[test]
fn a_log_that_was_being_moved_when_the_server_died_is_moved_again() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let expected = fs::read_to_string(data.join("format-1.txt")).expect("reads");
    let open = |dir: &Path| {
        let (store, state) = DiskStore::open(dir, DiskOptions::default()).expect("it opens");
        assert!(dump(&state, &*store.reader()) == expected, "all of it is there");
    };
    // Some of it was moved.
    let half = copy(&data.join("format-1"), |_| false);
    fs::create_dir(half.path().join("db/log")).expect("makes");
    fs::write(half.path().join("db/log/1.log"), [7; 9_000]).expect("writes");
    open(half.path());
    // All of it was, and is still in the database too.
    let both = copy(&data.join("format-1"), |_| false);
    fs::create_dir(both.path().join("db/log")).expect("makes");
    fs::copy(half.path().join("db/log/1.log"), both.path().join("db/log/1.log")).expect("copies");
    fs::write(both.path().join("db/format"), "tenure 2\n").expect("writes");
    open(both.path());
    open(both.path());
}

/// Written once per format, by the first version that had it.
fn make(dir: &Path) {
    let options = DiskOptions { segment_bytes: Some(16 * 1024), ..DiskOptions::default() };
    let mut world = World::new(1, dir, options);
    world.live(120);
    world.commit(true);
    world.store.as_mut().expect("open").flush().expect("flushes");
    world.live(60);
    world.reopen();
    world.live(40);
    drop(world.store.take());
}

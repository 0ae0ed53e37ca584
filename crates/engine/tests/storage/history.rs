//! Looking through the log.

use std::sync::Arc;

use tenure_core::*;
use tenure_engine::*;

use crate::world::World;

/// Faster, and of no matter here.
fn unsynced() -> DiskOptions {
    DiskOptions { durability: Durability::Os, ..DiskOptions::default() }
}

/// What an answer should be, found by looking at everything.
fn naive(events: &[Recorded], query: &EventQuery) -> Vec<Recorded> {
    let mut found: Vec<_> = events
        .iter()
        .filter(|it| match query.after {
            Some(after) if query.newest_first => it.seq < after,
            Some(after) => it.seq > after,
            None => true,
        })
        .filter(|it| query.filter.matches(it.at, &it.event))
        .cloned()
        .collect();
    if query.newest_first {
        found.reverse();
    }
    found
}

/// Asks page by page until there is no more.
fn all_pages(reader: &dyn LogReader, query: &EventQuery) -> Vec<Recorded> {
    let mut query = query.clone();
    let mut found = Vec::new();
    loop {
        let page = reader.events(&query).expect("readable").expect("kept");
        assert!(page.items.len() <= query.limit);
        found.extend(page.items);
        if page.done {
            return found;
        }
        assert_ne!(page.reached, query.after, "a page gets on");
        query.after = page.reached;
    }
}

fn queries(world: &mut World, first: u64) -> Vec<EventQuery> {
    let last = world.events.len() as u64;
    (0..150)
        .map(|_| {
            let mut time = || {
                let at = &world.events[world.random.below(last as usize)].at;
                Timestamp::from_millis(at.as_millis() + world.random.next() % 3 - 1)
            };
            let (since, until) = (time(), time());
            let random = &mut world.random;
            EventQuery {
                after: random.one_in(2).then(|| Seq(first - 1 + random.next() % (last - first + 3))),
                newest_first: random.one_in(2),
                limit: 1 + random.below(100),
                filter: EventFilter {
                    namespace: random.one_in(3).then(Namespace::default),
                    pool: random.one_in(4).then(|| PoolName::parse("pool/3").expect("valid")),
                    holder: random.one_in(4).then(|| HolderId::parse("holder-7").expect("valid")),
                    since: random.one_in(3).then_some(since),
                    until: random.one_in(3).then_some(until),
                },
            }
        })
        .collect()
}

#[test]
fn every_question_is_answered_as_if_all_had_been_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(4, dir.path(), unsynced());
    world.live(3_000);
    // Once from memory, once from disk.
    for _ in 0..2 {
        for query in queries(&mut world, 1) {
            assert_eq!(all_pages(&*world.reader(), &query), naive(&world.events, &query), "{query:?}");
        }
        world.reopen();
    }
}

#[test]
fn an_empty_log_has_nothing_and_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let (store, _) = DiskStore::open(dir.path(), DiskOptions::default()).expect("opens");
    for reader in [store.reader(), MemoryStore::new().reader()] {
        for newest_first in [false, true] {
            let page = reader.events(&EventQuery { newest_first, ..EventQuery::default() });
            let page = page.expect("readable").expect("kept");
            assert!(page.items.is_empty() && page.done && page.reached.is_none(), "{page:?}");
        }
    }
}

#[test]
fn a_page_that_finds_nothing_still_gets_on() {
    let mut store = MemoryStore::new();
    let events = (0..50_000).map(|_| Event::Restarted).collect();
    store
        .commit(Commit {
            entry: Some(Arc::new(Entry { first: Seq(1), at: Timestamp::from_millis(1), events })),
            rows: None,
        })
        .expect("commits");
    let filter = EventFilter { namespace: Some(Namespace::default()), ..EventFilter::default() };
    let page = store.reader().events(&EventQuery { limit: 10, filter, ..EventQuery::default() });
    let page = page.expect("readable").expect("kept");
    assert_eq!((page.items.len(), page.reached, page.done), (0, Some(Seq(20_000)), false));
}

#[test]
fn memory_keeps_the_last_events_and_says_what_is_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(5, dir.path(), unsynced());
    world.live(2_000);
    let mut store = MemoryStore::with_events_max(500);
    let mut from = 0;
    for end in &world.ends {
        let events: Vec<_> = world.events[from..*end as usize].to_vec();
        let (first, at) = (events[0].seq, events[0].at);
        let events = events.into_iter().map(|it| it.event).collect();
        store.commit(Commit { entry: Some(Arc::new(Entry { first, at, events })), rows: None }).expect("commits");
        from = *end as usize;
    }
    let reader = store.reader();
    let oldest = gone(&*reader, Seq(0)).expect("the first are gone").0;
    assert!(oldest > 1 && world.events.len() as u64 - oldest < 500);
    let kept = world.events[oldest as usize - 1..].to_vec();
    for query in queries(&mut world, oldest) {
        assert_eq!(all_pages(&*reader, &query), naive(&kept, &query), "{query:?}");
    }
}

/// The oldest event kept, if the one after `after` is not.
fn gone(reader: &dyn LogReader, after: Seq) -> Option<Seq> {
    let query = EventQuery { after: Some(after), limit: 1, ..EventQuery::default() };
    reader.events(&query).expect("readable").err().map(|gone| gone.oldest)
}

#[test]
fn old_entries_are_let_go_but_not_before_the_rows_have_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let retention = Retention { age: Ttl::from_millis(60_000), bytes: u64::MAX };
    // Each entry is a segment.
    let options = DiskOptions { retention, segment_bytes: Some(0), ..unsynced() };
    let mut world = World::new(6, dir.path(), options);
    world.live(400);
    world.commit(false);
    // Late enough for a segment of its own.
    world.pass(60_001);
    world.apply(Command::Restart);
    world.commit(true);
    // The last of which the rows have all stays until they have something of the next.
    let before = world.ends[world.ends.len() - 2];
    for _ in 0..40 {
        world.pass(60_001);
        world.apply(Command::Restart);
        world.commit(false);
    }
    // All that is older than a minute and in the rows is gone; what is only in the log is not.
    assert_eq!(gone(&*world.reader(), Seq(0)), Some(Seq(before + 1)));
    for query in queries(&mut world, before + 1) {
        assert_eq!(all_pages(&*world.reader(), &query), naive(&world.events[before as usize..], &query), "{query:?}");
    }
    // Opening writes the rows, so the rest can go, but for what is young.
    world.pass(30_000);
    world.reopen();
    let oldest = gone(&*world.reader(), Seq(before)).expect("more is gone").0;
    // A segment goes when the next one has only what is old.
    let end = world.ends.iter().find(|end| **end >= oldest).copied().expect("it is an entry's") as usize;
    assert!(world.events[end].at.as_millis() + 60_000 > world.now.as_millis());
    assert!(world.events[oldest as usize - 1].at.as_millis() + 60_000 <= world.now.as_millis());
    // The last entry stays, however old.
    world.commit(true);
    world.pass(600_000);
    world.expire();
    world.apply(Command::Restart);
    world.commit(false);
    assert_eq!(gone(&*world.reader(), Seq(0)), Some(Seq(world.ends[world.ends.len() - 3] + 1)));
    world.reopen();
}

#[test]
fn a_log_that_is_too_large_lets_the_oldest_go() {
    let dir = tempfile::tempdir().expect("a directory");
    let retention = Retention { bytes: 20_000, ..Retention::default() };
    let mut world = World::new(7, dir.path(), DiskOptions { retention, segment_bytes: Some(8_192), ..unsynced() });
    for round in 0..6 {
        world.live(300);
        world.commit(true);
        world.store.as_mut().expect("open").flush().expect("flushes");
        if round % 2 == 1 {
            world.reopen();
            world.commit(true);
        }
    }
    let oldest = gone(&*world.reader(), Seq(0)).expect("the first are gone").0;
    let kept = world.events.len() as u64 - oldest;
    assert!(kept < 2_000, "20,000 bytes hold no {kept} events");
    let events = world.events[oldest as usize - 1..].to_vec();
    for query in queries(&mut world, oldest) {
        assert_eq!(all_pages(&*world.reader(), &query), naive(&events, &query), "{query:?}");
    }
}

#[test]
fn a_reader_beside_the_writer_sees_each_event_once_and_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut world = World::new(8, dir.path(), unsynced());
    let reader = world.reader();
    let seen = std::thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::channel::<u64>();
        let watcher = scope.spawn(move || {
            let mut query = EventQuery { after: Some(Seq(0)), limit: 100, ..EventQuery::default() };
            let (mut seen, mut until) = (Vec::new(), u64::MAX);
            while (seen.len() as u64) < until {
                let page = reader.events(&query).expect("readable").expect("kept");
                query.after = page.reached.or(query.after);
                seen.extend(page.items);
                until = stopped.try_recv().unwrap_or(until);
            }
            seen
        });
        world.live(2_000);
        stop.send(world.events.len() as u64).expect("the watcher waits for it");
        watcher.join().expect("the watcher ends")
    });
    assert_eq!(seen, world.events);
}

#[test]
fn a_reader_of_what_is_let_go_meanwhile_gets_what_was_or_hears_that_it_is_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let retention = Retention { bytes: 24 * 1_024, ..Retention::default() };
    let options = DiskOptions { retention, segment_bytes: Some(8 * 1_024), ..unsynced() };
    let mut world = World::new(10, dir.path(), options);
    world.settles = false;
    let reader = world.reader();
    let (seen, times_gone) = std::thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let watcher = scope.spawn(move || {
            let mut query = EventQuery { after: Some(Seq(0)), limit: 100, ..EventQuery::default() };
            let (mut seen, mut times_gone) = (Vec::new(), 0);
            while stopped.try_recv().is_err() {
                // Always the oldest, which is let go next.
                match reader.events(&query).expect("readable") {
                    Ok(page) => seen = page.items,
                    Err(gone) => {
                        times_gone += 1;
                        query.after = Some(Seq(gone.oldest.0 - 1));
                    }
                }
            }
            (seen, times_gone)
        });
        for _ in 0..200 {
            world.live(20);
            world.commit(true);
        }
        stop.send(()).expect("the watcher waits for it");
        watcher.join().expect("the watcher ends")
    });
    assert!(!seen.is_empty() && times_gone > 5, "{times_gone} times gone");
    assert!(seen.iter().all(|it| *it == world.events[it.seq.0 as usize - 1]), "what was seen is what was");
}

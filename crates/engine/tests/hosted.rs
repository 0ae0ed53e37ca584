//! What is particular to an engine that somebody else's thread runs: when it does what, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tenure_core::*;
use tenure_engine::{
    Answered, Calls, Clock, Commit, DiskOptions, DiskStore, Embedded, Engine, Failure, Hosting, LogReader, ManualClock,
    MemoryStore, Options, ReplyTo, RowChanges, Store, StoreError, answers,
};
use tokio::time::Instant;

/// Notes what is done, and when.
struct Noting {
    inner: MemoryStore,
    notes: Notes,
}

type Notes = Arc<Mutex<Vec<&'static str>>>;

impl Store for Noting {
    fn commit(&mut self, commit: Commit) -> Result<(), StoreError> {
        self.notes.lock().unwrap().push("commit");
        self.inner.commit(commit)
    }

    fn follow(&mut self) -> Result<(), StoreError> {
        self.notes.lock().unwrap().push("follow");
        self.inner.follow()
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        self.inner.reader()
    }
}

/// The time of tokio's runtime, which in a test that has paused it moves on when nobody has anything to do.
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1 + u64::try_from(self.0.elapsed().as_millis()).unwrap())
    }

    fn until(&self, deadline: Timestamp) -> Option<Duration> {
        Some(Duration::from_millis(deadline.millis_since(self.now())))
    }
}

fn start(clock: impl Clock, notes: &Notes, host: impl FnOnce(Hosting) + Send + 'static) -> Arc<Embedded> {
    let store = Noting { inner: MemoryStore::new(), notes: notes.clone() };
    let options = Options { host: Some(Box::new(host)), ..Options::default() };
    Arc::new(Embedded::start(State::new(options.limits.pool_idle), store, Arc::new(clock), options))
}

fn spawn(hosting: Hosting) {
    tokio::spawn(hosting);
}

fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(1))
}

fn acquire(pool: &str, wait: Wait) -> Acquire {
    Acquire {
        pool: PoolPath::new(Namespace::default(), PoolName::parse(pool).unwrap()),
        demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
        size: None,
        lifetime: None,
        wait,
        priority: Priority::default(),
        holder: Arc::new(Holder::parse("tester", []).unwrap()),
        session: None,
        request: None,
        also: Box::default(),
        holds_on: false,
    }
}

fn submit(engine: &Embedded) -> answers::Receiver {
    let (answers, received) = answers::channel();
    let reply_to = ReplyTo { id: 0, answers, returns: false };
    engine.submit(Command::Acquire(acquire("db", Wait::Try)), reply_to).unwrap();
    received
}

fn poll(hosting: &mut Hosting) -> Poll<()> {
    hosting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn what_several_tasks_have_to_say_shares_one_sync_and_is_told_before_anything_else_is_done() {
    let notes = Notes::default();
    let engine: Arc<dyn Engine> = start(clock(), &notes, spawn);
    let told = |pool: &'static str| {
        let (engine, notes) = (engine.clone(), notes.clone());
        tokio::spawn(async move {
            let reply = engine.call(Command::Acquire(acquire(pool, Wait::Try))).await;
            assert!(matches!(reply, Ok(Reply::Granted(_))), "{reply:?}");
            notes.lock().unwrap().push("told");
        })
    };
    // Until the start is durable.
    told("first").await.unwrap();
    notes.lock().unwrap().clear();
    for task in ["a", "b", "c"].map(told) {
        task.await.unwrap();
    }
    engine.stop().await;
    let notes = notes.lock().unwrap();
    let since = notes.iter().position(|note| *note == "commit").unwrap();
    assert_eq!(notes[since..since + 5], ["commit", "told", "told", "told", "follow"], "{notes:?}");
}

/// What a turn of all others takes is theirs to say, and where much is asked they have much to say: an engine that waited several of them for
/// each batch would never be done.
#[tokio::test]
async fn full_batches_are_not_kept_waiting_for_what_others_have_to_say() {
    const COMMANDS: usize = 32_768;
    let notes = Notes::default();
    let engine = start(clock(), &notes, spawn);
    engine.tick().await;
    notes.lock().unwrap().clear();
    let (answers, mut received) = answers::channel();
    let commands = (0..COMMANDS).map(|n| {
        let reply_to = ReplyTo { id: n as u64, answers: answers.clone(), returns: false };
        (Command::Acquire(acquire(&format!("lock-{n}"), Wait::Try)), reply_to)
    });
    assert!(engine.submit_all(commands.collect()).iter().all(Result::is_ok));
    let turns = tokio::spawn(async move {
        let mut turns = 0;
        for _ in 0..COMMANDS {
            while std::future::poll_fn(|cx| Poll::Ready(received.poll_recv(cx))).await.is_pending() {
                turns += 1;
                tokio::task::yield_now().await;
            }
        }
        turns
    });
    let turns = turns.await.unwrap();
    let commits = notes.lock().unwrap().iter().filter(|note| **note == "commit").count();
    assert!(commits > 4, "there were only {commits} batches");
    // One after each batch, so that its answers are written; and the last may be small.
    assert!(
        turns <= commits + 3,
        "others had {turns} turns without anything to hear while {commits} batches were done"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_due_happens_at_its_time_though_nobody_says_anything() {
    let notes = Notes::default();
    let began = Instant::now();
    let engine: Arc<dyn Engine> = start(RuntimeClock(began), &notes, spawn);
    for (pool, seconds) in [("late", 20), ("db", 10), ("early", 5)] {
        let lifetime = Some(Lifetime::Leased(Ttl::from_millis(seconds * 1_000)));
        let granted = engine.call(Command::Acquire(Acquire { lifetime, ..acquire(pool, Wait::Try) })).await;
        assert!(matches!(granted, Ok(Reply::Granted(_))), "{granted:?}");
    }
    let waiting = engine.acquire(acquire("db", Wait::Forever)).unwrap();
    let granted = waiting.settle().await;
    assert!(matches!(granted, Ok(Reply::Granted(_))), "{granted:?}");
    // Timers are of whole milliseconds.
    assert!((10_000..10_010).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_engine_whose_future_is_dropped_has_ended_and_everybody_hears_of_it() {
    let (sender, hosting) = std::sync::mpsc::channel();
    let engine = start(clock(), &Notes::default(), move |hosting| sender.send(hosting).unwrap());
    let mut received = submit(&engine);
    let view = engine.query(Query::Stats);
    drop(hosting.recv().unwrap());
    assert!(received.recv().await.is_none());
    assert_eq!(view.await.err(), Some(Failure::Lost));
    let (answers, _received) = answers::channel();
    let reply_to = ReplyTo { id: 0, answers, returns: false };
    let refused = engine.submit(Command::Acquire(acquire("db", Wait::Try)), reply_to);
    assert_eq!(refused.err(), Some(Failure::Stopping));
    engine.stop().await;
}

/// It was handed over, but no batch has begun: nothing of it is there.
#[tokio::test]
async fn an_engine_that_is_killed_does_nothing_any_more_and_its_host_is_rid_of_it() {
    let (sender, hosting) = std::sync::mpsc::channel();
    let notes = Notes::default();
    let engine = start(clock(), &notes, move |hosting| sender.send(hosting).unwrap());
    let mut hosting = hosting.recv().unwrap();
    assert!(poll(&mut hosting).is_pending());
    assert_eq!(*notes.lock().unwrap(), ["commit", "follow"], "that it has started, and done what comes after it");
    let mut received = submit(&engine);
    engine.kill();
    assert!(received.recv().await.is_none());
    assert!(poll(&mut hosting).is_ready());
    assert_eq!(notes.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn an_engine_that_sleeps_is_woken_by_mail_and_by_its_end() {
    let (tell, hosted) = tokio::sync::oneshot::channel();
    let host = move |hosting| tell.send(tokio::spawn(hosting)).unwrap();
    let engine = start(clock(), &Notes::default(), host);
    engine.tick().await;
    // Nothing else happens any more, so that it sleeps.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let mut received = submit(&engine);
    let Some(Answered { reply: Ok(Reply::Granted(_)), .. }) = received.recv().await else { panic!("it is granted") };
    drop(engine);
    // It would sleep for ever.
    hosted.await.unwrap().await.unwrap();
}

/// Each waits for its answer before it says more, so that the engine is always about to sleep.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nothing_that_other_threads_say_is_overlooked() {
    let engine: Arc<dyn Engine> = start(clock(), &Notes::default(), spawn);
    let threads = [0, 1, 2].map(|thread| {
        let engine = engine.clone();
        tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            for n in 0..2_000 {
                let acquire = acquire(&format!("{thread}-{n}"), Wait::Try);
                let reply = runtime.block_on(engine.call(Command::Acquire(acquire)));
                assert!(matches!(reply, Ok(Reply::Granted(_))), "{reply:?}");
            }
        })
    });
    for thread in threads {
        thread.await.unwrap();
    }
}

/// Two batches, of which the first is full.
#[tokio::test]
async fn a_stop_answers_whatever_was_handed_over_before_it() {
    const COMMANDS: u64 = 5_000;
    let engine = start(clock(), &Notes::default(), spawn);
    let (answers, mut received) = answers::channel();
    for id in 0..COMMANDS {
        let reply_to = ReplyTo { id, answers: answers.clone(), returns: false };
        engine.submit(Command::Acquire(acquire("db", Wait::Try)), reply_to).unwrap();
    }
    drop(answers);
    engine.stop().await;
    let mut answered = Vec::new();
    while let Some(Answered { id, reply: Ok(_) }) = received.recv().await {
        answered.push(id);
    }
    assert_eq!(answered, Vec::from_iter(0..COMMANDS));
}

/// A disk that is given a batch, and says that it is durable, or that it cannot be, when the test wants it to.
struct Beside {
    inner: MemoryStore,
    notes: Notes,
    /// How many there were, each time there were any.
    rows: Arc<Mutex<Vec<usize>>>,
    ends: Arc<Mutex<Ends>>,
    begun: Option<Commit>,
}

#[derive(Default)]
struct Ends {
    end: Option<Result<(), StoreError>>,
    waker: Option<Waker>,
}

impl Store for Beside {
    fn commit(&mut self, commit: Commit) -> Result<(), StoreError> {
        assert!(self.begun.is_none() || commit.entry.is_none(), "one after the other");
        if commit.entry.is_some() {
            self.notes.lock().unwrap().push("commit");
        }
        self.rows.lock().unwrap().extend(commit.rows.as_ref().map(RowChanges::len));
        self.inner.commit(commit)
    }

    fn begin(&mut self, commit: Commit) -> Result<(), StoreError> {
        assert!(self.begun.replace(commit).is_none(), "one after the other");
        self.notes.lock().unwrap().push("begin");
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        let Some(begun) = &mut self.begun else { return Poll::Ready(Ok(())) };
        let mut ends = self.ends.lock().unwrap();
        match ends.end.take() {
            Some(Ok(())) => {
                self.notes.lock().unwrap().push("durable");
                let begun = std::mem::take(begun);
                self.begun = None;
                Poll::Ready(self.inner.commit(begun))
            }
            Some(failed) => Poll::Ready(failed),
            None => {
                ends.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        self.inner.reader()
    }
}

/// An engine on such a disk, in the test's own thread.
struct Bench {
    engine: Arc<Embedded>,
    notes: Notes,
    rows: Arc<Mutex<Vec<usize>>>,
    ends: Arc<Mutex<Ends>>,
    fatal: Arc<Mutex<Option<String>>>,
    answers: answers::Sender,
    received: answers::Receiver,
}

/// So many commands are worth to be written beside what else is done.
const MANY: u64 = 100;

impl Bench {
    async fn new() -> Self {
        Self::beside_others(|| Duration::ZERO).await
    }

    /// Who keep the processor for so long when they are given it.
    async fn beside_others(give_way: fn() -> Duration) -> Self {
        let (notes, ends, fatal) = (Notes::default(), Arc::<Mutex<Ends>>::default(), Arc::<Mutex<_>>::default());
        let told = Arc::clone(&fatal);
        let on_fatal = Box::new(move |error: StoreError| *told.lock().unwrap() = Some(error.to_string()));
        let options = Options { host: Some(Box::new(spawn)), on_fatal, give_way, ..Options::default() };
        let (inner, rows) = (MemoryStore::new(), Arc::<Mutex<_>>::default());
        let store = Beside { inner, notes: notes.clone(), rows: Arc::clone(&rows), ends: ends.clone(), begun: None };
        let engine = Embedded::start(State::new(options.limits.pool_idle), store, Arc::new(clock()), options);
        engine.tick().await;
        notes.lock().unwrap().clear();
        rows.lock().unwrap().clear();
        let (answers, received) = answers::channel();
        Self { engine: Arc::new(engine), notes, rows, ends, fatal, answers, received }
    }

    /// So many take a lock each, in one batch.
    async fn submit(&self, ids: std::ops::Range<u64>) {
        let commands = ids.map(|id| {
            let reply_to = ReplyTo { id, answers: self.answers.clone(), returns: false };
            (Command::Acquire(acquire(&format!("pool-{id}"), Wait::Try)), reply_to)
        });
        assert!(self.engine.submit_all(commands.collect()).iter().all(Result::is_ok));
        self.settle().await;
    }

    fn end(&self, end: Result<(), StoreError>) {
        let mut ends = self.ends.lock().unwrap();
        ends.end = Some(end);
        if let Some(waker) = ends.waker.take() {
            waker.wake();
        }
    }

    /// Until nobody has anything to do.
    async fn settle(&self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    fn answered(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.received.try_recv())
            .map(|Answered { id, reply }| reply.map(|_| id).unwrap())
            .collect()
    }

    fn noted(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.notes.lock().unwrap())
    }
}

#[tokio::test]
async fn while_a_batch_is_written_others_have_their_turn_and_nothing_is_told_before_it_is_durable() {
    let mut bench = Bench::new().await;
    bench.submit(0..MANY).await;
    // They belong to the next batch, which is applied meanwhile.
    bench.submit(MANY..2 * MANY).await;
    bench.submit(2 * MANY..3 * MANY).await;
    assert_eq!((bench.noted(), bench.answered()), (vec!["begin"], vec![]));
    bench.end(Ok(()));
    bench.settle().await;
    assert_eq!((bench.noted(), bench.answered()), (vec!["durable", "begin"], Vec::from_iter(0..MANY)));
    bench.end(Ok(()));
    bench.settle().await;
    assert_eq!((bench.noted(), bench.answered()), (vec!["durable"], Vec::from_iter(MANY..3 * MANY)));
    // A few are not worth it.
    bench.submit(3 * MANY..3 * MANY + 3).await;
    assert_eq!((bench.noted(), bench.answered()), (vec!["commit"], Vec::from_iter(3 * MANY..3 * MANY + 3)));
}

#[tokio::test]
async fn where_others_keep_the_processor_a_batch_is_waited_for_and_they_are_not_given_it_again() {
    let mut bench = Bench::beside_others(|| Duration::from_secs(60)).await;
    // While this one is written they are given it for the first time.
    bench.submit(0..MANY).await;
    assert_eq!(bench.noted(), ["begin"]);
    bench.end(Ok(()));
    bench.settle().await;
    bench.submit(MANY..2 * MANY).await;
    assert_eq!((bench.noted(), bench.answered()), (vec!["durable", "commit"], Vec::from_iter(0..2 * MANY)));
}

#[tokio::test]
async fn what_is_asked_while_a_batch_is_written_is_told_when_it_is_durable() {
    let bench = Bench::new().await;
    bench.submit(0..MANY).await;
    let engine = bench.engine.clone();
    let asked = tokio::spawn(async move { engine.query(Query::Stats).await });
    bench.settle().await;
    assert!(!asked.is_finished(), "it rests on what is not durable");
    bench.end(Ok(()));
    let Ok(Ok(View::Stats(stats))) = asked.await.unwrap() else { panic!("it is answered") };
    assert_eq!(stats.holds, usize::try_from(MANY).unwrap());
}

#[tokio::test]
async fn a_stop_while_a_batch_is_written_waits_for_it_and_answers_what_came_meanwhile() {
    let mut bench = Bench::new().await;
    bench.submit(0..MANY).await;
    bench.submit(MANY..2 * MANY).await;
    let engine = bench.engine.clone();
    let stopped = tokio::spawn(async move { engine.stop().await });
    bench.settle().await;
    assert!(!stopped.is_finished());
    bench.end(Ok(()));
    bench.settle().await;
    bench.end(Ok(()));
    stopped.await.unwrap();
    assert_eq!(bench.answered(), Vec::from_iter(0..2 * MANY));
    assert_eq!(bench.noted(), ["begin", "durable", "begin", "durable"]);
}

/// With so many commands rows are due: a pool and a hold of each.
const DUE: u64 = 2_100;

#[tokio::test]
async fn rows_are_given_to_the_store_in_their_order_though_they_are_due_with_each_batch() {
    static CROWDED: AtomicBool = AtomicBool::new(false);
    let keep = || if CROWDED.load(Ordering::Relaxed) { Duration::from_secs(60) } else { Duration::ZERO };
    let mut bench = Bench::beside_others(keep).await;
    bench.submit(0..MANY).await;
    bench.submit(MANY..MANY + DUE).await;
    // From now on the second is under way, and all rows are to come after it.
    bench.end(Ok(()));
    bench.settle().await;
    CROWDED.store(true, Ordering::Relaxed);
    // The third is waited for, so that there is no time for rows between the two.
    bench.submit(MANY + DUE..MANY + 2 * DUE).await;
    bench.end(Ok(()));
    bench.settle().await;
    assert_eq!(bench.noted(), ["begin", "durable", "begin", "durable", "commit"]);
    assert_eq!(bench.answered(), Vec::from_iter(0..MANY + 2 * DUE));
    assert_eq!(*bench.rows.lock().unwrap(), [2 * (MANY + DUE), 2 * DUE].map(|rows| usize::try_from(rows).unwrap()));
}

#[tokio::test]
async fn the_last_rows_are_given_to_the_store_after_those_that_were_due_before_them() {
    let bench = Bench::new().await;
    bench.submit(0..MANY).await;
    bench.submit(MANY..MANY + DUE).await;
    bench.end(Ok(()));
    bench.settle().await;
    bench.submit(MANY + DUE..MANY + DUE + 5).await;
    let engine = bench.engine.clone();
    let stopped = tokio::spawn(async move { engine.stop().await });
    bench.settle().await;
    bench.end(Ok(()));
    stopped.await.unwrap();
    assert_eq!(*bench.rows.lock().unwrap(), [2 * (MANY + DUE), 2 * 5].map(|rows| usize::try_from(rows).unwrap()));
}

#[tokio::test]
async fn after_a_write_that_failed_beside_nothing_is_told_any_more() {
    let mut bench = Bench::new().await;
    bench.submit(0..MANY).await;
    bench.submit(MANY..2 * MANY).await;
    bench.end(Err(StoreError::Io("the disk is gone".into())));
    bench.settle().await;
    assert_eq!(bench.fatal.lock().unwrap().as_deref(), Some("the disk is gone"));
    assert_eq!((bench.noted(), bench.answered()), (vec!["begin"], vec![]));
    // Those who wait hear that none will come.
    drop(bench.answers);
    assert!(bench.received.recv().await.is_none());
}

/// The real disk, whose files are filled several times over, and a crash while it is written to.
#[tokio::test]
async fn what_was_answered_is_there_after_a_crash_however_it_was_written() {
    let data = tempfile::tempdir().unwrap();
    let options = DiskOptions { segment_bytes: Some(256 * 1024), ..DiskOptions::default() };
    let mut expected = Vec::new();
    for life in 0..3 {
        let (store, state) = DiskStore::open(data.path(), options).unwrap();
        let found: BTreeSet<_> = state.holds().collect();
        assert!(expected.iter().all(|token| found.contains(token)), "life {life}");
        let host = Options { host: Some(Box::new(spawn)), ..Options::default() };
        let engine = Arc::new(Embedded::start(state, store, Arc::new(clock()), host));
        let (answers, mut received) = answers::channel();
        for id in 0..5_000 {
            let reply_to = ReplyTo { id, answers: answers.clone(), returns: false };
            let lifetime = Some(Lifetime::Kept);
            let acquire = Acquire { lifetime, ..acquire(&format!("pool-{life}-{id}"), Wait::Try) };
            engine.submit(Command::Acquire(acquire), reply_to).unwrap();
            if id % 300 == 0 {
                tokio::task::yield_now().await;
            }
        }
        while let Some(Answered { reply: Ok(Reply::Granted(grant)), id }) = received.recv().await {
            expected.push(grant.token);
            if id == 4_000 {
                break;
            }
        }
        engine.kill();
    }
    assert!(expected.len() > 12_000);
}

/// A store with a bug.
struct Broken(MemoryStore);

impl Store for Broken {
    fn commit(&mut self, _: Commit) -> Result<(), StoreError> {
        panic!("a bug, as this test wants it")
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        self.0.reader()
    }
}

/// The test runs itself in another process, which is to abort.
#[test]
fn a_bug_in_it_ends_the_process_instead_of_a_task() {
    const CHILD: &str = "TENURE_TEST_HOSTED_PANICS";
    if std::env::var_os(CHILD).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let options = Options { host: Some(Box::new(spawn)), ..Options::default() };
            let state = State::new(options.limits.pool_idle);
            let engine = Embedded::start(state, Broken(MemoryStore::new()), Arc::new(clock()), options);
            engine.tick().await;
        });
        return;
    }
    let this = std::env::current_exe().unwrap();
    let mut child = std::process::Command::new(this);
    child.args(["--exact", "a_bug_in_it_ends_the_process_instead_of_a_task"]).env(CHILD, "1");
    const SIGABRT: i32 = 6;
    let output = child.output().unwrap();
    assert_eq!(output.status.signal(), Some(SIGABRT), "{output:?}");
}

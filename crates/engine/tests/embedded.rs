//! What the embedded engine does around its store: nothing is said before the sync, the mailbox is bounded, and
//! a failed sync is the end.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use tenure_core::*;
use tenure_engine::{
    Commit, Embedded, Engine, Failure, Hosting, LogReader, ManualClock, MemoryStore, Options, ReplyTo, Store,
    StoreError, answers,
};

/// With threads of its own, and hosted by a thread of the test's runtime.
const FORMS: [bool; 2] = [false, true];

/// A disk that syncs when it is told to, and says when it is asked to.
struct Gate {
    inner: MemoryStore,
    asked: Sender<()>,
    allowed: Receiver<Result<(), StoreError>>,
}

impl Store for Gate {
    fn commit(&mut self, commit: Commit) -> Result<(), StoreError> {
        self.asked.send(()).expect("the test listens");
        self.allowed.recv().expect("the test answers")?;
        self.inner.commit(commit)
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        self.inner.reader()
    }
}

struct Bench {
    engine: Embedded,
    asked: Receiver<()>,
    allow: Sender<Result<(), StoreError>>,
    answers: answers::Sender,
    received: answers::Receiver,
    fatal: Arc<Mutex<Option<String>>>,
}

fn bench(mailbox_max: usize, hosted: bool) -> Bench {
    let (asked_by_store, asked) = channel();
    let (allow, allowed) = channel();
    let store = Gate { inner: MemoryStore::new(), asked: asked_by_store, allowed };
    let fatal = Arc::new(Mutex::new(None));
    let told = fatal.clone();
    let options = Options {
        mailbox_max,
        on_fatal: Box::new(move |error| *told.lock().unwrap() = Some(error.to_string())),
        host: hosted.then(|| Box::new(|hosting: Hosting| drop(tokio::spawn(hosting))) as _),
        ..Options::default()
    };
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1)));
    let state = State::new(options.limits.pool_idle);
    let engine = Embedded::start(state, store, clock, options);
    let (answers, received) = answers::channel();
    let bench = Bench { engine, asked, allow, answers, received, fatal };
    // The event of the start itself.
    bench.sync();
    bench
}

impl Bench {
    fn try_acquire(&self, id: u64) -> Result<(), Failure> {
        let acquire = Acquire {
            pool: PoolPath::new(Namespace::default(), PoolName::parse("db").unwrap()),
            demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
            size: None,
            lifetime: None,
            wait: Wait::Try,
            priority: Priority::default(),
            holder: Arc::new(Holder::parse("tester", []).unwrap()),
            session: None,
            request: None,
            also: Box::default(),
            holds_on: false,
        };
        self.submit(id, Command::Acquire(acquire))
    }

    fn submit(&self, id: u64, command: Command) -> Result<(), Failure> {
        let reply_to = ReplyTo { id, answers: self.answers.clone(), returns: false };
        self.engine.submit(command, reply_to).map(|_| ())
    }

    fn wait_until_asked(&self) {
        self.asked.recv().expect("the engine commits");
    }

    fn sync(&self) {
        self.wait_until_asked();
        self.allow.send(Ok(())).expect("the store listens");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn neither_a_grant_nor_the_refusal_that_rests_on_it_is_told_before_the_sync() {
    for hosted in FORMS {
        let mut bench = bench(100, hosted);
        bench.try_acquire(0).unwrap();
        bench.wait_until_asked();
        bench.try_acquire(1).unwrap();
        assert!(bench.received.try_recv().is_none(), "the first is not durable yet");
        bench.allow.send(Ok(())).unwrap();
        let first = bench.received.recv().await.unwrap();
        assert!(matches!(first.reply, Ok(Reply::Granted(_))), "{first:?}");
        let second = bench.received.recv().await.unwrap();
        assert!(matches!(second.reply, Ok(Reply::Refused(_))), "{second:?}");
    }
}

/// The bug of etcd 15247: who was told so went on to believe in leases that others no longer saw.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn neither_a_keep_alive_nor_a_renewal_is_answered_while_the_disk_is_stuck() {
    for hosted in FORMS {
        let mut bench = bench(100, hosted);
        let open = OpenSession {
            namespace: Namespace::default(),
            holder: Arc::new(Holder::parse("tester", []).unwrap()),
            grace: Ttl::from_millis(10_000),
            attached: false,
            outlasts_holds: false,
        };
        bench.submit(0, Command::OpenSession(open)).unwrap();
        bench.sync();
        let Ok(Reply::Session(session)) = bench.received.recv().await.unwrap().reply else { panic!("it is opened") };
        bench.try_acquire(1).unwrap();
        bench.sync();
        let Ok(Reply::Granted(grant)) = bench.received.recv().await.unwrap().reply else { panic!("it is granted") };

        bench.submit(2, Command::KeepAlive { namespace: Namespace::default(), session: session.key }).unwrap();
        bench.wait_until_asked();
        let renew = Renew { namespace: Namespace::default(), key: grant.key, pool: None, ttl: None };
        bench.submit(3, Command::Renew(renew)).unwrap();
        assert!(bench.received.try_recv().is_none(), "the keep-alive is not durable yet");
        bench.allow.send(Ok(())).unwrap();
        let kept = bench.received.recv().await.unwrap();
        assert_eq!((kept.id, matches!(kept.reply, Ok(Reply::Session(_)))), (2, true), "{kept:?}");
        bench.wait_until_asked();
        assert!(bench.received.try_recv().is_none(), "the renewal is not durable yet");
        bench.allow.send(Ok(())).unwrap();
        let renewed = bench.received.recv().await.unwrap();
        assert_eq!((renewed.id, matches!(renewed.reply, Ok(Reply::Renewed { .. }))), (3, true), "{renewed:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_mailbox_refuses_at_once_and_what_was_taken_is_answered() {
    for hosted in FORMS {
        let mut bench = bench(3, hosted);
        bench.try_acquire(0).unwrap();
        bench.wait_until_asked();
        // While the disk is busy, one batch can be prepared and three commands can wait behind it.
        let mut taken = 1;
        let refused = loop {
            match bench.try_acquire(taken) {
                Ok(()) => taken += 1,
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused, Failure::Overloaded { waiting: 3 });
        assert!(!refused.may_have_happened());
        bench.allow.send(Ok(())).unwrap();
        for id in 0..taken {
            assert_eq!(bench.received.recv().await.unwrap().id, id);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn after_a_failed_sync_nothing_is_answered_any_more() {
    for hosted in FORMS {
        let mut bench = bench(100, hosted);
        bench.try_acquire(0).unwrap();
        bench.wait_until_asked();
        bench.allow.send(Err(StoreError::Io("the disk is full".into()))).unwrap();
        drop(bench.answers);
        assert!(bench.received.recv().await.is_none(), "its caller hears nothing, and must look");
        assert_eq!(bench.fatal.lock().unwrap().as_deref(), Some("the disk is full"));
    }
}

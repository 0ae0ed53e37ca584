//! The engine whose pools live in Temporal: commands go to the keeper of their pool, and those that concern all go to
//! every keeper. The server keeps nothing; any number of them may stand before the same keepers.

mod call;
mod gather;
mod post;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use temporalio_sdk::WorkerOptions;
use tenure_core::{
    Command, Key, Limits, Namespace, PoolName, PoolPath, Query, Refusal, Reply, Seq, SessionId, Timestamp, Token, View,
};
use tenure_engine::{
    Answer, Commit, Engine, Entry, EventPage, EventQuery, EventsGone, Failure, MemoryStore, ReplyTo, Store, Ticket,
};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::keeper::wire::Happened;
use crate::keeper::workflow::KeeperWorkflow;
use crate::keeper::{KEEPERS_MAX, Settings};
use crate::link::Link;
use gather::Gather;
use post::{Letter, Listener, Post};

/// A server that was killed may have had a keeper in its memory: after this time another one is asked.
const STICKY_TIMEOUT: Duration = Duration::from_secs(1);
/// What happens is followed for so long after somebody has asked.
const FOLLOW: Duration = Duration::from_secs(60);

/// How the engine is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of each keeper. One that is there already keeps its own.
    pub limits: Limits,
    /// How many keepers the pools are spread over. Never to be changed while there are holds.
    pub keepers: usize,
    /// How many commands may wait to be sent; beyond it they are refused at once.
    pub mailbox_max: usize,
    /// What the keepers' workflow ids begin with: another one is another set of pools.
    pub prefix: String,
    /// A server that starts again with the same name takes over from its former life.
    pub name: String,
    /// From when on time passes only by [`Keepers::advance`]. For tests.
    pub time_told_from: Option<Timestamp>,
}

impl Options {
    pub const KEEPERS_MAX: usize = 64;
}

pub struct Keepers {
    shared: Arc<Shared>,
    posts: Vec<mpsc::UnboundedSender<Letter>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    depth: Arc<AtomicUsize>,
    tickets: AtomicU64,
    stopping: AtomicBool,
}

/// What all posts share.
pub(crate) struct Shared {
    link: Arc<Link>,
    options: Options,
    name: String,
    clock: KeeperClock,
    log: Mutex<Log>,
    last: watch::Sender<Seq>,
    followed_until: Mutex<Option<Instant>>,
    watched: Notify,
    /// By what number each keeper knows a session that is carried here, by the one of the first.
    carried: Mutex<HashMap<SessionId, Vec<(SessionId, u64)>>>,
}

/// What has happened, as far as it was followed.
struct Log {
    store: MemoryStore,
    last: Seq,
}

impl Keepers {
    /// Begins to serve. Needs to be inside a runtime, and a worker for the keepers somewhere.
    pub fn start(link: Arc<Link>, options: Options) -> Self {
        assert!((1..=Options::KEEPERS_MAX).contains(&options.keepers), "one to 64 keepers");
        let shared = Arc::new(Shared {
            link,
            name: options.name.clone(),
            options,
            clock: KeeperClock::default(),
            log: Mutex::new(Log { store: MemoryStore::new(), last: Seq(0) }),
            last: watch::Sender::new(Seq(0)),
            followed_until: Mutex::new(None),
            watched: Notify::new(),
            carried: Mutex::new(HashMap::new()),
        });
        let depth = Arc::new(AtomicUsize::new(0));
        let mut posts = Vec::new();
        let mut tasks = Vec::new();
        for index in 0..shared.options.keepers {
            let (post, letters) = mpsc::unbounded_channel();
            posts.push(post);
            tasks.push(tokio::spawn(Post::new(shared.clone(), index, letters, depth.clone()).run()));
        }
        let (tickets, stopping) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { shared, posts, tasks: Mutex::new(tasks), depth, tickets, stopping }
    }

    /// The worker that hosts keepers.
    pub fn worker() -> WorkerOptions {
        WorkerOptions::new(call::TASK_QUEUE)
            .sticky_queue_schedule_to_start_timeout(STICKY_TIMEOUT)
            .register_workflow::<KeeperWorkflow>()
            .expect("it is registered once")
            .build()
    }

    /// Ends at once, without a word to anybody: as near to a crash as a process can come that goes on.
    pub fn kill(&self) {
        self.stopping.store(true, Ordering::Release);
        for task in std::mem::take(&mut *lock(&self.tasks)) {
            task.abort();
        }
    }

    /// Lets time pass, for keepers whose time is told, and what is due happen.
    pub async fn advance(&self, millis: u64) {
        for post in 0..self.posts.len() {
            let (done, passed) = oneshot::channel();
            self.send(post, Letter::Advance { millis, done });
            // An engine that has stopped has nothing due.
            let _ = passed.await;
        }
    }

    fn send(&self, post: usize, letter: Letter) -> bool {
        self.posts[post].send(letter).is_ok()
    }

    /// Places in the mailbox.
    fn admit(&self, letters: usize) -> Result<(), Failure> {
        if self.stopping.load(Ordering::Acquire) {
            return Err(Failure::Stopping);
        }
        let waiting = self.depth.fetch_add(letters, Ordering::AcqRel);
        if waiting >= self.shared.options.mailbox_max {
            self.depth.fetch_sub(letters, Ordering::AcqRel);
            return Err(Failure::Overloaded { waiting });
        }
        Ok(())
    }

    /// The keeper of a pool.
    fn of_pool(&self, namespace: &Namespace, name: &PoolName) -> usize {
        if self.posts.len() == 1 {
            return 0;
        }
        let text = [namespace.as_str().as_bytes(), b"\0", name.as_str().as_bytes()].concat();
        let digest = ring::digest::digest(&ring::digest::SHA256, &text);
        let number = u64::from_le_bytes(*digest.as_ref().first_chunk().expect("32 bytes have 8"));
        usize::try_from(number % self.posts.len() as u64).expect("there are few keepers")
    }

    fn of_path(&self, path: &PoolPath) -> usize {
        self.of_pool(path.namespace(), path.name())
    }

    /// The keeper that made a key: which it is, is in the key.
    fn of_key(&self, key: Key) -> usize {
        let mark = usize::try_from(key.as_bits() % u128::from(KEEPERS_MAX)).expect("it is below 64");
        if mark < self.posts.len() { mark } else { 0 }
    }

    /// Where a command goes; none: everywhere.
    fn of_command(&self, command: &Command) -> Option<usize> {
        if self.posts.len() == 1 {
            return Some(0);
        }
        match command {
            Command::Acquire(acquire) => Some(self.of_path(&acquire.pool)),
            Command::Renew(renew) => Some(self.of_key(renew.key)),
            Command::Release(release) => Some(self.of_key(release.key)),
            Command::ForceRelease(force) => Some(self.of_path(&force.pool)),
            Command::SetPool(set) => Some(self.of_path(&set.pool)),
            Command::SetCondition(set) => Some(self.of_path(&set.pool)),
            Command::RemovePool { pool } => Some(self.of_path(pool)),
            Command::Withdraw { .. }
            | Command::OwnerGone { .. }
            | Command::OpenSession(_)
            | Command::KeepAlive { .. }
            | Command::AttachSession { .. }
            | Command::DetachSession { .. }
            | Command::EndSession { .. }
            | Command::Expire
            | Command::Restart
            | Command::Abandon { .. }
            | Command::TakeBack { .. } => None,
        }
    }
}

impl Engine for Keepers {
    fn submit(&self, command: Command, reply_to: ReplyTo) -> Result<Ticket, Failure> {
        let keepers = self.posts.len();
        let number = self.tickets.fetch_add(1, Ordering::Relaxed) * KEEPERS_MAX;
        let carries = match &command {
            Command::OpenSession(open) => open.attached,
            Command::AttachSession { .. } => true,
            _ => false,
        };
        if let Some(post) = self.of_command(&command) {
            self.admit(1)?;
            let ticket = number + post as u64;
            let listener = Listener::One { reply_to, carries };
            let letter = Letter::Command { ticket, command: Box::new(command), nonce: None, listener };
            return if self.send(post, letter) { Ok(Ticket(ticket)) } else { Err(Failure::Stopping) };
        }
        self.admit(keepers)?;
        // A session has the same key everywhere.
        let nonce = matches!(command, Command::OpenSession(_)).then(|| u128::from_le_bytes(random()));
        let gather = Gather::new(reply_to, keepers, carries);
        for post in 0..keepers {
            let listener = Listener::Many(gather.clone());
            let command = Box::new(command.clone());
            self.send(post, Letter::Command { ticket: number, command, nonce, listener });
        }
        Ok(Ticket(number))
    }

    fn hang_up(&self, ticket: Ticket, unreceived: Option<Token>) {
        let post = usize::try_from(ticket.0 % KEEPERS_MAX).expect("it is below 64");
        self.send(post, Letter::HangUp { ticket: ticket.0, unreceived });
    }

    fn detach(&self, session: SessionId, attachment: u64) {
        let known = lock(&self.shared.carried).remove(&session);
        let everywhere = known.unwrap_or_else(|| vec![(session, attachment)]);
        for (post, (session, attachment)) in everywhere.into_iter().enumerate() {
            self.send(post, Letter::Detach { session, attachment });
        }
    }

    fn query(&self, query: Query) -> Answer<Result<View, Refusal>> {
        let limit = match &query {
            Query::Pools { limit, .. } | Query::Holds { limit, .. } | Query::Owners { limit, .. } => *limit,
            Query::Pool { .. } | Query::Queue { .. } | Query::Sessions { .. } | Query::Stats => 0,
        };
        let posts = match &query {
            Query::Pool { pool } | Query::Queue { pool, .. } => vec![self.of_path(pool)],
            Query::Holds { namespace, pool: Some(pool), .. } => vec![self.of_pool(namespace, pool)],
            // Every keeper knows them all, but each only its own holds of theirs.
            Query::Sessions { .. } => vec![0],
            Query::Pools { .. } | Query::Holds { .. } | Query::Owners { .. } | Query::Stats => {
                (0..self.posts.len()).collect()
            }
        };
        let mut answers = Vec::new();
        let mut refused = None;
        for post in posts {
            let (answer, answered) = oneshot::channel();
            match self.admit(1) {
                Ok(()) if self.send(post, Letter::Query { query: query.clone(), answer }) => answers.push(answered),
                Ok(()) => refused = Some(Failure::Stopping),
                Err(failure) => refused = Some(failure),
            }
        }
        Box::pin(async move {
            if let Some(failure) = refused {
                return Err(failure);
            }
            let mut views = Vec::new();
            for answered in answers {
                views.push(answered.await.map_err(|_| Failure::Lost)?);
            }
            Ok(gather::merge(views, limit))
        })
    }

    fn events(&self, query: EventQuery) -> Answer<Result<EventPage, EventsGone>> {
        let shared = self.shared.clone();
        let mut followers = Vec::new();
        // Whoever follows already has all but what happens this moment.
        if !self.shared.follow() || query.after.is_none() {
            for post in 0..self.posts.len() {
                let (follower, known) = oneshot::channel();
                self.send(post, Letter::Follow(follower));
                followers.push(known);
            }
        }
        Box::pin(async move {
            for known in followers {
                known.await.map_err(|_| Failure::Lost)?;
            }
            let reader = lock(&shared.log).store.reader();
            reader.events(&query).map_err(|error| Failure::Unreadable(error.to_string()))
        })
    }

    fn last_event(&self) -> watch::Receiver<Seq> {
        let receiver = self.shared.last.subscribe();
        self.shared.watched.notify_waiters();
        receiver
    }

    fn now(&self) -> Timestamp {
        match self.shared.options.time_told_from {
            Some(from) => self.shared.clock.last().max(from),
            None => self.shared.clock.now(),
        }
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            if !self.stopping.swap(true, Ordering::AcqRel) {
                for post in 0..self.posts.len() {
                    self.send(post, Letter::Stop);
                }
            }
            let tasks = std::mem::take(&mut *lock(&self.tasks));
            for task in tasks {
                // A panic there has been reported; here it only means that it has ended.
                let _ = task.await;
            }
        })
    }
}

impl Drop for Keepers {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Shared {
    fn keeper_id(&self, index: usize) -> String {
        format!("{}-{}-of-{}", self.options.prefix, index + 1, self.options.keepers)
    }

    fn settings(&self, index: usize) -> Settings {
        Settings {
            limits: self.options.limits,
            index: index as u64,
            of: self.options.keepers as u64,
            face: None,
            time_told_from: self.options.time_told_from,
        }
    }

    /// Whether somebody wants to know what happens.
    fn is_watched(&self) -> bool {
        self.last.receiver_count() > 0 || lock(&self.followed_until).is_some_and(|until| until > Instant::now())
    }

    /// Resolves when somebody may.
    async fn watched(&self) {
        self.watched.notified().await;
    }

    /// Follows what happens for a while. Gives whether that was done before.
    fn follow(&self) -> bool {
        let before = self.is_watched();
        *lock(&self.followed_until) = Some(Instant::now() + FOLLOW);
        self.watched.notify_waiters();
        before
    }

    /// Keeps what happened at one keeper since `after`. With several, all get numbers in the order in which they are
    /// heard of here.
    fn record(&self, _keeper: usize, after: Seq, happened: Vec<Happened>) {
        let mut log = lock(&self.log);
        for Happened { first, at, mut events } in happened {
            let last = Seq(first.0 + events.len() as u64 - 1);
            if last <= after {
                continue;
            }
            let mut first = first;
            if first <= after {
                let known = usize::try_from(after.0 + 1 - first.0).expect("a batch fits in memory");
                events.drain(..known);
                first = Seq(after.0 + 1);
            }
            if self.options.keepers > 1 {
                first = Seq(log.last.0 + 1);
            }
            log.last = Seq(first.0 + events.len() as u64 - 1);
            let entry = Some(Arc::new(Entry { first, at, events }));
            log.store.commit(&Commit { entry, rows: None }).expect("memory does not fail");
        }
        self.last.send_replace(log.last);
    }

    /// Notes by what numbers a session is known, if it is one that has just come to be carried.
    fn carried(&self, reply: &Reply, sessions: Vec<(SessionId, u64)>) {
        if let Reply::Session(open) = reply {
            lock(&self.carried).insert(open.id, sessions);
        }
    }
}

/// The keepers' time, as far as it can be known from here: never ahead of theirs, and never running back.
#[derive(Debug)]
struct KeeperClock {
    here: Instant,
    /// Their time when ours began, as late as it may have been.
    base: AtomicU64,
    last: AtomicU64,
}

impl Default for KeeperClock {
    fn default() -> Self {
        Self { here: Instant::now(), base: AtomicU64::new(0), last: AtomicU64::new(0) }
    }
}

impl KeeperClock {
    fn hear(&self, at: Timestamp) {
        let passed = u64::try_from(self.here.elapsed().as_millis()).expect("an uptime fits in 64 bits");
        self.base.fetch_max(at.as_millis().saturating_sub(passed), Ordering::AcqRel);
        self.last.fetch_max(at.as_millis(), Ordering::AcqRel);
    }

    fn now(&self) -> Timestamp {
        let passed = u64::try_from(self.here.elapsed().as_millis()).expect("an uptime fits in 64 bits");
        Timestamp::from_millis(self.base.load(Ordering::Acquire) + passed)
    }

    fn last(&self) -> Timestamp {
        Timestamp::from_millis(self.last.load(Ordering::Acquire))
    }
}

impl std::fmt::Debug for Keepers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keepers").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system has randomness");
    bytes
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

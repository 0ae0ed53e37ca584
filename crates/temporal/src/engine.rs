//! The engine whose pools live in Temporal: commands go to the keeper of their pool, and those that concern all go to
//! every keeper. A face's pool is kept by the face. The server keeps nothing; any number of them may stand before the same
//! keepers.

mod begin;
mod call;
mod faces;
mod gather;
mod line;
mod post;

pub use begin::BeginError;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use temporalio_sdk::WorkerOptions;
use tenure_core::{
    Acquire, Command, Key, Limits, Namespace, PoolName, PoolPath, Query, Refusal, Reply, Seq, SessionId, SessionOpen,
    Timestamp, Token, View,
};
use tenure_engine::{
    Answer, Commit, Engine, Entry, EventPage, EventQuery, EventsGone, Failure, MemoryStore, ReplyTo, Room, Store,
    Ticket,
};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::keeper::wire::Happened;
use crate::keeper::workflow::KeeperWorkflow;
use crate::keeper::{KEEPERS_MAX, Settings};
use crate::link::Link;
use gather::{Gather, Gathered, Known};
use line::{LINES_MAX, Line};
use post::{Letter, Listener, Post};

/// A server that was killed may have had a keeper in its memory: after this time another one is asked.
const STICKY_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a server that stops tries to tell its keepers. Without Temporal it would try for ever.
const FAREWELL_MAX: Duration = Duration::from_secs(10);
/// What happens is followed for so long after somebody has asked.
const FOLLOW: Duration = Duration::from_secs(60);
/// How long is waited for what faces have to add to the answer of all: one that is stuck must not hold up the rest.
const FACE_PATIENCE: Duration = Duration::from_secs(3);

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
    fn keeper_id(&self, index: usize) -> String {
        self.keeper_id_of(index, self.keepers)
    }

    fn keeper_id_of(&self, index: usize, keepers: usize) -> String {
        format!("{}-{}-of-{keepers}", self.prefix, index + 1)
    }
}

pub struct Keepers {
    shared: Arc<Shared>,
    stopping: AtomicBool,
}

/// What all posts share.
pub(crate) struct Shared {
    link: Arc<Link>,
    options: Options,
    clock: KeeperClock,
    log: Mutex<Log>,
    last: watch::Sender<Seq>,
    /// Counts the answers after which something had happened.
    changes: watch::Sender<Seq>,
    followed_until: Mutex<Option<Instant>>,
    /// The sessions that connections carry here, by the numbers that the first keeper has for both.
    carried: Mutex<HashMap<(SessionId, u64), Carried>>,
    /// Sessions that were opened here: to which faces they are known is known here too.
    opened: Mutex<HashSet<Key>>,
    keepers: Vec<Arc<Line>>,
    /// By the names of their pools, which are all in the default namespace.
    faces: RwLock<BTreeMap<PoolName, Arc<Line>>>,
    /// Lines that there have been.
    lines: AtomicUsize,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Looks for faces.
    finding: Mutex<Option<JoinHandle<()>>>,
    /// For commands that have not been sent yet.
    room: Arc<Room>,
    tickets: AtomicU64,
}

struct Carried {
    connection: ReplyTo,
    /// As all others know it.
    elsewhere: Vec<Known>,
}

/// What has happened, as far as it was followed.
struct Log {
    store: MemoryStore,
    last: Seq,
    /// Whether it has what happened at several places.
    is_mixed: bool,
}

impl Keepers {
    /// Begins to serve. Needs to be inside a runtime, and a worker for the keepers somewhere.
    pub fn start(link: Arc<Link>, options: Options) -> Self {
        assert!((1..=KEEPERS_MAX).contains(&(options.keepers as u64)), "one to 64 keepers");
        let ids = (0..options.keepers).map(|index| (index, options.keeper_id(index)));
        let (keepers, letters): (Vec<_>, Vec<_>) = ids.map(|(index, id)| Line::new(index, id)).unzip();
        let keepers: Vec<_> = keepers.into_iter().map(Arc::new).collect();
        let shared = Arc::new(Shared::new(link, options, keepers));
        for (line, letters) in shared.keepers.iter().zip(letters) {
            shared.spawn(Post::new(shared.clone(), line.clone(), letters, shared.room.clone()).run());
        }
        Self { shared, stopping: AtomicBool::new(false) }
    }

    /// From now on the pools of the faces on these task queues are theirs. Resolves when it is known which there are.
    pub async fn serve_faces(&self, task_queues: Vec<String>) {
        self.shared.clone().find_faces(&task_queues).await;
        let finding = tokio::spawn(self.shared.clone().keep_finding_faces(task_queues));
        *lock(&self.shared.finding) = Some(finding);
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
        lock(&self.shared.finding).take().inspect(JoinHandle::abort);
        for task in std::mem::take(&mut *lock(&self.shared.tasks)) {
            task.abort();
        }
    }

    /// Lets time pass, for keepers whose time is told, and what is due happen.
    pub async fn advance(&self, millis: u64) {
        for keeper in &self.shared.keepers {
            let (done, passed) = oneshot::channel();
            keeper.send(Letter::Advance { millis, done });
            // An engine that has stopped has nothing due.
            let _ = passed.await;
        }
    }

    /// Places in the mailbox.
    fn admit(&self, letters: usize) -> Result<(), Failure> {
        if self.stopping.load(Ordering::Acquire) {
            return Err(Failure::Stopping);
        }
        self.shared.room.enter_together(letters)
    }

    /// The line to the keeper of a pool, or to its face.
    fn of_pool(&self, namespace: &Namespace, name: &PoolName) -> Arc<Line> {
        let shared = &self.shared;
        if let Some(face) = shared.face(namespace, name) {
            return face;
        }
        if shared.keepers.len() == 1 {
            return shared.keepers[0].clone();
        }
        let text = [namespace.as_str().as_bytes(), b"\0", name.as_str().as_bytes()].concat();
        let digest = ring::digest::digest(&ring::digest::SHA256, &text);
        let number = u64::from_le_bytes(*digest.as_ref().first_chunk().expect("32 bytes have 8"));
        let index = usize::try_from(number % shared.keepers.len() as u64).expect("there are few keepers");
        shared.keepers[index].clone()
    }

    fn of_path(&self, path: &PoolPath) -> Arc<Line> {
        self.of_pool(path.namespace(), path.name())
    }

    /// Those who may have made a key: which keeper it is, is in the key, and which face, if it is one.
    fn of_key(&self, namespace: &Namespace, key: Key, pool: Option<&PoolName>) -> Vec<Arc<Line>> {
        let face = pool.and_then(|pool| self.shared.face(namespace, pool));
        let is_face_of = |line: &Arc<Line>| line.face.as_ref().is_some_and(|face| face.may_have_made(key));
        if let Some(face) = face.clone().filter(is_face_of) {
            return vec![face];
        }
        let mark = usize::try_from(key.as_bits() % u128::from(KEEPERS_MAX)).expect("it is below 64");
        let keepers = &self.shared.keepers;
        let keeper = keepers.get(mark).unwrap_or(&keepers[0]).clone();
        // A face may have taken over a key that others made; a keeper, one of a pool that had the name before the face.
        let faces: Vec<_> = face.map_or_else(|| self.shared.faces().filter(is_face_of).collect(), |face| vec![face]);
        [keeper].into_iter().chain(faces).collect()
    }

    /// A set is granted by one keeper: two could not grant as a whole what each has a part of.
    fn pools_apart(&self, acquire: &Acquire, line: &Line) -> Option<Refusal> {
        let apart = acquire.also.iter().find(|part| self.of_path(&part.pool).index != line.index)?;
        Some(Refusal::PoolsApart { pool: acquire.pool.clone(), other: apart.pool.clone() })
    }

    /// Where a command goes.
    fn of_command(&self, command: &Command) -> Vec<Arc<Line>> {
        match command {
            Command::Acquire(acquire) => vec![self.of_path(&acquire.pool)],
            Command::Renew(renew) => self.of_key(&renew.namespace, renew.key, renew.pool.as_ref()),
            Command::Release(release) => self.of_key(&release.namespace, release.key, release.pool.as_ref()),
            Command::ForceRelease(force) => vec![self.of_path(&force.pool)],
            Command::SetPool(set) => vec![self.of_path(&set.pool)],
            Command::SetCondition(set) => vec![self.of_path(&set.pool)],
            Command::RemovePool { pool } => vec![self.of_path(pool)],
            Command::Steal(steal) => vec![self.of_path(&steal.pool)],
            Command::MoveWaiter(to) => vec![self.of_path(&to.pool)],
            Command::Reserve(reserve) => vec![self.of_path(&reserve.pool)],
            Command::Unreserve(unreserve) => vec![self.of_path(&unreserve.pool)],
            Command::ChangeSeen { seen, .. } => vec![self.of_path(&seen.pool)],
            // A face hears of a session when that asks for something there.
            Command::OpenSession(_) => self.shared.keepers.clone(),
            Command::KeepAlive { session, .. }
            | Command::AttachSession { session, .. }
            | Command::EndSession { session, .. } => self.shared.of_session(*session),
            Command::Withdraw { .. }
            | Command::OwnerGone { .. }
            | Command::DetachSession { .. }
            | Command::Expire
            | Command::Restart
            | Command::Abandon { .. }
            | Command::TakeBack { .. } => self.shared.all(),
        }
    }
}

impl Engine for Keepers {
    fn submit(&self, command: Command, reply_to: ReplyTo) -> Result<Ticket, Failure> {
        let lines = self.of_command(&command);
        if let Command::Acquire(acquire) = &command
            && let Some(refusal) = self.pools_apart(acquire, &lines[0])
        {
            // A caller that is gone needs no answer.
            let _ = reply_to.send(Ok(Reply::Refused(Box::new(refusal))));
            return Ok(Ticket(self.shared.ticket(&lines[0])));
        }
        self.admit(lines.len())?;
        let ticket = self.shared.ticket(&lines[0]);
        let carries = match &command {
            Command::OpenSession(open) => open.attached,
            Command::AttachSession { .. } => true,
            _ => false,
        };
        // A session has the same key everywhere.
        let nonce = matches!(command, Command::OpenSession(_)).then(|| u128::from_le_bytes(random()));
        match (&command, nonce) {
            (_, Some(nonce)) => self.shared.note_opened(Key::from_nonce(nonce)),
            (Command::EndSession { session, .. }, _) => self.shared.note_ended(*session),
            _ => {}
        }
        if let [line] = &*lines {
            let introduces = self.shared.stranger(line, &command);
            let listener = Listener::One { reply_to, carries };
            let letter = Letter::Command { ticket, command: Box::new(command), nonce, listener };
            match introduces {
                Some(stranger) => {
                    tokio::spawn(self.shared.clone().introduce(line.clone(), stranger, letter));
                }
                None if line.send(letter) => {}
                None => {
                    self.shared.room.leave(1);
                    return Err(if line.face.is_some() { Failure::Lost } else { Failure::Stopping });
                }
            }
            return Ok(Ticket(ticket));
        }
        let gather = Gather::new(reply_to, lines.iter().map(|line| line.index), carries);
        if let Command::OwnerGone { .. } | Command::Withdraw { .. } = command {
            self.shared.clone().answer_without_silent_faces(&lines, &gather);
        }
        for line in &lines {
            let listener = Listener::Many(gather.clone());
            let command = Box::new(command.clone());
            if !line.send(Letter::Command { ticket, command, nonce, listener }) {
                self.shared.room.leave(1);
                self.shared.without(&gather, line);
            }
        }
        Ok(Ticket(ticket))
    }

    fn hang_up(&self, ticket: Ticket, unreceived: Option<Token>) {
        let index = usize::try_from(ticket.0 % LINES_MAX).expect("it is below that");
        if let Some(line) = self.shared.line(index) {
            line.send(Letter::HangUp { ticket: ticket.0, unreceived });
        }
    }

    fn detach(&self, session: SessionId, attachment: u64) {
        let known = lock(&self.shared.carried).remove(&(session, attachment));
        let elsewhere = known.map(|carried| carried.elsewhere).unwrap_or_default();
        self.shared.detach_all([(0, session, attachment)].into_iter().chain(elsewhere));
    }

    fn query(&self, query: Query) -> Answer<Result<View, Refusal>> {
        let limit = match &query {
            Query::Pools { limit, .. }
            | Query::Holds { limit, .. }
            | Query::Owners { limit, .. }
            | Query::Waits { limit, .. }
            | Query::Search { limit, .. } => *limit,
            Query::Pool { .. }
            | Query::Queue { .. }
            | Query::Sessions { .. }
            | Query::Stats
            | Query::Explain { .. } => 0,
        };
        let lines = match &query {
            Query::Pool { pool } | Query::Queue { pool, .. } | Query::Explain { pool, .. } => vec![self.of_path(pool)],
            Query::Holds { namespace, pool: Some(pool), .. } => vec![self.of_pool(namespace, pool)],
            // Every keeper knows them all, but each only its own holds of theirs.
            Query::Sessions { .. } => vec![self.shared.keepers[0].clone()],
            Query::Pools { .. }
            | Query::Holds { .. }
            | Query::Owners { .. }
            | Query::Stats
            | Query::Waits { .. }
            | Query::Search { .. } => self.shared.all(),
        };
        let mut answers = Vec::new();
        let mut refused = None;
        let of_one = lines.len() == 1;
        for line in lines {
            let (answer, answered) = oneshot::channel();
            if let Err(failure) = self.admit(1) {
                refused = Some(failure);
            } else if !line.send(Letter::Query { query: query.clone(), answer }) {
                self.shared.room.leave(1);
            }
            // One that has ended has nothing to show, and drops the question.
            answers.push((answered, (line.face.is_some() && !of_one).then_some(line)));
        }
        Box::pin(async move {
            if let Some(failure) = refused {
                return Err(failure);
            }
            let mut views = Vec::new();
            let patience = tokio::time::Instant::now() + FACE_PATIENCE;
            for (answered, face) in answers {
                let Some(face) = face else {
                    views.push(answered.await.map_err(|_| Failure::Lost)?);
                    continue;
                };
                let answered = tokio::time::timeout_at(patience, answered).await;
                face.note_silence(answered.is_err());
                views.extend(answered.ok().and_then(Result::ok));
            }
            Ok(gather::merge(views, limit))
        })
    }

    fn events(&self, query: EventQuery) -> Answer<Result<EventPage, EventsGone>> {
        let shared = self.shared.clone();
        let mut followers = Vec::new();
        // Whoever follows already has all but what happens this moment.
        let followed = self.shared.follow() && self.shared.is_up_to_date();
        if !followed || query.after.is_none() {
            for line in self.shared.all() {
                let (follower, known) = oneshot::channel();
                line.send(Letter::Follow(follower));
                followers.push((known, line.face.is_some()));
            }
        }
        Box::pin(async move {
            let patience = tokio::time::Instant::now() + FACE_PATIENCE;
            for (known, is_face) in followers {
                if is_face {
                    // What happened at one that is stuck, or has ended, is heard of later or never.
                    let _ = tokio::time::timeout_at(patience, known).await;
                } else if known.await.is_err() {
                    return Err(Failure::Lost);
                }
            }
            let reader = lock(&shared.log).store.reader();
            reader.events(&query).map_err(|error| Failure::Unreadable(error.to_string()))
        })
    }

    fn last_event(&self) -> watch::Receiver<Seq> {
        self.shared.last.subscribe()
    }

    fn last_change(&self) -> watch::Receiver<Seq> {
        self.shared.changes.subscribe()
    }

    fn crowd(&self) -> watch::Receiver<bool> {
        self.shared.room.crowd()
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
                lock(&self.shared.finding).take().inspect(JoinHandle::abort);
                for line in self.shared.all() {
                    line.send(Letter::Stop);
                }
            }
            let mut tasks = std::mem::take(&mut *lock(&self.shared.tasks));
            let farewell = async {
                for task in &mut tasks {
                    // A panic there has been reported; here it only means that it has ended.
                    let _ = task.await;
                }
            };
            if tokio::time::timeout(FAREWELL_MAX, farewell).await.is_err() {
                tracing::warn!("not every keeper could be told that the server stops; they notice it by its silence");
                tasks.iter().for_each(JoinHandle::abort);
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
    fn new(link: Arc<Link>, options: Options, keepers: Vec<Arc<Line>>) -> Self {
        let room = Room::new(options.mailbox_max, options.mailbox_max);
        Self {
            link,
            options,
            clock: KeeperClock::default(),
            log: Mutex::new(Log { store: MemoryStore::new(), last: Seq(0), is_mixed: false }),
            last: watch::Sender::new(Seq(0)),
            changes: watch::Sender::new(Seq(0)),
            followed_until: Mutex::new(None),
            carried: Mutex::default(),
            opened: Mutex::default(),
            keepers,
            faces: RwLock::default(),
            lines: AtomicUsize::new(usize::try_from(KEEPERS_MAX).expect("it is 64")),
            tasks: Mutex::default(),
            finding: Mutex::default(),
            room: Arc::new(room),
            tickets: AtomicU64::new(0),
        }
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

    /// Follows what happens for a while. Gives whether that was done before.
    fn follow(&self) -> bool {
        let before = self.is_watched();
        *lock(&self.followed_until) = Some(Instant::now() + FOLLOW);
        before
    }

    /// Keeps what happened at one keeper or face since `after`. With several, all get numbers in the order in which they
    /// are heard of here.
    fn record(&self, line: &Line, after: Seq, happened: Vec<Happened>) {
        let mut log = lock(&self.log);
        log.is_mixed |= self.options.keepers > 1 || line.face.is_some();
        let mut known = after;
        for happened in happened.into_iter().filter(|it| it.last() > after) {
            let missed = known > Seq(0) && happened.first.0 > known.0 + 1;
            known = happened.last();
            let Happened { mut first, at, mut events } = happened;
            if missed {
                // It was not followed for so long that the keeper has let go of some. Whoever asks for these is told so.
                log.store = MemoryStore::new();
            }
            if first <= after {
                let known = usize::try_from(after.0 + 1 - first.0).expect("a batch fits in memory");
                events.drain(..known);
                first = Seq(after.0 + 1);
            }
            if log.is_mixed {
                first = Seq(log.last.max(*self.last.borrow()).0 + 1 + u64::from(missed));
            }
            log.last = Seq(first.0 + events.len() as u64 - 1);
            let entry = Some(Arc::new(Entry { first, at, events }));
            log.store.commit(Commit { entry, rows: None }).expect("memory does not fail");
        }
        let last = log.last;
        self.last.send_if_modified(|told| std::mem::replace(told, last.max(*told)) < last);
    }

    /// A single keeper's numbers are everybody's, also of what was not followed.
    fn announce(&self, line: &Line, last: Seq) {
        if self.options.keepers == 1 && line.face.is_none() && !lock(&self.log).is_mixed {
            self.last.send_if_modified(|told| std::mem::replace(told, last.max(*told)) < last);
        }
    }

    fn is_up_to_date(&self) -> bool {
        lock(&self.log).last >= *self.last.borrow()
    }

    /// Notes that a connection carries a session from now on, and how all but the first keeper know it.
    fn carry(&self, open: &SessionOpen, connection: ReplyTo, known: Vec<Known>) {
        let elsewhere = known.into_iter().filter(|(line, ..)| *line > 0).collect();
        lock(&self.carried).insert((open.id, open.attachment), Carried { connection, elsewhere });
    }

    /// Notes that a connection has lost its session, if the first keeper says so: sessions are known by its numbers. The
    /// others are told, because whoever hangs up later knows nothing but those.
    fn carry_no_more(&self, line: &Line, session: (SessionId, u64)) {
        if line.index > 0 {
            return;
        }
        let carried = lock(&self.carried).remove(&session);
        self.detach_all(carried.map(|carried| carried.elsewhere).unwrap_or_default());
    }

    fn detach_all(&self, known: impl IntoIterator<Item = Known>) {
        for (index, session, attachment) in known {
            if let Some(line) = self.line(index) {
                line.send(Letter::Detach { session, attachment });
            }
        }
    }

    fn tell_carrier(&self, session: (SessionId, u64), reply: Reply) {
        if let Some(carried) = lock(&self.carried).get(&session) {
            // Whoever does not listen need not know.
            let _ = carried.connection.send(Ok(reply));
        }
    }

    /// Notes how one more knows it.
    fn carry_too(&self, session: (SessionId, u64), known: Known) {
        match lock(&self.carried).get_mut(&session) {
            Some(carried) => carried.elsewhere.push(known),
            // Its connection is gone already.
            None => self.detach_all([known]),
        }
    }

    /// Does without the answer of a face, if it has not given one.
    fn without(&self, gather: &Gather, line: &Line) {
        let nothing = Reply::Refused(Box::new(Refusal::NotHeld));
        if let Gathered::All(reply, sessions) = gather.take(line.index, nothing) {
            // Nothing that is granted is asked of several.
            let _ = self.conclude(gather, reply, sessions);
        }
    }

    /// Faces that are stuck hear of it some day; whoever says it does not wait for that.
    fn answer_without_silent_faces(self: Arc<Self>, lines: &[Arc<Line>], gather: &Arc<Gather>) {
        let faces: Vec<_> = lines.iter().filter(|line| line.face.is_some()).cloned().collect();
        if faces.is_empty() {
            return;
        }
        let gather = gather.clone();
        tokio::spawn(async move {
            tokio::time::sleep(FACE_PATIENCE).await;
            faces.iter().for_each(|face| self.without(&gather, face));
        });
    }

    /// Says what has come of a command that all have answered. A session that some have refused is attached nowhere, else
    /// it would be carried by nobody and never end.
    fn conclude(&self, gather: &Gather, reply: Reply, sessions: Vec<Known>) -> Option<Token> {
        match &reply {
            Reply::Session(open) if gather.carries => self.carry(open, gather.reply_to.clone(), sessions),
            _ if gather.carries => self.detach_all(sessions),
            _ => {}
        }
        gather.reply_to.send(Ok(reply))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(task));
    }

    fn ticket(&self, line: &Line) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed) * LINES_MAX + line.index as u64
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

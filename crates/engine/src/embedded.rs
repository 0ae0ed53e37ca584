//! The embedded engine: the [`Driver`] and a store, and who runs them.
//!
//! The writer takes mail, applies it in memory and closes a batch; the committer makes the batch durable with
//! one sync, then sends its answers. They have a thread each (`threads`), or both are run by the front end's (`hosted`).

mod committer;
mod hosted;
mod threads;
pub(crate) mod turns;
mod writer;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tenure_core::{Command, Limits, Machine, Policies, Query, Refusal, Seq, SessionId, State, Timestamp, Token, View};
use tokio::sync::{oneshot, watch};

pub use self::committer::Committer;
pub use self::hosted::Hosting;
use self::hosted::{Bell, Place};
use self::turns::Turns;
use self::writer::Writer;
use crate::driver::{Driver, MAILS_PER_BATCH_MAX, Mail};
use crate::store::{LogReader, Store, StoreError};
use crate::{Answer, Clock, Engine, EventPage, EventQuery, EventsGone, Failure, ReplyTo, Room, Ticket};

/// How much later than its time a batch may still take mail, and so how much shorter a lease may be.
pub const BATCH_MILLIS_MAX: u64 = 1;

/// More commands than this make no batch larger, and only keep those waiting who come after them.
const CROWD: usize = 2 * MAILS_PER_BATCH_MAX;

/// How the engine is run.
pub struct Options {
    pub limits: Limits,
    /// How many commands may wait to be applied; beyond it they are refused at once.
    pub mailbox_max: usize,
    /// Called when a batch could not be made durable. Nothing is answered after it.
    pub on_fatal: Box<dyn FnOnce(StoreError) + Send>,
    /// What makes policies out of the scripts that pools carry. Without, pools that have any are refused.
    pub policies: Option<Arc<dyn Policies>>,
    /// Who runs the engine: it is given a future to run until that ends, such as by `tokio::spawn`. Without, the engine has threads of
    /// its own, which is better where there are processors for them.
    pub host: Option<Box<dyn FnOnce(Hosting) + Send>>,
    /// Gives the processor to other threads, and tells how long it was before it came back. Tests know without trying.
    #[doc(hidden)]
    pub give_way: fn() -> Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            mailbox_max: 65_536,
            on_fatal: Box::new(stop_the_process),
            policies: None,
            host: None,
            give_way: crate::courtesy::give_way,
        }
    }
}

/// After a failed write nobody knows what is on the disk; only a restart, which reads it, can tell.
fn stop_the_process(error: StoreError) {
    eprintln!(
        "error: {error}\nhint: the server stops; make room or mend the disk, and start it again to see what is there"
    );
    std::process::exit(74);
}

pub struct Embedded {
    post: Post,
    /// Of the mailbox.
    room: Arc<Room>,
    tickets: AtomicU64,
    stopping: AtomicBool,
    clock: Arc<dyn Clock>,
    /// None once it has ended: a reader would keep the data directory in use.
    reader: Mutex<Option<Arc<dyn LogReader>>>,
    last: watch::Receiver<Seq>,
    runs: Runs,
}

/// What has to be ended with the engine.
enum Runs {
    Threads(Mutex<Vec<JoinHandle<()>>>),
    Hosted(Place),
}

impl Embedded {
    /// Goes on from `state`, which the store gave when it was opened.
    pub fn start(state: State, store: impl Store, clock: Arc<dyn Clock>, options: Options) -> Self {
        let (letters, mailbox) = mpsc::channel();
        let bell = options.host.is_some().then(Arc::<Bell>::default);
        let post = Post { letters, bell: bell.clone() };
        let (announce, last) = watch::channel(state.counters().seq);
        let room = Arc::new(Room::new(options.mailbox_max, CROWD));
        let reader = store.reader();
        let machine = Machine::restored(state, options.limits);
        let machine = match options.policies {
            Some(policies) => machine.with_policies(policies),
            None => machine,
        };
        let driver = Driver::new(machine, Box::new(nonces()));
        let to_writer = post.clone();
        // If the writer is gone there is nobody to take it back; a restart finds the lease.
        let returns = move |mail| {
            to_writer.send(Letter::Mail(mail));
        };
        let committer = Committer::new(Box::new(store), announce, Box::new(returns), options.on_fatal);
        let writer = Writer { driver, mailbox, inbox: VecDeque::new(), room: room.clone(), clock: clock.clone() };
        let runs = match (options.host, bell) {
            (Some(host), Some(bell)) => {
                let (hosting, place) = hosted::start(writer, committer, Turns::new(options.give_way), bell);
                host(hosting);
                Runs::Hosted(place)
            }
            _ => {
                let turns = Turns::new(options.give_way);
                Runs::Threads(Mutex::new(threads::start(writer, committer, turns, post.clone())))
            }
        };
        Self {
            post,
            room,
            tickets: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            clock,
            reader: Mutex::new(Some(reader)),
            last,
            runs,
        }
    }

    /// Ends what is due by the clock's time. For clocks that are told the time.
    pub async fn tick(&self) {
        let (done, ticked) = oneshot::channel();
        self.post(Mail::Tick { done });
        // An engine that has stopped has nothing due.
        let _ = ticked.await;
    }

    fn post(&self, mail: Mail) -> bool {
        self.post.send(Letter::Mail(mail))
    }

    /// Places in the mailbox for so many commands or queries. Gives for how many there are, and why not for the rest.
    fn admit(&self, count: usize) -> (usize, Failure) {
        if self.stopping.load(Ordering::Acquire) {
            return (0, Failure::Stopping);
        }
        self.room.enter(count)
    }

    /// Ends at once: what was not answered may be lost. As near to a crash as a process can come that goes on.
    pub fn kill(&self) {
        self.stopping.store(true, Ordering::Release);
        match &self.runs {
            Runs::Hosted(place) => place.clear(),
            Runs::Threads(threads) => {
                self.post(Mail::Abort);
                for thread in std::mem::take(&mut *lock(threads)) {
                    // A panic there has been reported; here it only means that it has ended.
                    let _ = thread.join();
                }
            }
        }
        lock(&self.reader).take();
    }
}

impl Engine for Embedded {
    fn submit(&self, command: Command, reply_to: ReplyTo) -> Result<Ticket, Failure> {
        if let (0, refused) = self.admit(1) {
            return Err(refused);
        }
        let ticket = Ticket(self.tickets.fetch_add(1, Ordering::Relaxed));
        if self.post(Mail::Command { ticket, command, reply_to }) { Ok(ticket) } else { Err(Failure::Stopping) }
    }

    /// They come in one letter, so that the writer is woken once and has them in one batch.
    fn submit_all(&self, mut commands: Vec<(Command, ReplyTo)>) -> Vec<Result<Ticket, Failure>> {
        let (admitted, refused) = self.admit(commands.len());
        let refusals = vec![Err(refused); commands.len() - admitted];
        commands.truncate(admitted);
        let first = self.tickets.fetch_add(admitted as u64, Ordering::Relaxed);
        let mails = (first..).zip(commands).map(|(ticket, (command, reply_to))| {
            let ticket = Ticket(ticket);
            Mail::Command { ticket, command, reply_to }
        });
        let posted = admitted == 0 || self.post.send(Letter::Commands(mails.collect()));
        let ticket = |number| if posted { Ok(Ticket(number)) } else { Err(Failure::Stopping) };
        (first..first + admitted as u64).map(ticket).chain(refusals).collect()
    }

    fn hang_up(&self, ticket: Ticket, unreceived: Option<Token>) {
        self.post(Mail::HangUp { ticket, unreceived });
    }

    fn detach(&self, session: SessionId, attachment: u64) {
        self.post(Mail::Detach { session, attachment });
    }

    fn query(&self, query: Query) -> Answer<Result<View, Refusal>> {
        let (answer, answered) = oneshot::channel();
        let posted = match self.admit(1) {
            (0, refused) => Err(refused),
            _ if self.post(Mail::Query { query, answer }) => Ok(()),
            _ => Err(Failure::Stopping),
        };
        Box::pin(async move {
            posted?;
            answered.await.map_err(|_| Failure::Lost)
        })
    }

    fn events(&self, query: EventQuery) -> Answer<Result<EventPage, EventsGone>> {
        let reader = lock(&self.reader).clone();
        Box::pin(async move {
            let reader = reader.ok_or(Failure::Stopping)?;
            let looked = tokio::task::spawn_blocking(move || reader.events(&query)).await;
            looked.map_err(|_| Failure::Lost)?.map_err(|error| Failure::Unreadable(error.to_string()))
        })
    }

    fn last_event(&self) -> watch::Receiver<Seq> {
        self.last.clone()
    }

    fn crowd(&self) -> watch::Receiver<bool> {
        self.room.crowd()
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn stop(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            if !self.stopping.swap(true, Ordering::AcqRel) {
                self.post(Mail::Stop);
            }
            // The committer lets go of this when it has sent its last answer.
            let mut last = self.last.clone();
            while last.changed().await.is_ok() {}
        })
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.kill();
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("limits", &self.limits)
            .field("mailbox_max", &self.mailbox_max)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("room", &self.room).finish_non_exhaustive()
    }
}

/// What the writer finds in its mailbox.
enum Letter {
    Mail(Mail),
    /// Handed over together.
    Commands(Vec<Mail>),
    /// The committer has nothing to do.
    Committed,
}

/// The way to the writer's mailbox.
#[derive(Clone)]
struct Post {
    letters: Sender<Letter>,
    /// None if the writer waits in a thread of its own: then the letter wakes it.
    bell: Option<Arc<Bell>>,
}

impl Post {
    /// False if there is no writer any more.
    fn send(&self, letter: Letter) -> bool {
        let sent = self.letters.send(letter).is_ok();
        if let Some(bell) = &self.bell {
            bell.ring();
        }
        sent
    }
}

/// A bug in the engine must not leave a server that looks alive and grants nothing.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// What is locked here is whole at any time, so a panic of another thread is no reason to stop.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers that nobody can guess, fetched from the system some at a time.
fn nonces() -> impl FnMut() -> u128 + Send {
    let mut buffer = [0; 4_096];
    let mut used = buffer.len();
    move || {
        if used == buffer.len() {
            getrandom::fill(&mut buffer).expect("the system has randomness");
            used = 0;
        }
        let bytes = buffer[used..used + 16].try_into().expect("sixteen bytes");
        used += 16;
        u128::from_le_bytes(bytes)
    }
}

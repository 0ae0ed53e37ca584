//! The embedded engine: two threads around the [`Driver`] and a store.
//!
//! The writer takes mail, applies it in memory and closes a batch; the committer makes the batch durable with
//! one sync, then sends its answers. While the committer syncs one batch the writer applies the next, so a
//! batch is as large as what came in during the last sync. A batch of a few commands that finds nothing before
//! it is committed by the writer itself: there is nothing to overlap, and waking another thread takes time.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tenure_core::mutation::Mistake;
use tenure_core::{Command, Limits, Machine, Query, Refusal, Seq, SessionId, State, Timestamp, Token, View};
use tokio::sync::{oneshot, watch};

use crate::driver::{Driver, Mail, Prepared};
use crate::metrics;
use crate::store::{LogReader, Store, StoreError};
use crate::{Answer, Answered, Clock, Engine, EventPage, EventQuery, EventsGone, Failure, ReplyTo, Ticket};

/// How much later than its time a batch may still take mail, and so how much shorter a lease may be.
pub const BATCH_MILLIS_MAX: u64 = 1;
/// Batches up to this size are committed without waking the committer.
const COMMANDS_WITHOUT_HANDOVER_MAX: usize = 4;
/// How long a batch that only puts callers in queues waits for company: they cannot go on anyway, and often
/// what comes next is the release they wait for.
const LINGER: Duration = Duration::from_micros(200);

/// How long the writer looks for mail before it sleeps.
const LOOK_OUT: Duration = Duration::from_micros(100);

/// How the engine is run.
pub struct Options {
    pub limits: Limits,
    /// How many commands may wait to be applied; beyond it they are refused at once.
    pub mailbox_max: usize,
    /// Called when a batch could not be made durable. Nothing is answered after it.
    pub on_fatal: Box<dyn FnOnce(StoreError) + Send>,
}

impl Default for Options {
    fn default() -> Self {
        Self { limits: Limits::default(), mailbox_max: 65_536, on_fatal: Box::new(stop_the_process) }
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
    mail: Sender<Mail>,
    /// Commands in the mailbox.
    depth: Arc<AtomicUsize>,
    mailbox_max: usize,
    tickets: AtomicU64,
    stopping: AtomicBool,
    clock: Arc<dyn Clock>,
    /// None once it has ended: a reader would keep the data directory in use.
    reader: Mutex<Option<Arc<dyn LogReader>>>,
    last: watch::Receiver<Seq>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Embedded {
    /// Goes on from `state`, which the store gave when it was opened.
    pub fn start(state: State, store: impl Store, clock: Arc<dyn Clock>, options: Options) -> Self {
        let (mail, mailbox) = mpsc::channel();
        let (commits, prepared) = mpsc::sync_channel(0);
        let (announce, last) = watch::channel(state.counters().seq);
        let depth = Arc::new(AtomicUsize::new(0));
        let reader = store.reader();
        let driver = Driver::new(Machine::restored(state, options.limits), Box::new(nonces()));
        let committer = Committer::new(Box::new(store), announce, mail.clone(), options.on_fatal);
        let committer = Arc::new(Mutex::new(committer));
        let in_flight = Arc::new(AtomicUsize::new(0));
        let writer = Writer {
            driver,
            mailbox,
            held: None,
            commits,
            committer: committer.clone(),
            in_flight: in_flight.clone(),
            depth: depth.clone(),
            clock: clock.clone(),
        };
        let threads = vec![
            spawn("tenure-writer", move || writer.run()),
            spawn("tenure-commit", move || commit_all(&prepared, &committer, &in_flight)),
        ];
        Self {
            mail,
            depth,
            mailbox_max: options.mailbox_max,
            tickets: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            clock,
            reader: Mutex::new(Some(reader)),
            last,
            threads: Mutex::new(threads),
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
        self.mail.send(mail).is_ok()
    }

    /// A place in the mailbox for a command or a query.
    fn admit(&self) -> Result<(), Failure> {
        if self.stopping.load(Ordering::Acquire) {
            return Err(Failure::Stopping);
        }
        let waiting = self.depth.fetch_add(1, Ordering::AcqRel);
        if waiting >= self.mailbox_max {
            self.depth.fetch_sub(1, Ordering::AcqRel);
            return Err(Failure::Overloaded { waiting });
        }
        Ok(())
    }

    /// Ends at once: what was not answered may be lost. As near to a crash as a process can come that goes on.
    pub fn kill(&self) {
        self.stopping.store(true, Ordering::Release);
        self.post(Mail::Abort);
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // A panic there has been reported; here it only means that it has ended.
            let _ = thread.join();
        }
        lock(&self.reader).take();
    }
}

impl Engine for Embedded {
    fn submit(&self, command: Command, reply_to: ReplyTo) -> Result<Ticket, Failure> {
        self.admit()?;
        let ticket = Ticket(self.tickets.fetch_add(1, Ordering::Relaxed));
        if self.post(Mail::Command { ticket, command, reply_to }) { Ok(ticket) } else { Err(Failure::Stopping) }
    }

    fn hang_up(&self, ticket: Ticket, unreceived: Option<Token>) {
        self.post(Mail::HangUp { ticket, unreceived });
    }

    fn detach(&self, session: SessionId, attachment: u64) {
        self.post(Mail::Detach { session, attachment });
    }

    fn query(&self, query: Query) -> Answer<Result<View, Refusal>> {
        let (answer, answered) = oneshot::channel();
        let posted = self
            .admit()
            .and_then(|()| if self.post(Mail::Query { query, answer }) { Ok(()) } else { Err(Failure::Stopping) });
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
        f.debug_struct("Embedded").field("depth", &self.depth).finish_non_exhaustive()
    }
}

/// Applies what comes in.
struct Writer {
    driver: Driver,
    mailbox: Receiver<Mail>,
    /// Mail that came too late for a batch that was full.
    held: Option<Mail>,
    commits: SyncSender<Prepared>,
    committer: Arc<Mutex<Committer>>,
    /// Batches handed to the committer that are not yet durable.
    in_flight: Arc<AtomicUsize>,
    depth: Arc<AtomicUsize>,
    clock: Arc<dyn Clock>,
}

impl Writer {
    fn run(mut self) {
        let restarted = self.driver.restart(self.clock.now().max(self.driver.now()));
        let mut next = Some(Batch { prepared: restarted, last: false });
        while let Some(Batch { prepared, last }) = next {
            if !self.commit(prepared) || last {
                break;
            }
            next = self.next_batch();
        }
    }

    /// False when there is no going on.
    fn commit(&self, prepared: Prepared) -> bool {
        if prepared.is_empty() {
            return true;
        }
        // Nothing in flight, and only this thread puts anything there: the order is kept.
        if prepared.commands <= COMMANDS_WITHOUT_HANDOVER_MAX && self.in_flight.load(Ordering::Acquire) == 0 {
            return lock(&self.committer).commit(prepared);
        }
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.commits.send(prepared).is_ok()
    }

    /// Waits for mail or a deadline, and gathers what is there by then. None when it is over.
    fn next_batch(&mut self) -> Option<Batch> {
        let mut next = match self.held.take().or_else(|| self.look_out()) {
            Some(mail) => Some(mail),
            None => {
                let deadline = self.driver.next_deadline();
                self.wait(deadline.and_then(|deadline| self.clock.until(deadline)))?
            }
        };
        let at = self.clock.now().max(self.driver.now());
        self.driver.begin(at);
        while !self.driver.is_full()
            && let Some(mail) = next.take()
        {
            match &mail {
                Mail::Command { .. } | Mail::Query { .. } => {
                    self.depth.fetch_sub(1, Ordering::AcqRel);
                }
                Mail::Stop => return Some(self.last_batch()),
                Mail::Abort => return None,
                Mail::HangUp { .. } | Mail::Detach { .. } | Mail::Tick { .. } => {}
            }
            self.driver.handle(mail);
            // A batch has one time. What comes much later must not get a lease that began before it was asked for.
            if self.clock.now().millis_since(at) > BATCH_MILLIS_MAX {
                break;
            }
            next = match self.mailbox.try_recv() {
                Ok(mail) => Some(mail),
                Err(_) if self.driver.is_urgent() => None,
                Err(_) => self.wait(Some(LINGER))?,
            };
        }
        self.held = next;
        Some(Batch { prepared: self.driver.finish(), last: false })
    }

    /// Those who wait are told that they wait in vain, and so are commands that came too late. What was given up in
    /// the meantime is given up.
    fn last_batch(&mut self) -> Batch {
        self.driver.handle(Mail::Stop);
        while let Ok(mail) = self.mailbox.try_recv() {
            match mail {
                Mail::Command { reply_to, .. } => {
                    let refused = Answered { id: reply_to.id, reply: Err(Failure::Stopping) };
                    // Whoever does not listen need not know.
                    let _ = reply_to.answers.send(refused);
                }
                mail if !self.driver.is_full() => self.driver.handle(mail),
                _ => {}
            }
        }
        Batch { prepared: self.driver.finish_for_good(), last: true }
    }

    /// Looks for mail for a moment before going to sleep: whoever was just answered often has more to say, and to
    /// be woken takes about as long as this.
    fn look_out(&self) -> Option<Mail> {
        let started = Instant::now();
        loop {
            if let Ok(mail) = self.mailbox.try_recv() {
                return Some(mail);
            }
            if started.elapsed() >= LOOK_OUT {
                return None;
            }
            std::thread::yield_now();
        }
    }

    /// None when it is over; no mail when the time has passed.
    fn wait(&self, timeout: Option<Duration>) -> Option<Option<Mail>> {
        match timeout {
            None => self.mailbox.recv().ok().map(Some),
            Some(timeout) => match self.mailbox.recv_timeout(timeout) {
                Ok(mail) => Some(Some(mail)),
                Err(RecvTimeoutError::Timeout) => Some(None),
                Err(RecvTimeoutError::Disconnected) => None,
            },
        }
    }
}

struct Batch {
    prepared: Prepared,
    last: bool,
}

/// The committer's thread.
fn commit_all(prepared: &Receiver<Prepared>, committer: &Mutex<Committer>, in_flight: &AtomicUsize) {
    while let Ok(batch) = prepared.recv() {
        if !lock(committer).commit(batch) {
            break;
        }
        in_flight.fetch_sub(1, Ordering::AcqRel);
    }
    // Whoever waits for the end hears of it now.
    lock(committer).announce = None;
}

/// Makes batches durable, in order, and sends what may be said then.
pub struct Committer {
    store: Box<dyn Store>,
    /// None once it is over.
    announce: Option<watch::Sender<Seq>>,
    /// Back to the writer: grants that found nobody.
    returns: Sender<Mail>,
    on_fatal: Option<Box<dyn FnOnce(StoreError) + Send>>,
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committer").field("over", &self.announce.is_none()).finish_non_exhaustive()
    }
}

impl Committer {
    pub fn new(
        store: Box<dyn Store>,
        announce: watch::Sender<Seq>,
        returns: Sender<Mail>,
        on_fatal: Box<dyn FnOnce(StoreError) + Send>,
    ) -> Self {
        Self { store, announce: Some(announce), returns, on_fatal: Some(on_fatal) }
    }

    /// False when there is no going on.
    pub fn commit(&mut self, batch: Prepared) -> bool {
        let Prepared { commit, mut deliveries, commands, last } = batch;
        if Mistake::AnswersBeforeTheSync.is_made() {
            deliveries.drain(..).for_each(|delivery| drop(delivery.send()));
        }
        // After a failed sync nothing is said any more.
        let (Some(announce), Some(_)) = (&self.announce, &self.on_fatal) else { return false };
        // A batch that changed nothing still waits its turn: its answers may rest on the one before.
        if commit.entry.is_some() || commit.rows.is_some() {
            let started = Instant::now();
            if let Err(error) = self.store.commit(&commit) {
                if let Some(on_fatal) = self.on_fatal.take() {
                    on_fatal(error);
                }
                return false;
            }
            metrics::committed(started.elapsed(), commands, commit.entry.as_deref());
            announce.send_replace(last);
        }
        for delivery in deliveries {
            if let Some(mail) = delivery.send() {
                // If the writer is gone there is nobody to take it back; a restart finds the lease.
                let _ = self.returns.send(mail);
            }
        }
        true
    }
}

/// A thread of the engine. A bug in it must not leave a server that looks alive and grants nothing.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    struct AbortOnPanic;
    impl Drop for AbortOnPanic {
        fn drop(&mut self) {
            if std::thread::panicking() {
                std::process::abort();
            }
        }
    }
    let guarded = move || {
        let _guard = AbortOnPanic;
        run();
    };
    std::thread::Builder::new().name(name.into()).spawn(guarded).expect("the system can start a thread")
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

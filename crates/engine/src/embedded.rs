//! The embedded engine: two threads around the [`Driver`] and a store.
//!
//! The writer takes mail, applies it in memory and closes a batch; the committer makes the batch durable with
//! one sync, then sends its answers. While the committer syncs one batch the writer applies the next, to which all that
//! comes in during the sync belongs. The writer commits by itself what is not worth waking another thread for: a batch of
//! a few commands, and on a machine of two processors any batch, since the other is busy with those who ask.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tenure_core::mutation::Mistake;
use tenure_core::{Command, Limits, Machine, Policies, Query, Refusal, Seq, SessionId, State, Timestamp, Token, View};
use tokio::sync::{oneshot, watch};

use crate::driver::{Driver, Mail, Prepared};
use crate::look_out::{self, LOOK_OUT};
use crate::metrics;
use crate::store::{LogReader, Store, StoreError};
use crate::{Answer, Answered, Clock, Engine, EventPage, EventQuery, EventsGone, Failure, ReplyTo, Ticket};

/// How much later than its time a batch may still take mail, and so how much shorter a lease may be.
pub const BATCH_MILLIS_MAX: u64 = 1;
/// Batches up to this size are committed without waking the committer.
const COMMANDS_WITHOUT_HANDOVER_MAX: usize = 4;
/// With no more processors than this, so is any batch.
const PROCESSORS_WITHOUT_HANDOVER_MAX: usize = 2;
/// How long a batch that only puts callers in queues waits for company: they cannot go on anyway, and often
/// what comes next is the release they wait for.
const LINGER: Duration = Duration::from_micros(200);

/// How the engine is run.
pub struct Options {
    pub limits: Limits,
    /// How many commands may wait to be applied; beyond it they are refused at once.
    pub mailbox_max: usize,
    /// Called when a batch could not be made durable. Nothing is answered after it.
    pub on_fatal: Box<dyn FnOnce(StoreError) + Send>,
    /// What makes policies out of the scripts that pools carry. Without, pools that have any are refused.
    pub policies: Option<Arc<dyn Policies>>,
}

impl Default for Options {
    fn default() -> Self {
        Self { limits: Limits::default(), mailbox_max: 65_536, on_fatal: Box::new(stop_the_process), policies: None }
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
    mail: Sender<Letter>,
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
        let (commits, prepared) = mpsc::channel();
        let (announce, last) = watch::channel(state.counters().seq);
        let depth = Arc::new(AtomicUsize::new(0));
        let reader = store.reader();
        let machine = Machine::restored(state, options.limits);
        let machine = match options.policies {
            Some(policies) => machine.with_policies(policies),
            None => machine,
        };
        let driver = Driver::new(machine, Box::new(nonces()));
        let to_writer = mail.clone();
        // If the writer is gone there is nobody to take it back; a restart finds the lease.
        let returns = move |mail| drop(to_writer.send(Letter::Mail(mail)));
        let committer = Committer::new(Box::new(store), announce, Box::new(returns), options.on_fatal);
        let committer = Arc::new(Mutex::new(committer));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let is_small = processors <= PROCESSORS_WITHOUT_HANDOVER_MAX;
        let disk = Arc::new(Disk::default());
        let writer = Writer {
            driver,
            mailbox,
            inbox: VecDeque::new(),
            commits,
            committer: committer.clone(),
            disk: disk.clone(),
            without_handover_max: if is_small { usize::MAX } else { COMMANDS_WITHOUT_HANDOVER_MAX },
            in_turn: false,
            committed: Instant::now(),
            looks_out: false,
            depth: depth.clone(),
            clock: clock.clone(),
        };
        let threads = vec![
            spawn("tenure-writer", move || writer.run()),
            spawn("tenure-commit", {
                let mail = mail.clone();
                move || commit_all(&prepared, &committer, &disk, &mail)
            }),
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
        self.send(Letter::Mail(mail))
    }

    fn send(&self, letter: Letter) -> bool {
        // Before it is sent: whoever answers it says that no more is to come.
        look_out::asked();
        self.mail.send(letter).is_ok()
    }

    /// Places in the mailbox for so many commands or queries. Gives for how many there are, and why not for the rest.
    fn admit(&self, count: usize) -> (usize, Failure) {
        if self.stopping.load(Ordering::Acquire) {
            return (0, Failure::Stopping);
        }
        let waiting = self.depth.fetch_add(count, Ordering::AcqRel);
        let admitted = self.mailbox_max.saturating_sub(waiting).min(count);
        self.depth.fetch_sub(count - admitted, Ordering::AcqRel);
        (admitted, Failure::Overloaded { waiting: waiting + admitted })
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
        let posted = admitted == 0 || self.send(Letter::Commands(mails.collect()));
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

/// What the writer finds in its mailbox.
enum Letter {
    Mail(Mail),
    /// Handed over together.
    Commands(Vec<Mail>),
    /// The committer has nothing to do.
    Committed,
}

/// What the committer is doing, as far as the writer must know.
#[derive(Debug, Default)]
struct Disk {
    /// It has a batch that is not yet durable.
    busy: AtomicBool,
    /// The writer has a batch for it, and is to be told when it is free.
    wanted: AtomicBool,
}

/// Applies what comes in.
struct Writer {
    driver: Driver,
    mailbox: Receiver<Letter>,
    /// Mail that was taken out of the mailbox, and is not yet handled.
    inbox: VecDeque<Mail>,
    commits: Sender<Prepared>,
    committer: Arc<Mutex<Committer>>,
    disk: Arc<Disk>,
    /// Batches up to this size are committed by the writer.
    without_handover_max: usize,
    /// What came last came soon after a commit.
    in_turn: bool,
    committed: Instant,
    /// So it did, the last batch was one of few commands, and what came next, if it has come, came at once.
    looks_out: bool,
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
        look_out::sleeps();
    }

    /// False when there is no going on.
    fn commit(&mut self, prepared: Prepared) -> bool {
        self.looks_out = self.in_turn && (1..=COMMANDS_WITHOUT_HANDOVER_MAX).contains(&prepared.commands);
        if prepared.is_empty() {
            return true;
        }
        while self.is_disk_busy() {
            if self.wait(None).is_none() {
                return false;
            }
        }
        // Nothing is being committed, and only this thread says what is: the order is kept.
        if prepared.commands <= self.without_handover_max {
            let began = Instant::now();
            let goes_on = lock(&self.committer).commit(prepared);
            self.committed = Instant::now();
            // It would be in vain on a disk that takes longer.
            look_out::take_turns(self.looks_out && self.committed - began < LOOK_OUT);
            return goes_on;
        }
        look_out::take_turns(false);
        self.disk.busy.store(true, Ordering::SeqCst);
        self.commits.send(prepared).is_ok()
    }

    /// If it is, a letter comes when it is not any more.
    fn is_disk_busy(&self) -> bool {
        if !self.disk.busy.load(Ordering::SeqCst) {
            return false;
        }
        self.disk.wanted.store(true, Ordering::SeqCst);
        self.disk.busy.load(Ordering::SeqCst)
    }

    /// Waits for mail or a deadline, and gathers what is there by then. None when it is over.
    fn next_batch(&mut self) -> Option<Batch> {
        if self.inbox.is_empty() {
            self.looks_out = self.looks_out && self.look_out(LOOK_OUT);
            if !self.looks_out {
                look_out::sleeps();
                let deadline = self.driver.next_deadline();
                self.wait(deadline.and_then(|deadline| self.clock.until(deadline)))?;
            }
            self.in_turn = !self.inbox.is_empty() && self.committed.elapsed() < LOOK_OUT * 2;
        }
        while let Ok(letter) = self.mailbox.try_recv() {
            self.open(letter);
        }
        let at = self.clock.now().max(self.driver.now());
        self.driver.begin(at);
        while !self.driver.is_full() && self.gather(at)? {
            let mail = self.inbox.pop_front().expect("it was just gathered");
            match &mail {
                Mail::Command { .. } | Mail::Query { .. } => {
                    self.depth.fetch_sub(1, Ordering::AcqRel);
                }
                Mail::Stop => return Some(self.last_batch()),
                Mail::Abort => return None,
                Mail::HangUp { .. } | Mail::Detach { .. } | Mail::Tick { .. } => {}
            }
            self.driver.handle(mail);
        }
        Some(Batch { prepared: self.driver.finish(), last: false })
    }

    /// Whether there is mail for the batch under way, which was begun at `at` and is kept open as long as nobody would gain
    /// if it were closed. None when it is over.
    fn gather(&mut self, at: Timestamp) -> Option<bool> {
        while self.inbox.is_empty() {
            let lingers = !self.driver.is_urgent();
            // What comes while the disk is busy comes along. When it is free it is not kept waiting.
            if !lingers && !self.is_disk_busy() {
                return Some(false);
            }
            if lingers {
                look_out::answered();
            }
            if lingers && self.looks_out {
                self.look_out(LINGER);
            } else {
                self.wait(lingers.then_some(LINGER))?;
            }
            if lingers && self.inbox.is_empty() {
                return Some(false);
            }
            // A batch has one time. What comes much later must not get a lease that began before it was asked for.
            if self.clock.now().millis_since(at) > BATCH_MILLIS_MAX {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Whether mail comes in this time. It takes the processor, if nobody else does.
    fn look_out(&mut self, span: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < span {
            if let Ok(letter) = self.mailbox.try_recv() {
                self.open(letter);
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    /// Those who wait are told that they wait in vain, and so are commands that came too late. What was given up in
    /// the meantime is given up.
    fn last_batch(&mut self) -> Batch {
        self.driver.handle(Mail::Stop);
        while let Ok(letter) = self.mailbox.try_recv() {
            self.open(letter);
        }
        while let Some(mail) = self.inbox.pop_front() {
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

    /// Until a letter has come or the time has passed. None when it is over.
    fn wait(&mut self, timeout: Option<Duration>) -> Option<()> {
        let letter = match timeout {
            None => self.mailbox.recv().ok()?,
            Some(timeout) => match self.mailbox.recv_timeout(timeout) {
                Ok(letter) => letter,
                Err(RecvTimeoutError::Timeout) => return Some(()),
                Err(RecvTimeoutError::Disconnected) => return None,
            },
        };
        self.open(letter);
        Some(())
    }

    fn open(&mut self, letter: Letter) {
        match letter {
            Letter::Mail(mail) => self.inbox.push_back(mail),
            Letter::Commands(commands) => self.inbox.extend(commands),
            Letter::Committed => {}
        }
    }
}

struct Batch {
    prepared: Prepared,
    last: bool,
}

/// The committer's thread.
fn commit_all(prepared: &Receiver<Prepared>, committer: &Mutex<Committer>, disk: &Disk, mail: &Sender<Letter>) {
    while let Ok(batch) = prepared.recv() {
        let goes_on = lock(committer).commit(batch);
        disk.busy.store(false, Ordering::SeqCst);
        if disk.wanted.swap(false, Ordering::SeqCst) {
            // Without a writer nobody wants it.
            let _ = mail.send(Letter::Committed);
        }
        if !goes_on {
            break;
        }
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
    returns: Box<dyn FnMut(Mail) + Send>,
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
        returns: Box<dyn FnMut(Mail) + Send>,
        on_fatal: Box<dyn FnOnce(StoreError) + Send>,
    ) -> Self {
        Self { store, announce: Some(announce), returns, on_fatal: Some(on_fatal) }
    }

    /// False when there is no going on.
    pub fn commit(&mut self, batch: Prepared) -> bool {
        let Prepared { commit, mut deliveries, commands, last } = batch;
        if Mistake::AnswersBeforeTheSync.is_made() {
            deliveries.drain(..).for_each(|delivery| drop(delivery.send(&mut Vec::new())));
        }
        // After a failed sync nothing is said any more.
        let (Some(announce), Some(_)) = (&self.announce, &self.on_fatal) else { return false };
        // A batch that changed nothing still waits its turn: its answers may rest on the one before.
        let mut committed = None;
        if commit.entry.is_some() || commit.rows.is_some() {
            let started = Instant::now();
            let entry = commit.entry.clone();
            if let Err(error) = self.store.commit(commit) {
                return self.fail(error);
            }
            committed = Some((started.elapsed(), entry));
            announce.send_replace(last);
        }
        let mut listeners = Vec::new();
        for delivery in deliveries {
            if let Some(mail) = delivery.send(&mut listeners) {
                (self.returns)(mail);
            }
        }
        listeners.into_iter().for_each(Waker::wake);
        look_out::answered();
        if let Some((took, entry)) = committed {
            metrics::committed(took, commands, entry.as_deref());
        }
        match self.store.follow() {
            Ok(()) => true,
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: StoreError) -> bool {
        if let Some(on_fatal) = self.on_fatal.take() {
            on_fatal(error);
        }
        false
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

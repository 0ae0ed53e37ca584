//! The writer and the committer in somebody else's thread, as a future: the front end's runtime runs it between its own tasks. For
//! machines of few processors, where to wake another thread and to be woken by it takes as long as the work.
//!
//! While the disk has one batch the next is gathered and applied. A store that can only write and wait stops the whole thread, which does
//! little harm: what is said meanwhile waits in the sockets. Nothing is locked while others run, so that [`Place::clear`] can end it at any
//! time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use tenure_core::Timestamp;
use tokio::task::yield_now;
use tokio::time::Sleep;

use super::committer::Committer;
use super::turns::{LINGER, LOOK_OUT, Turns};
use super::writer::{Handled, Writer};
use super::{AbortOnPanic, BATCH_MILLIS_MAX, lock};
use crate::Clock;

/// How often all others have their turn before a batch is begun, so that it has what is there to be said: first the system is asked which
/// sockets have something, then those who read it hand it over.
const ROUNDS_BEFORE_BATCH: usize = 2;
/// So many commands are not kept waiting for more: a sync more or less is nothing to them, and where so much is said a turn of all others is
/// long.
const COMMANDS_ENOUGH: usize = 1_024;

/// Batches of fewer commands are waited for, with the whole thread: what comes while they are written takes less time than it takes the system
/// to write beside something else, and to tell of it.
const COMMANDS_BESIDE_MIN: usize = 40;
/// While a batch is written, this thread gives way after so many commands: what the system has to do for the write it does on any processor,
/// maybe on this one, and for that it would otherwise wait until nobody has anything to say.
const COMMANDS_BEFORE_YIELD: usize = 32;

/// The engine, to be run by whoever hosts it. It must be polled in a runtime of tokio's that has timers and sockets.
pub type Hosting = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Hosted {
    writer: Writer,
    committer: Committer,
    /// The time of the batch that is open.
    open: Option<Timestamp>,
    ends: Ends,
    turns: Turns,
    /// Others had their turn while the last batch was written, and nothing has been waited for since.
    was_beside: bool,
    /// Batches that were answered and after which is still something to do.
    unfollowed: usize,
}

/// Whether it goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    No,
    /// The batch that is open is the last.
    WithThisBatch,
    /// It is under way.
    WithTheNextAnswers,
}

/// What there is to do.
enum Work {
    /// What was under way is durable.
    Answer,
    /// There is mail, something is due, or a batch is open, and the disk is free.
    Commit,
    /// What nobody waits for.
    Follow,
    /// There is mail, or something is due, for the batch after the one that is under way.
    Gather,
}

/// Where the engine is while it is not at work: whoever takes it out ends it.
#[derive(Clone)]
pub(super) struct Place {
    hosted: Arc<Mutex<Option<Hosted>>>,
    bell: Arc<Bell>,
}

/// The engine as a future, and what ends it from outside.
pub(super) fn start(writer: Writer, committer: Committer, turns: Turns, bell: Arc<Bell>) -> (Hosting, Place) {
    let hosted = Hosted { writer, committer, open: None, ends: Ends::No, turns, was_beside: false, unfollowed: 0 };
    let place = Place { hosted: Arc::new(Mutex::new(Some(hosted))), bell };
    // It goes with the future, also one that is never polled: those who wait for an answer must hear that none will come.
    let cleared = ClearOnDrop(place.clone());
    let mut run = Box::pin(async move {
        // None: it is over.
        let _ = run(&cleared.0).await;
    });
    let guarded = poll_fn(move |cx| {
        // A runtime would catch it, and go on.
        let _guard = AbortOnPanic;
        run.as_mut().poll(cx)
    });
    (Box::pin(guarded), place)
}

/// None when it is over.
async fn run(place: &Place) -> Option<()> {
    let mut timer = Timer::default();
    place.step(Hosted::restart)?;
    loop {
        match poll_fn(|cx| place.poll_work(&mut timer, cx)).await? {
            Work::Answer => {
                place.step(Hosted::answer)?;
                // What was answered is written before anything else is done.
                yield_now().await;
                place.step(Hosted::follow_if_late)?;
                let answered = Instant::now();
                while place.step(Hosted::looks_out)? && answered.elapsed() < LOOK_OUT {
                    place.give_way().await?;
                }
                place.step(Hosted::has_looked_out)?;
            }
            Work::Commit => {
                for _ in 0..place.step(Hosted::rounds)? {
                    yield_now().await;
                }
                place.step(Hosted::gather)?;
                let began = Instant::now();
                while place.step(Hosted::lingers)? && began.elapsed() < LINGER {
                    place.give_way().await?;
                }
                place.step(Hosted::commit)?;
            }
            Work::Follow => place.step(Hosted::follow)?,
            Work::Gather => place.step(Hosted::gather)?,
        }
    }
}

impl Place {
    /// Ends it, at once: what was not answered may be lost.
    pub(super) fn clear(&self) {
        let gone = lock(&self.hosted).take();
        drop(gone);
        // Whoever runs it is to see that.
        self.bell.ring();
    }

    /// To other threads, and to other tasks.
    async fn give_way(&self) -> Option<()> {
        self.step(|hosted| {
            hosted.turns.give_way();
            Some(())
        })?;
        yield_now().await;
        Some(())
    }

    fn step<T>(&self, step: impl FnOnce(&mut Hosted) -> Option<T>) -> Option<T> {
        step(lock(&self.hosted).as_mut()?)
    }

    /// None when it is over.
    fn poll_work(&self, timer: &mut Timer, cx: &mut Context<'_>) -> Poll<Option<Work>> {
        // Before it is looked for: what comes later rings.
        self.bell.listen(cx.waker());
        let poll = self.step(|hosted| Some(hosted.poll_work(timer, cx))).unwrap_or(Poll::Ready(None));
        if poll.is_ready() {
            self.bell.ignore();
        }
        poll
    }
}

struct ClearOnDrop(Place);

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// Each step gives none when there is no going on.
impl Hosted {
    fn restart(&mut self) -> Option<()> {
        let restarted = self.writer.restart();
        self.unfollowed = 1;
        self.committer.commit(restarted).then_some(())
    }

    fn poll_work(&mut self, timer: &mut Timer, cx: &mut Context<'_>) -> Poll<Option<Work>> {
        let is_under_way = self.committer.is_under_way();
        if is_under_way {
            if let Poll::Ready(goes_on) = self.committer.poll(cx) {
                return Poll::Ready(goes_on.then_some(Work::Answer));
            }
            self.turns.give_way();
            if let Poll::Ready(goes_on) = self.committer.poll(cx) {
                return Poll::Ready(goes_on.then_some(Work::Answer));
            }
        }
        self.writer.empty_mailbox();
        let is_due = match self.open {
            None if self.writer.inbox.is_empty() && self.ends == Ends::No => {
                timer.poll(self.writer.driver.next_deadline(), &*self.writer.clock, cx).is_ready()
            }
            _ => false,
        };
        let has_mail = !self.writer.inbox.is_empty() && self.ends == Ends::No;
        let work = match self.open {
            _ if !is_under_way && (has_mail || is_due || self.open.is_some()) => Work::Commit,
            // While the disk is at work, if it is.
            _ if self.unfollowed > 0 => Work::Follow,
            None if has_mail || is_due => Work::Gather,
            Some(_) if has_mail && self.takes_more() => Work::Gather,
            _ => {
                self.was_beside = is_under_way;
                return Poll::Pending;
            }
        };
        Poll::Ready(Some(work))
    }

    /// Whether the next is about to come, and has not.
    fn looks_out(&mut self) -> Option<bool> {
        self.writer.empty_mailbox();
        Some(self.turns.are_taken() && self.writer.inbox.is_empty() && !self.committer.is_under_way())
    }

    fn has_looked_out(&mut self) -> Option<()> {
        if self.writer.inbox.is_empty() {
            self.turns.missed();
        }
        Some(())
    }

    /// How often others have their turn before a batch is begun. Where callers take turns there is nobody else to hear, and what came while
    /// the disk worked beside was heard then.
    fn rounds(&mut self) -> Option<usize> {
        let are_enough = self.writer.inbox.len() >= COMMANDS_ENOUGH;
        Some(if self.turns.are_taken() || self.was_beside || are_enough { 0 } else { ROUNDS_BEFORE_BATCH })
    }

    /// Applies the mail that is there, in the batch that is open or in a new one.
    fn gather(&mut self) -> Option<()> {
        // First the mail, then the time: no lease begins before it was asked for.
        self.writer.empty_mailbox();
        if self.open.is_none() {
            self.turns.heard(!self.writer.inbox.is_empty());
            self.open = Some(self.writer.begin());
        } else if !self.takes_more() {
            return Some(());
        }
        let mut handled = 0;
        while self.ends == Ends::No && !self.writer.inbox.is_empty() && !self.writer.driver.is_full() {
            handled += 1;
            if self.committer.is_under_way() && handled % COMMANDS_BEFORE_YIELD == 0 {
                self.turns.give_way();
            }
            match self.writer.handle_next() {
                Handled::Open => {}
                Handled::Last => self.ends = Ends::WithThisBatch,
                Handled::Aborted => return None,
            }
        }
        Some(())
    }

    /// Whether what comes now may belong to the batch that is open. A batch has one time: what comes much later must not get a lease that
    /// began before it was asked for.
    fn takes_more(&self) -> bool {
        let is_in_time = |at| self.writer.clock.now().millis_since(at) <= BATCH_MILLIS_MAX;
        self.ends == Ends::No && !self.writer.driver.is_full() && self.open.is_some_and(is_in_time)
    }

    /// Whether nobody would gain if the batch were closed now.
    fn lingers(&mut self) -> Option<bool> {
        self.gather()?;
        let is_alone = self.takes_more() && self.writer.inbox.is_empty();
        Some(is_alone && !self.writer.driver.is_urgent() && !self.turns.is_crowded())
    }

    /// Closes the batch that is open and gives it to the disk.
    fn commit(&mut self) -> Option<()> {
        self.open = None;
        let prepared = match self.ends {
            Ends::No => self.writer.driver.finish_without_rows(),
            Ends::WithThisBatch | Ends::WithTheNextAnswers => {
                self.ends = Ends::WithTheNextAnswers;
                self.writer.last_batch().prepared
            }
        };
        self.turns.closed(prepared.commands);
        if prepared.is_empty() && self.ends == Ends::No {
            self.turns.committed();
            return Some(());
        }
        self.was_beside = false;
        let is_large = prepared.commands >= COMMANDS_BESIDE_MIN && !self.turns.is_crowded();
        let begun = if is_large { self.committer.begin(prepared) } else { self.committer.begin_and_wait(prepared) };
        begun.then_some(())
    }

    /// What was under way is durable: says so.
    fn answer(&mut self) -> Option<()> {
        let answers = self.committer.done();
        self.turns.committed();
        self.committer.deliver(answers);
        self.unfollowed += 1;
        if self.ends == Ends::WithTheNextAnswers {
            self.follow()?;
            return None;
        }
        Some(())
    }

    /// A store that does nothing beside the commits leaves no other time for it as long as there is always mail.
    fn follow_if_late(&mut self) -> Option<()> {
        if self.unfollowed > 1 { self.follow() } else { Some(()) }
    }

    fn follow(&mut self) -> Option<()> {
        self.unfollowed = 0;
        // They are as of the last batch that was closed.
        if self.open.is_none()
            && let Some(rows) = self.writer.driver.rows_due()
        {
            self.committer.add_rows(rows);
        }
        self.committer.follow().then_some(())
    }
}

/// Rings when something is due.
#[derive(Default)]
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    rings_at: Option<Timestamp>,
}

impl Timer {
    fn poll(&mut self, deadline: Option<Timestamp>, clock: &dyn Clock, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            // Without either only mail can tell that something is due.
            let Some((deadline, wait)) = deadline.and_then(|at| Some((at, clock.until(at)?))) else {
                return Poll::Pending;
            };
            if wait.is_zero() {
                return Poll::Ready(());
            }
            // One that is set for an earlier time stays: the earliest deadline mostly moves on, with each hold that ends.
            let is_set = self.rings_at.is_some_and(|rings_at| rings_at <= deadline);
            let sleep = match &mut self.sleep {
                Some(sleep) => {
                    if !is_set {
                        sleep.set(tokio::time::sleep(wait));
                    }
                    sleep
                }
                None => self.sleep.insert(Box::pin(tokio::time::sleep(wait))),
            };
            if !is_set {
                self.rings_at = Some(deadline);
            }
            ready!(sleep.as_mut().poll(cx));
            self.rings_at = None;
        }
    }
}

/// Wakes the engine when there is mail for it, and costs next to nothing while it is awake.
#[derive(Debug, Default)]
pub(super) struct Bell {
    is_listened_for: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Bell {
    /// For those who have sent something. Whichever of this and [`Bell::listen`] comes second knows of what was before the first.
    pub(super) fn ring(&self) {
        if self.is_listened_for.swap(false, Ordering::AcqRel)
            && let Some(waker) = &*lock(&self.waker)
        {
            waker.wake_by_ref();
        }
    }

    fn listen(&self, waker: &Waker) {
        let mut known = lock(&self.waker);
        match &mut *known {
            Some(known) => known.clone_from(waker),
            None => *known = Some(waker.clone()),
        }
        drop(known);
        self.is_listened_for.swap(true, Ordering::AcqRel);
    }

    fn ignore(&self) {
        self.is_listened_for.store(false, Ordering::Relaxed);
    }
}

//! The writer and the committer in somebody else's thread, as a future: the front end's runtime runs it between its own tasks. For
//! machines of few processors, where to wake another thread and to be woken by it takes as long as the work.
//!
//! A sync stops the whole thread, which does no harm: what is said meanwhile waits in the sockets, and makes up the next batch. Nothing
//! is locked while others run, so that [`Place::clear`] can end it at any time.

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
use super::writer::{Batch, Handled, Writer};
use super::{AbortOnPanic, BATCH_MILLIS_MAX, lock};
use crate::Clock;

/// How often all others have their turn before a batch is begun, so that it has what is there to be said: first the system is asked which
/// sockets have something, then those who read it hand it over.
const ROUNDS_BEFORE_BATCH: usize = 2;

/// The engine, to be run by whoever hosts it. It must be polled in a runtime of tokio's that has timers.
pub type Hosting = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Hosted {
    writer: Writer,
    committer: Committer,
    /// The time of the batch under way.
    at: Timestamp,
    ends: Ends,
    turns: Turns,
}

/// Whether it goes on after the batch under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    No,
    WithThisBatch,
}

/// Where the engine is while it is not at work: whoever takes it out ends it.
#[derive(Clone)]
pub(super) struct Place {
    hosted: Arc<Mutex<Option<Hosted>>>,
    bell: Arc<Bell>,
}

/// The engine as a future, and what ends it from outside.
pub(super) fn start(writer: Writer, committer: Committer, bell: Arc<Bell>) -> (Hosting, Place) {
    let hosted = Hosted { writer, committer, at: Timestamp::default(), ends: Ends::No, turns: Turns::new() };
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
        // What was answered is written before anything else is done.
        yield_now().await;
        place.step(Hosted::follow)?;
        let answered = Instant::now();
        while place.step(Hosted::looks_out)? && answered.elapsed() < LOOK_OUT {
            give_way().await;
        }
        place.step(Hosted::has_looked_out)?;
        poll_fn(|cx| place.poll_work(&mut timer, cx)).await?;
        // Where callers take turns there is nobody else to hear.
        let rounds = if place.step(Hosted::takes_turns)? { 0 } else { ROUNDS_BEFORE_BATCH };
        for _ in 0..rounds {
            yield_now().await;
        }
        place.step(Hosted::begin)?;
        let began = Instant::now();
        while place.step(Hosted::lingers)? && began.elapsed() < LINGER {
            give_way().await;
        }
        place.step(Hosted::commit)?;
    }
}

/// To other tasks, and to other threads that may be about to say something.
async fn give_way() {
    std::thread::yield_now();
    yield_now().await;
}

impl Place {
    /// Ends it, at once: what was not answered may be lost.
    pub(super) fn clear(&self) {
        let gone = lock(&self.hosted).take();
        drop(gone);
        // Whoever runs it is to see that.
        self.bell.ring();
    }

    fn step<T>(&self, step: impl FnOnce(&mut Hosted) -> Option<T>) -> Option<T> {
        step(lock(&self.hosted).as_mut()?)
    }

    /// Ready when there is mail, or something is due.
    fn poll_work(&self, timer: &mut Timer, cx: &mut Context<'_>) -> Poll<Option<()>> {
        // Before it is looked for: what comes later rings.
        self.bell.listen(cx.waker());
        let poll = match self.step(|hosted| Some(hosted.poll_work(timer, cx))) {
            Some(poll) => poll.map(Some),
            None => Poll::Ready(None),
        };
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
        self.committer.commit(restarted).then_some(())
    }

    fn poll_work(&mut self, timer: &mut Timer, cx: &mut Context<'_>) -> Poll<()> {
        self.writer.empty_mailbox();
        if self.writer.inbox.is_empty() {
            timer.poll(self.writer.driver.next_deadline(), &*self.writer.clock, cx)
        } else {
            Poll::Ready(())
        }
    }

    /// Whether the next is about to come, and has not.
    fn looks_out(&mut self) -> Option<bool> {
        self.writer.empty_mailbox();
        Some(self.turns.are_taken() && self.writer.inbox.is_empty())
    }

    fn has_looked_out(&mut self) -> Option<()> {
        if self.writer.inbox.is_empty() {
            self.turns.missed();
        }
        Some(())
    }

    fn takes_turns(&mut self) -> Option<bool> {
        Some(self.turns.are_taken())
    }

    fn begin(&mut self) -> Option<()> {
        // First the mail, then the time: no lease begins before it was asked for.
        self.writer.empty_mailbox();
        self.turns.heard(!self.writer.inbox.is_empty());
        self.at = self.writer.begin();
        self.handle()
    }

    fn handle(&mut self) -> Option<()> {
        while self.ends == Ends::No && !self.writer.inbox.is_empty() && !self.writer.driver.is_full() {
            match self.writer.handle_next() {
                Handled::Open => {}
                Handled::Last => self.ends = Ends::WithThisBatch,
                Handled::Aborted => return None,
            }
        }
        Some(())
    }

    /// Whether nobody would gain if the batch were closed now.
    fn lingers(&mut self) -> Option<bool> {
        // A batch has one time. What comes much later must not get a lease that began before it was asked for.
        if self.writer.clock.now().millis_since(self.at) > BATCH_MILLIS_MAX {
            return Some(false);
        }
        self.writer.empty_mailbox();
        self.handle()?;
        let is_open = self.ends == Ends::No && self.writer.inbox.is_empty();
        Some(is_open && !self.writer.driver.is_urgent())
    }

    fn commit(&mut self) -> Option<()> {
        let Batch { prepared, last } = match self.ends {
            Ends::No => Batch { prepared: self.writer.driver.finish_without_rows(), last: false },
            Ends::WithThisBatch => self.writer.last_batch(),
        };
        self.turns.closed(prepared.commands);
        let goes_on = prepared.is_empty() || self.committer.commit(prepared);
        self.turns.committed();
        if last && goes_on {
            self.committer.follow();
        }
        (goes_on && !last).then_some(())
    }

    fn follow(&mut self) -> Option<()> {
        let goes_on = match self.writer.driver.rows_due() {
            Some(rows) => self.committer.commit_rows(rows),
            None => true,
        };
        (goes_on && self.committer.follow()).then_some(())
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

//! The channel by which answers come back to a caller: any number of senders, one receiver, never full.
//!
//! It differs from tokio's in one thing: it can be written to without waking the receiver. Whoever has a batch of answers
//! for a few receivers wakes each of them once, when all is there, and each finds its answers together.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::Answered;

pub fn channel() -> (Sender, Receiver) {
    let shared = Arc::<Shared>::default();
    let side = Arc::new(Side { shared: shared.clone() });
    (Sender { side }, Receiver { shared, taken: VecDeque::new() })
}

#[derive(Debug, Default)]
struct Shared {
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    answers: VecDeque<Answered>,
    /// Of the receiver, if it waits.
    waker: Option<Waker>,
    /// The receiver takes no more.
    closed: bool,
    /// Nobody is left who could send.
    over: bool,
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        // Nothing is left half done in it, whoever panics.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Debug)]
pub struct Sender {
    side: Arc<Side>,
}

/// What all senders have in common: it goes with the last of them. Counted once, because each request has a sender.
#[derive(Debug)]
struct Side {
    shared: Arc<Shared>,
}

impl Drop for Side {
    fn drop(&mut self) {
        let mut line = self.shared.line();
        line.over = true;
        let waker = line.waker.take();
        drop(line);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Nobody listens any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl Sender {
    pub fn send(&self, answered: Answered) -> Result<(), Closed> {
        if let Some(waker) = self.push(answered)? {
            waker.wake();
        }
        Ok(())
    }

    /// Leaves an answer there. If the receiver waits, it is for the caller to wake it.
    pub fn push(&self, answered: Answered) -> Result<Option<Waker>, Closed> {
        let mut line = self.side.shared.line();
        if line.closed {
            return Err(Closed);
        }
        line.answers.push_back(answered);
        Ok(line.waker.take())
    }
}

#[derive(Debug)]
pub struct Receiver {
    shared: Arc<Shared>,
    /// Answers that were fetched together, and not yet given.
    taken: VecDeque<Answered>,
}

impl Receiver {
    /// None when nothing is there and nobody is left who could send anything.
    pub async fn recv(&mut self) -> Option<Answered> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answered>> {
        if let Some(answered) = self.taken.pop_front() {
            return Poll::Ready(Some(answered));
        }
        let mut line = self.shared.line();
        std::mem::swap(&mut self.taken, &mut line.answers);
        if let Some(answered) = self.taken.pop_front() {
            return Poll::Ready(Some(answered));
        }
        if line.closed || line.over {
            return Poll::Ready(None);
        }
        if !line.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            line.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// What is there already.
    pub fn try_recv(&mut self) -> Option<Answered> {
        if self.taken.is_empty() {
            std::mem::swap(&mut self.taken, &mut self.shared.line().answers);
        }
        self.taken.pop_front()
    }

    /// Nothing more can be sent. What was sent can still be received.
    pub fn close(&mut self) {
        self.shared.line().closed = true;
    }

    pub fn len(&self) -> usize {
        self.taken.len() + self.shared.line().answers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut line = self.shared.line();
        line.closed = true;
        // Not under the lock: what is dropped may be large.
        let unheard = std::mem::take(&mut line.answers);
        line.waker = None;
        drop(line);
        drop(unheard);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::Failure;

    fn answer(id: u64) -> Answered {
        Answered { id, reply: Err(Failure::Lost) }
    }

    #[derive(Default)]
    struct Wakes(AtomicU64);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn answers_that_are_pushed_wake_nobody_until_their_sender_does() {
        let (sender, mut receiver) = channel();
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(receiver.poll_recv(&mut cx).is_pending());
        let woken = sender.push(answer(1)).unwrap().expect("the receiver waits");
        assert!(sender.push(answer(2)).unwrap().is_none(), "it is woken once for both");
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        woken.wake();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert_eq!(receiver.len(), 2);
        let ids = [receiver.try_recv().unwrap().id, receiver.try_recv().unwrap().id];
        assert_eq!(ids, [1, 2]);
        assert!(receiver.try_recv().is_none());
    }

    #[tokio::test]
    async fn a_receiver_hears_everything_and_then_that_nobody_is_left() {
        let (sender, mut receiver) = channel();
        let other = sender.clone();
        let waiting = tokio::spawn(async move {
            let mut ids = Vec::new();
            while let Some(answered) = receiver.recv().await {
                ids.push(answered.id);
            }
            ids
        });
        tokio::task::yield_now().await;
        sender.send(answer(1)).unwrap();
        drop(sender);
        tokio::task::yield_now().await;
        other.send(answer(2)).unwrap();
        drop(other);
        assert_eq!(waiting.await.unwrap(), [1, 2]);
    }

    #[test]
    fn nothing_can_be_sent_to_a_receiver_that_is_closed_or_gone() {
        let (sender, mut receiver) = channel();
        sender.send(answer(1)).unwrap();
        receiver.close();
        assert_eq!(sender.send(answer(2)), Err(Closed));
        assert_eq!(receiver.try_recv().map(|it| it.id), Some(1));
        assert!(receiver.try_recv().is_none());
        let (sender, receiver) = channel();
        drop(receiver);
        assert_eq!(sender.send(answer(1)), Err(Closed));
    }
}

//! Which calls of a connection have something to do: whoever has news for a call rings its bell, and the connection's task looks after those
//! that rang, and after no others.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// All of one connection.
#[derive(Debug, Default)]
pub(super) struct Bells(Mutex<Rung>);

#[derive(Debug, Default)]
struct Rung {
    streams: Vec<u32>,
    /// What was looked at of what each stream has said.
    released: Vec<(u32, u32)>,
    /// The connection's task, if it sleeps.
    sleeper: Option<Waker>,
}

impl Rung {
    fn is_silent(&self) -> bool {
        self.streams.is_empty() && self.released.is_empty()
    }
}

impl Bells {
    /// Moves what rang to those that are to be looked after, and what was released.
    pub(super) fn hear(&self, streams: &mut Vec<u32>, released: &mut Vec<(u32, u32)>) {
        let mut rung = self.rung();
        streams.append(&mut rung.streams);
        released.append(&mut rung.released);
    }

    /// Whether nothing rang meanwhile. If so, the next that rings wakes the task.
    pub(super) fn sleep(&self, task: &Waker) -> bool {
        let mut rung = self.rung();
        if !rung.is_silent() {
            return false;
        }
        if !rung.sleeper.as_ref().is_some_and(|sleeper| sleeper.will_wake(task)) {
            rung.sleeper = Some(task.clone());
        }
        true
    }

    /// The task has woken up by itself, and need not be woken.
    pub(super) fn is_awake(&self) {
        self.rung().sleeper = None;
    }

    pub(super) fn release(&self, stream: u32, bytes: usize) {
        let bytes = u32::try_from(bytes).expect("no more than a window is said before it is released");
        self.ring(|rung| rung.released.push((stream, bytes)));
    }

    fn ring(&self, note: impl FnOnce(&mut Rung)) {
        let mut rung = self.rung();
        note(&mut rung);
        let sleeper = rung.sleeper.take();
        drop(rung);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }

    fn rung(&self) -> MutexGuard<'_, Rung> {
        // Nothing is left half done in it, whoever panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bell of a call. When that is over it serves another, so it may ring for nothing.
#[derive(Clone, Debug)]
pub(super) struct Bell {
    of: Arc<OfStream>,
    waker: Waker,
}

#[derive(Debug)]
struct OfStream {
    bells: Arc<Bells>,
    stream: AtomicU32,
    has_rung: AtomicBool,
}

impl Bell {
    pub(super) fn new(bells: &Arc<Bells>) -> Self {
        let of = OfStream { bells: bells.clone(), stream: AtomicU32::new(0), has_rung: AtomicBool::new(false) };
        let of = Arc::new(of);
        Self { waker: Waker::from(of.clone()), of }
    }

    pub(super) fn serve(&self, stream: u32) {
        self.of.stream.store(stream, Ordering::Relaxed);
        self.is_heard();
    }

    /// From now on it can ring again. To be said before it is looked what there is.
    pub(super) fn is_heard(&self) {
        // What was before the ring that is taken back is known from here on.
        self.of.has_rung.swap(false, Ordering::SeqCst);
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }
}

impl Wake for OfStream {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.has_rung.swap(true, Ordering::SeqCst) {
            let stream = self.stream.load(Ordering::Relaxed);
            self.bells.ring(|rung| rung.streams.push(stream));
        }
    }
}

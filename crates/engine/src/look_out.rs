//! Hints between the writer and the front end, for callers who take turns: then batches are of a few commands and come one upon the
//! other, and to be woken would take a good part of the time that each takes.
//!
//! They are hints, for all engines of the process: whoever goes by a wrong one looks out in vain for a moment, or is woken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long somebody looks out before it sleeps: whoever takes turns asks again as soon as it is answered. It yields to anybody
/// who has something to do.
pub(crate) const LOOK_OUT: Duration = Duration::from_micros(200);

/// Whether batches are of a few commands each and come one upon the other, as when callers take turns.
static TAKE_TURNS: AtomicBool = AtomicBool::new(false);
/// Whether something was handed over meanwhile that is not yet answered.
static ANSWER_SOON: AtomicBool = AtomicBool::new(false);

/// For a thread of a front end that is about to sleep: if an answer is about to come, it waits for it here. That has an end.
pub fn look_out_for_answers() {
    static LOOKS_OUT: AtomicBool = AtomicBool::new(false);
    if !ANSWER_SOON.load(Ordering::Relaxed) || LOOKS_OUT.swap(true, Ordering::Relaxed) {
        return;
    }
    let began = Instant::now();
    while ANSWER_SOON.load(Ordering::Relaxed) {
        if began.elapsed() > LOOK_OUT {
            answered();
        }
        std::thread::yield_now();
    }
    LOOKS_OUT.store(false, Ordering::Relaxed);
}

/// Something is handed over to the writer.
pub(crate) fn asked() {
    ANSWER_SOON.store(TAKE_TURNS.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// There is no answer to look out for.
pub(crate) fn answered() {
    ANSWER_SOON.store(false, Ordering::Relaxed);
}

pub(crate) fn take_turns(they_do: bool) {
    TAKE_TURNS.store(they_do, Ordering::Relaxed);
}

/// The writer does not look out any more.
pub(crate) fn sleeps() {
    take_turns(false);
    answered();
}

//! Faces: workflows of the public samples that people run today, hosted by Tenure under the same names, with the same signals
//! and payloads, and kept by the same rules as everything else. What each says and hears is pure (`pool`, `lock_manager`,
//! `permit`, over a `book`); `hosted` is all that knows the SDK.

mod book;
mod hosted;
mod lock_manager;
mod past;
mod permit;
mod pool;
mod roster;
mod wire;

use std::collections::BTreeMap;

use tenure_core::{Stamp, Timestamp};

use book::{Book, Dropped};
use wire::{Held, TakesOver};

pub use hosted::{LockManagerWorkflow, PermitSlotWorkflow, ResourcePoolWorkflow, TypeScriptPermitSlotWorkflow};

/// What a start or a continuation says, read but not yet opened.
pub(crate) struct Start<F> {
    pub(crate) face: F,
    /// The run whose holds and waits come first.
    pub(crate) takes_over: Option<TakesOver>,
}

/// A stand-in for a workflow that hands out resources by signals.
pub(crate) trait Face: Sized {
    /// Reads a start input. `mint` gives numbers that nobody can guess.
    fn open(
        workflow_id: &str,
        input: Option<&[u8]>,
        at: Timestamp,
        mint: &mut dyn FnMut() -> u128,
    ) -> Result<Start<Self>, String>;

    fn hear(&mut self, stamp: Stamp, signal: &str, argument: Option<&[u8]>) -> Result<(), Dropped>;

    /// The name of the signal by which a workflow is told what it got.
    fn assign_signal(&self) -> &str;

    /// The start input of the next run.
    fn carry(&self) -> Vec<u8>;

    fn book(&self) -> &Book;

    fn book_mut(&mut self) -> &mut Book;

    /// The answer to `get_current_holders`, itself a start input's `resources`.
    fn holders(&self) -> BTreeMap<String, Option<Held>> {
        self.book().holders().into_iter().collect()
    }
}

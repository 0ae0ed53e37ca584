//! Whether callers take turns: then batches are of a few commands and come one upon the other, because whoever is answered, or whoever is
//! served next, asks again at once. To be woken for that would take as long as the rest, so the writer looks out for it before it sleeps.

use std::time::{Duration, Instant};

/// How long the writer looks out. It yields to anybody who has something to do.
pub(super) const LOOK_OUT: Duration = Duration::from_micros(200);
/// How long a batch that only puts callers in queues waits for company: they cannot go on anyway, and often
/// what comes next is the release they wait for.
pub(super) const LINGER: Duration = Duration::from_micros(200);
/// More than this are not said in turn.
pub(super) const COMMANDS_IN_TURN_MAX: usize = 4;

pub(super) struct Turns {
    /// What came last came soon after a commit.
    in_turn: bool,
    committed: Instant,
    /// So it did, and the last batch was one of few commands.
    taken: bool,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self { in_turn: false, committed: Instant::now(), taken: false }
    }

    /// Whether to look out for the next.
    pub(super) fn are_taken(&self) -> bool {
        self.taken
    }

    /// It was looked out for in vain.
    pub(super) fn missed(&mut self) {
        self.taken = false;
    }

    /// There is mail, or not, and a batch begins.
    pub(super) fn heard(&mut self, mail: bool) {
        self.in_turn = mail && self.committed.elapsed() < LOOK_OUT * 2;
    }

    pub(super) fn closed(&mut self, commands: usize) {
        self.taken = self.in_turn && (1..=COMMANDS_IN_TURN_MAX).contains(&commands);
    }

    pub(super) fn committed(&mut self) {
        self.committed = Instant::now();
    }
}

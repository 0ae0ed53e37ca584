//! Whether callers take turns: then batches are of a few commands and come one upon the other, because whoever is answered, or whoever is
//! served next, asks again at once. To be woken for that would take as long as the rest, so the writer looks out for it before it sleeps.
//! Meanwhile it gives way to other threads, unless they keep what they are given.

use std::time::{Duration, Instant};

use crate::courtesy::BACK_SOON;

/// How long the writer looks out. It yields to anybody who has something to do.
pub(super) const LOOK_OUT: Duration = Duration::from_micros(200);
/// How long a batch that only puts callers in queues waits for company: they cannot go on anyway, and often
/// what comes next is the release they wait for.
pub(super) const LINGER: Duration = Duration::from_micros(200);
/// More than this are not said in turn.
pub(super) const COMMANDS_IN_TURN_MAX: usize = 4;
/// For so many times as long as it took to get the processor back nobody is given way to, which bounds what is lost by it; but not for
/// longer than this, since a machine that was stopped for a while is not one whose processors are wanted.
const ALONE_FACTOR: u32 = 64;
const ALONE_MAX: Duration = Duration::from_secs(10);

pub(super) struct Turns {
    /// What came last came soon after a commit.
    in_turn: bool,
    committed: Instant,
    /// So it did, and the last batch was one of few commands.
    taken: bool,
    /// Until then there are others who keep a processor that they are given.
    crowded_until: Option<Instant>,
    give_way: fn() -> Duration,
}

impl Turns {
    pub(super) fn new(give_way: fn() -> Duration) -> Self {
        Self { in_turn: false, committed: Instant::now(), taken: false, crowded_until: None, give_way }
    }

    /// Whether to look out for the next.
    pub(super) fn are_taken(&self) -> bool {
        self.taken && !self.is_crowded()
    }

    /// Whether others want the processors for longer than it would be worth to wait for, and to keep them from.
    pub(super) fn is_crowded(&self) -> bool {
        self.crowded_until.is_some_and(|until| Instant::now() < until)
    }

    /// To other threads, which may be about to say something.
    pub(super) fn give_way(&mut self) {
        let given = Instant::now();
        if self.crowded_until.is_none_or(|until| given >= until) {
            let took = (self.give_way)();
            self.crowded_until = (took > BACK_SOON).then(|| given + took + (took * ALONE_FACTOR).min(ALONE_MAX));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn given_way_once(took: fn() -> Duration) -> Turns {
        let mut turns = Turns::new(took);
        turns.heard(true);
        turns.closed(1);
        assert!(turns.are_taken());
        turns.give_way();
        turns
    }

    #[test]
    fn where_others_keep_the_processor_they_are_not_given_it_again_and_nobody_looks_out() {
        let mut turns = given_way_once(|| Duration::from_secs(60));
        assert!(turns.is_crowded() && !turns.are_taken());
        turns.give_way = || panic!("it is not tried again so soon");
        turns.give_way();
    }

    #[test]
    fn after_a_long_standstill_they_are_given_it_again_before_long() {
        let turns = given_way_once(|| Duration::from_secs(600));
        let until = turns.crowded_until.unwrap();
        assert!(until <= Instant::now() + Duration::from_secs(610));
    }

    #[test]
    fn where_it_comes_back_soon_it_is_given_away_again() {
        let mut turns = given_way_once(|| BACK_SOON);
        assert!(!turns.is_crowded() && turns.are_taken());
        turns.crowded_until = Some(Instant::now());
        turns.give_way();
        assert_eq!(turns.crowded_until, None, "it has been tried again, and came back soon");
    }
}

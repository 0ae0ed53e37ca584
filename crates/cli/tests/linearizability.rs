//! The checkers of histories that `fencing` uses, on histories whose answer is known: right ones, and wrong ones of every
//! kind that they are there to find; and on many of which it is only known that both must say the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "fencing/history.rs"]
mod history;
#[path = "fencing/porcupine.rs"]
mod porcupine;
mod support {
    #![allow(dead_code, reason = "each test uses its own part of this")]
    pub(crate) mod tools;
}

use std::time::Duration;

use history::{Operation, Stuck, What, check};

const LEASE: Duration = Duration::from_nanos(1_000);
const NEVER: Option<u64> = None;

fn granted(called: u64, answered: u64, token: u64) -> Operation {
    Operation { called, answered: Some(answered), what: What::Granted { token, lease: LEASE } }
}

fn renewed(called: u64, answered: impl Into<Option<u64>>, token: u64) -> Operation {
    Operation { called, answered: answered.into(), what: What::Renewed { token, lease: LEASE } }
}

fn released(called: u64, answered: impl Into<Option<u64>>, token: u64) -> Operation {
    Operation { called, answered: answered.into(), what: What::Released { token } }
}

fn not_held(called: u64, answered: u64, token: u64) -> Operation {
    Operation { called, answered: Some(answered), what: What::NotHeld { token } }
}

fn is_right(history: &[Operation]) {
    check(history, Duration::ZERO).unwrap();
    porcupine_says(history, true);
}

fn is_wrong(history: &[Operation]) {
    check(history, Duration::ZERO).unwrap_err();
    porcupine_says(history, false);
}

/// If it is there; where it must be, another test says.
fn porcupine_says(history: &[Operation], is_right: bool) {
    if let Some(verdicts) = porcupine::check(&[history], Duration::ZERO) {
        assert_eq!(verdicts, [is_right], "{history:?}");
    }
}

#[test]
fn turns_one_after_another_are_right() {
    is_right(&[]);
    is_right(&[granted(0, 1, 1), released(2, 3, 1), granted(4, 5, 2), released(6, 7, 2)]);
}

#[test]
fn an_acquire_that_waited_takes_effect_after_the_release_it_overlaps() {
    let order = check(&[granted(0, 10, 1), granted(1, 40, 2), released(20, 50, 1)], Duration::ZERO);
    assert_eq!(order.unwrap(), [0, 2, 1]);
}

#[test]
fn two_holders_at_once_are_wrong() {
    is_wrong(&[granted(0, 10, 1), granted(20, 30, 2)]);
    is_wrong(&[granted(0, 10, 1), granted(1, 30, 2), released(40, 50, 1)]);
}

#[test]
fn a_lease_that_has_lasted_may_end_and_one_that_has_not_may_not() {
    is_right(&[granted(0, 10, 1), granted(20, 1_001, 2)]);
    is_right(&[granted(0, 10, 1), granted(20, 1_000, 2)]);
    is_wrong(&[granted(0, 10, 1), granted(20, 999, 2)]);
    is_wrong(&[granted(0, 10, 1).with_lease(LEASE * 2), granted(20, 1_001, 2)]);
    // Counted from the call: nobody knows when between call and answer it began.
    is_right(&[granted(0, 900, 1), granted(20, 1_000, 2)]);
}

#[test]
fn a_lease_may_end_earlier_by_the_slack() {
    let history = [granted(0, 10, 1), granted(20, 995, 2)];
    assert_eq!(check(&history, Duration::from_nanos(4)), Err(Stuck { placed: 1, at: 1 }));
    assert!(check(&history, Duration::from_nanos(5)).is_ok());
}

#[test]
fn a_renewed_lease_lasts_from_its_renewal() {
    is_right(&[granted(0, 10, 1), renewed(500, 510, 1), granted(20, 1_500, 2)]);
    is_wrong(&[granted(0, 10, 1), renewed(500, 510, 1), granted(20, 1_499, 2)]);
}

#[test]
fn a_renewal_without_an_answer_may_have_taken_effect_or_not() {
    is_right(&[granted(0, 10, 1), renewed(500, NEVER, 1), granted(20, 1_100, 2)]);
    is_right(&[granted(0, 10, 1), renewed(500, NEVER, 1), renewed(1_400, 1_410, 1)]);
    is_wrong(&[granted(0, 10, 1), renewed(500, NEVER, 1), granted(20, 900, 2)]);
}

#[test]
fn a_release_without_an_answer_may_have_taken_effect_or_not() {
    is_right(&[granted(0, 10, 1), released(20, NEVER, 1), granted(30, 40, 2)]);
    is_right(&[granted(0, 10, 1), released(20, NEVER, 1), renewed(30, 40, 1)]);
    is_wrong(&[granted(0, 10, 1), released(50, NEVER, 1), granted(30, 40, 2)]);
    is_wrong(&[granted(0, 10, 1), released(20, NEVER, 1), granted(30, 40, 2), renewed(50, 60, 1)]);
}

#[test]
fn a_token_that_does_not_rise_is_wrong() {
    is_wrong(&[granted(0, 1, 2), released(2, 3, 2), granted(4, 5, 1)]);
    is_wrong(&[granted(0, 1, 1), released(2, 3, 1), granted(4, 5, 1)]);
}

#[test]
fn a_release_or_a_renewal_of_what_is_over_is_wrong() {
    is_wrong(&[granted(0, 1, 1), released(2, 3, 1), released(4, 5, 1)]);
    is_wrong(&[granted(0, 1, 1), released(2, 3, 1), renewed(4, 5, 1)]);
    is_wrong(&[granted(0, 1, 1), granted(2, 1_100, 2), renewed(1_200, 1_210, 1)]);
    // The bug of etcd 22082: a release of the old one let go of the new one.
    let history = [
        granted(0, 1, 1),
        released(2, 3, 1),
        granted(4, 5, 2),
        released(6, 7, 1),
        granted(8, 9, 3),
        released(10, 11, 3),
    ];
    is_wrong(&history);
}

#[test]
fn not_to_hold_is_right_only_when_the_hold_is_over() {
    is_right(&[granted(0, 1, 1), not_held(1_000, 1_001, 1)]);
    is_right(&[granted(0, 1, 1), released(2, 3, 1), not_held(4, 5, 1)]);
    is_wrong(&[granted(0, 1, 1), not_held(900, 999, 1)]);
    is_wrong(&[granted(0, 1, 1), not_held(2, 3, 1), released(4, 5, 1)]);
}

#[test]
fn an_answer_before_the_cause_is_wrong_though_tokens_and_intervals_fit_otherwise() {
    // The second was granted before the first was even asked for, with the higher token.
    is_wrong(&[granted(100, 110, 1), released(120, 130, 1), granted(0, 10, 2), released(20, 30, 2)]);
}

#[test]
fn a_long_right_history_is_explained_and_one_wrong_answer_in_it_is_found() {
    let mut history = Vec::new();
    for turn in 1..=3_000_u64 {
        let begin = turn * 100;
        // Everybody asked long before, so that many calls are open at every moment.
        history.push(granted(begin.saturating_sub(5_000), begin + 10, turn));
        history.push(renewed(begin + 20, begin + 30, turn));
        let answered = (!turn.is_multiple_of(7)).then_some(begin + 95);
        history.push(released(begin + 40, answered, turn));
    }
    is_right(&history);
    let wrong = history.iter().position(|it| it.what == What::Released { token: 1_500 }).unwrap();
    history[wrong].what = What::NotHeld { token: 1_500 };
    assert_eq!(check(&history, Duration::ZERO).unwrap_err().at, wrong);
    porcupine_says(&history, false);
    history.truncate(wrong);
    is_right(&history);
}

#[test]
fn porcupine_finds_the_same_of_histories_made_at_random() {
    let mut random = Random(6);
    let histories: Vec<_> = (0..4_000).map(|_| random.history()).collect();
    for slack in [Duration::ZERO, LEASE / 4] {
        let all: Vec<_> = histories.iter().map(Vec::as_slice).collect();
        let verdicts = porcupine::check(&all, slack).expect("`cargo xtask tools` has built it");
        for (history, is_right) in histories.iter().zip(&verdicts) {
            assert_eq!(check(history, slack).is_ok(), *is_right, "{history:#?}");
        }
        let right = verdicts.iter().filter(|right| **right).count();
        assert!((1_000..3_000).contains(&right), "{right} are right, which says little of the others");
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// What a lock might have answered, and then a few things of it changed, or none.
    fn history(&mut self) -> Vec<Operation> {
        let (mut now, mut token, mut lease_end) = (1_000, 0, None);
        let mut history = Vec::new();
        for _ in 0..2 + self.below(12) {
            now += 1 + self.below(400);
            let (called, answered) = (now - self.below(300), now + self.below(300));
            if lease_end.is_some_and(|end| end <= now) && self.below(2) == 0 {
                lease_end = None;
            }
            if lease_end.is_none() {
                if token > 0 && self.below(3) == 0 {
                    history.push(not_held(called, answered, 1 + self.below(token)));
                    continue;
                }
                token += 1;
                lease_end = Some(now + 1_000);
                history.push(granted(called, answered, token));
                continue;
            }
            // Without an answer it took effect or not.
            let (is_answered, is_done) = (self.below(4) > 0, self.below(2) == 0);
            let heard = is_answered.then_some(answered);
            let releases = self.below(2) == 0;
            history.push(if releases { released(called, heard, token) } else { renewed(called, heard, token) });
            if is_answered || is_done {
                lease_end = (!releases).then_some(now + 1_000);
            }
        }
        for _ in 0..self.below(4) {
            let at = usize::try_from(self.below(history.len() as u64)).unwrap();
            self.change(&mut history[at], token);
        }
        history
    }

    fn change(&mut self, operation: &mut Operation, token_last: u64) {
        let other = 1 + self.below(token_last);
        match (self.below(3), operation.what, operation.answered) {
            (0, What::Released { token } | What::Renewed { token, .. }, Some(_)) => {
                operation.what = What::NotHeld { token };
            }
            (0, What::NotHeld { token }, _) => operation.what = What::Released { token },
            (1, What::Renewed { .. }, _) => operation.what = What::Renewed { token: other, lease: LEASE },
            (1, What::Released { .. }, _) => operation.what = What::Released { token: other },
            (_, _, Some(answered)) => {
                // At another time, as far as it does not end before it begins.
                let by = self.below(800);
                operation.called = operation.called.saturating_sub(by);
                operation.answered = Some((answered - by.min(answered)).max(operation.called));
            }
            _ => operation.called += self.below(800),
        }
    }
}

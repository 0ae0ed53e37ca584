//! Whether a history of a lock with leases and tokens is linearizable: whether there is an order of its operations, each
//! taking effect at one moment between its call and its answer, in which a simple lock would have answered the same.
//! The search is that of Wing and Gong, with Lowe's memory of where it has been.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// What somebody asked of the lock, and heard. Times are of one clock, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) called: u64,
    /// None if there was no answer: it took effect at some time after the call, or never.
    pub(crate) answered: Option<u64>,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Granted with this token, for at least this long. One without an answer, whose token nobody knows, does not belong
    /// into a history: nothing else in it could depend on that.
    Granted {
        token: u64,
        lease: Duration,
    },
    /// The lease is at least this long from then on.
    Renewed {
        token: u64,
        lease: Duration,
    },
    Released {
        token: u64,
    },
    /// A renewal or a release was refused, because the hold was over.
    NotHeld {
        token: u64,
    },
}

impl Operation {
    pub(crate) fn with_lease(self, lease: Duration) -> Self {
        let what = match self.what {
            What::Granted { token, .. } => What::Granted { token, lease },
            What::Renewed { token, .. } => What::Renewed { token, lease },
            what => what,
        };
        Self { what, ..self }
    }
}

/// The most operations (and ends of leases) that could be put in order, and what stood in the way then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stuck {
    pub(crate) placed: usize,
    /// An operation of the history that was answered without having taken effect in any order tried. Where to begin to look:
    /// it may be another one that is wrong.
    pub(crate) at: usize,
}

/// The lock as it should be. A lease that has lasted long enough may end at any time; nobody says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Lock {
    /// The token, and which operation began the lease that now runs.
    held: Option<(u64, usize)>,
    token_last: u64,
}

#[derive(Clone, Copy)]
enum Move {
    Of(usize),
    /// The end of the lease that this operation began.
    End(usize),
}

impl Lock {
    /// None also for what would lead nowhere: past a lower token that has its turn yet to come, or past something that was
    /// done with the hold and would be too late.
    fn apply(self, list: &List, next: Move) -> Option<Self> {
        let is_held = |token| self.held.is_some_and(|(held, _)| held == token);
        match next {
            Move::End(began) => {
                let (token, _) = self.held.filter(|(_, runs)| *runs == began)?;
                (list.uses_left(token) == 0).then_some(Self { held: None, ..self })
            }
            Move::Of(index) => match list.history[index].what {
                What::Granted { token, .. } => {
                    let is_next = self.token_last == list.token_before[index] && token > self.token_last;
                    (self.held.is_none() && is_next).then_some(Self { held: Some((token, index)), token_last: token })
                }
                What::Renewed { token, .. } => is_held(token).then_some(Self { held: Some((token, index)), ..self }),
                What::Released { token } => {
                    let this = usize::from(list.history[index].answered.is_some());
                    (is_held(token) && list.uses_left(token) == this).then_some(Self { held: None, ..self })
                }
                What::NotHeld { token } => (!is_held(token)).then_some(self),
            },
        }
    }
}

/// Gives the operations that took effect in an order that explains the history. `slack` is how much earlier than
/// its length a lease may end.
pub(crate) fn check(history: &[Operation], slack: Duration) -> Result<Vec<usize>, Stuck> {
    let mut list = List::of(history, slack);
    let mut lock = Lock::default();
    // The set of the moves that were made, as the sum of a random number for each: it is only compared. If two sets
    // had the same sum, a way might be left untried, and a right history be taken for a wrong one, but none for right.
    let mut made = 0_u128;
    let mut seen = HashSet::new();
    let mut way: Vec<(usize, Lock)> = Vec::new();
    let mut stuck = Stuck { placed: 0, at: 0 };
    let mut at = list.first();
    while list.answers_left > 0 {
        match list.steps[at] {
            Step::Call(number) => {
                let after = lock.apply(&list, list.moves[number]);
                let sum = made ^ random(number);
                match after.filter(|after| seen.insert((sum, *after))) {
                    Some(after) => {
                        way.push((number, lock));
                        list.take_out(number);
                        (lock, made) = (after, sum);
                        at = list.first();
                    }
                    None => at = list.next[at],
                }
            }
            // Everything that was called before this answer was tried, and it must have taken effect by now.
            Step::Answer(number) => {
                if way.len() >= stuck.placed {
                    let Move::Of(at) = list.moves[number] else { unreachable!("nobody hears of the end of a lease") };
                    stuck = Stuck { placed: way.len(), at };
                }
                let Some((last, before)) = way.pop() else { return Err(stuck) };
                list.put_back(last);
                lock = before;
                made ^= random(last);
                at = list.next[list.calls[last]];
            }
        }
    }
    let order = way.into_iter().filter_map(|(number, _)| match list.moves[number] {
        Move::Of(index) => Some(index),
        Move::End(_) => None,
    });
    Ok(order.collect())
}

#[derive(Clone, Copy)]
enum Step {
    Call(usize),
    Answer(usize),
}

/// Calls and answers by time, as a list out of which a move is taken when it is made, and put back if that led nowhere.
struct List<'a> {
    history: &'a [Operation],
    /// For each grant, the next lower token that was granted.
    token_before: Vec<u64>,
    /// For each token, how many renewals and releases were answered and are still in the list.
    uses: HashMap<u64, usize>,
    moves: Vec<Move>,
    steps: Vec<Step>,
    /// After each step, and after the head, which is the last; the end is the head too.
    next: Vec<usize>,
    before: Vec<usize>,
    /// The steps of each move.
    calls: Vec<usize>,
    answers: Vec<Option<usize>>,
    answers_left: usize,
}

impl<'a> List<'a> {
    fn of(history: &'a [Operation], slack: Duration) -> Self {
        let mut moves = Vec::new();
        let mut timed = Vec::new();
        for (index, operation) in history.iter().enumerate() {
            // At the same time calls come before answers: what may have overlapped did.
            timed.push((operation.called, 0, Step::Call(moves.len())));
            timed.extend(operation.answered.map(|answered| (answered, 1, Step::Answer(moves.len()))));
            moves.push(Move::Of(index));
            if let What::Granted { lease, .. } | What::Renewed { lease, .. } = operation.what {
                let lasts = u64::try_from(lease.saturating_sub(slack).as_nanos()).unwrap_or(u64::MAX);
                timed.push((operation.called.saturating_add(lasts), 0, Step::Call(moves.len())));
                moves.push(Move::End(index));
            }
        }
        timed.sort_by_key(|(time, order, _)| (*time, *order));
        let head = timed.len();
        let (mut calls, mut answers) = (vec![head; moves.len()], vec![None; moves.len()]);
        for (at, (.., step)) in timed.iter().enumerate() {
            match step {
                Step::Call(number) => calls[*number] = at,
                Step::Answer(number) => answers[*number] = Some(at),
            }
        }
        let next = (0..head).map(|at| at + 1).chain([0]).collect();
        let before = [head].into_iter().chain(0..head).collect();
        let answers_left = answers.iter().flatten().count();
        let steps = timed.into_iter().map(|(.., step)| step).collect();
        let token_before = tokens_before(history);
        let mut list = Self {
            history,
            token_before,
            uses: HashMap::new(),
            moves,
            steps,
            next,
            before,
            calls,
            answers,
            answers_left,
        };
        (0..list.moves.len()).for_each(|number| list.count_use(number, 1));
        list
    }

    fn uses_left(&self, token: u64) -> usize {
        self.uses.get(&token).copied().unwrap_or_default()
    }

    fn count_use(&mut self, number: usize, by: isize) {
        let Move::Of(index) = self.moves[number] else { return };
        let (What::Renewed { token, .. } | What::Released { token }) = self.history[index].what else { return };
        if self.history[index].answered.is_some() {
            let uses = self.uses.entry(token).or_default();
            *uses = uses.checked_add_signed(by).expect("what is taken out was in");
        }
    }

    /// There is one as long as there are answers left.
    fn first(&self) -> usize {
        self.next[self.steps.len()]
    }

    fn take_out(&mut self, number: usize) {
        for at in [Some(self.calls[number]), self.answers[number]].into_iter().flatten() {
            let (before, next) = (self.before[at], self.next[at]);
            (self.next[before], self.before[next]) = (next, before);
        }
        self.answers_left -= usize::from(self.answers[number].is_some());
        self.count_use(number, -1);
    }

    /// The last one that was taken out and is not back yet.
    fn put_back(&mut self, number: usize) {
        for at in [self.answers[number], Some(self.calls[number])].into_iter().flatten() {
            let (before, next) = (self.before[at], self.next[at]);
            (self.next[before], self.before[next]) = (at, at);
        }
        self.answers_left += usize::from(self.answers[number].is_some());
        self.count_use(number, 1);
    }
}

fn tokens_before(history: &[Operation]) -> Vec<u64> {
    let grants = history.iter().enumerate().filter_map(|(index, operation)| match operation.what {
        What::Granted { token, .. } => Some((token, index)),
        _ => None,
    });
    let mut grants: Vec<_> = grants.collect();
    grants.sort_unstable();
    let mut before = vec![0; history.len()];
    for pair in grants.windows(2) {
        before[pair[1].1] = pair[0].0;
    }
    before
}

/// The same for the same number.
fn random(number: usize) -> u128 {
    let half = |seed: u64| {
        let mut mixed = (number as u64 ^ seed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    (u128::from(half(0x5851_f42d_4c95_7f2d)) << 64) | u128::from(half(0x1405_7b7e_f767_814f))
}

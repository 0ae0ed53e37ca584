//! The protected side: refuses a holder that was paused for longer than its lease and comes too late. It needs no server and
//! no connection, only the tokens that callers show; what outlives the process is in the database (`docs/fencing.md`).

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many names take some ten megabytes.
const NAMES_MAX: usize = 100_000;

/// Remembers the highest token for each name, and refuses lower ones. For any number of threads.
///
/// ```
/// use tenure_client::fencing::Fence;
///
/// let fence = Fence::new();
/// assert!(fence.check("report", 7).is_ok());
/// assert!(fence.check("report", 7).is_ok(), "the same holder again");
/// assert!(fence.check("report", 9).is_ok(), "the next one");
/// let stale = fence.check("report", 7).unwrap_err();
/// assert_eq!(stale.to_string(), "token 7 for `report` is stale: 9 was here before");
/// ```
///
/// - **Check and write must be one step for others.** Check while holding whatever lock the thing has in this process, or
///   use [`Fence::check_and`].
/// - **Check before reading what will be written back, too.** Otherwise a late write may come between another's read and
///   write, and be lost.
/// - **Tokens of one server only.** Two servers, or one whose data was thrown away, have counters of their own.
/// - **It forgets with the process.** Tell it what is known from elsewhere by checking that first; or keep the token beside
///   what is protected, and compare there.
///
/// It is bounded. When there are too many names, the one whose token is lowest is forgotten, and from then on no lower token is
/// let through for a name that is not known. So a stale token is never taken for a good one. But someone who has held
/// something for so long that more names than there is room for have come with higher tokens, and who shows the token there for the first
/// time, is refused, and has to acquire again.
#[derive(Debug)]
pub struct Fence {
    seen: Mutex<Seen>,
    names_max: usize,
}

/// A higher token was here before: the hold of whoever comes is over, and what they want to do is not to be done.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("token {token} for `{name}` is stale: {highest} was here before")]
pub struct Stale {
    /// What is protected.
    pub name: String,
    /// What was shown.
    pub token: u64,
    /// What it must not be below: the highest that was seen for the name or, if it is not known, for any that was forgotten.
    pub highest: u64,
}

#[derive(Debug, Default)]
struct Seen {
    highest: HashMap<Arc<str>, u64>,
    /// The same by token, to find the lowest.
    by_token: BTreeSet<(u64, Arc<str>)>,
    /// The highest that was ever forgotten.
    forgotten: u64,
}

impl Default for Fence {
    fn default() -> Self {
        Self::new()
    }
}

impl Fence {
    /// For up to 100,000 names.
    pub fn new() -> Self {
        Self::with_names_max(NAMES_MAX)
    }

    /// For up to so many names, and at least one.
    pub fn with_names_max(names_max: usize) -> Self {
        Self { seen: Mutex::default(), names_max: names_max.max(1) }
    }

    /// Lets the token pass and remembers it, unless a higher one was here before.
    pub fn check(&self, name: &str, token: u64) -> Result<(), Stale> {
        self.check_and(name, token, || ())
    }

    /// Does something if the token passes, as one step: whoever checks meanwhile waits until it is done, for every name. So it
    /// should be quick, and must not check with the same fence.
    pub fn check_and<T>(&self, name: &str, token: u64, act: impl FnOnce() -> T) -> Result<T, Stale> {
        let mut seen = self.seen();
        let highest = seen.highest.get(name).copied().unwrap_or(seen.forgotten);
        if token < highest {
            return Err(Stale { name: name.to_owned(), token, highest });
        }
        seen.remember(name, token, self.names_max);
        Ok(act())
    }

    /// The highest token that was seen for the name, if it is known.
    pub fn highest(&self, name: &str) -> Option<u64> {
        self.seen().highest.get(name).copied()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // What panics is the act, before which everything has been remembered.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn remember(&mut self, name: &str, token: u64, names_max: usize) {
        let name = match self.highest.get_key_value(name) {
            Some((_, &before)) if before == token => return,
            Some((name, &before)) => {
                let name = name.clone();
                self.by_token.remove(&(before, name.clone()));
                name
            }
            None => {
                if self.highest.len() == names_max
                    && let Some((lowest, name)) = self.by_token.pop_first()
                {
                    self.highest.remove(&name);
                    self.forgotten = self.forgotten.max(lowest);
                }
                Arc::from(name)
            }
        };
        self.highest.insert(name.clone(), token);
        self.by_token.insert((token, name));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;

    #[test]
    fn a_lower_token_is_refused_and_changes_nothing() {
        let fence = Fence::new();
        fence.check("report", 7).unwrap();
        let stale = Stale { name: "report".to_owned(), token: 6, highest: 7 };
        assert_eq!(fence.check("report", 6), Err(stale));
        assert_eq!(fence.highest("report"), Some(7));
        fence.check("report", 7).unwrap();
        fence.check("report", 8).unwrap();
        assert_eq!(fence.check("report", 7).unwrap_err().highest, 8);
    }

    #[test]
    fn names_do_not_know_of_each_other() {
        let fence = Fence::new();
        fence.check("report", 7).unwrap();
        fence.check("invoice", 3).unwrap();
        assert_eq!((fence.highest("report"), fence.highest("invoice"), fence.highest("")), (Some(7), Some(3), None));
    }

    #[test]
    fn what_is_refused_is_not_done() {
        let fence = Fence::new();
        assert_eq!(fence.check_and("report", 2, || "done"), Ok("done"));
        let mut done = false;
        fence.check_and("report", 1, || done = true).unwrap_err();
        assert!(!done);
    }

    #[test]
    fn an_act_that_panics_leaves_its_token_behind() {
        let fence = Fence::new();
        catch_unwind(AssertUnwindSafe(|| fence.check_and("report", 2, || panic!("on purpose")))).unwrap_err();
        fence.check("report", 1).unwrap_err();
        fence.check("report", 2).unwrap();
    }

    #[test]
    fn a_token_that_was_forgotten_still_counts() {
        let fence = Fence::with_names_max(2);
        fence.check("a", 5).unwrap();
        fence.check("b", 6).unwrap();
        fence.check("a", 7).unwrap();
        fence.check("c", 8).unwrap();
        // The lowest is b's by now.
        assert_eq!((fence.highest("a"), fence.highest("b"), fence.highest("c")), (Some(7), None, Some(8)));
        assert_eq!(fence.check("b", 5).unwrap_err().highest, 6);
        assert_eq!(
            fence.check("never seen", 5).unwrap_err().highest,
            6,
            "it cannot be told from one that was forgotten"
        );
        fence.check("b", 6).unwrap();
        let seen = fence.seen();
        assert_eq!((seen.highest.len(), seen.by_token.len(), seen.forgotten), (2, 2, 7), "a gave way to b");
    }

    #[test]
    fn a_bounded_fence_lets_nothing_pass_that_an_endless_one_refuses() {
        let (small, endless) = (Fence::with_names_max(3), Fence::new());
        // Any old sequence, the same every time.
        let mut random: u64 = 1;
        let mut passed = 0;
        for token in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let name = ["a", "b", "c", "d", "e", "f", "g"][(random >> 33) as usize % 7];
            let shown = (token / 4 + 8_u64).saturating_sub((random >> 40) % 8);
            if small.check(name, shown).is_ok() {
                endless.check(name, shown).unwrap();
                passed += 1;
            } else {
                // It is remembered by the other one, which is the stricter for it.
                let _ = endless.check(name, shown);
            }
            assert!(small.seen().highest.len() <= 3);
        }
        assert!(passed > 5_000, "it refuses nearly everything: {passed}");
    }

    #[test]
    fn threads_that_write_in_turn_never_write_backwards() {
        let fence = Fence::new();
        let written = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for first in 0..4 {
                let (fence, written) = (&fence, &written);
                scope.spawn(move || {
                    for token in (first..2_000).step_by(4) {
                        let _ = fence.check_and("log", token, || written.lock().unwrap().push(token));
                    }
                });
            }
        });
        let written = written.into_inner().unwrap();
        assert!(written.is_sorted() && written.last() == Some(&1_999), "{written:?}");
    }
}

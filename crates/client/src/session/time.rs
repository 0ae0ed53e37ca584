//! Durations and deadlines: what the server promises in its time, as it can be relied upon in ours.

use std::time::{Duration, Instant};

/// The server counts in whole milliseconds and gives commands that it stores together one time, so that a lease may end
/// two milliseconds before it was asked for; and our own timer wakes up to two late.
const ROUNDING: Duration = Duration::from_millis(5);
/// Two clocks may run at different speeds. One part in a thousand is more than any that is kept in step differs.
const DRIFT: u32 = 1_000;

/// Until when something is certainly there that lasts for `length` and began no earlier than `since`.
pub(crate) fn certain(since: Instant, length: Duration) -> Instant {
    let sure = length.saturating_sub(length / DRIFT).saturating_sub(ROUNDING);
    // A length that the clock cannot say is as good as a year.
    since.checked_add(sure).unwrap_or(since + Duration::from_secs(366 * 24 * 60 * 60))
}

/// As the wire has it. What is less than a millisecond and not nothing is one.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// The server's clock against ours: it said `at_ms` no earlier than `asked`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerTime {
    pub(crate) asked: Instant,
    pub(crate) at_ms: u64,
}

impl ServerTime {
    /// A moment of ours that is certainly not after the server's `deadline_ms`.
    pub(crate) fn before(self, deadline_ms: u64) -> Option<Instant> {
        let left = deadline_ms.checked_sub(self.at_ms)?;
        Some(certain(self.asked, Duration::from_millis(left)))
    }

    /// Whichever of the two lets a deadline be relied upon for longer. A newer answer that took long, because the server
    /// was paused or the network was, says less than an older one that came at once.
    pub(crate) fn or_sharper(self, newer: Self) -> Self {
        match self.before(newer.at_ms) {
            Some(before) if before > newer.asked => self,
            _ => newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_certain_ends_a_little_early() {
        let now = Instant::now();
        let until = certain(now, Duration::from_secs(30));
        assert!(until < now + Duration::from_secs(30));
        assert!(until > now + Duration::from_secs(29));
        assert_eq!(certain(now, Duration::from_millis(3)), now, "too short to be certain of");
        certain(now, Duration::MAX);
    }

    #[test]
    fn a_deadline_of_the_server_is_counted_from_before_it_was_asked_the_time() {
        let asked = Instant::now();
        let time = ServerTime { asked, at_ms: 1_000_000 };
        assert_eq!(time.before(1_030_000), Some(certain(asked, Duration::from_secs(30))));
        assert_eq!(time.before(999_999), None);
    }

    #[test]
    fn an_answer_that_took_long_does_not_replace_one_that_came_at_once() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let quick = ServerTime { asked: at(0), at_ms: 1_000_000 };
        // Asked at 1 s, answered after a pause of 8 s.
        let slow = ServerTime { asked: at(1), at_ms: 1_009_000 };
        assert_eq!(quick.or_sharper(slow).asked, at(0));
        // Asked and answered at 10 s: as good, and newer, so clocks have had less time to differ.
        let newer = ServerTime { asked: at(10), at_ms: 1_010_000 };
        assert_eq!(quick.or_sharper(newer).asked, at(10));
    }

    #[test]
    fn durations_are_not_rounded_to_nothing() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_millis(7)), 7);
        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}

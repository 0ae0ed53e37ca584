//! The clock by which it is reckoned what is certain: it goes on while the host is suspended, as the server's does.
//!
//! An [`Instant`] of the system stands still meanwhile. Here it is brought forward by how long the host has slept, so that
//! the rest of the client goes on reckoning with instants; those that leave the client are taken back by as much.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The connection's thread looks at the clock at least this often: timers stand still too while the host sleeps, and
/// would notice only that much later.
const NAP_MAX: Duration = Duration::from_secs(1);
/// Reading two clocks takes a moment, which is no sleep.
const SLEEP_MIN: Duration = Duration::from_millis(1);

/// How long the host has slept since this process first asked, in nanoseconds.
static SLEPT: AtomicU64 = AtomicU64::new(0);

pub(crate) fn now() -> Instant {
    let slept = slept();
    Instant::now() + slept
}

/// What the system's own clock will say at that moment, if the host does not sleep before it.
pub(crate) fn of_system(at: Instant) -> Instant {
    at.checked_sub(slept()).unwrap_or_else(Instant::now)
}

/// How long to wait before looking at the clock again.
pub(crate) fn nap(now: Instant, until: Instant) -> Duration {
    until.saturating_duration_since(now).min(NAP_MAX)
}

fn slept() -> Duration {
    let known = Duration::from_nanos(SLEPT.load(Ordering::Relaxed));
    let found = longer(known, system::slept());
    SLEPT.fetch_max(u64::try_from(found.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    found
}

/// Changes only by a sleep: the same moment is always the same instant.
fn longer(known: Duration, found: Duration) -> Duration {
    if found >= known + SLEEP_MIN { found } else { known }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    use rustix::time::{ClockId, clock_gettime};

    static START: OnceLock<(Duration, Instant)> = OnceLock::new();

    pub(super) fn slept() -> Duration {
        let now = clocks();
        super::ahead(*START.get_or_init(|| now), now)
    }

    /// The one that counts sleep is read first. If this process is paused between the two, a sleep is found a little
    /// shorter now and in full the next time; a pause at the very start is taken for a sleep, which is safe.
    fn clocks() -> (Duration, Instant) {
        let since_boot = Duration::try_from(clock_gettime(ClockId::Boottime)).expect("the host started before now");
        (since_boot, Instant::now())
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    pub(super) fn slept() -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

/// By how much more the first clock has moved than the second.
#[cfg_attr(not(any(target_os = "linux", target_os = "android", test)), allow(dead_code, reason = "one clock is read"))]
fn ahead(start: (Duration, Instant), now: (Duration, Instant)) -> Duration {
    now.0.saturating_sub(start.0).saturating_sub(now.1.saturating_duration_since(start.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_sleep_is_what_only_one_clock_has_counted() {
        let begun = Instant::now();
        let start = (100 * SECOND, begun);
        assert_eq!(ahead(start, (107 * SECOND, begun + 7 * SECOND)), Duration::ZERO);
        assert_eq!(ahead(start, (132 * SECOND, begun + 7 * SECOND)), 25 * SECOND);
        assert_eq!(ahead(start, (106 * SECOND, begun + 7 * SECOND)), Duration::ZERO, "paused between the two readings");
    }

    #[test]
    fn what_reading_takes_does_not_move_the_clock_and_a_sleep_does() {
        let known = 25 * SECOND;
        assert_eq!(longer(known, known + Duration::from_micros(300)), known);
        assert_eq!(longer(known, Duration::ZERO), known);
        assert_eq!(longer(known, 40 * SECOND), 40 * SECOND);
    }

    #[test]
    fn naps_are_short_enough_to_notice_a_sleep() {
        let now = Instant::now();
        assert_eq!(nap(now, now + 30 * SECOND), NAP_MAX);
        assert_eq!(nap(now, now + SECOND / 4), SECOND / 4);
        assert_eq!(nap(now + SECOND, now), Duration::ZERO);
    }

    #[test]
    fn an_instant_that_leaves_is_as_far_away_as_it_was_here() {
        let (earlier, here, later) = (Instant::now(), of_system(now()), Instant::now());
        assert!(earlier <= here && here <= later, "{earlier:?} {here:?} {later:?}");
        assert_eq!(of_system(here + SECOND) - of_system(here), SECOND);
    }
}

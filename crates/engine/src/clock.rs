//! The one file that reads the operating system's clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tenure_core::Timestamp;

/// The engine's time. It never runs backwards.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;

    /// How long to sleep before `deadline` is reached; none if time passes only when somebody says so.
    fn until(&self, deadline: Timestamp) -> Option<Duration>;
}

/// The wall clock at the start plus monotonic time since: a jump of the wall clock while the server runs
/// ends no lease.
#[derive(Debug)]
pub struct SystemClock {
    start: u64,
    monotonic: Instant,
}

impl SystemClock {
    /// `not_before`: the time of the last thing stored. A wall clock behind it has been set back, and time goes
    /// on from there.
    pub fn start(not_before: Timestamp) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = u64::try_from(wall.as_millis()).expect("milliseconds since 1970 fit in 64 bits");
        Self { start: origin(wall, not_before), monotonic: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let passed = u64::try_from(self.monotonic.elapsed().as_millis()).expect("an uptime fits in 64 bits");
        Timestamp::from_millis(self.start + passed)
    }

    fn until(&self, deadline: Timestamp) -> Option<Duration> {
        Some(sleep(self.now(), deadline))
    }
}

/// From where a process counts, by the wall clock at its start, in milliseconds.
pub fn origin(wall: u64, not_before: Timestamp) -> u64 {
    wall.max(not_before.as_millis())
}

/// How long to sleep for a deadline.
pub fn sleep(now: Timestamp, deadline: Timestamp) -> Duration {
    // One more, because `now` is rounded down: woken a fraction early, the deadline would not be reached.
    let wait = deadline.millis_since(now);
    Duration::from_millis(if wait == 0 { 0 } else { wait + 1 })
}

/// Time as a test tells it.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    pub fn new(start: Timestamp) -> Self {
        Self(AtomicU64::new(start.as_millis()))
    }

    /// Only forwards.
    pub fn advance_to(&self, to: Timestamp) {
        self.0.fetch_max(to.as_millis(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn until(&self, _deadline: Timestamp) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_was_set_back_makes_time_go_on_from_the_last_thing_stored() {
        let stored = SystemClock::start(Timestamp::default()).now() + tenure_core::Ttl::from_millis(3_600_000);
        let clock = SystemClock::start(stored);
        let (first, second) = (clock.now(), clock.now());
        assert!(stored <= first && first <= second);
        assert!(first.millis_since(stored) < 3_600_000, "it does not catch up with anything");
    }

    #[test]
    fn a_deadline_that_is_slept_for_has_been_reached() {
        let clock = SystemClock::start(Timestamp::default());
        let deadline = clock.now() + tenure_core::Ttl::from_millis(5);
        let wait = clock.until(deadline).expect("time passes by itself");
        assert!(wait.as_millis() >= u128::from(deadline.millis_since(clock.now())));
        assert_eq!(clock.until(Timestamp::default()), Some(Duration::ZERO));
    }
}

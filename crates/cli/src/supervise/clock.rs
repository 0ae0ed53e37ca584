//! Points in time that a suspended host does not stretch: by `CLOCK_BOOTTIME`, which goes on while it sleeps, as the
//! server's time does. They mean the same to every process of one host.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{self, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Boottime(Duration);

impl Boottime {
    pub(super) fn now() -> Self {
        Self(clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has had this clock since 2.6.39").into())
    }

    pub(super) fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }

    pub(super) fn minus(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }

    /// How long from `earlier` to this, nothing if it is over.
    pub(super) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub(super) fn millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }
}

/// The two clocks at one moment. An instant does not know how long the host has slept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    instant: Instant,
    boottime: Boottime,
}

impl Moment {
    pub(super) fn now() -> Self {
        // If this is interrupted in between, points in time come out early rather than late.
        let boottime = Boottime::now();
        Self { instant: Instant::now(), boottime }
    }

    /// The point in time of an instant that was reckoned after this moment: if the host has slept since, it counts.
    pub(super) fn boottime(self, instant: Instant) -> Boottime {
        let ahead = instant.saturating_duration_since(self.instant);
        self.boottime.plus(ahead).minus(self.instant.saturating_duration_since(instant))
    }
}

/// Becomes readable at its time, right after waking up if the host slept through it.
#[derive(Debug)]
pub(super) struct Alarm(TimerFd);

impl Alarm {
    pub(super) fn new() -> nix::Result<Self> {
        TimerFd::new(timerfd::ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK).map(Self)
    }

    pub(super) fn set(&self, at: Option<Boottime>) -> nix::Result<()> {
        let Some(at) = at else { return self.0.unset() };
        // Zero would unset it.
        let at = TimeSpec::from(at.0.max(Duration::from_nanos(1)));
        self.0.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_as_far_from_now_by_either_clock() {
        let moment = Moment::now();
        let hour = Duration::from_secs(3600);
        assert_eq!(moment.boottime(moment.instant + hour), moment.boottime.plus(hour));
        assert_eq!(moment.boottime(moment.instant - hour), moment.boottime.minus(hour));
    }

    #[test]
    fn sleep_since_the_moment_counts() {
        let slept = Duration::from_secs(60);
        let now = Moment::now();
        let before = Moment { boottime: now.boottime.minus(slept), ..now };
        let deadline = now.instant + Duration::from_secs(30);
        assert!(before.boottime(deadline) < now.boottime, "it is over");
    }

    #[test]
    fn an_alarm_for_a_time_that_has_passed_goes_off_and_one_that_is_unset_does_not() {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let alarm = Alarm::new().unwrap();
        let rings = |timeout: PollTimeout| poll(&mut [PollFd::new(alarm.as_fd(), PollFlags::POLLIN)], timeout).unwrap();
        alarm.set(Some(Boottime::from_millis(0))).unwrap();
        assert_eq!(rings(PollTimeout::NONE), 1);
        alarm.set(None).unwrap();
        assert_eq!(rings(PollTimeout::ZERO), 0);
    }
}

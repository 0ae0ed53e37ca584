//! When a hold ends, and from that when its command is asked to end, when it is killed, and how often. Wrapper and guard
//! reckon with the same terms, each for itself.

use std::ffi::OsString;
use std::time::Duration;

use super::clock::Boottime;

/// Between two rounds of killing while time is short. A round is a look at all processes of the host.
const ROUND: Duration = Duration::from_millis(5);
const ROUND_MAX: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// From the polite signal to the one that cannot be refused.
    pub(super) grace: Duration,
    /// How long before the deadline everything is gone.
    pub(super) margin: Duration,
    /// None for a hold that does not end by itself.
    pub(super) deadline: Option<Boottime>,
    /// The environment in which `tenure release` releases the hold. Empty if it cannot.
    pub(super) release: Vec<(OsString, OsString)>,
}

impl Terms {
    /// When all are asked to end, unless the hold is renewed.
    pub(super) fn stop_at(&self, deadline: Boottime) -> Boottime {
        deadline.minus(self.margin).minus(self.grace)
    }

    /// Whether that has come.
    pub(super) fn is_over(&self, now: Boottime) -> bool {
        self.deadline.is_some_and(|deadline| now >= self.stop_at(deadline))
    }

    /// When those are killed who were asked at `asked` to end.
    pub(super) fn kill_at(&self, asked: Boottime, deadline: Option<Boottime>) -> Boottime {
        let patient = asked.plus(self.grace);
        deadline.map_or(patient, |deadline| patient.min(deadline.minus(self.margin)))
    }

    /// How long to wait at `now` before those are killed again who have been killed since `since`: not long while they
    /// can be gone in time, and then longer and longer, for what cannot be killed.
    pub(super) fn round(&self, since: Boottime, now: Boottime) -> Duration {
        (now.since(since.plus(self.margin)) / 4).clamp(ROUND, ROUND_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms {
        grace: Duration::from_secs(5),
        margin: Duration::from_secs(1),
        deadline: Some(Boottime::from_millis(30_000)),
        release: Vec::new(),
    };

    #[test]
    fn a_hold_is_over_as_soon_as_its_command_could_not_be_stopped_in_time() {
        assert!(!TERMS.is_over(Boottime::from_millis(23_999)));
        assert!(TERMS.is_over(Boottime::from_millis(24_000)));
        assert!(!Terms { deadline: None, ..TERMS }.is_over(Boottime::from_millis(u64::MAX)));
    }

    #[test]
    fn who_is_asked_late_is_killed_in_time() {
        let kill_at = |asked, deadline| TERMS.kill_at(Boottime::from_millis(asked), deadline).millis();
        assert_eq!(kill_at(10_000, TERMS.deadline), 15_000);
        assert_eq!(kill_at(28_000, TERMS.deadline), 29_000);
        assert_eq!(kill_at(28_000, None), 33_000);
    }

    #[test]
    fn killing_slows_down_only_when_it_is_too_late() {
        let since = Boottime::from_millis(29_000);
        let round = |now| TERMS.round(since, Boottime::from_millis(now));
        assert_eq!(round(29_000), ROUND);
        assert_eq!(round(30_000), ROUND);
        assert_eq!(round(30_200), Duration::from_millis(50));
        assert_eq!(round(60_000), ROUND_MAX);
    }
}

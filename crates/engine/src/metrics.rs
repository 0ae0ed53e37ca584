//! What happened, in figures, once it is durable.

use std::time::Duration;

use metrics::{counter, histogram};
use tenure_core::{Event, HoldEnd, Timestamp, WaitEnd};

use crate::store::Entry;

/// One commit: how long it took, how many commands shared it, and what they brought about.
pub(crate) fn committed(took: Duration, commands: usize, entry: Option<&Entry>) {
    histogram!("tenure_commit_seconds").record(took);
    histogram!("tenure_commit_commands").record(commands as f64);
    let Some(Entry { at, events, .. }) = entry else { return };
    // Looked up once a batch, not once an event.
    let (waits, holds) = (histogram!("tenure_wait_seconds"), histogram!("tenure_hold_seconds"));
    let lasted = |since: Timestamp| at.millis_since(since) as f64 / 1_000.0;
    let mut counted = Counted::default();
    for event in events {
        match event {
            Event::Granted { hold, waiter, .. } => {
                counted.grants += 1;
                if waiter.is_some() {
                    waits.record(lasted(hold.asked));
                }
            }
            Event::Ended { since, how, .. } => {
                *counted.ended(how) += 1;
                holds.record(lasted(*since));
            }
            Event::WaitEnded { how: WaitEnd::TimedOut, .. } => counted.wait_timeouts += 1,
            Event::PolicyFailed { which, .. } => {
                counter!("tenure_policy_failures_total", "script" => which.as_str()).increment(1);
            }
            _ => {}
        }
    }
    counted.tell();
}

/// More commands wait than make full batches.
pub(crate) fn crowded() {
    counter!("tenure_crowds_total").increment(1);
}

#[derive(Default)]
struct Counted {
    grants: u64,
    releases: u64,
    expiries: u64,
    forced: u64,
    other_ends: u64,
    wait_timeouts: u64,
}

impl Counted {
    fn ended(&mut self, how: &HoldEnd) -> &mut u64 {
        match how {
            HoldEnd::Released => &mut self.releases,
            HoldEnd::Expired => &mut self.expiries,
            HoldEnd::Forced(_) | HoldEnd::Stolen { .. } => &mut self.forced,
            HoldEnd::SessionEnded | HoldEnd::OwnerGone | HoldEnd::Withdrawn | HoldEnd::Unreceived => {
                &mut self.other_ends
            }
        }
    }

    fn tell(self) {
        counter!("tenure_grants_total").increment(self.grants);
        counter!("tenure_releases_total").increment(self.releases);
        counter!("tenure_expiries_total").increment(self.expiries);
        counter!("tenure_forced_total").increment(self.forced);
        counter!("tenure_other_ends_total").increment(self.other_ends);
        counter!("tenure_wait_timeouts_total").increment(self.wait_timeouts);
    }
}

//! Between a scenario's words and the types of the rules, for every stage that speaks them.

mod answer;
mod command;

pub use answer::{history, invalid, refused, reply, view};
pub use command::{OwnSession, command, query};
use tenure_core::{Limits, Timestamp, Ttl};

use crate::text::Millis;

/// When scenarios start: any time will do, but not zero, or a forgotten offset would not be noticed.
pub const START: Timestamp = Timestamp::from_millis(1_000_000_000_000);

pub fn instant(at: Millis) -> Timestamp {
    Timestamp::from_millis(START.as_millis() + at)
}

/// The server's bounds with those that a scenario lowers.
pub fn limits(lowered: &[(String, u64)]) -> Limits {
    let mut limits = Limits::default();
    for (name, value) in lowered {
        let count = usize::try_from(*value).expect("a bound of a scenario is small");
        match name.as_str() {
            "pools_max" => limits.pools_max = count,
            "holds_max" => limits.holds_max = count,
            "sessions_max" => limits.sessions_max = count,
            "waiters_per_pool_max" => limits.waiters_per_pool_max = count,
            "waiters_max" => limits.waiters_max = count,
            "pool_idle" => limits.pool_idle = Ttl::from_millis(*value),
            other => panic!("there is no limit `{other}`"),
        }
    }
    limits
}

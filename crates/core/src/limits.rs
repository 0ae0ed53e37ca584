//! Every bound, with a name and a reason. What is past one is refused, never cut short.
//!
//! Sizes of single things are constants. Counts, which an operator may want to change, are [`Limits`].

use crate::time::Ttl;

/// Long enough for a path, a URL or a hash with a prefix; short enough that a million fit in memory.
pub const NAME_BYTES_MAX: usize = 512;
/// A team's name.
pub const NAMESPACE_BYTES_MAX: usize = 64;
/// Room for two UUIDs and a prefix: (workflow, run, activity) makes one id.
pub const REQUEST_ID_BYTES_MAX: usize = 256;
/// Room for a namespace, a workflow id and a run id.
pub const OWNER_BYTES_MAX: usize = 2_048;
/// A sentence or two; it is stored with the event it explains.
pub const NOTE_BYTES_MAX: usize = 1_024;
/// Host, process, user, reason, a link: a dozen and a few.
pub const META_ENTRIES_MAX: usize = 16;
pub const META_NAME_BYTES_MAX: usize = 64;
pub const META_VALUE_BYTES_MAX: usize = 512;
/// Labels and properties of one resource, each counted alone.
pub const LABELS_MAX: usize = 64;
/// Room for a connection string.
pub const LABEL_VALUE_BYTES_MAX: usize = 1_024;
/// A selector a person could still read.
pub const SELECTOR_BYTES_MAX: usize = 1_024;
/// Deeper nesting is an attack on the stack, not a question.
pub const SELECTOR_DEPTH_MAX: usize = 32;
/// A grant lists its resources by name; placement looks at each free one.
pub const RESOURCES_PER_POOL_MAX: usize = 10_000;
/// What LDLM's clients may ask for.
pub const UNITS_MAX: u32 = i32::MAX as u32;
/// Enough steps for any scheme people explain to each other.
pub const PRIORITY_MAX: i16 = 1_000;
pub const PRIORITY_MIN: i16 = -1_000;
/// The clock's own granularity.
pub const TTL_MIN: Ttl = Ttl::from_millis(1);
/// Longer is "kept": a lease nobody would wait for is a leak with a date.
pub const TTL_MAX: Ttl = Ttl::from_millis(366 * 24 * 60 * 60 * 1_000);
/// Where lease defaults of this field have converged: 10 to 30 seconds.
pub const LEASE_DEFAULT: Ttl = Ttl::from_millis(30_000);
pub const GRACE_DEFAULT: Ttl = Ttl::from_millis(30_000);
/// How many due things one expire command ends, or waiters one command serves: a piece that a batch can be closed
/// after.
pub const WORK_PER_COMMAND_MAX: usize = 256;
/// How many holders a refusal names.
pub const HOLDERS_TOLD_MAX: usize = 8;
/// The most entries one page of a listing holds.
pub const PAGE_MAX: usize = 1_000;
/// How many entries one page of a listing looks at, whoever they belong to. All commands wait meanwhile.
pub const LOOKED_AT_MAX: usize = 10_000;
/// Each distinct combination of amount and selector is a lane, and serving looks at the head of each.
pub const LANES_PER_POOL_MAX: usize = 1_024;
/// Of one acquire: whenever one of the pools changes, all of them are looked at.
pub const SET_POOLS_MAX: usize = 16;
/// How many waiting sets of a pool are looked at when something is free. Nobody behind that many is served before one of
/// them is.
pub const SETS_LOOKED_AT_MAX: usize = 256;
/// How many holds and waiters are looked at to find out whether a wait could ever end. Past it nobody is refused for that.
pub const DEADLOCK_LOOKED_AT_MAX: usize = 512;
/// How long an ended request id is remembered, so that a late duplicate cannot take a second hold.
pub const REQUEST_MEMORY: Ttl = Ttl::from_millis(10 * 60 * 1_000);
/// The most ended request ids remembered, oldest forgotten first: about 20 MB.
pub const REQUESTS_REMEMBERED_MAX: usize = 100_000;
/// Holds and waits together: the owner's end is one command, and its work must be bounded.
pub const HOLDS_PER_OWNER_MAX: usize = 1_024;

/// A scheme of tenants that people still understand; all others weigh 1.
pub const WEIGHTS_MAX: usize = 256;
/// Served a thousand times as often as somebody else: more is a priority.
pub const WEIGHT_MAX: u32 = 1_000;
/// How often somebody can be put directly in front of the same waiter: each takes half of the room that is left.
pub const MOVES_BEFORE_ONE_MAX: usize = 31;
/// How many waiters one explanation is about. All commands wait meanwhile.
pub const EXPLAINED_MAX: usize = 100;

/// A script that a person could still read on one screen or two.
pub const SCRIPT_BYTES_MAX: usize = 4_096;
/// What one score may cost, and all scores of one decision together: some milliseconds. All commands wait meanwhile.
pub const CALL_OPERATIONS_MAX: u64 = 10_000;
pub const DECISION_OPERATIONS_MAX: u64 = 200_000;
/// What all scores may cost that a pool's scripts give for what is handed out together, before anything else is heard: some
/// tenths of a second.
pub const HANDOUT_OPERATIONS_MAX: u64 = 2_000_000;
/// What a call costs besides what it does.
pub const CALL_OPERATIONS: u64 = 20;
/// What a score costs that was given before, for the same as far as the script can see.
pub const KNOWN_OPERATIONS: u64 = 1;
/// So many operations count as much as a waiter that was served, against [`WORK_PER_COMMAND_MAX`].
pub const OPERATIONS_PER_WORK: u64 = 1_000;
/// How many of those who wait are scored, the first in the queue; those behind them come after them.
pub const ORDER_LOOKED_AT_MAX: usize = 256;
/// How many of the free resources are scored, the first by the pool's own placement; the others come after them.
pub const PLACE_LOOKED_AT_MAX: usize = 1_024;
/// How many of a pool's resources a script is tried on when it is set.
pub const PROBED_RESOURCES_MAX: usize = 16;
/// How long the made-up request has waited that a script is tried on.
pub const PROBE_WAITED_MS: u64 = 3_600_000;
/// After so many failures since they were set, a pool's scripts are not asked any more.
pub const SCRIPT_FAULTS_MAX: u32 = 100;

/// Counts an operator may change. They bound memory; the defaults suit a server with a few GB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Limits {
    pub pools_max: usize,
    pub holds_max: usize,
    pub sessions_max: usize,
    pub waiters_per_pool_max: usize,
    pub waiters_max: usize,
    /// How long an undeclared pool without holds and waiters keeps its name and size.
    pub pool_idle: Ttl,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pools_max: 2_000_000,
            holds_max: 4_000_000,
            sessions_max: 1_000_000,
            waiters_per_pool_max: 1_000_000,
            waiters_max: 2_000_000,
            pool_idle: Ttl::from_millis(5 * 60 * 1_000),
        }
    }
}

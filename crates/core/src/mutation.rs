//! Deliberate mistakes: the tests of the simulator make one at a time, to show that it would be found. They are made only
//! with the feature `mutations`, which no shipped program has; without it [`Mistake::is_made`] is a constant.

/// A mistake in the rules or in an engine. Those that can be made outside of both are in the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A lease is over one millisecond after its deadline.
    ExpiresLate,
    /// What ends by itself is over one millisecond before its deadline.
    ExpiresEarly,
    /// What comes due next is told without the sessions that end.
    OverlooksSessions,
    /// A lease is given one millisecond less than was asked for.
    GrantsLess,
    /// A place in a rate window is free again one millisecond early.
    EndsWindowsEarly,
    /// A release serves nobody.
    ForgetsTheWaiters,
    /// What is due serves its waiters before all that is due has ended.
    ServesTooSoon,
    /// One unit too many is free.
    MiscountsUnits,
    /// Those behind are given what somebody ahead in a strict queue could use.
    Overtakes,
    /// The same, for named resources.
    IgnoresClaims,
    /// Those who come are given what somebody in a strict queue could use.
    LetsNewcomersPass,
    /// What a waiting set needs is given to those behind it.
    ForgetsTheSets,
    /// A set that ends leaves what it had of its further pools to nobody.
    ServesOnePoolOfASet,
    /// A resource that somebody has is handed out once more.
    HandsOutTwice,
    /// A resource that is drained or quarantined is handed out.
    IgnoresConditions,
    /// A withdrawn wait stays in the queue.
    KeepsWithdrawnWaits,
    /// A grant that nobody received is kept.
    KeepsUnreceivedGrants,
    /// A session ends with its connection.
    IgnoresGrace,
    /// A session's connection is not told of its losses.
    KeepsLossesQuiet,
    /// One caller's hanging up takes a hold from another who was told of it too.
    MiscountsListeners,
    /// A resource that was given back is not noted as used.
    ForgetsUse,
    /// A renewal does not reach the rows.
    ForgetsARow,
    /// Half an entry of the log is taken for a whole one.
    TrustsTornWrites,
    /// Answers are sent before their batch is durable.
    AnswersBeforeTheSync,
    /// Waiters go on as if those who made them were still there after a restart.
    ServesTheAbsent,
    /// What has to be cleaned first is handed out to anybody.
    HandsOutDirty,
    /// What is reserved is handed out to others.
    IgnoresReservations,
    /// In a pool that serves its waiters in turn, they are served in the order in which they came.
    ForgetsTurns,
    /// What was to return to service by itself stays out of it.
    NeverReturns,
    /// What a pool's scripts say is not heard.
    IgnoresScores,
    /// Of those with the same score, the last is served instead of the first.
    TiesGoLast,
    /// A script that fails is not recorded.
    KeepsFaultsQuiet,
    /// A wait that could never end is let in.
    MissesDeadlocks,
    /// The same, if more than two wait for each other.
    SeesShortCyclesOnly,
    /// A pool of which somebody in a cycle has a unit is taken for full.
    IgnoresOtherUnits,
    /// Waits that give up in time are taken to last.
    ForgetsWhoGivesUp,
}

#[cfg(feature = "mutations")]
std::thread_local! {
    static MADE: core::cell::Cell<Option<Mistake>> = const { core::cell::Cell::new(None) };
}

/// From here on this thread makes the mistake.
#[cfg(feature = "mutations")]
pub fn make(mistake: Option<Mistake>) {
    MADE.set(mistake);
}

impl Mistake {
    #[cfg(feature = "mutations")]
    pub fn is_made(self) -> bool {
        MADE.get() == Some(self)
    }

    #[cfg(not(feature = "mutations"))]
    #[inline]
    pub const fn is_made(self) -> bool {
        false
    }
}

//! What an onlooker may see: questions about the state, and answers without any secret.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::command::{Condition, Demand, Lifetime, PoolSpec, ResourceSpec};
use crate::names::*;
use crate::record::HeldPart;
use crate::time::{Timestamp, Ttl};

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Query {
    /// Pools whose name starts with `prefix`, after the name `after`.
    Pools {
        namespace: Namespace,
        prefix: String,
        after: Option<PoolName>,
        limit: usize,
    },
    Pool {
        pool: PoolPath,
    },
    /// Holds of a pool, of a holder, or of everybody, oldest first.
    Holds {
        namespace: Namespace,
        pool: Option<PoolName>,
        holder: Option<HolderId>,
        after: Option<Token>,
        limit: usize,
    },
    Queue {
        pool: PoolPath,
        after: Option<Place>,
        limit: usize,
    },
    Sessions {
        namespace: Namespace,
        after: Option<SessionId>,
        limit: usize,
    },
    /// Outside owners to whom something is bound, in all namespaces: for whoever watches over them.
    Owners {
        after: Option<(Namespace, OwnerId)>,
        limit: usize,
    },
    Stats,
    /// Why those in a pool's queue wait: one of them, or the first of them.
    Explain {
        pool: PoolPath,
        who: Option<Whom>,
        limit: usize,
    },
    /// Waits in all pools of a namespace, oldest first; of one holder if it is named.
    Waits {
        namespace: Namespace,
        holder: Option<HolderId>,
        after: Option<WaiterId>,
        limit: usize,
    },
    /// Whatever has `text` in a name, a label or a holder's metadata, whether in capitals or not.
    Search {
        namespace: Namespace,
        text: alloc::string::String,
        after: Option<FoundAt>,
        limit: usize,
    },
}

/// Which waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Whom {
    Request(RequestId),
    Waiter(WaiterId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum View {
    Pools(Page<PoolView, PoolName>),
    Pool(alloc::boxed::Box<PoolDetail>),
    Holds(Page<HoldView, Token>),
    Queue(Page<WaiterView, Place>),
    Sessions(Page<SessionView, SessionId>),
    Owners(Page<(Namespace, OwnerId), (Namespace, OwnerId)>),
    Stats(Stats),
    Explained(alloc::boxed::Box<Explanation>),
    Waits(Page<WaitView, WaiterId>),
    Search(Page<Found, FoundAt>),
}

/// Some of many; `next` is where to go on. Only without it are there no more: a listing looks at a bounded
/// number of entries, so a page may have few items, or none, and still a `next`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Page<T, C> {
    pub items: Vec<T>,
    pub next: Option<C>,
}

/// A place in a queue: higher priority first, then rank, which is arrival unless the pool serves its waiters in turn or an
/// operator has moved somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Place {
    // One by one and not as a `Rank`, which would make every entry of every queue larger.
    priority: core::cmp::Reverse<Priority>,
    turn: i64,
    within: u32,
    arrival: WaiterId,
}

/// Where a waiter stands among those of its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rank {
    /// The lower comes first.
    pub turn: i64,
    /// Among those with the same turn. There is room below for those who are put in front.
    pub within: u32,
}

impl Rank {
    /// Of everybody who was not put in front of somebody.
    pub const WITHIN: u32 = 1 << 31;

    pub const fn at(turn: i64) -> Self {
        Self { turn, within: Self::WITHIN }
    }
}

impl Place {
    /// In the order of arrival.
    pub fn new(priority: Priority, arrival: WaiterId) -> Self {
        Self::ranked(priority, Rank::at(i64::try_from(arrival.0).unwrap_or(i64::MAX)), arrival)
    }

    pub fn ranked(priority: Priority, rank: Rank, arrival: WaiterId) -> Self {
        Self { priority: core::cmp::Reverse(priority), turn: rank.turn, within: rank.within, arrival }
    }

    /// After everybody of a priority.
    pub(crate) fn end_of(priority: Priority) -> Self {
        Self::ranked(priority, Rank { turn: i64::MAX, within: u32::MAX }, WaiterId(u64::MAX))
    }

    pub fn priority(&self) -> Priority {
        self.priority.0
    }

    pub fn rank(&self) -> Rank {
        Rank { turn: self.turn, within: self.within }
    }

    pub fn arrival(&self) -> WaiterId {
        self.arrival
    }

    /// Whether it is not where its arrival would put it.
    pub fn is_ranked(&self) -> bool {
        *self != Self::new(self.priority.0, self.arrival)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HoldView {
    pub pool: PoolPath,
    pub token: Token,
    pub holder: Arc<Holder>,
    pub units: u32,
    pub resources: Vec<ResourceName>,
    pub lifetime: Lifetime,
    pub since: Timestamp,
    pub deadline: Option<Timestamp>,
    pub session: Option<SessionId>,
    /// What it has of further pools, if it is a set.
    pub also: Vec<HeldPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WaiterView {
    pub id: WaiterId,
    pub place: Place,
    /// From 1; none while the waiter's session is away, when it is passed over but keeps its place.
    pub position: Option<usize>,
    pub holder: Arc<Holder>,
    pub demand: Demand,
    pub since: Timestamp,
    pub deadline: Option<Timestamp>,
    pub session: Option<SessionId>,
    pub request: Option<RequestId>,
    /// What it wants of further pools, if it is a set.
    pub also: Vec<(PoolPath, Demand)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PoolView {
    pub pool: PoolPath,
    pub named: bool,
    /// Units, or resources that are not leaving.
    pub size: u32,
    pub used: u32,
    pub holds: usize,
    pub waiters: usize,
    /// When the waiter that has waited longest came.
    pub waiting_since: Option<Timestamp>,
    pub condition: Condition,
    pub removing: bool,
    pub declared: bool,
    pub window: Option<Ttl>,
    /// When it returns to service by itself.
    pub until: Option<Timestamp>,
    /// Resources that nobody holds and that have to be cleaned.
    pub dirty: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PoolDetail {
    pub summary: PoolView,
    pub spec: PoolSpec,
    pub resources: Vec<ResourceView>,
    /// How often its scripts have failed since they were set.
    pub script_faults: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ResourceView {
    pub spec: ResourceSpec,
    pub condition: Condition,
    /// It is no longer part of the pool and vanishes when it is let go.
    pub leaving: bool,
    pub hold: Option<Token>,
    pub last_used: Option<Timestamp>,
    /// When it returns to service by itself.
    pub until: Option<Timestamp>,
    /// It has to be cleaned before it is handed out again, or is being cleaned.
    pub dirty: bool,
    pub reserved: Option<Reservation>,
}

/// A resource is kept for a holder to come.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reservation {
    pub holder: HolderId,
    pub until: Option<Timestamp>,
    pub reason: Note,
}

/// Why somebody waits, and what would let it in, in plain sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Explanation {
    /// About the pool as a whole.
    pub pool: Vec<String>,
    pub waiters: Vec<WaiterExplained>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WaiterExplained {
    pub waiter: WaiterView,
    pub sentences: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SessionView {
    pub id: SessionId,
    pub holder: Arc<Holder>,
    pub grace: Ttl,
    /// Whether a connection carries it.
    pub attached: bool,
    pub deadline: Option<Timestamp>,
    pub holds: usize,
    pub waiters: usize,
}

/// Totals over all namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stats {
    pub pools: usize,
    pub holds: usize,
    pub waiters: usize,
    pub sessions: usize,
    /// The number of the last event.
    pub seq: Seq,
}

/// Somebody who waits, and for which pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WaitView {
    pub pool: PoolPath,
    pub waiter: WaiterView,
}

/// Where in a search something stands: pools first, each before its resources, then holds, waits and sessions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FoundAt {
    Pool(PoolName, Option<ResourceName>),
    Hold(Token),
    Wait(WaiterId),
    Session(SessionId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Found {
    pub at: FoundAt,
    /// The pool that is held or waited for.
    pub pool: Option<PoolName>,
    /// Who holds or waits, or whose session it is.
    pub holder: Option<Arc<Holder>>,
    /// The label or metadata that has the text, if it is not the name.
    pub because: Option<(alloc::string::String, alloc::string::String)>,
}

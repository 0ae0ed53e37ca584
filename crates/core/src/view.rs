//! What an onlooker may see: questions about the state, and answers without any secret.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::command::{Condition, Demand, Lifetime, PoolSpec, ResourceSpec};
use crate::names::*;
use crate::time::{Timestamp, Ttl};

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Query {
    /// Pools whose name starts with `prefix`, after the name `after`.
    Pools {
        namespace: Namespace,
        prefix: alloc::string::String,
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

/// A place in a queue: higher priority first, then arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Place {
    priority: core::cmp::Reverse<Priority>,
    arrival: WaiterId,
}

impl Place {
    pub fn new(priority: Priority, arrival: WaiterId) -> Self {
        Self { priority: core::cmp::Reverse(priority), arrival }
    }

    pub fn priority(&self) -> Priority {
        self.priority.0
    }

    pub fn arrival(&self) -> WaiterId {
        self.arrival
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
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PoolDetail {
    pub summary: PoolView,
    pub spec: PoolSpec,
    pub resources: Vec<ResourceView>,
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

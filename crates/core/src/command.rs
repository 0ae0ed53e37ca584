//! What callers, operators and the driver ask of the machine.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::fair::FairShare;
use crate::limits::SET_POOLS_MAX;
use crate::names::*;
use crate::policy::Scripts;
use crate::selector::Selector;
use crate::time::Ttl;

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    Acquire(Acquire),
    Renew(Renew),
    Release(Release),
    /// Ends a request at whatever stage it is: afterwards it neither waits nor holds, and never will.
    Withdraw {
        namespace: Namespace,
        request: RequestId,
    },
    /// Ends a hold as an operator, only if `holder` still has it with `token`.
    ForceRelease(ForceRelease),
    /// Says that an outside owner is gone: its bound holds end, and so do the waits for more of them.
    OwnerGone {
        namespace: Namespace,
        owner: OwnerId,
    },

    OpenSession(OpenSession),
    /// Moves the end of a session that no connection carries to a grace from now.
    KeepAlive {
        namespace: Namespace,
        session: Key,
    },
    /// A connection takes the session over: it does not end while the connection lives.
    AttachSession {
        namespace: Namespace,
        session: Key,
    },
    /// The connection is gone: the session ends after its grace unless it is attached again.
    /// Only if `attachment` is still the latest: a client may be back before its old connection is missed.
    DetachSession {
        session: SessionId,
        attachment: u64,
    },
    EndSession {
        namespace: Namespace,
        session: Key,
    },

    /// Declares a pool, or changes a declared or undeclared one.
    SetPool(SetPool),
    /// Drains, quarantines or returns a pool, or one of its resources.
    SetCondition(SetCondition),
    /// No new holds or waiters; the pool vanishes with its last hold.
    RemovePool {
        pool: PoolPath,
    },

    /// The driver's: ends what is due, a bounded amount of it.
    Expire,
    /// The driver's, once after recovery: callers of the process before are gone, sessions get their grace again.
    Restart,
    /// The driver's: nobody listens for what comes of a wait any more. If the caller may come back, by its session
    /// and request id, the waiter keeps its place but is passed over; else it leaves the queue.
    Abandon {
        waiter: WaiterId,
        may_return: bool,
    },
    /// The driver's: a grant could not be handed to its caller.
    TakeBack {
        token: Token,
    },

    /// Takes a hold from one holder and gives it to another, as an operator, only if the first still has it with `token`.
    Steal(Steal),
    /// Puts a waiter in front of another, or of all, as an operator, only if both still wait.
    MoveWaiter(MoveWaiter),
    /// Keeps a resource for a holder to come.
    Reserve(Reserve),
    /// Ends a reservation, only if it is still that holder's.
    Unreserve(Unreserve),
    /// Changes a pool, only if it is still as the operator saw it.
    ChangeSeen {
        seen: Seen,
        change: Change,
    },
}

/// How a pool is changed.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Change {
    Pool(SetPool),
    Condition(SetCondition),
}

/// What an operator saw of a pool, or of one of its resources. What is left out may be anything.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Seen {
    pub pool: PoolPath,
    /// Whose condition was seen; the whole pool's if left out.
    pub resource: Option<ResourceName>,
    pub size: Option<u32>,
    pub state: Option<ConditionState>,
}

/// A condition without its note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ConditionState {
    InService,
    Drained,
    Quarantined,
}

impl Condition {
    pub fn state(&self) -> ConditionState {
        match self {
            Self::InService => ConditionState::InService,
            Self::Drained(_) => ConditionState::Drained,
            Self::Quarantined(_) => ConditionState::Quarantined,
        }
    }
}

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Acquire {
    pub pool: PoolPath,
    pub demand: Demand,
    /// The size the caller believes the pool to have: an unknown pool is created with it (1 if absent), a
    /// known one must have it.
    pub size: Option<u32>,
    /// If absent: the pool's window if it has one, else the session if there is one, else a lease of
    /// [`crate::LEASE_DEFAULT`].
    pub lifetime: Option<Lifetime>,
    pub wait: Wait,
    pub priority: Priority,
    pub holder: Arc<Holder>,
    /// The wait ends with it, and so does the hold if its lifetime says so.
    pub session: Option<Key>,
    pub request: Option<RequestId>,
    /// What is wanted of further pools: all of it is granted together, or none of it. See [`Part::parse_all`].
    pub also: Box<[Part]>,
    /// While this waits its holder, whoever else has that id, lets go of nothing it holds. Only such waits can be part of a
    /// deadlock, and are refused if they would be.
    pub holds_on: bool,
}

impl Acquire {
    /// What it wants, of the first pool first.
    pub fn parts(&self) -> impl Iterator<Item = (&PoolPath, &Demand)> {
        core::iter::once((&self.pool, &self.demand)).chain(self.also.iter().map(|part| (&part.pool, &part.demand)))
    }
}

/// What an acquire over several pools wants of one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Part {
    pub pool: PoolPath,
    pub demand: Demand,
    /// See [`Acquire::size`].
    pub size: Option<u32>,
}

impl Part {
    /// The parts that an acquire may have beside its first pool: each of another pool of the same namespace.
    pub fn parse_all(first: &PoolPath, parts: Vec<Self>) -> Result<Box<[Self]>, Invalid> {
        if parts.len() >= SET_POOLS_MAX {
            return Err(Invalid::new("also", format!("makes more than {SET_POOLS_MAX} pools at once")));
        }
        for (at, part) in parts.iter().enumerate() {
            if part.pool.namespace() != first.namespace() {
                return Err(Invalid::new("also", format!("`{}` is in another namespace", part.pool.name())));
            }
            if part.pool == *first || parts[..at].iter().any(|before| before.pool == part.pool) {
                return Err(Invalid::new("also", format!("names pool `{}` twice", part.pool.name())));
            }
        }
        Ok(parts.into())
    }
}

/// How much of what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Demand {
    pub amount: Amount,
    /// Only for pools of named resources.
    pub selector: Option<Selector>,
    /// Asks for resources that have to be cleaned, in order to clean them: a release returns them clean.
    pub dirty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Amount {
    /// At least one.
    Count(u32),
    /// Everything there is (that the selector matches): the writer of a read-write lock.
    All,
}

/// What ends a hold, besides its release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Lifetime {
    /// Ends unless renewed.
    Leased(Ttl),
    /// Ends with the client's session and, if it has a time, after that unless renewed. A renewal while the session is
    /// away makes it a lease: whoever renews it is alive, though the session may not be.
    Session(Option<Ttl>),
    /// Ends after a fixed time and cannot be released early: a place in a rate window.
    Window(Ttl),
    /// Only its release.
    Kept,
    /// Ends with something outside, such as a workflow.
    Bound(OwnerId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Wait {
    /// Now or not at all.
    Try,
    For(Ttl),
    Forever,
}

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Renew {
    pub namespace: Namespace,
    pub key: Key,
    /// If given, the hold must be one of this pool.
    pub pool: Option<PoolName>,
    /// If absent, the hold's own length again.
    pub ttl: Option<Ttl>,
}

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Release {
    pub namespace: Namespace,
    pub key: Key,
    /// If given, the hold must be one of this pool.
    pub pool: Option<PoolName>,
}

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ForceRelease {
    pub pool: PoolPath,
    pub holder: HolderId,
    pub token: Token,
    pub reason: Note,
}

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Steal {
    pub pool: PoolPath,
    /// Who is believed to hold it, and with which token.
    pub holder: HolderId,
    pub token: Token,
    /// Who gets it.
    pub to: Arc<Holder>,
    /// If absent: a lease of [`crate::LEASE_DEFAULT`]. It cannot be that of a session, or a place in a rate window.
    pub lifetime: Option<Lifetime>,
    /// Makes a retry safe, as for [`Acquire`].
    pub request: Option<RequestId>,
    pub reason: Note,
}

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MoveWaiter {
    pub pool: PoolPath,
    pub waiter: WaiterId,
    /// Who is believed to wait there.
    pub holder: HolderId,
    /// Directly before this one, with its priority; None: before everybody.
    pub before: Option<WaiterId>,
    pub reason: Note,
}

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reserve {
    pub pool: PoolPath,
    pub resource: ResourceName,
    /// Only requests of this holder get it, until one did.
    pub holder: HolderId,
    /// How long, if nobody comes for it; for as long as it takes if absent.
    pub lasts: Option<Ttl>,
    /// For whom it is believed to be reserved already; None: for nobody.
    pub instead_of: Option<HolderId>,
    pub reason: Note,
}

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Unreserve {
    pub pool: PoolPath,
    pub resource: ResourceName,
    /// For whom it is believed to be reserved.
    pub holder: HolderId,
    pub reason: Note,
}

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OpenSession {
    pub namespace: Namespace,
    pub holder: Arc<Holder>,
    /// How long it outlives its connection, or its last keep-alive.
    pub grace: Ttl,
    /// Whether a connection carries it from the start.
    pub attached: bool,
    /// Whether it outlives its connection at least as long as what it then holds has time left.
    pub outlasts_holds: bool,
}

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SetPool {
    pub pool: PoolPath,
    pub spec: PoolSpec,
}

/// What a pool is meant to be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PoolSpec {
    pub capacity: Capacity,
    pub order: Order,
    /// Every hold of the pool is a place in a window of this length.
    pub window: Option<Ttl>,
    /// False for a pool that came to be on first use and may vanish when idle.
    pub declared: bool,
    /// Only for pools of named resources: what was held is dirty, and handed out again only when it has been cleaned.
    pub cleaning: bool,
    /// How waiters of the same priority take turns; in the order in which they came if absent.
    pub fair: Option<FairShare>,
    /// The user's own code, which says what is granted and who is served first.
    pub scripts: Scripts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Capacity {
    Units(u32),
    Resources { placement: Placement, resources: Vec<ResourceSpec> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ResourceSpec {
    pub name: ResourceName,
    /// To choose by.
    pub labels: Labels,
    /// Told to whoever is granted it.
    pub properties: Labels,
}

/// Which of the free resources that fit is granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Placement {
    /// In the order they were declared.
    #[default]
    First,
    LeastRecentlyUsed,
    MostRecentlyUsed,
    Random,
    /// The one whose value of this label is in use least.
    Spread(LabelName),
}

/// Who may be served while the head of the queue cannot be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Order {
    /// Nobody who wants something the head could use.
    #[default]
    Strict,
    /// Whoever fits.
    Backfill,
}

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SetCondition {
    pub pool: PoolPath,
    /// None: the whole pool.
    pub resource: Option<ResourceName>,
    pub condition: Condition,
    /// After this it returns to service by itself. Not for what is in service.
    pub lasts: Option<Ttl>,
}

/// Whether a pool or a resource is handed out. Holds there are go on in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Condition {
    #[default]
    InService,
    /// Finishing, for a planned reason.
    Drained(Option<Note>),
    /// Suspected broken.
    Quarantined(Note),
}

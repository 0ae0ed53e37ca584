//! What happened. Events are the only thing that changes state, and what the log, the history and every
//! watcher see. They hold whole facts, so that a reader of the history needs nothing else.

use alloc::boxed::Box;
use alloc::sync::Arc;

use crate::command::{Condition, PoolSpec};
use crate::names::*;
use crate::policy::Which;
use crate::record::{Hold, Waiter};
use crate::time::{Timestamp, Ttl};
use crate::view::Rank;

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Event {
    Queued {
        id: WaiterId,
        waiter: Box<Waiter>,
    },
    /// `waiter` is the one that was served; none for a request that found room at once.
    Granted {
        token: Token,
        hold: Box<Hold>,
        waiter: Option<WaiterId>,
    },
    Renewed {
        token: Token,
        pool: PoolPath,
        holder: HolderId,
        ttl: Ttl,
        deadline: Timestamp,
        /// The session that it does not end with any more, because that was away: the hold is a lease from here on.
        adopted_from: Option<SessionId>,
    },
    Ended {
        token: Token,
        pool: PoolPath,
        holder: HolderId,
        /// The session in which it was acquired, whether or not it would have ended with it. What was written before
        /// this was noted has none.
        session: Option<SessionId>,
        /// When it was granted.
        since: Timestamp,
        how: HoldEnd,
        /// The further pools of a set, of which it had something that ended with it.
        also: Box<[PoolPath]>,
    },
    WaitEnded {
        id: WaiterId,
        pool: PoolPath,
        holder: HolderId,
        /// When it came.
        since: Timestamp,
        how: WaitEnd,
        /// The further pools of a set.
        also: Box<[PoolPath]>,
    },
    /// The session lost its connection: the waiter is passed over, but keeps its place.
    WaiterAway {
        id: WaiterId,
        pool: PoolPath,
        holder: HolderId,
    },
    /// The acquire was made again, with the same request id.
    WaiterBack {
        id: WaiterId,
        pool: PoolPath,
        holder: HolderId,
    },
    /// A request that had not arrived was withdrawn; should it still arrive, it is refused.
    RequestWithdrawn {
        namespace: Namespace,
        request: RequestId,
    },

    SessionOpened {
        id: SessionId,
        namespace: Namespace,
        key: Key,
        holder: Arc<Holder>,
        grace: Ttl,
        attached: bool,
        outlasts_holds: bool,
    },
    SessionKept {
        id: SessionId,
        deadline: Timestamp,
    },
    SessionAttached {
        id: SessionId,
        namespace: Namespace,
        holder: HolderId,
    },
    SessionDetached {
        id: SessionId,
        namespace: Namespace,
        holder: HolderId,
        deadline: Timestamp,
    },
    /// Asked to end: nothing more is done for it, and its holds and waits are being ended.
    SessionClosing {
        id: SessionId,
        namespace: Namespace,
        holder: HolderId,
    },
    SessionEnded {
        id: SessionId,
        namespace: Namespace,
        holder: HolderId,
    },

    PoolSet {
        pool: PoolPath,
        spec: PoolSpec,
        created: bool,
    },
    ConditionSet {
        pool: PoolPath,
        resource: Option<ResourceName>,
        condition: Condition,
        /// When it returns to service by itself.
        until: Option<Timestamp>,
        /// It has returned by itself.
        automatic: bool,
    },
    /// It takes nobody any more and vanishes with its last hold.
    PoolRemoving {
        pool: PoolPath,
    },
    PoolGone {
        pool: PoolPath,
    },

    /// A server process took the data over.
    Restarted,

    /// A resource is kept for a holder to come. The grant that gives it to that holder ends this.
    Reserved {
        pool: PoolPath,
        resource: ResourceName,
        holder: HolderId,
        until: Option<Timestamp>,
        reason: Note,
    },
    /// Nobody came for it.
    ReservationEnded {
        pool: PoolPath,
        resource: ResourceName,
        holder: HolderId,
        how: ReservationEnd,
    },
    /// An operator put a waiter in front of another, or of all.
    WaiterMoved {
        id: WaiterId,
        pool: PoolPath,
        holder: HolderId,
        before: Option<WaiterId>,
        /// Where it stands now.
        priority: Priority,
        rank: Rank,
        reason: Note,
    },
    /// A script of the pool gave no score, and what was to be decided was decided without it.
    PolicyFailed {
        pool: PoolPath,
        which: Which,
        why: Note,
        /// It was one time too many: the pool's scripts are not asked any more, until it is set again.
        set_aside: bool,
    },
}

/// Why a hold is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum HoldEnd {
    Released,
    /// Its deadline passed.
    Expired,
    SessionEnded,
    OwnerGone,
    /// By an operator, who gave a reason.
    Forced(Note),
    /// Its request was withdrawn after it was granted.
    Withdrawn,
    /// The caller was gone when the grant came.
    Unreceived,
    /// An operator gave it to somebody else, who has it by the grant that follows.
    Stolen {
        to: HolderId,
        reason: Note,
    },
}

/// Why a reservation is over though nobody was granted what it was for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ReservationEnd {
    /// By an operator, who gave a reason.
    Cancelled(Note),
    /// Its time passed.
    Expired,
}

/// Why a wait ended without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum WaitEnd {
    TimedOut,
    Withdrawn,
    SessionEnded,
    /// What its hold would have been bound to is gone.
    OwnerGone,
    /// The caller hung up, or the server it was connected to stopped.
    CallerGone,
    /// The pool changed, and what was asked can no longer fit.
    NeverFits,
    PoolRemoved,
}

impl Event {
    /// The team whose history this belongs to; none for the server's own.
    pub fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::RequestWithdrawn { namespace, .. }
            | Self::SessionOpened { namespace, .. }
            | Self::SessionAttached { namespace, .. }
            | Self::SessionDetached { namespace, .. }
            | Self::SessionClosing { namespace, .. }
            | Self::SessionEnded { namespace, .. } => Some(namespace),
            _ => self.pool().map(PoolPath::namespace),
        }
    }

    pub fn pool(&self) -> Option<&PoolPath> {
        match self {
            Self::Queued { waiter, .. } => Some(&waiter.pool),
            Self::Granted { hold, .. } => Some(&hold.pool),
            Self::Renewed { pool, .. }
            | Self::Ended { pool, .. }
            | Self::WaitEnded { pool, .. }
            | Self::WaiterAway { pool, .. }
            | Self::WaiterBack { pool, .. }
            | Self::PoolSet { pool, .. }
            | Self::ConditionSet { pool, .. }
            | Self::PoolRemoving { pool }
            | Self::PoolGone { pool }
            | Self::Reserved { pool, .. }
            | Self::ReservationEnded { pool, .. }
            | Self::WaiterMoved { pool, .. }
            | Self::PolicyFailed { pool, .. } => Some(pool),
            Self::RequestWithdrawn { .. }
            | Self::SessionOpened { .. }
            | Self::SessionKept { .. }
            | Self::SessionAttached { .. }
            | Self::SessionDetached { .. }
            | Self::SessionClosing { .. }
            | Self::SessionEnded { .. }
            | Self::Restarted => None,
        }
    }

    /// The pools that it concerns: several, if it is about a set.
    pub fn pools(&self) -> impl Iterator<Item = &PoolPath> {
        let (waited, held, ended) = match self {
            Self::Queued { waiter, .. } => (&waiter.also[..], &[][..], &[][..]),
            Self::Granted { hold, .. } => (&[][..], &hold.also[..], &[][..]),
            Self::Ended { also, .. } | Self::WaitEnded { also, .. } => (&[][..], &[][..], &also[..]),
            _ => Default::default(),
        };
        // A place in a rate window has an event of its own.
        let held = held.iter().filter(|part| part.until.is_none()).map(|part| &part.pool);
        self.pool().into_iter().chain(waited.iter().map(|part| &part.pool)).chain(held).chain(ended)
    }

    /// Whom it happened to.
    pub fn holder(&self) -> Option<&HolderId> {
        match self {
            Self::Queued { waiter, .. } => Some(&waiter.holder.id),
            Self::Granted { hold, .. } => Some(&hold.holder.id),
            Self::SessionOpened { holder, .. } => Some(&holder.id),
            Self::Renewed { holder, .. }
            | Self::Ended { holder, .. }
            | Self::WaitEnded { holder, .. }
            | Self::WaiterAway { holder, .. }
            | Self::WaiterBack { holder, .. }
            | Self::Reserved { holder, .. }
            | Self::ReservationEnded { holder, .. }
            | Self::WaiterMoved { holder, .. }
            | Self::SessionAttached { holder, .. }
            | Self::SessionDetached { holder, .. }
            | Self::SessionClosing { holder, .. }
            | Self::SessionEnded { holder, .. } => Some(holder),
            _ => None,
        }
    }
}

//! What a command is answered with.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::command::{Lifetime, ResourceSpec};
use crate::event::HoldEnd;
use crate::names::*;
use crate::refusal::Refusal;
use crate::time::{Timestamp, Ttl};

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Reply {
    Granted(Box<Grant>),
    /// In the queue; the grant, or the end of the wait, follows.
    Queued(Queued),
    Renewed {
        token: Token,
        deadline: Timestamp,
        ttl: Ttl,
    },
    Released {
        token: Token,
    },
    /// The request neither waits nor holds any more (it may never have).
    Withdrawn,
    /// An owner's holds ended, this many of them.
    OwnerGone {
        holds: usize,
    },
    Session(SessionOpen),
    /// To whoever carries a session: a hold of it is over. Shared, so that the sender can see which are not heard yet.
    Lost(Arc<HoldLost>),
    /// Done, and there is nothing to tell.
    Done,
    /// Whether the pool had to be made.
    PoolSet {
        created: bool,
    },
    /// Gone at once, or as soon as its holds have ended.
    PoolRemoved {
        holds_left: usize,
    },
    Refused(Box<Refusal>),
}

/// A hold as its holder sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Grant {
    pub pool: PoolPath,
    pub token: Token,
    pub key: Key,
    /// How many units, or how many resources.
    pub units: u32,
    /// For a pool of named resources: which, with their labels and properties.
    pub resources: Vec<ResourceSpec>,
    pub lifetime: Lifetime,
    pub since: Timestamp,
    /// When it ends if nothing is done.
    pub deadline: Option<Timestamp>,
    /// What it has of further pools, if it is a set.
    pub also: Vec<GrantedPart>,
}

/// What a set was granted of one of its pools, beside the first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GrantedPart {
    pub pool: PoolPath,
    pub units: u32,
    pub resources: Vec<ResourceSpec>,
    /// A place in a rate window, which ends then and not with the hold.
    pub until: Option<Timestamp>,
}

impl Grant {
    /// Whether it ends without anybody's doing: by time, or with its session.
    pub fn ends_by_itself(&self) -> bool {
        match self.lifetime {
            Lifetime::Leased(_) | Lifetime::Session(_) | Lifetime::Window(_) => true,
            Lifetime::Kept | Lifetime::Bound(_) => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Queued {
    pub waiter: WaiterId,
    /// From 1, the next to be served.
    pub position: usize,
    pub deadline: Option<Timestamp>,
}

/// A hold of a session that is over though nobody who had its key ended it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HoldLost {
    pub token: Token,
    pub how: HoldEnd,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SessionOpen {
    pub id: SessionId,
    pub key: Key,
    pub holder: Arc<Holder>,
    pub grace: Ttl,
    /// When it ends if nothing is done; none while a connection carries it.
    pub deadline: Option<Timestamp>,
    /// Which connection in its life carries it, from 1; for [`crate::Command::DetachSession`].
    pub attachment: u64,
}

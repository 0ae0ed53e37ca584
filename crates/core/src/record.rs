//! The things the state keeps: holds, waiters, sessions, and what is remembered of requests.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use crate::command::{Demand, Lifetime};
use crate::names::*;
use crate::pool::Taken;
use crate::time::{Timestamp, Ttl};
use crate::view::{Place, Rank};

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Hold {
    pub pool: PoolPath,
    pub key: Key,
    pub holder: Arc<Holder>,
    pub taken: Taken,
    pub lifetime: Lifetime,
    /// When it was asked for; until `since` it was waited for.
    pub asked: Timestamp,
    pub since: Timestamp,
    pub deadline: Option<Timestamp>,
    pub session: Option<SessionId>,
    pub request: Option<RequestId>,
    /// What it has of further pools, if it is a set.
    pub also: Box<[HeldPart]>,
}

/// What a set has of one of its pools, beside the first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HeldPart {
    pub pool: PoolPath,
    pub taken: Taken,
    /// A place in a rate window ends by itself, and not with the set: it is a hold of its own until then, and only told
    /// of here.
    pub until: Option<Timestamp>,
}

impl Hold {
    /// What ends with it, the first pool first.
    pub fn parts(&self) -> impl Iterator<Item = (&PoolPath, &Taken)> {
        let also = self.also.iter().filter(|part| part.until.is_none()).map(|part| (&part.pool, &part.taken));
        core::iter::once((&self.pool, &self.taken)).chain(also)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Waiter {
    pub pool: PoolPath,
    /// The key its hold will have.
    pub key: Key,
    pub holder: Arc<Holder>,
    pub demand: Demand,
    pub lifetime: Lifetime,
    pub priority: Priority,
    pub since: Timestamp,
    pub deadline: Option<Timestamp>,
    pub session: Option<SessionId>,
    pub request: Option<RequestId>,
    /// What it wants of further pools, if it is a set.
    pub also: Box<[WaitedPart]>,
    /// See [`crate::Acquire::holds_on`].
    pub holds_on: bool,
    /// Where it stands among those of its priority, if that is not where its arrival would put it.
    pub rank: Option<Rank>,
}

/// What a set wants of one of its pools, beside the first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WaitedPart {
    pub pool: PoolPath,
    pub demand: Demand,
    /// The pool is a rate window of this length.
    pub window: Option<Ttl>,
}

impl Waiter {
    /// What it wants, of the first pool first.
    pub fn parts(&self) -> impl Iterator<Item = (&PoolPath, &Demand)> {
        core::iter::once((&self.pool, &self.demand)).chain(self.also.iter().map(|part| (&part.pool, &part.demand)))
    }

    pub(crate) fn is_set(&self) -> bool {
        !self.also.is_empty()
    }

    /// What it wants of one of its pools, and the window that is to be.
    pub(crate) fn part(&self, pool: &PoolPath) -> (&Demand, Option<Ttl>) {
        let own = match self.lifetime {
            Lifetime::Window(window) => Some(window),
            _ => None,
        };
        let also = self.also.iter().find(|part| part.pool == *pool);
        also.map_or((&self.demand, own), |part| (&part.demand, part.window))
    }

    pub fn place(&self, id: WaiterId) -> Place {
        self.rank.map_or_else(|| Place::new(self.priority, id), |rank| Place::ranked(self.priority, rank, id))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub namespace: Namespace,
    pub key: Key,
    pub holder: Arc<Holder>,
    pub grace: Ttl,
    /// Without its connection it does not end before those of its holds that have a time.
    pub outlasts_holds: bool,
    /// Whether a connection carries it; if not, it ends at its deadline.
    pub attached: bool,
    /// Its connection was lost, by a restart of the server perhaps, and its client has not been heard of since. A session
    /// that lives by keep-alives has no connection to lose.
    pub away: bool,
    /// How many connections have carried it.
    pub attachments: u64,
    pub deadline: Option<Timestamp>,
    pub closing: bool,
    /// Those that end with it.
    pub(crate) holds: BTreeSet<Token>,
    pub(crate) waiters: BTreeSet<WaiterId>,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStage {
    Waiting(WaiterId),
    Held(Token),
    /// Over since then, and with which token if it was ever granted.
    Ended {
        at: Timestamp,
        token: Option<Token>,
    },
}

impl Session {
    /// Whether anything would end with it.
    pub fn is_empty(&self) -> bool {
        self.holds.is_empty() && self.waiters.is_empty()
    }

    /// For recovery; its holds and waiters come after it.
    pub fn restore(
        namespace: Namespace,
        key: Key,
        holder: Arc<Holder>,
        grace: Ttl,
        attachments: u64,
        deadline: Option<Timestamp>,
        closing: bool,
    ) -> Self {
        Self {
            namespace,
            key,
            holder,
            grace,
            outlasts_holds: false,
            attached: deadline.is_none(),
            away: false,
            attachments,
            deadline,
            closing,
            holds: BTreeSet::new(),
            waiters: BTreeSet::new(),
        }
    }
}

/// The numbers that must never be given twice, and the time that must never run back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    pub now: Timestamp,
    pub token_next: u64,
    pub waiter_next: u64,
    pub session_next: u64,
    /// The number of the last event.
    pub seq: Seq,
    /// How many ended requests have been forgotten so far.
    pub requests_forgotten: u64,
}

/// An ended request that is still remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRequest {
    pub at: Timestamp,
    pub namespace: Namespace,
    pub request: RequestId,
    pub token: Option<Token>,
}

//! Every way the machine says no, in order of precedence: where several apply, the first is given.
//!
//! A refusal is a normal answer. It never has an effect; it says what happened, whether to try again, and
//! what to do now. It knows nothing of gRPC or HTTP.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::command::Condition;
use crate::names::*;
use crate::policy::Which;
use crate::time::{Timestamp, Ttl};
use crate::view::HoldView;

/// Its texts are owned only where it came from an engine somewhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Refusal {
    /// The session's key is unknown: it never was, or it has ended.
    UnknownSession,
    /// Another connection carries the session now; told to the one that did.
    SessionTakenOver,
    /// This request id was used before, and what it asked for is over.
    RequestEnded {
        request: RequestId,
        token: Option<Token>,
    },
    /// This request id is in use for something else.
    RequestReused {
        request: RequestId,
    },
    UnknownPool {
        pool: PoolPath,
    },
    UnknownResource {
        pool: PoolPath,
        resource: ResourceName,
    },
    /// Units were asked of a pool of resources, or the other way round.
    WrongKind {
        pool: PoolPath,
        why: Cow<'static, str>,
    },
    SizeMismatch {
        pool: PoolPath,
        size: u32,
        asked: u32,
    },
    /// The pool is a rate window and the request is not for one of that length, or the other way round.
    WindowMismatch {
        pool: PoolPath,
        window: Option<Ttl>,
    },
    /// The pool is being removed.
    PoolRemoving {
        pool: PoolPath,
    },
    /// More than the pool has, whoever lets go.
    NeverFits {
        pool: PoolPath,
        asked: u32,
        most: u32,
    },
    /// A bound of the server.
    LimitReached {
        limit: Cow<'static, str>,
        max: usize,
    },
    /// The pools of a set are kept by different keepers, and none of them can grant it.
    PoolsApart {
        pool: PoolPath,
        other: PoolPath,
    },
    /// Those who could let go of what is wanted wait, in the end, for the holder who asks.
    Deadlock {
        /// From the one who asks on, each with what it waits for; the last waits for the first.
        cycle: Vec<Blocked>,
    },
    /// The pool is drained or quarantined, and the request would not wait.
    OutOfService {
        pool: PoolPath,
        condition: Condition,
    },
    /// There is no room, and the request would not wait.
    Busy(Box<NoRoom>),
    /// There was no room for as long as the request would wait.
    TimedOut(Box<NoRoom>),
    /// The wait was withdrawn, perhaps by another call.
    Withdrawn {
        request: Option<RequestId>,
    },

    /// No hold has this key: it never was, or it has ended.
    NotHeld,
    /// The hold has no time to prolong.
    NotRenewable {
        token: Token,
        why: Cow<'static, str>,
        advice: Cow<'static, str>,
    },
    /// A place in a rate window ends when the window does.
    NotReleasable {
        token: Token,
        deadline: Timestamp,
    },
    /// The state is not what the operator saw.
    MovedOn {
        pool: PoolPath,
        expected: Token,
        now: Vec<HoldView>,
    },
    /// The same, where it is not about a hold.
    Changed {
        pool: PoolPath,
        why: String,
    },
    /// The pool, or the resource, is not what the operator saw.
    PoolChanged {
        pool: PoolPath,
        resource: Option<ResourceName>,
        size: u32,
        condition: Condition,
    },
    /// What the pool is to carry does not compile, fails when it is tried, or has no say in such a pool.
    BadScript {
        pool: PoolPath,
        which: Which,
        /// The line and the column, from 1, where that is known.
        at: Option<(u32, u32)>,
        why: String,
    },
}

/// One of those who wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Blocked {
    pub holder: HolderId,
    pub session: Option<SessionId>,
    /// What it waits for.
    pub pool: PoolPath,
    /// The hold of it that the next one has; none if the next one is before it in the queue.
    pub token: Option<Token>,
}

/// Why there is no room: who holds, since when, until when, and the place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NoRoom {
    pub pool: PoolPath,
    pub at: Timestamp,
    /// Some of the holders, those longest there first.
    pub holders: Vec<HoldView>,
    pub holders_total: usize,
    /// The place the request had, or would have had, from 1.
    pub position: usize,
    /// Free units that are spoken for by waiters, or out of service, explain a refusal beside free ones.
    pub free: u32,
    /// Of a set: the same for further pools that have no room.
    pub also: Vec<NoRoom>,
    /// Resources that nobody holds and that have to be cleaned first. They do not count as free.
    pub dirty: u32,
    /// Some of those that are kept for somebody else, and for whom.
    pub reserved: Vec<(ResourceName, HolderId)>,
}

/// Whether the same request may succeed if it is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Not until something else is changed first.
    No,
    /// Yes, later.
    Later,
}

impl Refusal {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownSession => "unknown_session",
            Self::SessionTakenOver => "session_taken_over",
            Self::RequestEnded { .. } => "request_ended",
            Self::RequestReused { .. } => "request_reused",
            Self::UnknownPool { .. } => "unknown_pool",
            Self::UnknownResource { .. } => "unknown_resource",
            Self::WrongKind { .. } => "wrong_kind",
            Self::SizeMismatch { .. } => "size_mismatch",
            Self::WindowMismatch { .. } => "window_mismatch",
            Self::PoolRemoving { .. } => "pool_removing",
            Self::NeverFits { .. } => "never_fits",
            Self::LimitReached { .. } => "limit_reached",
            Self::PoolsApart { .. } => "pools_apart",
            Self::Deadlock { .. } => "deadlock",
            Self::OutOfService { .. } => "out_of_service",
            Self::Busy(_) => "busy",
            Self::TimedOut(_) => "timed_out",
            Self::Withdrawn { .. } => "withdrawn",
            Self::NotHeld => "not_held",
            Self::NotRenewable { .. } => "not_renewable",
            Self::NotReleasable { .. } => "not_releasable",
            Self::MovedOn { .. } | Self::Changed { .. } => "moved_on",
            Self::PoolChanged { .. } => "pool_changed",
            Self::BadScript { .. } => "bad_script",
        }
    }

    pub fn retry(&self) -> Retry {
        match self {
            Self::LimitReached { .. }
            | Self::OutOfService { .. }
            | Self::Busy(_)
            | Self::TimedOut(_)
            | Self::PoolRemoving { .. } => Retry::Later,
            _ => Retry::No,
        }
    }

    /// What to do now.
    pub fn advice(&self) -> String {
        match self {
            Self::UnknownSession => "open a new session; what the old one held is gone".into(),
            Self::SessionTakenOver => "go on with the newer connection".into(),
            Self::RequestEnded { .. } => "use a new request id for a new request".into(),
            Self::RequestReused { .. } => "use a request id of its own for each request".into(),
            Self::UnknownPool { .. } => "check the name and the namespace, or declare the pool first".into(),
            Self::UnknownResource { .. } => "show the pool to see its resources".into(),
            Self::WrongKind { .. } => "show the pool to see what it is".into(),
            Self::SizeMismatch { size, .. } => format!("ask with size {size} or none, or resize the pool"),
            Self::WindowMismatch { window: Some(window), .. } => {
                format!("ask for a window of {} ms, or leave the lifetime out", window.as_millis())
            }
            Self::WindowMismatch { window: None, .. } => "use another pool for the rate, or another lifetime".into(),
            Self::PoolRemoving { .. } => "use another pool, or try again once it is gone".into(),
            Self::NeverFits { most: 0, .. } => "show the pool to see what it has, with its labels".into(),
            Self::NeverFits { most, .. } => format!("ask for at most {most}, or make the pool larger"),
            Self::LimitReached { limit, .. } if limit == "keeper_bytes_max" => {
                "release what is not needed, or serve with more keepers: what one keeps must fit into one run of its \
                 workflow"
                    .into()
            }
            Self::LimitReached { limit, .. } => format!("try again later, or raise `{limit}` on the server"),
            Self::PoolsApart { .. } => "ask for them one after the other, or serve with one keeper".into(),
            Self::Deadlock { .. } => "release what it holds and ask again for all of it at once".into(),
            Self::OutOfService { .. } => "wait for it to be returned, or ask its operator".into(),
            Self::Busy(_) => "wait for it, or try again later".into(),
            Self::TimedOut(_) => "wait longer, or try again later; with a new request id if it had one".into(),
            Self::Withdrawn { .. } => "ask again with a new request id if it is still wanted".into(),
            Self::NotHeld => "stop using what it protected: it may be somebody else's by now".into(),
            Self::NotRenewable { advice, .. } => advice.clone().into_owned(),
            Self::NotReleasable { .. } => "nothing: it ends by itself".into(),
            Self::MovedOn { .. } | Self::Changed { .. } | Self::PoolChanged { .. } => {
                "look again, and decide on what is there now".into()
            }
            Self::BadScript { at: Some(_), .. } => {
                "mend the script, and set the pool again: nothing has been changed".into()
            }
            Self::BadScript { at: None, .. } => {
                "change the script or what it is set with, and set the pool again: nothing has been changed".into()
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownSession => write!(f, "the session is unknown: it never was, or it has ended"),
            Self::SessionTakenOver => write!(f, "another connection carries the session now"),
            Self::RequestEnded { request, token: Some(Token(token)) } => {
                write!(f, "request `{request}` was granted with token {token}, and that hold has ended")
            }
            Self::RequestEnded { request, token: None } => write!(f, "request `{request}` has ended without a grant"),
            Self::RequestReused { request } => write!(f, "request id `{request}` is in use for a different request"),
            Self::UnknownPool { pool } => write!(f, "there is no pool `{}`", pool.name()),
            Self::UnknownResource { pool, resource } => {
                write!(f, "pool `{}` has no resource `{resource}`", pool.name())
            }
            Self::WrongKind { pool, why } => write!(f, "pool `{}` {why}", pool.name()),
            Self::SizeMismatch { pool, size, asked } => {
                write!(f, "pool `{}` has size {size}, not {asked}", pool.name())
            }
            Self::WindowMismatch { pool, window: Some(window) } => {
                write!(f, "pool `{}` is a rate window of {} ms", pool.name(), window.as_millis())
            }
            Self::WindowMismatch { pool, window: None } => write!(f, "pool `{}` is not a rate window", pool.name()),
            Self::PoolRemoving { pool } => write!(f, "pool `{}` is being removed", pool.name()),
            Self::NeverFits { pool, most: 0, .. } => {
                write!(f, "pool `{}` has nothing that would ever fit this request", pool.name())
            }
            Self::NeverFits { pool, asked, most } => {
                write!(f, "pool `{}` can never give {asked}: the most it has for this request is {most}", pool.name())
            }
            Self::LimitReached { limit, max } => write!(f, "the server's limit `{limit}` of {max} is reached"),
            Self::PoolsApart { pool, other } => write!(
                f,
                "pools `{}` and `{}` are kept by different keepers: neither can grant both at once",
                pool.name(),
                other.name()
            ),
            Self::Deadlock { cycle } => {
                write!(f, "the wait could never end: ")?;
                for (at, Blocked { holder, pool, token, .. }) in cycle.iter().enumerate() {
                    let next = &cycle[(at + 1) % cycle.len()].holder;
                    let comma = if at == 0 { "" } else { "; " };
                    write!(f, "{comma}`{holder}` waits for pool `{}`, ", pool.name())?;
                    match token {
                        Some(Token(token)) => write!(f, "which `{next}` holds with token {token}")?,
                        None => write!(f, "behind `{next}`")?,
                    }
                }
                Ok(())
            }
            Self::OutOfService { pool, condition } => match condition {
                Condition::Quarantined(note) => write!(f, "pool `{}` is quarantined: {note}", pool.name()),
                Condition::Drained(Some(note)) => write!(f, "pool `{}` is drained: {note}", pool.name()),
                Condition::Drained(None) | Condition::InService => write!(f, "pool `{}` is drained", pool.name()),
            },
            Self::Busy(room) => {
                write!(f, "pool `{}` has no room: {room}", room.pool.name())?;
                room.also.iter().try_for_each(|room| write!(f, "; nor has pool `{}`: {room}", room.pool.name()))
            }
            Self::TimedOut(room) => {
                write!(f, "pool `{}` had no room in time: {room}", room.pool.name())?;
                room.also.iter().try_for_each(|room| write!(f, "; nor had pool `{}`: {room}", room.pool.name()))
            }
            Self::Withdrawn { request: Some(request) } => write!(f, "request `{request}` was withdrawn"),
            Self::Withdrawn { request: None } => write!(f, "the request was withdrawn"),
            Self::NotHeld => write!(f, "no hold has this key: it never was, or it has ended"),
            Self::NotRenewable { token: Token(token), why, .. } => write!(f, "hold {token} {why}"),
            Self::NotReleasable { token: Token(token), deadline } => write!(
                f,
                "hold {token} is a place in a rate window and ends at {} ms, not before",
                deadline.as_millis()
            ),
            Self::MovedOn { pool, expected: Token(expected), now } => {
                write!(f, "pool `{}` has moved on: hold {expected} of that holder is not there", pool.name())?;
                if let Some(hold) = now.first() {
                    write!(f, "; `{}` holds it with token {}", hold.holder.id, hold.token.0)?;
                }
                Ok(())
            }
            Self::Changed { pool, why } => write!(f, "pool `{}` has moved on: {why}", pool.name()),
            Self::PoolChanged { pool, resource, size, condition } => {
                let state = match condition {
                    Condition::InService => "in service",
                    Condition::Drained(_) => "drained",
                    Condition::Quarantined(_) => "quarantined",
                };
                match resource {
                    Some(name) => write!(f, "resource `{name}` of pool `{}` has changed: it is {state}", pool.name()),
                    None => write!(f, "pool `{}` has changed: its size is {size}, and it is {state}", pool.name()),
                }
            }
            Self::BadScript { pool, which, at: Some((line, column)), why } => {
                write!(f, "`{}` of pool `{}`, line {line}, column {column}: {why}", which.field(), pool.name())
            }
            Self::BadScript { pool, which, at: None, why } => {
                write!(f, "`{}` of pool `{}` {why}", which.field(), pool.name())
            }
        }
    }
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, hold) in self.holders.iter().enumerate() {
            let held = self.at.millis_since(hold.since) / 1_000;
            write!(f, "{}`{}` since {held} s", if n == 0 { "held by " } else { ", " }, hold.holder.id)?;
            if let Some(deadline) = hold.deadline {
                write!(f, " until {} s from now", deadline.millis_since(self.at).div_ceil(1_000))?;
            }
        }
        if self.holders_total > self.holders.len() {
            write!(f, " and {} more", self.holders_total - self.holders.len())?;
        }
        if self.holders.is_empty() && self.dirty == 0 && self.reserved.is_empty() {
            write!(f, "what fits is spoken for by waiters, or out of service")?;
        }
        let mut also = if self.holders.is_empty() { "" } else { "; " };
        if self.dirty > 0 {
            write!(f, "{also}{} to be cleaned", self.dirty)?;
            also = "; ";
        }
        for (resource, holder) in &self.reserved {
            write!(f, "{also}`{resource}` is reserved for `{holder}`")?;
            also = ", ";
        }
        write!(f, "; place {} in the queue", self.position)
    }
}

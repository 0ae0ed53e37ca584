//! LDLM's interface over Tenure's pools: what its locks, keys, times and errors mean here.
//!
//! The gRPC and the REST side are below and share this; no rule is decided here, only translated. What LDLM answers is in
//! the tables of docs/ldlm.md, with what is done better.

mod connection;
mod frames;
mod grpc;
mod handover;
mod json;
mod name;
mod onlooker;
mod pings;
mod rest;

pub(crate) use connection::{Carried, Connection};
pub(crate) use grpc::{Grpc, GrpcService};
pub use name::pool_of_lock;
pub(crate) use rest::handle;

use std::sync::Arc;
use std::time::Duration;

use tenure_core::*;
use tenure_engine::{Calls, Engine, Failure, Ticket};
use tenure_proto::ldlm::{Error, ErrorCode, LockResponse, RenewRequest, UnlockRequest, UnlockResponse};
use tokio::sync::watch;

/// What LDLM's own server has options for.
#[derive(Clone, Debug)]
pub struct LdlmConfig {
    /// How long a lock without a time outlives its connection over a restart of the server.
    pub default_lock_timeout: Ttl,
    /// Locks stay when their connection or their REST session ends.
    pub no_clear_on_disconnect: bool,
    /// How long a REST session lives without a request.
    pub rest_session_timeout: Ttl,
}

impl Default for LdlmConfig {
    fn default() -> Self {
        let ten_minutes = Ttl::from_millis(10 * 60 * 1_000);
        Self { default_lock_timeout: ten_minutes, no_clear_on_disconnect: false, rest_session_timeout: ten_minutes }
    }
}

#[derive(Clone)]
pub(crate) struct Ldlm {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) config: LdlmConfig,
    /// Every session of a connection listens to it until it has ended, or is to outlive the server.
    pub(crate) unsettled: watch::Sender<()>,
}

/// A request for a lock, whichever way it came.
struct Ask {
    name: String,
    wait: Patience,
    lock_timeout_seconds: i32,
    size: i32,
}

/// How long a caller waits for a lock.
enum Patience {
    /// Now or not at all.
    Try,
    Wait {
        /// 0: for ever.
        seconds: i32,
        /// When the caller stops listening, whatever it asked for.
        listens: Option<Duration>,
    },
}

/// Who asks, and what ends their locks.
enum Caller<'a> {
    Connection(&'a Connection),
    Rest { session: Key, holder: Arc<Holder> },
}

/// A lock that was granted, and the request that it was granted to.
#[derive(Clone, Copy)]
struct Granted {
    key: Key,
    token: Token,
    ticket: Ticket,
}

/// Why there is no answer in LDLM's own terms.
#[derive(Debug)]
enum Trouble {
    Failed(Failure),
    /// The caller's session, and so the caller, is gone.
    SessionOver,
    /// The caller has stopped listening.
    Deadline,
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Why there is no lock. Without an error somebody else has it, which is nobody's fault.
enum NotLocked {
    Busy,
    Error(Error),
    Trouble(Trouble),
}

impl<T: Into<Trouble>> From<T> for NotLocked {
    fn from(trouble: T) -> Self {
        Self::Trouble(trouble.into())
    }
}

impl Ldlm {
    /// The answer, and what is granted by it if anything is.
    async fn lock(&self, ask: Ask, caller: &Caller<'_>) -> Result<(LockResponse, Option<Granted>), Trouble> {
        let name = ask.name.clone();
        let (granted, error) = match self.acquire(ask, caller).await {
            Ok(granted) => (Some(granted), None),
            Err(NotLocked::Busy) => (None, None),
            Err(NotLocked::Error(error)) => (None, Some(error)),
            Err(NotLocked::Trouble(trouble)) => return Err(trouble),
        };
        let key = granted.map(|granted| granted.key.to_string()).unwrap_or_default();
        Ok((LockResponse { locked: granted.is_some(), name, key, error }, granted))
    }

    /// The checks come in LDLM's order; those for the size and for room are the engine's.
    async fn acquire(&self, ask: Ask, caller: &Caller<'_>) -> Result<Granted, NotLocked> {
        let refuse = |code, message| Err(NotLocked::Error(error(code, message)));
        if ask.lock_timeout_seconds < 0 {
            return refuse(ErrorCode::Unknown, LOCK_TIMEOUT_WRONG);
        }
        if matches!(ask.wait, Patience::Wait { seconds: ..0, .. }) {
            return refuse(ErrorCode::Unknown, "wait timeout must be greater than 0");
        }
        if ask.name.is_empty() {
            return refuse(ErrorCode::Unknown, "lock name cannot be empty");
        }
        let size = match u32::try_from(ask.size) {
            Ok(size @ 1..) => size,
            _ => return refuse(ErrorCode::InvalidLockSize, "lock size must be greater than 0"),
        };
        let ttl = seconds(ask.lock_timeout_seconds);
        let (session, holder) = caller.session(self, ttl.is_some()).await?;
        let lifetime = match (session, ttl) {
            (Some(_), ttl) => Lifetime::Session(ttl),
            (None, Some(ttl)) => Lifetime::Leased(ttl),
            (None, None) => Lifetime::Kept,
        };
        let (wait, listens) = match ask.wait {
            Patience::Try => (Wait::Try, None),
            Patience::Wait { seconds: for_, listens } => (seconds(for_).map_or(Wait::Forever, Wait::For), listens),
        };
        let acquiring = self.engine.acquire(Acquire {
            pool: path(&ask.name),
            demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
            size: Some(size),
            lifetime: Some(lifetime),
            wait,
            priority: Priority::default(),
            holder,
            session,
            request: None,
            also: Box::default(),
            holds_on: false,
        })?;
        let ticket = acquiring.ticket();
        let reply = match listens {
            // Dropped, it leaves the queue.
            Some(listens) => {
                tokio::time::timeout(listens, acquiring.settle()).await.map_err(|_| Trouble::Deadline)??
            }
            None => acquiring.settle().await?,
        };
        match reply {
            Reply::Granted(grant) => Ok(Granted { key: grant.key, token: grant.token, ticket }),
            Reply::Refused(refusal) => Err(not_locked(&refusal)),
            other => unreachable!("an acquire is not answered with {other:?}"),
        }
    }

    async fn unlock(&self, request: UnlockRequest) -> Result<UnlockResponse, Trouble> {
        let UnlockRequest { name, key } = request;
        let refusal = match Key::parse(&key) {
            _ if name.is_empty() => None,
            Ok(key) => {
                let release = Release { namespace: Namespace::default(), key, pool: Some(pool_of_lock(&name)) };
                match self.engine.call(Command::Release(release)).await? {
                    Reply::Released { .. } => return Ok(UnlockResponse { unlocked: true, name, error: None }),
                    Reply::Refused(refusal) => Some(*refusal),
                    other => unreachable!("a release is not answered with {other:?}"),
                }
            }
            Err(_) => Some(Refusal::NotHeld),
        };
        let error = match refusal {
            Some(Refusal::NotHeld) if self.exists(&name).await? => error(ErrorCode::InvalidLockKey, "invalid lock key"),
            Some(Refusal::NotHeld) | None => error(ErrorCode::LockDoesNotExist, "a lock by that name does not exist"),
            Some(other) => error(ErrorCode::Unknown, other.to_string()),
        };
        Ok(UnlockResponse { unlocked: false, name, error: Some(error) })
    }

    async fn renew(&self, request: RenewRequest) -> Result<LockResponse, Trouble> {
        let RenewRequest { name, key, lock_timeout_seconds } = request;
        let Some(ttl) = seconds(lock_timeout_seconds) else {
            let error = Some(error(ErrorCode::Unknown, LOCK_TIMEOUT_WRONG));
            return Ok(LockResponse { locked: false, name, key: String::new(), error });
        };
        let locked = match Key::parse(&key) {
            Ok(key) if !name.is_empty() => {
                let (namespace, pool) = (Namespace::default(), Some(pool_of_lock(&name)));
                let renew = Renew { namespace, key, pool, ttl: Some(ttl) };
                matches!(self.engine.call(Command::Renew(renew)).await?, Reply::Renewed { .. })
            }
            _ => false,
        };
        let wrong = || error(ErrorCode::LockDoesNotExistOrInvalidKey, "lock does not exist or invalid key");
        Ok(LockResponse { locked, name, key, error: (!locked).then(wrong) })
    }

    /// Whether the name is in use, or was so lately that its size is remembered.
    async fn exists(&self, name: &str) -> Result<bool, Failure> {
        let (namespace, pool) = (Namespace::default(), Some(pool_of_lock(name)));
        Ok(self.engine.query(Query::Holds { namespace, pool, holder: None, after: None, limit: 1 }).await?.is_ok())
    }
}

impl Caller<'_> {
    /// The session that a lock is to end with, if it is to end with one, and whose lock it is.
    async fn session(&self, ldlm: &Ldlm, timed: bool) -> Result<(Option<Key>, Arc<Holder>), NotLocked> {
        let kept = ldlm.config.no_clear_on_disconnect;
        match self {
            Self::Connection(connection) if kept => Ok((None, connection.holder())),
            Self::Connection(connection) => Ok((Some(connection.session(timed).await?), connection.holder())),
            Self::Rest { session, holder } => Ok(((!kept).then_some(*session), holder.clone())),
        }
    }
}

/// None if it is not to end by time. Beyond what Tenure counts it is as long as can be.
fn seconds(seconds: i32) -> Option<Ttl> {
    let millis = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)? * 1_000;
    Some(Ttl::from_millis(millis).min(TTL_MAX))
}

const LOCK_TIMEOUT_WRONG: &str = "lock timeout must be greater than 0";

fn error(code: ErrorCode, message: impl Into<String>) -> Error {
    Error { code: code.into(), message: message.into() }
}

fn not_locked(refusal: &Refusal) -> NotLocked {
    let (code, message) = match refusal {
        // A pool that is drained is one that others have for now.
        Refusal::Busy(_) | Refusal::OutOfService { .. } => return NotLocked::Busy,
        Refusal::UnknownSession => return NotLocked::Trouble(Trouble::SessionOver),
        Refusal::TimedOut(_) => (ErrorCode::LockWaitTimeout, "timeout waiting to acquire lock".to_owned()),
        Refusal::SizeMismatch { .. } => (ErrorCode::LockSizeMismatch, "lock size mismatch".to_owned()),
        // What LDLM has no word for: limits, pools that are no locks, operators who intervene.
        other => (ErrorCode::Unknown, other.to_string()),
    };
    NotLocked::Error(error(code, message))
}

fn path(name: &str) -> PoolPath {
    PoolPath::new(Namespace::default(), pool_of_lock(name))
}

/// Who holds the locks of one client, as others see it: LDLM's clients say nothing about themselves.
fn holder(via: &str, peer: &str, user_agent: Option<&str>) -> Holder {
    let user_agent = user_agent.map(|text| &text[..text.floor_char_boundary(META_VALUE_BYTES_MAX)]);
    let meta = [("via", via), ("peer", peer)].into_iter().chain(user_agent.map(|text| ("user_agent", text)));
    Holder::parse(&format!("ldlm {peer}"), meta).expect("an address is short, and a header has no NUL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_beyond_all_bounds_are_as_long_as_can_be() {
        assert_eq!(seconds(i32::MAX), Some(TTL_MAX));
        assert_eq!((seconds(0), seconds(-5), seconds(2)), (None, None, Some(Ttl::from_millis(2_000))));
    }
}

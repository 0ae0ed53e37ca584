//! Requests as commands and queries.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use tenure_core::*;
use tenure_engine::{EventFilter, EventQuery};
use tenure_proto::v1;

use crate::error::{Error, InField};

/// How many entries a page has if the request does not say.
const PAGE_DEFAULT: u32 = 100;

/// Most callers are in it. They share its text, so that it need not be compared.
static DEFAULT_NAMESPACE: LazyLock<Namespace> = LazyLock::new(Namespace::default);

/// What a request need not say because its connection has.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) namespace: Namespace,
    pub(crate) session: Option<Key>,
    pub(crate) holder: Option<Arc<Holder>>,
}

impl Default for Caller {
    fn default() -> Self {
        Self { namespace: DEFAULT_NAMESPACE.clone(), session: None, holder: None }
    }
}

pub(crate) fn acquire(request: v1::AcquireRequest, caller: &Caller) -> Result<Acquire, Error> {
    let lifetime = lifetime(&request)?;
    let wait = match (request.wait_forever, request.wait_ms) {
        (true, Some(_)) => return Err(Error::invalid("wait_ms", "wait_ms and wait_forever exclude each other")),
        (true, None) => Wait::Forever,
        (false, None | Some(0)) => Wait::Try,
        (false, Some(millis)) => Wait::For(ttl("wait_ms", millis)?),
    };
    let holder = match &caller.holder {
        Some(known) if request.holder.is_empty() && request.meta.is_empty() => known.clone(),
        Some(known) if request.holder.is_empty() => holder(known.id.as_str(), &request.meta)?,
        _ => holder(&request.holder, &request.meta)?,
    };
    let pool = path(&request.namespace, &request.pool, caller)?;
    Ok(Acquire {
        also: also(&pool, request.also)?,
        holds_on: request.holds_on,
        pool,
        demand: Demand { dirty: request.dirty, ..demand(request.units, request.all, request.select.as_deref())? },
        size: request.size.map(|size| at_least_one("size", size)).transpose()?,
        lifetime,
        wait,
        priority: Priority::parse(request.priority.into()).in_field("priority")?,
        holder,
        session: match request.session_key {
            Some(text) => Some(key("session_key", &text)?),
            None => caller.session,
        },
        request: request.request_id.map(|text| RequestId::parse(&text).in_field("request_id")).transpose()?,
    })
}

fn also(first: &PoolPath, parts: Vec<v1::Part>) -> Result<Box<[Part]>, Error> {
    let parts = parts.into_iter().map(|part| {
        Ok(Part {
            pool: PoolPath::new(first.namespace().clone(), PoolName::parse(&part.pool).in_field("pool")?),
            demand: demand(part.units, part.all, part.select.as_deref())?,
            size: part.size.map(|size| at_least_one("size", size)).transpose()?,
        })
    });
    // Past the bound there is no need to read them all.
    let parts = parts.take(SET_POOLS_MAX).collect::<Result<_, Error>>()?;
    Part::parse_all(first, parts).in_field("also")
}

fn demand(units: Option<u32>, all: bool, select: Option<&str>) -> Result<Demand, Error> {
    let amount = match (all, units) {
        (true, Some(_)) => return Err(Error::invalid("units", "units and all exclude each other")),
        (true, None) => Amount::All,
        (false, units) => Amount::Count(at_least_one("units", units.unwrap_or(1))?),
    };
    let selector = select.map(|text| {
        Selector::parse(text).map_err(|error| Error::invalid("select", format!("the selector cannot be read {error}")))
    });
    Ok(Demand { amount, selector: selector.transpose()?, dirty: false })
}

fn lifetime(request: &v1::AcquireRequest) -> Result<Option<Lifetime>, Error> {
    lifetime_of(request.lifetime, request.ttl_ms, request.owner.as_deref())
}

pub(super) fn lifetime_of(lifetime: i32, ttl_ms: Option<u64>, owner: Option<&str>) -> Result<Option<Lifetime>, Error> {
    let kind = v1::Lifetime::try_from(lifetime)
        .map_err(|_| Error::invalid("lifetime", format!("lifetime {lifetime} is unknown")))?;
    let given = ttl_ms.map(|millis| ttl("ttl_ms", millis)).transpose()?;
    let owner = owner.map(|text| OwnerId::parse(text).in_field("owner")).transpose()?;
    let word = |kind: v1::Lifetime| kind.as_str_name().trim_start_matches("LIFETIME_").to_lowercase();
    if owner.is_some() && !matches!(kind, v1::Lifetime::Unspecified | v1::Lifetime::Bound) {
        return Err(Error::invalid("owner", format!("a hold that is {} has no owner", word(kind))));
    }
    let timeless = matches!(kind, v1::Lifetime::Kept | v1::Lifetime::Bound) || owner.is_some();
    if timeless && given.is_some() {
        return Err(Error::invalid("ttl_ms", "only a lease, a window or a session's hold has a length"));
    }
    Ok(Some(match kind {
        v1::Lifetime::Unspecified => match (given, owner) {
            (None, None) => return Ok(None),
            (Some(ttl), _) => Lifetime::Leased(ttl),
            (None, Some(owner)) => Lifetime::Bound(owner),
        },
        v1::Lifetime::Leased => Lifetime::Leased(given.unwrap_or(LEASE_DEFAULT)),
        v1::Lifetime::Session => Lifetime::Session(given),
        v1::Lifetime::Window => {
            Lifetime::Window(given.ok_or_else(|| Error::invalid("ttl_ms", "a window needs its length"))?)
        }
        v1::Lifetime::Kept => Lifetime::Kept,
        v1::Lifetime::Bound => {
            Lifetime::Bound(owner.ok_or_else(|| Error::invalid("owner", "a bound hold needs its owner"))?)
        }
    }))
}

pub(crate) fn renew(request: v1::RenewRequest, caller: &Caller) -> Result<Command, Error> {
    Ok(Command::Renew(Renew {
        namespace: namespace(&request.namespace, caller)?,
        key: key("key", &request.key)?,
        pool: pool_name(request.pool.as_deref())?,
        ttl: request.ttl_ms.map(|millis| ttl("ttl_ms", millis)).transpose()?,
    }))
}

pub(crate) fn release(request: v1::ReleaseRequest, caller: &Caller) -> Result<Command, Error> {
    Ok(Command::Release(Release {
        namespace: namespace(&request.namespace, caller)?,
        key: key("key", &request.key)?,
        pool: pool_name(request.pool.as_deref())?,
    }))
}

pub(crate) fn withdraw(request: v1::WithdrawRequest, caller: &Caller) -> Result<Command, Error> {
    Ok(Command::Withdraw {
        namespace: namespace(&request.namespace, caller)?,
        request: RequestId::parse(&request.request_id).in_field("request_id")?,
    })
}

pub(crate) fn force_release(request: v1::ForceReleaseRequest) -> Result<Command, Error> {
    Ok(Command::ForceRelease(ForceRelease {
        pool: path(&request.namespace, &request.pool, &Caller::default())?,
        holder: HolderId::parse(&request.holder).in_field("holder")?,
        token: Token(request.token),
        reason: Note::parse(&request.reason).in_field("reason")?,
    }))
}

pub(crate) fn owner_gone(request: v1::OwnerGoneRequest) -> Result<Command, Error> {
    Ok(Command::OwnerGone {
        namespace: namespace(&request.namespace, &Caller::default())?,
        owner: OwnerId::parse(&request.owner).in_field("owner")?,
    })
}

pub(crate) fn open_session(request: v1::OpenSessionRequest, attached: bool) -> Result<OpenSession, Error> {
    Ok(OpenSession {
        namespace: namespace(&request.namespace, &Caller::default())?,
        holder: holder(&request.holder, &request.meta)?,
        grace: request.grace_ms.map_or(Ok(GRACE_DEFAULT), |millis| ttl("grace_ms", millis))?,
        attached,
        outlasts_holds: false,
    })
}

pub(crate) fn keep_alive(request: v1::KeepAliveRequest) -> Result<Command, Error> {
    Ok(Command::KeepAlive {
        namespace: namespace(&request.namespace, &Caller::default())?,
        session: key("session_key", &request.session_key)?,
    })
}

pub(crate) fn end_session(request: v1::EndSessionRequest) -> Result<Command, Error> {
    Ok(Command::EndSession {
        namespace: namespace(&request.namespace, &Caller::default())?,
        session: key("session_key", &request.session_key)?,
    })
}

/// Who speaks in a stream that takes up a session.
pub(crate) fn resume(request: &v1::ResumeSession) -> Result<Caller, Error> {
    let named = !request.holder.is_empty() || !request.meta.is_empty();
    Ok(Caller {
        namespace: namespace(&request.namespace, &Caller::default())?,
        session: Some(key("session_key", &request.session_key)?),
        holder: named.then(|| holder(&request.holder, &request.meta)).transpose()?,
    })
}

pub(crate) fn list_holds(request: v1::ListHoldsRequest) -> Result<Query, Error> {
    Ok(Query::Holds {
        namespace: namespace(&request.namespace, &Caller::default())?,
        pool: pool_name(request.pool.as_deref())?,
        holder: holder_id(request.holder.as_deref())?,
        after: request.after.map(|text| number(&text).map(Token)).transpose()?,
        limit: limit(request.limit)?,
    })
}

pub(crate) fn list_sessions(request: v1::ListSessionsRequest) -> Result<Query, Error> {
    Ok(Query::Sessions {
        namespace: namespace(&request.namespace, &Caller::default())?,
        after: request.after.map(|text| number(&text).map(SessionId)).transpose()?,
        limit: limit(request.limit)?,
    })
}

pub(crate) fn list_pools(request: v1::ListPoolsRequest) -> Result<Query, Error> {
    if request.prefix.len() > NAME_BYTES_MAX {
        let message = format!("prefix has {} bytes; the most is {NAME_BYTES_MAX}", request.prefix.len());
        return Err(Error::invalid("prefix", message));
    }
    Ok(Query::Pools {
        namespace: namespace(&request.namespace, &Caller::default())?,
        prefix: request.prefix,
        after: request.after.map(|text| PoolName::parse(&text).in_field("after")).transpose()?,
        limit: limit(request.limit)?,
    })
}

pub(crate) fn get_pool(request: v1::GetPoolRequest) -> Result<Query, Error> {
    Ok(Query::Pool { pool: path(&request.namespace, &request.pool, &Caller::default())? })
}

pub(crate) fn list_queue(request: v1::ListQueueRequest) -> Result<Query, Error> {
    Ok(Query::Queue {
        pool: path(&request.namespace, &request.pool, &Caller::default())?,
        after: request.after.map(|text| place(&text)).transpose()?,
        limit: limit(request.limit)?,
    })
}

pub(crate) fn history(request: v1::HistoryRequest) -> Result<EventQuery, Error> {
    Ok(EventQuery {
        after: request.after.map(Seq),
        newest_first: request.newest_first,
        filter: EventFilter {
            namespace: Some(namespace(&request.namespace, &Caller::default())?),
            pool: pool_name(request.pool.as_deref())?,
            holder: holder_id(request.holder.as_deref())?,
            since: request.since_ms.map(Timestamp::from_millis),
            until: request.until_ms.map(Timestamp::from_millis),
        },
        limit: limit(request.limit)?,
    })
}

pub(crate) fn watch(request: &v1::WatchRequest) -> Result<EventFilter, Error> {
    Ok(EventFilter {
        namespace: Some(namespace(&request.namespace, &Caller::default())?),
        pool: pool_name(request.pool.as_deref())?,
        holder: holder_id(request.holder.as_deref())?,
        ..EventFilter::default()
    })
}

pub(super) fn path(namespace_text: &str, pool: &str, caller: &Caller) -> Result<PoolPath, Error> {
    Ok(PoolPath::new(namespace(namespace_text, caller)?, PoolName::parse(pool).in_field("pool")?))
}

pub(super) fn namespace(text: &str, caller: &Caller) -> Result<Namespace, Error> {
    if text.is_empty() || text == caller.namespace.as_str() {
        return Ok(caller.namespace.clone());
    }
    Namespace::parse(text).in_field("namespace")
}

fn pool_name(text: Option<&str>) -> Result<Option<PoolName>, Error> {
    text.map(|text| PoolName::parse(text).in_field("pool")).transpose()
}

pub(super) fn holder_id(text: Option<&str>) -> Result<Option<HolderId>, Error> {
    text.map(|text| HolderId::parse(text).in_field("holder")).transpose()
}

pub(super) fn holder(id: &str, meta: &BTreeMap<String, String>) -> Result<Arc<Holder>, Error> {
    HolderId::parse(id).in_field("holder")?;
    let meta = meta.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Ok(Arc::new(Holder::parse(id, meta).in_field("meta")?))
}

/// The message does not repeat what was sent: it might be a key all but for a slip.
fn key(field: &'static str, text: &str) -> Result<Key, Error> {
    Key::parse(text).in_field(field)
}

pub(super) fn ttl(field: &'static str, millis: u64) -> Result<Ttl, Error> {
    Ttl::parse(field, millis).in_field(field)
}

fn at_least_one(field: &str, count: u32) -> Result<u32, Error> {
    match count {
        1..=UNITS_MAX => Ok(count),
        _ => Err(Error::invalid(field, format!("{field} is {count}; it must lie between 1 and {UNITS_MAX}"))),
    }
}

pub(super) fn limit(asked: Option<u32>) -> Result<usize, Error> {
    let asked = asked.unwrap_or(PAGE_DEFAULT) as usize;
    if (1..=PAGE_MAX).contains(&asked) {
        return Ok(asked);
    }
    Err(Error::invalid("limit", format!("limit is {asked}; it must lie between 1 and {PAGE_MAX}")))
}

/// The places of a listing are text on the wire, so that nobody computes with them.
pub(super) fn number(text: &str) -> Result<u64, Error> {
    text.parse().map_err(|_| bad_cursor())
}

fn place(text: &str) -> Result<Place, Error> {
    let parts: Vec<_> = text.split('.').collect();
    let (priority, arrival, rank) = match parts[..] {
        [priority, arrival] => (priority, arrival, None),
        [priority, arrival, turn, within] => {
            let turn = turn.parse().map_err(|_| bad_cursor())?;
            let within = within.parse().map_err(|_| bad_cursor())?;
            (priority, arrival, Some(Rank { turn, within }))
        }
        _ => return Err(bad_cursor()),
    };
    let priority = priority.parse().ok().and_then(|number| Priority::parse(number).ok()).ok_or_else(bad_cursor)?;
    let arrival = WaiterId(number(arrival)?);
    Ok(rank.map_or_else(|| Place::new(priority, arrival), |rank| Place::ranked(priority, rank, arrival)))
}

pub(super) fn bad_cursor() -> Error {
    Error::invalid("after", "after is not the `next` of a page of this listing")
}

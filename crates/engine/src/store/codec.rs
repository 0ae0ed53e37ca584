//! Between the domain's types and the stored messages. Stored is what storage.proto says; nothing else is.
//!
//! Decoding goes through the domain's parse functions and gives an error for any bytes at all; it never
//! panics. Whether what was decoded fits the state is for [`super::recovery`] to say.

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure_core::*;

use super::layout::Address;
use super::{Entry, StoreError};

/// Generated from storage.proto.
#[allow(clippy::all, unreachable_pub, missing_debug_implementations)]
pub(super) mod stored {
    include!(concat!(env!("OUT_DIR"), "/tenure.storage.v1.rs"));
}

/// Why a message is not what it should be.
pub(super) type Wrong = String;

pub(super) fn encode_entry(entry: &Entry) -> Vec<u8> {
    let message = stored::Entry { at_ms: entry.at.as_millis(), events: entry.events.iter().map(event).collect() };
    Address::Entry(entry.first).seal(&message)
}

pub(super) fn decode_entry(first: Seq, value: &[u8]) -> Result<Entry, StoreError> {
    let address = Address::Entry(first);
    let message: stored::Entry = address.unseal(value)?;
    if message.events.is_empty() {
        return Err(address.damaged("has no events"));
    }
    let mut events = Vec::with_capacity(message.events.len());
    for (index, event) in message.events.into_iter().enumerate() {
        let event = to_event(event)
            .map_err(|why| address.damaged(format!("event {}: {why}", first.0.saturating_add(index as u64))))?;
        events.push(event);
    }
    if first.0 == 0 || first.0 >= NUMBER_MAX {
        return Err(address.damaged("has an impossible number"));
    }
    Ok(Entry { first, at: Timestamp::from_millis(message.at_ms), events })
}

/// When the events of a stored entry happened, without reading them.
pub(super) fn decode_entry_time(first: Seq, value: &[u8]) -> Result<Timestamp, StoreError> {
    let message: stored::EntryTime = Address::Entry(first).unseal(value)?;
    Ok(Timestamp::from_millis(message.at_ms))
}

/// Up to where the rows have everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watermark {
    pub(super) counters: Counters,
    pub(super) counts: RowCounts,
}

/// How many rows there are of each kind, so that a missing one is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowCounts {
    pools: u64,
    sessions: u64,
    holds: u64,
    waiters: u64,
    /// Requests that have ever ended.
    ended: u64,
}

impl RowCounts {
    pub(super) fn of(state: &State) -> Self {
        let stats = state.stats();
        Self {
            pools: stats.pools as u64,
            sessions: stats.sessions as u64,
            holds: stats.holds as u64,
            waiters: stats.waiters as u64,
            ended: state.requests_ended_total(),
        }
    }
}

pub(super) fn encode_watermark(state: &State) -> Vec<u8> {
    let (counters, counts) = (state.counters(), RowCounts::of(state));
    Address::Watermark.seal(&stored::Watermark {
        seq: counters.seq.0,
        now_ms: counters.now.as_millis(),
        token_next: counters.token_next,
        waiter_next: counters.waiter_next,
        session_next: counters.session_next,
        requests_forgotten: counters.requests_forgotten,
        pools: counts.pools,
        sessions: counts.sessions,
        holds: counts.holds,
        waiters: counts.waiters,
        requests_ended: counts.ended,
    })
}

pub(super) fn decode_watermark(value: &[u8]) -> Result<Watermark, StoreError> {
    let message: stored::Watermark = Address::Watermark.unseal(value)?;
    let counters = Counters {
        now: Timestamp::from_millis(message.now_ms),
        token_next: message.token_next,
        waiter_next: message.waiter_next,
        session_next: message.session_next,
        seq: Seq(message.seq),
        requests_forgotten: message.requests_forgotten,
    };
    let counts = RowCounts {
        pools: message.pools,
        sessions: message.sessions,
        holds: message.holds,
        waiters: message.waiters,
        ended: message.requests_ended,
    };
    Ok(Watermark { counters, counts })
}

/// How far the log reaches back, and how many bytes it had when it reached up to `last`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogBounds {
    pub(super) first: Seq,
    pub(super) last: Seq,
    pub(super) bytes: u64,
}

pub(super) fn encode_bounds(bounds: LogBounds) -> Vec<u8> {
    let LogBounds { first, last, bytes } = bounds;
    Address::LogBounds.seal(&stored::LogBounds { first: first.0, bytes, seq: last.0 })
}

pub(super) fn decode_bounds(value: &[u8]) -> Result<LogBounds, StoreError> {
    let message: stored::LogBounds = Address::LogBounds.unseal(value)?;
    if message.first == 0 || message.first >= NUMBER_MAX || message.seq >= NUMBER_MAX {
        return Err(Address::LogBounds.damaged("are impossible"));
    }
    Ok(LogBounds { first: Seq(message.first), last: Seq(message.seq), bytes: message.bytes })
}

pub(super) fn pool_row(pool: &Pool) -> stored::PoolRow {
    let mut spec = pool_spec(&pool.spec());
    // They are told below, with how they fare.
    if let Some(stored::pool_spec::Capacity::Resources(resources)) = &mut spec.capacity {
        resources.resources.clear();
    }
    let resources = pool.resources().map(|(name, resource)| stored::ResourceRow {
        spec: Some(stored::ResourceSpec {
            name: text(name),
            labels: labels(resource.labels.iter()),
            properties: labels(resource.properties.iter()),
        }),
        condition: Some(condition(&resource.condition)),
        leaving: resource.leaving,
        ordinal: resource.ordinal,
        used: resource.used,
        used_at_ms: resource.used_at.map(Timestamp::as_millis),
    });
    stored::PoolRow {
        resources: resources.collect(),
        spec: Some(spec),
        condition: Some(condition(pool.condition())),
        removing: pool.is_removing(),
        idle_since_ms: pool.idle_since().map(Timestamp::as_millis),
        ordinal_next: pool.next().ordinal,
        use_next: pool.next().used,
    }
}

pub(super) fn to_pool(row: stored::PoolRow) -> Result<Pool, Wrong> {
    let spec = to_pool_spec(required("the spec", row.spec)?)?;
    let mut resources = Vec::with_capacity(row.resources.len());
    let mut names = BTreeSet::new();
    for row in row.resources {
        let spec = to_resource_spec(required("a resource's spec", row.spec)?)?;
        if !names.insert(spec.name.clone()) {
            return Err(format!("resource {} is there twice", spec.name));
        }
        let mut resource = Resource::new(&spec, number("a resource's ordinal", row.ordinal)?);
        resource.condition = to_condition(required("a resource's condition", row.condition)?)?;
        resource.leaving = row.leaving;
        resource.used = number("a resource's use", row.used)?;
        resource.used_at = row.used_at_ms.map(Timestamp::from_millis);
        resources.push((spec.name, resource));
    }
    if matches!(spec.capacity, Capacity::Units(_)) && !resources.is_empty() {
        return Err("a pool of units has resources".into());
    }
    let condition = to_condition(required("the condition", row.condition)?)?;
    let next =
        Next { ordinal: number("the next ordinal", row.ordinal_next)?, used: number("the next use", row.use_next)? };
    let idle_since = row.idle_since_ms.map(Timestamp::from_millis);
    Ok(Pool::restore(&spec, condition, row.removing, idle_since, resources, next))
}

pub(super) fn session_row(session: &Session) -> stored::SessionRow {
    stored::SessionRow {
        namespace: text(&session.namespace),
        key: Some(key(session.key)),
        holder: Some(holder(&session.holder)),
        grace_ms: session.grace.as_millis(),
        attachments: session.attachments,
        deadline_ms: session.deadline.map(Timestamp::as_millis),
        closing: session.closing,
    }
}

pub(super) fn to_session(row: stored::SessionRow) -> Result<Session, Wrong> {
    Ok(Session::restore(
        Namespace::parse(&row.namespace).map_err(wrong)?,
        to_key(row.key)?,
        to_holder(row.holder)?,
        ttl("grace", row.grace_ms)?,
        number("the attachments", row.attachments)?,
        row.deadline_ms.map(Timestamp::from_millis),
        row.closing,
    ))
}

pub(super) fn hold_row(it: &Hold) -> stored::HoldRow {
    stored::HoldRow { hold: Some(hold(it)) }
}

pub(super) fn to_hold_of_row(row: stored::HoldRow) -> Result<Hold, Wrong> {
    to_hold(row.hold)
}

pub(super) fn waiter_row(it: &Waiter, present: bool) -> stored::WaiterRow {
    stored::WaiterRow { waiter: Some(waiter(it)), away: !present }
}

pub(super) fn to_waiter_of_row(row: stored::WaiterRow) -> Result<(Waiter, bool), Wrong> {
    Ok((to_waiter(row.waiter)?, !row.away))
}

pub(super) fn ended_row<'a>(requests: impl Iterator<Item = &'a EndedRequest>) -> stored::EndedRow {
    let requests = requests.map(|it| stored::EndedRequest {
        at_ms: it.at.as_millis(),
        namespace: text(&it.namespace),
        request: text(&it.request),
        token: it.token.map(|token| token.0),
    });
    stored::EndedRow { requests: requests.collect() }
}

pub(super) fn to_ended(request: stored::EndedRequest) -> Result<EndedRequest, Wrong> {
    Ok(EndedRequest {
        at: Timestamp::from_millis(request.at_ms),
        namespace: Namespace::parse(&request.namespace).map_err(wrong)?,
        request: RequestId::parse(&request.request).map_err(wrong)?,
        token: request.token.map(token).transpose()?,
    })
}

fn event(event: &Event) -> stored::Event {
    use stored::event::Kind;
    let kind = match event {
        Event::Queued { id, waiter: it } => Kind::Queued(stored::Queued { id: id.0, waiter: Some(waiter(it)) }),
        Event::Granted { token, hold: it, waiter } => {
            Kind::Granted(stored::Granted { token: token.0, hold: Some(hold(it)), waiter: waiter.map(|id| id.0) })
        }
        Event::Renewed { token, pool, holder, ttl, deadline } => Kind::Renewed(stored::Renewed {
            token: token.0,
            pool: Some(path(pool)),
            holder: text(holder),
            ttl_ms: ttl.as_millis(),
            deadline_ms: deadline.as_millis(),
        }),
        Event::Ended { token, pool, holder, since, how } => {
            let (how, note) = match how {
                HoldEnd::Released => (stored::HoldEnd::Released, String::new()),
                HoldEnd::Expired => (stored::HoldEnd::Expired, String::new()),
                HoldEnd::SessionEnded => (stored::HoldEnd::SessionEnded, String::new()),
                HoldEnd::OwnerGone => (stored::HoldEnd::OwnerGone, String::new()),
                HoldEnd::Forced(note) => (stored::HoldEnd::Forced, text(note)),
                HoldEnd::Withdrawn => (stored::HoldEnd::Withdrawn, String::new()),
                HoldEnd::Unreceived => (stored::HoldEnd::Unreceived, String::new()),
            };
            Kind::Ended(stored::Ended {
                token: token.0,
                pool: Some(path(pool)),
                holder: text(holder),
                since_ms: since.as_millis(),
                how: how.into(),
                note,
            })
        }
        Event::WaitEnded { id, pool, holder, since, how } => {
            let how = match how {
                WaitEnd::TimedOut => stored::WaitEnd::TimedOut,
                WaitEnd::Withdrawn => stored::WaitEnd::Withdrawn,
                WaitEnd::SessionEnded => stored::WaitEnd::SessionEnded,
                WaitEnd::CallerGone => stored::WaitEnd::CallerGone,
                WaitEnd::NeverFits => stored::WaitEnd::NeverFits,
                WaitEnd::PoolRemoved => stored::WaitEnd::PoolRemoved,
                WaitEnd::OwnerGone => stored::WaitEnd::OwnerGone,
            };
            Kind::WaitEnded(stored::WaitEnded {
                id: id.0,
                pool: Some(path(pool)),
                holder: text(holder),
                since_ms: since.as_millis(),
                how: how.into(),
            })
        }
        Event::WaiterAway { id, pool, holder } => Kind::WaiterAway(waiter_moved(*id, pool, holder)),
        Event::WaiterBack { id, pool, holder } => Kind::WaiterBack(waiter_moved(*id, pool, holder)),
        Event::RequestWithdrawn { namespace, request } => {
            Kind::RequestWithdrawn(stored::RequestWithdrawn { namespace: text(namespace), request: text(request) })
        }
        Event::SessionOpened { id, namespace, key: secret, holder: it, grace, attached } => {
            Kind::SessionOpened(stored::SessionOpened {
                id: id.0,
                namespace: text(namespace),
                key: Some(key(*secret)),
                holder: Some(holder(it)),
                grace_ms: grace.as_millis(),
                attached: *attached,
            })
        }
        Event::SessionKept { id, deadline } => {
            Kind::SessionKept(stored::SessionKept { id: id.0, deadline_ms: deadline.as_millis() })
        }
        Event::SessionAttached { id, namespace, holder } => {
            Kind::SessionAttached(session_changed(*id, namespace, holder))
        }
        Event::SessionDetached { id, namespace, holder, deadline } => Kind::SessionDetached(stored::SessionDetached {
            id: id.0,
            namespace: text(namespace),
            holder: text(holder),
            deadline_ms: deadline.as_millis(),
        }),
        Event::SessionClosing { id, namespace, holder } => {
            Kind::SessionClosing(session_changed(*id, namespace, holder))
        }
        Event::SessionEnded { id, namespace, holder } => Kind::SessionEnded(session_changed(*id, namespace, holder)),
        Event::PoolSet { pool, spec, created } => {
            Kind::PoolSet(stored::PoolSet { pool: Some(path(pool)), spec: Some(pool_spec(spec)), created: *created })
        }
        Event::ConditionSet { pool, resource, condition: it } => Kind::ConditionSet(stored::ConditionSet {
            pool: Some(path(pool)),
            resource: resource.as_ref().map(text),
            condition: Some(condition(it)),
        }),
        Event::PoolRemoving { pool } => Kind::PoolRemoving(stored::PoolChanged { pool: Some(path(pool)) }),
        Event::PoolGone { pool } => Kind::PoolGone(stored::PoolChanged { pool: Some(path(pool)) }),
        Event::Restarted => Kind::Restarted(stored::Restarted {}),
    };
    stored::Event { kind: Some(kind) }
}

fn to_event(event: stored::Event) -> Result<Event, Wrong> {
    use stored::event::Kind;
    Ok(match required("what happened", event.kind)? {
        Kind::Queued(it) => Event::Queued { id: waiter_id(it.id)?, waiter: Box::new(to_waiter(it.waiter)?) },
        Kind::Granted(it) => Event::Granted {
            token: token(it.token)?,
            hold: Box::new(to_hold(it.hold)?),
            waiter: it.waiter.map(waiter_id).transpose()?,
        },
        Kind::Renewed(it) => Event::Renewed {
            token: token(it.token)?,
            pool: to_path(it.pool)?,
            holder: holder_id(&it.holder)?,
            ttl: ttl("ttl", it.ttl_ms)?,
            deadline: Timestamp::from_millis(it.deadline_ms),
        },
        Kind::Ended(it) => Event::Ended {
            token: token(it.token)?,
            how: match it.how() {
                stored::HoldEnd::Unspecified => return Err(format!("end {} of a hold is unknown", it.how)),
                stored::HoldEnd::Released => HoldEnd::Released,
                stored::HoldEnd::Expired => HoldEnd::Expired,
                stored::HoldEnd::SessionEnded => HoldEnd::SessionEnded,
                stored::HoldEnd::OwnerGone => HoldEnd::OwnerGone,
                stored::HoldEnd::Forced => HoldEnd::Forced(note(&it.note)?),
                stored::HoldEnd::Withdrawn => HoldEnd::Withdrawn,
                stored::HoldEnd::Unreceived => HoldEnd::Unreceived,
            },
            pool: to_path(it.pool)?,
            holder: holder_id(&it.holder)?,
            since: Timestamp::from_millis(it.since_ms),
        },
        Kind::WaitEnded(it) => Event::WaitEnded {
            id: waiter_id(it.id)?,
            how: match it.how() {
                stored::WaitEnd::Unspecified => return Err(format!("end {} of a wait is unknown", it.how)),
                stored::WaitEnd::TimedOut => WaitEnd::TimedOut,
                stored::WaitEnd::Withdrawn => WaitEnd::Withdrawn,
                stored::WaitEnd::SessionEnded => WaitEnd::SessionEnded,
                stored::WaitEnd::CallerGone => WaitEnd::CallerGone,
                stored::WaitEnd::NeverFits => WaitEnd::NeverFits,
                stored::WaitEnd::PoolRemoved => WaitEnd::PoolRemoved,
                stored::WaitEnd::OwnerGone => WaitEnd::OwnerGone,
            },
            pool: to_path(it.pool)?,
            holder: holder_id(&it.holder)?,
            since: Timestamp::from_millis(it.since_ms),
        },
        Kind::WaiterAway(it) => {
            Event::WaiterAway { id: waiter_id(it.id)?, pool: to_path(it.pool)?, holder: holder_id(&it.holder)? }
        }
        Kind::WaiterBack(it) => {
            Event::WaiterBack { id: waiter_id(it.id)?, pool: to_path(it.pool)?, holder: holder_id(&it.holder)? }
        }
        Kind::RequestWithdrawn(it) => {
            Event::RequestWithdrawn { namespace: namespace(&it.namespace)?, request: request(&it.request)? }
        }
        Kind::SessionOpened(it) => Event::SessionOpened {
            id: session_id(it.id)?,
            namespace: namespace(&it.namespace)?,
            key: to_key(it.key)?,
            holder: to_holder(it.holder)?,
            grace: ttl("grace", it.grace_ms)?,
            attached: it.attached,
        },
        Kind::SessionKept(it) => {
            Event::SessionKept { id: session_id(it.id)?, deadline: Timestamp::from_millis(it.deadline_ms) }
        }
        Kind::SessionAttached(it) => {
            let (id, namespace, holder) = to_session_changed(it)?;
            Event::SessionAttached { id, namespace, holder }
        }
        Kind::SessionDetached(it) => Event::SessionDetached {
            id: session_id(it.id)?,
            namespace: namespace(&it.namespace)?,
            holder: holder_id(&it.holder)?,
            deadline: Timestamp::from_millis(it.deadline_ms),
        },
        Kind::SessionClosing(it) => {
            let (id, namespace, holder) = to_session_changed(it)?;
            Event::SessionClosing { id, namespace, holder }
        }
        Kind::SessionEnded(it) => {
            let (id, namespace, holder) = to_session_changed(it)?;
            Event::SessionEnded { id, namespace, holder }
        }
        Kind::PoolSet(it) => Event::PoolSet {
            pool: to_path(it.pool)?,
            spec: to_pool_spec(required("the spec", it.spec)?)?,
            created: it.created,
        },
        Kind::ConditionSet(it) => Event::ConditionSet {
            pool: to_path(it.pool)?,
            resource: it.resource.as_deref().map(resource_name).transpose()?,
            condition: to_condition(required("the condition", it.condition)?)?,
        },
        Kind::PoolRemoving(it) => Event::PoolRemoving { pool: to_path(it.pool)? },
        Kind::PoolGone(it) => Event::PoolGone { pool: to_path(it.pool)? },
        Kind::Restarted(stored::Restarted {}) => Event::Restarted,
    })
}

fn waiter_moved(id: WaiterId, pool: &PoolPath, holder: &HolderId) -> stored::WaiterMoved {
    stored::WaiterMoved { id: id.0, pool: Some(path(pool)), holder: text(holder) }
}

fn session_changed(id: SessionId, namespace: &Namespace, holder: &HolderId) -> stored::SessionChanged {
    stored::SessionChanged { id: id.0, namespace: text(namespace), holder: text(holder) }
}

fn to_session_changed(it: stored::SessionChanged) -> Result<(SessionId, Namespace, HolderId), Wrong> {
    Ok((session_id(it.id)?, namespace(&it.namespace)?, holder_id(&it.holder)?))
}

fn hold(hold: &Hold) -> stored::Hold {
    stored::Hold {
        pool: Some(path(&hold.pool)),
        key: Some(key(hold.key)),
        holder: Some(holder(&hold.holder)),
        units: hold.taken.units,
        resources: hold.taken.resources.iter().map(text).collect(),
        all: hold.taken.all,
        lifetime: Some(lifetime(&hold.lifetime)),
        asked_ms: hold.asked.as_millis(),
        since_ms: hold.since.as_millis(),
        deadline_ms: hold.deadline.map(Timestamp::as_millis),
        session: hold.session.map(|id| id.0),
        request: hold.request.as_ref().map(text),
    }
}

fn to_hold(hold: Option<stored::Hold>) -> Result<Hold, Wrong> {
    let hold = required("the hold", hold)?;
    let resources: Box<[_]> = hold.resources.iter().map(|name| resource_name(name)).collect::<Result<_, _>>()?;
    Ok(Hold {
        pool: to_path(hold.pool)?,
        key: to_key(hold.key)?,
        holder: to_holder(hold.holder)?,
        taken: Taken { units: hold.units, resources, all: hold.all },
        lifetime: to_lifetime(hold.lifetime)?,
        asked: Timestamp::from_millis(hold.asked_ms),
        since: Timestamp::from_millis(hold.since_ms),
        deadline: hold.deadline_ms.map(Timestamp::from_millis),
        session: hold.session.map(session_id).transpose()?,
        request: hold.request.as_deref().map(request).transpose()?,
    })
}

fn waiter(waiter: &Waiter) -> stored::Waiter {
    let count = match waiter.demand.amount {
        Amount::Count(count) => Some(count),
        Amount::All => None,
    };
    let selector = waiter.demand.selector.as_ref().map(|selector| selector.as_str().to_owned());
    stored::Waiter {
        pool: Some(path(&waiter.pool)),
        key: Some(key(waiter.key)),
        holder: Some(holder(&waiter.holder)),
        demand: Some(stored::Demand { count, selector }),
        lifetime: Some(lifetime(&waiter.lifetime)),
        priority: waiter.priority.get().into(),
        since_ms: waiter.since.as_millis(),
        deadline_ms: waiter.deadline.map(Timestamp::as_millis),
        session: waiter.session.map(|id| id.0),
        request: waiter.request.as_ref().map(text),
    }
}

fn to_waiter(waiter: Option<stored::Waiter>) -> Result<Waiter, Wrong> {
    let waiter = required("the waiter", waiter)?;
    let demand = required("the demand", waiter.demand)?;
    let selector = demand.selector.as_deref().map(Selector::parse).transpose();
    Ok(Waiter {
        pool: to_path(waiter.pool)?,
        key: to_key(waiter.key)?,
        holder: to_holder(waiter.holder)?,
        demand: Demand {
            amount: demand.count.map_or(Amount::All, Amount::Count),
            selector: selector.map_err(|error| format!("the selector: {error}"))?,
        },
        lifetime: to_lifetime(waiter.lifetime)?,
        priority: Priority::parse(waiter.priority.into()).map_err(wrong)?,
        since: Timestamp::from_millis(waiter.since_ms),
        deadline: waiter.deadline_ms.map(Timestamp::from_millis),
        session: waiter.session.map(session_id).transpose()?,
        request: waiter.request.as_deref().map(request).transpose()?,
    })
}

fn lifetime(lifetime: &Lifetime) -> stored::Lifetime {
    use stored::lifetime::Kind;
    let kind = match lifetime {
        Lifetime::Leased(ttl) => Kind::LeasedMs(ttl.as_millis()),
        Lifetime::Session => Kind::Session(stored::Empty {}),
        Lifetime::Window(ttl) => Kind::WindowMs(ttl.as_millis()),
        Lifetime::Kept => Kind::Kept(stored::Empty {}),
        Lifetime::Bound(owner) => Kind::Bound(text(owner)),
    };
    stored::Lifetime { kind: Some(kind) }
}

fn to_lifetime(lifetime: Option<stored::Lifetime>) -> Result<Lifetime, Wrong> {
    use stored::lifetime::Kind;
    Ok(match required("the lifetime", lifetime.and_then(|it| it.kind))? {
        Kind::LeasedMs(millis) => Lifetime::Leased(ttl("lease", millis)?),
        Kind::Session(stored::Empty {}) => Lifetime::Session,
        Kind::WindowMs(millis) => Lifetime::Window(ttl("window", millis)?),
        Kind::Kept(stored::Empty {}) => Lifetime::Kept,
        Kind::Bound(owner) => Lifetime::Bound(OwnerId::parse(&owner).map_err(wrong)?),
    })
}

fn pool_spec(spec: &PoolSpec) -> stored::PoolSpec {
    let capacity = match &spec.capacity {
        Capacity::Units(units) => stored::pool_spec::Capacity::Units(*units),
        Capacity::Resources { placement, resources } => {
            let (placement, spread_by) = match placement {
                Placement::First => (stored::Placement::First, String::new()),
                Placement::LeastRecentlyUsed => (stored::Placement::LeastRecentlyUsed, String::new()),
                Placement::MostRecentlyUsed => (stored::Placement::MostRecentlyUsed, String::new()),
                Placement::Random => (stored::Placement::Random, String::new()),
                Placement::Spread(label) => (stored::Placement::Spread, text(label)),
            };
            let resources = resources.iter().map(|spec| stored::ResourceSpec {
                name: text(&spec.name),
                labels: labels(spec.labels.iter()),
                properties: labels(spec.properties.iter()),
            });
            stored::pool_spec::Capacity::Resources(stored::Resources {
                resources: resources.collect(),
                placement: placement.into(),
                spread_by,
            })
        }
    };
    let order = match spec.order {
        Order::Strict => stored::Order::Strict,
        Order::Backfill => stored::Order::Backfill,
    };
    stored::PoolSpec {
        capacity: Some(capacity),
        order: order.into(),
        window_ms: spec.window.map(Ttl::as_millis),
        declared: spec.declared,
    }
}

fn to_pool_spec(spec: stored::PoolSpec) -> Result<PoolSpec, Wrong> {
    let order = match stored::Order::try_from(spec.order) {
        Ok(stored::Order::Strict) => Order::Strict,
        Ok(stored::Order::Backfill) => Order::Backfill,
        Err(_) => return Err(format!("order {} is unknown", spec.order)),
    };
    let capacity = match required("the capacity", spec.capacity)? {
        stored::pool_spec::Capacity::Units(units) => Capacity::Units(units),
        stored::pool_spec::Capacity::Resources(it) => {
            let placement = match stored::Placement::try_from(it.placement) {
                Ok(stored::Placement::First) => Placement::First,
                Ok(stored::Placement::LeastRecentlyUsed) => Placement::LeastRecentlyUsed,
                Ok(stored::Placement::MostRecentlyUsed) => Placement::MostRecentlyUsed,
                Ok(stored::Placement::Random) => Placement::Random,
                Ok(stored::Placement::Spread) => Placement::Spread(LabelName::parse(&it.spread_by).map_err(wrong)?),
                Err(_) => return Err(format!("placement {} is unknown", it.placement)),
            };
            let mut names = BTreeSet::new();
            let mut resources = Vec::with_capacity(it.resources.len());
            for spec in it.resources {
                let spec = to_resource_spec(spec)?;
                if !names.insert(spec.name.clone()) {
                    return Err(format!("resource {} is there twice", spec.name));
                }
                resources.push(spec);
            }
            Capacity::Resources { placement, resources }
        }
    };
    let window = spec.window_ms.map(|millis| ttl("window", millis)).transpose()?;
    Ok(PoolSpec { capacity, order, window, declared: spec.declared })
}

fn to_resource_spec(spec: stored::ResourceSpec) -> Result<ResourceSpec, Wrong> {
    Ok(ResourceSpec {
        name: resource_name(&spec.name)?,
        labels: to_labels(&spec.labels)?,
        properties: to_labels(&spec.properties)?,
    })
}

fn condition(condition: &Condition) -> stored::Condition {
    use stored::condition::Kind;
    let kind = match condition {
        Condition::InService => Kind::InService(stored::Empty {}),
        Condition::Drained(note) => Kind::Drained(note.as_ref().map(text).unwrap_or_default()),
        Condition::Quarantined(note) => Kind::Quarantined(text(note)),
    };
    stored::Condition { kind: Some(kind) }
}

fn to_condition(condition: stored::Condition) -> Result<Condition, Wrong> {
    use stored::condition::Kind;
    Ok(match required("the condition", condition.kind)? {
        Kind::InService(stored::Empty {}) => Condition::InService,
        Kind::Drained(text) if text.is_empty() => Condition::Drained(None),
        Kind::Drained(text) => Condition::Drained(Some(note(&text)?)),
        Kind::Quarantined(text) => Condition::Quarantined(note(&text)?),
    })
}

fn holder(holder: &Holder) -> stored::Holder {
    stored::Holder { id: text(&holder.id), meta: labels(holder.meta()) }
}

fn to_holder(holder: Option<stored::Holder>) -> Result<Arc<Holder>, Wrong> {
    let holder = required("the holder", holder)?;
    let meta = holder.meta.iter().map(|it| (it.name.as_str(), it.value.as_str()));
    Holder::parse(&holder.id, meta).map(Arc::new).map_err(wrong)
}

fn labels<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<stored::Label> {
    labels.map(|(name, value)| stored::Label { name: name.into(), value: value.into() }).collect()
}

fn to_labels(labels: &[stored::Label]) -> Result<Labels, Wrong> {
    Labels::parse(labels.iter().map(|it| (it.name.as_str(), it.value.as_str()))).map_err(wrong)
}

fn path(path: &PoolPath) -> stored::PoolPath {
    stored::PoolPath { namespace: text(path.namespace()), name: text(path.name()) }
}

fn to_path(path: Option<stored::PoolPath>) -> Result<PoolPath, Wrong> {
    let path = required("the pool", path)?;
    Ok(PoolPath::new(namespace(&path.namespace)?, PoolName::parse(&path.name).map_err(wrong)?))
}

fn key(key: Key) -> stored::Key {
    let halves = key.as_bits().to_be_bytes();
    let half = |at: usize| u64::from_be_bytes(halves[at..at + 8].try_into().expect("eight bytes"));
    stored::Key { high: half(0), low: half(8) }
}

fn to_key(key: Option<stored::Key>) -> Result<Key, Wrong> {
    let key = required("the key", key)?;
    Ok(Key::from_bits(u128::from(key.high) << 64 | u128::from(key.low)))
}

/// No counter ever comes here. What is below can be counted on from without overflow.
pub(super) const NUMBER_MAX: u64 = 1 << 62;

fn number(what: &str, number: u64) -> Result<u64, Wrong> {
    if number < NUMBER_MAX { Ok(number) } else { Err(format!("{what} is impossibly high")) }
}

fn token(it: u64) -> Result<Token, Wrong> {
    number("a token", it).map(Token)
}

fn waiter_id(it: u64) -> Result<WaiterId, Wrong> {
    number("a waiter's id", it).map(WaiterId)
}

fn session_id(it: u64) -> Result<SessionId, Wrong> {
    number("a session's id", it).map(SessionId)
}

fn ttl(what: &'static str, millis: u64) -> Result<Ttl, Wrong> {
    Ttl::parse(what, millis).map_err(wrong)
}

fn text(text: &impl std::borrow::Borrow<str>) -> String {
    text.borrow().to_owned()
}

fn namespace(text: &str) -> Result<Namespace, Wrong> {
    Namespace::parse(text).map_err(wrong)
}

fn holder_id(text: &str) -> Result<HolderId, Wrong> {
    HolderId::parse(text).map_err(wrong)
}

fn resource_name(text: &str) -> Result<ResourceName, Wrong> {
    ResourceName::parse(text).map_err(wrong)
}

fn request(text: &str) -> Result<RequestId, Wrong> {
    RequestId::parse(text).map_err(wrong)
}

fn note(text: &str) -> Result<Note, Wrong> {
    Note::parse(text).map_err(wrong)
}

fn required<T>(what: &str, part: Option<T>) -> Result<T, Wrong> {
    part.ok_or_else(|| format!("{what} is missing"))
}

fn wrong(invalid: Invalid) -> Wrong {
    invalid.to_string()
}

//! Between the domain's types and the stored messages. Stored is what storage.proto says; nothing else is.
//!
//! Decoding goes through the domain's parse functions and gives an error for any bytes at all; it never
//! panics. Whether what was decoded fits the state is for [`super::recovery`] to say.

mod event;
mod part;
mod quick;

use std::collections::BTreeSet;

use tenure_core::*;

use self::event::{event, to_event};
use self::part::*;
use super::layout::Address;
use super::{Entry, StoreError};

pub(super) use self::part::NUMBER_MAX;

/// Generated from storage.proto.
#[allow(clippy::all, unreachable_pub, missing_debug_implementations)]
pub(super) mod stored {
    include!(concat!(env!("OUT_DIR"), "/tenure.storage.v1.rs"));
}

/// Why a message is not what it should be.
pub(super) type Wrong = String;

pub(super) fn encode_entry(entry: &Entry) -> Vec<u8> {
    // About what an event takes.
    let bytes = entry.events.len() * 128;
    Address::Entry(entry.first).seal_with(bytes, |buffer| quick::entry(entry, buffer))
}

fn entry(entry: &Entry) -> stored::Entry {
    stored::Entry { at_ms: entry.at.as_millis(), events: entry.events.iter().map(event).collect() }
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

/// The first event that the log has.
pub(super) fn encode_first(first: Seq) -> Vec<u8> {
    Address::LogBounds.seal(&stored::LogBounds { first: first.0 })
}

pub(super) fn decode_first(value: &[u8]) -> Result<Seq, StoreError> {
    let message: stored::LogBounds = Address::LogBounds.unseal(value)?;
    if message.first == 0 || message.first >= NUMBER_MAX {
        return Err(Address::LogBounds.damaged("is impossible"));
    }
    Ok(Seq(message.first))
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
        until_ms: resource.until.map(Timestamp::as_millis),
        dirty: resource.dirty,
        reserved: resource.reserved.as_deref().map(reservation),
    });
    stored::PoolRow {
        resources: resources.collect(),
        spec: Some(spec),
        condition: Some(condition(pool.condition())),
        removing: pool.is_removing(),
        idle_since_ms: pool.idle_since().map(Timestamp::as_millis),
        ordinal_next: pool.next().ordinal,
        use_next: pool.next().used,
        until_ms: pool.until().map(Timestamp::as_millis),
        turns_served: pool
            .turns_served()
            .map(|(priority, turn)| stored::TurnServed { priority: priority.get().into(), turn })
            .collect(),
        script_faults: pool.script_faults(),
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
        resource.until = row.until_ms.map(Timestamp::from_millis);
        resource.dirty = row.dirty;
        if !row.leaving {
            resource.reserved = row.reserved.map(|it| to_reservation(it).map(Box::new)).transpose()?;
        }
        resources.push((spec.name, resource));
    }
    if matches!(spec.capacity, Capacity::Units(_)) && !resources.is_empty() {
        return Err("a pool of units has resources".into());
    }
    let condition = to_condition(required("the condition", row.condition)?)?;
    let next =
        Next { ordinal: number("the next ordinal", row.ordinal_next)?, used: number("the next use", row.use_next)? };
    let idle_since = row.idle_since_ms.map(Timestamp::from_millis);
    let mut pool = Pool::restore(&spec, condition, row.removing, idle_since, resources, next);
    pool.restore_until(row.until_ms.map(Timestamp::from_millis));
    pool.restore_script_faults(row.script_faults);
    for served in row.turns_served {
        let priority = Priority::parse(served.priority.into()).map_err(wrong)?;
        pool.restore_turn_served(priority, to_turn(served.turn)?);
    }
    Ok(pool)
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
        away: session.away,
        outlasts_holds: session.outlasts_holds,
    }
}

pub(super) fn to_session(row: stored::SessionRow) -> Result<Session, Wrong> {
    let mut session = Session::restore(
        Namespace::parse(&row.namespace).map_err(wrong)?,
        to_key(row.key)?,
        to_holder(row.holder)?,
        ttl("grace", row.grace_ms)?,
        number("the attachments", row.attachments)?,
        row.deadline_ms.map(Timestamp::from_millis),
        row.closing,
    );
    session.away = row.away;
    session.outlasts_holds = row.outlasts_holds;
    Ok(session)
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

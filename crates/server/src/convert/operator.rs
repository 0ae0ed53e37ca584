//! What operators ask: each names what it believes to be there, and why.

use tenure_core::*;
use tenure_proto::v1;

use super::request::{Caller, holder, lifetime_of, path, ttl};
use crate::error::{Error, InField};

/// About how many waiters an explanation is if the request does not say.
const EXPLAINED_DEFAULT: u32 = 10;

pub(crate) fn steal(request: v1::StealRequest) -> Result<Command, Error> {
    let lifetime = lifetime_of(request.lifetime, request.ttl_ms, request.owner.as_deref())?;
    match lifetime {
        Some(Lifetime::Session(_)) => {
            return Err(Error::invalid("lifetime", "a hold that is stolen has no session to end with"));
        }
        Some(Lifetime::Window(_)) => {
            return Err(Error::invalid("lifetime", "a place in a rate window cannot be stolen"));
        }
        _ => {}
    }
    Ok(Command::Steal(Steal {
        pool: path(&request.namespace, &request.pool, &Caller::default())?,
        holder: HolderId::parse(&request.holder).in_field("holder")?,
        token: Token(request.token),
        to: {
            HolderId::parse(&request.to).in_field("to")?;
            holder(&request.to, &request.meta)?
        },
        lifetime,
        request: request.request_id.map(|text| RequestId::parse(&text).in_field("request_id")).transpose()?,
        reason: Note::parse(&request.reason).in_field("reason")?,
    }))
}

pub(crate) fn move_waiter(request: &v1::MoveWaiterRequest) -> Result<Command, Error> {
    Ok(Command::MoveWaiter(MoveWaiter {
        pool: path(&request.namespace, &request.pool, &Caller::default())?,
        waiter: WaiterId(request.waiter),
        holder: HolderId::parse(&request.holder).in_field("holder")?,
        before: request.before.map(WaiterId),
        reason: Note::parse(&request.reason).in_field("reason")?,
    }))
}

pub(crate) fn reserve(request: v1::ReserveRequest) -> Result<Command, Error> {
    Ok(Command::Reserve(Reserve {
        pool: path(&request.namespace, &request.pool, &Caller::default())?,
        resource: ResourceName::parse(&request.resource).in_field("resource")?,
        holder: HolderId::parse(&request.holder).in_field("holder")?,
        lasts: request.lasts_ms.map(|millis| ttl("lasts_ms", millis)).transpose()?,
        instead_of: request.instead_of.map(|text| HolderId::parse(&text).in_field("instead_of")).transpose()?,
        reason: Note::parse(&request.reason).in_field("reason")?,
    }))
}

pub(crate) fn unreserve(request: &v1::UnreserveRequest) -> Result<Command, Error> {
    Ok(Command::Unreserve(Unreserve {
        pool: path(&request.namespace, &request.pool, &Caller::default())?,
        resource: ResourceName::parse(&request.resource).in_field("resource")?,
        holder: HolderId::parse(&request.holder).in_field("holder")?,
        reason: Note::parse(&request.reason).in_field("reason")?,
    }))
}

pub(crate) fn explain(request: v1::ExplainRequest) -> Result<Query, Error> {
    let limit = request.limit.unwrap_or(EXPLAINED_DEFAULT) as usize;
    if !(1..=EXPLAINED_MAX).contains(&limit) {
        return Err(Error::invalid("limit", format!("limit is {limit}; it must lie between 1 and {EXPLAINED_MAX}")));
    }
    let who = match (request.waiter, request.request_id) {
        (Some(_), Some(_)) => return Err(Error::invalid("waiter", "waiter and request_id exclude each other")),
        (Some(waiter), None) => Some(Whom::Waiter(WaiterId(waiter))),
        (None, Some(text)) => Some(Whom::Request(RequestId::parse(&text).in_field("request_id")?)),
        (None, None) => None,
    };
    Ok(Query::Explain { pool: path(&request.namespace, &request.pool, &Caller::default())?, who, limit })
}

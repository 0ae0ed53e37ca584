//! Replies and views as messages. Views hold no secret; replies to a holder do.

use tenure_core::*;
use tenure_proto::v1;

use super::event::hold_end;
use super::pool::{owned, resource};

pub(crate) fn grant(grant: &Grant) -> v1::Grant {
    let Lived { lifetime, ttl_ms, .. } = lived(&grant.lifetime);
    v1::Grant {
        namespace: grant.pool.namespace().to_string(),
        pool: grant.pool.name().to_string(),
        token: grant.token.0,
        key: grant.key.to_string(),
        units: grant.units,
        resources: grant.resources.iter().map(resource).collect(),
        lifetime,
        ttl_ms,
        since_ms: grant.since.as_millis(),
        deadline_ms: grant.deadline.map(Timestamp::as_millis),
        also: grant.also.iter().map(granted_part).collect(),
    }
}

fn granted_part(part: &GrantedPart) -> v1::GrantedPart {
    v1::GrantedPart {
        pool: part.pool.name().to_string(),
        units: part.units,
        resources: part.resources.iter().map(resource).collect(),
        deadline_ms: part.until.map(Timestamp::as_millis),
    }
}

pub(super) fn held_part(part: &HeldPart) -> v1::HeldPart {
    v1::HeldPart {
        pool: part.pool.name().to_string(),
        units: Some(part.taken.units),
        resources: part.taken.resources.iter().map(ToString::to_string).collect(),
        deadline_ms: part.until.map(Timestamp::as_millis),
    }
}

pub(super) fn wanted_part(pool: &PoolPath, demand: &Demand) -> v1::Part {
    let Wanted { units, all, select } = wanted(demand);
    v1::Part { pool: pool.name().to_string(), units, all, select, size: None }
}

pub(crate) fn queued(queued: &Queued) -> v1::Queued {
    v1::Queued { position: queued.position as u64, deadline_ms: queued.deadline.map(Timestamp::as_millis) }
}

pub(crate) fn renewed(token: Token, ttl: Ttl, deadline: Timestamp) -> v1::Renewed {
    v1::Renewed { token: token.0, ttl_ms: ttl.as_millis(), deadline_ms: deadline.as_millis() }
}

pub(crate) fn released(token: Token) -> v1::Released {
    v1::Released { token: token.0 }
}

pub(crate) fn session_opened(open: &SessionOpen) -> v1::SessionOpened {
    v1::SessionOpened {
        session: open.id.0,
        session_key: open.key.to_string(),
        grace_ms: open.grace.as_millis(),
        deadline_ms: open.deadline.map(Timestamp::as_millis),
    }
}

pub(crate) fn hold_lost(lost: &HoldLost) -> v1::HoldLost {
    let (how, note) = hold_end(&lost.how);
    v1::HoldLost { token: lost.token.0, how: how.into(), note }
}

pub(crate) fn hold(view: &HoldView) -> v1::Hold {
    let Lived { lifetime, ttl_ms, owner } = lived(&view.lifetime);
    v1::Hold {
        namespace: view.pool.namespace().to_string(),
        pool: view.pool.name().to_string(),
        token: view.token.0,
        holder: view.holder.id.to_string(),
        meta: owned(view.holder.meta()),
        units: view.units,
        resources: view.resources.iter().map(ToString::to_string).collect(),
        lifetime,
        ttl_ms,
        owner,
        since_ms: view.since.as_millis(),
        deadline_ms: view.deadline.map(Timestamp::as_millis),
        session: view.session.map(|session| session.0),
        also: view.also.iter().map(held_part).collect(),
    }
}

pub(crate) fn holds(page: &Page<HoldView, Token>) -> v1::ListHoldsResponse {
    v1::ListHoldsResponse {
        holds: page.items.iter().map(hold).collect(),
        next: page.next.map(|token| token.0.to_string()),
    }
}

pub(crate) fn pools(page: &Page<PoolView, PoolName>) -> v1::ListPoolsResponse {
    v1::ListPoolsResponse {
        pools: page.items.iter().map(super::summary).collect(),
        next: page.next.as_ref().map(ToString::to_string),
    }
}

pub(crate) fn queue(page: &Page<WaiterView, Place>) -> v1::ListQueueResponse {
    v1::ListQueueResponse { waiters: page.items.iter().map(waiter).collect(), next: page.next.as_ref().map(place) }
}

pub(super) fn waiter(view: &WaiterView) -> v1::Waiter {
    let Wanted { units, all, select } = wanted(&view.demand);
    v1::Waiter {
        waiter: view.id.0,
        position: view.position.map(|position| position as u64),
        holder: view.holder.id.to_string(),
        meta: owned(view.holder.meta()),
        units,
        all,
        select,
        priority: view.place.priority().get().into(),
        since_ms: view.since.as_millis(),
        deadline_ms: view.deadline.map(Timestamp::as_millis),
        session: view.session.map(|session| session.0),
        dirty: view.demand.dirty,
        also: view.also.iter().map(|(pool, demand)| wanted_part(pool, demand)).collect(),
    }
}

/// Where a listing goes on, as [`super::list_queue`] reads it.
fn place(place: &Place) -> String {
    let (priority, arrival) = (place.priority().get(), place.arrival().0);
    match place.is_ranked() {
        false => format!("{priority}.{arrival}"),
        true => format!("{priority}.{arrival}.{}.{}", place.rank().turn, place.rank().within),
    }
}

pub(crate) fn explained(explanation: &Explanation) -> v1::ExplainResponse {
    let explained = |it: &WaiterExplained| v1::WaiterExplained {
        waiter: Some(waiter(&it.waiter)),
        sentences: it.sentences.clone(),
    };
    v1::ExplainResponse { pool: explanation.pool.clone(), waiters: explanation.waiters.iter().map(explained).collect() }
}

pub(crate) fn sessions(page: &Page<SessionView, SessionId>) -> v1::ListSessionsResponse {
    let session = |view: &SessionView| v1::Session {
        session: view.id.0,
        holder: view.holder.id.to_string(),
        meta: owned(view.holder.meta()),
        grace_ms: view.grace.as_millis(),
        attached: view.attached,
        deadline_ms: view.deadline.map(Timestamp::as_millis),
        holds: view.holds as u64,
        waiters: view.waiters as u64,
    };
    v1::ListSessionsResponse {
        sessions: page.items.iter().map(session).collect(),
        next: page.next.map(|session| session.0.to_string()),
    }
}

/// A lifetime as the fields it has in a message.
pub(super) struct Lived {
    pub(super) lifetime: i32,
    pub(super) ttl_ms: Option<u64>,
    pub(super) owner: Option<String>,
}

pub(super) fn lived(lifetime: &Lifetime) -> Lived {
    let (lifetime, ttl, owner) = match lifetime {
        Lifetime::Leased(ttl) => (v1::Lifetime::Leased, Some(ttl), None),
        Lifetime::Session(ttl) => (v1::Lifetime::Session, ttl.as_ref(), None),
        Lifetime::Window(ttl) => (v1::Lifetime::Window, Some(ttl), None),
        Lifetime::Kept => (v1::Lifetime::Kept, None, None),
        Lifetime::Bound(owner) => (v1::Lifetime::Bound, None, Some(owner)),
    };
    Lived { lifetime: lifetime.into(), ttl_ms: ttl.map(|ttl| ttl.as_millis()), owner: owner.map(ToString::to_string) }
}

/// A demand as the fields it has in a message.
pub(super) struct Wanted {
    pub(super) units: Option<u32>,
    pub(super) all: bool,
    pub(super) select: Option<String>,
}

pub(super) fn wanted(demand: &Demand) -> Wanted {
    let units = match demand.amount {
        Amount::Count(units) => Some(units),
        Amount::All => None,
    };
    Wanted {
        units,
        all: units.is_none(),
        select: demand.selector.as_ref().map(|selector| selector.as_str().to_owned()),
    }
}

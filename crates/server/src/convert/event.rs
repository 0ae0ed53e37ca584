//! Events as messages. They are told to onlookers, so keys, session keys and request ids stay out.

use tenure_core::*;
use tenure_engine::Recorded;
use tenure_proto::v1;

use super::answer::{Lived, Wanted, held_part, lived, wanted, wanted_part};
use super::pool::{condition, owned, spec};

pub(crate) fn event(recorded: &Recorded) -> v1::Event {
    let event = &recorded.event;
    let told = v1::Event {
        seq: recorded.seq.0,
        at_ms: recorded.at.as_millis(),
        kind: kind(event).into(),
        namespace: event.namespace().map(ToString::to_string),
        pool: event.pool().map(|pool| pool.name().to_string()),
        holder: event.holder().map(ToString::to_string),
        ..v1::Event::default()
    };
    match event {
        Event::Queued { id, waiter } => queued(*id, waiter, told),
        Event::Granted { token, hold, waiter } => granted(*token, hold, *waiter, told),
        Event::Renewed { token, ttl, deadline, adopted_from, .. } => v1::Event {
            token: Some(token.0),
            session: adopted_from.map(|session| session.0),
            ttl_ms: Some(ttl.as_millis()),
            deadline_ms: Some(deadline.as_millis()),
            ..told
        },
        Event::Ended { token, session, since, how, also, .. } => {
            let to = match how {
                HoldEnd::Stolen { to, .. } => Some(to.to_string()),
                _ => None,
            };
            let (how, note) = hold_end(how);
            v1::Event {
                to,
                token: Some(token.0),
                session: session.map(|session| session.0),
                since_ms: Some(since.as_millis()),
                how: how.into(),
                note,
                also: ended(also),
                ..told
            }
        }
        Event::WaitEnded { id, since, how, also, .. } => v1::Event {
            waiter: Some(id.0),
            since_ms: Some(since.as_millis()),
            how: wait_end(*how).into(),
            also: ended(also),
            ..told
        },
        Event::WaiterAway { id, .. } | Event::WaiterBack { id, .. } => v1::Event { waiter: Some(id.0), ..told },
        Event::SessionOpened { id, holder, grace, .. } => {
            v1::Event { session: Some(id.0), meta: owned(holder.meta()), ttl_ms: Some(grace.as_millis()), ..told }
        }
        Event::SessionKept { id, deadline } | Event::SessionDetached { id, deadline, .. } => {
            v1::Event { session: Some(id.0), deadline_ms: Some(deadline.as_millis()), ..told }
        }
        Event::SessionAttached { id, .. } | Event::SessionClosing { id, .. } | Event::SessionEnded { id, .. } => {
            v1::Event { session: Some(id.0), ..told }
        }
        Event::PoolSet { spec: set, created, .. } => {
            v1::Event { spec: Some(spec(set)), created: Some(*created), ..told }
        }
        Event::ConditionSet { resource, condition: set, until, automatic, .. } => v1::Event {
            resource: resource.as_ref().map(ToString::to_string),
            condition: Some(condition(set)),
            deadline_ms: until.map(Timestamp::as_millis),
            automatic: automatic.then_some(true),
            ..told
        },
        Event::Reserved { resource, until, reason, .. } => v1::Event {
            resource: Some(resource.to_string()),
            deadline_ms: until.map(Timestamp::as_millis),
            note: Some(reason.to_string()),
            ..told
        },
        Event::ReservationEnded { resource, how, .. } => {
            let (how, note) = match how {
                ReservationEnd::Cancelled(reason) => (v1::How::Cancelled, Some(reason.to_string())),
                ReservationEnd::Expired => (v1::How::Expired, None),
            };
            v1::Event { resource: Some(resource.to_string()), how: how.into(), note, ..told }
        }
        Event::WaiterMoved { id, before, priority, reason, .. } => v1::Event {
            waiter: Some(id.0),
            before: before.map(|id| id.0),
            priority: Some(priority.get().into()),
            note: Some(reason.to_string()),
            ..told
        },
        Event::PolicyFailed { which, why, set_aside, .. } => v1::Event {
            script: Some(which.as_str().to_owned()),
            note: Some(why.to_string()),
            set_aside: set_aside.then_some(true),
            ..told
        },
        Event::RequestWithdrawn { .. } | Event::PoolRemoving { .. } | Event::PoolGone { .. } | Event::Restarted => told,
    }
}

fn ended(also: &[PoolPath]) -> Vec<v1::HeldPart> {
    also.iter().map(|pool| v1::HeldPart { pool: pool.name().to_string(), ..v1::HeldPart::default() }).collect()
}

fn queued(id: WaiterId, waiter: &Waiter, told: v1::Event) -> v1::Event {
    let Lived { lifetime, ttl_ms, owner } = lived(&waiter.lifetime);
    let Wanted { units, all, select } = wanted(&waiter.demand);
    v1::Event {
        waiter: Some(id.0),
        meta: owned(waiter.holder.meta()),
        units,
        all: all.then_some(true),
        dirty: waiter.demand.dirty.then_some(true),
        select,
        lifetime,
        ttl_ms,
        owner,
        priority: Some(waiter.priority.get().into()),
        deadline_ms: waiter.deadline.map(Timestamp::as_millis),
        session: waiter.session.map(|session| session.0),
        waits_also: waiter.also.iter().map(|part| wanted_part(&part.pool, &part.demand)).collect(),
        ..told
    }
}

fn granted(token: Token, hold: &Hold, waiter: Option<WaiterId>, told: v1::Event) -> v1::Event {
    let Lived { lifetime, ttl_ms, owner } = lived(&hold.lifetime);
    v1::Event {
        token: Some(token.0),
        waiter: waiter.map(|waiter| waiter.0),
        since_ms: waiter.map(|_| hold.asked.as_millis()),
        meta: owned(hold.holder.meta()),
        units: Some(hold.taken.units),
        dirty: hold.taken.dirty.then_some(true),
        resources: hold.taken.resources.iter().map(ToString::to_string).collect(),
        lifetime,
        ttl_ms,
        owner,
        deadline_ms: hold.deadline.map(Timestamp::as_millis),
        session: hold.session.map(|session| session.0),
        also: hold.also.iter().map(held_part).collect(),
        ..told
    }
}

fn kind(event: &Event) -> v1::EventKind {
    match event {
        Event::Queued { .. } => v1::EventKind::Queued,
        Event::Granted { .. } => v1::EventKind::Granted,
        Event::Renewed { .. } => v1::EventKind::Renewed,
        Event::Ended { .. } => v1::EventKind::Ended,
        Event::WaitEnded { .. } => v1::EventKind::WaitEnded,
        Event::WaiterAway { .. } => v1::EventKind::WaiterAway,
        Event::WaiterBack { .. } => v1::EventKind::WaiterBack,
        Event::RequestWithdrawn { .. } => v1::EventKind::RequestWithdrawn,
        Event::SessionOpened { .. } => v1::EventKind::SessionOpened,
        Event::SessionKept { .. } => v1::EventKind::SessionKept,
        Event::SessionAttached { .. } => v1::EventKind::SessionAttached,
        Event::SessionDetached { .. } => v1::EventKind::SessionDetached,
        Event::SessionClosing { .. } => v1::EventKind::SessionClosing,
        Event::SessionEnded { .. } => v1::EventKind::SessionEnded,
        Event::PoolSet { .. } => v1::EventKind::PoolSet,
        Event::ConditionSet { .. } => v1::EventKind::ConditionSet,
        Event::PoolRemoving { .. } => v1::EventKind::PoolRemoving,
        Event::PoolGone { .. } => v1::EventKind::PoolGone,
        Event::Restarted => v1::EventKind::Restarted,
        Event::Reserved { .. } => v1::EventKind::Reserved,
        Event::ReservationEnded { .. } => v1::EventKind::ReservationEnded,
        Event::WaiterMoved { .. } => v1::EventKind::WaiterMoved,
        Event::PolicyFailed { .. } => v1::EventKind::PolicyFailed,
    }
}

pub(super) fn hold_end(how: &HoldEnd) -> (v1::How, Option<String>) {
    let told = match how {
        HoldEnd::Released => v1::How::Released,
        HoldEnd::Expired => v1::How::Expired,
        HoldEnd::SessionEnded => v1::How::SessionEnded,
        HoldEnd::OwnerGone => v1::How::OwnerGone,
        HoldEnd::Forced(reason) => return (v1::How::Forced, Some(reason.to_string())),
        HoldEnd::Withdrawn => v1::How::Withdrawn,
        HoldEnd::Unreceived => v1::How::Unreceived,
        HoldEnd::Stolen { reason, .. } => return (v1::How::Stolen, Some(reason.to_string())),
    };
    (told, None)
}

fn wait_end(how: WaitEnd) -> v1::How {
    match how {
        WaitEnd::TimedOut => v1::How::TimedOut,
        WaitEnd::Withdrawn => v1::How::Withdrawn,
        WaitEnd::SessionEnded => v1::How::SessionEnded,
        WaitEnd::OwnerGone => v1::How::OwnerGone,
        WaitEnd::CallerGone => v1::How::CallerGone,
        WaitEnd::NeverFits => v1::How::NeverFits,
        WaitEnd::PoolRemoved => v1::How::PoolRemoved,
    }
}

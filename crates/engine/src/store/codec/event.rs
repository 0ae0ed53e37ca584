//! Events, one message each.

use tenure_core::*;

use super::part::*;
use super::{Wrong, stored};

pub(super) fn event(event: &Event) -> stored::Event {
    use stored::event::Kind;
    let kind = match event {
        Event::Queued { id, waiter: it } => Kind::Queued(stored::Queued { id: id.0, waiter: Some(waiter(it)) }),
        Event::Granted { token, hold: it, waiter } => {
            Kind::Granted(stored::Granted { token: token.0, hold: Some(hold(it)), waiter: waiter.map(|id| id.0) })
        }
        Event::Renewed { token, pool, holder, ttl, deadline, adopted_from } => Kind::Renewed(stored::Renewed {
            token: token.0,
            pool: Some(path(pool)),
            holder: text(holder),
            ttl_ms: ttl.as_millis(),
            deadline_ms: deadline.as_millis(),
            adopted_from: adopted_from.map(|id| id.0),
        }),
        Event::Ended { token, pool, holder, session, since, how, also } => {
            let mut to = String::new();
            let (how, note) = match how {
                HoldEnd::Released => (stored::HoldEnd::Released, String::new()),
                HoldEnd::Expired => (stored::HoldEnd::Expired, String::new()),
                HoldEnd::SessionEnded => (stored::HoldEnd::SessionEnded, String::new()),
                HoldEnd::OwnerGone => (stored::HoldEnd::OwnerGone, String::new()),
                HoldEnd::Forced(note) => (stored::HoldEnd::Forced, text(note)),
                HoldEnd::Withdrawn => (stored::HoldEnd::Withdrawn, String::new()),
                HoldEnd::Unreceived => (stored::HoldEnd::Unreceived, String::new()),
                HoldEnd::Stolen { to: next, reason } => {
                    to = text(next);
                    (stored::HoldEnd::Stolen, text(reason))
                }
            };
            Kind::Ended(stored::Ended {
                token: token.0,
                pool: Some(path(pool)),
                holder: text(holder),
                since_ms: since.as_millis(),
                how: how.into(),
                note,
                session: session.map(|id| id.0),
                also: also.iter().map(path).collect(),
                to,
            })
        }
        Event::WaitEnded { id, pool, holder, since, how, also } => {
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
                also: also.iter().map(path).collect(),
            })
        }
        Event::WaiterAway { id, pool, holder } => Kind::WaiterAway(waiter_moved(*id, pool, holder)),
        Event::WaiterBack { id, pool, holder } => Kind::WaiterBack(waiter_moved(*id, pool, holder)),
        Event::RequestWithdrawn { namespace, request } => {
            Kind::RequestWithdrawn(stored::RequestWithdrawn { namespace: text(namespace), request: text(request) })
        }
        Event::SessionOpened { id, namespace, key: secret, holder: it, grace, attached, outlasts_holds } => {
            Kind::SessionOpened(stored::SessionOpened {
                id: id.0,
                namespace: text(namespace),
                key: Some(key(*secret)),
                holder: Some(holder(it)),
                grace_ms: grace.as_millis(),
                attached: *attached,
                outlasts_holds: *outlasts_holds,
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
        Event::ConditionSet { pool, resource, condition: it, until, automatic } => {
            Kind::ConditionSet(stored::ConditionSet {
                pool: Some(path(pool)),
                resource: resource.as_ref().map(text),
                condition: Some(condition(it)),
                until_ms: until.map(Timestamp::as_millis),
                automatic: *automatic,
            })
        }
        Event::PoolRemoving { pool } => Kind::PoolRemoving(stored::PoolChanged { pool: Some(path(pool)) }),
        Event::PoolGone { pool } => Kind::PoolGone(stored::PoolChanged { pool: Some(path(pool)) }),
        Event::Restarted => Kind::Restarted(stored::Restarted {}),
        Event::Reserved { pool, resource, holder, until, reason } => {
            let it = Reservation { holder: holder.clone(), until: *until, reason: reason.clone() };
            Kind::Reserved(stored::Reserved {
                pool: Some(path(pool)),
                resource: text(resource),
                reservation: Some(reservation(&it)),
            })
        }
        Event::ReservationEnded { pool, resource, holder, how } => Kind::ReservationEnded(stored::ReservationEnded {
            pool: Some(path(pool)),
            resource: text(resource),
            holder: text(holder),
            cancelled: match how {
                ReservationEnd::Cancelled(reason) => Some(text(reason)),
                ReservationEnd::Expired => None,
            },
        }),
        Event::WaiterMoved { id, pool, holder, before, priority, rank: it, reason } => {
            Kind::WaiterRanked(stored::WaiterRanked {
                id: id.0,
                pool: Some(path(pool)),
                holder: text(holder),
                before: before.map(|id| id.0),
                priority: priority.get().into(),
                rank: Some(rank(*it)),
                reason: text(reason),
            })
        }
        Event::PolicyFailed { pool, which, why, set_aside } => Kind::PolicyFailed(stored::PolicyFailed {
            pool: Some(path(pool)),
            order: *which == Which::Order,
            why: text(why),
            set_aside: *set_aside,
        }),
    };
    stored::Event { kind: Some(kind) }
}

pub(super) fn to_event(event: stored::Event) -> Result<Event, Wrong> {
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
            adopted_from: it.adopted_from.map(session_id).transpose()?,
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
                stored::HoldEnd::Stolen => HoldEnd::Stolen { to: holder_id(&it.to)?, reason: note(&it.note)? },
            },
            pool: to_path(it.pool)?,
            holder: holder_id(&it.holder)?,
            session: it.session.map(session_id).transpose()?,
            since: Timestamp::from_millis(it.since_ms),
            also: it.also.into_iter().map(|pool| to_path(Some(pool))).collect::<Result<_, _>>()?,
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
            also: it.also.into_iter().map(|pool| to_path(Some(pool))).collect::<Result<_, _>>()?,
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
            outlasts_holds: it.outlasts_holds,
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
            until: it.until_ms.map(Timestamp::from_millis),
            automatic: it.automatic,
        },
        Kind::PoolRemoving(it) => Event::PoolRemoving { pool: to_path(it.pool)? },
        Kind::PoolGone(it) => Event::PoolGone { pool: to_path(it.pool)? },
        Kind::Restarted(stored::Restarted {}) => Event::Restarted,
        Kind::Reserved(it) => {
            let Reservation { holder, until, reason } = to_reservation(required("the reservation", it.reservation)?)?;
            Event::Reserved { pool: to_path(it.pool)?, resource: resource_name(&it.resource)?, holder, until, reason }
        }
        Kind::ReservationEnded(it) => Event::ReservationEnded {
            pool: to_path(it.pool)?,
            resource: resource_name(&it.resource)?,
            holder: holder_id(&it.holder)?,
            how: match it.cancelled {
                Some(reason) => ReservationEnd::Cancelled(note(&reason)?),
                None => ReservationEnd::Expired,
            },
        },
        Kind::WaiterRanked(it) => Event::WaiterMoved {
            id: waiter_id(it.id)?,
            pool: to_path(it.pool)?,
            holder: holder_id(&it.holder)?,
            before: it.before.map(waiter_id).transpose()?,
            priority: Priority::parse(it.priority.into()).map_err(wrong)?,
            rank: to_rank(required("the rank", it.rank)?)?,
            reason: note(&it.reason)?,
        },
        Kind::PolicyFailed(it) => Event::PolicyFailed {
            pool: to_path(it.pool)?,
            which: if it.order { Which::Order } else { Which::Place },
            why: note(&it.why)?,
            set_aside: it.set_aside,
        },
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

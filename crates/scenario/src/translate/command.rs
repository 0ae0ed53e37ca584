//! Actions as commands and queries.

use std::sync::Arc;

use tenure_core::*;

use crate::action::{self, Action, InSession};

/// A session's key in the right form that nobody was ever given.
const SESSION_OF_NOBODY: Key = Key::from_nonce(1);

/// A session as the actor who opened it knows it.
#[derive(Clone, Debug)]
pub struct OwnSession {
    pub namespace: Namespace,
    pub opened: SessionOpen,
}

/// The command of an action; none if it is a question, or not for the rules at all.
pub fn command(
    actor: &str,
    action: &Action,
    key: Option<&str>,
    session: Option<&OwnSession>,
) -> Result<Option<Command>, Invalid> {
    let key = || Key::parse(key.expect("the runner finds the key of a hold"));
    let own = || session.expect("the actor of a scenario has opened a session");
    Ok(Some(match action {
        Action::Acquire(acquire) => Command::Acquire(self::acquire(acquire, session)?),
        Action::Renew { hold, ttl } => {
            let pool = path(&hold.pool)?;
            Command::Renew(Renew {
                namespace: pool.namespace().clone(),
                key: key()?,
                pool: Some(pool.name().clone()),
                ttl: ttl.map(|ttl| Ttl::parse("ttl", ttl)).transpose()?,
            })
        }
        Action::Release { hold } => {
            let pool = path(&hold.pool)?;
            let (namespace, pool) = (pool.namespace().clone(), Some(pool.name().clone()));
            Command::Release(Release { namespace, key: key()?, pool })
        }
        Action::Withdraw { namespace, request } => {
            Command::Withdraw { namespace: Namespace::parse(namespace)?, request: RequestId::parse(request)? }
        }
        Action::OpenSession(open) => Command::OpenSession(OpenSession {
            namespace: Namespace::parse(&open.namespace)?,
            holder: Arc::new(Holder::parse(actor, [])?),
            grace: Ttl::parse("grace", open.grace)?,
            attached: !open.polled,
            outlasts_holds: false,
        }),
        Action::KeepAlive => Command::KeepAlive { namespace: own().namespace.clone(), session: own().opened.key },
        Action::DropSession => Command::DetachSession { session: own().opened.id, attachment: own().opened.attachment },
        Action::DropOldConnection => {
            Command::DetachSession { session: own().opened.id, attachment: own().opened.attachment - 1 }
        }
        Action::ResumeSession => {
            Command::AttachSession { namespace: own().namespace.clone(), session: own().opened.key }
        }
        Action::EndSession => Command::EndSession { namespace: own().namespace.clone(), session: own().opened.key },
        Action::ForceRelease(force) => Command::ForceRelease(ForceRelease {
            pool: path(&force.pool)?,
            holder: HolderId::parse(&force.holder)?,
            token: Token(force.token),
            reason: Note::parse(&force.reason)?,
        }),
        Action::OwnerGone { namespace, owner } => {
            Command::OwnerGone { namespace: Namespace::parse(namespace)?, owner: OwnerId::parse(owner)? }
        }
        Action::SetPool(set) => set_pool(set)?,
        Action::SetCondition(set) => set_condition(set)?,
        Action::RemovePool(pool) => Command::RemovePool { pool: path(pool)? },
        Action::Steal(steal) => Command::Steal(Steal {
            pool: path(&steal.pool)?,
            holder: HolderId::parse(&steal.holder)?,
            token: Token(steal.token),
            to: Arc::new(Holder::parse(&steal.to, [])?),
            lifetime: steal.lifetime.as_ref().map(lifetime).transpose()?,
            request: steal.request.as_deref().map(RequestId::parse).transpose()?,
            reason: Note::parse(&steal.reason)?,
        }),
        Action::MoveWaiter(to) => Command::MoveWaiter(MoveWaiter {
            pool: path(&to.pool)?,
            waiter: WaiterId(to.waiter),
            holder: HolderId::parse(&to.holder)?,
            before: to.before.map(WaiterId),
            reason: Note::parse(&to.reason)?,
        }),
        Action::Reserve(reserve) => Command::Reserve(Reserve {
            pool: path(&reserve.pool)?,
            resource: ResourceName::parse(&reserve.resource)?,
            holder: HolderId::parse(&reserve.holder)?,
            lasts: reserve.lasts.map(|lasts| Ttl::parse("lasts_ms", lasts)).transpose()?,
            instead_of: reserve.instead_of.as_deref().map(HolderId::parse).transpose()?,
            reason: Note::parse(&reserve.reason)?,
        }),
        Action::Unreserve(unreserve) => Command::Unreserve(Unreserve {
            pool: path(&unreserve.pool)?,
            resource: ResourceName::parse(&unreserve.resource)?,
            holder: HolderId::parse(&unreserve.holder)?,
            reason: Note::parse(&unreserve.reason)?,
        }),
        Action::HangUp
        | Action::StopListening
        | Action::Show { .. }
        | Action::Queue(_)
        | Action::Holds { .. }
        | Action::List { .. }
        | Action::Sessions { .. }
        | Action::History { .. }
        | Action::Explain { .. }
        | Action::Restart
        | Action::Stop
        | Action::Start
        | Action::Pass => return Ok(None),
    }))
}

/// The question an action asks of the state, if it is one.
pub fn query(action: &Action) -> Result<Option<Query>, Invalid> {
    let limit = PAGE_MAX;
    Ok(Some(match action {
        Action::Show { pool, .. } => Query::Pool { pool: path(pool)? },
        Action::Queue(pool) => Query::Queue { pool: path(pool)?, after: None, limit },
        Action::Holds { namespace, pool, holder } => Query::Holds {
            namespace: Namespace::parse(namespace)?,
            pool: pool.as_deref().map(PoolName::parse).transpose()?,
            holder: holder.as_deref().map(HolderId::parse).transpose()?,
            after: None,
            limit,
        },
        Action::List { namespace, prefix } => {
            Query::Pools { namespace: Namespace::parse(namespace)?, prefix: prefix.clone(), after: None, limit }
        }
        Action::Sessions { namespace } => {
            Query::Sessions { namespace: Namespace::parse(namespace)?, after: None, limit }
        }
        Action::Explain { pool, request, waiter } => {
            let request = request.as_deref().map(RequestId::parse).transpose()?.map(Whom::Request);
            let who = request.or_else(|| waiter.map(|id| Whom::Waiter(WaiterId(id))));
            Query::Explain { pool: path(pool)?, who, limit: EXPLAINED_MAX }
        }
        _ => return Ok(None),
    }))
}

fn path(pool: &action::Pool) -> Result<PoolPath, Invalid> {
    Ok(PoolPath::new(Namespace::parse(&pool.namespace)?, PoolName::parse(&pool.name)?))
}

fn acquire(acquire: &action::Acquire, session: Option<&OwnSession>) -> Result<Acquire, Invalid> {
    let pool = path(&acquire.pool)?;
    let mut also = Vec::with_capacity(acquire.also.len());
    for part in &acquire.also {
        also.push(Part {
            pool: PoolPath::new(pool.namespace().clone(), PoolName::parse(&part.pool)?),
            demand: demand(part.amount, part.select.as_deref(), part.resource.as_deref())?,
            size: part.size,
        });
    }
    Ok(Acquire {
        also: Part::parse_all(&pool, also)?,
        holds_on: acquire.holds_on,
        pool,
        demand: Demand {
            dirty: acquire.dirty,
            ..demand(acquire.amount, acquire.select.as_deref(), acquire.resource.as_deref())?
        },
        size: acquire.size,
        lifetime: acquire.lifetime.as_ref().map(lifetime).transpose()?,
        wait: match acquire.wait {
            action::Wait::Try => Wait::Try,
            action::Wait::For(wait) => Wait::For(Ttl::parse("wait", wait)?),
            action::Wait::Forever => Wait::Forever,
        },
        priority: Priority::parse(acquire.priority)?,
        holder: Arc::new(Holder::parse(
            &acquire.holder,
            acquire.meta.iter().map(|(name, value)| (name.as_str(), value.as_str())),
        )?),
        session: match acquire.session {
            InSession::No => None,
            InSession::Own => Some(session.expect("the actor of a scenario has opened a session").opened.key),
            InSession::Wrong => Some(SESSION_OF_NOBODY),
        },
        request: acquire.request.as_deref().map(RequestId::parse).transpose()?,
    })
}

fn demand(amount: action::Amount, select: Option<&str>, resource: Option<&str>) -> Result<Demand, Invalid> {
    let selector = match (select, resource) {
        (Some(text), _) => Some(Selector::parse(text).map_err(|error| Invalid::new("selector", error.to_string()))?),
        (None, Some(name)) => Some(Selector::named(&ResourceName::parse(name)?)),
        (None, None) => None,
    };
    let amount = match amount {
        action::Amount::All => Amount::All,
        action::Amount::Count(0) => return Err(Invalid::new("units", "is 0; the least is 1")),
        action::Amount::Count(count) => Amount::Count(count),
    };
    Ok(Demand { amount, selector, dirty: false })
}

fn lifetime(lifetime: &action::Lifetime) -> Result<Lifetime, Invalid> {
    Ok(match lifetime {
        action::Lifetime::Leased(ttl) => Lifetime::Leased(Ttl::parse("ttl", *ttl)?),
        action::Lifetime::Session(ttl) => Lifetime::Session(ttl.map(|ttl| Ttl::parse("ttl", ttl)).transpose()?),
        action::Lifetime::Window(window) => Lifetime::Window(Ttl::parse("window", *window)?),
        action::Lifetime::Kept => Lifetime::Kept,
        action::Lifetime::Bound(owner) => Lifetime::Bound(OwnerId::parse(owner)?),
    })
}

fn set_pool(set: &action::SetPool) -> Result<Command, Invalid> {
    let pool = path(&set.pool)?;
    let change = SetPool { pool: pool.clone(), spec: spec(set)? };
    Ok(match set.size_was {
        None => Command::SetPool(change),
        size => {
            Command::ChangeSeen { seen: Seen { pool, resource: None, size, state: None }, change: Change::Pool(change) }
        }
    })
}

fn set_condition(set: &action::SetCondition) -> Result<Command, Invalid> {
    let pool = path(&set.pool)?;
    let resource = set.resource.as_deref().map(ResourceName::parse).transpose()?;
    let change = SetCondition {
        pool: pool.clone(),
        resource: resource.clone(),
        condition: match &set.condition {
            action::Condition::InService => Condition::InService,
            action::Condition::Drained(note) => Condition::Drained(note.as_deref().map(Note::parse).transpose()?),
            action::Condition::Quarantined(note) => Condition::Quarantined(Note::parse(note)?),
        },
        lasts: set.lasts.map(|lasts| Ttl::parse("lasts_ms", lasts)).transpose()?,
    };
    let state = set.state_was.map(|state| match state {
        action::State::InService => ConditionState::InService,
        action::State::Drained => ConditionState::Drained,
        action::State::Quarantined => ConditionState::Quarantined,
    });
    Ok(match state {
        None => Command::SetCondition(change),
        state => {
            Command::ChangeSeen { seen: Seen { pool, resource, size: None, state }, change: Change::Condition(change) }
        }
    })
}

fn spec(set: &action::SetPool) -> Result<PoolSpec, Invalid> {
    let capacity = match &set.capacity {
        action::Capacity::Units(units) => Capacity::Units(*units),
        action::Capacity::Resources { placement, resources } => Capacity::Resources {
            placement: match placement {
                action::Placement::First => Placement::First,
                action::Placement::LeastRecentlyUsed => Placement::LeastRecentlyUsed,
                action::Placement::MostRecentlyUsed => Placement::MostRecentlyUsed,
                action::Placement::Random => Placement::Random,
                action::Placement::Spread(label) => Placement::Spread(LabelName::parse(label)?),
            },
            resources: resources.iter().map(resource).collect::<Result<_, _>>()?,
        },
    };
    Ok(PoolSpec {
        capacity,
        order: if set.backfill { Order::Backfill } else { Order::Strict },
        window: set.window.map(|window| Ttl::parse("window", window)).transpose()?,
        declared: true,
        cleaning: set.cleaning,
        fair: set.fair.as_ref().map(fair).transpose()?,
        scripts: Scripts { place: script(set.place_by.as_ref())?, order: script(set.order_by.as_ref())? },
    })
}

fn script(text: Option<&String>) -> Result<Option<Script>, Invalid> {
    text.map(|text| Script::parse(text)).transpose()
}

fn fair(fair: &action::Fair) -> Result<FairShare, Invalid> {
    FairShare::parse(&fair.by, fair.weights.iter().map(|(group, weight)| (group.as_str(), *weight)))
}

fn resource(resource: &action::Resource) -> Result<ResourceSpec, Invalid> {
    let labels = |entries: &[(String, String)]| {
        Labels::parse(entries.iter().map(|(name, value)| (name.as_str(), value.as_str())))
    };
    Ok(ResourceSpec {
        name: ResourceName::parse(&resource.name)?,
        labels: labels(&resource.labels)?,
        properties: labels(&resource.properties)?,
    })
}

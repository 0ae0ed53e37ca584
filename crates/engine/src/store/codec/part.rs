//! What events and rows are made of: holds, waiters, specs, names and numbers.

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure_core::*;

use super::{Wrong, stored};

pub(super) fn hold(hold: &Hold) -> stored::Hold {
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
        dirty: hold.taken.dirty,
        also: hold.also.iter().map(held_part).collect(),
    }
}

fn held_part(part: &HeldPart) -> stored::HeldPart {
    stored::HeldPart {
        pool: Some(path(&part.pool)),
        units: part.taken.units,
        resources: part.taken.resources.iter().map(text).collect(),
        all: part.taken.all,
        until_ms: part.until.map(Timestamp::as_millis),
    }
}

pub(super) fn to_hold(hold: Option<stored::Hold>) -> Result<Hold, Wrong> {
    let hold = required("the hold", hold)?;
    let resources: Box<[_]> = hold.resources.iter().map(|name| resource_name(name)).collect::<Result<_, _>>()?;
    Ok(Hold {
        pool: to_path(hold.pool)?,
        key: to_key(hold.key)?,
        holder: to_holder(hold.holder)?,
        taken: Taken { units: hold.units, resources, all: hold.all, dirty: hold.dirty },
        lifetime: to_lifetime(hold.lifetime)?,
        asked: Timestamp::from_millis(hold.asked_ms),
        since: Timestamp::from_millis(hold.since_ms),
        deadline: hold.deadline_ms.map(Timestamp::from_millis),
        session: hold.session.map(session_id).transpose()?,
        request: hold.request.as_deref().map(request).transpose()?,
        also: hold.also.into_iter().map(to_held_part).collect::<Result<_, _>>()?,
    })
}

fn to_held_part(part: stored::HeldPart) -> Result<HeldPart, Wrong> {
    let resources: Box<[_]> = part.resources.iter().map(|name| resource_name(name)).collect::<Result<_, _>>()?;
    Ok(HeldPart {
        pool: to_path(part.pool)?,
        taken: Taken { units: part.units, resources, all: part.all, dirty: false },
        until: part.until_ms.map(Timestamp::from_millis),
    })
}

pub(super) fn waiter(waiter: &Waiter) -> stored::Waiter {
    let also = waiter.also.iter().map(|part| stored::WaitedPart {
        pool: Some(path(&part.pool)),
        demand: Some(demand(&part.demand)),
        window_ms: part.window.map(Ttl::as_millis),
    });
    stored::Waiter {
        pool: Some(path(&waiter.pool)),
        key: Some(key(waiter.key)),
        holder: Some(holder(&waiter.holder)),
        demand: Some(demand(&waiter.demand)),
        lifetime: Some(lifetime(&waiter.lifetime)),
        priority: waiter.priority.get().into(),
        since_ms: waiter.since.as_millis(),
        deadline_ms: waiter.deadline.map(Timestamp::as_millis),
        session: waiter.session.map(|id| id.0),
        request: waiter.request.as_ref().map(text),
        also: also.collect(),
        holds_on: waiter.holds_on,
        rank: waiter.rank.map(rank),
    }
}

fn demand(demand: &Demand) -> stored::Demand {
    let count = match demand.amount {
        Amount::Count(count) => Some(count),
        Amount::All => None,
    };
    stored::Demand {
        count,
        selector: demand.selector.as_ref().map(|selector| selector.as_str().to_owned()),
        dirty: demand.dirty,
    }
}

fn to_demand(demand: Option<stored::Demand>) -> Result<Demand, Wrong> {
    let demand = required("the demand", demand)?;
    let selector = demand.selector.as_deref().map(Selector::parse).transpose();
    Ok(Demand {
        amount: demand.count.map_or(Amount::All, Amount::Count),
        selector: selector.map_err(|error| format!("the selector: {error}"))?,
        dirty: demand.dirty,
    })
}

pub(super) fn to_waiter(waiter: Option<stored::Waiter>) -> Result<Waiter, Wrong> {
    let waiter = required("the waiter", waiter)?;
    let mut also = Vec::with_capacity(waiter.also.len());
    for part in waiter.also {
        also.push(WaitedPart {
            pool: to_path(part.pool)?,
            demand: to_demand(part.demand)?,
            window: part.window_ms.map(|millis| ttl("window", millis)).transpose()?,
        });
    }
    Ok(Waiter {
        pool: to_path(waiter.pool)?,
        key: to_key(waiter.key)?,
        holder: to_holder(waiter.holder)?,
        demand: to_demand(waiter.demand)?,
        lifetime: to_lifetime(waiter.lifetime)?,
        priority: Priority::parse(waiter.priority.into()).map_err(wrong)?,
        since: Timestamp::from_millis(waiter.since_ms),
        deadline: waiter.deadline_ms.map(Timestamp::from_millis),
        session: waiter.session.map(session_id).transpose()?,
        request: waiter.request.as_deref().map(request).transpose()?,
        also: also.into(),
        holds_on: waiter.holds_on,
        rank: waiter.rank.map(to_rank).transpose()?,
    })
}

pub(super) fn rank(rank: Rank) -> stored::Rank {
    stored::Rank { turn: rank.turn, within: rank.within }
}

pub(super) fn to_rank(rank: stored::Rank) -> Result<Rank, Wrong> {
    Ok(Rank { turn: to_turn(rank.turn)?, within: rank.within })
}

/// Far from the ends of what can be counted, like any other number.
pub(super) fn to_turn(turn: i64) -> Result<i64, Wrong> {
    number("a turn", turn.unsigned_abs()).map(|_| turn)
}

pub(super) fn reservation(reservation: &Reservation) -> stored::Reservation {
    stored::Reservation {
        holder: text(&reservation.holder),
        until_ms: reservation.until.map(Timestamp::as_millis),
        reason: text(&reservation.reason),
    }
}

pub(super) fn to_reservation(it: stored::Reservation) -> Result<Reservation, Wrong> {
    Ok(Reservation {
        holder: holder_id(&it.holder)?,
        until: it.until_ms.map(Timestamp::from_millis),
        reason: note(&it.reason)?,
    })
}

pub(super) fn lifetime(lifetime: &Lifetime) -> stored::Lifetime {
    use stored::lifetime::Kind;
    let kind = match lifetime {
        Lifetime::Leased(ttl) => Kind::LeasedMs(ttl.as_millis()),
        Lifetime::Session(None) => Kind::Session(stored::Empty {}),
        Lifetime::Session(Some(ttl)) => Kind::SessionMs(ttl.as_millis()),
        Lifetime::Window(ttl) => Kind::WindowMs(ttl.as_millis()),
        Lifetime::Kept => Kind::Kept(stored::Empty {}),
        Lifetime::Bound(owner) => Kind::Bound(text(owner)),
    };
    stored::Lifetime { kind: Some(kind) }
}

pub(super) fn to_lifetime(lifetime: Option<stored::Lifetime>) -> Result<Lifetime, Wrong> {
    use stored::lifetime::Kind;
    Ok(match required("the lifetime", lifetime.and_then(|it| it.kind))? {
        Kind::LeasedMs(millis) => Lifetime::Leased(ttl("lease", millis)?),
        Kind::Session(stored::Empty {}) => Lifetime::Session(None),
        Kind::SessionMs(millis) => Lifetime::Session(Some(ttl("lease", millis)?)),
        Kind::WindowMs(millis) => Lifetime::Window(ttl("window", millis)?),
        Kind::Kept(stored::Empty {}) => Lifetime::Kept,
        Kind::Bound(owner) => Lifetime::Bound(OwnerId::parse(&owner).map_err(wrong)?),
    })
}

pub(super) fn pool_spec(spec: &PoolSpec) -> stored::PoolSpec {
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
        cleaning: spec.cleaning,
        fair: spec.fair.as_ref().map(|share| stored::FairShare {
            by: share.by().to_owned(),
            weights: share
                .weights()
                .map(|(group, weight)| stored::Weight { group: group.to_owned(), weight })
                .collect(),
        }),
        place_script: spec.scripts.place.as_ref().map(|script| script.as_str().to_owned()),
        order_script: spec.scripts.order.as_ref().map(|script| script.as_str().to_owned()),
    }
}

pub(super) fn to_pool_spec(spec: stored::PoolSpec) -> Result<PoolSpec, Wrong> {
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
    let fair = spec.fair.map(|it| {
        let weights = it.weights.iter().map(|it| (it.group.as_str(), it.weight));
        FairShare::parse(&it.by, weights).map_err(wrong)
    });
    let cleaning = spec.cleaning && matches!(capacity, Capacity::Resources { .. });
    let script = |text: Option<String>| text.map(|text| Script::parse(&text).map_err(wrong)).transpose();
    let scripts = Scripts { place: script(spec.place_script)?, order: script(spec.order_script)? };
    Ok(PoolSpec { capacity, order, window, declared: spec.declared, cleaning, fair: fair.transpose()?, scripts })
}

pub(super) fn to_resource_spec(spec: stored::ResourceSpec) -> Result<ResourceSpec, Wrong> {
    Ok(ResourceSpec {
        name: resource_name(&spec.name)?,
        labels: to_labels(&spec.labels)?,
        properties: to_labels(&spec.properties)?,
    })
}

pub(super) fn condition(condition: &Condition) -> stored::Condition {
    use stored::condition::Kind;
    let kind = match condition {
        Condition::InService => Kind::InService(stored::Empty {}),
        Condition::Drained(note) => Kind::Drained(note.as_ref().map(text).unwrap_or_default()),
        Condition::Quarantined(note) => Kind::Quarantined(text(note)),
    };
    stored::Condition { kind: Some(kind) }
}

pub(super) fn to_condition(condition: stored::Condition) -> Result<Condition, Wrong> {
    use stored::condition::Kind;
    Ok(match required("the condition", condition.kind)? {
        Kind::InService(stored::Empty {}) => Condition::InService,
        Kind::Drained(text) if text.is_empty() => Condition::Drained(None),
        Kind::Drained(text) => Condition::Drained(Some(note(&text)?)),
        Kind::Quarantined(text) => Condition::Quarantined(note(&text)?),
    })
}

pub(super) fn holder(holder: &Holder) -> stored::Holder {
    stored::Holder { id: text(&holder.id), meta: labels(holder.meta()) }
}

pub(super) fn to_holder(holder: Option<stored::Holder>) -> Result<Arc<Holder>, Wrong> {
    let holder = required("the holder", holder)?;
    let meta = holder.meta.iter().map(|it| (it.name.as_str(), it.value.as_str()));
    Holder::parse(&holder.id, meta).map(Arc::new).map_err(wrong)
}

pub(super) fn labels<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<stored::Label> {
    labels.map(|(name, value)| stored::Label { name: name.into(), value: value.into() }).collect()
}

pub(super) fn to_labels(labels: &[stored::Label]) -> Result<Labels, Wrong> {
    Labels::parse(labels.iter().map(|it| (it.name.as_str(), it.value.as_str()))).map_err(wrong)
}

pub(super) fn path(path: &PoolPath) -> stored::PoolPath {
    stored::PoolPath { namespace: text(path.namespace()), name: text(path.name()) }
}

pub(super) fn to_path(path: Option<stored::PoolPath>) -> Result<PoolPath, Wrong> {
    let path = required("the pool", path)?;
    Ok(PoolPath::new(namespace(&path.namespace)?, PoolName::parse(&path.name).map_err(wrong)?))
}

pub(super) fn key(key: Key) -> stored::Key {
    let halves = key.as_bits().to_be_bytes();
    let half = |at: usize| u64::from_be_bytes(halves[at..at + 8].try_into().expect("eight bytes"));
    stored::Key { high: half(0), low: half(8) }
}

pub(super) fn to_key(key: Option<stored::Key>) -> Result<Key, Wrong> {
    let key = required("the key", key)?;
    Ok(Key::from_bits(u128::from(key.high) << 64 | u128::from(key.low)))
}

/// No counter ever comes here. What is below can be counted on from without overflow.
pub(in crate::store) const NUMBER_MAX: u64 = 1 << 62;

pub(super) fn number(what: &str, number: u64) -> Result<u64, Wrong> {
    if number < NUMBER_MAX { Ok(number) } else { Err(format!("{what} is impossibly high")) }
}

pub(super) fn token(it: u64) -> Result<Token, Wrong> {
    number("a token", it).map(Token)
}

pub(super) fn waiter_id(it: u64) -> Result<WaiterId, Wrong> {
    number("a waiter's id", it).map(WaiterId)
}

pub(super) fn session_id(it: u64) -> Result<SessionId, Wrong> {
    number("a session's id", it).map(SessionId)
}

pub(super) fn ttl(what: &'static str, millis: u64) -> Result<Ttl, Wrong> {
    Ttl::parse(what, millis).map_err(wrong)
}

pub(super) fn text(text: &impl std::borrow::Borrow<str>) -> String {
    text.borrow().to_owned()
}

pub(super) fn namespace(text: &str) -> Result<Namespace, Wrong> {
    Namespace::parse(text).map_err(wrong)
}

pub(super) fn holder_id(text: &str) -> Result<HolderId, Wrong> {
    HolderId::parse(text).map_err(wrong)
}

pub(super) fn resource_name(text: &str) -> Result<ResourceName, Wrong> {
    ResourceName::parse(text).map_err(wrong)
}

pub(super) fn request(text: &str) -> Result<RequestId, Wrong> {
    RequestId::parse(text).map_err(wrong)
}

pub(super) fn note(text: &str) -> Result<Note, Wrong> {
    Note::parse(text).map_err(wrong)
}

pub(super) fn required<T>(what: &str, part: Option<T>) -> Result<T, Wrong> {
    part.ok_or_else(|| format!("{what} is missing"))
}

pub(super) fn wrong(invalid: Invalid) -> Wrong {
    invalid.to_string()
}

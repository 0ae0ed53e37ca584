//! What the round trips are made with. Everything optional is there, except in [`bare_acquire`], where nothing is.

use std::sync::Arc;

use tenure_core::*;

pub(super) fn acquire() -> Acquire {
    Acquire {
        pool: pool(),
        demand: demand(),
        size: Some(3),
        lifetime: Some(Lifetime::Bound(owner())),
        wait: Wait::For(TTL_MAX),
        priority: Priority::parse(1_000).unwrap(),
        holder: holder(),
        session: Some(key()),
        request: Some(request()),
        also: Box::new([Part { pool: other_pool(), demand: demand(), size: Some(2) }]),
        holds_on: true,
    }
}

pub(super) fn bare_acquire() -> Acquire {
    Acquire {
        demand: Demand { amount: Amount::All, selector: None, dirty: false },
        size: None,
        lifetime: None,
        wait: Wait::Try,
        priority: Priority::default(),
        holder: Arc::new(Holder::parse("bob", []).unwrap()),
        session: None,
        request: None,
        also: Box::default(),
        holds_on: false,
        ..acquire()
    }
}

pub(super) fn waiter() -> Waiter {
    Waiter {
        pool: pool(),
        key: key(),
        holder: holder(),
        demand: demand(),
        lifetime: Lifetime::Leased(LEASE_DEFAULT),
        priority: Priority::parse(-3).unwrap(),
        since: at(1),
        deadline: Some(at(9)),
        session: Some(SessionId(3)),
        request: Some(request()),
        also: Box::new([WaitedPart { pool: other_pool(), demand: demand(), window: Some(TTL_MIN) }]),
        holds_on: true,
        rank: Some(Rank { turn: -4, within: 9 }),
    }
}

pub(super) fn hold() -> Hold {
    Hold {
        pool: pool(),
        key: key(),
        holder: holder(),
        taken: Taken { units: 1, resources: Box::new([resource().name]), all: true, dirty: true },
        lifetime: Lifetime::Session(Some(LEASE_DEFAULT)),
        asked: at(1),
        since: at(2),
        deadline: Some(at(9)),
        session: Some(SessionId(3)),
        request: Some(request()),
        also: Box::new([held_part()]),
    }
}

pub(super) fn hold_view() -> HoldView {
    HoldView {
        pool: pool(),
        token: Token(7),
        holder: holder(),
        units: 1,
        resources: vec![resource().name],
        lifetime: Lifetime::Window(LEASE_DEFAULT),
        since: at(2),
        deadline: Some(at(9)),
        session: Some(SessionId(3)),
        also: vec![held_part()],
    }
}

pub(super) fn held_part() -> HeldPart {
    let taken = Taken { units: 5, resources: Box::default(), all: false, dirty: false };
    HeldPart { pool: other_pool(), taken, until: Some(at(8)) }
}

pub(super) fn other_pool() -> PoolPath {
    PoolPath::new(namespace(), PoolName::parse("rate").unwrap())
}

pub(super) fn named_pool() -> PoolSpec {
    PoolSpec {
        capacity: Capacity::Resources { placement: Placement::Random, resources: vec![resource()] },
        order: Order::Backfill,
        window: Some(TTL_MIN),
        declared: true,
        cleaning: true,
        fair: Some(FairShare::parse("tenant", [("a", 3)]).unwrap()),
        scripts: Scripts { place: Some(Script::parse("1\n+ 1").unwrap()), order: None },
    }
}

pub(super) fn resource() -> ResourceSpec {
    ResourceSpec {
        name: ResourceName::parse("gpu-7").unwrap(),
        labels: Labels::parse([("zone", "b"), ("gpu", "")]).unwrap(),
        properties: Labels::parse([("url", "tcp://example.com:1\nsecond line")]).unwrap(),
    }
}

pub(super) fn demand() -> Demand {
    Demand { amount: Amount::Count(2), selector: Some(Selector::parse("gpu && mem >= 80").unwrap()), dirty: true }
}

pub(super) fn holder() -> Arc<Holder> {
    Arc::new(Holder::parse("älice", [("host", "h1"), ("empty", "")]).unwrap())
}

pub(super) fn pool() -> PoolPath {
    PoolPath::new(namespace(), name())
}

pub(super) fn namespace() -> Namespace {
    Namespace::parse("team").unwrap()
}

pub(super) fn name() -> PoolName {
    PoolName::parse("db/main").unwrap()
}

pub(super) fn request() -> RequestId {
    RequestId::parse("r-1").unwrap()
}

pub(super) fn owner() -> OwnerId {
    OwnerId::parse("workflow/1").unwrap()
}

pub(super) fn note() -> Note {
    Note::parse("being replaced").unwrap()
}

pub(super) fn key() -> Key {
    Key::from_nonce(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef)
}

pub(super) fn at(second: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + second * 1_000)
}

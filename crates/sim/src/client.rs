//! What a client knows and what it would say: asks of a plan as commands. A client remembers every key it was ever given, so
//! that it also says what has long been over.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::*;

use crate::plan::{Ask, AskAcquire, AskPart, Lie, Life, Micros, Then, Waits};
use crate::random::Random;
use crate::scripts;
use crate::selectors::selector;

/// The names of the pools in a plan; the last is one of another namespace.
const POOLS: [&str; 7] = ["mutex", "semaphore", "backfill", "rate", "machines", "spare", "mutex"];
const RESOURCES: [&str; 8] = ["a0", "a1", "a2", "a3", "b0", "b1", "b2", "c0"];
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) holder: Arc<Holder>,
    /// Everything it was granted, oldest first.
    pub(crate) held: Vec<Held>,
    pub(crate) sessions: Vec<SessionOpen>,
    requests: Vec<RequestId>,
    /// Everything it ever waited for, oldest first.
    pub(crate) waits: Vec<(PoolPath, WaiterId)>,
    last_acquire: Option<Acquire>,
    /// Its connection, and the key of the session that this carries once it is known.
    pub(crate) stream: Option<(usize, Option<Key>)>,
    pub(crate) calls: BTreeMap<u64, Call>,
    pub(crate) paused_until: Micros,
    name: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) pool: PoolPath,
    pub(crate) token: Token,
    pub(crate) key: Key,
}

/// Something that was asked and is not over.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) command: Command,
    pub(crate) opens_stream: bool,
    pub(crate) then: Then,
    pub(crate) tries: u8,
    pub(crate) waiting: bool,
    pub(crate) luck: Random,
}

impl Client {
    pub(crate) fn new(index: u8) -> Self {
        let name = format!("client-{index}");
        Self {
            holder: Arc::new(Holder::parse(&name, [("host", "simulated")]).expect("a holder")),
            held: Vec::new(),
            sessions: Vec::new(),
            requests: Vec::new(),
            waits: Vec::new(),
            last_acquire: None,
            stream: None,
            calls: BTreeMap::new(),
            paused_until: 0,
            name,
        }
    }

    /// The request id that is the `back`th last, or a new one.
    fn request(&mut self, back: u8, uses: bool) -> RequestId {
        let known = self.requests.len();
        if back > 0 && usize::from(back) <= known {
            return self.requests[known - usize::from(back)].clone();
        }
        let request = RequestId::parse(&format!("{}-{known}", self.name)).expect("a request id");
        if uses {
            self.requests.push(request.clone());
        }
        request
    }
}

/// The newest is 0.
fn newest<T>(things: &[T], back: u8) -> Option<&T> {
    things.iter().rev().nth(usize::from(back))
}

/// What the client at `index` says; none if it has nothing to say it about.
pub(crate) fn command(clients: &mut [Client], index: usize, ask: &Ask) -> Option<Command> {
    let client = &clients[index];
    let session = |which: &u8| newest(&client.sessions, *which).map(|session| (Namespace::default(), session.key));
    Some(match ask {
        Ask::Acquire(ask) => Command::Acquire(acquire(&mut clients[index], ask)),
        Ask::AcquireAgain => Command::Acquire(client.last_acquire.clone()?),
        Ask::Renew { which, ttl } => {
            let held = newest(&client.held, *which)?;
            let ttl = ttl.map(millis);
            Command::Renew(Renew { namespace: held.pool.namespace().clone(), key: held.key, pool: None, ttl })
        }
        Ask::Release { which, names_pool } => {
            let held = newest(&client.held, *which)?;
            let pool = names_pool.then(|| held.pool.name().clone());
            Command::Release(Release { namespace: held.pool.namespace().clone(), key: held.key, pool })
        }
        Ask::Withdraw { request } => {
            let request = clients[index].request(*request, false);
            Command::Withdraw { namespace: Namespace::default(), request }
        }
        Ask::ForceRelease { which } => {
            let (of, held) = clients.iter().rev().find_map(|client| Some((client, newest(&client.held, *which)?)))?;
            let (pool, holder, token) = (held.pool.clone(), of.holder.id.clone(), held.token);
            Command::ForceRelease(ForceRelease { pool, holder, token, reason: note("an operator said so") })
        }
        Ask::OwnerGone { owner } => Command::OwnerGone { namespace: Namespace::default(), owner: owner_id(*owner) },
        Ask::OpenSession { stream, grace, outlasts_holds } => Command::OpenSession(OpenSession {
            namespace: Namespace::default(),
            holder: client.holder.clone(),
            grace: millis(*grace),
            attached: *stream,
            outlasts_holds: *outlasts_holds,
        }),
        Ask::KeepAlive { which } => {
            let (namespace, session) = session(which)?;
            Command::KeepAlive { namespace, session }
        }
        Ask::Resume { which } => {
            let (namespace, session) = session(which)?;
            Command::AttachSession { namespace, session }
        }
        Ask::EndSession { which } => {
            let (namespace, session) = session(which)?;
            Command::EndSession { namespace, session }
        }
        Ask::SetUnits { pool, size, backfill, window, declared, fair, script } => {
            let spec = PoolSpec {
                capacity: Capacity::Units(*size),
                order: order(*backfill),
                window: window.map(millis),
                declared: *declared,
                cleaning: false,
                fair: share(*fair),
                scripts: scripts::of_pool(*script, false),
            };
            let set = SetPool { pool: path(*pool), spec };
            match *size {
                // Some operators decide on what they saw, which is two units.
                5 => Command::ChangeSeen {
                    seen: Seen { pool: set.pool.clone(), resource: None, size: Some(2), state: None },
                    change: Change::Pool(set),
                },
                _ => Command::SetPool(set),
            }
        }
        Ask::SetResources { resources, reversed, placement, backfill, cleaning, fair, script } => {
            // What is first by chance the model cannot know.
            let placement = if *script > 0 && *placement == 3 { &0 } else { placement };
            let spec = resources_spec(*resources, *reversed, *placement, *backfill);
            let spec =
                PoolSpec { cleaning: *cleaning, fair: share(*fair), scripts: scripts::of_pool(*script, true), ..spec };
            Command::SetPool(SetPool { pool: path(4), spec })
        }
        Ask::SetCondition { pool, resource, condition: wanted, lasts } => {
            let resource = resource.map(|at| resource_name(usize::from(at)));
            let pool = path(if resource.is_some() { 4 } else { *pool });
            let condition = match wanted {
                0 => Condition::Drained(None),
                1 => Condition::Quarantined(note("it smells")),
                _ => Condition::InService,
            };
            let set = SetCondition { pool, resource, condition, lasts: lasts.map(millis) };
            match *wanted {
                // It is returned by somebody who saw it drained.
                3 => Command::ChangeSeen {
                    seen: Seen {
                        pool: set.pool.clone(),
                        resource: set.resource.clone(),
                        size: None,
                        state: Some(ConditionState::Drained),
                    },
                    change: Change::Condition(set),
                },
                _ => Command::SetCondition(set),
            }
        }
        Ask::RemovePool { pool } => Command::RemovePool { pool: path(*pool) },
        Ask::Steal { which, ttl, request } => {
            let (of, held) = clients.iter().rev().find_map(|client| Some((client, newest(&client.held, *which)?)))?;
            let (pool, holder, token) = (held.pool.clone(), of.holder.id.clone(), held.token);
            let request = request.then(|| clients[index].request(0, true));
            Command::Steal(Steal {
                pool,
                holder,
                token,
                to: clients[index].holder.clone(),
                lifetime: ttl.map(|ttl| Lifetime::Leased(millis(ttl))),
                request,
                reason: note("an operator said so"),
            })
        }
        Ask::MoveWaiter { which, before } => {
            let (pool, waiter) = newest(&client.waits, *which)?.clone();
            let others = clients.iter().flat_map(|client| &client.waits).filter(|(other, _)| *other == pool);
            let others: Vec<_> = others.map(|(_, id)| *id).collect();
            let before = before.and_then(|back| newest(&others, back).copied());
            let (holder, reason) = (client.holder.id.clone(), note("an operator said so"));
            Command::MoveWaiter(MoveWaiter { pool, waiter, holder, before, reason })
        }
        Ask::Reserve { resource, client, instead_of, lasts } => Command::Reserve(Reserve {
            pool: path(4),
            resource: resource_name(usize::from(*resource)),
            holder: clients[usize::from(*client)].holder.id.clone(),
            lasts: lasts.map(millis),
            instead_of: instead_of.map(|client| clients[usize::from(client)].holder.id.clone()),
            reason: note("it is going to be needed"),
        }),
        Ask::Unreserve { resource, client } => Command::Unreserve(Unreserve {
            pool: path(4),
            resource: resource_name(usize::from(*resource)),
            holder: clients[usize::from(*client)].holder.id.clone(),
            reason: note("it is not needed after all"),
        }),
        Ask::Lie(lie) => self::lie(clients, index, *lie)?,
        // Those are many commands.
        Ask::Crowd { .. } => return None,
    })
}

fn acquire(client: &mut Client, ask: &AskAcquire) -> Acquire {
    let pool = path(ask.pool);
    let session = ask.in_session && *pool.namespace() == Namespace::default();
    let carried = client.stream.and_then(|(_, session)| session);
    let session = session.then(|| carried.or_else(|| client.sessions.last().map(|session| session.key))).flatten();
    let acquire = Acquire {
        pool,
        demand: Demand {
            amount: if ask.amount == 0 { Amount::All } else { Amount::Count(ask.amount) },
            selector: ask.selector.map(selector),
            dirty: ask.dirty,
        },
        size: ask.size,
        lifetime: match ask.lifetime {
            Life::Default => None,
            Life::Leased(ttl) => Some(Lifetime::Leased(millis(ttl))),
            Life::Session(ttl) => Some(Lifetime::Session(ttl.map(millis))),
            Life::Window(window) => Some(Lifetime::Window(millis(window))),
            Life::Kept => Some(Lifetime::Kept),
            Life::Bound(owner) => Some(Lifetime::Bound(owner_id(owner))),
        },
        wait: match ask.wait {
            Waits::Try => Wait::Try,
            Waits::For(ttl) => Wait::For(millis(ttl)),
            Waits::Forever => Wait::Forever,
        },
        priority: Priority::parse(i64::from(ask.priority)).expect("a small priority"),
        holder: client.holder.clone(),
        session,
        request: ask.request.map(|back| client.request(back, true)),
        also: Part::parse_all(&path(ask.pool), ask.also.iter().map(part).collect()).expect("a plan names pools once"),
        holds_on: ask.holds_on,
    };
    if acquire.request.is_some() {
        client.last_acquire = Some(acquire.clone());
    }
    acquire
}

fn part(ask: &AskPart) -> Part {
    Part {
        pool: path(ask.pool),
        demand: Demand {
            amount: if ask.amount == 0 { Amount::All } else { Amount::Count(ask.amount) },
            selector: ask.selector.map(selector),
            dirty: false,
        },
        size: ask.size,
    }
}

fn lie(clients: &mut [Client], index: usize, lie: Lie) -> Option<Command> {
    let other = (index + 1) % clients.len();
    let victim = &clients[other];
    let elsewhere = || Namespace::parse("elsewhere").expect("a namespace");
    let invented = Key::from_nonce(0x0123_4567_89ab_cdef);
    let plain =
        |clients: &mut [Client], pool: u8| acquire(&mut clients[index], &AskAcquire::plain(pool, Life::Leased(1_000)));
    Some(match lie {
        Lie::InventedKey => Command::Release(Release { namespace: Namespace::default(), key: invented, pool: None }),
        Lie::WrongPool => {
            let held = victim.held.last()?;
            let pool = Some(PoolName::parse("nowhere").expect("a name"));
            Command::Release(Release { namespace: held.pool.namespace().clone(), key: held.key, pool })
        }
        Lie::WrongNamespace => {
            let (key, ttl) = (victim.held.last()?.key, Some(TTL_MAX));
            Command::Renew(Renew { namespace: elsewhere(), key, pool: None, ttl })
        }
        Lie::InventedSession => Command::Acquire(Acquire { session: Some(invented), ..plain(clients, 0) }),
        Lie::ForeignSession => Command::EndSession { namespace: elsewhere(), session: victim.sessions.last()?.key },
        Lie::ForeignRequest => {
            let request = Some(victim.requests.last()?.clone());
            Command::Acquire(Acquire { request, ..plain(clients, 1) })
        }
        Lie::TooMuch => {
            let demand = Demand { amount: Amount::Count(u32::MAX), selector: None, dirty: false };
            Command::Acquire(Acquire { demand, lifetime: Some(Lifetime::Leased(TTL_MAX)), ..plain(clients, 1) })
        }
        Lie::SelectorOnUnits => {
            let demand = Demand { amount: Amount::Count(1), selector: Some(selector(0)), dirty: false };
            Command::Acquire(Acquire { demand, ..plain(clients, 1) })
        }
        Lie::WrongSize => Command::Acquire(Acquire { size: Some(UNITS_MAX), ..plain(clients, 2) }),
        Lie::WrongHolder => {
            let held = victim.held.last()?;
            let holder = HolderId::parse("nobody").expect("a name");
            let (pool, token) = (held.pool.clone(), held.token);
            Command::ForceRelease(ForceRelease { pool, holder, token, reason: note("it is mine") })
        }
        // Not a command: the connection says it.
        Lie::StaleDetach => return None,
        Lie::WrongKind => Command::SetPool(SetPool { pool: path(1), spec: resources_spec(0b11, false, 0, false) }),
    })
}

fn resources_spec(bits: u8, reversed: bool, placement: u8, backfill: bool) -> PoolSpec {
    let mut resources: Vec<_> = (0..RESOURCES.len()).filter(|at| bits & (1 << at) != 0).map(resource_spec).collect();
    if reversed {
        resources.reverse();
    }
    let placement = match placement {
        0 => Placement::First,
        1 => Placement::LeastRecentlyUsed,
        2 => Placement::MostRecentlyUsed,
        3 => Placement::Random,
        _ => Placement::Spread(LabelName::parse("zone").expect("a label")),
    };
    let capacity = Capacity::Resources { placement, resources };
    PoolSpec {
        capacity,
        order: order(backfill),
        window: None,
        declared: true,
        cleaning: false,
        fair: None,
        scripts: Scripts::default(),
    }
}

fn share(fair: u8) -> Option<FairShare> {
    let parsed = match fair {
        0 => return None,
        1 => FairShare::parse("holder", []),
        2 => FairShare::parse("holder", [("client-0", 3), ("client-1", 7)]),
        _ => FairShare::parse("host", []),
    };
    Some(parsed.expect("a share"))
}

fn resource_spec(at: usize) -> ResourceSpec {
    let (zone, mem) = (&RESOURCES[at][..1], format!("{}", at % 4));
    let mut labels = vec![("zone", zone), ("mem", &mem)];
    labels.extend(at.is_multiple_of(2).then_some(("fast", "")));
    labels.extend(at.is_multiple_of(3).then_some(("old", "")));
    ResourceSpec {
        name: resource_name(at),
        labels: Labels::parse(labels).expect("labels"),
        properties: Labels::parse([("address", RESOURCES[at])]).expect("properties"),
    }
}

fn path(pool: u8) -> PoolPath {
    let namespace = if pool == 6 { Namespace::parse("other").expect("a namespace") } else { Namespace::default() };
    PoolPath::new(namespace, PoolName::parse(POOLS[usize::from(pool)]).expect("a name"))
}

fn resource_name(at: usize) -> ResourceName {
    ResourceName::parse(RESOURCES[at]).expect("a name")
}

fn owner_id(owner: u8) -> OwnerId {
    OwnerId::parse(&format!("workflow-{owner}")).expect("an owner")
}

fn note(text: &str) -> Note {
    Note::parse(text).expect("a note")
}

fn order(backfill: bool) -> Order {
    if backfill { Order::Backfill } else { Order::Strict }
}

fn millis(millis: u32) -> Ttl {
    Ttl::from_millis(u64::from(millis))
}

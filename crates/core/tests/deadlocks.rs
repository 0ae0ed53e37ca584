//! Refusals of deadlocks beside all futures there are: in small random worlds, everything that those who do not wait could
//! release is released in every order, and a wait is refused exactly if none of that would serve it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure_core::*;

const POOLS: [&str; 4] = ["one", "two", "many", "gpu"];

/// What was done, so that it can be done again.
#[derive(Clone, Debug)]
struct Past {
    specs: Vec<(PoolPath, PoolSpec)>,
    commands: Vec<Command>,
}

struct World {
    machine: Machine,
    nonce: u128,
}

impl World {
    fn after(past: &Past) -> Self {
        let mut world = Self { machine: Machine::new(Limits::default()), nonce: 0 };
        for (pool, spec) in &past.specs {
            world.apply(Command::SetPool(SetPool { pool: pool.clone(), spec: spec.clone() }));
        }
        for command in &past.commands {
            world.apply(command.clone());
        }
        world
    }

    fn apply(&mut self, command: Command) -> Reply {
        self.nonce += 1;
        let nonce = self.nonce.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let stamp = Stamp { at: Timestamp::from_millis(1_000), nonce };
        let reply = self.machine.apply(stamp, command).reply;
        while self.machine.next_deadline().is_some_and(|deadline| deadline <= stamp.at) {
            self.nonce += 1;
            self.machine.apply(Stamp { at: stamp.at, nonce: self.nonce << 64 }, Command::Expire);
        }
        reply
    }

    fn state(&self) -> &State {
        self.machine.state()
    }

    fn waits(&self, holder: &HolderId) -> Option<WaiterId> {
        self.state().waiters().find(|id| self.state().waiter(*id).is_some_and(|(it, _)| it.holder.id == *holder))
    }

    /// What may happen without anybody new: those who do not wait release, and waits that are over before `horizon` end.
    fn futures(&self, asker: WaiterId, frees_asker: bool) -> Vec<Command> {
        let state = self.state();
        let (asking, _) = state.waiter(asker).unwrap();
        let (who, horizon) = (asking.holder.id.clone(), asking.deadline);
        let free = |holder: &HolderId| self.waits(holder).is_none() || (frees_asker && *holder == who);
        let holds = state.holds().map(|token| state.hold(token).unwrap()).filter(|hold| free(&hold.holder.id));
        let releases = holds.map(|hold| {
            Command::Release(Release { namespace: hold.pool.namespace().clone(), key: hold.key, pool: None })
        });
        let over = |id: &WaiterId| {
            let (waiter, _) = state.waiter(*id).unwrap();
            *id != asker && waiter.deadline.is_some_and(|it| horizon.is_none_or(|horizon| it < horizon))
        };
        let ends = state.waiters().filter(over).map(|waiter| Command::Abandon { waiter, may_return: false });
        releases.chain(ends).collect()
    }
}

/// Whether the wait is served in some future.
fn could_end(
    past: &Past,
    asker: WaiterId,
    frees_asker: bool,
    seen: &mut BTreeSet<(Vec<Token>, Vec<WaiterId>)>,
) -> bool {
    let world = World::after(past);
    if world.state().waiter(asker).is_none() {
        return true;
    }
    if !seen.insert((world.state().holds().collect(), world.state().waiters().collect())) {
        return false;
    }
    world.futures(asker, frees_asker).into_iter().any(|command| {
        let mut past = past.clone();
        past.commands.push(command);
        could_end(&past, asker, frees_asker, seen)
    })
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn spec(&mut self, pool: &str) -> PoolSpec {
        let capacity = match pool {
            "many" => Capacity::Units(2 + u32::try_from(self.below(2)).unwrap()),
            "gpu" => Capacity::Resources {
                placement: if self.below(2) == 0 { Placement::First } else { Placement::LeastRecentlyUsed },
                resources: [("a", "1"), ("b", "1"), ("c", "2")]
                    .map(|(name, zone)| ResourceSpec {
                        name: ResourceName::parse(name).unwrap(),
                        labels: Labels::parse([("zone", zone)]).unwrap(),
                        properties: Labels::default(),
                    })
                    .into(),
            },
            _ => Capacity::Units(1),
        };
        let order = if self.below(3) == 0 { Order::Backfill } else { Order::Strict };
        PoolSpec {
            capacity,
            order,
            window: None,
            declared: true,
            cleaning: false,
            fair: None,
            scripts: Scripts::default(),
        }
    }

    fn part(&mut self, pool: &str) -> Part {
        let amount = match (pool, self.below(6)) {
            ("one" | "two", _) | (_, 0..4) => Amount::Count(1),
            (_, 4) => Amount::Count(2),
            _ => Amount::All,
        };
        let selectors = ["zone == 1", "name == a", "zone == 2"];
        let selector = selectors.get(usize::try_from(self.below(6)).unwrap()).filter(|_| pool == "gpu");
        let selector = selector.map(|text| Selector::parse(text).unwrap());
        Part { pool: path(pool), demand: Demand { amount, selector, dirty: false }, size: None }
    }

    fn acquire(&mut self, holder: &str) -> Acquire {
        let mut pools: Vec<_> = POOLS.iter().filter(|_| self.below(3) == 0).collect();
        if pools.is_empty() || self.below(3) > 0 {
            pools = vec![&POOLS[usize::try_from(self.below(4)).unwrap()]];
        }
        let mut parts: Vec<_> = pools.into_iter().map(|pool| self.part(pool)).collect();
        let first = parts.remove(0);
        Acquire {
            also: Part::parse_all(&first.pool, parts).unwrap(),
            pool: first.pool,
            demand: first.demand,
            size: None,
            lifetime: Some(Lifetime::Kept),
            wait: match self.below(4) {
                0 => Wait::For(Ttl::from_millis(1_000 * (1 + self.below(3)))),
                _ => Wait::Forever,
            },
            priority: Priority::parse(if self.below(6) == 0 { 1 } else { 0 }).unwrap(),
            holder: Arc::new(Holder::parse(holder, []).unwrap()),
            session: None,
            request: None,
            holds_on: true,
        }
    }
}

fn path(pool: &str) -> PoolPath {
    PoolPath::new(Namespace::default(), PoolName::parse(pool).unwrap())
}

#[derive(Default, Debug)]
struct Tally {
    refused: usize,
    long: usize,
    queued_beside_cycles: usize,
    queued: usize,
}

#[test]
fn a_wait_is_refused_exactly_if_no_future_would_serve_it() {
    let mut tally = Tally::default();
    for seed in 1..=1_500_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let specs = POOLS.map(|pool| (path(pool), random.spec(pool))).into();
        let mut past = Past { specs, commands: Vec::new() };
        for _ in 0..14 {
            let mut world = World::after(&past);
            // Who waits does nothing else.
            let all = ["alice", "bob", "carol", "dave"];
            let idle = all.into_iter().filter(|name| world.waits(&HolderId::parse(name).unwrap()).is_none());
            let idle: Vec<_> = idle.collect();
            if idle.is_empty() || world.state().holds().count() > 6 {
                break;
            }
            let holder = idle[usize::try_from(random.below(idle.len() as u64)).unwrap()];
            let acquire = random.acquire(holder);
            let reply = world.apply(Command::Acquire(acquire.clone()));
            let refused = match reply {
                Reply::Queued(_) => None,
                Reply::Refused(refusal) => match *refusal {
                    Refusal::Deadlock { cycle } => Some(cycle),
                    Refusal::NeverFits { .. } => continue,
                    other => panic!("seed {seed}: {other}"),
                },
                Reply::Granted(_) => {
                    past.commands.push(Command::Acquire(acquire));
                    continue;
                }
                other => panic!("seed {seed}: {other:?}"),
            };
            // The same wait, let in whatever comes of it.
            let mut with = past.clone();
            with.commands.push(Command::Acquire(Acquire { holds_on: false, ..acquire.clone() }));
            let asker = World::after(&with).waits(&acquire.holder.id).expect("it waits");
            let could_end = |frees_asker| could_end(&with, asker, frees_asker, &mut BTreeSet::new());
            match refused {
                Some(cycle) => {
                    assert!(!could_end(false), "seed {seed}: {cycle:?} is no deadlock for {acquire:?} after {past:?}");
                    check_cycle(&world, &acquire, &cycle);
                    tally.refused += 1;
                    tally.long += usize::from(cycle.len() > 2);
                }
                None => {
                    // If it could not, then for want of what others have who wait for each other: not of its own doing. Or
                    // for want of resources that are kept aside for a set, which may be others another time.
                    if !could_end(false) && !set_waits_for_resources(&world) {
                        tally.queued_beside_cycles += 1;
                        assert!(!could_end(true), "seed {seed}: {acquire:?} waits for itself after {past:?}");
                    }
                    tally.queued += 1;
                    past.commands.push(Command::Acquire(acquire));
                }
            }
        }
    }
    assert!(tally.refused > 300 && tally.long > 30 && tally.queued > 1_000, "all of it is tried: {tally:?}");
}

fn set_waits_for_resources(world: &World) -> bool {
    let state = world.state();
    let waiters = state.waiters().map(|id| state.waiter(id).unwrap().0);
    waiters.filter(|waiter| !waiter.also.is_empty()).flat_map(|it| it.parts()).any(|(pool, _)| *pool == path("gpu"))
}

/// Each holds what the one before waits for, or waits before it.
fn check_cycle(world: &World, acquire: &Acquire, cycle: &[Blocked]) {
    let state = world.state();
    assert_eq!(cycle[0].holder, acquire.holder.id);
    for (at, step) in cycle.iter().enumerate() {
        let next = &cycle[(at + 1) % cycle.len()];
        let wanted = match at {
            0 => acquire.parts().any(|(pool, _)| *pool == step.pool),
            _ => {
                let waiter = world.waits(&step.holder).expect("it waits");
                state.waiter(waiter).unwrap().0.parts().any(|(pool, _)| *pool == step.pool)
            }
        };
        assert!(wanted, "{step:?} waits for something else");
        match step.token {
            Some(token) => {
                let hold = state.hold(token).expect("it is held");
                assert_eq!(hold.holder.id, next.holder);
                assert!(hold.parts().any(|(pool, _)| *pool == step.pool), "{hold:?} has nothing of it");
            }
            None => {
                let waiter = world.waits(&next.holder).expect("who is before it waits");
                assert!(state.waiter(waiter).unwrap().0.parts().any(|(pool, _)| *pool == step.pool));
            }
        }
    }
}

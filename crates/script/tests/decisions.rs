//! Decisions of a machine whose pools carry scripts: what happens when they fail, again and again, and after a restart.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use tenure_core::*;
use tenure_script::RhaiPolicies;

struct World {
    machine: Machine,
    nonce: u128,
    now: u64,
    events: Vec<(Timestamp, Event)>,
}

impl World {
    fn new() -> Self {
        let machine = Machine::new(Limits::default()).with_policies(Arc::new(RhaiPolicies::new()));
        Self { machine, nonce: 0, now: 1, events: Vec::new() }
    }

    fn apply(&mut self, command: Command) -> Outcome {
        self.nonce += 1;
        let at = Timestamp::from_millis(self.now);
        let outcome = self.machine.apply(Stamp { at, nonce: self.nonce << 70 | self.nonce }, command);
        self.events.extend(outcome.events.iter().map(|event| (at, event.clone())));
        outcome
    }

    fn set(&mut self, capacity: Capacity, place: Option<&str>, order: Option<&str>) -> Reply {
        let script = |text: Option<&str>| text.map(|text| Script::parse(text).unwrap());
        let spec = PoolSpec {
            capacity,
            order: Order::Backfill,
            window: None,
            declared: true,
            cleaning: false,
            fair: None,
            scripts: Scripts { place: script(place), order: script(order) },
        };
        self.apply(Command::SetPool(SetPool { pool: pool(), spec })).reply
    }

    fn acquire(&mut self, who: &str, wait: Wait) -> Reply {
        self.acquire_some(Amount::Count(1), Holder::parse(who, []).unwrap(), wait)
    }

    fn acquire_some(&mut self, amount: Amount, holder: Holder, wait: Wait) -> Reply {
        self.apply(Command::Acquire(Acquire {
            pool: pool(),
            demand: Demand { amount, selector: None, dirty: false },
            size: None,
            lifetime: Some(Lifetime::Kept),
            wait,
            priority: Priority::default(),
            holder: Arc::new(holder),
            session: None,
            request: None,
            also: Box::default(),
            holds_on: false,
        }))
        .reply
    }

    fn release(&mut self, key: Key) -> Vec<(WaiterId, Reply)> {
        self.apply(Command::Release(Release { namespace: Namespace::default(), key, pool: None })).settled
    }

    /// Somebody has all, those of `who` wait, and then it is handed out to them: who gets what, in order, and how many commands
    /// that took.
    fn hand_out(&mut self, who: impl IntoIterator<Item = Holder>) -> (Vec<(String, String)>, usize) {
        let all = granted(&self.acquire_some(Amount::All, Holder::parse("all", []).unwrap(), Wait::Try)).0;
        for holder in who {
            self.now += 7;
            assert!(matches!(self.acquire_some(Amount::Count(1), holder, Wait::Forever), Reply::Queued(_)));
        }
        self.now += 1_000;
        let before = self.events.len();
        self.release(all);
        let mut commands = 1;
        while self.machine.next_deadline().is_some() {
            self.apply(Command::Expire);
            commands += 1;
        }
        let grants = self.events[before..].iter().filter_map(|(_, event)| match event {
            Event::Granted { hold, .. } => {
                let name = hold.taken.resources.first().map(ToString::to_string).unwrap_or_default();
                Some((hold.holder.id.to_string(), name))
            }
            _ => None,
        });
        (grants.collect(), commands)
    }

    fn failures(&self) -> Vec<String> {
        let why = |(_, event): &(Timestamp, Event)| match event {
            Event::PolicyFailed { why, .. } => Some(why.to_string()),
            _ => None,
        };
        self.events.iter().filter_map(why).collect()
    }

    fn faults(&self) -> u32 {
        self.machine.state().pool(&pool()).unwrap().script_faults()
    }

    /// The state that the events alone make, by somebody who has no scripts.
    fn replayed(&self) -> State {
        let mut state = State::new(Limits::default().pool_idle);
        for (at, event) in &self.events {
            state.evolve(*at, event);
        }
        state
    }
}

fn pool() -> PoolPath {
    PoolPath::new(Namespace::default(), PoolName::parse("pool").unwrap())
}

fn resources(count: usize, placement: Placement) -> Capacity {
    let resource = |n: usize| ResourceSpec {
        name: ResourceName::parse(&format!("r{n}")).unwrap(),
        labels: Labels::parse([
            ("n", n.to_string().as_str()),
            ("half", if n.is_multiple_of(2) { "even" } else { "odd" }),
        ])
        .unwrap(),
        properties: Labels::default(),
    };
    Capacity::Resources { placement, resources: (0..count).map(resource).collect() }
}

fn granted(reply: &Reply) -> (Key, String) {
    match reply {
        Reply::Granted(grant) => (grant.key, grant.resources.first().map(|it| it.name.to_string()).unwrap_or_default()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn scripts_that_fail_a_hundred_times_are_set_aside_until_the_pool_is_set_again() {
    let mut world = World::new();
    let fails = "if request.holder == \"probe\" { 1 } else { throw \"no\" }";
    world.set(resources(3, Placement::First), Some(fails), None);
    for n in 1..=120 {
        let (key, name) = granted(&world.acquire("alice", Wait::Try));
        assert_eq!((name.as_str(), world.faults()), ("r0", n.min(SCRIPT_FAULTS_MAX)));
        world.release(key);
    }
    let failed = world.events.iter().filter_map(|(_, event)| match event {
        Event::PolicyFailed { set_aside, .. } => Some(*set_aside),
        _ => None,
    });
    let failed: Vec<_> = failed.collect();
    assert_eq!(failed, [vec![false; 99], vec![true]].concat());
    assert_eq!(world.replayed(), *world.machine.state());

    world.set(resources(3, Placement::First), Some("resource.name == \"r2\""), None);
    assert_eq!((granted(&world.acquire("alice", Wait::Try)).1.as_str(), world.faults()), ("r2", 0));
}

#[test]
fn a_decision_that_would_take_too_long_is_made_without_the_script() {
    let mut world = World::new();
    let slow = "let n = 0; for i in 0..200 { n += i } number(resource.labels.n, 0)";
    world.set(resources(1_000, Placement::First), Some(slow), None);
    assert_eq!(granted(&world.acquire("alice", Wait::Try)).1, "r0");
    let why = world.events.iter().find_map(|(_, event)| match event {
        Event::PolicyFailed { why, .. } => Some(why.to_string()),
        _ => None,
    });
    assert_eq!(why.unwrap(), "takes more than the 200000 operations that one decision may take");
}

#[test]
fn scripts_go_on_after_a_restart_and_are_not_asked_about_the_past() {
    let mut world = World::new();
    world.set(resources(5, Placement::First), Some("number(resource.labels.n, 0)"), None);
    assert_eq!(granted(&world.acquire("alice", Wait::Try)).1, "r4");
    let state = world.replayed();
    assert_eq!(state, *world.machine.state());
    world.machine = Machine::restored(state, Limits::default()).with_policies(Arc::new(RhaiPolicies::new()));
    world.apply(Command::Restart);
    assert_eq!(granted(&world.acquire("bob", Wait::Try)).1, "r3");
    // One who has none does without, and says so.
    let state = world.replayed();
    world.machine = Machine::restored(state, Limits::default());
    world.apply(Command::Restart);
    assert_eq!((granted(&world.acquire("carol", Wait::Try)).1.as_str(), world.faults()), ("r0", 1));
    let refused = world.set(resources(5, Placement::First), Some("1"), None);
    assert!(matches!(refused, Reply::Refused(refusal) if refusal.code() == "bad_script"));
}

#[test]
fn on_a_tie_the_placement_decides() {
    for placement in [Placement::Random, Placement::Spread(LabelName::parse("half").unwrap())] {
        let mut world = World::new();
        world.set(resources(20, placement.clone()), Some("number(resource.labels.n, 0) < 10"), None);
        let names: Vec<_> = (0..20).map(|_| granted(&world.acquire("alice", Wait::Try)).1).collect();
        let number = |name: &String| name[1..].parse::<usize>().unwrap();
        assert!(names[..10].iter().all(|name| number(name) < 10) && names[10..].iter().all(|name| number(name) >= 10));
        match placement {
            Placement::Random => assert!(!names[..10].is_sorted_by_key(&number), "{names:?}"),
            _ => assert!(names.chunks(2).all(|pair| number(&pair[0]) % 2 != number(&pair[1]) % 2), "{names:?}"),
        }
    }
}

#[test]
fn more_who_wait_than_are_looked_at_are_all_served() {
    let mut world = World::new();
    // The last to come first, as far as they are looked at.
    world.set(Capacity::Units(1), None, Some("number(request.holder, 0)"));
    let mut key = granted(&world.acquire("0", Wait::Try)).0;
    for n in 1..=600 {
        world.acquire(&n.to_string(), Wait::Forever);
    }
    let mut order = Vec::new();
    for _ in 0..600 {
        let mut settled = world.release(key);
        let (id, reply) = settled.pop().unwrap();
        order.push(id.0);
        key = granted(&reply).0;
    }
    assert_eq!(order[..3], [256, 257, 258], "each makes room for one more to be looked at");
    order.sort_unstable();
    assert!(order.into_iter().eq(1..=600));
    assert_eq!(world.replayed(), *world.machine.state());
}

#[test]
fn one_command_does_a_bounded_amount_of_asking() {
    let mut world = World::new();
    // Different for each pair.
    let slow = "let n = 0; for i in 0..50 { n += i } if request.holder == resource.name { n } else { 0 }";
    world.set(resources(1, Placement::First), None, Some(slow));
    granted(&world.acquire("first", Wait::Try));
    for n in 0..300 {
        world.acquire(&n.to_string(), Wait::Forever);
    }
    // Room for all: worked off in pieces, each of which is far from all of it.
    let set = |world: &mut World| world.machine.state().holds().count() - 1;
    world.set(resources(1_000, Placement::First), None, Some(slow));
    let mut pieces = vec![set(&mut world)];
    while world.machine.next_deadline().is_some() {
        let before = set(&mut world);
        let outcome = world.apply(Command::Expire);
        assert!(outcome.operations < 600_000, "{}", outcome.operations);
        pieces.push(set(&mut world) - before);
    }
    assert_eq!(pieces.iter().sum::<usize>(), 300);
    assert!(pieces.len() > 5 && pieces[..5].iter().all(|piece| *piece < 20), "{pieces:?}");
}

fn holder(n: usize) -> Holder {
    Holder::parse(&format!("h{n}"), [("need", (n % 5).to_string().as_str())]).unwrap()
}

#[test]
fn what_is_handed_out_at_once_takes_a_bounded_amount_of_asking_and_the_rest_goes_without() {
    let mut world = World::new();
    // Whoever came last gets the last: what nobody would by default. Each pair is looked at by itself.
    let text = "let n = 0; for i in 0..40 { n += 1 } number(resource.labels.n, 0) + if request.holder == \"x\" { n } else { 0 }";
    world.set(resources(400, Placement::First), Some(text), None);
    let (grants, commands) = world.hand_out((0..400).map(holder));
    assert_eq!(grants.len(), 400);
    let first = grants.iter().position(|(_, name)| name == "r0").unwrap();
    assert!((20..200).contains(&first), "{first} by the script");
    let by_script = (0..first).map(|n| (format!("h{n}"), format!("r{}", 399 - n)));
    let without = (first..400).map(|n| (format!("h{n}"), format!("r{}", n - first)));
    assert!(grants.into_iter().eq(by_script.chain(without)), "first by the script, and then without it");
    assert!(commands > 5, "{commands}");
    let why = "takes more than the 2000000 operations for what is handed out at once: the rest is without it";
    assert_eq!((world.failures(), world.faults()), (vec![why.to_string()], 1));
    assert_eq!(world.replayed(), *world.machine.state());
    // The next time it is asked again.
    let key_of = |world: &World, resource: &str| {
        let mut grants = world.events.iter().filter_map(|(_, event)| match event {
            Event::Granted { hold, .. } if hold.taken.resources.iter().any(|it| it.as_str() == resource) => {
                Some(hold.key)
            }
            _ => None,
        });
        grants.next_back().unwrap()
    };
    for resource in ["r0", "r5"] {
        let key = key_of(&world, resource);
        world.release(key);
    }
    assert_eq!((granted(&world.acquire("late", Wait::Try)).1.as_str(), world.faults()), ("r5", 1));
}

#[test]
fn what_looks_the_same_to_a_script_is_scored_once() {
    let mut world = World::new();
    let place = "let n = 0; for i in 0..40 { n += 1 } n + if request.meta.need == \"3\" && resource.labels.half == \"odd\" { 1 } else { 0 }";
    let order = "let n = 0; for i in 0..40 { n += 1 } n + number(request.meta.need, 0)";
    world.set(resources(400, Placement::First), Some(place), Some(order));
    let (grants, _) = world.hand_out((0..400).map(holder));
    assert_eq!(world.failures(), [""; 0]);
    // Of those who are looked at the one who needs most comes first, and gets what suits it.
    assert_eq!(grants[..3], [("h4", "r0"), ("h9", "r1"), ("h14", "r2")].map(|(who, what)| (who.into(), what.into())));
    let odd = |name: &str| name[1..].parse::<usize>().unwrap() % 2 == 1;
    let number = |who: &str| who[1..].parse::<usize>().unwrap();
    let threes: Vec<_> = grants.iter().filter(|(who, _)| number(who) % 5 == 3).collect();
    assert!(threes.len() == 80 && threes.iter().all(|(_, name)| odd(name)), "{threes:?}");
}

/// The same decisions as one by one, with scores that nobody remembers.
#[test]
fn remembering_scores_changes_no_choice() {
    let scripts = [
        "number(request.meta.need, 0) * number(resource.labels.n, 0) % 7",
        "(request.waited_ms / 10 + number(resource.labels[\"n\"], 0)) % 5",
        "request.units + if resource.labels.half == \"odd\" { number(request.meta[\"need\"], 0) } else { 2 }",
        "if request.holder == \"h3\" || resource.name == \"r3\" { 1 } else { 0 }",
        "fn f(r) { number(r.meta.need, 0) } f(request)",
    ];
    for place in scripts.iter().chain(&["1"]) {
        for order in scripts {
            let once = |text: &str| format!("{text} // request resource");
            let grants: Vec<_> = [place.to_string(), once(place)]
                .into_iter()
                .zip([order.to_string(), once(order)])
                .map(|(place, order)| {
                    let mut world = World::new();
                    let set = world.set(resources(23, Placement::LeastRecentlyUsed), Some(&place), Some(&order));
                    assert!(matches!(set, Reply::PoolSet { .. }), "{set:?}");
                    let grants = world.hand_out((0..31).map(holder)).0;
                    assert_eq!((grants.len(), world.failures().len()), (23, 0));
                    grants
                })
                .collect();
            assert_eq!(grants[0], grants[1], "{place}, {order}");
        }
    }
}

#[test]
fn an_explanation_costs_no_more_than_a_decision() {
    let mut world = World::new();
    let slow = "let n = 0; for i in 0..1000 { n += 1 } n + if request.holder == \"x\" { 1 } else { 0 }";
    world.set(Capacity::Units(1), None, Some(slow));
    let key = granted(&world.acquire("first", Wait::Try)).0;
    for n in 0..100 {
        world.acquire(&format!("w{n}"), Wait::Forever);
    }
    // Something is free, and nobody has been served yet.
    let drained = Command::SetCondition(SetCondition {
        pool: pool(),
        resource: None,
        condition: Condition::Drained(None),
        lasts: None,
    });
    world.apply(drained);
    world.release(key);
    let query = Query::Explain { pool: pool(), who: None, limit: 100 };
    let Ok(View::Explained(explained)) = world.machine.query_at(&query, Timestamp::from_millis(world.now)) else {
        panic!("it is explained")
    };
    let said = |what: &str| {
        explained.waiters.iter().filter(|it| it.sentences.iter().any(|sentence| sentence.contains(what))).count()
    };
    let (scored, left_out) = (said("a score of 1000 now"), said("no operations were left to ask the script"));
    assert!((10..90).contains(&scored), "{scored}");
    assert_eq!((scored + left_out, said("fails")), (100, 0));
}

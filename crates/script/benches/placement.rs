//! What a decision costs by a script beside one by a built-in policy: a resource out of 1,000 labelled ones for somebody who
//! asks, and the next of those who wait for a unit.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tenure_core::*;
use tenure_script::RhaiPolicies;

const RESOURCES: usize = 1_000;
const BEST_FIT: &str =
    "let mem = number(resource.labels.mem, 0); if mem < number(request.meta.need, 0) { -1 } else { 1000 - mem }";
const AGEING: &str = "request.waited_ms / 1000 + if request.meta.need == \"30\" { 5 } else { 0 }";

struct Load {
    machine: Machine,
    nonce: u128,
}

impl Load {
    fn new(spec: PoolSpec) -> Self {
        let machine = Machine::new(Limits::default()).with_policies(Arc::new(RhaiPolicies::new()));
        let mut load = Self { machine, nonce: 0 };
        let set = load.apply(Command::SetPool(SetPool { pool: pool(), spec }));
        assert!(matches!(set.reply, Reply::PoolSet { .. }), "{:?}", set.reply);
        load
    }

    fn apply(&mut self, command: Command) -> Outcome {
        self.nonce += 1;
        let stamp = Stamp { at: Timestamp::from_millis(1_000), nonce: self.nonce << 64 | self.nonce };
        self.machine.apply(stamp, command)
    }

    fn acquire(&mut self, wait: Wait) -> Outcome {
        let need = ["10", "30"][usize::from(self.nonce.is_multiple_of(3))];
        self.apply(Command::Acquire(Acquire {
            pool: pool(),
            demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
            size: None,
            lifetime: Some(Lifetime::Kept),
            wait,
            priority: Priority::default(),
            holder: Arc::new(Holder::parse("worker", [("need", need)]).expect("a holder")),
            session: None,
            request: None,
            also: Box::default(),
            holds_on: false,
        }))
    }

    fn release(&mut self, key: Key) -> Outcome {
        self.apply(Command::Release(Release { namespace: Namespace::default(), key, pool: None }))
    }
}

fn pool() -> PoolPath {
    PoolPath::new(Namespace::default(), PoolName::parse("pool").expect("a name"))
}

fn named(placement: Placement, place: Option<&str>) -> PoolSpec {
    let resource = |n: usize| ResourceSpec {
        name: ResourceName::parse(&format!("gpu-{n}")).expect("a name"),
        labels: Labels::parse([("mem", ["16", "24", "40", "80"][n % 4]), ("zone", ["a", "b", "c"][n % 3])])
            .expect("labels"),
        properties: Labels::default(),
    };
    let capacity = Capacity::Resources { placement, resources: (0..RESOURCES).map(resource).collect() };
    spec(capacity, Scripts { place: place.map(script), order: None })
}

fn spec(capacity: Capacity, scripts: Scripts) -> PoolSpec {
    PoolSpec { capacity, order: Order::Backfill, window: None, declared: true, cleaning: false, fair: None, scripts }
}

fn script(text: &str) -> Script {
    Script::parse(text).expect("a script")
}

/// One of all that are free, and back.
fn place(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("place");
    let spread = Placement::Spread(LabelName::parse("zone").expect("a label"));
    for (name, placement, text) in [
        ("first", Placement::First, None),
        ("spread", spread, None),
        ("script, a constant", Placement::First, Some("1")),
        ("script, best fit", Placement::First, Some(BEST_FIT)),
    ] {
        let mut load = Load::new(named(placement, text));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| {
                let mut spent = Duration::ZERO;
                for _ in 0..times {
                    let started = Instant::now();
                    let granted = black_box(load.acquire(Wait::Try));
                    spent += started.elapsed();
                    let Reply::Granted(grant) = granted.reply else { panic!("{:?}", granted.reply) };
                    load.release(grant.key);
                }
                spent
            });
        });
    }
    group.finish();
}

/// A release that hands the unit to one of those who wait.
fn order(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("order");
    for waiters in [16, 256, 10_000] {
        for (name, text) in [("arrival", None), ("script", Some(AGEING))] {
            let scripts = Scripts { place: None, order: text.map(script) };
            let mut load = Load::new(spec(Capacity::Units(1), scripts));
            let Reply::Granted(first) = load.acquire(Wait::Try).reply else { panic!("it is free") };
            let mut key = first.key;
            for _ in 0..waiters {
                load.acquire(Wait::Forever);
            }
            group.bench_function(format!("{name}, {waiters} waiting"), |bencher| {
                bencher.iter_custom(|times| {
                    let mut spent = Duration::ZERO;
                    for _ in 0..times {
                        let started = Instant::now();
                        let mut released = black_box(load.release(key));
                        spent += started.elapsed();
                        let Some((_, Reply::Granted(grant))) = released.settled.pop() else { panic!("somebody waits") };
                        key = grant.key;
                        load.acquire(Wait::Forever);
                    }
                    spent
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, place, order);
criterion_main!(benches);

//! What a release costs that hands the unit to the next waiter, with 100 and with 100,000 waiting.
//! The second should be at most twice the first.

mod common;

use std::hint::black_box;
use std::time::{Duration, Instant};

use common::Load;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tenure_core::Wait;

fn release_and_grant(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("release_and_grant");
    for waiters in [100, 10_000, 100_000] {
        let mut load = Load::default();
        let mut key = load.acquire("hot", 1, Wait::Forever).expect("the pool is free");
        for _ in 0..waiters {
            assert!(load.acquire("hot", 1, Wait::Forever).is_none(), "the pool is taken");
        }
        group.bench_function(BenchmarkId::from_parameter(waiters), |bencher| {
            bencher.iter_custom(|times| {
                let mut spent = Duration::ZERO;
                for _ in 0..times {
                    let started = Instant::now();
                    let next = black_box(load.release(key));
                    spent += started.elapsed();
                    key = next.expect("somebody waits");
                    load.acquire("hot", 1, Wait::Forever);
                }
                spent
            });
        });
    }
    group.finish();
}

criterion_group!(benches, release_and_grant);
criterion_main!(benches);

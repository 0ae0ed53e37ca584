//! A fixed budget of seeds, every plan that ever failed, and that a seed is all there is to a run.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use tenure_sim::{Counts, Left, Options, Plan, run, shrink};

/// About a minute on two cores that have other things to do.
const SEEDS: u64 = 5_000;
/// Of each of these, as many runs as there are syncs, times four.
const SEEDS_CRASHED: u64 = 8;
/// How often each invariant has something to compare in the budget, at least: about half of what it was when this was written.
const LOOKED_MIN: [(&str, u64); 13] = [
    ("acknowledged survives", 250_000),
    ("capacity", 35_000),
    ("deadlines neither early nor late", 1_900_000),
    ("no free unit beside a fitting waiter", 120_000),
    ("no withdrawn wait granted", 20_000),
    ("nobody waits for itself", 4_000),
    ("nothing dirty or reserved is handed out", 1_000),
    ("one holder per resource", 2_500),
    ("order", 8_500),
    ("rate never exceeded in any window", 1_300),
    ("replay equals state", 400_000),
    ("rising tokens", 75_000),
    ("the highest score wins", 500),
];
/// Tests run side by side: so many stretches of seeds.
const STRETCHES: u64 = 4;

#[test]
fn nothing_goes_wrong_in_the_seeds_of_the_budget() {
    let stretch = |number: u64| {
        let mut counts = Counts::default();
        for seed in (number..SEEDS).step_by(usize::try_from(STRETCHES).unwrap()) {
            let plan = Plan::from_seed(seed);
            let ended = run(&plan, Options::default());
            assert!(ended.violation.is_none(), "{}", explain(&plan));
            counts.add(&ended.counts);
        }
        counts
    };
    let counts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..STRETCHES).map(|number| scope.spawn(move || stretch(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut all = Counts::default();
    counts.iter().for_each(|counts| all.add(counts));
    println!("{all}");
    for (what, count) in
        [("torn", all.torn), ("overtaken", all.overtaken), ("begun but the first", all.segments - SEEDS)]
    {
        assert!(count > 100, "hardly anything is {what}: {all}");
    }
    // A budget in which nothing happens proves nothing.
    assert_eq!(all.seeds, SEEDS);
    for kind in [
        "answer lost",
        "call broken",
        "clock set back",
        "clock set forward",
        "connection cut",
        "crash between syncs",
        "crash during a start",
        "crash during a sync",
        "failed sync",
        "orderly restart",
        "request delayed",
        "request doubled",
        "request lost",
        "slow disk",
    ] {
        assert!(all.faults.get(kind).is_some_and(|count| *count > 100), "{kind} hardly ever happens: {all}");
    }
    for kind in ["call made again", "client hung up", "client lied", "client paused", "crowd", "session resumed"] {
        assert!(all.clients.get(kind).is_some_and(|count| *count > 100), "{kind} hardly ever happens: {all}");
    }
    for kind in [
        "deadlock",
        "granted",
        "lost",
        "queued",
        "renewed",
        "request_ended",
        "session_taken_over",
        "timed_out",
        "withdrawn",
    ] {
        assert!(all.replies.get(kind).is_some_and(|count| *count > 100), "{kind} is hardly ever said: {all}");
    }
    for (name, least) in LOOKED_MIN {
        assert!(
            all.checks.get(name).is_some_and(|count| *count >= least),
            "{name} hardly ever has anything to compare: {all}"
        );
    }
    assert_eq!(all.checks.len(), LOOKED_MIN.len(), "an invariant is not in the list: {all}");
}

#[test]
fn the_power_can_be_lost_during_any_sync_whatever_is_left_of_what_it_was_to_write() {
    let crash = |seed: u64| {
        let plan = Plan::from_seed(seed);
        let syncs = run(&plan, Options::default()).counts.syncs;
        for sync in 1..=syncs {
            // Elsewhere each time.
            let share = u16::try_from(sync * 37 % 256).unwrap();
            for left in [Left::Nothing, Left::Torn(share), Left::Hole(share), Left::All] {
                let options = Options { lose_power_at: Some((sync, left)), ..Options::default() };
                let ended = run(&plan, options);
                let why = ended.violation.map(|violation| violation.to_string()).unwrap_or_default();
                assert!(why.is_empty(), "seed {seed}, sync {sync} of {syncs}, {left:?}: {why}");
                assert!(ended.counts.recoveries > 0 && ended.counts.faults.contains_key("crash during a sync"));
            }
        }
        syncs
    };
    let syncs: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..SEEDS_CRASHED).map(|seed| scope.spawn(move || crash(seed))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    println!("the power was lost at {} places, four times each", syncs.iter().sum::<u64>());
    assert!(syncs.iter().sum::<u64>() > 300, "there is hardly a sync: {syncs:?}");
}

#[test]
fn plans_that_failed_once_fail_no_more() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert!(!files.is_empty(), "the plans are gone");
    for file in files {
        let plan = Plan::from_text(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let ended = run(&plan, Options { trace: true, ..Options::default() });
        assert!(ended.violation.is_none(), "{}\n{}", file.display(), ended.trace);
    }
}

#[test]
fn the_same_seed_twice_gives_the_same_bytes() {
    for seed in 0..60 {
        let plan = Plan::from_seed(seed);
        let options = Options { trace: true, ..Options::default() };
        let (one, other) = (run(&plan, options), run(&plan, options));
        assert!(one.trace.len() > 500, "a trace that tells nothing");
        assert!(one.trace == other.trace, "seed {seed} went two ways");
    }
}

#[test]
fn a_plan_survives_being_written_down() {
    for seed in 0..50 {
        let plan = Plan::from_seed(seed);
        assert_eq!(Plan::from_text(&plan.to_text()).unwrap(), plan);
    }
}

/// What is needed to find the cause, from a failing plan.
fn explain(plan: &Plan) -> String {
    let Some((shorter, violation)) = shrink(plan, Options::default()) else { return "it does not fail again".into() };
    let ended = run(&shorter, Options { trace: true, ..Options::default() });
    format!(
        "seed {} fails: {violation}\n\n{}\nkeep this in crates/sim/tests/seeds once it is mended:\n\n{}",
        plan.seed,
        ended.trace,
        shorter.to_text()
    )
}

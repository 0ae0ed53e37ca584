//! How much memory a million holds take, as the operating system counts it. At most 500 bytes each.

mod common;

use std::fs;

use common::Load;
use tenure_core::Wait;

const HOLDS: usize = 1_000_000;

fn main() {
    // `cargo test --benches` asks for a check only; the report takes a minute.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("{:<46} {:>14}", "a million holds", "bytes per hold");
    // Both are kept to the end: memory that one gave back would be used again by the next, and not counted.
    let _kept = [
        report("leases of one semaphore", |load, _| load.acquire("db", 2_000_000, Wait::Try).is_some()),
        report("leases of a mutex each (pool and hold)", |load, n| {
            load.acquire(&format!("job-{n}"), 1, Wait::Try).is_some()
        }),
    ];
}

fn report(what: &str, mut take: impl FnMut(&mut Load, usize) -> bool) -> Load {
    let before = resident_bytes();
    let mut load = Load::default();
    for n in 0..HOLDS {
        assert!(take(&mut load, n), "there is room");
    }
    println!("{what:<46} {:>14}", (resident_bytes() - before) / HOLDS);
    load
}

fn resident_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux says what a process uses");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says how much is resident");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("in kB");
    kib * 1024
}

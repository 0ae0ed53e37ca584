//! Sets that are guarded by a lock, as Jepsen tried with etcd: writers are processes that are stopped for longer than their
//! lease, cut off and killed, and so are the server and the store. Counted is what was acknowledged and is lost.
//!
//! `cargo xtask fencing --minutes N` goes on for longer.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod history;
mod network;
mod porcupine;
mod report;
mod run;
mod shelf;
#[path = "../support/mod.rs"]
mod support;
mod writer;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use report::Outcome;
use run::{Place, Run};
use shelf::{COPIES, FENCED};
use writer::Way;

const LEASE: Duration = Duration::from_secs(2);
/// A lease may be two milliseconds short, because commands that are made durable together share one time; and over a
/// restart the server counts by another clock than we do.
const SLACK: Duration = Duration::from_millis(10);
/// Goes on with faults for so long, instead of until there was some of each.
const MINUTES: &str = "TENURE_FENCING_MINUTES";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--writer") => writer::process(&arguments[1..]),
        Some("--shelf") => shelf::process(arguments[1].clone().into()),
        _ => {
            let tests = vec![
                Trial::test("no acknowledged update of a set in memory is lost if it checks the token", || {
                    nothing_is_lost(Way::Client, Place::Memory);
                    Ok(())
                }),
                Trial::test("no acknowledged update of a set in a store is lost if it checks the token", || {
                    nothing_is_lost(Way::Calls, Place::Store);
                    Ok(())
                }),
            ];
            return libtest_mimic::run(&Arguments::from_args(), tests).exit_code();
        }
    }
    ExitCode::SUCCESS
}

fn nothing_is_lost(way: Way, place: Place) {
    let minutes = std::env::var(MINUTES).map_or(0.0, |minutes| minutes.parse().expect("a number of minutes"));
    let mut run = Run::start(way, place);
    run.suffer(Duration::from_secs_f64(minutes * 60.0));
    let (record, sets) = run.end();

    eprintln!("\na set in {} guarded by a lock, leases of {LEASE:?}, {}", place.name(), run.faults());
    eprintln!("{:>10} {:>14} {:>8} {:>8} {:>6}", "copy", "acknowledged", "refused", "forgone", "lost");
    let mut fenced_lost = Vec::new();
    for copy in COPIES {
        let acknowledged = record.with(copy, Outcome::Acknowledged);
        let lost: Vec<_> = acknowledged.difference(&sets[copy]).copied().collect();
        let [refused, forgone] = [Outcome::Refused, Outcome::Forgone].map(|outcome| record.with(copy, outcome).len());
        let (count, all) = (lost.len(), acknowledged.len());
        let percent = 100.0 * lost.len() as f64 / acknowledged.len().max(1) as f64;
        eprintln!("{copy:>10} {all:>14} {refused:>8} {forgone:>8} {count:>6} ({percent:.1} %)");
        let made_up = record.made_up(copy, &sets[copy]);
        assert!(made_up.is_empty(), "{copy} has what nobody wrote, or what was refused: {made_up:?}");
        if copy == FENCED {
            fenced_lost = lost;
        }
    }
    eprintln!("{} operations on the lock", record.operations.len());
    // Had nobody come too late, nothing would be lost without a lock either.
    let refused = record.with(FENCED, Outcome::Refused).len();
    assert!(refused >= run.late(), "{refused} writes were refused, of {} or more that came too late", run.late());
    assert!(fenced_lost.is_empty(), "acknowledged, and not there: {fenced_lost:?}");
    assert!(record.with(FENCED, Outcome::Acknowledged).len() >= run::TURNS_AFTER_FAULT * run.faults_total() / 2);
    if let Err(stuck) = history::check(&record.operations, SLACK) {
        let around = stuck.at.saturating_sub(10)..record.operations.len().min(stuck.at + 10);
        panic!("the history of the lock is not linearizable: {stuck:?} {:#?}", &record.operations[around]);
    }
    // Had the leases been longer, others would have come too soon: it could have been found.
    let longer: Vec<_> = record.operations.iter().map(|operation| operation.with_lease(LEASE * 2)).collect();
    assert!(history::check(&longer, SLACK).is_err(), "a history that is wrong is taken for right");
    match porcupine::check(&[&record.operations, &longer], SLACK) {
        Some(verdicts) => assert_eq!(verdicts, [true, false], "what Porcupine says of the history, and of a wrong one"),
        None => eprintln!("not checked by Porcupine, for which there is no Go"),
    }
}

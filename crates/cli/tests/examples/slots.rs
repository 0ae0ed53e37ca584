//! Many workers, and never more than ten at once.

use std::fs;

use crate::stage::{Stage, With, peak, step};
use crate::support::job::until;

#[test]
fn ten_of_many_workers_are_at_it_at_once_and_never_more() {
    check([With::Tenure, With::Tenure]);
}

#[test]
fn ten_of_many_workers_with_the_client_of_ldlm_are_at_it_at_once_and_never_more() {
    check([With::Ldlm, With::Ldlm]);
}

#[test]
fn ten_of_many_workers_of_either_kind_are_at_it_at_once_and_never_more() {
    check([With::Ldlm, With::Tenure]);
}

fn check(kinds: [With; 2]) {
    let stage = Stage::new();
    let (log, gate) = (stage.path("log"), stage.path("gate"));
    // Whoever has a slot keeps it until the gate is open. So ten come to be in at once, however slow the machine is, and an
    // eleventh would have all the time to come in too.
    let operation = format!("until [ -e '{gate}' ]; do sleep 0.05; done");
    let arguments = ["--workers", "8", "--log", &log, "--", "sh", "-c", &operation];
    let mut groups = kinds.map(|with| stage.start("utilisation-limiting", with, &arguments));
    stage.until_waiting("search-slots", 6);
    until("ten are at it", || stage.lines("log").len() >= 10);
    assert_eq!(stage.lines("log"), ["begin"; 10]);

    fs::write(&gate, "").unwrap();
    for group in &mut groups {
        let ended = group.ends();
        assert_eq!((ended.code, &*ended.stdout), (Some(0), "at most 10 at once, of 10 slots\n"), "{}", ended.stderr);
    }
    // Lines are appended while the slot is held: at no time were fewer at it than the file says. That they were not more
    // either is the server's account, where a slot is taken from the grant to the release.
    let log = stage.lines("log");
    assert_eq!(log.len(), 2 * 16);
    assert_eq!(peak(log.iter().map(|line| if line == "begin" { 1 } else { -1 })), 10, "{log:?}");
    let history = stage.history("search-slots");
    assert_eq!(peak(history.iter().map(step)), 10, "{history:?}");
}

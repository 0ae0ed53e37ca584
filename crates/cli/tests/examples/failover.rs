//! The primary is killed, and the secondary takes over.

use nix::sys::signal::Signal;

use crate::stage::{Stage, With, peak, step};
use crate::support::job::until;

#[test]
fn when_the_primary_is_killed_the_secondary_takes_over() {
    check([With::Tenure, With::Tenure]);
}

#[test]
fn when_the_primary_is_killed_the_secondary_takes_over_with_the_client_of_ldlm() {
    check([With::Ldlm, With::Ldlm]);
}

#[test]
fn a_primary_of_one_kind_is_followed_by_a_secondary_of_the_other() {
    check([With::Ldlm, With::Tenure]);
    check([With::Tenure, With::Ldlm]);
}

fn check([first, second]: [With; 2]) {
    let stage = Stage::new();
    let log = stage.path("log");
    let primary = stage.start("failover", first, &["--log", &log, "alpha"]);
    primary.says("alpha: primary");
    let secondary = stage.start("failover", second, &["--log", &log, "beta"]);
    stage.until_waiting("application-primary", 1);
    let times = |who: &str| stage.lines("log").iter().filter(|line| line.starts_with(who)).count();
    until("the primary has worked", || times("alpha") > 0);
    assert_eq!((secondary.said().contains("beta: primary"), times("beta")), (false, 0));

    primary.signal(Signal::SIGKILL);
    secondary.says("beta: primary");
    until("the new primary has worked", || times("beta") > 2);
    // Both append to the file while they are the primary, and only then; so the order of its lines is that of their work.
    let log = stage.lines("log");
    assert!(log.is_sorted(), "both worked at once: {log:?}");

    let history = stage.history("application-primary");
    assert_eq!(peak(history.iter().map(step)), 1, "{history:?}");
    let granted = history.iter().filter(|event| event["kind"] == "granted");
    let tokens: Vec<u64> = granted.map(|event| event["token"].as_u64().unwrap()).collect();
    assert!(tokens.len() == 2 && tokens[0] < tokens[1], "{tokens:?}");
}

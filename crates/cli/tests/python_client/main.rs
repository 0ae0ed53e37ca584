//! The Python client: its own tests on the real binary, and the scenarios through it. What it claims is in
//! `clients/python/tests/client`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../server/tests/wire/certificates.rs"]
mod certificates;
#[path = "../scenarios/host.rs"]
#[allow(dead_code, reason = "only a part of it is used here")]
mod host;
mod pages;
#[path = "../scenarios/runner.rs"]
mod runner;
mod secure;
#[path = "../support/secured.rs"]
mod secured;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::job::Job;
use support::tools;

#[test]
fn the_client_in_python_holds() {
    passes("test_holding");
}

#[test]
fn the_client_in_python_holds_several_pools_at_once_and_keeps_to_their_rules() {
    passes("test_sets");
}

#[test]
fn the_client_in_python_tells_what_is_lost_and_loses_nothing_itself() {
    passes("test_losing");
}

#[test]
fn the_client_in_python_comes_back() {
    passes("test_reconnecting");
}

#[test]
fn the_client_in_python_survives_a_fork() {
    passes("test_forking");
}

#[test]
fn the_checker_in_python_refuses_who_comes_late() {
    passes("test_fencing");
}

#[test]
fn the_client_in_python_meets_other_versions_politely() {
    passes("test_versions");
}

#[test]
fn the_session_of_the_client_in_python_decides_as_it_should() {
    passes("test_session");
}

#[test]
fn the_scenarios_are_played_through_the_client_in_python() {
    runner::plays_all(&root(), |arguments| python("clients/python/tests/scenarios.py", arguments));
}

/// Runs the tests of a module to their end, of which each may take its time, but not for ever.
fn passes(module: &str) {
    let source = fs::read_to_string(root().join(format!("clients/python/tests/client/{module}.py"))).unwrap();
    let count = source.matches("    def test_").count() + source.matches("    async def test_").count();
    assert!(count > 0, "{module} has no tests");
    let tests = python("clients/python/tests/client/run_client.py", &[module]);
    // What Python's tests have to say they say on stderr.
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec "$0" "$@" 2>&1"#]).arg(tests.get_program()).args(tests.get_args());
    command.envs(tests.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Job::start(&command).passes(count, ended);
}

/// How many tests have ended, well or not. What the client logs may stand before the end of a test's line.
fn ended(report: &str) -> usize {
    let is_end =
        |line: &str| ["ok", "FAIL", "ERROR"].iter().any(|end| line == *end || line.ends_with(&format!("... {end}")));
    report.lines().filter(|line| is_end(line)).count()
}

/// A program that finds the client, and the server.
fn python(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(tools::python());
    command.arg(root().join(program)).args(arguments).env("PYTHONPATH", root().join("clients/python/src"));
    // Nothing is to lie beside the scripts afterwards.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("TENURE_PROGRAM", env!("CARGO_BIN_EXE_tenure"));
    command
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("it lies in the workspace").to_owned()
}

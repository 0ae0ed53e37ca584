//! The TypeScript client: its own tests on the real binary, and the scenarios through it. What it claims is in
//! `clients/typescript/test/client`.

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
fn the_client_in_typescript_holds() {
    passes("holding");
}

#[test]
fn the_client_in_typescript_holds_several_pools_at_once_and_keeps_to_their_rules() {
    passes("sets");
}

#[test]
fn the_client_in_typescript_tells_what_is_lost() {
    passes("losing");
}

#[test]
fn the_client_in_typescript_comes_back() {
    passes("reconnecting");
}

#[test]
fn the_checker_in_typescript_refuses_who_comes_late() {
    passes("fencing");
}

#[test]
fn the_client_in_typescript_meets_other_versions_politely() {
    passes("versions");
}

#[test]
fn the_session_of_the_client_in_typescript_decides_as_it_should() {
    passes("session");
}

#[test]
fn the_scenarios_are_played_through_the_client_in_typescript() {
    runner::plays_all(&root(), |arguments| script("client/scenarios.js", arguments));
}

/// Runs the tests of a file to their end, of which each may take its time, but not for ever.
fn passes(file: &str) {
    let source = fs::read_to_string(root().join(format!("clients/typescript/test/client/{file}.test.ts"))).unwrap();
    let count = source.matches("\ntest(").count();
    assert!(count > 0, "{file} has no tests");
    let mut command = Command::new("node");
    command.args(["--test", "--test-reporter", "tap"]).arg(built(&format!("client/{file}.test.js")));
    Job::start(command.env("TENURE_PROGRAM", env!("CARGO_BIN_EXE_tenure"))).passes(count, ended);
}

/// How many tests have ended, well or not.
fn ended(report: &str) -> usize {
    report.lines().filter(|line| line.starts_with("ok ") || line.starts_with("not ok ")).count()
}

/// A program beside the client's tests, and what it is to be given.
fn script(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("node");
    command.arg(built(name)).args(arguments);
    command
}

fn built(path: &str) -> PathBuf {
    tools::typescript("clients/typescript/lib-test").join(path)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("it lies in the workspace").to_owned()
}

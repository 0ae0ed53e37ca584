//! The gRPC port of the real binary, as h2spec finds it: a program that others made and many use, which tries what the standards of
//! HTTP/2 and of its compressed header fields ask of a server. What gRPC makes of it is tested elsewhere. `cargo xtask test`
//! skips it where there is no Go.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::process::Command;

use support::job::Job;
use support::tool::Ended;
use support::{Process, tools};

/// Any call: it is asked without what makes it one, and is told so in an answer with a body.
const PATH: &str = "/tenure.v1.Tenure/Acquire";
/// Of which it says what came of them. With fewer it has not tried all.
const CASES: usize = 146;

/// What it cannot try, and why.
const EXCEPT: [(&str, &str); 1] =
    [("skipped http2/5.1.2/1", "it sends more streams than we said that we allow, and we said nothing")];

#[test]
fn h2spec_finds_that_the_grpc_port_speaks_http2() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let mut h2spec = Command::new(tools::go("h2spec"));
    h2spec.args([&server.grpc, PATH]);
    let Ended { code, stdout, stderr } = Job::start(&h2spec).ends();
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert_eq!(stdout.lines().count(), CASES, "{stdout}{stderr}");

    let found: Vec<_> = stdout.lines().filter(|case| !case.starts_with("passed ")).collect();
    let is_excepted = |case: &str| EXCEPT.iter().any(|(except, _)| name(case) == *except);
    let wrong: Vec<_> = found.iter().filter(|case| !is_excepted(case)).copied().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // An exception that is none any more would hide what comes after it.
    let names: BTreeSet<_> = found.iter().map(|case| name(case)).collect();
    let over: Vec<_> = EXCEPT.iter().filter(|(except, _)| !names.contains(except)).collect();
    assert!(over.is_empty(), "these are as they should be, and need no exception: {over:?}");
}

/// How it ended and which one it is, without what it is about.
fn name(case: &str) -> &str {
    let mut spaces = case.match_indices(' ').map(|(at, _)| at);
    &case[..spaces.nth(1).unwrap_or(case.len())]
}

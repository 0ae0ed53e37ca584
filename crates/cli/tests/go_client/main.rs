//! The Go client: its own tests on the real binary, and the scenarios through it. What it claims is in
//! `clients/go/*_test.go`. `cargo xtask test` skips what needs Go where it is not installed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../server/tests/wire/certificates.rs"]
mod certificates;
mod go_client;
#[path = "../scenarios/host.rs"]
#[allow(dead_code, reason = "only a part of it is used here")]
mod host;
#[path = "../scenarios/runner.rs"]
mod runner;
#[path = "../support/secured.rs"]
mod secured;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn the_client_in_go_has_the_version_of_the_server() {
    let stated = format!("const Version = \"{}\"\n", env!("CARGO_PKG_VERSION"));
    let source = fs::read_to_string(root().join("clients/go/doc.go")).unwrap();
    assert!(source.contains(&stated), "{source} does not say {stated}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("it lies in the workspace").to_owned()
}

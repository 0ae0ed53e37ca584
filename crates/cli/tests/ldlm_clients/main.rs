//! Clients that know nothing of Tenure, at the real binary: py-ldlm as it is published, and programs in Node and Go over
//! the public proto. Each script says a line for each fact it has seen and fails where it sees something else; the
//! tests stage what happens around it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../server/tests/wire/certificates.rs"]
mod certificates;
mod go_client;
mod node_client;
mod python_client;
#[path = "../support/secured.rs"]
mod secured;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use secured::{PASSWORD, secured};
use serde_json::Value;
use support::Process;
use support::job::{Job, until};
use support::scene::Scene;
use support::tool::{Ended, Tool};
use tempfile::TempDir;

/// A file beside this one, or further up.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ldlm_clients").join(path)
}

fn proto() -> PathBuf {
    file("../../../../proto/ldlm/ldlm.proto")
}

/// A server that keeps nothing.
fn server() -> (Process, TempDir) {
    let data = tempfile::tempdir().unwrap();
    (Process::serve(data.path(), &["--durability", "memory"]), data)
}

/// Where a client that speaks no URLs finds it.
fn address(server: &Process) -> &str {
    server.grpc.trim_start_matches("https://")
}

impl Scene {
    /// That of the door, which stays the same.
    fn address(&self) -> String {
        let command = self.tool.command(&[]);
        let address = command.get_envs().find(|(name, _)| *name == "TENURE_ADDR").and_then(|(_, value)| value);
        address.unwrap().to_str().unwrap().to_owned()
    }

    fn waits_for(&self, pool: &str) {
        until("somebody waits", || {
            // Before anybody has come there is no such pool.
            let Ended { code, stdout, .. } = self.tool.run(&["queue", pool, "--json"]);
            code == Some(0) && serde_json::from_str::<Value>(&stdout).unwrap()["waiters"][0].is_object()
        });
    }
}

/// The script ends well, and has seen just these facts.
fn assert_sees(script: &Command, facts: &[&str]) {
    assert_saw(&Job::start(script).ends(), facts);
}

fn assert_saw(Ended { code, stdout, stderr }: &Ended, facts: &[&str]) {
    assert_eq!(*code, Some(0), "it said\n{stdout}\nand complained\n{stderr}");
    assert_eq!(stdout.lines().collect::<Vec<_>>(), facts, "{stderr}");
}

/// What a command lists.
fn listed(tool: &Tool, arguments: &[&str], what: &str) -> Vec<Value> {
    let printed = tool.printed(&[arguments, &["--json"]].concat());
    serde_json::from_str::<Value>(&printed).unwrap()[what].as_array().unwrap().clone()
}

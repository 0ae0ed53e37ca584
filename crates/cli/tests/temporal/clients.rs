//! Our helpers for workflows, in Python, TypeScript and Go: their own tests on real workers, with a server and a Temporal
//! around them. What they claim is in `clients/*/test*`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::job::Job;
use crate::support::temporal::Temporal;
use crate::support::tool::{Ended, Tool};
use crate::support::{Process, tools};

/// A server that knows a namespace of a Temporal.
pub(crate) struct Ground {
    server: Process,
    _data: tempfile::TempDir,
    pub(crate) address: String,
    pub(crate) namespace: String,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let (address, namespace) = (Temporal::shared().address(), Temporal::shared().namespace());
        let data = tempfile::tempdir().unwrap();
        let options = ["--durability", "memory", "--temporal", &address, "--temporal-namespace", &namespace];
        let server = Process::serve(data.path(), &options);
        Self { server, _data: data, address, namespace }
    }

    pub(crate) fn tool(&self) -> Tool {
        Tool::of(&self.server)
    }

    /// Runs tests to their end, of which each may take its time, but not for ever.
    fn passes(&self, tests: &Command, count: usize) {
        // What Python's tests have to say they say on stderr.
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec "$0" "$@" 2>&1"#]).arg(tests.get_program()).args(tests.get_args());
        command.envs(tests.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("TEMPORAL_ADDRESS", &self.address).env("TEMPORAL_NAMESPACE", &self.namespace);
        command.env("TENURE_API", &self.server.http);
        Job::start(&command).passes(count, ended);
    }
}

/// How many tests have ended, well or not: in Python's report, in one by TAP, or in Go's.
fn ended(report: &str) -> usize {
    let python =
        |line: &str| ["ok", "FAIL", "ERROR"].iter().any(|end| line == *end || line.ends_with(&format!("... {end}")));
    let tap = |line: &str| line.starts_with("ok ") || line.starts_with("not ok ");
    let go = |line: &str| line.starts_with("--- ");
    report.lines().filter(|line| python(line) || tap(line) || go(line)).count()
}

#[test]
fn the_helpers_in_python_give_turns() {
    python_passes("test_turns");
}

#[test]
fn the_helpers_in_python_leave_nothing_held_or_queued_however_a_workflow_ends() {
    python_passes("test_ends");
}

#[test]
fn the_helpers_in_typescript_give_turns_and_leave_nothing_held_or_queued() {
    let count = fs::read_to_string(folder("clients/typescript/test/temporal/holds.test.cts"))
        .unwrap()
        .matches("\nplays(")
        .count();
    let mut tests = Command::new("node");
    tests
        .args(["--test", "--test-reporter", "tap"])
        .arg(tools::typescript("clients/typescript/lib-test/temporal/holds.test.cjs"));
    Ground::new().passes(&tests, count);
}

/// By this name it is skipped where there is no Go.
mod go_client {
    use super::*;

    #[test]
    fn the_helpers_in_go_give_turns_and_leave_nothing_held_or_queued() {
        let source = fs::read_to_string(folder("clients/go/tenureflow/tenureflow_test.go")).unwrap();
        let count = source.matches("\nfunc Test").count();
        let mut tests = Command::new(tools::go("tenureflow.test"));
        tests.arg("-test.v");
        Ground::new().passes(&tests, count);
    }
}

/// As for TypeScript, which cannot be built otherwise.
#[test]
fn the_helpers_in_python_and_what_uses_them_are_typed() {
    let cache = tempfile::tempdir().unwrap();
    let check = |files: &[&str]| {
        let mut mypy = Command::new(tools::python());
        mypy.args(["-m", "mypy", "--cache-dir"]).arg(cache.path()).args(files.iter().map(|file| folder(file)));
        mypy.arg("--config-file").arg(folder("clients/python/pyproject.toml"));
        let Ended { code, stdout, stderr } = Job::start(mypy.env("MYPYPATH", folder("clients/python/src"))).ends();
        assert_eq!(code, Some(0), "{stdout}{stderr}");
    };
    check(&["clients/python/src", "clients/python/tests"]);
    for story in ["resource-pool", "semaphore", "terminated-holder"] {
        check(&[&format!("examples/temporal-{story}/with_python.py")]);
    }
}

fn python_passes(module: &str) {
    let file = folder(&format!("clients/python/tests/{module}.py"));
    let count = fs::read_to_string(file).unwrap().matches("async def test_").count();
    Ground::new().passes(&python("clients/python/tests/run.py", &[module]), count);
}

/// A program that finds the helpers.
pub(crate) fn python(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(tools::python());
    command.arg(folder(program)).args(arguments).env("PYTHONPATH", folder("clients/python/src"));
    // Nothing is to lie beside the scripts afterwards.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("it lies in the workspace").join(path)
}

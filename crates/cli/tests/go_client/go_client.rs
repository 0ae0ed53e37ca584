//! What needs programs that were built from Go.

use std::fs;
use std::process::Command;

use crate::secured::{PASSWORD, secured};
use crate::support::job::Job;
use crate::support::tool::Ended;
use crate::support::{Process, tools};
use crate::{root, runner};

#[test]
fn the_client_in_go_holds() {
    passes("holding");
}

#[test]
fn the_client_in_go_holds_sets_cleans_and_is_told_of_deadlocks() {
    passes("sets");
}

#[test]
fn the_client_in_go_tells_what_is_lost_and_comes_back() {
    passes("reconnecting");
}

#[test]
fn the_client_in_go_meets_other_versions_politely() {
    passes("versions");
}

#[test]
fn the_session_of_the_client_in_go_decides_as_it_should() {
    passes("session");
}

#[test]
fn the_programs_in_the_readme_do_what_it_says() {
    passes("everyday");
}

#[test]
fn the_client_in_go_is_formatted_documented_and_licensed() {
    passes("pages");
}

#[test]
fn the_messages_of_the_client_in_go_are_those_of_the_proto_files() {
    let mut script = Command::new("sh");
    script.arg(root().join("clients/go/tools/make_wire.sh")).arg("--check");
    let generators = tools::go("protoc-gen-go").parent().unwrap().to_owned();
    let Ended { code, stdout, stderr } = Job::start(script.env("GENERATORS", generators)).ends();
    assert_eq!((code, stdout.as_str()), (Some(0), "as the proto files say\n"), "{stderr}");
}

/// What is printed is one number, as by those of the other clients.
#[test]
fn the_holds_of_the_client_in_go_can_be_counted() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let mut bench = Command::new(tools::go("client-bench"));
    bench.arg(&server.grpc).args(["--clients", "2", "--tasks", "4", "--seconds", "0.2"]);
    let Ended { code, stdout, stderr } = Job::start(&bench).ends();
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.trim_end().parse::<u64>().unwrap() > 0, "{stdout}");
}

#[test]
fn the_scenarios_are_played_through_the_client_in_go() {
    runner::plays_all(&root(), |arguments| {
        let mut runner = Command::new(tools::go("client.test"));
        // Without a word of its own: what it says is for us.
        runner.args(["-test.run", "^TestScenariosAreAsTheySay$", "-test.timeout", "0"]);
        runner.env("TENURE_SCENARIOS", arguments[0]).env("TENURE_SCENARIO", arguments[1]);
        runner
    });
}

#[test]
fn the_client_in_go_is_let_in_by_a_password_and_a_certificate() {
    let (server, folder) = secured();
    let mut tests = go("TestAPasswordAndACertificateLetIn");
    tests.env("TENURE_SECURE", server.grpc.trim_start_matches("https://"));
    tests.env("TENURE_SECURE_PASSWORD", PASSWORD).env("TENURE_SECURE_FOLDER", folder.path());
    run(&tests, 1);
}

/// Runs the tests of a file.
fn passes(file: &str) {
    let source = fs::read_to_string(root().join(format!("clients/go/{file}_test.go"))).unwrap();
    let names: Vec<_> = source.lines().filter_map(|line| line.strip_prefix("func Test")?.split('(').next()).collect();
    assert!(!names.is_empty(), "{file} has no tests");
    run(&go(&format!("Test({})", names.join("|"))), names.len());
}

fn run(tests: &Command, count: usize) {
    let Ended { stdout, stderr, .. } = Job::start(tests).passes(count, |report| ended(report, "--- "));
    assert_eq!(ended(&stdout, "--- PASS: "), count, "none was skipped: {stdout}{stderr}");
}

fn ended(report: &str, how: &str) -> usize {
    report.lines().filter(|line| line.starts_with(how)).count()
}

/// The tests of these names, which find the server.
fn go(names: &str) -> Command {
    let mut command = Command::new(tools::go("client.test"));
    command.args(["-test.v", "-test.run", &format!("^{names}$")]).current_dir(root().join("clients/go"));
    command.env("TENURE_PROGRAM", env!("CARGO_BIN_EXE_tenure"));
    command
}

//! What is written about the TypeScript client is true: its README's programs run, its version is the server's, its messages
//! are those of the proto files, its documentation can be made, its package has all it needs and its speed can be measured.

use std::fs;
use std::process::Command;

use crate::support::job::Job;
use crate::support::tool::Ended;
use crate::support::{Process, tools};
use crate::{root, script};

#[test]
fn the_programs_in_the_readme_do_what_it_says() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let mut script = script("client/readme.js", &[]);
    let Ended { code, stdout, stderr } = Job::start(script.env("SERVER", &server.grpc)).ends();
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert_eq!(stdout.lines().filter(|line| line.ends_with(": as it says")).count(), 9, "{stdout}");
}

#[test]
fn the_client_in_typescript_has_the_version_of_the_server() {
    let package = fs::read_to_string(root().join("clients/typescript/package.json")).unwrap();
    let package: serde_json::Value = serde_json::from_str(&package).unwrap();
    assert_eq!(package["version"], env!("CARGO_PKG_VERSION"));
    let version = fs::read_to_string(root().join("clients/typescript/src/version.ts")).unwrap();
    let stated = format!("VERSION = '{}';\n", env!("CARGO_PKG_VERSION"));
    assert!(version.ends_with(&stated), "{version} is not {stated}");
}

#[test]
fn the_messages_of_the_client_in_typescript_are_those_of_the_proto_files() {
    let mut command = Command::new("node");
    command.arg(root().join("clients/typescript/tools/make-wire.mjs")).arg("--check");
    let Ended { code, stdout, stderr } = Job::start(&command).ends();
    assert_eq!((code, stdout.as_str()), (Some(0), "as the proto files say\n"), "{stderr}");
}

#[test]
fn the_documentation_of_the_client_in_typescript_can_be_made() {
    let out = tempfile::tempdir().unwrap();
    let mut typedoc = Command::new("node");
    typedoc.arg(tools::typescript("../node_modules/typedoc/bin/typedoc")).arg("--out").arg(out.path());
    typedoc.arg("--options").arg(tools::typescript("clients/typescript/typedoc.json"));
    let Ended { code, stdout, stderr } = Job::start(&typedoc).ends();
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    for (page, name) in [
        ("classes/index.Client.html", "withHold"),
        ("classes/index.Hold.html", "signal"),
        ("interfaces/index.HoldOptions.html", "untilSessionEnds"),
        ("classes/fencing.Fence.html", "StaleToken"),
        ("functions/temporal.withHold.html", "withHold"),
    ] {
        let text = fs::read_to_string(out.path().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(name), "{name} is not in {page}");
    }
}

#[test]
fn the_package_of_the_client_in_typescript_has_all_it_needs() {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--dry-run", "--json", "--ignore-scripts"]).arg(tools::typescript("clients/typescript"));
    let Ended { code, stdout, stderr } = Job::start(&npm).ends();
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let packed: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let files: Vec<&str> = packed[0]["files"].as_array().unwrap().iter().filter_map(|it| it["path"].as_str()).collect();
    for wanted in
        ["README.md", "package.json", "lib/index.js", "lib/index.d.ts", "lib/fencing.js", "lib/temporal/index.cjs"]
    {
        assert!(files.contains(&wanted), "{wanted} is not in the package: {files:?}");
    }
    assert!(!files.iter().any(|file| file.contains("test")), "{files:?}");
}

#[test]
fn the_holds_per_second_of_the_client_in_typescript_can_be_measured() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let mut command = Command::new("node");
    command.arg(tools::typescript("clients/typescript/bench.mjs")).arg(&server.grpc);
    command.args(["--clients", "2", "--tasks", "4", "--seconds", "0.5"]);
    let Ended { code, stdout, stderr } = Job::start(&command).ends();
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.trim().parse::<u64>().is_ok_and(|rate| rate > 0), "{stdout}");
}

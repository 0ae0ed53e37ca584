//! What is written about the Python client is true: its README's programs run, its version is the server's, its messages
//! are those of the proto files, its types fit, its documentation can be made and its package has all it needs.

use std::fs;
use std::process::Command;

use crate::support::job::Job;
use crate::support::tool::Ended;
use crate::support::{Process, tools};
use crate::{python, root};

#[test]
fn the_programs_in_the_readme_do_what_it_says() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let mut script = python("clients/python/tests/client/readme.py", &[]);
    let Ended { code, stdout, stderr } = Job::start(script.env("SERVER", &server.grpc)).ends();
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert_eq!(stdout.lines().filter(|line| line.ends_with(": as it says")).count(), 8, "{stdout}");
}

#[test]
fn the_client_in_python_has_the_version_of_the_server() {
    let version = fs::read_to_string(root().join("clients/python/src/tenure/_version.py")).unwrap();
    let stated = format!("VERSION = \"{}\"\n", env!("CARGO_PKG_VERSION"));
    assert!(version.ends_with(&stated), "{version} is not {stated}");
}

#[test]
fn the_messages_of_the_client_in_python_are_those_of_the_proto_files() {
    let mut script = python("clients/python/tools/make_wire.py", &["--check"]);
    let Ended { code, stdout, stderr } = Job::start(script.env_remove("TENURE_PROGRAM")).ends();
    assert_eq!((code, stdout.as_str()), (Some(0), "as the proto files say\n"), "{stderr}");
}

#[test]
fn the_client_in_python_and_its_tests_are_typed() {
    let cache = tempfile::tempdir().unwrap();
    let mut mypy = Command::new(tools::python());
    mypy.args(["-m", "mypy", "--cache-dir"]).arg(cache.path());
    mypy.arg("--config-file").arg(root().join("clients/python/pyproject.toml"));
    for part in ["src", "tests/client", "tests/scenarios.py", "tools", "bench.py"] {
        mypy.arg(root().join("clients/python").join(part));
    }
    let Ended { code, stdout, stderr } = Job::start(&mypy).ends();
    assert_eq!(code, Some(0), "{stdout}{stderr}");
}

#[test]
fn the_documentation_of_the_client_in_python_can_be_made() {
    let out = tempfile::tempdir().unwrap();
    let mut pdoc = python("clients/python/tools/make_docs.py", &[out.path().to_str().unwrap()]);
    let Ended { code, stdout, stderr } = Job::start(pdoc.env_remove("TENURE_PROGRAM")).ends();
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let page = fs::read_to_string(out.path().join("tenure.html")).unwrap();
    for name in ["AsyncClient", "try_hold", "HoldLost", "until_session_ends", "HeldPart", "Deadlock"] {
        assert!(page.contains(name), "{name} is not in the documentation");
    }
}

//! The server's side of the connection: what it says if there is no Temporal.

use std::process::Stdio;

use crate::support::temporal::Temporal;
use crate::support::{Process, command};

fn fails(arguments: &[&str]) -> (Option<i32>, String) {
    let data = tempfile::tempdir().unwrap();
    let output = command(data.path()).args(arguments).stdout(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_server_that_cannot_reach_temporal_says_so_and_what_to_do() {
    let (code, said) = fails(&["--temporal", "127.0.0.1:1"]);
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("error: Temporal cannot be reached at 127.0.0.1:1"), "{said}");
    assert!(said.contains("hint: check --temporal"), "{said}");
    let (code, said) = fails(&["--temporal", "no address"]);
    assert_eq!(code, Some(64), "{said}");
}

#[test]
fn the_task_queues_of_activities_and_keepers_are_not_for_pools() {
    for queue in ["tenure", "tenure-keepers"] {
        let queues = format!("mine, {queue}");
        let (code, said) = fails(&["--temporal", "127.0.0.1:1", "--temporal-queues", &queues]);
        assert_eq!(code, Some(64), "{said}");
        assert!(said.contains(&format!("`{queue}` is a task queue for something else")), "{said}");
    }
}

#[test]
fn a_namespace_that_temporal_does_not_have_is_named() {
    let address = Temporal::shared().address();
    let (code, said) = fails(&["--temporal", &address, "--temporal-namespace", "nobodys"]);
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("has no namespace `nobodys`"), "{said}");
}

#[test]
fn servers_that_would_keep_the_same_pools_elsewhere_are_refused() {
    let (temporal, nowhere) = (Temporal::shared(), tempfile::tempdir().unwrap());
    let (address, namespace) = (temporal.address(), temporal.namespace());
    let arguments = ["--engine", "temporal", "--temporal", &address, "--namespace", &namespace, "--keepers"];
    let _first = Process::spawn(command(nowhere.path()).args(arguments).arg("2"));
    for keepers in ["1", "3", "64"] {
        let (code, said) = fails(&[&arguments[..], &[keepers]].concat());
        assert_eq!(code, Some(64), "{said}");
        let error = format!("error: pools are spread over 2 keepers here, not over {keepers}");
        assert!(said.contains(&error) && said.contains("say --keepers 2"), "{said}");
    }
    let _second = Process::spawn(command(nowhere.path()).args(arguments).arg("2"));
}

//! py-ldlm, unmodified, both of its clients.

use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::job::{Job, until};
use crate::support::scene::Scene;
use crate::support::tool::Tool;
use crate::support::tools;
use crate::{PASSWORD, address, assert_saw, assert_sees, file, listed, secured, server};

fn python(script: &str, address: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(tools::python());
    command.arg(file("py").join(script)).arg(address).args(arguments);
    // Nothing is to lie beside the scripts afterwards.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn python_of(scene: &Scene, script: &str, arguments: &[&str]) -> Job {
    Job::start(&python(script, &scene.address(), arguments))
}

/// What both clients tell apart, in the order in which they are asked.
const ERRORS: [&str; 8] = [
    "LDLMError: lock name cannot be empty",
    "LDLMError: wait timeout must be greater than 0",
    "LDLMError: lock timeout must be greater than 0",
    "LDLMError: lock timeout must be greater than 0",
    "LockDoesNotExistError: a lock by that name does not exist",
    "InvalidLockKeyError: invalid lock key",
    "LockDoesNotExistOrInvalidKeyError: lock does not exist or invalid key",
    "LockSizeMismatchError: lock size mismatch",
];

#[test]
fn every_call_and_every_error_of_the_blocking_client_is_as_its_users_know_it() {
    let (server, _data) = server();
    let calls = [
        "lock, try_lock and unlock",
        "a context gives back what it took, and a wait that is over is no exception",
        "a key renews and unlocks from any connection",
        "as many as the size have it at once",
    ];
    let sessions = ["clients of one address in one process are one session, which ends with the last of them"];
    assert_sees(&python("calls.py", &server.grpc, &[]), &[&calls[..], &ERRORS, &sessions].concat());
}

#[test]
fn every_call_and_every_error_of_the_client_for_asyncio_is_as_its_users_know_it() {
    let (server, _data) = server();
    let calls = [
        "lock, try_lock and unlock",
        "a context gives back what it took, and a wait that is over is no exception",
        "a key renews and unlocks from any connection",
        "250 tasks that wait on one connection get it one after another",
        "a task that is cancelled leaves the queue",
    ];
    let sessions = ["a connection that is closed gives back what it held"];
    assert_sees(&python("calls_aio.py", &server.grpc, &[&server.http]), &[&calls[..], &ERRORS, &sessions].concat());
}

#[test]
fn the_oldest_release_refreshes_its_locks() {
    let (server, _data) = server();
    let facts = [
        "refresh_lock",
        "LockDoesNotExistOrInvalidKeyError: lock does not exist or invalid key",
        "unlock and lock_context",
    ];
    assert_sees(python("older.py", &server.grpc, &[]).env("PYTHONPATH", tools::older_python()), &facts);
}

#[test]
fn a_lock_is_kept_by_the_renewals_of_the_library() {
    let facts = ["a lock that nobody renews ends", "a lock that the library renews stays", "until it is unlocked"];
    let (server, _data) = server();
    let mut blocking = Job::start(&python("renewed.py", &server.grpc, &[]));
    let (apart, _data) = crate::server();
    assert_sees(&python("renewed_aio.py", &apart.grpc, &[]), &facts);
    assert_saw(&blocking.ends(), &facts);
}

#[test]
fn who_has_the_password_and_a_certificate_is_let_in_and_nobody_else() {
    let (server, folder) = secured();
    let script = python("secure.py", address(&server), &[folder.path().to_str().unwrap(), PASSWORD]);
    let facts = [
        "Client is let in",
        "Client with a wrong password: UNAUTHENTICATED",
        "Client without a password: UNAUTHENTICATED",
        "Client without a certificate: UNAVAILABLE",
        "Client that trusts somebody else: UNAVAILABLE",
        "Client without TLS: UNAVAILABLE",
        "AsyncClient is let in",
        "AsyncClient with a wrong password: UNAUTHENTICATED",
        "AsyncClient without a certificate: UNAVAILABLE",
    ];
    assert_sees(&script, &facts);
}

#[test]
fn over_a_kill_and_a_restart_holders_keep_their_locks_and_waiters_get_them() {
    let mut scene = Scene::durable();
    let mut holder = python_of(&scene, "holder.py", &[]);
    holder.says("holds\n");
    let mut waiter = python_of(&scene, "waiter.py", &[]);
    scene.waits_for("held");
    scene.restart();
    scene.waits_for("held");
    assert_eq!(waiter.said(), "");
    holder.hears("go on\n");
    assert_saw(&holder.ends(), &["holds", "renewed by its old key", "unlocked by their old keys"]);
    assert_saw(&waiter.ends(), &["got it"]);
}

#[test]
fn over_a_kill_and_a_restart_the_client_for_asyncio_leaves_it_to_its_user_to_ask_again() {
    let mut scene = Scene::durable();
    let mut script = python_of(&scene, "restart_aio.py", &[]);
    scene.waits_for("held");
    scene.restart();
    script.says("AioRpcError: UNAVAILABLE\n");
    script.hears("go on\n");
    let facts = ["AioRpcError: UNAVAILABLE", "renewed by its old key", "unlocked by their old keys"];
    assert_saw(&script.ends(), &facts);
}

#[test]
fn of_workers_that_are_killed_in_the_middle_nothing_is_left() {
    let (server, _data) = server();
    let tool = Tool::of(&server);
    let names: Vec<_> = (0..120).map(|worker| format!("worker {worker}")).collect();
    for batch in names.chunks(40) {
        let mut workers: Vec<_> =
            batch.iter().map(|name| Job::start(&python("looper.py", &server.grpc, &[name]))).collect();
        for worker in &workers {
            worker.says("looping\n");
        }
        for worker in &workers {
            worker.signal(Signal::SIGKILL);
        }
        for worker in &mut workers {
            assert_eq!(worker.ends().code, None, "a signal ended it");
        }
    }
    until("all sessions have ended", || listed(&tool, &["sessions"], "sessions").is_empty());
    assert!(listed(&tool, &["holds"], "holds").is_empty());
    let mut all: Vec<_> = names.iter().map(String::as_str).collect();
    all.push("wanted by all");
    assert_sees(&python("lockable.py", &server.grpc, &all), &["121 locked"]);
}

#[test]
fn its_locks_show_in_tenure_with_their_holder_and_token() {
    let scene = Scene::new();
    let first = scene.tool.printed(&["acquire", "another"]);
    assert!(first.contains("token"), "{first}");
    let mut script = python_of(&scene, "hold.py", &["db"]);
    script.says("locked\n");
    let holds = listed(&scene.tool, &["holds", "db"], "holds");
    assert_eq!((holds.len(), &holds[0]["token"], &holds[0]["lifetime"]), (1, &json!(2), &json!("session")));
    let (holder, peer) = (holds[0]["holder"].as_str().unwrap(), holds[0]["meta"]["peer"].as_str().unwrap());
    assert_eq!(holder, format!("ldlm {peer}"));
    assert!(peer.starts_with("127.0.0.1:"), "{peer}");
    assert!(holds[0]["meta"]["user_agent"].as_str().unwrap().starts_with("grpc-python/"), "{}", holds[0]);
    let sessions = listed(&scene.tool, &["sessions"], "sessions");
    assert_eq!((&sessions[0]["session"], &sessions[0]["holds"]), (&holds[0]["session"], &json!(1)));
    let pools = scene.tool.printed(&["ls"]);
    assert!(pools.lines().any(|line| line.starts_with("db ") && line.contains(" 1/1 ")), "{pools}");
    script.hears("go on\n");
    assert_saw(&script.ends(), &["locked", "unlocked"]);
    assert!(listed(&scene.tool, &["holds", "db"], "holds").is_empty());
}

#[test]
fn its_locks_and_those_of_tenure_run_wait_for_each_other() {
    let scene = Scene::new();
    let mut script = python_of(&scene, "hold.py", &["db"]);
    script.says("locked\n");
    assert_eq!(scene.ends(&["run", "-n", "db", "--", "true"]).code, Some(75));
    // It stays until there is nothing more to read.
    let mut run = scene.job(&["run", "db", "--", "sh", "-c", "echo runs; cat"]);
    scene.waits_for("db");
    assert_eq!(run.said(), "");
    script.hears("go on\n");
    assert_saw(&script.ends(), &["locked", "unlocked"]);
    run.says("runs\n");

    let mut script = python_of(&scene, "hold.py", &["db"]);
    scene.waits_for("db");
    assert_eq!(script.said(), "");
    run.hears_no_more();
    assert_eq!(run.ends().code, Some(0));
    script.says("locked\n");
    script.hears("go on\n");
    assert_saw(&script.ends(), &["locked", "unlocked"]);
}

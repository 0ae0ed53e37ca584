//! Go over the public proto, with the gRPC that LDLM's own client for Go uses. `cargo xtask test` skips this module where
//! Go is not installed.

use std::process::Command;

use crate::support::job::Job;
use crate::support::scene::Scene;
use crate::support::tools;
use crate::{PASSWORD, address, assert_saw, assert_sees, proto, secured, server};

fn go(scenario: &str, address: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(tools::go("ldlm-client"));
    command.arg(scenario).arg(address).arg(proto()).args(arguments);
    command
}

#[test]
fn every_call_and_every_error_is_as_its_users_know_it() {
    let (server, _data) = server();
    let facts = [
        "Lock and TryLock",
        "Renew and Unlock",
        "as many as the size have it at once",
        "LockWaitTimeout: timeout waiting to acquire lock",
        "InvalidLockKey: invalid lock key",
        "LockDoesNotExist: a lock by that name does not exist",
        "LockDoesNotExistOrInvalidKey: lock does not exist or invalid key",
        "LockSizeMismatch: lock size mismatch",
        "InvalidLockSize: lock size must be greater than 0",
        "what a closed connection held, and what a call that was over waited for, is free",
    ];
    assert_sees(&go("calls", &server.grpc, &[]), &facts);
}

#[test]
fn who_has_the_password_and_a_certificate_is_let_in_and_nobody_else() {
    let (server, folder) = secured();
    let facts = [
        "let in",
        "with a wrong password: Unauthenticated",
        "without a password: Unauthenticated",
        "without a certificate: Unavailable",
    ];
    assert_sees(&go("secure", address(&server), &[folder.path().to_str().unwrap(), PASSWORD]), &facts);
}

#[test]
fn over_a_kill_and_a_restart_a_lock_is_kept_and_one_who_asks_again_gets_it() {
    let mut scene = Scene::durable();
    let mut script = Job::start(&go("restart", &scene.address(), &[]));
    script.says("holds\n");
    scene.waits_for("held");
    scene.restart();
    scene.waits_for("held");
    script.hears("go on\n");
    assert_saw(&script.ends(), &["holds", "unlocked by its old key", "the waiter got it"]);
}

//! Servers that are killed, ours and Temporal's.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::stage::{Stage, acquire, release, wait_for};
use crate::support::job::until;
use crate::support::temporal::Temporal;

/// So that an attempt that was lost with its server is made again soon.
fn with_heartbeat(mut step: Value) -> Value {
    step["options"] = json!({ "heartbeat": 2 });
    step
}

#[test]
fn a_wait_goes_on_when_our_server_was_killed_and_ends_in_one_hold() {
    let mut stage = Stage::new();
    stage.start("holder", json!([acquire("db"), wait_for("on"), release("db")]));
    stage.until_held_by("db", &["holder"]);
    stage.start("waiter", json!([with_heartbeat(acquire("db")), wait_for("on"), release("db")]));
    stage.until_waits("db", &["waiter"]);
    stage.restart_server();
    assert_eq!(stage.holders("db"), ["holder"], "what was held is held");
    stage.until_waits("db", &["waiter"]);
    stage.signal("holder", "on");
    stage.until_held_by("db", &["waiter"]);
    stage.signal("waiter", "on");
    assert_eq!(stage.result("waiter").as_array().unwrap().len(), 2);
    stage.until_held_by("db", &[]);
}

#[test]
fn a_server_that_is_stopped_tells_those_who_wait_and_the_next_server_has_them() {
    let mut stage = Stage::new();
    stage.start("holder", json!([acquire("db"), wait_for("on"), release("db")]));
    stage.until_held_by("db", &["holder"]);
    // Without heartbeats nobody would notice for a long time.
    let mut step = acquire("db");
    step["options"] = json!({ "heartbeat": 0 });
    stage.start("waiter", json!([step, release("db")]));
    stage.until_waits("db", &["waiter"]);
    let id = Pid::from_raw(stage.server.id().try_into().unwrap());
    kill(id, Signal::SIGTERM).unwrap();
    assert!(stage.server.wait().success());
    stage.start_server();
    stage.until_waits("db", &["waiter"]);
    stage.signal("holder", "on");
    stage.result("waiter");
}

#[test]
fn a_grant_that_was_made_before_our_server_was_killed_is_found_by_the_next_attempt() {
    let mut temporal = Temporal::start();
    let mut stage = Stage::at(&temporal);
    stage.start("holder", json!([acquire("db"), wait_for("on"), release("db")]));
    stage.until_held_by("db", &["holder"]);
    stage.start("waiter", json!([with_heartbeat(acquire("db")), wait_for("on"), release("db")]));
    stage.until_waits("db", &["waiter"]);
    let hold = stage.listed("holds")["holds"][0].clone();
    // So Temporal hears nothing of the grant.
    temporal.kill();
    let (holder, token) = (hold["holder"].as_str().unwrap(), hold["token"].to_string());
    stage.tool().printed(&["force-release", "db", "--holder", holder, "--token", &token, "--reason", "test"]);
    stage.until_held_by("db", &["waiter"]);
    let granted = stage.listed("holds")["holds"][0]["token"].clone();
    stage.server.kill();
    temporal.restart();
    stage.start_server();
    until("the workflow has it", || stage.ask(json!({ "do": "so_far", "id": "waiter" }))[0]["token"] == granted);
    assert_eq!(stage.holders("db"), ["waiter"]);
    stage.signal("waiter", "on");
    stage.result("waiter");
    stage.until_held_by("db", &[]);
}

#[test]
fn a_workflow_that_was_terminated_while_our_server_was_down_leaves_nothing_behind() {
    let mut stage = Stage::new();
    stage.start("holder", json!([acquire("db"), wait_for("on")]));
    stage.until_held_by("db", &["holder"]);
    stage.server.kill();
    stage.ask(json!({ "do": "terminate", "id": "holder" }));
    stage.start_server();
    stage.until_held_by("db", &[]);
}

#[test]
fn nobody_is_declared_gone_while_temporal_is_away_and_all_goes_on_when_it_is_back() {
    let mut temporal = Temporal::start();
    let stage = Stage::at(&temporal);
    stage.start("holder", json!([acquire("db"), wait_for("on"), release("db")]));
    stage.until_held_by("db", &["holder"]);
    stage.start("waiter", json!([with_heartbeat(acquire("db")), release("db")]));
    stage.until_waits("db", &["waiter"]);
    temporal.kill();
    // Others are served meanwhile.
    stage.tool().printed(&["run", "cache", "--", "true"]);
    assert_eq!((stage.holders("db"), stage.waiters("db")), (vec!["holder".into()], vec!["waiter".into()]));
    temporal.restart();
    stage.signal("holder", "on");
    assert_eq!(stage.result("waiter").as_array().unwrap().len(), 2);
    stage.until_held_by("db", &[]);
}

//! The activities, called by name.

use serde_json::{Value, json};

use crate::stage::{Stage, acquire, acquire_with, attempt, release, wait_for};
use crate::support::job::{Job, until};

#[test]
fn a_workflow_acquires_and_releases_by_name_and_is_told_what_rest_tells() {
    let stage = Stage::new();
    let log = stage.run("backup", json!([acquire("db"), release("db")]));
    let grant = &log[0];
    assert_eq!((&grant["pool"], &grant["units"], &grant["lifetime"]), (&json!("db"), &json!(1), &json!("bound")));
    assert_eq!(log[1], json!({ "token": grant["token"] }));
    stage.until_held_by("db", &[]);
}

#[test]
fn workflows_and_scripts_take_turns_in_the_order_in_which_they_came() {
    let stage = Stage::new();
    stage.start("first", json!([acquire("db"), wait_for("on"), release("db")]));
    stage.until_held_by("db", &["first"]);
    stage.start("second", json!([acquire("db"), wait_for("on"), release("db")]));
    stage.until_waits("db", &["second"]);
    let script = Job::start(&stage.tool().command(&["run", "--holder", "script", "db", "--", "cat"]));
    stage.until_waits("db", &["second", "script"]);
    stage.start("third", json!([acquire("db"), release("db")]));
    stage.until_waits("db", &["second", "script", "third"]);
    stage.signal("first", "on");
    stage.until_held_by("db", &["second"]);
    stage.signal("second", "on");
    stage.until_held_by("db", &["script"]);
    drop(script);
    let log = stage.result("third");
    let token = |log: &Value| log[0]["token"].as_u64().unwrap();
    assert!(token(&stage.result("first")) < token(&stage.result("second")));
    assert!(token(&stage.result("second")) < token(&log));
}

#[test]
fn what_cannot_be_used_fails_for_good_and_names_the_field() {
    let stage = Stage::new();
    let cases = [
        (json!({}), "pool"),
        (json!({ "pool": "db", "ttl": 5 }), "ttl"),
        (json!({ "pool": "db", "units": "many" }), "units"),
        (json!({ "pool": "db", "select": "((" }), "select"),
        (json!({ "pool": "db", "ttl_ms": 5, "lifetime": "bound" }), "ttl_ms"),
        (json!({ "pool": "db", "meta": 7 }), "meta"),
        (json!([]), ""),
        (json!(["db", 3]), ""),
        (json!("db"), ""),
    ];
    let steps: Vec<_> = cases.iter().map(|(input, _)| attempt("tenure.acquire", input.clone())).collect();
    let log = stage.run("clumsy", json!(steps));
    for ((input, field), said) in cases.iter().zip(log.as_array().unwrap()) {
        assert_eq!((&said["type"], &said["final"]), (&json!("invalid_argument"), &json!(true)), "{input}: {said}");
        assert!(said["details"][0].to_string().contains(field), "{input}: {said}");
    }
    let log = stage.run(
        "clumsy-too",
        json!([
            attempt("tenure.try_acquire", json!({ "pool": "db", "wait_ms": 5 })),
            attempt("tenure.release", json!({ "key": "none" })),
            attempt("tenure.renew", json!({ "key": "00000000-0000-4000-8000-000000000000" })),
        ]),
    );
    assert_eq!(log[0]["details"][0]["field"], "wait_ms", "{log}");
    assert_eq!(log[1]["details"][0]["field"], "key", "{log}");
    assert_eq!(log[2]["type"], "not_held", "{log}");
}

#[test]
fn a_no_has_its_code_as_type_and_tells_who_holds() {
    let stage = Stage::new();
    stage.start("holder", json!([acquire("db"), wait_for("on")]));
    stage.until_held_by("db", &["holder"]);
    let log = stage.run(
        "other",
        json!([
            attempt("tenure.acquire", json!({ "pool": "db", "wait_ms": 0 })),
            attempt("tenure.acquire", json!({ "pool": "db", "wait_ms": 50 })),
            attempt("tenure.try_acquire", json!({ "pool": "db" })),
            attempt("tenure.try_acquire", json!({ "pool": "gpus", "select": "mem >= 80" })),
            attempt("tenure.try_acquire", json!({ "pool": "free", "priority": null })),
        ]),
    );
    assert_eq!((&log[0]["type"], &log[0]["final"]), (&json!("busy"), &json!(true)), "{log}");
    assert_eq!(log[0]["details"][0]["holders"][0]["holder"], "holder", "{log}");
    assert_eq!(log[1]["type"], "timed_out", "{log}");
    assert_eq!(log[2], Value::Null);
    assert_eq!(log[3]["type"], "unknown_pool", "{log}");
    assert_eq!(log[4]["pool"], "free", "{log}");
}

#[test]
fn a_lease_is_renewed_and_a_rate_window_is_what_its_pool_says() {
    let stage = Stage::new();
    stage.tool().printed(&["pool", "set", "calls", "--units", "2", "--window", "60s"]);
    let log = stage.run(
        "renewer",
        json!([acquire_with(json!({ "pool": "db", "ttl_ms": 60_000 })), acquire("calls"), release("db"),]),
    );
    assert_eq!((&log[0]["lifetime"], &log[1]["lifetime"]), (&json!("leased"), &json!("window")), "{log}");
    let key = stage.run("holder", json!([acquire_with(json!({ "pool": "db", "ttl_ms": 60_000 }))]))[0]["key"].clone();
    let log = stage.run(
        "keeper",
        json!([
            attempt("tenure.renew", json!({ "key": key, "ttl_ms": 90_000 })),
            attempt("tenure.release", json!({ "key": key })),
            attempt("tenure.release", json!({ "key": key })),
        ]),
    );
    assert_eq!(log[0]["ttl_ms"], 90_000, "{log}");
    assert_eq!((&log[1]["token"], &log[2]["type"]), (&log[0]["token"], &json!("not_held")), "{log}");
}

#[test]
fn others_see_which_workflow_holds_and_what_it_ends_with() {
    let stage = Stage::new();
    let run = stage.start("order-7", json!([acquire("db"), wait_for("on")]));
    stage.until_held_by("db", &["order-7"]);
    let hold = stage.listed("holds")["holds"][0].clone();
    assert_eq!(hold["meta"], json!({ "workflow_type": "Script", "run_id": run }));
    assert_eq!(hold["owner"], format!("temporal:{}/{run}/order-7", stage.namespace));
}

#[test]
fn a_wait_that_is_cancelled_leaves_the_queue() {
    let stage = Stage::new();
    stage.start("holder", json!([acquire("db"), wait_for("on"), release("db")]));
    stage.until_held_by("db", &["holder"]);
    for cancellation in ["WAIT_CANCELLATION_COMPLETED", "TRY_CANCEL"] {
        let options = json!({ "cancellation": cancellation });
        let step = json!({ "do": "cancel_wait", "input": { "pool": "db" }, "signal": "cancel", "options": options });
        stage.start(cancellation, json!([step, wait_for("on")]));
        stage.until_waits("db", &[cancellation]);
        stage.signal(cancellation, "cancel");
        stage.until_waits("db", &[]);
        stage.signal(cancellation, "on");
        assert_eq!(stage.result(cancellation), json!([{ "cancelled": true }]));
    }
    stage.signal("holder", "on");
    stage.result("holder");
    stage.until_held_by("db", &[]);
}

#[test]
fn a_wait_whose_activity_timed_out_leaves_the_queue_and_a_grant_for_it_is_given_to_nobody() {
    let stage = Stage::new();
    stage.start("holder", json!([acquire("db"), wait_for("on"), release("db")]));
    stage.until_held_by("db", &["holder"]);
    let mut step = attempt("tenure.acquire", json!({ "pool": "db" }));
    step["options"] = json!({ "start_to_close": 1, "attempts": 1 });
    stage.start("hasty", json!([step, wait_for("on")]));
    stage.until_waits("db", &["hasty"]);
    stage.until_waits("db", &[]);
    stage.signal("holder", "on");
    stage.until_held_by("db", &[]);
    stage.signal("hasty", "on");
    assert_eq!(stage.result("hasty"), json!([{ "type": "TimeoutError" }]));
}

#[test]
fn a_wait_of_a_workflow_that_was_terminated_leaves_the_queue() {
    let stage = Stage::new();
    stage.start("holder", json!([acquire("db"), wait_for("on"), release("db")]));
    stage.until_held_by("db", &["holder"]);
    stage.start("waiter", json!([acquire("db")]));
    stage.until_waits("db", &["waiter"]);
    stage.ask(json!({ "do": "terminate", "id": "waiter" }));
    stage.until_waits("db", &[]);
}

#[test]
fn a_retried_attempt_keeps_its_place_in_the_queue() {
    let stage = Stage::new();
    stage.start("holder", json!([acquire("db"), wait_for("on"), release("db")]));
    stage.until_held_by("db", &["holder"]);
    let mut step = acquire("db");
    step["options"] = json!({ "start_to_close": 2 });
    stage.start("patient", json!([step, wait_for("on"), release("db")]));
    stage.until_waits("db", &["patient"]);
    stage.start("later", json!([acquire("db"), release("db")]));
    stage.until_waits("db", &["patient", "later"]);
    until("an attempt has timed out and another has come", || attempts(&stage, "patient") > 2);
    assert_eq!(stage.waiters("db"), ["patient", "later"]);
    stage.signal("holder", "on");
    stage.until_held_by("db", &["patient"]);
    stage.signal("patient", "on");
    stage.result("patient");
    stage.result("later");
}

fn attempts(stage: &Stage, id: &str) -> u64 {
    stage.ask(json!({ "do": "attempts", "id": id })).as_u64().unwrap()
}

#[test]
fn three_hundred_wait_at_once_and_every_one_is_served() {
    let stage = Stage::new();
    // Enough of it that they do not have to be served one after another.
    stage.tool().printed(&["pool", "set", "db", "--units", "30"]);
    let all = acquire_with(json!({ "pool": "db", "all": true }));
    stage.start("holder", json!([all, wait_for("on"), release("db")]));
    stage.until_held_by("db", &["holder"]);
    let step = json!({ "do": "many", "count": 30, "input": { "pool": "db" }, "options": { "heartbeat": 60 } });
    let ids: Vec<_> = (0..10).map(|n| format!("waiter-{n}")).collect();
    ids.iter().for_each(|id| drop(stage.start(id, json!([step]))));
    until("all wait", || stage.listed("pools/db")["summary"]["waiters"] == 300);
    stage.signal("holder", "on");
    let logs: Vec<_> = ids.iter().map(|id| stage.result(id)).collect();
    let mut tokens: Vec<_> = logs.iter().flat_map(|log| log.as_array().unwrap()).map(|hold| &hold["token"]).collect();
    tokens.sort_unstable_by_key(|token| token.as_u64());
    tokens.dedup();
    assert_eq!(tokens.len(), 300, "each has had a hold of its own");
    stage.until_held_by("db", &[]);
}

//! Holds that end with their workflow, however it ends, and not before.

use serde_json::{Value, json};

use crate::stage::{Stage, acquire, release, wait_for};
use crate::support::job::until;

fn holder(stage: &Stage, id: &str) {
    stage.start(id, json!([acquire(id), wait_for("on"), { "do": "fail" }]));
    stage.until_held_by(id, &[id]);
}

#[test]
fn a_hold_ends_with_its_workflow_however_that_ends() {
    let stage = Stage::new();
    stage.run("completed", json!([acquire("completed")]));
    stage.until_held_by("completed", &[]);

    holder(&stage, "failed");
    stage.signal("failed", "on");
    stage.until_held_by("failed", &[]);

    holder(&stage, "cancelled");
    stage.ask(json!({ "do": "cancel", "id": "cancelled" }));
    stage.until_held_by("cancelled", &[]);

    holder(&stage, "terminated");
    stage.ask(json!({ "do": "terminate", "id": "terminated" }));
    stage.until_held_by("terminated", &[]);

    holder(&stage, "deleted");
    stage.ask(json!({ "do": "delete", "id": "deleted" }));
    stage.until_held_by("deleted", &[]);

    let steps = json!([acquire("late"), wait_for("on")]);
    stage.ask(json!({ "do": "start", "id": "late", "steps": steps, "timeout": 10 }));
    stage.until_held_by("late", &["late"]);
    stage.until_held_by("late", &[]);
}

#[test]
fn what_a_terminated_workflow_held_goes_to_whoever_waits() {
    let stage = Stage::new();
    holder(&stage, "db");
    stage.start("waiter", json!([acquire("db"), release("db")]));
    stage.until_waits("db", &["waiter"]);
    stage.ask(json!({ "do": "terminate", "id": "db" }));
    assert_eq!(stage.result("waiter")[0]["pool"], "db");
}

#[test]
fn a_hold_outlives_the_run_that_continues_as_new_and_ends_with_the_chain() {
    let stage = Stage::new();
    let first = stage.start(
        "chain",
        json!([
            acquire("db"),
            { "do": "continue" },
            wait_for("again"),
            { "do": "continue" },
            wait_for("on"),
            release("db"),
            acquire("db"),
            wait_for("end"),
        ]),
    );
    stage.until_held_by("db", &["chain"]);
    let token = held(&stage, "db");
    let second = until_other_run(&stage, "chain", &first);
    stage.signal("chain", "again");
    until_other_run(&stage, "chain", &second);
    assert_eq!(held(&stage, "db"), token, "it is still the first run's");
    stage.signal("chain", "on");
    until("the last run has released it and has its own", || held(&stage, "db") > token);
    stage.ask(json!({ "do": "terminate", "id": "chain" }));
    stage.until_held_by("db", &[]);
}

#[test]
fn a_workflow_that_is_reset_keeps_what_it_held() {
    let stage = Stage::new();
    let steps = json!([acquire("db"), wait_for("on"), release("db")]);
    let first = stage.start("job", steps);
    stage.until_held_by("db", &["job"]);
    let token = held(&stage, "db");

    until_told(&stage, token);
    // To after it was acquired: the new run has it from the history.
    stage.ask(json!({ "do": "reset", "id": "job", "to_activity": "tenure.acquire" }));
    let second = until_other_run(&stage, "job", &first);
    until_told(&stage, token);
    // To the beginning: the new run asks again, and gets what it has.
    stage.ask(json!({ "do": "reset", "id": "job", "to_activity": null }));
    until_other_run(&stage, "job", &second);
    until_told(&stage, token);
    assert_eq!(held(&stage, "db"), token);
    stage.signal("job", "on");
    assert_eq!(stage.result("job")[1]["token"], token);

    // All is done, and done again.
    stage.ask(json!({ "do": "reset", "id": "job", "to_activity": null }));
    stage.signal("job", "on");
    until("it has another hold", || {
        stage.ask(json!({ "do": "so_far", "id": "job" }))[0]["token"].as_u64() > Some(token)
    });
    stage.result("job");
    stage.until_held_by("db", &[]);
}

#[test]
fn a_new_workflow_with_the_same_id_is_another_owner() {
    let stage = Stage::new();
    holder(&stage, "db");
    stage.ask(json!({ "do": "terminate", "id": "db" }));
    stage.start("db", json!([acquire("other"), wait_for("on")]));
    stage.until_held_by("db", &[]);
    stage.until_held_by("other", &["db"]);
}

#[test]
fn a_hold_of_an_owner_that_is_no_workflow_is_left_alone() {
    let stage = Stage::new();
    stage.tool().printed(&["acquire", "db", "--owner", "job-7", "--holder", "script"]);
    stage.tool().printed(&["acquire", "cache", "--owner", "temporal:elsewhere/1/job", "--holder", "script"]);
    stage.run("other", json!([acquire("queue")]));
    stage.until_held_by("queue", &[]);
    assert_eq!((stage.holders("db"), stage.holders("cache")), (vec!["script".into()], vec!["script".into()]));
}

fn until_told(stage: &Stage, token: u64) {
    until("the run has it", || stage.ask(json!({ "do": "so_far", "id": "job" }))[0]["token"] == token);
}

fn held(stage: &Stage, pool: &str) -> u64 {
    stage.listed(&format!("holds?pool={pool}"))["holds"][0]["token"].as_u64().unwrap_or_default()
}

fn until_other_run(stage: &Stage, id: &str, before: &str) -> String {
    let mut run = Value::Null;
    until("there is another run", || {
        run = stage.ask(json!({ "do": "run_id", "id": id }));
        run != before
    });
    run.as_str().unwrap().to_owned()
}

//! Workflows that were written for the public samples, at pools, lock managers and permits that we host: everything works as
//! they know it, and what goes wrong there goes right here.

use std::process::Command;

use serde_json::{Value, json};

use crate::stage::{Stage, wait_for};
use crate::support::job::{Job, until};
use crate::support::temporal::Temporal;
use crate::support::tool::Tool;

const POOL: &str = "resource_pool";

/// A stage with users, and an operator.
struct Faces {
    stage: Stage,
    temporal: Option<Temporal>,
}

impl Faces {
    fn new() -> Self {
        Self { stage: Stage::with_script(Temporal::shared(), "faces.py"), temporal: None }
    }

    /// On a Temporal with limits of its own.
    fn with_limits(limits: &[&str]) -> Self {
        let temporal = Temporal::start_with(limits);
        Self { stage: Stage::with_script(&temporal, "faces.py"), temporal: Some(temporal) }
    }

    /// With the server's pools in Temporal too.
    fn on_engine(limits: &[&str]) -> Self {
        let temporal = Temporal::start_with(limits);
        Self { stage: Stage::on_engine(&temporal, "faces.py", Some("temporal")), temporal: Some(temporal) }
    }

    fn with_pool(resources: &str) -> Self {
        let faces = Self::new();
        faces.start_pool(&[POOL, "--resources", resources]);
        faces
    }

    fn start_pool(&self, arguments: &[&str]) -> Value {
        let ended = self.stage.tool().run(&self.start_pool_arguments(arguments));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    }

    fn start_pool_arguments<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let at = ["--temporal", &self.stage.address, "--temporal-namespace", &self.stage.namespace, "--json"];
        [&["temporal", "start-pool"], arguments, &at].concat()
    }

    /// `temporal workflow` as an operator uses it, on the pool.
    fn operator(&self, what: &str, arguments: &[&str]) -> Command {
        let temporal = self.temporal.as_ref().unwrap_or_else(|| Temporal::shared());
        let on = ["workflow", what, "--namespace", &self.stage.namespace, "--workflow-id", POOL];
        temporal.command(&[&on, arguments].concat())
    }

    fn operator_signal(&self, name: &str, input: &str) {
        let ended = self.operator("signal", &["--name", name, "--input", input]).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }

    /// The answer to the query, as its text.
    fn operator_query(&self) -> String {
        let ended = self.operator("query", &["--type", "get_current_holders", "--output", "json"]).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).unwrap()
    }

    fn holders(&self, pool: &str) -> Value {
        self.stage.ask(json!({ "do": "holders", "id": pool }))
    }

    /// Who holds each resource, by name.
    fn until_held(&self, pool: &str, expected: &Value) {
        let mut found = Value::Null;
        until(&format!("{pool} is held by {expected}"), || {
            found = holders_by_name(&self.holders(pool));
            found == *expected
        });
    }

    /// Lets thirty workflows have three turns each, all at once.
    fn begin_burst(&self) -> u64 {
        let turns: Vec<_> = (0..3).flat_map(|_| [acquire(), release()]).collect();
        self.stage.begin(json!({ "do": "burst", "count": 30, "steps": turns }))
    }

    fn burst_ends_well(&self, burst: u64) {
        let results = self.stage.end(burst);
        let results = results.as_array().unwrap();
        assert!(results.iter().all(|log| log.as_array().is_some_and(|log| log.len() == 3)), "{results:?}");
        let told = results.iter().flat_map(|log| log.as_array().unwrap());
        let mut tokens: Vec<_> = told.map(|told| told["token"].as_u64().unwrap()).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (1..=90).collect::<Vec<_>>(), "everybody had turns, and each was another");
        let free: serde_json::Map<_, _> = names().into_iter().map(|name| (name, Value::Null)).collect();
        self.until_held(POOL, &free.into());
    }

    fn run_id(&self, id: &str) -> String {
        self.stage.ask(json!({ "do": "run_id", "id": id })).as_str().unwrap().to_owned()
    }
}

/// The resources of a pool that many use.
fn names() -> Vec<String> {
    (0..10).map(|number| format!("r{number}")).collect()
}

fn holders_by_name(holders: &Value) -> Value {
    let holders = holders.as_object().unwrap().iter();
    holders
        .map(|(name, holder)| (name.clone(), holder["workflow_id"].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn acquire() -> Value {
    json!({ "do": "acquire", "pool": POOL })
}

fn release() -> Value {
    json!({ "do": "release", "pool": POOL })
}

#[test]
fn users_take_turns_and_none_that_fails_or_continues_as_new_gets_in_the_way() {
    let faces = Faces::with_pool("resource_a,resource_b");
    let stage = &faces.stage;
    let first = stage.start("first", json!([acquire(), { "do": "continue" }, wait_for("go"), release()]));
    faces.until_held(POOL, &json!({ "resource_a": "first", "resource_b": null }));
    stage.start("fails", json!([acquire(), wait_for("go"), { "do": "fail" }]));
    faces.until_held(POOL, &json!({ "resource_a": "first", "resource_b": "fails" }));
    until("the first has continued as new", || faces.run_id("first") != first);
    for id in ["third", "fourth"] {
        stage.start(id, json!([acquire(), wait_for("go"), release()]));
        until("it has asked", || stage.ask(json!({ "do": "asked", "pool": POOL, "id": id })) == true);
    }
    stage.signal("fails", "go");
    faces.until_held(POOL, &json!({ "resource_a": "first", "resource_b": "third" }));
    stage.signal("first", "go");
    faces.until_held(POOL, &json!({ "resource_a": "fourth", "resource_b": "third" }));
    for id in ["third", "fourth"] {
        stage.signal(id, "go");
        let told = &stage.result(id)[0];
        assert_eq!(told["token"], if id == "third" { 3 } else { 4 }, "{told}");
    }
    faces.until_held(POOL, &json!({ "resource_a": null, "resource_b": null }));
}

#[test]
fn operators_look_and_release_as_they_are_used_to() {
    let faces = Faces::with_pool("b,a");
    faces.stage.start("user", json!([acquire(), wait_for("go")]));
    faces.until_held(POOL, &json!({ "a": null, "b": "user" }));
    let text = faces.operator_query();
    let answer: Value = serde_json::from_str(&text).unwrap();
    let holders = &answer["queryResult"][0];
    assert_eq!(holders["a"], Value::Null);
    let key = holders["b"]["release_signal"].as_str().unwrap();
    // The key alone, as the sample's README says.
    faces.operator_signal("release_resource", &json!({ "release_key": key }).to_string());
    faces.until_held(POOL, &json!({ "a": null, "b": null }));
    faces.operator_signal("add_resources", r#"["b", "c"]"#);
    faces.until_held(POOL, &json!({ "a": null, "b": null, "c": null }));
}

#[test]
fn no_resource_is_lost_however_soon_it_is_released() {
    let faces = Faces::with_pool(&names().join(","));
    let burst = faces.begin_burst();
    faces.burst_ends_well(burst);
}

#[test]
fn nothing_is_lost_or_given_twice_while_a_pool_in_full_use_continues_as_new() {
    let faces = Faces::with_limits(&["limit.historyCount.suggestContinueAsNew=100"]);
    let run = faces.start_pool(&[POOL, "--resources", &names().join(",")])["run_id"].clone();
    let burst = faces.begin_burst();
    faces.burst_ends_well(burst);
    assert_ne!(run, faces.run_id(POOL).as_str());
}

#[test]
fn nothing_is_lost_or_given_twice_when_the_server_is_killed_under_a_pool_in_full_use() {
    let mut faces = Faces::with_pool(&names().join(","));
    let burst = faces.begin_burst();
    for turns in [10, 40] {
        until("some have had a turn", || {
            let holders = faces.holders(POOL);
            holders.as_object().unwrap().values().any(|holder| holder["token"].as_u64() >= Some(turns))
        });
        faces.stage.restart_server();
    }
    faces.burst_ends_well(burst);
}

#[test]
fn nonsense_is_dropped_and_the_pool_goes_on() {
    let faces = Faces::with_pool("a");
    for (name, input) in [
        ("acquire_resource", "{}"),
        ("acquire_resource", r#"{"workflow_id": 7}"#),
        ("acquire_resource", r#""user""#),
        ("release_resource", "null"),
        ("release_resource", r#"{"release_key": "nobody's"}"#),
        ("add_resources", r#"{"b": 1}"#),
        ("owner_gone", "[]"),
        ("no_such_signal", "1"),
    ] {
        faces.operator_signal(name, input);
    }
    let bare = faces.operator("signal", &["--name", "acquire_resource"]).output().unwrap();
    assert!(bare.status.success());
    let log = faces.stage.run("user", json!([acquire(), release()]));
    assert_eq!(log[0]["resource"], "a");
    assert_eq!(log[0]["token"], 1);
}

#[test]
fn whoever_waits_and_is_gone_is_passed_over() {
    let faces = Faces::with_pool("a");
    let stage = &faces.stage;
    stage.start("holder", json!([acquire(), wait_for("go"), release()]));
    faces.until_held(POOL, &json!({ "a": "holder" }));
    // Of somebody who never was, nobody hears until it would be its turn.
    faces.operator_signal("acquire_resource", r#"{"workflow_id": "never-was"}"#);
    stage.start("gives-up", json!([{ "do": "acquire", "pool": POOL, "wait": 1 }]));
    assert_eq!(stage.result("gives-up"), json!(["timeout"]));
    stage.start("terminated", json!([acquire()]));
    until("it has asked", || stage.ask(json!({ "do": "asked", "pool": POOL, "id": "terminated" })) == true);
    stage.ask(json!({ "do": "terminate", "id": "terminated" }));
    stage.start("last", json!([acquire(), wait_for("go")]));
    until("it has asked", || stage.ask(json!({ "do": "asked", "pool": POOL, "id": "last" })) == true);
    stage.signal("holder", "go");
    faces.until_held(POOL, &json!({ "a": "last" }));
}

#[test]
fn a_wait_ends_in_time_though_its_workflow_lives_on() {
    let faces = Faces::new();
    faces.start_pool(&[POOL, "--resources", "a", "--max-wait", "1s"]);
    let stage = &faces.stage;
    stage.start("holder", json!([acquire(), wait_for("go"), release()]));
    faces.until_held(POOL, &json!({ "a": "holder" }));
    stage.start("lives-on", json!([{ "do": "acquire", "pool": POOL, "wait": 1 }, wait_for("go")]));
    until("it has given up", || stage.ask(json!({ "do": "so_far", "id": "lives-on" })) == json!(["timeout"]));
    until("its wait is over", || stage.ask(json!({ "do": "asked", "pool": POOL, "id": "lives-on" })) == false);
    stage.signal("holder", "go");
    faces.until_held(POOL, &json!({ "a": null }));
}

#[test]
fn what_a_workflow_held_is_free_when_it_is_gone_however_that_came() {
    let mut faces = Faces::with_pool("a,b,c");
    for id in ["terminated", "deleted", "reset"] {
        faces.stage.start(id, json!([acquire(), wait_for("go"), release()]));
        until("it holds", || faces.stage.ask(json!({ "do": "so_far", "id": id }))[0]["resource"].is_string());
    }
    faces.until_held(POOL, &json!({ "a": "terminated", "b": "deleted", "c": "reset" }));
    faces.stage.ask(json!({ "do": "terminate", "id": "terminated" }));
    faces.stage.ask(json!({ "do": "delete", "id": "deleted" }));
    faces.until_held(POOL, &json!({ "a": null, "b": null, "c": "reset" }));
    // While nobody watches.
    faces.stage.server.kill();
    faces.stage.ask(json!({ "do": "terminate", "id": "reset" }));
    faces.stage.start_server();
    faces.until_held(POOL, &json!({ "a": null, "b": null, "c": null }));
}

#[test]
fn a_workflow_that_cannot_be_signalled_costs_itself_its_turn_and_nobody_else() {
    let faces = Faces::with_limits(&["history.maximumSignalsPerExecution=20"]);
    faces.start_pool(&[POOL, "--resources", "a"]);
    let stage = &faces.stage;
    stage.start("holder", json!([acquire(), wait_for("go"), release()]));
    faces.until_held(POOL, &json!({ "a": "holder" }));
    stage.start("full", json!([acquire(), wait_for("go")]));
    until("it has asked", || stage.ask(json!({ "do": "asked", "pool": POOL, "id": "full" })) == true);
    stage.ask(json!({ "do": "noise", "id": "full", "count": 20 }));
    stage.start("next", json!([acquire(), wait_for("go")]));
    until("it has asked", || stage.ask(json!({ "do": "asked", "pool": POOL, "id": "next" })) == true);
    stage.signal("holder", "go");
    faces.until_held(POOL, &json!({ "a": "next" }));
}

#[test]
fn a_pool_that_is_always_busy_continues_as_new_and_nobody_notices() {
    let faces = Faces::with_limits(&["limit.historyCount.suggestContinueAsNew=60"]);
    let run = faces.start_pool(&[POOL, "--resources", "a"])["run_id"].clone();
    let stage = &faces.stage;
    stage.start("holder", json!([acquire(), wait_for("go"), release()]));
    faces.until_held(POOL, &json!({ "a": "holder" }));
    let waiters: Vec<_> = (0..40).map(|number| format!("waiter-{number:02}")).collect();
    for id in &waiters {
        stage.start(id, json!([acquire(), release()]));
        until("it has asked", || stage.ask(json!({ "do": "asked", "pool": POOL, "id": id })) == true);
    }
    until("it has continued as new", || run != faces.run_id(POOL).as_str());
    faces.until_held(POOL, &json!({ "a": "holder" }));
    stage.signal("holder", "go");
    let tokens: Vec<_> = waiters.iter().map(|id| stage.result(id)[0]["token"].as_u64().unwrap()).collect();
    assert_eq!(tokens, (2..42).collect::<Vec<_>>(), "each in its turn");
    faces.until_held(POOL, &json!({ "a": null }));
}

#[test]
fn a_lock_is_handed_over_to_the_next_run_and_ends_with_the_last() {
    let faces = Faces::new();
    let manager = "lock_manager";
    faces.start_pool(&[manager, "--type", "lock-manager", "--resources", "x"]);
    let stage = &faces.stage;
    let step = |what: &str| json!({ "do": what, "pool": manager });
    let steps = json!([step("lock"), { "do": "continue" }, step("handoff"), wait_for("go"), step("unlock")]);
    let first = stage.start("first", steps);
    until("it has been handed over", || {
        let run = faces.holders(manager)["x"]["run_id"].clone();
        run.is_string() && run != first.as_str()
    });
    stage.start("second", json!([step("lock"), wait_for("go"), step("unlock")]));
    until("it has asked", || stage.ask(json!({ "do": "asked", "pool": manager, "id": "second" })) == true);
    stage.start("third", json!([step("lock"), step("unlock")]));
    until("it has asked", || stage.ask(json!({ "do": "asked", "pool": manager, "id": "third" })) == true);
    stage.signal("first", "go");
    faces.until_held(manager, &json!({ "x": "second" }));
    stage.ask(json!({ "do": "terminate", "id": "second" }));
    assert_eq!(stage.result("third")[0]["resource"], "x");
    faces.until_held(manager, &json!({ "x": null }));
}

#[test]
fn a_permit_is_a_workflow_that_is_released_or_whose_lease_ends() {
    let faces = Faces::new();
    let stage = &faces.stage;
    let permit =
        |kind: &str, lease: u64| json!({ "do": "permit", "type": kind, "resource": kind, "slots": 2, "lease": lease });
    let end = |release: bool| json!({ "do": "permit_end", "release": release });
    for (kind, expired) in [("permitSlotWorkflow", "lease-expired"), ("PermitSlotWorkflow", "lease_expired")] {
        let id = |name: &str| format!("{kind}-{name}");
        stage.start(&id("holder"), json!([permit(kind, 300), wait_for("go"), end(true)]));
        until("it has a slot", || stage.ask(json!({ "do": "so_far", "id": id("holder") })) == json!([0]));
        assert_eq!(stage.run(&id("brief"), json!([permit(kind, 1), end(false)])), json!([1, expired]));
        stage.start(&id("killed"), json!([permit(kind, 300), wait_for("go")]));
        until("it has the other", || stage.ask(json!({ "do": "so_far", "id": id("killed") })) == json!([1]));
        assert_eq!(stage.run(&id("late"), json!([permit(kind, 300)])), json!(["busy"]));
        stage.ask(json!({ "do": "terminate", "id": id("killed") }));
        let mut tries = 0;
        until("its permit has ended with it", || {
            tries += 1;
            let log = stage.run(&id(&format!("next-{tries}")), json!([permit(kind, 300), end(true)]));
            log == json!([1, "released"])
        });
        stage.signal(&id("holder"), "go");
        assert_eq!(stage.result(&id("holder")), json!([0, "released"]));
    }
}

#[test]
fn a_live_pool_of_another_worker_is_taken_over_with_everything_it_has() {
    let faces = Faces::new();
    let stage = &faces.stage;
    stage.ask(json!({ "do": "start_signal_pool", "id": POOL, "resources": ["a", "b"] }));
    for id in ["one", "two"] {
        stage.start(id, json!([acquire(), wait_for("go"), release()]));
        until("it holds", || stage.ask(json!({ "do": "so_far", "id": id }))[0]["resource"].is_string());
    }
    let before = faces.holders(POOL);
    for id in ["three", "four"] {
        stage.start(id, json!([acquire(), wait_for("go"), release()]));
        until("it has asked", || stage.ask(json!({ "do": "sent", "id": id })) == true);
    }
    faces.start_pool(&[POOL, "--take-over"]);
    faces.until_held(POOL, &json!({ "a": "one", "b": "two" }));
    for name in ["a", "b"] {
        assert_eq!(faces.holders(POOL)[name]["release_signal"], before[name]["release_signal"]);
    }
    stage.signal("two", "go");
    faces.until_held(POOL, &json!({ "a": "one", "b": "three" }));
    stage.signal("one", "go");
    faces.until_held(POOL, &json!({ "a": "four", "b": "three" }));
    for id in ["three", "four"] {
        stage.signal(id, "go");
        stage.result(id);
    }
    faces.until_held(POOL, &json!({ "a": null, "b": null }));
}

#[test]
fn a_pool_is_started_once_and_taken_over_only_if_it_is_there() {
    let faces = Faces::with_pool("a");
    let refused = |arguments: &[&str]| {
        let ended = faces.stage.tool().run(&faces.start_pool_arguments(arguments));
        (ended.code, serde_json::from_str::<Value>(&ended.stdout).unwrap()["error"]["code"].clone())
    };
    assert_eq!(refused(&[POOL, "--resources", "a"]), (Some(1), json!("running")));
    assert_eq!(refused(&["nowhere", "--take-over"]), (Some(1), json!("not_running")));
    assert_eq!(refused(&[POOL, "--take-over", "--type", "lock-manager"]), (Some(1), json!("other_type")));
    assert_eq!(refused(&[POOL, "--take-over"]), (Some(1), json!("hosted")), "it would lose what scripts hold there");
    assert_eq!(refused(&["other", "--resources", "a, a"]), (Some(64), json!("usage")));
    let nameless = faces.stage.tool().run(&faces.start_pool_arguments(&["", "--resources", "a"]));
    assert_eq!(nameless.code, Some(64), "{}", nameless.stderr);
}

#[test]
fn scripts_and_workflows_take_turns_in_one_queue_where_pools_live_in_temporal() {
    let mut faces = Faces::on_engine(&["limit.historyCount.suggestContinueAsNew=200"]);
    let run = faces.start_pool(&[POOL, "--resources", "a"])["run_id"].clone();
    let other = faces.stage.another_server();
    let tool = Tool::of(&other);
    let stage = &faces.stage;
    stage.start("first", json!([acquire(), wait_for("go"), release()]));
    faces.until_held(POOL, &json!({ "a": "first" }));
    for tool in [&stage.tool(), &tool] {
        until("it is seen", || tool.run(&["ls"]).stdout.contains(POOL));
        let shown = tool.printed(&["show", POOL]);
        assert!(shown.contains("first"), "{shown}");
    }
    let mut script = Job::start(&tool.command(&["run", POOL, "--", "sh", "-c", "echo inside; cat"]));
    until("the script waits", || stage.waiters(POOL).len() == 1);
    stage.start("second", json!([acquire(), wait_for("go"), release()]));
    until("both wait", || stage.waiters(POOL).len() == 2);
    assert_eq!(stage.waiters(POOL)[1], "second");

    until("the pool has continued as new", || run != faces.run_id(POOL).as_str());
    faces.stage.server.kill();
    faces.stage.signal("first", "go");
    script.says("inside");
    let holders = faces.holders(POOL);
    assert_eq!(holders["a"]["token"], 2, "{holders}");
    faces.stage.start_server();
    until("the new server sees it", || faces.stage.waiters(POOL) == ["second"]);
    assert_eq!(faces.stage.holders(POOL).len(), 1);
    script.hears_no_more();
    let ended = script.ends();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    faces.until_held(POOL, &json!({ "a": "second" }));
    faces.stage.until_held_by(POOL, &["second"]);
    faces.stage.signal("second", "go");
    assert_eq!(faces.stage.result("second")[0]["token"], 3);
}

#[test]
fn what_one_server_gave_of_a_pool_of_workflows_another_takes_back_until_the_pool_ends() {
    let faces = Faces::on_engine(&[]);
    faces.start_pool(&[POOL, "--resources", "a,b"]);
    let other = faces.stage.another_server();
    let (tool, other) = (faces.stage.tool(), Tool::of(&other));
    for tool in [&tool, &other] {
        until("it is seen", || tool.run(&["ls"]).stdout.contains(POOL));
    }
    let hold: Value = serde_json::from_str(&tool.printed(&["acquire", POOL, "--kept", "--json"])).unwrap();
    assert_eq!(hold["resources"][0]["name"], "a", "{hold}");
    faces.stage.start("user", json!([acquire(), wait_for("go"), release()]));
    until("it has the other", || faces.holders(POOL)["b"]["workflow_id"] == "user");
    let removed = tool.run(&["pool", "rm", POOL]);
    assert_eq!(removed.code, Some(1), "{}{}", removed.stdout, removed.stderr);
    let mut release = other.command(&["release"]);
    release.env("TENURE_KEY", hold["key"].as_str().unwrap());
    let released = Job::start(&release).ends();
    assert_eq!(released.code, Some(0), "{}", released.stderr);
    faces.until_held(POOL, &json!({ "a": null, "b": "user" }));

    assert!(faces.operator("terminate", &[]).output().unwrap().status.success());
    until("its pool is gone with it", || tool.run(&["show", POOL]).code == Some(1));
    let hold: Value = serde_json::from_str(&tool.printed(&["acquire", POOL, "--kept", "--json"])).unwrap();
    assert_eq!(hold["token"], 1, "another pool of that name: {hold}");
}

//! The commands that change pools and end holds: what they do, what they say, and what they refuse.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use insta::assert_snapshot;
use support::Process;
use support::tool::{Ended, Tool, filters};
use tenure_proto::v1::{AcquireRequest, Lifetime};

fn acquire(pool: &str, holder: &str) -> AcquireRequest {
    AcquireRequest {
        pool: pool.into(),
        holder: holder.into(),
        lifetime: Lifetime::Kept.into(),
        ..AcquireRequest::default()
    }
}

fn serve() -> (tempfile::TempDir, Process) {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    (data, server)
}

fn spec(tool: &Tool, pool: &str) -> serde_json::Value {
    let shown: serde_json::Value = serde_json::from_str(&tool.printed(&["show", pool, "--json"])).unwrap();
    shown["spec"].clone()
}

#[test]
fn pools_are_set_drained_returned_and_removed_with_a_line_each() {
    let (_data, server) = serve();
    let told = Tool::of(&server).transcript(&[
        &["pool", "set", "permits", "--units", "10", "--order", "backfill"],
        &["pool", "set", "permits", "--units", "1"],
        &["pool", "set", "mails", "--units", "30", "--window", "60s", "--json"],
        &["pool", "set", "gpus", "--resource", "gpu-1 a100 mem=80 @host=rack-3", "--resource", "gpu-2"],
        &["pool", "set", "gpus", "--resource", "gpu-1", "--placement", "spread:zone", "--json"],
        &["pool", "drain", "permits"],
        &["pool", "drain", "gpus", "gpu-1", "--note", "moving house"],
        &["pool", "quarantine", "gpus", "--note", "the fan is loud"],
        &["pool", "quarantine", "gpus", "gpu-1", "--note", "the fan is loud", "--json"],
        &["pool", "return", "gpus", "gpu-1"],
        &["pool", "return", "gpus"],
        &["pool", "return", "gpus", "--json"],
        &["pool", "rm", "gpus"],
        &["pool", "rm", "mails", "--json"],
        &["ls"],
    ]);
    filters().bind(|| assert_snapshot!("pools", told));
}

#[test]
fn a_pool_is_what_the_flags_say() {
    let (_data, server) = serve();
    let tool = Tool::of(&server);
    for (placement, expected) in [
        ("first", "first"),
        ("least-recently-used", "least_recently_used"),
        ("most-recently-used", "most_recently_used"),
        ("random", "random"),
        ("spread:zone", "spread"),
    ] {
        tool.printed(&["pool", "set", "p", "--resource", "a", "--placement", placement]);
        assert_eq!(spec(&tool, "p")["placement"], expected);
    }
    tool.printed(&[
        "pool",
        "set",
        "r",
        "--resource",
        "a gpu mem=80 @port=3000",
        "--order",
        "backfill",
        "--window",
        "90s",
    ]);
    let expected = serde_json::json!({
        "resources": [{"name": "a", "labels": {"gpu": "", "mem": "80"}, "properties": {"port": "3000"}}],
        "named": true,
        "placement": "first",
        "order": "backfill",
        "cleaning": false,
        "window_ms": 90_000,
    });
    assert_eq!(spec(&tool, "r"), expected);
}

#[test]
fn a_spec_that_was_shown_can_be_set_again_as_json_and_as_toml() {
    let (data, server) = serve();
    let tool = Tool::of(&server);
    tool.printed(&["pool", "set", "gpus", "--resource", "a x mem=80 @k=v", "--resource", "b", "--placement", "random"]);
    let original = spec(&tool, "gpus");

    let Ended { code, stdout, stderr } = tool.run_with(&["pool", "set", "one", "--file", "-"], &original.to_string());
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(stdout, "pool `one` set: 2 resources, random (created)\n");
    assert_eq!(spec(&tool, "one"), original);

    let json = data.path().join("gpus.json");
    std::fs::write(&json, original.to_string()).unwrap();
    tool.printed(&["pool", "set", "two", "--file", json.to_str().unwrap()]);
    assert_eq!(spec(&tool, "two"), original);

    let toml = data.path().join("gpus.toml");
    let text = "\
placement = 'random'
[[resources]]
name = 'a'
labels = { x = '', mem = '80' }
properties = { k = 'v' }
[[resources]]
name = 'b'
";
    std::fs::write(&toml, text).unwrap();
    tool.printed(&["pool", "set", "three", "--file", toml.to_str().unwrap()]);
    assert_eq!(spec(&tool, "three"), original);
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_is_wrong() {
    let (data, server) = serve();
    let tool = Tool::of(&server);
    let path = |name: &str| data.path().join(name).to_str().unwrap().to_owned();
    for (name, text) in [
        ("broken.json", "{\"units\": "),
        ("wrong.json", "{\"units\": 3,\n \"size\": 3}"),
        ("broken.toml", "order = 'strict'\nunits = = 3\n"),
        ("wrong.toml", "order = 'strict'\nunits = 'three'\n"),
        ("pool.yaml", "units: 3"),
        ("empty.json", "{}"),
    ] {
        std::fs::write(path(name), text).unwrap();
    }
    let mut told = String::new();
    for name in ["missing.json", "broken.json", "wrong.json", "broken.toml", "wrong.toml", "pool.yaml", "empty.json"] {
        told.push_str(&tool.transcript(&[&["pool", "set", "p", "--file", &path(name)]]));
    }
    let told = told.replace(data.path().to_str().unwrap(), "[folder]");
    filters().bind(|| assert_snapshot!("files", told));
}

#[test]
fn bad_input_is_one_line_a_hint_and_a_code() {
    let (_data, server) = serve();
    let tool = Tool::of(&server);
    tool.printed(&["pool", "set", "units", "--units", "1"]);
    let told = tool.transcript(&[
        &["pool"],
        &["pool", "set", "p"],
        &["pool", "set", "p", "--units", "many"],
        &["pool", "set", "p", "--units", "3000000000"],
        &["pool", "set", "p", "--units", "3", "--resource", "a"],
        &["pool", "set", "p", "--units", "3", "--placement", "first"],
        &["pool", "set", "p", "--file", "-", "--order", "strict"],
        &["pool", "set", "p", "--units", "3", "--order", "fair"],
        &["pool", "set", "p", "--units", "3", "--window", "60"],
        &["pool", "set", "p", "--units", "3", "--window", "0s"],
        &["pool", "set", "p", "--resource", ""],
        &["pool", "set", "p", "--resource", "mem=80"],
        &["pool", "set", "p", "--resource", "a x x=1"],
        &["pool", "set", "p", "--resource", "a", "--resource", "a"],
        &["pool", "set", "p", "--resource", "a", "--placement", "best"],
        &["pool", "set", "p", "--resource", "a", "--placement", "spread"],
        &["pool", "quarantine", "units"],
        &["pool", "quarantine", "units", "--note", ""],
        &["pool", "drain", "nowhere"],
        &["pool", "drain", "units", "thing", "--json"],
        &["pool", "rm", "nowhere"],
        &["force-release", "units"],
        &["force-release", "units", "--holder", "me", "--token", "x", "--reason", "why"],
        &["force-release", "nowhere", "--holder", "me", "--token", "1", "--reason", "why"],
    ]);
    filters().bind(|| assert_snapshot!("bad_input", told));
}

#[tokio::test]
async fn a_hold_is_ended_by_force_only_if_it_is_the_one_that_was_seen() {
    let (_data, server) = serve();
    let mut client = server.client().await;
    client.acquire(acquire("db", "backup")).await.unwrap();
    let told = Tool::of(&server).transcript(&[
        &["force-release", "db", "--holder", "deploy", "--token", "1", "--reason", "stuck"],
        &["force-release", "db", "--holder", "backup", "--token", "2", "--reason", "stuck"],
        &["holds"],
        &["pool", "rm", "db"],
        &["ls"],
        &["force-release", "db", "--holder", "backup", "--token", "1", "--reason", "its machine is gone"],
        &["force-release", "db", "--holder", "backup", "--token", "1", "--reason", "again", "--json"],
        &["history", "db"],
    ]);
    filters().bind(|| assert_snapshot!("force_release", told));
}

#[tokio::test]
async fn the_holds_of_an_owner_end_when_it_is_gone() {
    let (_data, server) = serve();
    let mut client = server.client().await;
    for pool in ["a", "b", "c"] {
        let owner = if pool == "c" { "workflow/2" } else { "workflow/1" };
        let bound =
            AcquireRequest { lifetime: Lifetime::Bound.into(), owner: Some(owner.into()), ..acquire(pool, "worker") };
        client.acquire(bound).await.unwrap();
    }
    let told = Tool::of(&server).transcript(&[
        &["owner-gone", "workflow/1"],
        &["owner-gone", "workflow/1"],
        &["owner-gone", "workflow/2", "--json"],
        &["holds"],
    ]);
    filters().bind(|| assert_snapshot!("owner_gone", told));
}

#[test]
fn what_the_server_tells_cannot_leave_a_namespace() {
    let (_data, server) = serve();
    let tool = Tool::of(&server);
    tool.printed(&["pool", "set", "db", "--units", "1", "--namespace", "team-a"]);
    assert_eq!(tool.run(&["show", "db"]).code, Some(1));
    assert_eq!(tool.run(&["pool", "rm", "db", "--namespace", "team-b"]).code, Some(1));
    tool.printed(&["pool", "rm", "db", "--namespace", "team-a"]);
}

#[test]
fn a_stolen_hold_a_reserved_resource_and_a_short_quarantine_show_in_explain_top_and_history() {
    let (_data, server) = serve();
    let tool = Tool::of(&server);
    tool.printed(&["pool", "set", "beds", "--resource", "bed-1", "--resource", "bed-2", "--cleaning"]);
    tool.printed(&["acquire", "beds", "--holder", "ada", "--kept"]);
    let token = ["steal", "beds", "--holder", "ada", "--token", "1", "--to", "bob", "--kept", "--reason", "ada left"];
    assert!(tool.printed(&token).contains("token  2"), "the new holder has a token of its own");
    tool.printed(&["pool", "quarantine", "beds", "bed-2", "--note", "wet", "--for", "10m"]);
    tool.printed(&["reserve", "beds", "bed-2", "--holder", "cleo", "--reason", "arrives at noon"]);

    let shown = tool.printed(&["show", "beds"]);
    for part in ["after each hold", "quarantined: wet, returns in", "for cleo", "bob"] {
        assert!(shown.contains(part), "{part} is missing from {shown}");
    }
    let explained = tool.printed(&["explain", "beds"]);
    assert_eq!(explained, "pool `beds` has 2 resources, 1 held; nobody waits\n");
    let frame = tool.printed(&["top", "--once"]);
    for part in ["1 pool, 1 hold, 0 waiters", "\nPOOLS\n", "\nHOLDS\n", "bob"] {
        assert!(frame.contains(part), "{part} is missing from {frame}");
    }
    let history = tool.printed(&["history", "beds"]);
    for part in ["stolen: ada left, given to bob", "bed-2 quarantined: wet, returns in 10m", "bed-2, arrives at noon"] {
        assert!(history.contains(part), "{part} is missing from {history}");
    }
    let late = tool.run(&["steal", "beds", "--holder", "ada", "--token", "1", "--to", "cleo", "--reason", "late"]);
    assert_eq!(late.code, Some(1));
}

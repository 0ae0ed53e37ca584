//! The examples with Temporal, run as they are, in Python and in TypeScript. Whether they keep what they promise is seen from
//! outside: from what they print, and from the server's history.

use std::process::Command;

use serde_json::Value;

use crate::clients::{Ground, python};
use crate::support::job::{Job, until};
use crate::support::tool::Ended;
use crate::support::tools;

#[derive(Clone, Copy)]
enum In {
    Python,
    TypeScript,
}

#[test]
fn two_machines_serve_four_users_in_python_of_which_one_fails_and_one_continues_as_new() {
    resource_pool(In::Python);
}

#[test]
fn two_machines_serve_four_users_in_typescript_of_which_one_fails_and_one_continues_as_new() {
    resource_pool(In::TypeScript);
}

#[test]
fn three_of_eight_consumers_in_python_consume_at_once() {
    semaphore(In::Python);
}

#[test]
fn three_of_eight_consumers_in_typescript_consume_at_once() {
    semaphore(In::TypeScript);
}

#[test]
fn a_lock_whose_holder_in_python_is_terminated_goes_to_the_next() {
    terminated_holder(In::Python);
}

#[test]
fn a_lock_whose_holder_in_typescript_is_terminated_goes_to_the_next() {
    terminated_holder(In::TypeScript);
}

#[test]
fn every_story_in_typescript_says_how_it_is_used() {
    for story in ["resource-pool", "semaphore", "terminated-holder"] {
        let said = printed(&mut Job::start(Command::new("node").arg(typescript(story)).arg("--help")));
        assert!(said[0].starts_with("Usage: with_typescript "), "{said:?}");
    }
}

fn resource_pool(language: In) {
    let ground = Ground::new();
    ground.tool().printed(&["pool", "set", "machines", "--resource", "machine-a", "--resource", "machine-b"]);
    let said = printed(&mut ground.tells("resource-pool", language, &["--work", "0.1"]));
    let used = |how: &str| said.iter().find_map(|line| line.strip_prefix(how)).unwrap_or_else(|| panic!("{said:?}"));
    for end in ["user-1 is done", "user-2 has failed: out of paper", "user-3 is done", "user-4 is done"] {
        assert!(said.iter().any(|line| line == end), "{end}: {said:?}");
    }
    // The same machine, and the same token.
    assert_eq!(used("user-3 uses "), used("user-3 again uses "), "{said:?}");

    let history = ground.history("machines");
    assert_eq!(kinds(&history, "granted").len(), 4, "{history:?}");
    let ended = kinds(&history, "ended");
    assert_eq!(ended.len(), 4, "{history:?}");
    assert!(ended.iter().all(|event| event["how"] == "released"), "{history:?}");
    assert!(peak(&history) <= 2, "{history:?}");
}

fn semaphore(language: In) {
    let ground = Ground::new();
    let tool = ground.tool();
    // As long as somebody else has all permits, all consumers come to wait. Then three get one in the same moment.
    let all = ["acquire", "permits", "--size", "3", "--units", "3", "--kept", "--json"];
    let taken: Value = serde_json::from_str(&tool.printed(&all)).unwrap();
    let mut story = ground.tells("semaphore", language, &["--work", "0.1"]);
    until("eight wait", || {
        let queue: Value = serde_json::from_str(&tool.printed(&["queue", "permits", "--json"])).unwrap();
        queue["waiters"].as_array().is_some_and(|waiters| waiters.len() == 8)
    });
    let released = tool.run_with(&["release", "--key-file", "-"], taken["key"].as_str().unwrap());
    assert_eq!(released.code, Some(0), "{}", released.stderr);
    let said = printed(&mut story);
    assert_eq!(said.iter().filter(|line| line.contains(" consumes, token ")).count(), 8, "{said:?}");
    let last = said.last().unwrap();
    assert!(last.starts_with("8 consumers, at most ") && last.ends_with(" at once, of 3 permits"), "{last}");

    let history = ground.history("permits");
    let consumed: Vec<_> = history.iter().filter(|event| event["token"] != taken["token"]).cloned().collect();
    assert_eq!(peak(&consumed), 3, "{history:?}");
    assert_eq!(kinds(&consumed, "ended").len(), 8, "{history:?}");
}

fn terminated_holder(language: In) {
    let ground = Ground::new();
    let said = printed(&mut ground.tells("terminated-holder", language, &[]));
    let (told, tokens): (Vec<_>, Vec<_>) =
        said.iter().map(|line| line.split_once(", token ").unwrap_or((line, ""))).unzip();
    let story =
        ["first has the lock", "second waits", "an operator terminates first", "second has the lock", "second is done"];
    assert_eq!(told, story);
    assert!(tokens[0].parse::<u64>().unwrap() < tokens[3].parse().unwrap(), "{said:?}");

    let history = ground.history("the-lock");
    let ends: Vec<_> = kinds(&history, "ended").iter().map(|event| event["how"].clone()).collect();
    assert_eq!(ends, ["owner_gone", "released"], "{history:?}");
}

impl Ground {
    fn tells(&self, story: &str, language: In, more: &[&str]) -> Job {
        let mut command = match language {
            In::Python => python(&format!("examples/temporal-{story}/with_python.py"), &[]),
            In::TypeScript => {
                let mut command = Command::new("node");
                command.arg(typescript(story));
                command
            }
        };
        command.args(["--temporal", &self.address, "--namespace", &self.namespace]).args(more);
        Job::start(&command)
    }

    fn history(&self, pool: &str) -> Vec<Value> {
        let events = self.tool().printed(&["history", pool, "--all", "--json"]);
        events.lines().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

fn typescript(story: &str) -> std::path::PathBuf {
    tools::typescript(&format!("examples/lib/temporal-{story}/with_typescript.js"))
}

fn printed(story: &mut Job) -> Vec<String> {
    let Ended { code, stdout, stderr } = story.ends();
    assert_eq!(code, Some(0), "it said\n{stdout}\nand complained\n{stderr}");
    stdout.lines().map(str::to_owned).collect()
}

fn kinds<'a>(history: &'a [Value], kind: &str) -> Vec<&'a Value> {
    history.iter().filter(|event| event["kind"] == kind).collect()
}

/// How many held at once, at most.
fn peak(history: &[Value]) -> i32 {
    let (mut now, mut most) = (0, 0);
    for event in history {
        now += i32::from(event["kind"] == "granted") - i32::from(event["kind"] == "ended");
        most = most.max(now);
    }
    most
}

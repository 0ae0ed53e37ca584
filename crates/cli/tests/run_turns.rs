//! `tenure run` among others: who waits, who comes next, who gives up, and that a restart of the server changes none of
//! it. What happens to the command when its hold cannot be kept is in `run_safety.rs`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::job::{Job, until};
use support::scene::Scene;
use support::tool::Ended;

/// No room.
const BUSY: Option<i32> = Some(75);

impl Scene {
    /// Has `db` until it is told something, or that there is no more to be told. Then its code is 0, or 1.
    fn holding(&self, holder: &str) -> Job {
        let job =
            self.job(&["run", "db", "--holder", holder, "--", "sh", "-c", "echo \"has $TENURE_TOKEN\"; read line"]);
        job.says("has ");
        job
    }

    /// Waits for `db`, as soon as it can be seen to, and says who it is when it has it.
    fn waiting(&self, holder: &str, options: &[&str]) -> Job {
        let arguments = [&["run", "db", "--holder", holder], options, &["--", "echo", holder]].concat();
        let job = self.job(&arguments);
        until(&format!("{holder} waits"), || self.queue().iter().any(|waiter| waiter["holder"] == holder));
        job
    }

    fn queue(&self) -> Vec<Value> {
        list(&self.tool.printed(&["queue", "db", "--json"]), "waiters")
    }

    fn holds(&self) -> Vec<Value> {
        list(&self.tool.printed(&["holds", "--json"]), "holds")
    }
}

fn list(json: &str, name: &str) -> Vec<Value> {
    let answer: Value = serde_json::from_str(json).unwrap();
    answer[name].as_array().unwrap().clone()
}

fn served(mut job: Job, holder: &str) {
    let Ended { code, stdout, stderr } = job.ends();
    assert_eq!((code, stdout, stderr), (Some(0), format!("{holder}\n"), String::new()));
}

#[test]
fn whoever_does_not_wait_learns_who_has_it_and_may_choose_the_code() {
    let scene = Scene::new();
    let _holding = scene.holding("alice");
    for (options, code, what) in [
        (["-n"].as_slice(), BUSY, "has no room"),
        (&["-w", "0"], BUSY, "has no room"),
        (&["-w", "500ms"], BUSY, "had no room in time"),
        (&["--timeout", "0.5"], BUSY, "had no room in time"),
        (&["-n", "-E", "9"], Some(9), "has no room"),
        (&["--wait", "500ms", "--conflict-exit-code", "0"], Some(0), "had no room in time"),
    ] {
        let ended = scene.ends(&[&["run", "db"], options, &["--", "echo", "never"]].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (code, ""), "{options:?}");
        let said: Vec<_> = ended.stderr.lines().collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with(&format!("error: pool `db` {what}: held by `alice` since ")), "{said:?}");
        assert!(said[1].starts_with("hint: "), "{said:?}");
    }
    assert_eq!(scene.queue(), Vec::<Value>::new());
}

#[test]
fn those_who_wait_come_by_priority_and_then_by_arrival() {
    let scene = Scene::new();
    let mut holding = scene.holding("alice");
    let all = tempfile::NamedTempFile::new().unwrap();
    let mut jobs = Vec::new();
    for (holder, priority) in [("b", "0"), ("c", "-5"), ("d", "7"), ("e", "0")] {
        let script = format!("echo {holder} >> '{}'", all.path().display());
        jobs.push(scene.job(&["run", "db", "--holder", holder, "--priority", priority, "--", "sh", "-c", &script]));
        until(&format!("{holder} waits"), || scene.queue().len() == jobs.len());
    }
    holding.hears("go\n");
    assert!(jobs.iter_mut().all(|job| job.ends().code == Some(0)));
    assert_eq!(std::fs::read_to_string(all.path()).unwrap(), "d\nb\ne\nc\n");
}

#[test]
fn everybody_sees_who_holds_and_who_waits_and_why() {
    let scene = Scene::new();
    let about = ["--holder", "nightly", "--reason", "it's \"due\"", "--meta", "ticket=a=b", "--meta", "empty="];
    let job = scene.job(&[&["run", "db"], about.as_slice(), &["--", "sh", "-c", "echo has; read line"]].concat());
    job.says("has");
    let _waiting = scene.waiting("deploy", &["--reason", "hotfix", "-w", "1h"]);
    let holds = scene.holds();
    assert_eq!((holds[0]["holder"].as_str(), holds[0]["pool"].as_str()), (Some("nightly"), Some("db")));
    let meta = serde_json::json!({
        "command": "sh", "reason": "it's \"due\"", "ticket": "a=b", "empty": ""
    });
    assert_eq!(holds[0]["meta"], meta);
    assert_eq!(scene.queue()[0]["meta"]["reason"], "hotfix");
}

#[test]
fn whoever_waits_says_so_if_asked_to() {
    let scene = Scene::new();
    let mut holding = scene.holding("alice");
    let mut job = scene.job(&["run", "db", "-v", "--", "true"]);
    job.complains("waiting for `db`, place 1 in the queue\n");
    holding.hears("go\n");
    assert_eq!(job.ends().code, Some(0));
}

#[test]
fn one_who_is_stopped_while_waiting_gives_up_the_place_before_it_ends() {
    let scene = Scene::new();
    let _holding = scene.holding("alice");
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129)] {
        let mut job = scene.waiting("bob", &[]);
        job.signal(signal);
        let ended = job.ends();
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(code), "", ""), "{signal}");
        assert_eq!(scene.queue(), Vec::<Value>::new(), "{signal}");
    }
}

#[test]
fn one_who_is_killed_while_waiting_is_passed_over() {
    let scene = Scene::new();
    let mut holding = scene.holding("alice");
    let mut killed = scene.waiting("bob", &[]);
    let next = scene.waiting("carol", &[]);
    killed.signal(Signal::SIGKILL);
    assert_eq!(killed.ends().code, None);
    until("bob is away", || scene.queue()[0].get("position").is_none());
    holding.hears("go\n");
    served(next, "carol");
}

#[test]
fn an_operator_who_takes_the_hold_away_is_heard_and_the_next_is_served() {
    let scene = Scene::new();
    let script = "trap 'echo asked to end; exit 0' TERM; echo has; read line";
    let mut job = scene.job(&["run", "db", "--holder", "alice", "--", "sh", "-c", script]);
    job.says("has");
    let next = scene.waiting("bob", &[]);
    scene.tool.printed(&["force-release", "db", "--holder", "alice", "--token", "1", "--reason", "its disk is full"]);
    let ended = job.ends();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(79), "has\nasked to end\n"));
    assert_eq!(
        ended.stderr,
        "error: the hold of `db` was lost, so the command does not run any more: an operator ended it: its disk is full\n\
         hint: stop using what it protected; its token is no longer the newest\n"
    );
    served(next, "bob");
}

#[test]
fn a_restart_of_the_server_takes_no_hold_from_anybody() {
    let mut scene = Scene::durable();
    let mut holding = scene.holding("alice");
    let before = scene.holds();
    scene.restart();
    let after = scene.holds();
    assert_eq!((after.len(), &after[0]["token"], &after[0]["holder"]), (1, &before[0]["token"], &before[0]["holder"]));
    assert_eq!(scene.ends(&["run", "-n", "db", "--", "true"]).code, BUSY);
    until("alice is back", || scene.tool.printed(&["sessions", "--json"]).contains("\"attached\":true"));
    holding.hears("go\n");
    let ended = holding.ends();
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "has 1\n", ""));
    assert_eq!(scene.holds(), Vec::<Value>::new());
}

#[test]
fn those_who_wait_keep_their_places_through_a_restart_of_the_server() {
    let mut scene = Scene::durable();
    let mut holding = scene.holding("alice");
    let first = scene.waiting("bob", &[]);
    let second = scene.waiting("carol", &[]);
    scene.restart();
    until("both are back", || scene.queue().iter().filter(|waiter| waiter.get("position").is_some()).count() == 2);
    let places: Vec<_> = scene.queue().iter().map(|waiter| waiter["holder"].as_str().unwrap().to_owned()).collect();
    assert_eq!(places, ["bob", "carol"]);
    holding.hears("go\n");
    assert_eq!(holding.ends().code, Some(0));
    served(first, "bob");
    served(second, "carol");
}

#[test]
fn what_can_never_be_had_is_refused_at_once() {
    let scene = Scene::new();
    scene.tool.printed(&["pool", "set", "gpus", "--resource", "a mem=16"]);
    scene.tool.printed(&["pool", "set", "calls", "--units", "10", "--window", "1m"]);
    scene.tool.printed(&["pool", "set", "permits", "--units", "3"]);
    for (arguments, told) in [
        (["gpus", "-s", "mem >= 80"].as_slice(), "pool `gpus` has nothing that would ever fit this request"),
        (&["gpus", "-u", "2"], "pool `gpus` can never give 2: the most it has for this request is 1"),
        (&["permits", "-u", "4"], "pool `permits` can never give 4: the most it has for this request is 3"),
        (&["permits", "--size", "4"], "pool `permits` has size 3, not 4"),
        (&["permits", "-s", "mem"], "pool `permits` has anonymous units"),
        (&["calls"], "pool `calls` is a rate window of 60000 ms"),
        (&["nowhere", "-s", "mem"], "there is no pool `nowhere`"),
    ] {
        let ended = scene.ends(&[&["run"], arguments, &["--", "true"]].concat());
        assert_eq!(ended.code, Some(1), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.starts_with(&format!("error: {told}")), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.matches("\nhint: ").count(), 1, "{}", ended.stderr);
    }
}

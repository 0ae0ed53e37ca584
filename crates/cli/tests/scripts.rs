//! What scripts use: `acquire`, `renew`, `release`, `withdraw`, `rate` and `elect`, in a real shell where the shell is
//! what matters.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::job::{Job, until};
use support::scene::Scene;
use support::tool::Ended;

impl Scene {
    /// What a script says. It must succeed, and have nothing else to say.
    fn shell(&self, script: &str) -> String {
        let Ended { code, stdout, stderr } = Job::start(&self.tool.shell(script)).ends();
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
        stdout
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.tool.printed(&[arguments, &["--json"]].concat())).unwrap()
    }

    fn holds(&self) -> Vec<Value> {
        self.json(&["holds"])["holds"].as_array().unwrap().clone()
    }

    fn queue(&self, pool: &str) -> Vec<Value> {
        self.json(&["queue", pool])["waiters"].as_array().unwrap().clone()
    }

    fn waits(&self, pool: &str, arguments: &[&str]) -> Job {
        let job = self.job(arguments);
        until("it waits", || !self.queue(pool).is_empty());
        job
    }

    /// With the key where scripts have it.
    fn with_key(&self, key: &str, arguments: &[&str]) -> Ended {
        Job::start(self.tool.command(arguments).env("TENURE_KEY", key)).ends()
    }
}

fn refused(ended: &Ended, code: i32, what: &str) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{}", ended.stderr);
    assert!(ended.stderr.starts_with(&format!("error: {what}")), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("\nhint: ").count(), 1, "{}", ended.stderr);
}

#[test]
fn a_script_takes_renews_and_releases_a_hold() {
    let scene = Scene::new();
    let said = scene.shell(
        r#"hold=$(tenure acquire db --ttl 1m --eval) || exit
        eval "$hold"
        echo "$TENURE_POOL $TENURE_NAMESPACE $TENURE_TOKEN $TENURE_UNITS $TENURE_TTL_MS $TENURE_RESOURCE_COUNT"
        sh -c 'echo "exported ${TENURE_KEY:+key}"'
        tenure renew --ttl 5m
        tenure holds --json
        tenure release
        tenure holds --json"#,
    );
    let said: Vec<_> = said.lines().collect();
    assert_eq!(said[..2], ["db default 1 1 60000 0", "exported key"]);
    let holds: Value = serde_json::from_str(said[2]).unwrap();
    assert_eq!((&holds["holds"][0]["token"], &holds["holds"][0]["ttl_ms"]), (&json!(1), &json!(300_000)));
    assert_eq!(said[3..], [r#"{"holds":[]}"#]);
}

#[test]
fn what_the_shell_had_of_an_earlier_hold_is_taken_away_and_the_server_is_remembered() {
    let scene = Scene::new();
    let script = r#"
        tenure pool set two --resource 'g1 @h=a' --resource 'g2 @h=b' > /dev/null
        addr=$TENURE_ADDR
        unset TENURE_ADDR
        hold=$(tenure acquire two -u 2 --addr "$addr" --eval) || exit; eval "$hold"
        tenure release
        hold=$(tenure acquire one --eval) || exit; eval "$hold"
        env | grep TENURE_RESOURCE
        tenure release"#;
    assert_eq!(scene.shell(script), "TENURE_RESOURCE_COUNT=0\n");
}

#[test]
fn odd_characters_come_through_the_shell_unharmed() {
    let scene = Scene::new();
    let odd = "a'b \"c\" $HOME `id` \\ !x\n;é";
    let spec = json!({"resources": [{"name": "it's $(id)", "labels": {"a.b": "1"}, "properties": {"motd": odd}}]});
    let set = scene.tool.run_with(&["pool", "set", "it's; a pool", "--file", "-"], &spec.to_string());
    assert_eq!((set.code, set.stderr.as_str()), (Some(0), ""));
    let said = scene.shell(
        r#"eval "$(tenure acquire "it's; a pool" --eval)" || exit
        printf '%s|' "$TENURE_POOL" "$TENURE_RESOURCE" "$TENURE_RESOURCE_0_LABEL_A_B" "$TENURE_RESOURCE_0_PROP_MOTD""#,
    );
    assert_eq!(said, format!("it's; a pool|it's $(id)|1|{odd}|"));
}

#[test]
fn a_script_without_a_hold_does_not_go_on() {
    let scene = Scene::new();
    scene.tool.printed(&["acquire", "db", "--kept"]);
    for (command, code) in [
        ("acquire db -n --eval", 75),
        ("acquire db -w 20ms -E 9 --eval", 9),
        ("acquire db -u 2 --eval", 1),
        ("acquire db --no-such-option --eval", 64),
        ("acquire db -n --eval --addr 127.0.0.1:1", 69),
    ] {
        for script in [
            format!(r#"eval "$(tenure {command})" || exit; echo went on"#),
            format!(r#"hold=$(tenure {command}) || exit; eval "$hold"; echo went on"#),
            format!(r#"set -e; eval "$(tenure {command})"; echo went on"#),
        ] {
            let ended = Job::start(&scene.tool.shell(&script)).ends();
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{script}: {}", ended.stderr);
        }
    }
}

#[test]
fn people_see_the_hold_and_programs_get_all_of_it() {
    let scene = Scene::new();
    let said = scene.tool.printed(&["acquire", "db"]);
    let names: Vec<_> = said.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["pool", "token", "key", "has", "until"]);

    let grant = scene.json(&["acquire", "permits", "--size", "3", "-u", "2", "--ttl", "90", "--holder", "me"]);
    assert_eq!((&grant["pool"], &grant["units"], &grant["ttl_ms"]), (&json!("permits"), &json!(2), &json!(90_000)));
    assert!(grant["key"].is_string() && grant["deadline_ms"].is_u64());

    let ended = scene.ends(&["acquire", "db", "-n", "--json"]);
    assert_eq!(ended.code, Some(75));
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&told["error"]["code"], &told["error"]["holders_total"]), (&json!("busy"), &json!(1)));
}

#[test]
fn a_key_is_taken_from_a_file_or_from_stdin_alone_or_as_json() {
    let scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hold");
    let file = file.to_str().unwrap();
    for as_json in [true, false] {
        let grant = scene.json(&["acquire", "db", "-n"]);
        let key = grant["key"].as_str().unwrap();
        let text = if as_json { format!("{grant}\n") } else { format!("{key}\n") };
        std::fs::write(file, &text).unwrap();
        // The file wins over the environment.
        let renewed = scene.with_key("not this one", &["renew", "--key-file", file, "--json"]);
        assert_eq!((renewed.code, renewed.stderr.as_str()), (Some(0), ""));
        assert!(serde_json::from_str::<Value>(&renewed.stdout).unwrap()["deadline_ms"].is_u64(), "{}", renewed.stdout);
        let released = scene.tool.run_with(&["release", "--key-file", "-"], &text);
        assert_eq!((released.code, released.stdout.as_str(), released.stderr.as_str()), (Some(0), "", ""));
        assert_eq!(scene.holds(), Vec::<Value>::new());
    }
}

#[test]
fn a_stale_release_or_renewal_touches_nobody() {
    let scene = Scene::new();
    let old = scene.json(&["acquire", "db"]);
    let old = old["key"].as_str().unwrap();
    assert_eq!(scene.with_key(old, &["release"]).code, Some(0));
    scene.json(&["acquire", "db", "-n", "--holder", "next"]);
    let before = scene.holds();
    refused(&scene.with_key(old, &["release"]), 1, "no hold has this key");
    refused(&scene.with_key(old, &["renew", "--ttl", "1h"]), 1, "no hold has this key");
    let told = scene.with_key(old, &["release", "--json"]);
    let said: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!((told.code, &said["error"]["code"]), (Some(1), &json!("not_held")));
    assert_eq!(scene.holds(), before);
}

#[test]
fn a_key_is_used_only_for_the_pool_that_was_meant() {
    let scene = Scene::new();
    let hold = scene.json(&["acquire", "db"]);
    let key = hold["key"].as_str().unwrap();
    assert_eq!(scene.with_key(key, &["release", "--pool", "other"]).code, Some(1));
    assert_eq!(scene.holds().len(), 1);
    assert_eq!(scene.with_key(key, &["release", "--pool", "db"]).code, Some(0));
    assert_eq!(scene.holds().len(), 0);
}

#[test]
fn a_hold_whose_key_nobody_could_read_is_released() {
    let scene = Scene::new();
    for form in [["--kept"].as_slice(), &["--kept", "--json"], &["--kept", "--eval"]] {
        let mut command = scene.tool.command(&[&["acquire", "db"], form].concat());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = command.stdout(writer).status().unwrap();
        assert!(status.code().is_some(), "{status}");
        assert_eq!(scene.holds(), Vec::<Value>::new(), "{form:?}");
    }
    let ended = Job::start(&scene.tool.shell("tenure acquire db --kept > /dev/full")).ends();
    refused(&ended, 74, "");
    assert_eq!(scene.holds(), Vec::<Value>::new());
}

#[test]
fn a_request_that_is_made_twice_gives_one_hold() {
    let scene = Scene::new();
    let request = ["acquire", "db", "--request-id", "deploy-4711"];
    let first = scene.json(&request);
    let second = scene.json(&request);
    assert_eq!((&first["token"], &first["key"]), (&second["token"], &second["key"]));
    assert_eq!(scene.with_key(first["key"].as_str().unwrap(), &["release"]).code, Some(0));
    refused(&scene.ends(&request), 1, "request `deploy-4711` was granted with token 1, and that hold has ended");
}

#[test]
fn a_request_that_is_withdrawn_neither_waits_nor_holds_and_never_will() {
    let scene = Scene::new();
    let hold = scene.json(&["acquire", "db", "--request-id", "first"]);
    let mut waiting = scene.waits("db", &["acquire", "db", "--request-id", "second"]);
    let withdraw = |id: &str| {
        let ended = Job::start(scene.tool.command(&["withdraw"]).env("TENURE_REQUEST_ID", id)).ends();
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "", ""));
    };
    withdraw("second");
    refused(&waiting.ends(), 1, "request `second` was withdrawn");
    assert_eq!((scene.queue("db").len(), scene.holds().len()), (0, 1));
    withdraw("first");
    assert_eq!(scene.holds().len(), 0);
    refused(&scene.with_key(hold["key"].as_str().unwrap(), &["release"]), 1, "no hold has this key");
    withdraw("later");
    assert_eq!(scene.ends(&["acquire", "db", "--request-id", "later"]).code, Some(1));
}

#[test]
fn one_who_is_stopped_while_waiting_leaves_the_queue() {
    let scene = Scene::new();
    scene.tool.printed(&["acquire", "db", "--kept"]);
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL] {
        let mut waiting = scene.waits("db", &["acquire", "db", "--json"]);
        waiting.signal(signal);
        assert_eq!(waiting.ends().stdout, "");
        until("it is gone", || scene.queue("db").is_empty());
    }
}

#[test]
fn one_who_waits_asks_again_after_a_restart_of_the_server() {
    let mut scene = Scene::durable();
    let hold = scene.json(&["acquire", "db", "--kept"]);
    let mut waiting = scene.waits("db", &["acquire", "db", "--json"]);
    scene.restart();
    until("it waits again", || !scene.queue("db").is_empty());
    assert_eq!(scene.with_key(hold["key"].as_str().unwrap(), &["release"]).code, Some(0));
    let ended = waiting.ends();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(serde_json::from_str::<Value>(&ended.stdout).unwrap()["token"], 2);
}

#[test]
fn a_hold_bound_to_an_owner_ends_with_it() {
    let scene = Scene::new();
    scene.json(&["acquire", "db", "--owner", "workflow/1"]);
    scene.json(&["acquire", "cache", "--owner", "workflow/2"]);
    scene.tool.printed(&["owner-gone", "workflow/1"]);
    let left = scene.holds();
    assert_eq!((left.len(), &left[0]["pool"]), (1, &json!("cache")));
}

#[test]
fn a_rate_lets_through_as_many_as_its_limit_and_no_more_after_a_restart() {
    let mut scene = Scene::durable();
    let rate = ["rate", "calls", "--limit", "3", "--per", "1h"];
    let ask = |scene: &Scene, more: &[&str]| scene.ends(&[rate.as_slice(), more].concat());
    let first = ask(&scene, &[]);
    assert_eq!((first.code, first.stdout.as_str(), first.stderr.as_str()), (Some(0), "", ""));
    let second = scene.json(&["rate", "calls", "-u", "2", "-n"]);
    assert_eq!((&second["units"], &second["lifetime"]), (&json!(2), &json!("window")));
    for _ in 0..2 {
        refused(&ask(&scene, &["-n"]), 75, "pool `calls` has no room");
        refused(&ask(&scene, &["-w", "20ms"]), 75, "pool `calls` ha");
        refused(&ask(&scene, &["-n", "-E", "5"]), 5, "pool `calls` has no room");
        scene.restart();
    }
}

#[test]
fn one_who_waits_for_a_rate_gets_the_next_place_that_is_over() {
    let scene = Scene::new();
    let rate = ["rate", "calls", "--limit", "1", "--per", "200ms"];
    for _ in 0..3 {
        assert_eq!(scene.ends(&rate).code, Some(0));
    }
}

#[test]
fn everybody_must_mean_the_same_rate() {
    let scene = Scene::new();
    assert_eq!(scene.ends(&["rate", "calls", "--limit", "2", "--per", "1h"]).code, Some(0));
    let other = scene.ends(&["rate", "calls", "--limit", "3", "--per", "1h"]);
    refused(&other, 1, "pool `calls` has size 2, not 3\nhint: leave out --limit and --per");
    let other = scene.ends(&["rate", "calls", "--limit", "2", "--per", "2h"]);
    refused(&other, 1, "pool `calls` is a rate window of 3600000 ms\nhint: leave out --limit and --per");
    scene.tool.printed(&["acquire", "db"]);
    let lock = scene.ends(&["rate", "db", "--limit", "1", "--per", "1h"]);
    refused(&lock, 1, "pool `db` is not a rate window\nhint: a rate needs a pool of its own");
    refused(&scene.ends(&["rate", "db"]), 64, "pool `db` is not a rate window\nhint: say --limit and --per");
    refused(&scene.ends(&["rate", "new"]), 64, "there is no rate window `new`\nhint: say --limit and --per");
    assert_eq!(scene.ends(&["show", "new"]).code, Some(1), "asking for it has not made it");
    assert_eq!(scene.ends(&["rate", "calls"]).code, Some(0));
}

#[test]
fn a_leader_stays_until_it_is_stopped_and_the_next_takes_over() {
    let scene = Scene::new();
    let mut first = scene.job(&["elect", "chief", "http://a:1", "--holder", "a"]);
    first.says("a  token 1  http://a:1\n");
    refused(&scene.ends(&["elect", "chief", "-n"]), 75, "pool `chief` has no room: held by `a`");
    let second = scene.waits("chief", &["elect", "chief", "http://b:2", "--holder", "b", "--json"]);
    assert_eq!(second.said(), "");
    first.signal(Signal::SIGTERM);
    assert_eq!(first.ends().code, Some(143));
    second.says("{\"leader\":\"b\",\"value\":\"http://b:2\",\"token\":2}\n");
}

#[test]
fn a_leader_whose_leadership_is_taken_away_ends_and_says_why() {
    let scene = Scene::new();
    let mut leader = scene.job(&["elect", "chief", "--holder", "a"]);
    leader.says("a  token 1\n");
    scene.tool.printed(&["force-release", "chief", "--holder", "a", "--token", "1", "--reason", "it is slow"]);
    let ended = leader.ends();
    assert_eq!(ended.code, Some(79));
    assert!(ended.stderr.starts_with("error: the leadership of `chief` was lost: an operator ended it: it is slow\n"));
}

#[test]
fn whoever_listens_is_told_of_every_leader() {
    let scene = Scene::new();
    let people = scene.job(&["elect", "--listen", "chief"]);
    let programs = scene.job(&["elect", "--listen", "chief", "--json"]);
    people.says("nobody\n");
    programs.says("{\"leader\":null}\n");
    let mut first = scene.job(&["elect", "chief", "one", "--holder", "a"]);
    people.says("a  token 1  one\n");
    programs.says("{\"leader\":\"a\",\"value\":\"one\",\"token\":1}\n");
    first.signal(Signal::SIGINT);
    assert_eq!(first.ends().code, Some(130));
    until("nobody leads", || people.said() == "nobody\na  token 1  one\nnobody\n");
    let late = scene.job(&["elect", "--listen", "chief"]);
    late.says("nobody\n");
    let _second = scene.job(&["elect", "chief", "--holder", "b"]);
    people.says("b  token 2\n");
    programs.says("{\"leader\":null}\n{\"leader\":\"b\",\"token\":2}\n");
    late.says("nobody\nb  token 2\n");
}

//! `tenure run` and its command: codes, streams, environment and signals. Who comes when is in `run_turns.rs`, what
//! happens when the hold cannot be kept in `run_safety.rs`, terminals are in `run_terminal.rs`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::Process;
use support::job::Job;
use support::tool::{Ended, Tool};

struct Scene {
    _server: Process,
    _data: tempfile::TempDir,
    tool: Tool,
}

impl Scene {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = Process::serve(data.path(), &["--durability", "memory"]);
        Self { tool: Tool::of(&server), _server: server, _data: data }
    }

    fn job(&self, arguments: &[&str]) -> Job {
        Job::start(&self.tool.command(arguments))
    }

    fn ends(&self, arguments: &[&str]) -> Ended {
        let mut job = self.job(arguments);
        job.hears_no_more();
        job.ends()
    }

    fn shell(&self, script: &str) -> Ended {
        Job::start(&self.tool.shell(script)).ends()
    }

    /// `tenure run db` of a shell script.
    fn script(&self, script: &str) -> Ended {
        self.ends(&["run", "db", "--", "sh", "-c", script])
    }

    fn is_free(&self, pool: &str) -> bool {
        self.ends(&["run", "-n", pool, "--", "true"]).code == Some(0)
    }

    /// The environment of a command that is run with these arguments.
    fn environment(&self, arguments: &[&str]) -> BTreeMap<String, String> {
        let Ended { code, stdout, stderr } = self.ends(&[&["run"], arguments, &["--", "env", "-0"]].concat());
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        let mut variables = BTreeMap::new();
        for variable in stdout.split_terminator('\0') {
            let (name, value) = variable.split_once('=').unwrap();
            let before = variables.insert(name.to_owned(), value.to_owned());
            assert_eq!(before, None, "{name} is there once");
        }
        variables
    }
}

#[test]
fn the_code_is_that_of_the_command() {
    let scene = Scene::new();
    for code in [0, 1, 7, 75, 255] {
        let ended = scene.script(&format!("exit {code}"));
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(code), "", ""));
        assert!(scene.is_free("db"), "after {code}");
    }
}

#[test]
fn a_command_that_a_signal_ended_gives_128_and_its_number() {
    let scene = Scene::new();
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        let ended = scene.script(&format!("ulimit -c 0; kill -{signal} $$"));
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""), "{signal}");
        assert!(scene.is_free("db"), "after {signal}");
    }
}

#[test]
fn a_command_that_is_not_there_gives_127_and_one_that_cannot_be_run_126() {
    let scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "echo no").unwrap();
    for (command, code) in
        [("no-such-command", 127), ("/no/such/file", 127), ("", 127), (plain.to_str().unwrap(), 126), ("/", 126)]
    {
        let ended = scene.ends(&["run", "db", "--", command]);
        assert_eq!(ended.code, Some(code), "{command}: {}", ended.stderr);
        let said: Vec<_> = ended.stderr.lines().collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with(&format!("error: `{command}` cannot be run: ")), "{said:?}");
        assert_eq!(said[1], "hint: check the command after `--`");
        assert!(scene.is_free("db"), "after {command}");
    }
}

#[test]
fn what_comes_after_the_two_dashes_belongs_to_the_command() {
    let scene = Scene::new();
    let ended = scene.ends(&["run", "db", "--", "printf", "<%s>", "-n", "--units", "9", "--", "--help", ""]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "<-n><--units><9><--><--help><>"));
}

#[test]
fn what_is_read_and_written_passes_through_untouched() {
    let scene = Scene::new();
    // More than a pipe holds, with every byte.
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let (code, read) = scene.job(&["run", "db", "--", "cat"]).ends_after(&bytes);
    assert_eq!(code, Some(0));
    assert!(read == bytes, "{} bytes instead of {}", read.len(), bytes.len());

    let ended = scene.script("echo out; echo err >&2; exit 3");
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(3), "out\n", "err\n"));

    let mut nothing = scene.tool.command(&["run", "db", "--", "cat"]);
    let output = nothing.stdin(Stdio::null()).output().unwrap();
    assert_eq!((output.status.code(), output.stdout, output.stderr), (Some(0), vec![], vec![]));

    let closed = scene.shell("tenure run db -- sh -c 'exit 4' <&- >&- 2>&-");
    assert_eq!(closed.code, Some(4));
}

#[test]
fn a_reader_that_goes_away_ends_the_command_and_frees_the_pool() {
    let scene = Scene::new();
    let ended = scene.shell("tenure run db -- yes | head -1");
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "y\n", ""));
    assert!(scene.is_free("db"));
}

#[test]
fn the_command_is_told_what_is_held_and_not_the_key() {
    let scene = Scene::new();
    let variables = scene.environment(&["a pool", "--size", "5", "-u", "3", "--ttl", "1h", "--namespace", "team"]);
    for (name, value) in [
        ("TENURE_POOL", "a pool"),
        ("TENURE_NAMESPACE", "team"),
        ("TENURE_TOKEN", "1"),
        ("TENURE_UNITS", "3"),
        ("TENURE_TTL_MS", "3600000"),
        ("TENURE_RESOURCE_COUNT", "0"),
    ] {
        assert_eq!(variables.get(name).map(String::as_str), Some(value), "{name}");
    }
    let hold: serde_json::Value = serde_json::from_str(&variables["TENURE_HOLD"]).unwrap();
    assert_eq!(hold["deadline_ms"].to_string(), variables["TENURE_DEADLINE_MS"]);
    assert_eq!(hold["since_ms"].as_u64().unwrap() + 3_600_000, hold["deadline_ms"].as_u64().unwrap());
    assert_eq!(hold.get("key"), None);
    for name in ["TENURE_KEY", "TENURE_RESOURCE", "TENURE_RESOURCES", "TENURE_RESOURCE_0"] {
        assert_eq!(variables.get(name), None, "{name}");
    }
}

#[test]
fn the_command_is_told_which_resources_it_has_however_odd_their_names() {
    let scene = Scene::new();
    let spec = serde_json::json!({"resources": [
        {"name": "old one", "labels": {"old": ""}, "properties": {}},
        {"name": "größe $(id) 'x'", "labels": {"mem.gb": "80"}, "properties": {"ssh-host": "a \"b\" `c`\\\n=d", "ü": ""}},
        {"name": "second", "labels": {"mem.gb": "40"}, "properties": {"ssh-host": "rack 4"}},
    ]});
    let set = scene.tool.run_with(&["pool", "set", "gpus", "--file", "-"], &spec.to_string());
    assert_eq!((set.code, set.stderr.as_str()), (Some(0), ""));

    let variables = scene.environment(&["gpus", "-u", "2", "--select", "!old"]);
    let told = |name: &str| variables.get(name).map(String::as_str);
    assert_eq!(told("TENURE_RESOURCE_COUNT"), Some("2"));
    assert_eq!(told("TENURE_RESOURCE"), Some("größe $(id) 'x'"));
    assert_eq!(told("TENURE_RESOURCES"), Some("größe $(id) 'x' second"));
    assert_eq!(told("TENURE_RESOURCE_0"), Some("größe $(id) 'x'"));
    assert_eq!(told("TENURE_RESOURCE_0_LABEL_MEM_GB"), Some("80"));
    assert_eq!(told("TENURE_RESOURCE_0_PROP_SSH_HOST"), Some("a \"b\" `c`\\\n=d"));
    assert_eq!(told("TENURE_RESOURCE_0_PROP__"), Some(""));
    assert_eq!(told("TENURE_RESOURCE_1"), Some("second"));
    assert_eq!(told("TENURE_RESOURCE_1_PROP_SSH_HOST"), Some("rack 4"));
    assert_eq!(told("TENURE_RESOURCE_2"), None);
    let hold: serde_json::Value = serde_json::from_str(&variables["TENURE_HOLD"]).unwrap();
    assert_eq!(hold["resources"][1]["properties"]["ssh-host"], "rack 4");
}

#[test]
fn units_all_of_them_and_selected_resources_are_taken_as_asked_for() {
    let scene = Scene::new();
    assert_eq!(scene.environment(&["permits", "--size", "3"])["TENURE_UNITS"], "1");
    assert_eq!(scene.environment(&["permits", "-u", "2"])["TENURE_UNITS"], "2");
    assert_eq!(scene.environment(&["permits", "-u", "all"])["TENURE_UNITS"], "3");
    scene.tool.printed(&["pool", "set", "gpus", "--resource", "a mem=16", "--resource", "b mem=80"]);
    assert_eq!(scene.environment(&["gpus", "-s", "mem >= 80"])["TENURE_RESOURCE"], "b");
    assert_eq!(scene.environment(&["gpus", "-s", "a"])["TENURE_RESOURCE"], "a");
    assert_eq!(scene.environment(&["gpus", "--units", "all"])["TENURE_RESOURCES"], "a b");
}

#[test]
fn a_command_that_uses_tenure_itself_asks_the_same_server_and_namespace() {
    let scene = Scene::new();
    let script = r#"
        addr=$TENURE_ADDR
        unset TENURE_ADDR
        tenure run outer --namespace team --addr "$addr" -- sh -c '
            tenure run inner -- sh -c "echo \$TENURE_NAMESPACE \$TENURE_POOL; tenure holds --json"
        '"#;
    let ended = scene.shell(script);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let (names, holds) = ended.stdout.split_once('\n').unwrap();
    assert_eq!(names, "team inner");
    let holds: serde_json::Value = serde_json::from_str(holds).unwrap();
    let pools: Vec<_> = holds["holds"].as_array().unwrap().iter().map(|hold| hold["pool"].as_str().unwrap()).collect();
    assert_eq!(pools, ["outer", "inner"]);
}

#[test]
fn a_command_inside_another_finds_nothing_of_the_outer_hold() {
    let scene = Scene::new();
    let script = r#"
        tenure pool set two --resource 'g1 @h=a' --resource 'g2 @h=b' > /dev/null
        hold=$(tenure acquire third --eval) && eval "$hold"
        tenure run -u 2 two -- tenure run inner -- sh -c 'env | grep -E "TENURE_(RESOURCE|KEY|POOL)" | sort'"#;
    let ended = scene.shell(script);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(ended.stdout, "TENURE_POOL=inner\nTENURE_RESOURCE_COUNT=0\n");
}

#[test]
fn signals_are_passed_on_to_the_command_and_its_group() {
    let scene = Scene::new();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGQUIT] {
        let name = signal.as_str().strip_prefix("SIG").unwrap();
        let script = format!(
            r#"ulimit -c 0
            trap 'echo outer; exit 3' {name}
            sh -c "trap 'echo inner; exit' {name}; echo ready; while :; do sleep 0.05; done""#
        );
        let mut job = scene.job(&["run", "db", "--", "sh", "-c", &script]);
        job.says("ready");
        job.signal(signal);
        let ended = job.ends();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(3), "ready\ninner\nouter\n"), "{name}: {}", ended.stderr);
        assert!(scene.is_free("db"), "after {name}");
    }
}

#[test]
fn a_command_that_does_not_mind_a_signal_goes_on() {
    let scene = Scene::new();
    let script = r#"trap 'echo heard' TERM; echo ready; while ! read line; do :; done; echo "read $line"; exit 5"#;
    let mut job = scene.job(&["run", "db", "--", "sh", "-c", script]);
    job.says("ready");
    job.signal(Signal::SIGTERM);
    job.says("heard");
    assert!(!scene.is_free("db"));
    job.hears("on\n");
    let ended = job.ends();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(5), "ready\nheard\nread on\n"));
}

#[test]
fn what_the_command_leaves_in_the_background_is_left_alone() {
    let scene = Scene::new();
    let ended = scene.script("sleep 1000 <&- >/dev/null 2>&1 & echo $!");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(scene.is_free("db"));
    let left = Pid::from_raw(ended.stdout.trim().parse().unwrap());
    kill(left, Signal::SIGKILL).expect("it is there");
}

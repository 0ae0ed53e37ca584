//! The commands that look: what they print for people and for programs, and what they do when there is nothing to see.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use insta::assert_snapshot;
use support::Process;
use support::tool::{Ended, Tool, filters};
use tenure_proto::v1::tenure_client::TenureClient;
use tenure_proto::v1::{self, AcquireRequest, Lifetime, ListQueueRequest, OpenSessionRequest};
use tokio::task::JoinHandle;
use tonic::transport::Channel;

fn acquire(pool: &str, holder: &str) -> AcquireRequest {
    AcquireRequest {
        pool: pool.into(),
        holder: holder.into(),
        lifetime: Lifetime::Kept.into(),
        ..AcquireRequest::default()
    }
}

fn meta(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Waits in the queue as number `place` until it is aborted or granted.
async fn waits(client: &TenureClient<Channel>, request: AcquireRequest, place: usize) -> JoinHandle<()> {
    let (mut waiting, mut looking) = (client.clone(), client.clone());
    let queue = ListQueueRequest { pool: request.pool.clone(), ..ListQueueRequest::default() };
    let waiter = tokio::spawn(async move { drop(waiting.acquire(request).await) });
    while looking.list_queue(queue.clone()).await.unwrap().into_inner().waiters.len() < place {
        tokio::task::yield_now().await;
    }
    waiter
}

/// A server with a bit of everything.
async fn busy() -> (tempfile::TempDir, Process, Vec<JoinHandle<()>>) {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let tool = Tool::of(&server);
    tool.printed(&[
        "pool",
        "set",
        "gpus",
        "--resource",
        "gpu-1 a100 mem=80 @host=rack-3",
        "--resource",
        "gpu-2 old mem=16 @host=rack-4",
        "--resource",
        "gpu-3 a100",
        "--placement",
        "least-recently-used",
        "--order",
        "backfill",
    ]);
    tool.printed(&["pool", "quarantine", "gpus", "gpu-3", "--note", "the fan is loud"]);
    tool.printed(&["pool", "set", "mails", "--units", "30", "--window", "60s"]);
    tool.printed(&["pool", "drain", "mails", "--note", "the relay moves house"]);
    tool.printed(&["pool", "set", "spare", "--units", "2"]);

    let mut client = server.client().await;
    let session = OpenSessionRequest {
        holder: "trainer".into(),
        meta: meta(&[("host", "node-1")]),
        grace_ms: Some(90_000),
        ..OpenSessionRequest::default()
    };
    let session_key = client.open_session(session).await.unwrap().into_inner().session_key;
    let trainer = AcquireRequest {
        select: Some("mem >= 80".into()),
        session_key: Some(session_key),
        lifetime: Lifetime::Session.into(),
        meta: meta(&[("host", "node-1"), ("reason", "night run")]),
        ..acquire("gpus", "trainer")
    };
    client.acquire(trainer).await.unwrap();
    client.acquire(acquire("db", "backup")).await.unwrap();
    let leased =
        AcquireRequest { lifetime: Lifetime::Leased.into(), ttl_ms: Some(3_600_000), ..acquire("spare", "ann") };
    client.acquire(leased).await.unwrap();
    let bound = AcquireRequest {
        lifetime: Lifetime::Bound.into(),
        owner: Some("workflow/4711".into()),
        ..acquire("spare", "bert")
    };
    client.acquire(bound).await.unwrap();

    let forever = |request| AcquireRequest { wait_forever: true, ..request };
    let waiting = vec![
        waits(&client, forever(AcquireRequest { meta: meta(&[("reason", "hotfix")]), ..acquire("db", "deploy") }), 1)
            .await,
        waits(&client, AcquireRequest { wait_ms: Some(3_600_000), priority: -5, ..acquire("db", "report") }, 2).await,
        waits(&client, forever(AcquireRequest { select: Some("a100".into()), ..acquire("gpus", "tuner") }), 1).await,
        waits(&client, forever(AcquireRequest { all: true, ..acquire("gpus", "bench") }), 2).await,
    ];
    (data, server, waiting)
}

#[tokio::test(flavor = "multi_thread")]
async fn listings_tell_people_what_stands_how() {
    let (_data, server, _waiting) = busy().await;
    let told = Tool::of(&server).transcript(&[
        &["ls"],
        &["ls", "g"],
        &["show", "gpus"],
        &["show", "mails"],
        &["show", "db"],
        &["queue", "db"],
        &["queue", "gpus"],
        &["holds"],
        &["holds", "spare"],
        &["holds", "--holder", "backup"],
        &["sessions"],
    ]);
    filters().bind(|| assert_snapshot!("listings", told));
}

#[tokio::test(flavor = "multi_thread")]
async fn listings_for_programs_are_the_messages_of_the_api() {
    let (_data, server, _waiting) = busy().await;
    let tool = Tool::of(&server);
    let told = tool.transcript(&[
        &["ls", "g", "--json"],
        &["show", "gpus", "--json"],
        &["queue", "db", "--json"],
        &["holds", "--json", "--holder", "trainer"],
        &["sessions", "--json"],
    ]);
    filters().bind(|| assert_snapshot!("listings_json", told));

    for (arguments, path) in [
        (vec!["ls"], "pools"),
        (vec!["show", "gpus"], "pools/gpus"),
        (vec!["queue", "db"], "pools/db/queue"),
        (vec!["holds"], "holds"),
        (vec!["sessions"], "sessions"),
        (vec!["history", "--all"], "history"),
    ] {
        let rest = Command::new("curl").args(["-sf", &format!("{}/api/v1/{path}", server.http)]).output().unwrap();
        let rest = String::from_utf8(rest.stdout).unwrap();
        let printed = tool.printed(&[arguments.as_slice(), &["--json"]].concat());
        if path == "history" {
            for line in printed.lines() {
                assert!(rest.contains(line), "{line} is in {rest}");
            }
        } else {
            assert_eq!(printed.trim_end(), rest, "{arguments:?}");
        }
    }
}

#[test]
fn where_there_is_nothing_stdout_is_empty_and_stderr_says_so() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let tool = Tool::of(&server);
    tool.printed(&["pool", "set", "idle", "--units", "1", "--namespace", "other"]);
    let told = tool.transcript(&[
        &["ls"],
        &["ls", "x"],
        &["holds"],
        &["holds", "nowhere"],
        &["sessions"],
        &["queue", "idle", "--namespace", "other"],
        &["history"],
        &["ls", "--json"],
        &["holds", "--json"],
        &["sessions", "--json"],
        &["queue", "idle", "--namespace", "other", "--json"],
        &["history", "--json"],
    ]);
    filters().bind(|| assert_snapshot!("nothing", told));
}

#[test]
fn what_cannot_be_looked_at_is_one_line_a_hint_and_a_code() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let told = Tool::of(&server).transcript(&[
        &["show", "nowhere"],
        &["show", "nowhere", "--json"],
        &["show"],
        &["queue", "nowhere"],
        &["show", ""],
        &["ls", "--namespace", "no\tnamespace"],
        &["watch", "--after", "1000"],
        &["watch", "--limit", "0"],
        &["history", "--since", "yesterday"],
        &["history", "--limit", "0"],
        &["history", "--limit", "5", "--all"],
    ]);
    filters().bind(|| assert_snapshot!("refused", told));
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for arguments in [&["ls"][..], &["watch"], &["history"], &["pool", "rm", "db"], &["owner-gone", "x"]] {
        let Ended { code, stdout, stderr } = Tool::at(&nobody).run(arguments);
        assert_eq!((code, stdout.as_str()), (Some(69), ""), "{stderr}");
        assert!(stderr.contains(&nobody) && stderr.contains("\nhint: "), "{stderr}");
        assert_eq!(stderr.lines().count(), 2, "{stderr}");
    }
}

#[tokio::test]
async fn every_page_is_listed() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let mut client = server.client().await;
    for number in 0..1_050 {
        client.acquire(acquire(&format!("pool-{number:04}"), "me")).await.unwrap();
    }
    let tool = Tool::of(&server);
    let json = |arguments: &[&str]| -> serde_json::Value { serde_json::from_str(&tool.printed(arguments)).unwrap() };

    assert_eq!(tool.printed(&["ls"]).lines().count(), 1_051, "a heading and the pools");
    let pools = json(&["ls", "--json"]);
    assert_eq!(pools["pools"].as_array().unwrap().len(), 1_050);
    assert_eq!(pools.get("next"), None);
    assert_eq!(json(&["holds", "--json"])["holds"].as_array().unwrap().len(), 1_050);

    // Each pool came to be and was granted.
    let all = tool.printed(&["history", "--all"]);
    assert_eq!(all.lines().count(), 2_100);
    assert_eq!(tool.printed(&["history", "--limit", "2000"]).lines().count(), 2_000);
    let newest = tool.printed(&["history"]);
    assert_eq!(newest.lines().count(), 50);
    let numbers = |text: &str| -> Vec<u64> {
        text.lines().map(|line| line.split_whitespace().nth(1).unwrap()[1..].parse().unwrap()).collect()
    };
    assert!(numbers(&all).is_sorted() && numbers(&newest).is_sorted(), "the latest comes last");
    assert_eq!(numbers(&newest), numbers(&all)[2_050..]);

    reader_leaves_early(&tool, &["ls", "--json"]);
    reader_leaves_early(&tool, &["holds"]);
    reader_leaves_early(&tool, &["history", "--all"]);
    reader_leaves_early(&tool, &["watch", "--after", "0"]);
}

#[tokio::test]
async fn a_page_may_be_large() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let mut client = server.client().await;
    let long = "x".repeat(512);
    let wordy: Vec<_> = (0..16).map(|number| (number.to_string(), long.clone())).collect();
    for number in 0..600 {
        let request = AcquireRequest { meta: wordy.iter().cloned().collect(), ..acquire(&number.to_string(), "me") };
        client.acquire(request).await.unwrap();
    }
    let holds = Tool::of(&server).printed(&["holds"]);
    assert!(holds.len() > 4 * 1024 * 1024);
    assert_eq!(holds.lines().count(), 601);
}

/// As `| head -c1` does. More is printed than a pipe holds.
fn reader_leaves_early(tool: &Tool, arguments: &[&str]) {
    let mut child = tool.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.as_str()), (Some(0), ""), "{arguments:?}");
}

#[tokio::test]
async fn history_tells_what_happened_in_words() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let tool = Tool::of(&server);
    let mut client = server.client().await;
    tool.printed(&["pool", "set", "db", "--units", "2", "--order", "backfill", "--window", "1500ms"]);
    tool.printed(&["pool", "set", "db", "--units", "1"]);
    let first = AcquireRequest {
        lifetime: Lifetime::Leased.into(),
        ttl_ms: Some(90_000),
        meta: meta(&[("reason", "nightly run"), ("host", "a")]),
        ..acquire("db", "backup")
    };
    let first = client.acquire(first).await.unwrap().into_inner();
    let second = AcquireRequest { wait_ms: Some(600_000), priority: 3, ..acquire("db", "deploy") };
    let second = waits(&client, second, 1).await;
    client.renew(v1::RenewRequest { key: first.key.clone(), ..v1::RenewRequest::default() }).await.unwrap();
    client.release(v1::ReleaseRequest { key: first.key, ..v1::ReleaseRequest::default() }).await.unwrap();
    second.await.unwrap();
    let token = (first.token + 1).to_string();
    tool.printed(&["force-release", "db", "--holder", "deploy", "--token", &token, "--reason", "its host is gone"]);
    tool.printed(&["pool", "set", "gpus", "--resource", "gpu-1", "--placement", "spread:zone"]);
    tool.printed(&["pool", "quarantine", "gpus", "gpu-1", "--note", "smells"]);
    client.acquire(acquire("db", "later")).await.unwrap();
    let gone = waits(&client, AcquireRequest { wait_forever: true, ..acquire("db", "hasty") }, 1).await;
    gone.abort();
    let queue = ListQueueRequest { pool: "db".into(), ..ListQueueRequest::default() };
    while !client.list_queue(queue.clone()).await.unwrap().into_inner().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    let session = OpenSessionRequest { holder: "cron".into(), ..OpenSessionRequest::default() };
    let session_key = client.open_session(session).await.unwrap().into_inner().session_key;
    client.end_session(v1::EndSessionRequest { session_key, ..v1::EndSessionRequest::default() }).await.unwrap();
    tool.printed(&["pool", "rm", "gpus"]);

    let told = tool.transcript(&[
        &["history", "db", "--limit", "10"],
        &["history", "gpus"],
        &["history", "--holder", "cron"],
        &["history", "db", "--holder", "deploy", "--json"],
        &["history", "--since", "1h", "--limit", "1", "gpus"],
        &["history", "--until", "1h"],
        &["history", "--since", "2999-01-01T00:00:00Z"],
        &["history", "--all", "--until", "2001-01-01 00:00:00+02:00"],
    ]);
    filters().bind(|| assert_snapshot!("history", told));
    let all = tool.printed(&["history", "--all"]);
    let count = all.lines().count().to_string();
    let watched = tool.printed(&["watch", "--after", "0", "-c", &count]);
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&watched), words(&all), "but for the columns, which widen as lines come");
}

#[tokio::test]
async fn control_characters_of_others_do_not_reach_the_terminal() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let tool = Tool::of(&server);
    let nasty = AcquireRequest {
        meta: meta(&[("reason", "\u{1b}]0;title\u{7}\r\nerror: fake\u{202e}")]),
        ..acquire("db", "\u{2066}me")
    };
    server.client().await.acquire(nasty).await.unwrap();
    for arguments in [&["holds"][..], &["show", "db"], &["history"], &["watch", "--after", "0", "-c", "2"]] {
        let printed = tool.printed(arguments);
        let steers = |c: char| c != '\n' && c.is_control() || matches!(c, '\u{202e}' | '\u{2066}');
        assert!(!printed.contains(steers), "{printed:?}");
        assert!(printed.contains("\\u{1b}]0;title\\u{7}\\r\\nerror: fake\\u{202e}"), "{printed:?}");
    }
}

struct Watcher {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watcher {
    fn start(tool: &Tool, arguments: &[&str]) -> Self {
        let mut child = tool.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn next(&mut self) -> v1::Event {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_watch_goes_on_where_it_was_when_the_server_is_back() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Process::serve(data.path(), &[]);
    let tool = Tool::of(&server);
    tool.printed(&["pool", "set", "db", "--units", "1"]);
    let mut watcher = Watcher::start(&tool, &["watch", "db", "--json", "--after", "0", "-c", "3"]);
    assert_eq!(watcher.next().kind(), v1::EventKind::PoolSet);

    let grpc = server.grpc.clone();
    server.kill();
    let mut again = Command::new(env!("CARGO_BIN_EXE_tenure"));
    again.args(["serve", "--grpc", &grpc, "--http", "127.0.0.1:0", "--data"]).arg(data.path());
    let server = Process::spawn(&mut again);
    let mut client = server.client().await;
    client.acquire(acquire("other", "me")).await.unwrap();
    client.acquire(acquire("db", "me")).await.unwrap();
    let granted = watcher.next();
    assert_eq!((granted.kind(), granted.pool.as_deref()), (v1::EventKind::Granted, Some("db")));
    tool.printed(&["pool", "drain", "db"]);
    assert_eq!(watcher.next().kind(), v1::EventKind::ConditionSet);

    assert_eq!(watcher.child.wait().unwrap().code(), Some(0), "it has told as many as were wanted");
    let said = std::io::read_to_string(watcher.child.stderr.take().unwrap()).unwrap();
    assert_snapshot!(said, @r"
    connection lost; going on after event 2 once the server is back
    connected again
    ");
}

#[tokio::test]
async fn a_watch_that_names_no_event_tells_only_what_is_new() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let tool = Tool::of(&server);
    tool.printed(&["pool", "set", "db", "--units", "1"]);
    let mut watcher = Watcher::start(&tool, &["watch", "--json", "-c", "1"]);
    // Nobody can see when it has begun to watch, so something happens until it has.
    let mut changes = 0;
    while watcher.child.try_wait().unwrap().is_none() {
        changes += 1;
        tool.printed(&["pool", "set", "db", "--units", &(changes + 1).to_string()]);
        assert!(changes < 10_000, "it never told anything");
    }
    let event = watcher.next();
    assert_eq!(event.created, Some(false), "what was there before is not told");
}

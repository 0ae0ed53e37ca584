//! Pools that live in Temporal, behind servers that come and go.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tenure_client::{Builder, Client};

use crate::support::job::{Job, until};
use crate::support::temporal::Temporal;
use crate::support::tool::Tool;
use crate::support::{Process, command};

const POOLS: usize = 3;
const WORKERS: usize = 9;

#[test]
fn what_is_held_at_one_server_is_held_at_all_and_a_waiter_at_another_is_served() {
    let (temporal, nowhere) = (Temporal::shared(), tempfile::tempdir().unwrap());
    let namespace = temporal.namespace();
    let servers = [(); 2].map(|()| serve(nowhere.path(), temporal, &namespace, &["--keepers", "4"]));
    let [first, second] = [Tool::of(&servers[0]), Tool::of(&servers[1])];
    for pool in ["a", "b", "c", "d", "e"] {
        let hold: Value = serde_json::from_str(&first.printed(&["acquire", pool, "--kept", "--json"])).unwrap();
        let mut waiting = Job::start(&second.command(&["run", pool, "--", "echo", "served"]));
        let queue = || second.printed(&["queue", pool, "--json"]);
        until("it waits", || queue().contains("position"));
        let mut release = first.command(&["release"]);
        release.env("TENURE_KEY", hold["key"].as_str().unwrap());
        assert_eq!(Job::start(&release).ends().code, Some(0));
        assert_eq!(waiting.ends().stdout, "served\n", "{pool}");
    }
    assert_eq!(std::fs::read_dir(nowhere.path()).unwrap().count(), 0, "servers keep nothing");
}

#[test]
fn a_watcher_hears_what_happens_next_at_any_server_and_nothing_from_before() {
    let (temporal, nowhere) = (Temporal::shared(), tempfile::tempdir().unwrap());
    let namespace = temporal.namespace();
    let servers = [(); 2].map(|()| serve(nowhere.path(), temporal, &namespace, &["--keepers", "4"]));
    let [first, second] = [Tool::of(&servers[0]), Tool::of(&servers[1])];
    let take_a_turn = |pool: &str| first.printed(&["run", pool, "--", "true"]);
    for pool in ["before-1", "before-2", "before-3", "before-4"] {
        take_a_turn(pool);
    }
    let watching = Job::start(&second.command(&["watch"]));
    // It does not say when it has begun.
    until("it hears of something", || {
        take_a_turn("next");
        watching.said().contains("next")
    });
    assert!(!watching.said().contains("before"), "{}", watching.said());
    for pool in ["after-1", "after-2", "after-3", "after-4"] {
        take_a_turn(pool);
        watching.says(pool);
    }
}

#[test]
fn nothing_is_lost_or_doubled_when_servers_and_temporal_are_killed_and_keepers_begin_new_runs_under_load() {
    let mut temporal = Temporal::start_with(&["limit.historyCount.suggestContinueAsNew=300"]);
    let (namespace, nowhere) = (temporal.namespace(), tempfile::tempdir().unwrap());
    let start = |temporal: &Temporal| serve(nowhere.path(), temporal, &namespace, &[]);
    let mut servers: Vec<_> = (0..3).map(|_| start(&temporal)).collect();
    let load = Arc::new(Load::new(servers.iter().map(|server| server.grpc.clone()).collect()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let workers: Vec<_> = (0..WORKERS).map(|number| runtime.spawn(work(load.clone(), number))).collect();

    load.goes_on();
    servers[0].kill();
    load.goes_on();
    servers[0] = start(&temporal);
    load.servers.lock().unwrap()[0].clone_from(&servers[0].grpc);
    load.goes_on();
    temporal.kill();
    temporal.restart();
    load.goes_on();
    servers[1].kill();
    load.goes_on();
    load.over.store(true, Ordering::Release);
    for worker in workers {
        runtime.block_on(worker).unwrap();
    }

    // What the clients of those killed had not given back, ends with their sessions.
    let tool = Tool::of(&servers[2]);
    until("nobody holds anything", || !tool.printed(&["holds", "--json"]).contains("token"));
    let described = temporal
        .command(&["workflow", "describe", "-n", &namespace, "-w", "tenure-keeper-1-of-1", "-o", "json"])
        .output();
    let described: Value = serde_json::from_slice(&described.unwrap().stdout).unwrap();
    let info = &described["workflowExecutionInfo"];
    assert_ne!(info["execution"]["runId"], info["firstRunId"], "it has begun another run: {info}");
}

#[test]
fn a_session_whose_server_is_killed_ends_after_its_grace_and_the_waiter_at_another_is_served() {
    let (temporal, nowhere) = (Temporal::shared(), tempfile::tempdir().unwrap());
    let namespace = temporal.namespace();
    let [mut first, second] = [(); 2].map(|()| serve(nowhere.path(), temporal, &namespace, &[]));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let connect =
            |server: &Process| patient(server).session_grace(Duration::from_secs(1)).holder("a-service").connect();
        let holder = connect(&first).await.unwrap();
        let held = holder.acquire("db").until_session_ends().await.unwrap();
        let waiter = connect(&second).await.unwrap();
        first.kill();
        let next = waiter.acquire("db").wait(Duration::from_secs(60)).await.unwrap();
        assert!(next.token() > held.token());
    });
    let sessions = || Tool::of(&second).printed(&["sessions", "--json"]);
    let of_services = || sessions().matches("a-service").count();
    runtime.shutdown_background();
    until("both sessions are over", || of_services() == 0);
}

#[test]
fn a_keeper_that_is_full_refuses_what_would_grow_it_and_serves_everything_else() {
    let (temporal, nowhere) = (Temporal::shared(), tempfile::tempdir().unwrap());
    let namespace = temporal.namespace();
    let server = serve(nowhere.path(), temporal, &namespace, &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = patient(&server).connect().await.unwrap();
        let heavy = |pool: String| {
            let request = client.acquire(pool).no_wait().kept();
            (0..16).fold(request, |request, entry| request.meta(format!("entry-{entry}"), "x".repeat(512)))
        };
        let mut held = Vec::new();
        let refused = loop {
            match heavy(format!("heavy-{}", held.len())).await {
                Ok(guard) => held.push(guard),
                Err(refused) => break refused,
            }
            assert!(held.len() < 1_000, "a keeper takes everything");
        };
        assert_eq!(refused.code(), "limit_reached");
        assert!(refused.to_string().contains("keeper"), "{refused}");
        assert_eq!(client.lock("small").await.unwrap_err().code(), "limit_reached");

        // Full as it is, it goes on.
        let first = held.remove(0);
        let pool = first.pool().to_owned();
        first.release().await.unwrap();
        held.pop().unwrap().release().await.unwrap();
        let holds = Tool::of(&server).printed(&["holds", &pool, "--json"]);
        assert!(!holds.contains("token"), "{holds}");
        for guard in held.drain(..) {
            guard.release().await.unwrap();
        }
        client.lock("small").await.unwrap().release().await.unwrap();
    });
}

/// Several who take turns, and what was seen of it.
struct Load {
    servers: Mutex<Vec<String>>,
    /// The last token of each pool.
    tokens: [Mutex<u64>; POOLS],
    inside: [AtomicBool; POOLS],
    turns: AtomicUsize,
    over: AtomicBool,
}

impl Load {
    fn new(servers: Vec<String>) -> Self {
        Self {
            servers: Mutex::new(servers),
            tokens: Default::default(),
            inside: Default::default(),
            turns: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Waits until many more have had their turn.
    fn goes_on(&self) {
        let enough = self.turns.load(Ordering::Acquire) + 100;
        until("many more have had their turn", || self.turns.load(Ordering::Acquire) >= enough);
    }
}

async fn work(load: Arc<Load>, number: usize) {
    let mut turn = number;
    while !load.over.load(Ordering::Acquire) {
        let server = {
            let servers = load.servers.lock().unwrap();
            servers[turn % servers.len()].clone()
        };
        // One that was killed is not there; then another is asked.
        if let Ok(client) = Client::builder(server).session_grace(Duration::from_secs(1)).connect().await {
            while let Ok(()) = take_a_turn(&load, &client, turn % POOLS).await {
                turn += 1;
            }
            let _ = client.close().await;
        }
        turn += 1;
    }
}

async fn take_a_turn(load: &Load, client: &Client, pool: usize) -> Result<(), ()> {
    if load.over.load(Ordering::Acquire) {
        return Err(());
    }
    // Whoever waits at a server that is killed waits for its return, which may be never.
    let name = format!("pool-{pool}");
    let lock = tokio::time::timeout(Duration::from_secs(5), client.lock(&name));
    let guard = lock.await.map_err(drop)?.map_err(drop)?;
    assert!(!load.inside[pool].swap(true, Ordering::AcqRel), "two hold pool-{pool}");
    {
        let mut last = load.tokens[pool].lock().unwrap();
        assert!(guard.token() > *last, "token {} after {last} of pool-{pool}", guard.token());
        *last = guard.token();
    }
    tokio::task::yield_now().await;
    load.inside[pool].store(false, Ordering::Release);
    load.turns.fetch_add(1, Ordering::AcqRel);
    tokio::time::timeout(Duration::from_secs(5), guard.release()).await.map_err(drop)?.map_err(drop)
}

/// A client that gives a server's first keeper time to begin.
fn patient(server: &Process) -> Builder {
    Client::builder(server.grpc.clone()).connect_timeout(Duration::from_secs(60))
}

fn serve(nowhere: &Path, temporal: &Temporal, namespace: &str, more: &[&str]) -> Process {
    let mut serve = command(&nowhere.join("unused"));
    serve.args(["--engine", "temporal", "--temporal", &temporal.address(), "--namespace", namespace]);
    Process::spawn(serve.args(more))
}

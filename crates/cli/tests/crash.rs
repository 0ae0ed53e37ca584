//! The real server, killed with `kill -9` under load, many times. After every restart: nothing acknowledged is
//! lost, nothing released has come back, tokens go on rising, no pool has more holders than places, a retried
//! request gives one hold, and nobody is stuck.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use support::Process;
use tenure_proto::v1::tenure_client::TenureClient;
use tenure_proto::v1::{AcquireRequest, Grant, Hold, Lifetime, ListHoldsRequest, ReleaseRequest};
use tonic::transport::Channel;

const CRASHES: usize = 20;
const WORKERS: usize = 24;
/// Answers that a round waits for before it kills the server.
const ANSWERS_BEFORE_CRASH: usize = 400;
/// A mutex and semaphores, with fewer places than there are workers, so that they queue.
const CONTESTED: [(&str, u32); 4] = [("one", 1), ("two", 2), ("three", 3), ("four", 4)];

/// What the clients of one round know.
#[derive(Default)]
struct Ledger {
    /// Granted, and nobody has asked for its release.
    held: BTreeMap<u64, Grant>,
    /// Granted, and its release was asked for but not acknowledged.
    letting_go: BTreeMap<u64, Grant>,
    /// Its release was acknowledged.
    released: Vec<u64>,
    /// Asked for, but not answered.
    asked: BTreeMap<String, AcquireRequest>,
    answers: usize,
    token_highest: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_under_load_has_lost_nothing_it_acknowledged() {
    let data = tempfile::tempdir().unwrap();
    let mut token_highest = 0;
    for crash in 0..CRASHES {
        let mut server = Process::serve(data.path(), &[]);
        let ledger = Arc::new(Mutex::new(Ledger { token_highest, ..Ledger::default() }));
        let (answered, mut answers) = tokio::sync::watch::channel(0);
        let answered = Arc::new(answered);
        let mut workers = Vec::new();
        for worker in 0..WORKERS {
            let client = server.client().await;
            let name = format!("worker-{crash}-{worker}");
            workers.push(tokio::spawn(work(client, name, ledger.clone(), answered.clone())));
        }
        answers.wait_for(|answers| *answers >= ANSWERS_BEFORE_CRASH).await.unwrap();
        server.kill();
        for worker in workers {
            worker.await.unwrap();
        }
        let ledger = std::mem::take(&mut *ledger.lock().unwrap());
        let server = Process::serve(data.path(), &[]);
        token_highest = check(&mut server.client().await, ledger).await;
    }
}

/// Takes and lets go until the server is gone. Every eighth hold is its own, and is kept over the crash.
async fn work(
    mut client: TenureClient<Channel>,
    name: String,
    ledger: Arc<Mutex<Ledger>>,
    answered: Arc<tokio::sync::watch::Sender<usize>>,
) {
    let note = |answer: &mut dyn FnMut(&mut Ledger)| {
        let mut ledger = ledger.lock().unwrap();
        answer(&mut ledger);
        ledger.answers += 1;
        answered.send_replace(ledger.answers);
    };
    for turn in 0.. {
        let id = format!("{name}-{turn}");
        let keep = turn % 8 == 7;
        let (pool, size) = CONTESTED[turn % CONTESTED.len()];
        let request = AcquireRequest {
            pool: if keep { id.clone() } else { pool.into() },
            size: (!keep).then_some(size),
            holder: name.clone(),
            lifetime: if keep { Lifetime::Kept.into() } else { Lifetime::Leased.into() },
            ttl_ms: (!keep).then_some(3_600_000),
            wait_forever: true,
            request_id: Some(id.clone()),
            ..Default::default()
        };
        ledger.lock().unwrap().asked.insert(id.clone(), request.clone());
        let Ok(grant) = client.acquire(request).await else { return };
        let grant = grant.into_inner();
        note(&mut |ledger| {
            ledger.asked.remove(&id);
            ledger.held.insert(grant.token, grant.clone());
            ledger.token_highest = ledger.token_highest.max(grant.token);
        });
        if keep {
            continue;
        }
        {
            let mut ledger = ledger.lock().unwrap();
            ledger.held.remove(&grant.token);
            ledger.letting_go.insert(grant.token, grant.clone());
        }
        let release = ReleaseRequest { key: grant.key, ..Default::default() };
        if client.release(release).await.is_err() {
            return;
        }
        note(&mut |ledger| {
            ledger.letting_go.remove(&grant.token);
            ledger.released.push(grant.token);
        });
    }
}

/// What the restarted server has, against what the clients know. Lets go of everything; gives the highest token.
async fn check(client: &mut TenureClient<Channel>, ledger: Ledger) -> u64 {
    let holds = holds(client).await;
    for grant in ledger.held.values() {
        let hold =
            holds.get(&grant.token).unwrap_or_else(|| panic!("hold {} was acknowledged and is lost", grant.token));
        assert_eq!((&hold.pool, hold.deadline_ms), (&grant.pool, grant.deadline_ms), "it is as it was");
    }
    for token in &ledger.released {
        assert!(!holds.contains_key(token), "hold {token} was released and has come back");
    }
    for (pool, size) in CONTESTED {
        let used: u32 = holds.values().filter(|hold| hold.pool == pool).map(|hold| hold.units).sum();
        assert!(used <= size, "pool {pool} has {used} of {size} in use");
    }

    for grant in ledger.held.values() {
        release(client, grant).await.expect("what is held can be released");
    }
    for grant in ledger.letting_go.values() {
        // Either the first release was applied, or this one is.
        let released = release(client, grant).await.is_ok();
        assert_eq!(released, holds.contains_key(&grant.token));
    }
    // The answer was lost, or there was none: asked again, there is one hold. All at once, because some have what
    // others wait for.
    let retries: Vec<_> =
        ledger.asked.into_values().map(|request| tokio::spawn(retry(client.clone(), request))).collect();
    let mut token_highest = ledger.token_highest;
    for retried in retries {
        let token = retried.await.unwrap();
        assert!(holds.contains_key(&token) || token > ledger.token_highest, "token {token} after {token_highest}");
        token_highest = token_highest.max(token);
    }
    assert_eq!(self::holds(client).await.len(), 0, "nobody holds anything that nobody knows of");
    for (pool, size) in CONTESTED {
        let all = AcquireRequest {
            pool: pool.into(),
            size: Some(size),
            all: true,
            holder: "check".into(),
            ..Default::default()
        };
        let grant = client.acquire(all).await.expect("nothing is stuck").into_inner();
        assert!(grant.token > token_highest);
        token_highest = grant.token;
        release(client, &grant).await.expect("it is held");
    }
    token_highest
}

async fn retry(mut client: TenureClient<Channel>, request: AcquireRequest) -> u64 {
    let granted = client.acquire(request.clone()).await.expect("a retry is served").into_inner();
    let again = client.acquire(request).await.expect("the same again").into_inner();
    assert_eq!((granted.token, &granted.key), (again.token, &again.key));
    release(&mut client, &granted).await.expect("it is held");
    granted.token
}

async fn release(client: &mut TenureClient<Channel>, grant: &Grant) -> Result<(), tonic::Status> {
    client.release(ReleaseRequest { key: grant.key.clone(), ..Default::default() }).await.map(|_| ())
}

async fn holds(client: &mut TenureClient<Channel>) -> BTreeMap<u64, Hold> {
    let mut all = BTreeMap::new();
    let mut request = ListHoldsRequest::default();
    loop {
        let page = client.list_holds(request.clone()).await.unwrap().into_inner();
        all.extend(page.holds.into_iter().map(|hold| (hold.token, hold)));
        match page.next {
            Some(next) => request.after = Some(next),
            None => return all,
        }
    }
}

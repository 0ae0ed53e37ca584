//! Taking turns: what can be asked, and what is had for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tenure_client::{Client, Error, Lost, v1};
use tokio::sync::mpsc;

use crate::fixture::{
    Host, PATIENCE, connect, deadline, holds, queue, until_free, until_queued, until_renewed, within,
};

#[tokio::test]
async fn a_lock_passes_on_when_it_is_released() {
    let host = Host::start().await;
    let (alice, bob, api) = (host.client("alice").await, host.client("bob").await, host.api().await);
    let first = within(alice.lock("db")).await.unwrap();
    assert_eq!((first.pool(), first.namespace(), first.units()), ("db", "default", 1));
    assert_eq!(first.grant().token, first.token());
    let waiting = tokio::spawn(async move { bob.lock("db").await });
    until_queued(&api, "db", 1).await;
    within(first.release()).await.unwrap();
    let second = within(waiting).await.unwrap().unwrap();
    assert!(second.token() > 1);
    assert!(!second.is_lost());
}

#[tokio::test]
async fn a_try_finds_no_room_or_some() {
    let host = Host::start().await;
    let client = host.client("alice").await;
    let guard = within(client.try_lock("db")).await.unwrap().expect("there is room");
    assert!(within(client.try_lock("db")).await.unwrap().is_none());
    within(guard.release()).await.unwrap();
    assert!(within(client.try_lock("db")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_refusal_says_who_holds_it() {
    let host = Host::start().await;
    let (alice, bob) = (host.client("alice").await, host.client("bob").await);
    let _guard = within(alice.lock("db")).await.unwrap();

    let busy = within(bob.acquire("db").no_wait().into_future()).await.unwrap_err();
    assert!(busy.is_busy() && !busy.is_timed_out() && !busy.may_have_happened());
    assert!(busy.to_string().contains("alice"), "{busy}");
    let Error::Refused(refusal) = busy else { panic!("{busy:?}") };
    assert_eq!(refusal.holders[0].holder, "alice");

    let timed_out = within(bob.acquire("db").wait(Duration::from_millis(20)).into_future()).await.unwrap_err();
    assert!(timed_out.is_timed_out(), "{timed_out:?}");
    let Error::Refused(refusal) = timed_out else { panic!("{timed_out:?}") };
    assert_eq!((refusal.holders[0].holder.as_str(), refusal.position), ("alice", Some(1)));

    let never = within(bob.acquire("db").units(2).into_future()).await.unwrap_err();
    assert_eq!(never.code(), "never_fits");
    let invalid = within(bob.acquire("").into_future()).await.unwrap_err();
    assert_eq!(invalid.code(), "invalid_argument");
    let huge = within(bob.acquire("x".repeat(10_000_000)).into_future()).await.unwrap_err();
    assert_eq!(huge.code(), "invalid_argument");
    assert!(within(bob.try_lock("other")).await.unwrap().is_some(), "the connection goes on");
}

#[tokio::test]
async fn what_is_asked_for_reaches_the_server() {
    let host = Host::start().await;
    let (client, api) = (host.client("alice").await, host.api().await);
    let asked = client.acquire("permits").units(3).size(10).holder("job").meta("reason", "test");
    let permits = within(asked.ttl(Duration::from_secs(7)).into_future()).await.unwrap();
    let hold = holds(&api, "permits").await.remove(0);
    assert_eq!((hold.units, hold.holder.as_str(), hold.ttl_ms), (3, "job", Some(7_000)));
    assert_eq!(hold.meta["reason"], "test");
    assert_eq!(hold.lifetime(), v1::Lifetime::Leased);
    assert!(permits.deadlines().current().is_some());

    let kept = within(client.acquire("kept").kept().into_future()).await.unwrap();
    assert_eq!((kept.grant().lifetime(), kept.deadlines().current()), (v1::Lifetime::Kept, None));
    let bound = within(client.acquire("bound").owner("workflow-1").into_future()).await.unwrap();
    assert_eq!(bound.grant().lifetime(), v1::Lifetime::Bound);
    let of_session = within(client.acquire("session").until_session_ends().into_future()).await.unwrap();
    assert_eq!(of_session.grant().lifetime(), v1::Lifetime::Session);
    assert!(of_session.deadlines().current().is_some(), "certain for the session's grace");
    let ttl = Duration::from_secs(7);
    let timed = within(client.acquire("timed").until_session_ends_or(ttl).into_future()).await.unwrap();
    assert_eq!((timed.grant().lifetime(), timed.grant().ttl_ms), (v1::Lifetime::Session, Some(7_000)));
    let rate = within(client.acquire("rate").size(2).window(Duration::from_secs(60)).into_future()).await.unwrap();
    assert_eq!(rate.grant().lifetime(), v1::Lifetime::Window);
    within(rate.release()).await.unwrap();
    assert_eq!(holds(&api, "rate").await.len(), 1, "a place in a window is used up");

    let everything = within(client.acquire("all").size(4).all().into_future()).await.unwrap();
    assert_eq!(everything.units(), 4);
}

#[tokio::test]
async fn a_namespace_has_pools_of_its_own() {
    let host = Host::start().await;
    let builder = Client::builder(host.address.to_string()).namespace("team").holder("alice").meta("host", "here");
    let team = within(builder.connect()).await.unwrap();
    let guard = within(team.lock("db")).await.unwrap();
    assert_eq!(guard.namespace(), "team");
    let other = host.client("bob").await;
    drop(within(other.lock("db")).await.unwrap());
    let request = v1::ListHoldsRequest { namespace: "team".into(), ..Default::default() };
    let holds = team.api().list_holds(request).await.unwrap().into_inner().holds;
    assert_eq!((holds[0].holder.as_str(), holds[0].meta["host"].as_str()), ("alice", "here"));
    within(guard.release()).await.unwrap();
}

#[tokio::test]
async fn resources_come_with_their_properties() {
    let host = Host::start().await;
    let client = host.client("alice").await;
    let resource = |name: &str, memory: &str| v1::Resource {
        name: name.into(),
        labels: [("mem".to_owned(), memory.to_owned())].into(),
        properties: [("url".to_owned(), format!("http://{name}"))].into(),
    };
    let spec = v1::PoolSpec { resources: vec![resource("small", "16"), resource("large", "80")], ..Default::default() };
    let set = v1::SetPoolRequest { pool: "gpus".into(), spec: Some(spec), ..Default::default() };
    within(client.api().set_pool(set)).await.unwrap();
    let guard = within(client.acquire("gpus").select("mem >= 80").into_future()).await.unwrap();
    assert_eq!(guard.resources()[0].name, "large");
    assert_eq!(guard.resources()[0].properties["url"], "http://large");
}

#[tokio::test]
async fn a_waiter_is_told_its_place_and_the_more_important_is_served_first() {
    let host = Host::start().await;
    let (client, api) = (host.client("alice").await, host.api().await);
    let guard = within(client.lock("db")).await.unwrap();
    let (places, mut told) = mpsc::unbounded_channel();
    let served = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for (number, priority) in [(1, 0), (2, 5)] {
        let (places, served) = (places.clone(), served.clone());
        let asked = client.acquire("db").priority(priority).on_queued(move |queued| {
            places.send(queued.position).unwrap();
        });
        tasks.push(tokio::spawn(async move {
            let guard = asked.await.unwrap();
            served.lock().unwrap().push(priority);
            guard.release().await.unwrap();
        }));
        until_queued(&api, "db", number).await;
        assert_eq!(within(told.recv()).await, Some(1), "the first in line when it came");
    }
    drop(guard);
    for task in tasks {
        within(task).await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), [5, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_tasks_take_turns_over_one_connection() {
    let host = Host::start().await;
    let client = host.client("crowd").await;
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..1_000)
        .map(|_| {
            let (client, inside, most) = (client.clone(), inside.clone(), most.clone());
            tokio::spawn(async move {
                let guard = client.acquire("three").size(3).await.unwrap();
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                // Half of them do not wait for the release.
                if guard.token() % 2 == 0 {
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        within(task).await.unwrap();
    }
    let most = most.load(Ordering::SeqCst);
    assert!((1..=3).contains(&most), "{most} were inside at once");
    let api = host.api().await;
    assert_eq!(crate::fixture::sessions(&api).await.len(), 1, "all over one session");
    until_free(&api, "three").await;
}

#[tokio::test]
async fn a_guard_is_renewed_for_as_long_as_it_lives() {
    let host = Host::start().await;
    let (client, api) = (host.client("alice").await, host.api().await);
    let guard = within(client.acquire("db").ttl(Duration::from_secs(6)).into_future()).await.unwrap();
    for _ in 0..2 {
        until_renewed(&guard, deadline(&guard)).await;
    }
    assert!(!guard.is_lost());
    assert_eq!(holds(&api, "db").await[0].token, guard.token());
    within(guard.release()).await.unwrap();
}

#[test]
fn a_blocked_application_does_not_stop_renewals() {
    let server = tokio::runtime::Runtime::new().unwrap();
    let host = server.block_on(Host::start());
    // One thread for everything the application does.
    let application = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    application.block_on(async {
        let client = connect(&host.address.to_string(), "busy").await;
        let guard = client.acquire("db").ttl(Duration::from_secs(6)).await.unwrap();
        let deadlines = guard.deadlines();
        let first = deadlines.current().unwrap();
        let begun = Instant::now();
        // No await: nothing else of this runtime runs.
        while deadlines.current().unwrap() <= first {
            assert!(begun.elapsed() < PATIENCE, "it was not renewed");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!guard.is_lost());
    });
}

#[tokio::test]
async fn a_task_that_watches_a_guard_hears_that_it_was_let_go() {
    let host = Host::start().await;
    let client = host.client("alice").await;
    let guard = within(client.lock("db")).await.unwrap();
    let watching = tokio::spawn(guard.lost());
    within(guard.release()).await.unwrap();
    assert_eq!(within(watching).await.unwrap(), Lost::LetGo);
    let guard = within(client.lock("db")).await.unwrap();
    let lost = guard.lost();
    drop(guard);
    assert_eq!(within(lost).await.to_string(), "it was let go");
}

#[tokio::test]
async fn a_dropped_guard_is_released() {
    let host = Host::start().await;
    let (alice, bob) = (host.client("alice").await, host.client("bob").await);
    drop(within(alice.lock("db")).await.unwrap());
    drop(within(bob.lock("db")).await.unwrap());
    drop(within(alice.lock("db")).await.unwrap());
}

#[tokio::test]
async fn a_guard_that_is_given_up_leaves_its_hold() {
    let host = Host::start().await;
    let (client, api) = (host.client("alice").await, host.api().await);
    let guard = within(client.lock("db")).await.unwrap();
    let lost = guard.lost();
    let grant = guard.keep();
    assert_eq!(within(lost).await, Lost::LetGo);
    within(client.close()).await.unwrap();
    assert_eq!(holds(&api, "db").await[0].token, grant.token);
    let release = v1::ReleaseRequest { key: grant.key, ..Default::default() };
    within(api.clone().release(release)).await.unwrap();
}

#[tokio::test]
async fn a_dropped_acquire_leaves_the_queue() {
    let host = Host::start().await;
    let (client, api) = (host.client("alice").await, host.api().await);
    let guard = within(client.lock("db")).await.unwrap();
    let waiting = tokio::spawn(client.acquire("db").into_future());
    until_queued(&api, "db", 1).await;
    waiting.abort();
    until_queued(&api, "db", 0).await;
    within(guard.release()).await.unwrap();
    assert!(holds(&api, "db").await.is_empty());
    assert!(queue(&api, "db").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquires_dropped_at_any_moment_leave_nothing_behind() {
    let host = Host::start().await;
    let (client, api) = (host.client("alice").await, host.api().await);
    for round in 0..300_u32 {
        let asked = tokio::spawn(client.acquire("db").into_future());
        for _ in 0..round % 30 {
            tokio::task::yield_now().await;
        }
        if round % 3 == 0 {
            tokio::time::sleep(Duration::from_micros(u64::from(round) * 5)).await;
        }
        asked.abort();
    }
    until_free(&api, "db").await;
    until_queued(&api, "db", 0).await;
    drop(within(client.lock("db")).await.unwrap());
}

#[tokio::test]
async fn the_same_request_id_gives_the_same_hold() {
    let host = Host::start().await;
    let client = host.client("alice").await;
    let one = within(client.acquire("db").request_id("r-1").into_future()).await.unwrap();
    let other = within(client.acquire("db").request_id("r-1").into_future()).await.unwrap();
    assert_eq!(one.token(), other.token());
    within(one.release()).await.unwrap();
    let again = within(client.acquire("db").request_id("r-1").into_future()).await.unwrap_err();
    assert_eq!(again.code(), "request_ended");
    drop(other);
}

#[test]
fn it_works_without_a_runtime_of_the_application() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let host = runtime.block_on(Host::start());
    let address = host.address.to_string();
    let token = std::thread::spawn(move || {
        let client = block_on(Client::connect(address)).unwrap();
        let guard = block_on(client.lock("db")).unwrap();
        let token = guard.token();
        block_on(guard.release()).unwrap();
        block_on(client.close()).unwrap();
        token
    });
    assert_eq!(token.join().unwrap(), 1);
}

/// The least an executor can be.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::park_timeout(PATIENCE);
    }
}

//! The server stops or is killed and comes back: what was held still is, with the time it had left.

use tenure_proto::ldlm::{ErrorCode, LockResponse};
use tenure_proto::v1::{ListHoldsRequest, RenewRequest};
use tonic::Code;

use crate::client::{Ask, Client, lock, sized, timed};
use crate::fixture::{Fixture, killed, serve, within};
use crate::raw;
use crate::support::Process;

/// For both ways in which a server ends, side by side.
async fn both_ways(test: impl AsyncFn(bool)) {
    tokio::join!(test(true), test(false));
}

/// However it ends, with its clients connected.
async fn ended(fixture: Fixture, gracefully: bool) -> Fixture {
    if gracefully { fixture.restart().await } else { fixture.crash().await }
}

#[tokio::test]
async fn a_lock_without_a_time_can_be_claimed_for_so_long_and_is_then_free() {
    both_ways(async |gracefully| {
        let fixture = Fixture::durable(&["--default-lock-timeout", "5s"]).await;
        let alice = fixture.client().await;
        alice.locked("x").await;
        let fixture = ended(fixture, gracefully).await;
        let bob = fixture.client().await;
        let hold = fixture.hold("x").await;
        assert!(hold.session.is_some() && hold.deadline_ms.is_none(), "it ends with its session: {hold:?}");
        assert!(!bob.is_free("x").await);
        bob.until_free("x").await;
        fixture.until_sessions(1).await;
    })
    .await;
}

#[tokio::test]
async fn whoever_has_the_key_can_renew_a_lock_though_it_had_no_time() {
    both_ways(async |gracefully| {
        let fixture = Fixture::durable(&["--default-lock-timeout", "5s"]).await;
        let alice = fixture.client().await;
        let key = alice.locked("x").await;
        alice.locked("forgotten").await;
        let fixture = ended(fixture, gracefully).await;
        let bob = fixture.client().await;
        assert!(bob.renew("x", &key, 3_600).await.locked);
        bob.until_free("forgotten").await;
        assert!(!bob.is_free("x").await, "it is nobody's session's any more");
        assert!(bob.renew("x", &key, 1).await.locked);
        bob.until_free("x").await;
    })
    .await;
}

#[tokio::test]
async fn whoever_has_the_key_can_unlock_and_lock_again_and_it_is_held_once() {
    let mut fixture = Fixture::durable(&[]).await;
    let mut key: Option<String> = None;
    for gracefully in [false, true, false, false, true] {
        let alice = fixture.client().await;
        if let Some(key) = key {
            alice.unlocked("x", &key).await;
        }
        key = Some(alice.locked("x").await);
        fixture = ended(fixture, gracefully).await;
        assert_eq!(fixture.holds().await.len(), 1);
        assert!(!fixture.client().await.is_free("x").await);
    }
}

#[tokio::test]
async fn a_lock_with_a_time_has_what_was_left_of_it() {
    both_ways(async |gracefully| {
        // Shorter than the times that are asked for.
        let fixture = Fixture::durable(&["--default-lock-timeout", "1s"]).await;
        let alice = fixture.client().await;
        alice.locked(timed("short", 2)).await;
        alice.locked(timed("long", 3_600)).await;
        let before = fixture.hold("long").await;
        let fixture = ended(fixture, gracefully).await;
        assert_eq!(fixture.hold("long").await, before, "the same time, the same token");
        let bob = fixture.client().await;
        bob.until_free("short").await;
        fixture.later(2).await;
        assert!(!bob.is_free("long").await, "however much longer than the time of those that have none");
    })
    .await;
}

#[tokio::test]
async fn a_lock_that_was_renewed_for_longer_has_what_is_left_of_that() {
    both_ways(async |gracefully| {
        let fixture = Fixture::durable(&["--default-lock-timeout", "1s"]).await;
        let (alice, bob) = (fixture.client().await, fixture.client().await);
        let keys = [alice.locked(timed("own", 2)).await, alice.locked(timed("others", 2)).await];
        let ours = alice.locked(timed("ours", 2)).await;
        assert!(alice.renew("own", &keys[0], 3_600).await.locked);
        assert!(bob.renew("others", &keys[1], 3_600).await.locked, "from another connection");
        let renew = RenewRequest { key: ours, ttl_ms: Some(3_600_000), ..RenewRequest::default() };
        fixture.ours().renew(renew).await.unwrap();
        let before = fixture.holds().await;
        let fixture = ended(fixture, gracefully).await;
        fixture.later(3).await;
        let after = fixture.holds().await.into_iter().filter(|hold| !hold.pool.starts_with("clock"));
        assert_eq!(after.collect::<Vec<_>>(), before, "the same times, the same tokens");
    })
    .await;
}

#[tokio::test]
async fn those_who_hang_up_right_before_a_stop_leave_nothing_and_those_who_stay_keep_what_they_have() {
    let fixture = Fixture::durable(&[]).await;
    let (alice, addr) = (fixture.client().await, fixture.grpc_addr());
    alice.locked("untimed").await;
    alice.locked(timed("timed", 3_600)).await;
    let kept = fixture.holds().await;
    let mut leaving = Vec::new();
    for at in 0..200 {
        let request = if at % 3 == 0 { timed(&format!("x{at}"), 3_600) } else { format!("x{at}").as_str().message() };
        let mut socket = raw::send(addr, "TryLock", &request).await;
        assert!(raw::answer::<LockResponse>(&mut socket).await.unwrap().locked);
        if at % 2 == 0 {
            // It does not say goodbye.
            socket.set_zero_linger().unwrap();
        }
        leaving.push(socket);
    }
    drop(leaving);
    let fixture = fixture.restart().await;
    assert_eq!(fixture.holds().await, kept);
    assert_eq!(fixture.sessions().await.len(), 2);
}

#[tokio::test]
async fn names_keep_their_size() {
    both_ways(async |gracefully| {
        let fixture = Fixture::durable(&[]).await;
        let alice = fixture.client().await;
        alice.locked(sized("x", 2)).await;
        let fixture = ended(fixture, gracefully).await;
        let bob = fixture.client().await;
        assert_eq!(bob.try_lock("x").await.error.unwrap().code(), ErrorCode::LockSizeMismatch);
        bob.locked(sized("x", 2)).await;
        assert!(!bob.try_lock(sized("x", 2)).await.locked);
    })
    .await;
}

#[tokio::test]
async fn those_who_wait_when_the_server_stops_are_told_that_it_is_unavailable() {
    both_ways(async |gracefully| {
        let fixture = Fixture::durable(&[]).await;
        let (alice, bob) = (fixture.client().await, fixture.client().await);
        alice.locked("x").await;
        let waiting = bob.start_lock(lock("x"));
        fixture.until_waiters("x", 1).await;
        let fixture = ended(fixture, gracefully).await;
        let code = within(waiting).await.unwrap().unwrap_err().code();
        // How a connection that breaks looks is the client library's to say.
        assert!(code == Code::Unavailable || !gracefully && code == Code::Unknown, "{code:?}");
        assert_eq!(fixture.waiters("x").await, 0);
        assert!(!fixture.client().await.is_free("x").await);
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_ends_after_a_restart_takes_only_what_it_locked_since() {
    both_ways(async |gracefully| {
        let fixture = Fixture::durable(&[]).await;
        let alice = fixture.client().await;
        let key = alice.locked("x").await;
        let fixture = ended(fixture, gracefully).await;
        let (bob, carol) = (fixture.client().await, fixture.client().await);
        bob.locked("y").await;
        assert!(bob.renew("x", &key, 3_600).await.locked);
        drop(bob);
        carol.until_free("y").await;
        assert!(!carol.is_free("x").await);
    })
    .await;
}

#[tokio::test]
async fn sessions_of_before_a_restart_do_not_pile_up() {
    let mut fixture = Fixture::durable(&["--default-lock-timeout", "1s"]).await;
    for gracefully in [false, true, false] {
        let clients = [fixture.client().await, fixture.client().await];
        for (at, client) in clients.iter().enumerate() {
            client.until_free(&format!("x{at}")).await;
        }
        fixture = ended(fixture, gracefully).await;
    }
    fixture.until_sessions(0).await;
    assert_eq!(fixture.holds().await, []);
}

#[tokio::test]
async fn with_no_clear_on_disconnect_locks_outlive_a_restart_too() {
    let fixture = Fixture::durable(&["--no-clear-on-disconnect"]).await;
    let alice = fixture.client().await;
    let key = alice.locked("x").await;
    drop(alice);
    let fixture = fixture.crash().await;
    let fixture = fixture.restart().await;
    let bob = fixture.client().await;
    assert!(!bob.is_free("x").await);
    bob.unlocked("x", &key).await;
}

#[tokio::test]
async fn nothing_that_a_killed_server_leaves_behind_keeps_the_next_from_starting() {
    let mut fixture = Fixture::durable(&[]).await;
    for _ in 0..3 {
        fixture = fixture.crash().await;
    }
    fixture.client().await.locked("x").await;
}

#[tokio::test]
async fn an_empty_directory_has_no_locks() {
    let fixture = Fixture::durable(&[]).await;
    assert_eq!((fixture.holds().await.len(), fixture.sessions().await.len()), (0, 0));
    fixture.client().await.locked("x").await;
}

/// LDLM starts with nothing, or not at all, if its file was cut short.
#[tokio::test]
async fn data_that_was_cut_short_is_all_there_or_is_refused() {
    let Fixture { server, data, .. } = Fixture::durable(&[]).await;
    let alice = Client::connect(server.grpc.parse().unwrap()).await;
    for at in 0..20 {
        alice.locked(&*format!("x{at}")).await;
    }
    killed(server).await;
    let log = data.path().join("db/log/1.log");
    let whole = std::fs::read(&log).unwrap();
    let written = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    // A byte in the middle of the entries is damage, and damage is told.
    let mut damaged = whole.clone();
    damaged[ENTRIES_START + (written - ENTRIES_START) / 2] ^= 0xff;
    std::fs::write(&log, damaged).unwrap();
    let refused = serve(&data).output().unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && error.contains("damaged"), "{error}");

    // The end of the last entry is not there, as if the power had gone while it was written.
    let mut torn = whole;
    torn[written - 3..].fill(0);
    std::fs::write(&log, torn).unwrap();
    let server = Process::spawn(&mut serve(&data));
    let holds = server.client().await.list_holds(ListHoldsRequest::default()).await.unwrap();
    assert_eq!(holds.into_inner().holds.len(), 19, "all but what nobody would have had an answer to");
}

/// Where entries begin in a segment of the log.
const ENTRIES_START: usize = 4_096;

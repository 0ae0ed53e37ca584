//! LDLM's clients and habits with the real binary: its commands, its options, and what outlives the process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use support::Process;
use support::tool::Tool;
use tenure_proto::ldlm::ldlm_client::LdlmClient;
use tenure_proto::ldlm::{LockResponse, RenewRequest, TryLockRequest, UnlockRequest};
use tonic::transport::{Channel, Endpoint};

/// Longer than anything takes on a slow machine; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

async fn client(server: &Process) -> LdlmClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.grpc)).unwrap();
    LdlmClient::new(endpoint.connect().await.unwrap())
}

async fn try_lock(client: &mut LdlmClient<Channel>, name: &str, size: i32) -> LockResponse {
    let request = TryLockRequest { name: name.into(), size: Some(size), lock_timeout_seconds: None };
    client.try_lock(request).await.unwrap().into_inner()
}

async fn until_free(client: &mut LdlmClient<Channel>, name: &str) {
    let free = async {
        while !try_lock(client, name, 1).await.locked {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, free).await.expect("it is free in time");
}

#[tokio::test]
async fn locks_are_listed_and_unlocked_as_people_are_used_to() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let tool = Tool::of(&server);
    assert_eq!(tool.printed(&["ldlm", "list"]), "No locks found\n");
    let mut client = client(&server).await;
    for (name, size) in [("x", 1), ("y", 2), ("y", 2)] {
        assert!(try_lock(&mut client, name, size).await.locked);
    }
    let listed = "{Name: x, Key: 1, Size: 1}\n{Name: y, Key: 2, Size: 2}\n{Name: y, Key: 3, Size: 2}\n";
    assert_eq!(tool.printed(&["ldlm", "list"]), listed);

    assert_eq!(tool.printed(&["ldlm", "unlock", "x"]), "Unlocked: true\n");
    assert!(try_lock(&mut client, "x", 1).await.locked);
    assert_eq!(tool.printed(&["ldlm", "unlock", "y", "2"]), "Unlocked: true\n");
    assert_eq!(tool.printed(&["ldlm", "list"]), "{Name: y, Key: 3, Size: 2}\n{Name: x, Key: 4, Size: 1}\n");

    for arguments in [&["ldlm", "unlock", "nothing"][..], &["ldlm", "unlock", "y", "2"]] {
        let ended = tool.run(arguments);
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{}", ended.stderr);
    }
    let ended = tool.run(&["ldlm", "unlock", "nothing"]);
    assert!(ended.stderr.starts_with("error: a lock by that name does not exist\n"), "{}", ended.stderr);
    let key = "4c7d4a3e-0000-4000-8000-000000000000";
    assert_eq!(tool.run(&["ldlm", "unlock", "y", key]).code, Some(64));
}

#[tokio::test]
async fn locks_outlive_the_process_and_can_be_claimed_by_their_key() {
    let data = tempfile::tempdir().unwrap();
    let options = ["--default-lock-timeout", "3s"];
    let mut server = Process::serve(data.path(), &options);
    let mut alice = client(&server).await;
    let mut keys = Vec::new();
    for name in ["forgotten", "unlocked", "renewed"] {
        keys.push(try_lock(&mut alice, name, 1).await.key);
    }
    server.kill();
    let server = Process::serve(data.path(), &options);
    let mut bob = client(&server).await;
    let [_, unlocked, renewed] = <[String; 3]>::try_from(keys).unwrap();
    let renew = RenewRequest { name: "renewed".into(), key: renewed, lock_timeout_seconds: 3_600 };
    assert!(bob.renew(renew).await.unwrap().into_inner().locked);
    assert!(!try_lock(&mut bob, "unlocked", 1).await.locked);
    let unlock = UnlockRequest { name: "unlocked".into(), key: unlocked };
    assert!(bob.unlock(unlock).await.unwrap().into_inner().unlocked);
    assert!(try_lock(&mut bob, "unlocked", 1).await.locked);
    until_free(&mut bob, "forgotten").await;
    assert!(!try_lock(&mut bob, "renewed", 1).await.locked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_good_order_keeps_the_locks_of_those_who_are_connected() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Process::serve(data.path(), &[]);
    let mut alice = client(&server).await;
    let key = try_lock(&mut alice, "x", 1).await.key;
    let pid = nix::unistd::Pid::from_raw(i32::try_from(server.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(server.wait().success());
    let server = Process::serve(data.path(), &[]);
    let mut bob = client(&server).await;
    assert!(!try_lock(&mut bob, "x", 1).await.locked);
    let unlock = UnlockRequest { name: "x".into(), key };
    assert!(bob.unlock(unlock).await.unwrap().into_inner().unlocked);
    drop(alice);
}

#[tokio::test]
async fn locks_stay_after_a_disconnect_only_if_that_is_asked_for() {
    for (option, stays) in [("--no-clear-on-disconnect", true), ("--no-clear-on-disconnect=false", false)] {
        let data = tempfile::tempdir().unwrap();
        let server = Process::serve(data.path(), &["--durability", "memory", option]);
        let (mut alice, mut bob) = (client(&server).await, client(&server).await);
        let key = try_lock(&mut alice, "x", 1).await.key;
        drop(alice);
        if stays {
            assert!(!try_lock(&mut bob, "x", 1).await.locked);
            let unlock = UnlockRequest { name: "x".into(), key };
            assert!(bob.unlock(unlock).await.unwrap().into_inner().unlocked);
        }
        until_free(&mut bob, "x").await;
    }
}

//! `tenure serve` as a process: what it says, how it stops, and what it does when the world is not as it should be.

mod support;

use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use support::{Process, command};
use tenure_proto::refusal_of;
use tenure_proto::v1::{AcquireRequest, Lifetime, ListHoldsRequest, ListQueueRequest};

fn acquire(pool: &str, holder: &str) -> AcquireRequest {
    AcquireRequest {
        pool: pool.into(),
        holder: holder.into(),
        lifetime: Lifetime::Kept.into(),
        ..AcquireRequest::default()
    }
}

fn code_and_error(output: Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8(output.stderr).expect("it speaks UTF-8"))
}

#[tokio::test]
async fn a_stop_refuses_those_who_wait_and_loses_nothing() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Process::serve(data.path(), &[]);
    let mut client = server.client().await;
    let held = client.acquire(acquire("db", "alice")).await.unwrap().into_inner();
    let mut waiting = server.client().await;
    let waiter =
        tokio::spawn(
            async move { waiting.acquire(AcquireRequest { wait_forever: true, ..acquire("db", "bob") }).await },
        );
    let queue = || ListQueueRequest { pool: "db".into(), ..ListQueueRequest::default() };
    while client.list_queue(queue()).await.unwrap().into_inner().waiters.is_empty() {}

    let terminated = Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap();
    assert!(terminated.success());
    let refused = waiter.await.unwrap().unwrap_err();
    assert_eq!(refusal_of(&refused).unwrap().code, "stopping");
    drop(client);
    assert_eq!(server.wait().code(), Some(0));

    let server = Process::serve(data.path(), &[]);
    let holds = server.client().await.list_holds(ListHoldsRequest::default()).await.unwrap().into_inner().holds;
    assert_eq!(holds.iter().map(|hold| hold.token).collect::<Vec<_>>(), [held.token]);
}

#[test]
fn a_second_server_on_the_same_data_refuses_to_start() {
    let data = tempfile::tempdir().unwrap();
    let _first = Process::serve(data.path(), &[]);
    let (code, error) = code_and_error(command(data.path()).output().unwrap());
    assert_eq!(code, Some(73), "{error}");
    assert!(error.starts_with("error: another server uses the data directory"), "{error}");
    assert!(error.contains("\nhint: stop that server, or choose another directory with --data"), "{error}");
}

#[test]
fn an_address_in_use_is_named_with_its_flag() {
    let data = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_tenure"));
    serve.args(["serve", "--grpc", "127.0.0.1:0", "--http", &address, "--data"]).arg(data.path());
    let (code, error) = code_and_error(serve.output().unwrap());
    assert_eq!(code, Some(69), "{error}");
    assert!(error.contains(&format!("cannot listen on {address} for HTTP")) && error.contains("--http"), "{error}");
}

#[test]
fn a_folder_of_somebody_else_is_left_alone() {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("thesis.txt"), "important").unwrap();
    let (code, error) = code_and_error(command(data.path()).output().unwrap());
    assert_eq!(code, Some(73), "{error}");
    assert!(error.contains("is not a Tenure data directory"), "{error}");
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 1, "nothing was added");
}

#[test]
fn a_bad_command_line_is_one_clear_line_and_a_hint() {
    for (arguments, said) in [
        (vec!["serve", "--durability", "perhaps"], "invalid value 'perhaps' for '--durability <WHEN>'"),
        (vec!["serve", "--grpc", "nowhere"], "invalid value 'nowhere' for '--grpc <IP:PORT>'"),
        (vec!["serve", "--history-age", "soon"], "invalid value 'soon' for '--history-age <DURATION>'"),
        (vec!["serve", "--pool-idle", "0s"], "--pool-idle"),
        (vec!["serve", "--colour"], "unexpected argument '--colour' found"),
        (vec!["swerve"], "swerve"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_tenure")).args(&arguments).output().unwrap();
        let (code, error) = code_and_error(output);
        assert_eq!(code, Some(64), "{arguments:?}: {error}");
        assert!(error.starts_with("error: ") && error.contains(said), "{arguments:?}: {error}");
        assert!(error.contains("\nhint: "), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 2, "{arguments:?}: {error}");
    }
}

#[tokio::test]
async fn a_failed_write_stops_the_process_with_a_plain_message_and_loses_nothing_answered() {
    let data = tempfile::tempdir().unwrap();
    // A process that ignores the signal gets an error when it writes past its limit, as on a full disk.
    let serve = command(data.path());
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(serve.get_program()).args(serve.get_args());
    limited.stderr(Stdio::piped());
    let mut server = Process::spawn(&mut limited);
    let mut client = server.client().await;
    let held = client.acquire(acquire("db", "alice")).await.unwrap().into_inner();

    let id = server.id().to_string();
    assert!(Command::new("prlimit").args(["--pid", &id, "--fsize=1:1"]).status().unwrap().success());
    client.acquire(acquire("other", "alice")).await.expect_err("what is not durable is not answered");
    let error = server.stderr();
    assert_eq!(server.wait().code(), Some(74), "{error}");
    assert!(
        error.contains("error: cannot write to the data directory") && error.contains("the server stops"),
        "{error}"
    );
    assert!(!error.contains("panicked"), "{error}");

    let server = Process::serve(data.path(), &[]);
    let holds = server.client().await.list_holds(ListHoldsRequest::default()).await.unwrap().into_inner().holds;
    assert_eq!(holds.iter().map(|hold| hold.token).collect::<Vec<_>>(), [held.token]);
}

#[test]
fn memory_and_os_durability_start_and_say_where_they_keep_things() {
    let data = tempfile::tempdir().unwrap();
    for (durability, made) in [("memory", false), ("os", true)] {
        let dir = data.path().join(durability);
        let _server = Process::serve(&dir, &["--durability", durability]);
        assert_eq!(dir.exists(), made, "{durability}");
    }
}

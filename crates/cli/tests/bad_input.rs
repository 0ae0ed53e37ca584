//! What cannot be done is said in one line, with a hint and the documented code, whatever was asked for and whoever
//! answers. Never a panic, never a page.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use insta::assert_snapshot;
use support::Process;
use support::job::Job;
use support::tool::{Ended, Tool};

/// Of every kind: those that make one call, those with a stream, those that watch.
const ASKING: &[&[&str]] = &[
    &["run", "db", "--", "echo", "never"],
    &["acquire", "db"],
    &["withdraw", "--request-id", "x"],
    &["rate", "calls", "--limit", "1", "--per", "1m"],
    &["elect", "chief"],
    &["elect", "--listen", "chief"],
    &["ls"],
    &["watch"],
    &["history"],
    &["pool", "set", "db", "--units", "1"],
];

/// Two lines on stderr, and nothing else. Gives them without what they begin with.
fn told(arguments: &[&str], ended: &Ended) -> (String, String) {
    assert_eq!(ended.stdout, "", "{arguments:?}: {}", ended.stderr);
    let said: Vec<_> = ended.stderr.lines().collect();
    let parts = match said[..] {
        [error, hint] => error.strip_prefix("error: ").zip(hint.strip_prefix("hint: ")),
        _ => None,
    };
    let (error, hint) = parts.unwrap_or_else(|| panic!("{arguments:?}: {}", ended.stderr));
    for told in [error, hint] {
        assert!(!told.contains("panicked") && !told.contains("RUST_BACKTRACE"), "{told}");
        assert!(!told.is_empty() && !told.contains('\u{1b}'), "{told:?}");
        assert!(told.ends_with("...") || !told.ends_with('.'), "{told:?}");
    }
    (error.to_owned(), hint.to_owned())
}

/// The commands with what they say and their codes.
fn transcript(tool: &Tool, commands: &[&[&str]]) -> String {
    let mut text = String::new();
    for arguments in commands {
        let ended = Job::start(&tool.command(arguments)).ends();
        let (error, hint) = told(arguments, &ended);
        let words: Vec<_> = arguments.iter().map(|word| short(word)).collect();
        let code = ended.code.unwrap();
        text += &format!("$ tenure {}\nerror: {error}\nhint: {hint}\n[{code}]\n\n", words.join(" "));
    }
    text
}

fn short(word: &str) -> String {
    match word.len() {
        0 => "''".to_owned(),
        100.. => format!("{}…", &word[..10]),
        _ if word.contains(|c: char| c.is_control() || " &".contains(c)) => format!("'{}'", word.escape_debug()),
        _ => word.to_owned(),
    }
}

/// All of them against one address, each with that code and an error that begins and hints so.
fn against(address: &str, code: i32, error: &str, hint: &str) {
    for arguments in ASKING {
        refused(arguments, Job::start(&Tool::at(address).command(arguments)), code, error, hint);
    }
}

fn refused(arguments: &[&str], mut job: Job, code: i32, error: &str, hint: &str) {
    let ended = job.ends();
    let (said, hinted) = told(arguments, &ended);
    assert_eq!(ended.code, Some(code), "{arguments:?}: {said}");
    assert!(said.starts_with(error), "{arguments:?}: {said:?} does not begin with {error:?}");
    assert!(hinted.starts_with(hint), "{arguments:?}: {hinted:?} does not begin with {hint:?}");
}

const START_ONE: &str = "start one with `tenure serve`, or say where it is with --addr or TENURE_ADDR";
const CHECK: &str = "check --addr or TENURE_ADDR, and `tenure --version` here and there";

#[test]
fn command_lines_that_cannot_be_read_are_explained_before_anybody_is_asked() {
    // Nobody listens there.
    let told = transcript(
        &Tool::at("127.0.0.1:1"),
        &[
            &["frobnicate"],
            &["runn", "db", "--", "true"],
            &["--frobnicate"],
            &["pool"],
            &["pool", "frobnicate"],
            &["pool", "rm"],
            &["run"],
            &["run", "db"],
            &["run", "db", "ls", "-l"],
            &["run", "db", "--"],
            &["run", "--", "true"],
            &["run", "db", "other", "--", "true"],
            &["run", "db", "--unit", "2", "--", "true"],
            &["run", "db", "--frobnicate", "--", "true"],
            &["run", "db", "-n", "-w", "3", "--", "true"],
            &["run", "db", "-n", "-n", "--", "true"],
            &["run", "db", "-w", "soon", "--", "true"],
            &["run", "db", "-w", "", "--", "true"],
            &["run", "db", "-w", "5w", "--", "true"],
            &["run", "db", "-w", "-1", "--", "true"],
            &["run", "db", "-w=-1", "--", "true"],
            &["run", "db", "-w", "nan", "--", "true"],
            &["run", "db", "-w", "inf", "--", "true"],
            &["run", "db", "-w", "99999999999999999999d", "--", "true"],
            &["run", "db", "-E", "256", "--", "true"],
            &["run", "db", "--priority", "high", "--", "true"],
            &["run", "db", "-u", "none", "--", "true"],
            &["run", "db", "-u", "-1", "--", "true"],
            &["run", "db", "-u", "4294967296", "--", "true"],
            &["run", "db", "--size", "many", "--", "true"],
            &["run", "db", "--meta", "novalue", "--", "true"],
            &["run", "db", "--meta", "=value", "--", "true"],
            &["run", "db", "--ttl", "0", "--", "true"],
            &["run", "db", "--ttl", "999ms", "--", "true"],
            &["run", "db", "--grace", "40s", "--", "true"],
            &["run", "db", "--ttl", "4s", "--grace", "2s", "--", "true"],
            &["acquire"],
            &["acquire", "db", "--kept", "--ttl", "5m"],
            &["acquire", "db", "--kept", "--owner", "me"],
            &["renew", "a-key"],
            &["renew"],
            &["release", "--key-file", "no-such-file"],
            &["pool", "set", "gpus", "--units", "1", "--place-by", "@no-such-file"],
            // Scripts may begin with a minus.
            &["pool", "set", "gpus", "--resource", "a @=1", "--place-by", "-1"],
            &["withdraw"],
            &["rate"],
            &["rate", "calls", "--limit", "5"],
            &["rate", "calls", "--limit", "0", "--per", "1m"],
            &["rate", "calls", "--limit", "5", "--per", "often"],
            &["rate", "calls", "-u", "0"],
            &["elect"],
            &["elect", "chief", "me", "--listen"],
            &["elect", "chief", "--listen", "-n"],
            &["history", "--limit", "-3"],
            &["history", "--since", "1h", "--until", "2h"],
            &["serve", "--grpc", "localhost:3144"],
            &["completions", "tcsh"],
        ],
    );
    assert_snapshot!("unreadable", told);
}

#[test]
fn what_the_server_cannot_use_is_explained_too() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let long = "x".repeat(513);
    let told = transcript(
        &Tool::of(&server),
        &[
            &["run", "", "--", "true"],
            &["run", &long, "--", "true"],
            &["run", "a\nb", "--", "true"],
            &["run", "\u{1b}[31mred", "--", "true"],
            &["run", "db", "--namespace", &long, "--", "true"],
            &["run", "db", "--namespace", "a\nb", "--", "true"],
            &["run", "db", "--holder", "", "--", "true"],
            &["run", "db", "--holder", &long, "--", "true"],
            &["run", "db", "--meta", &format!("{long}=x"), "--", "true"],
            &["run", "db", "--reason", &long, "--", "true"],
            &["run", "db", "-u", "0", "--", "true"],
            &["run", "db", "-u", "3000000000", "--", "true"],
            &["run", "db", "-u", "2", "--", "true"],
            &["run", "db", "--size", "0", "--", "true"],
            &["run", "db", "--size", "2", "-u", "3", "--", "true"],
            &["run", "db", "--priority", "1001", "--", "true"],
            &["run", "db", "--ttl", "367d", "--", "true"],
            &["run", "db", "-w", "367d", "--", "true"],
            &["run", "db", "--select", "&&", "--", "true"],
            &["run", "db", "--select", "mem >=", "--", "true"],
            &["run", "db", "--select", "gpu", "--", "true"],
            &["acquire", "db", "--ttl", "0"],
            &["acquire", "db", "--request-id", &long],
            &["acquire", "db", "--owner", ""],
            &["rate", "calls", "--limit", "3000000000", "--per", "1m"],
            &["rate", "calls", "--limit", "3", "--per", "0"],
            &["rate", "calls", "--limit", "3", "--per", "1m", "-u", "4"],
            &["elect", ""],
            &["elect", "--listen", "a\tb"],
            &["show", "nowhere"],
            &["queue", "\u{7}"],
        ],
    );
    assert_snapshot!("unusable", told);
}

#[test]
fn a_key_that_is_none_is_explained_and_not_repeated() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    for (key, what) in [
        ("", "the key is empty"),
        ("hunter2", "key is not of the form "),
        ("{\"key\":7}", "what should have the key is JSON without `key`"),
        ("{\"key\"", "what should have the key is JSON without `key`"),
    ] {
        for command in ["renew", "release"] {
            let ended = Job::start(Tool::of(&server).command(&[command]).env("TENURE_KEY", key)).ends();
            let (error, hint) = told(&[command], &ended);
            assert_eq!(ended.code, Some(64));
            assert!(error.starts_with(what) && !error.contains("hunter2") && !hint.contains("hunter2"), "{error}");
        }
    }
}

#[test]
fn addresses_that_lead_nowhere() {
    against("127.0.0.1:1", 69, "no server can be reached at 127.0.0.1:1: nothing listens there", START_ONE);
    against("nowhere.invalid:3144", 69, "no server can be reached at nowhere.invalid:3144: ", START_ONE);
    for address in ["no address", ":3144", "host:port", "127.0.0.1:0", "127.0.0.1:99999", "[::1"] {
        let error = format!("invalid value '{address}' for '--addr <HOST:PORT>': ");
        against(address, 64, &error, "it comes from the variable TENURE_ADDR");
    }
}

#[test]
fn the_port_of_the_server_that_is_for_http() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let address = server.http.strip_prefix("http://").unwrap();
    let error =
        format!("what answers at {address} is not a Tenure server of this version: it speaks HTTP and not gRPC");
    against(address, 76, &error, CHECK);
}

#[test]
fn somebody_who_never_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let error = format!("no server can be reached at {address}: it does not answer");
    // All at once: each takes a while to find out.
    let jobs: Vec<_> = ASKING.iter().map(|arguments| Job::start(&Tool::at(&address).command(arguments))).collect();
    for (arguments, job) in ASKING.iter().zip(jobs) {
        refused(arguments, job, 69, &error, START_ONE);
    }
}

#[test]
fn somebody_who_hangs_up() {
    let address = listen(|_| {});
    against(&address, 69, &format!("no server can be reached at {address}: "), START_ONE);
}

#[test]
fn somebody_who_speaks_something_else() {
    let address = listen(|socket| {
        let _ = socket.write_all(b"SSH-2.0-OpenSSH_9.9\r\n");
        let _ = std::io::copy(&mut Read::take(socket, 4096), &mut std::io::sink());
    });
    let foreign = format!("what answers at {address} is not a Tenure server of this version: ");
    against(&address, 76, &format!("{foreign}it says `SSH-2.0-OpenSSH_9.9`"), CHECK);

    let address = listen(|socket| {
        let _ = socket.write_all(b"\x16\x03\x01\x00\x05\x01");
        let _ = std::io::copy(&mut Read::take(socket, 4096), &mut std::io::sink());
    });
    let foreign = format!("what answers at {address} is not a Tenure server of this version: ");
    against(&address, 76, &format!("{foreign}it wants TLS"), CHECK);

    let address = listen(|socket| {
        let _ = socket.write_all(&[0xff; 4096]);
        let _ = std::io::copy(&mut Read::take(socket, 4096), &mut std::io::sink());
    });
    against(&address, 76, &format!("what answers at {address} is not a Tenure server of this version: "), CHECK);
}

#[test]
fn another_grpc_server() {
    let address = grpc("12", None);
    let error = format!("what answers at {address} is not a Tenure server of this version: it does not know this call");
    against(&address, 76, &error, CHECK);
    let address = grpc("16", Some("envoy"));
    against(&address, 76, &format!("what answers at {address} is not a Tenure server of this version: "), CHECK);
}

#[test]
fn a_server_of_another_version() {
    let address = grpc("12", Some("tenure/9.9.9"));
    let error = format!(
        "what answers at {address} is not a Tenure server of this version: it has version 9.9.9 and does not know this call, \
         this client has version {}",
        env!("CARGO_PKG_VERSION")
    );
    against(&address, 76, &error, CHECK);
}

/// Somebody who does this with everybody who connects, and hangs up.
fn listen(behave: impl Fn(&mut std::net::TcpStream) + Send + Sync + Copy + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || behave(&mut socket));
        }
    });
    address
}

/// A gRPC server that answers every call with this status, and says what it is.
fn grpc(status: &'static str, name: Option<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let answer = hyper::service::service_fn(move |_: Request<Incoming>| async move {
                    let mut answer =
                        Response::builder().header("content-type", "application/grpc").header("grpc-status", status);
                    if let Some(name) = name {
                        answer = answer.header("server", name);
                    }
                    Ok::<_, Infallible>(answer.body(Empty::<Bytes>::new()).unwrap())
                });
                let connection = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                tokio::spawn(async move { drop(connection.serve_connection(TokioIo::new(socket), answer).await) });
            }
        });
    });
    address
}

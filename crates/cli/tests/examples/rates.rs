//! Never more requests in any window than the limit, over a restart of the server too.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use crate::stage::{Stage, With};
use crate::support::job::{Job, until};
use crate::window::{Request, check, now};

/// The documented numbers are 30 and 60 s, which nobody wants to wait for.
const LIMIT: usize = 3;
const WINDOW: &str = "3";
const WINDOW_MS: u64 = 3000;

#[test]
fn clients_that_wait_for_their_turn_keep_to_the_rate_over_a_restart() {
    clients(With::Tenure, "expensive-service-rate");
}

#[test]
fn clients_of_ldlm_that_wait_for_their_turn_keep_to_the_rate_over_a_restart() {
    clients(With::Ldlm, "expensive-service");
}

fn clients(with: With, pool: &str) {
    let mut stage = Stage::new();
    let arguments = ["--limit", &LIMIT.to_string(), "--per", WINDOW, "--requests", "4"];
    let clients: Vec<Job> = (0..2).map(|_| stage.start("client-rate-limiting", with, &arguments)).collect();
    let requests = || -> Vec<Request> {
        // The last line may not be whole yet.
        let said = clients.iter().map(Job::said);
        let whole = said.map(|text| text[..text.rfind('\n').map_or(0, |end| end + 1)].to_owned());
        whole.collect::<String>().lines().map(Request::parse).collect()
    };
    until("the window is full", || requests().len() >= LIMIT);
    stage.restart();
    until("all were allowed", || requests().len() == 8);
    check(LIMIT, WINDOW_MS, &requests(), &stage.history(pool));
}

#[test]
fn a_script_that_answers_429_keeps_to_the_rate_over_a_restart() {
    let mut stage = Stage::new();
    let arguments = ["--limit", &LIMIT.to_string(), "--per", WINDOW];
    service(&mut stage, "generate-image-rate", |stage| {
        let answer = stage.start("server-rate-limiting", With::Tenure, &arguments).ends();
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        status(&answer.stdout, "Status: ")
    });
}

#[test]
fn a_service_that_answers_429_keeps_to_the_rate_over_a_restart() {
    let mut stage = Stage::new();
    let arguments = ["--api", &stage.api(), "--port", "0", "--limit", &LIMIT.to_string(), "--per", WINDOW];
    let job = stage.python("server-rate-limiting/with_tenure.py", &arguments);
    let address = address(&job);
    service(&mut stage, "generate-image-rate", |_| {
        let answer = get(&address);
        let status = status(&answer, "HTTP/1.0 ");
        assert_eq!(status == 429, answer.to_lowercase().contains("\nretry-after: "), "{answer}");
        status
    });
}

#[test]
fn a_service_with_the_client_of_ldlm_that_answers_429_keeps_to_the_rate_over_a_restart() {
    let mut stage = Stage::new();
    let arguments = ["--port", "0", "--limit", &LIMIT.to_string(), "--per", WINDOW];
    let job = stage.start("server-rate-limiting", With::Ldlm, &arguments);
    let address = address(&job);
    service(&mut stage, "generate-image", |_| status(&get(&address), "HTTP/1.0 "));
}

/// Asks until there is no room, restarts the server, and asks on until there was room in two more windows.
fn service(stage: &mut Stage, pool: &str, ask: impl Fn(&Stage) -> u32) {
    let mut allowed = Vec::new();
    let mut ask = |stage: &Stage| {
        let asked = now();
        let status = ask(stage);
        match status {
            200 => allowed.push(Request { asked, allowed: now() }),
            // Many would only be work; 503 is while the server is away.
            429 | 503 => thread::sleep(Duration::from_millis(20)),
            other => panic!("answered {other}"),
        }
        (status, allowed.len())
    };
    until("there is no room", || ask(stage).0 == 429);
    stage.restart();
    until("there was room again", || ask(stage).1 >= 3 * LIMIT);
    check(LIMIT, WINDOW_MS, &allowed, &stage.history(pool));
}

/// Where a service says that it listens.
fn address(job: &Job) -> String {
    job.says("\n");
    job.said().trim().strip_prefix("http://").unwrap().to_owned()
}

fn get(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn status(answer: &str, before: &str) -> u32 {
    let code = answer.strip_prefix(before).and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
    code.unwrap_or_else(|| panic!("{answer:?} has a status"))
}

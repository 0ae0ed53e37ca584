//! The console in a real Chromium, at the real binary. Each flow is a script in `node/`, which says a line for each fact it has
//! seen and fails where it sees something else, or the browser complains; the tests stage what happens around it.
//!
//! With `TENURE_CONSOLE_PICTURES=1` the flows leave pictures in `docs/console`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crowd;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::door::Door;
use support::job::Job;
use support::tool::Ended;
use support::{Process, command, tools};
use tempfile::TempDir;

#[test]
fn a_holder_appears_and_leaves_without_a_reload() {
    let (server, _data) = server();
    let facts = [
        "an empty server says what to type",
        "a pool appears in the overview",
        "waiters appear with the reason why they wait",
        "a release goes to the next, and the page shows it",
        "a holder shows all that it has and waits for",
        "history and sessions go on by themselves",
    ];
    assert_sees(&flow("live.js", &server.http), &facts);
}

#[test]
fn an_operator_is_told_what_will_happen_and_refused_when_it_is_too_late() {
    let (server, _data) = server();
    let facts = [
        "a forced release names who loses what, and who gets it",
        "a forced release that comes too late is refused, and says so",
        "a forced release in time is done, with its reason in the history",
        "a drained pool that is quarantined meanwhile is not returned by accident",
        "a pool is drained, quarantined and returned",
        "a pool is resized, unless its size is another by now",
        "one resource is quarantined, and its holder keeps it",
    ];
    assert_sees(&flow("operate.js", &server.http), &facts);
}

#[test]
fn an_operator_changes_who_is_served_next_unless_it_is_too_late() {
    let (server, _data) = server();
    let facts = [
        "a resource is reserved, and those who wait are told so",
        "a reservation that is another's by now is not ended",
        "a resource is quarantined for a time, and says when it returns",
        "a waiter is moved to the front",
        "a waiter is moved before another, unless that one waits no longer",
        "a hold that has moved on is not given to another",
        "a hold is given to another, with its key",
        "turns and cleaning of a pool are told, and what is dirty",
        "a set shows what it has and wants of further pools",
    ];
    assert_sees(&flow("reorder.js", &server.http), &facts);
}

#[test]
fn a_restart_of_the_server_is_shown_and_caught_up_with() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Process::serve(data.path(), &[]);
    let address = |server: &Process| server.http.trim_start_matches("http://").to_owned();
    let door = Door::to(&address(&server));
    let mut script = Job::start(&flow("restart.js", &format!("http://{}", door.address)));
    script.says("live\n");
    server.kill();
    script.hears("killed\n");
    script.says("stale\n");
    let server = Process::serve(data.path(), &[]);
    door.leads_to(&address(&server));
    script.hears("back\n");
    let facts =
        ["live", "stale", "live again, from the last event that was seen", "an answer that is broken off is none"];
    assert_saw(&script.ends(), &facts);
}

#[test]
fn ten_thousand_pools_and_a_queue_of_a_hundred_thousand_are_shown() {
    let (server, _data) = server();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _crowd = runtime.block_on(crowd::gather(&server, 10_000, 100_000));
    let facts = [
        "ten thousand pools are listed, the most contended first",
        "the last of them can be scrolled to",
        "one is found by a part of its name",
        "a queue of a hundred thousand shows its first at once",
        "and its last can be scrolled to",
        "and it is still live",
    ];
    let mut script = Job::start(&flow("large.js", &server.http));
    // Each may take its time on a busy machine.
    for fact in facts {
        script.says(fact);
    }
    assert_saw(&script.ends(), &facts);
}

#[test]
fn everything_can_be_done_by_keyboard() {
    let (server, _data) = server();
    let facts = [
        "the first stop leads past the header",
        "the keys explain themselves",
        "rows are chosen and opened",
        "a lock is released by force",
        "every view has its key",
    ];
    assert_sees(&flow("keyboard.js", &server.http), &facts);
}

#[test]
fn it_can_be_read_on_a_phone_in_the_dark_and_by_a_screen_reader() {
    let (server, _data) = server();
    let facts = [
        "times are those of the reader's zone",
        "what is left is counted down",
        "light and dark follow the reader",
        "every control has a name",
        "no view scrolls sideways on a phone",
        "nothing stands in the way of those who cannot see it, or not well",
    ];
    assert_sees(&flow("look.js", &server.http), &facts);
}

#[test]
fn things_are_found_and_their_addresses_can_be_shared() {
    let (server, _data) = server();
    let facts = [
        "pools and resources are found by name",
        "resources are found by a label",
        "holds, waits and sessions are found by what their holders say",
        "the history is filtered by pool, kind and holder, and drawn",
        "its address can be shared",
        "and by time",
        "a pool may have any name",
        "another namespace is another world",
    ];
    assert_sees(&flow("find.js", &server.http), &facts);
}

#[test]
fn a_server_with_a_password_asks_for_it_once() {
    let data = tempfile::tempdir().unwrap();
    let mut serve = command(data.path());
    let server = Process::spawn(serve.args(["--durability", "memory"]).env("TENURE_PASSWORD", "s3:cret"));
    let mut script = flow("password.js", &server.http);
    script.env("TENURE_PASSWORD", "s3:cret");
    assert_sees(&script, &["without the password nothing is shown", "with it the page is live"]);
}

/// A server that keeps nothing.
fn server() -> (Process, TempDir) {
    let data = tempfile::tempdir().unwrap();
    (Process::serve(data.path(), &["--durability", "memory"]), data)
}

fn flow(script: &str, base: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(here("node").join(script)).arg(base).env("NODE_PATH", tools::browser());
    match std::env::var_os("TENURE_CONSOLE_PICTURES") {
        Some(_) => command.env("TENURE_CONSOLE_PICTURES", here("../../../../docs/console")),
        None => command.env_remove("TENURE_CONSOLE_PICTURES"),
    };
    command
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/console").join(path)
}

/// The script ends well, and has seen just these facts.
fn assert_sees(script: &Command, facts: &[&str]) {
    assert_saw(&Job::start(script).ends(), facts);
}

fn assert_saw(Ended { code, stdout, stderr }: &Ended, facts: &[&str]) {
    assert_eq!(*code, Some(0), "it said\n{stdout}\nand complained\n{stderr}");
    assert_eq!(stdout.lines().collect::<Vec<_>>(), facts, "{stderr}");
}

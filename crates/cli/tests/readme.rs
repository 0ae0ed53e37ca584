//! The transcripts in our pages work: their commands are run against a real server, and print what they say.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use support::Process;

const README: &str = include_str!("../../../README.md");
const API: &str = include_str!("../../../docs/api.md");
const CLI: &str = include_str!("../../../docs/cli.md");
const LDLM: &str = include_str!("../../../docs/ldlm.md");
const OPERATIONS: &str = include_str!("../../../docs/operations.md");
const PLACEMENT: &str = include_str!("../../../docs/placement.md");
/// Where the server of the pages listens; the test's server listens elsewhere.
const HTTP: &str = "http://127.0.0.1:3180";

#[test]
fn the_transcripts_of_the_readme_are_true() {
    assert!(check(README) >= 9);
}

#[test]
fn the_transcripts_of_the_api_page_are_true() {
    assert!(check(API) >= 4);
}

#[test]
fn the_transcripts_of_the_command_line_page_are_true() {
    assert!(check(CLI) >= 4);
}

#[test]
fn the_transcripts_of_the_page_for_those_who_come_from_ldlm_are_true() {
    assert!(check(LDLM) >= 5);
}

#[test]
fn the_transcripts_of_the_operations_page_are_true() {
    assert!(check(OPERATIONS) >= 4);
}

#[test]
fn the_transcripts_of_the_page_on_scripts_are_true() {
    assert!(check(PLACEMENT) >= 5);
}

/// Gives how many commands were run.
fn check(page: &str) -> usize {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &[]);
    let mut background = Vec::new();
    let mut checked = 0;
    for (command, expected) in transcripts(page) {
        if command.starts_with("cargo ") || command.starts_with("export PATH=") {
            // Building it again inside a test would test cargo; what it prints is tested with the binary.
            continue;
        }
        checked += 1;
        if let Some(command) = command.strip_suffix(" &") {
            background.push(Background::start(&server, command));
            continue;
        }
        let run = shell(&server, &format!("{{ {command}\n}} 2>&1")).output().unwrap();
        let printed = String::from_utf8(run.stdout).unwrap();
        assert!(matches(&expected, printed.trim_end()), "$ {command}\nprinted:  {printed}\nexpected: {expected}");
    }
    checked
}

fn shell(server: &Process, command: &str) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_tenure"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command.replace(HTTP, &server.http));
    // As from a checkout: some pages use files of ours.
    shell.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    shell.env("PATH", path).env("TENURE_ADDR", &server.grpc).stdin(Stdio::null());
    shell
}

/// A command that goes on while the next ones are run.
struct Background(Child);

impl Background {
    /// It has begun when it holds something.
    fn start(server: &Process, command: &str) -> Self {
        let holds = || shell(server, "tenure holds --json").output().unwrap().stdout;
        let before = holds();
        let child = shell(server, &format!("exec {command}")).stdout(Stdio::null()).spawn().unwrap();
        while holds() == before {
            std::thread::yield_now();
        }
        Self(child)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The command that it runs is stopped by its guard.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Commands with what they print, from the `console` blocks.
fn transcripts(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match (inside, line.strip_prefix("$ ")) {
            (_, _) if line.starts_with("```") => inside = line == "```console",
            (true, Some(command)) => found.push((command.to_owned(), String::new())),
            (true, None) => {
                let (_, printed) = found.last_mut().expect("a block starts with a command");
                if !printed.is_empty() {
                    printed.push('\n');
                }
                printed.push_str(line);
            }
            (false, _) => {}
        }
    }
    found
}

/// `…` stands for anything. How wide the columns of a table are does not matter.
fn matches(pattern: &str, text: &str) -> bool {
    let narrow = |text: &str| {
        let lines =
            text.lines().map(|line| line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let (pattern, text) = (&*narrow(pattern), &*narrow(text));
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        last = Some(part);
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || last.is_some_and(|part| part.is_empty() || text.ends_with(part))
}

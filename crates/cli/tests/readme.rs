//! The transcripts in our pages work: their commands are run against a real server, and print what they say.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::process::Command;

use support::Process;

const README: &str = include_str!("../../../README.md");
const API: &str = include_str!("../../../docs/api.md");
/// Where the server of the pages listens; the test's server listens elsewhere.
const HTTP: &str = "http://127.0.0.1:3180";

#[test]
fn the_transcripts_of_the_readme_are_true() {
    check(README);
}

#[test]
fn the_transcripts_of_the_api_page_are_true() {
    check(API);
}

fn check(page: &str) {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &[]);
    let mut checked = 0;
    for (command, expected) in transcripts(page) {
        if command.starts_with("cargo run") {
            // Building it again inside a test would test cargo; what it prints is tested with the binary.
            continue;
        }
        let run = Command::new("sh").arg("-c").arg(command.replace(HTTP, &server.http)).output().unwrap();
        let printed = String::from_utf8(run.stdout).unwrap();
        assert!(matches(&expected, printed.trim_end()), "$ {command}\nprinted:  {printed}\nexpected: {expected}");
        checked += 1;
    }
    assert!(checked >= 4, "the page has transcripts");
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

/// `…` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
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

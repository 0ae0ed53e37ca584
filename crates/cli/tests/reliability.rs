//! What the reliability page says of tests is so: every case of another system's bug is in its table, and every test and
//! scenario that it names is there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../../docs/reliability.md");
/// What must not be missing, however the table is edited.
const CASES: [&str; 18] = [
    "etcd#22082",
    "etcd#11456",
    "etcd#16221",
    "etcd#9888",
    "etcd#13294",
    "etcd#15247",
    "redisson#6664",
    "pool-resource#73",
    "curator#1121",
    "argo-workflows#8684",
    "nvcf#975",
    "consul#9788",
    "etcdctl lock",
    "LDLM, times",
    "LDLM, start",
    "samples-python resource_pool, leak",
    "samples-python resource_pool, recovery",
    "samples-python resource_pool, one bad user",
];

#[test]
fn every_bug_of_others_has_a_case_and_every_case_is_there() {
    let rows = rows("Bugs of others");
    for case in CASES {
        assert!(rows.iter().any(|row| names(row[0]).contains(&case)), "no row has the case {case}");
    }
    for row in rows {
        let [case, _, ours] = row[..] else { panic!("a row has another number of cells: {row:?}") };
        let named: Vec<_> = ours.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{case} names no test");
        for name in named {
            assert!(exists(name), "{case} names {name}, which is not there");
        }
    }
}

#[test]
fn what_is_not_there_is_found_missing() {
    assert!(exists("scenarios/regressions.txt: etcd 22082"));
    assert!(!exists("scenarios/regressions.txt: etcd 22"), "it is part of a word");
    assert!(!exists("scenarios/regressions.txt: retried unlock"), "a claim does not begin so");
    assert!(exists("crates/cli/tests/run_safety.rs::while_the_wrapper_is_paused"));
    assert!(!exists("crates/cli/tests/run_safety.rs::while_the_wrapper"), "it is part of a name");
    assert!(!exists("crates/cli/tests/run_safety.rs::until"), "it is no test");
    assert!(!exists("crates/cli/tests/none.rs::while_the_wrapper_is_paused"));
}

/// The cells of the rows of the table under a heading.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).expect("the page has that heading");
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.skip(2).map(|row| row.split(" | ").collect()).collect()
}

/// `etcd#1, etcd#2` are two; a comma before words is part of the name.
fn names(cell: &str) -> Vec<&str> {
    if cell.contains('#') { cell.split(", ").collect() } else { vec![cell] }
}

/// A scenario as `file: how its claim begins`, or a test as `file::name`.
fn exists(name: &str) -> bool {
    let read = |file: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file));
    if let Some((file, test)) = name.split_once("::") {
        let Ok(text) = read(file) else { return false };
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        let is_it = |line: &str| {
            let line = line.strip_prefix("async ").unwrap_or(line);
            line.strip_prefix("fn ").and_then(|rest| rest.strip_prefix(test)).is_some_and(|rest| rest.starts_with('('))
        };
        return lines.iter().enumerate().any(|(number, line)| is_it(line) && is_test(&lines[..number]));
    }
    let (file, claim) = name.split_once(": ").expect("a scenario is named by its file and claim");
    let begins = |line: &str| {
        let rest = line.strip_prefix("# ").and_then(|line| line.strip_prefix(claim));
        rest.is_some_and(|rest| rest.starts_with([':', '.', ',']))
    };
    read(file).is_ok_and(|text| text.lines().any(begins))
}

/// Whether the attributes right above it say so.
fn is_test(above: &[&str]) -> bool {
    let attributes = above.iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("///"));
    attributes.into_iter().any(|line| line.starts_with("#[test") || line.starts_with("#[tokio::test"))
}

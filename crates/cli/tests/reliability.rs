//! What the reliability page says of tests is so: every case of another system's bug is in its table, every test and
//! scenario that it names is there, and so are the decoders that are fed, their corpora and the simulator's plans.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../../docs/reliability.md");
/// Where `cargo xtask fuzz` has the packages that it goes through.
const XTASK: &str = include_str!("../../../xtask/src/main.rs");
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
        let named = quoted(ours);
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

#[test]
fn every_decoder_that_is_fed_is_in_the_table_and_has_a_corpus() {
    let named: BTreeSet<_> = rows("Fuzzing").iter().flat_map(|row| quoted(row[1])).map(str::to_owned).collect();
    let folders: BTreeSet<_> = entries("crates/fuzz/corpus").iter().map(|folder| file_name(folder)).collect();
    assert_eq!(named, folders, "those in the table, and those with a corpus");
    for folder in entries("crates/fuzz/corpus") {
        assert!(!entries_of(&folder).is_empty(), "{} is empty", folder.display());
    }
    let mut fed = BTreeSet::new();
    for package in entries("crates") {
        let targets: Vec<_> = sources(&package).iter().flat_map(|text| targets(text)).collect();
        let name = match file_name(&package) {
            name if name == "cli" => "tenure".to_owned(),
            name => format!("tenure-{name}"),
        };
        assert!(targets.is_empty() || fuzzed().contains(&name), "`cargo xtask fuzz` leaves out {name}");
        fed.extend(targets);
    }
    assert_eq!(named, fed, "those in the table, and those that tests feed");
}

#[test]
fn every_plan_that_failed_once_is_in_the_track_record() {
    let files: BTreeSet<_> = entries("crates/sim/tests/seeds").iter().map(|file| file_name(file)).collect();
    let plans = rows("Track record").iter().flat_map(|row| quoted(row[1])).map(str::to_owned).collect();
    assert_eq!(files, plans, "the plans in crates/sim/tests/seeds, and those in the table");
}

/// The cells of the rows of the first table under a heading.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(&format!("# {heading}\n")).expect("the page has that heading");
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.skip(2).map(|row| row.split(" | ").collect()).collect()
}

/// What is between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// What is in a folder of the repository.
fn entries(folder: &str) -> Vec<PathBuf> {
    entries_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder))
}

fn entries_of(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// The texts of the Rust files below a folder.
fn sources(folder: &Path) -> Vec<String> {
    let (folders, files): (Vec<_>, Vec<_>) = entries_of(folder).into_iter().partition(|path| path.is_dir());
    let files = files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    let texts = files.map(|file| fs::read_to_string(file).unwrap());
    texts.chain(folders.iter().flat_map(|folder| sources(folder))).collect()
}

/// The names of what a file feeds.
fn targets(text: &str) -> Vec<String> {
    let calls = text.lines().filter_map(|line| line.trim_start().strip_prefix("fuzz(\""));
    calls.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

/// The packages that `cargo xtask fuzz` goes through.
fn fuzzed() -> Vec<String> {
    let (_, list) = XTASK.split_once("const FUZZING").expect("it has that list");
    let words: Vec<_> = list.split("];").next().unwrap().split('"').skip(1).step_by(2).collect();
    words.windows(2).filter(|two| two[0] == "--package").map(|two| two[1].to_owned()).collect()
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

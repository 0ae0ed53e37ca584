//! What `--help` says of every command, and that the pages about the command line agree with it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;

use insta::assert_snapshot;
use support::Process;
use support::tool::Tool;

const PAGE: &str = include_str!("../../../docs/cli.md");

/// What a command says of itself, as it would be shown to people; which server they mean is left out.
fn help(command: &[String], flag: &str) -> String {
    let mut arguments: Vec<_> = command.iter().map(String::as_str).collect();
    arguments.push(flag);
    let told = Tool::at("[address]").printed(&arguments);
    told.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The commands that a command lists, with their summaries.
fn commands(help: &str) -> Vec<(String, String)> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A summary that does not fit goes on, further in.
    let listed = listed.filter(|line| !line.starts_with("    "));
    let listed = listed.map(|line| line.trim().split_once(' ').unwrap_or((line.trim(), "")));
    listed
        .filter(|(name, _)| *name != "help")
        .map(|(name, summary)| (name.to_owned(), summary.trim().to_owned()))
        .collect()
}

/// Every command, groups of commands too, with its long help.
fn walk() -> Vec<(Vec<String>, String)> {
    let mut all = Vec::new();
    let mut ahead = vec![vec![]];
    while let Some(command) = ahead.pop() {
        let told = help(&command, "--help");
        ahead.extend(commands(&told).into_iter().map(|(name, _)| [command.as_slice(), &[name]].concat()));
        all.push((command, told));
    }
    assert!(all.len() > 20, "{all:?}");
    all
}

#[test]
fn every_command_explains_itself() {
    for (command, told) in walk() {
        let name = if command.is_empty() { "tenure".to_owned() } else { command.join("-") };
        assert_snapshot!(name, told);
    }
}

#[test]
fn the_short_help_is_a_part_of_the_long_one() {
    assert_snapshot!("short", help(&[], "-h"));
    for (command, long) in walk() {
        let short = help(&command, "-h");
        assert!(short.len() <= long.len(), "{command:?}");
        assert_eq!(short.lines().next(), long.lines().next(), "{command:?}");
    }
}

#[test]
fn every_command_has_a_summary_that_is_a_verb_first_and_no_sentence() {
    for (command, told) in walk() {
        for (name, summary) in commands(&told) {
            assert!(summary.starts_with(char::is_uppercase), "{command:?} {name}: {summary}");
            assert!(!summary.ends_with('.'), "{command:?} {name}: {summary}");
        }
    }
}

#[test]
fn every_command_has_an_example_to_paste() {
    for (command, told) in walk().into_iter().filter(|(command, told)| !command.is_empty() && commands(told).is_empty())
    {
        let (_, examples) = told.split_once("\nExample").unwrap_or_else(|| panic!("{command:?} has no example"));
        let call = format!("tenure {}", command.join(" "));
        assert!(examples.contains(&call), "no example of {command:?} says `{call}`");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = format!("tenure {}\n", env!("CARGO_PKG_VERSION"));
    for flag in ["--version", "-V"] {
        assert_eq!(help(&[], flag), version);
    }
}

#[test]
fn help_is_asked_for_in_any_way_people_try() {
    assert_eq!(help(&["help".to_owned()], "run"), help(&["run".to_owned()], "--help"));
    assert_eq!(help(&["help".to_owned()], "pool"), help(&["pool".to_owned()], "--help"));
    assert_eq!(help(&["pool".to_owned(), "help".to_owned()], "set"), help(&["pool".into(), "set".into()], "--help"));
}

#[test]
fn the_exit_codes_of_the_page_are_those_of_the_help() {
    let help = help(&[], "--help");
    let (_, told) = help.split_once("Exit codes:\n").unwrap();
    let told: Vec<(&str, String)> = told.lines().fold(Vec::new(), |mut codes, line| {
        let (code, meaning) = line.trim().split_once(' ').unwrap();
        match codes.last_mut() {
            // A line that did not fit goes on.
            Some((_, before)) if !code.starts_with(|c: char| c.is_ascii_digit()) => {
                *before += &format!(" {}", line.trim())
            }
            _ => codes.push((code, meaning.trim().to_owned())),
        }
        codes
    });
    let written: Vec<_> = table("## Exit codes").into_iter().map(|row| (row[0], row[1].to_owned())).collect();
    assert_eq!(written, told);
}

#[test]
fn the_variables_of_the_page_are_those_that_a_command_gets() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &["--durability", "memory"]);
    let tool = Tool::of(&server);
    tool.printed(&["pool", "set", "gpus", "--resource", "a mem=80 @host=rack-3"]);
    tool.printed(&["pool", "set", "disks", "--resource", "b @host=rack-4"]);
    let environment = tool.printed(&["run", "gpus", "-p", "disks", "--", "env"]);
    let mut set: BTreeSet<_> = environment
        .lines()
        .map(|line| line.split('=').next().unwrap())
        .filter(|name| name.starts_with("TENURE_"))
        .collect();
    assert!(set.remove("TENURE_RESOURCE_0_LABEL_MEM"));
    let written = table("### The command's environment");
    let written: BTreeSet<_> = written.iter().flat_map(|row| row[0].split('`').skip(1).step_by(2)).collect();
    assert_eq!(written, set);
}

#[test]
fn the_page_names_every_command() {
    let written = table("# Command line");
    let written: BTreeSet<_> = written.iter().flat_map(|row| row[1].split('`').skip(1).step_by(2)).collect();
    let leaves = walk().into_iter().filter(|(command, told)| !command.is_empty() && commands(told).is_empty());
    for (command, _) in leaves {
        assert!(written.contains(command.join(" ").as_str()), "`{}` is missing", command.join(" "));
    }
}

/// The cells of the first table after a heading of the page.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, rest) = PAGE.split_once(&format!("{heading}\n")).unwrap();
    let rows = rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2).map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

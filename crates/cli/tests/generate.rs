//! Completions and manual pages: shells and readers of pages take them, and they know every command.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const TENURE: &str = env!("CARGO_BIN_EXE_tenure");

fn printed(arguments: &[&str]) -> String {
    succeeded(Command::new(TENURE).args(arguments).output().unwrap())
}

fn succeeded(output: Output) -> String {
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && error.is_empty(), "{}: {error}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The names of the commands below this one, as its help has them.
fn commands(of: &[&str]) -> BTreeSet<String> {
    let help = printed(&[of, &["--help"]].concat());
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return BTreeSet::new() };
    let list = list.lines().take_while(|line| !line.is_empty());
    // Names stand two spaces in; what a long description goes on with stands further in.
    let names = list.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    names.filter_map(|line| line.split(' ').next()).filter(|name| *name != "help").map(str::to_owned).collect()
}

/// What bash offers for the last of these words.
fn completed_by_bash(words: &[&str]) -> BTreeSet<String> {
    // As bash does it: the function of the command gets the command, the word and the word before.
    let code = r#"
        source <("$1" completions bash)
        shift
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        function=$(complete -p tenure | sed 's/.*-F \([^ ]*\).*/\1/')
        "$function" tenure "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let output = Command::new("bash").args(["-c", code, "bash", TENURE]).args(words).output().unwrap();
    succeeded(output).lines().map(str::to_owned).collect()
}

#[test]
fn bash_accepts_its_script() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.bash");
    std::fs::write(&path, printed(&["completions", "bash"])).unwrap();
    assert_eq!(succeeded(Command::new("bash").arg("-n").arg(&path).output().unwrap()), "");
}

#[test]
fn bash_completes_commands_options_and_values() {
    let offered = completed_by_bash(&["tenure", ""]);
    let all = commands(&[]);
    assert!(all.contains("serve") && all.is_subset(&offered), "{offered:?}");
    assert!(offered.iter().all(|word| !word.starts_with("__")), "{offered:?}");
    assert_eq!(completed_by_bash(&["tenure", "serv"]), ["serve".to_owned()].into());
    assert_eq!(
        completed_by_bash(&["tenure", "serve", "--hist"]),
        ["--history-age", "--history-bytes"].map(String::from).into()
    );
    assert_eq!(
        completed_by_bash(&["tenure", "serve", "--durability", ""]),
        ["memory", "os", "sync"].map(String::from).into()
    );
    assert!(completed_by_bash(&["tenure", "completions", ""]).contains("fish"));
}

#[test]
fn every_shell_has_a_script_that_knows_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["completions", shell]);
        for command in commands(&[]) {
            assert!(script.contains(&command), "{shell} does not know {command}");
        }
    }
}

#[test]
fn every_command_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("man1");
    assert_eq!(printed(&["man", "--dir", dir.to_str().unwrap()]), "");
    let mut expected = BTreeSet::from(["tenure.1".to_owned()]);
    for command in commands(&[]) {
        expected.extend(commands(&[&command]).iter().map(|below| format!("tenure-{command}-{below}.1")));
        expected.insert(format!("tenure-{command}.1"));
    }
    let pages: BTreeSet<String> =
        std::fs::read_dir(&dir).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(pages, expected);
    for page in &pages {
        check_page(&dir.join(page));
    }
    assert_eq!(printed(&["man"]), std::fs::read_to_string(dir.join("tenure.1")).unwrap());
}

fn check_page(path: &Path) {
    let page = std::fs::read_to_string(path).unwrap();
    let name = path.file_stem().unwrap().to_str().unwrap();
    let source = concat!("\"tenure ", env!("CARGO_PKG_VERSION"), "\"");
    assert!(page.contains(&format!(".TH {name} 1  {source}")), "{page}");
    for section in [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS"] {
        assert!(page.lines().any(|line| line == section), "{name} has no {section}");
    }
    // Not every machine has a formatter; one that has it tells what it does not understand.
    if let Ok(formatted) = Command::new("groff").args(["-Kutf8", "-man", "-Tutf8", "-ww"]).arg(path).output() {
        let text = succeeded(formatted);
        assert!(text.contains(name.split('-').next_back().unwrap()), "{text}");
        if name == "tenure-completions" {
            assert!(text.contains("Example:\n         source <(tenure completions bash)\n"), "{text}");
        }
    }
}

#[test]
fn pages_that_cannot_be_written_are_an_error_that_names_where() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = Command::new(TENURE).args(["man", "--dir"]).arg(&file).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(74), "{error}");
    assert!(error.starts_with("error: ") && error.contains(file.to_str().unwrap()), "{error}");
    assert_eq!(error.lines().count(), 2, "{error}");
}

#[test]
fn a_reader_that_goes_away_is_not_an_error() {
    for arguments in [&["completions", "zsh"][..], &["man"], &["serve", "--config", "/dev/null", "--print-config"]] {
        let mut child = Command::new(TENURE).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert!(child.wait().unwrap().success(), "{arguments:?}");
    }
}

//! The server's settings: where they come from, what is said of bad ones, and what `--print-config` shows of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use support::Process;

const OPERATIONS: &str = include_str!("../../../docs/operations.md");

/// `tenure` with these arguments in this folder, whatever the environment of the tests says.
fn tenure(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(arguments).current_dir(folder);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TENURE_")) {
        command.env_remove(name);
    }
    command
}

/// Each setting's value as it stands in the output, and its source.
fn printed(command: &mut Command) -> BTreeMap<String, (String, String)> {
    let (code, text, error) = ended(command.arg("--print-config").output().unwrap());
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let settings = text.lines().map(|line| {
        let (setting, source) = line.rsplit_once("# ").unwrap();
        let (key, value) = setting.split_once(" = ").unwrap();
        (key.to_owned(), (value.trim_end().to_owned(), source.to_owned()))
    });
    settings.collect()
}

fn ended(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).expect("it speaks UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Fails with this code and exactly these two lines.
fn assert_fails(command: &mut Command, code: i32, error: &str, hint: &str) {
    let (ended, stdout, stderr) = ended(command.output().unwrap());
    assert_eq!(stderr, format!("error: {error}\nhint: {hint}\n"));
    assert_eq!((ended, stdout.as_str()), (Some(code), ""), "{stderr}");
}

fn pair(value: &str, source: &str) -> (String, String) {
    (value.to_owned(), source.to_owned())
}

#[test]
fn a_flag_wins_over_a_variable_that_over_the_file_and_that_over_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let file = "# ours\ngrpc = \"127.0.0.1:1\"\nhttp = \"127.0.0.1:1\"\n\nhistory_age = \"2d\"\npools_max = 0x10\n";
    std::fs::write(folder.path().join("tenure.toml"), file).unwrap();
    for arguments in [&["serve", "--grpc", "127.0.0.1:3"][..], &["--grpc=127.0.0.1:3"]] {
        let mut command = tenure(folder.path(), arguments);
        let settings = printed(command.env("TENURE_GRPC", "127.0.0.1:2").env("TENURE_HTTP", "127.0.0.1:2"));
        assert_eq!(settings["grpc"], pair("\"127.0.0.1:3\"", "--grpc"));
        assert_eq!(settings["http"], pair("\"127.0.0.1:2\"", "TENURE_HTTP"));
        assert_eq!(settings["history_age"], pair("\"2d\"", "tenure.toml, line 5"));
        assert_eq!(settings["pools_max"], pair("16", "tenure.toml, line 6"));
        assert_eq!(settings["data"], pair("\"tenure-data\"", "default"));
    }
}

#[test]
fn a_file_is_named_by_flag_or_variable_and_the_flag_wins() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["tenure.toml", "variable.toml", "flag.toml"] {
        std::fs::write(folder.path().join(name), format!("data = \"from {name}\"")).unwrap();
    }
    let data = |command: &mut Command| printed(command)["data"].1.clone();
    assert_eq!(data(&mut tenure(folder.path(), &["serve"])), "tenure.toml, line 1");
    let mut command = tenure(folder.path(), &["serve"]);
    assert_eq!(data(command.env("TENURE_CONFIG", "variable.toml")), "variable.toml, line 1");
    let mut command = tenure(folder.path(), &["serve", "--config", "flag.toml"]);
    assert_eq!(data(command.env("TENURE_CONFIG", "variable.toml")), "flag.toml, line 1");
    assert_eq!(data(&mut tenure(folder.path(), &["serve", "--config", "/dev/null"])), "default");
}

#[test]
fn what_is_printed_is_a_file_that_gives_the_same_values() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--data", "a \"quoted\"\\folder # 1\n", "--log", "warn", "--mailbox-max", "7"];
    let values = |settings: BTreeMap<String, (String, String)>| -> BTreeMap<String, String> {
        settings.into_iter().map(|(key, (value, _))| (key, value)).collect()
    };
    let first = values(printed(&mut tenure(folder.path(), &arguments)));
    let (_, text, _) = ended(tenure(folder.path(), &arguments).arg("--print-config").output().unwrap());
    std::fs::write(folder.path().join("copy.toml"), text).unwrap();

    let again = printed(&mut tenure(folder.path(), &["serve", "--config", "copy.toml"]));
    assert_eq!(again["data"].0, r#""a \"quoted\"\\folder # 1\n""#);
    assert!(again.values().all(|(_, source)| source.starts_with("copy.toml, line ")), "{again:?}");
    assert_eq!(values(again), first);
}

#[test]
fn printing_opens_neither_data_nor_ports() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let settings = printed(&mut tenure(folder.path(), &["serve", "--grpc", &address]));
    assert_eq!(settings["grpc"], (format!("\"{address}\""), "--grpc".to_owned()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn the_server_runs_with_what_the_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = "grpc = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\ndata = \"kept-here\"\ndurability = \"os\"\n";
    std::fs::write(folder.path().join("tenure.toml"), file).unwrap();
    let _server = Process::spawn(&mut tenure(folder.path(), &["serve"]));
    assert!(folder.path().join("kept-here").is_dir());
}

#[test]
fn a_mistake_in_the_file_is_shown_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let durations = "expected a number and ms, s, m, h or d, such as 30s or 7d";
    for (text, error, hint) in [
        ("histori_age = \"7d\"", "line 1: unknown key `histori_age`", "did you mean `history_age`?"),
        ("\n\nhistory-age = \"7d\"", "line 3: unknown key `history-age`", "keys have underscores: `history_age`"),
        (
            "[serve]\ndata = \"x\"",
            "line 1: unknown key `serve`",
            "there are no tables: all keys stand at the top of the file",
        ),
        (
            "print_config = \"x\"",
            "line 1: unknown key `print_config`",
            "`tenure serve --config /dev/null --print-config` shows every key",
        ),
        (
            "data = \"x\"\nhistory_age = 7",
            "line 2: `history_age` is a TOML integer, and must be text in quotes",
            "leave it out for the default: history_age = \"7d\"",
        ),
        (
            "mailbox_max = 1.5",
            "line 1: `mailbox_max` is a TOML float, and must be a whole number",
            "leave it out for the default: mailbox_max = 65536",
        ),
        (
            "history_age = \"soon\"",
            &format!("line 1: invalid value \"soon\" for `history_age`: {durations}"),
            "leave it out for the default: history_age = \"7d\"",
        ),
        (
            "durability = \"perhaps\"",
            "line 1: invalid value \"perhaps\" for `durability`: expected sync, os, memory",
            "leave it out for the default: durability = \"sync\"",
        ),
        (
            "mailbox_max = -1",
            "line 1: invalid value \"-1\" for `mailbox_max`: expected a whole number from 1",
            "leave it out for the default: mailbox_max = 65536",
        ),
        (
            "pools_max = 0",
            "line 1: invalid value \"0\" for `pools_max`: expected a whole number from 1",
            "leave it out for the default: pools_max = 2000000",
        ),
        (
            "grpc = \"nowhere\"",
            "line 1: invalid value \"nowhere\" for `grpc`: expected an address and a port, such as 127.0.0.1:3144 or [::]:3144",
            "leave it out for the default: grpc = \"127.0.0.1:3144\"",
        ),
        (
            "data = \"\"",
            "line 1: invalid value \"\" for `data`",
            "leave it out for the default: data = \"tenure-data\"",
        ),
        ("data = \"x\"\n\ndata = \"y\"", "line 3: duplicate key", "each line is like `data = \"tenure-data\"`"),
        (
            "data = x",
            "line 1: string values must be quoted, expected literal string",
            "each line is like `data = \"tenure-data\"`",
        ),
    ] {
        std::fs::write(folder.path().join("our.toml"), text).unwrap();
        let mut command = tenure(folder.path(), &["serve", "--config", "our.toml"]);
        assert_fails(&mut command, 64, &format!("our.toml, {error}"), hint);
    }
    std::fs::write(folder.path().join("our.toml"), b"data = \"x\"\n# \xff").unwrap();
    let mut command = tenure(folder.path(), &["serve", "--config", "our.toml"]);
    assert_fails(&mut command, 64, "our.toml, line 2: not UTF-8", "save the file as UTF-8");
}

#[test]
fn a_mistake_in_the_file_is_told_even_where_a_flag_wins_but_after_one_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tenure.toml"), "grpc = \"nowhere\"").unwrap();
    assert_fails(
        &mut tenure(folder.path(), &["serve", "--grpc", "127.0.0.1:0", "--print-config"]),
        64,
        "tenure.toml, line 1: invalid value \"nowhere\" for `grpc`: expected an address and a port, such as 127.0.0.1:3144 or [::]:3144",
        "leave it out for the default: grpc = \"127.0.0.1:3144\"",
    );
    let (code, _, error) = ended(tenure(folder.path(), &["serve", "--grpc", "elsewhere"]).output().unwrap());
    assert_eq!(code, Some(64), "{error}");
    assert!(error.starts_with("error: invalid value 'elsewhere' for '--grpc <IP:PORT>'"), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_is_an_input_that_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    assert_fails(
        &mut tenure(folder.path(), &["serve", "--config", "none.toml"]),
        66,
        "the configuration file none.toml cannot be read: No such file or directory (os error 2)",
        "check the path given with --config or TENURE_CONFIG",
    );
    std::fs::create_dir(folder.path().join("tenure.toml")).unwrap();
    assert_fails(
        &mut tenure(folder.path(), &["serve"]),
        66,
        "the configuration file tenure.toml cannot be read: Is a directory (os error 21)",
        "make it readable, or choose another file with --config; /dev/null is an empty one",
    );
}

#[test]
fn impossible_values_are_refused_wherever_they_come_from() {
    let folder = tempfile::tempdir().unwrap();
    for (key, value) in [
        ("mailbox_max", "0"),
        ("pools_max", "0"),
        ("holds_max", "0"),
        ("sessions_max", "0"),
        ("waiters_max", "0"),
        ("waiters_per_pool_max", "0"),
        ("mailbox_max", "many"),
        ("log", "a=b=c"),
        ("pool_idle", "0s"),
        ("history_age", "1000d"),
        ("keepalive_interval", "0.5s"),
        ("keepalive_timeout", "1d"),
    ] {
        let flag = format!("--{}", key.replace('_', "-"));
        let variable = format!("TENURE_{}", key.to_uppercase());
        let from_variable = format!("hint: it comes from the variable {variable}");
        std::fs::write(folder.path().join("our.toml"), format!("{key} = \"{value}\"")).unwrap();
        for (mut command, named, hint) in [
            (tenure(folder.path(), &["serve", &flag, value]), flag.as_str(), "hint: `tenure serve --help`"),
            (tenure(folder.path(), &["serve"]), &flag, &from_variable),
            (tenure(folder.path(), &["serve", "--config", "our.toml"]), key, "hint: leave it out for the default"),
        ] {
            if hint == from_variable {
                command.env(&variable, value);
            }
            let (code, _, error) = ended(command.output().unwrap());
            assert_eq!((code, error.lines().count()), (Some(64), 2), "{error}");
            assert!(error.contains(named) && error.contains(value) && error.contains(hint), "{error}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_flag_without_a_value_switches_no_guard_off() {
    let folder = tempfile::tempdir().unwrap();
    for flag in ["--password-file", "--tls-cert", "--tls-key", "--client-ca"] {
        let mut command = tenure(folder.path(), &["serve", &format!("{flag}=")]);
        assert_fails(&mut command, 64, &format!("{flag} has no value"), "leave the option out for its default");
    }
}

#[test]
fn a_path_that_no_file_can_hold_is_not_printed_as_another() {
    use std::os::unix::ffi::OsStrExt;

    let folder = tempfile::tempdir().unwrap();
    let mut command = tenure(folder.path(), &["serve", "--print-config", "--data"]);
    command.arg(std::ffi::OsStr::from_bytes(b"data-\xff"));
    assert_fails(
        &mut command,
        64,
        "--data is not UTF-8, so no file can hold it",
        "give it as a flag or a variable only, without --print-config",
    );
}

#[test]
fn other_commands_do_not_care_about_the_settings_of_a_server() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tenure.toml"), "nonsense").unwrap();
    let mut command = tenure(folder.path(), &["completions", "bash"]);
    let (code, _, error) = ended(command.env("TENURE_GRPC", "nowhere").env("TENURE_CONFIG", "none").output().unwrap());
    assert_eq!((code, error.as_str()), (Some(0), ""));
}

#[test]
fn the_example_in_the_operations_page_can_be_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let (_, example) = OPERATIONS.split_once("```toml\n").expect("the page has an example");
    let (example, _) = example.split_once("```").unwrap();
    std::fs::write(folder.path().join("tenure.toml"), example).unwrap();
    let settings = printed(&mut tenure(folder.path(), &["serve"]));
    let from_file = settings.values().filter(|(_, source)| source.starts_with("tenure.toml, line ")).count();
    assert_eq!(from_file, example.lines().filter(|line| line.contains(" = ")).count());
    assert!(from_file > 3, "{settings:?}");
}

#[test]
fn the_operations_page_has_every_option_with_its_variable_and_default() {
    let folder = tempfile::tempdir().unwrap();
    let settings = printed(&mut tenure(folder.path(), &["serve"]));
    assert!(settings.len() > 10, "{settings:?}");
    for (key, (default, source)) in settings {
        assert_eq!(source, "default", "{key}");
        let flag = format!("`--{}", key.replace('_', "-"));
        let row = OPERATIONS.lines().find(|line| {
            line.strip_prefix("| ").and_then(|line| line.strip_prefix(&flag)).is_some_and(|rest| !rest.starts_with('-'))
        });
        let row = row.unwrap_or_else(|| panic!("the page does not have {flag}`"));
        assert!(row.contains(&format!("`TENURE_{}`", key.to_uppercase())), "{row}");
        let default = match default.trim_matches('"') {
            "" => {
                assert!(row.contains("| none |"), "{row}");
                continue;
            }
            default => default,
        };
        assert!(row.replace(',', "").contains(&format!("`{}`", default.replace(',', ""))), "{row}: {default}");
    }
}

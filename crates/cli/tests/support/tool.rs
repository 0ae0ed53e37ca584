//! The command line as people use it, against a real server, and what it says as a transcript.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Process;

pub(crate) struct Tool {
    addr: String,
}

pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Tool {
    pub(crate) fn of(server: &Process) -> Self {
        Self::at(&server.grpc)
    }

    pub(crate) fn at(addr: &str) -> Self {
        Self { addr: addr.to_owned() }
    }

    /// `tenure` with these arguments, whatever the environment of the tests says.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(arguments).stdin(Stdio::null());
        self.prepare(command)
    }

    /// A shell in which `tenure` is the program under test.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        let folder = Path::new(env!("CARGO_BIN_EXE_tenure")).parent().expect("it lies in a folder");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders).expect("its folder has no colon"));
        command.args(["-c", script]).stdin(Stdio::null());
        self.prepare(command)
    }

    fn prepare(&self, mut command: Command) -> Command {
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TENURE_")) {
            command.env_remove(name);
        }
        // Help would be as wide as the terminal of whoever runs the tests.
        command.env("TENURE_ADDR", &self.addr).env_remove("COLUMNS");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.run_with(arguments, "")
    }

    pub(crate) fn run_with(&self, arguments: &[&str], stdin: &str) -> Ended {
        let mut command = self.command(arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        // It need not read it.
        let _ = child.stdin.take().expect("it is piped").write_all(stdin.as_bytes());
        let output = child.wait_with_output().expect("it ends");
        let text = |bytes| String::from_utf8(bytes).expect("it speaks UTF-8");
        Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// What it prints. It must succeed, and have nothing else to say.
    pub(crate) fn printed(&self, arguments: &[&str]) -> String {
        let Ended { code, stdout, stderr } = self.run(arguments);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{arguments:?}");
        stdout
    }

    /// Commands with what came of them, as a terminal would show it; times and addresses are left out.
    pub(crate) fn transcript(&self, commands: &[&[&str]]) -> String {
        let mut text = String::new();
        for arguments in commands {
            let Ended { code, stdout, stderr } = self.run(arguments);
            if !arguments.contains(&"--help") {
                // What is printed for help is clap's.
                assert!(stdout.lines().all(|line| line == line.trim_end()), "no line ends in blanks: {stdout}");
            }
            let quoted = arguments.iter().map(|word| match word.is_empty() || word.contains([' ', '"', '\t']) {
                true => format!("'{}'", word.escape_debug()),
                false => (*word).to_owned(),
            });
            text.push_str(&format!("$ tenure {}\n{stdout}", quoted.collect::<Vec<_>>().join(" ")));
            for line in stderr.lines() {
                text.push_str(&format!("(stderr) {line}\n"));
            }
            if code != Some(0) {
                text.push_str(&format!("(exit code {})\n", code.expect("no signal ended it")));
            }
            text.push('\n');
        }
        let lines: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        lines.replace(&self.addr, "[address]")
    }
}

/// Replaces what differs from run to run. Columns of times are as wide as their times, so what pads them goes too.
pub(crate) fn filters() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    let span = r"\d+(ms|[smhd])( \d+[smhd])?";
    for (differs, stands) in [
        (r#""(\w+_ms)":\d{13}"#.to_owned(), r#""$1":[time]"#),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z".to_owned(), "[time]"),
        (format!(r"(?m)(just now|{span} ago)$"), "[ago]"),
        (format!(r"(just now|{span} ago) +"), "[ago]  "),
        (format!(r"(?m)\bin {span}( *)$"), "[ahead]"),
        (format!(r"\bin {span} +"), "[ahead]  "),
        (format!(r"\bin {span}"), "[ahead]"),
        (format!(r"(held|waited|longest for) {span}"), "$1 [span]"),
        (r"(LONGEST WAIT|SINCE|ENDS|GIVES UP|LAST USED) +".to_owned(), "$1  "),
        (r"(?m)^(\S+ .*\d+/\d+ +\d+ +)\d+(ms|s) +".to_owned(), "$1[span]  "),
    ] {
        settings.add_filter(&differs, stands);
    }
    settings
}

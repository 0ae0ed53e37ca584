//! `tenure run` and `tenure top` at a real terminal, below a shell with job control: what is typed goes to the command, or to
//! `top`, which puts the terminal back as it was.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::pty::openpty;
use support::Process;
use support::job::with_usual_signals;

/// Much longer than anything here should take.
const LIMIT: Duration = Duration::from_secs(60);
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_Z: &str = "\x1a";

/// Whether keys come one by one, and without being shown.
const RAW_OR_NOT: &str = "echo raw: $(stty -a | tr ' ' '\\n' | grep -cx -e -icanon -e -echo) of 2\n";

/// Says what it reads. What it says differs from what is typed, which a terminal shows too.
const READER: &str = r#"sh -c 'echo re""ady; while read line; do echo "read <$line>"; done; exit 3'"#;

#[test]
fn the_command_reads_it_and_ctrl_z_stops_and_fg_continues_both() {
    let mut terminal = Terminal::new();
    terminal.types(&format!("$TENURE run db -- {READER}\n"));
    terminal.shows("ready");
    terminal.types("one\n");
    terminal.shows("read <one>");
    terminal.types(CTRL_Z);
    terminal.shows("Stopped");
    terminal.types("echo the shell says $((40 + 2))\n");
    terminal.shows("the shell says 42");
    terminal.types("fg\n");
    terminal.types("two\n");
    terminal.shows("read <two>");
    terminal.types(CTRL_D);
    terminal.types("echo code $(($? + 100))\n");
    terminal.shows("code 103");
}

#[test]
fn ctrl_c_ends_the_command_and_the_script_that_runs_it() {
    let mut terminal = Terminal::new();
    // Without a fork in the command: a shell may lose a signal that comes while it starts a process.
    terminal
        .types("bash -c '$TENURE run db -- sh -c \"echo re\\\"\\\"ady; exec sleep 1000\"; echo went on $((40 + 2))'\n");
    terminal.shows("ready");
    terminal.types(CTRL_C);
    terminal.types("echo code $(($? + 100))\n");
    terminal.shows("code 230");
    assert!(!terminal.shown().contains("went on 42"), "{}", terminal.shown());
}

#[test]
fn a_job_in_the_background_that_reads_is_stopped_until_it_is_brought_to_the_foreground() {
    let mut terminal = Terminal::new();
    terminal.types(&format!("$TENURE run db -- {READER} &\n"));
    terminal.shows("ready");
    // The shell tells of it with its next prompt.
    while !terminal.shown().contains("Stopped") {
        terminal.types("\n");
        terminal.pause();
    }
    terminal.types("fg\n");
    terminal.types("one\n");
    terminal.shows("read <one>");
    terminal.types(CTRL_D);
    terminal.types("echo code $(($? + 100))\n");
    terminal.shows("code 103");
}

#[test]
fn a_pager_after_the_command_keeps_the_terminal() {
    let mut terminal = Terminal::new();
    terminal.types(
        "$TENURE run db -- sh -c 'echo re\"\"ady' | sh -c 'cat; read line </dev/tty; echo \"pager: <$line>\"'\n",
    );
    terminal.shows("ready");
    terminal.types("one\n");
    terminal.shows("pager: <one>");
}

#[test]
fn top_hears_its_keys_also_after_it_was_stopped_and_leaves_the_terminal_as_it_was() {
    let mut terminal = Terminal::new();
    terminal.types("stty rows 40 cols 120; $TENURE acquire db --kept --holder ada; $TENURE top --every 100ms\n");
    terminal.shows("1 pool, 1 hold, 0 waiters");
    // Neither shown nor heard as anything.
    terminal.types("zebra");
    terminal.types(CTRL_Z);
    terminal.shows("Stopped");
    terminal.types(RAW_OR_NOT);
    terminal.shows("raw: 0 of 2");
    let before = terminal.shown().len();
    terminal.types("fg\n");
    terminal.shows_after(before, "q to leave");
    terminal.types("zebra");
    terminal.types("q");
    terminal.types("echo code $(($? + 100))\n");
    terminal.shows_after(before, "code 100");
    terminal.types(RAW_OR_NOT);
    terminal.shows_after(before, "raw: 0 of 2");
    assert!(!terminal.shown().contains("zebra"), "{}", terminal.shown());
}

#[test]
fn ctrl_c_ends_top_and_leaves_the_terminal_as_it_was() {
    let mut terminal = Terminal::new();
    terminal.types("stty rows 40 cols 120; $TENURE top --every 100ms\n");
    terminal.shows("q to leave");
    let before = terminal.shown().len();
    terminal.types(CTRL_C);
    // The cursor is back, and the prompt. What is typed before that is still for `top`.
    terminal.shows_after(before, "\x1b[?25h$ ");
    terminal.types("echo code $(($? + 100))\n");
    terminal.shows("code 230");
    terminal.types(RAW_OR_NOT);
    terminal.shows("raw: 0 of 2");
}

/// A shell in a session of its own, and the other end of its terminal.
struct Terminal {
    shell: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
    begun: Instant,
    _server: Process,
    _data: tempfile::TempDir,
}

impl Terminal {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = Process::serve(data.path(), &[]);
        let pty = openpty(None, None).unwrap();
        let stream = || Stdio::from(pty.slave.try_clone().unwrap());
        let mut shell = Command::new("setsid");
        shell.args(["--ctty", "--wait", "bash", "--norc", "--noprofile", "--noediting", "-i"]);
        shell.env("TENURE", env!("CARGO_BIN_EXE_tenure")).env("TENURE_ADDR", &server.grpc).env("PS1", "$ ");
        let mut shell = with_usual_signals(&shell);
        let shell = shell.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        drop(pty.slave);

        let screen = Arc::new(Mutex::new(String::new()));
        let (mut source, shown) = (File::from(pty.master.try_clone().unwrap()), screen.clone());
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = source.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..length]));
            }
        });
        let begun = Instant::now();
        let mut terminal =
            Self { shell, keyboard: File::from(pty.master), screen, begun, _server: server, _data: data };
        terminal.types("echo the shell is $((40 + 2))\n");
        terminal.shows("the shell is 42");
        terminal
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn shown(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    fn shows(&self, text: &str) {
        self.shows_after(0, text);
    }

    /// After what was shown before.
    fn shows_after(&self, before: usize, text: &str) {
        while !self.shown()[before..].contains(text) {
            self.pause();
        }
    }

    fn pause(&self) {
        assert!(self.begun.elapsed() < LIMIT, "it shows only:\n{}", self.shown());
        thread::sleep(Duration::from_millis(10));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The shell tells its jobs when the terminal is gone.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

//! `tenure demo`: what it shows adds up, the terminal is given back, and nothing is left behind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::Process;
use support::door::Door;
use support::job::with_usual_signals;
use support::tool::{Ended, Tool};

/// Nobody listens there, and the demo must not care: it has a server of its own.
const NOBODY: &str = "127.0.0.1:1";
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?1049l\x1b[?25h";
const CTRL_C: &[u8] = b"\x03";

#[test]
fn it_ends_when_its_time_is_over_and_what_it_told_adds_up() {
    let told = Tool::at(NOBODY).printed(&["demo", "--for", "3s"]);
    let (log, picture) = told.split_once("\nHOLD (").expect("it ends with the picture");
    let (holders, waiters) = picture.split_once("\nWAIT (").unwrap();
    let holders: Vec<_> = holders.lines().filter(|line| line.starts_with("gpu-")).collect();
    assert_eq!(holders.len(), 3, "{told}");

    let summary = told.lines().last().unwrap();
    let grants = log.lines().filter(|line| line.contains(" holds gpu-")).count();
    assert_eq!(figure(summary, "", " grant"), grants, "{told}");
    assert_eq!(figure(summary, "highest token ", ","), grants, "{told}");
    assert!(figure(summary, "at most ", " held") <= 3, "{told}");
    assert!(summary.contains("nobody was overtaken"), "{told}");

    let waits = waiters.lines().skip(1).take_while(|line| !line.is_empty());
    let waiting: Vec<_> = waits.map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    let holding: Vec<_> = holders.iter().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    let everybody: BTreeSet<_> = waiting.iter().chain(&holding).collect();
    assert!(everybody.len() <= 8 + 1, "eight, and perhaps something free: {told}");
}

#[test]
fn five_of_eight_wait_and_an_interrupt_ends_it() {
    let mut demo = with_usual_signals(&Tool::at(NOBODY).command(&["demo"]));
    let mut demo = demo.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(demo.stdout.take().unwrap());
    let log = read_until(&mut stdout, "place 5");
    assert!(log.matches(" holds gpu-").count() >= 3, "three hold before anybody waits: {log}");
    signal(&demo, Signal::SIGINT);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    let summary = rest.lines().last().unwrap();
    assert!(figure(summary, "held and ", " waited") >= 5, "{rest}");
}

#[test]
fn it_has_as_many_consumers_and_resources_as_it_is_told() {
    let told = Tool::at(NOBODY).printed(&["demo", "--consumers", "2", "--capacity", "5", "--for", "500ms"]);
    let names: BTreeSet<_> = told.lines().filter_map(|line| line.split_once(" holds ")).map(|(who, _)| who).collect();
    assert!(names.len() <= 2, "{told}");
    assert_eq!(told.lines().filter(|line| line.starts_with("gpu-")).count(), 5, "{told}");
    assert!(told.contains("WAIT (0)"), "{told}");
}

#[test]
fn at_a_terminal_it_draws_within_its_bounds_and_gives_it_back() {
    let mut terminal = Terminal::start(&["demo", "--for", "2s"], &[]);
    let screen = terminal.shows_at_last();
    assert_eq!(terminal.code(), Some(0));
    let (drawn, after) = given_back(&screen);
    assert!(drawn.contains("\x1b[32m"), "holders have a colour: {drawn:?}");
    for frame in drawn.split("\x1b[H").skip(1) {
        let lines: Vec<_> = plain(frame).lines().map(|line| line.trim_end().to_owned()).collect();
        assert!(lines.len() <= usize::from(SIZE.ws_row), "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= usize::from(SIZE.ws_col)), "{lines:#?}");
    }
    assert!(after.contains("HOLD (") && after.contains("nobody was overtaken"), "{after:?}");
}

#[test]
fn ctrl_c_gives_the_terminal_back_too() {
    let mut terminal = Terminal::start(&["demo"], &[("NO_COLOR", "1")]);
    let shown = terminal.shows("WAIT (");
    terminal.keyboard.write_all(CTRL_C).unwrap();
    let screen = shown + &terminal.shows_at_last();
    assert_eq!(terminal.code(), Some(130));
    let (drawn, _) = given_back(&screen);
    for style in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m"] {
        assert!(!drawn.contains(style), "NO_COLOR is respected: {drawn:?}");
    }
}

#[test]
fn a_terminal_that_cannot_be_drawn_on_gets_lines() {
    let mut terminal = Terminal::start(&["demo", "--for", "1s"], &[("TERM", "dumb")]);
    let screen = terminal.shows_at_last();
    assert_eq!(terminal.code(), Some(0));
    assert!(!screen.contains('\x1b'), "{screen:?}");
    assert!(screen.contains(" holds gpu-"), "{screen:?}");
}

#[test]
fn on_the_server_of_others_it_leaves_nothing_behind() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &[]);
    let tool = Tool::of(&server);
    let told = tool.printed(&["demo", "--addr", &server.grpc, "--pool", "playground", "--for", "2s"]);
    assert!(told.contains(&format!("pool `playground` on {}", server.grpc)), "{told}");
    assert_nothing_left(&tool);

    let mut demo = tool.command(&["demo", "--addr", &server.grpc]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(demo.stdout.take().unwrap());
    read_until(&mut stdout, "place 5");
    assert!(tool.printed(&["queue", "demo", "--json"]).contains("waiters"), "others see who waits");
    signal(&demo, Signal::SIGTERM);
    stdout.read_to_string(&mut String::new()).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(143));
    assert_nothing_left(&tool);
}

#[test]
fn it_goes_on_when_the_server_was_killed_and_is_back() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Process::serve(data.path(), &[]);
    let door = Door::to(&server.grpc);
    let mut demo = Tool::of(&server).command(&["demo", "--addr", &door.address]);
    let mut demo = demo.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(demo.stdout.take().unwrap());
    read_until(&mut stdout, "place 5");
    server.kill();
    let server = Process::serve(data.path(), &[]);
    let history = Tool::of(&server).printed(&["history", "demo", "--all", "--json"]);
    let grants = history.matches("\"kind\":\"granted\"").count();
    door.leads_to(&server.grpc);
    read_until(&mut stdout, &format!("(token {})", grants + 3));
    signal(&demo, Signal::SIGTERM);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(143));
    assert!(rest.contains("nobody was overtaken"), "{rest}");
    let said = std::io::read_to_string(demo.stderr.take().unwrap()).unwrap();
    assert_eq!(said, "the server does not answer; waiting for it to come back\n");
    assert_nothing_left(&Tool::of(&server));
}

#[test]
fn a_pool_that_exists_is_left_alone() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), &[]);
    let tool = Tool::of(&server);
    tool.printed(&["pool", "set", "demo", "--units", "7"]);
    let before = tool.printed(&["show", "demo", "--json"]);
    let Ended { code, stdout, stderr } = tool.run(&["demo", "--addr", &server.grpc, "--for", "1s"]);
    assert_eq!((code, stdout.as_str()), (Some(64), ""));
    assert!(stderr.starts_with("error: there is a pool `demo` on that server already\nhint: "), "{stderr}");
    assert_eq!(tool.printed(&["show", "demo", "--json"]), before);
}

#[test]
fn what_cannot_be_played_is_said_in_one_line_with_a_hint() {
    let tool = Tool::at(NOBODY);
    for (arguments, expected) in [
        (&["demo", "--addr", NOBODY][..], 69),
        (&["demo", "--addr", "no address"], 69),
        (&["demo", "--consumers", "0"], 64),
        (&["demo", "--capacity", "101"], 64),
        (&["demo", "--for", "soon"], 64),
        (&["demo", "--pool", ""], 64),
        (&["demo", "--namespace", "team"], 64),
    ] {
        let Ended { code, stdout, stderr } = tool.run(arguments);
        assert_eq!((code, stdout.as_str()), (Some(expected), ""), "{arguments:?}: {stderr}");
        let lines: Vec<_> = stderr.lines().collect();
        assert!(matches!(lines[..], [error, hint] if error.starts_with("error: ") && hint.starts_with("hint: ")));
    }
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let mut demo = Tool::at(NOBODY).command(&["demo"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(demo.stdout.take().unwrap());
    read_until(&mut stdout, "holds gpu-");
    drop(stdout);
    assert_eq!(demo.wait().unwrap().code(), Some(0));
}

fn assert_nothing_left(tool: &Tool) {
    for (listing, nothing) in
        [("holds", "{\"holds\":[]}\n"), ("ls", "{\"pools\":[]}\n"), ("sessions", "{\"sessions\":[]}\n")]
    {
        assert_eq!(tool.printed(&[listing, "--json"]), nothing);
    }
}

/// The number between two texts.
fn figure(summary: &str, before: &str, after: &str) -> usize {
    let (_, rest) = summary.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {summary:?}"));
    let (number, _) = rest.split_once(after).unwrap_or_else(|| panic!("no {after:?} in {summary:?}"));
    number.parse().unwrap_or_else(|_| panic!("no number before {after:?} in {summary:?}"))
}

fn read_until(stdout: &mut impl BufRead, text: &str) -> String {
    let mut log = String::new();
    while !log.contains(text) {
        assert_ne!(stdout.read_line(&mut log).unwrap(), 0, "it ended before it said {text:?}: {log}");
    }
    log
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
}

/// What was on the screen while it was the demo's, and what was printed afterwards.
fn given_back(screen: &str) -> (&str, &str) {
    let (_, drawn) = screen.split_once(ENTER).expect("it takes the screen");
    let (drawn, after) = drawn.rsplit_once(LEAVE).expect("it gives the screen back");
    assert!(!after.contains('\x1b'), "nothing steers the terminal after that: {after:?}");
    (drawn, after)
}

/// Without what steers the terminal.
fn plain(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    first
        + &parts
            .filter_map(|part| part.split_once(|c: char| c.is_ascii_alphabetic()).map(|(_, rest)| rest))
            .collect::<String>()
}

const SIZE: Winsize = Winsize { ws_row: 20, ws_col: 44, ws_xpixel: 0, ws_ypixel: 0 };

/// The demo at a terminal of its own, and the other end of it.
struct Terminal {
    demo: Child,
    keyboard: File,
    screen: File,
}

impl Terminal {
    fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let pty = openpty(Some(&SIZE), None).unwrap();
        let stream = || Stdio::from(pty.slave.try_clone().unwrap());
        let mut demo = Command::new("setsid");
        demo.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_tenure")]).args(arguments);
        demo.env_remove("NO_COLOR").env("TERM", "xterm").envs(environment.iter().copied());
        let mut demo = with_usual_signals(&demo);
        let demo = demo.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        let screen = File::from(pty.master.try_clone().unwrap());
        Self { demo, keyboard: File::from(pty.master), screen }
    }

    /// Everything until this is shown.
    fn shows(&mut self, text: &str) -> String {
        let mut shown = Vec::new();
        while !String::from_utf8_lossy(&shown).contains(text) {
            assert!(self.read(&mut shown), "it shows only {:?}", String::from_utf8_lossy(&shown));
        }
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// Everything until it ends.
    fn shows_at_last(&mut self) -> String {
        let mut shown = Vec::new();
        while self.read(&mut shown) {}
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// False once nobody has the terminal any more.
    fn read(&mut self, shown: &mut Vec<u8>) -> bool {
        let mut bytes = [0; 4096];
        let length = self.screen.read(&mut bytes).unwrap_or(0);
        shown.extend(&bytes[..length]);
        length > 0
    }

    fn code(&mut self) -> Option<i32> {
        self.demo.wait().unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.demo.kill();
        let _ = self.demo.wait();
    }
}

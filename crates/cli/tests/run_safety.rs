//! The promise of `tenure run`: its command and all that it started are gone before anybody else gets the hold. Whoever
//! comes next looks for itself, as the first thing it does with the hold, whether anybody of those before is alive.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::Pid;
use support::Process;
use support::job::until;
use support::tool::Tool;

/// The hold was lost while it was needed.
const LOST: Option<i32> = Some(79);

/// Three that do not end when asked to, and write down who they are: the command, one in the background, and a daemon in
/// a session of its own, which is nobody's child. And one that would end.
const STUBBORN: &str = r#"
    stubborn='trap "" TERM HUP INT; echo $$ >>"$PIDS"; while :; do sleep 0.05; done'
    sh -c "$stubborn" &
    (setsid sh -c "$stubborn" &)
    sleep 1000 & echo $! >>"$PIDS"
    eval "$stubborn"
"#;

/// Says who of them is alive. One that is dead and that nobody has taken notice of is not.
const LOOK: &str = r#"
    for pid in $(cat "$PIDS"); do
        state=$(sed 's/.*) //; s/ .*//' /proc/$pid/stat 2>/dev/null)
        case "$state" in ""|Z|X) ;; *) echo "alive: $pid" ;; esac
    done
    echo looked
"#;

#[test]
fn while_the_wrapper_is_paused() {
    let scene = Scene::new();
    let tool = Tool::of(&scene.server);
    let mut first = scene.stubborn(&tool, &["--ttl", "5s"]);
    let next = scene.next(&tool);
    first.signal(Signal::SIGSTOP);
    next.finds_nobody();
    first.signal(Signal::SIGCONT);
    assert_eq!(first.ended().code(), LOST);
}

#[test]
fn while_the_server_cannot_be_reached() {
    let scene = Scene::new();
    let link = Link::to(&scene.server.grpc);
    let mut first = scene.stubborn(&Tool::at(&link.address), &["--ttl", "5s"]);
    let next = scene.next(&Tool::of(&scene.server));
    link.cut();
    next.finds_nobody();
    assert_eq!(first.ended().code(), LOST);
}

#[test]
fn while_the_server_is_paused() {
    let scene = Scene::new();
    let tool = Tool::of(&scene.server);
    let mut first = scene.stubborn(&tool, &["--ttl", "5s"]);
    let next = scene.next(&tool);
    let server = Pid::from_raw(scene.server.id().try_into().unwrap());
    kill(server, Signal::SIGSTOP).unwrap();
    assert_eq!(first.ended().code(), LOST);
    assert_eq!(scene.look(), "looked\n");
    kill(server, Signal::SIGCONT).unwrap();
    next.finds_nobody();
}

#[test]
fn when_the_server_is_killed_and_comes_back() {
    let mut scene = Scene::new();
    let mut first = scene.stubborn(&Tool::of(&scene.server), &["--ttl", "5s"]);
    scene.server.kill();
    scene.server = Process::serve(scene.data.path(), &[]);
    scene.next(&Tool::of(&scene.server)).finds_nobody();
    assert_eq!(first.ended().code(), LOST);
}

#[test]
fn while_the_guard_is_paused_and_the_server_cannot_be_reached() {
    let scene = Scene::new();
    let link = Link::to(&scene.server.grpc);
    let mut first = scene.stubborn(&Tool::at(&link.address), &["--ttl", "5s"]);
    let next = scene.next(&Tool::of(&scene.server));
    kill(first.guard(), Signal::SIGSTOP).unwrap();
    link.cut();
    next.finds_nobody();
    assert_eq!(first.ended().code(), LOST);
}

#[test]
fn when_the_guard_is_killed() {
    let scene = Scene::new();
    let tool = Tool::of(&scene.server);
    // The lease would last longer than the next one waits.
    let mut first = scene.stubborn(&tool, &["--ttl", "10m"]);
    let next = scene.next(&tool);
    kill(first.guard(), Signal::SIGKILL).unwrap();
    next.finds_nobody();
    assert!(!first.ended().success());
}

#[test]
fn when_the_wrapper_is_killed_the_hold_is_released_after_its_command_is_gone() {
    let scene = Scene::new();
    let tool = Tool::of(&scene.server);
    let mut first = scene.stubborn(&tool, &["--ttl", "10m"]);
    let next = scene.next(&tool);
    first.signal(Signal::SIGKILL);
    next.finds_nobody();
    first.ended();
}

#[test]
fn when_an_operator_takes_the_hold_away_the_command_ends() {
    let scene = Scene::new();
    let tool = Tool::of(&scene.server);
    let mut first = scene.stubborn(&tool, &["--ttl", "10m", "--holder", "first"]);
    let token = first.token();
    let done = tool.run(&["force-release", "db", "--holder", "first", "--token", &token, "--reason", "test"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{}", done.stdout);
    assert_eq!(first.ended().code(), LOST);
    assert_eq!(scene.look(), "looked\n");
}

#[test]
fn a_command_that_has_ended_does_not_save_what_it_left_from_a_hold_that_is_being_lost() {
    let scene = Scene::new();
    let link = Link::to(&scene.server.grpc);
    // It ends when it is asked to, and its daemon does not.
    let script = r#"(setsid sh -c 'trap "" TERM; echo $$ >>"$PIDS"; while :; do sleep 0.05; done' &)
        echo $$ >>"$PIDS"; exec sleep 1000"#;
    let mut first = scene.run(&Tool::at(&link.address), &["--ttl", "5s"], script, 2);
    let next = scene.next(&Tool::of(&scene.server));
    link.cut();
    next.finds_nobody();
    assert_eq!(first.ended().code(), LOST);
}

#[test]
fn what_a_command_leaves_running_when_it_ends_by_itself_is_left_alone() {
    let scene = Scene::new();
    let tool = Tool::of(&scene.server);
    let script = r#"setsid sleep 1000 >/dev/null 2>&1 & echo $! >>"$PIDS"; exit 7"#;
    let mut first = scene.run(&tool, &[], script, 1);
    assert_eq!(first.ended().code(), Some(7));
    let left = scene.pids().remove(0);
    assert_eq!(scene.look(), format!("alive: {left}\nlooked\n"));
    kill(Pid::from_raw(left), Signal::SIGKILL).unwrap();
}

#[test]
fn a_hold_that_was_granted_and_lost_while_the_wrapper_was_paused_is_waited_for_again() {
    let scene = Scene::new();
    let tool = Tool::of(&scene.server);
    let mut first = scene.run(&tool, &[], r#"echo $$ >>"$PIDS"; exec sleep 1000"#, 1);
    let options = ["-w", "60s", "--ttl", "2s", "--holder", "paused"];
    let mut paused = Run::start(&tool, &options, r#"echo $$ >>"$PIDS""#, &scene.file());
    until("the paused one waits", || tool.run(&["queue", "db", "--json"]).stdout.contains("\"paused\""));
    // Who comes next keeps the hold until the paused one is back.
    let script = r#"echo $$ >>"$PIDS"; exec sleep 1000"#;
    let next = Run::start(&tool, &["-w", "60s", "--holder", "next"], script, &scene.file());
    until("the next one waits", || tool.run(&["queue", "db", "--json"]).stdout.contains("\"next\""));
    paused.signal(Signal::SIGSTOP);
    first.signal(Signal::SIGTERM);
    first.ended();
    until("both have run", || scene.pids().len() == 2);
    paused.signal(Signal::SIGCONT);
    until("the paused one waits", || tool.run(&["queue", "db", "--json"]).stdout.contains("\"paused\""));
    assert_eq!(scene.pids().len(), 2, "it has not run beside the next");
    next.signal(Signal::SIGTERM);
    assert_eq!(paused.ended().code(), Some(0), "{}", paused.complained());
    assert_eq!(scene.pids().len(), 3);
}

#[test]
fn a_guard_does_not_start_a_command_that_it_would_have_to_stop() {
    let scene = Scene::new();
    let (line, guards_end) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
    let mut guard = Tool::of(&scene.server).command(&["__guard", "1", "sh", "-c", r#"echo $$ >>"$PIDS""#]);
    guard.env("PIDS", scene.file()).stdin(guards_end).stdout(Stdio::null());
    let mut guard = guard.spawn().unwrap();
    // Its hold has ended a millisecond after the host was started.
    let mut line = UnixStream::from(line);
    line.write_all(b"begin 300 100 1").unwrap();
    let mut reports = [0; 100];
    let mut report = || {
        let length = line.read(&mut reports).unwrap();
        String::from_utf8(reports[..length].to_vec()).unwrap()
    };
    assert_eq!((report(), report()), ("stopping".to_owned(), "gone".to_owned()));
    assert!(guard.wait().unwrap().success());
    assert!(scene.pids().is_empty(), "it has not run");
}

#[test]
fn a_command_whose_hold_is_taken_away_is_asked_to_end_although_its_guard_is_paused() {
    let scene = Scene::new();
    let tool = Tool::of(&scene.server);
    // What it writes down when it is asked is nobody's.
    let script = r#"trap 'echo 0 >>"$PIDS"; exit' TERM; echo $$ >>"$PIDS"; while :; do sleep 0.05; done"#;
    let mut first = scene.run(&tool, &["--ttl", "10m", "--grace", "2m", "--holder", "first"], script, 1);
    let (token, guard) = (first.token(), first.guard());
    kill(guard, Signal::SIGSTOP).unwrap();
    let done = tool.run(&["force-release", "db", "--holder", "first", "--token", &token, "--reason", "test"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{}", done.stdout);
    until("the last one has run", || scene.pids().last() == Some(&0));
    kill(guard, Signal::SIGCONT).unwrap();
    assert_eq!(first.ended().code(), LOST);
}

#[test]
fn one_who_starts_the_next_and_ends_is_not_taken_for_gone_although_the_guard_is_paused() {
    let scene = Scene::new();
    let tool = Tool::of(&scene.server);
    let script = r#"export CHAIN='setsid sh -c "$CHAIN" &'; sh -c "$CHAIN"; echo $$ >>"$PIDS"; exec sleep 1000"#;
    let mut first = scene.run(&tool, &["--ttl", "10m", "--holder", "first"], script, 1);
    let (token, guard) = (first.token(), first.guard());
    kill(guard, Signal::SIGSTOP).unwrap();
    let done = tool.run(&["force-release", "db", "--holder", "first", "--token", &token, "--reason", "test"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{}", done.stdout);
    assert_eq!(first.ended().code(), LOST);
    let left = scene.members();
    assert!(left.is_empty(), "{left:?}");
}

/// A server, and where those who have the hold write down who they are.
struct Scene {
    server: Process,
    data: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        Self { server: Process::serve(data.path(), &[]), data }
    }

    fn file(&self) -> PathBuf {
        self.data.path().with_extension("pids")
    }

    fn pids(&self) -> Vec<i32> {
        let written = fs::read_to_string(self.file()).unwrap_or_default();
        // The last line may be half written.
        written.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.parse().ok()).collect()
    }

    /// Processes that know the file.
    fn members(&self) -> Vec<PathBuf> {
        let file = format!("PIDS={}", self.file().display());
        let knows = |process: &PathBuf| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == file.as_bytes())
        };
        fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()).filter(knows).collect()
    }

    fn stubborn(&self, tool: &Tool, options: &[&str]) -> Run {
        self.run(tool, options, STUBBORN, 4)
    }

    /// Runs it with the hold, and waits until so many have written down who they are.
    fn run(&self, tool: &Tool, options: &[&str], script: &str, pids: usize) -> Run {
        let run = Run::start(tool, options, script, &self.file());
        until("all have begun", || self.pids().len() >= pids);
        run
    }

    /// The next in line, as soon as it waits.
    fn next(&self, tool: &Tool) -> Next {
        let next = Next(Run::start(tool, &["-w", "60s", "--holder", "next"], LOOK, &self.file()));
        until("the next one waits", || tool.run(&["queue", "db", "--json"]).stdout.contains("\"next\""));
        next
    }

    fn look(&self) -> String {
        let output = Command::new("sh").args(["-c", LOOK]).env("PIDS", self.file()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if thread::panicking() {
            // A test that fails leaves nobody behind.
            for pid in self.pids().into_iter().filter(|pid| *pid > 1) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        let _ = fs::remove_file(self.file());
    }
}

/// `tenure run db`.
struct Run {
    child: Child,
}

impl Run {
    fn start(tool: &Tool, options: &[&str], script: &str, pids: &Path) -> Self {
        let mut command = tool.command(&["run", "db"]);
        if !options.contains(&"--grace") {
            command.args(["--grace", "300ms"]);
        }
        command.args(options).args(["--", "sh", "-c", script]).env("PIDS", pids);
        Self { child: command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap() }
    }

    fn id(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill(self.id(), signal).unwrap();
    }

    /// Its only child.
    fn guard(&self) -> Pid {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.id())).unwrap();
        let children = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap());
        let children = children.collect::<String>();
        let mut ids = children.split_ascii_whitespace().map(|id| Pid::from_raw(id.parse().unwrap()));
        let guard = ids.next().unwrap();
        assert_eq!(ids.next(), None, "the guard is its only child");
        guard
    }

    /// As its command was told it.
    fn token(&self) -> String {
        let guard = self.guard();
        let environment = fs::read(format!("/proc/{guard}/environ")).unwrap();
        let token = environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(b"TENURE_TOKEN="));
        String::from_utf8(token.unwrap().to_vec()).unwrap()
    }

    fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("it ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    fn said(&mut self) -> String {
        let mut said = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }

    fn complained(&mut self) -> String {
        std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Next(Run);

impl Next {
    fn finds_nobody(mut self) {
        let said = self.0.said();
        assert_eq!(said, "looked\n", "{}", self.0.complained());
        assert_eq!(self.0.ended().code(), Some(0));
    }
}

/// Passes on what both sides say, until it is cut: then both hear nothing more, and nobody hangs up.
struct Link {
    address: String,
    cut: Arc<AtomicBool>,
}

impl Link {
    fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let cut = Arc::new(AtomicBool::new(false));
        let (server, is_cut) = (server.to_owned(), cut.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                for (from, to) in [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)] {
                    let cut = is_cut.clone();
                    thread::spawn(move || pass_on(from, to, &cut));
                }
            }
        });
        Self { address, cut }
    }

    fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, cut: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        // What is said after the cut is swallowed.
        if !cut.load(Ordering::SeqCst) && to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
}

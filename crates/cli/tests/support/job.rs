//! A program that runs beside the test: what it says is heard as it says it, and nothing is waited for without a limit.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::tool::Ended;

/// Much longer than anything should take.
const LIMIT: Duration = Duration::from_secs(90);

pub(crate) struct Job {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Heard,
    stderr: Heard,
}

impl Job {
    pub(crate) fn start(command: &Command) -> Self {
        let mut command = with_usual_signals(command);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let stdin = child.stdin.take();
        let stdout = Heard::from(child.stdout.take().expect("it is piped"));
        let stderr = Heard::from(child.stderr.take().expect("it is piped"));
        Self { child, stdin, stdout, stderr }
    }

    pub(crate) fn id(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().expect("process ids are positive"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.id(), signal).expect("it is there");
    }

    pub(crate) fn hears(&mut self, text: &str) {
        self.stdin.as_mut().expect("it is open").write_all(text.as_bytes()).expect("it reads");
    }

    pub(crate) fn hears_no_more(&mut self) {
        self.stdin = None;
    }

    /// Waits until it has said that on stdout.
    pub(crate) fn says(&self, text: &str) {
        until(&format!("it says {text:?}"), || self.stdout.text().contains(text));
    }

    /// Waits until it has said that on stderr.
    pub(crate) fn complains(&self, text: &str) {
        until(&format!("it complains {text:?}"), || self.stderr.text().contains(text));
    }

    pub(crate) fn said(&self) -> String {
        self.stdout.text()
    }

    /// Waits until it ends by itself, with all that it has said. The code is none if a signal ended it.
    pub(crate) fn ends(&mut self) -> Ended {
        let mut status = None;
        until("it ends", || {
            status = self.child.try_wait().expect("it is a child");
            status.is_some()
        });
        until("all who could say something have ended", || self.stdout.is_over() && self.stderr.is_over());
        let code = status.expect("it was waited for").code();
        Ended { code, stdout: self.stdout.text(), stderr: self.stderr.text() }
    }

    /// Waits until it has run so many tests, of which each may take its time but not for ever, and has ended well. `ended` counts
    /// the tests whose end a report tells.
    pub(crate) fn passes(mut self, count: usize, ended: impl Fn(&str) -> usize) -> Ended {
        let mut said = String::new();
        for done in 1..=count {
            until(&format!("{done} of {count} tests are done"), || {
                // What it is stuck in is shown if this fails.
                let news = self.said();
                print!("{}", &news[said.len()..]);
                said = news;
                ended(&said) >= done
            });
        }
        let report = self.ends();
        assert_eq!((report.code, ended(&report.stdout)), (Some(0), count), "{}{}", report.stdout, report.stderr);
        report
    }

    /// Waits until it ends, and gives the code and stdout. What is to be read is told to it first.
    pub(crate) fn ends_after(mut self, stdin: &[u8]) -> (Option<i32>, Vec<u8>) {
        let mut input = self.stdin.take().expect("it is open");
        thread::scope(|scope| {
            // It need not read it, and says something before it has read all.
            scope.spawn(move || drop(input.write_all(stdin)));
            let ended = self.ends();
            (ended.code, self.stdout.bytes())
        })
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whoever runs the tests in the background ignores SIGINT or SIGHUP, and so would the command.
pub(crate) fn with_usual_signals(command: &Command) -> Command {
    let mut usual = Command::new("env");
    usual.arg("--default-signal").arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        usual.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => usual.env(name, value),
            None => usual.env_remove(name),
        };
    }
    usual
}

/// What was said so far.
struct Heard {
    bytes: Arc<Mutex<Vec<u8>>>,
    listener: JoinHandle<()>,
}

impl Heard {
    fn from(mut source: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let heard = bytes.clone();
        let listener = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = source.read(&mut buffer) {
                heard.lock().expect("nobody panics with it").extend_from_slice(&buffer[..length]);
            }
        });
        Self { bytes, listener }
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().expect("nobody panics with it").clone()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    fn is_over(&self) -> bool {
        self.listener.is_finished()
    }
}

/// Waits until it is so, and fails if that takes absurdly long.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "it does not come about that {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

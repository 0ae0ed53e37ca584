//! A real Temporal: the development server, on a port that the system chooses, with its data in a file, so that it can be
//! killed and started again as the same one.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;

use super::job::until;
use super::tools;

/// As many tests as may share a server: each has a namespace of its own, and those are made when the server starts.
const NAMESPACES: usize = 64;

pub(crate) struct Temporal {
    folder: tempfile::TempDir,
    port: u16,
    namespaces: usize,
    limits: Vec<String>,
    given: AtomicUsize,
    child: Child,
}

impl Temporal {
    /// One that a test has for itself, and may do to as it likes.
    pub(crate) fn start() -> Self {
        Self::with(1, &[])
    }

    /// The same, with limits of its own, as `key=value`.
    pub(crate) fn start_with(limits: &[&str]) -> Self {
        Self::with(1, limits)
    }

    /// One that the tests of this process share, in namespaces of their own.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Temporal> = OnceLock::new();
        SHARED.get_or_init(|| Self::with(NAMESPACES, &[]))
    }

    fn with(namespaces: usize, limits: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a directory for one server");
        let port = free_port();
        let limits: Vec<_> = limits.iter().map(|limit| (*limit).to_owned()).collect();
        let child = spawn(serve(&folder, port, namespaces, &limits));
        let temporal = Self { folder, port, namespaces, limits, given: AtomicUsize::new(0), child };
        temporal.answers();
        temporal
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A namespace that nobody else has got.
    pub(crate) fn namespace(&self) -> String {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        assert!(number < self.namespaces, "more tests than namespaces: make more");
        namespace(number)
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is gone");
    }

    /// The same server again, after it was killed.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(serve(&self.folder, self.port, self.namespaces, &self.limits));
        self.answers();
    }

    /// `temporal` as an operator uses it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(tools::temporal());
        command.args(arguments).args(["--address", &self.address()]);
        command
    }

    fn answers(&self) {
        until("Temporal answers", || {
            let health = self.command(&["operator", "cluster", "health"]).output().expect("it can be run");
            health.status.success()
        });
    }
}

impl Drop for Temporal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(folder: &tempfile::TempDir, port: u16, namespaces: usize, limits: &[String]) -> Command {
    // The shared one is never dropped, so it has to end with this process.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(tools::temporal());
    command.args(["server", "start-dev", "--headless", "--log-level", "error", "--port", &port.to_string()]);
    command.arg("--db-filename").arg(folder.path().join("temporal.db"));
    for limit in limits {
        command.args(["--dynamic-config-value", limit]);
    }
    for number in 0..namespaces {
        command.args(["--namespace", &namespace(number)]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn namespace(number: usize) -> String {
    format!("test-{number}")
}

/// Whoever is started to end with us ends with the thread that started it, so that thread stays.
fn spawn(mut command: Command) -> Child {
    let (started, child) = mpsc::channel();
    thread::spawn(move || {
        started.send(command.spawn().expect("it starts")).expect("it is waited for");
        loop {
            thread::park();
        }
    });
    child.recv().expect("the thread says so")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    listener.local_addr().expect("it is bound").port()
}

//! A server that can be killed and started again, and the examples that are run against it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::Process;
use crate::support::door::Door;
use crate::support::job::{Job, until};
use crate::support::tool::Tool;
use crate::support::tools;

/// Which of the two programs of an example.
#[derive(Clone, Copy)]
pub(crate) enum With {
    Ldlm,
    Tenure,
}

pub(crate) struct Stage {
    server: Process,
    folder: tempfile::TempDir,
    grpc: Door,
    http: Door,
    tool: Tool,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Process::serve(&folder.path().join("data"), &[]);
        let (grpc, http) = (Door::to(&server.grpc), Door::to(without_scheme(&server.http)));
        Self { tool: Tool::at(&grpc.address), server, folder, grpc, http }
    }

    /// `kill -9`, and once more from the beginning.
    pub(crate) fn restart(&mut self) {
        self.server.kill();
        self.server = Process::serve(&self.folder.path().join("data"), &[]);
        self.grpc.leads_to(&self.server.grpc);
        self.http.leads_to(without_scheme(&self.server.http));
    }

    pub(crate) fn start(&self, example: &str, with: With, arguments: &[&str]) -> Job {
        match with {
            With::Ldlm => {
                let program = format!("{example}/with_ldlm.py");
                self.python(&program, &[&["--addr", &*self.grpc.address], arguments].concat())
            }
            With::Tenure => self.shell(&format!("{example}/with_tenure.sh"), arguments),
        }
    }

    pub(crate) fn shell(&self, program: &str, arguments: &[&str]) -> Job {
        self.program(&[&*examples().join(program).to_string_lossy()], arguments)
    }

    /// With more in its environment.
    pub(crate) fn shell_with(&self, program: &str, arguments: &[&str], environment: &[(&str, String)]) -> Job {
        let program = examples().join(program);
        let settings: Vec<String> = environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut words = vec!["env"];
        words.extend(settings.iter().map(String::as_str));
        words.push(program.to_str().unwrap());
        self.program(&words, arguments)
    }

    pub(crate) fn python(&self, program: &str, arguments: &[&str]) -> Job {
        let (python, program) = (tools::python(), examples().join(program));
        self.program(&[&*python.to_string_lossy(), &*program.to_string_lossy()], arguments)
    }

    fn program(&self, program: &[&str], arguments: &[&str]) -> Job {
        let mut command = self.tool.shell(r#"exec "$0" "$@""#);
        // A proxy of whoever runs the tests has no business here.
        command.args(program).args(arguments).env("no_proxy", "127.0.0.1");
        // Our own package, which their users install.
        command.env("PYTHONPATH", examples().join("../clients/python/src")).env("PYTHONDONTWRITEBYTECODE", "1");
        Job::start(&command)
    }

    /// Where the server's REST interface is, over restarts too.
    pub(crate) fn api(&self) -> String {
        format!("http://{}", self.http.address)
    }

    /// A place for a file of the test.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// The lines that are in a file so far.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until so many are in the pool's queue.
    pub(crate) fn until_waiting(&self, pool: &str, count: usize) {
        until(&format!("{count} wait for {pool}"), || {
            let queue = self.tool.run(&["queue", pool, "--json"]).stdout;
            let queue: Value = serde_json::from_str(&queue).unwrap_or_default();
            queue["waiters"].as_array().is_some_and(|waiters| waiters.len() == count)
        });
    }

    /// All that happened to the pool, by the server's account.
    pub(crate) fn history(&self, pool: &str) -> Vec<Value> {
        let events = self.tool.printed(&["history", pool, "--all", "--json"]);
        events.lines().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

/// How many were there at once, at most, if each of these is one that comes (1), goes (-1) or neither (0).
pub(crate) fn peak(steps: impl Iterator<Item = i32>) -> i32 {
    steps
        .scan(0, |now, step| {
            *now += step;
            Some(*now)
        })
        .max()
        .unwrap_or(0)
}

/// What an event does to the number of those who hold something.
pub(crate) fn step(event: &Value) -> i32 {
    match event["kind"].as_str() {
        Some("granted") => 1,
        Some("ended") => -1,
        _ => 0,
    }
}

pub(crate) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("it lies in the workspace").join("examples")
}

fn without_scheme(address: &str) -> &str {
    address.strip_prefix("http://").unwrap_or(address)
}

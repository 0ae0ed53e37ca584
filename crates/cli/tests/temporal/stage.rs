//! A server of ours and a worker with workflows, in a namespace of a Temporal. What the workflows do is told step by step.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::job::{Job, until};
use crate::support::temporal::Temporal;
use crate::support::tool::Tool;
use crate::support::{Process, tools};

pub(crate) struct Stage {
    pub(crate) server: Process,
    data: tempfile::TempDir,
    pub(crate) address: String,
    pub(crate) namespace: String,
    /// Where the server keeps pools, if not in its data.
    engine: Option<&'static str>,
    worker: RefCell<Job>,
    asked: Cell<u64>,
}

impl Stage {
    /// On the Temporal that the tests share.
    pub(crate) fn new() -> Self {
        Self::at(Temporal::shared())
    }

    pub(crate) fn at(temporal: &Temporal) -> Self {
        Self::with_script(temporal, "stage.py")
    }

    /// With workflows of another kind.
    pub(crate) fn with_script(temporal: &Temporal, script: &str) -> Self {
        Self::on_engine(temporal, script, None)
    }

    pub(crate) fn on_engine(temporal: &Temporal, script: &str, engine: Option<&'static str>) -> Self {
        let (address, namespace) = (temporal.address(), temporal.namespace());
        let data = tempfile::tempdir().unwrap();
        let server = serve(data.path(), &address, &namespace, engine);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/temporal").join(script);
        let worker = Job::start(Command::new(tools::python()).arg(script).args([&address, &namespace]));
        worker.says("ready");
        Self { server, data, address, namespace, engine, worker: RefCell::new(worker), asked: Cell::new(0) }
    }

    /// `kill -9` for our server, and another one on the same data.
    pub(crate) fn restart_server(&mut self) {
        self.server.kill();
        self.start_server();
    }

    pub(crate) fn start_server(&mut self) {
        self.server = self.another_server();
    }

    /// Beside the one that there is. Only for pools that are kept elsewhere.
    pub(crate) fn another_server(&self) -> Process {
        serve(self.data.path(), &self.address, &self.namespace, self.engine)
    }

    pub(crate) fn tool(&self) -> Tool {
        Tool::of(&self.server)
    }

    /// Asks the worker's client to do something, and does not wait for the answer.
    pub(crate) fn begin(&self, mut command: Value) -> u64 {
        let number = self.asked.get() + 1;
        self.asked.set(number);
        command["number"] = number.into();
        self.worker.borrow_mut().hears(&format!("{command}\n"));
        number
    }

    pub(crate) fn end(&self, number: u64) -> Value {
        let mut answer = None;
        until(&format!("command {number} is answered"), || {
            let said = self.worker.borrow().said();
            let mut answers = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            answer = answers.find(|answer| answer["number"] == number);
            answer.is_some()
        });
        let answer = answer.unwrap();
        assert_eq!(answer.get("error"), None, "{answer}");
        answer["answer"].clone()
    }

    pub(crate) fn ask(&self, command: Value) -> Value {
        self.end(self.begin(command))
    }

    pub(crate) fn start(&self, id: &str, steps: Value) -> String {
        self.ask(json!({ "do": "start", "id": id, "steps": steps })).as_str().unwrap().to_owned()
    }

    pub(crate) fn signal(&self, id: &str, what: &str) {
        self.ask(json!({ "do": "signal", "id": id, "what": what }));
    }

    /// What came of the steps of a workflow, once it has ended.
    pub(crate) fn result(&self, id: &str) -> Value {
        self.ask(json!({ "do": "result", "id": id }))
    }

    /// Of a workflow with these steps.
    pub(crate) fn run(&self, id: &str, steps: Value) -> Value {
        self.start(id, steps);
        self.result(id)
    }

    pub(crate) fn holders(&self, pool: &str) -> Vec<String> {
        names(&self.listed(&format!("holds?pool={pool}"))["holds"])
    }

    pub(crate) fn waiters(&self, pool: &str) -> Vec<String> {
        names(&self.listed(&format!("pools/{pool}/queue"))["waiters"])
    }

    /// What REST says at this path; an error, if there is no such pool. Asked often, so without another process.
    pub(crate) fn listed(&self, path: &str) -> Value {
        let mut connection = TcpStream::connect(self.server.http.trim_start_matches("http://")).unwrap();
        let request = format!("GET /api/v1/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).unwrap();
        let answer = std::io::read_to_string(connection).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    pub(crate) fn until_held_by(&self, pool: &str, holders: &[&str]) {
        let mut found = Vec::new();
        let what = format!("{pool} is held by {holders:?}");
        until(&what, || {
            found = self.holders(pool);
            found == holders
        });
    }

    pub(crate) fn until_waits(&self, pool: &str, waiters: &[&str]) {
        until(&format!("{waiters:?} wait for {pool}"), || self.waiters(pool) == waiters);
    }
}

fn serve(data: &Path, address: &str, namespace: &str, engine: Option<&str>) -> Process {
    let engine = engine.map_or(["--durability", "os"], |engine| ["--engine", engine]);
    let temporal = ["--temporal", address, "--temporal-namespace", namespace];
    Process::serve(data, &[engine.as_slice(), temporal.as_slice()].concat())
}

fn names(listed: &Value) -> Vec<String> {
    let listed = listed.as_array().cloned().unwrap_or_default();
    listed.iter().map(|entry| entry["holder"].as_str().unwrap().to_owned()).collect()
}

/// Acquires, and keeps the hold under the name of its pool.
pub(crate) fn acquire(pool: &str) -> Value {
    acquire_with(json!({ "pool": pool }))
}

pub(crate) fn acquire_with(input: Value) -> Value {
    json!({ "do": "call", "activity": "tenure.acquire", "hold": input["pool"], "input": input })
}

/// Calls, and goes on whatever comes of it.
pub(crate) fn attempt(activity: &str, input: Value) -> Value {
    json!({ "do": "call", "activity": activity, "input": input, "tolerate": true })
}

pub(crate) fn release(hold: &str) -> Value {
    json!({ "do": "release", "hold": hold })
}

pub(crate) fn wait_for(signal: &str) -> Value {
    json!({ "do": "until", "signal": signal })
}

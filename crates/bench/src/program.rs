//! Load that is made by a program in another language: one process, which is told where the server is, how many clients and tasks
//! to have and for how long, and prints how many times a second something was taken and given back. To add one is a variant here
//! and a row in the plan.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::load::{Outcome, Shape};
use crate::plan::DEEP;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Program {
    /// Our client, with asyncio.
    Python,
    /// Our client, in Node.
    TypeScript,
    /// Our client, which `cargo xtask tools` has built.
    Go,
    /// LDLM's client in Python, with asyncio.
    PyLdlm,
}

impl Program {
    /// Always as many tasks, on as many connections as is best for it.
    pub(crate) fn shape(self) -> Shape {
        match self {
            // One thread of Python's keeps all connections: with one of them it has more to say and to read at a time.
            Self::Python => Shape { connections: 1, tasks: DEEP.connections * DEEP.tasks },
            Self::TypeScript | Self::Go | Self::PyLdlm => DEEP,
        }
    }

    /// What runs it, from what `cargo xtask tools` has made. None if it runs by itself.
    fn interpreter(self, tools: &Path) -> Option<PathBuf> {
        match self {
            Self::Python | Self::PyLdlm => Some(tools.join("python/bin/python")),
            Self::TypeScript => Some("node".into()),
            Self::Go => None,
        }
    }

    fn source(self, tools: &Path) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        match self {
            Self::Python => root.join("clients/python/bench.py"),
            Self::TypeScript => tools.join("typescript/built/clients/typescript/bench.mjs"),
            Self::Go => tools.join("go/client-bench"),
            Self::PyLdlm => root.join("crates/bench/programs/py_ldlm.py"),
        }
    }

    /// How many times a second.
    pub(crate) async fn measure(self, tools: &Path, address: &str, span: Duration) -> Outcome<f64> {
        let (interpreter, source, Shape { connections, tasks }) =
            (self.interpreter(tools), self.source(tools), self.shape());
        let runs = interpreter.as_ref().unwrap_or(&source);
        let mut command = Command::new(runs);
        command.args(interpreter.is_some().then_some(&source)).arg(address);
        command.args(["--clients", &connections.to_string(), "--tasks", &tasks.to_string()]);
        command.args(["--seconds", &span.as_secs_f64().to_string()]);
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python");
        // Both programs measure in the same way.
        let modules = std::env::join_paths([python.join("src"), python])?;
        command.env("PYTHONPATH", modules).env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null()).kill_on_drop(true);
        let missing = |why: String| format!("{why}; `cargo xtask tools` makes what is needed");
        if !source.exists() {
            return Err(missing(format!("there is no {}", name(&source))).into());
        }
        let ended = command.output().await.map_err(|error| missing(format!("cannot run {}: {error}", name(runs))))?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr);
            eprint!("{said}");
            let last = said.lines().last().unwrap_or("it says nothing").trim().to_owned();
            return Err(missing(format!("{} failed: {last}", name(&source))).into());
        }
        let said = String::from_utf8_lossy(&ended.stdout);
        let figure = said.trim().parse().map_err(|_| format!("{} said `{}`", name(&source), said.trim()))?;
        Ok(figure)
    }
}

/// Without its folder, which is this machine's.
fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

//! A server behind a door, so that it can be killed and started again where its clients look for it.

use super::Process;
use super::door::Door;
use super::job::Job;
use super::tool::{Ended, Tool};

pub(crate) struct Scene {
    pub(crate) server: Process,
    data: tempfile::TempDir,
    door: Door,
    pub(crate) tool: Tool,
}

impl Scene {
    pub(crate) fn new() -> Self {
        // A server that keeps nothing starts much faster.
        Self::with(&["--durability", "memory"])
    }

    /// One that may be killed and started again.
    pub(crate) fn durable() -> Self {
        Self::with(&[])
    }

    fn with(options: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("a directory for one test");
        let server = Process::serve(data.path(), options);
        let door = Door::to(&server.grpc);
        Self { tool: Tool::at(&door.address), server, data, door }
    }

    pub(crate) fn restart(&mut self) {
        self.server.kill();
        self.server = Process::serve(self.data.path(), &[]);
        self.door.leads_to(&self.server.grpc);
    }

    pub(crate) fn job(&self, arguments: &[&str]) -> Job {
        Job::start(&self.tool.command(arguments))
    }

    pub(crate) fn ends(&self, arguments: &[&str]) -> Ended {
        self.job(arguments).ends()
    }
}

//! The real binary as a child process, on ports that the system chooses.

#![allow(dead_code, reason = "each test uses its own part of this")]

pub(crate) mod door;
pub(crate) mod job;
pub(crate) mod scene;
#[cfg(feature = "temporal")]
pub(crate) mod temporal;
pub(crate) mod tool;
pub(crate) mod tools;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tenure_proto::v1::tenure_client::TenureClient;
use tonic::transport::{Channel, Endpoint};

pub(crate) struct Process {
    child: Child,
    /// Kept, so that the server can go on writing to it.
    stdout: BufReader<std::process::ChildStdout>,
    pub(crate) grpc: String,
    /// With its scheme.
    pub(crate) http: String,
}

impl Process {
    /// Starts `tenure serve` on `data` and waits until it says where it listens.
    pub(crate) fn serve(data: &Path, arguments: &[&str]) -> Self {
        Self::spawn(command(data).args(arguments))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut told = |what: &str| {
            let mut line = String::new();
            loop {
                line.clear();
                let read = stdout.read_line(&mut line).expect("it speaks UTF-8");
                assert!(read > 0, "the server ended before it said where it listens");
                if let Some(address) = line.strip_prefix(what) {
                    return address.trim().to_owned();
                }
            }
        };
        let (grpc, http) = (told("grpc "), told("http "));
        Self { child, stdout, grpc, http }
    }

    pub(crate) async fn client(&self) -> TenureClient<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.grpc)).expect("an address");
        TenureClient::new(endpoint.connect().await.expect("the server listens"))
    }

    /// The lines that it says next, up to and with the one that ends so.
    pub(crate) fn says_until(&mut self, end: &str) -> String {
        let mut said = String::new();
        while !said.trim_end().ends_with(end) {
            assert_ne!(self.stdout.read_line(&mut said).expect("it speaks UTF-8"), 0, "it said only {said:?}");
        }
        said
    }

    /// What it says until it ends.
    pub(crate) fn says_at_last(&mut self) -> String {
        let mut said = String::new();
        self.stdout.read_to_string(&mut said).expect("it speaks UTF-8");
        said
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is gone");
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything it says on stderr, until it ends. For a child whose stderr is piped.
    pub(crate) fn stderr(&mut self) -> String {
        std::io::read_to_string(self.child.stderr.take().expect("it is piped")).expect("it speaks UTF-8")
    }

    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().expect("it ends")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn command(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"]).arg(data);
    command
}

//! The servers that are measured, as processes of their own with folders of their own. A server that is not installed is
//! told with how to get it.

use std::error::Error;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::load::Outcome;

/// A process that answers at an address. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: String,
    process: Child,
    _socket: Option<TempDir>,
}

/// Why a server cannot be measured, and what to do about it.
pub(crate) type Missing = String;

impl Server {
    /// As `kill -9` does, and waits until it is gone.
    pub(crate) async fn kill(mut self) -> Outcome<()> {
        Ok(self.process.kill().await?)
    }

    /// The memory it occupies.
    pub(crate) fn resident_bytes(&self) -> Outcome<u64> {
        let process = self.process.id().ok_or("it has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the system does not tell")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
    }
}

/// Durable in this folder, as by default: every answer waits for its sync. Without one, nothing is kept.
pub(crate) async fn tenure(data: Option<&Path>) -> Outcome<Server> {
    serve(|command| match data {
        Some(data) => command.arg("--data").arg(data),
        None => command.args(["--durability", "memory"]),
    })
    .await
}

async fn serve(options: impl FnOnce(&mut Command) -> &mut Command) -> Outcome<Server> {
    let mut command = Command::new(std::env::current_exe()?.with_file_name("tenure"));
    command.args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log", "error"]);
    options(&mut command);
    started(command).await
}

/// Those that choose a port themselves tell which.
async fn started(mut command: Command) -> Outcome<Server> {
    let process = command.stdout(Stdio::piped()).kill_on_drop(true).spawn();
    let mut process = process.map_err(|error| format!("cannot start {:?}: {error}", command.as_std().get_program()))?;
    let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some(address) = line.strip_prefix("grpc ") {
            return Ok(Server { address: address.trim().to_owned(), process, _socket: None });
        }
    }
    Err("the server ended before it said where it listens".into())
}

/// What the machine allows to whoever syncs and answers, and does nothing else.
pub(crate) async fn bare(folder: &Path) -> Outcome<Server> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(crate::BARE).arg(folder);
    started(command).await
}

/// As durable as we are: every write is synced before it is answered. Without a folder nothing is kept.
pub(crate) async fn redis(data: Option<&Path>) -> Outcome<Result<Server, Missing>> {
    let (port, address) = free_port()?;
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""]);
    match data {
        Some(data) => {
            std::fs::create_dir_all(data)?;
            command.args(["--appendonly", "yes", "--appendfsync", "always", "--dir"]).arg(data);
        }
        None => {
            command.args(["--appendonly", "no"]);
        }
    }
    let missing = "redis-server is not installed (Debian: `apt-get install redis-server`)";
    spawn(command, address, missing).await
}

/// One member, durable as by default.
pub(crate) async fn etcd(data: &Path) -> Outcome<Result<Server, Missing>> {
    let (_, address) = free_port()?;
    let (_, members) = free_port()?;
    let (clients, members) = (format!("http://{address}"), format!("http://{members}"));
    let mut command = Command::new("etcd");
    command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    command.args(["--listen-peer-urls", &members, "--initial-advertise-peer-urls", &members]);
    command.args(["--initial-cluster", &format!("default={members}"), "--log-level", "error", "--data-dir"]).arg(data);
    let missing = "etcd is not installed (Debian: `apt-get install etcd-server`)";
    spawn(command, address, missing).await
}

/// What LDLM is built from.
const LDLM_COMMAND: &str = "github.com/imoore76/ldlm/cmd/server";
pub(crate) const LDLM_VERSION: &str = "v1.2.2";
/// Where Go is if it is not on the path: where its own installer puts it.
const GO: [&str; 2] = ["go", "/usr/local/go/bin/go"];

/// Builds LDLM's server in `tools` from its Go module, unless it is there already.
pub(crate) async fn build_ldlm(tools: &Path) -> Result<PathBuf, Missing> {
    let folder = std::path::absolute(tools.join(format!("ldlm-{LDLM_VERSION}"))).map_err(|it| it.to_string())?;
    let program = folder.join("server");
    if program.exists() {
        return Ok(program);
    }
    let command = format!("{LDLM_COMMAND}@{LDLM_VERSION}");
    for go in GO {
        eprintln!("building LDLM: {go} install {command}");
        let built = Command::new(go).args(["install", &command]).env("GOBIN", &folder).output().await;
        match built {
            Ok(built) if built.status.success() => return Ok(program),
            Ok(built) => {
                eprint!("{}", String::from_utf8_lossy(&built.stderr));
                return Err(
                    "LDLM could not be built from its Go module; `--ldlm PROGRAM` takes one that is there".into()
                );
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("cannot run {go}: {error}")),
        }
    }
    Err("Go is not installed, which LDLM is built with (https://go.dev/dl); `--ldlm PROGRAM` takes one that is there"
        .into())
}

/// Durable if it has a state file, which it syncs before it answers. It logs errors alone: it would spend much of its
/// time on a line for each call otherwise.
pub(crate) async fn ldlm(program: &Path, state_file: Option<&Path>) -> Outcome<Result<Server, Missing>> {
    let (_, address) = free_port()?;
    let mut command = Command::new(program);
    command.args(["--log_level", "error", "--listen_address", &address]);
    // Not beside its data: the path of a socket must be short.
    let socket = tempfile::tempdir()?;
    command.arg("--ipc_socket_file").arg(socket.path().join("ldlm.sock"));
    if let Some(file) = state_file {
        command.arg("--state_file").arg(file);
    }
    let missing = format!("there is no LDLM at {}", program.display());
    let server = spawn(command, address, &missing).await?;
    Ok(server.map(|server| Server { _socket: Some(socket), ..server }))
}

/// Temporal's development server, as it comes.
pub(crate) async fn temporal(tools: &Path, folder: &Path, namespaces: &[String]) -> Result<Server, Box<dyn Error>> {
    let (port, address) = free_port()?;
    let program = tools.join("temporal");
    let mut command = Command::new(&program);
    command.args(["server", "start-dev", "--headless", "--log-level", "error", "--port", &port.to_string()]);
    command.arg("--db-filename").arg(folder.join("temporal.db"));
    for namespace in namespaces {
        command.args(["--namespace", namespace]);
    }
    let process = command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn();
    let process = process.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    for _ in 0..600 {
        // Its port is open before it has all namespaces.
        let last = namespaces.last().map_or("default", String::as_str);
        let ask = ["operator", "namespace", "describe", "--namespace", last, "--address", &address];
        let answer = Command::new(&program).args(ask).output().await?;
        if answer.status.success() {
            return Ok(Server { address, process, _socket: None });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err("Temporal's development server did not come up".into())
}

/// Our server, with its pools in a namespace of Temporal's.
pub(crate) async fn tenure_in(temporal: &Server, namespace: &str, keepers: usize) -> Outcome<Server> {
    serve(|command| {
        command
            .args(["--engine", "temporal", "--temporal", &temporal.address, "--temporal-namespace", namespace])
            .args(["--keepers", &keepers.to_string()])
    })
    .await
}

/// A port that was free a moment ago, for servers that cannot choose one, or do not tell.
fn free_port() -> std::io::Result<(u16, String)> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    Ok((port, format!("127.0.0.1:{port}")))
}

/// Starts a server and waits until it listens.
async fn spawn(mut command: Command, address: String, missing: &str) -> Outcome<Result<Server, Missing>> {
    let process = command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn();
    let process = match process {
        Ok(process) => process,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Err(missing.to_owned())),
        Err(error) => return Err(error.into()),
    };
    for _ in 0..400 {
        if tokio::net::TcpStream::connect(&address).await.is_ok() {
            return Ok(Ok(Server { address, process, _socket: None }));
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    Err(format!("{:?} did not come up", command.as_std().get_program()).into())
}

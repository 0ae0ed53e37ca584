//! The servers that are measured, as processes of their own with folders of their own.

use std::error::Error;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

pub(crate) struct Tenure {
    pub(crate) address: String,
    _process: Child,
}

impl Tenure {
    /// Durable as by default: every answer waits for its sync.
    pub(crate) async fn start(folder: &Path) -> Result<Self, Box<dyn Error>> {
        Self::serve(|command| command.arg("--data").arg(folder.join("tenure"))).await
    }

    /// With its pools in a namespace of Temporal's.
    pub(crate) async fn start_in(temporal: &Temporal, namespace: &str, keepers: usize) -> Result<Self, Box<dyn Error>> {
        Self::serve(|command| {
            command
                .args(["--engine", "temporal", "--temporal", &temporal.address, "--temporal-namespace", namespace])
                .args(["--keepers", &keepers.to_string(), "--log", "error"])
        })
        .await
    }

    async fn serve(options: impl FnOnce(&mut Command) -> &mut Command) -> Result<Self, Box<dyn Error>> {
        let binary = std::env::current_exe()?.with_file_name("tenure");
        let mut command = Command::new(&binary);
        command.args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        let mut process = options(&mut command)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some(address) = line.strip_prefix("grpc ") {
                return Ok(Self { address: address.trim().to_owned(), _process: process });
            }
        }
        Err("the server ended before it said where it listens".into())
    }
}

pub(crate) struct Redis {
    pub(crate) address: String,
    _process: Child,
}

impl Redis {
    /// As durable as we are: every write is synced before it is answered. None if Redis is not installed.
    pub(crate) async fn start(folder: &Path) -> Result<Option<Self>, Box<dyn Error>> {
        // A port that was free a moment ago; Redis cannot choose one itself.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let data = folder.join("redis");
        std::fs::create_dir_all(&data)?;
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--dir"])
            .arg(&data)
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let process = match process {
            Ok(process) => process,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let address = format!("127.0.0.1:{port}");
        wait_for(&address).await.map_err(|()| "redis-server did not come up")?;
        Ok(Some(Self { address, _process: process }))
    }
}

/// What LDLM is built from.
const LDLM_COMMAND: &str = "github.com/imoore76/ldlm/cmd/server";
const LDLM_VERSION: &str = "v1.2.2";
/// Where Go is if it is not on the path: where its own installer puts it.
const GO: [&str; 2] = ["go", "/usr/local/go/bin/go"];

pub(crate) struct Ldlm {
    pub(crate) address: String,
    _process: Child,
    /// Not beside its data: the path of a socket must be short.
    _socket: TempDir,
}

impl Ldlm {
    /// Builds LDLM's server in `tools` from its Go module, unless it is there already. Gives the program, or why there
    /// is none.
    pub(crate) async fn build(tools: &Path) -> Result<PathBuf, String> {
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
                    return Err("LDLM could not be built from its Go module".to_owned());
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(format!("cannot run {go}: {error}")),
            }
        }
        Err("Go is not installed, which LDLM is built with".to_owned())
    }

    /// Durable if it has a state file, which it syncs before it answers. It logs errors alone: it would spend much of its
    /// time on a line for each call otherwise.
    pub(crate) async fn start(program: &Path, folder: &Path, state_file: bool) -> Result<Self, Box<dyn Error>> {
        // A port that was free a moment ago; nothing says which one LDLM has chosen.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let mut command = Command::new(program);
        command.args(["--log_level", "error", "--listen_address", &address]);
        let socket = tempfile::tempdir()?;
        command.arg("--ipc_socket_file").arg(socket.path().join("ldlm.sock"));
        if state_file {
            command.arg("--state_file").arg(folder.join("ldlm.state"));
        }
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn();
        let process = process.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        wait_for(&address).await.map_err(|()| "LDLM did not come up")?;
        Ok(Self { address, _process: process, _socket: socket })
    }
}

/// Temporal's development server, as it comes.
pub(crate) struct Temporal {
    pub(crate) address: String,
    _process: Child,
}

impl Temporal {
    pub(crate) async fn start(tools: &Path, folder: &Path, namespaces: &[String]) -> Result<Self, Box<dyn Error>> {
        // A port that was free a moment ago: it cannot choose one itself.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let program = tools.join("temporal");
        let mut command = Command::new(&program);
        command.args(["server", "start-dev", "--headless", "--log-level", "error", "--port", &port.to_string()]);
        command.arg("--db-filename").arg(folder.join("temporal.db"));
        for namespace in namespaces {
            command.args(["--namespace", namespace]);
        }
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn();
        let process = process.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let address = format!("127.0.0.1:{port}");
        for _ in 0..600 {
            // Its port is open before it has all namespaces.
            let last = namespaces.last().map_or("default", String::as_str);
            let ask = ["operator", "namespace", "describe", "--namespace", last, "--address", &address];
            let answer = Command::new(&program).args(ask).output().await?;
            if answer.status.success() {
                return Ok(Self { address, _process: process });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("Temporal's development server did not come up".into())
    }
}

async fn wait_for(address: &str) -> Result<(), ()> {
    for _ in 0..100 {
        if tokio::net::TcpStream::connect(address).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(())
}

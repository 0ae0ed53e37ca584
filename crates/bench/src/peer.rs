//! The servers that are measured, as processes of their own with folders of their own.

use std::error::Error;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

pub(crate) struct Tenure {
    pub(crate) address: String,
    _process: Child,
}

impl Tenure {
    /// Durable as by default: every answer waits for its sync.
    pub(crate) async fn start(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let binary = std::env::current_exe()?.with_file_name("tenure");
        let mut process = Command::new(&binary)
            .args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"])
            .arg(folder.join("tenure"))
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
        for _ in 0..100 {
            if tokio::net::TcpStream::connect(&address).await.is_ok() {
                return Ok(Some(Self { address, _process: process }));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("redis-server did not come up".into())
    }
}

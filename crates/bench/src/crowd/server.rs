//! The server under load, as a process of its own, and what the system and its metrics tell of it.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::Outcome;

/// In KiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) before: u64,
    pub(crate) peak: u64,
    pub(crate) after: u64,
}

pub(crate) struct Server {
    pub(crate) grpc: String,
    pub(crate) http: String,
    pid: u32,
    folder: TempDir,
    _process: Child,
}

impl Server {
    /// Durable as by default, on ports that the system chooses.
    pub(crate) async fn start(program: &Path, options: &[&str]) -> Outcome<Self> {
        let beside = program.parent().ok_or("a program lies in a folder")?;
        let folder = tempfile::Builder::new().prefix("tenure-load").tempdir_in(beside)?;
        let log = fs::File::create(folder.path().join("log"))?;
        let mut process = Command::new(program)
            .args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"])
            .arg(folder.path().join("data"))
            .args(options)
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let pid = process.id().ok_or("the server has ended at once")?;
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let (mut grpc, mut http) = (None, None);
        while let Some(line) = lines.next_line().await? {
            match line.split_once(' ') {
                Some(("grpc", address)) => grpc = Some(address.trim().to_owned()),
                Some(("http", address)) => http = Some(address.trim().trim_start_matches("http://").to_owned()),
                _ => {}
            }
            if let (Some(grpc), Some(http)) = (&grpc, &http) {
                return Ok(Self { grpc: grpc.clone(), http: http.clone(), pid, folder, _process: process });
            }
        }
        Err("the server ended before it said where it listens".into())
    }

    /// From here on the peak is counted.
    pub(crate) fn begin(&self) -> Outcome<Memory> {
        fs::write(format!("/proc/{}/clear_refs", self.pid), "5")?;
        let before = self.status("VmRSS:")?;
        Ok(Memory { before, peak: before, after: before })
    }

    pub(crate) fn end(&self, memory: &mut Memory) -> Outcome<()> {
        memory.peak = self.status("VmHWM:")?;
        memory.after = self.status("VmRSS:")?;
        Ok(())
    }

    fn status(&self, field: &str) -> Outcome<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)).ok_or("the system does not tell memory")?;
        Ok(line.trim().trim_end_matches("kB").trim().parse()?)
    }

    /// How many connections it has, listening ones too.
    pub(crate) fn sockets(&self) -> Outcome<usize> {
        let files = fs::read_dir(format!("/proc/{}/fd", self.pid))?;
        // Some are gone by the time they are looked at.
        let names = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        Ok(names.filter(|name| name.to_string_lossy().starts_with("socket:")).count())
    }

    pub(crate) fn log(&self) -> Outcome<String> {
        Ok(fs::read_to_string(self.folder.path().join("log"))?)
    }

    /// The sum over all labels of a metric.
    pub(crate) async fn metric(&self, name: &str) -> Outcome<u64> {
        let text = self.get("/metrics").await?;
        let mut sum = 0;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix(name)
                && rest.starts_with([' ', '{'])
                && let Some((_, value)) = rest.rsplit_once(' ')
            {
                sum += value.parse::<u64>()?;
            }
        }
        Ok(sum)
    }

    async fn get(&self, path: &str) -> Outcome<String> {
        let mut socket = TcpStream::connect(&self.http).await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.http);
        socket.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        tokio::time::timeout(Duration::from_secs(60), socket.read_to_string(&mut answer)).await??;
        Ok(answer)
    }
}

/// Each connection is a file, here and in the server, which raises its own limit.
pub(crate) fn raise_file_limit(needed: u64) -> Outcome<()> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        let maximum = limit.maximum.unwrap_or_default();
        return Err(format!("{needed} open files are needed, and at most {maximum} are allowed (ulimit -Hn)").into());
    }
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    Ok(())
}

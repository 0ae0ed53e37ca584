//! What the figures come from, in words that would fit any machine like it: no names, no paths.

use std::path::Path;
use std::process::Command;

use crate::peer;
use crate::plan::Server;

/// A line for the machine and one for the versions of what was measured. A program that was given does not tell its own.
pub(crate) fn describe(folder: &Path, is_ldlm_given: bool, measured: impl Fn(Server) -> bool) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned());
    let memory = field("/proc/meminfo", "MemTotal").and_then(|text| text.trim_end_matches(" kB").parse::<f64>().ok());
    let memory = memory.map_or_else(|| "unknown".to_owned(), |kib| format!("{:.0} GiB of", kib / 1024.0 / 1024.0));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let file_system = file_system(folder).unwrap_or_else(|| "an unknown file system".to_owned());
    let mut versions = vec![format!("Tenure {}", env!("CARGO_PKG_VERSION"))];
    if measured(Server::Redis) {
        versions.extend(version("redis-server", "v=").map(|version| format!("Redis {version}")));
    }
    if measured(Server::Etcd) {
        versions.extend(version("etcd", "etcd Version: ").map(|version| format!("etcd {version}")));
    }
    if measured(Server::Ldlm) {
        let version = if is_ldlm_given { "as given by `--ldlm`" } else { peer::LDLM_VERSION };
        versions.push(format!("LDLM {version}"));
    }
    format!(
        "Machine: {model}, {cores} cores, {memory} memory, Linux {}, {file_system}. The servers and the load generator \
         share it.\n\nMeasured: {}.\n",
        numbers(&kernel),
        versions.join(", "),
    )
}

/// A line of `name : value`.
fn field(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// Only the version: what follows it can name whoever built it.
fn numbers(version: &str) -> &str {
    let end = version.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(version.len());
    &version[..end]
}

/// What the folder is mounted with: the longest mount point that it lies under counts.
fn file_system(folder: &Path) -> Option<String> {
    let folder = std::path::absolute(folder).ok()?.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    });
    let around = mounts.filter(|(point, _)| folder.starts_with(point));
    around.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind)
}

fn version(program: &str, before: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, rest) = text.split_once(before)?;
    Some(numbers(rest).to_owned())
}

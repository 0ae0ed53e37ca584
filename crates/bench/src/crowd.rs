//! Crowds and bad guests: what a server does under ten thousand connections, a million holds, and clients that never read or
//! never wait. Each case has a server of its own, and a prober beside it that takes and releases a lock all the while; what is
//! claimed is checked, what it took is told.

#![allow(clippy::cast_possible_truncation, reason = "what is counted here is small")]

mod asking;
mod flood;
mod holds;
mod huge;
mod prober;
mod raw;
mod server;
mod sessions;
mod silent;
mod unread;
mod waiters;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Parser;

use self::prober::{Others, Probed, Prober};
use self::server::{Memory, Server};

pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Longer than anything takes on a busy machine; only what fails waits for it.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many of each.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub waiters: usize,
    pub sessions: usize,
    pub holds: usize,
    /// What one that never reads has to say, in bytes: much more than a server may take.
    pub unread_bytes: usize,
    /// Connections that flood, how many requests each has by a stream, and how many by calls.
    pub flooders: usize,
    pub flood_each: usize,
    pub flood_calls: usize,
    /// How many commands the flooded server lets wait: less than those who flood have at once.
    pub flood_room: &'static str,
    pub silent: usize,
    pub huge: usize,
    /// For how long holds that are to expire are taken, and sessions that are to run out are opened.
    pub lapse_ms: u64,
    /// After how long those who never read are hung up on: as an option of the server, in two parts.
    pub keepalive: (&'static str, &'static str),
}

impl Scale {
    pub const FULL: Self = Self {
        waiters: 10_000,
        sessions: 100_000,
        holds: 1_000_000,
        unread_bytes: 256 * 1024 * 1024,
        flooders: 64,
        flood_each: 20_000,
        flood_calls: 2_000,
        flood_room: "65536",
        silent: 5_000,
        huge: 64,
        lapse_ms: 45_000,
        keepalive: ("15s", "5s"),
    };
    /// A few seconds, in a debug build too. The memory of a crowd this small is lost in that of the program, but not that of
    /// those who never read: they have as much to say in proportion to what may be kept.
    pub const SMALL: Self = Self {
        waiters: 200,
        sessions: 1_000,
        holds: 3_000,
        unread_bytes: 48 * 1024 * 1024,
        flooders: 8,
        flood_each: 5_000,
        flood_calls: 500,
        flood_room: "16384",
        silent: 0,
        huge: 8,
        lapse_ms: 5_000,
        keepalive: ("2s", "2s"),
    };
}

/// Load a server with crowds and bad guests, and check what it does
#[derive(Debug, Parser)]
#[command(name = "cargo xtask load")]
pub struct Arguments {
    /// Hundreds instead of thousands, as the tests do
    #[arg(long)]
    small: bool,
    /// Only cases whose name contains one of these
    names: Vec<String>,
}

/// The program beside this one, with what the command line says.
pub async fn main(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let this = std::env::current_exe()?;
    let scale = if arguments.small { Scale::SMALL } else { Scale::FULL };
    let rows = run(&this.with_file_name("tenure"), scale, &arguments.names).await.map_err(|error| error.to_string())?;
    print!("{}", table(&rows));
    let broken: Vec<_> = rows.iter().flat_map(Row::broken).collect();
    if broken.is_empty() { Ok(()) } else { Err(broken.join("; ").into()) }
}

/// What came of a case.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    asked: String,
    took: Duration,
    memory: Memory,
    others: Probed,
    refused: BTreeMap<String, u64>,
    checks: Vec<Check>,
}

/// A claim, and whether it was true.
#[derive(Debug)]
pub(crate) struct Check {
    claim: String,
    is_true: bool,
}

impl Row {
    /// The claims that were not true.
    pub fn broken(&self) -> impl Iterator<Item = String> {
        self.checks.iter().filter(|check| !check.is_true).map(|check| format!("{}: not so: {}", self.name, check.claim))
    }
}

/// What a case tells of itself.
#[derive(Debug, Default)]
pub(crate) struct Told {
    asked: String,
    refused: BTreeMap<String, u64>,
    checks: Vec<Check>,
    /// By how much the server may have grown at most, in KiB.
    growth_max: u64,
    /// Others may be told that the server is overloaded, if they are served when they ask again.
    others_may_be_refused: bool,
}

impl Told {
    fn check(&mut self, claim: impl Into<String>, is_true: bool) {
        self.checks.push(Check { claim: claim.into(), is_true });
    }

    /// That others are served while the load is as it is now: it waits for that, so it is no matter of how fast the machine is.
    async fn check_others(&mut self, others: &Others, when: &str) {
        self.check(format!("others are served {when}"), others.are_served().await);
    }

    fn refused(&mut self, code: &str) {
        *self.refused.entry(code.to_owned()).or_default() += 1;
    }
}

const CASES: [&str; 8] = ["waiters", "sessions", "holds", "unread", "flood", "cramped", "huge", "silent"];

/// One case after another, each with a server of its own.
pub async fn run(program: &Path, scale: Scale, names: &[String]) -> Outcome<Vec<Row>> {
    server::raise_file_limit(scale.waiters.max(scale.silent) as u64 + 500)?;
    let mut rows = Vec::new();
    for name in CASES {
        let is_wanted = names.is_empty() || names.iter().any(|wanted| name.contains(wanted.as_str()));
        if !is_wanted || name == "silent" && scale.silent == 0 {
            continue;
        }
        eprintln!("load: {name}");
        let row = case(program, scale, name).await.map_err(|error| format!("{name}: {error}"))?;
        for broken in row.broken() {
            eprintln!("load: {broken}");
        }
        rows.push(row);
    }
    Ok(rows)
}

async fn case(program: &Path, scale: Scale, name: &'static str) -> Outcome<Row> {
    let sessions_max = scale.sessions.to_string();
    let waiters_max = scale.waiters.to_string();
    let options: &[&str] = match name {
        "waiters" => &["--waiters-per-pool-max", &waiters_max],
        "sessions" => &["--sessions-max", &sessions_max],
        "unread" => &["--keepalive-interval", scale.keepalive.0, "--keepalive-timeout", scale.keepalive.1],
        "flood" => &["--mailbox-max", scale.flood_room],
        "cramped" => &["--mailbox-max", flood::LITTLE_ROOM],
        _ => &[],
    };
    let server = Server::start(program, options).await?;
    let mut memory = server.begin()?;
    let prober = Prober::start(&server);
    let began = Instant::now();
    let told = match name {
        "waiters" => waiters::run(&server, scale, prober.others()).await,
        "sessions" => sessions::run(&server, scale, prober.others()).await,
        "holds" => holds::run(&server, scale, prober.others()).await,
        "unread" => unread::run(&server, scale, prober.others()).await,
        "flood" => flood::run(&server, scale, prober.others()).await,
        "cramped" => flood::cramped(&server, scale, prober.others()).await,
        "huge" => huge::run(&server, scale, prober.others()).await,
        _ => silent::run(&server, scale, prober.others()).await,
    };
    let took = began.elapsed();
    let others = prober.stop()?;
    let mut told = told?;
    server.end(&mut memory)?;
    let grown = memory.peak.saturating_sub(memory.before);
    let bound = told.growth_max;
    told.check(format!("the server grew by at most {} MiB (it did by {})", bound / 1024, grown / 1024), grown <= bound);
    told.check(
        format!("others were not refused ({:?})", others.failures),
        others.failures.keys().all(|code| told.others_may_be_refused && code == "overloaded"),
    );
    let Told { asked, refused, checks, .. } = told;
    Ok(Row { name, asked, took, memory, others, refused, checks })
}

/// In Markdown, as docs/reliability.md has it.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| Case | What was asked | Took | Memory before / peak / after | Others: done, refused, slowest | Refused | Verdict |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let Memory { before, peak, after } = row.memory;
        let count = |counts: &BTreeMap<String, u64>| {
            let each: Vec<_> = counts.iter().map(|(code, count)| format!("{count} × `{code}`")).collect();
            if each.is_empty() { "none".to_owned() } else { each.join(", ") }
        };
        let broken: Vec<_> = row.broken().collect();
        let verdict = match broken.as_slice() {
            [] => format!("held ({} checks)", row.checks.len()),
            broken => format!("**broken**: {}", broken.join("; ")),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} s | {} / {} / {} MiB | {}, {}, {:.0} ms | {} | {} |",
            row.name,
            row.asked,
            row.took.as_secs_f64(),
            before / 1024,
            peak / 1024,
            after / 1024,
            row.others.done,
            count(&row.others.failures),
            row.others.worst.as_secs_f64() * 1_000.0,
            count(&row.refused),
            verdict
        );
    }
    text
}

/// Looks again until it is so; false if it never is.
pub(crate) async fn eventually<F: Future<Output = Outcome<bool>>>(mut look: impl FnMut() -> F) -> Outcome<bool> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if look().await? {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(false)
}

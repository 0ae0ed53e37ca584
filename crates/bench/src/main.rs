//! The load generator behind `cargo xtask bench`: the same work for us and for our peers, in one run,
//! repeated and interleaved, because only ratios from one run mean anything on a shared machine.

mod disk;
mod ldlm;
mod load;
mod peer;
mod redis;
mod report;
mod temporal;
mod tenure;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use tenure_bench::crowd;

use crate::load::Shape;
use crate::report::{Ratio, Workload};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure durable acquire+release pairs and hand-overs, beside the disk, Redis and LDLM
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// How often each workload is run; the median is shown
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each run lasts, in seconds
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// An LDLM server to measure, instead of one that is built with Go
    #[arg(long, value_name = "PROGRAM")]
    ldlm: Option<PathBuf>,
    /// Measure pools in Temporal instead: ours beside one that is asked by signals, on one development server
    #[arg(long)]
    temporal: bool,
    /// Only workloads whose name contains one of these
    names: Vec<String>,
}

enum Run {
    Tenure(tenure::Work),
    /// By LDLM's interface, on a server that has it.
    Ldlm(Peer, ldlm::Work),
    Redis(Shape),
    Disk,
}

#[derive(Clone, Copy, PartialEq)]
enum Peer {
    Tenure,
    InMemory,
    StateFile,
}

const OWN_NAMES_UNARY: &str = "own names, unary, 32 connections";
const OWN_NAMES_STREAM: &str = "own names, stream, 4 connections x 64 tasks";
const OWN_NAMES_CLIENT: &str = "own names, Rust client, 4 clients x 64 tasks";
const HOT_NAME: &str = "one hot name, stream, 32 clients";
const DISK: &str = "disk: append and sync";
const REDIS_STREAM: &str = "Redis, own names, 4 connections x 64 tasks";
const REDIS_32: &str = "Redis, own names, 32 connections";
const BY_LDLM_32: &str = "LDLM's interface, own names, 32 connections";
const BY_LDLM_DEEP: &str = "LDLM's interface, own names, 4 connections x 64 tasks";
const BY_LDLM_HOT: &str = "LDLM's interface, one hot name, 32 connections";
const IN_MEMORY_32: &str = "LDLM in memory, own names, 32 connections";
const IN_MEMORY_DEEP: &str = "LDLM in memory, own names, 4 connections x 64 tasks";
const IN_MEMORY_HOT: &str = "LDLM in memory, one hot name, 32 connections";
const STATE_FILE_32: &str = "LDLM with state file, own names, 32 connections";
const STATE_FILE_DEEP: &str = "LDLM with state file, own names, 4 connections x 64 tasks";
const STATE_FILE_HOT: &str = "LDLM with state file, one hot name, 32 connections";

const RATIOS: [Ratio; 10] = [
    ("stream pairs / Redis pairs (4 x 64)", OWN_NAMES_STREAM, REDIS_STREAM),
    ("Rust client's pairs / stream pairs (4 x 64)", OWN_NAMES_CLIENT, OWN_NAMES_STREAM),
    ("unary pairs / Redis pairs (32)", OWN_NAMES_UNARY, REDIS_32),
    ("hand-overs / disk syncs", HOT_NAME, DISK),
    ("LDLM's interface / LDLM in memory (32)", BY_LDLM_32, IN_MEMORY_32),
    ("LDLM's interface / LDLM in memory (4 x 64)", BY_LDLM_DEEP, IN_MEMORY_DEEP),
    ("LDLM's interface / LDLM in memory (one hot name)", BY_LDLM_HOT, IN_MEMORY_HOT),
    ("LDLM's interface / LDLM with state file (32)", BY_LDLM_32, STATE_FILE_32),
    ("LDLM's interface / LDLM with state file (4 x 64)", BY_LDLM_DEEP, STATE_FILE_DEEP),
    ("LDLM's interface / LDLM with state file (one hot name)", BY_LDLM_HOT, STATE_FILE_HOT),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).is_some_and(|first| first == "load") {
        return crowd::main(crowd::Arguments::parse_from(std::env::args().skip(1))).await;
    }
    let arguments = Arguments::parse();
    let span = Duration::from_secs_f64(arguments.seconds);
    if arguments.temporal {
        return temporal::run(arguments.rounds, span, &arguments.names).await;
    }
    let wide = Shape { connections: 32, tasks: 1 };
    let deep = Shape { connections: 4, tasks: 64 };
    let hot = Shape { connections: 4, tasks: 8 };
    let row = Workload::new;
    let mut workloads = vec![
        row(DISK, "syncs/s", Run::Disk),
        row(OWN_NAMES_UNARY, "pairs/s", Run::Tenure(tenure::Work::Unary(wide))),
        row(OWN_NAMES_STREAM, "pairs/s", Run::Tenure(tenure::Work::Stream(deep))),
        row(OWN_NAMES_CLIENT, "pairs/s", Run::Tenure(tenure::Work::Client(deep))),
        row(HOT_NAME, "hand-overs/s", Run::Tenure(tenure::Work::Hot(hot))),
        row(REDIS_32, "pairs/s", Run::Redis(wide)),
        row(REDIS_STREAM, "pairs/s", Run::Redis(deep)),
        row(BY_LDLM_32, "pairs/s", Run::Ldlm(Peer::Tenure, ldlm::Work::Own(wide))),
        row(IN_MEMORY_32, "pairs/s", Run::Ldlm(Peer::InMemory, ldlm::Work::Own(wide))),
        row(STATE_FILE_32, "pairs/s", Run::Ldlm(Peer::StateFile, ldlm::Work::Own(wide))),
        row(BY_LDLM_DEEP, "pairs/s", Run::Ldlm(Peer::Tenure, ldlm::Work::Own(deep))),
        row(IN_MEMORY_DEEP, "pairs/s", Run::Ldlm(Peer::InMemory, ldlm::Work::Own(deep))),
        row(STATE_FILE_DEEP, "pairs/s", Run::Ldlm(Peer::StateFile, ldlm::Work::Own(deep))),
        row(BY_LDLM_HOT, "hand-overs/s", Run::Ldlm(Peer::Tenure, ldlm::Work::Hot(wide))),
        row(IN_MEMORY_HOT, "hand-overs/s", Run::Ldlm(Peer::InMemory, ldlm::Work::Hot(wide))),
        row(STATE_FILE_HOT, "hand-overs/s", Run::Ldlm(Peer::StateFile, ldlm::Work::Hot(wide))),
    ];
    workloads.retain(|it| it.is_wanted(&arguments.names));

    let folder = tempfile::Builder::new().prefix("tenure-bench").tempdir_in(target_folder())?;
    let server = peer::Tenure::start(folder.path()).await?;
    let redis = peer::Redis::start(folder.path()).await?;
    if redis.is_none() {
        eprintln!("redis-server is not installed (Debian: apt-get install redis-server); its figures are left out");
        workloads.retain(|it| !matches!(it.run, Run::Redis(_)));
    }
    let ldlm = match workloads.iter().any(|it| it.run.needs_ldlm()) {
        true => start_ldlm(arguments.ldlm, folder.path()).await?,
        false => Err("nobody asks for it".to_owned()),
    };
    for round in 1..=arguments.rounds {
        for workload in &mut workloads {
            let address = match (&workload.run, &ldlm) {
                (Run::Ldlm(Peer::InMemory, _), Ok((in_memory, _))) => &in_memory.address,
                (Run::Ldlm(Peer::StateFile, _), Ok((_, with_state_file))) => &with_state_file.address,
                (Run::Ldlm(Peer::InMemory | Peer::StateFile, _), Err(why)) => {
                    workload.missing = Some(why.clone());
                    continue;
                }
                (Run::Redis(_), _) => &redis.as_ref().expect("left out otherwise").address,
                _ => &server.address,
            };
            eprintln!("round {round} of {}: {}", arguments.rounds, workload.name);
            let figure = match &workload.run {
                Run::Disk => disk::syncs(folder.path(), span)?,
                Run::Tenure(work) => tenure::run(std::slice::from_ref(address), work, span).await?,
                Run::Ldlm(_, work) => ldlm::run(address, *work, span).await?,
                Run::Redis(shape) => redis::pairs(address, *shape, span).await?,
            };
            workload.figures.push(figure);
        }
    }
    report::print(&mut workloads, &RATIOS);
    Ok(())
}

impl Run {
    fn needs_ldlm(&self) -> bool {
        matches!(self, Self::Ldlm(Peer::InMemory | Peer::StateFile, _))
    }
}

/// LDLM in memory, and with a state file, or why there is none.
async fn start_ldlm(
    program: Option<PathBuf>,
    folder: &Path,
) -> Result<Result<(peer::Ldlm, peer::Ldlm), String>, Box<dyn Error>> {
    let program = match program {
        Some(program) => Ok(program),
        None => peer::Ldlm::build(&target_folder().join("../tools/go")).await,
    };
    Ok(match program {
        Ok(program) => {
            let in_memory = peer::Ldlm::start(&program, folder, false).await?;
            Ok((in_memory, peer::Ldlm::start(&program, folder, true).await?))
        }
        Err(why) => Err(why),
    })
}

/// The release build's folder: what is measured lies on the same disk as what is built.
fn target_folder() -> PathBuf {
    let binary = std::env::current_exe().expect("the system knows this program");
    binary.parent().map(Path::to_path_buf).expect("a program lies in a folder")
}

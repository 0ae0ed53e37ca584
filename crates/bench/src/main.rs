//! The load generator behind `cargo xtask bench`: the same work for us and for our peers, in one run,
//! repeated and interleaved, because only ratios from one run mean anything on a shared machine.

mod disk;
mod load;
mod peer;
mod redis;
mod tenure;

use std::path::Path;
use std::time::Duration;

use clap::Parser;

use crate::load::Shape;

/// Measure durable acquire+release pairs and hand-overs, beside the disk and beside Redis
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// How often each workload is run; the median is shown
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each run lasts, in seconds
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Only workloads whose name contains one of these
    names: Vec<String>,
}

/// One row of the table.
struct Workload {
    name: &'static str,
    unit: &'static str,
    run: Run,
    /// In units a second, one per round.
    figures: Vec<f64>,
}

enum Run {
    Tenure(tenure::Work),
    Redis(Shape),
    Disk,
}

const OWN_NAMES_UNARY: &str = "own names, unary, 32 connections";
const OWN_NAMES_STREAM: &str = "own names, stream, 4 connections x 64 tasks";
const OWN_NAMES_CLIENT: &str = "own names, Rust client, 4 clients x 64 tasks";
const HOT_NAME: &str = "one hot name, stream, 32 clients";
const DISK: &str = "disk: append and sync";
const REDIS_STREAM: &str = "Redis, own names, 4 connections x 64 tasks";
const REDIS_32: &str = "Redis, own names, 32 connections";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let span = Duration::from_secs_f64(arguments.seconds);
    let wide = Shape { connections: 32, tasks: 1 };
    let deep = Shape { connections: 4, tasks: 64 };
    let hot = Shape { connections: 4, tasks: 8 };
    let row = |name, unit, run| Workload { name, unit, run, figures: Vec::new() };
    let mut workloads = vec![
        row(DISK, "syncs/s", Run::Disk),
        row(OWN_NAMES_UNARY, "pairs/s", Run::Tenure(tenure::Work::Unary(wide))),
        row(OWN_NAMES_STREAM, "pairs/s", Run::Tenure(tenure::Work::Stream(deep))),
        row(OWN_NAMES_CLIENT, "pairs/s", Run::Tenure(tenure::Work::Client(deep))),
        row(HOT_NAME, "hand-overs/s", Run::Tenure(tenure::Work::Hot(hot))),
        row(REDIS_32, "pairs/s", Run::Redis(wide)),
        row(REDIS_STREAM, "pairs/s", Run::Redis(deep)),
    ];
    workloads.retain(|it| arguments.names.is_empty() || arguments.names.iter().any(|name| it.name.contains(name)));

    let folder = tempfile::Builder::new().prefix("tenure-bench").tempdir_in(target_folder())?;
    let server = peer::Tenure::start(folder.path()).await?;
    let redis = peer::Redis::start(folder.path()).await?;
    if redis.is_none() {
        eprintln!("redis-server is not installed (Debian: apt-get install redis-server); its figures are left out");
        workloads.retain(|it| !matches!(it.run, Run::Redis(_)));
    }
    for round in 1..=arguments.rounds {
        for workload in &mut workloads {
            eprintln!("round {round} of {}: {}", arguments.rounds, workload.name);
            let figure = match &workload.run {
                Run::Disk => disk::syncs(folder.path(), span)?,
                Run::Tenure(work) => tenure::run(&server.address, work, span).await?,
                Run::Redis(shape) => {
                    let address = &redis.as_ref().expect("left out otherwise").address;
                    redis::pairs(address, *shape, span).await?
                }
            };
            workload.figures.push(figure);
        }
    }
    report(&mut workloads);
    Ok(())
}

fn report(workloads: &mut [Workload]) {
    println!("{:<46} {:>10} {:>10} {:>10}  unit", "workload", "median", "least", "most");
    for workload in workloads.iter_mut() {
        workload.figures.sort_by(f64::total_cmp);
        let (least, most) = (workload.figures[0], workload.figures[workload.figures.len() - 1]);
        println!("{:<46} {:>10.0} {least:>10.0} {most:>10.0}  {}", workload.name, workload.median(), workload.unit);
    }
    let median = |name| workloads.iter().find(|it| it.name == name).map(Workload::median);
    println!();
    for (what, ours, theirs) in [
        ("stream pairs / Redis pairs (4 x 64)", OWN_NAMES_STREAM, REDIS_STREAM),
        ("Rust client's pairs / stream pairs (4 x 64)", OWN_NAMES_CLIENT, OWN_NAMES_STREAM),
        ("unary pairs / Redis pairs (32)", OWN_NAMES_UNARY, REDIS_32),
        ("hand-overs / disk syncs", HOT_NAME, DISK),
    ] {
        if let (Some(ours), Some(theirs)) = (median(ours), median(theirs)) {
            println!("{what:<46} {:>10.2}", ours / theirs);
        }
    }
}

impl Workload {
    fn median(&self) -> f64 {
        self.figures[self.figures.len() / 2]
    }
}

/// The release build's folder: what is measured lies on the same disk as what is built.
fn target_folder() -> std::path::PathBuf {
    let binary = std::env::current_exe().expect("the system knows this program");
    binary.parent().map(Path::to_path_buf).expect("a program lies in a folder")
}

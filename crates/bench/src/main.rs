//! The load generator behind `cargo xtask bench`: the same work for us and for our peers, in one run,
//! repeated and interleaved, because only ratios from one run mean anything on a shared machine.

mod bare;
mod disk;
mod etcd;
mod latency;
mod ldlm;
mod load;
mod machine;
mod pace;
mod page;
mod peer;
mod plan;
mod plot;
mod program;
mod redis;
mod report;
mod restart;
mod rig;
mod run;
mod temporal;
mod tenure;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use tenure_bench::crowd;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure the server beside the disk, Redis, etcd and LDLM, and its clients beside each other, as far as they are installed
///
/// Each round measures every workload on every server once, then latencies at 50 % and 90 % of what the round showed to be
/// the capacity. Afterwards the server is killed with a million holds, as often as there are rounds. Ratios are taken round by
/// round. What is not installed is told, with how to get it. Pools in Temporal are measured by themselves, by `--temporal`.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// How often each workload is run; the median is shown, with the least and the most
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each run lasts, in seconds
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Write the tables into docs/benchmarks.md, between its marks, and the plots beside it; without this they are only
    /// printed
    #[arg(long, conflicts_with = "names")]
    write: bool,
    /// An LDLM server to measure, instead of one that is built with Go
    #[arg(long, value_name = "PROGRAM")]
    ldlm: Option<PathBuf>,
    /// Measure pools in Temporal instead: ours beside one that is asked by signals, on one development server
    #[arg(long)]
    temporal: bool,
    /// Only what has one of these in the name of its workload, its server or its load, such as `hot`, `Redis`, `latency`, `restart` or
    /// `stream, at 50`
    names: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == BARE)
        && let Some(folder) = words.next()
    {
        return bare::main(Path::new(&folder)).map_err(|error| error.to_string().into());
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).is_some_and(|first| first == "load") {
        return crowd::main(crowd::Arguments::parse_from(std::env::args().skip(1))).await;
    }
    let arguments = Arguments::parse();
    let span = Duration::from_secs_f64(arguments.seconds);
    let (part, text) = if arguments.temporal {
        (page::Part::Temporal, temporal::run(arguments.rounds, span, &arguments.names).await?)
    } else {
        let measured = run::run(arguments.rounds, span, &arguments.names, arguments.ldlm).await;
        let measured = measured.map_err(|error| error.to_string())?;
        if arguments.write {
            let write = |name, svg: &str| page::write_plot(name, svg).map_err(|error| error.to_string());
            write("throughput.svg", &plot::bars(&measured.tables))?;
            write("latency.svg", &plot::curves(&measured.latencies))?;
        }
        (page::Part::Servers, measured.markdown(arguments.write))
    };
    println!("{text}");
    // Once more, where it is not lost among the rounds.
    let hint = if arguments.temporal { None } else { temporal::hint(&arguments.names) };
    hint.into_iter().for_each(|hint| eprintln!("{hint}"));
    if arguments.write {
        page::write(part, &text).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Makes this program the server of `bare`, for its own use.
pub(crate) const BARE: &str = "--bare";

/// The release build's folder: what is measured lies on the same disk as what is built.
fn target_folder() -> PathBuf {
    let binary = std::env::current_exe().expect("the system knows this program");
    binary.parent().map(Path::to_path_buf).expect("a program lies in a folder")
}

/// Whether one of the names is in it, if there are any.
fn is_wanted(name: &str, names: &[String]) -> bool {
    let name = name.to_lowercase();
    names.is_empty() || names.iter().any(|wanted| name.contains(&wanted.to_lowercase()))
}

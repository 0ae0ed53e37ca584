//! Pools in Temporal: ours, and one that is asked by a signal for each request, on one development server. Every
//! measurement has a namespace of its own, where nothing is left of another, and processes of its own.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::load::{self, Outcome, Shape, Then, What};
use crate::report::{self, Ratio, Row, Table};
use crate::{is_wanted, peer, target_folder, tenure};

#[derive(Clone, Copy)]
enum Run {
    SignalPool { at_once: bool },
    Keepers { servers: usize, keepers: usize, shape: Shape },
}

const SIGNAL_POOL: &str = "signal pool, 10 workflows";
const SIGNAL_POOL_AT_ONCE: &str = "signal pool that tells many at once, 100 workflows";
const ONE_SERVER_ONE_KEEPER: &str = "1 server, 1 keeper, 12 connections x 256 tasks";
const ONE_SERVER_FOUR_KEEPERS: &str = "1 server, 4 keepers, 12 connections x 256 tasks";
const THREE_SERVERS_ONE_KEEPER: &str = "3 servers, 1 keeper, 12 connections x 256 tasks";
const THREE_SERVERS_FOUR_KEEPERS: &str = "3 servers, 4 keepers, 12 connections x 256 tasks";
const FEW_ONE_KEEPER: &str = "1 server, 1 keeper, 4 connections x 64 tasks";
const FEW_FOUR_KEEPERS: &str = "1 server, 4 keepers, 4 connections x 64 tasks";

/// Workflows that ask, and resources: with these the signal pool is fastest.
const ONE_BY_ONE: (usize, usize) = (10, 10);
const AT_ONCE: (usize, usize) = (100, 50);
/// Enough that Temporal is the limit, and as many for each of three servers. All names fit into one keeper.
const MANY: Shape = Shape { connections: 12, tasks: 256 };
/// As for the embedded engine.
const FEW: Shape = Shape { connections: 4, tasks: 64 };

/// What it says, and the names of the two rows.
const RATIOS: [(&str, &str, &str); 9] = [
    ("1 server, 1 keeper / signal pool", ONE_SERVER_ONE_KEEPER, SIGNAL_POOL),
    ("3 servers, 4 keepers / signal pool", THREE_SERVERS_FOUR_KEEPERS, SIGNAL_POOL),
    ("1 server, 1 keeper, 4 x 64 / signal pool", FEW_ONE_KEEPER, SIGNAL_POOL),
    ("1 server, 1 keeper / signal pool, many at once", ONE_SERVER_ONE_KEEPER, SIGNAL_POOL_AT_ONCE),
    ("4 keepers / 1 keeper (1 server)", ONE_SERVER_FOUR_KEEPERS, ONE_SERVER_ONE_KEEPER),
    ("4 keepers / 1 keeper (3 servers)", THREE_SERVERS_FOUR_KEEPERS, THREE_SERVERS_ONE_KEEPER),
    ("4 keepers / 1 keeper (1 server, 4 x 64)", FEW_FOUR_KEEPERS, FEW_ONE_KEEPER),
    ("3 servers / 1 server (1 keeper)", THREE_SERVERS_ONE_KEEPER, ONE_SERVER_ONE_KEEPER),
    ("3 servers / 1 server (4 keepers)", THREE_SERVERS_FOUR_KEEPERS, ONE_SERVER_FOUR_KEEPERS),
];

/// For a run of all the others, where Temporal would be missed.
pub(crate) fn hint(names: &[String]) -> Option<&'static str> {
    is_wanted("pools in Temporal", names).then_some(
        "hint: pools in Temporal are measured by `cargo xtask bench --temporal`, with the Temporal and the Python that \
         `cargo xtask tools` puts into target/tools",
    )
}

/// Gives the tables.
pub(crate) async fn run(rounds: usize, span: Duration, names: &[String]) -> Result<String, Box<dyn Error>> {
    let tools = tools()?;
    let ours = |servers, keepers, shape| Run::Keepers { servers, keepers, shape };
    let mut rows = vec![
        (Row::new(ONE_SERVER_ONE_KEEPER), ours(1, 1, MANY)),
        (Row::new(ONE_SERVER_FOUR_KEEPERS), ours(1, 4, MANY)),
        (Row::new(THREE_SERVERS_ONE_KEEPER), ours(3, 1, MANY)),
        (Row::new(THREE_SERVERS_FOUR_KEEPERS), ours(3, 4, MANY)),
        (Row::new(FEW_ONE_KEEPER), ours(1, 1, FEW)),
        (Row::new(FEW_FOUR_KEEPERS), ours(1, 4, FEW)),
        (Row::new(SIGNAL_POOL), Run::SignalPool { at_once: false }),
        (Row::new(SIGNAL_POOL_AT_ONCE), Run::SignalPool { at_once: true }),
    ];
    rows.retain(|(row, _)| is_wanted(&row.who, names));
    let namespaces: Vec<_> = (0..rounds * rows.len()).map(|number| format!("bench-{number}")).collect();
    let folder = tempfile::Builder::new().prefix("tenure-bench").tempdir_in(target_folder())?;
    let temporal = peer::temporal(&tools, folder.path(), &namespaces).await?;
    let mut namespaces = namespaces.iter();
    for round in 1..=rounds {
        for (row, run) in &mut rows {
            eprintln!("round {round} of {rounds}: {}", row.who);
            let namespace = namespaces.next().expect("there is one for each");
            row.figures.push(match *run {
                Run::SignalPool { at_once } => signal_pool(&tools, &temporal, namespace, at_once, span).await?,
                Run::Keepers { servers, keepers, shape } => {
                    let figure = pairs(&temporal, namespace, servers, keepers, shape, span).await;
                    figure.map_err(|error| error.to_string())?
                }
            });
        }
    }
    let rows: Vec<_> = rows.into_iter().map(|(row, _)| row).collect();
    let row = |name| rows.iter().find(|row| row.who == name);
    let ratio = |(what, ours, theirs): (&str, _, _)| {
        let ratio = row(ours)?.ratio(row(theirs)?);
        Some(Ratio { what: what.to_owned(), aim: "", ratio })
    };
    let ratios: Vec<_> = RATIOS.into_iter().filter_map(ratio).collect();
    let table = Table { title: "Pairs in Temporal".to_owned(), unit: "pairs/s", rows: rows.clone() };
    let seconds = span.as_secs_f64();
    Ok(format!(
        "Rounds: {rounds}, of {seconds} s for each figure.\n\n{}\n{}",
        table.markdown(),
        report::ratios(&ratios)
    ))
}

/// On servers of its own.
async fn pairs(
    temporal: &peer::Server,
    namespace: &str,
    servers: usize,
    keepers: usize,
    shape: Shape,
    span: Duration,
) -> Outcome<f64> {
    let mut running = Vec::new();
    for _ in 0..servers {
        running.push(peer::tenure_in(temporal, namespace, keepers).await?);
    }
    let addresses: Vec<_> = running.iter().map(|server| server.address.clone()).collect();
    let what = |connection, task| What::Own(format!("lock-{connection}-{task}"));
    load::start::<tenure::Stream>(&addresses, shape, what).await?.measure(span, Then::Finish).await
}

/// Where Temporal and its SDK for Python are.
fn tools() -> Result<PathBuf, String> {
    let tools = target_folder().join("../tools/python/bin");
    match tools.join("temporal").exists() {
        true => Ok(tools),
        false => Err("there is no Temporal in target/tools; `cargo xtask tools` puts it there".to_owned()),
    }
}

/// Two processes of Python, so that the pool and those who ask do not share one.
async fn signal_pool(
    tools: &Path,
    temporal: &peer::Server,
    namespace: &str,
    at_once: bool,
    span: Duration,
) -> Result<f64, Box<dyn Error>> {
    let python = |role: &str| {
        let mut command = Command::new(tools.join("python"));
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("temporal/signal_pool.py"));
        command.args([role, &temporal.address, namespace]).kill_on_drop(true);
        command
    };
    let _pool = python("pool").stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let (requesters, resources) = if at_once { AT_ONCE } else { ONE_BY_ONE };
    let measured = python("requesters")
        .args(["--requesters", &requesters.to_string(), "--resources", &resources.to_string()])
        .args(at_once.then_some("--at-once"))
        .args(["--seconds", &span.as_secs_f64().to_string()])
        .output()
        .await?;
    if !measured.status.success() {
        return Err(format!("signal_pool.py failed: {}", String::from_utf8_lossy(&measured.stderr)).into());
    }
    // The SDK logs to the same place.
    let said = String::from_utf8_lossy(&measured.stdout).into_owned();
    let figure = said.lines().rev().find_map(|line| line.strip_prefix("pairs/s "));
    Ok(figure.ok_or("signal_pool.py said nothing")?.trim().parse()?)
}

//! `tenure serve`: the server as a process, from the command line to the last answer.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use tenure_core::{Limits, Ttl};
use tenure_engine::{Durability, Retention};
use tenure_server::{Config, Disk, Server, Storage};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;
use crate::{env, logs, units};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Keep holds and history in this directory; it is made if there is none
    #[arg(long, value_name = "DIR", env = env::DATA, default_value = "tenure-data")]
    data: PathBuf,
    /// Listen here for gRPC; port 0 takes any that is free
    #[arg(long, value_name = "ADDR", env = env::GRPC, default_value = "127.0.0.1:3144")]
    grpc: SocketAddr,
    /// Listen here for HTTP: REST, metrics, health
    #[arg(long, value_name = "ADDR", env = env::HTTP, default_value = "127.0.0.1:3180")]
    http: SocketAddr,
    /// When an answer may be given
    #[arg(long, value_name = "WHEN", env = env::DURABILITY, default_value = "sync")]
    durability: When,

    /// Forget what happened longer ago than this
    #[arg(long, value_name = "DURATION", env = env::HISTORY_AGE, default_value = "7d", value_parser = units::duration)]
    history_age: Duration,
    /// Forget the oldest of what happened beyond this size
    #[arg(long, value_name = "SIZE", env = env::HISTORY_BYTES, default_value = "1GiB", value_parser = units::bytes)]
    history_bytes: u64,
    /// Forget a pool that was never declared once it was idle for this long
    #[arg(long, value_name = "DURATION", env = env::POOL_IDLE, default_value = "5m", value_parser = units::duration)]
    pool_idle: Duration,

    /// Refuse commands beyond this many that wait to be applied
    #[arg(long, value_name = "N", env = env::MAILBOX_MAX, default_value_t = 65_536)]
    mailbox_max: usize,
    /// The most pools
    #[arg(long, value_name = "N", env = env::POOLS_MAX, default_value_t = Limits::default().pools_max)]
    pools_max: usize,
    /// The most holds
    #[arg(long, value_name = "N", env = env::HOLDS_MAX, default_value_t = Limits::default().holds_max)]
    holds_max: usize,
    /// The most sessions
    #[arg(long, value_name = "N", env = env::SESSIONS_MAX, default_value_t = Limits::default().sessions_max)]
    sessions_max: usize,
    /// The most waiters in all queues together
    #[arg(long, value_name = "N", env = env::WAITERS_MAX, default_value_t = Limits::default().waiters_max)]
    waiters_max: usize,
    /// The most waiters in one queue
    #[arg(
        long,
        value_name = "N",
        env = env::WAITERS_PER_POOL_MAX,
        default_value_t = Limits::default().waiters_per_pool_max,
    )]
    waiters_per_pool_max: usize,

    /// Ask a connection that was silent for this long whether it is still there
    #[arg(
        long,
        value_name = "DURATION",
        env = env::KEEPALIVE_INTERVAL,
        default_value = "60s",
        value_parser = units::duration,
    )]
    keepalive_interval: Duration,
    /// Give up a connection that does not answer for this long
    #[arg(
        long,
        value_name = "DURATION",
        env = env::KEEPALIVE_TIMEOUT,
        default_value = "10s",
        value_parser = units::duration,
    )]
    keepalive_timeout: Duration,

    /// What to log, such as `info` or `tenure_server=debug`
    #[arg(long, value_name = "FILTER", env = env::LOG, default_value = "info,fjall=warn,lsm_tree=warn")]
    log: String,
    /// How to log
    #[arg(long, value_name = "FORMAT", env = env::LOG_FORMAT, default_value = "text")]
    log_format: logs::Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    /// When the disk has what it rests on: survives a loss of power
    Sync,
    /// When the operating system has it: survives the end of the process
    Os,
    /// At once: nothing survives the end of the process
    Memory,
}

pub(crate) fn run(args: Args) -> Result<(), Exit> {
    logs::start(&args.log, args.log_format)?;
    let storage = args.storage()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .enable_all()
        .build()
        .map_err(Exit::Setup)?;
    runtime.block_on(async {
        let mut stop = StopSignal::listen().map_err(Exit::Setup)?;
        let engine = storage.start_engine().map_err(Exit::Store)?;
        let server = match Server::start(engine.clone(), args.config()).await {
            Ok(server) => server,
            Err(error) => {
                engine.stop().await;
                return Err(Exit::Start(error));
            }
        };
        args.greet(&server);
        stop.received().await;
        tracing::info!("stopping; a second signal ends the process at once");
        tokio::select! {
            () = server.stop() => {}
            code = stop.received() => std::process::exit(128 + code),
        }
        tracing::info!("stopped");
        Ok(())
    })
}

/// One core is left to the engine, through which everything goes: shared with the front ends it hands over a third
/// fewer holds a second.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().saturating_sub(1).max(1))
}

impl Args {
    fn storage(&self) -> Result<Storage, Exit> {
        let durability = match self.durability {
            When::Sync => Some(Durability::Sync),
            When::Os => Some(Durability::Os),
            When::Memory => None,
        };
        let retention = Retention { age: ttl("--history-age", self.history_age)?, bytes: self.history_bytes };
        Ok(Storage {
            disk: durability.map(|durability| Disk { dir: self.data.clone(), durability, retention }),
            limits: Limits {
                pools_max: self.pools_max,
                holds_max: self.holds_max,
                sessions_max: self.sessions_max,
                waiters_per_pool_max: self.waiters_per_pool_max,
                waiters_max: self.waiters_max,
                pool_idle: ttl("--pool-idle", self.pool_idle)?,
            },
            mailbox_max: self.mailbox_max,
        })
    }

    fn config(&self) -> Config {
        Config {
            grpc: self.grpc,
            http: self.http,
            keepalive_interval: self.keepalive_interval,
            keepalive_timeout: self.keepalive_timeout,
        }
    }

    /// Where it listens, for programs too (a word and an address per line), and what to try next.
    fn greet(&self, server: &Server) {
        let (grpc, http) = (server.grpc_addr(), server.http_addr());
        let kept = match self.durability {
            When::Memory => "in memory only".to_owned(),
            When::Sync | When::Os => format!("in {}", self.data.display()),
        };
        let greeting = format!(
            "\
tenure {version}, keeping everything {kept}
grpc {grpc}
http http://{http}

Take a lock for a minute, and see who has it:
  curl --json '{{\"pool\": \"demo\", \"holder\": \"me\", \"ttl_ms\": 60000}}' http://{http}/api/v1/acquire
  curl http://{http}/api/v1/holds
",
            version = env!("CARGO_PKG_VERSION"),
        );
        // Nobody needs to read it: a closed stdout is not an error.
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(greeting.as_bytes()).and_then(|()| stdout.flush());
    }
}

fn ttl(flag: &'static str, duration: Duration) -> Result<Ttl, Exit> {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Ttl::parse(flag, millis)
        .map_err(|invalid| Exit::Usage { what: invalid.to_string(), hint: "try 5m or 7d".to_owned() })
}

/// SIGTERM from whoever manages the process, or SIGINT from a terminal.
struct StopSignal {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignal {
    fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The number of the signal, once one has come.
    async fn received(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
        }
    }
}

//! `tenure serve`: the server as a process, from the command line to the last answer.

mod security;
pub(crate) mod temporal;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Args as _, Command, FromArgMatches, ValueEnum};
use rustix::process::{Resource, getrlimit, setrlimit};
use tenure_core::{Limits, Ttl};
use tenure_engine::{Durability, Retention};
use tenure_server::{Config, Disk, LdlmConfig, Server, Storage};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::config::{self, Settings};
use crate::exit::Exit;
use crate::{arguments, env, logs, output, units};
use security::Security;
use temporal::Temporal;

pub(crate) const HELP: &str = "\
A flag wins over its environment variable, that over the file, and that over
the default. In the file a setting has the name of its flag, with underscores:
  history_age = \"7d\"

Examples:
  tenure serve --data /var/lib/tenure --grpc 0.0.0.0:3144
  tenure serve --config /etc/tenure.toml --print-config

The exit codes are in `tenure --help`.";

/// What the command line says; the file has not been asked yet.
#[derive(Debug)]
pub(crate) struct Args {
    file: FileArgs,
    /// With the source of each option, which a parsed one no longer has.
    options: ArgMatches,
}

#[derive(clap::Args, Clone, Debug)]
struct FileArgs {
    /// Take settings from this TOML file [default: tenure.toml, if there is one here]
    #[arg(long, value_name = "FILE", env = env::CONFIG)]
    config: Option<PathBuf>,
    /// Print every setting as a TOML file, with where it comes from, and do nothing else
    #[arg(long)]
    print_config: bool,
}

/// The settings. Each has a flag, a variable of the same name and a default.
#[derive(clap::Args, Clone, Debug)]
struct Options {
    /// Keep holds and history in this directory; it is made if there is none
    #[arg(long, value_name = "DIR", env = env::DATA, default_value = "tenure-data")]
    data: PathBuf,
    /// Listen here for gRPC; port 0 takes any that is free
    #[arg(long, value_name = "IP:PORT", value_parser = address, env = env::GRPC, default_value = "127.0.0.1:3144")]
    grpc: SocketAddr,
    /// Listen here for HTTP: REST, metrics, health
    #[arg(long, value_name = "IP:PORT", value_parser = address, env = env::HTTP, default_value = "127.0.0.1:3180")]
    http: SocketAddr,
    /// Where pools live
    #[arg(long, value_name = "WHERE", env = env::ENGINE, default_value = "embedded")]
    engine: Where,
    /// When an answer may be given
    #[arg(long, value_name = "WHEN", env = env::DURABILITY, default_value = "sync")]
    durability: When,

    /// Forget what happened longer ago than this
    #[arg(long, value_name = "DURATION", env = env::HISTORY_AGE, default_value = "7d", value_parser = ttl)]
    history_age: Ttl,
    /// Forget the oldest of what happened beyond this size
    #[arg(long, value_name = "SIZE", env = env::HISTORY_BYTES, default_value = "1GiB", value_parser = units::bytes)]
    history_bytes: u64,
    /// Forget a pool that was never declared once it was idle for this long
    #[arg(long, value_name = "DURATION", env = env::POOL_IDLE, default_value = "5m", value_parser = ttl)]
    pool_idle: Ttl,

    /// Refuse commands beyond this many that wait to be applied
    #[arg(long, value_name = config::COUNT, env = env::MAILBOX_MAX, default_value_t = 65_536, value_parser = count)]
    mailbox_max: usize,
    /// The most pools
    #[arg(
        long,
        value_name = config::COUNT,
        env = env::POOLS_MAX,
        default_value_t = Limits::default().pools_max,
        value_parser = count,
    )]
    pools_max: usize,
    /// The most holds
    #[arg(
        long,
        value_name = config::COUNT,
        env = env::HOLDS_MAX,
        default_value_t = Limits::default().holds_max,
        value_parser = count,
    )]
    holds_max: usize,
    /// The most sessions
    #[arg(
        long,
        value_name = config::COUNT,
        env = env::SESSIONS_MAX,
        default_value_t = Limits::default().sessions_max,
        value_parser = count,
    )]
    sessions_max: usize,
    /// The most waiters in all queues together
    #[arg(
        long,
        value_name = config::COUNT,
        env = env::WAITERS_MAX,
        default_value_t = Limits::default().waiters_max,
        value_parser = count,
    )]
    waiters_max: usize,
    /// The most waiters in one queue
    #[arg(
        long,
        value_name = config::COUNT,
        env = env::WAITERS_PER_POOL_MAX,
        default_value_t = Limits::default().waiters_per_pool_max,
        value_parser = count,
    )]
    waiters_per_pool_max: usize,

    /// Ask a connection that was silent for this long whether it is still there
    #[arg(
        long,
        value_name = "DURATION",
        env = env::KEEPALIVE_INTERVAL,
        default_value = "60s",
        value_parser = keepalive,
    )]
    keepalive_interval: Duration,
    /// Give up a connection that does not answer for this long
    #[arg(
        long,
        value_name = "DURATION",
        env = env::KEEPALIVE_TIMEOUT,
        default_value = "10s",
        value_parser = keepalive,
    )]
    keepalive_timeout: Duration,

    /// For how long LDLM's clients find a lock without a time after a restart of the server
    #[arg(
        long,
        value_name = "DURATION",
        env = env::DEFAULT_LOCK_TIMEOUT,
        default_value = "10m",
        value_parser = ttl,
    )]
    default_lock_timeout: Ttl,
    /// Leave an LDLM client's locks locked when its connection or its REST session ends
    #[arg(
        long,
        value_name = config::SWITCH,
        env = env::NO_CLEAR_ON_DISCONNECT,
        default_value = "false",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
    )]
    no_clear_on_disconnect: bool,
    /// End a session of LDLM's REST interface that was idle for this long
    #[arg(
        long,
        value_name = "DURATION",
        env = env::REST_SESSION_TIMEOUT,
        default_value = "10m",
        value_parser = ttl,
    )]
    rest_session_timeout: Ttl,

    #[command(flatten)]
    security: Security,

    #[command(flatten)]
    temporal: Temporal,

    /// What to log, such as `info` or `tenure_server=debug`
    #[arg(
        long,
        value_name = "FILTER",
        env = env::LOG,
        default_value = "info,fjall=warn,lsm_tree=warn",
        value_parser = log_filter,
    )]
    log: EnvFilter,
    /// How to log
    #[arg(long, value_name = "FORMAT", env = env::LOG_FORMAT, default_value = "text")]
    log_format: logs::Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Where {
    /// In this process, and in the directory that --data names
    Embedded,
    /// In the Temporal that --temporal names; any number of servers may stand before it
    Temporal,
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
    let settings = Settings::resolve(options(), &args.options, args.file.config.as_deref())?;
    let options: Options = settings.parse();
    if args.file.print_config {
        output::print(&settings.to_toml()?)?;
        if let Some(variable) = options.security.unnamed_password() {
            output::print(&format!("# the password is what {variable} says\n"))?;
        }
        return Ok(());
    }
    logs::start(options.log.clone(), options.log_format);
    if let Some(file) = settings.file() {
        tracing::info!(file = %file.display(), "settings are read from a file");
    }
    let (storage, config) = (options.storage(), options.config()?);
    security::warn_if_open(&config);
    raise_file_limit();
    take_small_pages();
    let runtime = options.runtime().enable_all().build().map_err(Exit::Setup)?;
    runtime.block_on(async {
        let stop = StopSignal::listen().map_err(Exit::Setup)?;
        let link = options.temporal.connect().await?;
        let (engine, hosting) = match (options.engine, &link) {
            (Where::Embedded, _) => (storage.start_engine().map_err(Exit::Store)?, None),
            (Where::Temporal, Some(link)) => {
                let (engine, hosting) = link.start_engine(storage.limits, storage.mailbox_max, options.grpc).await?;
                (engine, Some(hosting))
            }
            (Where::Temporal, None) => return Err(Temporal::missing()),
        };
        let server = match Server::start(engine.clone(), config).await {
            Ok(server) => server,
            Err(error) => {
                engine.stop().await;
                return Err(Exit::Start(error));
            }
        };
        let temporal = link.map(|link| link.start(engine));
        options.greet(&server);
        stop.received().await;
        tracing::info!("stopping; a second signal ends the process at once");
        if let Some(temporal) = &temporal {
            temporal.stop_taking();
        }
        server.stop().await;
        if let Some(temporal) = temporal {
            temporal.stop().await;
        }
        if let Some(hosting) = hosting {
            hosting.stop().await;
        }
        tracing::info!("stopped");
        Ok(())
    })
}

/// Each connection is an open file. What a process is given is often 1,024, for the sake of programs that could not count
/// further; what it may take is much more.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files, and so of connections, stays as it is");
    }
}

/// A huge page is cleared as a whole before any of it can be used, and meanwhile nobody is answered: some milliseconds, where the system has
/// to get the memory from elsewhere.
fn take_small_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "the system decides about huge pages");
    }
}

/// With no more processors than this the front ends have one thread, and the engine is run by it: the other processor is busy with
/// those who ask, and to wake another thread takes as long as the work.
const PROCESSORS_HOSTED_MAX: usize = 2;

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The settings alone.
pub(crate) fn options() -> Command {
    Options::augment_args(Command::new("serve"))
}

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        FileArgs::augment_args(Options::augment_args(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        FileArgs::augment_args_for_update(Options::augment_args_for_update(command))
    }
}

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { file: FileArgs::from_arg_matches(matches)?, options: matches.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Options {
    /// Whether the front ends have one thread, and the engine is run by it.
    fn is_hosted(&self) -> bool {
        self.engine == Where::Embedded && processors() <= PROCESSORS_HOSTED_MAX
    }

    /// One processor is left to the engine, through which everything goes.
    fn runtime(&self) -> Builder {
        if self.is_hosted() {
            return Builder::new_current_thread();
        }
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(processors().saturating_sub(1).max(1));
        runtime
    }

    fn storage(&self) -> Storage {
        let durability = match self.durability {
            When::Sync => Some(Durability::Sync),
            When::Os => Some(Durability::Os),
            When::Memory => None,
        };
        let retention = Retention { age: self.history_age, bytes: self.history_bytes };
        Storage {
            disk: durability.map(|durability| Disk { dir: self.data.clone(), durability, retention }),
            limits: Limits {
                pools_max: self.pools_max,
                holds_max: self.holds_max,
                sessions_max: self.sessions_max,
                waiters_per_pool_max: self.waiters_per_pool_max,
                waiters_max: self.waiters_max,
                pool_idle: self.pool_idle,
            },
            mailbox_max: self.mailbox_max,
            hosted: self.is_hosted(),
        }
    }

    fn config(&self) -> Result<Config, Exit> {
        Ok(Config {
            grpc: self.grpc,
            http: self.http,
            password: self.security.password()?,
            tls: self.security.tls()?,
            keepalive_interval: self.keepalive_interval,
            keepalive_timeout: self.keepalive_timeout,
            ldlm: LdlmConfig {
                default_lock_timeout: self.default_lock_timeout,
                no_clear_on_disconnect: self.no_clear_on_disconnect,
                rest_session_timeout: self.rest_session_timeout,
            },
            ..Config::default()
        })
    }

    /// Where it listens, for programs too (a word and an address per line), and what to try next.
    fn greet(&self, server: &Server) {
        let http = server.http_addr();
        // As --addr takes it.
        let (grpc, scheme) = match self.security.is_tls() {
            true => (format!("https://{}", server.grpc_addr()), "https"),
            false => (server.grpc_addr().to_string(), "http"),
        };
        let kept = match (self.engine, self.durability) {
            (Where::Temporal, _) => self.temporal.place(),
            (Where::Embedded, When::Memory) => "in memory only".to_owned(),
            (Where::Embedded, When::Sync | When::Os) => format!("in {}", self.data.display()),
        };
        // As it was called, since it need not be in the path; and where it listens, unless commands look there anyway.
        let tenure = std::env::args().next().unwrap_or_else(|| "tenure".to_owned());
        let addr = match grpc.as_str() {
            usual if usual == arguments::ADDR_DEFAULT => String::new(),
            other => format!(" --addr {other}"),
        };
        let greeting = format!(
            "\
tenure {version}, keeping everything {kept}
grpc {grpc}
http {scheme}://{http}

The console is there for a browser: {scheme}://{http}/
Hold a lock while a command runs, and see from elsewhere who has it:
  {tenure} run{addr} demo -- sleep 60
  {tenure} show{addr} demo
",
            version = env!("CARGO_PKG_VERSION"),
        );
        // Nobody needs to read it: a closed stdout is not an error.
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(greeting.as_bytes()).and_then(|()| stdout.flush());
    }
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "expected an address and a port, such as 127.0.0.1:3144 or [::]:3144")
}

fn ttl(text: &str) -> Result<Ttl, String> {
    let millis = units::millis(units::duration(text)?);
    Ttl::parse("duration", millis).map_err(|invalid| format!("it {}", invalid.why))
}

/// With none of something the server could do nothing at all.
fn count(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("expected a whole number from 1"),
    }
}

fn log_filter(text: &str) -> Result<EnvFilter, ParseError> {
    let mut filter = EnvFilter::try_new(text)?;
    // Temporal's library tells of every call that failed, with all that was said in it. That it is away, and when it is
    // back, we say ourselves; whoever wants more has to ask for it by name.
    if !text.contains("temporalio") {
        for quiet in ["temporalio_client=off", "temporalio_sdk=off", "temporalio_sdk_core=off"] {
            filter = filter.add_directive(quiet.parse()?);
        }
    }
    Ok(filter)
}

/// TCP counts in whole seconds, up to 32,767: beyond these bounds connections would be left without a keep-alive.
fn keepalive(text: &str) -> Result<Duration, String> {
    let duration = units::duration(text)?;
    let bounds = Duration::from_secs(1)..=Duration::from_secs(9 * 60 * 60);
    if bounds.contains(&duration) { Ok(duration) } else { Err("expected from 1s to 9h".to_owned()) }
}

/// SIGTERM from whoever manages the process, or SIGINT from a terminal. A thread of its own listens for them, because all others may be
/// waiting for a disk that does not answer.
struct StopSignal(oneshot::Receiver<()>);

impl StopSignal {
    fn listen() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let inside = runtime.enter();
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        drop(inside);
        let (tell, stop) = oneshot::channel();
        let listening = async move {
            next(&mut terminate, &mut interrupt).await;
            // If nobody waits for it, the process is about to end.
            let _ = tell.send(());
            let code = next(&mut terminate, &mut interrupt).await;
            std::process::exit(128 + code);
        };
        std::thread::Builder::new().name("tenure-signals".into()).spawn(move || runtime.block_on(listening))?;
        Ok(Self(stop))
    }

    /// Once the first has come. The second ends the process.
    async fn received(self) {
        // Whoever would tell lives as long as the process.
        let _ = self.0.await;
    }
}

/// The number of the signal.
async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> i32 {
    tokio::select! {
        _ = terminate.recv() => SignalKind::terminate().as_raw_value(),
        _ = interrupt.recv() => SignalKind::interrupt().as_raw_value(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_flag_a_variable_and_a_default_of_its_name() {
        for option in options().get_arguments() {
            let key = option.get_id().as_str();
            assert_eq!(option.get_long(), Some(key.replace('_', "-").as_str()));
            let variable = format!("TENURE_{}", key.to_uppercase());
            assert_eq!(option.get_env().and_then(|name| name.to_str()), Some(variable.as_str()));
            assert_eq!(option.get_default_values().len(), 1, "{key}");
        }
    }
}

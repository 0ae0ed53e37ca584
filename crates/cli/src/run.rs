//! `tenure run`: holds a pool while a command runs, and stops the command before anybody else can be granted the hold.
//!
//! Waiting and holding are the client's business, the command's processes are [`supervise`]'s; this is what ties the
//! two together.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::time::Duration;

use nix::sys::signal::Signal;
use tenure_client::{Guard, Lost};

use crate::arguments::{Demand, Server, Wait, Who};
use crate::environment::{self, Secret};
use crate::exit::Exit;
use crate::pools::Pools;
use crate::supervise::{self, Outcome, Plan, Signals, Supervised};
use crate::{access, env, logs, look, output, units};

/// Shorter leases leave no time to stop a command in.
const TTL_MIN: Duration = Duration::from_secs(1);
/// How long a command has between SIGTERM and SIGKILL unless told otherwise, or a third of a shorter lease.
const GRACE: Duration = Duration::from_secs(5);
/// How long to wait for the server when there is nothing more to do but to tell it that the hold is free.
const FAREWELL: Duration = Duration::from_secs(5);
/// The same when there was none: who asks for an end while it waits wants it now.
const FAREWELL_UNGRANTED: Duration = Duration::from_millis(500);

/// Hold a pool while a command runs, and return the command's own code
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  tenure run db -- ./migrate.sh                         a lock, waited for as long as it takes
  tenure run -n nightly -- ./backup.sh                  not at all if somebody else is at it: code 75
  tenure run -p db -p gpus:2 -- ./train.sh              all of it together, or none of it
  tenure run gpus --select 'mem >= 80' -w 1h -- sh -c 'train --device \"$TENURE_RESOURCE\"'

The command finds the hold in its environment: TENURE_POOL, TENURE_TOKEN, TENURE_UNITS, TENURE_DEADLINE_MS, TENURE_TTL_MS,
and for named resources TENURE_RESOURCE, TENURE_RESOURCES, TENURE_RESOURCE_COUNT, TENURE_RESOURCE_0,
TENURE_RESOURCE_0_PROP_name, TENURE_RESOURCE_0_LABEL_name, …; TENURE_HOLD has all of it as JSON. With several pools
TENURE_POOL_COUNT says how many, and TENURE_POOL_1, TENURE_POOL_1_UNITS, TENURE_POOL_1_RESOURCES, TENURE_POOL_1_RESOURCE_0, …
what it has of the second, and so on.

If the hold cannot be kept, because the server is lost, because somebody took it away, or because this process is
paused, the command and everything it started get SIGTERM, after --grace SIGKILL, and are gone before the lease is over. The code
is then 79. What cannot be promised is in docs/cli.md.")]
pub(crate) struct Args {
    #[command(flatten)]
    pools: Pools,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    demand: Demand,
    #[command(flatten)]
    wait: Wait,
    /// How long the server keeps the hold without hearing from us; it is renewed at a third of it
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = units::seconds)]
    ttl: Duration,
    /// How long the command has between SIGTERM and SIGKILL when the hold is lost [default: 5s, at most a third of --ttl]
    #[arg(long, value_name = "DURATION", value_parser = units::seconds)]
    grace: Option<Duration>,
    #[command(flatten)]
    who: Who,
    /// Say what is waited for, also where stderr is not a terminal
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    server: Server,
}

pub(crate) async fn run(args: Args) -> Result<(), Exit> {
    let timing = args.timing()?;
    let mut signals = Signals::listen().map_err(Exit::Setup)?;
    let mut connecting = args.who.introduce(args.server.client()?);
    // What the user says comes first.
    if args.who.entries() < META_MAX {
        connecting = connecting.meta("command", program(&args.command[0]));
    }
    let client = tokio::select! {
        client = connecting.connect() => client?,
        number = signals.next() => return Err(Exit::signal(number)),
    };
    let mut acquiring = args.wait.apply(args.pools.ask(&args.demand, &client)).ttl(args.ttl);
    if args.verbose || std::io::stderr().is_terminal() {
        logs::of_the_client();
        let pool = args.pools.names();
        acquiring = acquiring.on_queued(move |queued| {
            output::note(&format!("waiting for `{pool}`, place {} in the queue", queued.position));
        });
    }
    let granted = tokio::select! {
        granted = acquiring => granted.map_err(|error| args.wait.exit(rate_is_another_command(error))),
        number = signals.next() => Err(Exit::signal(number)),
    };
    let guard = match granted {
        Ok(guard) => guard,
        Err(exit) => {
            // Leaves nothing behind: no request in the queue and no session.
            let _ = tokio::time::timeout(FAREWELL_UNGRANTED, client.close()).await;
            return Err(exit);
        }
    };
    // From here on signals are for the command.
    let ended = hold_while(&guard, args.plan(&guard, timing), signals).await;
    let trouble = access::trouble(&client);
    let farewell = async {
        let released = guard.release().await;
        client.close().await.and(released)
    };
    match &ended {
        // There is nobody to be told.
        Ok(Ended::Lost(None | Some(Lost::Unreachable))) => {}
        Ok(Ended::Lost(Some(_))) | Err(_) => drop(tokio::time::timeout(FAREWELL, farewell).await),
        Ok(Ended::Itself(_)) => {
            if !matches!(tokio::time::timeout(FAREWELL, farewell).await, Ok(Ok(()))) {
                let pool = args.pools.names();
                output::note(&format!("the server could not be told that `{pool}` is free; its lease ends by itself"));
            }
        }
    }
    ended.map_err(Exit::Setup)?.exit(&args.pools.names(), &args.command[0], &trouble)
}

/// A place in a rate window cannot be given back, so there is nothing to hold while a command runs.
fn rate_is_another_command(mut error: tenure_client::Error) -> tenure_client::Error {
    if let tenure_client::Error::Refused(refusal) = &mut error
        && refusal.code == "window_mismatch"
    {
        refusal.advice = "a place in a rate window is taken with `tenure rate`, before the command".to_owned();
    }
    error
}

/// How a command ended, and whether the hold lasted as long.
enum Ended {
    Itself(Outcome),
    Lost(Option<Lost>),
}

/// Runs the command for as long as the hold is certain.
async fn hold_while(guard: &Guard, plan: Plan, signals: Signals) -> std::io::Result<Ended> {
    // This process may have been paused since the grant, for longer than the lease.
    if guard.is_lost() {
        return Ok(Ended::Lost(Some(guard.lost().await)));
    }
    let mut deadlines = guard.deadlines();
    let mut running = Supervised::start(plan, deadlines.current(), signals)?;
    let mut lost = None;
    loop {
        tokio::select! {
            outcome = running.next() => return Ok(match outcome {
                Outcome::Stopped => Ended::Lost(lost),
                _ if lost.is_some() => Ended::Lost(lost),
                outcome => Ended::Itself(outcome),
            }),
            why = guard.lost(), if lost.is_none() => {
                running.stop();
                lost = Some(why);
            }
            Some(deadline) = deadlines.changed(), if lost.is_none() => running.extend(deadline),
        }
    }
}

impl Ended {
    fn exit(self, pool: &str, command: &OsStr, trouble: &str) -> Result<(), Exit> {
        match self {
            Self::Itself(Outcome::Exited(0)) => Ok(()),
            Self::Itself(Outcome::Exited(code)) => Err(Exit::Code(u8::try_from(code & 0xff).unwrap_or(u8::MAX))),
            Self::Itself(Outcome::Signaled(number)) => {
                if number == Signal::SIGINT as i32 && std::io::stdin().is_terminal() {
                    // Returns only if it cannot.
                    supervise::end_by_interrupt();
                }
                Err(Exit::signal(number))
            }
            Self::Itself(Outcome::Unguarded) => {
                Err(Exit::Lost(format!("the command was stopped: the guard of the hold of `{pool}` was killed")))
            }
            Self::Itself(Outcome::CannotStart { not_found, why }) => {
                let command = command.to_string_lossy();
                Err(Exit::CannotRun { what: format!("`{command}` cannot be run: {why}"), not_found })
            }
            Self::Itself(Outcome::Stopped) | Self::Lost(None) => {
                Err(lost(pool, &format!("it could not be renewed in time{trouble}")))
            }
            Self::Lost(Some(Lost::Unreachable)) => Err(lost(pool, &format!("{}{trouble}", Lost::Unreachable))),
            Self::Lost(Some(why)) => Err(lost(pool, &why.to_string())),
        }
    }
}

fn lost(pool: &str, why: &str) -> Exit {
    Exit::Lost(format!("the hold of `{pool}` was lost, so the command does not run any more: {why}"))
}

/// What the lease leaves for stopping the command.
#[derive(Clone, Copy)]
struct Timing {
    grace: Duration,
    /// Between the last SIGKILL and the end of the lease: enough for a busy machine to act on it.
    margin: Duration,
}

impl Args {
    fn timing(&self) -> Result<Timing, Exit> {
        if self.ttl < TTL_MIN {
            return Err(Exit::usage(
                "--ttl must be at least 1s",
                "a shorter lease leaves no time to stop the command in",
            ));
        }
        let margin = (self.ttl / 10).clamp(Duration::from_millis(100), Duration::from_secs(1));
        let grace = self.grace.unwrap_or(GRACE.min(self.ttl / 3));
        // A renewal is due after a third, and must have time to arrive.
        if grace + margin > self.ttl / 2 {
            let hint = "stopping must take less than half of --ttl: make --ttl longer or --grace shorter";
            return Err(Exit::usage(
                format!("--grace {} is too long for a lease of {}", show(grace), show(self.ttl)),
                hint,
            ));
        }
        Ok(Timing { grace, margin })
    }

    fn plan(&self, guard: &Guard, timing: Timing) -> Plan {
        let (server, grant) = (&self.server, guard.grant());
        let mut release = server.variables();
        release.push((env::NAMESPACE.to_owned(), server.namespace.clone()));
        release.push((env::KEY.to_owned(), grant.key.clone()));
        let mut set = environment::of(grant, Secret::None);
        // What the command asks of Tenure goes to the same server.
        set.extend(server.variables());
        Plan {
            command: self.command.clone(),
            environment: environment::with(set),
            grace: timing.grace,
            margin: timing.margin,
            release: release.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        }
    }
}

fn show(duration: Duration) -> String {
    look::exact(units::millis(duration))
}

/// The command as others see it in the list of holders. Not its arguments: they may be secret, and others are everybody
/// who can ask the server.
fn program(command: &OsStr) -> String {
    let name: String = command.to_string_lossy().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    name[..name.floor_char_boundary(META_BYTES_MAX)].to_owned()
}

/// How many entries a holder's metadata may have, and how long a value may be.
const META_MAX: usize = 16;
const META_BYTES_MAX: usize = 512;

//! `tenure acquire`: a hold that outlives the command, for scripts that renew and release it themselves.

use std::time::Duration;

use tenure_client::v1;

use crate::arguments::{Demand, Output, Server, Wait, Who};
use crate::environment::{self, Secret};
use crate::exit::Exit;
use crate::patience::Patient;
use crate::pools::Pools;
use crate::{env, output, units};

/// Take a hold for a script, which renews and releases it itself
#[derive(clap::Args)]
#[command(after_long_help = "\
Example:
  hold=$(tenure acquire db --ttl 5m --eval) || exit
  eval \"$hold\"
  ./migrate --fencing-token \"$TENURE_TOKEN\"
  tenure release

With --eval a refusal is printed too, as a command that fails. The key is a secret: it goes
into the environment, never on a command line. A hold that nobody releases ends with its lease.

The place in the queue is lost if the server restarts; `tenure run` keeps it.")]
pub(crate) struct Args {
    #[command(flatten)]
    pools: Pools,
    #[command(flatten)]
    demand: Demand,
    #[command(flatten)]
    wait: Wait,
    /// End the hold after this long unless it is renewed [default: 30s, or the pool's window]
    #[arg(long, value_name = "DURATION", value_parser = units::seconds)]
    ttl: Option<Duration>,
    /// Keep the hold until it is released, however long that takes
    #[arg(long, conflicts_with = "ttl")]
    kept: bool,
    /// Keep the hold until this outside owner is gone (`tenure owner-gone`)
    #[arg(long, value_name = "OWNER", conflicts_with_all = ["ttl", "kept"])]
    owner: Option<String>,
    /// Make the request repeatable: the same id gives the same hold. As good as a key to whoever knows it
    #[arg(long, value_name = "ID", env = env::REQUEST_ID, hide_env_values = true)]
    request_id: Option<String>,
    #[command(flatten)]
    who: Who,
    /// Print shell commands that put the hold into the environment
    #[arg(long, conflicts_with = "json")]
    eval: bool,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) async fn run(args: Args) -> Result<(), Exit> {
    let done = acquire(&args).await;
    if args.eval
        && let Err(exit) = &done
    {
        output::print(&failing(exit.code()))?;
    }
    done
}

/// A shell command that has this code.
pub(crate) fn failing(code: u8) -> String {
    format!("(exit {code})\n")
}

async fn acquire(args: &Args) -> Result<(), Exit> {
    let mut server = Patient::connect(&args.server).await?;
    let grant = server.acquire(args.request()).await.map_err(|error| args.wait.exit(error))?;
    let printed = if args.output.json {
        output::json(&grant)
    } else if args.eval {
        let mut variables = environment::of(&grant, Secret::Key);
        // What releases it must ask the same server.
        variables.extend(args.server.variables());
        output::print(&environment::shell(&variables))
    } else {
        output::print(&output::grant(&grant))
    };
    if !matches!(printed, Ok(true)) {
        // Nobody has the key, so nobody could ever release it.
        let release = v1::ReleaseRequest { namespace: grant.namespace, key: grant.key, pool: None };
        server.release(release).await?;
    }
    printed.map(|_| ())
}

impl Args {
    fn request(&self) -> v1::AcquireRequest {
        let mut request = v1::AcquireRequest {
            namespace: self.server.namespace.clone(),
            ttl_ms: self.ttl.map(units::millis),
            owner: self.owner.clone(),
            request_id: self.request_id.clone(),
            ..v1::AcquireRequest::default()
        };
        if self.kept {
            request.set_lifetime(v1::Lifetime::Kept);
        }
        self.pools.fill(&self.demand, &mut request);
        self.wait.fill(&mut request);
        self.who.fill(&mut request);
        if self.request_id.is_some()
            && self.who.holder.is_none()
            && let Some((somebody, _process)) = request.holder.rsplit_once(':')
        {
            // Whoever makes the request again is another process, and the request must be the same.
            request.holder = somebody.to_owned();
        }
        request
    }
}

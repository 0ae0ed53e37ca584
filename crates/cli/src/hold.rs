//! `tenure renew`, `release` and `withdraw`: what scripts do with a hold or a request they have.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use tenure_client::v1;

use crate::arguments::{Output, Server};
use crate::exit::Exit;
use crate::patience::Patient;
use crate::{env, output, units};

/// The key of a hold. Never an argument: those can be seen by everybody on the machine.
#[derive(clap::Args)]
pub(crate) struct Key {
    /// Read the key from this file, `-` for stdin: a key alone, or what `acquire --json` printed [default: the key in
    /// TENURE_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The pool the hold must be of
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
}

/// Prolong a lease; its key is in TENURE_KEY or in a file
#[derive(clap::Args)]
#[command(after_long_help = "\
Example:
  hold=$(tenure acquire db --ttl 1m --eval) && eval \"$hold\" || exit
  tenure renew --ttl 5m")]
pub(crate) struct RenewArgs {
    #[command(flatten)]
    key: Key,
    /// How long from now [default: the length of the lease]
    #[arg(long, value_name = "DURATION", value_parser = units::seconds)]
    ttl: Option<Duration>,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// End a hold; its key is in TENURE_KEY or in a file
#[derive(clap::Args)]
#[command(after_long_help = "\
Example:
  tenure acquire db --json > hold.json
  tenure release --key-file hold.json")]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    key: Key,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// End a request by its id: afterwards it neither waits nor holds, and never will
#[derive(clap::Args)]
#[command(after_long_help = "\
Example:
  export TENURE_REQUEST_ID=\"deploy-$(uuidgen)\"
  tenure acquire db --json > hold.json &
  tenure withdraw")]
pub(crate) struct WithdrawArgs {
    /// The id the acquire was made with
    #[arg(long, value_name = "ID", env = env::REQUEST_ID, hide_env_values = true)]
    request_id: String,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) async fn renew(args: RenewArgs) -> Result<(), Exit> {
    let request = v1::RenewRequest {
        namespace: args.server.namespace.clone(),
        key: args.key.read()?,
        pool: args.key.pool,
        ttl_ms: args.ttl.map(units::millis),
    };
    let renewed = Patient::connect(&args.server).await?.renew(request).await?;
    output::for_programs(args.output.json, &renewed)
}

pub(crate) async fn release(args: ReleaseArgs) -> Result<(), Exit> {
    let (namespace, key) = (args.server.namespace.clone(), args.key.read()?);
    let request = v1::ReleaseRequest { namespace, key, pool: args.key.pool };
    let released = Patient::connect(&args.server).await?.release(request).await?;
    output::for_programs(args.output.json, &released)
}

pub(crate) async fn withdraw(args: WithdrawArgs) -> Result<(), Exit> {
    let request = v1::WithdrawRequest { namespace: args.server.namespace.clone(), request_id: args.request_id };
    let withdrawn = Patient::connect(&args.server).await?.withdraw(request).await?;
    output::for_programs(args.output.json, &withdrawn)
}

impl Key {
    fn read(&self) -> Result<String, Exit> {
        let hint = "`eval \"$(tenure acquire POOL --eval)\"` sets TENURE_KEY; --key-file reads it from a file";
        let text = match &self.key_file {
            None => std::env::var(env::KEY).map_err(|_| Exit::usage("no key: TENURE_KEY is not set", hint))?,
            Some(path) => {
                let read = match path.as_os_str() == "-" {
                    true => {
                        let mut text = String::new();
                        std::io::stdin().read_to_string(&mut text).map(|_| text)
                    }
                    false => std::fs::read_to_string(path),
                };
                let what = |error| format!("the key cannot be read from `{}`: {error}", path.display());
                read.map_err(|error| Exit::NoInput { what: what(error), hint: hint.to_owned() })?
            }
        };
        let text = text.trim();
        if !text.starts_with('{') {
            return match text {
                "" => Err(Exit::usage("the key is empty", hint)),
                key => Ok(key.to_owned()),
            };
        }
        match serde_json::from_str::<serde_json::Value>(text)
            .ok()
            .and_then(|hold| hold["key"].as_str().map(str::to_owned))
        {
            Some(key) => Ok(key),
            None => Err(Exit::usage("what should have the key is JSON without `key`", hint)),
        }
    }
}

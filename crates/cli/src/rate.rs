//! `tenure rate`: a place in a rate window, which gives itself back when the window is over.

use std::time::Duration;

use tenure_client::{Error, v1};

use crate::arguments::{Output, Server, Wait, Who};
use crate::exit::Exit;
use crate::patience::Patient;
use crate::{output, units};

/// Take a place in a rate window, and wait for one if need be
#[derive(clap::Args)]
#[command(after_long_help = "\
Example: at most ten calls in any minute, whoever makes them
  tenure rate geocoder --limit 10 --per 1m -w 5m && curl https://geocoder.example/v1/…

Everybody who names a window must name the same one. Without --limit and --per it must have been declared, as by
  tenure pool set geocoder --units 10 --window 1m

Places survive a restart of the server: it hands out no fresh budget.")]
pub(crate) struct Args {
    /// The pool that is the window; an unknown one is made
    name: String,
    /// How many places the window has [default: 1 for an unknown pool]
    #[arg(long, value_name = "N", requires = "per", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// How long a place is taken
    #[arg(long, value_name = "DURATION", value_parser = units::seconds)]
    per: Option<Duration>,
    /// How many places to take
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    units: u32,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) async fn run(args: Args) -> Result<(), Exit> {
    let mut server = Patient::connect(&args.server).await?;
    let window = match args.per {
        Some(per) => units::millis(per),
        None => args.known_window(&mut server).await?,
    };
    match server.acquire(args.request(window)).await {
        Ok(grant) => output::for_programs(args.output.json, &grant),
        Err(error) => {
            if error.code() == "size_mismatch" {
                // That it is no window at all matters more than its size.
                args.known_window(&mut server).await?;
            }
            Err(args.wait.exit(Args::explained(error)))
        }
    }
}

impl Args {
    /// The length of a window that is there. To ask for a place without looking would make a lock of an unknown name.
    async fn known_window(&self, server: &mut Patient) -> Result<u64, Exit> {
        let request = v1::GetPoolRequest { namespace: self.server.namespace.clone(), pool: self.name.clone() };
        let what = match server.pool(request).await {
            Ok(pool) => match pool.spec.and_then(|spec| spec.window_ms) {
                Some(window) => return Ok(window),
                None => format!("pool `{}` is not a rate window", self.name),
            },
            Err(Error::Refused(refusal)) if refusal.code == "unknown_pool" => {
                format!("there is no rate window `{}`", self.name)
            }
            Err(error) => return Err(error.into()),
        };
        let hint = match self.per {
            Some(_) => "a rate needs a pool of its own: use another name",
            None => {
                "say --limit and --per for a new one, or declare it: tenure pool set NAME --units N --window DURATION"
            }
        };
        Err(Exit::usage(what, hint))
    }

    /// A refusal in the words of this command.
    fn explained(mut error: Error) -> Error {
        if let Error::Refused(refusal) = &mut error {
            let advice = match (refusal.code.as_str(), refusal.field.as_deref()) {
                ("invalid_argument", Some("size")) => "correct --limit; nothing was changed",
                ("invalid_argument", Some("ttl_ms")) => "correct --per; nothing was changed",
                ("window_mismatch", _) if refusal.window_ms.is_none() => {
                    "a rate needs a pool of its own: use another name"
                }
                ("size_mismatch" | "window_mismatch", _) => {
                    "leave out --limit and --per to take it as it is; `tenure show` shows it"
                }
                _ => return error,
            };
            refusal.advice = advice.to_owned();
        }
        error
    }

    fn request(&self, window: u64) -> v1::AcquireRequest {
        let mut request = v1::AcquireRequest {
            namespace: self.server.namespace.clone(),
            pool: self.name.clone(),
            units: Some(self.units),
            size: self.limit,
            ttl_ms: Some(window),
            ..v1::AcquireRequest::default()
        };
        request.set_lifetime(v1::Lifetime::Window);
        self.wait.fill(&mut request);
        self.who.fill(&mut request);
        request
    }
}

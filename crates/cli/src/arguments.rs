//! Arguments that several commands share, with the habits of `flock` where it has any.

use std::time::Duration;

use tenure_client::{Acquire, Builder, Client, v1};

use crate::access::Access;
use crate::exit::{self, Exit};
use crate::{env, units};

/// Where a server listens unless it is told otherwise.
pub(crate) const ADDR_DEFAULT: &str = "127.0.0.1:3144";

/// Where the server is, and whose pools are meant.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct Server {
    /// The server's gRPC address; https://HOST:PORT speaks TLS
    #[arg(long, value_name = "HOST:PORT", env = env::ADDR, default_value = ADDR_DEFAULT, value_parser = address)]
    pub(crate) addr: String,
    /// The team's namespace
    #[arg(long, value_name = "NAME", env = env::NAMESPACE, default_value = "default")]
    pub(crate) namespace: String,
    #[command(flatten)]
    pub(crate) access: Access,
}

impl Server {
    /// Who is to be connected to.
    pub(crate) fn client(&self) -> Result<Builder, Exit> {
        self.access.apply(Client::builder(&self.addr).namespace(&self.namespace))
    }

    /// What makes another process ask the same server.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let addr = (env::ADDR.to_owned(), self.addr.clone());
        std::iter::once(addr).chain(self.access.variables()).collect()
    }
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Output {
    /// Print JSON: the messages of the API, and a refusal as {"error": …}
    #[arg(long)]
    pub(crate) json: bool,
}

/// Who asks.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Who {
    /// Who others see as the holder [default: user@host:process]
    #[arg(long, value_name = "NAME", env = env::HOLDER)]
    pub(crate) holder: Option<String>,
    /// Why, for others to see
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// More about the holder, for others to see; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) meta: Vec<(String, String)>,
}

/// How much of what.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Demand {
    /// How many units or resources, or `all` there are
    #[arg(short, long, value_name = "N|all", default_value = "1", allow_negative_numbers = true, requires = "pool")]
    pub(crate) units: Units,
    /// Which resources, such as 'gpu && mem >= 80 && !old'
    #[arg(short, long, value_name = "EXPR", requires = "pool")]
    pub(crate) select: Option<String>,
    /// Take what has to be cleaned, in order to clean it: a release returns it clean
    #[arg(long)]
    pub(crate) dirty: bool,
    /// The size the pool must have; an unknown pool is made with it [default: 1 for an unknown pool]
    #[arg(long, value_name = "N", requires = "pool")]
    pub(crate) size: Option<u32>,
    /// Served before those of lower priority, from -1000 to 1000
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) priority: i32,
}

/// How long to wait. Forever, unless told otherwise.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Wait {
    /// Do not wait: if there is no room now, end with code 75
    #[arg(short, long)]
    pub(crate) nonblock: bool,
    /// Wait at most this long, then end with code 75; a bare number is seconds [default: however long it takes]
    #[arg(
        short,
        long,
        visible_alias = "timeout",
        value_name = "DURATION",
        value_parser = units::seconds,
        allow_negative_numbers = true,
        conflicts_with = "nonblock"
    )]
    pub(crate) wait: Option<Duration>,
    /// End with this code instead of 75 when there is no room
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = exit::BUSY)]
    pub(crate) conflict_exit_code: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    Count(u32),
    All,
}

impl std::str::FromStr for Units {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self::All),
            _ => match text.parse() {
                Ok(count) => Ok(Self::Count(count)),
                Err(_) => Err("expected a number from 1, or `all`"),
            },
        }
    }
}

pub(crate) fn pair(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE"),
    }
}

fn address(text: &str) -> Result<String, String> {
    tenure_client::check_address(text).map(|()| text.to_owned())
}

impl Who {
    pub(crate) fn fill(&self, request: &mut v1::AcquireRequest) {
        request.holder = self.holder.clone().unwrap_or_else(tenure_client::default_holder);
        request.meta.extend(self.meta.iter().cloned());
        if let Some(reason) = &self.reason {
            request.meta.insert("reason".to_owned(), reason.clone());
        }
    }
}

impl Who {
    /// How many pieces of metadata there are.
    pub(crate) fn entries(&self) -> usize {
        self.meta.len() + usize::from(self.reason.is_some())
    }

    /// The same for a client that holds what it asks for.
    pub(crate) fn introduce(&self, mut client: Builder) -> Builder {
        if let Some(holder) = &self.holder {
            client = client.holder(holder);
        }
        if let Some(reason) = &self.reason {
            client = client.meta("reason", reason);
        }
        self.meta.iter().fold(client, |client, (name, value)| client.meta(name, value))
    }
}

impl Wait {
    pub(crate) fn fill(&self, request: &mut v1::AcquireRequest) {
        request.wait_ms = self.wait.map(units::millis);
        request.wait_forever = !self.nonblock && self.wait.is_none();
    }

    /// The same for a client that holds what it asks for.
    pub(crate) fn apply(&self, acquire: Acquire) -> Acquire {
        match (self.nonblock, self.wait) {
            (true, _) => acquire.no_wait(),
            (false, Some(wait)) => acquire.wait(wait),
            (false, None) => acquire.wait_forever(),
        }
    }

    /// Lack of room is told by the code that was asked for.
    pub(crate) fn exit(&self, error: tenure_client::Error) -> Exit {
        if exit::of_client(&error) == exit::BUSY {
            Exit::Conflict { error, code: self.conflict_exit_code }
        } else {
            Exit::Client(error)
        }
    }
}

//! `tenure elect`: a leader is whoever holds a pool of one unit, and everybody can see who that is.

use std::time::Duration;

use serde::Serialize;
use tenure_client::{Client, Lost, v1};

use crate::arguments::{Output, Server, Wait, Who};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::look::Following;
use crate::supervise::Signals;
use crate::{access, output, units};

/// How long to wait for the server when there is nothing more to do but to tell it so.
const FAREWELL: Duration = Duration::from_secs(5);
/// The holder's metadata that has what the leader wants others to know.
const VALUE: &str = "value";

/// Become the leader and stay it until stopped, or listen to who is
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  tenure elect scheduler http://10.0.0.7:8080    wait to become the leader, then stay it until stopped
  tenure elect --listen scheduler                print who is the leader, now and whenever that changes

A line with the holder, the token and the value is printed when the election is won. The command goes on until it is
stopped, which gives the leadership up, or until the leadership is lost, which is code 79. To run a program as the leader,
use `tenure run`.")]
pub(crate) struct Args {
    /// The election; candidates compete for the pool of this name
    name: String,
    /// What others should know of the leader, such as its address
    #[arg(conflicts_with = "listen")]
    value: Option<String>,
    /// Print who is the leader, now and whenever that changes
    #[arg(short, long, conflicts_with_all = ["nonblock", "wait", "holder", "meta", "reason"])]
    listen: bool,
    #[command(flatten)]
    wait: Wait,
    /// How long the server keeps the leadership without hearing from us
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = units::seconds)]
    ttl: Duration,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    server: Server,
}

/// Who leads, as it is printed.
#[derive(Serialize)]
struct Leader {
    leader: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
}

pub(crate) async fn run(args: Args) -> Result<(), Exit> {
    if args.listen { listen(&args).await } else { campaign(&args).await }
}

async fn campaign(args: &Args) -> Result<(), Exit> {
    let mut signals = Signals::listen().map_err(Exit::Setup)?;
    let mut client = args.who.introduce(args.server.client()?);
    if let Some(value) = &args.value {
        client = client.meta(VALUE, value);
    }
    let client = tokio::select! {
        client = client.connect() => client?,
        number = signals.next() => return Err(Exit::signal(number)),
    };
    let done = tokio::select! {
        done = lead(args, &client) => done,
        number = signals.next() => Err(Exit::signal(number)),
    };
    // Whatever came of it, nobody should have to wait for the lease to run out.
    let _ = tokio::time::timeout(FAREWELL, client.close()).await;
    done
}

/// Ends only when the leadership is lost, or was never won.
async fn lead(args: &Args, client: &Client) -> Result<(), Exit> {
    let candidate = args.wait.apply(client.acquire(&args.name).size(1).ttl(args.ttl));
    let guard = candidate.await.map_err(|error| args.wait.exit(error))?;
    // This process may have been paused since, for longer than the lease.
    if guard.is_lost() {
        return Err(args.lost(&guard.lost().await, client));
    }
    let (holder, token) = (client.holder().to_owned(), guard.token());
    // Nobody may be there to read it: that is no reason to step down.
    Leader { leader: Some(holder), value: args.value.clone(), token: Some(token) }.tell(args)?;
    Err(args.lost(&guard.lost().await, client))
}

async fn listen(args: &Args) -> Result<(), Exit> {
    // The events go on from before the look, so that none is missed; what both tell is told once, by its token.
    let mut events = Following::begin(&args.server, Some(&args.name), None, None).await?;
    let leader = look(args).await?;
    let mut current = leader.as_ref().and_then(|leader| leader.token);
    let mut newest = current.unwrap_or(0);
    if !leader.unwrap_or_else(Leader::nobody).tell(args)? {
        return Ok(());
    }
    loop {
        let event = events.next().await?;
        let leader = match (event.kind(), event.token) {
            (v1::EventKind::Granted, Some(token)) if token > newest => {
                (current, newest) = (Some(token), token);
                Leader { leader: event.holder, value: event.meta.get(VALUE).cloned(), token: Some(token) }
            }
            (v1::EventKind::Ended, Some(token)) if Some(token) == current => {
                current = None;
                Leader::nobody()
            }
            _ => continue,
        };
        if !leader.tell(args)? {
            return Ok(());
        }
    }
}

impl Args {
    fn lost(&self, why: &Lost, client: &Client) -> Exit {
        let trouble = if *why == Lost::Unreachable { access::trouble(client) } else { String::new() };
        Exit::Lost(format!("the leadership of `{}` was lost: {why}{trouble}", self.name))
    }
}

/// Who leads now.
async fn look(args: &Args) -> Result<Option<Leader>, Exit> {
    let mut server = Connection::open(&args.server).await?;
    let request = v1::ListHoldsRequest {
        namespace: args.server.namespace.clone(),
        pool: Some(args.name.clone()),
        ..v1::ListHoldsRequest::default()
    };
    let holds = match server.calls.list_holds(request).await {
        Ok(holds) => holds.into_inner().holds,
        Err(status) => match server.error(status) {
            // Nobody has ever stood for it, or nobody for a while.
            tenure_client::Error::Refused(refusal) if refusal.code == "unknown_pool" => return Ok(None),
            error => return Err(error.into()),
        },
    };
    Ok(holds.into_iter().next_back().map(|hold| Leader {
        value: hold.meta.get(VALUE).cloned(),
        token: Some(hold.token),
        leader: Some(hold.holder),
    }))
}

impl Leader {
    fn nobody() -> Self {
        Self { leader: None, value: None, token: None }
    }

    /// False if nobody reads any more.
    fn tell(&self, args: &Args) -> Result<bool, Exit> {
        if args.output.json {
            return output::json(self);
        }
        let Some(leader) = &self.leader else { return output::print("nobody\n") };
        let mut line = output::clean(leader).into_owned();
        if let Some(token) = self.token {
            line.push_str(&format!("  token {token}"));
        }
        if let Some(value) = &self.value {
            line.push_str("  ");
            line.push_str(&output::clean(value));
        }
        line.push('\n');
        output::print(&line)
    }
}

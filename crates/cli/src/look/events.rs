//! What has happened and what happens. Both print the same lines; a watch goes on over a lost connection, and neither
//! misses an event nor tells it twice.

use std::time::Duration;

use tenure_client::{Error, v1};
use tokio::time::{Instant, sleep, timeout};
use tonic::Streaming;

use super::line::Lines;
use super::{PAGE, say};
use crate::arguments::{Output, Server};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::{output, units};

/// A server that was not reached for this long is not about to come back.
const UNREACHABLE_MAX: Duration = Duration::from_secs(60);
/// Three times as long as the server lets a watch be silent.
const SILENCE_MAX: Duration = Duration::from_secs(45);
const ATTEMPT_MAX: Duration = Duration::from_secs(10);
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Print what has happened, the latest last
#[derive(clap::Args)]
#[command(after_long_help = "\
Times are UTC. With --json there is one event per line.

Examples:
  tenure history db
  tenure history --holder backup --since 1h
  tenure history db --since 2026-11-15T10:00:00Z --until 2026-11-15T11:00:00Z --all
  tenure history db --all --json | jq 'select(.how == \"expired\")'")]
pub(crate) struct HistoryArgs {
    /// Only what concerns this pool
    pool: Option<String>,
    /// Only what concerns this holder
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,
    /// Not before this time: a duration ago, such as 1h, or 2026-11-15T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<u64>,
    /// Before this time, in the same forms
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<u64>,
    /// At most this many, the newest
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// All that are kept
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(crate) async fn history(args: HistoryArgs) -> Result<(), Exit> {
    if let (Some(since), Some(until)) = (args.since, args.until)
        && since >= until
    {
        return Err(Exit::usage("there is no time between --since and --until", "--since is the earlier of them"));
    }
    let mut connection = Connection::open(&args.server).await?;
    let mut request = v1::HistoryRequest {
        namespace: args.server.namespace.clone(),
        pool: args.pool.clone(),
        holder: args.holder.clone(),
        since_ms: args.since,
        until_ms: args.until,
        after: None,
        newest_first: !args.all,
        limit: Some(PAGE),
        ..Default::default()
    };
    let mut lines = Lines::default();
    // All of it may be more than fits in memory; it is printed as it comes.
    let mut newest = Vec::new();
    let mut found = false;
    loop {
        if !args.all {
            let missing = (args.limit as usize).saturating_sub(newest.len());
            request.limit = Some(u32::try_from(missing).unwrap_or(PAGE).min(PAGE));
        }
        let page = connection.calls.history(request.clone()).await;
        let page = page.map_err(|status| connection.failed(status))?.into_inner();
        found |= !page.events.is_empty();
        if !args.all {
            newest.extend(page.events);
        } else if !told(&mut lines, page.events.iter(), args.output.json)? {
            return Ok(());
        }
        if page.done || page.next.is_none() || !args.all && newest.len() >= args.limit as usize {
            break;
        }
        request.after = page.next;
    }
    told(&mut lines, newest.iter().rev(), args.output.json)?;
    if !found && !args.output.json {
        output::note("nothing has happened, or it is no longer kept");
    }
    Ok(())
}

fn told<'a>(lines: &mut Lines, events: impl Iterator<Item = &'a v1::Event> + Clone, json: bool) -> Result<bool, Exit> {
    if !json {
        return output::print(&lines.of(events));
    }
    for event in events {
        if !output::json(event)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Print what happens, as it happens
#[derive(clap::Args)]
#[command(after_long_help = "\
Goes on until it is interrupted. A lost connection is taken up again where it was lost, for up to a minute.
Times are UTC. With --json there is one event per line.

Examples:
  tenure watch
  tenure watch db --after 1200
  tenure watch db --json --limit 1 | jq -r .kind")]
pub(crate) struct WatchArgs {
    /// Only what concerns this pool
    pool: Option<String>,
    /// Only what concerns this holder
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,
    /// Also what has happened since the event with this number
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// End after this many events
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(crate) async fn watch(args: WatchArgs) -> Result<(), Exit> {
    let mut events = Following::begin(&args.server, args.pool.as_deref(), args.holder.as_deref(), args.after).await?;
    let mut lines = Lines::default();
    let mut left = args.limit;
    while left != Some(0) {
        let event = events.next().await?;
        let read = match args.output.json {
            true => output::json(&event)?,
            false => output::print(&lines.line(&event))?,
        };
        if !read {
            break;
        }
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// Events as they happen, whatever becomes of the connection.
pub(crate) struct Following {
    server: Server,
    request: v1::WatchRequest,
    connection: Connection,
    events: Streaming<v1::Watched>,
}

impl Following {
    /// From the event `after` on, or from now on.
    pub(crate) async fn begin(
        server: &Server,
        pool: Option<&str>,
        holder: Option<&str>,
        after: Option<u64>,
    ) -> Result<Self, Exit> {
        let mut connection = Connection::open(server).await?;
        let after = match after {
            Some(after) => after,
            None => newest(&mut connection, &server.namespace).await?,
        };
        let request = v1::WatchRequest {
            namespace: server.namespace.clone(),
            pool: pool.map(str::to_owned),
            holder: holder.map(str::to_owned),
            after: Some(after),
        };
        let events = ask(&mut connection, &request).await?;
        Ok(Self { server: server.clone(), request, connection, events })
    }

    /// The next one, whenever it comes. A lost connection is taken up again where it was lost.
    pub(crate) async fn next(&mut self) -> Result<v1::Event, Exit> {
        loop {
            match self.hear().await {
                Err(exit) if may_pass(&exit) => {}
                heard => return heard,
            }
            let after = self.request.after.unwrap_or(0);
            output::note(&format!("connection lost; going on after event {after} once the server is back"));
            self.again().await?;
            output::note("connected again");
        }
    }

    async fn hear(&mut self) -> Result<v1::Event, Exit> {
        loop {
            let next = timeout(SILENCE_MAX, self.events.message()).await.map_err(|_| self.lost("it fell silent"))?;
            let next = next.map_err(|status| self.connection.failed(status))?;
            let watched = next.ok_or_else(|| self.lost("it ended the watch"))?;
            self.request.after = Some(watched.seq);
            if let Some(event) = watched.event {
                return Ok(event);
            }
        }
    }

    /// Connects again, at longer and longer intervals.
    async fn again(&mut self) -> Result<(), Exit> {
        let since = Instant::now();
        let mut pause = PAUSE_MIN;
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            let attempt = async {
                let mut connection = Connection::open(&self.server).await?;
                let events = ask(&mut connection, &self.request).await?;
                Ok((connection, events))
            };
            match timeout(ATTEMPT_MAX, attempt).await.unwrap_or_else(|_| Err(self.lost("it does not answer"))) {
                Err(exit) if (may_pass(&exit) || is_kept_out(&exit)) && since.elapsed() < UNREACHABLE_MAX => {}
                Err(exit) => return Err(exit),
                Ok((connection, events)) => {
                    (self.connection, self.events) = (connection, events);
                    return Ok(());
                }
            }
        }
    }

    fn lost(&self, why: &str) -> Exit {
        Exit::Client(Error::Unreachable { address: self.server.addr.clone(), why: why.to_owned() })
    }
}

async fn ask(connection: &mut Connection, request: &v1::WatchRequest) -> Result<Streaming<v1::Watched>, Exit> {
    let events = connection.calls.watch(request.clone()).await;
    Ok(events.map_err(|status| connection.failed(status))?.into_inner())
}

/// Whether it may be over after a while.
fn may_pass(exit: &Exit) -> bool {
    match exit {
        Exit::Client(Error::Unreachable { .. } | Error::Closed) => true,
        Exit::Client(Error::Refused(refusal)) => refusal.retry,
        _ => false,
    }
}

/// Whether password and certificates are not what the server wants. Whoever replaces them may be in the middle of it.
fn is_kept_out(exit: &Exit) -> bool {
    matches!(
        exit,
        Exit::NoInput { .. } | Exit::Usage { .. } | Exit::Client(Error::Unauthenticated { .. } | Error::Unusable(_))
    )
}

/// The number of the newest event, so that a watch that has not seen any can be taken up again too.
async fn newest(connection: &mut Connection, namespace: &str) -> Result<u64, Exit> {
    let request = v1::HistoryRequest {
        namespace: namespace.to_owned(),
        newest_first: true,
        limit: Some(1),
        ..v1::HistoryRequest::default()
    };
    let page = connection.calls.history(request).await.map_err(|status| connection.failed(status))?.into_inner();
    // If the namespace has none, this is how far the search has come, and there is none after it either.
    Ok(page.next.unwrap_or(0))
}

/// A duration ago, or a point in time; in milliseconds since the epoch.
fn moment(text: &str) -> Result<u64, String> {
    if let Ok(ago) = units::duration(text) {
        return Ok(say::now_ms().saturating_sub(units::millis(ago)));
    }
    let at: jiff::Timestamp =
        text.parse().map_err(|_| "expected a duration ago, such as 1h, or a time such as 2026-11-15T10:00:00Z")?;
    u64::try_from(at.as_millisecond()).map_err(|_| "that was before 1970".to_owned())
}

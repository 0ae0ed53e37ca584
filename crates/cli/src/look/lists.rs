//! Listings of waiters, holds and sessions.

use tenure_client::v1;

use super::{PAGE, say};
use crate::arguments::{Output, Server};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::output::{self, Table};

/// List who waits for a pool, the next to be served first
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  tenure queue db
  tenure queue db --json | jq -r '.waiters[0].holder'")]
pub(crate) struct QueueArgs {
    /// The pool's name
    pool: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(crate) async fn queue(args: QueueArgs) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    let waiters = some_waiters(&mut connection, &args.server.namespace, &args.pool, usize::MAX).await?;
    if args.output.json {
        return output::json(&v1::ListQueueResponse { waiters, next: None }).map(|_| ());
    }
    if waiters.is_empty() {
        output::note(&format!("nobody waits for pool `{}`", args.pool));
        return Ok(());
    }
    output::print(&waiter_rows(&waiters, say::now_ms())).map(|_| ())
}

/// List who holds what, oldest first
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  tenure holds
  tenure holds db
  tenure holds --holder backup --json | jq '.holds[].token'")]
pub(crate) struct HoldsArgs {
    /// Only holds of this pool
    pool: Option<String>,
    /// Only holds of this holder
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(crate) async fn holds(args: HoldsArgs) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    let (pool, holder) = (args.pool.as_deref(), args.holder.as_deref());
    let holds = some_holds(&mut connection, &args.server.namespace, pool, holder, usize::MAX).await?;
    if args.output.json {
        return output::json(&v1::ListHoldsResponse { holds, next: None }).map(|_| ());
    }
    if holds.is_empty() {
        output::note("no holds");
        return Ok(());
    }
    output::print(&hold_rows(holds.iter(), say::now_ms(), true)).map(|_| ())
}

/// List the sessions of clients, oldest first
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  tenure sessions
  tenure sessions --json | jq -r '.sessions[] | select(.attached | not) | .holder'")]
pub(crate) struct SessionsArgs {
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(crate) async fn sessions(args: SessionsArgs) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    let mut request =
        v1::ListSessionsRequest { namespace: args.server.namespace.clone(), after: None, limit: Some(PAGE) };
    let mut sessions = Vec::new();
    loop {
        let page = connection.calls.list_sessions(request.clone()).await;
        let page = page.map_err(|status| connection.failed(status))?.into_inner();
        sessions.extend(page.sessions);
        match page.next {
            Some(next) => request.after = Some(next),
            None => break,
        }
    }
    if args.output.json {
        return output::json(&v1::ListSessionsResponse { sessions, next: None }).map(|_| ());
    }
    if sessions.is_empty() {
        output::note("no sessions");
        return Ok(());
    }
    let now_ms = say::now_ms();
    let mut table = Table::new(["SESSION", "HOLDER", "HOLDS", "WAITERS", "STREAM", "GRACE", "ENDS", "ABOUT"]);
    for session in &sessions {
        table.row([
            session.session.to_string(),
            session.holder.clone(),
            session.holds.to_string(),
            session.waiters.to_string(),
            if session.attached { "yes" } else { "no" }.to_owned(),
            say::exact(session.grace_ms),
            session.deadline_ms.map_or_else(String::new, |deadline| say::ahead(now_ms, deadline)),
            say::meta(&session.meta),
        ]);
    }
    output::print(&table.text()).map(|_| ())
}

/// Those who wait, as many as are asked for, the next to be served first.
pub(crate) async fn some_waiters(
    connection: &mut Connection,
    namespace: &str,
    pool: &str,
    max: usize,
) -> Result<Vec<v1::Waiter>, Exit> {
    let mut waiters = Vec::new();
    let mut after = None;
    while waiters.len() < max {
        let request = v1::ListQueueRequest {
            namespace: namespace.to_owned(),
            pool: pool.to_owned(),
            after,
            limit: Some(page_size(max - waiters.len())),
        };
        let page = connection.calls.list_queue(request).await;
        let page = page.map_err(|status| connection.failed(status))?.into_inner();
        waiters.extend(page.waiters);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(waiters)
}

/// Holds, oldest first, as many as are asked for.
pub(crate) async fn some_holds(
    connection: &mut Connection,
    namespace: &str,
    pool: Option<&str>,
    holder: Option<&str>,
    max: usize,
) -> Result<Vec<v1::Hold>, Exit> {
    let mut holds = Vec::new();
    let mut after = None;
    while holds.len() < max {
        let request = v1::ListHoldsRequest {
            namespace: namespace.to_owned(),
            pool: pool.map(str::to_owned),
            holder: holder.map(str::to_owned),
            after,
            limit: Some(page_size(max - holds.len())),
        };
        let page = connection.calls.list_holds(request).await;
        let page = page.map_err(|status| connection.failed(status))?.into_inner();
        holds.extend(page.holds);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(holds)
}

fn page_size(wanted: usize) -> u32 {
    u32::try_from(wanted).unwrap_or(PAGE).min(PAGE)
}

/// The pool's name is left out where everybody knows it.
pub(crate) fn hold_rows<'a>(holds: impl Iterator<Item = &'a v1::Hold>, now_ms: u64, with_pool: bool) -> String {
    let mut table = Table::new(["POOL", "HOLDER", "TOKEN", "HAS", "SINCE", "ENDS", "ABOUT"]);
    for hold in holds {
        table.row([
            if with_pool { hold.pool.clone() } else { String::new() },
            hold.holder.clone(),
            hold.token.to_string(),
            say::held(hold),
            say::ago(now_ms, hold.since_ms),
            say::ends(now_ms, hold),
            say::meta(&hold.meta),
        ]);
    }
    table.text()
}

pub(crate) fn waiter_rows(waiters: &[v1::Waiter], now_ms: u64) -> String {
    let mut table = Table::new(["POSITION", "WAITER", "NUMBER", "WANTS", "PRIORITY", "SINCE", "GIVES UP", "ABOUT"]);
    let prioritised = waiters.iter().any(|waiter| waiter.priority != 0);
    for waiter in waiters {
        table.row([
            waiter.position.map_or_else(|| "away".to_owned(), |position| position.to_string()),
            waiter.holder.clone(),
            waiter.waiter.to_string(),
            say::waited_for(waiter),
            if prioritised { waiter.priority.to_string() } else { String::new() },
            say::ago(now_ms, waiter.since_ms),
            waiter.deadline_ms.map_or_else(String::new, |deadline| say::ahead(now_ms, deadline)),
            say::meta(&waiter.meta),
        ]);
    }
    table.text()
}

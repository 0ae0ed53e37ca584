//! What operators do to holds, waiters and reservations. Each says what it believes to be there, and why.

use std::time::Duration;

use tenure_client::v1;

use crate::arguments::{Output, Server};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::{env, look, output, units};

/// End somebody's hold, only if they still have it with that token
#[derive(clap::Args)]
#[command(after_long_help = "\
`tenure holds POOL` shows who holds it, with which token. If it is another's by now, nothing is done.

Example:
  tenure force-release db --holder backup --token 7 --reason 'its machine is gone'")]
pub(crate) struct ForceReleaseArgs {
    /// The pool's name
    pool: String,
    /// Who is believed to hold it
    #[arg(long, value_name = "NAME")]
    holder: String,
    /// The token of the hold
    #[arg(long, value_name = "N")]
    token: u64,
    /// Why; it is recorded, for others to see
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(crate) async fn force_release(args: ForceReleaseArgs) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    let request = v1::ForceReleaseRequest {
        namespace: args.server.namespace.clone(),
        pool: args.pool.clone(),
        holder: args.holder.clone(),
        token: args.token,
        reason: args.reason.clone(),
    };
    let released = connection.calls.force_release(request).await;
    let released = released.map_err(|status| connection.failed(status))?.into_inner();
    let said = format!("pool `{}` released from `{}`, token {}", args.pool, args.holder, released.token);
    output::done(&args.output, &said, &released)
}

/// Say that an outside owner is gone: the holds bound to it end
#[derive(clap::Args)]
#[command(after_long_help = "\
Example:
  tenure owner-gone workflow/4711")]
pub(crate) struct OwnerGoneArgs {
    /// Whose bound holds and waits end
    owner: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(crate) async fn owner_gone(args: OwnerGoneArgs) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    let request = v1::OwnerGoneRequest { namespace: args.server.namespace.clone(), owner: args.owner.clone() };
    let gone = connection.calls.owner_gone(request).await;
    let gone = gone.map_err(|status| connection.failed(status))?.into_inner();
    output::done(&args.output, &format!("{} of `{}` ended", look::count(gone.holds, "hold"), args.owner), &gone)
}

/// Give somebody's hold to somebody else, only if they still have it with that token
#[derive(clap::Args)]
#[command(after_long_help = "\
In one step: nobody who waits gets in between. The new holder has a token and a key of its own,
which are printed as `tenure acquire` prints them; the old one is fenced off.

Example:
  tenure steal db --holder backup --token 7 --to oncall --ttl 10m --reason 'backup hangs'")]
pub(crate) struct StealArgs {
    /// The pool's name
    pool: String,
    /// Who is believed to hold it
    #[arg(long, value_name = "NAME")]
    holder: String,
    /// The token of the hold
    #[arg(long, value_name = "N")]
    token: u64,
    /// Who gets it
    #[arg(long, value_name = "NAME")]
    to: String,
    /// End the new hold after this long unless it is renewed [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = units::seconds)]
    ttl: Option<Duration>,
    /// Keep the new hold until it is released, however long that takes
    #[arg(long, conflicts_with = "ttl")]
    kept: bool,
    /// Make the request repeatable: the same id gives the same hold. As good as a key to whoever knows it
    #[arg(long, value_name = "ID", env = env::REQUEST_ID, hide_env_values = true)]
    request_id: Option<String>,
    /// Why; it is recorded, for others to see
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(crate) async fn steal(args: StealArgs) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    let mut request = v1::StealRequest {
        namespace: args.server.namespace.clone(),
        pool: args.pool,
        holder: args.holder,
        token: args.token,
        to: args.to,
        ttl_ms: args.ttl.map(units::millis),
        request_id: args.request_id,
        reason: args.reason,
        ..v1::StealRequest::default()
    };
    if args.kept {
        request.set_lifetime(v1::Lifetime::Kept);
    }
    let grant = connection.calls.steal(request).await.map_err(|status| connection.failed(status))?.into_inner();
    let printed = if args.output.json { output::json(&grant) } else { output::print(&output::grant(&grant)) };
    printed.map(|_| ())
}

/// Put a waiter in front of another, or of all, only if both still wait
#[derive(clap::Args)]
#[command(after_long_help = "\
`tenure queue POOL` shows who waits, with their numbers. Whoever is put in front of somebody has
that one's priority from then on.

Examples:
  tenure move db --waiter 12 --holder deploy --front --reason 'hotfix'
  tenure move db --waiter 12 --holder deploy --before 9 --reason 'release day'")]
#[command(group = clap::ArgGroup::new("where").required(true))]
pub(crate) struct MoveArgs {
    /// The pool's name
    pool: String,
    /// The waiter's number
    #[arg(long, value_name = "N")]
    waiter: u64,
    /// Who is believed to wait there
    #[arg(long, value_name = "NAME")]
    holder: String,
    /// Directly before the waiter of this number
    #[arg(long, value_name = "N", group = "where")]
    before: Option<u64>,
    /// Before everybody
    #[arg(long, group = "where")]
    front: bool,
    /// Why; it is recorded, for others to see
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(crate) async fn move_waiter(args: MoveArgs) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    let request = v1::MoveWaiterRequest {
        namespace: args.server.namespace.clone(),
        pool: args.pool.clone(),
        waiter: args.waiter,
        holder: args.holder.clone(),
        before: args.before,
        reason: args.reason,
    };
    let moved = connection.calls.move_waiter(request).await.map_err(|status| connection.failed(status))?.into_inner();
    let place = args.before.map_or_else(|| "to the front".to_owned(), |before| format!("before number {before}"));
    output::done(&args.output, &format!("`{}` moved {place} of pool `{}`", args.holder, args.pool), &moved)
}

/// Keep a resource for a holder to come
#[derive(clap::Args)]
#[command(after_long_help = "\
Nobody else gets it until that holder has got it, the time is over or the reservation is ended. If
it is reserved already, only whoever says for whom (--instead-of) can change that.

Examples:
  tenure reserve gpus gpu-1 --holder demo --for 2h --reason 'demo at noon'
  tenure reserve gpus gpu-1 --holder ada --instead-of demo --reason 'the demo was moved'")]
pub(crate) struct ReserveArgs {
    /// The pool's name
    pool: String,
    /// The resource
    resource: String,
    /// For whom
    #[arg(long, value_name = "NAME")]
    holder: String,
    /// How long, if nobody comes for it [default: however long it takes]
    #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
    lasts: Option<Duration>,
    /// For whom it is believed to be reserved so far
    #[arg(long, value_name = "NAME")]
    instead_of: Option<String>,
    /// Why; others see it while they wait
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(crate) async fn reserve(args: ReserveArgs) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    let request = v1::ReserveRequest {
        namespace: args.server.namespace.clone(),
        pool: args.pool.clone(),
        resource: args.resource.clone(),
        holder: args.holder.clone(),
        lasts_ms: args.lasts.map(units::millis),
        instead_of: args.instead_of,
        reason: args.reason,
    };
    let reserved = connection.calls.reserve(request).await.map_err(|status| connection.failed(status))?.into_inner();
    let said = format!("resource `{}` of pool `{}` reserved for `{}`", args.resource, args.pool, args.holder);
    output::done(&args.output, &said, &reserved)
}

/// End a reservation, only if it is still that holder's
#[derive(clap::Args)]
#[command(after_long_help = "\
Example:
  tenure unreserve gpus gpu-1 --holder demo --reason 'the demo is off'")]
pub(crate) struct UnreserveArgs {
    /// The pool's name
    pool: String,
    /// The resource
    resource: String,
    /// For whom it is believed to be reserved
    #[arg(long, value_name = "NAME")]
    holder: String,
    /// Why; it is recorded, for others to see
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(crate) async fn unreserve(args: UnreserveArgs) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    let request = v1::UnreserveRequest {
        namespace: args.server.namespace.clone(),
        pool: args.pool.clone(),
        resource: args.resource.clone(),
        holder: args.holder.clone(),
        reason: args.reason,
    };
    let done = connection.calls.unreserve(request).await.map_err(|status| connection.failed(status))?.into_inner();
    let said =
        format!("resource `{}` of pool `{}` not reserved for `{}` any more", args.resource, args.pool, args.holder);
    output::done(&args.output, &said, &done)
}

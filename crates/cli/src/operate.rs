//! What operators do to holds.

use tenure_client::v1;

use crate::arguments::{Output, Server};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::{look, output};

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

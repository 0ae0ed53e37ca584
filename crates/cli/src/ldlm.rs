//! What `ldlm-lock` does, for those who have the habit. Keys are secrets here, so a lock is told from another of the same
//! name by its token.

use std::collections::BTreeMap;

use tenure_client::v1;

use crate::arguments::{Output, Server};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::{look, output};

/// List and unlock locks as `ldlm-lock` does
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    List(ListArgs),
    Unlock(UnlockArgs),
}

/// List every lock that somebody has
#[derive(clap::Args)]
#[command(after_long_help = "\
Keys are secrets and in no list: `Key` is the token, which `unlock` takes. `tenure holds` tells more.

Example:
  tenure ldlm list")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    server: Server,
}

/// Unlock a lock, whoever has it
#[derive(clap::Args)]
#[command(after_long_help = "\
Whoever has it is not asked. With its own key a lock is unlocked by `tenure release`.

Examples:
  tenure ldlm unlock db
  tenure ldlm unlock db 7")]
pub(crate) struct UnlockArgs {
    /// The lock's name
    name: String,
    /// Which of several, as `list` has it [default: the last one]
    key: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    server: Server,
}

impl Command {
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::List(args) => args.output.json,
            Self::Unlock(args) => args.output.json,
        }
    }
}

pub(crate) async fn run(command: Command) -> Result<(), Exit> {
    match command {
        Command::List(args) => list(args).await,
        Command::Unlock(args) => unlock(args).await,
    }
}

async fn list(args: ListArgs) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    let holds = look::some_holds(&mut connection, &args.server.namespace, None, None, usize::MAX).await?;
    if args.output.json {
        return output::json(&v1::ListHoldsResponse { holds, next: None }).map(|_| ());
    }
    if holds.is_empty() {
        return output::print("No locks found\n").map(|_| ());
    }
    let pools = look::all_pools(&mut connection, &args.server.namespace, "").await?;
    let sizes: BTreeMap<_, _> = pools.iter().map(|pool| (pool.pool.as_str(), pool.size)).collect();
    let lines = holds.iter().map(|hold| {
        // A pool that has vanished between the two questions was one of what was held of it.
        let size = sizes.get(hold.pool.as_str()).copied().unwrap_or(hold.units);
        format!("{{Name: {}, Key: {}, Size: {size}}}\n", output::clean(&hold.pool), hold.token)
    });
    output::print(&lines.collect::<String>()).map(|_| ())
}

async fn unlock(args: UnlockArgs) -> Result<(), Exit> {
    let token = args.key.as_deref().map(token).transpose()?;
    let mut connection = Connection::open(&args.server).await?;
    let namespace = &args.server.namespace;
    let holds = match look::some_holds(&mut connection, namespace, Some(&args.name), None, usize::MAX).await {
        Err(Exit::Client(error)) if error.code() == "unknown_pool" => Vec::new(),
        holds => holds?,
    };
    let Some(last) = holds.last() else {
        return Err(refused("not_held", "a lock by that name does not exist"));
    };
    let hold = match token {
        None => last,
        Some(token) => holds
            .iter()
            .find(|hold| hold.token == token)
            .ok_or_else(|| refused("not_held", "nobody has that lock with that key"))?,
    };
    let request = v1::ForceReleaseRequest {
        namespace: namespace.clone(),
        pool: args.name.clone(),
        holder: hold.holder.clone(),
        token: hold.token,
        reason: "unlocked by `tenure ldlm unlock`".to_owned(),
    };
    let released = connection.calls.force_release(request).await;
    let released = released.map_err(|status| connection.failed(status))?.into_inner();
    output::done(&args.output, "Unlocked: true", &released)
}

fn token(key: &str) -> Result<u64, Exit> {
    key.parse().map_err(|_| {
        let hint = "with a lock's own key, which is a secret: TENURE_KEY=… tenure release NAME";
        Exit::usage("the key must be a number, as `tenure ldlm list` has it", hint)
    })
}

fn refused(code: &str, message: &str) -> Exit {
    let advice = "`tenure ldlm list` has those there are".to_owned();
    let refusal = v1::Refusal { code: code.to_owned(), message: message.to_owned(), advice, ..v1::Refusal::default() };
    Exit::Client(tenure_client::Error::Refused(Box::new(refusal)))
}

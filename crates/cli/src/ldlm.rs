//! What `ldlm-lock` does, for those who have the habit. Keys are secrets here, so a list tells a lock from another of the
//! same name by its token.

use std::collections::BTreeMap;

use tenure_client::v1;
use tenure_core::{Key, PoolName};

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
Whoever has it is not asked. A key that is an argument can be seen by others on this machine;
`tenure release` takes it from the environment or a file.

Examples:
  tenure ldlm unlock db
  tenure ldlm unlock db 7")]
pub(crate) struct UnlockArgs {
    /// The lock's name
    name: String,
    /// Which of several: as `list` has it, or the lock's own key [default: the last one listed]
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
    let holds = locks(&mut connection, &args.server.namespace, None).await?;
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
    let mut connection = Connection::open(&args.server).await?;
    let namespace = &args.server.namespace;
    let which = args.key.as_deref().map(Which::parse);
    let mut known = false;
    for pool in pools(&args.name) {
        let holds = match locks(&mut connection, namespace, Some(&pool)).await {
            Err(Exit::Client(error)) if error.code() == "unknown_pool" => continue,
            holds => holds?,
        };
        known = true;
        let hold = match which {
            None => holds.last(),
            Some(Which::Token(token)) => holds.iter().find(|hold| hold.token == token),
            Some(Which::Nobodys) => None,
            Some(Which::Own(key)) => {
                let (namespace, key) = (namespace.clone(), key.to_string());
                match connection.calls.release(v1::ReleaseRequest { namespace, key, pool: Some(pool) }).await {
                    Ok(released) => return output::done(&args.output, "Unlocked: true", &released.into_inner()),
                    Err(status) => match connection.error(status) {
                        error if error.code() == "not_held" => continue,
                        error => return Err(Exit::Client(error)),
                    },
                }
            }
        };
        if let Some(hold) = hold {
            let request = v1::ForceReleaseRequest {
                namespace: namespace.clone(),
                pool,
                holder: hold.holder.clone(),
                token: hold.token,
                reason: "unlocked by `tenure ldlm unlock`".to_owned(),
            };
            let released = connection.calls.force_release(request).await;
            let released = released.map_err(|status| connection.failed(status))?.into_inner();
            return output::done(&args.output, "Unlocked: true", &released);
        }
    }
    let message = if known && which.is_some() { "invalid lock key" } else { "a lock by that name does not exist" };
    Err(refused("not_held", message))
}

/// What is held, but for places in a rate's window: those end when they end, and nobody unlocks them.
async fn locks(connection: &mut Connection, namespace: &str, pool: Option<&str>) -> Result<Vec<v1::Hold>, Exit> {
    let mut holds = look::some_holds(connection, namespace, pool, None, usize::MAX).await?;
    holds.retain(|hold| hold.lifetime() != v1::Lifetime::Window);
    Ok(holds)
}

/// The pools that may be meant: the one that is listed so, and the one that LDLM's clients have by that name.
fn pools(name: &str) -> Vec<String> {
    let listed = PoolName::parse(name).ok();
    let mut pools = Vec::from_iter(listed);
    if !name.is_empty() {
        pools.push(tenure_server::pool_of_lock(name));
        pools.dedup();
    }
    pools.iter().map(PoolName::to_string).collect()
}

/// One of several locks of the same name.
#[derive(Clone, Copy)]
enum Which {
    Token(u64),
    Own(Key),
    /// No lock can have it.
    Nobodys,
}

impl Which {
    fn parse(key: &str) -> Self {
        match (key.parse(), Key::parse(key)) {
            (Ok(token), _) => Self::Token(token),
            (_, Ok(key)) => Self::Own(key),
            _ => Self::Nobodys,
        }
    }
}

fn refused(code: &str, message: &str) -> Exit {
    let advice = "`tenure ldlm list` has those there are".to_owned();
    let refusal = v1::Refusal { code: code.to_owned(), message: message.to_owned(), advice, ..v1::Refusal::default() };
    Exit::Client(tenure_client::Error::Refused(Box::new(refusal)))
}

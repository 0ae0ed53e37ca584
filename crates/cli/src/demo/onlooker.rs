//! Who looks on for the picture: over a connection of its own, with what every onlooker may ask.

use std::time::Duration;

use tenure_client::{Error, v1};
use tokio::time::timeout;
use tonic::Streaming;

use super::picture::Seen;
use crate::arguments::Server;
use crate::connection::Connection;
use crate::exit::Exit;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// One page has all that can be shown.
const PAGE: u32 = 1_000;

pub(super) struct Onlooker {
    server: Server,
    pool: String,
    connection: Connection,
    events: Streaming<v1::Watched>,
    /// How far the watch has come.
    after: Option<u64>,
}

impl Onlooker {
    /// Sees everything that happens to the pool from now on. There must be none of that name yet: it would be changed, and
    /// removed at the end.
    pub(super) async fn begin(server: &Server, pool: &str) -> Result<Self, Exit> {
        let mut connection = Connection::open(server).await?;
        let known = v1::GetPoolRequest { namespace: server.namespace.clone(), pool: pool.to_owned() };
        match connection.calls.get_pool(known).await.map_err(|status| connection.error(status)) {
            Err(error) if error.code() == "unknown_pool" => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                let hint = "choose another name with --pool; the demo removes its pool when it ends";
                return Err(Exit::usage(format!("there is a pool `{pool}` on that server already"), hint));
            }
        }
        let events = watch(&mut connection, server, pool, None).await?;
        Ok(Self { server: server.clone(), pool: pool.to_owned(), connection, events, after: None })
    }

    /// Tries to reach a server that was lost, and to go on where that was.
    pub(super) async fn again(&mut self) -> Result<(), Exit> {
        let attempt = async {
            let mut connection = Connection::open(&self.server).await?;
            let events = watch(&mut connection, &self.server, &self.pool, self.after).await?;
            Ok::<_, Exit>((connection, events))
        };
        let reached = timeout(PATIENCE, attempt).await.map_err(|_| self.silent("it does not answer"))?;
        (self.connection, self.events) = reached?;
        Ok(())
    }

    pub(super) async fn declare(&mut self, spec: v1::PoolSpec) -> Result<(), Exit> {
        let (namespace, pool) = (self.server.namespace.clone(), self.pool.clone());
        let set = v1::SetPoolRequest { namespace, pool, spec: Some(spec), ..Default::default() };
        self.connection.calls.set_pool(set).await.map_err(|status| self.connection.failed(status))?;
        Ok(())
    }

    /// Whether the pool is gone.
    pub(super) async fn remove(&mut self) -> bool {
        let (namespace, pool) = (self.server.namespace.clone(), self.pool.clone());
        let removed = self.connection.calls.remove_pool(v1::RemovePoolRequest { namespace, pool }).await;
        match removed.map_err(|status| self.connection.error(status)) {
            Ok(answer) => answer.into_inner().holds_left == 0,
            // Somebody else was faster.
            Err(error) => error.code() == "unknown_pool",
        }
    }

    /// The next event, whenever it comes. Can be dropped without missing any.
    pub(super) async fn next(&mut self) -> Result<v1::Event, Exit> {
        loop {
            let watched = self.events.message().await.map_err(|status| self.connection.failed(status))?;
            let watched = watched.ok_or_else(|| self.silent("it ended the watch"))?;
            self.after = Some(watched.seq);
            if let Some(event) = watched.event {
                return Ok(event);
            }
        }
    }

    /// How things stand.
    pub(super) async fn look(&mut self) -> Result<Seen, Exit> {
        let (namespace, pool) = (self.server.namespace.clone(), self.pool.clone());
        let queue = v1::ListQueueRequest {
            namespace: namespace.clone(),
            pool: pool.clone(),
            limit: Some(PAGE),
            ..v1::ListQueueRequest::default()
        };
        let holds = v1::ListHoldsRequest {
            namespace: namespace.clone(),
            pool: Some(pool.clone()),
            limit: Some(PAGE),
            ..v1::ListHoldsRequest::default()
        };
        let calls = &mut self.connection.calls;
        let asked = async {
            Ok::<_, tonic::Status>(Seen {
                // Whoever is granted between two of these calls is seen in both places rather than in none.
                queue: calls.list_queue(queue).await?.into_inner().waiters,
                holds: calls.list_holds(holds).await?.into_inner().holds,
                pool: calls.get_pool(v1::GetPoolRequest { namespace, pool }).await?.into_inner(),
            })
        };
        let seen = timeout(PATIENCE, asked).await.map_err(|_| self.silent("it does not answer"))?;
        seen.map_err(|status| self.connection.failed(status))
    }

    fn silent(&self, why: &str) -> Exit {
        Exit::Client(Error::Unreachable { address: self.server.addr.clone(), why: why.to_owned() })
    }
}

async fn watch(
    connection: &mut Connection,
    server: &Server,
    pool: &str,
    after: Option<u64>,
) -> Result<Streaming<v1::Watched>, Exit> {
    let (namespace, pool) = (server.namespace.clone(), Some(pool.to_owned()));
    let events = connection.calls.watch(v1::WatchRequest { namespace, pool, holder: None, after }).await;
    Ok(events.map_err(|status| connection.failed(status))?.into_inner())
}

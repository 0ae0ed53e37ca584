//! Calls of scripts, which have no session: asked again if the connection breaks, as long as there is time left.

use std::time::Duration;

use tenure_client::{Api, Error, v1};
use tokio::time::{Instant, sleep};
use tonic::{Response, Status};

use crate::arguments::Server;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::units;

/// A request that does not wait for room is given up when the server has been away for this long.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long after the end of a wait the server has to say that it is over.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Between two tries, so that a server that starts is not held up by those who wait for it.
const PAUSE: Duration = Duration::from_millis(250);

/// A server that has been reached once.
pub(crate) struct Patient {
    at: Server,
    connection: Connection,
}

impl Patient {
    pub(crate) async fn connect(server: &Server) -> Result<Self, Exit> {
        Ok(Self { at: server.clone(), connection: Connection::open(server).await? })
    }

    /// It is safe to ask twice: the request has an id by which it is known.
    pub(crate) async fn acquire(&mut self, mut request: v1::AcquireRequest) -> Result<v1::Grant, Error> {
        request.request_id.get_or_insert_with(tenure_client::random_id);
        let wait = request.wait_ms.map(Duration::from_millis);
        let wait_end = wait.and_then(|wait| Instant::now().checked_add(wait));
        // None: as long as it takes. Too far away to be a time is as good as that.
        let end = match request.wait_forever {
            true => None,
            false => Instant::now().checked_add(wait.unwrap_or(PATIENCE)),
        };
        self.repeat(end, async |calls| {
            if let Some(end) = wait_end {
                request.wait_ms = Some(units::millis(end.saturating_duration_since(Instant::now())));
            }
            calls.acquire(request.clone()).await
        })
        .await
    }

    pub(crate) async fn pool(&mut self, request: v1::GetPoolRequest) -> Result<v1::PoolDetail, Error> {
        self.repeat(soon(), async |calls| calls.get_pool(request.clone()).await).await
    }

    pub(crate) async fn release(&mut self, request: v1::ReleaseRequest) -> Result<v1::Released, Error> {
        self.repeat(soon(), async |calls| calls.release(request.clone()).await).await
    }

    pub(crate) async fn renew(&mut self, request: v1::RenewRequest) -> Result<v1::Renewed, Error> {
        self.repeat(soon(), async |calls| calls.renew(request.clone()).await).await
    }

    pub(crate) async fn withdraw(&mut self, request: v1::WithdrawRequest) -> Result<v1::Withdrawn, Error> {
        self.repeat(soon(), async |calls| calls.withdraw(request.clone()).await).await
    }

    /// Asks until there is an answer that asking again would not change.
    async fn repeat<T>(
        &mut self,
        end: Option<Instant>,
        mut call: impl AsyncFnMut(&mut Api) -> Result<Response<T>, Status>,
    ) -> Result<T, Error> {
        loop {
            let error = match timeout_at(end, call(&mut self.connection.calls)).await {
                Some(Ok(answer)) => return Ok(answer.into_inner()),
                Some(Err(status)) => self.connection.error(status),
                None => Error::Unreachable { address: self.at.addr.clone(), why: "it does not answer".to_owned() },
            };
            self.mend(error, end).await?;
        }
    }

    /// Waits until the server can be asked again; the error comes back if it is not one that passes, or if there is no
    /// time left.
    async fn mend(&mut self, mut error: Error, end: Option<Instant>) -> Result<(), Error> {
        if !error.may_pass() {
            return Err(error);
        }
        loop {
            if end.is_some_and(|end| Instant::now() + PAUSE > end) {
                return Err(error);
            }
            sleep(PAUSE).await;
            match Connection::open(&self.at).await {
                Ok(connection) => {
                    self.connection = connection;
                    return Ok(());
                }
                // It will not become a Tenure server by being asked again.
                Err(Exit::Client(foreign @ Error::Foreign { .. })) => return Err(foreign),
                // Whoever replaces a file may be in the middle of it.
                Err(Exit::NoInput { what, .. } | Exit::Usage { what, .. }) => {
                    error = Error::Unreachable { address: self.at.addr.clone(), why: what };
                }
                Err(_) => {}
            }
        }
    }
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + PATIENCE)
}

/// None if it is not done by then, and a moment for the answer to arrive.
async fn timeout_at<T>(end: Option<Instant>, done: impl Future<Output = T>) -> Option<T> {
    match end {
        Some(end) => tokio::time::timeout_at(end + LAST_WORD, done).await.ok(),
        None => Some(done.await),
    }
}

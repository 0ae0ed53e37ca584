//! The one service behind every front end: convert, call the engine, convert back.
//!
//! It knows nothing of gRPC or HTTP; they know nothing of the engine.

use std::sync::Arc;

use tenure_core::{Command, PAGE_MAX, Query, Reply, Seq, View};
use tenure_engine::{Calls, Engine};
use tenure_proto::v1;

use crate::convert::{self, Caller};
use crate::error::Error;

/// How often one history request looks for more; each look is bounded by the engine.
const HISTORY_LOOKS_MAX: usize = 32;

#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) engine: Arc<dyn Engine>,
}

impl Service {
    /// Waits for as long as the request says. If this future is dropped the queue is left.
    pub(crate) async fn acquire(&self, request: v1::AcquireRequest) -> Result<v1::Grant, Error> {
        let acquire = convert::acquire(request, &Caller::default())?;
        match self.engine.acquire(acquire)?.settle().await? {
            Reply::Granted(grant) => Ok(convert::grant(&grant)),
            Reply::Refused(refusal) => Err(refusal.into()),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn renew(&self, request: v1::RenewRequest) -> Result<v1::Renewed, Error> {
        match self.call(convert::renew(request, &Caller::default())?).await? {
            Reply::Renewed { token, deadline, ttl } => Ok(convert::renewed(token, ttl, deadline)),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn release(&self, request: v1::ReleaseRequest) -> Result<v1::Released, Error> {
        match self.call(convert::release(request, &Caller::default())?).await? {
            Reply::Released { token } => Ok(convert::released(token)),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn withdraw(&self, request: v1::WithdrawRequest) -> Result<v1::Withdrawn, Error> {
        match self.call(convert::withdraw(request, &Caller::default())?).await? {
            Reply::Withdrawn => Ok(v1::Withdrawn {}),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn force_release(&self, request: v1::ForceReleaseRequest) -> Result<v1::Released, Error> {
        match self.call(convert::force_release(request)?).await? {
            Reply::Released { token } => Ok(convert::released(token)),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn owner_gone(&self, request: v1::OwnerGoneRequest) -> Result<v1::OwnerGoneResponse, Error> {
        match self.call(convert::owner_gone(request)?).await? {
            Reply::OwnerGone { holds } => Ok(v1::OwnerGoneResponse { holds: holds as u64 }),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn open_session(&self, request: v1::OpenSessionRequest) -> Result<v1::SessionOpened, Error> {
        self.session(Command::OpenSession(convert::open_session(request, false)?)).await
    }

    pub(crate) async fn keep_alive(&self, request: v1::KeepAliveRequest) -> Result<v1::SessionOpened, Error> {
        self.session(convert::keep_alive(request)?).await
    }

    async fn session(&self, command: Command) -> Result<v1::SessionOpened, Error> {
        match self.call(command).await? {
            Reply::Session(open) => Ok(convert::session_opened(&open)),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn end_session(&self, request: v1::EndSessionRequest) -> Result<v1::SessionEnded, Error> {
        match self.call(convert::end_session(request)?).await? {
            Reply::Done => Ok(v1::SessionEnded {}),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn set_pool(&self, request: v1::SetPoolRequest) -> Result<v1::SetPoolResponse, Error> {
        match self.call(convert::set_pool(request)?).await? {
            Reply::PoolSet { created } => Ok(v1::SetPoolResponse { created }),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn set_condition(
        &self,
        request: v1::SetConditionRequest,
    ) -> Result<v1::SetConditionResponse, Error> {
        match self.call(convert::set_condition(request)?).await? {
            Reply::Done => Ok(v1::SetConditionResponse {}),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn remove_pool(&self, request: v1::RemovePoolRequest) -> Result<v1::RemovePoolResponse, Error> {
        match self.call(convert::remove_pool(&request)?).await? {
            Reply::PoolRemoved { holds_left } => Ok(v1::RemovePoolResponse { holds_left: holds_left as u64 }),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn list_pools(&self, request: v1::ListPoolsRequest) -> Result<v1::ListPoolsResponse, Error> {
        match self.query(convert::list_pools(request)?).await? {
            View::Pools(page) => Ok(convert::pools(&page)),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn get_pool(&self, request: v1::GetPoolRequest) -> Result<v1::PoolDetail, Error> {
        match self.query(convert::get_pool(request)?).await? {
            View::Pool(detail) => Ok(convert::pool_detail(&detail)),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn list_holds(&self, request: v1::ListHoldsRequest) -> Result<v1::ListHoldsResponse, Error> {
        match self.query(convert::list_holds(request)?).await? {
            View::Holds(page) => Ok(convert::holds(&page)),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn list_queue(&self, request: v1::ListQueueRequest) -> Result<v1::ListQueueResponse, Error> {
        match self.query(convert::list_queue(request)?).await? {
            View::Queue(page) => Ok(convert::queue(&page)),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn list_sessions(
        &self,
        request: v1::ListSessionsRequest,
    ) -> Result<v1::ListSessionsResponse, Error> {
        match self.query(convert::list_sessions(request)?).await? {
            View::Sessions(page) => Ok(convert::sessions(&page)),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn list_waits(&self, request: v1::ListWaitsRequest) -> Result<v1::ListWaitsResponse, Error> {
        match self.query(convert::list_waits(request)?).await? {
            View::Waits(page) => Ok(convert::waits(&page)),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn search(&self, request: v1::SearchRequest) -> Result<v1::SearchResponse, Error> {
        match self.query(convert::search(request)?).await? {
            View::Search(page) => Ok(convert::found(&page)),
            other => unexpected(&other),
        }
    }

    /// Looks until the page is full or the end is reached, or gives up for now and says where to go on.
    pub(crate) async fn history(&self, request: v1::HistoryRequest) -> Result<v1::HistoryResponse, Error> {
        let kind = convert::kind_wanted(&request)?;
        let mut query = convert::history(request)?;
        let wanted = query.limit;
        if kind.is_some() {
            // Those of other kinds come along.
            query.limit = PAGE_MAX;
        }
        let mut found = v1::HistoryResponse::default();
        for _ in 0..HISTORY_LOOKS_MAX {
            let page = self.engine.events(query.clone()).await??;
            query.after = page.reached.or(query.after);
            let mut events =
                page.items.iter().map(convert::event).filter(|event| kind.is_none_or(|it| event.kind == it));
            found.events.extend(events.by_ref().take(wanted - found.events.len()));
            // What is left out of this look is for the next page.
            let left_out = events.next().is_some();
            if left_out {
                query.after = found.events.last().map(|event| Seq(event.seq)).or(query.after);
            }
            found.done = page.done && !left_out;
            if found.done || found.events.len() == wanted {
                break;
            }
            if kind.is_none() {
                query.limit = wanted - found.events.len();
            }
        }
        found.next = query.after.map(|seq| seq.0);
        Ok(found)
    }

    pub(crate) async fn steal(&self, request: v1::StealRequest) -> Result<v1::Grant, Error> {
        match self.call(convert::steal(request)?).await? {
            Reply::Granted(grant) => Ok(convert::grant(&grant)),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn move_waiter(&self, request: v1::MoveWaiterRequest) -> Result<v1::MoveWaiterResponse, Error> {
        match self.call(convert::move_waiter(&request)?).await? {
            Reply::Done => Ok(v1::MoveWaiterResponse {}),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn reserve(&self, request: v1::ReserveRequest) -> Result<v1::ReserveResponse, Error> {
        match self.call(convert::reserve(request)?).await? {
            Reply::Done => Ok(v1::ReserveResponse {}),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn unreserve(&self, request: v1::UnreserveRequest) -> Result<v1::UnreserveResponse, Error> {
        match self.call(convert::unreserve(&request)?).await? {
            Reply::Done => Ok(v1::UnreserveResponse {}),
            other => unexpected(&other),
        }
    }

    pub(crate) async fn explain(&self, request: v1::ExplainRequest) -> Result<v1::ExplainResponse, Error> {
        match self.query(convert::explain(request)?).await? {
            View::Explained(explanation) => Ok(convert::explained(&explanation)),
            other => unexpected(&other),
        }
    }

    async fn call(&self, command: Command) -> Result<Reply, Error> {
        match self.engine.call(command).await? {
            Reply::Refused(refusal) => Err(refusal.into()),
            reply => Ok(reply),
        }
    }

    pub(crate) async fn query(&self, query: Query) -> Result<View, Error> {
        Ok(self.engine.query(query).await??)
    }
}

/// Every command has its own reply; another one is a bug in the engine.
fn unexpected<T>(reply: &dyn std::fmt::Debug) -> T {
    unreachable!("the engine answered something else than what was asked: {reply:?}")
}

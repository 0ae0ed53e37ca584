//! The gRPC front end: decode, call the service, encode.

mod direct;
mod stream;

pub(crate) use direct::{Direct, Services};

use std::pin::Pin;

use tenure_proto::v1;
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::error::Error;
use crate::service::Service;

pub(crate) struct Grpc {
    pub(crate) service: Service,
    /// Nothing more is going to be answered: streams end.
    pub(crate) closing: CancellationToken,
}

type Answered<T> = Result<Response<T>, Status>;

fn answer<T>(answer: Result<T, Error>) -> Answered<T> {
    answer.map(Response::new).map_err(Status::from)
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let (code, _) = error.statuses();
        tenure_proto::to_status(code, error.tell())
    }
}

#[tonic::async_trait]
impl v1::tenure_server::Tenure for Grpc {
    type SessionStream = stream::SessionStream;
    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::Watched, Status>> + Send>>;

    async fn acquire(&self, request: Request<v1::AcquireRequest>) -> Answered<v1::Grant> {
        answer(self.service.acquire(request.into_inner()).await)
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Answered<v1::Renewed> {
        answer(self.service.renew(request.into_inner()).await)
    }

    async fn release(&self, request: Request<v1::ReleaseRequest>) -> Answered<v1::Released> {
        answer(self.service.release(request.into_inner()).await)
    }

    async fn withdraw(&self, request: Request<v1::WithdrawRequest>) -> Answered<v1::Withdrawn> {
        answer(self.service.withdraw(request.into_inner()).await)
    }

    async fn list_holds(&self, request: Request<v1::ListHoldsRequest>) -> Answered<v1::ListHoldsResponse> {
        answer(self.service.list_holds(request.into_inner()).await)
    }

    async fn force_release(&self, request: Request<v1::ForceReleaseRequest>) -> Answered<v1::Released> {
        answer(self.service.force_release(request.into_inner()).await)
    }

    async fn owner_gone(&self, request: Request<v1::OwnerGoneRequest>) -> Answered<v1::OwnerGoneResponse> {
        answer(self.service.owner_gone(request.into_inner()).await)
    }

    async fn session(&self, request: Request<Streaming<v1::ClientMessage>>) -> Answered<Self::SessionStream> {
        let engine = self.service.engine.clone();
        let closing = self.closing.clone().cancelled_owned();
        Ok(Response::new(stream::SessionStream::new(engine, request.into_inner(), closing)))
    }

    async fn open_session(&self, request: Request<v1::OpenSessionRequest>) -> Answered<v1::SessionOpened> {
        answer(self.service.open_session(request.into_inner()).await)
    }

    async fn keep_alive(&self, request: Request<v1::KeepAliveRequest>) -> Answered<v1::SessionOpened> {
        answer(self.service.keep_alive(request.into_inner()).await)
    }

    async fn end_session(&self, request: Request<v1::EndSessionRequest>) -> Answered<v1::SessionEnded> {
        answer(self.service.end_session(request.into_inner()).await)
    }

    async fn list_sessions(&self, request: Request<v1::ListSessionsRequest>) -> Answered<v1::ListSessionsResponse> {
        answer(self.service.list_sessions(request.into_inner()).await)
    }

    async fn set_pool(&self, request: Request<v1::SetPoolRequest>) -> Answered<v1::SetPoolResponse> {
        answer(self.service.set_pool(request.into_inner()).await)
    }

    async fn set_condition(&self, request: Request<v1::SetConditionRequest>) -> Answered<v1::SetConditionResponse> {
        answer(self.service.set_condition(request.into_inner()).await)
    }

    async fn remove_pool(&self, request: Request<v1::RemovePoolRequest>) -> Answered<v1::RemovePoolResponse> {
        answer(self.service.remove_pool(request.into_inner()).await)
    }

    async fn list_pools(&self, request: Request<v1::ListPoolsRequest>) -> Answered<v1::ListPoolsResponse> {
        answer(self.service.list_pools(request.into_inner()).await)
    }

    async fn get_pool(&self, request: Request<v1::GetPoolRequest>) -> Answered<v1::PoolDetail> {
        answer(self.service.get_pool(request.into_inner()).await)
    }

    async fn list_queue(&self, request: Request<v1::ListQueueRequest>) -> Answered<v1::ListQueueResponse> {
        answer(self.service.list_queue(request.into_inner()).await)
    }

    async fn history(&self, request: Request<v1::HistoryRequest>) -> Answered<v1::HistoryResponse> {
        answer(self.service.history(request.into_inner()).await)
    }

    async fn steal(&self, request: Request<v1::StealRequest>) -> Answered<v1::Grant> {
        answer(self.service.steal(request.into_inner()).await)
    }

    async fn move_waiter(&self, request: Request<v1::MoveWaiterRequest>) -> Answered<v1::MoveWaiterResponse> {
        answer(self.service.move_waiter(request.into_inner()).await)
    }

    async fn reserve(&self, request: Request<v1::ReserveRequest>) -> Answered<v1::ReserveResponse> {
        answer(self.service.reserve(request.into_inner()).await)
    }

    async fn unreserve(&self, request: Request<v1::UnreserveRequest>) -> Answered<v1::UnreserveResponse> {
        answer(self.service.unreserve(request.into_inner()).await)
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Answered<v1::ExplainResponse> {
        answer(self.service.explain(request.into_inner()).await)
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Answered<Self::WatchStream> {
        let watching = self.service.watch(request.into_inner()).await?;
        Ok(Response::new(Box::pin(watching.map(|watched| watched.map_err(Status::from)))))
    }

    async fn list_waits(&self, request: Request<v1::ListWaitsRequest>) -> Answered<v1::ListWaitsResponse> {
        answer(self.service.list_waits(request.into_inner()).await)
    }

    async fn search(&self, request: Request<v1::SearchRequest>) -> Answered<v1::SearchResponse> {
        answer(self.service.search(request.into_inner()).await)
    }
}

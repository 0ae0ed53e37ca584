//! What all faces are: calls with the same messages. What only gRPC has: a stream that carries a session.

use tenure_proto::v1;
use tenure_server::Server;

pub(crate) type Called<T> = Result<T, Box<v1::Refusal>>;

/// A client of one face. A clone is another caller.
#[allow(async_fn_in_trait)] // Used on one thread.
pub(crate) trait Face: Clone + 'static {
    type Stream: Carrier;

    async fn connect(server: &Server) -> Self;

    /// A connection that carries a session; none if no connection can.
    async fn stream(&self) -> Option<Self::Stream>;

    async fn acquire(&self, request: v1::AcquireRequest) -> Called<v1::Grant>;
    async fn renew(&self, request: v1::RenewRequest) -> Called<v1::Renewed>;
    async fn release(&self, request: v1::ReleaseRequest) -> Called<v1::Released>;
    async fn withdraw(&self, request: v1::WithdrawRequest) -> Called<v1::Withdrawn>;
    async fn force_release(&self, request: v1::ForceReleaseRequest) -> Called<v1::Released>;
    async fn owner_gone(&self, request: v1::OwnerGoneRequest) -> Called<v1::OwnerGoneResponse>;
    async fn list_holds(&self, request: v1::ListHoldsRequest) -> Called<v1::ListHoldsResponse>;
    async fn open_session(&self, request: v1::OpenSessionRequest) -> Called<v1::SessionOpened>;
    async fn keep_alive(&self, request: v1::KeepAliveRequest) -> Called<v1::SessionOpened>;
    async fn end_session(&self, request: v1::EndSessionRequest) -> Called<v1::SessionEnded>;
    async fn list_sessions(&self, request: v1::ListSessionsRequest) -> Called<v1::ListSessionsResponse>;
    async fn set_pool(&self, request: v1::SetPoolRequest) -> Called<v1::SetPoolResponse>;
    async fn set_condition(&self, request: v1::SetConditionRequest) -> Called<v1::SetConditionResponse>;
    async fn remove_pool(&self, request: v1::RemovePoolRequest) -> Called<v1::RemovePoolResponse>;
    async fn list_pools(&self, request: v1::ListPoolsRequest) -> Called<v1::ListPoolsResponse>;
    async fn get_pool(&self, request: v1::GetPoolRequest) -> Called<v1::PoolDetail>;
    async fn list_queue(&self, request: v1::ListQueueRequest) -> Called<v1::ListQueueResponse>;
    async fn history(&self, request: v1::HistoryRequest) -> Called<v1::HistoryResponse>;
    async fn steal(&self, request: v1::StealRequest) -> Called<v1::Grant>;
    async fn move_waiter(&self, request: v1::MoveWaiterRequest) -> Called<v1::MoveWaiterResponse>;
    async fn reserve(&self, request: v1::ReserveRequest) -> Called<v1::ReserveResponse>;
    async fn unreserve(&self, request: v1::UnreserveRequest) -> Called<v1::UnreserveResponse>;
    async fn explain(&self, request: v1::ExplainRequest) -> Called<v1::ExplainResponse>;
}

/// The stream, as far as the stage needs it.
#[allow(async_fn_in_trait)] // Used on one thread.
pub(crate) trait Carrier {
    async fn send(&mut self, message: v1::ClientRequest);

    /// The next message; none once the stream has ended.
    async fn receive(&mut self) -> Option<v1::ServerAnswer>;
}

/// Of faces that have none: every call has its own connection.
pub(crate) enum NoStream {}

impl Carrier for NoStream {
    async fn send(&mut self, _message: v1::ClientRequest) {
        match *self {}
    }

    async fn receive(&mut self) -> Option<v1::ServerAnswer> {
        match *self {}
    }
}

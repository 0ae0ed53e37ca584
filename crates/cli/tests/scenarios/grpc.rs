//! The gRPC client of the scenarios: unary calls over one connection, and a connection of its own for every
//! stream, as different clients would have.

use std::collections::VecDeque;

use tenure_proto::v1::tenure_client::TenureClient;
use tenure_proto::{refusal_of, v1};
use tenure_server::Server;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};

use crate::face::{Called, Carrier, Face};

#[derive(Clone)]
pub(crate) struct Grpc {
    endpoint: Endpoint,
    client: TenureClient<Channel>,
}

fn called<T>(answer: Result<Response<T>, Status>) -> Called<T> {
    answer.map(Response::into_inner).map_err(|status| {
        // A call that the server did not survive carries no refusal.
        let lost = || v1::Refusal { code: "lost".into(), message: status.to_string(), ..v1::Refusal::default() };
        Box::new(refusal_of(&status).unwrap_or_else(lost))
    })
}

macro_rules! calls {
    ($($name:ident: $request:ident -> $response:ident,)*) => {
        $(async fn $name(&self, request: v1::$request) -> Called<v1::$response> {
            called(self.client.clone().$name(request).await)
        })*
    };
}

impl Face for Grpc {
    type Stream = GrpcStream;

    async fn connect(server: &Server) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", server.grpc_addr())).expect("an address");
        let channel = endpoint.connect().await.expect("the server listens");
        Self { endpoint, client: TenureClient::new(channel) }
    }

    async fn stream(&self) -> Option<GrpcStream> {
        let channel = self.endpoint.connect().await.expect("the server listens");
        let (requests, sent) = mpsc::unbounded_channel();
        let answers = TenureClient::new(channel).session(UnboundedReceiverStream::new(sent)).await;
        Some(GrpcStream {
            requests,
            answers: answers.expect("a stream can be opened").into_inner(),
            heard: VecDeque::new(),
        })
    }

    calls! {
        acquire: AcquireRequest -> Grant,
        renew: RenewRequest -> Renewed,
        release: ReleaseRequest -> Released,
        withdraw: WithdrawRequest -> Withdrawn,
        force_release: ForceReleaseRequest -> Released,
        owner_gone: OwnerGoneRequest -> OwnerGoneResponse,
        list_holds: ListHoldsRequest -> ListHoldsResponse,
        open_session: OpenSessionRequest -> SessionOpened,
        keep_alive: KeepAliveRequest -> SessionOpened,
        end_session: EndSessionRequest -> SessionEnded,
        list_sessions: ListSessionsRequest -> ListSessionsResponse,
        set_pool: SetPoolRequest -> SetPoolResponse,
        set_condition: SetConditionRequest -> SetConditionResponse,
        remove_pool: RemovePoolRequest -> RemovePoolResponse,
        list_pools: ListPoolsRequest -> ListPoolsResponse,
        get_pool: GetPoolRequest -> PoolDetail,
        list_queue: ListQueueRequest -> ListQueueResponse,
        history: HistoryRequest -> HistoryResponse,
        steal: StealRequest -> Grant,
        move_waiter: MoveWaiterRequest -> MoveWaiterResponse,
        reserve: ReserveRequest -> ReserveResponse,
        unreserve: UnreserveRequest -> UnreserveResponse,
        explain: ExplainRequest -> ExplainResponse,
    }
}

pub(crate) struct GrpcStream {
    requests: mpsc::UnboundedSender<v1::ClientMessage>,
    answers: Streaming<v1::ServerMessage>,
    heard: VecDeque<v1::ServerAnswer>,
}

impl Carrier for GrpcStream {
    async fn send(&mut self, message: v1::ClientRequest) {
        // A stream that has ended shows when it is read.
        let _ = self.requests.send(v1::ClientMessage { requests: vec![message] });
    }

    async fn receive(&mut self) -> Option<v1::ServerAnswer> {
        while self.heard.is_empty() {
            self.heard.extend(self.answers.message().await.ok().flatten()?.answers);
        }
        self.heard.pop_front()
    }
}

//! The gRPC service `ldlm.LDLM`: decode, translate, encode. What is wrong is told inside the answers, as LDLM does; a
//! status other than OK means that there was no answer.

use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Request as HttpRequest, Response as HttpResponse};
use tenure_engine::Failure;
use tenure_proto::ldlm::ldlm_server::{Ldlm as Service, LdlmServer};
use tenure_proto::ldlm::{LockRequest, LockResponse, RenewRequest, TryLockRequest, UnlockRequest, UnlockResponse};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Code, Request, Response, Status};
use tower::util::MapResponse;

use super::handover::Handover;
use super::{Ask, Caller, Connection, Ldlm, Patience, Trouble};
use crate::error::Error;
use crate::http2::{self, Message};

/// How long before its caller's deadline a wait is given up, at most: long enough for an answer to arrive. A lock that
/// is granted to a caller that has just stopped listening would be nobody's until the connection ends.
const ANSWER_AHEAD_MAX: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(crate) struct Grpc(pub(crate) Ldlm);

type Answered<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Service for Grpc {
    async fn lock(&self, request: Request<LockRequest>) -> Answered<LockResponse> {
        let (connection, listens) = (connection(&request), deadline(request.metadata().as_ref()));
        self.acquire(&connection, ask(request.into_inner(), listens), listens.is_some()).await
    }

    async fn try_lock(&self, request: Request<TryLockRequest>) -> Answered<LockResponse> {
        let (connection, listens) = (connection(&request), deadline(request.metadata().as_ref()));
        self.acquire(&connection, ask_once(request.into_inner()), listens.is_some()).await
    }

    async fn unlock(&self, request: Request<UnlockRequest>) -> Answered<UnlockResponse> {
        Ok(Response::new(self.0.unlock(request.into_inner()).await?))
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Answered<LockResponse> {
        Ok(Response::new(self.0.renew(request.into_inner()).await?))
    }

    async fn refresh_lock(&self, request: Request<RenewRequest>) -> Answered<LockResponse> {
        self.renew(request).await
    }
}

impl Grpc {
    async fn acquire(&self, connection: &Connection, ask: Ask, has_deadline: bool) -> Answered<LockResponse> {
        let (answer, granted) = self.0.lock(ask, &Caller::Connection(connection)).await?;
        let handover = granted.map(|granted| connection.hand_over(granted, &answer, has_deadline));
        let mut response = Response::new(answer);
        if let Some(handover) = handover {
            response.extensions_mut().insert(handover);
        }
        Ok(response)
    }
}

/// For a caller that has no deadline, and so says when it stops listening: the answers alone, without the layers of gRPC.
impl Grpc {
    pub(crate) async fn answer_lock(&self, connection: &Connection, request: LockRequest) -> Result<Message, Status> {
        self.hand_over(connection, ask(request, None)).await
    }

    pub(crate) async fn answer_try_lock(
        &self,
        connection: &Connection,
        request: TryLockRequest,
    ) -> Result<Message, Status> {
        self.hand_over(connection, ask_once(request)).await
    }

    pub(crate) async fn answer_unlock(&self, request: UnlockRequest) -> Result<Message, Status> {
        Ok(Message::of(&self.0.unlock(request).await?))
    }

    pub(crate) async fn answer_renew(&self, request: RenewRequest) -> Result<Message, Status> {
        Ok(Message::of(&self.0.renew(request).await?))
    }

    async fn hand_over(&self, connection: &Connection, ask: Ask) -> Result<Message, Status> {
        let (answer, granted) = self.0.lock(ask, &Caller::Connection(connection)).await?;
        let message = Message::of(&answer);
        Ok(match granted.map(|granted| connection.hand_over(granted, &answer, false)) {
            Some(handover) => message.and_then(|| handover.leaves()),
            None => message,
        })
    }
}

fn ask(request: LockRequest, listens: Option<Duration>) -> Ask {
    let LockRequest { name, wait_timeout_seconds, lock_timeout_seconds, size } = request;
    let wait = Patience::Wait { seconds: wait_timeout_seconds.unwrap_or(0), listens };
    Ask { name, wait, lock_timeout_seconds: lock_timeout_seconds.unwrap_or(0), size: size.unwrap_or(1) }
}

fn ask_once(request: TryLockRequest) -> Ask {
    let TryLockRequest { name, lock_timeout_seconds, size } = request;
    let (lock_timeout_seconds, size) = (lock_timeout_seconds.unwrap_or(0), size.unwrap_or(1));
    Ask { name, wait: Patience::Try, lock_timeout_seconds, size }
}

fn connection<T>(request: &Request<T>) -> Connection {
    let connection = request.extensions().get::<Connection>().expect("the listener gives every request its connection");
    connection.introduce(request.metadata().as_ref());
    connection.clone()
}

/// How long the caller listens for an answer, less the time that the answer takes to get there.
fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let listens = http2::deadline(headers)?;
    Some(listens - (listens / 10).min(ANSWER_AHEAD_MAX))
}

/// `UNAVAILABLE` is what LDLM's clients retry, and what a broken connection looks like to them.
impl From<Trouble> for Status {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Failed(Failure::Lost) => Self::unavailable(Failure::Lost.to_string()),
            Trouble::Failed(failure) => Error::Failed(failure).into(),
            Trouble::SessionOver => Self::unavailable("the connection's session is over"),
            Trouble::Deadline => Self::deadline_exceeded("context deadline exceeded"),
        }
    }
}

/// The service as the listener takes it: with grants that are taken back if they do not leave, and with the status that
/// LDLM has for a message that is too large.
#[derive(Clone)]
pub(crate) struct GrpcService(Served);

type Served = MapResponse<LdlmServer<Grpc>, fn(HttpResponse<Body>) -> HttpResponse<Body>>;

impl GrpcService {
    pub(crate) fn new(ldlm: Ldlm, message_bytes_max: usize) -> Self {
        let server = LdlmServer::new(Grpc(ldlm)).max_decoding_message_size(message_bytes_max);
        Self(MapResponse::new(server, finish))
    }
}

fn finish(mut response: HttpResponse<Body>) -> HttpResponse<Body> {
    if let Some(handover) = response.extensions_mut().remove::<Handover>() {
        return response.map(|answer| handover.carry(answer));
    }
    // Nothing else here is answered with `OUT_OF_RANGE`.
    let number = |code: Code| HeaderValue::from(i32::from(code));
    if let Some(status) = response.headers_mut().get_mut(Status::GRPC_STATUS)
        && *status == number(Code::OutOfRange)
    {
        *status = number(Code::ResourceExhausted);
    }
    response
}

impl NamedService for GrpcService {
    const NAME: &'static str = <LdlmServer<Grpc> as NamedService>::NAME;
}

impl tower::Service<HttpRequest<Body>> for GrpcService {
    type Response = HttpResponse<Body>;
    type Error = std::convert::Infallible;
    type Future = <Served as tower::Service<HttpRequest<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        tower::Service::<HttpRequest<Body>>::poll_ready(&mut self.0, cx)
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        self.0.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listens(text: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-timeout", text.parse().unwrap());
        deadline(&headers)
    }

    #[test]
    fn a_wait_is_given_up_a_little_before_its_caller_stops_listening() {
        assert_eq!(listens("2S"), Some(Duration::from_millis(1_900)));
        assert_eq!(listens("100m"), Some(Duration::from_millis(90)));
        assert_eq!(listens("500000u"), Some(Duration::from_millis(450)));
        assert_eq!(listens("99999999H").map(|it| it.as_secs() > 3_600), Some(true));
    }

    #[test]
    fn a_deadline_that_cannot_be_read_is_none() {
        for text in ["", "S", "2", "2x", "-1S", "2 S", "999999999999S"] {
            assert_eq!(listens(text), None, "{text}");
        }
        assert_eq!(deadline(&HeaderMap::new()), None);
    }
}

//! The calls of a connection, from their first word to their last: whom they are put to, and how far their answers have been sent.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hashbrown::HashMap;
use http_body_util::{BodyExt, Full};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Service, ServiceExt};

use super::PREFIX_BYTES;
use super::bells::{Bell, Bells};
use super::body::{self, Incoming, Said};
use super::fields::RequestHead;
use super::protocol::{Hear, Protocol};
use crate::version;

/// No more of an answer is asked for while so much is not yet written: whoever does not read is not to be answered at length.
const UNWRITTEN_BYTES_MAX: usize = 256 * 1024;
/// Bells that are kept for the next calls.
const BELLS_MAX: usize = 64;
/// How many more may be noted as stalled than there are calls, before it is looked who still is.
const STALLED_SPARE: usize = 64;
const NOT_GRPC: &str = "this port speaks gRPC; REST and the console are at the HTTP port\n";

/// Answers the calls that are made most at little cost: one message in, one out, and no layers in between.
pub(crate) trait Direct {
    type Call: Copy;

    /// Which call it is, if it is one of these.
    fn find(&self, head: &RequestHead) -> Option<Self::Call>;

    /// Puts it to whoever answers. What was said of it is one message.
    fn call(&self, call: Self::Call, message: &[u8]) -> Answering;
}

pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Message, Status>> + Send>>;

/// A message with its prefix, as it is sent.
pub(crate) struct Message {
    bytes: Vec<u8>,
    /// Called when all of the answer is where it is written from, and dropped if that does not come to be.
    leaves: Option<Box<dyn FnOnce() + Send>>,
}

impl Message {
    pub(crate) fn of(message: &impl prost::Message) -> Self {
        let bytes = message.encoded_len();
        let mut encoded = Vec::with_capacity(PREFIX_BYTES + bytes);
        encoded.push(0);
        encoded.extend(u32::try_from(bytes).expect("answers are not that long").to_be_bytes());
        message.encode(&mut encoded).expect("there is room for it");
        Self { bytes: encoded, leaves: None }
    }

    /// With what is to be done when it leaves.
    pub(crate) fn and_then(self, leaves: impl FnOnce() + Send + 'static) -> Self {
        Self { leaves: Some(Box::new(leaves)), ..self }
    }
}

pub(super) struct Calls<S, D: Direct> {
    service: S,
    direct: D,
    bells: Arc<Bells>,
    free: Vec<Bell>,
    calls: HashMap<u32, Call<D::Call>>,
    /// The heads that were last looked at, and what they ask for: most calls of a connection are of one or two kinds.
    found: [Option<Found<D::Call>>; 2],
    /// Those that have something to do.
    ready: Vec<u32>,
    /// Those that could go on if what is there were written, and those that the client would have to let say more.
    unwritten: Vec<u32>,
    stalled: Vec<u32>,
    released: Vec<(u32, u32)>,
}

type Found<C> = (Arc<RequestHead>, Option<C>);

struct Call<C> {
    stage: Stage<C>,
    said: Option<Said>,
    bell: Bell,
}

enum Stage<C> {
    /// It is one for `Direct`, if its message comes as one.
    Begun(C, Arc<RequestHead>),
    Direct(Answering),
    Called(Pin<Box<dyn Future<Output = Response<Body>> + Send>>),
    Answered(Answer),
}

struct Answer {
    body: Body,
    /// What is left of a part of it.
    data: Bytes,
    trailers: Option<HeaderMap>,
    leaves: Option<Box<dyn FnOnce() + Send>>,
}

impl<S, D> Calls<S, D>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send + 'static,
    D: Direct,
{
    pub(super) fn new(service: S, direct: D, bells: Arc<Bells>) -> Self {
        Self {
            service,
            direct,
            bells,
            free: Vec::new(),
            calls: HashMap::new(),
            found: [const { None }; 2],
            ready: Vec::new(),
            unwritten: Vec::new(),
            stalled: Vec::new(),
            released: Vec::new(),
        }
    }

    /// Looks after those that have something to do, as many as may still have their turn. Whether there was anything.
    pub(super) fn go_on(&mut self, protocol: &mut Protocol, turn: &mut usize) -> bool {
        self.bells.hear(&mut self.ready, &mut self.released);
        if protocol.out.len() < UNWRITTEN_BYTES_MAX {
            self.ready.append(&mut self.unwritten);
        }
        if (self.ready.is_empty() || *turn == 0) && self.released.is_empty() {
            return false;
        }
        let mut ready = std::mem::take(&mut self.ready);
        let count = ready.len().min(*turn);
        *turn -= count;
        for stream in ready.drain(..count) {
            self.look_after(stream, protocol);
        }
        // Behind those whose turn it was not, and in their memory.
        ready.append(&mut self.ready);
        self.ready = ready;
        self.released.drain(..).for_each(|(stream, bytes)| protocol.release(stream, bytes));
        true
    }

    /// Whether some could go on if this were called again.
    pub(super) fn has_more(&self, protocol: &Protocol) -> bool {
        !self.unwritten.is_empty() && protocol.out.len() < UNWRITTEN_BYTES_MAX
    }

    fn look_after(&mut self, stream: u32, protocol: &mut Protocol) {
        // It may have rung for a call that is over.
        let Some(call) = self.calls.get_mut(&stream) else { return };
        call.bell.is_heard();
        // A bug that shows in one call is no reason to end all others of the connection.
        let progress = catch_unwind(AssertUnwindSafe(|| call.go_on(stream, protocol))).unwrap_or_else(|_| {
            protocol.fail(stream);
            Progress::Over
        });
        match progress {
            Progress::Waits => {}
            Progress::Unwritten => self.unwritten.push(stream),
            Progress::Stalls => self.stall(stream),
            Progress::Over => self.forget(stream),
        }
    }

    fn stall(&mut self, stream: u32) {
        self.stalled.push(stream);
        // Some are over meanwhile, and some are there twice.
        if self.stalled.len() > STALLED_SPARE + 2 * self.calls.len() {
            self.stalled.retain(|stream| self.calls.contains_key(stream));
            self.stalled.sort_unstable();
            self.stalled.dedup();
        }
    }

    fn forget(&mut self, stream: u32) {
        if let Some(Call { bell, .. }) = self.calls.remove(&stream)
            && self.free.len() < BELLS_MAX
        {
            self.free.push(bell);
        }
    }

    /// Nobody is going to hear of any of them.
    pub(super) fn forget_all(&mut self) {
        self.calls.clear();
    }

    fn begin(&mut self, stream: u32, stage: Stage<D::Call>, said: Option<Said>) {
        let bell = self.free.pop().unwrap_or_else(|| Bell::new(&self.bells));
        bell.serve(stream);
        self.calls.insert(stream, Call { stage, said, bell });
    }

    /// Puts a call to the service that was begun for `Direct`, and is not what that expects.
    fn put_begun(&mut self, stream: u32) {
        if let Some(Call { stage: Stage::Begun(_, head), .. }) = self.calls.get(&stream) {
            let (stage, said) = self.put(stream, &head.clone());
            let call = self.calls.get_mut(&stream).expect("it was just there");
            (call.stage, call.said) = (stage, Some(said));
            self.ready.push(stream);
        }
    }

    fn find(&mut self, head: &Arc<RequestHead>) -> Option<D::Call> {
        if let Some((_, call)) = self.found.iter().flatten().find(|(found, _)| Arc::ptr_eq(found, head)) {
            return *call;
        }
        let call = self.direct.find(head);
        self.found.swap(0, 1);
        self.found[0] = Some((head.clone(), call));
        call
    }

    fn said(&self, stream: u32) -> Option<&Said> {
        self.calls.get(&stream)?.said.as_ref()
    }

    /// Puts it to the service, which hears what is said as it comes.
    fn put(&self, stream: u32, head: &RequestHead) -> (Stage<D::Call>, Said) {
        let (said, incoming) = body::channel(stream, &self.bells);
        if !is_grpc(&head.headers) {
            return (Stage::Called(Box::pin(not_grpc(incoming))), said);
        }
        let mut request = Request::new(Body::new(incoming));
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = head.uri.clone();
        *request.headers_mut() = head.headers.clone();
        let deadline = super::deadline(&head.headers);
        let answered = self.service.clone().oneshot(request);
        let answering = async move {
            let Some(deadline) = deadline else { return answered.await };
            let late = |_| Ok(version::sign(Status::cancelled("Timeout expired").into_http()));
            tokio::time::timeout(deadline, answered).await.unwrap_or_else(late)
        };
        let answering = async { answering.await.unwrap_or_else(|never: Infallible| match never {}) };
        (Stage::Called(Box::pin(answering)), said)
    }
}

/// The one message that these bytes are, unless they are something else.
fn only_message(data: &[u8]) -> Option<&[u8]> {
    let ([0, length @ ..], message) = data.split_first_chunk::<PREFIX_BYTES>()? else { return None };
    (u32::from_be_bytes(*length) as usize == message.len()).then_some(message)
}

impl<S, D> Hear for Calls<S, D>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send + 'static,
    D: Direct,
{
    fn request(&mut self, stream: u32, head: &Arc<RequestHead>, ends: bool) {
        if !ends && let Some(call) = self.find(head) {
            return self.begin(stream, Stage::Begun(call, head.clone()), None);
        }
        let (stage, said) = self.put(stream, head);
        if ends {
            said.end(None);
        }
        self.begin(stream, stage, Some(said));
        self.ready.push(stream);
    }

    fn data(&mut self, stream: u32, data: &[u8], ends: bool) -> usize {
        let Some(call) = self.calls.get_mut(&stream) else { return data.len() };
        if let Stage::Begun(which, _) = call.stage
            && ends
            && let Some(message) = only_message(data)
        {
            call.stage = Stage::Direct(self.direct.call(which, message));
            self.ready.push(stream);
            return data.len();
        }
        self.put_begun(stream);
        let Some(said) = self.said(stream) else { return data.len() };
        let unheard = said.data(data);
        if ends {
            said.end(None);
        }
        unheard
    }

    fn trailers(&mut self, stream: u32, trailers: HeaderMap) {
        self.put_begun(stream);
        if let Some(said) = self.said(stream) {
            said.end(Some(trailers));
        }
    }

    fn reset(&mut self, stream: u32) {
        self.forget(stream);
    }

    fn may_send(&mut self, stream: Option<u32>) {
        match stream {
            Some(stream) => self.ready.push(stream),
            // Whoever still may not goes on waiting.
            None => self.ready.append(&mut self.stalled),
        }
    }
}

enum Progress {
    /// Its bell is going to ring.
    Waits,
    /// There is much that is not yet written.
    Unwritten,
    /// The client has to let more be sent.
    Stalls,
    Over,
}

impl<C> Call<C> {
    fn go_on(&mut self, stream: u32, protocol: &mut Protocol) -> Progress {
        let cx = &mut Context::from_waker(self.bell.waker());
        loop {
            match &mut self.stage {
                // What it waits for is said by its client.
                Stage::Begun(..) => return Progress::Waits,
                Stage::Direct(answering) => match answering.as_mut().poll(cx) {
                    Poll::Pending => return Progress::Waits,
                    Poll::Ready(Ok(Message { bytes, leaves })) => {
                        if protocol.answer_at_once(stream, &bytes) {
                            leaves.into_iter().for_each(|leaves| leaves());
                            return Progress::Over;
                        }
                        protocol.answer(stream, &as_grpc(Response::new(())), false);
                        let mut trailers = HeaderMap::new();
                        trailers.insert(Status::GRPC_STATUS, HeaderValue::from(i32::from(Code::Ok)));
                        let (data, trailers) = (bytes.into(), Some(trailers));
                        self.stage = Stage::Answered(Answer { body: Body::empty(), data, trailers, leaves });
                    }
                    Poll::Ready(Err(status)) => {
                        protocol.answer(stream, &version::sign(status.into_http::<()>()), true);
                        return Progress::Over;
                    }
                },
                Stage::Called(answering) => match answering.as_mut().poll(cx) {
                    Poll::Pending => return Progress::Waits,
                    Poll::Ready(response) => {
                        let ends = response.body().is_end_stream();
                        protocol.answer(stream, &response, ends);
                        if ends {
                            return Progress::Over;
                        }
                        let (body, data) = (response.into_body(), Bytes::new());
                        self.stage = Stage::Answered(Answer { body, data, trailers: None, leaves: None });
                    }
                },
                Stage::Answered(answer) => return answer.go_on(stream, protocol, cx),
            }
        }
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|it| it.as_bytes().starts_with(b"application/grpc"))
}

/// Whoever asks for something else is told what is spoken here, when it has said all it wants to say: many clients do not listen before.
async fn not_grpc(mut said: Incoming) -> Response<Body> {
    while let Some(Ok(_)) = said.frame().await {}
    let mut response = Response::new(Body::new(Full::from(NOT_GRPC)));
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    version::sign(response)
}

fn as_grpc(mut response: Response<()>) -> Response<()> {
    let content_type = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    version::sign(response)
}

impl Answer {
    fn go_on(&mut self, stream: u32, protocol: &mut Protocol, cx: &mut Context<'_>) -> Progress {
        loop {
            if !protocol.send(stream, &mut self.data) {
                return Progress::Stalls;
            }
            if let Some(trailers) = &self.trailers {
                protocol.trailers(stream, trailers);
                self.leaves.take().into_iter().for_each(|leaves| leaves());
                return Progress::Over;
            }
            if protocol.out.len() >= UNWRITTEN_BYTES_MAX {
                return Progress::Unwritten;
            }
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return Progress::Waits,
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.data = data,
                    Err(frame) => self.trailers = frame.into_trailers().ok(),
                },
                Poll::Ready(Some(Err(error))) => {
                    tracing::debug!(%error, "an answer was broken off");
                    protocol.fail(stream);
                    return Progress::Over;
                }
                Poll::Ready(None) => {
                    protocol.end(stream);
                    return Progress::Over;
                }
            }
        }
    }
}

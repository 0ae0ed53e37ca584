//! A server on ports of its own, with an engine whose time is told.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tenure_core::{Event, Limits, State, Timestamp};
use tenure_engine::{Embedded, Engine, EventQuery, ManualClock, MemoryStore, Options, Recorded};
use tenure_proto::v1;
use tenure_proto::v1::tenure_client::TenureClient;
use tenure_server::{Config, Server};
use tokio::net::TcpStream;
use tonic::transport::Channel;

/// Longer than anything takes on a slow machine; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const START_MS: u64 = 1_000_000;

pub(crate) struct Fixture {
    pub(crate) server: Server,
    pub(crate) engine: Arc<Embedded>,
    pub(crate) clock: Arc<ManualClock>,
}

impl Fixture {
    pub(crate) async fn start() -> Self {
        Self::with(MemoryStore::new(), Options::default()).await
    }

    pub(crate) async fn start_with(config: Config) -> Self {
        Self::build(MemoryStore::new(), Options::default(), config).await
    }

    pub(crate) async fn with(store: MemoryStore, options: Options) -> Self {
        Self::build(store, options, Config::any_ports()).await
    }

    async fn build(store: MemoryStore, options: Options, config: Config) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START_MS)));
        let state = State::new(Limits::default().pool_idle);
        let engine = Arc::new(Embedded::start(state, store, clock.clone(), options));
        let server = Server::start(engine.clone(), config).await.unwrap();
        Self { server, engine, clock }
    }

    /// A connection of its own.
    pub(crate) async fn grpc(&self) -> TenureClient<Channel> {
        TenureClient::new(self.channel().await)
    }

    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Channel::from_shared(format!("http://{}", self.server.grpc_addr())).unwrap();
        endpoint.connect().await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.http(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.http(Method::POST, path, Some(body.to_string().into())).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.http(Method::PUT, path, Some(body.to_string().into())).await
    }

    /// One request on a connection of its own, with a JSON answer.
    pub(crate) async fn http(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> (StatusCode, Value) {
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let response = self.send(request.body(body.unwrap_or_default()).unwrap()).await;
        let (status, bytes) = (response.status(), response.into_body().collect().await.unwrap().to_bytes());
        let json = serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{error} in {bytes:?} of {path}"));
        (status, json)
    }

    pub(crate) async fn text(&self, path: &str) -> (StatusCode, String) {
        let response = self.send(Request::get(path).body(Vec::new()).unwrap()).await;
        let (status, bytes) = (response.status(), response.into_body().collect().await.unwrap().to_bytes());
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    pub(crate) async fn send(&self, request: Request<Vec<u8>>) -> Response<Incoming> {
        let (parts, body) = request.into_parts();
        let mut request = Request::from_parts(parts, Full::new(Bytes::from(body)));
        request.headers_mut().entry(HOST).or_insert(HeaderValue::from_static("localhost"));
        let socket = TcpStream::connect(self.server.http_addr()).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    /// Waits until an event has happened that is looked for, and gives it.
    pub(crate) async fn until(&self, wanted: impl Fn(&Event) -> bool) -> Recorded {
        self.until_times(1, wanted).await
    }

    /// The same for the nth such event.
    pub(crate) async fn until_times(&self, times: usize, wanted: impl Fn(&Event) -> bool) -> Recorded {
        let mut grown = self.engine.last_event();
        let search = async {
            loop {
                grown.borrow_and_update();
                let mut found = self.events().await.into_iter().filter(|recorded| wanted(&recorded.event));
                if let Some(found) = found.nth(times - 1) {
                    return found;
                }
                grown.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(PATIENCE, search).await {
            Ok(found) => found,
            Err(_) => panic!("it did not happen; what did: {:#?}", self.events().await),
        }
    }

    pub(crate) async fn events(&self) -> Vec<Recorded> {
        let mut query = EventQuery { limit: 1_000, ..EventQuery::default() };
        let mut events = Vec::new();
        loop {
            let page = self.engine.events(query.clone()).await.unwrap().unwrap();
            events.extend(page.items);
            if page.done {
                return events;
            }
            query.after = page.reached;
        }
    }

    pub(crate) async fn until_queued(&self, holder: &str) {
        self.until(|event| matches!(event, Event::Queued { waiter, .. } if waiter.holder.id.as_str() == holder)).await;
    }

    /// Still answers, on both ports.
    pub(crate) async fn assert_serves(&self) {
        let pools = v1::ListPoolsRequest::default();
        within(self.grpc().await.list_pools(pools)).await.unwrap();
        assert_eq!(within(self.get("/api/v1/pools")).await.0, StatusCode::OK);
    }
}

/// A test that hangs should say so.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it came in time")
}

/// For what nobody announces: looks again until it is so.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(mut look: impl FnMut() -> F) -> T {
    within(async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

pub(crate) fn acquire(pool: &str, holder: &str) -> v1::AcquireRequest {
    v1::AcquireRequest { pool: pool.into(), holder: holder.into(), ..v1::AcquireRequest::default() }
}

pub(crate) fn waiting(pool: &str, holder: &str) -> v1::AcquireRequest {
    v1::AcquireRequest { wait_forever: true, ..acquire(pool, holder) }
}

pub(crate) fn refusal(status: &tonic::Status) -> v1::Refusal {
    tenure_proto::refusal_of(status).unwrap_or_else(|| panic!("a refusal in {status:?}"))
}

impl Fixture {
    /// How many parts of the server hold on to the engine, watchers among them.
    pub(crate) fn engine_users(&self) -> usize {
        Arc::strong_count(&self.engine)
    }
}

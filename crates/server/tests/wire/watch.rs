//! Watching, over gRPC and as server-sent events.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tenure_engine::{MemoryStore, Options};
use tenure_proto::v1;
use tonic::Code;

use crate::fixture::{Fixture, acquire, refusal, within};

#[tokio::test]
async fn a_watcher_is_told_what_happens_from_now_on() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;
    client.acquire(acquire("before", "alice")).await.unwrap();
    let mut watched = client.watch(v1::WatchRequest::default()).await.unwrap().into_inner();
    client.acquire(acquire("db", "alice")).await.unwrap();
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let watched = within(watched.message()).await.unwrap().unwrap();
        let event = watched.event.unwrap();
        assert_eq!((watched.seq, event.pool.as_deref()), (event.seq, Some("db")));
        kinds.push(event.kind());
    }
    assert_eq!(kinds, [v1::EventKind::PoolSet, v1::EventKind::Granted]);
}

#[tokio::test]
async fn a_watch_is_taken_up_where_it_ended() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;
    for name in ["a", "b"] {
        client.acquire(acquire(name, "alice")).await.unwrap();
    }
    let request = v1::WatchRequest { after: Some(0), pool: Some("a".into()), ..Default::default() };
    let mut watched = client.watch(request.clone()).await.unwrap().into_inner();
    let first = within(watched.message()).await.unwrap().unwrap();
    drop(watched);
    let again = v1::WatchRequest { after: Some(first.seq), ..request };
    let mut watched = client.watch(again).await.unwrap().into_inner();
    let second = within(watched.message()).await.unwrap().unwrap();
    assert_eq!(second.event.unwrap().kind(), v1::EventKind::Granted);
    // Of other pools it hears nothing.
    client.acquire(acquire("c", "alice")).await.unwrap();
    client.remove_pool(v1::RemovePoolRequest { pool: "a".into(), ..Default::default() }).await.unwrap();
    let third = within(watched.message()).await.unwrap().unwrap();
    assert_eq!(third.event.unwrap().kind(), v1::EventKind::PoolRemoving);
}

#[tokio::test]
async fn a_watch_from_what_is_gone_or_not_yet_there_is_refused() {
    let fixture = Fixture::with(MemoryStore::with_events_max(8), Options::default()).await;
    let mut client = fixture.grpc().await;
    for n in 0..100 {
        client.acquire(acquire(&format!("p{n}"), "alice")).await.unwrap();
    }
    let status = client.watch(v1::WatchRequest { after: Some(1), ..Default::default() }).await.unwrap_err();
    let told = refusal(&status);
    assert_eq!((status.code(), told.code.as_str()), (Code::OutOfRange, "events_gone"));
    let oldest = told.oldest.expect("it says from where a watch is possible");
    let after = Some(oldest - 1);
    client.watch(v1::WatchRequest { after, ..Default::default() }).await.expect("from there it is");

    let (status, body) = fixture.get("/api/v1/watch?after=1").await;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::GONE, &json!("events_gone")));
    let (status, body) = fixture.get("/api/v1/history?after=1").await;
    assert_eq!((status, &body["error"]["oldest"]), (StatusCode::GONE, &json!(oldest)));

    let status = client.watch(v1::WatchRequest { after: Some(9_999), ..Default::default() }).await.unwrap_err();
    assert_eq!((status.code(), refusal(&status).field.as_deref()), (Code::InvalidArgument, Some("after")));
}

#[tokio::test]
async fn server_sent_events_are_numbered_and_taken_up_again() {
    let fixture = Fixture::start().await;
    fixture.post("/api/v1/acquire", json!({ "pool": "a", "holder": "alice" })).await;
    let mut events = Events::open(&fixture, Request::get("/api/v1/watch?after=0&holder=alice")).await;
    let (id, event) = events.next().await;
    assert_eq!((id.as_str(), &event["kind"], &event["pool"]), ("3", &json!("granted"), &json!("a")));

    // A browser repeats the address it began with, and says what it has seen.
    let again = Request::get("/api/v1/watch?after=0&holder=alice").header("last-event-id", &id);
    let mut events = Events::open(&fixture, again).await;
    fixture.post("/api/v1/acquire", json!({ "pool": "b", "holder": "alice" })).await;
    let (id, event) = events.next().await;
    assert_eq!((id.as_str(), &event["pool"]), ("5", &json!("b")));
}

#[tokio::test]
async fn a_slow_watcher_misses_nothing() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;
    let mut watched = client.watch(v1::WatchRequest::default()).await.unwrap().into_inner();
    for n in 0..2_000 {
        client.acquire(acquire(&format!("p{n}"), "alice")).await.unwrap();
    }
    let mut last = 1;
    for _ in 0..4_000 {
        let seq = within(watched.message()).await.unwrap().unwrap().seq;
        assert_eq!(seq, last + 1);
        last = seq;
    }
}

struct Events {
    response: Response<Incoming>,
    unread: String,
}

impl Events {
    async fn open(fixture: &Fixture, request: hyper::http::request::Builder) -> Self {
        let response = fixture.send(request.body(Vec::new()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, unread: String::new() }
    }

    async fn next(&mut self) -> (String, Value) {
        let end = loop {
            if let Some(end) = self.unread.find("\n\n") {
                break end;
            }
            let frame = within(self.response.frame()).await.unwrap().unwrap();
            self.unread.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        };
        let block: String = self.unread.drain(..end + 2).collect();
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
        (field("id: "), serde_json::from_str(&field("data: ")).unwrap())
    }
}

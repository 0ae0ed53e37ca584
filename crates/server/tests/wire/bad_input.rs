//! Input that cannot be used: a precise error, nothing changed, and the server goes on.

use http_body_util::BodyExt;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use prost::Message;
use serde_json::{Value, json};
use tenure_engine::Engine;
use tenure_proto::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use crate::fixture::{Fixture, acquire, refusal, within};
use crate::silent::{PING, PONG, PREFACE, SETTINGS, hear, say};

/// Whatever was tried, nothing of it happened.
async fn nothing_happened(fixture: &Fixture) {
    fixture.assert_serves().await;
    let events = fixture.events().await;
    assert!(events.iter().all(|recorded| matches!(recorded.event, tenure_core::Event::Restarted)), "{events:#?}");
}

#[tokio::test]
async fn every_field_of_an_acquire_is_checked_the_same_in_both_front_ends() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;
    let long = |bytes: usize| "x".repeat(bytes + 1);
    let many: Value = (0..17).map(|n| (n.to_string(), json!("v"))).collect::<serde_json::Map<_, _>>().into();
    // What is wrong, in which field, and a part of the message.
    let table = [
        (json!({ "pool": "" }), "pool", "is empty"),
        (json!({ "pool": long(512) }), "pool", "the most is 512"),
        (json!({ "pool": "a\nb" }), "pool", "control character at byte 1"),
        (json!({ "namespace": long(64) }), "namespace", "the most is 64"),
        (json!({ "holder": "" }), "holder", "is empty"),
        (json!({ "holder": long(512) }), "holder", "the most is 512"),
        (json!({ "meta": { "": "v" } }), "meta", "is empty"),
        (json!({ "meta": { "n": long(512) } }), "meta", "the most is 512"),
        (json!({ "meta": many }), "meta", "more than 16"),
        (json!({ "units": 0 }), "units", "between 1 and 2147483647"),
        (json!({ "units": 4_294_967_295_u32 }), "units", "between 1 and 2147483647"),
        (json!({ "units": 1, "all": true }), "units", "exclude each other"),
        (json!({ "size": 0 }), "size", "between 1 and 2147483647"),
        (json!({ "select": "a &&" }), "select", "at byte"),
        (json!({ "select": "" }), "select", "empty"),
        (json!({ "ttl_ms": 0 }), "ttl_ms", "the least is 1 ms"),
        (json!({ "ttl_ms": u64::MAX }), "ttl_ms", "366 days"),
        (json!({ "wait_ms": u64::MAX }), "wait_ms", "366 days"),
        (json!({ "wait_ms": 1, "wait_forever": true }), "wait_ms", "exclude each other"),
        (json!({ "priority": 1_001 }), "priority", "between -1000 and 1000"),
        (json!({ "priority": -1_001 }), "priority", "between -1000 and 1000"),
        (json!({ "lifetime": "window" }), "ttl_ms", "needs its length"),
        (json!({ "lifetime": "bound" }), "owner", "needs its owner"),
        (json!({ "lifetime": "kept", "ttl_ms": 1 }), "ttl_ms", "only a lease, a window"),
        (json!({ "lifetime": "session", "ttl_ms": 0 }), "ttl_ms", "the least is 1 ms"),
        (json!({ "lifetime": "leased", "owner": "w" }), "owner", "has no owner"),
        (json!({ "owner": long(2_048) }), "owner", "the most is 2048"),
        (json!({ "session_key": "guess" }), "session_key", "is not of the form"),
        (json!({ "request_id": "" }), "request_id", "is empty"),
        (json!({ "request_id": long(256) }), "request_id", "the most is 256"),
    ];
    for (wrong, field, part) in table {
        let mut body = json!({ "pool": "db", "holder": "alice" });
        body.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        let (status, answer) = fixture.post("/api/v1/acquire", body.clone()).await;
        let error = &answer["error"];
        assert_eq!((status, &error["code"]), (StatusCode::BAD_REQUEST, &json!("invalid_argument")), "{wrong}");
        assert_eq!(error["field"], field, "{wrong} gave {answer}");
        assert!(error["message"].as_str().unwrap().contains(part), "{wrong} gave {answer}");

        let request: v1::AcquireRequest = serde_json::from_value(body).unwrap();
        let status = client.acquire(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{wrong}");
        assert_eq!(json!(refusal(&status)), *error, "both front ends say the same of {wrong}");
    }
    nothing_happened(&fixture).await;
}

#[tokio::test]
async fn pools_and_conditions_are_checked() {
    let fixture = Fixture::start().await;
    let resource = |name: &str| json!({ "name": name });
    let table = [
        ("", json!({}), "units", "either units or resources"),
        ("", json!({ "units": 1, "resources": [resource("a")] }), "units", "exclude each other"),
        ("", json!({ "units": 3_000_000_000_u32 }), "units", "the most is"),
        ("", json!({ "units": 1, "placement": "random" }), "placement", "units are all alike"),
        ("", json!({ "resources": [resource("a"), resource("a")] }), "resources[1].name", "twice"),
        ("", json!({ "resources": [resource("")] }), "resources[0].name", "is empty"),
        ("", json!({ "resources": [{ "name": "a", "labels": { "": "" } }] }), "resources[0].labels", "is empty"),
        ("", json!({ "named": true, "placement": "spread" }), "spread_label", "a label is needed"),
        ("", json!({ "named": true, "spread_label": "zone" }), "spread_label", "only the placement"),
        ("", json!({ "units": 1, "window_ms": 0 }), "window_ms", "the least is 1 ms"),
        ("", json!({ "units": 1, "order": "sideways" }), "order", "unknown variant `sideways`"),
        ("", json!({ "resources": [{ "name": "a", "colour": "red" }] }), "resources[0].colour", "unknown field"),
        ("/condition", json!({ "state": "quarantined" }), "note", "says why"),
        ("/condition", json!({ "state": "in_service", "note": "n" }), "note", "has no note"),
        ("/condition", json!({ "state": "unspecified" }), "state", "unknown variant"),
    ];
    for (path, body, field, part) in table {
        let (status, answer) = fixture.put(&format!("/api/v1/pools/db{path}"), body.clone()).await;
        let error = &answer["error"];
        assert_eq!((status, &error["code"]), (StatusCode::BAD_REQUEST, &json!("invalid_argument")), "{body}");
        assert_eq!(error["field"], field, "{body} gave {answer}");
        assert!(error["message"].as_str().unwrap().contains(part), "{body} gave {answer}");
    }
    nothing_happened(&fixture).await;
}

#[tokio::test]
async fn a_body_that_is_no_request_is_refused_with_the_place() {
    let fixture = Fixture::start().await;
    let deep = format!("{{\"meta\": {}", "[".repeat(100_000));
    let table: [(&[u8], &str); 14] = [
        (b"", "EOF while parsing a value at line 1 column 0"),
        (b"{", "EOF while parsing an object at line 1 column 1"),
        (b"{\"pool\": \"db\", \"holder\": \"ali", "EOF while parsing a string"),
        (b"not json", "expected ident at line 1 column 2"),
        (b"[]", "must be a JSON object"),
        (b"null", "invalid type: null"),
        (b"{\"pool\": \"\xff\xfe\", \"holder\": \"alice\"}", "invalid unicode code point"),
        (b"{\"pool\": 7, \"holder\": \"alice\"}", "expected a string"),
        (b"{\"holder\": \"alice\"}", "missing field `pool`"),
        (b"{\"pool\": \"db\", \"pool\": \"db\", \"holder\": \"alice\"}", "duplicate field `pool`"),
        (b"{\"pool\": \"db\", \"holder\": \"alice\", \"ttl_ms\": -1}", "invalid value: integer `-1`, expected u64"),
        (b"{\"pool\": \"db\", \"holder\": \"alice\", \"units\": 4294967296}", "expected u32"),
        (b"{\"pool\": \"db\", \"holder\": \"alice\"} {}", "trailing characters"),
        (deep.as_bytes(), "invalid type: sequence, expected a map"),
    ];
    for (body, part) in table {
        let (status, answer) = fixture.http(Method::POST, "/api/v1/acquire", Some(body.to_vec())).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]);
        assert_eq!(status, StatusCode::BAD_REQUEST, "{shown}");
        assert_eq!(answer["error"]["code"], "invalid_argument", "{shown}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(part), "{shown} gave {answer}");
    }
    nothing_happened(&fixture).await;
}

#[tokio::test]
async fn parameters_are_checked() {
    let fixture = Fixture::start().await;
    let table = [
        ("/holds?limit=0", "limit", "between 1 and 1000"),
        ("/holds?limit=1001", "limit", "between 1 and 1000"),
        ("/holds?limit=-1", "limit", "invalid digit"),
        ("/holds?limit=99999999999", "limit", "too large"),
        ("/holds?limit=", "limit", "empty string"),
        ("/holds?after=x", "after", "not the `next`"),
        ("/holds?colour=red", "colour", "unknown field `colour`"),
        ("/pools/db?pool=other", "", "duplicate field `pool`"),
        ("/pools/db/queue?after=7", "after", "not the `next`"),
        ("/pools/db/queue?after=9999.1", "after", "not the `next`"),
        ("/history?newest_first=maybe", "newest_first", "`true` or `false`"),
        ("/history?since_ms=18446744073709551616", "since_ms", "too large"),
        ("/watch?after=-1", "after", "invalid digit"),
        ("/watch?after=99", "after", "has not happened yet"),
    ];
    for (path, field, part) in table {
        let (status, answer) = fixture.get(&format!("/api/v1{path}")).await;
        let error = &answer["error"];
        assert_eq!((status, &error["code"]), (StatusCode::BAD_REQUEST, &json!("invalid_argument")), "{path}");
        assert_eq!(error["field"].as_str().unwrap_or_default(), field, "{path} gave {answer}");
        assert!(error["message"].as_str().unwrap().contains(part), "{path} gave {answer}");
    }
    for path in ["/holds?pool=%ff", "/pools/%ff", "/pools/%ff%fe/queue"] {
        let (status, answer) = fixture.get(&format!("/api/v1{path}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path} gave {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("not UTF-8"), "{path} gave {answer}");
    }
    nothing_happened(&fixture).await;
}

#[tokio::test]
async fn a_page_whose_own_name_leads_here_is_not_let_in() {
    let fixture = Fixture::start().await;
    let as_host = async |host: &str, path: &str| {
        let request = Request::get(path).header(HOST, host).body(Vec::new()).unwrap();
        let response = fixture.send(request).await;
        (response.status(), response.into_body().collect().await.unwrap().to_bytes())
    };
    for path in ["/api/v1/pools", "/", "/metrics", "/session", "/nowhere"] {
        let (status, answer) = as_host("evil.example:3180", path).await;
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(
            (status, &answer["error"]["code"]),
            (StatusCode::MISDIRECTED_REQUEST, &json!("unknown_host")),
            "{path}"
        );
    }
    for host in ["localhost:1", "127.0.0.1", "[::1]:3180"] {
        assert_eq!(as_host(host, "/api/v1/pools").await.0, StatusCode::OK, "{host}");
    }
}

#[tokio::test]
async fn wrong_paths_methods_and_types_are_errors_in_json() {
    let fixture = Fixture::start().await;
    let (status, answer) = fixture.get("/api/v1/nowhere").await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::NOT_FOUND, &json!("unknown_path")));
    let (status, answer) = fixture.get("/api/v1/acquire").await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::METHOD_NOT_ALLOWED, &json!("method_not_allowed")));
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
        let request = Request::post("/api/v1/acquire")
            .header(CONTENT_TYPE, content_type)
            .body(br#"{"pool": "db", "holder": "alice"}"#.to_vec())
            .unwrap();
        assert_eq!(fixture.send(request).await.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{content_type}");
    }
    let large = vec![b' '; 4 * 1024 * 1024 + 1];
    let (status, answer) = fixture.http(Method::POST, "/api/v1/acquire", Some(large)).await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("body_too_large")));
    nothing_happened(&fixture).await;
}

/// `POST /` without saying what it is, and its end in another frame.
const NOT_GRPC: &[u8] = b"\0\0\x06\x01\x04\0\0\0\x01\x83\x86\x84\x41\x01x";
const NOT_GRPC_ENDS: &[u8] = b"\0\0\x02\0\x01\0\0\0\x01{}";
/// The first of its answer, of which nothing is to be said before the request has ended.
const HEADERS: &[u8] = b"\x01\x04\0\0\0\x01";

#[tokio::test]
async fn who_asks_the_grpc_port_for_something_else_is_told_what_is_spoken_there_when_all_is_said() {
    let fixture = Fixture::start().await;
    let mut line = TcpStream::connect(fixture.server.grpc_addr()).await.unwrap();
    say(&mut line, &[PREFACE, SETTINGS, NOT_GRPC, PING].concat()).await;
    let heard = hear(&mut line, PONG).await;
    assert!(!heard.windows(HEADERS.len()).any(|some| some == HEADERS), "{heard:?}");
    say(&mut line, NOT_GRPC_ENDS).await;
    hear(&mut line, b"this port speaks gRPC").await;
    nothing_happened(&fixture).await;
}

#[tokio::test]
async fn protobuf_that_cannot_be_read_is_refused() {
    let fixture = Fixture::start().await;
    let good = acquire("db", "alice").encode_to_vec();
    let mut not_utf8 = Vec::new();
    prost::encoding::bytes::encode(2, &b"\xff\xfe".to_vec(), &mut not_utf8);
    let framed = |message: &[u8]| {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[0], &length[..], message].concat()
    };
    let table: [(&str, Vec<u8>); 7] = [
        ("not UTF-8", framed(&not_utf8)),
        ("garbage", framed(&[0xff; 64])),
        ("half a message", framed(&good[..good.len() - 3])),
        ("half a frame", framed(&good)[..8].to_vec()),
        ("half a head", vec![0, 0, 0]),
        ("a length of 4 GiB", vec![0, 0xff, 0xff, 0xff, 0xff]),
        ("compressed though nobody said so", [&[1], &framed(&good)[1..]].concat()),
    ];
    for (what, bytes) in table {
        let code = raw_call(&fixture, "/tenure.v1.Tenure/Acquire", bytes).await;
        assert_ne!(code, Code::Ok, "{what}");
    }
    assert_eq!(raw_call(&fixture, "/tenure.v1.Tenure/NoSuchMethod", framed(&good)).await, Code::Unimplemented);
    assert_eq!(raw_call(&fixture, "/no.such.Service/Method", framed(&good)).await, Code::Unimplemented);
    nothing_happened(&fixture).await;
}

/// A gRPC request whose bytes nobody checked.
async fn raw_call(fixture: &Fixture, path: &str, bytes: Vec<u8>) -> Code {
    use http_body_util::{BodyExt, Full};
    let socket = TcpStream::connect(fixture.server.grpc_addr()).await.unwrap();
    let executor = hyper_util::rt::TokioExecutor::new();
    let io = hyper_util::rt::TokioIo::new(socket);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://localhost{path}"))
        .header(CONTENT_TYPE, "application/grpc")
        .header("te", "trailers")
        .body(Full::new(hyper::body::Bytes::from(bytes)))
        .unwrap();
    let response = within(sender.send_request(request)).await.unwrap();
    let status =
        |headers: &hyper::HeaderMap| headers.get("grpc-status").map(|value| Code::from_bytes(value.as_bytes()));
    if let Some(code) = status(response.headers()) {
        return code;
    }
    let body = within(response.into_body().collect()).await.unwrap();
    body.trailers().and_then(status).expect("a status")
}

#[tokio::test]
async fn unknown_numbers_of_enumerations_are_refused() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;
    let status = client.acquire(v1::AcquireRequest { lifetime: 99, ..acquire("db", "alice") }).await.unwrap_err();
    assert_eq!((status.code(), refusal(&status).field.as_deref()), (Code::InvalidArgument, Some("lifetime")));
    let set = |spec| v1::SetPoolRequest { pool: "db".into(), spec, ..Default::default() };
    let status = client.set_pool(set(None)).await.unwrap_err();
    assert_eq!(refusal(&status).field.as_deref(), Some("spec"));
    let spec = v1::PoolSpec { units: Some(1), order: -7, ..Default::default() };
    let status = client.set_pool(set(Some(spec))).await.unwrap_err();
    assert_eq!(refusal(&status).field.as_deref(), Some("order"));
    nothing_happened(&fixture).await;
}

#[tokio::test]
async fn a_message_larger_than_the_limit_is_refused() {
    let fixture = Fixture::start().await;
    let mut client = fixture.grpc().await;
    let request = acquire(&"x".repeat(5 * 1024 * 1024), "alice");
    assert_eq!(client.acquire(request).await.unwrap_err().code(), Code::OutOfRange);
    nothing_happened(&fixture).await;
}

#[tokio::test]
async fn garbage_on_either_port_is_cut_off() {
    let fixture = Fixture::start().await;
    let garbage: Vec<u8> = (0..4_096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let inputs: [Vec<u8>; 5] = [
        garbage.clone(),
        [&preface[..], &garbage].concat(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        vec![0; 1_024],
        [b"GET /".as_slice(), &vec![b'a'; 128 * 1024], b" HTTP/1.1\r\n\r\n"].concat(),
    ];
    for addr in [fixture.server.grpc_addr(), fixture.server.http_addr()] {
        for input in &inputs {
            let mut socket = TcpStream::connect(addr).await.unwrap();
            // It may be cut off while it is being sent.
            let _ = socket.write_all(input).await;
            let mut answer = Vec::new();
            let _ = within(socket.read_to_end(&mut answer)).await;
        }
    }
    nothing_happened(&fixture).await;
}

#[tokio::test]
async fn half_a_request_changes_nothing() {
    let fixture = Fixture::start().await;
    let body = br#"{"pool": "db", "holder": "alice"}"#;
    let head = format!(
        "POST /api/v1/acquire HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let whole = [head.as_bytes(), body].concat();
    for cut in [10, head.len() - 2, head.len(), whole.len() - 1] {
        let mut socket = TcpStream::connect(fixture.server.http_addr()).await.unwrap();
        socket.write_all(&whole[..cut]).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = within(socket.read_to_end(&mut answer)).await;
    }
    nothing_happened(&fixture).await;
    fixture.engine.stop().await;
}

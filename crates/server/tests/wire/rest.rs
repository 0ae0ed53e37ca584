//! REST calls.

use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use hyper::{Method, Request, StatusCode};
use serde_json::json;
use tenure_engine::{Engine, MemoryStore, Options};

use crate::fixture::{Fixture, START_MS};

#[tokio::test]
async fn a_hold_is_granted_renewed_and_released() {
    let fixture = Fixture::start().await;
    let (status, grant) =
        fixture.post("/api/v1/acquire", json!({ "pool": "db", "holder": "alice", "ttl_ms": 10_000 })).await;
    assert_eq!(status, StatusCode::OK);
    let key = grant["key"].as_str().unwrap();
    let expected = json!({
        "namespace": "default", "pool": "db", "token": 1, "key": key, "units": 1, "lifetime": "leased",
        "ttl_ms": 10_000, "since_ms": START_MS, "deadline_ms": START_MS + 10_000,
    });
    assert_eq!(grant, expected);

    let (status, renewed) = fixture.post("/api/v1/renew", json!({ "key": key, "ttl_ms": 20_000 })).await;
    assert_eq!((status, &renewed["deadline_ms"]), (StatusCode::OK, &json!(START_MS + 20_000)));
    let (status, released) = fixture.post("/api/v1/release", json!({ "key": key })).await;
    assert_eq!((status, released), (StatusCode::OK, json!({ "token": 1 })));
    let (status, refused) = fixture.post("/api/v1/release", json!({ "key": key })).await;
    assert_eq!((status, &refused["error"]["code"]), (StatusCode::CONFLICT, &json!("not_held")));
}

#[tokio::test]
async fn a_refusal_has_the_same_body_as_in_grpc() {
    let fixture = Fixture::start().await;
    fixture.post("/api/v1/acquire", json!({ "pool": "db", "holder": "alice" })).await;
    let (status, body) = fixture.post("/api/v1/acquire", json!({ "pool": "db", "holder": "bob" })).await;
    assert_eq!(status, StatusCode::CONFLICT);
    let told: tenure_proto::v1::Refusal = serde_json::from_value(body["error"].clone()).unwrap();
    let request = crate::fixture::acquire("db", "bob");
    let status = fixture.grpc().await.acquire(request).await.unwrap_err();
    assert_eq!(told, crate::fixture::refusal(&status));
}

#[tokio::test]
async fn namespaces_keep_things_apart() {
    let fixture = Fixture::start().await;
    for namespace in ["", "blue"] {
        let body = json!({ "pool": "db", "holder": "alice", "namespace": namespace });
        assert_eq!(fixture.post("/api/v1/acquire", body).await.0, StatusCode::OK);
    }
    let (_, blue) = fixture.get("/api/v1/holds?namespace=blue").await;
    assert_eq!(blue["holds"].as_array().unwrap().len(), 1);
    assert_eq!(blue["holds"][0]["namespace"], "blue");
    let (_, history) = fixture.get("/api/v1/history?namespace=blue").await;
    assert!(history["events"].as_array().unwrap().iter().all(|event| event["namespace"] == "blue"));
}

#[tokio::test]
async fn a_pool_with_any_name_is_found_at_its_path() {
    let fixture = Fixture::start().await;
    let (status, set) = fixture.put("/api/v1/pools/team%2Fdb%20%C3%BC?namespace=blue", json!({ "units": 3 })).await;
    assert_eq!((status, set), (StatusCode::OK, json!({ "created": true })));
    let (_, pools) = fixture.get("/api/v1/pools?namespace=blue&prefix=team/").await;
    assert_eq!(pools["pools"][0]["pool"], "team/db ü");
    let (status, detail) = fixture.get("/api/v1/pools/team%2Fdb%20%C3%BC?namespace=blue").await;
    assert_eq!((status, &detail["spec"]["units"]), (StatusCode::OK, &json!(3)));

    let condition = json!({ "state": "drained", "note": "moving house" });
    let (status, _) = fixture.put("/api/v1/pools/team%2Fdb%20%C3%BC/condition?namespace=blue", condition.clone()).await;
    assert_eq!(status, StatusCode::OK);
    let body = json!({ "pool": "team/db ü", "namespace": "blue", "holder": "alice" });
    let (status, refused) = fixture.post("/api/v1/acquire", body).await;
    assert_eq!((status, &refused["error"]["code"]), (StatusCode::CONFLICT, &json!("out_of_service")));
    assert_eq!(refused["error"]["condition"], condition);

    let (status, removed) = fixture.http(Method::DELETE, "/api/v1/pools/team%2Fdb%20%C3%BC?namespace=blue", None).await;
    assert_eq!((status, removed), (StatusCode::OK, json!({ "holds_left": 0 })));
    let (status, gone) = fixture.get("/api/v1/pools/team%2Fdb%20%C3%BC?namespace=blue").await;
    assert_eq!((status, &gone["error"]["code"]), (StatusCode::NOT_FOUND, &json!("unknown_pool")));
}

#[tokio::test]
async fn the_history_is_read_in_both_directions_and_in_pages() {
    let fixture = Fixture::start().await;
    for name in ["a", "b", "c"] {
        fixture.post("/api/v1/acquire", json!({ "pool": name, "holder": "alice" })).await;
    }
    let mut seen = Vec::new();
    let mut path = "/api/v1/history?newest_first=true&limit=2".to_owned();
    loop {
        let (_, page) = fixture.get(&path).await;
        seen.extend(page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()));
        if page["done"] == true {
            break;
        }
        path = format!("/api/v1/history?newest_first=true&limit=2&after={}", page["next"]);
    }
    // Before them the server started, which is nobody's event.
    assert_eq!(seen, [7, 6, 5, 4, 3, 2]);
    let (_, page) = fixture.get("/api/v1/history?pool=b").await;
    let kinds: Vec<_> = page["events"].as_array().unwrap().iter().map(|event| event["kind"].as_str()).collect();
    assert_eq!(kinds, [Some("pool_set"), Some("granted")]);
}

#[tokio::test]
async fn an_operator_takes_a_hold_only_from_who_has_it() {
    let fixture = Fixture::start().await;
    fixture.post("/api/v1/acquire", json!({ "pool": "db", "holder": "alice" })).await;
    let force = |token: u64| json!({ "pool": "db", "holder": "alice", "token": token, "reason": "host is down" });
    let (status, moved_on) = fixture.post("/api/v1/force-release", force(7)).await;
    assert_eq!((status, &moved_on["error"]["code"]), (StatusCode::CONFLICT, &json!("moved_on")));
    assert_eq!(moved_on["error"]["holders"][0]["token"], 1);
    assert_eq!(fixture.post("/api/v1/force-release", force(1)).await.0, StatusCode::OK);
    let (_, history) = fixture.get("/api/v1/history?newest_first=true&limit=1").await;
    let event = &history["events"][0];
    assert_eq!((&event["how"], &event["note"]), (&json!("forced"), &json!("host is down")));
}

#[tokio::test]
async fn no_secret_is_told_to_onlookers() {
    let fixture = Fixture::start().await;
    let (_, session) = fixture.post("/api/v1/sessions", json!({ "holder": "alice" })).await;
    let body = json!({
        "pool": "db", "holder": "alice", "session_key": session["session_key"], "request_id": "hard-to-guess",
    });
    let (_, grant) = fixture.post("/api/v1/acquire", body).await;
    fixture.post("/api/v1/withdraw", json!({ "request_id": "never-arrived" })).await;
    let secrets = [grant["key"].as_str().unwrap(), session["session_key"].as_str().unwrap(), "hard-", "never-"];
    for path in ["pools", "pools/db", "holds", "pools/db/queue", "sessions", "history"] {
        let (status, body) = fixture.get(&format!("/api/v1/{path}")).await;
        assert_eq!(status, StatusCode::OK);
        let body = body.to_string();
        assert!(secrets.iter().all(|secret| !body.contains(secret)), "{path} tells {body}");
    }
}

#[tokio::test]
async fn an_overloaded_server_says_when_to_come_back() {
    let options = Options { mailbox_max: 0, ..Options::default() };
    let fixture = Fixture::with(MemoryStore::new(), options).await;
    let request = Request::post("/api/v1/acquire")
        .header(CONTENT_TYPE, "application/json")
        .body(json!({ "pool": "db", "holder": "alice" }).to_string().into_bytes())
        .unwrap();
    let response = fixture.send(request).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()[RETRY_AFTER], "1");
    let status = fixture.grpc().await.acquire(crate::fixture::acquire("db", "alice")).await.unwrap_err();
    let refusal = crate::fixture::refusal(&status);
    assert_eq!((status.code(), refusal.code.as_str()), (tonic::Code::Unavailable, "overloaded"));
    assert!(refusal.retry && !refusal.may_have_happened);
    fixture.engine.stop().await;
}

#[tokio::test]
async fn the_query_of_a_post_is_refused_rather_than_ignored() {
    let fixture = Fixture::start().await;
    let body = json!({ "pool": "db", "holder": "alice" });
    let (status, refused) = fixture.post("/api/v1/acquire?namespace=team", body).await;
    assert_eq!((status, &refused["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("invalid_argument")));
    let (_, holds) = fixture.get("/api/v1/holds").await;
    assert_eq!(holds, json!({ "holds": [] }));
}

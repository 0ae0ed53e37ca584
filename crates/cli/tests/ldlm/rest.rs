//! LDLM's REST interface, as curl sees it.

use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::client::{busy, sized};
use crate::fixture::Fixture;

const NO_COOKIE: &str = r#"{"error": "session cookie not found. create a new session at /session"}"#;
const BAD_COOKIE: &str = r#"{"error": "session cookie invalid or expired. create a new session at /session"}"#;

#[tokio::test]
async fn a_session_is_a_cookie() {
    let fixture = Fixture::start().await;
    let before = SystemTime::now();
    let answer = fixture.http("POST", "/session?x=1", Some("whatever"), "{bad").await;
    let after = SystemTime::now();
    assert_eq!((answer.status, &*answer.content_type), (201, "application/json"));
    let json = answer.json();
    let id = json["session_id"].as_str().unwrap();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    let cookie = answer.cookie.unwrap();
    let expires = cookie.strip_prefix(&format!("ldlm-session={id}; Path=/; Expires=")).expect(&cookie);
    let expires = httpdate::parse_http_date(expires).unwrap();
    // Whole seconds.
    let (ten_minutes, second) = (Duration::from_secs(600), Duration::from_secs(1));
    assert!(before + ten_minutes - second <= expires && expires <= after + ten_minutes + second, "{cookie}");
    let sessions = fixture.sessions().await;
    assert!(sessions.len() == 1 && !sessions[0].attached, "{sessions:?}");
    assert!(sessions[0].holder.starts_with("ldlm 127.0.0.1:"), "{sessions:?}");
    assert_eq!(sessions[0].meta["via"], "ldlm rest");
}

#[tokio::test]
async fn whoever_has_no_session_is_told_to_make_one() {
    let fixture = Fixture::start().await;
    for (method, path) in [
        ("POST", "/v1/lock"),
        ("GET", "/v1/lock"),
        ("GET", "/session"),
        ("POST", "/session/"),
        ("PUT", "/v1/nothing"),
        ("GET", "/v1"),
    ] {
        let answer = fixture.http(method, path, None, "{}").await;
        assert_eq!((answer.status, &*answer.text, &answer.cookie), (401, NO_COOKIE, &None), "{method} {path}");
        assert!(answer.content_type.starts_with("text/plain"));
        for bad in ["", "x", "00000000000000000000000000000000"] {
            let answer = fixture.http(method, path, Some(bad), "{}").await;
            assert_eq!((answer.status, &*answer.text), (401, BAD_COOKIE), "{method} {path} {bad}");
        }
    }
}

#[tokio::test]
async fn a_lock_is_locked_unlocked_and_renewed() {
    let fixture = Fixture::start().await;
    let (alice, bob) = (fixture.rest_session().await, fixture.rest_session().await);
    let answer = fixture.http("POST", "/v1/lock", Some(&alice), r#"{"name":"a","lock_timeout_seconds":60}"#).await;
    assert!(answer.cookie.unwrap().starts_with(&format!("ldlm-session={alice}; Path=/; Expires=")));
    let key = serde_json::from_str::<serde_json::Value>(&answer.text).unwrap()["key"].as_str().unwrap().to_owned();
    assert_eq!(answer.text, format!(r#"{{"locked":true,"name":"a","key":"{key}"}}"#));

    let held = json!({ "locked": false, "name": "a", "key": "" });
    assert_eq!(fixture.post("/v1/lock", &bob, json!({ "name": "a" })).await, held);
    let renew = json!({ "name": "a", "key": key, "lockTimeoutSeconds": "90" });
    let renewed = json!({ "locked": true, "name": "a", "key": key });
    assert_eq!(fixture.post("/v1/renew", &bob, renew).await, renewed);
    let wrong = fixture.post("/v1/unlock", &bob, json!({ "name": "a", "key": "k" })).await;
    assert_eq!(wrong["error"], json!({ "code": "InvalidLockKey", "message": "invalid lock key" }));
    let unlocked = fixture.post("/v1/unlock", &bob, json!({ "name": "a", "key": key })).await;
    assert_eq!(unlocked, json!({ "unlocked": true, "name": "a" }));
}

#[tokio::test]
async fn what_is_wrong_is_told_inside_the_answer() {
    let fixture = Fixture::start().await;
    let alice = fixture.rest_session().await;
    fixture.rest_lock(&alice, "a").await;
    let cases = [
        ("/v1/lock", json!({ "name": "a", "size": 2 }), "LockSizeMismatch"),
        ("/v1/lock", json!({}), "Unknown"),
        ("/v1/lock", json!({ "name": "b", "size": 0 }), "InvalidLockSize"),
        ("/v1/lock", json!({ "name": "b", "lockTimeoutSeconds": -1 }), "Unknown"),
        ("/v1/renew", json!({ "name": "a", "key": "k" }), "Unknown"),
        ("/v1/renew", json!({ "name": "a", "key": "k", "lock_timeout_seconds": 5 }), "LockDoesNotExistOrInvalidKey"),
        ("/v1/unlock", json!({ "name": "b", "key": "k" }), "LockDoesNotExist"),
    ];
    for (path, body, code) in cases {
        let answer = fixture.post(path, &alice, body.clone()).await;
        assert_eq!(answer["error"]["code"], code, "{path} {body}: {answer}");
    }
    let nothing = fixture.http("POST", "/v1/lock", Some(&alice), "").await;
    let error =
        r#"{"locked":false,"name":"","key":"","error":{"code":"Unknown","message":"lock name cannot be empty"}}"#;
    assert_eq!((nothing.status, &*nothing.text), (200, error));
}

#[tokio::test]
async fn json_is_read_as_protobuf_has_it() {
    let fixture = Fixture::start().await;
    let alice = fixture.rest_session().await;
    let read = [
        r#"{"name":"NAME","lock_timeout_seconds":60}"#,
        r#"{"name":"NAME","lockTimeoutSeconds":"60"}"#,
        r#"{"name":"NAME","lockTimeoutSeconds":60.0,"size":null}"#,
        r#"{"name":"NAME","wait_timeout_seconds":5,"unknown":{"x":[1]}} and more"#,
    ];
    for (at, body) in read.into_iter().enumerate() {
        let body = body.replace("NAME", &at.to_string());
        let answer = fixture.http("POST", "/v1/lock?name=other", Some(&alice), &body).await;
        assert_eq!((answer.status, &answer.json()["locked"]), (200, &json!(true)), "{body}");
    }
    let unread = [
        "{bad",
        "[]",
        r#"{"name":5}"#,
        r#"{"name":"x","size":99999999999}"#,
        r#"{"name":"x","size":1.5}"#,
        r#"{"name":"x","name":"y"}"#,
        r#"{"name":"x","lock_timeout_seconds":60,"lockTimeoutSeconds":60}"#,
    ];
    for body in unread {
        let answer = fixture.http("POST", "/v1/lock", Some(&alice), body).await;
        let json = answer.json();
        assert_eq!((answer.status, &json["code"], &json["details"]), (400, &json!(3), &json!([])), "{body}");
        assert!(answer.cookie.is_some() && json["message"].as_str().is_some_and(|text| !text.is_empty()));
    }
}

#[tokio::test]
async fn other_methods_and_paths_are_told_as_a_gateway_does() {
    let fixture = Fixture::start().await;
    let alice = fixture.rest_session().await;
    for method in ["GET", "PUT", "DELETE"] {
        let answer = fixture.http(method, "/v1/lock", Some(&alice), "").await;
        let told = json!({ "code": 12, "message": "Method Not Allowed", "details": [] });
        assert_eq!((answer.status, answer.json()), (501, told), "{method}");
        assert!(answer.cookie.is_some(), "it keeps the session alive all the same");
    }
    for (method, path) in [("GET", "/session"), ("POST", "/v1/lock/"), ("POST", "/v1/nothing"), ("PUT", "/session/")] {
        let answer = fixture.http(method, path, Some(&alice), "{}").await;
        let told = json!({ "code": 5, "message": "Not Found", "details": [] });
        assert_eq!((answer.status, answer.json()), (404, told), "{method} {path}");
    }
}

#[tokio::test]
async fn a_session_that_is_deleted_gives_back_its_locks() {
    let fixture = Fixture::start().await;
    let (alice, grpc) = (fixture.rest_session().await, fixture.client().await);
    fixture.rest_lock(&alice, "a").await;
    assert!(!grpc.is_free("a").await);
    let answer = fixture.http("DELETE", "/session", Some(&alice), "").await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "session_id": "" })));
    assert_eq!(answer.cookie.unwrap(), "ldlm-session=; Path=/");
    assert!(grpc.is_free("a").await);

    for bad in [&*alice, "", "x"] {
        let again = fixture.http("DELETE", "/session", Some(bad), "").await;
        assert_eq!((again.status, &*again.text), (409, r#"{"error": "session not found"}"#));
        assert!(again.content_type.starts_with("text/plain"));
    }
    let without = fixture.http("DELETE", "/session", None, "").await;
    assert_eq!((without.status, &*without.text), (500, r#"{"error":"http: named cookie not present"}"#));
    assert_eq!(fixture.http("POST", "/v1/lock", Some(&alice), "{}").await.text, BAD_COOKIE);
}

#[tokio::test]
async fn an_idle_session_ends_and_any_request_keeps_it() {
    let fixture = Fixture::with(&["--rest-session-timeout", "4s"]).await;
    let (alice, idle, grpc) = (fixture.rest_session().await, fixture.rest_session().await, fixture.client().await);
    fixture.rest_lock(&alice, "a").await;
    fixture.rest_lock(&idle, "b").await;
    let mut requests = [("/v1/nothing", 404), ("/v1/lock", 501), ("/session", 404)].into_iter().cycle();
    let later = fixture.later(6);
    tokio::pin!(later);
    while tokio::time::timeout(Duration::from_millis(100), &mut later).await.is_err() {
        let (path, status) = requests.next().unwrap();
        assert_eq!(fixture.http("GET", path, Some(&alice), "").await.status, status);
    }
    assert!(grpc.is_free("b").await && !grpc.is_free("a").await);
    grpc.until_free("a").await;
    for cookie in [&alice, &idle] {
        let answer = fixture.http("POST", "/v1/lock", Some(cookie), "{}").await;
        assert_eq!((answer.status, &*answer.text), (401, BAD_COOKIE));
    }
}

#[tokio::test]
async fn locks_and_keys_are_the_same_over_rest_and_grpc() {
    let fixture = Fixture::start().await;
    let (alice, grpc) = (fixture.rest_session().await, fixture.client().await);
    let key = fixture.rest_lock(&alice, "a").await;
    assert_eq!(grpc.try_lock("a").await, busy("a"));
    grpc.unlocked("a", &key).await;
    let key = grpc.locked(sized("a", 1)).await;
    assert_eq!(fixture.post("/v1/lock", &alice, json!({ "name": "a" })).await["locked"], false);
    let unlocked = fixture.post("/v1/unlock", &alice, json!({ "name": "a", "key": key })).await;
    assert_eq!(unlocked["unlocked"], true);
    fixture.rest_lock(&alice, "a").await;
}

#[tokio::test]
async fn a_session_and_its_locks_survive_a_restart() {
    for gracefully in [true, false] {
        let fixture = Fixture::durable(&[]).await;
        let alice = fixture.rest_session().await;
        let key = fixture.rest_lock(&alice, "a").await;
        let fixture = if gracefully { fixture.restart().await } else { fixture.crash().await };
        assert!(!fixture.client().await.is_free("a").await);
        fixture.rest_lock(&alice, "b").await;
        let unlocked = fixture.post("/v1/unlock", &alice, json!({ "name": "a", "key": key })).await;
        assert_eq!(unlocked, json!({ "unlocked": true, "name": "a" }));
    }
}

#[tokio::test]
async fn a_session_that_is_not_used_after_a_restart_ends() {
    let fixture = Fixture::durable(&["--rest-session-timeout", "3s"]).await;
    let alice = fixture.rest_session().await;
    fixture.rest_lock(&alice, "a").await;
    let fixture = fixture.restart().await;
    fixture.client().await.until_free("a").await;
    assert_eq!(fixture.http("POST", "/v1/lock", Some(&alice), "{}").await.status, 401);
}

#[tokio::test]
async fn with_no_clear_on_disconnect_locks_outlive_their_session() {
    let fixture = Fixture::with(&["--no-clear-on-disconnect"]).await;
    let (alice, grpc) = (fixture.rest_session().await, fixture.client().await);
    let key = fixture.rest_lock(&alice, "a").await;
    assert_eq!(fixture.http("DELETE", "/session", Some(&alice), "").await.status, 200);
    assert!(!grpc.is_free("a").await);
    grpc.unlocked("a", &key).await;
}

#[tokio::test]
async fn a_body_that_is_too_large_exhausts_resources() {
    let fixture = Fixture::start().await;
    let alice = fixture.rest_session().await;
    let answer = fixture.http("POST", "/v1/lock", Some(&alice), &" ".repeat(5_000_000)).await;
    assert_eq!((answer.status, &answer.json()["code"]), (429, &json!(8)));
}

//! The OpenAPI document: true to its own form, and to what is served.

use std::collections::BTreeSet;

use hyper::{Method, StatusCode};
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::fixture::Fixture;

const METHODS: [Method; 5] = [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::PATCH];

struct Document(Value);

impl Document {
    async fn fetch(fixture: &Fixture) -> Self {
        let (status, document) = fixture.get("/api/v1/openapi.json").await;
        assert_eq!(status, StatusCode::OK);
        Self(document)
    }

    fn operations(&self) -> Vec<(String, Method, &Value)> {
        let paths = self.0["paths"].as_object().unwrap().iter();
        let operation = |(path, item): (&String, &'_ Value)| {
            let item = item.as_object().unwrap().clone();
            item.into_iter().map(|(method, _)| (path.clone(), method)).collect::<Vec<_>>()
        };
        paths
            .flat_map(operation)
            .map(|(path, method)| {
                let operation = &self.0["paths"][&path][&method];
                (path, method.to_uppercase().parse().unwrap(), operation)
            })
            .collect()
    }

    /// A validator for one of its schemas, with those it refers to.
    fn validator(&self, schema: &Value) -> Validator {
        let mut schema = schema.clone();
        schema["components"] = self.0["components"].clone();
        jsonschema::draft202012::new(&schema).unwrap()
    }

    fn check(&self, path: &str, method: &str, status: StatusCode, body: &Value) {
        let responses = &self.0["paths"][path][method]["responses"];
        let response = if status == StatusCode::OK { &responses["200"] } else { &responses["default"] };
        let validator = self.validator(&response["content"]["application/json"]["schema"]);
        let errors: Vec<_> = validator.iter_errors(body).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{method} {path} gave {body}, but {errors:?}");
    }

    fn check_request(&self, path: &str, method: &str, body: &Value) {
        let request = &self.0["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"];
        assert!(self.validator(request).is_valid(body), "{method} {path} does not take {body}");
    }
}

#[tokio::test]
async fn the_document_is_well_formed() {
    let fixture = Fixture::start().await;
    let document = Document::fetch(&fixture).await;
    assert_eq!(document.0["openapi"], "3.1.0");
    assert!(!document.0.to_string().contains(r#""enum":[]"#), "a choice of nothing");
    let mut ids = BTreeSet::new();
    for (path, method, operation) in document.operations() {
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{id} is there twice");
        assert!(operation["summary"].is_string());
        let described: BTreeSet<_> = operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        let named: BTreeSet<_> = path.split(['{', '}']).skip(1).step_by(2).collect();
        assert_eq!(described, named, "path parameters of {method} {path}");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            assert!(!parameter.to_string().contains("properties"), "a message cannot be a parameter: {parameter}");
        }
        let content = operation["responses"]["200"]["content"].as_object().unwrap();
        for (_, media) in content {
            document.validator(&media["schema"]);
        }
        if let Some(body) = operation.get("requestBody") {
            document.validator(&body["content"]["application/json"]["schema"]);
        }
    }
}

/// What the router says to a method it does not know at a path it knows, and the other way round, tells both.
#[tokio::test]
async fn every_route_in_the_document_is_served_and_no_other_method() {
    let fixture = Fixture::start().await;
    let document = Document::fetch(&fixture).await;
    let described: BTreeSet<_> =
        document.operations().into_iter().map(|(path, method, _)| (path, method.to_string())).collect();
    let paths: BTreeSet<_> = described.iter().map(|(path, _)| path.clone()).collect();
    for path in paths {
        for method in METHODS {
            // Nothing but an unusable request: it is refused by whoever serves it.
            let uri = format!("{}?no_such_parameter=1", path.replace("{pool}", "db"));
            let (status, body) = fixture.http(method.clone(), &uri, None).await;
            let served = described.contains(&(path.clone(), method.to_string()));
            let code = body["error"]["code"].as_str();
            assert_ne!(code, Some("unknown_path"), "{method} {path}");
            assert_eq!(status == StatusCode::METHOD_NOT_ALLOWED, !served, "{method} {path} gave {body}");
        }
    }
}

#[tokio::test]
async fn answers_are_as_the_document_says() {
    let fixture = Fixture::start().await;
    let document = Document::fetch(&fixture).await;
    let key = json!("00000000-0000-4000-8000-000000000000");
    let spec = json!({ "resources": [{ "name": "a", "labels": { "gpu": "" } }], "placement": "random" });
    let calls = [
        ("PUT", "/pools/{pool}", "/pools/gpus", Some(spec), StatusCode::OK),
        (
            "POST",
            "/sessions",
            "/sessions",
            Some(json!({ "holder": "alice", "meta": { "host": "a1" } })),
            StatusCode::OK,
        ),
        (
            "POST",
            "/acquire",
            "/acquire",
            Some(json!({ "pool": "gpus", "holder": "alice", "select": "gpu" })),
            StatusCode::OK,
        ),
        ("POST", "/acquire", "/acquire", Some(json!({ "pool": "gpus", "holder": "bob" })), StatusCode::CONFLICT),
        (
            "POST",
            "/acquire",
            "/acquire",
            Some(json!({ "pool": "db", "holder": "bob", "lifetime": "bound", "owner": "w" })),
            StatusCode::OK,
        ),
        ("POST", "/owner-gone", "/owner-gone", Some(json!({ "owner": "w" })), StatusCode::OK),
        ("POST", "/renew", "/renew", Some(json!({ "key": key })), StatusCode::CONFLICT),
        ("POST", "/release", "/release", Some(json!({ "key": key })), StatusCode::CONFLICT),
        ("POST", "/withdraw", "/withdraw", Some(json!({ "request_id": "r" })), StatusCode::OK),
        (
            "POST",
            "/sessions/keep-alive",
            "/sessions/keep-alive",
            Some(json!({ "session_key": key })),
            StatusCode::NOT_FOUND,
        ),
        ("POST", "/sessions/end", "/sessions/end", Some(json!({ "session_key": key })), StatusCode::NOT_FOUND),
        (
            "PUT",
            "/pools/{pool}/condition",
            "/pools/gpus/condition?resource=a",
            Some(json!({ "state": "quarantined", "note": "loud" })),
            StatusCode::OK,
        ),
        ("GET", "/pools", "/pools", None, StatusCode::OK),
        ("GET", "/pools/{pool}", "/pools/gpus", None, StatusCode::OK),
        ("GET", "/pools/{pool}", "/pools/nowhere", None, StatusCode::NOT_FOUND),
        ("GET", "/pools/{pool}/queue", "/pools/gpus/queue", None, StatusCode::OK),
        ("GET", "/holds", "/holds", None, StatusCode::OK),
        ("GET", "/sessions", "/sessions", None, StatusCode::OK),
        ("GET", "/waits", "/waits", None, StatusCode::OK),
        ("GET", "/search", "/search?text=a", None, StatusCode::OK),
        ("GET", "/search", "/search?text=", None, StatusCode::BAD_REQUEST),
        ("GET", "/history", "/history", None, StatusCode::OK),
        ("GET", "/history", "/history?limit=0", None, StatusCode::BAD_REQUEST),
        ("GET", "/pools/{pool}/explain", "/pools/gpus/explain", None, StatusCode::OK),
        (
            "POST",
            "/reserve",
            "/reserve",
            Some(json!({ "pool": "gpus", "resource": "a", "holder": "bob", "lasts_ms": 1000, "reason": "r" })),
            StatusCode::OK,
        ),
        (
            "POST",
            "/unreserve",
            "/unreserve",
            Some(json!({ "pool": "gpus", "resource": "a", "holder": "bob", "reason": "r" })),
            StatusCode::OK,
        ),
        (
            "POST",
            "/move-waiter",
            "/move-waiter",
            Some(json!({ "pool": "gpus", "waiter": 1, "holder": "bob", "reason": "r" })),
            StatusCode::CONFLICT,
        ),
        (
            "POST",
            "/steal",
            "/steal",
            Some(json!({ "pool": "gpus", "holder": "alice", "token": 1, "to": "bob", "reason": "r" })),
            StatusCode::OK,
        ),
        (
            "POST",
            "/force-release",
            "/force-release",
            Some(json!({ "pool": "gpus", "holder": "bob", "token": 3, "reason": "r" })),
            StatusCode::OK,
        ),
        ("DELETE", "/pools/{pool}", "/pools/gpus", None, StatusCode::OK),
    ];
    let mut checked = BTreeSet::new();
    for (method, path, uri, body, expected) in calls {
        let (path, uri) = (format!("/api/v1{path}"), format!("/api/v1{uri}"));
        let lower = method.to_lowercase();
        if let Some(body) = &body {
            document.check_request(&path, &lower, body);
        }
        let body = body.map(|body| body.to_string().into_bytes());
        let (status, answer) = fixture.http(method.parse().unwrap(), &uri, body).await;
        assert_eq!(status, expected, "{method} {uri} gave {answer}");
        document.check(&path, &lower, status, &answer);
        checked.insert((path, lower));
    }
    for (path, method, _) in document.operations() {
        let streams = path.ends_with("/watch");
        assert!(streams || checked.contains(&(path.clone(), method.as_str().to_lowercase())), "{method} {path}");
    }
}

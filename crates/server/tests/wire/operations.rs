//! What operators' tools see: health, reflection, metrics, the front page.

use hyper::{Request, StatusCode};
use serde_json::json;
use tenure_proto::v1;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tower::ServiceExt;

use crate::fixture::{Fixture, acquire, eventually, within};

#[tokio::test]
async fn health_says_no_before_the_server_stops() {
    let fixture = Fixture::start().await;
    let mut health = HealthClient::new(fixture.channel().await);
    let request = HealthCheckRequest { service: "tenure.v1.Tenure".into() };
    let mut watch = health.watch(request).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    assert_eq!(fixture.text("/healthz").await.0, StatusCode::OK);
    assert_eq!(fixture.text("/readyz").await.0, StatusCode::OK);
    let stopping = tokio::spawn(fixture.server.stop());
    assert_eq!(within(watch.message()).await.unwrap().unwrap().status(), ServingStatus::NotServing);
    within(stopping).await.unwrap();
    assert_eq!(watch.message().await.unwrap(), None, "a watcher does not hold up the stop");
}

#[tokio::test]
async fn a_server_whose_engine_is_gone_is_alive_but_not_ready() {
    let fixture = Fixture::start().await;
    tenure_engine::Engine::stop(&*fixture.engine).await;
    assert_eq!(fixture.text("/healthz").await.0, StatusCode::OK);
    assert_eq!(fixture.text("/readyz").await.0, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn reflection_knows_the_service() {
    let fixture = Fixture::start().await;
    let mut reflection = ServerReflectionClient::new(fixture.channel().await);
    let ask = |request| ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let requests = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("tenure.v1.AcquireRequest".into())),
    ];
    let mut answers = reflection.server_reflection_info(tokio_stream::iter(requests)).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(list)) = answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("a list of services")
    };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    assert!(names.contains(&"tenure.v1.Tenure") && names.contains(&"grpc.health.v1.Health"), "{names:?}");
    let found = answers.message().await.unwrap().unwrap().message_response;
    assert!(matches!(found, Some(MessageResponse::FileDescriptorResponse(_))), "{found:?}");
}

#[tokio::test]
async fn metrics_count_what_happened() {
    let fixture = Fixture::start().await;
    let (_, grant) = fixture.post("/api/v1/acquire", json!({ "pool": "db", "holder": "alice" })).await;
    let (status, _) = fixture.post("/api/v1/acquire", json!({ "pool": "db", "holder": "bob" })).await;
    assert_eq!(status, StatusCode::CONFLICT);
    fixture.post("/api/v1/release", json!({ "key": grant["key"] })).await;
    // All servers of this process share their counters.
    let text = eventually(async || {
        let (status, text) = fixture.text("/metrics").await;
        assert_eq!(status, StatusCode::OK);
        let counted = ["tenure_grants_total", "tenure_releases_total", "tenure_hold_seconds_count"];
        counted.iter().all(|name| value(&text, name) >= 1.0).then_some(text)
    })
    .await;
    assert!(value(&text, "tenure_refusals_total{code=\"busy\"}") >= 1.0);
    for name in ["tenure_holds", "tenure_waiters", "tenure_pools", "tenure_sessions", "tenure_expiries_total"] {
        assert!(text.lines().any(|line| line.starts_with(&format!("{name} "))), "{name} in {text}");
    }
}

fn value(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |number| number.parse().unwrap())
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let fixture = Fixture::start().await;
    let taken = fixture.server.http_addr();
    let config = tenure_server::Config { http: taken, ..tenure_server::Config::any_ports() };
    let error = tenure_server::Server::start(fixture.engine.clone(), config).await.unwrap_err();
    assert!(error.to_string().contains(&taken.to_string()), "{error}");
}

#[tokio::test]
async fn every_answer_says_which_server_gave_it() {
    let fixture = Fixture::start().await;
    let name = concat!("tenure/", env!("CARGO_PKG_VERSION"));
    let mut client = fixture.grpc().await;
    let granted = client.acquire(acquire("db", "alice")).await.unwrap();
    assert_eq!(granted.metadata().get("server").unwrap(), name);
    let refused = client.acquire(acquire("db", "bob")).await.unwrap_err();
    assert_eq!(refused.metadata().get("server").unwrap(), name);
    let watching = client.watch(v1::WatchRequest::default()).await.unwrap();
    assert_eq!(watching.metadata().get("server").unwrap(), name);

    for path in ["/tenure.v1.Tenure/NoSuchMethod", "/no.such.Service/Method"] {
        let request = Request::post(format!("http://localhost{path}")).header("content-type", "application/grpc");
        let request = request.body(tonic::body::Body::empty()).unwrap();
        let response = within(fixture.channel().await.oneshot(request)).await.unwrap();
        assert_eq!(response.headers()["grpc-status"], (Code::Unimplemented as i32).to_string(), "{path}");
        assert_eq!(response.headers()["server"], name, "{path}");
    }
    for path in ["/healthz", "/api/v1/pools", "/no/such/path"] {
        let response = fixture.send(Request::get(path).body(Vec::new()).unwrap()).await;
        assert_eq!(response.headers()["server"], name, "{path}");
    }
}

//! The HTTP front end: the REST API under `/api/v1`, and what operators look at.
//!
//! The routes of the API are a table, from which both the router and the OpenAPI document are made.

pub(crate) mod extract;
mod openapi;
mod operator;
mod routes;
mod sse;

use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use serde::Serialize;
use tenure_proto::v1;
use tokio_util::sync::CancellationToken;
use tower::util::MapResponseLayer;

use crate::console;
use crate::error::{Error, HttpError};
use crate::ldlm::{self, Ldlm};
use crate::service::Service;
use crate::version;

pub(crate) use extract::parse;

/// Where the API lives.
pub(crate) const BASE: &str = "/api/v1";

#[derive(Clone)]
pub(crate) struct App {
    pub(crate) service: Service,
    pub(crate) ldlm: Ldlm,
    /// The server has been asked to stop.
    pub(crate) stopping: CancellationToken,
}

pub(crate) fn router(app: App) -> Router {
    let table = routes::table();
    let document = openapi::document(&table);
    let mut router = Router::new().route(
        &format!("{BASE}/openapi.json"),
        get(move || {
            let document = document.clone();
            async move { axum::Json(document) }
        }),
    );
    for route in table {
        router = router.route(&format!("{BASE}{}", route.path), route.handler);
    }
    for path in ["/session", "/session/", "/session/{*rest}", "/v1", "/v1/", "/v1/{*rest}"] {
        router = router.route(path, any(ldlm::handle));
    }
    router
        .merge(console::routes())
        .route("/healthz", get(operator::healthz))
        .route("/readyz", get(operator::readyz))
        .route("/metrics", get(operator::metrics))
        .fallback(async || Error::Http(HttpError::UnknownPath))
        .method_not_allowed_fallback(async || Error::Http(HttpError::MethodNotAllowed))
        .layer(MapResponseLayer::new(version::sign))
        .with_state(app)
}

/// The body of every answer that is not a success.
#[derive(Serialize, schemars::JsonSchema)]
struct ErrorBody {
    error: v1::Refusal,
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (_, status) = self.statuses();
        let mut response = (status, axum::Json(ErrorBody { error: self.tell() })).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            // Long enough for a burst to pass or a restart to begin.
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

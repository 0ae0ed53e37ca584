//! What operators and their tools look at, outside the API.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tenure_core::Query;

use super::App;
use crate::error::Error;
use crate::metrics;

/// The process is up.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// The engine answers, and is going to.
pub(super) async fn readyz(State(app): State<App>) -> Response {
    let ready = !app.stopping.is_cancelled() && app.service.query(Query::Stats).await.is_ok();
    if ready { "ready\n".into_response() } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response() }
}

pub(super) async fn metrics(State(app): State<App>) -> Result<Response, Error> {
    let text = metrics::render(&app.service).await?;
    // The version of the text format, which scrapers ask for.
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

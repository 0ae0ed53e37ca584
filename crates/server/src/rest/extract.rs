//! Requests out of HTTP: from the path, the query and the JSON body, with errors that name the field.

use std::time::Duration;

use axum::RequestExt;
use axum::body::to_bytes;
use axum::extract::{RawPathParams, Request};
use axum::http::{Method, header};
use serde::Deserializer;
use serde::de::DeserializeOwned;

use crate::error::{Error, HttpError};

/// As large as a gRPC message may be.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A body that takes longer is not going to come.
const BODY_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A message whose fields are parameters of the path and the query.
pub(crate) async fn parameters<T: DeserializeOwned>(request: &mut Request) -> Result<T, Error> {
    let path = request.extract_parts::<RawPathParams>().await;
    let path = path.map_err(|_| Error::Invalid { field: None, message: "the path is not UTF-8".into() })?;
    let query = request.uri().query().unwrap_or_default();
    // The parser would put replacement characters there, and those make a valid name.
    percent_encoding::percent_decode_str(query)
        .decode_utf8()
        .map_err(|_| Error::Invalid { field: None, message: "the query is not UTF-8".into() })?;
    let mut all = form_urlencoded::Serializer::new(String::new());
    all.extend_pairs(form_urlencoded::parse(query.as_bytes())).extend_pairs(&path);
    let all = all.finish();
    parse(serde_urlencoded::Deserializer::new(form_urlencoded::parse(all.as_bytes())))
}

/// A message that is the body.
pub(crate) async fn body<T: DeserializeOwned>(request: Request) -> Result<T, Error> {
    // Somebody who asks for a namespace there would get a lock in another.
    if request.method() == Method::POST && request.uri().query().is_some_and(|query| !query.is_empty()) {
        let message = "the query of a POST is not read: everything stands in the body".into();
        return Err(Error::Invalid { field: None, message });
    }
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        return Err(Error::Http(HttpError::UnsupportedMediaType));
    }
    let read = to_bytes(request.into_body(), BODY_BYTES_MAX);
    let read = tokio::time::timeout(BODY_READ_TIMEOUT, read).await;
    let bytes = read.map_err(|_| Error::Http(HttpError::BodyTimeout))?.map_err(|error| {
        let too_large =
            std::error::Error::source(&error).is_some_and(|source| source.is::<http_body_util::LengthLimitError>());
        Error::Http(if too_large { HttpError::BodyTooLarge } else { HttpError::BodyTimeout })
    })?;
    // Otherwise a list of all fields in order would do, which nobody means.
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(Error::Invalid { field: None, message: "the body must be a JSON object, not a list".into() });
    }
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    let message = parse(&mut json)?;
    json.end().map_err(|error| Error::Invalid { field: None, message: error.to_string() })?;
    Ok(message)
}

pub(crate) fn parse<'de, T: DeserializeOwned>(deserializer: impl Deserializer<'de>) -> Result<T, Error> {
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let path = error.path().to_string();
        // An unknown or missing field has no path of its own, and neither has text that is no JSON at all.
        let field = (path != "." && path != "?").then_some(path);
        Error::Invalid { field, message: error.inner().to_string() }
    })
}

//! The console: the files of `console/`, which are part of the program, served with a policy under which a page can load
//! nothing from elsewhere and run nothing that is written into it.
//!
//! What the page shows it asks of the API like everybody else; nothing is made for it here.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::error::{Error, HttpError};

/// `require-trusted-types-for`: no text ever becomes markup, whatever a holder calls itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// For whoever asks with something else than a browser.
const PLAIN: &str = "\
This is Tenure: programs take turns on locks, permits, machines from a pool and places in rate windows.

/                      the console, in a browser
/api/v1/pools          pools; also holds, sessions, waits, history
/api/v1/openapi.json   the API as an OpenAPI document
/metrics               metrics
/healthz, /readyz      health, readiness
";

struct File {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
}

macro_rules! files {
    ($($name:literal $kind:ident),* $(,)?) => {
        &[$(File { name: $name, kind: $kind, text: include_str!(concat!("../../../console/", $name)) }),*]
    };
}

const FILES: &[File] = files![
    "index.html" HTML,
    "style.css" STYLE,
    "icon.svg" PICTURE,
    "app.js" SCRIPT,
    "actions.js" SCRIPT,
    "api.js" SCRIPT,
    "dom.js" SCRIPT,
    "events.js" SCRIPT,
    "explain.js" SCRIPT,
    "list.js" SCRIPT,
    "live.js" SCRIPT,
    "parts.js" SCRIPT,
    "plots.js" SCRIPT,
    "queue.js" SCRIPT,
    "time.js" SCRIPT,
    "why.js" SCRIPT,
    "views/history.js" SCRIPT,
    "views/holder.js" SCRIPT,
    "views/overview.js" SCRIPT,
    "views/pool.js" SCRIPT,
    "views/search.js" SCRIPT,
    "views/sessions.js" SCRIPT,
];

/// Of all files together, so that after an update a browser takes none of the old ones.
static TAG: LazyLock<HeaderValue> = LazyLock::new(|| {
    let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
    for file in FILES {
        digest.update(file.name.as_bytes());
        digest.update(file.text.as_bytes());
    }
    let text = BASE64_URL_SAFE_NO_PAD.encode(&digest.finish().as_ref()[..15]);
    HeaderValue::from_str(&format!("\"{text}\"")).expect("Base64 can stand in a header")
});

pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/", get(front)).route("/console/{*name}", get(file))
}

/// The console for a browser, a few words for everybody else.
async fn front(headers: HeaderMap) -> Response {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut response = match find("index.html") {
        Some(page) if accepts.contains("text/html") => serve(page, &headers),
        _ => ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], PLAIN).into_response(),
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

async fn file(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Error> {
    match find(&name) {
        Some(file) => Ok(serve(file, &headers)),
        None => Err(Error::Http(HttpError::UnknownPath)),
    }
}

fn find(name: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.name == name)
}

fn serve(file: &'static File, asked: &HeaderMap) -> Response {
    let known = asked.get(header::IF_NONE_MATCH).is_some_and(|tag| *tag == *TAG);
    let mut response =
        if known { StatusCode::NOT_MODIFIED.into_response() } else { Response::new(file.text.to_owned().into()) };
    let fixed = [
        (header::CONTENT_TYPE, file.kind),
        // Kept, but asked about each time: the next version has the same addresses.
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response.headers_mut().insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    response.headers_mut().insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response.headers_mut().insert(header::ETAG, TAG.clone());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_that_is_imported_is_served() {
        for file in FILES.iter().filter(|file| file.kind == SCRIPT) {
            for (_, rest) in
                file.text.split("from \"").skip(1).filter_map(|rest| rest.split_once('"').map(|it| (rest, it.0)))
            {
                let folder = file.name.rsplit_once('/').map_or("", |(folder, _)| folder);
                let name = match rest.strip_prefix("../") {
                    Some(above) => above.to_owned(),
                    None => format!("{folder}/{}", rest.trim_start_matches("./")).trim_start_matches('/').to_owned(),
                };
                assert!(find(&name).is_some(), "{} imports {rest}", file.name);
            }
        }
    }

    #[test]
    fn nothing_refers_to_another_host() {
        for file in FILES {
            // The names of XML's vocabularies are addresses that nobody asks.
            let text = file.text.replace("http://www.w3.org/", "");
            assert!(!text.contains("http:") && !text.contains("https:"), "{}", file.name);
        }
    }
}

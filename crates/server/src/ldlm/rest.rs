//! LDLM's REST interface: a session by cookie, and locks that end with it.
//!
//! The session is Tenure's, kept alive by every request that carries its cookie, so it is as durable as what it holds: a
//! cookie is still good after a restart of the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tenure_core::{Command, Holder, Key, Namespace, OpenSession, Reply, SessionOpen};
use tenure_engine::{Calls, Failure};
use tenure_proto::ldlm::{RenewRequest, UnlockRequest};
use tonic::Code;

use super::json::{Field, Fields, Locked, Unlocked};
use super::{Ask, Caller, Ldlm, Patience, Trouble};
use crate::rest::App;

const COOKIE: &str = "ldlm-session";
/// As large as a gRPC message may be.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A body that takes longer is not going to come.
const BODY_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Everything at and below `/session` and `/v1`.
pub(crate) async fn handle(
    State(app): State<App>,
    Extension(peer): Extension<Option<SocketAddr>>,
    request: Request,
) -> Response {
    let rest = Rest { ldlm: app.ldlm, peer };
    let path = request.uri().path();
    let answer = match (request.method(), path) {
        (&Method::POST, "/session") => rest.open(request.headers()).await,
        (&Method::DELETE, "/session") => rest.end(request.headers()).await,
        _ => rest.in_session(request).await,
    };
    answer.unwrap_or_else(IntoResponse::into_response)
}

struct Rest {
    ldlm: Ldlm,
    peer: Option<SocketAddr>,
}

/// What is not a message of LDLM's.
enum Error {
    /// By the front of its server, as text that looks like JSON.
    Told(StatusCode, &'static str),
    /// By the gateway behind it.
    Status(Code, String),
}

type Answer = Result<Response, Error>;

impl Rest {
    async fn open(&self, headers: &HeaderMap) -> Answer {
        let open = OpenSession {
            namespace: Namespace::default(),
            holder: Arc::new(self.holder(headers)),
            grace: self.ldlm.config.rest_session_timeout,
            attached: false,
            outlasts_holds: false,
        };
        match self.ldlm.engine.call(Command::OpenSession(open)).await? {
            Reply::Session(open) => {
                let body = format!("{{\"session_id\": \"{}\"}}", cookie_value(open.key));
                let mut response = json(StatusCode::CREATED, body.into());
                set_cookie(&mut response, &self.cookie(&open));
                Ok(response)
            }
            Reply::Refused(refusal) => Err(Error::Status(Code::ResourceExhausted, refusal.to_string())),
            other => unreachable!("an open is not answered with {other:?}"),
        }
    }

    async fn end(&self, headers: &HeaderMap) -> Answer {
        let Some(value) = cookie(headers) else {
            return Err(Error::Told(
                StatusCode::INTERNAL_SERVER_ERROR,
                r#"{"error":"http: named cookie not present"}"#,
            ));
        };
        let not_found = || Error::Told(StatusCode::CONFLICT, r#"{"error": "session not found"}"#);
        let session = session_key(value).ok_or_else(not_found)?;
        match self.ldlm.engine.call(Command::EndSession { namespace: Namespace::default(), session }).await? {
            Reply::Done => {
                let mut response = json(StatusCode::OK, r#"{"session_id": ""}"#.into());
                set_cookie(&mut response, &format!("{COOKIE}=; Path=/"));
                Ok(response)
            }
            _ => Err(not_found()),
        }
    }

    /// Keeps the session alive, whatever comes of the request.
    async fn in_session(&self, request: Request) -> Answer {
        let no_cookie = r#"{"error": "session cookie not found. create a new session at /session"}"#;
        let value = cookie(request.headers()).ok_or(Error::Told(StatusCode::UNAUTHORIZED, no_cookie))?;
        let session = session_key(value).ok_or_else(session_over)?;
        let kept = Command::KeepAlive { namespace: Namespace::default(), session };
        let open = match self.ldlm.engine.call(kept).await? {
            Reply::Session(open) => open,
            _ => return Err(session_over()),
        };
        let mut response = match self.route(request, &open).await {
            Ok(response) => response,
            Err(error) => error.into_response(),
        };
        set_cookie(&mut response, &self.cookie(&open));
        Ok(response)
    }

    async fn route(&self, request: Request, open: &SessionOpen) -> Answer {
        let path = request.uri().path().to_owned();
        if !matches!(&*path, "/v1/lock" | "/v1/unlock" | "/v1/renew") {
            return Err(Error::Status(Code::NotFound, "Not Found".to_owned()));
        }
        if request.method() != Method::POST {
            return Err(Error::Status(Code::Unimplemented, "Method Not Allowed".to_owned()));
        }
        let body = body(request).await?;
        let read = |fields: &[Field]| {
            Fields::parse(&body, fields).map_err(|error| Error::Status(Code::InvalidArgument, error.to_string()))
        };
        Ok(match &*path {
            "/v1/lock" => {
                let Fields { name, lock_timeout_seconds, size, .. } =
                    read(&[Field::Name, Field::LockTimeoutSeconds, Field::Size])?;
                let lock_timeout_seconds = lock_timeout_seconds.unwrap_or(0);
                let ask = Ask { name, wait: Patience::Try, lock_timeout_seconds, size: size.unwrap_or(1) };
                let caller = Caller::Rest { session: open.key, holder: open.holder.clone() };
                let (answer, _) = self.ldlm.lock(ask, &caller).await?;
                message(&Locked::from(answer))
            }
            "/v1/unlock" => {
                let Fields { name, key, .. } = read(&[Field::Name, Field::Key])?;
                message(&Unlocked::from(self.ldlm.unlock(UnlockRequest { name, key }).await?))
            }
            _ => {
                let Fields { name, key, lock_timeout_seconds, .. } =
                    read(&[Field::Name, Field::Key, Field::LockTimeoutSeconds])?;
                let lock_timeout_seconds = lock_timeout_seconds.unwrap_or(0);
                message(&Locked::from(self.ldlm.renew(RenewRequest { name, key, lock_timeout_seconds }).await?))
            }
        })
    }

    fn holder(&self, headers: &HeaderMap) -> Holder {
        let peer = self.peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
        let user_agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        super::holder("ldlm rest", &peer, user_agent)
    }

    fn cookie(&self, open: &SessionOpen) -> String {
        let expires = self.ldlm.engine.now() + open.grace;
        let expires = SystemTime::UNIX_EPOCH + Duration::from_millis(expires.as_millis());
        format!("{COOKIE}={}; Path=/; Expires={}", cookie_value(open.key), httpdate::fmt_http_date(expires))
    }
}

fn session_over() -> Error {
    let told = r#"{"error": "session cookie invalid or expired. create a new session at /session"}"#;
    Error::Told(StatusCode::UNAUTHORIZED, told)
}

async fn body(request: Request) -> Result<axum::body::Bytes, Error> {
    let read = tokio::time::timeout(BODY_READ_TIMEOUT, to_bytes(request.into_body(), BODY_BYTES_MAX)).await;
    let read = read.map_err(|_| Error::Status(Code::InvalidArgument, "the body did not come".to_owned()))?;
    read.map_err(|_| Error::Status(Code::ResourceExhausted, format!("the body has more than {BODY_BYTES_MAX} bytes")))
}

/// The key of the session, without what makes it a UUID to people.
fn cookie_value(key: Key) -> String {
    format!("{:032x}", key.as_bits())
}

fn session_key(value: &str) -> Option<Key> {
    let is_hex = value.len() == 32 && value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| u128::from_str_radix(value, 16).ok())?.map(Key::from_bits)
}

/// The first cookie of that name.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut cookies = lines.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.find_map(|(name, value)| (name == COOKIE).then(|| value.trim_matches('"')))
}

fn set_cookie(response: &mut Response, cookie: &str) {
    let value = HeaderValue::from_str(cookie).expect("hexadecimal digits and a date");
    response.headers_mut().insert(header::SET_COOKIE, value);
}

fn message(message: &impl Serialize) -> Response {
    json(StatusCode::OK, serde_json::to_vec(message).expect("text and booleans can be written").into())
}

fn json(status: StatusCode, body: Body) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::SessionOver => session_over(),
            other => {
                let status = tonic::Status::from(other);
                Self::Status(status.code(), status.message().to_owned())
            }
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Trouble::from(failure).into()
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Told {
            code: i32,
            message: String,
            details: [(); 0],
        }
        match self {
            Self::Told(status, text) => (status, text).into_response(),
            Self::Status(code, message) => {
                let status = match code {
                    Code::InvalidArgument => StatusCode::BAD_REQUEST,
                    Code::NotFound => StatusCode::NOT_FOUND,
                    Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
                    Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
                    Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                let told = Told { code: code.into(), message, details: [] };
                json(status, serde_json::to_vec(&told).expect("text and a number can be written").into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_known_by_its_cookie() {
        let key = Key::from_nonce(7);
        assert_eq!(session_key(&cookie_value(key)), Some(key));
        for bad in ["", "x", &"0".repeat(31), &"G".repeat(32), &"A".repeat(32), &"+".repeat(32), &"0".repeat(33)] {
            assert_eq!(session_key(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_first_cookie_of_the_name_counts() {
        let mut headers = HeaderMap::new();
        assert_eq!(cookie(&headers), None);
        headers.append(header::COOKIE, HeaderValue::from_static("a=b; xldlm-session=no"));
        headers.append(header::COOKIE, HeaderValue::from_static("ldlm-session=\"1\"; ldlm-session=2"));
        assert_eq!(cookie(&headers), Some("1"));
    }
}

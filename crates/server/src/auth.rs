//! Who may come in: one password for the whole server, asked for at both ports before anything else is looked at.
//!
//! Over gRPC it is the metadata `authorization`, as LDLM has it; over HTTP it is that of Basic, with any user.

use std::fmt;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::Either;
use subtle::ConstantTimeEq;
use tonic::Status;
use tower::{Layer, Service};

/// Probes and balancers have no password, and learn nothing but that there is a server.
const OPEN_PATHS: [&str; 2] = ["/healthz", "/readyz"];
/// Not its `Watch`, which goes on for as long as the caller likes.
const OPEN_METHOD: &str = "/grpc.health.v1.Health/Check";
const BEARER: &[u8] = b"Bearer ";
const BASIC: &[u8] = b"Basic ";
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"Restricted\"");

/// A secret that is as good as everything the server can do. It shows in no log.
#[derive(Clone)]
pub struct Password(Arc<[u8]>);

impl Password {
    /// Only what every client can send: a header of HTTP has no control characters, and neither begins nor ends with a
    /// blank.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "" => Err("it is empty"),
            _ if text.chars().any(char::is_control) => Err("it has control characters"),
            _ if text.trim() != text => Err("it begins or ends with a blank"),
            _ => Ok(Self(text.as_bytes().into())),
        }
    }

    /// The time it takes tells no more than whether the lengths are the same.
    fn is(&self, given: &[u8]) -> bool {
        self.0.ct_eq(given).into()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// At which port, and so how a password is given and how its lack is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Face {
    Grpc,
    Http,
}

/// Lets in whoever has the password; everybody, if there is none.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    password: Option<Password>,
    face: Face,
}

impl Door {
    pub(crate) fn new(password: Option<Password>, face: Face) -> Self {
        Self { password, face }
    }

    /// Says no, if that is the answer.
    pub(crate) fn refuse<R: Default>(&self, path: &str, headers: &HeaderMap) -> Option<Response<R>> {
        let password = self.password.as_ref()?;
        // The first one counts, as with LDLM.
        let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        match self.face {
            Face::Grpc if path == OPEN_METHOD => None,
            Face::Grpc => match given {
                None => Some(Status::unauthenticated("missing credentials").into_http()),
                Some(given) if password.is(given) || is_bearer(password, given) => None,
                Some(_) => Some(Status::unauthenticated("invalid credentials").into_http()),
            },
            Face::Http if OPEN_PATHS.contains(&path) => None,
            Face::Http => {
                let is_let_in = given.is_some_and(|given| is_basic(password, given) || is_bearer(password, given));
                (!is_let_in).then(challenge)
            }
        }
    }
}

fn is_bearer(password: &Password, given: &[u8]) -> bool {
    given.strip_prefix(BEARER).is_some_and(|given| password.is(given))
}

/// Whoever the user is; the password may have colons.
fn is_basic(password: &Password, given: &[u8]) -> bool {
    let Some(Ok(decoded)) = given.strip_prefix(BASIC).map(|given| BASE64_STANDARD.decode(given)) else { return false };
    let colon = decoded.iter().position(|byte| *byte == b':');
    colon.is_some_and(|colon| password.is(&decoded[colon + 1..]))
}

fn challenge<R: Default>() -> Response<R> {
    let mut response = Response::new(R::default());
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response.headers_mut().insert(WWW_AUTHENTICATE, CHALLENGE);
    response
}

impl<S> Layer<S> for Door {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { door: self.clone(), inner }
    }
}

/// A service behind the door.
#[derive(Clone, Debug)]
pub(crate) struct Guarded<S> {
    door: Door,
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Guarded<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<R>, S::Error>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.door.refuse(request.uri().path(), request.headers()) {
            Some(refusal) => Either::Left(ready(Ok(refusal))),
            None => Either::Right(self.inner.call(request)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(face: Face, path: &str, given: Option<&str>) -> Option<Response<()>> {
        let door = Door::new(Some(Password::parse("s3:cret").unwrap()), face);
        let headers = given.map(|given| (AUTHORIZATION, given.parse().unwrap()));
        door.refuse(path, &headers.into_iter().collect())
    }

    fn basic(text: &str) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(text))
    }

    #[test]
    fn grpc_takes_the_raw_password_or_a_bearer() {
        let told = |given: Option<&str>| {
            let refused = answer(Face::Grpc, "/tenure.v1.Tenure/Acquire", given)?;
            let message = refused.headers()["grpc-message"].to_str().unwrap();
            assert_eq!(refused.headers()["grpc-status"], "16");
            Some(message.replace("%20", " "))
        };
        assert_eq!(told(Some("s3:cret")), None);
        assert_eq!(told(Some("Bearer s3:cret")), None);
        assert_eq!(told(None).unwrap(), "missing credentials");
        for wrong in ["", "s3:cre", "s3:crets", "S3:CRET", &basic("s3:cret"), &basic("any:s3:cret"), "bearer s3:cret"] {
            assert_eq!(told(Some(wrong)).unwrap(), "invalid credentials", "{wrong}");
        }
    }

    #[test]
    fn http_takes_basic_with_any_user_or_a_bearer() {
        let refused = |given: Option<&str>| answer(Face::Http, "/api/v1/pools", given);
        for right in [&basic(":s3:cret"), &basic("any body:s3:cret"), "Bearer s3:cret"] {
            assert!(refused(Some(right)).is_none(), "{right}");
        }
        let (unpadded, lower_case) = (basic(":s3:cret"), basic(":s3:cret").replace("Basic", "basic"));
        let unpadded = unpadded.trim_end_matches('=');
        assert_ne!(unpadded, basic(":s3:cret"));
        for wrong in ["", "s3:cret", &basic("s3:cret"), &basic("any:s3"), unpadded, &lower_case, "Basic ?", "Bearer x"]
        {
            let told = refused(Some(wrong)).unwrap_or_else(|| panic!("{wrong} is let in"));
            assert_eq!(told.status(), StatusCode::UNAUTHORIZED);
            assert_eq!(told.headers()[WWW_AUTHENTICATE], "Basic realm=\"Restricted\"");
        }
        assert!(refused(None).is_some());
    }

    #[test]
    fn probes_need_no_password_and_all_else_does() {
        for open in ["/healthz", "/readyz"] {
            assert!(answer(Face::Http, open, None).is_none(), "{open}");
        }
        for closed in ["/", "/metrics", "/healthz/", "/session", "/api/v1/openapi.json", "/nowhere"] {
            assert!(answer(Face::Http, closed, None).is_some(), "{closed}");
        }
        assert!(answer(Face::Grpc, "/grpc.health.v1.Health/Check", None).is_none());
        for closed in
            ["/grpc.health.v1.Health/Watch", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/healthz"]
        {
            assert!(answer(Face::Grpc, closed, None).is_some(), "{closed}");
        }
    }

    #[test]
    fn without_a_password_everybody_is_let_in() {
        for face in [Face::Grpc, Face::Http] {
            assert!(Door::new(None, face).refuse::<()>("/metrics", &HeaderMap::new()).is_none());
        }
    }

    #[test]
    fn a_password_is_something_that_can_be_sent_and_is_not_shown() {
        for bad in ["", " x", "x\n", "a\tb", "x\u{7f}"] {
            assert!(Password::parse(bad).is_err(), "{bad:?}");
        }
        let good = Password::parse("Größe : 1").unwrap();
        assert!(!format!("{good:?}").contains('G'));
    }
}

#[cfg(test)]
mod fuzzing {
    use tenure_fuzz::fuzz;

    use super::*;

    const PASSWORD: &str = "s3:cret";

    fn is_let_in(door: &Door, given: &[u8]) -> Option<bool> {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_bytes(given).ok()?)]);
        Some(door.refuse::<()>("/", &headers).is_none())
    }

    fn basic(user: &[u8], password: &str) -> Vec<u8> {
        let text = [user, b":", password.as_bytes()].concat();
        [BASIC, BASE64_STANDARD.encode(text).as_bytes()].concat()
    }

    /// The first byte says at which port.
    #[test]
    fn any_header_but_the_password_in_one_of_its_forms_is_refused() {
        let password = || Some(Password::parse(PASSWORD).unwrap());
        let (grpc, http) = (Door::new(password(), Face::Grpc), Door::new(password(), Face::Http));
        let bearer = [BEARER, PASSWORD.as_bytes()].concat();
        let long = basic(&[b'x'; 300], PASSWORD);
        let forms = [PASSWORD.into(), bearer.clone(), basic(b"", PASSWORD), basic("größe".as_bytes(), PASSWORD), long];
        let samples: Vec<_> =
            forms.iter().flat_map(|form| [[b"g", &form[..]].concat(), [b"h", &form[..]].concat()]).collect();
        let words =
            ["Basic ", "Bearer ", "basic ", " ", "\t", ":", "=", "==", "+", "/", "-", "_", "czM6Y3JldA==", PASSWORD];
        fuzz("authorization", &samples, &words, |input| {
            let Some((port, given)) = input.split_first() else { return "empty".into() };
            let is_grpc = *port == b'g';
            let Some(is_let_in_so) = is_let_in(if is_grpc { &grpc } else { &http }, given) else {
                return "no header".into();
            };
            // Whoever is let in has said the password in a form that there is one of for each user.
            let user = || {
                BASE64_STANDARD
                    .decode(given.strip_prefix(BASIC)?)
                    .ok()?
                    .split(|byte| *byte == b':')
                    .next()
                    .map(<[u8]>::to_vec)
            };
            let is_right = match is_grpc {
                true => given == PASSWORD.as_bytes() || given == bearer,
                false => given == bearer || user().is_some_and(|user| given == basic(&user, PASSWORD)),
            };
            assert_eq!(is_let_in_so, is_right);
            // Any user with the password is somebody, and with any other is nobody.
            if !given.contains(&b':') {
                assert_eq!(is_let_in(&http, &basic(given, PASSWORD)), Some(true));
                assert_eq!(is_let_in(&http, &basic(given, "s3:cre")), Some(false));
            }
            format!("{is_grpc} {is_right} {}", user().is_some())
        });
    }
}

//! HTTP requests as anybody can make them, each on a connection of its own.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, SET_COOKIE, WWW_AUTHENTICATE};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::fixture::{Fixture, within};

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    /// The cookie that is set, with its attributes.
    pub(crate) cookie: Option<String>,
    pub(crate) www_authenticate: Option<String>,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl Fixture {
    pub(crate) async fn http(&self, method: &str, path: &str, cookie: Option<&str>, body: &str) -> Answer {
        self.http_as(None, method, path, cookie, body).await
    }

    /// With this for `authorization`.
    pub(crate) async fn http_as(
        &self,
        authorization: Option<&str>,
        method: &str,
        path: &str,
        cookie: Option<&str>,
        body: &str,
    ) -> Answer {
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
        request = request.header(HOST, "localhost");
        if let Some(cookie) = cookie {
            request = request.header(COOKIE, format!("other=1; ldlm-session={cookie}"));
        }
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let socket = TcpStream::connect(self.http_addr()).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.unwrap();
        tokio::spawn(connection);
        let response = within(sender.send_request(request)).await.unwrap();
        let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (content_type, cookie) = (header(CONTENT_TYPE).unwrap_or_default(), header(SET_COOKIE));
        let (status, www_authenticate) = (response.status().as_u16(), header(WWW_AUTHENTICATE));
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Answer { status, content_type, cookie, www_authenticate, text: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    /// The cookie of a new session.
    pub(crate) async fn rest_session(&self) -> String {
        self.http("POST", "/session", None, "").await.json()["session_id"].as_str().unwrap().to_owned()
    }

    /// A message and its answer, which is always 200.
    pub(crate) async fn post(&self, path: &str, cookie: &str, body: Value) -> Value {
        let answer = self.http("POST", path, Some(cookie), &body.to_string()).await;
        assert_eq!((answer.status, &*answer.content_type), (200, "application/json"), "{}", answer.text);
        answer.json()
    }

    pub(crate) async fn rest_lock(&self, cookie: &str, name: &str) -> String {
        let answer = self.post("/v1/lock", cookie, json!({ "name": name })).await;
        assert_eq!(answer["locked"], true, "{answer}");
        answer["key"].as_str().unwrap().to_owned()
    }
}

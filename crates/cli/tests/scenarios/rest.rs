//! The REST client of the scenarios: HTTP/1.1, one connection per call.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tenure_proto::v1;
use tenure_server::Server;
use tokio::net::TcpStream;

use crate::face::{Called, Face, NoStream};

#[derive(Clone)]
pub(crate) struct Rest {
    server: SocketAddr,
}

impl Rest {
    /// A call whose message is the body.
    async fn post<T: DeserializeOwned>(&self, path: &str, request: impl Serialize) -> Called<T> {
        let body = serde_json::to_vec(&request).expect("a message is JSON");
        self.call(Method::POST, path, Some(body)).await
    }

    /// A call whose message is in the path and the query, but for one field, which is the body.
    async fn at<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        request: impl Serialize,
        body: Option<&str>,
    ) -> Called<T> {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(&request) else { unreachable!("a message is JSON") };
        let body = body.map(|field| fields.remove(field).unwrap_or_default().to_string().into_bytes());
        let path = with_parameters(path, fields);
        self.call(method, &path, body).await
    }

    async fn call<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Called<T> {
        let (status, body) = match self.exchange(method, path, body).await {
            Ok(answer) => answer,
            Err(error) => {
                let (code, message) = ("lost".into(), error.to_string());
                return Err(Box::new(v1::Refusal { code, message, ..v1::Refusal::default() }));
            }
        };
        if status.is_success() {
            return Ok(serde_json::from_slice(&body).expect("an answer is what the document says"));
        }
        let mut body: Value = serde_json::from_slice(&body).expect("an error is JSON");
        Err(Box::new(serde_json::from_value(body["error"].take()).expect("an error has a refusal")))
    }

    /// Connection and request are one future: dropping it closes the socket, which is how a caller hangs up.
    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<(hyper::StatusCode, Bytes), Box<dyn std::error::Error>> {
        let socket = TcpStream::connect(self.server).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
        let mut request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        request = request.header(header::HOST, self.server.to_string());
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())))?;
        let answered = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            Ok((status, response.into_body().collect().await?.to_bytes()))
        };
        let mut connection = std::pin::pin!(connection);
        let mut answered = std::pin::pin!(answered);
        tokio::select! {
            answer = &mut answered => answer,
            // It may end first with everything said.
            _ = &mut connection => answered.await,
        }
    }
}

/// Names in braces come from the fields; the others go into the query.
fn with_parameters(path: &str, mut fields: Map<String, Value>) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut filled = String::new();
    for part in path.split('/').skip(1) {
        filled.push('/');
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) => {
                let value = fields.remove(name).expect("the message has what the path needs");
                filled.extend(utf8_percent_encode(&text(&value), NON_ALPHANUMERIC));
            }
            None => filled.push_str(part),
        }
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in &fields {
        query.append_pair(name, &text(value));
    }
    format!("{filled}?{}", query.finish())
}

impl Face for Rest {
    type Stream = NoStream;

    async fn connect(server: &Server) -> Self {
        Self { server: server.http_addr() }
    }

    async fn stream(&self) -> Option<NoStream> {
        None
    }

    async fn acquire(&self, request: v1::AcquireRequest) -> Called<v1::Grant> {
        self.post("/acquire", request).await
    }

    async fn renew(&self, request: v1::RenewRequest) -> Called<v1::Renewed> {
        self.post("/renew", request).await
    }

    async fn release(&self, request: v1::ReleaseRequest) -> Called<v1::Released> {
        self.post("/release", request).await
    }

    async fn withdraw(&self, request: v1::WithdrawRequest) -> Called<v1::Withdrawn> {
        self.post("/withdraw", request).await
    }

    async fn force_release(&self, request: v1::ForceReleaseRequest) -> Called<v1::Released> {
        self.post("/force-release", request).await
    }

    async fn owner_gone(&self, request: v1::OwnerGoneRequest) -> Called<v1::OwnerGoneResponse> {
        self.post("/owner-gone", request).await
    }

    async fn list_holds(&self, request: v1::ListHoldsRequest) -> Called<v1::ListHoldsResponse> {
        self.at(Method::GET, "/holds", request, None).await
    }

    async fn open_session(&self, request: v1::OpenSessionRequest) -> Called<v1::SessionOpened> {
        self.post("/sessions", request).await
    }

    async fn keep_alive(&self, request: v1::KeepAliveRequest) -> Called<v1::SessionOpened> {
        self.post("/sessions/keep-alive", request).await
    }

    async fn end_session(&self, request: v1::EndSessionRequest) -> Called<v1::SessionEnded> {
        self.post("/sessions/end", request).await
    }

    async fn list_sessions(&self, request: v1::ListSessionsRequest) -> Called<v1::ListSessionsResponse> {
        self.at(Method::GET, "/sessions", request, None).await
    }

    async fn set_pool(&self, request: v1::SetPoolRequest) -> Called<v1::SetPoolResponse> {
        self.at(Method::PUT, "/pools/{pool}", request, Some("spec")).await
    }

    async fn set_condition(&self, request: v1::SetConditionRequest) -> Called<v1::SetConditionResponse> {
        self.at(Method::PUT, "/pools/{pool}/condition", request, Some("condition")).await
    }

    async fn remove_pool(&self, request: v1::RemovePoolRequest) -> Called<v1::RemovePoolResponse> {
        self.at(Method::DELETE, "/pools/{pool}", request, None).await
    }

    async fn list_pools(&self, request: v1::ListPoolsRequest) -> Called<v1::ListPoolsResponse> {
        self.at(Method::GET, "/pools", request, None).await
    }

    async fn get_pool(&self, request: v1::GetPoolRequest) -> Called<v1::PoolDetail> {
        self.at(Method::GET, "/pools/{pool}", request, None).await
    }

    async fn list_queue(&self, request: v1::ListQueueRequest) -> Called<v1::ListQueueResponse> {
        self.at(Method::GET, "/pools/{pool}/queue", request, None).await
    }

    async fn history(&self, request: v1::HistoryRequest) -> Called<v1::HistoryResponse> {
        self.at(Method::GET, "/history", request, None).await
    }

    async fn steal(&self, request: v1::StealRequest) -> Called<v1::Grant> {
        self.post("/steal", request).await
    }

    async fn move_waiter(&self, request: v1::MoveWaiterRequest) -> Called<v1::MoveWaiterResponse> {
        self.post("/move-waiter", request).await
    }

    async fn reserve(&self, request: v1::ReserveRequest) -> Called<v1::ReserveResponse> {
        self.post("/reserve", request).await
    }

    async fn unreserve(&self, request: v1::UnreserveRequest) -> Called<v1::UnreserveResponse> {
        self.post("/unreserve", request).await
    }

    async fn explain(&self, request: v1::ExplainRequest) -> Called<v1::ExplainResponse> {
        self.at(Method::GET, "/pools/{pool}/explain", request, None).await
    }
}

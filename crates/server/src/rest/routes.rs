//! Every route of the API, once: what it takes, what it gives, and what it calls.

use axum::Json;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_proto::v1;

use super::{App, extract, sse};
use crate::error::Error;
use crate::service::Service;

pub(super) struct Route {
    pub(super) method: Method,
    /// Names in braces are fields of the request.
    pub(super) path: &'static str,
    pub(super) operation: &'static str,
    pub(super) summary: &'static str,
    /// The message whose fields are parameters.
    pub(super) parameters: Option<MakeSchema>,
    pub(super) body: Option<MakeSchema>,
    pub(super) answer: MakeSchema,
    /// A stream of server-sent events rather than one answer.
    pub(super) streams: bool,
    pub(super) handler: MethodRouter<App>,
}

pub(super) type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl Method {
    pub(super) fn lower_case(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Put => "put",
            Self::Delete => "delete",
        }
    }

    fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

#[rustfmt::skip]
pub(super) fn table() -> Vec<Route> {
    use Method::{Delete, Get, Post, Put};
    vec![
        body(Post, "/acquire", "acquire", "Ask for a hold, and wait for it inside the call",
            |service, request| async move { service.acquire(request).await }),
        body(Post, "/renew", "renew", "Prolong a lease",
            |service, request| async move { service.renew(request).await }),
        body(Post, "/release", "release", "End a hold",
            |service, request| async move { service.release(request).await }),
        body(Post, "/withdraw", "withdraw", "End a request at whatever stage it is",
            |service, request| async move { service.withdraw(request).await }),
        body(Post, "/force-release", "force_release", "End a hold as an operator, if the holder still has it",
            |service, request| async move { service.force_release(request).await }),
        body(Post, "/owner-gone", "owner_gone", "Say that an outside owner is gone, and end its bound holds",
            |service, request| async move { service.owner_gone(request).await }),
        parameters(Get, "/holds", "list_holds", "List holds, oldest first",
            |service, request| async move { service.list_holds(request).await }),

        body(Post, "/sessions", "open_session", "Open a session that is kept alive by calls",
            |service, request| async move { service.open_session(request).await }),
        body(Post, "/sessions/keep-alive", "keep_alive", "Move the end of a session to its grace from now",
            |service, request| async move { service.keep_alive(request).await }),
        body(Post, "/sessions/end", "end_session", "End a session, its waits and the holds that live as long as it",
            |service, request| async move { service.end_session(request).await }),
        parameters(Get, "/sessions", "list_sessions", "List sessions, oldest first",
            |service, request| async move { service.list_sessions(request).await }),

        parameters(Get, "/pools", "list_pools", "List pools by name",
            |service, request| async move { service.list_pools(request).await }),
        parameters(Get, "/pools/{pool}", "get_pool", "Show a pool with its resources",
            |service, request| async move { service.get_pool(request).await }),
        both(Put, "/pools/{pool}", "set_pool", "Declare a pool, or change it",
            |request: &mut v1::SetPoolRequest, spec| request.spec = Some(spec),
            |service, request| async move { service.set_pool(request).await }),
        parameters(Delete, "/pools/{pool}", "remove_pool", "Take a pool away, as soon as its holds have ended",
            |service, request| async move { service.remove_pool(request).await }),
        both(Put, "/pools/{pool}/condition", "set_condition", "Drain, quarantine or return a pool or a resource of it",
            |request: &mut v1::SetConditionRequest, condition| request.condition = Some(condition),
            |service, request| async move { service.set_condition(request).await }),
        parameters(Get, "/pools/{pool}/queue", "list_queue", "List who waits for a pool, the next to be served first",
            |service, request| async move { service.list_queue(request).await }),

        parameters(Get, "/pools/{pool}/explain", "explain", "Say why those in a queue wait, and what would let them in",
            |service, request| async move { service.explain(request).await }),
        body(Post, "/steal", "steal", "Give somebody's hold to somebody else as an operator, if the holder still has it",
            |service, request| async move { service.steal(request).await }),
        body(Post, "/move-waiter", "move_waiter", "Put a waiter in front of another as an operator, if both still wait",
            |service, request| async move { service.move_waiter(request).await }),
        body(Post, "/reserve", "reserve", "Keep a resource for a holder to come",
            |service, request| async move { service.reserve(request).await }),
        body(Post, "/unreserve", "unreserve", "End a reservation, if it is still that holder's",
            |service, request| async move { service.unreserve(request).await }),

        parameters(Get, "/history", "history", "Look through what happened",
            |service, request| async move { service.history(request).await }),
        Route {
            streams: true,
            ..route::<v1::Event, _>(Get, "/watch", "watch", "Be told what happens, as server-sent events", sse::watch)
        }
        .with_parameters::<v1::WatchRequest>(),

        parameters(Get, "/waits", "list_waits", "List who waits, for whichever pool, oldest first",
            |service, request| async move { service.list_waits(request).await }),
        parameters(Get, "/search", "search", "Look for a text in names, labels and metadata",
            |service, request| async move { service.search(request).await }),
    ]
}

/// The request is made of the parameters of path and query.
fn parameters<Q, A, F, Fut>(
    method: Method,
    path: &'static str,
    operation: &'static str,
    summary: &'static str,
    call: F,
) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    A: Serialize + JsonSchema,
    F: Fn(Service, Q) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<A, Error>> + Send,
{
    let handler = async move |State(app): State<App>, mut request: Request| {
        let parameters = extract::parameters(&mut request).await?;
        answer(call(app.service, parameters).await)
    };
    route::<A, _>(method, path, operation, summary, handler).with_parameters::<Q>()
}

/// The request is the body.
fn body<B, A, F, Fut>(
    method: Method,
    path: &'static str,
    operation: &'static str,
    summary: &'static str,
    call: F,
) -> Route
where
    B: DeserializeOwned + JsonSchema + Send + 'static,
    A: Serialize + JsonSchema,
    F: Fn(Service, B) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<A, Error>> + Send,
{
    let handler = async move |State(app): State<App>, request: Request| {
        let body = extract::body(request).await?;
        answer(call(app.service, body).await)
    };
    route::<A, _>(method, path, operation, summary, handler).with_body::<B>()
}

/// The request is made of the parameters of path and query, and the body is one of its fields.
fn both<Q, B, A, F, Fut>(
    method: Method,
    path: &'static str,
    operation: &'static str,
    summary: &'static str,
    put: fn(&mut Q, B),
    call: F,
) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    B: DeserializeOwned + JsonSchema + Send + 'static,
    A: Serialize + JsonSchema,
    F: Fn(Service, Q) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<A, Error>> + Send,
{
    let handler = async move |State(app): State<App>, mut request: Request| {
        let mut parameters = extract::parameters(&mut request).await?;
        put(&mut parameters, extract::body(request).await?);
        answer(call(app.service, parameters).await)
    };
    route::<A, _>(method, path, operation, summary, handler).with_parameters::<Q>().with_body::<B>()
}

fn route<A: JsonSchema, M: 'static>(
    method: Method,
    path: &'static str,
    operation: &'static str,
    summary: &'static str,
    handler: impl Handler<M, App>,
) -> Route {
    let handler = on(method.filter(), handler);
    let answer = SchemaGenerator::subschema_for::<A>;
    Route { method, path, operation, summary, parameters: None, body: None, answer, streams: false, handler }
}

impl Route {
    fn with_parameters<Q: JsonSchema>(self) -> Self {
        Self { parameters: Some(SchemaGenerator::subschema_for::<Q>), ..self }
    }

    fn with_body<B: JsonSchema>(self) -> Self {
        Self { body: Some(SchemaGenerator::subschema_for::<B>), ..self }
    }
}

fn answer<A: Serialize>(answer: Result<A, Error>) -> Result<Response, Error> {
    answer.map(|answer| Json(answer).into_response())
}

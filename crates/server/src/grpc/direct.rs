//! The calls that are made most, without the layers that all others pass through: ours, and those that LDLM has.

use std::sync::Arc;

use axum::http::{HeaderMap, Method, header};
use tonic::Status;

use crate::auth::Door;
use crate::error::Error;
use crate::http2::{self, Answering, Message, RequestHead};
use crate::ldlm::{Connection, Grpc as Ldlm};
use crate::service::Service;

/// Headers that say something about a call which has to be looked at elsewhere.
const SAY_MORE: [&str; 2] = ["grpc-encoding", "grpc-timeout"];

/// Of one connection.
pub(crate) struct Direct {
    pub(crate) services: Arc<Services>,
    pub(crate) connection: Connection,
}

/// Whom calls are put to.
pub(crate) struct Services {
    pub(crate) own: Service,
    pub(crate) ldlm: Ldlm,
    pub(crate) door: Door,
}

#[derive(Clone, Copy)]
pub(crate) enum Call {
    Acquire,
    Renew,
    Release,
    Lock,
    TryLock,
    Unlock,
    RenewLock,
}

impl Call {
    fn find(path: &str) -> Option<Self> {
        Some(match path {
            "/tenure.v1.Tenure/Acquire" => Self::Acquire,
            "/tenure.v1.Tenure/Renew" => Self::Renew,
            "/tenure.v1.Tenure/Release" => Self::Release,
            "/ldlm.LDLM/Lock" => Self::Lock,
            "/ldlm.LDLM/TryLock" => Self::TryLock,
            "/ldlm.LDLM/Unlock" => Self::Unlock,
            "/ldlm.LDLM/Renew" => Self::RenewLock,
            _ => return None,
        })
    }

    fn is_of_ldlm(self) -> bool {
        matches!(self, Self::Lock | Self::TryLock | Self::Unlock | Self::RenewLock)
    }
}

impl http2::Direct for Direct {
    type Call = Call;

    fn find(&self, head: &RequestHead) -> Option<Call> {
        let path = head.uri.path();
        let call = Call::find(path)?;
        let says_more = SAY_MORE.iter().any(|name| head.headers.contains_key(*name));
        if head.method != Method::POST || !is_grpc(&head.headers) || says_more {
            return None;
        }
        // Whoever is not let in is told so elsewhere.
        if self.services.door.refuse::<()>(path, &head.headers).is_some() {
            return None;
        }
        if call.is_of_ldlm() {
            self.connection.introduce(&head.headers);
        }
        Some(call)
    }

    fn call(&self, call: Call, message: &[u8]) -> Answering {
        let (to, connection) = (self.services.clone(), self.connection.clone());
        match call {
            Call::Acquire => answer(message, |it| async move { message_of(to.own.acquire(it).await) }),
            Call::Renew => answer(message, |it| async move { message_of(to.own.renew(it).await) }),
            Call::Release => answer(message, |it| async move { message_of(to.own.release(it).await) }),
            Call::Lock => answer(message, |it| async move { to.ldlm.answer_lock(&connection, it).await }),
            Call::TryLock => answer(message, |it| async move { to.ldlm.answer_try_lock(&connection, it).await }),
            Call::Unlock => answer(message, |it| async move { to.ldlm.answer_unlock(it).await }),
            Call::RenewLock => answer(message, |it| async move { to.ldlm.answer_renew(it).await }),
        }
    }
}

/// What comes of a request, if it is one.
fn answer<R, F>(message: &[u8], call: impl FnOnce(R) -> F) -> Answering
where
    R: prost::Message + Default,
    F: Future<Output = Result<Message, Status>> + Send + 'static,
{
    match R::decode(message) {
        Ok(request) => Box::pin(call(request)),
        Err(error) => Box::pin(std::future::ready(Err(Status::internal(error.to_string())))),
    }
}

fn message_of(answered: Result<impl prost::Message, Error>) -> Result<Message, Status> {
    Ok(Message::of(&answered?))
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|it| it == "application/grpc" || it == "application/grpc+proto")
}

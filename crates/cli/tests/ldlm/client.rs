//! A client of LDLM's, as its libraries are: fields that are not given are not sent.

use std::net::SocketAddr;

use tenure_proto::ldlm::ldlm_client::LdlmClient;
use tenure_proto::ldlm::{
    Error, ErrorCode, LockRequest, LockResponse, RenewRequest, TryLockRequest, UnlockRequest, UnlockResponse,
};
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::transport::Channel;

use crate::fixture::{eventually, within};

/// One connection. It ends when this and all its calls are dropped.
#[derive(Clone)]
pub(crate) struct Client(pub(crate) LdlmClient<Channel>);

impl Client {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        let channel = Channel::from_shared(format!("http://{addr}")).unwrap().connect().await.unwrap();
        Self(LdlmClient::new(channel).max_encoding_message_size(usize::MAX))
    }

    pub(crate) async fn try_lock(&self, request: impl Ask) -> LockResponse {
        within(self.0.clone().try_lock(request.message())).await.unwrap().into_inner()
    }

    pub(crate) async fn lock(&self, request: LockRequest) -> LockResponse {
        within(self.0.clone().lock(request)).await.unwrap().into_inner()
    }

    /// The key of a lock that is free.
    pub(crate) async fn locked(&self, request: impl Ask) -> String {
        let response = self.try_lock(request).await;
        assert!(response.locked && response.error.is_none(), "{response:?}");
        response.key
    }

    pub(crate) async fn is_free(&self, name: &str) -> bool {
        let response = self.try_lock(name).await;
        assert_eq!(response.error, None);
        response.locked
    }

    /// Waits until it is free, and takes it: the new key.
    pub(crate) async fn until_free(&self, name: &str) -> String {
        eventually(async || Some(self.try_lock(name).await).filter(|response| response.locked)).await.key
    }

    /// Asks for a lock, and goes on meanwhile.
    pub(crate) fn start_lock(&self, request: LockRequest) -> JoinHandle<Result<LockResponse, Status>> {
        let mut client = self.0.clone();
        tokio::spawn(async move { client.lock(request).await.map(tonic::Response::into_inner) })
    }

    pub(crate) async fn unlock(&self, name: &str, key: &str) -> UnlockResponse {
        let request = UnlockRequest { name: name.into(), key: key.into() };
        within(self.0.clone().unlock(request)).await.unwrap().into_inner()
    }

    pub(crate) async fn unlocked(&self, name: &str, key: &str) {
        let response = self.unlock(name, key).await;
        assert_eq!(response, UnlockResponse { unlocked: true, name: name.into(), error: None });
    }

    pub(crate) async fn renew(&self, name: &str, key: &str, lock_timeout_seconds: i32) -> LockResponse {
        let request = RenewRequest { name: name.into(), key: key.into(), lock_timeout_seconds };
        within(self.0.clone().renew(request)).await.unwrap().into_inner()
    }
}

/// A name alone is a request too.
pub(crate) trait Ask {
    fn message(self) -> TryLockRequest;
}

impl Ask for &str {
    fn message(self) -> TryLockRequest {
        TryLockRequest { name: self.into(), ..TryLockRequest::default() }
    }
}

impl Ask for TryLockRequest {
    fn message(self) -> TryLockRequest {
        self
    }
}

pub(crate) fn lock(name: &str) -> LockRequest {
    LockRequest { name: name.into(), ..LockRequest::default() }
}

/// A lock of a size.
pub(crate) fn sized(name: &str, size: i32) -> TryLockRequest {
    TryLockRequest { name: name.into(), size: Some(size), lock_timeout_seconds: None }
}

/// A lock that ends by itself.
pub(crate) fn timed(name: &str, seconds: i32) -> TryLockRequest {
    TryLockRequest { name: name.into(), size: None, lock_timeout_seconds: Some(seconds) }
}

pub(crate) fn error(code: ErrorCode, message: &str) -> Option<Error> {
    Some(Error { code: code.into(), message: message.into() })
}

/// Nothing was locked, and this is why.
pub(crate) fn refused(name: &str, code: ErrorCode, message: &str) -> LockResponse {
    LockResponse { locked: false, name: name.into(), key: String::new(), error: error(code, message) }
}

/// Somebody else has it.
pub(crate) fn busy(name: &str) -> LockResponse {
    LockResponse { locked: false, name: name.into(), key: String::new(), error: None }
}

pub(crate) const NOT_RENEWED: (ErrorCode, &str) =
    (ErrorCode::LockDoesNotExistOrInvalidKey, "lock does not exist or invalid key");

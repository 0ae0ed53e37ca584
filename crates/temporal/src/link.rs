//! The connection to Temporal, and the calls that are made over it. Each is made once: whether it is to be made again
//! is for the caller to say, who knows what an unknown outcome means.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use temporalio_client::errors::{AsyncActivityError, ClientConnectError};
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Code, IntoRequest, Request, Response, Status};
use temporalio_client::{
    ActivityHeartbeatResponse, ActivityIdentifier, AsyncActivityHandle, Client, ClientOptions, Connection,
    ConnectionOptions, RetryOptions, RpcOptions, TlsOptions,
};
use temporalio_common::error::ApplicationFailure;
use temporalio_common::protos::temporal::api::common::v1::WorkflowExecution;
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    DescribeNamespaceRequest, DescribeWorkflowExecutionRequest, DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryRequest, GetWorkflowExecutionHistoryResponse, GetWorkflowExecutionHistoryReverseRequest,
    GetWorkflowExecutionHistoryReverseResponse,
};

/// How long the first connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long any call may take that is answered at once. Temporal keeps calls for a while when it is overloaded.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Temporal answers a long poll after 20 s even if nothing has happened.
const LONG_POLL_TIMEOUT: Duration = Duration::from_secs(40);

/// Where Temporal is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A host and a port; with `https://` before it, over TLS.
    pub address: String,
    pub namespace: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{address}` is no address of Temporal: {why}")]
    Address { address: String, why: String },
    #[error("Temporal cannot be reached at {address}: {why}")]
    Unreachable { address: String, why: String },
    #[error("Temporal at {address} has no namespace `{namespace}`")]
    UnknownNamespace { address: String, namespace: String },
}

/// A connection to one namespace of Temporal. Lost connections come back by themselves.
pub struct Link {
    client: Client,
    namespace: String,
    namespace_id: String,
    /// What was last said in the log.
    away: AtomicBool,
}

/// Why a call has no answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// What was asked for is not there, or not any more.
    NotFound,
    /// Temporal did not answer, or not in a way that says what happened.
    Unknown,
}

impl Link {
    /// Connects, and makes sure that the namespace is there.
    pub async fn connect(settings: &Settings) -> Result<Self, Error> {
        let Settings { address, namespace } = settings;
        let unusable = |why: String| Error::Address { address: address.clone(), why };
        let unreachable = |why: String| Error::Unreachable { address: address.clone(), why };
        let target = if address.contains("://") { address.clone() } else { format!("http://{address}") };
        let target = url::Url::parse(&target).map_err(|error| unusable(error.to_string()))?;
        if !matches!(target.scheme(), "http" | "https") || target.host().is_none() {
            return Err(unusable("expected HOST:PORT, or a URL with http or https".into()));
        }
        let tls = (target.scheme() == "https").then(TlsOptions::default);
        let options = ConnectionOptions::new(target)
            .identity(format!("tenure@{}", std::process::id()))
            .maybe_tls_options(tls)
            .connect_timeout(CONNECT_TIMEOUT)
            // One address at a time, and a lost connection is made again in any case.
            .dns_load_balancing(None)
            .build();
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, Connection::connect(options)).await;
        let connection = connected
            .map_err(|_| unreachable(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs())))?
            .map_err(|error| unreachable(why(&error)))?;
        let options = ClientOptions::new(namespace.clone()).build();
        let client = Client::new(connection, options).map_err(|error| unreachable(error.to_string()))?;
        let request = DescribeNamespaceRequest { namespace: namespace.clone(), ..Default::default() };
        let described = client.clone().describe_namespace(once(request, CALL_TIMEOUT)).await;
        let described = described.map_err(|status| match status.code() {
            Code::NotFound => Error::UnknownNamespace { address: address.clone(), namespace: namespace.clone() },
            _ => unreachable(status.message().to_owned()),
        })?;
        let namespace_id = described.into_inner().namespace_info.map(|info| info.id).unwrap_or_default();
        Ok(Self { client, namespace: namespace.clone(), namespace_id, away: AtomicBool::new(false) })
    }

    /// For workers, and for whoever starts or asks workflows. It tries again by itself.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A number that Temporal made up when the namespace was made. Only those who may ask Temporal know it.
    pub(crate) fn namespace_id(&self) -> &str {
        &self.namespace_id
    }

    /// Of a run, or of whichever is the latest if that is empty.
    pub(crate) async fn describe(
        &self,
        workflow_id: &str,
        run_id: &str,
    ) -> Result<DescribeWorkflowExecutionResponse, CallError> {
        let request = DescribeWorkflowExecutionRequest {
            namespace: self.namespace.clone(),
            execution: Some(execution(workflow_id, run_id)),
        };
        self.note(self.client.clone().describe_workflow_execution(once(request, CALL_TIMEOUT)).await)
    }

    pub(crate) async fn history(
        &self,
        request: GetWorkflowExecutionHistoryRequest,
    ) -> Result<GetWorkflowExecutionHistoryResponse, CallError> {
        let timeout = if request.wait_new_event { LONG_POLL_TIMEOUT } else { CALL_TIMEOUT };
        self.note(self.client.clone().get_workflow_execution_history(once(request, timeout)).await)
    }

    /// The newest events first.
    pub(crate) async fn history_reverse(
        &self,
        request: GetWorkflowExecutionHistoryReverseRequest,
    ) -> Result<GetWorkflowExecutionHistoryReverseResponse, CallError> {
        self.note(self.client.clone().get_workflow_execution_history_reverse(once(request, CALL_TIMEOUT)).await)
    }

    pub(crate) async fn heartbeat(&self, task_token: &[u8]) -> Result<ActivityHeartbeatResponse, CallError> {
        self.heard(self.activity(task_token).heartbeat(None::<()>, rpc()).await)
    }

    pub(crate) async fn complete(
        &self,
        task_token: &[u8],
        result: impl serde::Serialize + Send + 'static,
    ) -> Result<(), CallError> {
        self.heard(self.activity(task_token).complete(Some(result), rpc()).await)
    }

    pub(crate) async fn fail(&self, task_token: &[u8], failure: ApplicationFailure) -> Result<(), CallError> {
        self.heard(self.activity(task_token).fail(failure, None::<()>, rpc()).await)
    }

    pub(crate) async fn cancelled(&self, task_token: &[u8]) -> Result<(), CallError> {
        self.heard(self.activity(task_token).report_cancelation(None::<()>, rpc()).await)
    }

    fn activity(&self, task_token: &[u8]) -> AsyncActivityHandle<Client> {
        let token = ActivityIdentifier::from_task_token(task_token.to_vec().into());
        self.client.get_async_activity_handle(token)
    }

    fn heard<T>(&self, answer: Result<T, AsyncActivityError>) -> Result<T, CallError> {
        let answer = answer.map_err(|error| match error {
            AsyncActivityError::NotFound(status) | AsyncActivityError::Rpc(status) => status,
            AsyncActivityError::PayloadConversion(error) => Status::internal(error.to_string()),
            other => Status::unknown(other.to_string()),
        });
        self.note(answer.map(Response::new))
    }

    /// Says in the log, once each, that Temporal is away and that it is back.
    pub(crate) fn note_presence<T>(&self, answer: &Result<T, Status>) {
        let away = match answer.as_ref().err().map(Status::code) {
            Some(Code::Unavailable) => true,
            // An answer that did not come in time may be late because of what was asked.
            Some(Code::DeadlineExceeded | Code::Cancelled | Code::Unknown) => return,
            _ => false,
        };
        if away == self.away.swap(away, Ordering::Relaxed) {
            return;
        }
        match answer {
            Err(status) if away => tracing::warn!(why = status.message(), "Temporal is away"),
            _ => tracing::info!("Temporal is back"),
        }
    }

    fn note<T>(&self, answer: Result<Response<T>, Status>) -> Result<T, CallError> {
        self.note_presence(&answer);
        match answer {
            Ok(response) => Ok(response.into_inner()),
            Err(status) if is_missing(&status) => Err(CallError::NotFound),
            Err(status) => {
                tracing::debug!(code = ?status.code(), why = status.message(), "a call to Temporal failed");
                Err(CallError::Unknown)
            }
        }
    }
}

/// Whether what was asked for is not there. A Temporal that has just started may not know even the namespace for a while, and
/// that says nothing about what is in it: a workflow must not be taken for gone because of it.
pub(crate) fn is_missing(status: &Status) -> bool {
    const NAMESPACE: &[u8] = b"NamespaceNotFoundFailure";
    status.code() == Code::NotFound && !status.details().windows(NAMESPACE.len()).any(|part| part == NAMESPACE)
}

pub(crate) fn execution(workflow_id: &str, run_id: &str) -> WorkflowExecution {
    WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id: run_id.to_owned() }
}

pub(crate) fn once<T>(request: T, timeout: Duration) -> Request<T> {
    let mut request = request.into_request();
    request.set_timeout(timeout);
    let no_retries = temporalio_client::request_extensions::RetryConfigForCall(RetryOptions::no_retries());
    request.extensions_mut().insert(no_retries);
    request
}

fn rpc() -> RpcOptions {
    RpcOptions::builder().timeout(CALL_TIMEOUT).retry_options(RetryOptions::no_retries()).build()
}

/// The reason below all wrappings: they only say that something went wrong.
fn why(error: &ClientConnectError) -> String {
    if let ClientConnectError::SystemInfoCallError(status) = error {
        return status.message().to_owned();
    }
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_is_not_known_yet_says_nothing_about_what_is_in_it() {
        // As a development server of Temporal 1.32 answered half a minute after it was restarted.
        let details = b"\x08\x05\x12\x1fNamespace default is not found.\x1aV\nItype.googleapis.com/\
            temporal.api.errordetails.v1.NamespaceNotFoundFailure\x12\t\n\x07default";
        let namespace =
            Status::with_details(Code::NotFound, "Namespace default is not found.", details.to_vec().into());
        assert!(!is_missing(&namespace));
        assert!(is_missing(&Status::not_found("workflow not found for ID: one")));
        assert!(!is_missing(&Status::unavailable("away")));
    }
}

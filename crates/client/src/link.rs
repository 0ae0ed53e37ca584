//! A connection to the server and the stream on it; and, when there is none, why in words.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tenure_proto::v1;
use tenure_proto::v1::tenure_client::TenureClient;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::http::HeaderValue;
use tonic::transport::{Endpoint, Uri};
use tonic::{Code, Status, Streaming};

use crate::access::{self, Access};
use crate::address::{Address, PORT_DEFAULT};
use crate::calls::Calls;
use crate::error::Error;
use crate::probe;

/// A connection that was given up because nobody answered is closed by HTTP/2's own pings after at most twice this; the
/// session's pings notice much earlier.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

const HUNG_UP: &str = "it hung up after the TLS handshake; it may";

/// The two halves of a stream.
#[derive(Debug)]
pub(crate) struct Link {
    /// Room for one message: what there is to say meanwhile goes into the next.
    pub(crate) outgoing: mpsc::Sender<v1::ClientMessage>,
    pub(crate) incoming: Streaming<v1::ServerMessage>,
}

/// Every call of the server with its own messages.
pub type Api = TenureClient<Calls>;

/// A server: where it is, and how to be let in.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    access: Arc<Access>,
    /// Without what depends on the papers.
    endpoint: Endpoint,
    connect_timeout: Duration,
    tls: Option<Tls>,
}

/// What a server sees of us when TLS is spoken.
#[derive(Clone, Copy, Debug)]
enum Tls {
    Anonymous,
    Identified,
}

/// All that one connection is made with.
pub(crate) struct Prepared {
    pub(crate) endpoint: Endpoint,
    pub(crate) password: Option<HeaderValue>,
}

impl Target {
    pub(crate) fn new(address: Address, access: Access, connect_timeout: Duration) -> Result<Self, Error> {
        let unreachable = |why: String| Error::Unreachable { address: address.given.clone(), why };
        let tls = address.is_tls(access.wants_tls());
        let uri: Uri = address.uri(tls).parse().map_err(|error| unreachable(reason(&error)))?;
        let endpoint = Endpoint::from(uri)
            .user_agent(concat!("tenure-client/", env!("CARGO_PKG_VERSION")))
            .map_err(|error| unreachable(reason(&error)))?
            .connect_timeout(connect_timeout)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        let seen = if access.is_identified() { Tls::Identified } else { Tls::Anonymous };
        Ok(Self { address, access: Arc::new(access), endpoint, connect_timeout, tls: tls.then_some(seen) })
    }

    /// Takes password and certificates as they are now.
    pub(crate) async fn prepare(&self, runtime: &Handle) -> Result<Prepared, Error> {
        let access = self.access.clone();
        let papers = if access.has_files() {
            // A file system that hangs is not to hold up what else the thread has to do.
            let read = runtime.spawn_blocking(move || access.read()).await;
            read.unwrap_or_else(|_| Err("the files cannot be read: the client is closed".to_owned()))
        } else {
            access.read()
        };
        let papers = papers.map_err(Error::Unusable)?;
        let password = papers.password.clone();
        let mut endpoint = self.endpoint.clone();
        if self.tls.is_some() {
            let unusable = |error| Error::Unusable(reason(&error) + &self.access.identity_origin());
            endpoint = endpoint.tls_config(papers.tls(self.connect_timeout)).map_err(unusable)?;
        }
        Ok(Prepared { endpoint, password })
    }

    pub(crate) async fn connect(&self) -> Result<Api, Error> {
        Calls::connect(self.clone()).await.map(Api::new)
    }

    /// Connects with the first call, and again whenever that is needed. What serves the calls lives in the runtime,
    /// whoever makes them.
    pub(crate) fn connect_lazy(&self, runtime: &Handle) -> Api {
        Api::new(Calls::lazy(self.clone(), runtime.clone()))
    }

    /// Why a connection did not come about.
    pub(crate) fn unreachable(&self, error: &tonic::transport::Error) -> Error {
        Error::Unreachable { address: self.address.given.clone(), why: reason(error) }
    }

    /// What the failure of the first call means, after a look at who is there.
    pub(crate) async fn diagnose(&self, status: Status) -> Error {
        let (broken, code) = (StdError::source(&status).is_some(), status.code());
        match Error::of_status(&self.address.given, status) {
            Error::Unreachable { address, why } if broken => match self.tls {
                None => match probe::stranger(&self.address).await {
                    Some(why) => Error::Foreign { address, why },
                    None => Error::Unreachable { address, why },
                },
                // A server of TLS 1.3 looks at our certificate when we believe to be through already; what it says then
                // is often lost with the connection.
                Some(Tls::Anonymous) => {
                    Error::Unreachable { address, why: format!("{HUNG_UP} want to see a client certificate") }
                }
                Some(Tls::Identified) => {
                    Error::Unreachable { address, why: format!("{HUNG_UP} not accept the client certificate") }
                }
            },
            // The library could make nothing of the answer.
            Error::Unreachable { address, why } if matches!(code, Code::Unknown | Code::Internal) => {
                Error::Foreign { address, why: format!("{}, by default {PORT_DEFAULT} ({why})", probe::NOT_GRPC) }
            }
            error => error,
        }
    }
}

/// Connects, says the first message and waits for what is said to it: only then is it known who is there.
pub(crate) async fn dial(target: Target, first: v1::ClientMessage) -> Result<Dialed, Error> {
    let mut api = target.connect().await?;
    let (outgoing, messages) = mpsc::channel(1);
    outgoing.try_send(first).expect("a new channel has room for one");
    let opening = async {
        let mut incoming = api.session(ReceiverStream::new(messages)).await?.into_inner();
        let answer = incoming.message().await?.ok_or_else(|| Status::unavailable("the server ended the stream"))?;
        Ok((incoming, answer))
    };
    match opening.await {
        Ok((incoming, answer)) => Ok((Box::new(Link { outgoing, incoming }), answer)),
        Err(status) => Err(target.diagnose(status).await),
    }
}

/// A stream, and the first that was said on it.
pub(crate) type Dialed = (Box<Link>, v1::ServerMessage);

/// Whether it is a Tenure server that wants a password. A proxy in front of it may have put its own name over the server's.
pub(crate) fn wants_password(status: &Status) -> bool {
    let words = ["missing credentials", "invalid credentials"];
    status.code() == Code::Unauthenticated && (version(status).is_some() || words.contains(&status.message()))
}

/// The server's version, if it says that it is one of ours.
fn version(status: &Status) -> Option<&str> {
    status.metadata().get("server").and_then(|name| name.to_str().ok()?.strip_prefix("tenure/"))
}

/// Why an answer cannot be one of a Tenure server of our version; none if it can.
pub(crate) fn foreign(status: &Status) -> Option<String> {
    match (status.code(), version(status)) {
        (Code::Unimplemented, Some(version)) => Some(format!(
            "it has version {version} and does not know this call, this client has version {}",
            env!("CARGO_PKG_VERSION")
        )),
        (Code::Unimplemented, None) => Some(format!("it does not know this call ({})", status.message())),
        // Made by gRPC libraries and proxies on the way, or of the connection's end.
        (Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::ResourceExhausted, _) => None,
        (Code::Unknown | Code::Internal, _) => None,
        (code, _) => Some(format!("it answers {code:?}: {}", status.message())),
    }
}

pub(crate) fn reason_of_status(status: &Status) -> String {
    match StdError::source(status) {
        Some(error) => reason(error),
        None if status.message().is_empty() => format!("{:?}", status.code()),
        None => status.message().to_owned(),
    }
}

/// The innermost cause: what is around it says only that connecting failed.
fn reason(error: &(dyn StdError + 'static)) -> String {
    let mut innermost = error;
    let mut kind = None;
    loop {
        if let Some(error) = innermost.downcast_ref::<io::Error>() {
            if let Some(reason) = access::tls_reason(error) {
                return reason;
            }
            kind = Some(error.kind());
        }
        match innermost.source() {
            Some(cause) => innermost = cause,
            None => break,
        }
    }
    match kind {
        Some(io::ErrorKind::ConnectionRefused) => "nothing listens there (connection refused)".to_owned(),
        Some(io::ErrorKind::TimedOut) => "it does not answer (timed out)".to_owned(),
        _ => innermost.to_string().to_lowercase(),
    }
}

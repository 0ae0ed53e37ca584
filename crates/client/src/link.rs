//! A connection to the server and the stream on it; and, when there is none, why in words.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use tenure_proto::v1;
use tenure_proto::v1::tenure_client::TenureClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

use crate::address::{Address, PORT_DEFAULT};
use crate::error::Error;
use crate::probe;

/// A connection that was given up because nobody answered is closed by HTTP/2's own pings after at most twice this; the
/// session's pings notice much earlier.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The two halves of a stream.
#[derive(Debug)]
pub(crate) struct Link {
    /// Room for one message: what there is to say meanwhile goes into the next.
    pub(crate) outgoing: mpsc::Sender<v1::ClientMessage>,
    pub(crate) incoming: Streaming<v1::ServerMessage>,
}

pub(crate) fn endpoint(address: &Address, connect_timeout: Duration) -> Result<Endpoint, Error> {
    let failed =
        |error: tonic::transport::Error| Error::Unreachable { address: address.given.clone(), why: reason(&error) };
    Ok(Endpoint::from_shared(address.uri())
        .and_then(|endpoint| endpoint.user_agent(concat!("tenure-client/", env!("CARGO_PKG_VERSION"))))
        .map_err(failed)?
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true))
}

/// Connects, says the first message and waits for what is said to it: only then is it known who is there.
pub(crate) async fn dial(endpoint: Endpoint, address: Address, first: v1::ClientMessage) -> Result<Dialed, Error> {
    let channel = connect(&endpoint, &address).await?;
    let (outgoing, messages) = mpsc::channel(1);
    outgoing.try_send(first).expect("a new channel has room for one");
    let opening = async {
        let mut incoming = TenureClient::new(channel).session(ReceiverStream::new(messages)).await?.into_inner();
        let answer = incoming.message().await?.ok_or_else(|| Status::unavailable("the server ended the stream"))?;
        Ok((incoming, answer))
    };
    match opening.await {
        Ok((incoming, answer)) => Ok((Box::new(Link { outgoing, incoming }), answer)),
        Err(status) => Err(diagnose(&address, status).await),
    }
}

/// A stream, and the first that was said on it.
pub(crate) type Dialed = (Box<Link>, v1::ServerMessage);

pub(crate) async fn connect(endpoint: &Endpoint, address: &Address) -> Result<Channel, Error> {
    let failed =
        |error: tonic::transport::Error| Error::Unreachable { address: address.given.clone(), why: reason(&error) };
    endpoint.connect().await.map_err(failed)
}

/// What the failure of the first call means, after a look at who is there.
pub(crate) async fn diagnose(address: &Address, status: Status) -> Error {
    let (broken, code) = (StdError::source(&status).is_some(), status.code());
    match Error::of_status(&address.given, status) {
        Error::Unreachable { address: given, why } if broken => match probe::stranger(address).await {
            Some(why) => Error::Foreign { address: given, why },
            None => Error::Unreachable { address: given, why },
        },
        // The library could make nothing of the answer.
        Error::Unreachable { address: given, why } if matches!(code, Code::Unknown | Code::Internal) => {
            Error::Foreign { address: given, why: format!("{}, by default {PORT_DEFAULT} ({why})", probe::NOT_GRPC) }
        }
        error => error,
    }
}

/// Why an answer cannot be one of a Tenure server of our version; none if it can.
pub(crate) fn foreign(status: &Status) -> Option<String> {
    let version = status.metadata().get("server").and_then(|name| name.to_str().ok()?.strip_prefix("tenure/"));
    match (status.code(), version) {
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

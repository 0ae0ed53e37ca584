//! What carries the calls of an `Api`: one connection after another, each with the password and the certificates of its
//! own time. Tonic would mend a connection by itself, but with what the first one was made with.

use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tonic::transport::{Channel, Uri};
use tonic::{Code, Status};

use crate::error::Error;
use crate::link::{Prepared, Target};

type BoxError = Box<dyn StdError + Send + Sync>;

/// A connection for calls, which is mended by itself. Clones share it.
#[derive(Clone)]
pub struct Calls {
    shared: Arc<Shared>,
}

struct Shared {
    target: Target,
    /// Where what serves the calls lives.
    runtime: Handle,
    line: Mutex<Option<Line>>,
}

/// One connection, and what is said on it with every call.
#[derive(Clone)]
struct Line {
    channel: Channel,
    password: Option<HeaderValue>,
    over: Over,
}

/// Whether the connection is gone, or is of no use.
#[derive(Clone, Default)]
struct Over(Arc<AtomicBool>);

impl Calls {
    /// Connects now.
    pub(crate) async fn connect(target: Target) -> Result<Self, Error> {
        let runtime = Handle::current();
        let Prepared { endpoint, password } = target.prepare(&runtime).await?;
        let over = Over::default();
        let channel = endpoint.connect_with_connector(connector(&over)).await;
        let channel = channel.map_err(|error| target.unreachable(&error))?;
        let line = Mutex::new(Some(Line { channel, password, over }));
        Ok(Self { shared: Arc::new(Shared { target, runtime, line }) })
    }

    /// Connects with the first call.
    pub(crate) fn lazy(target: Target, runtime: Handle) -> Self {
        Self { shared: Arc::new(Shared { target, runtime, line: Mutex::new(None) }) }
    }
}

impl Service<Request<Body>> for Calls {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = self.shared.clone();
        Box::pin(async move { shared.line().await?.call(request).await })
    }
}

impl Shared {
    /// The connection there is, or a new one.
    async fn line(&self) -> Result<Line, Status> {
        let mut line = self.line.lock().await;
        if let Some(line) = line.as_ref().filter(|line| !line.over.is_so()) {
            return Ok(line.clone());
        }
        let prepared = self.target.prepare(&self.runtime).await;
        let Prepared { endpoint, password } = prepared.map_err(|error| Status::unavailable(error.to_string()))?;
        let over = Over::default();
        let _in_runtime = self.runtime.enter();
        let channel = endpoint.connect_with_connector_lazy(connector(&over));
        Ok(line.insert(Line { channel, password, over }).clone())
    }
}

impl Line {
    async fn call(mut self, mut request: Request<Body>) -> Result<Response<Body>, BoxError> {
        if let Some(password) = self.password {
            request.headers_mut().insert(AUTHORIZATION, password);
        }
        poll_fn(|context| self.channel.poll_ready(context)).await?;
        let response = self.channel.call(request).await?;
        // Behind a proxy the connection may have outlived the server that knew this password.
        if Status::from_header_map(response.headers()).is_some_and(|status| status.code() == Code::Unauthenticated) {
            self.over.set();
        }
        Ok(response)
    }
}

impl Over {
    fn is_so(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("address", &self.shared.target.address.given).finish()
    }
}

/// Connects as tonic would, and tells when that failed or the connection has ended.
fn connector(
    over: &Over,
) -> impl Service<Uri, Response = TokioIo<Watched>, Error = BoxError, Future: Send> + Send + use<> {
    let mut http = HttpConnector::new();
    // TLS is spoken above it.
    http.enforce_http(false);
    http.set_nodelay(true);
    let over = over.clone();
    tower::service_fn(move |uri| {
        let end = End(over.clone());
        let mut http = http.clone();
        async move {
            poll_fn(|context| http.poll_ready(context)).await?;
            let stream = http.call(uri).await?.into_inner();
            Ok(TokioIo::new(Watched { stream, _end: end }))
        }
    })
}

struct Watched {
    stream: TcpStream,
    _end: End,
}

/// Tells it by being dropped.
struct End(Over);

impl Drop for End {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

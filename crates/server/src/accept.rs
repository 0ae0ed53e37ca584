//! Takes connections for both ports: with their keep-alive, and through their TLS handshake if there is to be TLS.
//!
//! Handshakes go on beside each other. They and a connection's first words have an end, so that nobody is kept out by those
//! who say nothing, and they cost little.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::auth::Face;
use crate::server::Config;
use crate::tls::Tls;

/// After a failed accept, usually for lack of file descriptors, others need time to let go of theirs.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// What a connection must say before it is known to speak HTTP: as much as HTTP/2 begins with. Until then HTTP has no limit
/// of its own to how long it listens.
const FIRST_WORDS_BYTES: usize = 24;
/// Connections that are ready to be served; beyond it they wait in the system's own queue.
const READY_MAX: usize = 64;
/// How a TLS client begins; a letter is how an HTTP client does.
const TLS_HANDSHAKE: u8 = 0x16;
const WANTS_TLS: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\nconnection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// The connections to a port, until this is dropped.
pub(crate) fn incoming(listener: TcpListener, config: &Config, face: Face) -> ReceiverStream<Socket> {
    let (ready, incoming) = mpsc::channel(READY_MAX);
    tokio::spawn(accept(listener, config.clone(), face, ready));
    ReceiverStream::new(incoming)
}

async fn accept(listener: TcpListener, config: Config, face: Face, ready: mpsc::Sender<Socket>) {
    let keepalive = TcpKeepalive::new().with_time(config.keepalive_interval).with_interval(config.keepalive_timeout);
    let patience = config.opening_timeout;
    loop {
        let accepted = tokio::select! {
            () = ready.closed() => return,
            accepted = listener.accept() => accepted,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        prepare(&socket, &keepalive);
        match &config.tls {
            None => {
                if ready.send(Socket::new(Stream::Plain(socket), face, patience)).await.is_err() {
                    return;
                }
            }
            Some(tls) => {
                let (tls, ready) = (tls.clone(), ready.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = ready.closed() => {}
                        shaken = tokio::time::timeout(patience, handshake(socket, &tls, face)) => {
                            let shaken = shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                            let socket = shaken.map(|stream| Socket::new(stream, face, patience));
                            hand_over(socket, peer, &ready).await;
                        }
                    }
                });
            }
        }
    }
}

/// A caller that waits over HTTP/1 says nothing, and one whose host has died neither; only TCP can tell.
fn prepare(socket: &TcpStream, keepalive: &TcpKeepalive) {
    let prepared = socket.set_nodelay(true).and_then(|()| SockRef::from(socket).set_tcp_keepalive(keepalive));
    if let Err(error) = prepared {
        tracing::debug!(%error, "a connection has no keep-alive");
    }
}

async fn handshake(mut socket: TcpStream, tls: &Tls, face: Face) -> io::Result<Stream> {
    if let Face::Http = face {
        let mut first = [TLS_HANDSHAKE];
        socket.peek(&mut first).await?;
        if first[0].is_ascii_alphabetic() {
            socket.write_all(WANTS_TLS).await?;
            // What it has to say is read and thrown away, or it might be told of a reset before it has read this.
            socket.shutdown().await?;
            tokio::io::copy(&mut socket, &mut tokio::io::sink()).await?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it speaks HTTP without TLS"));
        }
    }
    let stream = TlsAcceptor::from(tls.config(face)).accept(socket).await?;
    Ok(Stream::Tls(Box::new(stream)))
}

async fn hand_over(shaken: io::Result<Socket>, peer: SocketAddr, ready: &mpsc::Sender<Socket>) {
    match shaken {
        // If nobody takes it, the server stops.
        Ok(socket) => drop(ready.send(socket).await),
        Err(error) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
    }
}

/// A connection. Reading from one that has not said its first words in time fails, which makes HTTP hang up.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    opening: Option<Opening>,
}

/// Whichever way it is spoken on.
#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// What a new connection still has to say, and until when.
#[derive(Debug)]
struct Opening {
    face: Face,
    unsaid: usize,
    end: Pin<Box<Sleep>>,
}

impl Socket {
    fn new(stream: Stream, face: Face, patience: Duration) -> Self {
        let end = Box::pin(tokio::time::sleep(patience));
        Self { stream, opening: Some(Opening { face, unsaid: FIRST_WORDS_BYTES, end }) }
    }

    /// Whether the peer has hung up, as far as the system knows by now. What it said before that may not have been read.
    pub(crate) fn has_hung_up(&self) -> bool {
        let socket = match &self.stream {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => stream.get_ref().0,
        };
        // A reset is told in any case.
        let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
        poll(&mut fds, Some(&Timespec::default())).is_ok() && !fds[0].revents().is_empty()
    }

    fn has_said(&mut self, bytes: usize) {
        self.opening.take_if(|opening| {
            opening.unsaid = opening.unsaid.saturating_sub(bytes);
            opening.unsaid == 0
        });
    }

    /// A request of HTTP/1 may be shorter than the first words, and has been understood if it is answered. Over gRPC the
    /// server speaks first, which says nothing of the client.
    fn is_answered(&mut self) {
        self.opening.take_if(|opening| matches!(opening.face, Face::Http));
    }
}

impl Connected for Socket {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        match &self.stream {
            Stream::Plain(socket) => socket.connect_info(),
            Stream::Tls(stream) => stream.get_ref().0.connect_info(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let socket = self.get_mut();
        let before = buffer.filled().len();
        let polled = match &mut socket.stream {
            Stream::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        socket.has_said(buffer.filled().len() - before);
        match &mut socket.opening {
            Some(opening) if polled.is_pending() => {
                ready!(opening.end.as_mut().poll(context));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "it has not said what it wants")))
            }
            _ => polled,
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let socket = self.get_mut();
        socket.is_answered();
        match &mut socket.stream {
            Stream::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(socket) => Pin::new(socket).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let socket = self.get_mut();
        socket.is_answered();
        match &mut socket.stream {
            Stream::Plain(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(socket) => socket.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}

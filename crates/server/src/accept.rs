//! Takes connections for both ports: with their keep-alive, and through their TLS handshake if there is to be TLS.
//!
//! Handshakes go on beside each other and have an end, so that nobody is kept out by somebody who says nothing.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::auth::Face;
use crate::server::Config;
use crate::tls::Tls;

/// After a failed accept, usually for lack of file descriptors, others need time to let go of theirs.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// A few round trips, over bad lines too.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that are ready to be served; beyond it they wait in the system's own queue.
const READY_MAX: usize = 64;
/// How a TLS client begins; a letter is how an HTTP client does.
const TLS_HANDSHAKE: u8 = 0x16;
const WANTS_TLS: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\nconnection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// The connections to a port, until this is dropped.
pub(crate) fn incoming(listener: TcpListener, config: &Config, face: Face) -> ReceiverStream<Socket> {
    let (ready, incoming) = mpsc::channel(READY_MAX);
    let keepalive = TcpKeepalive::new().with_time(config.keepalive_interval).with_interval(config.keepalive_timeout);
    tokio::spawn(accept(listener, keepalive, config.tls.clone(), face, ready));
    ReceiverStream::new(incoming)
}

async fn accept(
    listener: TcpListener,
    keepalive: TcpKeepalive,
    tls: Option<Tls>,
    face: Face,
    ready: mpsc::Sender<Socket>,
) {
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
        match &tls {
            None => {
                if ready.send(Socket::Plain(socket)).await.is_err() {
                    return;
                }
            }
            Some(tls) => {
                let (tls, ready) = (tls.clone(), ready.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = ready.closed() => {}
                        shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake(socket, &tls, face)) => {
                            hand_over(shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())), peer, &ready).await;
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

async fn handshake(mut socket: TcpStream, tls: &Tls, face: Face) -> io::Result<Socket> {
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
    Ok(Socket::Tls(Box::new(stream)))
}

async fn hand_over(shaken: io::Result<Socket>, peer: SocketAddr, ready: &mpsc::Sender<Socket>) {
    match shaken {
        // If nobody takes it, the server stops.
        Ok(socket) => drop(ready.send(socket).await),
        Err(error) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
    }
}

/// A connection, whichever way it is spoken on.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connected for Socket {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        match self {
            Self::Plain(socket) => socket.connect_info(),
            Self::Tls(stream) => stream.get_ref().0.connect_info(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
}

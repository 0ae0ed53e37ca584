//! Takes connections for both ports: with their keep-alive, and through their TLS handshake if there is to be TLS.
//!
//! Handshakes go on beside each other. They and a connection's first words have an end, so that nobody is kept out by those
//! who say nothing, and they cost little.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
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
/// What is read of a connection before it is others' turn, if there is so much: a few hundred small calls. HTTP reads as long as
/// there is something to read; and hyper writes nothing meanwhile, and makes a task of every call, which is run
/// before those that were woken elsewhere. One connection that says very much would keep all others waiting.
const TURN_BYTES: usize = 32 * 1024;
/// The same while the engine is crowded, from then until it is no more: some two hundred small calls. Whoever has few to make is not kept
/// from it by those who make as many as they can.
const CROWDED_TURN_BYTES: usize = 16 * 1024;
/// But nobody is left unheard for longer, whatever keeps the engine: clients say that they are alive, and what there is no room for is refused.
const CROWDED_PAUSE_MAX: Duration = Duration::from_millis(250);
/// What is still read of a connection that does not take its answers, and once as much as is read at a time. HTTP/2 would go on for ever, and keep every answer:
/// neither the headers nor the number of calls is bounded by its windows. Something must be read, because a client may be able
/// to read only once it has been rid of what it is saying.
const READ_WHILE_UNREAD_MAX: usize = 64 * 1024;
/// Connections that are ready to be served; beyond it they wait in the system's own queue.
const READY_MAX: usize = 64;
/// How a TLS client begins; a letter is how an HTTP client does.
const TLS_HANDSHAKE: u8 = 0x16;
const WANTS_TLS: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\nconnection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// The connections to a port, until this is dropped. `crowd` tells whether the engine is crowded.
pub(crate) fn incoming(
    listener: TcpListener,
    config: &Config,
    face: Face,
    crowd: watch::Receiver<bool>,
) -> ReceiverStream<Socket> {
    let (ready, incoming) = mpsc::channel(READY_MAX);
    tokio::spawn(accept(listener, config.clone(), face, crowd, ready));
    ReceiverStream::new(incoming)
}

async fn accept(
    listener: TcpListener,
    config: Config,
    face: Face,
    crowd: watch::Receiver<bool>,
    ready: mpsc::Sender<Socket>,
) {
    let keepalive = TcpKeepalive::new().with_time(config.keepalive_interval).with_interval(config.keepalive_timeout);
    let patience = Patience {
        opening: config.opening_timeout,
        // As long as for one that says nothing.
        reading: config.keepalive_interval + config.keepalive_timeout,
    };
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
                if ready.send(Socket::new(Stream::Plain(socket), face, patience, crowd.clone())).await.is_err() {
                    return;
                }
            }
            Some(tls) => {
                let (tls, ready, crowd) = (tls.clone(), ready.clone(), crowd.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = ready.closed() => {}
                        shaken = tokio::time::timeout(patience.opening, handshake(socket, &tls, face)) => {
                            let shaken = shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                            let socket = shaken.map(|stream| Socket::new(stream, face, patience, crowd));
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

/// How long a connection has for what must come to an end.
#[derive(Clone, Copy, Debug)]
struct Patience {
    opening: Duration,
    reading: Duration,
}

/// A connection. Reading from one that has not said its first words in time fails, and so does writing to one that has not read
/// anything for long, which makes HTTP hang up.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    opening: Option<Opening>,
    unread: Unread,
    turn: Turn,
}

/// Whichever way it is spoken on.
#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

/// What a new connection still has to say, and until when.
#[derive(Debug)]
struct Opening {
    face: Face,
    unsaid: usize,
    end: Pin<Box<Sleep>>,
}

/// How much was read without a break, or since the engine is crowded, and the break.
#[derive(Debug)]
struct Turn {
    crowd: watch::Receiver<bool>,
    read: usize,
    pause: Option<oneshot::Receiver<()>>,
}

impl Turn {
    /// Ready when something may be read, with how much.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<usize> {
        loop {
            if let Some(pause) = &mut self.pause {
                // If nobody is left to end it, the server stops, and it does not matter.
                let _ = ready!(Pin::new(pause).poll(context));
                self.pause = None;
                self.read = 0;
            }
            // Each crowd counts for itself. If there is no engine any more there will be none.
            if self.crowd.has_changed().unwrap_or(false) {
                self.read = 0;
            }
            if !*self.crowd.borrow_and_update() {
                return Poll::Ready(usize::MAX);
            }
            match CROWDED_TURN_BYTES.saturating_sub(self.read) {
                0 => self.pause_while_crowded(),
                left => return Poll::Ready(left),
            }
        }
    }

    fn has_read(&mut self, bytes: usize) {
        self.read += bytes;
        if self.read >= TURN_BYTES {
            let (end, pause) = oneshot::channel();
            self.pause = Some(pause);
            let runtime = Handle::current();
            // What another thread spawns is run after all that is waiting by now; what is spawned here would be run before.
            tokio::task::spawn_blocking(move || runtime.spawn(async { end.send(()) }));
        }
    }

    fn pause_while_crowded(&mut self) {
        let (end, pause) = oneshot::channel();
        self.pause = Some(pause);
        let mut crowd = self.crowd.clone();
        tokio::spawn(async move {
            // Until this crowd has gone, though there may be another by now. In any case it is heard again, also if the engine is gone.
            let _ = tokio::time::timeout(CROWDED_PAUSE_MAX, crowd.changed()).await;
            // Whoever has hung up has no pause to end.
            let _ = end.send(());
        });
    }

    fn has_read_all(&mut self) {
        if !*self.crowd.borrow() {
            self.read = 0;
        }
    }
}

/// Whether the peer reads its answers.
#[derive(Debug)]
struct Unread {
    patience: Duration,
    /// Since nothing can be written: until when it must be possible again.
    end: Option<Pin<Box<Sleep>>>,
    /// What was read meanwhile, less what was written since.
    read: usize,
    /// Who wanted to read, and was not let.
    reader: Option<Waker>,
}

impl Unread {
    fn new(patience: Duration) -> Self {
        Self { patience, end: None, read: 0, reader: None }
    }

    fn may_read(&mut self, context: &Context<'_>) -> bool {
        let may = self.end.is_none() || self.read < READ_WHILE_UNREAD_MAX;
        if !may {
            self.reader = Some(context.waker().clone());
        }
        may
    }

    fn has_read(&mut self, bytes: usize) {
        if self.end.is_some() {
            self.read += bytes;
        }
    }

    /// Not at once as if nothing had been: one that reads a little now and then must not get ever more of what it asks for kept.
    fn has_written(&mut self, bytes: usize) {
        self.end = None;
        self.read = self.read.saturating_sub(bytes);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// Whether it has been so for too long.
    fn cannot_write(&mut self, context: &mut Context<'_>) -> bool {
        let end = self.end.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.patience)));
        end.as_mut().poll(context).is_ready()
    }
}

impl Socket {
    fn new(stream: Stream, face: Face, patience: Patience, crowd: watch::Receiver<bool>) -> Self {
        let end = Box::pin(tokio::time::sleep(patience.opening));
        let opening = Some(Opening { face, unsaid: FIRST_WORDS_BYTES, end });
        let turn = Turn { crowd, read: 0, pause: None };
        Self { stream, opening, unread: Unread::new(patience.reading), turn }
    }

    fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Passes on what came of writing, unless the peer has not let anything be written for too long.
    fn written(&mut self, polled: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match &polled {
            Poll::Ready(Ok(bytes)) => self.unread.has_written(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending if self.unread.cannot_write(context) => {
                let (socket, patience) = (self.tcp(), self.unread.patience);
                let peer = socket.peer_addr().ok();
                tracing::info!(?peer, ?patience, "a connection is closed because its answers are not read");
                // What is on its way is thrown away: the system would keep it for one who does not read for very long.
                if let Err(error) = SockRef::from(socket).set_linger(Some(Duration::ZERO)) {
                    tracing::debug!(%error, "what was not read may be kept for a while");
                }
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "it does not read its answers")));
            }
            Poll::Pending => {}
        }
        polled
    }

    /// Whether the peer has hung up, as far as the system knows by now. What it said before that may not have been read.
    pub(crate) fn has_hung_up(&self) -> bool {
        let socket = self.tcp();
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
        let at_most = ready!(socket.turn.poll(context));
        if !socket.unread.may_read(context) {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let polled = if at_most < buffer.remaining() {
            let mut some = ReadBuf::new(buffer.initialize_unfilled_to(at_most));
            let polled = socket.stream.poll_read(context, &mut some);
            let read = some.filled().len();
            buffer.advance(read);
            polled
        } else {
            socket.stream.poll_read(context, buffer)
        };
        let read = buffer.filled().len() - before;
        socket.has_said(read);
        socket.unread.has_read(read);
        match &polled {
            Poll::Ready(_) => socket.turn.has_read(read),
            Poll::Pending => socket.turn.has_read_all(),
        }
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
        let polled = match &mut socket.stream {
            Stream::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        socket.written(polled, context)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = self.get_mut();
        let polled = match &mut socket.stream {
            Stream::Plain(socket) => Pin::new(socket).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        };
        // Over TLS there may be something left to write.
        match &socket.stream {
            Stream::Plain(_) => polled,
            Stream::Tls(_) => socket.written(polled.map_ok(|()| 0), context).map_ok(drop),
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
        let polled = match &mut socket.stream {
            Stream::Plain(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        };
        socket.written(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(socket) => socket.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt;

    use super::*;

    /// More than the system keeps for a connection.
    const MUCH: usize = 64 * 1024 * 1024;

    async fn pair() -> (Socket, TcpStream) {
        let (socket, peer, _crowd) = pair_beside_a_crowd(false).await;
        (socket, peer)
    }

    async fn pair_beside_a_crowd(is_crowded: bool) -> (Socket, TcpStream, watch::Sender<bool>) {
        let crowd = watch::Sender::new(is_crowded);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let patience = Patience { opening: Duration::from_secs(600), reading: Duration::from_secs(600) };
        (Socket::new(Stream::Plain(stream), Face::Grpc, patience, crowd.subscribe()), peer, crowd)
    }

    /// Reads until it has to wait, and gives how much that was.
    async fn read_all(socket: &mut Socket) -> usize {
        let (mut bytes, mut heard) = (vec![0; 64 * 1024], 0);
        poll_fn(|context| {
            loop {
                let mut buffer = ReadBuf::new(&mut bytes);
                match Pin::new(&mut *socket).poll_read(context, &mut buffer) {
                    Poll::Ready(read) => read.unwrap(),
                    Poll::Pending => return Poll::Ready(()),
                }
                heard += buffer.filled().len();
            }
        })
        .await;
        heard
    }

    /// Says so much that it is all there to be heard.
    async fn say(peer: &mut TcpStream, socket: &Socket, bytes: usize) {
        peer.write_all(&vec![1; bytes]).await.unwrap();
        let mut there = vec![0; bytes];
        while socket.tcp().peek(&mut there).await.unwrap() < bytes {}
    }

    #[tokio::test]
    async fn in_a_crowd_everybody_says_a_little_and_then_waits_until_it_has_gone() {
        let (mut socket, mut peer, crowd) = pair_beside_a_crowd(true).await;
        say(&mut peer, &socket, 3 * CROWDED_TURN_BYTES).await;
        assert_eq!(read_all(&mut socket).await, CROWDED_TURN_BYTES);
        assert_eq!(read_all(&mut socket).await, 0, "it has had its turn");
        crowd.send_replace(false);
        let mut rest = vec![0; 2 * CROWDED_TURN_BYTES];
        socket.read_exact(&mut rest).await.unwrap();
    }

    #[tokio::test]
    async fn in_a_crowd_what_was_said_little_by_little_counts_together() {
        let (mut socket, mut peer, crowd) = pair_beside_a_crowd(true).await;
        for _ in 0..4 {
            say(&mut peer, &socket, CROWDED_TURN_BYTES / 4).await;
            assert_eq!(read_all(&mut socket).await, CROWDED_TURN_BYTES / 4);
        }
        say(&mut peer, &socket, 1).await;
        assert_eq!(read_all(&mut socket).await, 0, "it has had its turn");
        crowd.send_replace(false);
        assert_eq!(socket.read(&mut [0; 2]).await.unwrap(), 1);
        // And where there is no crowd nothing is counted.
        for _ in 0..4 {
            say(&mut peer, &socket, TURN_BYTES / 2).await;
            assert_eq!(read_all(&mut socket).await, TURN_BYTES / 2);
        }
    }

    #[tokio::test]
    async fn each_crowd_counts_for_itself_also_when_the_next_has_come_already() {
        let (mut socket, mut peer, crowd) = pair_beside_a_crowd(true).await;
        say(&mut peer, &socket, 3 * CROWDED_TURN_BYTES).await;
        assert_eq!(read_all(&mut socket).await, CROWDED_TURN_BYTES);
        for is_crowded in [false, true] {
            crowd.send_replace(is_crowded);
        }
        let mut more = vec![0; CROWDED_TURN_BYTES];
        socket.read_exact(&mut more).await.unwrap();
        assert_eq!(read_all(&mut socket).await, 0, "it has had its turn in this one too");
    }

    #[tokio::test]
    async fn in_a_crowd_that_stays_everybody_is_heard_again_after_a_while() {
        let (mut socket, mut peer, _crowd) = pair_beside_a_crowd(true).await;
        say(&mut peer, &socket, 3 * CROWDED_TURN_BYTES).await;
        // Nobody waits here but for that.
        tokio::time::pause();
        let began = tokio::time::Instant::now();
        let mut all = vec![0; 3 * CROWDED_TURN_BYTES];
        socket.read_exact(&mut all).await.unwrap();
        let pauses = began.elapsed().as_secs_f64() / CROWDED_PAUSE_MAX.as_secs_f64();
        assert!((2.0..2.1).contains(&pauses), "{pauses}");
    }

    /// Writes until no more can be written, and gives how much that was.
    async fn fill(socket: &mut Socket) -> usize {
        let (bytes, mut written) = (vec![0; 64 * 1024], 0);
        poll_fn(|context| {
            while let Poll::Ready(count) = Pin::new(&mut *socket).poll_write(context, &bytes) {
                written += count.unwrap();
                assert!(written < MUCH, "the system takes everything");
            }
            Poll::Ready(())
        })
        .await;
        written
    }

    #[tokio::test]
    async fn who_does_not_read_is_not_listened_to_until_it_does() {
        let (mut socket, mut peer) = pair().await;
        let unread = fill(&mut socket).await;
        let (mut reading, mut writing) = peer.split();
        let said = 4 * READ_WHILE_UNREAD_MAX;
        let saying = async {
            writing.write_all(&vec![1; said]).await.unwrap();
            // So that all of it is there to be heard.
            std::future::pending::<()>().await;
        };
        let mut heard = 0;
        let mut some = [0; 4_096];
        let hearing = async {
            while heard < READ_WHILE_UNREAD_MAX {
                heard += socket.read(&mut some).await.unwrap();
            }
            let more = poll_fn(|context| {
                let mut buffer = ReadBuf::new(&mut some);
                Poll::Ready(Pin::new(&mut socket).poll_read(context, &mut buffer))
            });
            assert!(more.await.is_pending(), "it is listened to though it does not read");
            // It reads, so something can be written, and so it is listened to again.
            let mut answers = vec![0; unread];
            let (heard_rest, ()) = tokio::join!(
                async {
                    let mut heard = 0;
                    while heard < said - READ_WHILE_UNREAD_MAX - some.len() {
                        // Both in one task, as HTTP does it.
                        heard += poll_fn(|context| {
                            let mut buffer = ReadBuf::new(&mut some);
                            let read = Pin::new(&mut socket).poll_read(context, &mut buffer);
                            let _ = Pin::new(&mut socket).poll_write(context, b"and more");
                            read.map(|read| read.map(|()| buffer.filled().len()))
                        })
                        .await
                        .unwrap();
                    }
                    heard
                },
                async { assert_eq!(reading.read_exact(&mut answers).await.unwrap(), unread) }
            );
            heard + heard_rest
        };
        let heard = tokio::select! {
            () = saying => unreachable!("it goes on"),
            heard = tokio::time::timeout(Duration::from_secs(20), hearing) => heard.expect("it came in time"),
        };
        assert!(heard >= said - some.len());
    }
}

//! A gRPC connection as LDLM's session: it has sessions of Tenure's from its first lock on, and they end with it.
//!
//! Each session is opened and ended by a task of its own, never by a call: a call that comes too late finds its session
//! gone and is refused, and one that comes in time leaves what it got to the session. So it does not matter how calls,
//! grants and the end of the connection interleave.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tenure_core::{Command, Holder, Key, Namespace, OpenSession, Refusal, Reply, Ttl};
use tenure_engine::{Answered, Calls, Engine, Failure, ReplyTo};
use tenure_proto::ldlm::LockResponse;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::handover::{Crossing, Handover};
use super::onlooker::Onlooker;
use super::pings::Farewell;
use super::{Granted, Ldlm, NotLocked, Trouble};

/// Before a session is asked to end again, if the engine had no room for it.
const END_AGAIN: Duration = Duration::from_millis(20);

/// The state of one connection. Every request that comes over it carries a copy.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Shared>);

struct Shared {
    engine: Arc<dyn Engine>,
    /// The server stops: its connections end, but not what their clients hold.
    stopping: CancellationToken,
    gone: CancellationToken,
    peer: Option<SocketAddr>,
    holder: OnceLock<Arc<Holder>>,
    crossing: Arc<Crossing>,
    /// By the time for which they outlive a restart of the server: a connection whose locks all have short times, or
    /// none, has one.
    sessions: Mutex<BTreeMap<Ttl, watch::Receiver<Stage>>>,
}

#[derive(Clone)]
enum Stage {
    Opening,
    Open(Key),
    Refused(Box<Refusal>),
    Failed(Failure),
}

impl Connection {
    fn new(engine: Arc<dyn Engine>, stopping: CancellationToken, peer: Option<SocketAddr>) -> Self {
        Self(Arc::new(Shared {
            crossing: Arc::new(Crossing::new(engine.clone())),
            engine,
            stopping,
            gone: CancellationToken::new(),
            peer,
            holder: OnceLock::new(),
            sessions: Mutex::default(),
        }))
    }

    /// The first request says which client it is.
    pub(super) fn introduce(&self, user_agent: Option<&str>) {
        self.0.holder.get_or_init(|| {
            let peer = self.0.peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
            Arc::new(super::holder("ldlm grpc", &peer, user_agent))
        });
    }

    pub(super) fn holder(&self) -> Arc<Holder> {
        self.introduce(None);
        self.0.holder.get().expect("it was just introduced").clone()
    }

    /// The connection's session of this grace, which is opened if there is none yet.
    pub(super) async fn session(&self, grace: Ttl) -> Result<Key, NotLocked> {
        if self.0.gone.is_cancelled() {
            return Err(Trouble::SessionOver.into());
        }
        let mut stage = {
            let mut sessions = self.sessions();
            let stage = sessions.entry(grace).or_insert_with(|| self.open(grace));
            // For all calls but the first.
            if let Stage::Open(key) = *stage.borrow() {
                return Ok(key);
            }
            stage.clone()
        };
        let settled = stage.wait_for(|stage| !matches!(stage, Stage::Opening)).await.map(|stage| stage.clone());
        match settled {
            Ok(Stage::Open(key)) => Ok(key),
            Ok(Stage::Refused(refusal)) => Err(super::not_locked(&refusal)),
            Ok(Stage::Failed(failure)) => Err(failure.into()),
            Ok(Stage::Opening) | Err(_) => Err(Trouble::SessionOver.into()),
        }
    }

    fn open(&self, grace: Ttl) -> watch::Receiver<Stage> {
        let (tell, stage) = watch::channel(Stage::Opening);
        let (connection, holder) = (self.clone(), self.holder());
        tokio::spawn(async move {
            connection.carry(grace, holder, tell).await;
            // The next lock gets a new one, if there is to be a next.
            connection.sessions().remove(&grace);
        });
        stage
    }

    /// A session from its beginning to its end.
    async fn carry(&self, grace: Ttl, holder: Arc<Holder>, tell: watch::Sender<Stage>) {
        let Shared { engine, stopping, gone, .. } = &*self.0;
        let (answers, mut heard) = mpsc::unbounded_channel();
        let open = OpenSession { namespace: Namespace::default(), holder, grace, attached: true };
        let opened = match engine.submit(Command::OpenSession(open), ReplyTo { id: 0, answers, returns: false }) {
            Ok(_) => heard.recv().await.ok_or(Failure::Lost).and_then(|answered| answered.reply),
            Err(failure) => Err(failure),
        };
        let session = match opened {
            Ok(Reply::Session(open)) => open.key,
            Ok(Reply::Refused(refusal)) => return drop(tell.send_replace(Stage::Refused(refusal))),
            Err(failure) => return drop(tell.send_replace(Stage::Failed(failure))),
            Ok(other) => unreachable!("an open is not answered with {other:?}"),
        };
        tell.send_replace(Stage::Open(session));
        // Its clients cannot be told what they lose. Anything else says that the session is over already.
        let over = async { while let Some(Answered { reply: Ok(Reply::Lost(_)), .. }) = heard.recv().await {} };
        tokio::select! {
            () = gone.cancelled() => {}
            () = over => return,
        }
        let end = Command::EndSession { namespace: Namespace::default(), session };
        while !stopping.is_cancelled()
            && let Err(Failure::Overloaded { .. }) = engine.call(end.clone()).await
        {
            tokio::time::sleep(END_AGAIN).await;
        }
    }

    /// What was granted to a caller of this connection, on its way there.
    pub(super) fn hand_over(&self, granted: Granted, answer: &LockResponse, care: bool) -> Handover {
        self.0.crossing.hand_over(granted, answer, care)
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<Ttl, watch::Receiver<Stage>>> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What bytes come and go through. It is dropped when the connection ends, however it does.
pub(crate) struct Carried<I> {
    io: I,
    connection: Connection,
    onlooker: Onlooker,
    farewell: Option<Farewell>,
}

impl<I: Connected<ConnectInfo = TcpConnectInfo>> Carried<I> {
    pub(crate) fn new(io: I, ldlm: &Ldlm, stopping: &CancellationToken) -> Self {
        let peer = io.connect_info().remote_addr();
        let connection = Connection::new(ldlm.engine.clone(), stopping.clone(), peer);
        let onlooker = Onlooker::new(connection.0.crossing.clone());
        Self { io, connection, onlooker, farewell: None }
    }
}

impl<I> Drop for Carried<I> {
    fn drop(&mut self) {
        self.connection.0.gone.cancel();
        self.connection.0.crossing.end();
    }
}

impl<I> Connected for Carried<I> {
    type ConnectInfo = Connection;

    fn connect_info(&self) -> Connection {
        self.connection.clone()
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Carried<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.onlooker.has_heard_enough() {
            // As if the client had hung up.
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, into);
        self.onlooker.read(&into.filled()[before..]);
        polled
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Carried<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, from);
        if let Poll::Ready(Ok(written)) = polled {
            self.onlooker.wrote(&from[..written]);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.0.crossing.flushed();
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { io, connection, onlooker, farewell } = &mut *self;
        if farewell.is_none() && onlooker.has_heard_enough() && onlooker.may_interrupt() {
            tracing::debug!(peer = ?connection.0.peer, "a client pings too often");
            *farewell = Some(Farewell::new());
        }
        match farewell {
            Some(farewell) => farewell.poll(Pin::new(io), cx),
            None => Pin::new(io).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, from);
        if let Poll::Ready(Ok(mut written)) = polled {
            for slice in from {
                let some = written.min(slice.len());
                self.onlooker.wrote(&slice[..some]);
                written -= some;
            }
        }
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

//! A gRPC connection as LDLM's session: it has sessions of Tenure's from its first lock on, and they end with it.
//!
//! Each session is opened and ended by a task of its own, never by a call: a call that comes too late finds its session
//! gone and is refused, and one that comes in time leaves what it got to the session. So it does not matter how calls,
//! grants and the end of the connection interleave.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::USER_AGENT;
use tenure_core::{Command, Holder, Key, Namespace, OpenSession, Refusal, Reply, Ttl};
use tenure_engine::{Answered, Calls, Engine, Failure, ReplyTo, answers};
use tenure_proto::ldlm::LockResponse;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected as _;

use super::handover::{Crossing, Handover};
use super::onlooker::Onlooker;
use super::pings::Farewell;
use super::{Granted, Ldlm, NotLocked, Trouble};
use crate::accept::Socket;

/// Before a session is asked to end again, if the engine had no room for it.
const END_AGAIN: Duration = Duration::from_millis(20);

/// The state of one connection. Every request that comes over it carries a copy.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Shared>);

struct Shared {
    engine: Arc<dyn Engine>,
    /// How long locks without a time outlive a restart of the server.
    grace: Ttl,
    unsettled: watch::Sender<()>,
    /// The server stops: it hangs up on its clients, but they keep what they hold.
    stopping: CancellationToken,
    /// The client has hung up, or is not listened to any more: its sessions end.
    gone: CancellationToken,
    /// The server hangs up: the sessions are left to the next one.
    left: CancellationToken,
    peer: Option<SocketAddr>,
    holder: OnceLock<Arc<Holder>>,
    crossing: Arc<Crossing>,
    sessions: Mutex<Sessions>,
}

/// The one of the locks that have no time, and the one of those that have: after a restart of the server these must not end
/// with the others.
type Sessions = [Option<watch::Receiver<Stage>>; 2];

#[derive(Clone)]
enum Stage {
    Opening,
    Open(Key),
    Refused(Box<Refusal>),
    Failed(Failure),
}

impl Connection {
    fn new(ldlm: &Ldlm, stopping: &CancellationToken, peer: Option<SocketAddr>) -> Self {
        Self(Arc::new(Shared {
            crossing: Arc::new(Crossing::new(ldlm.engine.clone())),
            engine: ldlm.engine.clone(),
            grace: ldlm.config.default_lock_timeout,
            unsettled: ldlm.unsettled.clone(),
            // One of its own: it is looked at with every write.
            stopping: stopping.child_token(),
            gone: CancellationToken::new(),
            left: CancellationToken::new(),
            peer,
            holder: OnceLock::new(),
            sessions: Mutex::default(),
        }))
    }

    /// The first request says which client it is.
    pub(crate) fn introduce(&self, headers: &HeaderMap) {
        self.0.holder.get_or_init(|| {
            let user_agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
            let peer = self.0.peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
            Arc::new(super::holder("ldlm grpc", &peer, user_agent))
        });
    }

    pub(super) fn holder(&self) -> Arc<Holder> {
        self.introduce(&HeaderMap::new());
        self.0.holder.get().expect("it was just introduced").clone()
    }

    /// The connection's session for locks with a time, or for those without, which is opened if there is none yet.
    pub(super) async fn session(&self, timed: bool) -> Result<Key, NotLocked> {
        if self.0.gone.is_cancelled() {
            return Err(Trouble::SessionOver.into());
        }
        let mut stage = {
            let mut sessions = self.sessions();
            let stage = sessions[usize::from(timed)].get_or_insert_with(|| self.open(timed));
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

    fn open(&self, timed: bool) -> watch::Receiver<Stage> {
        let (tell, stage) = watch::channel(Stage::Opening);
        let (connection, holder) = (self.clone(), self.holder());
        let unsettled = self.0.unsettled.subscribe();
        tokio::spawn(async move {
            connection.carry(timed, holder, tell, unsettled).await;
            // The next lock gets a new one, if there is to be a next.
            connection.sessions()[usize::from(timed)] = None;
        });
        stage
    }

    /// A session from its beginning to its end.
    async fn carry(
        &self,
        timed: bool,
        holder: Arc<Holder>,
        tell: watch::Sender<Stage>,
        unsettled: watch::Receiver<()>,
    ) {
        let Shared { engine, grace, gone, left, .. } = &*self.0;
        let (answers, mut heard) = answers::channel();
        let (namespace, grace) = (Namespace::default(), *grace);
        let open = OpenSession { namespace, holder, grace, attached: true, outlasts_holds: timed };
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
        // Its clients cannot be told what they lose. Anything else says that nobody carries the session any more: usually
        // it is over, but if the engine has only given up telling of losses, it would outlive the connection.
        let over = async { while let Some(Answered { reply: Ok(Reply::Lost(_)), .. }) = heard.recv().await {} };
        tokio::pin!(over);
        tokio::select! {
            () = gone.cancelled() => {}
            () = &mut over => {}
            () = left.cancelled() => {
                drop(unsettled);
                return over.await;
            }
        }
        let end = Command::EndSession { namespace: Namespace::default(), session };
        while let Err(Failure::Overloaded { .. }) = engine.call(end.clone()).await {
            tokio::time::sleep(END_AGAIN).await;
        }
    }

    /// Who hangs up, if the server stops: a client that has done so before it could have heard of it has left its locks,
    /// and all others keep theirs. To be asked before anything is said to the client, because clients that are told to go
    /// hang up themselves.
    fn part(&self, socket: &Socket) {
        let Shared { stopping, gone, left, .. } = &*self.0;
        if !stopping.is_cancelled() || gone.is_cancelled() || left.is_cancelled() {
            return;
        }
        if socket.has_hung_up() { gone.cancel() } else { left.cancel() }
    }

    /// What was granted to a caller of this connection, on its way there.
    pub(super) fn hand_over(&self, granted: Granted, answer: &LockResponse, care: bool) -> Handover {
        self.0.crossing.hand_over(granted, answer, care)
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What bytes come and go through. It is dropped when the connection ends, however it does.
pub(crate) struct Carried {
    socket: Socket,
    connection: Connection,
    onlooker: Onlooker,
    farewell: Option<Farewell>,
}

impl Carried {
    pub(crate) fn new(socket: Socket, ldlm: &Ldlm, stopping: &CancellationToken) -> Self {
        let connection = Connection::new(ldlm, stopping, socket.connect_info().remote_addr());
        let onlooker = Onlooker::new(connection.0.crossing.clone());
        Self { socket, connection, onlooker, farewell: None }
    }

    pub(crate) fn connection(&self) -> Connection {
        self.connection.clone()
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        let Shared { stopping, gone, crossing, .. } = &*self.connection.0;
        if stopping.is_cancelled() {
            self.connection.part(&self.socket)
        } else {
            gone.cancel()
        }
        crossing.end();
    }
}

impl AsyncRead for Carried {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.onlooker.has_heard_enough() {
            // As if the client had hung up.
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, into);
        self.onlooker.read(&into.filled()[before..]);
        polled
    }
}

impl AsyncWrite for Carried {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.connection.part(&self.socket);
        let polled = Pin::new(&mut self.socket).poll_write(cx, from);
        if let Poll::Ready(Ok(written)) = polled {
            self.onlooker.wrote(&from[..written]);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.0.crossing.flushed();
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, connection, onlooker, farewell } = &mut *self;
        if farewell.is_none() && onlooker.has_heard_enough() && onlooker.may_interrupt() {
            tracing::debug!(peer = ?connection.0.peer, "a client pings too often");
            *farewell = Some(Farewell::new());
        }
        match farewell {
            Some(farewell) => farewell.poll(Pin::new(socket), cx),
            None => Pin::new(socket).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.connection.part(&self.socket);
        let polled = Pin::new(&mut self.socket).poll_write_vectored(cx, from);
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
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::*;
    use tenure_engine::Calls;

    use super::super::{LdlmConfig, path};
    use super::*;
    use crate::Storage;

    /// More than the engine keeps for a connection that does not listen.
    const LOSSES: u32 = 70_000;

    fn acquire(name: &str, ttl: u64, session: Key) -> Acquire {
        Acquire {
            pool: path(name),
            demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
            size: Some(LOSSES),
            lifetime: Some(Lifetime::Session(Some(Ttl::from_millis(ttl)))),
            wait: Wait::Try,
            priority: Priority::default(),
            holder: Arc::new(Holder::parse("tester", []).unwrap()),
            session: Some(session),
            request: None,
            also: Box::default(),
            holds_on: false,
        }
    }

    #[tokio::test]
    async fn a_session_that_the_engine_gives_up_on_ends_and_the_next_lock_gets_another() {
        let engine = Storage::default().start_engine().unwrap();
        let unsettled = watch::Sender::new(());
        let ldlm = Ldlm { engine: engine.clone(), config: LdlmConfig::default(), unsettled };
        let connection = Connection::new(&ldlm, &CancellationToken::new(), None);
        let Ok(session) = connection.session(true).await else { panic!("no session") };
        assert!(matches!(
            engine.acquire(acquire("kept", 3_600_000, session)).unwrap().settle().await,
            Ok(Reply::Granted(_))
        ));

        // From here on the runtime, and with it the session's task, stands still.
        let (answers, _heard) = answers::channel();
        for _ in 0..LOSSES {
            let reply_to = || ReplyTo { id: 0, answers: answers.clone(), returns: true };
            while engine.submit(Command::Acquire(acquire("short", 1, session)), reply_to()).is_err() {
                std::thread::yield_now();
            }
        }
        // The pool's and the session's beginnings, and two for each hold.
        let seq = engine.last_event();
        while seq.borrow().0 < u64::from(2 * LOSSES) {
            std::thread::yield_now();
        }
        // Now it hears of it all.
        let gone = async {
            while connection.session(true).await.is_ok_and(|key| key == session) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap();
        let holds = Query::Holds { namespace: Namespace::default(), pool: None, holder: None, after: None, limit: 1 };
        let Ok(Ok(View::Holds(holds))) = engine.query(holds).await else { panic!("no answer") };
        assert_eq!(holds.items.len(), 0, "nothing outlives the session");
    }
}

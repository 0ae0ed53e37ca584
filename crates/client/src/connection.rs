//! The connection's thread: one stream after another, and between it and the session whatever either has for the other.
//!
//! It has a runtime of its own, so that renewals go on however busy the application's threads are. All decisions are the
//! session's.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use tenure_proto::v1;
use tokio::sync::{mpsc, oneshot, watch};

use crate::error::Error;
use crate::link::{self, Api, Dialed, Link, Target};
use crate::random::pause;
use crate::session::{Ask, Broken, Identity, Note, Session};

/// Acquires that wait to be taken in; beyond it they wait in their own tasks.
pub(crate) const ASKS_MAX: usize = 1_024;
/// What is taken in before the session is looked at again.
const BATCH: usize = 1_024;
/// The pause before the next attempt to connect.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MOST: Duration = Duration::from_secs(2);

/// What the application's side says.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(crate) asks: mpsc::Receiver<Ask>,
    pub(crate) notes: mpsc::UnboundedReceiver<Note>,
}

/// Starts the thread. It tells whoever is to be greeted how the first attempt went; what is given back is for calls
/// beside the session, and why there is no connection when there is none.
pub(crate) fn start(
    target: Target,
    identity: Identity,
    ids: Arc<AtomicU64>,
    mailbox: Mailbox,
    greeting: oneshot::Sender<Result<(), Error>>,
) -> Result<(Api, watch::Receiver<Option<Error>>), Error> {
    let failed = |error: std::io::Error| Error::Unreachable {
        address: target.address.given.clone(),
        why: format!("this process cannot connect to anything: {error}"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let api = target.connect_lazy(runtime.handle());
    let (trouble, troubled) = watch::channel(None);
    let connection = Connection {
        session: Session::new(identity, ids, greeting),
        line: Line::Down { until: crate::clock::now() },
        failures: 0,
        paused: Duration::ZERO,
        opened: None,
        trouble,
        target: target.clone(),
    };
    std::thread::Builder::new()
        .name("tenure-client".to_owned())
        .spawn(move || runtime.block_on(connection.run(mailbox)))
        .map_err(failed)?;
    Ok((api, troubled))
}

struct Connection {
    session: Session,
    line: Line,
    /// Attempts in a row that came to nothing, or not for long.
    failures: u32,
    /// Before the last attempt.
    paused: Duration,
    /// Since when the session is open on this connection.
    opened: Option<Instant>,
    /// Why there is no connection.
    trouble: watch::Sender<Option<Error>>,
    target: Target,
}

enum Line {
    /// To be tried again then.
    Down {
        until: Instant,
    },
    Dialing(Pin<Box<dyn Future<Output = Result<Dialed, Error>> + Send>>),
    Up(Box<Link>),
}

/// What the line brought.
enum News {
    Dialed(Result<Dialed, Error>),
    Heard(Result<Option<v1::ServerMessage>, tonic::Status>),
    /// There is room for a message.
    Room,
}

impl Connection {
    async fn run(mut self, mut mailbox: Mailbox) {
        let (mut asks, mut notes) = (Vec::new(), Vec::new());
        let mut listening = true;
        while !self.session.is_over() {
            self.dial_if_due();
            self.speak();
            let wake = self.wake();
            let has_to_say = self.session.has_to_say();
            tokio::select! {
                // What was heard comes first: after a pause of this process it may have what the clock says is missing.
                biased;
                news = self.line.news(has_to_say) => self.news(news),
                count = mailbox.notes.recv_many(&mut notes, BATCH), if listening => {
                    let now = crate::clock::now();
                    if count == 0 {
                        // No client and no guard is left.
                        listening = false;
                        self.session.close(now, None);
                    }
                    notes.drain(..).for_each(|note| self.session.note(now, note));
                }
                _ = mailbox.asks.recv_many(&mut asks, BATCH), if listening => {
                    let now = crate::clock::now();
                    asks.drain(..).for_each(|ask| self.session.ask(now, ask));
                }
                () = sleep_until(wake) => {}
            }
            if let Err(Broken(why)) = self.session.tick(crate::clock::now()) {
                self.broken(self.unreachable(why));
            }
        }
    }

    fn wake(&self) -> Option<Instant> {
        let retry = match &self.line {
            Line::Down { until } => Some(*until),
            Line::Dialing(_) | Line::Up(_) => None,
        };
        self.session.next_due().into_iter().chain(retry).min()
    }

    fn dial_if_due(&mut self) {
        let now = crate::clock::now();
        if let Line::Down { until } = self.line
            && until <= now
        {
            let first = self.session.connecting(now);
            self.line = Line::Dialing(Box::pin(link::dial(self.target.clone(), first)));
        }
    }

    /// Says what there is to say, if the connection takes it now.
    fn speak(&mut self) {
        if let Line::Up(link) = &self.line
            && self.session.has_to_say()
            && let Ok(room) = link.outgoing.try_reserve()
            && let Some(message) = self.session.say(crate::clock::now())
        {
            room.send(message);
        }
    }

    fn news(&mut self, news: News) {
        let heard = match news {
            News::Room => return,
            News::Dialed(Ok((link, first))) => {
                self.line = Line::Up(link);
                self.hear(first)
            }
            News::Dialed(Err(error)) => Err(error),
            News::Heard(Ok(Some(message))) => self.hear(message),
            News::Heard(Ok(None)) => Err(self.unreachable("the server ended the stream".to_owned())),
            News::Heard(Err(status)) => Err(Error::of_status(&self.target.address.given, status)),
        };
        if let Err(error) = heard {
            self.broken(error);
        }
    }

    fn hear(&mut self, message: v1::ServerMessage) -> Result<(), Error> {
        let now = crate::clock::now();
        let heard = self.session.hear(now, message);
        if self.session.is_open() && self.opened.is_none() {
            self.opened = Some(now);
            self.trouble.send_replace(None);
            if self.failures > 0 {
                tracing::info!(address = self.target.address.given, "connected again");
            }
        }
        heard.map_err(|Broken(why)| self.unreachable(why))
    }

    fn unreachable(&self, why: String) -> Error {
        Error::Unreachable { address: self.target.address.given.clone(), why }
    }

    fn broken(&mut self, error: Error) {
        let now = crate::clock::now();
        // A connection that lasted longer than it was waited for is no sign of trouble; one that never lasts is.
        if self.opened.take().is_some_and(|opened| now >= opened + self.paused) {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        self.paused = pause(self.failures, PAUSE_FIRST, PAUSE_MOST);
        self.session.disconnected(now, error.clone());
        let before = self.trouble.send_replace(Some(error.clone()));
        // A server that is away is expected to come back; what keeps us out when it is there has to be mended by somebody.
        let is_news = !matches!(error, Error::Unreachable { .. })
            && before.is_none_or(|before| before.to_string() != error.to_string());
        match self.failures {
            _ if self.session.is_over() => {}
            1 => tracing::warn!(address = self.target.address.given, %error, "connection lost, connecting again"),
            _ if is_news => tracing::warn!(address = self.target.address.given, %error, "not connected, trying again"),
            _ => tracing::debug!(address = self.target.address.given, %error, pause = ?self.paused, "not connected"),
        }
        self.line = Line::Down { until: now + self.paused };
    }
}

impl Line {
    async fn news(&mut self, has_to_say: bool) -> News {
        match self {
            Self::Down { .. } => pending().await,
            Self::Dialing(dialing) => News::Dialed(dialing.await),
            Self::Up(link) => tokio::select! {
                biased;
                heard = link.incoming.message() => News::Heard(heard),
                Ok(_) = link.outgoing.reserve(), if has_to_say => News::Room,
            },
        }
    }
}

/// Or less, so that a sleep of the host is noticed soon.
async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(at) => tokio::time::sleep(crate::clock::nap(crate::clock::now(), at)).await,
        None => pending().await,
    }
}

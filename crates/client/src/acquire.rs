//! A request for a hold: said with a builder, asked when it is awaited, withdrawn when it is dropped.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tenure_proto::v1;
use tokio::sync::{oneshot, watch};

use crate::client::Handle;
use crate::error::Error;
use crate::guard::Guard;
use crate::part::Part;
use crate::random::random_id;
use crate::session::{Ask, Granted, Note, Patience, millis};

/// What a hold lasts for if nothing is said.
const TTL_DEFAULT: Duration = Duration::from_secs(30);

type OnQueued = Box<dyn Fn(&v1::Queued) + Send + Sync>;

/// What is asked of a pool. Nothing happens before it is awaited; if the future is dropped before it has answered, the
/// request is withdrawn and leaves the queue.
#[must_use = "nothing is asked before it is awaited"]
pub struct Acquire {
    handle: Arc<Handle>,
    request: v1::AcquireRequest,
    wait: Wait,
    on_queued: Option<OnQueued>,
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    Not,
    For(Duration),
    Forever,
}

impl Acquire {
    pub(crate) fn new(handle: Arc<Handle>, pool: String) -> Self {
        let request = v1::AcquireRequest { pool, ..v1::AcquireRequest::default() };
        Self { handle, request, wait: Wait::Forever, on_queued: None }.ttl(TTL_DEFAULT)
    }

    /// How many units or resources; 1 if left out.
    pub fn units(mut self, units: u32) -> Self {
        (self.request.units, self.request.all) = (Some(units), false);
        self
    }

    /// Everything there is: the writer of a read-write lock.
    pub fn all(mut self) -> Self {
        (self.request.units, self.request.all) = (None, true);
        self
    }

    /// Which resources of a pool of named ones: `gpu && mem >= 80 && !old`.
    pub fn select(mut self, expression: impl Into<String>) -> Self {
        self.request.select = Some(expression.into());
        self
    }

    /// Resources that have to be cleaned, in order to clean them: releasing them returns them clean.
    pub fn dirty(mut self) -> Self {
        self.request.dirty = true;
        self
    }

    /// The size the pool must have; a pool that is not known comes to be with it.
    pub fn size(mut self, size: u32) -> Self {
        self.request.size = Some(size);
        self
    }

    /// Something of one more pool too: all of it is granted together, as one hold, or none of it. A place in a rate window
    /// ends by itself all the same.
    pub fn and(mut self, part: impl Into<Part>) -> Self {
        self.request.also.push(part.into().0);
        self
    }

    /// Says that the holder, under whose id nobody else works, lets go of nothing it holds while this waits. Then a wait
    /// that could never end, because others wait for what the holder has, is refused at once with `deadlock`.
    pub fn holds_on(mut self) -> Self {
        self.request.holds_on = true;
        self
    }

    /// A lease of this length, renewed at a third of it for as long as the guard lives. So if nothing is said, with 30 s.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.lifetime(v1::Lifetime::Leased, Some(ttl), None)
    }

    /// A hold that lives as long as this client's session: nothing to renew, and it outlives a lost connection by the
    /// session's grace.
    pub fn until_session_ends(self) -> Self {
        self.lifetime(v1::Lifetime::Session, None, None)
    }

    /// A hold that lives as long as this client's session, and no longer than this from one renewal to the next: for as long
    /// as the guard lives it is renewed, as a lease is. So it can end sooner than after the session's grace.
    pub fn until_session_ends_or(self, ttl: Duration) -> Self {
        self.lifetime(v1::Lifetime::Session, Some(ttl), None)
    }

    /// A hold that ends only by its release, whatever becomes of this process.
    pub fn kept(self) -> Self {
        self.lifetime(v1::Lifetime::Kept, None, None)
    }

    /// A place in a rate window: it ends after this time and cannot be released earlier.
    pub fn window(self, window: Duration) -> Self {
        self.lifetime(v1::Lifetime::Window, Some(window), None)
    }

    /// A hold that ends when somebody says that its outside owner is gone.
    pub fn owner(self, owner: impl Into<String>) -> Self {
        self.lifetime(v1::Lifetime::Bound, None, Some(owner.into()))
    }

    fn lifetime(mut self, lifetime: v1::Lifetime, length: Option<Duration>, owner: Option<String>) -> Self {
        self.request.set_lifetime(lifetime);
        (self.request.ttl_ms, self.request.owner) = (length.map(millis), owner);
        self
    }

    /// Refused with `busy` if there is no room now.
    pub fn no_wait(mut self) -> Self {
        self.wait = Wait::Not;
        self
    }

    /// Refused with `timed_out` if there is no room for this long.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = if wait.is_zero() { Wait::Not } else { Wait::For(wait) };
        self
    }

    /// Waits however long it takes. So if nothing is said.
    pub fn wait_forever(mut self) -> Self {
        self.wait = Wait::Forever;
        self
    }

    /// Higher first, from -1000 to 1000; 0 if left out.
    pub fn priority(mut self, priority: i32) -> Self {
        self.request.priority = priority;
        self
    }

    /// Who asks, if not the client's holder.
    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.request.holder = holder.into();
        self
    }

    /// More about the holder, instead of what the client says about it.
    pub fn meta(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.meta.insert(name.into(), value.into());
        self
    }

    /// An id of your own, under which another process could ask for the same hold. If left out, a random one is made for
    /// every acquire, which already makes it safe to lose the connection. Should be as hard to guess as a key.
    ///
    /// Whoever uses the same id shares the request: if this future is dropped before it has answered, the request is
    /// withdrawn for all of them, and so is the hold if one of them has it already.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request.request_id = Some(id.into());
        self
    }

    /// Called with the place in the queue if the request has to wait, by the task that awaits it; again after a reconnect.
    pub fn on_queued(mut self, tell: impl Fn(&v1::Queued) + Send + Sync + 'static) -> Self {
        self.on_queued = Some(Box::new(tell));
        self
    }

    async fn ask(mut self) -> Result<Guard, Error> {
        let own_id = self.request.request_id.is_none();
        if own_id {
            self.request.request_id = Some(random_id());
        }
        let patience = match self.wait {
            Wait::Not => Patience::None,
            Wait::Forever => Patience::Endless,
            // The server refuses what is longer than any clock can say; here it only must not overflow.
            Wait::For(wait) => crate::clock::now().checked_add(wait).map_or(Patience::Endless, Patience::Until),
        };
        self.request.wait_forever = matches!(self.wait, Wait::Forever);
        if let Wait::For(wait) = self.wait {
            self.request.wait_ms = Some(millis(wait));
        }
        let (answer, answered) = oneshot::channel();
        let (progress, mut queued) = watch::channel(None);
        let id = self.handle.next_id();
        let ask = Ask { id, request: Box::new(self.request), own_id, patience, answer, progress };
        let mut waiting = Waiting { id, handle: self.handle, answered, done: false };
        waiting.handle.asks.send(ask).await.map_err(|_| Error::Closed)?;
        loop {
            tokio::select! {
                biased;
                answer = &mut waiting.answered => {
                    waiting.done = true;
                    let granted = answer.unwrap_or(Err(Error::Closed))?;
                    return Ok(Guard::new(waiting.handle.clone(), granted));
                }
                Ok(()) = queued.changed() => {
                    let told = *queued.borrow_and_update();
                    if let (Some(tell), Some(told)) = (&self.on_queued, told) {
                        tell(&told);
                    }
                }
            }
        }
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Guard, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.ask())
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the request: its id is as good as a key.
        f.debug_struct("Acquire").field("pool", &self.request.pool).field("wait", &self.wait).finish_non_exhaustive()
    }
}

/// An acquire that somebody awaits. Dropped, it is withdrawn, or released if the grant was already here.
struct Waiting {
    id: u64,
    handle: Arc<Handle>,
    answered: oneshot::Receiver<Result<Granted, Error>>,
    /// The answer was taken out.
    done: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        // After this no grant can come in: one that is here is released, one that comes finds nobody and is too.
        self.answered.close();
        let note = match self.answered.try_recv() {
            Ok(Ok(granted)) => Note::Release { hold: granted.hold, answer: None },
            _ => Note::Forget { id: self.id },
        };
        // When the connection's thread is gone there is nobody to tell.
        let _ = self.handle.notes.send(note);
    }
}

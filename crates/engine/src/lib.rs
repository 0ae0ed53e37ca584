//! What drives the rules: the trait every engine keeps, and the embedded durable engine.
//!
//! The rules themselves are in `tenure-core`. An engine brings them time, randomness, durability and
//! callers; front ends know only the trait.

pub mod answers;
mod call;
mod clock;
#[cfg(feature = "contract")]
pub mod contract;
mod courtesy;
mod desk;
mod driver;
mod embedded;
mod metrics;
mod room;
#[doc(hidden)]
pub mod simulation;
mod store;

pub use call::{Acquiring, Calls};
pub use clock::{Clock, ManualClock, SystemClock};
pub use desk::{Audience, Batch, Caller, Desk, Nonces};
pub use embedded::{Embedded, Hosting, Options};
pub use room::Room;
pub use store::*;

use std::future::Future;
use std::pin::Pin;

use tenure_core::{
    Command, Event, HolderId, Namespace, PoolName, Query, Refusal, Reply, Seq, SessionId, Timestamp, Token, View,
};
use tokio::sync::watch;

/// A thing that applies commands durably, one after another, and answers.
///
/// The contract, which `tests/contract.rs` checks: nothing is answered before it is durable; answers to
/// one caller come in the order of its commands; a caller that hangs up leaves the queue, and a grant it did
/// not receive is taken back.
pub trait Engine: Send + Sync + 'static {
    /// Hands a command over, or refuses at once if there is no room for it. An acquire that has to wait is
    /// answered twice: queued, and later what came of it. A command by which a connection comes to carry a session
    /// is answered with the session, then with each hold of it that is lost, and at last with why the connection does
    /// not carry it any more.
    fn submit(&self, command: Command, reply_to: ReplyTo) -> Result<Ticket, Failure>;

    /// Hands several commands over, in this order, each as if by itself.
    fn submit_all(&self, commands: Vec<(Command, ReplyTo)>) -> Vec<Result<Ticket, Failure>> {
        commands.into_iter().map(|(command, reply_to)| self.submit(command, reply_to)).collect()
    }

    /// Says that nobody listens for the answers of a ticket any more. If it waits, it leaves the queue or, if the
    /// caller may return, is passed over. A grant that was answered but did not reach the caller is named, and
    /// taken back.
    fn hang_up(&self, ticket: Ticket, unreceived: Option<Token>);

    /// Says that the connection which carried a session is gone. Never refused, however much there is to do: a
    /// session that is not detached never ends.
    fn detach(&self, session: SessionId, attachment: u64);

    fn query(&self, query: Query) -> Answer<Result<View, Refusal>>;

    /// Looks through what happened. Each call looks at a bounded number of events.
    fn events(&self, query: EventQuery) -> Answer<Result<EventPage, EventsGone>>;

    /// The number of the last durable event, as it grows.
    fn last_event(&self) -> watch::Receiver<Seq>;

    /// A number that grows some time after something was done here. For those who then ask anew, and need not know what
    /// it was: events may have to be fetched from afar as long as anybody waits for the last one.
    fn last_change(&self) -> watch::Receiver<Seq> {
        self.last_event()
    }

    /// Whether so many commands wait that whoever says much at once is to let others go first, as it changes.
    fn crowd(&self) -> watch::Receiver<bool>;

    /// The time by which deadlines are set.
    fn now(&self) -> Timestamp;

    /// Finishes what was handed over and refuses the rest. Resolves when everything is durable.
    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// Where the answers to a command go, and by what number the receiver knows it.
#[derive(Clone, Debug)]
pub struct ReplyTo {
    pub id: u64,
    /// Never full: a caller has one answer per command, one more per wait and a bounded number of losses, and commands
    /// are bounded.
    pub answers: answers::Sender,
    /// Whether the caller, if its connection is lost, comes back with its session and asks again by its request id:
    /// then its place in the queue is kept, and a grant that ends by itself is too.
    pub returns: bool,
}

#[derive(Debug)]
pub struct Answered {
    pub id: u64,
    pub reply: Result<Reply, Failure>,
}

/// Names a command that was handed over, for [`Engine::hang_up`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The world breaking, as opposed to a refusal, which is a normal answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("the server is overloaded: {waiting} commands are waiting already")]
    Overloaded { waiting: usize },
    #[error("the server is stopping")]
    Stopping,
    #[error("the server stopped before it answered")]
    Lost,
    #[error("the log could not be read: {0}")]
    Unreadable(String),
}

impl Failure {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Overloaded { .. } => "overloaded",
            Self::Stopping => "stopping",
            Self::Lost => "lost",
            Self::Unreadable(_) => "unreadable",
        }
    }

    /// Whether the command may have taken effect all the same.
    pub fn may_have_happened(&self) -> bool {
        matches!(self, Self::Lost)
    }
}

/// An event with its number and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub seq: Seq,
    pub at: Timestamp,
    pub event: Event,
}

/// Which events, from where, in which direction.
#[derive(Clone, Debug, Default)]
pub struct EventQuery {
    /// Only events after this one (before it, if newest first). None: from the oldest kept (or the newest).
    pub after: Option<Seq>,
    pub newest_first: bool,
    pub filter: EventFilter,
    pub limit: usize,
}

/// What is left out is not asked for.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    pub namespace: Option<Namespace>,
    pub pool: Option<PoolName>,
    pub holder: Option<HolderId>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

#[derive(Clone, Debug, Default)]
pub struct EventPage {
    pub items: Vec<Recorded>,
    /// How far the search has come: the `after` of the next call. It may be set though nothing was found yet.
    pub reached: Option<Seq>,
    /// Whether there is nothing more to look at in this direction, as of now.
    pub done: bool,
}

/// The history does not reach back that far any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("events up to {} are no longer kept; the oldest kept is {}", oldest.0.saturating_sub(1), oldest.0)]
pub struct EventsGone {
    pub oldest: Seq,
}

impl EventFilter {
    pub fn matches(&self, at: Timestamp, event: &Event) -> bool {
        let namespace = self.namespace.as_ref().is_none_or(|wanted| event.namespace() == Some(wanted));
        let pool = self.pool.as_ref().is_none_or(|wanted| event.pools().any(|pool| pool.name() == wanted));
        let holder = self.holder.as_ref().is_none_or(|wanted| event.holder() == Some(wanted));
        let since = self.since.is_none_or(|since| at >= since);
        let until = self.until.is_none_or(|until| at < until);
        namespace && pool && holder && since && until
    }
}

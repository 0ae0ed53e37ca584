//! A hold in the hands of the application: what it is, until when it is certain, how it is lost, how it is let go.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use tenure_proto::v1;
use tokio::sync::{oneshot, watch};

use crate::client::Handle;
use crate::clock;
use crate::error::Error;
use crate::session::{Granted, HoldId, Note, Standing};

/// A hold. It is renewed in the background for as long as this lives, and released when it is dropped.
#[must_use = "the hold is released when its guard is dropped"]
pub struct Guard {
    handle: Arc<Handle>,
    hold: HoldId,
    grant: v1::Grant,
    standing: watch::Receiver<Standing>,
    /// It was released, or given up.
    done: bool,
}

impl Guard {
    pub(crate) fn new(handle: Arc<Handle>, granted: Granted) -> Self {
        let Granted { hold, grant, standing } = granted;
        Self { handle, hold, grant: *grant, standing, done: false }
    }

    /// Rises with every grant. What is protected should remember the highest it has seen and refuse lower ones.
    pub fn token(&self) -> u64 {
        self.grant.token
    }

    /// The pool it is of.
    pub fn pool(&self) -> &str {
        &self.grant.pool
    }

    /// Whose pool that is.
    pub fn namespace(&self) -> &str {
        &self.grant.namespace
    }

    /// How many units, or how many resources.
    pub fn units(&self) -> u32 {
        self.grant.units
    }

    /// Which resources, if the pool has named ones.
    pub fn resources(&self) -> &[v1::Resource] {
        &self.grant.resources
    }

    /// The hold as it was granted. It contains the key: keep it out of logs.
    pub fn grant(&self) -> &v1::Grant {
        &self.grant
    }

    /// Resolves when the hold is gone, or can no longer be known to be there: stop using what it protects. At once if
    /// that is so already. The future does not borrow the guard, so that another task can watch: when the guard is released,
    /// dropped or kept, it resolves as [`Lost::LetGo`].
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + use<> {
        let mut standing = self.standing.clone();
        async move {
            match standing.wait_for(|standing| standing.lost().is_some()).await {
                Ok(standing) => standing.lost().expect("it was waited for"),
                Err(_) => Lost::Closed,
            }
        }
    }

    /// Whether the hold is gone, or cannot be known to be there. Looks at the clock: true even if this process was paused
    /// and nothing else in it has noticed yet.
    pub fn is_lost(&self) -> bool {
        let standing = self.standing.borrow();
        standing.lost().is_some() || self.standing.has_changed().is_err()
    }

    /// Until when the hold is certainly ours, as that changes.
    pub fn deadlines(&self) -> Deadlines {
        Deadlines { standing: self.standing.clone() }
    }

    /// Ends the hold, and waits until the server has confirmed it. Refused with `not_held` if it was over already. A
    /// place in a rate window cannot be given back, and is left to end by itself.
    pub async fn release(mut self) -> Result<(), Error> {
        self.done = true;
        let (answer, answered) = oneshot::channel();
        let closed = |standing: &watch::Receiver<Standing>| match standing.borrow().lost() {
            // Closing released it.
            Some(Lost::Closed) => Ok(()),
            _ => Err(Error::Closed),
        };
        if self.handle.notes.send(Note::Release { hold: self.hold, answer: Some(answer) }).is_err() {
            return closed(&self.standing);
        }
        match answered.await {
            Ok(answer) => answer,
            Err(_) => closed(&self.standing),
        }
    }

    /// Gives up the guard and not the hold, which goes on as long as its lifetime says: a lease is no longer renewed.
    /// Whoever has the key in the grant may renew or release it.
    pub fn keep(mut self) -> v1::Grant {
        self.done = true;
        // When the connection's thread is gone there is nobody who would renew it.
        let _ = self.handle.notes.send(Note::Keep { hold: self.hold });
        std::mem::take(&mut self.grant)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.done {
            let _ = self.handle.notes.send(Note::Release { hold: self.hold, answer: None });
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut guard = f.debug_struct("Guard");
        guard.field("pool", &self.grant.pool).field("token", &self.grant.token).field("units", &self.grant.units);
        guard.finish_non_exhaustive()
    }
}

/// Until when a hold is certainly ours: on this process's clock, counted from before the server was asked.
///
/// An [`Instant`] does not move while the host is suspended, though the server's time does. What is given here is right at
/// the moment it is given, with every sleep so far taken into account; after another sleep it is too late by as much, so
/// ask again, or rely on [`Guard::lost`] and [`Guard::is_lost`], which know of it.
#[derive(Clone, Debug)]
pub struct Deadlines {
    standing: watch::Receiver<Standing>,
}

impl Deadlines {
    /// None if the hold does not end by time, such as a kept one. Of a hold that is lost, when it was, or earlier.
    pub fn current(&self) -> Option<Instant> {
        self.standing.borrow().until.map(clock::of_system)
    }

    /// Waits for the next change, and gives what is current then. Nothing changes once the hold is lost: from then on
    /// this waits for ever, so await [`Guard::lost`] beside it.
    pub async fn changed(&mut self) -> Option<Instant> {
        loop {
            if self.standing.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            let standing = self.standing.borrow_and_update();
            if standing.lost().is_none() {
                return standing.until.map(clock::of_system);
            }
        }
    }
}

/// How a hold was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Its time ran out on the server.
    Expired,
    /// An operator ended it, for this reason.
    Forced { note: String },
    /// The session it lived as long as is over.
    SessionEnded,
    /// Somebody said that its outside owner is gone.
    OwnerGone,
    /// Somebody with its key released it.
    Released,
    /// Its guard was released, dropped or kept: nobody took it away.
    LetGo,
    /// It could not be renewed in time, because the server did not answer. It may be there, or somebody else's.
    Unreachable,
    /// The client was closed, and released it.
    Closed,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("its time ran out"),
            Self::Forced { note } => write!(f, "an operator ended it: {note}"),
            Self::SessionEnded => f.write_str("its session is over"),
            Self::OwnerGone => f.write_str("its owner is gone"),
            Self::Released => f.write_str("somebody else released it"),
            Self::LetGo => f.write_str("it was let go"),
            Self::Unreachable => f.write_str("the server could not be reached in time"),
            Self::Closed => f.write_str("the client was closed"),
        }
    }
}

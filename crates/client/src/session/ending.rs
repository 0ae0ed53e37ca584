//! The end of a session: everything is let go of first, and the end is said last.

use std::time::Instant;

use tokio::sync::oneshot;

use super::request::What;
use super::{CALL_PATIENCE, Session, Stage};
use crate::error::Error;

pub(super) struct Ending {
    /// Whoever waits for it.
    answers: Vec<oneshot::Sender<Result<(), Error>>>,
    pub(super) give_up: Instant,
    /// On this connection.
    pub(super) said: bool,
}

impl Session {
    /// Lets go of everything and ends the session, as soon as the server can be told.
    pub(crate) fn close(&mut self, now: Instant, answer: Option<oneshot::Sender<Result<(), Error>>>) {
        if let Some(ending) = &mut self.ending {
            return ending.answers.extend(answer);
        }
        self.refuse_all_asks();
        self.release_all(now);
        let give_up = now + CALL_PATIENCE;
        self.ending = Some(Ending { answers: answer.into_iter().collect(), give_up, said: false });
    }

    pub(super) fn end(&mut self, outcome: Result<(), Error>) {
        self.stage = Stage::Over;
        self.refuse_all_asks();
        self.lose_all();
        for answer in self.ending.take().map(|ending| ending.answers).unwrap_or_default() {
            let _ = answer.send(outcome.clone());
        }
    }

    /// The end is said when everything else has been answered: the server listens to nothing after it.
    pub(super) fn may_end(&self) -> bool {
        self.is_open() && self.ending.as_ref().is_some_and(|ending| !ending.said) && self.is_settled()
    }

    /// Nothing waits for an answer that anybody would miss.
    pub(super) fn is_settled(&self) -> bool {
        self.requests.values().all(|request| matches!(request.what, What::Ping | What::Renew { .. } | What::End))
    }
}

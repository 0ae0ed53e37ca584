//! What applies mail, and knows nothing of who runs it: a thread of its own ([`super::threads`]) or somebody else's
//! ([`super::hosted`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use tenure_core::Timestamp;

use super::Letter;
use crate::driver::{Driver, Mail, Prepared};
use crate::{Answered, Clock, Failure, Room};

/// Takes mail and makes batches of it.
pub(super) struct Writer {
    pub(super) driver: Driver,
    pub(super) mailbox: Receiver<Letter>,
    /// Mail that was taken out of the mailbox, and is not yet handled.
    pub(super) inbox: VecDeque<Mail>,
    /// For the commands in the mailbox and in the inbox.
    pub(super) room: Arc<Room>,
    pub(super) clock: Arc<dyn Clock>,
}

pub(super) struct Batch {
    pub(super) prepared: Prepared,
    pub(super) last: bool,
}

/// What became of mail that was handled.
pub(super) enum Handled {
    /// The batch goes on.
    Open,
    /// The engine stops, and the batch is its last.
    Last,
    /// It is over, and there is no batch.
    Aborted,
}

impl Writer {
    pub(super) fn restart(&mut self) -> Prepared {
        let at = self.time();
        self.driver.restart(at)
    }

    /// Opens a batch, at a time that no mail in the inbox can be later than.
    pub(super) fn begin(&mut self) -> Timestamp {
        let at = self.time();
        self.driver.begin(at);
        at
    }

    fn time(&self) -> Timestamp {
        self.clock.now().max(self.driver.now())
    }

    /// Handles the next of the inbox, which has one.
    pub(super) fn handle_next(&mut self) -> Handled {
        let mail = self.inbox.pop_front().expect("whoever handles mail has gathered it");
        match &mail {
            Mail::Command { .. } | Mail::Query { .. } => {
                self.room.leave(1);
            }
            Mail::Stop => return Handled::Last,
            Mail::Abort => return Handled::Aborted,
            Mail::HangUp { .. } | Mail::Detach { .. } | Mail::Tick { .. } => {}
        }
        self.driver.handle(mail);
        Handled::Open
    }

    /// Those who wait are told that they wait in vain, and so are commands that came too late. What was given up in
    /// the meantime is given up.
    pub(super) fn last_batch(&mut self) -> Batch {
        self.driver.handle(Mail::Stop);
        self.empty_mailbox();
        while let Some(mail) = self.inbox.pop_front() {
            match mail {
                Mail::Command { reply_to, .. } => {
                    let refused = Answered { id: reply_to.id, reply: Err(Failure::Stopping) };
                    // Whoever does not listen need not know.
                    let _ = reply_to.answers.send(refused);
                }
                mail if !self.driver.is_full() => self.driver.handle(mail),
                _ => {}
            }
        }
        Batch { prepared: self.driver.finish_for_good(), last: true }
    }

    /// How long nothing is due; none if only mail can tell.
    pub(super) fn until_due(&self) -> Option<Duration> {
        self.driver.next_deadline().and_then(|deadline| self.clock.until(deadline))
    }

    /// Takes what is in the mailbox.
    pub(super) fn empty_mailbox(&mut self) {
        while let Ok(letter) = self.mailbox.try_recv() {
            self.open(letter);
        }
    }

    pub(super) fn open(&mut self, letter: Letter) {
        match letter {
            Letter::Mail(mail) => self.inbox.push_back(mail),
            Letter::Commands(commands) => self.inbox.extend(commands),
            Letter::Committed => {}
        }
    }
}

//! Mistakes that can be made around the rules and the driver, without touching them: in what they are told, in what is done
//! with their answers, and in what they are made to run on. The others are [`tenure_core::mutation::Mistake`]s.

use tenure_core::*;

use crate::model::Heard;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A commit returns before it is on the disk.
    SyncsNothing,
    /// The server goes on after a failed sync.
    IgnoresDiskErrors,
    /// Rows reach the disk though the log entry that they came with does not.
    WritesRowsFirst,
    /// Request ids do not survive a restart.
    ForgetsRequests,
    /// After a restart every lease has a second more than was told.
    ProlongsLeases,
    /// After a restart tokens go on from half of where they were.
    ReusesTokens,
    /// A new process does not say that those who waited are gone.
    SkipsTheRestart,
    /// The engine's time is the wall clock.
    FollowsTheWallClock,
    /// After a restart time goes on from the wall clock, though that was set back.
    ForgetsTheTime,
    /// Nobody wakes up for a deadline.
    Oversleeps,
    /// A caller that hangs up is not missed.
    IgnoresHangUps,
    /// A grant that found nobody stays where it is.
    LosesReturnedGrants,
    /// A lost connection is not missed.
    IgnoresDetachment,
    /// Everybody has the same priority.
    IgnoresPriority,
    /// A key is good for any pool.
    IgnoresThePoolOfAKey,
    /// A repeated request is a new one.
    IgnoresRequestIds,
    /// Some answers are not sent.
    LosesAnswers,
}

impl Sabotage {
    /// What the driver is told instead.
    pub(crate) fn garble(self, heard: &Heard) -> Option<Heard> {
        match (self, heard.clone()) {
            (Self::IgnoresHangUps, Heard::HangUp { .. }) | (Self::IgnoresDetachment, Heard::Detach { .. }) => None,
            (Self::IgnoresPriority, Heard::Command { ticket, command: Command::Acquire(acquire), returns }) => {
                let command = Command::Acquire(Acquire { priority: Priority::default(), ..acquire });
                Some(Heard::Command { ticket, command, returns })
            }
            (Self::IgnoresRequestIds, Heard::Command { ticket, command: Command::Acquire(acquire), returns }) => {
                Some(Heard::Command {
                    ticket,
                    command: Command::Acquire(Acquire { request: None, ..acquire }),
                    returns,
                })
            }
            (Self::IgnoresThePoolOfAKey, Heard::Command { ticket, command: Command::Release(release), returns }) => {
                Some(Heard::Command { ticket, command: Command::Release(Release { pool: None, ..release }), returns })
            }
            (_, heard) => Some(heard),
        }
    }

    pub(crate) fn rewrites_events(self) -> bool {
        matches!(self, Self::ForgetsRequests | Self::ProlongsLeases)
    }

    /// What the log has instead.
    pub(crate) fn rewrite(self, event: Event) -> Event {
        match (self, event) {
            (Self::ForgetsRequests, Event::Granted { token, mut hold, waiter }) => {
                hold.request = None;
                Event::Granted { token, hold, waiter }
            }
            (Self::ProlongsLeases, Event::Granted { token, mut hold, waiter }) => {
                hold.deadline = hold.deadline.map(|deadline| deadline + Ttl::from_millis(1_000));
                Event::Granted { token, hold, waiter }
            }
            (_, event) => event,
        }
    }
}

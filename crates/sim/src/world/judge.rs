//! What is checked, and when: every batch as it is made, every event as it becomes durable, every answer as it leaves, and the
//! disk after syncs.

use tenure_core::{Reply, Timestamp, Token};
use tenure_engine::simulation::{Delivery, Prepared};
use tenure_engine::{Entry, Failure, Ticket};

use super::network::Connection;
use super::process::Process;
use super::{Violation, World, wrong};
use crate::counts::Counts;
use crate::invariants::{Answer, Applied, Invariant, Looked};
use crate::model::{Heard, same_answer};

impl World<'_> {
    /// Compares a batch with the model, and lets the invariants look at it.
    pub(super) fn compare(
        &mut self,
        process: &Process,
        prepared: &Prepared,
        at: Timestamp,
        restart: bool,
        heard: &[Heard],
        events: &[tenure_core::Event],
    ) -> Result<(), Violation> {
        self.batches += 1;
        if self.options.only.is_some() {
            for (ticket, _) in prepared.deliveries.iter().filter_map(|delivery| delivery.reply()) {
                self.rests.entry(ticket.0).or_default().push((self.batches, prepared.last));
            }
            return self.look(process, prepared, at, heard);
        }
        let differs = |how: String| wrong("the reference model", how);
        let expected = self.model.batch(at, restart, heard, events).map_err(differs)?;
        let mut found: Vec<(Ticket, &Result<_, Failure>)> =
            prepared.deliveries.iter().filter_map(|delivery| delivery.reply()).collect();
        for (ticket, expected) in &expected {
            self.rests.entry(ticket.0).or_default().push((self.batches, prepared.last));
            let Some(at) = found.iter().position(|(other, _)| other == ticket) else {
                return Err(differs(format!("ticket {} should be answered {expected:?}", ticket.0)));
            };
            let (_, answer) = found.remove(at);
            self.model.check_cycle(*ticket, answer).map_err(differs)?;
            if !same_answer(expected, answer) {
                return Err(differs(format!("ticket {}: expected {expected:?}, found {answer:?}", ticket.0)));
            }
        }
        if let Some((ticket, answer)) = found.first() {
            return Err(differs(format!("ticket {} was answered {answer:?} and should not be", ticket.0)));
        }
        self.model.compare(process.state()).map_err(differs)?;
        self.look(process, prepared, at, heard)
    }

    fn look(
        &mut self,
        process: &Process,
        prepared: &Prepared,
        at: Timestamp,
        heard: &[Heard],
    ) -> Result<(), Violation> {
        let now = process.expected_now(process.begun);
        let replies = prepared.deliveries.iter().filter_map(|delivery| delivery.reply());
        let answers: Vec<_> = replies.filter_map(|(ticket, reply)| Some((ticket, reply.as_ref().ok()?))).collect();
        let (entry, state) = (prepared.commit.entry.as_deref(), process.state());
        let applied = Applied { at, now, heard, entry, answers: &answers, state };
        self.check(|invariant| invariant.applied(&applied))
    }

    /// Takes note of a durable entry.
    pub(super) fn observe(&mut self, entry: &Entry) -> Result<(), Violation> {
        for event in &entry.events {
            let Self { invariants, counts, ledger, .. } = self;
            look_all(invariants, counts, |invariant| invariant.event(ledger, entry.at, event))?;
            self.ledger.note(event);
            self.durable.evolve(entry.at, event);
            self.counts.events += 1;
        }
        self.observed = entry.last();
        Ok(())
    }

    /// An answer leaves the engine.
    pub(super) fn answered(
        &mut self,
        ticket: tenure_engine::Ticket,
        reply: &Result<Reply, Failure>,
    ) -> Result<(), Violation> {
        let rests = self.rests.entry(ticket.0).or_default();
        if rests.is_empty() {
            return Err(wrong("the reference model", format!("ticket {} was answered once too often", ticket.0)));
        }
        let (_, rests_on) = rests.remove(0);
        self.counts.answers += 1;
        let Ok(reply) = reply else { return Ok(()) };
        *self.counts.replies.entry(kind(reply)).or_default() += 1;
        let answer = Answer { ticket, reply, rests_on, durable: self.disk.durable() };
        self.check(|invariant| invariant.answered(&answer))
    }

    pub(super) fn check(&mut self, look: impl Fn(&mut dyn Invariant) -> Looked) -> Result<(), Violation> {
        look_all(&mut self.invariants, &mut self.counts, look)
    }

    pub(super) fn check_idle(&mut self) -> Result<(), Violation> {
        let Some(process) = &self.process else { return Ok(()) };
        if process.is_busy(self.time) {
            return Ok(());
        }
        let now = process.expected_now(self.time);
        self.check(|invariant| invariant.idle(now))
    }

    /// The answers to a ticket that should have been passed on by now.
    pub(super) fn check_nothing_is_missing(&self, ticket: u64) -> Result<(), Violation> {
        match self.rests.get(&ticket).and_then(|rests| rests.first()) {
            Some((batch, _)) if *batch <= self.committed => {
                Err(wrong("the reference model", format!("an answer to ticket {ticket} was never sent")))
            }
            _ => Ok(()),
        }
    }

    /// If the machine stopped now, this is what would be found, whatever the database has of what was not synced.
    pub(super) fn look_at_the_disk(&mut self) -> Result<(), Violation> {
        let Some(process) = &mut self.process else { return Ok(()) };
        // Reading everything back takes longer than all the rest: with many seeds, some syncs of each will do.
        if !process.random.one_in(4) {
            return Ok(());
        }
        let kept = process.random.below(self.disk.unsynced() as u64 + 1);
        let kept = usize::try_from(kept).expect("there are few");
        let found = self.disk.look(kept).map_err(|error| wrong("replay equals state", error.to_string()))?;
        self.counts.recoveries += 1;
        if found == self.durable {
            return Ok(());
        }
        Err(wrong("replay equals state", "a crash right now would leave another state than was made durable"))
    }
}

fn look_all(
    invariants: &mut [Box<dyn Invariant>],
    counts: &mut Counts,
    look: impl Fn(&mut dyn Invariant) -> Looked,
) -> Result<(), Violation> {
    for invariant in invariants {
        let looked = look(&mut **invariant).map_err(|how| wrong(invariant.name(), how))?;
        counts.check(invariant.name(), looked);
    }
    Ok(())
}

/// The grants of a batch whose callers are gone, and do not come back for them.
pub(super) fn unreceived(connections: &[Connection], deliveries: &[Delivery]) -> Vec<(Ticket, Token)> {
    let answers = deliveries.iter().filter_map(|delivery| delivery.reply());
    let grants = answers.filter_map(|(ticket, reply)| match reply {
        Ok(Reply::Granted(grant)) => Some((ticket, grant)),
        _ => None,
    });
    grants
        .filter(|(ticket, grant)| {
            let line = connections.iter().find(|line| line.has_ticket(*ticket));
            line.is_none_or(|line| !(line.is_there() || line.returns(*ticket) && grant.ends_by_itself()))
        })
        .map(|(ticket, grant)| (ticket, grant.token))
        .collect()
}

fn kind(reply: &Reply) -> &'static str {
    match reply {
        Reply::Granted(_) => "granted",
        Reply::Queued(_) => "queued",
        Reply::Renewed { .. } => "renewed",
        Reply::Released { .. } => "released",
        Reply::Withdrawn => "withdrawn",
        Reply::OwnerGone { .. } => "owner gone",
        Reply::Session(_) => "session",
        Reply::Lost(_) => "lost",
        Reply::Done => "done",
        Reply::PoolSet { .. } => "pool set",
        Reply::PoolRemoved { .. } => "pool removed",
        Reply::Refused(refusal) => refusal.code(),
    }
}

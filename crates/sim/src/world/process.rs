//! The server's process: the real driver and the real committer, and around them what the embedded engine's two threads do,
//! as steps in time. While one batch is being synced the next is applied; a third waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use tenure_core::{Seq, State, Timestamp};
use tenure_engine::simulation::{Committer, Driver, Mail, Prepared, sleep};
use tenure_engine::{Commit, Entry, Failure, ReplyTo};

use super::judge::unreceived;
use super::{Happening, Violation, World, brief, wrong};
use crate::model::{Heard, Model};
use crate::plan::Micros;
use crate::random::Random;
use crate::sabotage::Sabotage;

/// A batch this small is committed by the writer itself, if nothing is before it.
const COMMANDS_WITHOUT_HANDOVER_MAX: usize = 4;

#[derive(Debug)]
pub(super) struct Process {
    pub(super) incarnation: u64,
    pub(super) driver: Driver,
    pub(super) committer: Committer,
    pub(super) returns: Receiver<Mail>,
    pub(super) mailbox: VecDeque<Letter>,
    pub(super) committing: VecDeque<Committing>,
    /// The writer commits by itself and takes no mail meanwhile.
    pub(super) inline: bool,
    pub(super) work_at: Option<Micros>,
    /// By its clock, and by what its clock should show.
    pub(super) origin_millis: u64,
    pub(super) expected_origin_millis: u64,
    pub(super) wall_offset_millis: i64,
    pub(super) started: Micros,
    pub(super) random: Random,
    pub(super) stopping: bool,
}

#[derive(Debug)]
pub(super) struct Letter {
    pub(super) heard: Heard,
    pub(super) reply_to: Option<ReplyTo>,
}

/// A batch on its way to the disk.
#[derive(Debug)]
pub(super) struct Committing {
    number: u64,
    prepared: Prepared,
    model: Model,
    entry: Option<Arc<Entry>>,
    last: Seq,
    is_last: bool,
}

impl Process {
    pub(super) fn state(&self) -> &State {
        self.driver.state()
    }

    /// The batch that is being written.
    pub(super) fn writing(&self) -> Option<&Commit> {
        self.committing.front().map(|batch| &batch.prepared.commit)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Whether it is doing something, or is just about to.
    pub(super) fn is_busy(&self, time: Micros) -> bool {
        self.is_blocked() || self.stopping || self.work_at.is_some_and(|at| at <= time)
    }

    fn is_blocked(&self) -> bool {
        self.committing.len() >= 2 || self.inline && !self.committing.is_empty()
    }

    /// What the engine's time should be.
    pub(super) fn expected_now(&self, time: Micros) -> Timestamp {
        Timestamp::from_millis(self.expected_origin_millis + (time - self.started) / 1_000)
    }
}

impl World<'_> {
    /// What the process takes the time to be.
    pub(super) fn now(&self, process: &Process) -> Timestamp {
        match self.options.sabotage {
            Some(Sabotage::FollowsTheWallClock) => {
                let set_by = self.wall_offset_millis - process.wall_offset_millis;
                let now = process.expected_now(self.time).as_millis();
                Timestamp::from_millis(now.saturating_add_signed(set_by))
            }
            _ => Timestamp::from_millis(process.origin_millis + (self.time - process.started) / 1_000),
        }
    }

    pub(super) fn post(&mut self, heard: Heard, reply_to: Option<ReplyTo>) {
        let Some(process) = &mut self.process else { return };
        process.mailbox.push_back(Letter { heard, reply_to });
        let linger = process.random.below(400);
        self.work_by(self.time + linger);
    }

    /// The writer looks into its mailbox at this time or earlier.
    fn work_by(&mut self, time: Micros) {
        let Some(process) = &mut self.process else { return };
        if process.work_at.is_none_or(|at| at > time) {
            process.work_at = Some(time);
            let incarnation = process.incarnation;
            self.at(time, Happening::Work { incarnation });
        }
    }

    /// Sets the alarm for the next deadline, as the writer does before it sleeps.
    pub(super) fn wake_up(&mut self) {
        let Some(process) = &self.process else { return };
        if self.options.sabotage == Some(Sabotage::Oversleeps) {
            return;
        }
        if let Some(deadline) = process.driver.next_deadline() {
            let wait = sleep(self.now(process), deadline);
            let wait = u64::try_from(wait.as_micros()).expect("a deadline is less than an age away");
            self.work_by(self.time.saturating_add(wait));
        }
    }

    pub(super) fn work(&mut self, incarnation: u64) -> Result<(), Violation> {
        let Some(mut process) = self.process.take_if(|process| process.incarnation == incarnation) else {
            return Ok(());
        };
        if process.work_at.is_none_or(|at| at > self.time) || process.stopping {
            self.process = Some(process);
            return Ok(());
        }
        process.work_at = None;
        if process.is_blocked() {
            self.process = Some(process);
            return Ok(());
        }
        let at = self.now(&process).max(process.driver.now());
        let mut heard = Vec::new();
        process.driver.begin(at);
        while !process.driver.is_full()
            && let Some(letter) = process.mailbox.pop_front()
        {
            heard.push(letter.heard.clone());
            self.handle(&mut process, letter);
        }
        let prepared = process.driver.finish();
        self.process = Some(process);
        self.commit(prepared, at, false, &heard)?;
        self.wake_up();
        Ok(())
    }

    fn handle(&mut self, process: &mut Process, letter: Letter) {
        let Letter { heard, reply_to } = letter;
        self.note(|| format!("  <- {heard:?}"));
        let told = match self.options.sabotage {
            Some(sabotage) => sabotage.garble(&heard),
            None => Some(heard),
        };
        let mail = match told {
            Some(Heard::Command { ticket, command, .. }) => {
                Mail::Command { ticket, command, reply_to: reply_to.expect("a command has somebody to answer to") }
            }
            Some(Heard::HangUp { ticket, unreceived }) => Mail::HangUp { ticket, unreceived },
            Some(Heard::Detach { session, attachment }) => Mail::Detach { session, attachment },
            Some(Heard::Stop) => Mail::Stop,
            None => return,
        };
        process.driver.handle(mail);
    }

    /// Has a batch compared with the model and hands it to the committer.
    pub(super) fn commit(
        &mut self,
        prepared: Prepared,
        at: Timestamp,
        restart: bool,
        heard: &[Heard],
    ) -> Result<(), Violation> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let entry = prepared.commit.entry.clone();
        let events = entry.as_ref().map_or(&[][..], |entry| &entry.events);
        let checked = self.compare(&process, &prepared, at, restart, heard, events);
        if checked.is_ok() && prepared.is_empty() {
            self.process = Some(process);
            return Ok(());
        }
        self.counts.batches += 1;
        let writes = prepared.commit.rows.as_ref().map_or(0, |rows| rows.len());
        self.note(|| {
            format!("BATCH {}{}", brief(entry.as_ref()), if writes > 0 { "\n                 with rows" } else { "" })
        });
        for delivery in &prepared.deliveries {
            if let Some((ticket, reply)) = delivery.reply() {
                self.note(|| format!("  -> {} {reply:?}", ticket.0));
            }
        }
        checked?;
        let is_first = process.committing.is_empty();
        process.inline = is_first && prepared.commands <= COMMANDS_WITHOUT_HANDOVER_MAX;
        let last = prepared.last;
        let is_last = heard.iter().any(|heard| matches!(heard, Heard::Stop));
        let (number, model) = (self.batches, self.model.clone());
        process.committing.push_back(Committing { number, prepared, model, entry, last, is_last });
        self.process = Some(process);
        if is_first {
            self.sync_next();
        }
        Ok(())
    }

    /// The batch at the front goes to the disk.
    fn sync_next(&mut self) {
        let slow = self.disk_slow.filter(|(until, _)| *until > self.time).map(|(_, micros)| u64::from(micros));
        let Some(process) = &mut self.process else { return };
        let micros = slow.unwrap_or_else(|| process.random.between(100, 1_500));
        let incarnation = process.incarnation;
        self.later(micros, Happening::Synced { incarnation });
    }

    pub(super) fn synced(&mut self, incarnation: u64) -> Result<(), Violation> {
        let Some(process) = self.process.as_mut().filter(|process| process.incarnation == incarnation) else {
            return Ok(());
        };
        let Some(batch) = process.committing.pop_front() else { return Ok(()) };
        process.inline = false;
        let Committing { number, prepared, model, entry, last, is_last } = batch;
        let unreceived = unreceived(&self.connections, &prepared);
        if !(process.committer.commit(prepared) && process.committer.follow()) {
            self.note(|| "the sync FAILED".into());
            self.counts.fault("failed sync");
            self.written_model = Some((last, model));
            // What was sent before the end is sent.
            self.pass_on_everything()?;
            self.end_process();
            return Ok(());
        }
        let mut returned: Vec<Mail> = process.returns.try_iter().collect();
        if self.options.sabotage == Some(Sabotage::LosesReturnedGrants) {
            returned.clear();
        }
        self.committed = number;
        let bytes = self.disk.bytes();
        self.note(|| format!("SYNCED up to {}, all bytes {bytes:016x}", last.0));
        if let Some(entry) = &entry {
            self.observe(entry)?;
        }
        self.durable_model = (last, model);
        self.look_at_the_disk()?;
        let mut returns = Vec::new();
        for mail in returned {
            let Mail::HangUp { ticket, unreceived: Some(token) } = mail else { unreachable!("only grants come back") };
            returns.push((ticket, token));
            self.post(Heard::HangUp { ticket, unreceived: Some(token) }, None);
        }
        if returns != unreceived {
            let how = format!("{unreceived:?} were granted to nobody, and {returns:?} came back");
            return Err(wrong("a grant that nobody received is taken back", how));
        }
        if is_last {
            self.pass_on_everything()?;
            self.end_process();
            return Ok(());
        }
        self.schedule_passing_on();
        if self.process.as_ref().is_some_and(|process| !process.committing.is_empty()) {
            self.sync_next();
        }
        self.work_by(self.time);
        Ok(())
    }

    /// The process is gone, whatever it was doing.
    pub(super) fn end_process(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        if let Some(Committing { model, last, .. }) = process.committing.pop_front() {
            // If a batch has failed already, this one was never begun.
            self.written_model.get_or_insert((last, model));
        }
        self.note(|| "the process ENDED".into());
        self.disconnect_everybody();
        let down = u64::from(self.down_millis) * 1_000 + 1_000;
        self.later(down, Happening::Start);
    }

    /// Finishes what was handed over and refuses the rest.
    pub(super) fn stop_process(&mut self) -> Result<(), Violation> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        if process.is_blocked() || process.stopping {
            // Somebody who asks a busy server to stop waits; a plan asks once.
            self.process = Some(process);
            return Ok(());
        }
        let at = self.now(&process).max(process.driver.now());
        process.driver.begin(at);
        let mut heard = vec![Heard::Stop];
        self.handle(&mut process, Letter { heard: Heard::Stop, reply_to: None });
        for letter in std::mem::take(&mut process.mailbox) {
            match (letter.reply_to, &letter.heard) {
                (Some(reply_to), Heard::Command { ticket, .. }) => {
                    let refused = tenure_engine::Answered { id: reply_to.id, reply: Err(Failure::Stopping) };
                    self.rests.entry(ticket.0).or_default().push((self.batches, Seq(0)));
                    // Whoever does not listen need not know.
                    let _ = reply_to.answers.send(refused);
                }
                (reply_to, _) => {
                    heard.push(letter.heard.clone());
                    self.handle(&mut process, Letter { heard: letter.heard, reply_to });
                }
            }
        }
        let prepared = process.driver.finish_for_good();
        process.stopping = true;
        self.process = Some(process);
        if prepared.is_empty() {
            self.end_process();
            return Ok(());
        }
        self.commit(prepared, at, false, &heard)
    }
}

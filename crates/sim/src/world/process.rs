//! The server's process: the real driver and the real committer, and around them what the embedded engine does, as steps in time. There are
//! two kinds. In one, as with two threads, the next batch is applied and closed while one is being synced, and a third waits. In the other,
//! as on machines of few processors, the next is only closed when the disk is free, and rows come after the answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::task::{Context, Poll, Waker};

use tenure_core::{Seq, State, Timestamp};
use tenure_engine::simulation::{BATCH_MILLIS_MAX, Committer, Driver, Mail, Prepared, sleep};
use tenure_engine::{Entry, Failure, ReplyTo, Store};

use super::judge::unreceived;
use super::{Happening, Violation, World, brief, wrong};
use crate::model::{Heard, Model};
use crate::plan::{Left, Micros};
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
    /// Of the second kind.
    pub(super) is_hosted: bool,
    /// The batch that is open while another is being synced, in the second kind.
    pub(super) open: Option<Open>,
    /// When the last batch was begun.
    pub(super) begun: Micros,
    pub(super) work_at: Option<Micros>,
    /// By its clock, and by what its clock should show.
    pub(super) origin_millis: u64,
    pub(super) expected_origin_millis: u64,
    pub(super) wall_offset_millis: i64,
    pub(super) started: Micros,
    pub(super) random: Random,
    pub(super) stopping: bool,
    /// What was committed last is still to be followed up.
    pub(super) follow_late: bool,
}

#[derive(Debug)]
pub(super) struct Letter {
    pub(super) heard: Heard,
    pub(super) reply_to: Option<ReplyTo>,
}

/// When it was begun, and what it has heard.
#[derive(Debug)]
pub(super) struct Open {
    at: Timestamp,
    heard: Vec<Heard>,
}

/// A batch on its way to the disk.
#[derive(Debug)]
pub(super) struct Committing {
    number: u64,
    /// None once the disk has it.
    prepared: Option<Prepared>,
    model: Model,
    entry: Option<Arc<Entry>>,
    last: Seq,
    is_last: bool,
}

impl Process {
    pub(super) fn state(&self) -> &State {
        self.driver.state()
    }

    /// A batch is being written.
    pub(super) fn is_writing(&self) -> bool {
        self.committing.front().is_some_and(|batch| batch.entry.is_some())
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Whether it is doing something, or is just about to.
    pub(super) fn is_busy(&self, time: Micros) -> bool {
        let is_at_work = self.stopping || self.open.is_some() || self.work_at.is_some_and(|at| at <= time);
        self.is_blocked() || is_at_work
    }

    fn is_blocked(&self) -> bool {
        self.committing.len() >= 2 || self.inline && !self.committing.is_empty()
    }

    /// What nobody waits for, and comes after the answers.
    fn follow(&mut self) {
        // They are as of the last batch that was closed.
        if self.is_hosted
            && self.open.is_none()
            && let Some(rows) = self.driver.rows_due()
        {
            self.committer.add_rows(rows);
        }
        assert!(self.committer.follow(), "nothing fails there");
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
        let now = self.now(&process).max(process.driver.now());
        let mut open = process.open.take().unwrap_or_else(|| {
            process.begun = self.time;
            process.driver.begin(now);
            Open { at: now, heard: Vec::new() }
        });
        while !process.driver.is_full()
            && now.millis_since(open.at) <= BATCH_MILLIS_MAX
            && let Some(letter) = process.mailbox.pop_front()
        {
            open.heard.push(letter.heard.clone());
            self.handle(&mut process, letter);
        }
        if process.is_hosted && !process.committing.is_empty() {
            process.open = Some(open);
            self.process = Some(process);
            return Ok(());
        }
        let prepared = match process.is_hosted {
            true => process.driver.finish_without_rows(),
            false => process.driver.finish(),
        };
        self.process = Some(process);
        self.commit(prepared, open.at, false, &open.heard)?;
        self.wake_up();
        let has_mail = |process: &Process| !process.mailbox.is_empty() && !process.is_blocked();
        if self.process.as_ref().is_some_and(has_mail) {
            self.work_by(self.time);
        }
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
        process.inline = match process.is_hosted {
            // Large ones go on beside, and what is large is small here.
            true => process.random.one_in(2),
            false => is_first && prepared.commands <= COMMANDS_WITHOUT_HANDOVER_MAX,
        };
        let last = prepared.last;
        let is_last = heard.iter().any(|heard| matches!(heard, Heard::Stop));
        let (number, model) = (self.batches, self.model.clone());
        process.committing.push_back(Committing { number, prepared: Some(prepared), model, entry, last, is_last });
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
        // Otherwise a thread waits for it, and does nothing else before it returns.
        if process.is_hosted && !process.inline {
            let batch = process.committing.front_mut().expect("somebody has put it there");
            let prepared = batch.prepared.take().expect("it is given once");
            // If that fails, it is told when the sync returns.
            let _ = process.committer.begin(prepared);
            if process.follow_late && process.random.one_in(2) {
                process.follow_late = false;
                process.follow();
            }
        }
        let incarnation = process.incarnation;
        self.later(micros, Happening::Synced { incarnation });
    }

    pub(super) fn synced(&mut self, incarnation: u64) -> Result<(), Violation> {
        let Some(process) = self.process.as_mut().filter(|process| process.incarnation == incarnation) else {
            return Ok(());
        };
        if process.is_writing() {
            self.counts.syncs += 1;
            let by_count = self.options.lose_power_at.filter(|(at, _)| *at == self.counts.syncs);
            if let Some(left) = by_count.map(|(_, left)| left).or_else(|| self.lose_power.take()) {
                return self.crash(left);
            }
        }
        let Some(batch) = process.committing.pop_front() else { return Ok(()) };
        process.inline = false;
        let Committing { number, prepared, model, entry, last, is_last } = batch;
        let goes_on = match prepared {
            Some(prepared) => process.committer.begin_and_wait(prepared),
            None => process.committer.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(true),
        };
        if !goes_on {
            self.note(|| "the sync FAILED".into());
            self.counts.fault("failed sync");
            self.written_model = Some((last, model));
            // What was sent before the end is sent.
            self.pass_on_everything()?;
            self.end_process();
            return Ok(());
        }
        let answers = process.committer.done();
        let unreceived = unreceived(&self.connections, &answers);
        process.committer.deliver(answers);
        process.follow_late = process.is_hosted && !is_last && !process.follow_late && process.random.one_in(2);
        if !process.follow_late {
            process.follow();
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
        // The open batch is closed, if there is one.
        self.work_by(self.time);
        Ok(())
    }

    /// The machine loses its power. So much is left of what was not synced.
    pub(super) fn crash(&mut self, left: Left) -> Result<(), Violation> {
        let Some(process) = &mut self.process else { return Ok(()) };
        self.counts.fault(if process.is_writing() { "crash during a sync" } else { "crash between syncs" });
        let waited_for = process.committing.front_mut().and_then(|batch| batch.prepared.take());
        if let Some(prepared) = waited_for {
            self.disk.clone().begin(prepared.commit).expect("nothing fails there");
        }
        self.note(|| format!("the power is GONE, {left:?}"));
        self.disk.lose_power(left);
        self.end_process();
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
        if process.is_blocked() || process.stopping || process.open.is_some() {
            // Somebody who asks a busy server to stop waits; a plan asks once.
            self.process = Some(process);
            return Ok(());
        }
        self.counts.fault("orderly restart");
        let at = self.now(&process).max(process.driver.now());
        process.begun = self.time;
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

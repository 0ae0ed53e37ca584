//! The server's process: the real driver and the real committer, and around them what the embedded engine's two threads do,
//! as steps in time. While one batch is being synced the next is applied; a third waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use tenure_core::{Counters, Machine, Reply, Seq, State, Timestamp, Token};
use tenure_engine::simulation::{Committer, Driver, Mail, Prepared, origin, sleep};
use tenure_engine::{Commit, Entry, Failure, ReplyTo, Store, Ticket};
use tokio::sync::watch;

use super::network::Connection;
use super::{Happening, Violation, World, brief, wrong};
use crate::disk::Found;
use crate::invariants::Applied;
use crate::model::{Heard, Model, same_answer};
use crate::plan::{Left, Micros};
use crate::random::Random;
use crate::sabotage::Sabotage;

/// A batch this small is committed by the writer itself, if nothing is before it.
const COMMANDS_WITHOUT_HANDOVER_MAX: usize = 4;

#[derive(Debug)]
pub(super) struct Process {
    incarnation: u64,
    driver: Driver,
    committer: Committer,
    returns: Receiver<Mail>,
    mailbox: VecDeque<Letter>,
    committing: VecDeque<Committing>,
    /// The writer commits by itself and takes no mail meanwhile.
    inline: bool,
    work_at: Option<Micros>,
    /// By its clock, and by what its clock should show.
    origin_millis: u64,
    expected_origin_millis: u64,
    wall_offset_millis: i64,
    started: Micros,
    random: Random,
    stopping: bool,
}

#[derive(Debug)]
pub(super) struct Letter {
    pub(super) heard: Heard,
    pub(super) reply_to: Option<ReplyTo>,
}

/// A batch on its way to the disk.
#[derive(Debug)]
struct Committing {
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

/// The grants of a batch whose callers are gone, and do not come back for them.
fn unreceived(connections: &[Connection], prepared: &Prepared) -> Vec<(Ticket, Token)> {
    let answers = prepared.deliveries.iter().filter_map(|delivery| delivery.reply());
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

impl World<'_> {
    /// A process reads the disk and goes on.
    pub(super) fn start(&mut self) -> Result<(), Violation> {
        if self.process.is_some() {
            return Ok(());
        }
        self.incarnation += 1;
        let mut random = Random::new(self.plan.seed ^ self.incarnation.wrapping_mul(0x9e37_79b9));
        let Found { mut state, entries, first } =
            self.disk.open().map_err(|error| wrong("replay equals state", format!("cannot start: {error}")))?;
        self.note(|| format!("START with event {}", state.counters().seq.0));
        let observed = self.observed;
        for entry in entries.iter().filter(|entry| entry.first > observed) {
            self.observe(entry)?;
        }
        self.check(|invariant| invariant.recovered(&state, &entries))?;
        self.counts.recoveries += 1;
        let seq = state.counters().seq;
        let survivors = [self.written_model.take(), Some(self.durable_model.clone())];
        let survivor = survivors.into_iter().flatten().find(|(last, _)| *last == seq);
        let Some((_, model)) = survivor else {
            return Err(wrong("acknowledged survives", format!("event {} is none that a crash can end with", seq.0)));
        };
        model.compare(&state).map_err(|how| wrong("the reference model", format!("after a start, {how}")))?;
        self.durable_model = (seq, model.clone());
        self.model = model;

        // The first thing a start writes is a sync like any other, and can be its last.
        if let Some(first) = &first {
            if self.down_millis > 0 && random.one_in(6) {
                self.counts.fault("crash during a start");
                let left = if random.one_in(2) { Left::All } else { Left::Torn(u16::from(random.byte(255))) };
                self.disk.tear(first, left);
                self.note(|| format!("CRASH while starting, {left:?}"));
                self.later(1_000, Happening::Start);
                return Ok(());
            }
            if let Err(error) = self.disk.clone().commit(first) {
                return Err(wrong("replay equals state", error.to_string()));
            }
        }

        if self.options.sabotage == Some(Sabotage::ReusesTokens) {
            let counters = Counters { token_next: 1 + state.counters().token_next / 2, ..*state.counters() };
            state.restore_counters(counters);
        }
        let stored = state.counters().now;
        let expected_origin_millis = origin(self.wall_millis(), stored);
        let origin_millis = match self.options.sabotage {
            Some(Sabotage::ForgetsTheTime) => self.wall_millis(),
            _ => expected_origin_millis,
        };
        let mut nonces = random.clone();
        let nonces = move || u128::from(nonces.next()) << 64 | u128::from(nonces.next());
        let (mail, returns) = mpsc::channel();
        let (announce, _) = watch::channel(seq);
        // Whoever must know that the disk failed sees that nothing is committed any more.
        let committer = Committer::new(Box::new(self.disk.clone()), announce, mail, Box::new(drop));
        let mut process = Process {
            incarnation: self.incarnation,
            driver: Driver::new(Machine::restored(state, self.limits), Box::new(nonces)),
            committer,
            returns,
            mailbox: VecDeque::new(),
            committing: VecDeque::new(),
            inline: true,
            work_at: None,
            origin_millis,
            expected_origin_millis,
            wall_offset_millis: self.wall_offset_millis,
            started: self.time,
            random,
            stopping: false,
        };
        let at = self.now(&process).max(process.driver.now());
        let prepared = match self.options.sabotage {
            Some(Sabotage::SkipsTheRestart) => {
                process.driver.begin(at);
                process.driver.finish()
            }
            _ => process.driver.restart(at),
        };
        self.process = Some(process);
        self.commit(prepared, at, true, &[])?;
        self.wake_up();
        Ok(())
    }

    /// What the process takes the time to be.
    fn now(&self, process: &Process) -> Timestamp {
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
    fn wake_up(&mut self) {
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

    /// Compares a batch with the model and hands it to the committer.
    fn commit(&mut self, prepared: Prepared, at: Timestamp, restart: bool, heard: &[Heard]) -> Result<(), Violation> {
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

    fn compare(
        &mut self,
        process: &Process,
        prepared: &Prepared,
        at: Timestamp,
        restart: bool,
        heard: &[Heard],
        events: &[tenure_core::Event],
    ) -> Result<(), Violation> {
        let differs = |how: String| wrong("the reference model", how);
        let expected = self.model.batch(at, restart, heard, events).map_err(differs)?;
        self.batches += 1;
        let mut found: Vec<(Ticket, &Result<_, Failure>)> =
            prepared.deliveries.iter().filter_map(|delivery| delivery.reply()).collect();
        for (ticket, expected) in &expected {
            self.rests.entry(ticket.0).or_default().push((self.batches, prepared.last));
            let Some(at) = found.iter().position(|(other, _)| other == ticket) else {
                return Err(differs(format!("ticket {} should be answered {expected:?}", ticket.0)));
            };
            let (_, answer) = found.remove(at);
            if !same_answer(expected, answer) {
                return Err(differs(format!("ticket {}: expected {expected:?}, found {answer:?}", ticket.0)));
            }
        }
        if let Some((ticket, answer)) = found.first() {
            return Err(differs(format!("ticket {} was answered {answer:?} and should not be", ticket.0)));
        }
        self.model.compare(process.state()).map_err(differs)?;
        let now = process.expected_now(self.time);
        let applied = Applied { at, now, heard, entry: prepared.commit.entry.as_deref(), state: process.state() };
        self.check(|invariant| invariant.applied(&applied))
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
        if !process.committer.commit(prepared) {
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

    /// The answers to a ticket that should have been passed on by now.
    pub(super) fn check_nothing_is_missing(&self, ticket: u64) -> Result<(), Violation> {
        match self.rests.get(&ticket).and_then(|rests| rests.first()) {
            Some((batch, _)) if *batch <= self.committed => {
                Err(wrong("the reference model", format!("an answer to ticket {ticket} was never sent")))
            }
            _ => Ok(()),
        }
    }

    /// If the machine stopped now, this is what would be found: every sync is a place to crash at.
    fn look_at_the_disk(&mut self) -> Result<(), Violation> {
        // Reading everything back takes longer than all the rest: with many seeds, some syncs of each will do.
        if self.process.as_mut().is_some_and(|process| !process.random.one_in(4)) {
            return Ok(());
        }
        let found = self.disk.look().map_err(|error| wrong("replay equals state", error.to_string()))?;
        self.counts.recoveries += 1;
        if found == self.durable {
            return Ok(());
        }
        Err(wrong("replay equals state", "a crash right now would leave another state than was made durable"))
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

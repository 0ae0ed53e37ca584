//! A start of the server: what the disk has is read, compared with what may be there, and gone on from.

use std::collections::VecDeque;
use std::sync::mpsc;

use tenure_core::{Counters, Machine, Seq, State};
use tenure_engine::simulation::{Committer, Driver, origin};
use tokio::sync::watch;

use super::process::Process;
use super::{Happening, Violation, World, wrong};
use crate::disk::Found;
use crate::plan::Left;
use crate::random::Random;
use crate::sabotage::Sabotage;
use crate::scripts::policies;

impl World<'_> {
    /// A process reads the disk and goes on.
    pub(super) fn start(&mut self) -> Result<(), Violation> {
        if self.process.is_some() {
            return Ok(());
        }
        self.incarnation += 1;
        let mut random = Random::new(self.plan.seed ^ self.incarnation.wrapping_mul(0x9e37_79b9));
        let Found { mut state, entries, rows } =
            self.disk.open().map_err(|error| wrong("replay equals state", format!("cannot start: {error}")))?;
        self.note(|| format!("START with event {}", state.counters().seq.0));
        let observed = self.observed;
        for entry in entries.iter().filter(|entry| entry.first > observed) {
            self.observe(entry)?;
        }
        self.check(|invariant| invariant.recovered(&state, &entries))?;
        self.counts.recoveries += 1;
        let seq = state.counters().seq;
        if self.options.only.is_none() {
            self.go_back_to(seq, &state)?;
        }

        // A start first writes what the rows lack, and may not come to its end.
        if let Some(rows) = rows {
            if self.down_millis > 0 && random.one_in(6) {
                self.counts.fault("crash during a start");
                let left = if random.one_in(2) { Left::All } else { Left::Torn(u16::from(random.byte(255))) };
                self.disk.lose_power(left);
                self.note(|| format!("CRASH while starting, {left:?}"));
                self.later(1_000, Happening::Start);
                return Ok(());
            }
            self.disk.write_first(&rows);
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
        let unreceived = move |returned| mail.send(returned).expect("the process outlives its committer");
        let committer = Committer::new(Box::new(self.disk.clone()), announce, Box::new(unreceived), Box::new(drop));
        let mut process = Process {
            incarnation: self.incarnation,
            driver: Driver::new(Machine::restored(state, self.limits).with_policies(policies()), Box::new(nonces)),
            committer,
            returns,
            mailbox: VecDeque::new(),
            committing: VecDeque::new(),
            inline: true,
            is_hosted: random.one_in(2),
            open: None,
            begun: self.time,
            work_at: None,
            origin_millis,
            expected_origin_millis,
            wall_offset_millis: self.wall_offset_millis,
            started: self.time,
            random,
            stopping: false,
            follow_late: false,
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

    /// The model as of the last event that is there: a crash ends with what was durable, or with the batch that was being
    /// written.
    fn go_back_to(&mut self, seq: Seq, state: &State) -> Result<(), Violation> {
        let survivors = [self.written_model.take(), Some(self.durable_model.clone())];
        let survivor = survivors.into_iter().flatten().find(|(last, _)| *last == seq);
        let Some((_, model)) = survivor else {
            return Err(wrong("acknowledged survives", format!("event {} is none that a crash can end with", seq.0)));
        };
        model.compare(state).map_err(|how| wrong("the reference model", format!("after a start, {how}")))?;
        self.durable_model = (seq, model.clone());
        self.model = model;
        Ok(())
    }
}

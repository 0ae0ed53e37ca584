//! How much has been simulated: time, seeds, faults by kind, checks.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub seeds: u64,
    pub micros: u64,
    pub events: u64,
    pub answers: u64,
    pub batches: u64,
    /// That were begun, whatever came of them.
    pub syncs: u64,
    /// States that were read back from the disk and compared.
    pub recoveries: u64,
    pub faults: BTreeMap<&'static str, u64>,
    pub checks: BTreeMap<&'static str, u64>,
    /// Answers by what they were.
    pub replies: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub fn fault(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.micros += other.micros;
        self.events += other.events;
        self.answers += other.answers;
        self.batches += other.batches;
        self.syncs += other.syncs;
        self.recoveries += other.recoveries;
        for (mine, theirs) in
            [(&mut self.faults, &other.faults), (&mut self.checks, &other.checks), (&mut self.replies, &other.replies)]
        {
            for (kind, count) in theirs {
                *mine.entry(kind).or_default() += count;
            }
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.micros / 3_600_000_000;
        writeln!(f, "seeds                     {:>14}", self.seeds)?;
        writeln!(f, "simulated time            {hours:>14} h")?;
        writeln!(f, "batches                   {:>14}", self.batches)?;
        writeln!(f, "syncs                     {:>14}", self.syncs)?;
        writeln!(f, "states read back          {:>14}", self.recoveries)?;
        writeln!(f, "events                    {:>14}", self.events)?;
        writeln!(f, "answers compared          {:>14}", self.answers)?;
        writeln!(f, "\nfaults")?;
        for (kind, count) in &self.faults {
            writeln!(f, "  {kind:<40} {count:>14}")?;
        }
        writeln!(f, "\nchecks")?;
        for (kind, count) in &self.checks {
            writeln!(f, "  {kind:<40} {count:>14}")?;
        }
        writeln!(f, "\nanswers")?;
        for (kind, count) in &self.replies {
            writeln!(f, "  {kind:<40} {count:>14}")?;
        }
        Ok(())
    }
}

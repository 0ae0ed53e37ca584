//! How much has been simulated: time, seeds, faults by kind, what clients did besides asking, checks.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub seeds: u64,
    pub micros: u64,
    pub events: u64,
    pub answers: u64,
    pub batches: u64,
    /// That came to their end, whatever that was.
    pub syncs: u64,
    /// Files of the log that were begun.
    pub segments: u64,
    /// Entries of which a crash left a part.
    pub torn: u64,
    /// Requests that came after one that was sent later.
    pub overtaken: u64,
    /// States that were read back from the disk and compared.
    pub recoveries: u64,
    /// What broke: the network, the disk, the server's process and its clock. Each is counted when it has its effect, and once.
    pub faults: BTreeMap<&'static str, u64>,
    /// What clients did that makes it hard for the server, and is no fault.
    pub clients: BTreeMap<&'static str, u64>,
    /// How often each invariant had something to compare.
    pub checks: BTreeMap<&'static str, u64>,
    /// Answers by what they were.
    pub replies: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub fn fault(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_default() += 1;
    }

    pub fn client(&mut self, kind: &'static str) {
        *self.clients.entry(kind).or_default() += 1;
    }

    /// An invariant that has nothing to compare is in the list too, with what it has so far.
    pub fn check(&mut self, invariant: &'static str, looked: bool) {
        *self.checks.entry(invariant).or_default() += u64::from(looked);
    }

    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.micros += other.micros;
        self.events += other.events;
        self.answers += other.answers;
        self.batches += other.batches;
        self.syncs += other.syncs;
        self.segments += other.segments;
        self.torn += other.torn;
        self.overtaken += other.overtaken;
        self.recoveries += other.recoveries;
        for (mine, theirs) in [
            (&mut self.faults, &other.faults),
            (&mut self.clients, &other.clients),
            (&mut self.checks, &other.checks),
            (&mut self.replies, &other.replies),
        ] {
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
        writeln!(f, "files of the log          {:>14}", self.segments)?;
        writeln!(f, "entries left in part      {:>14}", self.torn)?;
        writeln!(f, "states read back          {:>14}", self.recoveries)?;
        writeln!(f, "requests overtaken        {:>14}", self.overtaken)?;
        writeln!(f, "events                    {:>14}", self.events)?;
        writeln!(f, "answers compared          {:>14}", self.answers)?;
        let lists = [
            ("faults", &self.faults),
            ("what clients did", &self.clients),
            ("checks with something to compare", &self.checks),
            ("answers", &self.replies),
        ];
        for (what, counts) in lists {
            writeln!(f, "\n{what}")?;
            for (kind, count) in counts {
                writeln!(f, "  {kind:<40} {count:>14}")?;
            }
        }
        Ok(())
    }
}

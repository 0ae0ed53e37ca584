//! What a writer tells of its turns, as a line of text each, so that it is known however the writer ends; and what is
//! learned from all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::history::{Operation, What};
use crate::shelf::{Elements, FENCED};

#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Report {
    Granted {
        called: u64,
        answered: u64,
        token: u64,
    },
    /// Told before it is asked for, because the writer may not live to tell of the answer.
    Renewing {
        called: u64,
        token: u64,
    },
    Releasing {
        called: u64,
        token: u64,
    },
    /// What became of the last of these.
    Answered {
        answered: u64,
        held: bool,
    },
    /// Told before anything is written.
    Adding {
        element: u64,
    },
    /// It has read, was told to stay, and writes when it is told to go on.
    Staying,
    Added {
        copy: String,
        element: u64,
        outcome: Outcome,
    },
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) enum Outcome {
    Acknowledged,
    /// The set has refused the token.
    Refused,
    /// The writer has not written, because its time was over.
    Forgone,
    /// There was no answer.
    Unknown,
}

/// What all writers of one pool have told.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) operations: Vec<Operation>,
    adding: Elements,
    added: BTreeMap<String, Vec<(u64, Outcome)>>,
    /// Which writer was granted last, and has not begun to release.
    pub(crate) holder: Option<usize>,
    /// Grants so far.
    pub(crate) turns: usize,
    /// Who stays between reading and writing.
    pub(crate) staying: Option<usize>,
    /// The token that each writer was granted last.
    pub(crate) tokens: BTreeMap<usize, u64>,
    /// The highest with which a fenced write was acknowledged.
    pub(crate) token_written: u64,
    /// The last operation of each writer.
    last: BTreeMap<usize, usize>,
}

impl Record {
    pub(crate) fn note(&mut self, writer: usize, report: Report, lease: Duration) {
        let mut begun = |operation| {
            self.operations.push(operation);
            self.last.insert(writer, self.operations.len() - 1);
        };
        match report {
            Report::Granted { called, answered, token } => {
                begun(Operation { called, answered: Some(answered), what: What::Granted { token, lease } });
                self.turns += 1;
                self.holder = Some(writer);
                self.tokens.insert(writer, token);
            }
            Report::Renewing { called, token } => {
                begun(Operation { called, answered: None, what: What::Renewed { token, lease } });
            }
            Report::Releasing { called, token } => {
                begun(Operation { called, answered: None, what: What::Released { token } });
                self.holder = self.holder.filter(|holder| *holder != writer);
            }
            Report::Answered { answered, held } => {
                let operation = &mut self.operations[self.last[&writer]];
                operation.answered = Some(answered);
                if !held && let What::Renewed { token, .. } | What::Released { token } = operation.what {
                    operation.what = What::NotHeld { token };
                }
            }
            Report::Adding { element } => drop(self.adding.insert(element)),
            Report::Staying => self.staying = Some(writer),
            Report::Added { copy, element, outcome } => {
                self.staying = self.staying.filter(|staying| *staying != writer);
                if copy == FENCED && outcome == Outcome::Acknowledged {
                    self.token_written = self.token_written.max(self.tokens[&writer]);
                }
                self.added.entry(copy).or_default().push((element, outcome));
            }
        }
    }

    pub(crate) fn with(&self, copy: &str, outcome: Outcome) -> Elements {
        let added = self.added.get(copy).into_iter().flatten();
        added.filter(|(_, came)| *came == outcome).map(|(element, _)| *element).collect()
    }

    /// What nobody may have written: it was never begun, or refused, or given up.
    pub(crate) fn made_up(&self, copy: &str, set: &Elements) -> Elements {
        let unwritten = |element: &u64| {
            let written_not = |(it, outcome): &(u64, Outcome)| {
                it == element && matches!(outcome, Outcome::Refused | Outcome::Forgone)
            };
            !self.adding.contains(element) || self.added.get(copy).into_iter().flatten().any(written_not)
        };
        set.iter().copied().filter(unwritten).collect()
    }
}

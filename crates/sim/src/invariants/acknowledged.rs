//! Nothing is answered before it is durable, and what was answered survives every crash.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::*;
use tenure_engine::Entry;

use super::{Answer, Invariant, Looked};

#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    grants: BTreeMap<Token, Key>,
    ended: BTreeSet<Token>,
    sessions: BTreeMap<SessionId, Key>,
    /// The last event that any answer told of.
    last: Seq,
}

impl Invariant for Acknowledged {
    fn name(&self) -> &'static str {
        "acknowledged survives"
    }

    fn answered(&mut self, answer: &Answer<'_>) -> Looked {
        if answer.rests_on > answer.durable {
            let (rests_on, durable) = (answer.rests_on.0, answer.durable.0);
            return Err(format!("an answer that rests on event {rests_on} was sent when {durable} was durable"));
        }
        self.last = self.last.max(answer.rests_on);
        match answer.reply {
            Reply::Granted(grant) if *self.grants.entry(grant.token).or_insert(grant.key) != grant.key => {
                return Err(format!("hold {} was told with two keys", grant.token.0));
            }
            Reply::Released { token } => {
                self.ended.insert(*token);
            }
            Reply::Lost(lost) => {
                self.ended.insert(lost.token);
            }
            Reply::Session(open) => {
                self.sessions.insert(open.id, open.key);
            }
            _ => {}
        }
        // What rests on no event cannot be told too early.
        Ok(answer.rests_on > Seq(0))
    }

    fn recovered(&mut self, state: &State, entries: &[Entry]) -> Looked {
        if state.counters().seq < self.last {
            let found = state.counters().seq.0;
            return Err(format!("event {} was told of, and the log ends with {found}", self.last.0));
        }
        let events = || entries.iter().flat_map(|entry| &entry.events);
        let ended: BTreeSet<_> = events()
            .filter_map(|event| match event {
                Event::Ended { token, .. } => Some(*token),
                _ => None,
            })
            .collect();
        for (token, key) in &self.grants {
            match state.hold(*token) {
                Some(hold) if hold.key != *key => return Err(format!("hold {} has another key now", token.0)),
                None if !ended.contains(token) => return Err(format!("hold {} was granted and is gone", token.0)),
                _ => {}
            }
        }
        if let Some(token) = self.ended.iter().find(|token| state.hold(**token).is_some()) {
            return Err(format!("hold {} had ended and is back", token.0));
        }
        let over: BTreeSet<_> = events()
            .filter_map(|event| match event {
                Event::SessionEnded { id, .. } => Some(*id),
                _ => None,
            })
            .collect();
        match self.sessions.iter().find(|(id, _)| state.session(**id).is_none() && !over.contains(id)) {
            Some((id, _)) => Err(format!("session {} was opened and is gone", id.0)),
            None => Ok(self.last > Seq(0)),
        }
    }
}

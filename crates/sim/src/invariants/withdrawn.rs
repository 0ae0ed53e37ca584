//! A wait that was withdrawn, timed out, passed over or is over in any other way is never granted.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::*;
use tenure_engine::Ticket;

use super::{Answer, Applied, Invariant, Ledger, Looked};
use crate::model::Heard;

#[derive(Debug, Default)]
pub(super) struct Withdrawn {
    over: BTreeSet<WaiterId>,
    /// Withdrawals under way, and when they were heard.
    asked: BTreeMap<Ticket, ((Namespace, RequestId), Timestamp)>,
    /// When the last one of a request was heard that was answered.
    confirmed: BTreeMap<(Namespace, RequestId), Timestamp>,
    /// When requests ended that are remembered.
    ended: BTreeMap<(Namespace, RequestId), Timestamp>,
}

impl Invariant for Withdrawn {
    fn name(&self) -> &'static str {
        "no withdrawn wait granted"
    }

    fn applied(&mut self, batch: &Applied<'_>) -> Looked {
        for heard in batch.heard {
            if let Heard::Command { ticket, command: Command::Withdraw { namespace, request }, .. } = heard {
                self.asked.insert(*ticket, ((namespace.clone(), request.clone()), batch.at));
            }
        }
        Ok(false)
    }

    fn event(&mut self, before: &Ledger, at: Timestamp, event: &Event) -> Looked {
        match event {
            Event::WaitEnded { id, how, .. } => {
                self.over.insert(*id);
                let waiter = before.waiters.get(id).map(|(waiter, _)| waiter);
                if let Some(Waiter { pool, request: Some(request), .. }) = waiter
                    && *how != WaitEnd::CallerGone
                {
                    self.ended.insert((pool.namespace().clone(), request.clone()), at);
                }
            }
            Event::Ended { token, how, .. } => {
                if let Some(Hold { pool, request: Some(request), .. }) = before.holds.get(token)
                    && *how != HoldEnd::Unreceived
                {
                    self.ended.insert((pool.namespace().clone(), request.clone()), at);
                }
            }
            Event::RequestWithdrawn { namespace, request } => {
                self.ended.insert((namespace.clone(), request.clone()), at);
            }
            // Nobody listens to a new process.
            Event::Restarted => {
                let present = before.waiters.iter().find(|(_, (_, present))| *present);
                return match present {
                    Some((id, _)) => Err(format!("waiter {} could be served by a new process", id.0)),
                    None => Ok(!before.waiters.is_empty()),
                };
            }
            Event::Granted { hold, waiter, token } => {
                if let Some(id) = waiter {
                    self.check_waiter(before, *id, at)?;
                    self.over.insert(*id);
                }
                let Some(request) = &hold.request else { return Ok(waiter.is_some()) };
                let named = (hold.pool.namespace().clone(), request.clone());
                let remembered = self.ended.get(&named).is_some_and(|ended| *ended + REQUEST_MEMORY > at);
                let withdrawn = self.confirmed.get(&named);
                // A wait that begins after a withdrawal begins when that is forgotten.
                let waited = waiter.and_then(|id| before.waiters.get(&id)).map(|(waiter, _)| waiter.since);
                let outlived = withdrawn.is_some_and(|at| waited.is_some_and(|since| since <= *at));
                if outlived || remembered && withdrawn.is_some() {
                    return Err(format!("hold {} was granted to request {request}, which was withdrawn", token.0));
                }
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }

    fn answered(&mut self, answer: &Answer<'_>) -> Looked {
        if let (Reply::Withdrawn, Some((request, at))) = (answer.reply, self.asked.remove(&answer.ticket)) {
            self.confirmed.insert(request, at);
        }
        Ok(false)
    }
}

impl Withdrawn {
    fn check_waiter(&self, before: &Ledger, id: WaiterId, at: Timestamp) -> Result<(), String> {
        if self.over.contains(&id) {
            return Err(format!("waiter {} was served after its wait was over", id.0));
        }
        match before.waiters.get(&id) {
            None => Err(format!("waiter {} was served and never waited", id.0)),
            Some((_, false)) => Err(format!("waiter {} was served while nobody listened", id.0)),
            Some((waiter, true)) if waiter.deadline.is_some_and(|deadline| deadline <= at) => {
                Err(format!("waiter {} was served after its deadline", id.0))
            }
            Some(_) => Ok(()),
        }
    }
}

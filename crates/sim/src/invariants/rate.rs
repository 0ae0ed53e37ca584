//! In any window of its length, a rate pool lets at most its size through, restarts included.

use std::collections::BTreeMap;

use tenure_core::{Capacity, Event, HoldEnd, Lifetime, PoolPath, Timestamp, Token, Ttl};

use super::{Invariant, Ledger, Looked};

/// A grant, when it was, and of how many units.
type Through = (Token, Timestamp, u32);

#[derive(Debug, Default)]
pub(super) struct Rate {
    /// By the window too: a pool whose window is changed has another rate.
    through: BTreeMap<(PoolPath, Ttl), Vec<Through>>,
}

impl Invariant for Rate {
    fn name(&self) -> &'static str {
        "rate never exceeded in any window"
    }

    fn event(&mut self, before: &Ledger, at: Timestamp, event: &Event) -> Looked {
        // What an operator takes away may be given to somebody else.
        if let Event::Ended { token, how: HoldEnd::Forced(_), .. } = event {
            self.through.values_mut().for_each(|through| through.retain(|(it, ..)| it != token));
        }
        let Event::Granted { token, hold, .. } = event else { return Ok(false) };
        let Lifetime::Window(window) = hold.lifetime else { return Ok(false) };
        let Some(pool) = before.pools.get(&hold.pool) else { return Ok(false) };
        let size = match &pool.spec.capacity {
            Capacity::Units(size) => u64::from(*size),
            Capacity::Resources { resources, .. } => resources.len() as u64,
        };
        let through = self.through.entry((hold.pool.clone(), window)).or_default();
        through.push((*token, at, hold.taken.units));
        through.retain(|(_, then, _)| at.millis_since(*then) < window.as_millis());
        let count: u64 = through.iter().map(|(.., units)| u64::from(*units)).sum();
        if count > size {
            return Err(format!("with hold {} there were {count} in {window:?}, of {size}", token.0));
        }
        Ok(true)
    }
}

//! In any window of its length, a rate pool lets at most its size through, restarts included.

use std::collections::BTreeMap;

use tenure_core::{Capacity, Event, Lifetime, PoolPath, Timestamp};

use super::{Invariant, Ledger};

#[derive(Debug, Default)]
pub(super) struct Rate {
    through: BTreeMap<PoolPath, Vec<(Timestamp, u32)>>,
}

impl Invariant for Rate {
    fn name(&self) -> &'static str {
        "rate never exceeded in any window"
    }

    fn event(&mut self, before: &Ledger, at: Timestamp, event: &Event) -> Result<(), String> {
        let Event::Granted { token, hold, .. } = event else { return Ok(()) };
        let Lifetime::Window(window) = hold.lifetime else { return Ok(()) };
        let Some(pool) = before.pools.get(&hold.pool) else { return Ok(()) };
        let size = match &pool.spec.capacity {
            Capacity::Units(size) => u64::from(*size),
            Capacity::Resources { resources, .. } => resources.len() as u64,
        };
        let through = self.through.entry(hold.pool.clone()).or_default();
        through.push((at, hold.taken.units));
        through.retain(|(then, _)| at.millis_since(*then) < window.as_millis());
        let count: u64 = through.iter().map(|(_, units)| u64::from(*units)).sum();
        if count > size {
            return Err(format!("with hold {} there were {count} in {window:?}, of {size}", token.0));
        }
        Ok(())
    }
}

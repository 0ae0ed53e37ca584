//! Units in use never exceed the pool's capacity, and whoever has all of it is alone.

use tenure_core::{Event, Timestamp};

use super::{Invariant, Ledger, Looked};

#[derive(Debug)]
pub(super) struct Capacity;

impl Invariant for Capacity {
    fn name(&self) -> &'static str {
        "capacity"
    }

    fn event(&mut self, before: &Ledger, _at: Timestamp, event: &Event) -> Looked {
        let Event::Granted { token, hold, .. } = event else { return Ok(false) };
        let mut looked = false;
        for (path, taken) in hold.parts() {
            let Some(pool) = before.pools.get(path) else {
                return Err(format!("hold {} was granted of no pool", token.0));
            };
            if pool.removing {
                return Err(format!("hold {} was granted of a pool that is being removed", token.0));
            }
            // What is stolen is as it was, though the pool may have another size since.
            if before.stolen.is_some() {
                continue;
            }
            let tenure_core::Capacity::Units(size) = pool.spec.capacity else { continue };
            looked = true;
            let free = before.free_units(path, size);
            if taken.units == 0 || taken.units > free {
                return Err(format!("hold {} took {} of {free} free units", token.0, taken.units));
            }
            if taken.all && (before.holds_of(path).next().is_some() || taken.units != size) {
                return Err(format!("hold {} was to have all of the pool, and does not", token.0));
            }
        }
        Ok(looked)
    }
}

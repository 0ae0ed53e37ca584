//! The state is what its events make of it: live, and when it is read back from rows and log.

use tenure_core::State;
use tenure_engine::Entry;

use super::{Applied, Invariant, Looked};

#[derive(Debug)]
pub(super) struct Replay {
    replayed: State,
    pool_idle: tenure_core::Ttl,
}

impl Default for Replay {
    fn default() -> Self {
        let pool_idle = crate::world::limits(false).pool_idle;
        Self { replayed: State::new(pool_idle), pool_idle }
    }
}

impl Invariant for Replay {
    fn name(&self) -> &'static str {
        "replay equals state"
    }

    fn applied(&mut self, batch: &Applied<'_>) -> Looked {
        if let Some(entry) = batch.entry {
            entry.events.iter().for_each(|event| self.replayed.evolve(entry.at, event));
        }
        if self.replayed == *batch.state { Ok(true) } else { Err("the events make another state than there is".into()) }
    }

    fn recovered(&mut self, state: &State, entries: &[Entry]) -> Looked {
        self.replayed = State::new(self.pool_idle);
        for entry in entries {
            entry.events.iter().for_each(|event| self.replayed.evolve(entry.at, event));
        }
        if self.replayed == *state { Ok(true) } else { Err("what was read is not what its events make".into()) }
    }
}

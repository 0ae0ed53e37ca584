//! A named resource never has two holders, and only what is listed and in service is handed out.

use tenure_core::{Capacity, Condition, Event, Timestamp};

use super::{Invariant, Ledger};

#[derive(Debug)]
pub(super) struct OneHolder;

impl Invariant for OneHolder {
    fn name(&self) -> &'static str {
        "one holder per resource"
    }

    fn event(&mut self, before: &Ledger, _at: Timestamp, event: &Event) -> Result<(), String> {
        let Event::Granted { token, hold, .. } = event else { return Ok(()) };
        let Some(pool) = before.pools.get(&hold.pool) else { return Ok(()) };
        let Capacity::Resources { resources, .. } = &pool.spec.capacity else { return Ok(()) };
        if hold.taken.resources.len() != hold.taken.units as usize {
            return Err(format!("hold {} has {} units, and other resources", token.0, hold.taken.units));
        }
        for (at, name) in hold.taken.resources.iter().enumerate() {
            if before.holds_of(&hold.pool).any(|other| other.taken.resources.contains(name)) {
                return Err(format!("hold {} has {name}, which somebody has already", token.0));
            }
            if hold.taken.resources[..at].contains(name) {
                return Err(format!("hold {} has {name} twice", token.0));
            }
            // What is stolen is as it was.
            if before.stolen.is_some() {
                continue;
            }
            if !resources.iter().any(|listed| listed.name == *name) {
                return Err(format!("hold {} has {name}, which the pool does not list", token.0));
            }
            if pool.resource_conditions.get(name).is_some_and(|condition| *condition != Condition::InService) {
                return Err(format!("hold {} has {name}, which is out of service", token.0));
            }
        }
        Ok(())
    }
}

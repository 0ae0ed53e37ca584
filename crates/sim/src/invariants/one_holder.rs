//! A named resource never has two holders, and only what is listed and in service is handed out.

use tenure_core::{Capacity, Condition, Event, Timestamp};

use super::{Invariant, Ledger, Looked};

#[derive(Debug)]
pub(super) struct OneHolder;

impl Invariant for OneHolder {
    fn name(&self) -> &'static str {
        "one holder per resource"
    }

    fn event(&mut self, before: &Ledger, _at: Timestamp, event: &Event) -> Looked {
        let Event::Granted { token, hold, .. } = event else { return Ok(false) };
        let mut looked = false;
        for (path, taken) in hold.parts() {
            let Some(pool) = before.pools.get(path) else { continue };
            let Capacity::Resources { resources, .. } = &pool.spec.capacity else { continue };
            looked = true;
            if taken.resources.len() != taken.units as usize {
                return Err(format!("hold {} has {} units, and other resources", token.0, taken.units));
            }
            for (at, name) in taken.resources.iter().enumerate() {
                if before.holds_of(path).any(|other| other.resources.contains(name)) {
                    return Err(format!("hold {} has {name}, which somebody has already", token.0));
                }
                if taken.resources[..at].contains(name) {
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
        }
        Ok(looked)
    }
}

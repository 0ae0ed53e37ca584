//! What has to be cleaned goes only to those who clean, what is reserved only to the holder it is reserved for, and what is
//! stolen goes as it was to the one it was stolen for.

use tenure_core::{Event, Timestamp};

use super::{Invariant, Ledger, Looked};

#[derive(Debug)]
pub(super) struct ResourceLife;

impl Invariant for ResourceLife {
    fn name(&self) -> &'static str {
        "nothing dirty or reserved is handed out"
    }

    fn event(&mut self, before: &Ledger, _at: Timestamp, event: &Event) -> Looked {
        let granted = match event {
            Event::Granted { token, hold, .. } => Some((token, hold)),
            _ => None,
        };
        if let Some((stolen, to)) = &before.stolen {
            let given = granted.filter(|(_, hold)| hold.parts().eq(stolen.parts()));
            return match given {
                Some((_, hold)) if hold.holder.id == *to => Ok(true),
                _ => Err(format!("what was stolen for `{to}` was not given to it")),
            };
        }
        let Some((token, hold)) = granted else { return Ok(false) };
        let mut looked = false;
        for (path, taken) in hold.parts() {
            let Some(pool) = before.pools.get(path) else { continue };
            looked |= pool.spec.cleaning || !pool.reserved.is_empty();
            for name in &taken.resources {
                if pool.dirty.contains(name) != taken.dirty {
                    let how = if taken.dirty { "clean" } else { "dirty" };
                    return Err(format!("hold {} has {name}, which is {how}", token.0));
                }
                let reserved = pool.reserved.get(name).filter(|holder| **holder != hold.holder.id && !taken.dirty);
                if let Some(holder) = reserved {
                    return Err(format!("hold {} has {name}, which is reserved for `{holder}`", token.0));
                }
            }
        }
        Ok(looked)
    }
}

//! A future that is as good as can be, played by the rules themselves: whoever may let go does, again and again. Whoever is
//! served in it could have waited.

use std::collections::BTreeSet;

use tenure_core::*;

use crate::scripts::policies;

/// Whether somebody who was refused would be served, after all that had happened by then.
pub(super) fn serves(past: &[(Timestamp, Event)], at: Timestamp, acquire: &Acquire) -> bool {
    let limits = Limits::default();
    let mut state = State::new(limits.pool_idle);
    past.iter().for_each(|(at, event)| state.evolve(*at, event));
    let mut future = Future { machine: Machine::restored(state, limits).with_policies(policies()), at, nonce: 0 };
    let asker = Acquire { holds_on: false, request: None, ..acquire.clone() };
    match future.apply(Command::Acquire(asker)) {
        Reply::Granted(_) => true,
        Reply::Queued(queued) => future.play(queued.waiter, acquire),
        _ => false,
    }
}

struct Future {
    machine: Machine,
    at: Timestamp,
    nonce: u128,
}

impl Future {
    fn apply(&mut self, command: Command) -> Reply {
        // Far from those that a process draws.
        self.nonce += 1;
        let nonce = self.nonce.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let reply = self.machine.apply(Stamp { at: self.at, nonce }, command).reply;
        while self.machine.next_deadline().is_some_and(|deadline| deadline <= self.at) {
            self.nonce += 1;
            self.machine.apply(Stamp { at: self.at, nonce: self.nonce << 64 }, Command::Expire);
        }
        reply
    }

    fn play(&mut self, asker: WaiterId, acquire: &Acquire) -> bool {
        for command in self.goes_by_itself(asker).into_iter().chain(self.returns()) {
            self.apply(command);
        }
        while self.machine.state().waiter(asker).is_some() {
            let releases = self.releases(acquire);
            if releases.is_empty() {
                return false;
            }
            for command in releases {
                self.apply(command);
            }
        }
        true
    }

    /// Those who are away, and those who give up before the asker would.
    fn goes_by_itself(&self, asker: WaiterId) -> Vec<Command> {
        let state = self.machine.state();
        let asks_until = state.waiter(asker).and_then(|(waiter, _)| waiter.deadline);
        let is_over = |id: &WaiterId| {
            let Some((waiter, present)) = state.waiter(*id) else { return false };
            let gives_up = waiter.deadline.is_some_and(|own| asks_until.is_none_or(|other| own < other));
            *id != asker && (!present || gives_up)
        };
        let over = state.waiters().filter(is_over);
        over.map(|waiter| Command::Abandon { waiter, may_return: false }).collect()
    }

    /// Everything is in service again.
    fn returns(&self) -> Vec<Command> {
        let state = self.machine.state();
        let pools = state.pools().filter_map(|path| Some((path, state.pool(path)?)));
        let things = pools.flat_map(|(path, pool)| {
            let resources = pool.resources().map(|(name, _)| Some(name.clone()));
            resources.chain([None]).map(move |resource| (path.clone(), resource))
        });
        let condition = Condition::InService;
        let set = |(pool, resource)| SetCondition { pool, resource, condition: condition.clone(), lasts: None };
        things.map(|thing| Command::SetCondition(set(thing))).collect()
    }

    /// What those have who do not hold on. Windows pass.
    fn releases(&self, acquire: &Acquire) -> Vec<Command> {
        let state = self.machine.state();
        let namespace = acquire.pool.namespace();
        let waiters = state.waiters().filter_map(|id| state.waiter(id)).map(|(waiter, _)| waiter);
        let bound = waiters.filter(|waiter| waiter.holds_on && waiter.pool.namespace() == namespace);
        let bound: BTreeSet<_> = bound.map(|waiter| &waiter.holder.id).chain([&acquire.holder.id]).collect();
        let holds = state.holds().filter_map(|token| Some((token, state.hold(token)?)));
        let holds = holds.filter(|(_, hold)| hold.pool.namespace() == namespace);
        let releases = holds.filter_map(|(token, hold)| match hold.lifetime {
            Lifetime::Window(_) => Some(Command::ForceRelease(ForceRelease {
                pool: hold.pool.clone(),
                holder: hold.holder.id.clone(),
                token,
                reason: Note::parse("its time is over").expect("a note"),
            })),
            _ if bound.contains(&hold.holder.id) => None,
            _ => Some(Command::Release(Release { namespace: namespace.clone(), key: hold.key, pool: None })),
        });
        releases.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn acquire(holder: &str, amount: Amount) -> Acquire {
        Acquire {
            pool: PoolPath::new(Namespace::default(), PoolName::parse("many").expect("a name")),
            demand: Demand { amount, selector: None, dirty: false },
            size: Some(2),
            lifetime: Some(Lifetime::Kept),
            wait: Wait::Forever,
            priority: Priority::default(),
            holder: Arc::new(Holder::parse(holder, []).expect("a holder")),
            session: None,
            request: None,
            also: Box::default(),
            holds_on: true,
        }
    }

    #[test]
    fn whoever_others_could_let_in_is_served_and_whoever_waits_for_itself_is_not() {
        let at = Timestamp::from_millis(1_000);
        let mut machine = Machine::new(Limits::default());
        let mut past = Vec::new();
        for (nonce, holder) in [(1, "alice"), (2, "carol")] {
            let outcome = machine.apply(Stamp { at, nonce }, Command::Acquire(acquire(holder, Amount::Count(1))));
            past.extend(outcome.events.into_iter().map(|event| (at, event)));
        }
        assert!(serves(&past, at, &acquire("alice", Amount::Count(1))), "carol may release");
        assert!(!serves(&past, at, &acquire("alice", Amount::All)), "alice waits for what she has");
    }
}

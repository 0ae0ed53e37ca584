//! Where in a queue somebody stands. The list of waiters is in order, whatever pools they wait for, and whoever comes is put
//! where it belongs.

use tenure_core::*;

use super::{Model, Waiter};

/// What one unit moves a group of weight 1.
const STEP: i64 = 720_720;

impl Model {
    /// The turn of somebody who comes now: behind all of its priority or, where groups take turns, after what was served
    /// last and after the others of its group.
    pub(super) fn turn(
        &self,
        path: &PoolPath,
        id: WaiterId,
        priority: Priority,
        holder: &Holder,
        demand: &Demand,
    ) -> i64 {
        let pool = self.known(path);
        let same = |waiter: &&&Waiter| waiter.priority == priority;
        let Some(fair) = &pool.fair else {
            let last = self.queue(path).iter().filter(same).map(|waiter| waiter.turn).max();
            let arrival = i64::try_from(id.0).expect("a few");
            return last.filter(|last| *last > arrival).map_or(arrival, |last| last + 1);
        };
        let group = |holder: &Holder| match &fair.by {
            FairBy::Holder => holder.id.to_string(),
            FairBy::Meta(name) => {
                let found = holder.meta().find(|(it, _)| *it == name.as_str());
                found.map(|(_, value)| value.to_owned()).unwrap_or_default()
            }
        };
        let own = group(holder);
        let units = match demand.amount {
            Amount::Count(count) => count,
            Amount::All => pool.units.unwrap_or_else(|| u32::try_from(pool.matching(demand).len()).expect("a few")),
        };
        let weight = fair.weights().find(|(it, _)| *it == own).map_or(1, |(_, weight)| weight);
        let cost = i64::from(units.clamp(1, 1_000)) * STEP / i64::from(weight);
        let others = self.queue(path);
        let others = others.iter().filter(same).filter(|waiter| group(&waiter.holder) == own).map(|waiter| waiter.turn);
        let served = pool.served.iter().filter(|(it, _)| *it == priority).map(|(_, turn)| *turn);
        others.chain(served).max().unwrap_or(0).max(0) + cost
    }

    /// Puts somebody behind all who have the same turn.
    pub(super) fn enter(&mut self, waiter: Waiter) {
        let behind = |other: &Waiter| {
            other.priority < waiter.priority || other.priority == waiter.priority && other.turn > waiter.turn
        };
        let at = self.waiters.iter().position(behind).unwrap_or(self.waiters.len());
        self.waiters.insert(at, waiter);
    }

    pub(super) fn leave(&mut self, id: WaiterId, served: bool) -> Waiter {
        let at = self.waiters.iter().position(|waiter| waiter.id == id).expect("who leaves waits");
        let waiter = self.waiters.remove(at);
        self.note_turn(&waiter, served);
        waiter
    }

    /// What was served last counts as long as somebody of the same priority waits.
    pub(super) fn note_turn(&mut self, gone: &Waiter, served: bool) {
        let others = self.queue(&gone.pool).iter().any(|waiter| waiter.priority == gone.priority);
        let pool = self.pool_mut(&gone.pool);
        if pool.fair.is_none() {
            return;
        }
        let before = pool.served.iter().find(|(priority, _)| *priority == gone.priority).map(|(_, turn)| *turn);
        if !others {
            pool.served.retain(|(priority, _)| *priority != gone.priority);
        } else if served {
            pool.served.retain(|(priority, _)| *priority != gone.priority);
            pool.served.push((gone.priority, before.unwrap_or(0).max(gone.turn)));
        }
    }

    /// Where groups begin to take turns, those who are there stay in front of those to come.
    pub(super) fn begin_turns(&mut self, path: &PoolPath) {
        let mut served: Vec<(Priority, i64)> = Vec::new();
        for waiter in self.queue(path) {
            served.retain(|(priority, _)| *priority != waiter.priority);
            served.push((waiter.priority, waiter.turn));
        }
        self.pool_mut(path).served = served;
    }
}

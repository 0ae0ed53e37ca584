//! Pools that carry code of the user's own: each of those who fit is scored, one by one, and the best is taken.

use tenure_core::*;

use super::placement::Room;
use super::{Model, Pool, Waiter};
use crate::scripts::score;

impl Pool {
    /// A script that is asked.
    pub(super) fn script(&self, which: Which) -> Option<&Script> {
        self.scripts.get(which).filter(|_| self.faults < SCRIPT_FAULTS_MAX)
    }
}

impl Model {
    /// Whether a pool like this can have its scripts.
    pub(super) fn check_scripts(path: &PoolPath, spec: &PoolSpec) -> Result<(), Refusal> {
        let bad = |which| Refusal::BadScript { pool: path.clone(), which, at: None, why: String::new() };
        if spec.scripts.place.is_some() && matches!(spec.capacity, Capacity::Units(_)) {
            return Err(bad(Which::Place));
        }
        let ordered = spec.scripts.order.is_some();
        if ordered && (spec.window.is_some() || spec.order == Order::Strict || spec.fair.is_some()) {
            return Err(bad(Which::Order));
        }
        Ok(())
    }

    /// Who is served first by the pool's script: none if there is no choice, and a fault if the script has one.
    pub(super) fn first_by_script(&self, path: &PoolPath) -> Result<Option<WaiterId>, Fault> {
        let pool = self.known(path);
        let Some(script) = pool.script(Which::Order) else { return Ok(None) };
        let present = self.queue(path).into_iter().filter(|waiter| !waiter.away).take(ORDER_LOOKED_AT_MAX);
        let mut fitting: Vec<_> = present.filter_map(|waiter| Some((waiter, self.room_alone(path, waiter)?))).collect();
        let highest = fitting.iter().map(|(waiter, _)| waiter.priority).max();
        fitting.retain(|(waiter, _)| Some(waiter.priority) == highest);
        if fitting.len() < 2 {
            return Ok(None);
        }
        let mut best: Option<(i64, WaiterId)> = None;
        for (waiter, room) in fitting {
            let first = self.preferred(pool, &room).into_iter().next();
            let found = first.and_then(|name| pool.resources.iter().find(|it| it.spec.name == name));
            let offer = found.map(|it| Offer { name: &it.spec.name, labels: &it.spec.labels });
            let score = score(Which::Order, script, &self.request(pool, waiter), offer.as_ref())?;
            if best.is_none_or(|(highest, _)| score > highest) {
                best = Some((score, waiter.id));
            }
        }
        Ok(best.map(|(_, id)| id))
    }

    /// All that somebody could be given, in the order in which it would be if no script chose.
    fn preferred(&self, pool: &Pool, room: &Room) -> Vec<ResourceName> {
        let ordered = |open: &[ResourceName]| match &pool.placement {
            Placement::Spread(label) => self.spread(pool, label, open.to_vec(), open.len()),
            _ => open.to_vec(),
        };
        ordered(&room.own).into_iter().chain(ordered(&room.others)).collect()
    }

    /// What the pool's script chooses, if it is asked.
    pub(super) fn chosen_by_script(&mut self, pool: &Pool, room: &Room, waiter: &Waiter) -> Option<Vec<ResourceName>> {
        let wanted = room.units as usize;
        let script = pool.script(Which::Place)?;
        if wanted >= room.own.len() + room.others.len() {
            return None;
        }
        let names = self.preferred(pool, room);
        let mut scored = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let it = pool.resources.iter().find(|it| it.spec.name == *name).expect("it is free");
            let offer = Offer { name: &it.spec.name, labels: &it.spec.labels };
            match score(Which::Place, script, &self.request(pool, waiter), Some(&offer)) {
                Ok(score) => scored.push((!room.own.contains(name), std::cmp::Reverse(score), at)),
                Err(_) => {
                    self.note_fault(&pool.path);
                    return Some(names.into_iter().take(wanted).collect());
                }
            }
        }
        scored.sort();
        Some(scored.into_iter().take(wanted).map(|(.., at)| names[at].clone()).collect())
    }

    pub(super) fn note_fault(&mut self, path: &PoolPath) {
        let pool = self.pool_mut(path);
        pool.faults = SCRIPT_FAULTS_MAX.min(pool.faults + 1);
    }

    fn request<'a>(&self, pool: &Pool, waiter: &'a Waiter) -> Request<'a> {
        let units = match waiter.demand.amount {
            Amount::Count(count) => count,
            Amount::All => {
                let matching = u32::try_from(pool.matching(&waiter.demand).len()).expect("a few");
                pool.units.unwrap_or(matching)
            }
        };
        Request {
            holder: &waiter.holder,
            units,
            priority: waiter.priority,
            selector: waiter.demand.selector.as_ref().map(|selector| selector.as_str()),
            dirty: waiter.demand.dirty,
            waited_ms: self.now.millis_since(waiter.since),
        }
    }
}

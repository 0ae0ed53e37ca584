//! Of those who say that they hold on, whoever could be served in the best of all futures is let in, and whoever could be
//! only by letting go of what it has is refused. Later a deadlock can still come to be, by operators and by those who do not
//! say it; that is not promised.

mod future;

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::*;
use tenure_engine::Ticket;

use super::{Answer, Applied, Invariant, Ledger, Listed, Looked};
use crate::model::Heard;
use crate::selectors::chosen;

#[derive(Debug, Default)]
pub(super) struct Deadlock {
    /// All that is durable.
    past: Vec<(Timestamp, Event)>,
    /// Whose refusal is not durable yet.
    refused: BTreeMap<Ticket, (Timestamp, Acquire)>,
}

impl Invariant for Deadlock {
    fn name(&self) -> &'static str {
        "nobody waits for itself"
    }

    /// Those who were refused. What comes after them in the same batch changes what they saw, so only the last are judged.
    fn applied(&mut self, batch: &Applied<'_>) -> Looked {
        let mut looked = false;
        for heard in batch.heard.iter().rev() {
            let Heard::Command { ticket, command, .. } = heard else { break };
            let answer = batch.answers.iter().find(|(other, _)| other == ticket);
            let Some((_, Reply::Refused(refusal))) = answer else { break };
            if let (Command::Acquire(acquire), Refusal::Deadlock { cycle }) = (command, &**refusal) {
                looked = true;
                let scene = Scene::of_state(batch.state, acquire.pool.namespace());
                let asker = Wait::of_acquire(acquire, batch.at);
                scene.check_cycle(&asker, cycle)?;
                // Where groups are served in turn it may have been before others, and they in vain behind it.
                let first =
                    Wait { place: Place::new(acquire.priority, WaiterId(0)), ..Wait::of_acquire(acquire, batch.at) };
                let wherever = !scene.serves_in_turn(&asker) || scene.ends(&first, false);
                if scene.ends(&asker, false) && wherever {
                    return Err(format!("ticket {} was refused a wait that could end: {cycle:?}", ticket.0));
                }
                self.refused.insert(*ticket, (batch.at, acquire.clone()));
            }
        }
        Ok(looked)
    }

    /// Those who were let in.
    fn event(&mut self, before: &Ledger, at: Timestamp, event: &Event) -> Looked {
        self.past.push((at, event.clone()));
        let Event::Queued { id, waiter } = event else { return Ok(false) };
        if !waiter.holds_on {
            return Ok(false);
        }
        let scene = Scene::of_ledger(before, waiter.pool.namespace());
        let asker = Wait::of_waiter(waiter.place(*id), waiter, true);
        let has_something = scene.holds.iter().any(|hold| hold.holder.id == asker.holder);
        let looked = has_something && !scene.is_large();
        if looked && !scene.ends(&asker, false) && scene.ends(&asker, true) {
            return Err(format!("waiter {} was let in and waits for what it has itself", id.0));
        }
        Ok(looked)
    }

    /// Those who were refused, once more: the rules themselves would serve them.
    fn answered(&mut self, answer: &Answer<'_>) -> Looked {
        let Some((at, acquire)) = self.refused.remove(&answer.ticket) else { return Ok(false) };
        let known = usize::try_from(answer.rests_on.0).expect("a few events");
        // An answer that is ahead of the disk is another invariant's.
        match self.past.get(..known) {
            Some(past) if future::serves(past, at, &acquire) => {
                Err(format!("ticket {} was refused a wait that would have ended", answer.ticket.0))
            }
            past => Ok(past.is_some()),
        }
    }
}

/// Somebody who waits, or would.
struct Wait {
    place: Place,
    holder: HolderId,
    parts: Vec<(PoolPath, Demand)>,
    deadline: Option<Timestamp>,
    holds_on: bool,
    present: bool,
}

impl Wait {
    fn of_waiter(place: Place, waiter: &Waiter, present: bool) -> Self {
        let parts = waiter.parts().map(|(path, demand)| (path.clone(), demand.clone())).collect();
        let (holder, deadline, holds_on) = (waiter.holder.id.clone(), waiter.deadline, waiter.holds_on);
        Self { place, holder, parts, deadline, holds_on, present }
    }

    /// Behind everybody of its priority, where it is served the latest.
    fn of_acquire(acquire: &Acquire, at: Timestamp) -> Self {
        let deadline = match acquire.wait {
            tenure_core::Wait::For(ttl) => Some(at + ttl),
            tenure_core::Wait::Try | tenure_core::Wait::Forever => None,
        };
        Self {
            place: Place::new(acquire.priority, WaiterId(u64::MAX)),
            holder: acquire.holder.id.clone(),
            parts: acquire.parts().map(|(path, demand)| (path.clone(), demand.clone())).collect(),
            deadline,
            holds_on: acquire.holds_on,
            present: true,
        }
    }

    fn wants(&self, path: &PoolPath) -> Option<&Demand> {
        self.parts.iter().find(|(part, _)| part == path).map(|(_, demand)| demand)
    }

    /// Whether it is still there when another one gives up.
    fn outlasts(&self, other: &Self) -> bool {
        match (self.deadline, other.deadline) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(other)) => own >= other,
        }
    }
}

struct Known {
    spec: PoolSpec,
    in_service: bool,
    reserved: BTreeMap<ResourceName, HolderId>,
}

/// Everybody of a namespace who holds and waits.
struct Scene {
    pools: BTreeMap<PoolPath, Known>,
    holds: Vec<Hold>,
    tokens: Vec<Token>,
    waits: Vec<Wait>,
}

impl Scene {
    fn of_ledger(ledger: &Ledger, namespace: &Namespace) -> Self {
        let pools = ledger.pools.iter().filter(|(path, listed)| path.namespace() == namespace && !listed.removing);
        let known = |listed: &Listed| Known {
            spec: listed.spec.clone(),
            in_service: listed.condition == Condition::InService,
            reserved: listed.reserved.clone(),
        };
        let holds = ledger.holds.iter().filter(|(_, hold)| hold.pool.namespace() == namespace);
        let waits = ledger.waiters.iter().filter(|(_, (waiter, _))| waiter.pool.namespace() == namespace);
        Self {
            pools: pools.map(|(path, listed)| (path.clone(), known(listed))).collect(),
            tokens: holds.clone().map(|(token, _)| *token).collect(),
            holds: holds.map(|(_, hold)| hold.clone()).collect(),
            waits: waits.map(|(id, (it, present))| Wait::of_waiter(it.place(*id), it, *present)).collect(),
        }
    }

    fn of_state(state: &State, namespace: &Namespace) -> Self {
        let pools = state.pools().filter(|path| path.namespace() == namespace);
        let pools = pools.filter_map(|path| Some((path, state.pool(path).filter(|pool| !pool.is_removing())?)));
        let known = |pool: &Pool| Known {
            spec: pool.spec(),
            in_service: *pool.condition() == Condition::InService,
            reserved: pool
                .resources()
                .filter_map(|(name, it)| Some((name.clone(), it.reserved.as_ref()?.holder.clone())))
                .collect(),
        };
        let holds = state.holds().filter_map(|token| Some((token, state.hold(token)?)));
        let (tokens, holds) = holds.filter(|(_, hold)| hold.pool.namespace() == namespace).unzip::<_, _, _, Vec<_>>();
        let waits = state.waiters().filter_map(|id| state.waiter(id).map(|(waiter, present)| (id, waiter, present)));
        let waits = waits.filter(|(_, waiter, _)| waiter.pool.namespace() == namespace);
        Self {
            pools: pools.map(|(path, pool)| (path.clone(), known(pool))).collect(),
            tokens,
            holds: holds.into_iter().cloned().collect(),
            waits: waits.map(|(id, it, present)| Wait::of_waiter(it.place(id), it, present)).collect(),
        }
    }

    fn serves_in_turn(&self, wait: &Wait) -> bool {
        wait.parts.iter().any(|(path, _)| self.pools.get(path).is_some_and(|known| known.spec.fair.is_some()))
    }

    /// There may be more than is looked at.
    fn is_large(&self) -> bool {
        let holds = self.holds.iter().map(|hold| hold.parts().count()).sum::<usize>();
        holds + self.waits.iter().map(|wait| wait.parts.len()).sum::<usize>() > DEADLOCK_LOOKED_AT_MAX
    }

    /// Plays the best of all futures: whoever does not say that it holds on lets go of all it has, and so does whoever is
    /// served; those who give up before the asker would, do; those who are away are gone; nobody new comes. Gives whether
    /// the asker is served, if it lets go too or not.
    fn ends(&self, asker: &Wait, lets_go: bool) -> bool {
        let is_there = |wait: &Wait| wait.parts.iter().all(|(path, _)| self.pools.contains_key(path));
        let stays =
            |wait: &&Wait| wait.place == asker.place || (wait.present && wait.outlasts(asker) && is_there(wait));
        let everybody = || self.waits.iter().chain([asker]);
        let mut waiting: Vec<_> = everybody().filter(stays).collect();
        waiting.sort_by_key(|wait| wait.place);
        let bound = everybody().filter(|wait| wait.holds_on).map(|wait| &wait.holder);
        let mut bound: BTreeSet<_> = bound.filter(|holder| !lets_go || **holder != asker.holder).collect();
        for wait in everybody().filter(|wait| wait.holds_on && !stays(wait)) {
            bound.remove(&wait.holder);
        }
        let lasting = self.holds.iter().filter(|hold| !matches!(hold.lifetime, Lifetime::Window(_)));
        let mut holds: Vec<_> = lasting.collect();
        loop {
            holds.retain(|hold| bound.contains(&hold.holder.id));
            let fits = |at: &usize| {
                let (ahead, wait) = (&waiting[..*at], waiting[*at]);
                wait.parts.iter().all(|(path, demand)| self.has_room(path, (&wait.holder, demand), &holds, ahead))
            };
            let Some(at) = (0..waiting.len()).find(fits) else { return false };
            let served = waiting.remove(at);
            if served.place == asker.place {
                return true;
            }
            if served.holds_on {
                bound.remove(&served.holder);
            }
        }
    }

    /// Whether there is enough of a pool beside what is held, for somebody behind others.
    fn has_room(
        &self,
        path: &PoolPath,
        (holder, demand): (&HolderId, &Demand),
        holds: &[&Hold],
        ahead: &[&Wait],
    ) -> bool {
        let Some(Known { spec, reserved, .. }) = self.pools.get(path) else { return true };
        let taken = holds.iter().flat_map(|hold| hold.parts()).filter(|(part, _)| *part == path);
        let taken: Vec<_> = taken.map(|(_, taken)| taken).collect();
        let ahead = ahead.iter().filter_map(|wait| Some((wait.parts.len() > 1, wait, wait.wants(path)?)));
        // A set keeps aside what it needs, unless it cannot be served now whatever is free; others do in strict order. A pool
        // that is not there yet is made for who asks, in service.
        let in_service =
            |wait: &Wait| wait.parts.iter().all(|(path, _)| self.pools.get(path).is_none_or(|it| it.in_service));
        let ahead =
            ahead.filter(|(is_set, wait, _)| if *is_set { in_service(wait) } else { spec.order == Order::Strict });
        match &spec.capacity {
            Capacity::Units(size) => {
                let needs = |demand: &Demand| match demand.amount {
                    Amount::Count(count) => u64::from(count),
                    Amount::All => u64::from(*size),
                };
                let used: u64 = taken.iter().map(|taken| u64::from(taken.units)).sum();
                let mut left = u64::from(*size).saturating_sub(used);
                if taken.iter().any(|taken| taken.all) {
                    left = 0;
                }
                for (is_set, _, wanted) in ahead {
                    left = if is_set { left.saturating_sub(needs(wanted)) } else { 0 };
                }
                needs(demand) <= left
            }
            Capacity::Resources { resources, .. } => {
                let could_use =
                    |demand: &Demand, it: &ResourceSpec| chosen(demand.selector.as_ref(), &it.name, &it.labels);
                let enough = |left: &[&ResourceSpec], demand: &Demand| {
                    let needs = match demand.amount {
                        Amount::Count(count) => count as usize,
                        Amount::All => resources.iter().filter(|it| could_use(demand, it)).count(),
                    };
                    left.iter().filter(|it| could_use(demand, it)).count() >= needs
                };
                let is_taken = |it: &&ResourceSpec| taken.iter().any(|taken| taken.resources.contains(&it.name));
                let mut left: Vec<_> = resources.iter().filter(|it| !is_taken(it)).collect();
                // Which ones are kept aside for somebody who has enough is open: perhaps not those that are wanted here.
                // Those who clean and those who do not are not in each other's way, and nobody has a claim on what is
                // reserved for another.
                for (_, wait, wanted) in ahead.filter(|(.., wanted)| wanted.dirty == demand.dirty) {
                    let is_own = |it: &ResourceSpec| {
                        wait.holder != *holder && !demand.dirty && reserved.get(&it.name) == Some(holder)
                    };
                    if !enough(&left, wanted) {
                        left.retain(|it| is_own(it) || !could_use(wanted, it));
                    }
                }
                enough(&left, demand)
            }
        }
    }

    /// Each waits for what the next one has, and holds on to what the one before waits for.
    fn check_cycle(&self, asker: &Wait, cycle: &[Blocked]) -> Result<(), String> {
        let wrong = |how: &str, step: &Blocked| Err(format!("{how} in the cycle {cycle:?}: {step:?}"));
        let waits = |holder: &HolderId, pool: &PoolPath, holds_on: bool| {
            let all = self.waits.iter().filter(|wait| wait.present).chain([asker]);
            let mut own = all.filter(|wait| wait.holder == *holder && (wait.holds_on || !holds_on));
            own.any(|wait| wait.wants(pool).is_some())
        };
        if cycle.first().is_none_or(|first| first.holder != asker.holder) {
            return Err(format!("{cycle:?} does not begin with the one who asks"));
        }
        for (at, step) in cycle.iter().enumerate() {
            let next = cycle.get(at + 1);
            let next_holder = next.map_or(&asker.holder, |next| &next.holder);
            if !waits(&step.holder, &step.pool, at == 0 || cycle[at - 1].token.is_some()) {
                return wrong("somebody does not wait", step);
            }
            let held = step.token.map(|token| self.tokens.iter().position(|it| *it == token).map(|at| &self.holds[at]));
            match (held, next) {
                (Some(Some(hold)), _) => {
                    let lasts = !matches!(hold.lifetime, Lifetime::Window(_));
                    if hold.holder.id != *next_holder || !lasts || !hold.parts().any(|(part, _)| *part == step.pool) {
                        return wrong("the next one does not hold what is waited for", step);
                    }
                }
                (None, Some(next)) if waits(&next.holder, &step.pool, false) => {}
                _ => return wrong("nobody is in the way", step),
            }
        }
        Ok(())
    }
}

//! Whether a wait could ever end. Played to the end in the best of all futures, over everybody who holds or waits: whoever
//! may let go has, whoever fits is served, and who is still there then never is.

use tenure_core::*;
use tenure_engine::{Failure, Ticket};

use super::{Has, Model, Pool, Resource, Waiter, is_window};

/// All that is in somebody's way when it asked for what it could never get: any of it may be told as the cycle.
#[derive(Clone, Debug)]
pub(super) struct Knot {
    ticket: Ticket,
    asker: HolderId,
    ways: Vec<Way>,
}

/// Somebody who waits, and somebody who is in its way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Way {
    from: WaiterId,
    told: Blocked,
    to: HolderId,
    /// The waits that have to end before: those of whoever has it, or the one ahead.
    waits: Vec<WaiterId>,
}

impl Model {
    /// Whether somebody who would wait would wait for itself. It is in its queues already.
    pub(super) fn is_deadlock(&mut self, ticket: Ticket, id: WaiterId) -> bool {
        let asker = self.waiters.iter().find(|waiter| waiter.id == id).expect("who asks is in its queues");
        if !asker.holds_on || self.looked_at(asker) > DEADLOCK_LOOKED_AT_MAX {
            return false;
        }
        let mut future = Future { model: self, asker, served: Vec::new() };
        future.play();
        if future.served.contains(&id) {
            return false;
        }
        // Everything that is in its way, and in the way of that.
        let mut open = vec![id];
        let mut seen = Vec::new();
        let mut ways: Vec<Way> = Vec::new();
        while let Some(id) = open.pop() {
            if !seen.contains(&id) {
                seen.push(id);
                let found = future.ways(id);
                open.extend(found.iter().flat_map(|way| way.waits.clone()));
                ways.extend(found);
            }
        }
        let asker = asker.holder.id.clone();
        let is_own = ways.iter().any(|way| way.to == asker && way.told.token.is_some());
        if is_own {
            self.knots.push(Knot { ticket, asker, ways });
        }
        is_own
    }

    /// A cycle that was told is one: each step is in the way of the one before, and the last leads to what the asker has.
    pub fn check_cycle(&self, ticket: Ticket, answer: &Result<Reply, Failure>) -> Result<(), String> {
        let Ok(Reply::Refused(refusal)) = answer else { return Ok(()) };
        let Refusal::Deadlock { cycle } = &**refusal else { return Ok(()) };
        let knot = self.knots.iter().find(|knot| knot.ticket == ticket).ok_or("it should not be refused")?;
        // The waits that each step may be about.
        let mut at: Option<Vec<WaiterId>> = None;
        for (nth, step) in cycle.iter().enumerate() {
            let is_last = nth + 1 == cycle.len();
            let next = if is_last { &knot.asker } else { &cycle[nth + 1].holder };
            let fits = |way: &&Way| {
                let from = at.as_ref().is_none_or(|waits| waits.contains(&way.from));
                from && way.told == *step && way.to == *next && (!is_last || step.token.is_some())
            };
            let ways: Vec<_> = knot.ways.iter().filter(fits).collect();
            if ways.is_empty() || (nth == 0 && step.holder != knot.asker) {
                return Err(format!("step {nth} of {cycle:?} is none: {:?} is in the way", knot.ways));
            }
            at = Some(ways.iter().flat_map(|way| way.waits.clone()).collect());
        }
        if cycle.is_empty() { Err("a deadlock without a cycle".into()) } else { Ok(()) }
    }

    /// How many holds and waiters the outcome may depend on.
    fn looked_at(&self, asker: &Waiter) -> usize {
        let mut known: Vec<PoolPath> = Vec::new();
        let mut open = asker.parts();
        while let Some((path, _)) = open.pop() {
            if known.contains(&path) {
                continue;
            }
            open.extend(self.queue(&path).into_iter().filter(|waiter| !waiter.away).flat_map(Waiter::parts));
            for has in self.holds_of(&path) {
                let same = |waiter: &&Waiter| is_of(waiter, &has.hold.pool, &has.hold.holder.id);
                open.extend(self.waiters.iter().filter(same).filter(|it| it.holds_on).flat_map(Waiter::parts));
            }
            known.push(path);
        }
        let asked = asker.parts().iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
        // The asker itself does not wait yet.
        let own = known.iter().filter(|path| asked.contains(path)).count();
        known.iter().map(|path| self.holds_of(path).count() + self.queue(path).len()).sum::<usize>() - own
    }
}

/// What becomes of those who wait if nobody new comes.
struct Future<'a> {
    model: &'a Model,
    asker: &'a Waiter,
    served: Vec<WaiterId>,
}

impl<'a> Future<'a> {
    fn play(&mut self) {
        loop {
            let before = self.served.len();
            for waiter in &self.model.waiters {
                if self.waits(waiter) && waiter.parts().iter().all(|(path, demand)| self.fits(waiter, path, demand)) {
                    self.served.push(waiter.id);
                }
            }
            if self.served.len() == before {
                return;
            }
        }
    }

    /// Somebody who is there, does not give up before the asker would, and has not been served.
    fn waits(&self, waiter: &Waiter) -> bool {
        let gives_up = match (waiter.deadline, self.asker.deadline) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(own), Some(other)) => own < other,
        };
        waiter.pool.namespace() == self.asker.pool.namespace()
            && !waiter.away
            && !gives_up
            && !self.served.contains(&waiter.id)
    }

    /// The waits because of which somebody lets go of nothing. One that is over lets it go on.
    fn bound_by(&self, pool: &PoolPath, holder: &HolderId) -> Vec<WaiterId> {
        let own = self.model.waiters.iter().filter(|waiter| waiter.holds_on && is_of(waiter, pool, holder));
        let own: Vec<_> = own.collect();
        if own.iter().all(|waiter| self.waits(waiter)) {
            own.iter().map(|waiter| waiter.id).collect()
        } else {
            Vec::new()
        }
    }

    /// What is never let go of.
    fn kept(&self, path: &'a PoolPath) -> Vec<Has<'a>> {
        let lasting = self.model.holds_of(path).filter(|has| !is_window(&has.hold.lifetime));
        lasting.filter(|has| !self.bound_by(path, &has.hold.holder.id).is_empty()).collect()
    }

    /// Those ahead who keep something of a pool from whoever is behind them.
    fn ahead(&self, waiter: &Waiter, path: &PoolPath) -> Vec<&'a Waiter> {
        let pool = self.model.known(path);
        let ahead = self.model.queue(path).into_iter().take_while(|ahead| ahead.id != waiter.id);
        let keeps = |ahead: &&Waiter| match ahead.also.is_empty() {
            true => pool.order == Order::Strict,
            false => self.model.all_in_service(ahead),
        };
        // Those who clean and those who do not are not in each other's way.
        let dirty = waiter.wants(path).is_some_and(|demand| demand.dirty);
        let same = |ahead: &&Waiter| ahead.wants(path).is_some_and(|demand| demand.dirty == dirty);
        ahead.filter(|ahead| self.waits(ahead)).filter(keeps).filter(same).collect()
    }

    fn fits(&self, waiter: &Waiter, path: &PoolPath, demand: &Demand) -> bool {
        let pool = self.model.known(path);
        Left::of(pool, &self.kept(&pool.path)).behind(&self.ahead(waiter, path), waiter).fits(demand)
    }

    /// All that is in the way of somebody who is never served.
    fn ways(&self, id: WaiterId) -> Vec<Way> {
        let waiter = self.model.waiters.iter().find(|waiter| waiter.id == id).expect("it waits");
        let mut ways = Vec::new();
        for (path, demand) in waiter.parts() {
            if self.fits(waiter, &path, &demand) {
                continue;
            }
            let pool = self.model.known(&path);
            let (kept, ahead) = (self.kept(&pool.path), self.ahead(waiter, &path));
            let told = |token| Blocked {
                holder: waiter.holder.id.clone(),
                session: waiter.session,
                pool: path.clone(),
                token,
            };
            // Of no use are holders if those ahead are too many for the whole pool.
            let alone_lacks = !Left::of(pool, &kept).fits(&demand);
            let would_help = Left::of(pool, &[]).behind(&ahead, waiter).fits(&demand);
            for has in kept.iter().filter(|has| (alone_lacks || would_help) && is_wanted(pool, &demand, has)) {
                let to = has.hold.holder.id.clone();
                let waits = self.bound_by(&path, &to);
                ways.push(Way { from: id, told: told(Some(has.hold.token)), to, waits });
            }
            for ahead in ahead {
                ways.push(Way { from: id, told: told(None), to: ahead.holder.id.clone(), waits: vec![ahead.id] });
            }
        }
        ways
    }
}

/// What of a pool somebody could have some time, in service or not, dirty or reserved or not.
struct Left<'a> {
    pool: &'a Pool,
    units: u64,
    names: Vec<&'a ResourceName>,
}

impl<'a> Left<'a> {
    fn of(pool: &'a Pool, kept: &[Has<'_>]) -> Self {
        let used: u64 =
            kept.iter().map(|has| if has.all { u64::MAX } else { u64::from(has.units) }).fold(0, u64::saturating_add);
        let listed = pool.resources.iter().filter(|it| !it.leaving).map(|it| &it.spec.name);
        let names = listed.filter(|name| !kept.iter().any(|has| has.resources.contains(name))).collect();
        Self { pool, units: u64::from(pool.size()).saturating_sub(used), names }
    }

    /// What those ahead leave. A set that has enough of this pool keeps only so much aside, and of resources perhaps others.
    fn behind(mut self, ahead: &[&Waiter], waiter: &Waiter) -> Self {
        for ahead in ahead {
            let demand = ahead.wants(&self.pool.path).expect("it waits for the pool");
            let enough = self.fits(demand);
            match (demand.amount, enough) {
                (Amount::Count(count), true) if !ahead.also.is_empty() => {
                    self.units -= u64::from(count).min(self.units)
                }
                _ => self.units = 0,
            }
            if !enough {
                let wanted = self.pool.matching(demand);
                // Nobody has a claim on what is reserved for another, unless it is there to clean it.
                let may_have = |it: &Resource| {
                    let own = it.reserved.as_ref().is_some_and(|reserved| reserved.holder == waiter.holder.id);
                    !own || demand.dirty || ahead.holder.id == waiter.holder.id
                };
                self.names.retain(|name| !wanted.iter().any(|it| it.spec.name == **name && may_have(it)));
            }
        }
        self
    }

    fn fits(&self, demand: &Demand) -> bool {
        let wanted = self.pool.matching(demand);
        let (left, all) = match self.pool.units {
            Some(size) => (self.units, u64::from(size)),
            None => {
                let left = self.names.iter().filter(|name| wanted.iter().any(|it| it.spec.name == ***name)).count();
                (left as u64, wanted.len() as u64)
            }
        };
        match demand.amount {
            Amount::Count(count) => u64::from(count) <= left,
            Amount::All => left >= all,
        }
    }
}

fn is_of(waiter: &Waiter, pool: &PoolPath, holder: &HolderId) -> bool {
    waiter.pool.namespace() == pool.namespace() && waiter.holder.id == *holder
}

/// Whether a hold has something that somebody could use.
fn is_wanted(pool: &Pool, demand: &Demand, has: &Has<'_>) -> bool {
    let wanted = pool.matching(demand);
    pool.units.is_some() || has.resources.iter().any(|name| wanted.iter().any(|it| it.spec.name == *name))
}

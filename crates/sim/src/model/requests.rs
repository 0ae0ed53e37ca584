//! Acquire, renew, release, withdraw, and what operators and owners end.

use tenure_core::*;
use tenure_engine::Ticket;

use super::{Ended, Hold, Listener, Model, Pool, Waiter, is_window};

/// As many as the engine lets listen for one wait.
const LISTENERS_PER_WAITER_MAX: usize = 16;

/// A request that nothing is wrong with: the pools it would make, and what it would wait as.
struct Checked {
    pools: Vec<Pool>,
    newcomer: Waiter,
}

enum Stage {
    Waiting(WaiterId),
    Held(Token),
    Ended(Option<Token>),
}

impl Model {
    pub(super) fn acquire(&mut self, ticket: Ticket, acquire: Acquire, returns: bool) -> Result<Reply, Refusal> {
        let namespace = acquire.pool.namespace().clone();
        let session = match acquire.session {
            Some(key) => Some(self.session_of(&namespace, key)?),
            None if matches!(acquire.lifetime, Some(Lifetime::Session(_))) => return Err(Refusal::UnknownSession),
            None => None,
        };
        if let Some(request) = acquire.request.clone()
            && let Some(stage) = self.stage(&namespace, &request)
        {
            return self.acquire_again(ticket, &acquire, returns, session, request, stage);
        }
        let made = self.check(&acquire, session)?;
        let known = self.pools.len();
        self.pools.extend(made.pools);
        let answer = self.grant_or_queue(ticket, &acquire, returns, made.newcomer, known);
        if answer.is_err() {
            self.pools.truncate(known);
        }
        answer
    }

    /// Everything that is wrong with a request whoever holds and waits, and else what it would wait as.
    fn check(&self, acquire: &Acquire, session: Option<SessionId>) -> Result<Checked, Refusal> {
        let sizes = std::iter::once(acquire.size).chain(acquire.also.iter().map(|part| part.size));
        let mut parts: Vec<_> = acquire.parts().zip(sizes).map(|((path, demand), size)| (path, demand, size)).collect();
        let mut made = Vec::new();
        for (path, demand, size) in &parts {
            if self.pool(path).is_none() {
                if demand.selector.is_some() || demand.dirty {
                    return Err(Refusal::UnknownPool { pool: (*path).clone() });
                }
                made.push(pool_on_first_use(path, *size, acquire.lifetime.as_ref()));
            }
        }
        let pool =
            |path: &PoolPath| made.iter().chain(&self.pools).find(|pool| pool.path == *path).expect("it is there");
        for (path, demand, size) in &parts {
            let pool = pool(path);
            if demand.selector.is_some() && pool.units.is_some() {
                return Err(Refusal::WrongKind { pool: (*path).clone(), why: "".into() });
            }
            if demand.dirty && !pool.cleaning {
                return Err(Refusal::WrongKind { pool: (*path).clone(), why: "".into() });
            }
            if let Some(asked) = *size
                && asked != pool.size()
            {
                return Err(Refusal::SizeMismatch { pool: (*path).clone(), size: pool.size(), asked });
            }
            if parts.len() > 1 && (pool.fair.is_some() || !pool.scripts.is_empty() || demand.dirty) {
                return Err(Refusal::WrongKind { pool: (*path).clone(), why: "".into() });
            }
        }
        // A hold is one of a pool that is no window, if it has one. Only the others have a lifetime to be chosen.
        let mismatch = |path: &PoolPath| Err(Refusal::WindowMismatch { pool: path.clone(), window: pool(path).window });
        for (path, ..) in &parts {
            if matches!(acquire.lifetime, Some(Lifetime::Window(asked)) if pool(path).window != Some(asked)) {
                return mismatch(path);
            }
        }
        parts.sort_by_key(|(path, ..)| pool(path).window.is_some());
        let (first, demand, _) = parts[0];
        let lifetime = match (acquire.lifetime.clone(), pool(first).window) {
            (None | Some(Lifetime::Window(_)), Some(window)) => Lifetime::Window(window),
            (Some(_), Some(_)) => return mismatch(first),
            (None, None) if session.is_some() => Lifetime::Session(None),
            (None, None) => Lifetime::Leased(LEASE_DEFAULT),
            (Some(lifetime), None) => lifetime,
        };
        if let Some((path, ..)) = parts.iter().find(|(path, ..)| pool(path).removing) {
            return Err(Refusal::PoolRemoving { pool: (*path).clone() });
        }
        if let Some(refusal) = parts.iter().find_map(|(path, demand, _)| pool(path).never_fits(demand)) {
            return Err(refusal);
        }
        if !made.is_empty() && self.pools.len() + made.len() > self.limits.pools_max {
            return Err(limit("pools_max", self.limits.pools_max));
        }
        let windows = parts.iter().skip(1).filter(|(path, ..)| pool(path).window.is_some()).count();
        if self.holds.len() + 1 + windows > self.limits.holds_max {
            return Err(limit("holds_max", self.limits.holds_max));
        }
        let also = parts[1..].iter().map(|(path, demand, _)| WaitedPart {
            pool: (*path).clone(),
            demand: (*demand).clone(),
            window: pool(path).window,
        });
        let newcomer = Waiter {
            id: WaiterId(self.waiter_next),
            pool: first.clone(),
            key: Key::from_bits(0),
            holder: acquire.holder.clone(),
            demand: demand.clone(),
            lifetime,
            priority: acquire.priority,
            since: self.now,
            deadline: None,
            session,
            request: acquire.request.clone(),
            away: false,
            turn: 0,
            also: also.collect(),
            holds_on: acquire.holds_on,
        };
        Ok(Checked { pools: made, newcomer })
    }

    fn grant_or_queue(
        &mut self,
        ticket: Ticket,
        acquire: &Acquire,
        returns: bool,
        newcomer: Waiter,
        known: usize,
    ) -> Result<Reply, Refusal> {
        let (path, id, parts) = (newcomer.pool.clone(), newcomer.id, newcomer.parts());
        let turns =
            parts.iter().map(|(path, demand)| self.turn(path, id, acquire.priority, &acquire.holder, demand)).max();
        let newcomer = Waiter { turn: turns.expect("it wants something"), ..newcomer };
        let takes_turns = self.known(&path).fair.is_some() && !self.queue(&path).is_empty();
        self.enter(newcomer.clone());
        let next = self.next(&path);
        let no_room = match parts.len() {
            1 => self.no_room(&path, self.position(&path, id)),
            _ => self.no_room_for_set(&newcomer),
        };
        if let Some((first, rooms)) = next {
            if first != id {
                self.wrong = Some(format!("waiter {} could have been served before, and was not", first.0));
            }
            // It takes a turn before those who wait for theirs, as one of them.
            if takes_turns {
                let chosen = self.choices.queued.pop_front();
                let key = self.choose("a wait", chosen, Key::from_bits(0));
                self.waiter_next += 1;
                self.leave(id, true);
                return Ok(Reply::Granted(Box::new(self.grant(&Waiter { key, ..newcomer }, &rooms, true))));
            }
            self.waiters.retain(|waiter| waiter.id != id);
            return Ok(Reply::Granted(Box::new(self.grant(&newcomer, &rooms, false))));
        }
        self.waiters.retain(|waiter| waiter.id != id);
        let deadline = match acquire.wait {
            Wait::Try => {
                let out =
                    parts.iter().map(|(path, _)| self.known(path)).find(|it| it.condition != Condition::InService);
                if let Some(pool) = out {
                    return Err(Refusal::OutOfService { pool: pool.path.clone(), condition: pool.condition.clone() });
                }
                return Err(Refusal::Busy(Box::new(no_room)));
            }
            Wait::For(ttl) => Some(self.now + ttl),
            Wait::Forever => None,
        };
        // Only of pools that were there before.
        let was_there = |path: &PoolPath| self.pools[..known].iter().any(|pool| pool.path == *path);
        for (path, _) in parts.iter().filter(|(path, _)| was_there(path)) {
            if self.queue(path).len() >= self.limits.waiters_per_pool_max {
                return Err(limit("waiters_per_pool_max", self.limits.waiters_per_pool_max));
            }
            if self.waiters.len() >= self.limits.waiters_max {
                return Err(limit("waiters_max", self.limits.waiters_max));
            }
        }
        let newcomer = Waiter { deadline, ..newcomer };
        self.enter(newcomer.clone());
        let is_deadlock = self.is_deadlock(ticket, id);
        self.waiters.retain(|waiter| waiter.id != id);
        if is_deadlock {
            // Which of the cycles there are is told is looked at when it has been.
            return Err(Refusal::Deadlock { cycle: Vec::new() });
        }
        let chosen = self.choices.queued.pop_front();
        let key = self.choose("a wait", chosen, Key::from_bits(0));
        self.waiter_next += 1;
        parts.iter().for_each(|(path, _)| self.note_busy(path));
        self.enter(Waiter { key, ..newcomer });
        Ok(self.listen(ticket, id, returns))
    }

    /// The answer to whoever waits, from now on or still.
    fn listen(&mut self, ticket: Ticket, id: WaiterId, returns: bool) -> Reply {
        if self.listeners.iter().filter(|it| it.waiter == id).count() >= LISTENERS_PER_WAITER_MAX {
            return Reply::Refused(Box::new(limit("listeners_per_waiter_max", LISTENERS_PER_WAITER_MAX)));
        }
        self.listeners.push(Listener { waiter: id, ticket, returns });
        let waiter = self.waiters.iter().find(|waiter| waiter.id == id).expect("it waits");
        let positions = waiter.parts().into_iter().map(|(path, _)| self.position(&path, id));
        let position = positions.max().expect("it waits somewhere");
        Reply::Queued(Queued { waiter: id, position, deadline: waiter.deadline })
    }

    fn acquire_again(
        &mut self,
        ticket: Ticket,
        acquire: &Acquire,
        returns: bool,
        session: Option<SessionId>,
        request: RequestId,
        stage: Stage,
    ) -> Result<Reply, Refusal> {
        match stage {
            Stage::Ended(token) => Err(Refusal::RequestEnded { request, token }),
            Stage::Held(token) => {
                let hold = self.holds.iter().find(|hold| hold.token == token).expect("it is held");
                let taken = |path: &PoolPath| {
                    let part = hold.also.iter().find(|part| part.pool == *path);
                    let first = (hold.pool == *path).then_some((hold.units, hold.all));
                    first.or_else(|| part.map(|part| (part.taken.units, part.taken.all)))
                };
                let same_amount = |(path, demand): (&PoolPath, &Demand)| match demand.amount {
                    Amount::Count(count) => taken(path) == Some((count, false)),
                    Amount::All => taken(path).is_some_and(|(_, all)| all),
                };
                let same_caller = hold.session == session && hold.holder.id == acquire.holder.id;
                let same_size = hold.also.len() == acquire.also.len();
                if !same_caller || !same_size || !acquire.parts().all(same_amount) {
                    return Err(Refusal::RequestReused { request });
                }
                match self.told.iter_mut().find(|(it, _)| *it == token) {
                    Some((_, times)) => *times += 1,
                    None => self.told.push((token, 2)),
                }
                Ok(Reply::Granted(Box::new(self.told_grant(token))))
            }
            Stage::Waiting(id) => {
                let waiter = self.waiters.iter_mut().find(|waiter| waiter.id == id).expect("it waits");
                let same_caller = waiter.session == session && waiter.holder.id == acquire.holder.id;
                let same_part = |(path, demand): (&PoolPath, &Demand)| waiter.wants(path) == Some(demand);
                let same_size = waiter.also.len() == acquire.also.len();
                if !same_caller || !same_size || !acquire.parts().all(same_part) {
                    return Err(Refusal::RequestReused { request });
                }
                let pool = waiter.pool.clone();
                if acquire.wait == Wait::Try {
                    let waiter = waiter.clone();
                    return Err(Refusal::Busy(Box::new(match waiter.also.len() {
                        0 => self.no_room(&pool, self.position(&pool, id)),
                        _ => self.no_room_for_set(&waiter),
                    })));
                }
                let waiter = self.waiters.iter_mut().find(|waiter| waiter.id == id).expect("it waits");
                if waiter.away {
                    waiter.away = false;
                    let pools: Vec<_> = waiter.parts().into_iter().map(|(path, _)| path).collect();
                    if pools.len() > 1 {
                        self.to_serve.extend(pools);
                    }
                    let listening = self.listeners.iter().filter(|it| it.waiter == id).count();
                    self.serve(&pool);
                    if let Some(hold) = self.holds.iter().find(|hold| is_request(hold, &pool, &request)) {
                        let token = hold.token;
                        if listening > 0 {
                            self.told.retain(|(it, _)| *it != token);
                            self.told.push((token, listening + 1));
                        }
                        return Ok(Reply::Granted(Box::new(self.told_grant(token))));
                    }
                }
                Ok(self.listen(ticket, id, returns))
            }
        }
    }

    /// The same request id again.
    pub(super) fn steal_again(&mut self, steal: &Steal, request: &RequestId) -> Option<Result<Reply, Refusal>> {
        let reused = || Err(Refusal::RequestReused { request: request.clone() });
        Some(match self.stage(steal.pool.namespace(), request)? {
            Stage::Ended(token) => Err(Refusal::RequestEnded { request: request.clone(), token }),
            Stage::Waiting(_) => reused(),
            Stage::Held(token) => {
                let hold = self.holds.iter().find(|hold| hold.token == token).expect("it is held");
                if !hold.pools().contains(&steal.pool) || hold.holder.id != steal.to.id {
                    return Some(reused());
                }
                match self.told.iter_mut().find(|(it, _)| *it == token) {
                    Some((_, times)) => *times += 1,
                    None => self.told.push((token, 2)),
                }
                Ok(Reply::Granted(Box::new(self.told_grant(token))))
            }
        })
    }

    fn stage(&self, namespace: &Namespace, request: &RequestId) -> Option<Stage> {
        let same =
            |pool: &PoolPath, it: &Option<RequestId>| pool.namespace() == namespace && it.as_ref() == Some(request);
        if let Some(waiter) = self.waiters.iter().find(|waiter| same(&waiter.pool, &waiter.request)) {
            return Some(Stage::Waiting(waiter.id));
        }
        if let Some(hold) = self.holds.iter().find(|hold| same(&hold.pool, &hold.request)) {
            return Some(Stage::Held(hold.token));
        }
        let last = self.ended.iter().rfind(|ended| ended.namespace == *namespace && ended.request == *request)?;
        (last.at + REQUEST_MEMORY > self.now).then_some(Stage::Ended(last.token))
    }

    pub(super) fn remember(&mut self, namespace: Namespace, request: RequestId, token: Option<Token>) {
        self.ended.push(Ended { namespace, request, at: self.now, token });
    }

    fn hold_of(&self, namespace: &Namespace, key: Key, pool: Option<&PoolName>) -> Result<&Hold, Refusal> {
        let hold = self.holds.iter().find(|hold| hold.key == key).ok_or(Refusal::NotHeld)?;
        let of = |name: &PoolName| hold.pools().iter().any(|path| path.name() == name);
        let right = hold.pool.namespace() == namespace && pool.is_none_or(of);
        if right { Ok(hold) } else { Err(Refusal::NotHeld) }
    }

    pub(super) fn renew(&mut self, renew: &Renew) -> Result<Reply, Refusal> {
        let hold = self.hold_of(&renew.namespace, renew.key, renew.pool.as_ref())?;
        let token = hold.token;
        let of_session = matches!(hold.lifetime, Lifetime::Session(_));
        let session = self.sessions.iter().find(|session| Some(session.id) == hold.session);
        let away = of_session && session.is_some_and(|session| session.away);
        let ttl = match (&hold.lifetime, renew.ttl) {
            (Lifetime::Leased(own) | Lifetime::Session(Some(own)), asked) => asked.unwrap_or(*own),
            (Lifetime::Session(None), Some(asked)) if away => asked,
            _ => return Err(Refusal::NotRenewable { token, why: "".into(), advice: "".into() }),
        };
        let deadline = self.now + ttl;
        let hold = self.holds.iter_mut().find(|hold| hold.token == token).expect("it was just seen");
        hold.deadline = Some(deadline);
        hold.lifetime = if of_session && !away { Lifetime::Session(Some(ttl)) } else { Lifetime::Leased(ttl) };
        Ok(Reply::Renewed { token, deadline, ttl })
    }

    pub(super) fn release(&mut self, release: &Release) -> Result<Reply, Refusal> {
        let hold = self.hold_of(&release.namespace, release.key, release.pool.as_ref())?;
        let token = hold.token;
        if let (Lifetime::Window(_), Some(deadline)) = (&hold.lifetime, hold.deadline) {
            return Err(Refusal::NotReleasable { token, deadline });
        }
        let pool = self.end_hold(token, HoldEnd::Released);
        self.serve(&pool);
        Ok(Reply::Released { token })
    }

    pub(super) fn withdraw(&mut self, namespace: Namespace, request: RequestId) -> Reply {
        match self.stage(&namespace, &request) {
            Some(Stage::Waiting(id)) => {
                let pool = self.end_wait(id, WaitEnd::Withdrawn);
                self.serve(&pool);
            }
            Some(Stage::Held(token)) => {
                if self.holds.iter().any(|hold| hold.token == token && !is_window(&hold.lifetime)) {
                    let pool = self.end_hold(token, HoldEnd::Withdrawn);
                    self.serve(&pool);
                }
            }
            Some(Stage::Ended(_)) => {}
            None => self.remember(namespace, request, None),
        }
        Reply::Withdrawn
    }

    pub(super) fn force_release(&mut self, force: ForceRelease) -> Result<Reply, Refusal> {
        if self.pool(&force.pool).is_none() {
            return Err(Refusal::UnknownPool { pool: force.pool });
        }
        let found = self.holds_of(&force.pool).find(|has| has.hold.token == force.token);
        if found.is_none_or(|has| has.hold.holder.id != force.holder) {
            let now = self.no_room(&force.pool, 0).holders;
            return Err(Refusal::MovedOn { pool: force.pool, expected: force.token, now });
        }
        let pool = self.end_hold(force.token, HoldEnd::Forced(force.reason));
        self.serve(&pool);
        Ok(Reply::Released { token: force.token })
    }

    pub(super) fn owner_gone(&mut self, namespace: &Namespace, owner: &OwnerId) -> Reply {
        let bound = |pool: &PoolPath, lifetime: &Lifetime| {
            pool.namespace() == namespace && *lifetime == Lifetime::Bound(owner.clone())
        };
        let waiters =
            self.waiters.iter().filter(|it| bound(&it.pool, &it.lifetime)).map(|it| it.id).collect::<Vec<_>>();
        let holds = self.holds.iter().filter(|it| bound(&it.pool, &it.lifetime)).map(|it| it.token).collect::<Vec<_>>();
        for id in waiters {
            let pool = self.end_wait(id, WaitEnd::OwnerGone);
            self.to_serve.push(pool);
        }
        for token in &holds {
            let pool = self.end_hold(*token, HoldEnd::OwnerGone);
            self.to_serve.push(pool);
        }
        Reply::OwnerGone { holds: holds.len() }
    }
}

fn is_request(hold: &Hold, pool: &PoolPath, request: &RequestId) -> bool {
    hold.pool.namespace() == pool.namespace() && hold.request.as_ref() == Some(request)
}

fn pool_on_first_use(path: &PoolPath, size: Option<u32>, lifetime: Option<&Lifetime>) -> Pool {
    let window = match lifetime {
        Some(Lifetime::Window(window)) => Some(*window),
        _ => None,
    };
    let capacity = Capacity::Units(size.unwrap_or(1));
    Pool::new(
        path.clone(),
        &PoolSpec {
            capacity,
            order: Order::Strict,
            window,
            declared: false,
            cleaning: false,
            fair: None,
            scripts: Scripts::default(),
        },
    )
}

pub(super) fn limit(limit: &'static str, max: usize) -> Refusal {
    Refusal::LimitReached { limit: limit.into(), max }
}

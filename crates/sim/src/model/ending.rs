//! Everything that ends, and who is served then.

use std::sync::Arc;

use tenure_core::*;

use super::{Model, is_window};

/// In this order at the same instant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Hold(Token),
    Wait(WaiterId),
    Session(SessionId),
    Idle(PoolPath),
    Return(PoolPath, Option<ResourceName>),
    Reservation(PoolPath, ResourceName),
}

impl Model {
    /// First all that is due ends, then those are served who can be.
    pub(super) fn end_what_is_due(&mut self) {
        loop {
            match self.next_due() {
                Some(Due::Hold(token)) => {
                    let pool = self.end_hold(token, HoldEnd::Expired);
                    self.to_serve.push(pool);
                }
                Some(Due::Wait(id)) => {
                    let pool = self.end_wait(id, WaitEnd::TimedOut);
                    self.to_serve.push(pool);
                }
                Some(Due::Session(id)) => self.end_all_of_session(id),
                Some(Due::Idle(path)) => self.pools.retain(|pool| pool.path != path),
                Some(Due::Return(path, resource)) => {
                    self.change_condition(&path, resource.as_ref(), Condition::InService, None);
                    self.to_serve.push(path);
                }
                Some(Due::Reservation(path, resource)) => {
                    self.set_reserved(&path, &resource, None);
                    self.to_serve.push(path);
                }
                None => {
                    if self.to_serve.is_empty() {
                        break;
                    }
                    self.serve_first();
                }
            }
        }
        for session in std::mem::take(&mut self.over) {
            self.dismiss(session, Refusal::UnknownSession);
        }
    }

    fn next_due(&self) -> Option<Due> {
        let idle = |since| since + self.limits.pool_idle;
        let holds = self.holds.iter().filter_map(|it| Some((it.deadline?, Due::Hold(it.token))));
        let waits = self.waiters.iter().filter_map(|it| Some((it.deadline?, Due::Wait(it.id))));
        let sessions = self.sessions.iter().filter_map(|it| Some((it.deadline?, Due::Session(it.id))));
        let pools = self.pools.iter().filter_map(|it| Some((idle(it.idle_since?), Due::Idle(it.path.clone()))));
        let returns = self.pools.iter().filter_map(|it| Some((it.until?, Due::Return(it.path.clone(), None))));
        let resources = || self.pools.iter().flat_map(|pool| pool.resources.iter().map(move |it| (pool, it)));
        let returning = resources()
            .filter_map(|(pool, it)| Some((it.until?, Due::Return(pool.path.clone(), Some(it.spec.name.clone())))));
        let reserved = resources().filter_map(|(pool, it)| {
            let until = it.reserved.as_ref()?.until?;
            Some((until, Due::Reservation(pool.path.clone(), it.spec.name.clone())))
        });
        let others = returns.chain(returning).chain(reserved);
        let due =
            holds.chain(waits).chain(sessions).chain(pools).chain(others).filter(|(deadline, _)| *deadline <= self.now);
        due.min().map(|(_, due)| due)
    }

    /// Gives what is free to those who wait, in the further pools of sets too.
    pub(super) fn serve(&mut self, path: &PoolPath) {
        self.serve_pool(path);
        while !self.to_serve.is_empty() {
            self.serve_first();
        }
    }

    fn serve_first(&mut self) {
        self.to_serve.sort();
        self.to_serve.dedup();
        let path = self.to_serve.remove(0);
        self.serve_pool(&path);
    }

    fn serve_pool(&mut self, path: &PoolPath) {
        while let Some(pool) = self.pool(path) {
            if pool.removing {
                for id in self.queue(path).iter().map(|waiter| waiter.id).collect::<Vec<_>>() {
                    self.end_wait(id, WaitEnd::PoolRemoved);
                }
                if self.holds_of(path).count() == 0 {
                    self.pools.retain(|pool| pool.path != *path);
                }
                return;
            }
            let Some((id, rooms)) = self.next(path) else { return };
            if self.first_by_script(path).is_err() {
                self.note_fault(path);
            }
            let waiter = self.leave(id, true);
            let grant = self.grant(&waiter, &rooms, true);
            let pools = waiter.parts().into_iter().map(|(pool, _)| pool);
            self.to_serve.extend(pools.filter(|pool| pool != path));
            self.settle(id, &Reply::Granted(Box::new(grant)));
        }
    }

    /// Gives the pool in which others may be served now.
    pub(super) fn end_hold(&mut self, token: Token, how: HoldEnd) -> PoolPath {
        let at = self.holds.iter().position(|hold| hold.token == token).expect("what ends is held");
        let hold = self.holds.remove(at);
        self.told.retain(|(it, _)| *it != token);
        for path in hold.pools() {
            let has = hold.has(&path).expect("it is one of its pools");
            for name in has.resources {
                self.uses += 1;
                let used = self.uses;
                let pool = self.pool_mut(&path);
                let cleaning = pool.cleaning;
                pool.resources.retain(|resource| resource.spec.name != *name || !resource.leaving);
                if let Some(resource) = pool.resources.iter_mut().find(|resource| resource.spec.name == *name) {
                    resource.used = used;
                    let keeps = matches!(how, HoldEnd::Unreceived | HoldEnd::Stolen { .. });
                    if cleaning && !keeps {
                        // Only whoever cleaned it and released it says that it is clean.
                        resource.dirty = !(has.dirty && how == HoldEnd::Released);
                    }
                }
            }
        }
        if hold.pools().len() > 1 {
            self.to_serve.extend(hold.pools());
        }
        if let (Some(request), true) = (hold.request.clone(), how != HoldEnd::Unreceived) {
            self.remember(hold.pool.namespace().clone(), request, Some(token));
        }
        hold.pools().iter().for_each(|path| self.note_idle(path));
        let lost = match how {
            HoldEnd::Expired => !is_window(&hold.lifetime),
            HoldEnd::Forced(_) | HoldEnd::OwnerGone | HoldEnd::Stolen { .. } => true,
            HoldEnd::Released | HoldEnd::Withdrawn | HoldEnd::Unreceived | HoldEnd::SessionEnded => false,
        };
        let carrier = self.carriers.iter().find(|carrier| Some(carrier.session) == hold.session);
        if let (true, Some(carrier)) = (lost, carrier) {
            let lost = Reply::Lost(Arc::new(HoldLost { token, how }));
            self.answers.push((carrier.ticket, Ok(lost)));
        }
        hold.pool
    }

    /// Gives the pool in which others may be served now.
    pub(super) fn end_wait(&mut self, id: WaiterId, how: WaitEnd) -> PoolPath {
        let at = self.waiters.iter().position(|waiter| waiter.id == id).expect("what ends waits");
        let waiter = &self.waiters[at];
        let path = waiter.pool.clone();
        let refusal = match how {
            WaitEnd::TimedOut if waiter.also.is_empty() => {
                Refusal::TimedOut(Box::new(self.no_room(&path, self.position(&path, id))))
            }
            WaitEnd::TimedOut => Refusal::TimedOut(Box::new(self.no_room_for_set(waiter))),
            WaitEnd::Withdrawn | WaitEnd::CallerGone | WaitEnd::OwnerGone => {
                Refusal::Withdrawn { request: waiter.request.clone() }
            }
            WaitEnd::SessionEnded => Refusal::UnknownSession,
            WaitEnd::NeverFits => {
                let parts = waiter.parts();
                let never = parts.iter().find_map(|(path, demand)| self.known(path).never_fits(demand));
                never.unwrap_or_else(|| {
                    let other = parts.iter().find(|(path, _)| self.known(path).window != waiter.window(path));
                    let (pool, _) = other.expect("one of its pools is another window");
                    Refusal::WindowMismatch { pool: pool.clone(), window: self.known(pool).window }
                })
            }
            WaitEnd::PoolRemoved => {
                let removing = waiter.parts().into_iter().find(|(path, _)| self.known(path).removing);
                Refusal::PoolRemoving { pool: removing.expect("one of its pools is").0 }
            }
        };
        let waiter = self.leave(id, false);
        let pools: Vec<_> = waiter.parts().into_iter().map(|(pool, _)| pool).collect();
        if let (Some(request), true) = (waiter.request, how != WaitEnd::CallerGone) {
            self.remember(path.namespace().clone(), request, None);
        }
        pools.iter().for_each(|path| self.note_idle(path));
        if pools.len() > 1 {
            self.to_serve.extend(pools);
        }
        self.settle(id, &Reply::Refused(Box::new(refusal)));
        path
    }

    /// Which of its pools have no room for a set, and why.
    pub(super) fn no_room_for_set(&self, waiter: &super::Waiter) -> NoRoom {
        let mut lacking: Vec<_> = waiter.parts().into_iter().map(|(path, _)| path).collect();
        lacking.retain(|path| self.room(path, waiter).is_none());
        if lacking.is_empty() {
            lacking.push(waiter.pool.clone());
        }
        let mut rooms: Vec<_> = lacking.iter().map(|path| self.no_room(path, self.position(path, waiter.id))).collect();
        let first = rooms.remove(0);
        NoRoom { also: rooms, ..first }
    }

    pub(super) fn no_room(&self, path: &PoolPath, position: usize) -> NoRoom {
        let pool = self.known(path);
        let mut holds: Vec<_> = self.holds_of(path).collect();
        holds.sort_by_key(|has| has.hold.token);
        let view = |has: &super::Has<'_>| {
            let hold = has.hold;
            let first = (hold.pool != *path).then(|| HeldPart {
                pool: hold.pool.clone(),
                taken: Taken {
                    units: hold.units,
                    resources: hold.resources.clone().into(),
                    all: hold.all,
                    dirty: hold.dirty,
                },
                until: None,
            });
            HoldView {
                pool: path.clone(),
                token: hold.token,
                holder: hold.holder.clone(),
                units: has.units,
                resources: has.resources.to_vec(),
                lifetime: hold.lifetime.clone(),
                since: hold.since,
                deadline: hold.deadline,
                session: hold.session,
                also: first.into_iter().chain(hold.also.iter().filter(|part| part.pool != *path).cloned()).collect(),
            }
        };
        let free = self.free_resources(pool);
        let is_dirty = |name: &ResourceName| pool.resources.iter().any(|it| it.spec.name == *name && it.dirty);
        let dirty = free.iter().filter(|name| is_dirty(name)).count();
        let free_resources = u32::try_from(free.len() - dirty).expect("a few");
        let reserved = pool.resources.iter();
        let reserved = reserved.filter_map(|it| Some((it.spec.name.clone(), it.reserved.as_ref()?.holder.clone())));
        let mut reserved: Vec<_> = reserved.collect();
        reserved.sort();
        NoRoom {
            pool: path.clone(),
            at: self.now,
            holders: holds.iter().take(HOLDERS_TOLD_MAX).map(view).collect(),
            holders_total: holds.len(),
            position,
            free: if pool.units.is_some() { self.free_units(pool) } else { free_resources },
            also: Vec::new(),
            dirty: u32::try_from(dirty).expect("a few"),
            reserved,
        }
    }
}

//! Who is next, and what they get.

use tenure_core::*;

use super::{Hold, Model, Pool, Resource, Waiter};

/// What somebody could be given of a pool: units, or so many of the open resources.
#[derive(Clone, Debug)]
pub(super) struct Room {
    path: PoolPath,
    pub(super) units: u32,
    /// Those reserved for whoever it is come first, and are taken first.
    pub(super) own: Vec<ResourceName>,
    pub(super) others: Vec<ResourceName>,
    all: bool,
    dirty: bool,
}

/// What of a pool is free and not kept aside for those ahead.
struct Left {
    units: u32,
    /// In the order in which the placement prefers them.
    resources: Vec<ResourceName>,
}

impl Model {
    /// The first in order that can be served now, with what it can have of each of its pools.
    pub(super) fn next(&self, path: &PoolPath) -> Option<(WaiterId, Vec<Room>)> {
        let pool = self.known(path);
        let queue: Vec<_> = self.queue(path).into_iter().filter(|waiter| !waiter.away).collect();
        if let Ok(Some(first)) = self.first_by_script(path) {
            let waiter = queue.iter().find(|waiter| waiter.id == first)?;
            return Some((first, vec![self.room_alone(path, waiter)?]));
        }
        for (at, waiter) in queue.iter().enumerate() {
            let rooms = self.room_behind(path, waiter, &queue[..at]).and_then(|_| {
                let rooms = waiter.parts().into_iter().map(|(pool, _)| {
                    // Somebody there may be before it.
                    let unsettled = pool != *path && self.to_serve.contains(&pool);
                    if unsettled { None } else { self.room(&pool, waiter) }
                });
                rooms.collect::<Option<_>>()
            });
            match rooms {
                Some(rooms) => return Some((waiter.id, rooms)),
                // Nobody overtakes whoever waits for units.
                None if pool.units.is_some() && pool.order == Order::Strict && waiter.also.is_empty() => return None,
                None => {}
            }
        }
        None
    }

    /// What the pool's order leaves for somebody. In strict order nobody is given what somebody ahead could use; for a set
    /// ahead what it needs is kept aside in any order.
    pub(super) fn room(&self, path: &PoolPath, waiter: &Waiter) -> Option<Room> {
        let queue = self.queue(path).into_iter().take_while(|ahead| ahead.id != waiter.id);
        let ahead: Vec<_> = queue.filter(|ahead| !ahead.away).collect();
        self.room_behind(path, waiter, &ahead)
    }

    /// As if nobody were ahead.
    pub(super) fn room_alone(&self, path: &PoolPath, waiter: &Waiter) -> Option<Room> {
        self.room_behind(path, waiter, &[])
    }

    fn room_behind(&self, path: &PoolPath, waiter: &Waiter, queue: &[&Waiter]) -> Option<Room> {
        let pool = self.known(path);
        if pool.condition != Condition::InService || pool.removing {
            return None;
        }
        let mut left = Left { units: self.free_units(pool), resources: self.free_resources(pool) };
        let demand = waiter.wants(path)?;
        self.fit(pool, &left, demand, &waiter.holder.id)?;
        for ahead in queue {
            let is_set = !ahead.also.is_empty();
            let keeps = if is_set { self.all_in_service(ahead) } else { pool.order == Order::Strict };
            if !keeps {
                continue;
            }
            let wanted = ahead.wants(path)?;
            match self.fit(pool, &left, wanted, &ahead.holder.id) {
                Some(room) if pool.units.is_some() => left.units -= room.units,
                Some(room) => {
                    let kept: Vec<_> = room.own.iter().chain(&room.others).take(room.units as usize).collect();
                    left.resources.retain(|name| !kept.contains(&name));
                }
                None => {
                    left.units = 0;
                    left.resources.retain(|name| !may_have(pool, wanted, &ahead.holder.id, name));
                }
            }
            self.fit(pool, &left, demand, &waiter.holder.id)?;
        }
        self.fit(pool, &left, demand, &waiter.holder.id)
    }

    fn fit(&self, pool: &Pool, left: &Left, demand: &Demand, holder: &HolderId) -> Option<Room> {
        let all = demand.amount == Amount::All;
        let open = left.resources.iter().filter(|name| may_have(pool, demand, holder, name)).cloned();
        let is_own = |name: &ResourceName| pool.resources.iter().any(|it| it.spec.name == *name && is_for(it, holder));
        let (own, others): (Vec<_>, Vec<_>) = open.partition(is_own);
        let (wanted, most) = match pool.units {
            Some(size) => (size, left.units),
            None => (count(pool.matching(demand).len()), count(own.len() + others.len())),
        };
        let wanted = match demand.amount {
            Amount::Count(count) => count,
            Amount::All => wanted,
        };
        let alone = !all || pool.units.is_none() || self.holds_of(&pool.path).count() == 0;
        let (path, dirty) = (pool.path.clone(), demand.dirty);
        (wanted > 0 && wanted <= most && alone).then_some(Room { path, units: wanted, own, others, all, dirty })
    }

    pub(super) fn all_in_service(&self, waiter: &Waiter) -> bool {
        let pools: Vec<_> = waiter.parts().into_iter().map(|(path, _)| self.known(&path)).collect();
        pools.iter().all(|pool| pool.condition == Condition::InService && !pool.removing)
    }

    pub(super) fn free_units(&self, pool: &Pool) -> u32 {
        let used: u64 = self.holds_of(&pool.path).map(|hold| u64::from(hold.units)).sum();
        let all_taken = self.holds_of(&pool.path).any(|hold| hold.all);
        let free = u64::from(pool.size()).saturating_sub(used);
        if all_taken { 0 } else { u32::try_from(free).expect("at most the size") }
    }

    /// In the order in which the placement prefers them.
    pub(super) fn free_resources(&self, pool: &Pool) -> Vec<ResourceName> {
        let mut free: Vec<_> = pool
            .resources
            .iter()
            .filter(|it| !it.leaving && it.condition == Condition::InService && !self.is_held(pool, &it.spec.name))
            .collect();
        match pool.placement {
            Placement::First | Placement::Random | Placement::Spread(_) => {}
            Placement::LeastRecentlyUsed => free.sort_by_key(|resource| resource.used),
            Placement::MostRecentlyUsed => free.sort_by_key(|resource| std::cmp::Reverse(resource.used)),
        }
        free.into_iter().map(|resource| resource.spec.name.clone()).collect()
    }

    fn is_held(&self, pool: &Pool, name: &ResourceName) -> bool {
        self.holds_of(&pool.path).any(|hold| hold.resources.contains(name))
    }

    /// `nth` is which of the pools of a set it is.
    fn take(&mut self, waiter: &Waiter, room: &Room, nth: usize) -> Taken {
        let pool = self.known(&room.path).clone();
        if let Some(resources) = self.chosen_by_script(&pool, room, waiter) {
            return Taken { units: room.units, resources: resources.into(), all: room.all, dirty: room.dirty };
        }
        let wanted = if pool.units.is_some() { 0 } else { room.units as usize };
        let first = wanted.min(room.own.len());
        let mut resources = self.choose_resources(&pool, room.own.clone(), first, (nth, 0));
        resources.extend(self.choose_resources(&pool, room.others.clone(), wanted - first, (nth, first)));
        Taken { units: room.units, resources: resources.into(), all: room.all, dirty: room.dirty }
    }

    /// So many of the open ones. `after` is how many have been chosen before: of which pool of a set, and from others.
    fn choose_resources(
        &mut self,
        pool: &Pool,
        mut open: Vec<ResourceName>,
        wanted: usize,
        after: (usize, usize),
    ) -> Vec<ResourceName> {
        match &pool.placement {
            Placement::First | Placement::LeastRecentlyUsed | Placement::MostRecentlyUsed => {
                open.truncate(wanted);
                open
            }
            Placement::Random => {
                let chosen = self.choices.granted.front().and_then(|(_, resources)| resources.get(after.0).cloned());
                let chosen: Vec<_> = chosen.unwrap_or_default().into_iter().skip(after.1).take(wanted).collect();
                let mut distinct = chosen.clone();
                distinct.sort();
                distinct.dedup();
                if distinct.len() != wanted || !chosen.iter().all(|name| open.contains(name)) {
                    self.wrong = Some(format!("{chosen:?} were chosen at random from {open:?}, {wanted} of them"));
                    open.truncate(wanted);
                    return open;
                }
                chosen
            }
            Placement::Spread(label) => self.spread(pool, label, open, wanted),
        }
    }

    /// One by one, each where its label's value is in use least.
    pub(super) fn spread(
        &self,
        pool: &Pool,
        label: &LabelName,
        mut open: Vec<ResourceName>,
        wanted: usize,
    ) -> Vec<ResourceName> {
        let mut chosen = Vec::new();
        while chosen.len() < wanted {
            let value = |name: &ResourceName| {
                let resource = pool.resources.iter().find(|resource| resource.spec.name == *name);
                resource.and_then(|it| it.spec.labels.get(label.as_str())).unwrap_or_default().to_owned()
            };
            let in_use = |name: &ResourceName| {
                let held = pool.resources.iter().map(|it| &it.spec.name).filter(|it| self.is_held(pool, it));
                held.chain(&chosen).filter(|other| value(other) == value(name)).count()
            };
            let least = (0..open.len()).min_by_key(|at| in_use(&open[*at])).expect("there are enough");
            chosen.push(open.remove(least));
        }
        chosen
    }

    /// Gives it to them: one hold, and one more for each place in a rate window beside it.
    pub(super) fn grant(&mut self, waiter: &Waiter, rooms: &[Room], from_queue: bool) -> Grant {
        let given = (0..).zip(rooms).map(|(nth, room)| self.take(waiter, room, nth)).collect();
        self.give(waiter, given, from_queue)
    }

    /// Gives somebody just this of its pools.
    pub(super) fn give(&mut self, waiter: &Waiter, given: Vec<Taken>, from_queue: bool) -> Grant {
        let names: Vec<_> = given.iter().map(|taken| taken.resources.to_vec()).collect();
        let chosen = self.choices.granted.pop_front();
        let (key, resources) = self.choose("a grant", chosen, (waiter.key, names.clone()));
        if from_queue && key != waiter.key {
            self.wrong = Some(format!("waiter {} got another key than it was given", waiter.id.0));
        }
        if resources != names {
            self.wrong = Some(format!("{resources:?} were granted instead of {names:?}"));
        }
        for ((path, _), taken) in waiter.parts().iter().zip(&given).filter(|(_, taken)| !taken.dirty) {
            for name in &taken.resources {
                let found = self.known(path).resources.iter().find(|it| it.spec.name == *name);
                if found.is_some_and(|it| is_for(it, &waiter.holder.id)) {
                    self.set_reserved(path, name, None);
                }
            }
        }
        let mut taken = given.into_iter();
        let first = taken.next().expect("there is a first pool");
        let parts = waiter.also.iter().zip(taken).map(|(part, taken)| HeldPart {
            pool: part.pool.clone(),
            taken,
            until: part.window.map(|window| self.now + window),
        });
        let parts: Vec<_> = parts.collect();
        let token = self.hold(waiter, key, waiter.pool.clone(), first, waiter.lifetime.clone(), waiter.request.clone());
        self.holds.last_mut().expect("it was just put there").also.clone_from(&parts);
        for (part, held) in waiter.also.iter().zip(parts) {
            self.note_busy(&part.pool);
            if let Some(window) = part.window {
                let chosen = self.choices.granted.pop_front();
                let resources = vec![held.taken.resources.to_vec()];
                let (key, found) = self.choose("a place in a window", chosen, (waiter.key, resources.clone()));
                if found != resources {
                    self.wrong = Some(format!("{found:?} were granted instead of {resources:?}"));
                }
                self.hold(waiter, key, part.pool.clone(), held.taken, Lifetime::Window(window), None);
            }
        }
        self.told_grant(token)
    }

    fn hold(
        &mut self,
        waiter: &Waiter,
        key: Key,
        pool: PoolPath,
        taken: Taken,
        lifetime: Lifetime,
        request: Option<RequestId>,
    ) -> Token {
        if self.holds.iter().any(|hold| hold.key == key) {
            self.wrong = Some("two holds have one key".into());
        }
        let token = Token(self.token_next);
        self.token_next += 1;
        self.note_busy(&pool);
        let deadline = match lifetime {
            Lifetime::Leased(ttl) | Lifetime::Window(ttl) | Lifetime::Session(Some(ttl)) => Some(self.now + ttl),
            Lifetime::Session(None) | Lifetime::Kept | Lifetime::Bound(_) => None,
        };
        self.holds.push(Hold {
            token,
            pool,
            key,
            holder: waiter.holder.clone(),
            units: taken.units,
            resources: taken.resources.to_vec(),
            all: taken.all,
            dirty: taken.dirty,
            lifetime,
            since: self.now,
            deadline,
            session: waiter.session,
            request,
            also: Vec::new(),
        });
        token
    }

    /// A hold as its holder is told of it.
    pub(super) fn told_grant(&self, token: Token) -> Grant {
        let hold = self.holds.iter().find(|hold| hold.token == token).expect("it is held");
        let also = hold.also.iter().map(|part| GrantedPart {
            pool: part.pool.clone(),
            units: part.taken.units,
            resources: self.told(&part.pool, &part.taken.resources),
            until: part.until,
        });
        Grant {
            pool: hold.pool.clone(),
            token,
            key: hold.key,
            units: hold.units,
            resources: self.told(&hold.pool, &hold.resources),
            lifetime: hold.lifetime.clone(),
            since: hold.since,
            deadline: hold.deadline,
            also: also.collect(),
        }
    }

    /// Of what is over, in a window that has passed, perhaps no more than the name is known.
    fn told(&self, path: &PoolPath, names: &[ResourceName]) -> Vec<ResourceSpec> {
        let spec = |name: &ResourceName| {
            let found = self.pool(path).and_then(|pool| pool.resources.iter().find(|it| it.spec.name == *name));
            let unknown =
                || ResourceSpec { name: name.clone(), labels: Labels::default(), properties: Labels::default() };
            found.map_or_else(unknown, |resource| resource.spec.clone())
        };
        names.iter().map(spec).collect()
    }
}

/// What is dirty is only for those who clean, who need not mind for whom it is reserved.
fn may_have(pool: &Pool, demand: &Demand, holder: &HolderId, name: &ResourceName) -> bool {
    let Some(found) = pool.matching(demand).into_iter().find(|it| it.spec.name == *name) else { return false };
    let others = found.reserved.is_some() && !is_for(found, holder);
    if demand.dirty { found.dirty } else { !found.dirty && !others }
}

fn is_for(resource: &Resource, holder: &HolderId) -> bool {
    resource.reserved.as_ref().is_some_and(|reserved| reserved.holder == *holder)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).expect("a few")
}

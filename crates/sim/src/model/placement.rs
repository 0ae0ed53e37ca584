//! Who is next, and what they get.

use tenure_core::*;

use super::{Hold, Model, Pool, Resource, Waiter};

/// What somebody is given.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) units: u32,
    pub(super) resources: Vec<ResourceName>,
    pub(super) all: bool,
    pub(super) dirty: bool,
}

impl Model {
    /// The first in order that can be served now. In strict order nobody is given what somebody ahead could use.
    pub(super) fn next(&mut self, path: &PoolPath) -> Option<(WaiterId, Given)> {
        let pool = self.known(path).clone();
        if pool.condition != Condition::InService || pool.removing {
            return None;
        }
        let mut free = self.free_resources(&pool);
        let queue: Vec<Waiter> = self.queue(path).into_iter().filter(|waiter| !waiter.away).cloned().collect();
        for waiter in queue {
            let all = waiter.demand.amount == Amount::All;
            if pool.units.is_some() {
                let free = self.free_units(&pool);
                let wanted = match waiter.demand.amount {
                    Amount::Count(count) => count,
                    Amount::All => pool.size(),
                };
                let alone = !all || self.holds_of(path).count() == 0;
                if wanted > 0 && wanted <= free && alone {
                    return Some((waiter.id, Given { units: wanted, resources: Vec::new(), all, dirty: false }));
                }
                if pool.order == Order::Strict {
                    return None;
                }
                continue;
            }
            let matching = pool.matching(&waiter.demand);
            let wanted = match waiter.demand.amount {
                Amount::Count(count) => count as usize,
                Amount::All => matching.len(),
            };
            // What is dirty is only for those who clean, who need not mind for whom it is reserved.
            let may_have = |it: &Resource| {
                let others = it.reserved.as_ref().is_some_and(|reserved| reserved.holder != waiter.holder.id);
                if waiter.demand.dirty { it.dirty } else { !it.dirty && !others }
            };
            let allowed: Vec<_> = matching.iter().filter(|it| may_have(it)).map(|it| it.spec.name.clone()).collect();
            let matches = |name: &ResourceName| allowed.contains(name);
            let open: Vec<_> = free.iter().filter(|name| matches(name)).cloned().collect();
            if wanted > 0 && wanted <= open.len() {
                let is_own = |name: &ResourceName| {
                    let resource = matching.iter().find(|it| it.spec.name == *name);
                    let reserved = resource.and_then(|it| it.reserved.as_ref());
                    reserved.is_some_and(|reserved| reserved.holder == waiter.holder.id)
                };
                let (own, others): (Vec<_>, Vec<_>) = open.into_iter().partition(is_own);
                let first = wanted.min(own.len());
                let mut resources = self.choose_resources(&pool, own, first, 0);
                resources.extend(self.choose_resources(&pool, others, wanted - first, first));
                let units = u32::try_from(wanted).expect("a few");
                return Some((waiter.id, Given { units, resources, all, dirty: waiter.demand.dirty }));
            }
            if pool.order == Order::Strict {
                free.retain(|name| !matches(name));
            }
        }
        None
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

    /// So many of the open ones. `after` is how many have been chosen from others before.
    fn choose_resources(
        &mut self,
        pool: &Pool,
        mut open: Vec<ResourceName>,
        wanted: usize,
        after: usize,
    ) -> Vec<ResourceName> {
        match &pool.placement {
            Placement::First | Placement::LeastRecentlyUsed | Placement::MostRecentlyUsed => {
                open.truncate(wanted);
                open
            }
            Placement::Random => {
                let chosen = self.choices.granted.front().map(|(_, resources)| resources.clone()).unwrap_or_default();
                let chosen: Vec<_> = chosen.into_iter().skip(after).take(wanted).collect();
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
            Placement::Spread(label) => {
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
        }
    }

    /// Gives it to them.
    pub(super) fn grant(&mut self, waiter: Waiter, given: Given, from_queue: bool) -> Grant {
        let chosen = self.choices.granted.pop_front();
        let (key, resources) = self.choose("a grant", chosen, (waiter.key, given.resources.clone()));
        if from_queue && key != waiter.key {
            self.wrong = Some(format!("waiter {} got another key than it was given", waiter.id.0));
        }
        if resources != given.resources {
            self.wrong = Some(format!("{resources:?} were granted instead of {:?}", given.resources));
        }
        if self.holds.iter().any(|hold| hold.key == key) {
            self.wrong = Some("two holds have one key".into());
        }
        let token = Token(self.token_next);
        self.token_next += 1;
        self.note_busy(&waiter.pool);
        if !given.dirty {
            for name in &given.resources {
                let found = self.known(&waiter.pool).resources.iter().find(|it| it.spec.name == *name);
                let reserved = found.and_then(|it| it.reserved.as_ref());
                if reserved.is_some_and(|reserved| reserved.holder == waiter.holder.id) {
                    self.set_reserved(&waiter.pool, name, None);
                }
            }
        }
        let deadline = match waiter.lifetime {
            Lifetime::Leased(ttl) | Lifetime::Window(ttl) | Lifetime::Session(Some(ttl)) => Some(self.now + ttl),
            Lifetime::Session(None) | Lifetime::Kept | Lifetime::Bound(_) => None,
        };
        self.holds.push(Hold {
            token,
            pool: waiter.pool,
            key,
            holder: waiter.holder,
            units: given.units,
            resources: given.resources,
            all: given.all,
            dirty: given.dirty,
            lifetime: waiter.lifetime,
            since: self.now,
            deadline,
            session: waiter.session,
            request: waiter.request,
        });
        self.told_grant(token)
    }

    /// A hold as its holder is told of it.
    pub(super) fn told_grant(&self, token: Token) -> Grant {
        let hold = self.holds.iter().find(|hold| hold.token == token).expect("it is held");
        let pool = self.known(&hold.pool);
        let spec = |name: &ResourceName| {
            let found = pool.resources.iter().find(|resource| resource.spec.name == *name);
            found.expect("a held resource stays").spec.clone()
        };
        Grant {
            pool: hold.pool.clone(),
            token,
            key: hold.key,
            units: hold.units,
            resources: hold.resources.iter().map(spec).collect(),
            lifetime: hold.lifetime.clone(),
            since: hold.since,
            deadline: hold.deadline,
            also: Vec::new(),
        }
    }
}

//! Answers to [`Query`], and the parts of refusals that tell how things stand. Reads only.

use alloc::vec::Vec;
use core::ops::Bound;

use crate::command::{Demand, ResourceSpec};
use crate::limits::{HOLDERS_TOLD_MAX, LOOKED_AT_MAX, PAGE_MAX};
use crate::names::*;
use crate::pool::{Kind, Pool, Taken};
use crate::record::{HeldPart, Hold, Waiter};
use crate::refusal::{NoRoom, Refusal};
use crate::reply::{Grant, GrantedPart};
use crate::state::State;
use crate::time::Timestamp;
use crate::view::*;

impl State {
    /// How things stand, as of the last thing that happened.
    pub fn query(&self, query: &Query) -> Result<View, Refusal> {
        self.query_at(query, self.counters.now)
    }

    /// The same, told at a later time.
    pub fn query_at(&self, query: &Query, now: Timestamp) -> Result<View, Refusal> {
        match query {
            Query::Pools { namespace, prefix, after, limit } => {
                Ok(View::Pools(self.pools_page(namespace, prefix, after.as_ref(), *limit)))
            }
            Query::Pool { pool } => Ok(View::Pool(alloc::boxed::Box::new(self.pool_detail(pool)?))),
            Query::Holds { namespace, pool, holder, after, limit } => {
                self.holds_page(namespace, pool.as_ref(), holder.as_ref(), *after, *limit).map(View::Holds)
            }
            Query::Queue { pool, after, limit } => self.queue_page(pool, *after, *limit).map(View::Queue),
            Query::Sessions { namespace, after, limit } => {
                Ok(View::Sessions(self.sessions_page(namespace, *after, *limit)))
            }
            Query::Owners { after, limit } => Ok(View::Owners(self.owners_page(after.as_ref(), *limit))),
            Query::Stats => Ok(View::Stats(self.stats())),
            Query::Explain { pool, who, limit } => {
                let explanation = self.explain(pool, who.as_ref(), *limit, now, None)?;
                Ok(View::Explained(alloc::boxed::Box::new(explanation)))
            }
            Query::Waits { namespace, holder, after, limit } => {
                Ok(View::Waits(self.waits_page(namespace, holder.as_ref(), *after, *limit)))
            }
            Query::Search { namespace, text, after, limit } => {
                Ok(View::Search(self.search_page(namespace, text, after.as_ref(), *limit)))
            }
        }
    }

    pub fn stats(&self) -> Stats {
        Stats {
            pools: self.pools.len(),
            holds: self.holds.len(),
            waiters: self.waiters.len(),
            sessions: self.sessions.len(),
            seq: self.counters.seq,
        }
    }

    fn pools_page(
        &self,
        namespace: &Namespace,
        prefix: &str,
        after: Option<&PoolName>,
        limit: usize,
    ) -> Page<PoolView, PoolName> {
        // The name before all others of the namespace that could match; pool names are not empty.
        let floor = after.map_or(prefix, |name| name.as_str().max(prefix));
        let floor = PoolName::parse(if floor.is_empty() { " " } else { floor }).ok();
        let from = floor.map(|name| PoolPath::new(namespace.clone(), name));
        let Some(from) = from else { return Page { items: Vec::new(), next: None } };
        let matching = self
            .pools
            .range(from..)
            .take_while(|(path, _)| path.namespace() == namespace && path.name().as_str().starts_with(prefix))
            .filter(|(path, _)| after != Some(path.name()))
            .map(|(path, pool)| (path.name(), Some(self.pool_view(path, pool))));
        let Page { items, next } = page(matching, limit);
        Page { items, next: next.cloned() }
    }

    pub(crate) fn pool_view(&self, path: &PoolPath, pool: &Pool) -> PoolView {
        PoolView {
            pool: path.clone(),
            named: matches!(pool.kind, Kind::Resources(_)),
            size: pool.size(),
            used: pool.used(),
            holds: pool.holds.len(),
            waiters: pool.queue.len(),
            waiting_since: pool.queue.oldest().map(|id| self.waiters[&id].since),
            condition: pool.condition.clone(),
            removing: pool.removing,
            declared: pool.declared,
            window: pool.window,
            until: pool.until,
            dirty: pool.dirty(),
        }
    }

    fn pool_detail(&self, path: &PoolPath) -> Result<PoolDetail, Refusal> {
        let pool = self.known_pool(path)?;
        let mut resources: Vec<_> = pool.resources().collect();
        resources.sort_by_key(|(_, resource)| resource.ordinal);
        let resources = resources
            .into_iter()
            .map(|(name, resource)| ResourceView {
                spec: ResourceSpec {
                    name: name.clone(),
                    labels: Labels::clone(&resource.labels),
                    properties: resource.properties.clone(),
                },
                condition: resource.condition.clone(),
                leaving: resource.leaving,
                hold: resource.hold,
                last_used: resource.used_at,
                until: resource.until,
                dirty: resource.dirty,
                reserved: resource.reserved.as_deref().cloned(),
            })
            .collect();
        let (summary, script_faults) = (self.pool_view(path, pool), pool.script_faults());
        Ok(PoolDetail { summary, spec: pool.spec(), resources, script_faults })
    }

    fn holds_page(
        &self,
        namespace: &Namespace,
        pool: Option<&PoolName>,
        holder: Option<&HolderId>,
        after: Option<Token>,
        limit: usize,
    ) -> Result<Page<HoldView, Token>, Refusal> {
        let from = Token(after.map_or(0, |token| token.0.saturating_add(1)));
        let wanted =
            |hold: &Hold| hold.pool.namespace() == namespace && holder.is_none_or(|holder| hold.holder.id == *holder);
        let entry = |token: Token, hold: &Hold, pool: Option<&PoolPath>| {
            (token, wanted(hold).then(|| self.hold_view(token, hold, pool.unwrap_or(&hold.pool))))
        };
        Ok(match pool {
            Some(name) => {
                let path = PoolPath::new(namespace.clone(), name.clone());
                let tokens = self.known_pool(&path)?.holds.from(from);
                page(tokens.map(|token| entry(token, &self.holds[&token], Some(&path))), limit)
            }
            None => page(self.holds.range(from..).map(|(token, hold)| entry(*token, hold, None)), limit),
        })
    }

    fn queue_page(
        &self,
        path: &PoolPath,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Page<WaiterView, Place>, Refusal> {
        let queue = &self.known_pool(path)?.queue;
        // Counted on from the first, because finding each by itself adds up.
        let mut ahead = None;
        let views = queue.after(after).map(|place| {
            let position = (!queue.is_away(place)).then(|| {
                let position = ahead.unwrap_or_else(|| queue.ahead_of(place)) + 1;
                ahead = Some(position);
                position
            });
            (place, Some(self.waiter_view(path, place, position)))
        });
        Ok(page(views, limit))
    }

    /// As it stands in the queue of one pool.
    pub(crate) fn waiter_view(&self, path: &PoolPath, place: Place, position: Option<usize>) -> WaiterView {
        let id = place.arrival();
        let waiter = &self.waiters[&id];
        WaiterView {
            id,
            place,
            position,
            holder: waiter.holder.clone(),
            demand: waiter.part(path).0.clone(),
            since: waiter.since,
            deadline: waiter.deadline,
            session: waiter.session,
            request: waiter.request.clone(),
            also: others(waiter, path),
        }
    }

    fn sessions_page(
        &self,
        namespace: &Namespace,
        after: Option<SessionId>,
        limit: usize,
    ) -> Page<SessionView, SessionId> {
        let from = SessionId(after.map_or(0, |id| id.0.saturating_add(1)));
        let entries = self.sessions.range(from..).map(|(id, session)| {
            let view = || SessionView {
                id: *id,
                holder: session.holder.clone(),
                grace: session.grace,
                attached: session.attached,
                deadline: session.deadline,
                holds: session.holds.len(),
                waiters: session.waiters.len(),
            };
            (*id, (session.namespace == *namespace).then(view))
        });
        page(entries, limit)
    }

    fn owners_page(
        &self,
        after: Option<&(Namespace, OwnerId)>,
        limit: usize,
    ) -> Page<(Namespace, OwnerId), (Namespace, OwnerId)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let owners = self.owners.range((from, Bound::Unbounded));
        page(owners.map(|(owner, _)| (owner.clone(), Some(owner.clone()))), limit)
    }

    /// A hold as it shows in one of its pools.
    pub(crate) fn hold_view(&self, token: Token, hold: &Hold, pool: &PoolPath) -> HoldView {
        let (pool, taken) =
            hold.parts().find(|(path, _)| *path == pool).expect("a hold is looked at in one of its pools");
        let first =
            (*pool != hold.pool).then(|| HeldPart { pool: hold.pool.clone(), taken: hold.taken.clone(), until: None });
        HoldView {
            pool: pool.clone(),
            token,
            holder: hold.holder.clone(),
            units: taken.units,
            resources: taken.resources.to_vec(),
            lifetime: hold.lifetime.clone(),
            since: hold.since,
            deadline: hold.deadline,
            session: hold.session,
            also: first.into_iter().chain(hold.also.iter().filter(|part| part.pool != *pool).cloned()).collect(),
        }
    }

    pub(crate) fn grant(&self, token: Token, hold: &Hold) -> Grant {
        let also = hold.also.iter().map(|part| GrantedPart {
            pool: part.pool.clone(),
            units: part.taken.units,
            resources: self.told(&part.pool, &part.taken),
            until: part.until,
        });
        Grant {
            pool: hold.pool.clone(),
            token,
            key: hold.key,
            units: hold.taken.units,
            resources: self.told(&hold.pool, &hold.taken),
            lifetime: hold.lifetime.clone(),
            since: hold.since,
            deadline: hold.deadline,
            also: also.collect(),
        }
    }

    /// What whoever was granted something is told of it.
    fn told(&self, path: &PoolPath, taken: &Taken) -> Vec<ResourceSpec> {
        if taken.resources.is_empty() {
            return Vec::new();
        }
        // A held resource stays in its pool. Of a place in a rate window that is over no more than the name may be known.
        let pool = self.pools.get(path);
        let told = |name: &ResourceName| match pool.and_then(|pool| pool.resource(name)) {
            Some((name, resource)) => ResourceSpec {
                name: name.clone(),
                labels: Labels::clone(&resource.labels),
                properties: resource.properties.clone(),
            },
            None => ResourceSpec { name: name.clone(), labels: Labels::default(), properties: Labels::default() },
        };
        taken.resources.iter().map(told).collect()
    }

    /// Some of those who hold a pool, those longest there first.
    pub(crate) fn holders(&self, path: &PoolPath, pool: &Pool) -> Vec<HoldView> {
        pool.holds
            .from(Token(0))
            .take(HOLDERS_TOLD_MAX)
            .map(|token| self.hold_view(token, &self.holds[&token], path))
            .collect()
    }

    /// Why a request finds no room.
    pub fn no_room(&self, path: &PoolPath, position: usize, at: Timestamp) -> NoRoom {
        let pool = &self.pools[path];
        NoRoom {
            pool: path.clone(),
            at,
            holders: self.holders(path, pool),
            holders_total: pool.holds.len(),
            position,
            free: pool.free(),
            also: Vec::new(),
            dirty: pool.dirty(),
            reserved: self.reserved(pool),
        }
    }

    /// Some of what is kept for holders to come, in the order of names.
    fn reserved(&self, pool: &Pool) -> Vec<(ResourceName, HolderId)> {
        let reserved =
            pool.resources().filter_map(|(name, it)| Some((name.clone(), it.reserved.as_ref()?.holder.clone())));
        if pool.has_reservations() { reserved.take(HOLDERS_TOLD_MAX).collect() } else { Vec::new() }
    }

    pub(crate) fn known_pool(&self, path: &PoolPath) -> Result<&Pool, Refusal> {
        self.pool(path).ok_or_else(|| Refusal::UnknownPool { pool: path.clone() })
    }
}

/// What a set wants of its other pools.
fn others(waiter: &Waiter, pool: &PoolPath) -> Vec<(PoolPath, Demand)> {
    let others = waiter.parts().filter(|(path, _)| *path != pool);
    others.map(|(path, demand)| (path.clone(), demand.clone())).collect()
}

/// Entries in order, each with where to go on after it, and without a view if it was not asked for.
pub(crate) fn page<T, C>(entries: impl Iterator<Item = (C, Option<T>)>, limit: usize) -> Page<T, C> {
    let limit = limit.clamp(1, PAGE_MAX);
    let mut items = Vec::new();
    let mut last = None;
    for (looked_at, (cursor, view)) in entries.enumerate() {
        if looked_at == LOOKED_AT_MAX || (items.len() == limit && view.is_some()) {
            return Page { items, next: last };
        }
        items.extend(view);
        last = Some(cursor);
    }
    Page { items, next: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_pages(entries: usize, limit: usize, wanted: impl Fn(usize) -> bool) -> Vec<Page<usize, usize>> {
        let mut pages: Vec<Page<usize, usize>> = Vec::new();
        loop {
            let from = pages.last().map_or(0, |page| page.next.expect("it goes on") + 1);
            pages.push(page((from..entries).map(|n| (n, wanted(n).then_some(n))), limit));
            if pages.last().is_some_and(|page| page.next.is_none()) {
                return pages;
            }
        }
    }

    #[test]
    fn pages_have_everything_that_is_asked_for_once() {
        for (entries, limit, every) in [(0, 10, 1), (20, 10, 1), (21, 10, 1), (25_000, 3, 4_000), (25_000, 1_000, 7)] {
            let pages = all_pages(entries, limit, |n| n % every == 0);
            assert!(pages.iter().all(|page| page.items.len() <= limit));
            let found: Vec<_> = pages.into_iter().flat_map(|page| page.items).collect();
            assert_eq!(found, (0..entries).step_by(every).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_full_page_says_whether_there_is_more() {
        assert_eq!(page((0..10).map(|n| (n, Some(n))), 10).next, None);
        assert_eq!(page((0..11).map(|n| (n, Some(n))), 10).next, Some(9));
    }

    #[test]
    fn a_page_ends_when_enough_was_looked_at_even_if_it_is_empty() {
        let looked_at = core::cell::Cell::new(0);
        let entries = (0..5 * LOOKED_AT_MAX).inspect(|_| looked_at.set(looked_at.get() + 1));
        let page: Page<(), _> = page(entries.map(|n| (n, None)), 10);
        assert_eq!(page, Page { items: Vec::new(), next: Some(LOOKED_AT_MAX - 1) });
        assert_eq!(looked_at.get(), LOOKED_AT_MAX + 1);
    }
}

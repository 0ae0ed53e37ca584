//! Looking for something whose place is not known: who waits anywhere, and what has a text in its name or labels. Each page
//! looks at a bounded number of entries, like every listing.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::iter;
use core::ops::Bound;

use crate::names::*;
use crate::query::page;
use crate::state::State;
use crate::view::*;

type Entries<'a> = Box<dyn Iterator<Item = (FoundAt, Option<Found>)> + 'a>;

impl State {
    pub(crate) fn waits_page(
        &self,
        namespace: &Namespace,
        holder: Option<&HolderId>,
        after: Option<WaiterId>,
        limit: usize,
    ) -> Page<WaitView, WaiterId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.waiters.range((from, Bound::Unbounded)).map(|(id, waiter)| {
            let wanted =
                waiter.pool.namespace() == namespace && holder.is_none_or(|holder| waiter.holder.id == *holder);
            let view = || {
                let queue = &self.pools[&waiter.pool].queue;
                let place = waiter.place(*id);
                let position = (!queue.is_away(place)).then(|| queue.ahead_of(place) + 1);
                WaitView { pool: waiter.pool.clone(), waiter: self.waiter_view(&waiter.pool, place, position) }
            };
            (*id, wanted.then(view))
        });
        page(entries, limit)
    }

    pub(crate) fn search_page(
        &self,
        namespace: &Namespace,
        text: &str,
        after: Option<&FoundAt>,
        limit: usize,
    ) -> Page<Found, FoundAt> {
        let wanted = Wanted(text.to_lowercase());
        let mut entries: Entries<'_> = Box::new(iter::empty());
        // What lies before the place to go on from is not looked at again.
        if after.is_none_or(|after| *after < FoundAt::Hold(Token(0))) {
            entries = Box::new(entries.chain(self.pools_with(namespace, &wanted, after)));
        }
        if after.is_none_or(|after| *after < FoundAt::Wait(WaiterId(0))) {
            entries = Box::new(entries.chain(self.holds_with(namespace, &wanted, after)));
        }
        if after.is_none_or(|after| *after < FoundAt::Session(SessionId(0))) {
            entries = Box::new(entries.chain(self.waits_with(namespace, &wanted, after)));
        }
        entries = Box::new(entries.chain(self.sessions_with(namespace, &wanted, after)));
        page(entries, limit)
    }

    fn pools_with<'a>(&'a self, namespace: &'a Namespace, wanted: &'a Wanted, after: Option<&FoundAt>) -> Entries<'a> {
        let after = match after {
            Some(FoundAt::Pool(pool, resource)) => Some((pool.clone(), resource.clone())),
            _ => None,
        };
        // A blank comes before all other names.
        let from = after.as_ref().map(|(pool, _)| pool.clone());
        let from = from.unwrap_or_else(|| PoolName::parse(" ").expect("a blank is a name"));
        let pools = self.pools.range(PoolPath::new(namespace.clone(), from)..);
        let pools = pools.take_while(move |(path, _)| path.namespace() == namespace);
        let entries = pools.flat_map(move |(path, pool)| {
            let itself = iter::once((None, wanted.is_in(path.name().as_str()), None));
            let resources = pool.resources().map(|(name, resource)| {
                let by_name = wanted.is_in(name.as_str());
                let because = if by_name { None } else { wanted.in_entries(resource.labels.iter()) };
                (Some(name.clone()), by_name || because.is_some(), because)
            });
            itself.chain(resources).map(|(resource, found, because)| {
                let at = FoundAt::Pool(path.name().clone(), resource);
                (at.clone(), found.then_some(Found { at, pool: None, holder: None, because }))
            })
        });
        let is_seen = move |at: &FoundAt| {
            after.as_ref().is_some_and(|(pool, resource)| *at <= FoundAt::Pool(pool.clone(), resource.clone()))
        };
        Box::new(entries.skip_while(move |(at, _)| is_seen(at)))
    }

    fn holds_with<'a>(&'a self, namespace: &'a Namespace, wanted: &'a Wanted, after: Option<&FoundAt>) -> Entries<'a> {
        let from = match after {
            Some(FoundAt::Hold(token)) => Bound::Excluded(*token),
            _ => Bound::Unbounded,
        };
        Box::new(self.holds.range((from, Bound::Unbounded)).map(move |(token, hold)| {
            let at = FoundAt::Hold(*token);
            let here = hold.pool.namespace() == namespace;
            let found = here.then(|| wanted.of_holder(at.clone(), Some(hold.pool.name()), &hold.holder)).flatten();
            (at, found)
        }))
    }

    fn waits_with<'a>(&'a self, namespace: &'a Namespace, wanted: &'a Wanted, after: Option<&FoundAt>) -> Entries<'a> {
        let from = match after {
            Some(FoundAt::Wait(id)) => Bound::Excluded(*id),
            _ => Bound::Unbounded,
        };
        Box::new(self.waiters.range((from, Bound::Unbounded)).map(move |(id, waiter)| {
            let at = FoundAt::Wait(*id);
            let here = waiter.pool.namespace() == namespace;
            let found = here.then(|| wanted.of_holder(at.clone(), Some(waiter.pool.name()), &waiter.holder)).flatten();
            (at, found)
        }))
    }

    fn sessions_with<'a>(
        &'a self,
        namespace: &'a Namespace,
        wanted: &'a Wanted,
        after: Option<&FoundAt>,
    ) -> Entries<'a> {
        let from = match after {
            Some(FoundAt::Session(id)) => Bound::Excluded(*id),
            _ => Bound::Unbounded,
        };
        Box::new(self.sessions.range((from, Bound::Unbounded)).map(move |(id, session)| {
            let at = FoundAt::Session(*id);
            let here = session.namespace == *namespace;
            let found = here.then(|| wanted.of_holder(at.clone(), None, &session.holder)).flatten();
            (at, found)
        }))
    }
}

/// What is looked for, in lower case.
struct Wanted(String);

impl Wanted {
    fn is_in(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.0)
    }

    /// The first entry that has it, alone or as `name=value`.
    fn in_entries<'a>(&self, mut entries: impl Iterator<Item = (&'a str, &'a str)>) -> Option<(String, String)> {
        let found = entries.find(|(name, value)| self.is_in(&alloc::format!("{name}={value}")))?;
        Some((found.0.to_owned(), found.1.to_owned()))
    }

    fn of_holder(&self, at: FoundAt, pool: Option<&PoolName>, holder: &Arc<Holder>) -> Option<Found> {
        let by_name = self.is_in(holder.id.as_str());
        let because = if by_name { None } else { self.in_entries(holder.meta()) };
        (by_name || because.is_some()).then(|| Found { at, pool: pool.cloned(), holder: Some(holder.clone()), because })
    }
}

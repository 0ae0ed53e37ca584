//! Answers of several keepers made into one, as if there were only one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tenure_core::{Page, PoolView, Refusal, Reply, SessionId, Stats, View};
use tenure_engine::{Failure, ReplyTo};

/// A command that every keeper was told.
#[derive(Debug)]
pub(super) struct Gather {
    pub(super) reply_to: ReplyTo,
    /// Whether the caller carries a session from then on, and is told what is lost of it.
    pub(super) carries: bool,
    replies: Mutex<Vec<Option<Reply>>>,
    /// Whether the last word has been said.
    over: AtomicBool,
}

/// What is to be done with an answer of one keeper.
pub(super) enum Gathered {
    /// Others have still to answer.
    NotYet,
    /// All have: this is what it comes to, and by what number each keeper knows the session, if it is one.
    All(Reply, Vec<(SessionId, u64)>),
    /// One that came after the first of each.
    Later(Reply),
    /// What another keeper has said already.
    Said,
}

impl Gather {
    pub(super) fn new(reply_to: ReplyTo, keepers: usize, carries: bool) -> Arc<Self> {
        Arc::new(Self { reply_to, carries, replies: Mutex::new(vec![None; keepers]), over: AtomicBool::new(false) })
    }

    pub(super) fn take(&self, keeper: usize, reply: Reply) -> Gathered {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        if replies[keeper].is_some() {
            let said = matches!(reply, Reply::Refused(_)) && self.over.swap(true, Ordering::AcqRel);
            return if said { Gathered::Said } else { Gathered::Later(reply) };
        }
        replies[keeper] = Some(reply);
        if replies.iter().any(Option::is_none) {
            return Gathered::NotYet;
        }
        let sessions = replies.iter().filter_map(|reply| match reply {
            Some(Reply::Session(open)) => Some((open.id, open.attachment)),
            _ => None,
        });
        let sessions = sessions.collect();
        Gathered::All(combine(replies.iter().flatten()), sessions)
    }

    pub(super) fn fail(&self, failure: Failure) {
        // Whoever does not listen need not know.
        let _ = self.reply_to.send(Err(failure));
    }
}

fn combine<'a>(replies: impl Iterator<Item = &'a Reply> + Clone) -> Reply {
    let refused = replies.clone().find(|reply| matches!(reply, Reply::Refused(_)));
    let first = replies.clone().next().expect("there is a keeper");
    match first {
        Reply::OwnerGone { .. } => {
            let holds = replies.map(|reply| if let Reply::OwnerGone { holds } = reply { *holds } else { 0 });
            Reply::OwnerGone { holds: holds.sum() }
        }
        _ => refused.unwrap_or(first).clone(),
    }
}

/// Of views of the same kind, one with everything, as much of it as a page may have.
pub(super) fn merge(views: Vec<Result<View, Refusal>>, limit: usize) -> Result<View, Refusal> {
    let views = views.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut views = views.into_iter();
    let first = views.next().expect("there is a keeper");
    Ok(views.fold(first, |all, view| match (all, view) {
        (View::Pools(a), View::Pools(b)) => View::Pools(pages(a, b, limit, |it: &PoolView| it.pool.name().clone())),
        (View::Holds(a), View::Holds(b)) => View::Holds(pages(a, b, limit, |it| it.token)),
        (View::Owners(a), View::Owners(b)) => View::Owners(pages(a, b, limit, Clone::clone)),
        (View::Stats(a), View::Stats(b)) => View::Stats(Stats {
            pools: a.pools + b.pools,
            holds: a.holds + b.holds,
            waiters: a.waiters + b.waiters,
            // Every keeper knows all of them.
            sessions: a.sessions.max(b.sessions),
            seq: a.seq.max(b.seq),
        }),
        (all, _) => all,
    }))
}

/// Both in one order. What lies beyond the point up to which both are complete is left to the next page.
fn pages<T, C: Ord + Clone>(a: Page<T, C>, b: Page<T, C>, limit: usize, place: impl Fn(&T) -> C) -> Page<T, C> {
    let complete = [a.next, b.next].into_iter().flatten().min();
    let mut items: Vec<_> = a.items.into_iter().chain(b.items).collect();
    items.sort_by_key(&place);
    let mut next = complete.clone();
    if let Some(complete) = complete {
        items.retain(|item| place(item) <= complete);
    }
    if limit > 0 && items.len() > limit {
        items.truncate(limit);
        next = items.last().map(&place);
    }
    Page { items, next }
}

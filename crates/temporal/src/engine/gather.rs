//! Answers of several keepers made into one, as if there were only one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tenure_core::{Page, PoolView, Refusal, Reply, SessionId, Stats, View};
use tenure_engine::{Failure, ReplyTo};

use super::line::is_face;

/// A command that every keeper was told.
#[derive(Debug)]
pub(super) struct Gather {
    pub(super) reply_to: ReplyTo,
    /// Whether the caller carries a session from then on, and is told what is lost of it.
    pub(super) carries: bool,
    /// By line.
    replies: Mutex<BTreeMap<usize, Option<Reply>>>,
    /// Whether the last word has been said.
    over: AtomicBool,
    /// Whether one has not answered and never will.
    failed: AtomicBool,
}

/// What is to be done with an answer of one keeper.
pub(super) enum Gathered {
    /// Others have still to answer.
    NotYet,
    /// All have: this is what it comes to, and by what numbers those on each line know the session, if it is one.
    All(Reply, Vec<Known>),
    /// One that came after the first of each.
    Later(Reply),
    /// What another keeper has said already.
    Said,
    /// A session that nobody knows how to use: another keeper will never answer.
    InVain(Known),
}

/// By what numbers a session is known at the end of a line: the line, its own and its connection's.
pub(super) type Known = (usize, SessionId, u64);

impl Gather {
    pub(super) fn new(reply_to: ReplyTo, lines: impl Iterator<Item = usize>, carries: bool) -> Arc<Self> {
        let replies = Mutex::new(lines.map(|line| (line, None)).collect());
        Arc::new(Self { reply_to, carries, replies, over: AtomicBool::new(false), failed: AtomicBool::new(false) })
    }

    pub(super) fn take(&self, line: usize, reply: Reply) -> Gathered {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        if replies.get(&line).is_none_or(Option::is_some) {
            // A session that a face forgets is not over: only a keeper can say that. It may also be late, and have been done
            // without.
            let said = match &reply {
                Reply::Lost(_) => false,
                _ if is_face(line) => true,
                Reply::Refused(_) => self.over.swap(true, Ordering::AcqRel),
                _ => false,
            };
            return if said { Gathered::Said } else { Gathered::Later(reply) };
        }
        let in_vain = match &reply {
            Reply::Session(open) if self.carries && self.failed.load(Ordering::Acquire) => {
                Some(Gathered::InVain((line, open.id, open.attachment)))
            }
            _ => None,
        };
        replies.insert(line, Some(reply));
        if let Some(in_vain) = in_vain {
            return in_vain;
        }
        if replies.values().any(Option::is_none) {
            return Gathered::NotYet;
        }
        let sessions = sessions(&replies);
        let said = |of_face: bool| {
            let said = replies.iter().filter(move |(line, _)| is_face(**line) == of_face);
            said.filter_map(|(_, reply)| reply.as_ref())
        };
        Gathered::All(combine(said(false), said(true)), sessions)
    }

    /// One will not answer. Gives where others have opened a session that is now in vain.
    pub(super) fn fail(&self, failure: Failure) -> Vec<Known> {
        let replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever does not listen need not know.
        let _ = self.reply_to.send(Err(failure));
        if !self.carries || !replies.values().any(Option::is_none) {
            return Vec::new();
        }
        self.failed.store(true, Ordering::Release);
        sessions(&replies)
    }
}

/// By what numbers those who have answered know the session, if it is one.
fn sessions(replies: &BTreeMap<usize, Option<Reply>>) -> Vec<Known> {
    let sessions = replies.iter().filter_map(|(line, reply)| match reply {
        Some(Reply::Session(open)) => Some((*line, open.id, open.attachment)),
        _ => None,
    });
    sessions.collect()
}

/// What keepers and faces have said. A face has its own pool and what belongs to it, and may know nothing of the rest.
fn combine<'a>(
    keepers: impl Iterator<Item = &'a Reply> + Clone,
    mut faces: impl Iterator<Item = &'a Reply> + Clone,
) -> Reply {
    let refused = keepers.clone().find(|reply| matches!(reply, Reply::Refused(_)));
    let first = keepers.clone().next().expect("there is a keeper");
    if let Some(done) = faces.clone().find(|reply| matches!(reply, Reply::Released { .. } | Reply::Renewed { .. })) {
        return done.clone();
    }
    match first {
        Reply::OwnerGone { .. } => {
            let holds = keepers
                .chain(faces.by_ref())
                .map(|reply| if let Reply::OwnerGone { holds } = reply { *holds } else { 0 });
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
        (View::Waits(a), View::Waits(b)) => View::Waits(pages(a, b, limit, |it| it.waiter.id)),
        (View::Search(a), View::Search(b)) => {
            let mut found = pages(a, b, limit, |it| it.at.clone());
            // Every keeper knows all sessions.
            found.items.dedup_by(|a, b| a.at == b.at);
            View::Search(found)
        }
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

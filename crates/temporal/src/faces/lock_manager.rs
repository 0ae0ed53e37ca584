//! The lock manager of the older sample: like the resource pool, but a lock belongs to one run of a workflow, is released by
//! naming that run, and is handed over by a signal when the workflow continues as new.

use tenure_core::{Stamp, Timestamp};

use super::book::{Book, Dropped, is_moved};
use super::pool::{ACQUIRE, ADD, OWNER_GONE, RELEASE, WITHDRAW};
use super::wire::{
    self, AcquireResource, Carried, HandoffResource, LockManagerInput, Ordered, ReleaseResource, Waiting,
};
use super::{Face, Start};

pub(crate) const HANDOFF: &str = "handoff_resource";
pub(crate) const ASSIGN: &str = "assign_resource";

#[derive(Debug)]
pub(crate) struct LockManagerFace {
    book: Book,
}

impl Face for LockManagerFace {
    fn open(
        workflow_id: &str,
        input: Option<&[u8]>,
        at: Timestamp,
        mint: &mut dyn FnMut() -> u128,
    ) -> Result<Start<Self>, String> {
        if is_moved(input) {
            let (book, _) = Book::moved(workflow_id, input)?;
            return Ok(Start { face: Self { book }, takes_over: None });
        }
        let mut input: LockManagerInput = wire::read(input)?;
        let takes_over = input.takes_over.take();
        Ok(Start { face: Self { book: Book::open(workflow_id, carried(input), at, mint)? }, takes_over })
    }

    fn hear(&mut self, stamp: Stamp, signal: &str, argument: Option<&[u8]>) -> Result<(), Dropped> {
        match signal {
            ACQUIRE => {
                let asked: AcquireResource = wire::read(argument)?;
                if asked.run_id.is_none() {
                    return Err("has no run_id".into());
                }
                self.book.acquire(stamp, asked, None)
            }
            RELEASE => {
                let release: ReleaseResource = wire::read(argument)?;
                match (release.release_key, release.resource, release.workflow_id) {
                    (Some(key), resource, _) => self.book.release_by_key(stamp, &key, resource.as_deref()),
                    (None, Some(resource), Some(workflow_id)) => {
                        self.book.release_by_party(stamp, &resource, &workflow_id, release.run_id.as_deref())
                    }
                    _ => Err("names no resource and workflow_id".into()),
                }
            }
            HANDOFF => {
                let handoff: HandoffResource = wire::read(argument)?;
                let HandoffResource { resource, workflow_id, old_run_id, new_run_id } = &handoff;
                self.book.hand_over(resource, workflow_id, old_run_id, new_run_id)
            }
            ADD => self.book.add_resources(stamp, &wire::read::<Vec<String>>(argument)?),
            OWNER_GONE => self.book.owner_gone(stamp, &wire::read(argument)?),
            WITHDRAW => self.book.withdraw(stamp, &wire::read(argument)?),
            unknown => Err(format!("there is no signal `{unknown}`")),
        }
    }

    fn assign_signal(&self) -> &str {
        ASSIGN
    }

    fn hand_on(&self) -> Vec<u8> {
        self.book.hand_on(None)
    }

    fn as_started(&self) -> Vec<u8> {
        let Carried { counters, resources, waiters } = self.book.carry();
        let queues = resources.into_iter().map(|(name, held)| (name, held.into_iter().collect()));
        let resource_queues = Ordered(queues.collect());
        wire::write(&LockManagerInput { counters, resource_queues, takes_over: None, waiters })
    }

    fn book(&self) -> &Book {
        &self.book
    }

    fn book_mut(&mut self) -> &mut Book {
        &mut self.book
    }
}

/// Who has what and who waits. The sample lets everybody wait for one resource; here they wait for any, those next in their
/// lists first.
pub(crate) fn carried(input: LockManagerInput) -> Carried {
    let LockManagerInput { counters, resource_queues: Ordered(queues), mut waiters, .. } = input;
    let longest = queues.iter().map(|(_, queue)| queue.len()).max().unwrap_or_default();
    for place in 1..longest {
        let next = queues.iter().filter_map(|(_, queue)| queue.get(place));
        waiters.extend(next.map(|queued| Waiting {
            run_id: queued.run_id.clone(),
            workflow_id: queued.workflow_id.clone(),
            ..Waiting::default()
        }));
    }
    let heads = queues.into_iter().map(|(name, queue)| (name, queue.into_iter().next()));
    Carried { counters, resources: heads.collect(), waiters }
}

#[cfg(test)]
mod tests;

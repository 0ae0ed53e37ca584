//! The resource pool of the samples: workflows ask by a signal with their id, are told what they got by a signal, and release
//! by the key they were told. Whoever has the key has the hold, so it survives their continue-as-new without a word to us.

use tenure_core::{Stamp, Timestamp};

use super::book::{Book, Dropped, is_moved};
use super::wire::{self, Carried, Ordered, PoolInput, ReleaseResource};
use super::{Face, Start};

pub(crate) const ACQUIRE: &str = "acquire_resource";
pub(crate) const RELEASE: &str = "release_resource";
pub(crate) const ADD: &str = "add_resources";
pub(crate) const OWNER_GONE: &str = "owner_gone";
pub(crate) const WITHDRAW: &str = "withdraw_request";
/// Followed by the pool's workflow id.
pub(crate) const ASSIGN_PREFIX: &str = "assign_resource_";

#[derive(Debug)]
pub(crate) struct PoolFace {
    book: Book,
    assign_signal: String,
    max_wait_ms: Option<u64>,
}

impl Face for PoolFace {
    fn open(
        workflow_id: &str,
        input: Option<&[u8]>,
        at: Timestamp,
        mint: &mut dyn FnMut() -> u128,
    ) -> Result<Start<Self>, String> {
        let assign_signal = format!("{ASSIGN_PREFIX}{workflow_id}");
        if is_moved(input) {
            let (book, max_wait_ms) = Book::moved(workflow_id, input)?;
            return Ok(Start { face: Self { book, assign_signal, max_wait_ms }, takes_over: None });
        }
        let input: PoolInput = wire::read(input)?;
        let carried = Carried { counters: input.counters, resources: input.resources.0, waiters: input.waiters };
        let book = Book::open(workflow_id, carried, at, mint)?;
        Ok(Start { face: Self { book, assign_signal, max_wait_ms: input.max_wait_ms }, takes_over: input.takes_over })
    }

    fn hear(&mut self, stamp: Stamp, signal: &str, argument: Option<&[u8]>) -> Result<(), Dropped> {
        match signal {
            ACQUIRE => self.book.acquire(stamp, wire::read(argument)?, self.max_wait_ms),
            RELEASE => {
                let ReleaseResource { release_key, resource, .. } = wire::read(argument)?;
                let key = release_key.ok_or("has no release_key")?;
                self.book.release_by_key(stamp, &key, resource.as_deref())
            }
            ADD => self.book.add_resources(stamp, &wire::read::<Vec<String>>(argument)?),
            OWNER_GONE => self.book.owner_gone(stamp, &wire::read(argument)?),
            WITHDRAW => self.book.withdraw(stamp, &wire::read(argument)?),
            unknown => Err(format!("there is no signal `{unknown}`")),
        }
    }

    fn assign_signal(&self) -> &str {
        &self.assign_signal
    }

    fn hand_on(&self) -> Vec<u8> {
        self.book.hand_on(self.max_wait_ms)
    }

    fn as_started(&self) -> Vec<u8> {
        let Carried { counters, resources, waiters } = self.book.carry();
        let resources = Ordered(resources);
        wire::write(&PoolInput { counters, max_wait_ms: self.max_wait_ms, resources, takes_over: None, waiters })
    }

    fn book(&self) -> &Book {
        &self.book
    }

    fn book_mut(&mut self) -> &mut Book {
        &mut self.book
    }
}

#[cfg(test)]
mod tests;

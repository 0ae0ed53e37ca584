//! What the engine needs of a disk: to make a batch durable, to read it back, and to look through the log.
//!
//! Two real ones: [`DiskStore`] over fjall, and [`MemoryStore`] for those who ask for no durability.

mod background;
mod codec;
mod directory;
mod disk;
#[doc(hidden)]
pub mod fuzzing;
mod journal;
mod layout;
mod log;
mod memory;
mod recovery;
mod replay;
mod rows;
mod segments;
pub(crate) mod simulation;
mod snapshot;

pub use disk::{DiskOptions, DiskStore, Durability, Retention};
pub use memory::MemoryStore;
pub use rows::{RowChanges, Rows};
pub use snapshot::{restore, snapshot};

use std::sync::Arc;
use std::task::{Context, Poll};

use tenure_core::{Event, Seq, Timestamp};

use crate::{EventPage, EventQuery, EventsGone};

/// The writing side. It has one user, the engine's committer.
pub trait Store: Send + 'static {
    /// Makes the batch durable as a whole before it returns. After an error nothing more may be committed.
    fn commit(&mut self, commit: Commit) -> Result<(), StoreError>;

    /// Begins to make the batch durable. [`Store::poll`] tells when it is, and until then nothing but rows may be committed. A store that
    /// can do nothing meanwhile has done it when this returns. As [`Store::poll`] it wants a runtime of tokio's that has sockets.
    fn begin(&mut self, commit: Commit) -> Result<(), StoreError> {
        self.commit(commit)
    }

    /// Whether what was begun is durable. It must be polled in a runtime of tokio's that has sockets.
    fn poll(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        Poll::Ready(Ok(()))
    }

    /// What is left to do after a commit, and need not be waited for. Errors are as those of a commit.
    fn follow(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn reader(&self) -> Arc<dyn LogReader>;
}

/// The reading side, for history and watchers, beside the writer.
pub trait LogReader: Send + Sync + 'static {
    fn events(&self, query: &EventQuery) -> Result<Result<EventPage, EventsGone>, StoreError>;
}

/// One batch: all of it becomes durable or none.
#[derive(Debug, Default)]
pub struct Commit {
    /// None if the batch changed nothing.
    pub entry: Option<Arc<Entry>>,
    /// What has changed in the rows since they were last written. They may come later than the entry, which tells the same, but never before
    /// those of an earlier state.
    pub rows: Option<RowChanges>,
}

/// The events of one batch. They share one time.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub first: Seq,
    pub at: Timestamp,
    pub events: Vec<Event>,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("another server uses the data directory {0}")]
    InUse(String),
    #[error("the data directory {dir} was written by format {found}; this version reads format {known}")]
    Format { dir: String, found: u64, known: u64 },
    #[error("the data directory {0} is not a Tenure data directory: {1}")]
    Foreign(String, String),
    #[error("stored data is damaged: {0}")]
    Damaged(String),
    #[error("{0}")]
    Io(String),
}

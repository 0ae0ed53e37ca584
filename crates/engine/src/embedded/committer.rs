//! What makes a batch durable and then says what may be said: the answers first, what nobody waits for later.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use tenure_core::Seq;
use tenure_core::mutation::Mistake;
use tokio::sync::watch;

use crate::driver::{Mail, Prepared};
use crate::metrics;
use crate::store::{Commit, Entry, RowChanges, Store, StoreError};

/// Makes batches durable, in order, and sends what may be said then.
pub struct Committer {
    store: Box<dyn Store>,
    /// None once it is over. Whoever waits for the end hears of it when this goes, so it goes after the store.
    announce: Option<watch::Sender<Seq>>,
    /// Back to the writer: grants that found nobody.
    returns: Box<dyn FnMut(Mail) + Send>,
    on_fatal: Option<Box<dyn FnOnce(StoreError) + Send>>,
    /// What was committed and is not yet counted.
    uncounted: Option<Committed>,
}

struct Committed {
    took: Duration,
    commands: usize,
    entry: Option<Arc<Entry>>,
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committer").field("over", &self.announce.is_none()).finish_non_exhaustive()
    }
}

impl Committer {
    pub fn new(
        store: Box<dyn Store>,
        announce: watch::Sender<Seq>,
        returns: Box<dyn FnMut(Mail) + Send>,
        on_fatal: Box<dyn FnOnce(StoreError) + Send>,
    ) -> Self {
        Self { store, announce: Some(announce), returns, on_fatal: Some(on_fatal), uncounted: None }
    }

    /// Makes the batch durable and sends its answers. False when there is no going on.
    pub fn commit(&mut self, batch: Prepared) -> bool {
        let Prepared { commit, mut deliveries, commands, last } = batch;
        if Mistake::AnswersBeforeTheSync.is_made() {
            deliveries.drain(..).for_each(|delivery| drop(delivery.send(&mut Vec::new())));
        }
        // After a failed sync nothing is said any more.
        let (Some(announce), Some(_)) = (&self.announce, &self.on_fatal) else { return false };
        // A batch that changed nothing still waits its turn: its answers may rest on the one before.
        if commit.entry.is_some() || commit.rows.is_some() {
            let started = Instant::now();
            let entry = commit.entry.clone();
            if let Err(error) = self.store.commit(commit) {
                return self.fail(error);
            }
            self.uncounted = Some(Committed { took: started.elapsed(), commands, entry });
            announce.send_replace(last);
        }
        let mut listeners = Vec::new();
        for delivery in deliveries {
            if let Some(mail) = delivery.send(&mut listeners) {
                (self.returns)(mail);
            }
        }
        listeners.into_iter().for_each(Waker::wake);
        true
    }

    /// Rows that did not come with their batch. False when there is no going on.
    pub(super) fn commit_rows(&mut self, rows: RowChanges) -> bool {
        match self.store.commit(Commit { entry: None, rows: Some(rows) }) {
            Ok(()) => true,
            Err(error) => self.fail(error),
        }
    }

    /// What is left to do after a commit, and nobody waits for. False when there is no going on.
    pub fn follow(&mut self) -> bool {
        if let Some(Committed { took, commands, entry }) = self.uncounted.take() {
            metrics::committed(took, commands, entry.as_deref());
        }
        match self.store.follow() {
            Ok(()) => true,
            Err(error) => self.fail(error),
        }
    }

    /// Whoever waits for the end hears of it now.
    pub(super) fn end(&mut self) {
        self.announce = None;
    }

    fn fail(&mut self, error: StoreError) -> bool {
        if let Some(on_fatal) = self.on_fatal.take() {
            on_fatal(error);
        }
        false
    }
}

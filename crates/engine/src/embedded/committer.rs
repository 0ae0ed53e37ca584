//! What makes a batch durable and then says what may be said: the answers first, what nobody waits for later.

use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use tenure_core::Seq;
use tenure_core::mutation::Mistake;
use tokio::sync::watch;

use crate::driver::{Delivery, Mail, Prepared};
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
    /// What was begun and is not yet known to be durable.
    under_way: Option<UnderWay>,
    /// Rows of a state that is durable, which the store has not been given yet.
    rows: Option<RowChanges>,
    /// What was committed and is not yet counted.
    uncounted: Option<Committed>,
}

/// A batch that is being made durable.
struct UnderWay {
    started: Instant,
    /// Whether there is anything to be made durable.
    changes: bool,
    entry: Option<Arc<Entry>>,
    commands: usize,
    last: Seq,
    deliveries: Vec<Delivery>,
    /// As of this batch.
    rows: Option<RowChanges>,
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
        Self {
            store,
            announce: Some(announce),
            returns,
            on_fatal: Some(on_fatal),
            under_way: None,
            rows: None,
            uncounted: None,
        }
    }

    /// Makes the batch durable and sends its answers. False when there is no going on.
    pub fn commit(&mut self, batch: Prepared) -> bool {
        let goes_on = self.begin_and_wait(batch);
        let done = self.done();
        self.deliver(done);
        goes_on
    }

    /// Begins to make the batch durable; there is one at a time. False when there is no going on.
    pub fn begin(&mut self, batch: Prepared) -> bool {
        self.start(batch, |store, commit| store.begin(commit))
    }

    /// The same, but it is durable when this returns.
    pub fn begin_and_wait(&mut self, batch: Prepared) -> bool {
        self.start(batch, |store, commit| store.commit(commit))
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Ready when what was begun is durable, and has still to be said: false when there is no going on.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.under_way.as_ref().is_some_and(|batch| batch.changes)
            && let Err(error) = ready!(self.store.poll(cx))
        {
            return Poll::Ready(self.fail(error));
        }
        Poll::Ready(true)
    }

    fn start(&mut self, batch: Prepared, commit_to: fn(&mut dyn Store, Commit) -> Result<(), StoreError>) -> bool {
        let Prepared { commit, mut deliveries, commands, last } = batch;
        if Mistake::AnswersBeforeTheSync.is_made() {
            deliveries.drain(..).for_each(|delivery| drop(delivery.send(&mut Vec::new())));
        }
        // After a failed sync nothing is said any more.
        if self.announce.is_none() || self.on_fatal.is_none() {
            return false;
        }
        assert!(self.under_way.is_none(), "one batch after the other");
        // This batch may have rows too, or get some, and those come later.
        if let Err(error) = self.hand_rows_over() {
            return self.fail(error);
        }
        let (started, entry) = (Instant::now(), commit.entry.clone());
        // A batch that changed nothing still waits its turn: its answers may rest on the one before.
        let changes = entry.is_some() || commit.rows.is_some();
        if changes && let Err(error) = commit_to(&mut *self.store, commit) {
            return self.fail(error);
        }
        self.under_way = Some(UnderWay { started, changes, entry, commands, last, deliveries, rows: None });
        true
    }

    /// Rows as of the batch that is under way, or of the last one: the store gets them when that is durable.
    pub fn add_rows(&mut self, rows: RowChanges) {
        let place = match &mut self.under_way {
            Some(batch) => &mut batch.rows,
            None => &mut self.rows,
        };
        let others = place.replace(rows);
        assert!(others.is_none(), "the store was given what there was");
    }

    /// What was under way is durable. Gives what is to be said.
    pub fn done(&mut self) -> Vec<Delivery> {
        let (Some(batch), Some(announce)) = (self.under_way.take(), &self.announce) else { return Vec::new() };
        if batch.changes {
            announce.send_replace(batch.last);
            let (took, commands, entry) = (batch.started.elapsed(), batch.commands, batch.entry);
            self.count();
            self.uncounted = Some(Committed { took, commands, entry });
        }
        if let Some(rows) = batch.rows {
            self.add_rows(rows);
        }
        batch.deliveries
    }

    /// Says what may be said.
    pub fn deliver(&mut self, deliveries: Vec<Delivery>) {
        let mut listeners = Vec::new();
        for delivery in deliveries {
            if let Some(mail) = delivery.send(&mut listeners) {
                (self.returns)(mail);
            }
        }
        listeners.into_iter().for_each(Waker::wake);
    }

    /// What is left to do after a commit, and nobody waits for. False when there is no going on.
    pub fn follow(&mut self) -> bool {
        self.count();
        match self.hand_rows_over().and_then(|()| self.store.follow()) {
            Ok(()) => true,
            Err(error) => self.fail(error),
        }
    }

    fn hand_rows_over(&mut self) -> Result<(), StoreError> {
        let Some(rows) = self.rows.take() else { return Ok(()) };
        self.store.commit(Commit { entry: None, rows: Some(rows) })
    }

    fn count(&mut self) {
        if let Some(Committed { took, commands, entry }) = self.uncounted.take() {
            metrics::committed(took, commands, entry.as_deref());
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

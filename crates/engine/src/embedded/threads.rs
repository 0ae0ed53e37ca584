//! The writer and the committer in a thread each. While the committer syncs one batch the writer applies the next, to which all
//! that comes in during the sync belongs. The writer commits by itself what is not worth waking another thread for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tenure_core::Timestamp;

use super::committer::Committer;
use super::turns::{COMMANDS_IN_TURN_MAX, LINGER, LOOK_OUT, Turns};
use super::writer::{Batch, Handled, Writer};
use super::{AbortOnPanic, BATCH_MILLIS_MAX, Letter, Post, lock};
use crate::driver::Prepared;

/// Batches up to this size are committed without waking the committer.
const COMMANDS_WITHOUT_HANDOVER_MAX: usize = COMMANDS_IN_TURN_MAX;

/// The engine's threads, which end when the writer finds in its mail that they are to.
pub(super) fn start(writer: Writer, committer: Committer, turns: Turns, post: Post) -> Vec<JoinHandle<()>> {
    let (commits, prepared) = mpsc::channel();
    let committer = Arc::new(Mutex::new(committer));
    let disk = Arc::new(Disk::default());
    let writer = Threaded { writer, commits, committer: committer.clone(), disk: disk.clone(), turns };
    vec![
        spawn("tenure-writer", move || writer.run()),
        spawn("tenure-commit", move || commit_all(&prepared, &committer, &disk, &post)),
    ]
}

/// A thread of the engine. A bug in it must not leave a server that looks alive and grants nothing.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let guarded = move || {
        let _guard = AbortOnPanic;
        run();
    };
    std::thread::Builder::new().name(name.into()).spawn(guarded).expect("the system can start a thread")
}

/// What the committer is doing, as far as the writer must know.
#[derive(Debug, Default)]
struct Disk {
    /// It has a batch that is not yet durable.
    busy: AtomicBool,
    /// The writer has a batch for it, and is to be told when it is free.
    wanted: AtomicBool,
}

/// The writer, in its thread.
struct Threaded {
    writer: Writer,
    commits: Sender<Prepared>,
    committer: Arc<Mutex<Committer>>,
    disk: Arc<Disk>,
    turns: Turns,
}

impl Threaded {
    fn run(mut self) {
        let restarted = self.writer.restart();
        let mut next = Some(Batch { prepared: restarted, last: false });
        while let Some(Batch { prepared, last }) = next {
            if !self.commit(prepared) || last {
                break;
            }
            next = self.next_batch();
        }
    }

    /// False when there is no going on.
    fn commit(&mut self, prepared: Prepared) -> bool {
        self.turns.closed(prepared.commands);
        if prepared.is_empty() {
            return true;
        }
        while self.is_disk_busy() {
            if self.wait(None).is_none() {
                return false;
            }
        }
        // Nothing is being committed, and only this thread says what is: the order is kept.
        if prepared.commands <= COMMANDS_WITHOUT_HANDOVER_MAX {
            let mut committer = lock(&self.committer);
            let goes_on = committer.commit(prepared) && committer.follow();
            self.turns.committed();
            return goes_on;
        }
        self.disk.busy.store(true, Ordering::SeqCst);
        self.commits.send(prepared).is_ok()
    }

    /// If it is, a letter comes when it is not any more.
    fn is_disk_busy(&self) -> bool {
        if !self.disk.busy.load(Ordering::SeqCst) {
            return false;
        }
        self.disk.wanted.store(true, Ordering::SeqCst);
        self.disk.busy.load(Ordering::SeqCst)
    }

    /// Waits for mail or a deadline, and gathers what is there by then. None when it is over.
    fn next_batch(&mut self) -> Option<Batch> {
        if self.writer.inbox.is_empty() {
            if !self.turns.are_taken() || !self.look_out(LOOK_OUT) {
                self.turns.missed();
                self.wait(self.writer.until_due())?;
            }
            self.turns.heard(!self.writer.inbox.is_empty());
        }
        self.writer.empty_mailbox();
        let at = self.writer.begin();
        while !self.writer.driver.is_full() && self.gather(at)? {
            match self.writer.handle_next() {
                Handled::Open => {}
                Handled::Last => return Some(self.writer.last_batch()),
                Handled::Aborted => return None,
            }
        }
        Some(Batch { prepared: self.writer.driver.finish(), last: false })
    }

    /// Whether there is mail for the batch under way, which was begun at `at` and is kept open as long as nobody would gain
    /// if it were closed. None when it is over.
    fn gather(&mut self, at: Timestamp) -> Option<bool> {
        while self.writer.inbox.is_empty() {
            let lingers = !self.writer.driver.is_urgent();
            // What comes while the disk is busy comes along. When it is free it is not kept waiting.
            if !lingers && !self.is_disk_busy() {
                return Some(false);
            }
            if lingers && self.turns.are_taken() {
                self.look_out(LINGER);
            } else {
                self.wait(lingers.then_some(LINGER))?;
            }
            if lingers && self.writer.inbox.is_empty() {
                return Some(false);
            }
            // A batch has one time. What comes much later must not get a lease that began before it was asked for.
            if self.writer.clock.now().millis_since(at) > BATCH_MILLIS_MAX {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Whether mail comes in this time. It takes the processor, if nobody else does.
    fn look_out(&mut self, span: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < span {
            if let Ok(letter) = self.writer.mailbox.try_recv() {
                self.writer.open(letter);
                return true;
            }
            if self.turns.is_crowded() {
                return false;
            }
            self.turns.give_way();
        }
        false
    }

    /// Until a letter has come or the time has passed. None when it is over.
    fn wait(&mut self, timeout: Option<Duration>) -> Option<()> {
        let letter = match timeout {
            None => self.writer.mailbox.recv().ok()?,
            Some(timeout) => match self.writer.mailbox.recv_timeout(timeout) {
                Ok(letter) => letter,
                Err(RecvTimeoutError::Timeout) => return Some(()),
                Err(RecvTimeoutError::Disconnected) => return None,
            },
        };
        self.writer.open(letter);
        Some(())
    }
}

/// The committer's thread.
fn commit_all(prepared: &Receiver<Prepared>, committer: &Mutex<Committer>, disk: &Disk, post: &Post) {
    while let Ok(batch) = prepared.recv() {
        let mut busy = lock(committer);
        let goes_on = busy.commit(batch) && busy.follow();
        drop(busy);
        disk.busy.store(false, Ordering::SeqCst);
        if disk.wanted.swap(false, Ordering::SeqCst) {
            // Without a writer nobody wants it.
            post.send(Letter::Committed);
        }
        if !goes_on {
            break;
        }
    }
    lock(committer).end();
}

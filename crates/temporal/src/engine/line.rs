//! The lines on which an engine reaches those who keep pools: the keepers by number, and the faces, which come and go, by
//! the names of their pools.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure_core::{Key, PoolName};
use tokio::sync::mpsc;

use super::lock;
use super::post::Letter;
use crate::keeper::{FACE_MARKS, KEEPERS_MAX};

/// At most so many lines in the life of an engine: which one it was is in each ticket.
pub(super) const LINES_MAX: u64 = 1 << 16;
/// A face that forgets is told again, so this may be forgotten too.
const INTRODUCED_MAX: usize = 10_000;

/// Whether the line of this number leads to a face. Keepers come first.
pub(super) fn is_face(line: usize) -> bool {
    line as u64 >= KEEPERS_MAX
}

pub(super) struct Line {
    pub(super) index: usize,
    /// Whom it leads to.
    pub(super) workflow_id: String,
    /// Set if that is a face.
    pub(super) face: Option<Face>,
    post: mpsc::UnboundedSender<Letter>,
}

impl Line {
    pub(super) fn new(index: usize, workflow_id: String) -> (Self, mpsc::UnboundedReceiver<Letter>) {
        let (post, letters) = mpsc::unbounded_channel();
        (Self { index, workflow_id, face: None, post }, letters)
    }

    /// Notes whether it answers, and says so in the log when that changes.
    pub(super) fn note_silence(&self, silent: bool) {
        let Some(face) = &self.face else { return };
        if face.silent.swap(silent, Ordering::Relaxed) != silent {
            match silent {
                true => tracing::warn!(face = self.workflow_id, "a face does not answer, and is left out of listings"),
                false => tracing::info!(face = self.workflow_id, "a face answers again"),
            }
        }
    }

    /// False if there is nobody any more.
    pub(super) fn send(&self, letter: Letter) -> bool {
        self.post.send(letter).is_ok()
    }
}

pub(super) struct Face {
    pub(super) pool: PoolName,
    mark: u16,
    /// The sessions that were made known to it.
    introduced: Mutex<HashSet<Key>>,
    /// Whether it did not answer when it was last asked together with all others.
    silent: AtomicBool,
}

impl Face {
    pub(super) fn new(pool: PoolName) -> Self {
        Self {
            mark: crate::faces::mark(pool.as_str()),
            pool,
            introduced: Mutex::default(),
            silent: AtomicBool::new(false),
        }
    }

    /// Whether it may have made this key. It may also be a keeper's that happens to look so.
    pub(super) fn may_have_made(&self, key: Key) -> bool {
        key.as_bits() % FACE_MARKS == u128::from(self.mark)
    }

    pub(super) fn knows(&self, session: Key) -> bool {
        lock(&self.introduced).contains(&session)
    }

    pub(super) fn introduce(&self, session: Key) {
        let mut introduced = lock(&self.introduced);
        if introduced.len() >= INTRODUCED_MAX {
            introduced.clear();
        }
        introduced.insert(session);
    }

    pub(super) fn forget_session(&self, session: Key) {
        lock(&self.introduced).remove(&session);
    }

    pub(super) fn forget_sessions(&self) {
        lock(&self.introduced).clear();
    }
}

//! The faces that an engine knows: found by looking for them again and again, forgotten when they have ended. A session is
//! made known to a face when it asks for something there, so that faces do not hear of all the others.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tenure_core::{Command, Key, Namespace, OpenSession, PoolName, Reply};
use tenure_engine::{Failure, ReplyTo, answers};

use super::line::{Face, LINES_MAX, Line};
use super::post::{Letter, Listener, Post};
use super::{Shared, lock};

/// How often is looked for faces: one that was started is known after about this time.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(500);

/// Of sessions that are forgotten here, all faces are asked.
const OPENED_MAX: usize = 100_000;

/// A session that is not known to a face yet.
pub(super) struct Stranger {
    namespace: Namespace,
    session: Key,
}

impl Shared {
    /// Looks until it is known which faces there are.
    pub(super) async fn find_faces(self: Arc<Self>, task_queues: &[String]) {
        let running = loop {
            match crate::faces::running(&self.link, task_queues).await {
                Some(running) => break running,
                None => tokio::time::sleep(PAUSE).await,
            }
        };
        for line in self.faces().filter(|line| !running.contains(&line.workflow_id)) {
            // What is listed lags behind, and a run that follows another may be missing for a moment.
            if let Ok(false) = crate::faces::is_running(&self.link, &line.workflow_id).await {
                line.send(Letter::Gone);
            }
        }
        for workflow_id in running {
            // A face whose name is none of a pool serves only workflows.
            if let Ok(pool) = PoolName::parse(&workflow_id)
                && self.face(&Namespace::default(), &pool).is_none()
            {
                self.clone().open_line(workflow_id, pool);
            }
        }
    }

    pub(super) async fn keep_finding_faces(self: Arc<Self>, task_queues: Vec<String>) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            self.clone().find_faces(&task_queues).await;
        }
    }

    fn open_line(self: Arc<Self>, workflow_id: String, pool: PoolName) {
        let index = self.lines.fetch_add(1, Ordering::Relaxed);
        if index as u64 >= LINES_MAX {
            tracing::error!(face = workflow_id, "too many faces have come and gone: restart the server to serve more");
            return;
        }
        tracing::info!(face = workflow_id, "a face is served");
        let (mut line, letters) = Line::new(index, workflow_id);
        line.face = Some(Face::new(pool.clone()));
        let line = Arc::new(line);
        self.faces.write().unwrap_or_else(PoisonError::into_inner).insert(pool, line.clone());
        self.spawn(Post::new(self.clone(), line, letters, self.room.clone()).run());
    }

    /// The face has ended: what is asked of its pool from now on is asked of a keeper.
    pub(super) fn forget(&self, line: &Line) {
        let Some(face) = &line.face else { return };
        let mut faces = self.faces.write().unwrap_or_else(PoisonError::into_inner);
        if faces.get(&face.pool).is_some_and(|known| known.index == line.index) {
            faces.remove(&face.pool);
        }
    }

    pub(super) fn face(&self, namespace: &Namespace, pool: &PoolName) -> Option<Arc<Line>> {
        if *namespace != Namespace::default() {
            return None;
        }
        self.faces.read().unwrap_or_else(PoisonError::into_inner).get(pool).cloned()
    }

    pub(super) fn faces(&self) -> impl Iterator<Item = Arc<Line>> + use<> {
        let faces: Vec<_> = self.faces.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        faces.into_iter()
    }

    /// Keepers first.
    pub(super) fn all(&self) -> Vec<Arc<Line>> {
        self.keepers.iter().cloned().chain(self.faces()).collect()
    }

    pub(super) fn line(&self, index: usize) -> Option<Arc<Line>> {
        self.keepers.get(index).cloned().or_else(|| self.faces().find(|line| line.index == index))
    }

    /// Those who may know a session: all keepers, and faces only as far as it asked there.
    pub(super) fn of_session(&self, session: Key) -> Vec<Arc<Line>> {
        let anywhere = !lock(&self.opened).contains(&session);
        let knows = |line: &Arc<Line>| anywhere || line.face.as_ref().is_some_and(|face| face.knows(session));
        self.keepers.iter().cloned().chain(self.faces().filter(knows)).collect()
    }

    pub(super) fn note_opened(&self, session: Key) {
        let mut opened = lock(&self.opened);
        if opened.len() >= OPENED_MAX {
            opened.clear();
        }
        opened.insert(session);
    }

    pub(super) fn note_ended(&self, session: Key) {
        lock(&self.opened).remove(&session);
        for line in self.faces() {
            if let Some(face) = &line.face {
                face.forget_session(session);
            }
        }
    }

    /// The session that asks, if it asks a face that does not know it.
    pub(super) fn stranger(&self, line: &Line, command: &Command) -> Option<Stranger> {
        let (Some(face), Command::Acquire(acquire)) = (&line.face, command) else { return None };
        let session = acquire.session.filter(|session| !face.knows(*session))?;
        Some(Stranger { namespace: acquire.pool.namespace().clone(), session })
    }

    /// Makes a session known to a face, and then sends what it asks. Who it is, the first keeper knows.
    pub(super) async fn introduce(self: Arc<Self>, line: Arc<Line>, stranger: Stranger, letter: Letter) {
        let Stranger { namespace, session } = stranger;
        let (answers, mut answered) = answers::channel();
        let listener = Listener::One { reply_to: ReplyTo { id: 0, answers, returns: false }, carries: false };
        let keep_alive = Command::KeepAlive { namespace: namespace.clone(), session };
        self.tell(&self.keepers[0], keep_alive, None, listener);
        let known = answered.recv().await.and_then(|answered| answered.reply.ok());
        // If it is over, the face says so too.
        if let Some(Reply::Session(open)) = known {
            let (carried, attachment) = (open.id, open.attachment);
            let is_carried = lock(&self.carried).contains_key(&(carried, attachment));
            let (holder, grace) = (open.holder, open.grace);
            let opened = OpenSession { namespace, holder, grace, attached: is_carried, outlasts_holds: false };
            let listener = Listener::Introduced { carried, attachment, is_carried };
            self.tell(&line, Command::OpenSession(opened), Some(session.as_bits()), listener);
            if let Some(face) = &line.face {
                face.introduce(session);
            }
        }
        let asker = match &letter {
            Letter::Command { listener: Listener::One { reply_to, .. }, .. } => Some(reply_to.clone()),
            _ => None,
        };
        if !line.send(letter)
            && let Some(asker) = asker
        {
            self.room.leave(1);
            // Whoever does not listen need not know.
            let _ = asker.send(Err(Failure::Lost));
        }
    }

    fn tell(&self, line: &Line, command: Command, nonce: Option<u128>, listener: Listener) {
        let ticket = self.ticket(line);
        self.room.enter_anyway(1);
        if !line.send(Letter::Command { ticket, command: Box::new(command), nonce, listener }) {
            self.room.leave(1);
        }
    }
}

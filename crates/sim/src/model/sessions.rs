//! Sessions: opened, kept, attached, detached, ended.

use tenure_core::*;

use super::requests::limit;
use super::{Model, Session};

impl Model {
    pub(super) fn session_of(&self, namespace: &Namespace, key: Key) -> Result<SessionId, Refusal> {
        let found = self.sessions.iter().find(|session| session.key == key && session.namespace == *namespace);
        found.map(|session| session.id).ok_or(Refusal::UnknownSession)
    }

    /// When a session ends that no connection carries, if its client was heard of just now.
    pub(super) fn session_deadline(&self, session: &Session) -> Timestamp {
        let grace = self.now + session.grace;
        let own = self.holds.iter().filter(|hold| {
            hold.session == Some(session.id) && matches!(hold.lifetime, Lifetime::Session(_)) && session.outlasts_holds
        });
        own.filter_map(|hold| hold.deadline).fold(grace, Timestamp::max)
    }

    pub(super) fn open_session(&mut self, open: OpenSession) -> Result<Reply, Refusal> {
        if self.sessions.len() >= self.limits.sessions_max {
            return Err(limit("sessions_max", self.limits.sessions_max));
        }
        let id = SessionId(self.session_next);
        self.session_next += 1;
        let chosen = self.choices.opened.pop_front();
        let key = self.choose("a session", chosen, Key::from_bits(0));
        if self.sessions.iter().any(|session| session.key == key) {
            self.wrong = Some("two sessions have one key".into());
        }
        self.sessions.push(Session {
            id,
            namespace: open.namespace,
            key,
            holder: open.holder,
            grace: open.grace,
            outlasts_holds: open.outlasts_holds,
            attached: open.attached,
            away: false,
            attachments: u64::from(open.attached),
            deadline: (!open.attached).then(|| self.now + open.grace),
        });
        Ok(self.session_reply(id))
    }

    pub(super) fn keep_alive(&mut self, namespace: &Namespace, key: Key) -> Result<Reply, Refusal> {
        let id = self.session_of(namespace, key)?;
        let deadline = self.session_deadline(self.session(id));
        let session = self.session_mut(id);
        if !session.attached {
            session.deadline = Some(deadline);
            session.away = false;
        }
        Ok(self.session_reply(id))
    }

    pub(super) fn attach(&mut self, namespace: &Namespace, key: Key) -> Result<Reply, Refusal> {
        let id = self.session_of(namespace, key)?;
        let session = self.session_mut(id);
        session.attached = true;
        session.away = false;
        session.deadline = None;
        session.attachments += 1;
        Ok(self.session_reply(id))
    }

    pub(super) fn detach(&mut self, id: SessionId, attachment: u64) {
        let Some(session) = self.sessions.iter().find(|session| session.id == id) else { return };
        if session.attached && session.attachments == attachment {
            let deadline = self.session_deadline(session);
            let session = self.session_mut(id);
            session.attached = false;
            session.away = true;
            session.deadline = Some(deadline);
        }
    }

    pub(super) fn end_session(&mut self, namespace: &Namespace, key: Key) -> Result<Reply, Refusal> {
        let id = self.session_of(namespace, key)?;
        self.end_all_of_session(id);
        Ok(Reply::Done)
    }

    pub(super) fn end_all_of_session(&mut self, id: SessionId) {
        let waiters = self.waiters.iter().filter(|waiter| waiter.session == Some(id));
        for waiter in waiters.map(|waiter| waiter.id).collect::<Vec<_>>() {
            let pool = self.end_wait(waiter, WaitEnd::SessionEnded);
            self.to_serve.push(pool);
        }
        let of_session = |lifetime: &Lifetime| matches!(lifetime, Lifetime::Session(_));
        let holds = self.holds.iter().filter(|hold| hold.session == Some(id) && of_session(&hold.lifetime));
        for token in holds.map(|hold| hold.token).collect::<Vec<_>>() {
            let pool = self.end_hold(token, HoldEnd::SessionEnded);
            self.to_serve.push(pool);
        }
        self.sessions.retain(|session| session.id != id);
        self.over.push(id);
    }

    fn session(&self, id: SessionId) -> &Session {
        self.sessions.iter().find(|session| session.id == id).expect("it was just found")
    }

    fn session_mut(&mut self, id: SessionId) -> &mut Session {
        self.sessions.iter_mut().find(|session| session.id == id).expect("it was just found")
    }

    fn session_reply(&self, id: SessionId) -> Reply {
        let session = self.session(id);
        Reply::Session(SessionOpen {
            id,
            key: session.key,
            holder: session.holder.clone(),
            grace: session.grace,
            deadline: session.deadline,
            attachment: session.attachments,
        })
    }
}

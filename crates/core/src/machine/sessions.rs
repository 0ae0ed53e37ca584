//! Sessions: opened, kept alive or carried by a connection, detached and attached again, ended.

use super::Step;
use super::acquire::limit;
use crate::command::*;
use crate::event::{Event, HoldEnd, WaitEnd};
use crate::mutation::Mistake;
use crate::names::*;
use crate::record::Session;
use crate::refusal::Refusal;
use crate::reply::{Reply, SessionOpen};

impl Step<'_> {
    pub(super) fn open_session(&mut self, open: OpenSession) -> Result<Reply, Refusal> {
        let max = self.machine.limits.sessions_max;
        if self.state().sessions.len() >= max {
            return Err(limit("sessions_max", max));
        }
        let id = SessionId(self.state().counters.session_next);
        self.emit(Event::SessionOpened {
            id,
            namespace: open.namespace,
            key: Key::from_nonce(self.stamp.nonce),
            holder: open.holder,
            grace: open.grace,
            attached: open.attached,
            outlasts_holds: open.outlasts_holds,
        });
        Ok(self.session_reply(id))
    }

    pub(super) fn keep_alive(&mut self, namespace: &Namespace, key: Key) -> Result<Reply, Refusal> {
        let id = self.session_of(namespace, key)?;
        let session = &self.state().sessions[&id];
        // While a connection carries it there is nothing to prolong.
        if !session.attached {
            let deadline = self.state().session_deadline(self.at(), session);
            self.emit(Event::SessionKept { id, deadline });
        }
        Ok(self.session_reply(id))
    }

    /// Another connection may still seem to carry the session; the new one takes over in any case. Waiters that are
    /// away stay so until their acquire is made again: only then does somebody listen for the grant.
    pub(super) fn attach_session(&mut self, namespace: &Namespace, key: Key) -> Result<Reply, Refusal> {
        let id = self.session_of(namespace, key)?;
        let session = &self.state().sessions[&id];
        let (namespace, holder) = (session.namespace.clone(), session.holder.id.clone());
        self.emit(Event::SessionAttached { id, namespace, holder });
        Ok(self.session_reply(id))
    }

    pub(super) fn detach_session(&mut self, id: SessionId, attachment: u64) -> Reply {
        if let Some(session) = self.state().sessions.get(&id)
            && session.attached
            && session.attachments == attachment
        {
            let deadline = self.state().session_deadline(self.at(), session);
            let (namespace, holder) = (session.namespace.clone(), session.holder.id.clone());
            self.emit(Event::SessionDetached { id, namespace, holder, deadline });
        }
        Reply::Done
    }

    pub(super) fn end_session(&mut self, namespace: &Namespace, key: Key) -> Result<Reply, Refusal> {
        let id = self.session_of(namespace, key)?;
        let holder = self.state().sessions[&id].holder.id.clone();
        self.emit(Event::SessionClosing { id, namespace: namespace.clone(), holder });
        self.end_some_of_session(id);
        Ok(Reply::Done)
    }

    /// Ends what the session has, as much of it as one command may, and then the session. What is left stays
    /// due, so that it is ended before anything else happens.
    pub(super) fn end_some_of_session(&mut self, id: SessionId) {
        while !self.worked_enough() {
            let session = &self.state().sessions[&id];
            let pool = if let Some(waiter) = session.waiters.first() {
                self.end_wait_only(*waiter, WaitEnd::SessionEnded)
            } else if let Some(token) = session.holds.first() {
                self.end_hold_only(*token, HoldEnd::SessionEnded)
            } else {
                let (namespace, holder) = (session.namespace.clone(), session.holder.id.clone());
                self.emit(Event::SessionEnded { id, namespace, holder });
                return;
            };
            self.machine.unserved.insert(pool);
        }
    }

    /// A new process has the data: nobody is connected to it yet.
    pub(super) fn restart(&mut self) -> Reply {
        let waiters: alloc::vec::Vec<_> = self.state().waiters.keys().copied().collect();
        for id in waiters.into_iter().filter(|_| !Mistake::ServesTheAbsent.is_made()) {
            self.caller_lost(id, true);
        }
        self.emit(Event::Restarted);
        // Their removal may have been under way.
        let removing = self.state().pools.paths().filter(|path| self.state().pools[path].removing).cloned();
        let removing: alloc::vec::Vec<_> = removing.collect();
        self.machine.unserved.extend(removing);
        Reply::Done
    }

    pub(super) fn session_of(&self, namespace: &Namespace, key: Key) -> Result<SessionId, Refusal> {
        let id = *self.state().session_keys.get(&key).ok_or(Refusal::UnknownSession)?;
        let session = &self.state().sessions[&id];
        if session.namespace != *namespace || session.closing {
            return Err(Refusal::UnknownSession);
        }
        Ok(id)
    }

    fn session_reply(&self, id: SessionId) -> Reply {
        let session = self.state().sessions.get(&id).expect("it was just seen");
        let Session { key, grace, deadline, attachments: attachment, .. } = **session;
        Reply::Session(SessionOpen { id, key, holder: session.holder.clone(), grace, deadline, attachment })
    }
}

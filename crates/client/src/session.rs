//! The session as the client sees it: what there is to say, what an answer means, what is due when.
//!
//! No sockets, no tasks and no clock here: time comes in with every call, messages go in and out, and `connection` does
//! the rest. A request stays here until it is answered for good, so whatever is unanswered when a connection breaks is
//! said again on the next.

mod asks;
mod ending;
mod heartbeat;
mod holds;
mod request;
mod time;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prost::Message;
use tenure_proto::v1::{self, client_request::Request as Wire, server_answer::Answer};
use tokio::sync::oneshot;

pub(crate) use asks::{Ask, Patience};
pub(crate) use holds::{Granted, HoldId, Standing};
pub(crate) use time::millis;

use crate::error::Error;
use crate::guard::Lost;
use ending::Ending;
use heartbeat::Open;
use holds::Hold;
use request::{Request, What};
use time::ServerTime;

/// How long a call that does not wait for room waits for the server: a try, a release, a close.
pub(crate) const CALL_PATIENCE: Duration = Duration::from_secs(10);
/// The server reads no more from a stream with 4,096 unanswered requests. Below that, pings always reach it.
const UNANSWERED_MAX: usize = 4_000;
/// Acquires leave room for the renewals and releases of what is held.
const ASKS_UNANSWERED_MAX: usize = 2_048;
/// Requests in one message, and their size: the server takes 4,096, and 4 MiB.
const REQUESTS_PER_MESSAGE_MAX: usize = 1_024;
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// A session that is taken over twice within this time has two clients, and one of them must give it up.
const TAKEOVER_CALM: Duration = Duration::from_secs(60);

/// Whose session it is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) address: String,
    pub(crate) holder: String,
    pub(crate) meta: BTreeMap<String, String>,
    pub(crate) namespace: String,
    pub(crate) grace: Duration,
    pub(crate) connect_timeout: Duration,
}

/// What guards and clients say without waiting for room.
#[derive(Debug)]
pub(crate) enum Note {
    /// Nobody awaits the acquire any more.
    Forget {
        id: u64,
    },
    /// Ends the hold. None answers if it was dropped.
    Release {
        hold: HoldId,
        answer: Option<oneshot::Sender<Result<(), Error>>>,
    },
    /// Renews it no more.
    Keep {
        hold: HoldId,
    },
    Close {
        answer: oneshot::Sender<Result<(), Error>>,
    },
}

/// The connection cannot be used any more, for this reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) String);

pub(crate) struct Session {
    identity: Identity,
    ids: Arc<AtomicU64>,
    stage: Stage,
    /// The session's key, if there is one to resume.
    key: Option<String>,
    /// Until when the session, and what lives as long as it, is certainly there.
    certain: Option<Instant>,
    taken_over: Option<Instant>,
    requests: BTreeMap<u64, Request>,
    /// What is to be said next, by id: what holds depend on, and after it the acquires.
    urgent: VecDeque<u64>,
    asks: VecDeque<u64>,
    /// Said on this connection and not answered at all.
    unanswered: usize,
    holds: BTreeMap<HoldId, Hold>,
    agenda: BTreeSet<(Instant, Due)>,
    server_time: Option<ServerTime>,
    ending: Option<Ending>,
    /// Whoever waits for the first connection.
    greeting: Option<oneshot::Sender<Result<(), Error>>>,
    /// Why the last connection broke.
    why: String,
}

enum Stage {
    Down,
    Opening { id: u64, said: Instant },
    Open(Open),
    Over,
}

/// Whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Request(u64),
    Hold(HoldId),
}

impl Session {
    pub(crate) fn new(identity: Identity, ids: Arc<AtomicU64>, greeting: oneshot::Sender<Result<(), Error>>) -> Self {
        Self {
            identity,
            ids,
            stage: Stage::Down,
            key: None,
            certain: None,
            taken_over: None,
            requests: BTreeMap::new(),
            urgent: VecDeque::new(),
            asks: VecDeque::new(),
            unanswered: 0,
            holds: BTreeMap::new(),
            agenda: BTreeSet::new(),
            server_time: None,
            ending: None,
            greeting: Some(greeting),
            why: "not connected yet".to_owned(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    /// The first message of a connection that is about to be made.
    pub(crate) fn connecting(&mut self, now: Instant) -> v1::ClientMessage {
        let id = self.next_id();
        let Identity { namespace, holder, meta, grace, .. } = self.identity.clone();
        let request = match &self.key {
            Some(key) => {
                Wire::Resume(Box::new(v1::ResumeSession { namespace, session_key: key.clone(), holder, meta }))
            }
            None => {
                Wire::Open(Box::new(v1::OpenSessionRequest { namespace, holder, meta, grace_ms: Some(millis(grace)) }))
            }
        };
        self.stage = Stage::Opening { id, said: now };
        v1::ClientMessage { requests: vec![v1::ClientRequest { id, request: Some(request) }] }
    }

    /// The connection is gone, or did not come about.
    pub(crate) fn disconnected(&mut self, now: Instant, error: Error) {
        if let Some(greeting) = self.greeting.take() {
            let _ = greeting.send(Err(error));
            return self.end(Ok(()));
        }
        self.why = match error {
            Error::Unreachable { why, .. } | Error::Foreign { why, .. } => why,
            other => other.to_string(),
        };
        if self.is_over() {
            return;
        }
        self.stage = Stage::Down;
        self.unanswered = 0;
        self.server_time = None;
        self.urgent.clear();
        self.asks.clear();
        if let Some(ending) = &mut self.ending {
            ending.said = false;
        }
        // What is asked about holds and the connection is asked anew on the next one.
        self.requests.retain(|_, request| !matches!(request.what, What::Renew { .. } | What::Ping | What::End));
        for request in self.requests.values_mut() {
            request.may_have_happened |= request.said;
            request.said = false;
            request.answered = false;
        }
        for hold in self.holds.values_mut() {
            hold.renewing = false;
        }
        self.end_waits_that_are_over(now);
    }

    /// What there is to say, as much as fits into one message.
    pub(crate) fn say(&mut self, now: Instant) -> Option<v1::ClientMessage> {
        if self.may_end()
            && let Some(ending) = &mut self.ending
        {
            ending.said = true;
            self.request(Request::new(What::End));
        }
        let mut requests = Vec::new();
        let mut bytes = 0;
        while requests.len() < REQUESTS_PER_MESSAGE_MAX
            && bytes < MESSAGE_BYTES_MAX
            && let Some(id) = self.next_to_say()
        {
            // Forgotten meanwhile.
            let Some(request) = self.requests.get_mut(&id).filter(|request| request.is_ready()) else { continue };
            let wire = v1::ClientRequest { id, request: Some(request.say(now)) };
            bytes += wire.encoded_len();
            self.unanswered += 1;
            requests.push(wire);
        }
        (!requests.is_empty()).then_some(v1::ClientMessage { requests })
    }

    pub(crate) fn has_to_say(&self) -> bool {
        let urgent = !self.urgent.is_empty() && self.unanswered < UNANSWERED_MAX;
        let asks = !self.asks.is_empty() && self.unanswered < ASKS_UNANSWERED_MAX;
        self.is_open() && (urgent || asks || self.may_end())
    }

    fn next_to_say(&mut self) -> Option<u64> {
        if !self.is_open() {
            return None;
        }
        if self.unanswered < UNANSWERED_MAX
            && let Some(id) = self.urgent.pop_front()
        {
            return Some(id);
        }
        if self.unanswered < ASKS_UNANSWERED_MAX { self.asks.pop_front() } else { None }
    }

    pub(crate) fn hear(&mut self, now: Instant, message: v1::ServerMessage) -> Result<(), Broken> {
        if let Stage::Open(open) = &mut self.stage {
            open.heard_at = now;
        }
        // The rest of a message is heard even if one of its answers ends the stream: it may have grants.
        let mut outcome = Ok(());
        for v1::ServerAnswer { id, answer } in message.answers {
            let Some(answer) = answer else { continue };
            let heard = match self.stage {
                Stage::Opening { id: opening, said } if opening == id => self.opening(now, said, answer),
                Stage::Open(Open { id: opened, .. }) if opened == id => self.about_the_session(now, answer),
                _ => self.about_a_request(now, id, answer),
            };
            outcome = outcome.and(heard);
        }
        outcome
    }

    fn opening(&mut self, now: Instant, said: Instant, answer: Answer) -> Result<(), Broken> {
        match answer {
            Answer::Opened(opened) => {
                let Stage::Opening { id, .. } = self.stage else { return Ok(()) };
                self.key = Some(opened.session_key);
                self.identity.grace = Duration::from_millis(opened.grace_ms);
                let interval = self.ping_interval();
                self.stage = Stage::Open(Open { id, interval, ping_at: now, pinged: None, heard_at: now });
                self.session_is_certain(said);
                let unanswered: Vec<_> = self
                    .requests
                    .iter()
                    .filter(|(_, it)| it.is_ready())
                    .map(|(id, it)| (*id, it.is_urgent()))
                    .collect();
                // First of all, so that the server's time is known when the first grant comes.
                self.ping(now);
                self.ask_about_holds();
                for (id, urgent) in unanswered {
                    self.queue(id, urgent);
                }
                if let Some(greeting) = self.greeting.take() {
                    // Whoever waited may have gone; then the handles have too, and this ends.
                    let _ = greeting.send(Ok(()));
                }
                Ok(())
            }
            Answer::Refused(refusal) if refusal.code == "unknown_session" => {
                self.session_ended(now);
                Err(Broken(refusal.message))
            }
            Answer::Refused(refusal) => {
                if let Some(greeting) = self.greeting.take() {
                    let _ = greeting.send(Err(Error::Refused(refusal.clone())));
                    self.end(Ok(()));
                }
                Err(Broken(refusal.message))
            }
            // Not what it is: it may contain a key.
            _ => Err(Broken("the server gave an answer that does not fit".to_owned())),
        }
    }

    fn about_the_session(&mut self, now: Instant, answer: Answer) -> Result<(), Broken> {
        match answer {
            Answer::Lost(lost) => {
                let how = match lost.how() {
                    v1::How::Expired => Lost::Expired,
                    // Taken by an operator, whether or not somebody else was given it.
                    v1::How::Forced | v1::How::Stolen => Lost::Forced { note: lost.note.clone().unwrap_or_default() },
                    v1::How::OwnerGone => Lost::OwnerGone,
                    v1::How::SessionEnded => Lost::SessionEnded,
                    _ => Lost::Released,
                };
                self.lose_token(now, lost.token, &how);
                Ok(())
            }
            Answer::Refused(refusal) if refusal.code == "session_taken_over" => {
                // Usually by an earlier connection of our own, whose words came late: then resuming mends it. Twice in a
                // row it is a copy of this process, and both would go on taking it from each other.
                if self.taken_over.is_some_and(|last| now < last + TAKEOVER_CALM) {
                    self.session_ended(now);
                }
                self.taken_over = Some(now);
                Err(Broken(refusal.message))
            }
            Answer::Refused(refusal) => {
                if refusal.code == "unknown_session" {
                    self.session_ended(now);
                }
                Err(Broken(refusal.message))
            }
            _ => Ok(()),
        }
    }

    /// The session is no more, and what lived as long as it. The next connection opens a new one.
    fn session_ended(&mut self, now: Instant) {
        self.key = None;
        self.certain = None;
        self.lose_all_of_session(now, &Lost::SessionEnded);
        self.ask_under_new_ids();
        if self.ending.is_some() && self.is_settled() {
            self.end(Ok(()));
        }
    }

    /// When [`Session::tick`] has something to do, at the latest.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let agenda = self.agenda.first().map(|(at, _)| *at);
        let ending = self.ending.as_ref().map(|ending| ending.give_up);
        let stage = match &self.stage {
            Stage::Opening { said, .. } => Some(*said + self.identity.connect_timeout),
            Stage::Open(open) => Some(open.silent_at().unwrap_or(open.ping_at)),
            Stage::Down | Stage::Over => None,
        };
        [agenda, ending, stage, self.certain].into_iter().flatten().min()
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Instant) -> Result<(), Broken> {
        while let Some((at, due)) = self.agenda.first().copied()
            && at <= now
        {
            self.agenda.pop_first();
            match due {
                Due::Request(id) => self.request_due(now, id),
                Due::Hold(id) => self.hold_due(now, id),
            }
        }
        if self.certain.is_some_and(|until| until <= now) {
            self.certain = None;
            self.lose_all_of_session(now, &Lost::Unreachable);
        }
        if self.ending.as_ref().is_some_and(|ending| ending.give_up <= now) {
            let error = self.unreachable();
            self.end(Err(error));
        }
        match &self.stage {
            Stage::Opening { said, .. } if *said + self.identity.connect_timeout <= now => {
                Err(Broken(format!("it does not answer within {:?}", self.identity.connect_timeout)))
            }
            Stage::Open(open) if open.silent_at().is_some_and(|at| at <= now) => {
                Err(Broken("the connection is silent".to_owned()))
            }
            Stage::Open(open) if open.pinged.is_none() && open.ping_at <= now => {
                self.ping(now);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn note(&mut self, now: Instant, note: Note) {
        match note {
            Note::Forget { id } => self.forget(id),
            Note::Release { hold, answer } => self.release(now, hold, answer, Lost::LetGo),
            Note::Keep { hold } => self.keep(hold),
            Note::Close { answer } => self.close(now, Some(answer)),
        }
    }

    fn unreachable(&self) -> Error {
        let why = if self.is_open() { "it does not answer".to_owned() } else { self.why.clone() };
        Error::Unreachable { address: self.identity.address.clone(), why }
    }

    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}

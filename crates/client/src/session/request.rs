//! Requests: kept until they are answered for good, said again after a reconnect, and tried again when the server has no
//! time for them.

use std::time::{Duration, Instant};

use tenure_proto::v1::{self, client_request::Request as Wire, server_answer::Answer};
use tokio::sync::oneshot;

use super::asks::Acquire;
use super::{Broken, Due, HoldId, Session};
use crate::error::{Error, has_no_time, is_unsure};
use crate::random::pause;

/// The pause before something is asked again that the server had no time for.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MOST: Duration = Duration::from_secs(2);

pub(super) struct Request {
    pub(super) what: What,
    /// On this connection.
    pub(super) said: bool,
    /// Known to the server, such as a wait that is in the queue.
    pub(super) answered: bool,
    /// On whichever connection.
    pub(super) first_said: Option<Instant>,
    pub(super) last_said: Option<Instant>,
    /// It was said, and whether it was done is not known: the line broke, or the server itself cannot tell.
    pub(super) may_have_happened: bool,
    /// How often in a row the server had no time for it.
    failures: u32,
    /// Until when somebody waits for the answer.
    pub(super) give_up: Option<Instant>,
    /// Not to be said before.
    pub(super) retry_at: Option<Instant>,
    /// Its entry in the agenda.
    due: Option<Instant>,
}

pub(super) enum What {
    Acquire(Box<Acquire>),
    Renew { hold: HoldId, key: String },
    Release { key: String, answer: Option<oneshot::Sender<Result<(), Error>>> },
    Withdraw { request_id: String },
    Ping,
    End,
}

impl Request {
    pub(super) fn new(what: What) -> Self {
        Self {
            what,
            said: false,
            answered: false,
            first_said: None,
            last_said: None,
            may_have_happened: false,
            failures: 0,
            give_up: None,
            retry_at: None,
            due: None,
        }
    }

    pub(super) fn until(self, give_up: Option<Instant>) -> Self {
        Self { give_up, ..self }
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.said && self.retry_at.is_none()
    }

    pub(super) fn is_urgent(&self) -> bool {
        !matches!(self.what, What::Acquire(_))
    }

    pub(super) fn say(&mut self, now: Instant) -> Wire {
        self.said = true;
        self.answered = false;
        self.first_said.get_or_insert(now);
        self.last_said = Some(now);
        match &self.what {
            What::Acquire(acquire) => Wire::Acquire(Box::new(acquire.wire(now))),
            // The namespace is that of the session.
            What::Renew { key, .. } => {
                Wire::Renew(Box::new(v1::RenewRequest { key: key.clone(), ..v1::RenewRequest::default() }))
            }
            What::Release { key, .. } => {
                Wire::Release(Box::new(v1::ReleaseRequest { key: key.clone(), ..v1::ReleaseRequest::default() }))
            }
            What::Withdraw { request_id } => Wire::Withdraw(Box::new(v1::WithdrawRequest {
                request_id: request_id.clone(),
                ..v1::WithdrawRequest::default()
            })),
            What::Ping => Wire::Ping(v1::Ping {}),
            What::End => Wire::End(v1::EndSession {}),
        }
    }
}

impl Session {
    /// Keeps a request and puts it in the line of those to be said.
    pub(super) fn request(&mut self, request: Request) -> u64 {
        let id = self.next_id();
        self.request_with_id(id, request);
        id
    }

    pub(super) fn request_with_id(&mut self, id: u64, request: Request) {
        let (ready, urgent) = (request.is_ready(), request.is_urgent());
        self.requests.insert(id, request);
        self.schedule(id);
        if ready {
            self.queue(id, urgent);
        }
    }

    /// While there is no connection nothing stands in line: the next one starts with everything there is.
    pub(super) fn queue(&mut self, id: u64, urgent: bool) {
        if self.is_open() {
            if urgent { self.urgent.push_back(id) } else { self.asks.push_back(id) }
        }
    }

    pub(super) fn take_request(&mut self, id: u64) -> Option<Request> {
        let request = self.requests.remove(&id)?;
        if let Some(due) = request.due {
            self.agenda.remove(&(due, Due::Request(id)));
        }
        if request.said && !request.answered {
            self.unanswered = self.unanswered.saturating_sub(1);
        }
        Some(request)
    }

    /// Puts its next time into the agenda.
    pub(super) fn schedule(&mut self, id: u64) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let due = request.give_up.into_iter().chain(request.retry_at).min();
        if let Some(before) = std::mem::replace(&mut request.due, due) {
            self.agenda.remove(&(before, Due::Request(id)));
        }
        if let Some(due) = due {
            self.agenda.insert((due, Due::Request(id)));
        }
    }

    pub(super) fn request_due(&mut self, now: Instant, id: u64) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        request.due = None;
        if request.retry_at.is_some_and(|at| at <= now) {
            request.retry_at = None;
            let urgent = request.is_urgent();
            self.queue(id, urgent);
        }
        self.give_up_if_over(now, id);
        self.schedule(id);
    }

    fn give_up_if_over(&mut self, now: Instant, id: u64) {
        let error = self.unreachable();
        let open = self.is_open();
        let Some(request) = self.requests.get_mut(&id).filter(|it| it.give_up.is_some_and(|at| at <= now)) else {
            return;
        };
        match &mut request.what {
            What::Acquire(acquire) => match acquire.later_end(now).filter(|_| open) {
                // The server is about to say that the time is up, and who holds it.
                Some(later) => request.give_up = Some(later),
                None => self.fail_acquire(id, error),
            },
            What::Release { answer, .. } => {
                request.give_up = None;
                // It goes on trying, though nobody listens.
                if let Some(answer) = answer.take() {
                    let _ = answer.send(Err(error));
                }
            }
            What::Renew { .. } | What::Withdraw { .. } | What::Ping | What::End => request.give_up = None,
        }
    }

    /// Asks again after a pause: the server had no time for it.
    fn again(&mut self, now: Instant, id: u64, mut request: Request) {
        request.said = false;
        request.answered = false;
        request.due = None;
        request.failures += 1;
        request.retry_at = Some(now + pause(request.failures, RETRY_FIRST, RETRY_MOST));
        self.request_with_id(id, request);
    }

    pub(super) fn about_a_request(&mut self, now: Instant, id: u64, answer: Answer) -> Result<(), Broken> {
        if let Answer::Queued(queued) = &answer {
            if let Some(request) = self.requests.get_mut(&id)
                && let What::Acquire(acquire) = &request.what
            {
                acquire.tell_queued(*queued);
                if !std::mem::replace(&mut request.answered, true) {
                    self.unanswered = self.unanswered.saturating_sub(1);
                }
            }
            return Ok(());
        }
        // Forgotten meanwhile.
        let Some(mut request) = self.take_request(id) else { return Ok(()) };
        if let Answer::Refused(refusal) = &answer
            && has_no_time(refusal)
            && !matches!(request.what, What::Renew { .. })
        {
            request.may_have_happened |= is_unsure(refusal);
            self.again(now, id, request);
            return Ok(());
        }
        match (&mut request.what, answer) {
            (What::Acquire(_), Answer::Granted(grant)) => self.granted(now, id, request, grant),
            (What::Acquire(_), Answer::Refused(refusal)) => return self.acquire_refused(id, request, refusal),
            (What::Renew { hold, .. }, Answer::Renewed(renewed)) => {
                let said = request.last_said.unwrap_or(now);
                self.renewed(now, *hold, said, renewed);
            }
            (What::Renew { hold, .. }, Answer::Refused(refusal)) => self.not_renewed(now, *hold, &refusal),
            (What::Release { answer, .. }, outcome) => {
                if let Some(answer) = answer.take() {
                    let _ = answer.send(released(outcome, request.may_have_happened));
                }
            }
            (What::Ping, Answer::Pong(pong)) => self.pong(now, request.last_said.unwrap_or(now), pong),
            (What::End, Answer::Ended(_)) => self.end(Ok(())),
            // It ended by itself meanwhile, which is told to the stream too.
            (What::End, _) | (What::Withdraw { .. }, _) => {}
            // Not what it is: it may contain a key.
            _ => return Err(Broken("the server gave an answer that does not fit".to_owned())),
        }
        Ok(())
    }
}

/// What a release's answer means. An earlier attempt whose answer was lost may have done it.
fn released(answer: Answer, may_have_happened: bool) -> Result<(), Error> {
    match answer {
        Answer::Refused(refusal) if !(may_have_happened && refusal.code == "not_held") => Err(Error::Refused(refusal)),
        _ => Ok(()),
    }
}

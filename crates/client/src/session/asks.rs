//! Acquires: how long they wait, what their answers mean, how they are given up.

use std::time::{Duration, Instant};

use prost::Message;
use tenure_proto::v1;
use tokio::sync::{oneshot, watch};

use super::holds::certain_until;
use super::request::{Request, What};
use super::time::certain;
use super::{Broken, CALL_PATIENCE, Granted, Session, millis};
use crate::error::Error;
use crate::guard::Lost;
use crate::random::random_id;

/// More than anything with names within the server's limits takes, and little enough that a message of many stays within
/// what the server reads at once. What it does not read ends the stream, and would do so again after each reconnect.
const ACQUIRE_BYTES_MAX: usize = 64 * 1024;
/// How long the server may take to say that a wait is over, and who stands in its way.
const LAST_WORD_PATIENCE: Duration = Duration::from_secs(2);
/// How many grants in a row may be over when they are heard of. After that a lease is too short for the way to the server,
/// and the next one is handed out as it is: lost.
const GRANTS_OVER_MAX: u32 = 3;

/// An acquire as it comes from the application.
#[derive(Debug)]
pub(crate) struct Ask {
    /// Names it for [`Note::Forget`](super::Note::Forget).
    pub(crate) id: u64,
    pub(crate) request: Box<v1::AcquireRequest>,
    /// Whether the request id was made here, and another will do.
    pub(crate) own_id: bool,
    pub(crate) patience: Patience,
    pub(crate) answer: oneshot::Sender<Result<Granted, Error>>,
    pub(crate) progress: watch::Sender<Option<v1::Queued>>,
}

/// How long an acquire waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    None,
    Until(Instant),
    Endless,
}

pub(super) struct Acquire {
    request: Box<v1::AcquireRequest>,
    own_id: bool,
    patience: Patience,
    /// How many grants were over when they were heard of.
    grants_over: u32,
    answer: oneshot::Sender<Result<Granted, Error>>,
    progress: watch::Sender<Option<v1::Queued>>,
}

impl Acquire {
    /// With what is left of its wait. One that is over still has a moment: it is told who stands in its way.
    pub(super) fn wire(&self, now: Instant) -> v1::AcquireRequest {
        let mut request = (*self.request).clone();
        if let Patience::Until(end) = self.patience {
            // Never more than was asked for, which may be the most the server takes.
            let left = millis(end.saturating_duration_since(now)).max(1);
            request.wait_ms = Some(request.wait_ms.map_or(left, |asked| asked.min(left)));
        }
        request
    }

    /// Until when the server may take to say that a wait is over; none if that has passed too.
    pub(super) fn later_end(&self, now: Instant) -> Option<Instant> {
        match self.patience {
            Patience::Until(end) => end.checked_add(LAST_WORD_PATIENCE).filter(|later| *later > now),
            Patience::None | Patience::Endless => None,
        }
    }

    pub(super) fn tell_queued(&self, queued: v1::Queued) {
        self.progress.send_replace(Some(queued));
    }

    fn request_id(&self) -> String {
        self.request.request_id.clone().unwrap_or_default()
    }
}

impl Request {
    /// Whether another grant instead of this one, which is over, may be of use. Not if nothing can be certain that is so
    /// short: each place in a short rate window would be used up for nothing.
    fn may_do_better(&self, now: Instant, grant: &v1::Grant) -> bool {
        let What::Acquire(acquire) = &self.what else { return false };
        let can_be_certain = grant.ttl_ms.is_none_or(|ttl| certain(now, Duration::from_millis(ttl)) > now);
        let often = !self.may_have_happened && acquire.grants_over >= GRANTS_OVER_MAX;
        acquire.own_id && can_be_certain && !often
    }
}

impl Session {
    pub(crate) fn ask(&mut self, now: Instant, ask: Ask) {
        let Ask { id, request, own_id, patience, answer, progress } = ask;
        if self.ending.is_some() || self.is_over() {
            let _ = answer.send(Err(Error::Closed));
            return;
        }
        // Dropped before it came here.
        if answer.is_closed() {
            return;
        }
        if request.encoded_len() > ACQUIRE_BYTES_MAX {
            let _ = answer.send(Err(too_large(&request)));
            return;
        }
        let give_up = match patience {
            Patience::None => Some(now + CALL_PATIENCE),
            Patience::Until(end) => Some(end),
            Patience::Endless => None,
        };
        let acquire = Acquire { request, own_id, patience, grants_over: 0, answer, progress };
        self.request_with_id(id, Request::new(What::Acquire(Box::new(acquire))).until(give_up));
    }

    /// Nobody awaits it any more. If the server may know of it, it must not be granted.
    pub(super) fn forget(&mut self, id: u64) {
        if !self.requests.get(&id).is_some_and(|request| matches!(request.what, What::Acquire(_))) {
            return;
        }
        if let Some(request) = self.take_request(id) {
            self.withdraw_if_said(&request);
        }
    }

    fn withdraw_if_said(&mut self, request: &Request) {
        if let What::Acquire(acquire) = &request.what
            && request.first_said.is_some()
        {
            let request_id = acquire.request_id();
            self.request(Request::new(What::Withdraw { request_id }));
        }
    }

    pub(super) fn fail_acquire(&mut self, id: u64, error: Error) {
        let Some(request) = self.take_request(id) else { return };
        self.withdraw_if_said(&request);
        if let What::Acquire(acquire) = request.what {
            let _ = acquire.answer.send(Err(error));
        }
    }

    /// Without a connection nobody says that a wait is over.
    pub(super) fn end_waits_that_are_over(&mut self, now: Instant) {
        let over = |request: &Request| matches!(&request.what, What::Acquire(acquire) if matches!(acquire.patience, Patience::Until(end) if end <= now));
        let over: Vec<_> = self.requests.iter().filter(|(_, request)| over(request)).map(|(id, _)| *id).collect();
        for id in over {
            let error = self.unreachable();
            self.fail_acquire(id, error);
        }
    }

    pub(super) fn refuse_all_asks(&mut self) {
        let is_ask = |request: &Request| matches!(request.what, What::Acquire(_));
        let asks: Vec<_> = self.requests.iter().filter(|(_, request)| is_ask(request)).map(|(id, _)| *id).collect();
        for id in asks {
            self.fail_acquire(id, Error::Closed);
        }
    }

    /// The session in which they were asked is over: places in queues are lost. A grant that was on its way belongs to it,
    /// so the old request is withdrawn.
    pub(super) fn ask_under_new_ids(&mut self) {
        let is_known = |request: &Request| {
            matches!(&request.what, What::Acquire(acquire) if acquire.own_id) && request.first_said.is_some()
        };
        let known: Vec<_> = self.requests.iter().filter(|(_, request)| is_known(request)).map(|(id, _)| *id).collect();
        for id in known {
            if let Some(request) = self.take_request(id) {
                self.ask_anew(id, request);
            }
        }
    }

    fn ask_anew(&mut self, id: u64, mut request: Request) {
        self.withdraw_if_said(&request);
        let What::Acquire(acquire) = &mut request.what else { return };
        acquire.request.request_id = Some(random_id());
        let give_up = request.give_up;
        self.request_with_id(id, Request::new(request.what).until(give_up));
    }

    pub(super) fn granted(&mut self, now: Instant, id: u64, request: Request, grant: v1::Grant) {
        let What::Acquire(acquire) = &request.what else { return };
        // Under an id that others may have, it may be older than what was said here.
        let asked = request.first_said.filter(|_| acquire.own_id);
        let timed_until = self.timed_until(now, asked, &grant);
        let until = certain_until(grant.lifetime(), timed_until, self.session_until(now));
        // Granted while nobody could be told, and over by now. Handing it out would be no use to anybody.
        if until.is_some_and(|until| until <= now) && request.may_do_better(now, &grant) {
            return self.grant_was_over(id, request);
        }
        let What::Acquire(acquire) = request.what else { return };
        let granted = self.hold(now, id, grant, timed_until);
        if let Err(Ok(granted)) = acquire.answer.send(Ok(granted)) {
            self.release(now, granted.hold, None, Lost::LetGo);
        }
    }

    fn grant_was_over(&mut self, id: u64, mut request: Request) {
        if let What::Acquire(acquire) = &mut request.what {
            acquire.grants_over += 1;
        }
        self.ask_anew(id, request);
    }

    pub(super) fn acquire_refused(
        &mut self,
        id: u64,
        request: Request,
        refusal: Box<v1::Refusal>,
    ) -> Result<(), Broken> {
        let What::Acquire(acquire) = &request.what else { return Ok(()) };
        match refusal.code.as_str() {
            // The session is over, and the stream is about to be told.
            "unknown_session" if acquire.own_id => {
                self.ask_anew(id, request);
                return Err(Broken(refusal.message));
            }
            // It was granted while nobody could be told, and is over by now.
            "request_ended" if acquire.own_id && request.may_have_happened => self.ask_anew(id, request),
            _ => {
                if let What::Acquire(acquire) = request.what {
                    let _ = acquire.answer.send(Err(Error::Refused(refusal)));
                }
            }
        }
        Ok(())
    }
}

fn too_large(request: &v1::AcquireRequest) -> Error {
    let message = format!("the request has {} bytes; the most is {ACQUIRE_BYTES_MAX}", request.encoded_len());
    Error::Refused(Box::new(v1::Refusal {
        code: "invalid_argument".into(),
        message,
        advice: "use shorter names and less metadata".into(),
        ..v1::Refusal::default()
    }))
}

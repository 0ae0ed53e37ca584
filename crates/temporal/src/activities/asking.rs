//! An acquire from the activity's start to the moment when it is known what came of its answer. While it waits it costs
//! no slot of a worker: heartbeats tell whether anybody still wants it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tenure_core::{Acquire, Command, Grant, Lifetime, Refusal, Reply};
use tenure_engine::{Calls, Failure};
use tenure_server::front;

use super::caller::{Caller, Chain};
use super::fate::{self, Fate};
use super::requests::Carrying;
use super::{Activities, No};
use crate::link::CallError;
use crate::owners::WorkflowOwner;

/// How soon a cancelled activity is noticed, at best and at worst: heartbeats of all who wait share one budget, unless
/// their time-outs do not allow it.
const BEAT_MIN: Duration = Duration::from_secs(1);
const BEAT_MAX: Duration = Duration::from_secs(30);
/// What a heartbeat costs of it: twenty a second. Temporal writes each to its database.
const BEAT_SHARE: Duration = Duration::from_millis(50);
/// How many heartbeats there are in the time in which one has to come. One may be late by a call that has to be made again.
const BEATS_PER_TIMEOUT: u32 = 2;
/// The first and the longest pause before a call is made again whose outcome is unknown.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

pub(super) struct Asking {
    activities: Arc<Activities>,
    caller: Caller,
    acquire: Acquire,
    lifetime: Implied,
    only_try: bool,
}

/// What a request leaves to us about its lifetime.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Implied {
    /// It has said all.
    Nothing,
    /// Whose it is.
    Owner,
    /// Everything: it ends with its workflow, or as the pool says.
    Lifetime,
}

/// What came of a request.
enum Outcome {
    Granted(Box<Grant>),
    Refused(Box<Refusal>),
    Failed(Failure),
    /// The workflow does not want it any more, and is to be told that it was heard.
    Cancelled,
    /// Nobody is there to be told.
    Left,
}

impl Asking {
    /// Refuses what cannot be used at once.
    pub(super) fn new(
        activities: Arc<Activities>,
        caller: Caller,
        mut request: Map<String, Value>,
        only_try: bool,
    ) -> Result<Self, No> {
        let waits = ["wait_ms", "wait_forever"].into_iter().find(|field| request.contains_key(*field));
        match waits {
            Some(field) if only_try => {
                return Err(No::for_good(front::invalid(Some(field), "tenure.try_acquire does not wait")));
            }
            None if !only_try => drop(request.insert("wait_forever".into(), true.into())),
            _ => {}
        }
        let is_said = |field: &str| request.contains_key(field);
        let lifetime = match request.get("lifetime").and_then(Value::as_str) {
            None if !is_said("lifetime") && !is_said("ttl_ms") && !is_said("owner") => Implied::Lifetime,
            Some("bound") if !is_said("owner") && !is_said("ttl_ms") => Implied::Owner,
            _ => Implied::Nothing,
        };
        if lifetime == Implied::Owner {
            request.remove("lifetime");
        }
        caller.complete(&mut request);
        let acquire = front::message(Value::Object(request)).and_then(front::acquire).map_err(No::for_good)?;
        Ok(Self { activities, caller, acquire, lifetime, only_try })
    }

    pub(super) async fn carry(mut self) {
        let Some(chain) = self.chain().await else { return };
        let may_ask_anew = match self.identify(&chain) {
            Ok(may_ask_anew) => may_ask_anew,
            Err(no) => return self.tell(Answer::No(no)).await,
        };
        let mut carrying = self.carrying();
        let mut outcome = self.ask(&carrying).await;
        if let Outcome::Refused(refusal) = &outcome {
            match **refusal {
                // A place in a rate window ends by itself, whoever has it.
                Refusal::WindowMismatch { window: Some(_), .. } if self.lifetime == Implied::Lifetime => {
                    self.acquire.lifetime = None;
                    outcome = self.ask(&carrying).await;
                }
                // It was this workflow's before it was reset, and has been released since or was for something else.
                Refusal::RequestEnded { .. } | Refusal::RequestReused { .. } if may_ask_anew => {
                    self.acquire.request = Some(self.request(&self.caller.run_id));
                    carrying = self.carrying();
                    outcome = self.ask(&carrying).await;
                }
                _ => {}
            }
        }
        match outcome {
            Outcome::Granted(grant) => self.deliver(&grant, &carrying).await,
            Outcome::Refused(refusal) if self.only_try && matches!(*refusal, Refusal::Busy(_)) => {
                self.tell(Answer::Busy).await;
            }
            Outcome::Refused(refusal) => self.tell(Answer::No(refusal.into())).await,
            Outcome::Failed(failure) => self.tell(Answer::No(failure.into())).await,
            Outcome::Cancelled => self.tell(Answer::Cancelled).await,
            Outcome::Left => {}
        }
    }

    /// The chain of the calling run; none if there is no such run any more.
    async fn chain(&self) -> Option<Chain> {
        let mut pauses = Pauses::default();
        loop {
            match fate::chain(&self.activities.link, &self.caller).await {
                Ok(chain) => return Some(chain),
                Err(CallError::NotFound) => return None,
                Err(CallError::Unknown) => pauses.next().await,
            }
        }
    }

    /// Fills in what depends on the chain. Gives whether the request may be asked under another id as well.
    fn identify(&mut self, chain: &Chain) -> Result<bool, No> {
        if self.lifetime != Implied::Nothing {
            let owner = WorkflowOwner {
                namespace: self.activities.link.namespace().to_owned(),
                workflow_id: self.caller.workflow_id.clone(),
                first_run_id: chain.first_run_id.clone(),
            };
            let id = owner.id().map_err(|invalid| {
                let message = format!("the workflow cannot be an owner: {invalid}; give `ttl_ms` instead");
                No::for_good(front::invalid(Some("owner"), message))
            })?;
            self.acquire.lifetime = Some(Lifetime::Bound(id));
        }
        if self.acquire.request.is_some() {
            return Ok(false);
        }
        self.acquire.request = Some(self.request(&chain.original_run_id));
        Ok(chain.original_run_id != self.caller.run_id)
    }

    fn request(&self, run_id: &str) -> tenure_core::RequestId {
        self.caller.request(self.activities.link.namespace_id(), run_id)
    }

    fn carrying(&self) -> Carrying {
        let request = self.acquire.request.clone().expect("it was given or made");
        self.activities.requests.carry(self.acquire.pool.namespace().clone(), request)
    }

    /// Asks, and waits as long as somebody wants it.
    async fn ask(&self, carrying: &Carrying) -> Outcome {
        let mut acquiring = match self.activities.engine.acquire(self.acquire.clone()) {
            Ok(acquiring) => acquiring,
            Err(failure) => return Outcome::Failed(failure),
        };
        let mut queued = false;
        loop {
            let beat = tokio::time::sleep(self.beat());
            tokio::select! {
                reply = acquiring.next() => match reply {
                    Ok(Reply::Queued(_)) => {
                        queued = true;
                        self.expect_owner();
                    }
                    Ok(Reply::Granted(grant)) => {
                        self.expect_owner();
                        // Some workflows do not look at what comes after they have cancelled.
                        if queued && matches!(self.is_wanted().await, Ok(Wanted::Cancelled)) {
                            self.give_back(carrying).await;
                            return Outcome::Cancelled;
                        }
                        return Outcome::Granted(grant);
                    }
                    Ok(Reply::Refused(refusal)) => return Outcome::Refused(refusal),
                    Ok(other) => unreachable!("an acquire is answered otherwise: {other:?}"),
                    Err(failure) => return Outcome::Failed(failure),
                },
                () = beat => match self.is_wanted().await {
                    // Not knowing is no reason to leave.
                    Ok(Wanted::Yes) | Err(_) => {}
                    // Dropping it leaves the queue.
                    Ok(Wanted::Cancelled) => return Outcome::Cancelled,
                    Ok(Wanted::No) => return Outcome::Left,
                },
            }
        }
    }

    /// Asks Temporal whether anybody waits for the answer.
    async fn is_wanted(&self) -> Result<Wanted, CallError> {
        match self.activities.link.heartbeat(&self.caller.task_token).await {
            Ok(heard) if heard.cancel_requested => Ok(Wanted::Cancelled),
            Ok(_) => Ok(Wanted::Yes),
            Err(CallError::NotFound) => Ok(match fate::fate(&self.activities.link, &self.caller, false).await? {
                // It is going to be tried again, and shall find its place.
                Fate::Pending => Wanted::Yes,
                Fate::Elsewhere | Fate::Completed | Fate::Over => Wanted::No,
            }),
            Err(unknown) => Err(unknown),
        }
    }

    /// Hands the grant to the workflow, or takes it back if there is nobody who could have it.
    async fn deliver(&self, grant: &Grant, carrying: &Carrying) {
        let (link, told) = (&self.activities.link, front::granted(grant));
        let mut pauses = Pauses::default();
        loop {
            match link.complete(&self.caller.task_token, told.clone()).await {
                Ok(()) => return carrying.delivered(),
                Err(CallError::NotFound) => break,
                Err(CallError::Unknown) => pauses.next().await,
            }
        }
        // It may have been received in a call that seemed to fail.
        let mut pauses = Pauses::default();
        loop {
            match fate::fate(link, &self.caller, true).await {
                Ok(Fate::Completed) => return carrying.delivered(),
                // The next attempt asks for it.
                Ok(Fate::Elsewhere) => return,
                Ok(Fate::Over) => return self.give_back(carrying).await,
                Ok(Fate::Pending) | Err(_) => pauses.next().await,
            }
        }
    }

    /// Takes back what nobody has received. Should this fail, the hold ends with its workflow or by time.
    async fn give_back(&self, carrying: &Carrying) {
        if !carrying.is_last() {
            return;
        }
        let namespace = self.acquire.pool.namespace().clone();
        let request = self.acquire.request.clone().expect("it was given or made");
        let mut pauses = Pauses::default();
        loop {
            let withdraw = Command::Withdraw { namespace: namespace.clone(), request: request.clone() };
            match self.activities.engine.call(withdraw).await {
                // It may be said twice.
                Err(Failure::Overloaded { .. } | Failure::Lost) => pauses.next().await,
                Ok(_) => return,
                Err(failure) => return tracing::warn!(%failure, "a grant that nobody received was not taken back"),
            }
        }
    }

    fn expect_owner(&self) {
        if let Some(Lifetime::Bound(owner)) = &self.acquire.lifetime {
            self.activities.owners.expect(self.acquire.pool.namespace(), owner);
        }
    }

    fn beat(&self) -> Duration {
        let waiting = u32::try_from(self.activities.requests.len()).unwrap_or(u32::MAX);
        let shared = BEAT_SHARE.saturating_mul(waiting).clamp(BEAT_MIN, BEAT_MAX);
        self.caller.heartbeat_timeout.map_or(shared, |timeout| shared.min(timeout / BEATS_PER_TIMEOUT))
    }

    /// Until Temporal has heard it, or nobody is there to hear it.
    async fn tell(&self, answer: Answer) {
        let (link, task) = (&self.activities.link, &self.caller.task_token);
        let mut pauses = Pauses::default();
        loop {
            let told = match &answer {
                Answer::Busy => link.complete(task, Value::Null).await,
                Answer::No(no) => link.fail(task, no.clone().into()).await,
                Answer::Cancelled => link.cancelled(task).await,
            };
            match told {
                Ok(()) | Err(CallError::NotFound) => return,
                Err(CallError::Unknown) => pauses.next().await,
            }
        }
    }
}

/// Every answer but a grant.
enum Answer {
    /// To one that only tried.
    Busy,
    No(No),
    Cancelled,
}

enum Wanted {
    Yes,
    Cancelled,
    No,
}

/// Pauses between calls that fail, longer each time.
#[derive(Default)]
struct Pauses {
    last: Option<Duration>,
}

impl Pauses {
    async fn next(&mut self) {
        let pause = self.last.map_or(PAUSE_MIN, |last| (last * 2).min(PAUSE_MAX));
        self.last = Some(pause);
        tokio::time::sleep(pause).await;
    }
}

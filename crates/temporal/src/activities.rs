//! The activities `tenure.acquire`, `tenure.try_acquire`, `tenure.renew` and `tenure.release`, which workflows in any
//! language call by name. Their input and output are REST's; what a workflow need not say is added here.

mod asking;
mod caller;
#[allow(dead_code, reason = "the SDK's macro makes names that workflows in Rust would use")]
mod desk;
mod fate;
mod requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};
use temporalio_common::data_converters::RawValue;
use temporalio_common::error::{ApplicationErrorCategory, ApplicationFailure};
use temporalio_sdk::WorkerOptions;
use temporalio_sdk::activities::ActivityError;
use tenure_core::{Command, Refusal, Reply};
use tenure_engine::{Calls, Engine, Failure};
use tenure_proto::v1;
use tenure_server::front;
use tokio::sync::Notify;

use crate::link::Link;
use crate::owners::Owners;
use desk::Desk;
use requests::Requests;

/// Where the activities are.
pub const TASK_QUEUE: &str = "tenure";

/// The SDK remembers every activity that a worker was ever given, some hundred bytes each, so that one worker is not
/// used for ever.
const ACTIVITIES_PER_WORKER: usize = 100_000;
/// A worker is replaced when none has come for so long: one that Temporal hands out in that very moment is lost with the
/// worker, and made again only after its time-out. If there is no such moment it is replaced all the same, some day.
const LULL: Duration = Duration::from_millis(200);
const LULLS_MAX: usize = 9_000;
/// When an activity is to be tried again that met a server which stops or has too much to do.
const RETRY_DELAY: Duration = Duration::from_secs(1);

pub(crate) struct Activities {
    link: Arc<Link>,
    engine: Arc<dyn Engine>,
    owners: Owners,
    requests: Requests,
    taken: Arc<AtomicUsize>,
    worn_out: Arc<Notify>,
}

pub(crate) fn worker(activities: &Arc<Activities>) -> WorkerOptions {
    WorkerOptions::new(TASK_QUEUE).register_activities(Desk { activities: activities.clone() }).build()
}

impl Activities {
    pub(crate) fn new(link: Arc<Link>, engine: Arc<dyn Engine>, owners: Owners) -> Self {
        let (requests, worn_out) = (Requests::default(), Arc::new(Notify::new()));
        Self { link, engine, owners, requests, taken: Arc::default(), worn_out }
    }

    /// Told when the worker is to be replaced.
    pub(crate) fn worn_out(&self) -> Arc<Notify> {
        self.worn_out.clone()
    }

    /// Resolves when nobody waits any more.
    pub(crate) async fn ended(&self) {
        self.requests.ended().await;
    }

    fn count(&self) {
        if (self.taken.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(ACTIVITIES_PER_WORKER) {
            let (taken, worn_out) = (self.taken.clone(), self.worn_out.clone());
            tokio::spawn(async move {
                for _ in 0..LULLS_MAX {
                    let before = taken.load(Ordering::Relaxed);
                    tokio::time::sleep(LULL).await;
                    if taken.load(Ordering::Relaxed) == before {
                        break;
                    }
                }
                worn_out.notify_one();
            });
        }
    }

    async fn call(&self, command: Command) -> Result<Reply, No> {
        match self.engine.call(command).await? {
            Reply::Refused(refusal) => Err(No::from(refusal)),
            reply => Ok(reply),
        }
    }
}

impl std::fmt::Debug for Activities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Activities").field("link", &self.link).finish_non_exhaustive()
    }
}

/// The one JSON object that every activity takes. What is null is left out: so do those who build it from a record.
fn object(input: RawValue) -> Result<Map<String, Value>, No> {
    let unusable = |message: &str| No::for_good(front::invalid(None, message));
    let [payload] = &input.payloads[..] else {
        return Err(unusable(&format!("the activity takes one JSON object, not {} arguments", input.payloads.len())));
    };
    // Some SDKs send a null as no bytes.
    let data = if payload.data.is_empty() { b"null" } else { &payload.data[..] };
    match serde_json::from_slice(data) {
        Ok(Value::Object(mut object)) => {
            object.retain(|_, value| !value.is_null());
            Ok(object)
        }
        Ok(_) => Err(unusable("the activity takes a JSON object")),
        Err(error) => Err(unusable(&format!("the input is not JSON: {error}"))),
    }
}

/// Why an activity fails.
#[derive(Clone, Debug)]
struct No {
    told: Box<v1::Refusal>,
    /// Whether Temporal is to try it again.
    again: bool,
}

impl No {
    fn for_good(told: Box<v1::Refusal>) -> Self {
        Self { told, again: false }
    }
}

impl From<Box<Refusal>> for No {
    fn from(refusal: Box<Refusal>) -> Self {
        Self::for_good(front::refused(refusal))
    }
}

impl From<Failure> for No {
    fn from(failure: Failure) -> Self {
        Self { told: front::failed(failure), again: true }
    }
}

impl From<No> for ApplicationFailure {
    fn from(no: No) -> Self {
        ApplicationFailure::builder(no.told.message.clone())
            .type_name(no.told.code.clone())
            .non_retryable(!no.again)
            .maybe_next_retry_delay(no.again.then_some(RETRY_DELAY))
            // A no is an answer, not an error of anybody's.
            .category(ApplicationErrorCategory::Benign)
            .details(*no.told)
            .build()
    }
}

impl From<No> for ActivityError {
    fn from(no: No) -> Self {
        Self::application(no.into())
    }
}

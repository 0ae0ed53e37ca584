//! The workflow around a keeper. Batches come as Updates and are answered at once; one that waits for news is parked,
//! and let go before the run is over.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use temporalio_common::data_converters::RawValue;
use temporalio_common::protos::temporal::api::common::v1::Payload;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{ContinueAsNewOptions, WorkflowContext, WorkflowContextView, WorkflowResult};
use tenure_core::Timestamp;

use super::wire::{self, Answer, Batch};
use super::{Keeper, Settings};

/// Another run is begun after so many commands, if Temporal has not suggested it before: a worker that takes over goes
/// through all of them again.
const COMMANDS_PER_RUN_MAX: usize = 50_000;
/// So many servers may have a message waiting here; Temporal has ten for everybody. Others are told to come back.
const PARKED_MAX: usize = 5;

/// What a run begins with.
#[derive(Serialize, Deserialize)]
pub(crate) enum Start {
    New(Settings),
    Moved(Vec<u8>),
}

#[workflow]
pub(crate) struct KeeperWorkflow {
    keeper: Keeper,
    parked: usize,
    /// Whether the run is coming to its end.
    closing: bool,
    /// For when the timer is set.
    armed: Option<Timestamp>,
}

#[workflow_methods]
impl KeeperWorkflow {
    #[init]
    pub(crate) fn new(_context: &WorkflowContextView, input: RawValue) -> Self {
        let start = wire::decode(bytes(&input)).map_err(|error| error.to_string());
        let keeper = start.and_then(|start| match start {
            Start::New(settings) => Ok(Keeper::new(settings)),
            Start::Moved(snapshot) => Keeper::restore(&snapshot),
        });
        // The task fails and is tried again, by a worker of the right version perhaps.
        let keeper = keeper.unwrap_or_else(|why| panic!("a keeper cannot go on: {why}"));
        Self { keeper, parked: 0, closing: false, armed: None }
    }

    #[run(name = "TenureKeeper")]
    pub(crate) async fn run(context: &mut WorkflowContext<Self>) -> WorkflowResult<()> {
        loop {
            context.state_mut(|this| this.keeper.tick(now(context)));
            if context.continue_as_new_suggested() || context.state(|this| this.is_worn_out()) {
                break;
            }
            let deadline = context.state(|this| this.keeper.next_deadline());
            context.state_mut(|this| this.armed = deadline);
            let alarm = async {
                match deadline {
                    Some(deadline) => {
                        let wait = deadline.millis_since(now(context)).max(1);
                        context.timer(Duration::from_millis(wait)).await;
                    }
                    None => std::future::pending().await,
                }
            };
            let suggested = context.clone();
            let changed = context.wait_condition(move |this| {
                this.is_due_before_the_alarm() || this.is_worn_out() || suggested.continue_as_new_suggested()
            });
            let mut alarm = std::pin::pin!(alarm.fuse());
            let mut changed = std::pin::pin!(changed);
            futures_util::select_biased! {
                ended = changed => ended?,
                () = alarm => {}
            }
        }
        context.state_mut(|this| this.closing = true);
        let finished = context.clone();
        context.wait_condition(move |_| finished.all_handlers_finished()).await?;
        let start = context.state(|this| Start::Moved(this.keeper.snapshot()));
        context.continue_as_new(raw(wire::encode(&start)), ContinueAsNewOptions::default())?;
        Ok(())
    }

    #[update(name = "batch")]
    pub(crate) async fn batch(
        context: &mut WorkflowContext<Self>,
        input: RawValue,
    ) -> Result<RawValue, Box<dyn std::error::Error + Send + Sync>> {
        let batch: Batch = wire::decode(bytes(&input))?;
        let patient = context.state_mut(|this| {
            let patient = this.keeper.is_patient(now(context), &batch) && !this.closing && this.parked < PARKED_MAX;
            this.parked += usize::from(patient);
            patient
        });
        if patient {
            let server = batch.server;
            let news = context.wait_condition(move |this| this.closing || this.keeper.has_news(server));
            let time = context.timer(Duration::from_millis(batch.park_millis));
            let (mut news, mut time) = (std::pin::pin!(news), std::pin::pin!(time.fuse()));
            let waited = futures_util::select_biased! {
                ended = news => ended.map_err(|error| error.to_string()),
                _ = time => Ok(()),
            };
            context.state_mut(|this| this.parked -= 1);
            waited?;
        }
        let answer: Answer = context.state_mut(|this| this.keeper.batch(now(context), batch));
        Ok(raw(wire::encode(&answer)))
    }
}

impl KeeperWorkflow {
    fn is_worn_out(&self) -> bool {
        self.keeper.commands() >= COMMANDS_PER_RUN_MAX
    }

    /// A timer is set anew only for something earlier: one that finds nothing due costs less than one for each message.
    fn is_due_before_the_alarm(&self) -> bool {
        match (self.keeper.next_deadline(), self.armed) {
            (Some(deadline), Some(armed)) => deadline < armed,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
}

/// By the workflow's clock, which stands still within a task.
fn now(context: &WorkflowContext<KeeperWorkflow>) -> Timestamp {
    let time = context.workflow_time().unwrap_or(UNIX_EPOCH);
    let millis = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    Timestamp::from_millis(u64::try_from(millis).expect("milliseconds since 1970 fit in 64 bits"))
}

pub(crate) fn raw(data: Vec<u8>) -> RawValue {
    let metadata = [("encoding".to_owned(), b"binary/plain".to_vec())].into();
    RawValue::new(vec![Payload { metadata, data, ..Payload::default() }])
}

pub(crate) fn bytes(value: &RawValue) -> &[u8] {
    value.payloads.first().map_or(&[], |payload| &payload.data)
}

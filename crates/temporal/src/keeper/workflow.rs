//! The workflow around a keeper. Batches come as Updates and are answered at once; one that waits for news is parked,
//! and let go before the run is over.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use temporalio_common::data_converters::RawValue;
use temporalio_common::protos::temporal::api::common::v1::Payload;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::workflows::WorkflowImplementation;
use temporalio_sdk::{ContinueAsNewOptions, WorkflowContext, WorkflowContextView, WorkflowResult};
use tenure_core::Timestamp;

use super::wire::{self, Answer, Batch};
use super::{Keeper, Settings};

/// Another run is begun after so many commands, if Temporal has not suggested it before: a worker that takes over goes
/// through all of them again.
pub(crate) const COMMANDS_PER_RUN_MAX: usize = 50_000;
/// So many servers may have a message waiting here; Temporal has ten for everybody. Others are told to come back.
pub(crate) const PARKED_MAX: usize = 5;

/// What a run begins with.
#[derive(Serialize, Deserialize)]
pub(crate) enum Start {
    New(Settings),
    Moved(Vec<u8>),
}

#[workflow]
pub(crate) struct KeeperWorkflow {
    keeper: Keeper,
    parking: Parking,
    /// For when the timer is set.
    armed: Option<Timestamp>,
}

#[workflow_methods]
impl KeeperWorkflow {
    #[init]
    pub(crate) fn new(_context: &WorkflowContextView, input: RawValue) -> Self {
        // The task fails and is tried again, by a worker of the right version perhaps.
        let keeper = Keeper::begin(bytes(&input)).unwrap_or_else(|why| panic!("a keeper cannot go on: {why}"));
        Self { keeper, parking: Parking::default(), armed: None }
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
        context.state_mut(|this| this.parking.closing = true);
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
        batch(context, &input).await
    }
}

/// A workflow that keeps pools, and is asked by servers.
pub(crate) trait Keeps: WorkflowImplementation {
    /// None until it can be asked.
    fn keeper(&self) -> Option<&Keeper>;

    fn keeper_mut(&mut self) -> Option<&mut Keeper>;

    fn parking(&self) -> &Parking;

    fn parking_mut(&mut self) -> &mut Parking;

    /// Answers a message, if it can be asked.
    fn answer(&mut self, at: Timestamp, batch: Batch) -> Option<Answer>;
}

/// The messages that wait for news.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    parked: usize,
    /// Whether the run is coming to its end.
    pub(crate) closing: bool,
}

impl Keeps for KeeperWorkflow {
    fn keeper(&self) -> Option<&Keeper> {
        Some(&self.keeper)
    }

    fn keeper_mut(&mut self) -> Option<&mut Keeper> {
        Some(&mut self.keeper)
    }

    fn parking(&self) -> &Parking {
        &self.parking
    }

    fn parking_mut(&mut self) -> &mut Parking {
        &mut self.parking
    }

    fn answer(&mut self, at: Timestamp, batch: Batch) -> Option<Answer> {
        Some(self.keeper.batch(at, batch))
    }
}

/// The Update by which servers ask.
pub(crate) async fn batch<W: Keeps>(
    context: &WorkflowContext<W>,
    input: &RawValue,
) -> Result<RawValue, Box<dyn std::error::Error + Send + Sync>> {
    let batch: Batch = wire::decode(bytes(input))?;
    let patient = context.state_mut(|this| {
        let may_wait = !this.parking().closing && this.parking().parked < PARKED_MAX;
        let patient = this.keeper_mut().is_some_and(|keeper| keeper.is_patient(now(context), &batch)) && may_wait;
        this.parking_mut().parked += usize::from(patient);
        patient
    });
    if patient {
        let server = batch.server;
        let has_news = move |keeper: &Keeper| keeper.has_news(server);
        let news = context.wait_condition(move |this| this.parking().closing || this.keeper().is_none_or(has_news));
        let time = context.timer(Duration::from_millis(batch.park_millis));
        let (mut news, mut time) = (std::pin::pin!(news), std::pin::pin!(time.fuse()));
        let waited = futures_util::select_biased! {
            ended = news => ended.map_err(|error| error.to_string()),
            _ = time => Ok(()),
        };
        context.state_mut(|this| this.parking_mut().parked -= 1);
        waited?;
    }
    let answer = context.state_mut(|this| this.answer(now(context), batch)).ok_or("it is not there yet")?;
    Ok(raw(wire::encode(&answer)))
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
fn now<W>(context: &WorkflowContext<W>) -> Timestamp {
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

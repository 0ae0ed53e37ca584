//! Reads the run that a face goes on from, as an activity: Temporal repeats it until it has been read, whoever dies meanwhile.

use std::sync::Arc;
use std::time::SystemTime;

use temporalio_common::data_converters::RawValue;
use temporalio_common::error::ApplicationFailure;
use temporalio_common::protos::temporal::api::common::v1::Payloads;
use temporalio_common::protos::temporal::api::history::v1::HistoryEvent;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_common::protos::temporal::api::workflowservice::v1::GetWorkflowExecutionHistoryRequest;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tenure_core::Timestamp;

use super::Face;
use super::book::is_moved;
use super::hosted::{LockManagerWorkflow, argument, raw};
use super::lock_manager::LockManagerFace;
use super::past::{self, Past};
use super::pool::PoolFace;
use super::wire::{self, LockManagerInput, PoolInput, TakesOver};
use crate::link::{CallError, Link, execution};

pub(crate) struct Takeover {
    pub(crate) link: Arc<Link>,
}

#[activities]
impl Takeover {
    /// Takes a start input that says what to take over, and gives one in which that is done.
    #[activity(name = "tenure.read_run")]
    pub(crate) async fn read_run(
        self: Arc<Self>,
        context: ActivityContext,
        input: RawValue,
    ) -> Result<RawValue, ActivityError> {
        let is_manager = context.info().workflow_type.as_deref() == Some(LockManagerWorkflow::name());
        let taken = match is_manager {
            true => {
                let own: LockManagerInput = wire::read(argument(&input)).map_err(for_good)?;
                let (before, past) = self.read(own.takes_over).await?;
                let before = wire::read(Some(&as_started::<LockManagerFace>(before)?)).map_err(for_good)?;
                wire::write(&past::lock_manager_input(before, past))
            }
            false => {
                let mut own: PoolInput = wire::read(argument(&input)).map_err(for_good)?;
                let (before, past) = self.read(own.takes_over.take()).await?;
                let before = wire::read(Some(&as_started::<PoolFace>(before)?)).map_err(for_good)?;
                wire::write(&past::pool_input(own, before, past))
            }
        };
        Ok(raw(taken))
    }
}

impl Takeover {
    /// The start input of the last run of the chain, and what happened in it.
    async fn read(&self, from: Option<TakesOver>) -> Result<(Vec<u8>, Vec<Past>), ActivityError> {
        let TakesOver { workflow_id, mut run_id } = from.ok_or_else(|| for_good("nothing to take over"))?;
        loop {
            let events = self.history(&workflow_id, &run_id).await?;
            let last = events.last().and_then(|event| event.attributes.as_ref());
            match last {
                Some(Attributes::WorkflowExecutionContinuedAsNewEventAttributes(next)) => {
                    run_id = next.new_execution_run_id.clone();
                }
                Some(
                    Attributes::WorkflowExecutionTerminatedEventAttributes(_)
                    | Attributes::WorkflowExecutionCompletedEventAttributes(_)
                    | Attributes::WorkflowExecutionFailedEventAttributes(_)
                    | Attributes::WorkflowExecutionTimedOutEventAttributes(_)
                    | Attributes::WorkflowExecutionCanceledEventAttributes(_),
                ) => return Ok(read_events(events)),
                _ => return Err(again(format!("run {run_id} of `{workflow_id}` has not ended"))),
            }
        }
    }

    async fn history(&self, workflow_id: &str, run_id: &str) -> Result<Vec<HistoryEvent>, ActivityError> {
        let mut events = Vec::new();
        let mut request = GetWorkflowExecutionHistoryRequest {
            namespace: self.link.namespace().to_owned(),
            execution: Some(execution(workflow_id, run_id)),
            ..Default::default()
        };
        loop {
            let page = self.link.history(request.clone()).await.map_err(|error| match error {
                CallError::NotFound => for_good(format!("there is no run {run_id} of `{workflow_id}`")),
                CallError::Unknown => again("Temporal does not answer"),
            })?;
            events.extend(page.history.into_iter().flat_map(|history| history.events));
            if page.next_page_token.is_empty() {
                return Ok(events);
            }
            request.next_page_token = page.next_page_token;
        }
    }
}

/// What a run began with, as the samples write it.
fn as_started<F: Face>(input: Vec<u8>) -> Result<Vec<u8>, ActivityError> {
    if !is_moved(Some(&input)) {
        return Ok(input);
    }
    let opened = F::open("", Some(&input), Timestamp::default(), &mut || 0).map_err(for_good)?;
    Ok(opened.face.as_started())
}

fn read_events(events: Vec<HistoryEvent>) -> (Vec<u8>, Vec<Past>) {
    let mut input = Vec::new();
    let mut past = Vec::new();
    for event in events {
        let at = event.event_time.and_then(|time| SystemTime::try_from(time).ok());
        let at_ms = at.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()).unwrap_or_default().as_millis();
        let at_ms = u64::try_from(at_ms).unwrap_or(u64::MAX);
        match event.attributes {
            Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => input = first(started.input),
            Some(Attributes::WorkflowExecutionSignaledEventAttributes(it)) => {
                past.push(Past::Signaled { name: it.signal_name, argument: first(it.input), at_ms });
            }
            Some(Attributes::SignalExternalWorkflowExecutionInitiatedEventAttributes(it)) => {
                let to = it.workflow_execution.unwrap_or_default();
                past.push(Past::Told {
                    event: event.event_id,
                    name: it.signal_name,
                    workflow_id: to.workflow_id,
                    run_id: to.run_id,
                    argument: first(it.input),
                    at_ms,
                });
            }
            Some(Attributes::SignalExternalWorkflowExecutionFailedEventAttributes(it)) => {
                past.push(Past::Undelivered { event: it.initiated_event_id });
            }
            _ => {}
        }
    }
    (input, past)
}

fn first(payloads: Option<Payloads>) -> Vec<u8> {
    payloads.and_then(|payloads| payloads.payloads.into_iter().next()).map(|payload| payload.data).unwrap_or_default()
}

fn for_good(why: impl Into<String>) -> ActivityError {
    ActivityError::application(ApplicationFailure::non_retryable(why.into()))
}

fn again(why: impl Into<String>) -> ActivityError {
    ActivityError::application(ApplicationFailure::new(why.into()))
}

//! What Temporal knows of a calling activity besides what it told when it began: the chain its run belongs to, and what
//! has become of it.

use std::collections::HashSet;

use temporalio_common::protos::temporal::api::enums::v1::PendingActivityState;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    GetWorkflowExecutionHistoryRequest, GetWorkflowExecutionHistoryReverseRequest,
};

use super::caller::{Caller, Chain};
use crate::link::{CallError, Link, execution};

/// Events that are read at once.
const PAGE: i32 = 200;

/// What has become of an attempt that Temporal does not know any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is going to be tried again.
    Pending,
    /// Another attempt is under way.
    Elsewhere,
    /// The workflow has its result.
    Completed,
    /// It ended otherwise, or its workflow did: nobody is going to ask again.
    Over,
}

/// Read from the first event of the run, which never changes.
pub(super) async fn chain(link: &Link, caller: &Caller) -> Result<Chain, CallError> {
    let request = GetWorkflowExecutionHistoryRequest {
        namespace: link.namespace().to_owned(),
        execution: Some(execution(&caller.workflow_id, &caller.run_id)),
        maximum_page_size: 1,
        ..Default::default()
    };
    let first = link.history(request).await?.history.and_then(|history| history.events.into_iter().next());
    let started = match first.and_then(|event| event.attributes) {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => started,
        _ => return Err(CallError::NotFound),
    };
    let or_own = |id: String| if id.is_empty() { caller.run_id.clone() } else { id };
    Ok(Chain {
        first_run_id: or_own(started.first_execution_run_id),
        original_run_id: or_own(started.original_execution_run_id),
    })
}

/// Whether it was completed takes a look at the history, which only those need who may have completed it.
pub(super) async fn fate(link: &Link, caller: &Caller, may_be_completed: bool) -> Result<Fate, CallError> {
    let described = match link.describe(&caller.workflow_id, &caller.run_id).await {
        Ok(described) => described,
        Err(CallError::NotFound) => return Ok(Fate::Over),
        Err(unknown) => return Err(unknown),
    };
    let pending = described.pending_activities.iter().find(|pending| pending.activity_id == caller.activity_id);
    match pending {
        Some(pending) => {
            let waits = matches!(
                pending.state(),
                PendingActivityState::Scheduled | PendingActivityState::Paused | PendingActivityState::Unspecified
            );
            let is_next = i64::from(pending.attempt) > caller.attempt;
            Ok(if is_next && !waits { Fate::Elsewhere } else { Fate::Pending })
        }
        None if may_be_completed && was_completed(link, caller).await? => Ok(Fate::Completed),
        None => Ok(Fate::Over),
    }
}

/// Looks from the newest event back to where the activity was scheduled: how it ended comes after that.
async fn was_completed(link: &Link, caller: &Caller) -> Result<bool, CallError> {
    let mut completed = HashSet::new();
    let mut next_page_token = Vec::new();
    loop {
        let request = GetWorkflowExecutionHistoryReverseRequest {
            namespace: link.namespace().to_owned(),
            execution: Some(execution(&caller.workflow_id, &caller.run_id)),
            maximum_page_size: PAGE,
            next_page_token,
        };
        let page = match link.history_reverse(request).await {
            Ok(page) => page,
            Err(CallError::NotFound) => return Ok(false),
            Err(unknown) => return Err(unknown),
        };
        for event in page.history.map(|history| history.events).unwrap_or_default() {
            let id = event.event_id;
            match event.attributes {
                Some(Attributes::ActivityTaskCompletedEventAttributes(end)) => {
                    completed.insert(end.scheduled_event_id);
                }
                Some(Attributes::ActivityTaskScheduledEventAttributes(scheduled))
                    if scheduled.activity_id == caller.activity_id =>
                {
                    return Ok(completed.contains(&id));
                }
                _ => {}
            }
        }
        if page.next_page_token.is_empty() {
            return Ok(false);
        }
        next_page_token = page.next_page_token;
    }
}

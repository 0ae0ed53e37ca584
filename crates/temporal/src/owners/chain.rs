//! A workflow as an owner: the name it has in Tenure, and whether its chain of runs still goes on.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use temporalio_common::protos::temporal::api::enums::v1::{HistoryEventFilterType, WorkflowExecutionStatus};
use temporalio_common::protos::temporal::api::workflowservice::v1::GetWorkflowExecutionHistoryRequest;
use tenure_core::{Invalid, OwnerId};

use crate::link::{CallError, Link, execution};

/// What an owner's name begins with if it is a workflow.
const PREFIX: &str = "temporal:";
/// In names that end at a slash.
const IN_PART: &AsciiSet = &CONTROLS.add(b'%').add(b'/');
/// In the last one.
const AT_END: &AsciiSet = &CONTROLS.add(b'%');

/// A chain of runs of one workflow id: those that follow from each other by continue-as-new, retry, schedule or reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowOwner {
    /// Temporal's.
    pub namespace: String,
    pub workflow_id: String,
    /// By which the chain is told from others that had the same workflow id.
    pub first_run_id: String,
}

impl WorkflowOwner {
    /// `temporal:NAMESPACE/FIRST_RUN_ID/WORKFLOW_ID`. It is refused if it does not fit, never cut short.
    pub fn id(&self) -> Result<OwnerId, Invalid> {
        let part = |text| utf8_percent_encode(text, IN_PART);
        let (namespace, first_run_id) = (part(&self.namespace), part(&self.first_run_id));
        let workflow_id = utf8_percent_encode(&self.workflow_id, AT_END);
        OwnerId::parse(&format!("{PREFIX}{namespace}/{first_run_id}/{workflow_id}"))
    }

    /// None for owners that are something else.
    pub fn parse(owner: &OwnerId) -> Option<Self> {
        let mut parts = owner.as_str().strip_prefix(PREFIX)?.splitn(3, '/');
        let mut part = || {
            let decoded = percent_decode_str(parts.next()?).decode_utf8().ok()?.into_owned();
            (!decoded.is_empty()).then_some(decoded)
        };
        let (namespace, first_run_id, workflow_id) = (part()?, part()?, part()?);
        Some(Self { namespace, workflow_id, first_run_id })
    }
}

/// Whether a chain goes on.
#[derive(Debug)]
pub(crate) enum Life {
    Running { run_id: String },
    Over,
}

/// The truth, as Temporal has it now. The latest run with the workflow id says it all: a chain has one run at a time, and
/// another chain begins only when it has closed.
pub(crate) async fn life(link: &Link, owner: &WorkflowOwner) -> Result<Life, CallError> {
    let described = match link.describe(&owner.workflow_id, "").await {
        Ok(described) => described,
        // Deleted.
        Err(CallError::NotFound) => return Ok(Life::Over),
        Err(unknown) => return Err(unknown),
    };
    let Some(info) = described.workflow_execution_info else { return Ok(Life::Over) };
    let run_id = info.execution.as_ref().map(|execution| execution.run_id.clone()).unwrap_or_default();
    let is_other = !info.first_run_id.is_empty() && info.first_run_id != owner.first_run_id;
    Ok(match info.status() {
        _ if is_other => Life::Over,
        WorkflowExecutionStatus::Completed
        | WorkflowExecutionStatus::Failed
        | WorkflowExecutionStatus::Canceled
        | WorkflowExecutionStatus::Terminated
        | WorkflowExecutionStatus::TimedOut => Life::Over,
        // Its next run is about to be there.
        WorkflowExecutionStatus::ContinuedAsNew => Life::Running { run_id: String::new() },
        _ => Life::Running { run_id },
    })
}

/// Resolves when the run has closed. What that means is for [`life`] to say.
pub(crate) async fn until_closed(link: &Link, owner: &WorkflowOwner, run_id: &str) -> Result<(), CallError> {
    let mut next_page_token = Vec::new();
    loop {
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: link.namespace().to_owned(),
            execution: Some(execution(&owner.workflow_id, run_id)),
            wait_new_event: true,
            history_event_filter_type: HistoryEventFilterType::CloseEvent.into(),
            next_page_token,
            ..Default::default()
        };
        match link.history(request).await {
            // Temporal does not wait longer than some seconds, and says so with nothing but a token to go on with.
            Ok(page)
                if !page.next_page_token.is_empty()
                    && page.history.as_ref().is_none_or(|all| all.events.is_empty()) =>
            {
                next_page_token = page.next_page_token;
            }
            Ok(_) | Err(CallError::NotFound) => return Ok(()),
            Err(unknown) => return Err(unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(workflow_id: &str) -> WorkflowOwner {
        WorkflowOwner {
            namespace: "team/a".into(),
            workflow_id: workflow_id.into(),
            first_run_id: "0198c1d2-0000-7000-8000-000000000000".into(),
        }
    }

    #[test]
    fn an_owner_is_read_back_whatever_its_workflow_is_called() {
        for id in ["order-7", "a/b/c", "50 %", "line\nbreak", "größe", "\u{85}"] {
            let id = owner(id);
            assert_eq!(WorkflowOwner::parse(&id.id().unwrap()).as_ref(), Some(&id));
        }
        let id = owner("shop/order-7").id().unwrap();
        assert_eq!(id.as_str(), "temporal:team%2Fa/0198c1d2-0000-7000-8000-000000000000/shop/order-7");
    }

    #[test]
    fn a_workflow_id_that_does_not_fit_is_refused_and_others_are_left_alone() {
        assert!(owner(&"x".repeat(3_000)).id().is_err());
        for other in ["job-7", "temporal:", "temporal:default", "temporal:default//x"] {
            assert_eq!(WorkflowOwner::parse(&OwnerId::parse(other).unwrap()), None, "{other}");
        }
    }
}

//! The two calls to Temporal that an engine makes: to start a keeper, and to update one.

use std::error::Error;
use std::time::Duration;

use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::Code;
use temporalio_common::protos::temporal::api::common::v1::{Payloads, WorkflowType};
use temporalio_common::protos::temporal::api::enums::v1::{
    UpdateWorkflowExecutionLifecycleStage, WorkflowIdConflictPolicy, WorkflowIdReusePolicy,
};
use temporalio_common::protos::temporal::api::failure::v1::Failure;
use temporalio_common::protos::temporal::api::failure::v1::failure::FailureInfo;
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::update::v1::{Input, Meta, Request, WaitPolicy, outcome};
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    StartWorkflowExecutionRequest, UpdateWorkflowExecutionRequest,
};

use crate::keeper::wire;
use crate::keeper::workflow::{Start, bytes, raw};
use crate::link::{CallError, Link, execution, is_missing, once};

/// The task queue of all keepers.
pub(crate) const TASK_QUEUE: &str = "tenure-keepers";
/// A server that was killed may have had a task of a keeper: another one gets it after this time.
const TASK_TIMEOUT: Duration = Duration::from_secs(2);
const START_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) enum UpdateError {
    /// There is no such workflow, or not any more. What came of it is not known, if it was only just ended.
    NotFound,
    /// The keeper does not want it, however often it is asked.
    Refused(String),
    /// To be tried again; it is not known what came of it.
    Unknown(String),
}

impl Link {
    /// Starts a keeper unless there is one. False if there was.
    pub(super) async fn start_keeper(&self, id: &str, start: &Start) -> Result<bool, CallError> {
        let request = StartWorkflowExecutionRequest {
            namespace: self.namespace().to_owned(),
            workflow_id: id.to_owned(),
            workflow_type: Some(WorkflowType { name: "TenureKeeper".to_owned() }),
            task_queue: Some(TaskQueue { name: TASK_QUEUE.to_owned(), ..Default::default() }),
            input: Some(Payloads { payloads: raw(wire::encode(start)).payloads }),
            workflow_task_timeout: TASK_TIMEOUT.try_into().ok(),
            identity: "tenure".to_owned(),
            request_id: format!("{:032x}", u128::from_le_bytes(super::random())),
            workflow_id_reuse_policy: WorkflowIdReusePolicy::AllowDuplicate as i32,
            workflow_id_conflict_policy: WorkflowIdConflictPolicy::UseExisting as i32,
            ..Default::default()
        };
        let started = self.client().clone().start_workflow_execution(once(request, START_TIMEOUT)).await;
        self.note_presence(&started);
        Ok(started.map_err(|_| CallError::Unknown)?.into_inner().started)
    }

    /// Sends a message to a keeper and waits for what it says.
    pub(super) async fn update_keeper(
        &self,
        id: &str,
        update_id: String,
        message: Vec<u8>,
        timeout: Duration,
    ) -> Result<Vec<u8>, UpdateError> {
        let input = Input {
            name: "batch".to_owned(),
            args: Some(Payloads { payloads: raw(message).payloads }),
            ..Default::default()
        };
        let meta = Meta { update_id, identity: "tenure".to_owned() };
        let request = UpdateWorkflowExecutionRequest {
            namespace: self.namespace().to_owned(),
            workflow_execution: Some(execution(id, "")),
            wait_policy: Some(WaitPolicy { lifecycle_stage: UpdateWorkflowExecutionLifecycleStage::Completed as i32 }),
            request: Some(Request { meta: Some(meta), input: Some(input), ..Default::default() }),
            ..Default::default()
        };
        let response = self.client().clone().update_workflow_execution(once(request, timeout)).await;
        // Temporal itself also says `unavailable` of an update that it has let go of: that is no connection that failed.
        if !matches!(&response, Err(status) if status.code() == Code::Unavailable && status.source().is_none()) {
            self.note_presence(&response);
        }
        let response = match response {
            Ok(response) => response.into_inner(),
            Err(status) if is_missing(&status) => return Err(UpdateError::NotFound),
            Err(status) if status.code() == Code::InvalidArgument => {
                return Err(UpdateError::Refused(status.message().to_owned()));
            }
            Err(status) => return Err(UpdateError::Unknown(status.message().to_owned())),
        };
        match response.outcome.and_then(|outcome| outcome.value) {
            Some(outcome::Value::Success(said)) => {
                let said = temporalio_common::data_converters::RawValue::new(said.payloads);
                Ok(bytes(&said).to_vec())
            }
            Some(outcome::Value::Failure(failure)) if is_of_ended_run(&failure) => Err(UpdateError::NotFound),
            Some(outcome::Value::Failure(failure)) => Err(UpdateError::Refused(failure.message)),
            None => Err(UpdateError::Unknown("it is not answered yet".to_owned())),
        }
    }
}

/// What Temporal itself says to those who waited when somebody ended the workflow.
fn is_of_ended_run(failure: &Failure) -> bool {
    matches!(&failure.failure_info, Some(FailureInfo::ApplicationFailureInfo(info)) if info.r#type == "AcceptedUpdateCompletedWorkflow")
}

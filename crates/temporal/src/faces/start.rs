//! Starts a face under the name that people's workflows know, or lets one go on where somebody else's worker left off.

use std::time::Duration;

use temporalio_client::errors::WorkflowStartError;
use temporalio_client::{UntypedWorkflow, WorkflowIdConflictPolicy, WorkflowStartOptions};
use temporalio_common::protos::temporal::api::enums::v1::WorkflowExecutionStatus;
use tenure_core::Timestamp;

use super::hosted::{LockManagerWorkflow, ResourcePoolWorkflow, raw};
use super::lock_manager::LockManagerFace;
use super::pool::PoolFace;
use super::wire::{self, LockManagerInput, Ordered, PoolInput, TakesOver};
use super::{Face, TASK_QUEUE};
use crate::link::{CallError, Link};

/// Which of the samples is stood in for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolType {
    #[default]
    ResourcePool,
    LockManager,
}

impl PoolType {
    /// The workflow type.
    pub fn name(self) -> &'static str {
        match self {
            Self::ResourcePool => ResourcePoolWorkflow::name(),
            Self::LockManager => LockManagerWorkflow::name(),
        }
    }
}

/// A pool to be started.
#[derive(Clone, Debug)]
pub struct StartPool {
    /// The name of the pool, by which workflows signal it.
    pub workflow_id: String,
    pub pool_type: PoolType,
    /// In the order in which they are handed out.
    pub resources: Vec<String>,
    pub task_queue: String,
    /// How long anybody waits who does not say how long.
    pub max_wait: Option<Duration>,
    /// Go on from what the running workflow of this id has, and end that.
    pub takes_over: bool,
}

impl StartPool {
    pub fn new(workflow_id: String, resources: Vec<String>) -> Self {
        let task_queue = TASK_QUEUE.to_owned();
        let pool_type = PoolType::default();
        Self { workflow_id, pool_type, resources, task_queue, max_wait: None, takes_over: false }
    }

    /// Starts it, and gives the id of its run.
    pub async fn start(self, link: &Link) -> Result<String, StartPoolError> {
        let before = self.before(link).await?;
        let input = self.input(before)?;
        let policy = match self.takes_over {
            true => WorkflowIdConflictPolicy::TerminateExisting,
            false => WorkflowIdConflictPolicy::Fail,
        };
        let options =
            WorkflowStartOptions::new(self.task_queue, self.workflow_id.clone()).id_conflict_policy(policy).build();
        let workflow = UntypedWorkflow::new(self.pool_type.name());
        let started = link.client().start_workflow(workflow, raw(input), options).await;
        let started = started.map_err(|error| match error {
            WorkflowStartError::AlreadyStarted { .. } => StartPoolError::Running { workflow_id: self.workflow_id },
            error => StartPoolError::Failed(error.to_string()),
        })?;
        Ok(started.info().run_id.clone().unwrap_or_default())
    }

    /// The run that is to be taken over, if one is.
    async fn before(&self, link: &Link) -> Result<Option<TakesOver>, StartPoolError> {
        if !self.takes_over {
            return Ok(None);
        }
        let not_running = || StartPoolError::NotRunning { workflow_id: self.workflow_id.clone() };
        let described = link.describe(&self.workflow_id, "").await.map_err(|error| match error {
            CallError::NotFound => not_running(),
            CallError::Unknown => StartPoolError::Failed("it does not answer".into()),
        })?;
        let info = described.workflow_execution_info.ok_or_else(not_running)?;
        if info.status() != WorkflowExecutionStatus::Running {
            return Err(not_running());
        }
        let found = info.r#type.map(|it| it.name).unwrap_or_default();
        if found != self.pool_type.name() {
            let (workflow_id, wanted) = (self.workflow_id.clone(), self.pool_type.name());
            return Err(StartPoolError::OtherType { workflow_id, found, wanted });
        }
        // What scripts hold there is in no signal, so it would be lost and handed out twice.
        if info.task_queue == self.task_queue {
            let (workflow_id, task_queue) = (self.workflow_id.clone(), self.task_queue.clone());
            return Err(StartPoolError::Hosted { workflow_id, task_queue });
        }
        let run_id = info.execution.map(|execution| execution.run_id).unwrap_or_default();
        Ok(Some(TakesOver { run_id, workflow_id: self.workflow_id.clone() }))
    }

    fn input(&self, takes_over: Option<TakesOver>) -> Result<Vec<u8>, StartPoolError> {
        let mut mint = || 0;
        let at = Timestamp::default();
        let names = self.resources.iter().cloned();
        // It is opened here too, because a mistake is better told to whoever makes it than to the log of a server.
        let (input, opened) = match self.pool_type {
            PoolType::ResourcePool => {
                let resources = Ordered(names.map(|name| (name, None)).collect());
                let max_wait_ms = self.max_wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
                let input = wire::write(&PoolInput { resources, max_wait_ms, takes_over, ..PoolInput::default() });
                let opened = PoolFace::open(&self.workflow_id, Some(&input), at, &mut mint).map(|_| ());
                (input, opened)
            }
            PoolType::LockManager => {
                let resource_queues = Ordered(names.map(|name| (name, Vec::new())).collect());
                let input =
                    wire::write(&LockManagerInput { resource_queues, takes_over, ..LockManagerInput::default() });
                let opened = LockManagerFace::open(&self.workflow_id, Some(&input), at, &mut mint).map(|_| ());
                (input, opened)
            }
        };
        opened.map(|()| input).map_err(StartPoolError::Invalid)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartPoolError {
    #[error("{0}")]
    Invalid(String),
    #[error("workflow `{workflow_id}` is running already")]
    Running { workflow_id: String },
    #[error("workflow `{workflow_id}` is not running, so there is nothing to take over")]
    NotRunning { workflow_id: String },
    #[error("workflow `{workflow_id}` is of type {found}, not {wanted}")]
    OtherType { workflow_id: String, found: String, wanted: &'static str },
    #[error("workflow `{workflow_id}` is on task queue `{task_queue}` already, so there is nothing to take over")]
    Hosted { workflow_id: String, task_queue: String },
    #[error("Temporal did not start it: {0}")]
    Failed(String),
}

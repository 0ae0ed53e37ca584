//! Watches over the workflows that have or want something of a face, and tells the face when one of them is gone. The faces
//! of this process say whom to watch; all others are found by looking for them in Temporal and asking them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use temporalio_client::{
    UntypedQuery, UntypedSignal, UntypedWorkflow, WorkflowHandle, WorkflowListOptions, WorkflowQueryOptions,
    WorkflowSignalOptions,
};
use temporalio_common::data_converters::RawValue;
use temporalio_common::protos::temporal::api::enums::v1::WorkflowExecutionStatus;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::hosted::{LockManagerWorkflow, ResourcePoolWorkflow, argument, raw};
use super::pool::OWNER_GONE;
use super::roster::{self, FaceId, Roster};
use super::wire::{self, Owner, OwnerGone};
use crate::link::{CallError, Link};
use crate::owners::{Life, POLLS_MAX, WorkflowOwner, life, until_closed};

/// How long something must have lasted to be watched: most holds are over by then, and need no question.
const SHORT: Duration = Duration::from_millis(300);
/// How long after its end it is left alone: what a workflow releases at its very end is on its way.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How often all faces are asked, and what each costs of it.
const ASK_INTERVAL: Duration = Duration::from_secs(10);
const ASK_SHARE: Duration = Duration::from_millis(100);
/// The pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(500);
const QUESTIONS_MAX: usize = 16;
/// How often an owner is asked for who has no long poll.
const QUESTION_INTERVAL: Duration = Duration::from_secs(5);
/// How far the clocks of Temporal's own hosts may be apart.
const CLOCKS_APART: Duration = Duration::from_secs(5);
/// The query that a face answers with everybody who has or wants something.
const GET_OWNERS: &str = "get_owners";

#[derive(Debug)]
pub(crate) struct Watch {
    link: Arc<Link>,
    task_queues: Vec<String>,
    polls: Semaphore,
    questions: Semaphore,
}

impl Watch {
    pub(crate) fn new(link: Arc<Link>, task_queues: Vec<String>) -> Self {
        Self { link, task_queues, polls: Semaphore::new(POLLS_MAX), questions: Semaphore::new(QUESTIONS_MAX) }
    }

    /// Watches until it is dropped.
    pub(crate) async fn run(self) {
        let shared = Arc::new(self);
        tokio::join!(shared.clone().ask_all(), shared.follow_all());
    }

    async fn follow_all(self: Arc<Self>) {
        let mut roster = roster::watch();
        let mut followed: HashMap<(FaceId, Owner), Follower> = HashMap::new();
        loop {
            let wanted = self.wanted(&roster.borrow_and_update());
            followed.retain(|entry, follower| wanted.contains(entry) && !follower.0.is_finished());
            for entry in wanted {
                followed.entry(entry).or_insert_with_key(|(face, owner)| {
                    Follower(tokio::spawn(self.clone().follow(face.clone(), owner.clone())).abort_handle())
                });
            }
            if roster.changed().await.is_err() {
                return;
            }
        }
    }

    fn wanted(&self, roster: &Roster) -> BTreeSet<(FaceId, Owner)> {
        let own = roster.iter().filter(|((namespace, _), _)| namespace == self.link.namespace());
        own.flat_map(|(face, entry)| entry.owners.iter().map(|owner| (face.clone(), owner.clone()))).collect()
    }

    /// Follows a workflow until its chain of runs has closed, and then tells the face.
    async fn follow(self: Arc<Self>, face: FaceId, owner: Owner) {
        tokio::time::sleep(SHORT).await;
        let Some(chain) = self.persist(|| self.chain(&owner)).await else { return self.tell(face, owner).await };
        loop {
            let question = self.questions.acquire().await.expect("it is never closed");
            let known = self.persist(|| life(&self.link, &chain)).await;
            drop(question);
            let Life::Running { run_id } = known else { break };
            let is_polled = match self.polls.try_acquire() {
                Ok(_poll) => until_closed(&self.link, &chain, &run_id).await.is_ok(),
                Err(_) => false,
            };
            if !is_polled {
                tokio::time::sleep(QUESTION_INTERVAL).await;
            }
        }
        tokio::time::sleep(LAST_WORDS).await;
        self.tell(face, owner).await;
    }

    /// The chain that asked, as far as that can be known; none if it is certainly over.
    async fn chain(&self, owner: &Owner) -> Result<Option<WorkflowOwner>, CallError> {
        let _question = self.questions.acquire().await.expect("it is never closed");
        let run_id = owner.run_id.as_deref().unwrap_or_default();
        let Some(info) = found(self.link.describe(&owner.workflow_id, run_id).await)? else { return Ok(None) };
        let Some(info) = info.workflow_execution_info else { return Ok(None) };
        let first_run_id = info.first_run_id;
        let run = info.execution.map(|execution| execution.run_id).unwrap_or_default();
        // Those who say which run they are need no further proof.
        if run_id.is_empty() && !first_run_id.is_empty() {
            let first = match first_run_id == run {
                true => info.start_time,
                false => found(self.link.describe(&owner.workflow_id, &first_run_id).await)?
                    .and_then(|first| first.workflow_execution_info?.start_time),
            };
            let began = first.and_then(|time| SystemTime::try_from(time).ok());
            let began = began.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
            // Another workflow took the id over since, so whoever asked is gone.
            if began.is_some_and(|began| began > Duration::from_millis(owner.asked_ms) + CLOCKS_APART) {
                return Ok(None);
            }
        }
        let first_run_id = if first_run_id.is_empty() { run } else { first_run_id };
        let namespace = self.link.namespace().to_owned();
        Ok(Some(WorkflowOwner { namespace, workflow_id: owner.workflow_id.clone(), first_run_id }))
    }

    /// Says to the face that the owner is gone, until it is heard or there is no such face.
    async fn tell(&self, (_, face): FaceId, owner: Owner) {
        tracing::debug!(face, owner = owner.workflow_id, "a workflow is gone, and what it had of a face ends");
        let gone =
            OwnerGone { asked_until_ms: Some(owner.asked_ms), run_id: owner.run_id, workflow_id: owner.workflow_id };
        let gone = raw(wire::write(&gone));
        let signal = || UntypedSignal::<UntypedWorkflow>::new(OWNER_GONE);
        while let Err(error) = self.handle(&face).signal(signal(), gone.clone(), WorkflowSignalOptions::default()).await
        {
            if matches!(error, temporalio_client::errors::WorkflowInteractionError::NotFound(_)) {
                return;
            }
            tracing::debug!(face, %error, "a face could not be told that a workflow is gone");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Finds all faces and asks them, again and again.
    async fn ask_all(self: Arc<Self>) {
        let mut before = BTreeSet::new();
        loop {
            let mut count = 0;
            if let Some(faces) = running(&self.link, &self.task_queues).await {
                // One that has just been started may not be listed yet, so it must be missing twice.
                let missing = roster::ids(self.link.namespace()).filter(|face| !faces.contains(face)).collect();
                roster::forget(self.link.namespace(), &before & &missing);
                before = missing;
                count = u32::try_from(faces.len()).unwrap_or(u32::MAX);
                for face in faces {
                    self.ask(face).await;
                }
            }
            tokio::time::sleep(ASK_INTERVAL.max(ASK_SHARE.saturating_mul(count))).await;
        }
    }

    async fn ask(&self, face: String) {
        let id = (self.link.namespace().to_owned(), face);
        let asked_at = roster::version(&id);
        let query = UntypedQuery::<UntypedWorkflow>::new(GET_OWNERS);
        let answer = self.handle(&id.1).query(query, RawValue::default(), WorkflowQueryOptions::default()).await;
        // One that cannot be asked now is busy, so it says so itself; or it is asked again.
        if let Ok(answer) = answer
            && let Ok(owners) = wire::read(argument(&answer))
        {
            roster::learn(id, asked_at, owners);
        }
    }

    fn handle(&self, workflow_id: &str) -> WorkflowHandle<temporalio_client::Client, UntypedWorkflow> {
        self.link.client().get_workflow_handle(workflow_id.to_owned())
    }

    /// Asks until there is an answer: nobody is gone because Temporal is away.
    async fn persist<T, F: Future<Output = Result<T, CallError>>>(&self, ask: impl Fn() -> F) -> T {
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// The ids of all faces that run on these task queues; none if that cannot be known now.
pub(crate) async fn running(link: &Link, task_queues: &[String]) -> Option<BTreeSet<String>> {
    let mut faces = BTreeSet::new();
    for task_queue in task_queues {
        let (pool, manager) = (ResourcePoolWorkflow::name(), LockManagerWorkflow::name());
        let query = format!(
            "WorkflowType IN ('{pool}', '{manager}') AND ExecutionStatus = 'Running' AND TaskQueue = '{}'",
            task_queue.replace('\'', "''")
        );
        let mut listed = std::pin::pin!(link.client().list_workflows(query, WorkflowListOptions::default()));
        while let Some(workflow) = listed.next().await {
            faces.insert(workflow.ok()?.id().to_owned());
        }
    }
    Some(faces)
}

/// Whether a face of this id runs.
pub(crate) async fn is_running(link: &Link, workflow_id: &str) -> Result<bool, CallError> {
    let info = found(link.describe(workflow_id, "").await)?.and_then(|described| described.workflow_execution_info);
    let is_face = |name: &str| [ResourcePoolWorkflow::name(), LockManagerWorkflow::name()].contains(&name);
    Ok(info.is_some_and(|info| {
        info.status() == WorkflowExecutionStatus::Running && info.r#type.is_some_and(|it| is_face(&it.name))
    }))
}

/// Ends with whoever wanted it.
#[derive(Debug)]
struct Follower(AbortHandle);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn found<T>(answer: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(CallError::NotFound) => Ok(None),
        Err(unknown) => Err(unknown),
    }
}

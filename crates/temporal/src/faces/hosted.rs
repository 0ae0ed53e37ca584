//! The faces as workflows: what Temporal brings (signals, time, randomness) goes into the pure face, what it wants told goes out
//! as signals. Every argument is taken raw, because a workflow whose argument cannot be decoded is stuck for ever.

mod workflows;

use std::time::{Duration, SystemTime};

use temporalio_common::data_converters::RawValue;
use temporalio_common::protos::temporal::api::common::v1::Payload;
use temporalio_common::{SignalDefinition, UntypedWorkflow, WorkflowDefinition};
use temporalio_sdk::workflows::{WorkflowImplementation, join_all, select};
use temporalio_sdk::{
    ActivityOptions, CancellableFuture, ContinueAsNewOptions, SignalWorkflowOptions, WorkflowContext,
    WorkflowContextView, WorkflowResult, WorkflowTermination,
};
use tenure_core::{Stamp, Timestamp};
use tracing::warn;

use super::takeover::Takeover;
use super::{Face, Start, roster};
use crate::keeper::workflow::{COMMANDS_PER_RUN_MAX, Keeps, Parking};
use crate::keeper::{self, Keeper, wire};

pub(crate) use workflows::{
    LockManagerWorkflow, PermitSlotWorkflow, ResourcePoolWorkflow, TypeScriptPermitSlotWorkflow,
};

/// Reading a long history takes a while; an attempt that takes longer has died.
const READ_RUN_TIMEOUT: Duration = Duration::from_secs(120);

/// A workflow that hosts a face.
pub(crate) trait Hosts: WorkflowImplementation {
    type Face: Face;

    fn hosted(&self) -> &Hosted<Self::Face>;

    fn hosted_mut(&mut self) -> &mut Hosted<Self::Face>;
}

#[derive(Debug)]
pub(crate) struct Hosted<F> {
    stage: Stage<F>,
    /// When it closes, the next run tells whoever is granted something from there on.
    parking: Parking,
}

impl<W: Hosts> Keeps for W {
    fn keeper(&self) -> Option<&Keeper> {
        self.hosted().face().map(|face| face.book().keeper())
    }

    fn keeper_mut(&mut self) -> Option<&mut Keeper> {
        self.hosted_mut().face_mut().map(|face| face.book_mut().keeper_mut())
    }

    fn parking(&self) -> &Parking {
        &self.hosted().parking
    }

    fn parking_mut(&mut self) -> &mut Parking {
        &mut self.hosted_mut().parking
    }

    fn answer(&mut self, at: Timestamp, batch: wire::Batch) -> Option<wire::Answer> {
        self.hosted_mut().face_mut().map(|face| face.book_mut().batch(at, batch))
    }
}

#[derive(Debug)]
enum Stage<F> {
    Open(F),
    /// Until it is known what the run before had, signals are kept as they came.
    TakingOver {
        input: RawValue,
        inbox: Vec<(&'static str, RawValue)>,
    },
    /// The start input cannot be used.
    Broken(String),
}

impl<F: Face> Hosted<F> {
    pub(crate) fn open(ctx: &WorkflowContextView, input: RawValue) -> Self {
        let mut minted = 0_u64;
        let mut mint = || {
            minted += 1;
            super::book::digest(&format!("{}/{minted}", ctx.run_id()))
        };
        let opened = F::open(ctx.workflow_id(), argument(&input), timestamp(ctx.start_time()), &mut mint);
        let stage = match opened {
            Ok(Start { takes_over: Some(_), .. }) => Stage::TakingOver { input, inbox: Vec::new() },
            Ok(Start { face, takes_over: None }) => Stage::Open(face),
            Err(why) => Stage::Broken(why),
        };
        Self { stage, parking: Parking::default() }
    }

    pub(crate) fn face(&self) -> Option<&F> {
        match &self.stage {
            Stage::Open(face) => Some(face),
            _ => None,
        }
    }

    fn face_mut(&mut self) -> Option<&mut F> {
        match &mut self.stage {
            Stage::Open(face) => Some(face),
            _ => None,
        }
    }
}

/// A face's life: continue as new when it is time for it, tell, end what is due.
pub(crate) async fn run<W: Hosts>(ctx: &WorkflowContext<W>) -> WorkflowResult<()>
where
    W::Run: WorkflowDefinition<Input = RawValue>,
{
    if let Some(why) = ctx.state(|workflow| match &workflow.hosted().stage {
        Stage::Broken(why) => Some(why.clone()),
        _ => None,
    }) {
        return Err(failed(format!("the start input cannot be used: {why}")));
    }
    take_over(ctx).await?;
    loop {
        // Before anything else, and whether or not there is anything free: a pool that is always busy must not grow
        // until Temporal ends it.
        if ctx.continue_as_new_suggested() || ctx.state(is_worn_out) {
            ctx.state_mut(|workflow| workflow.hosted_mut().parking.closing = true);
            ctx.wait_condition(|_| ctx.all_handlers_finished()).await?;
            let input = ctx.state(|workflow| workflow.hosted().face().map(Face::hand_on));
            let input = keeper::workflow::raw(input.unwrap_or_default());
            ctx.continue_as_new(input, ContinueAsNewOptions::default())?;
        }
        tell(ctx).await;
        publish(ctx);
        wait(ctx).await?;
    }
}

/// Whether another run should begin, or somebody is to be told something because a server asked.
fn is_called_for<W: Hosts>(ctx: &WorkflowContext<W>, workflow: &W) -> bool {
    let has_tells = workflow.hosted().face().is_some_and(|face| face.book().has_tells());
    ctx.continue_as_new_suggested() || is_worn_out(workflow) || has_tells
}

fn is_worn_out<W: Hosts>(workflow: &W) -> bool {
    let face = workflow.hosted().face();
    face.is_some_and(|face| face.book().keeper().commands() >= COMMANDS_PER_RUN_MAX)
}

/// Waits until there is something to do or something comes due, and ends what is due.
async fn wait<W: Hosts>(ctx: &WorkflowContext<W>) -> WorkflowResult<()> {
    let deadline = |workflow: &W| workflow.hosted().face().and_then(|face| face.book().next_deadline());
    let Some(due) = ctx.state(deadline) else {
        ctx.wait_condition(|workflow| is_called_for(ctx, workflow) || deadline(workflow).is_some()).await?;
        return Ok(());
    };
    let left = Duration::from_millis(due.millis_since(now(ctx)).max(1));
    let mut timer = ctx.timer(left);
    // Only for something that is due earlier is the timer set anew; one that rings too early does no harm.
    let mut earlier = Box::pin(ctx.wait_condition(|workflow| {
        is_called_for(ctx, workflow) || deadline(workflow).is_some_and(|earliest| earliest < due)
    }));
    select! {
        _ = timer => {
            let stamp = stamp(ctx);
            ctx.state_mut(|workflow| {
                if let Some(face) = workflow.hosted_mut().face_mut() {
                    face.book_mut().tick(stamp);
                }
            });
        }
        woken = earlier => {
            timer.cancel();
            woken?;
        }
    }
    Ok(())
}

/// Hears a signal, and tells those who got something by it.
pub(crate) async fn hear<W: Hosts>(ctx: &WorkflowContext<W>, signal: &'static str, value: RawValue) {
    let stamp = stamp(ctx);
    let heard = ctx.state_mut(|workflow| match &mut workflow.hosted_mut().stage {
        Stage::Open(face) => face.hear(stamp, signal, argument(&value)),
        Stage::TakingOver { inbox, .. } => {
            inbox.push((signal, value));
            Ok(())
        }
        Stage::Broken(_) => Ok(()),
    });
    note(ctx, signal, heard);
    tell(ctx).await;
    publish(ctx);
}

/// A server asks. Workflows that got something by it are told by [`run`]: the server need not wait for that.
pub(crate) async fn batch<W: Hosts + Keeps>(
    ctx: &WorkflowContext<W>,
    input: &RawValue,
) -> Result<RawValue, Box<dyn std::error::Error + Send + Sync>> {
    // What the run before had comes first.
    ctx.wait_condition(|workflow| !matches!(workflow.hosted().stage, Stage::TakingOver { .. })).await?;
    let answer = keeper::workflow::batch(ctx, input).await;
    publish(ctx);
    answer
}

/// Tells workflows what they got. The holds stand already, so a release that comes before the confirmation finds them; a
/// hold whose workflow cannot be told, for whatever reason, goes to the next.
async fn tell<W: Hosts>(ctx: &WorkflowContext<W>) {
    loop {
        let (name, tells) = ctx.state_mut(|workflow| {
            let hosted = workflow.hosted_mut();
            let closing = hosted.parking.closing;
            match hosted.face_mut().filter(|face| !closing && face.book().has_tells()) {
                Some(face) => (face.assign_signal().to_owned(), face.book_mut().tells()),
                None => (String::new(), Vec::new()),
            }
        });
        if tells.is_empty() {
            return;
        }
        // They must live as long as what they have begun.
        let workflows: Vec<_> =
            tells.iter().map(|tell| ctx.external_workflow(tell.workflow_id.clone(), tell.run_id.clone())).collect();
        let signals = workflows.iter().zip(&tells).map(|(workflow, tell)| {
            let assigned = raw(super::wire::write(&tell.assigned));
            workflow.signal(Assign(name.clone()), assigned, SignalWorkflowOptions::default())
        });
        let answers = join_all(signals.collect::<Vec<_>>()).await;
        for (tell, answer) in tells.iter().zip(answers) {
            let stamp = stamp(ctx);
            ctx.state_mut(|workflow| {
                if let Some(face) = workflow.hosted_mut().face_mut() {
                    face.book_mut().told(stamp, tell.token, answer.is_ok());
                }
            });
            let told =
                answer.map_err(|error| format!("`{}` cannot be told, so the next is: {error}", tell.workflow_id));
            note(ctx, &name, told);
        }
    }
}

/// Goes on from what a run of another worker had when it ended. Nothing is handed out before that is known.
async fn take_over<W: Hosts>(ctx: &WorkflowContext<W>) -> WorkflowResult<()> {
    let input = ctx.state(|workflow| match &workflow.hosted().stage {
        Stage::TakingOver { input, .. } => Some(input.clone()),
        _ => None,
    });
    let Some(input) = input else { return Ok(()) };
    let options = ActivityOptions::start_to_close_timeout(READ_RUN_TIMEOUT);
    let read = ctx.execute_activity(Takeover::read_run, input, options).await;
    let input = read.map_err(|error| failed(format!("the run to be taken over cannot be read: {error}")))?;
    let (at, workflow_id) = (now(ctx), ctx.workflow_id().to_owned());
    let opened = W::Face::open(&workflow_id, argument(&input), at, &mut || ctx.random());
    let Start { face, .. } = opened.map_err(|why| failed(format!("the run to be taken over cannot be used: {why}")))?;
    let taking_over = ctx.state_mut(|workflow| std::mem::replace(&mut workflow.hosted_mut().stage, Stage::Open(face)));
    let Stage::TakingOver { inbox, .. } = taking_over else { unreachable!("only this ends the taking over") };
    for (signal, value) in inbox {
        let stamp = stamp(ctx);
        let heard = ctx.state_mut(|workflow| match workflow.hosted_mut().face_mut() {
            Some(face) => face.hear(stamp, signal, argument(&value)),
            None => Ok(()),
        });
        note(ctx, signal, heard);
    }
    Ok(())
}

/// Lets the rest of the process know who has or wants something. What is replayed is known, or is old.
fn publish<W: Hosts>(ctx: &WorkflowContext<W>) {
    if !ctx.is_replaying()
        && let Some(owners) = ctx.state(|workflow| workflow.hosted().face().map(|face| face.book().owners()))
    {
        roster::publish((ctx.namespace().to_owned(), ctx.workflow_id().to_owned()), owners);
    }
}

fn note<W>(ctx: &WorkflowContext<W>, signal: &str, done: Result<(), String>) {
    if let Err(why) = done
        && !ctx.is_replaying()
    {
        warn!(face = ctx.workflow_id(), signal, "signal dropped: {why}");
    }
}

fn stamp<W>(ctx: &WorkflowContext<W>) -> Stamp {
    Stamp { at: now(ctx), nonce: ctx.random() }
}

fn now<W>(ctx: &WorkflowContext<W>) -> Timestamp {
    timestamp(ctx.workflow_time())
}

fn timestamp(time: Option<SystemTime>) -> Timestamp {
    let since = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok()).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since.as_millis()).expect("milliseconds of this age fit"))
}

/// The first argument. What it is encoded as does not matter: either it is JSON, or it is dropped.
pub(crate) fn argument(value: &RawValue) -> Option<&[u8]> {
    value.payloads.first().map(|payload| payload.data.as_slice())
}

pub(crate) fn raw(json: Vec<u8>) -> RawValue {
    let metadata = [("encoding".to_owned(), b"json/plain".to_vec())].into();
    RawValue::new(vec![Payload { metadata, data: json, ..Payload::default() }])
}

fn failed(why: String) -> WorkflowTermination {
    let failure = temporalio_common::error::ApplicationFailure::non_retryable(why);
    WorkflowTermination::failed_application(failure)
}

/// A signal whose name is made when it is sent.
struct Assign(String);

impl SignalDefinition for Assign {
    type Workflow = UntypedWorkflow;
    type Input = RawValue;

    fn name(&self) -> &str {
        &self.0
    }
}

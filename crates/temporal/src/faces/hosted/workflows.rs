//! The workflow types, under the names that people's workflows know. Nothing is decided here.

use std::collections::BTreeMap;

use temporalio_common::data_converters::RawValue;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::workflows::select;
use temporalio_sdk::{SyncWorkflowContext, WorkflowContext, WorkflowContextView, WorkflowResult};

use super::{Hosted, Hosts, argument, batch, failed, hear, run};
use crate::faces::lock_manager::{HANDOFF, LockManagerFace};
use crate::faces::pool::{ACQUIRE, ADD, OWNER_GONE, PoolFace, RELEASE, WITHDRAW};
use crate::faces::wire::{Held, Owner};
use crate::faces::{Face, permit};

#[workflow]
#[derive(Debug)]
pub(crate) struct ResourcePoolWorkflow {
    hosted: Hosted<PoolFace>,
}

#[workflow_methods]
impl ResourcePoolWorkflow {
    #[init]
    pub(crate) fn new(ctx: &WorkflowContextView, input: RawValue) -> Self {
        Self { hosted: Hosted::open(ctx, input) }
    }

    #[run]
    pub(crate) async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<()> {
        run(ctx).await
    }

    #[signal]
    pub(crate) async fn acquire_resource(ctx: &mut WorkflowContext<Self>, value: RawValue) {
        hear(ctx, ACQUIRE, value).await;
    }

    #[signal]
    pub(crate) async fn release_resource(ctx: &mut WorkflowContext<Self>, value: RawValue) {
        hear(ctx, RELEASE, value).await;
    }

    #[signal]
    pub(crate) async fn add_resources(ctx: &mut WorkflowContext<Self>, value: RawValue) {
        hear(ctx, ADD, value).await;
    }

    #[signal]
    pub(crate) async fn owner_gone(ctx: &mut WorkflowContext<Self>, value: RawValue) {
        hear(ctx, OWNER_GONE, value).await;
    }

    #[signal]
    pub(crate) async fn withdraw_request(ctx: &mut WorkflowContext<Self>, value: RawValue) {
        hear(ctx, WITHDRAW, value).await;
    }

    #[update(name = "batch")]
    pub(crate) async fn batch(
        ctx: &mut WorkflowContext<Self>,
        input: RawValue,
    ) -> Result<RawValue, Box<dyn std::error::Error + Send + Sync>> {
        batch(ctx, &input).await
    }

    #[query]
    pub(crate) fn get_current_holders(&self, _ctx: &WorkflowContextView) -> BTreeMap<String, Option<Held>> {
        self.hosted.face().map(Face::holders).unwrap_or_default()
    }

    #[query]
    pub(crate) fn get_owners(&self, _ctx: &WorkflowContextView) -> Vec<Owner> {
        self.hosted.face().map(|face| face.book().owners()).unwrap_or_default()
    }
}

impl Hosts for ResourcePoolWorkflow {
    type Face = PoolFace;

    fn hosted(&self) -> &Hosted<PoolFace> {
        &self.hosted
    }

    fn hosted_mut(&mut self) -> &mut Hosted<PoolFace> {
        &mut self.hosted
    }
}

#[workflow]
#[derive(Debug)]
pub(crate) struct LockManagerWorkflow {
    hosted: Hosted<LockManagerFace>,
}

#[workflow_methods]
impl LockManagerWorkflow {
    #[init]
    pub(crate) fn new(ctx: &WorkflowContextView, input: RawValue) -> Self {
        Self { hosted: Hosted::open(ctx, input) }
    }

    #[run]
    pub(crate) async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<()> {
        run(ctx).await
    }

    #[signal]
    pub(crate) async fn acquire_resource(ctx: &mut WorkflowContext<Self>, value: RawValue) {
        hear(ctx, ACQUIRE, value).await;
    }

    #[signal]
    pub(crate) async fn release_resource(ctx: &mut WorkflowContext<Self>, value: RawValue) {
        hear(ctx, RELEASE, value).await;
    }

    #[signal]
    pub(crate) async fn handoff_resource(ctx: &mut WorkflowContext<Self>, value: RawValue) {
        hear(ctx, HANDOFF, value).await;
    }

    #[signal]
    pub(crate) async fn add_resources(ctx: &mut WorkflowContext<Self>, value: RawValue) {
        hear(ctx, ADD, value).await;
    }

    #[signal]
    pub(crate) async fn owner_gone(ctx: &mut WorkflowContext<Self>, value: RawValue) {
        hear(ctx, OWNER_GONE, value).await;
    }

    #[signal]
    pub(crate) async fn withdraw_request(ctx: &mut WorkflowContext<Self>, value: RawValue) {
        hear(ctx, WITHDRAW, value).await;
    }

    #[update(name = "batch")]
    pub(crate) async fn batch(
        ctx: &mut WorkflowContext<Self>,
        input: RawValue,
    ) -> Result<RawValue, Box<dyn std::error::Error + Send + Sync>> {
        batch(ctx, &input).await
    }

    #[query]
    pub(crate) fn get_current_holders(&self, _ctx: &WorkflowContextView) -> BTreeMap<String, Option<Held>> {
        self.hosted.face().map(Face::holders).unwrap_or_default()
    }

    #[query]
    pub(crate) fn get_owners(&self, _ctx: &WorkflowContextView) -> Vec<Owner> {
        self.hosted.face().map(|face| face.book().owners()).unwrap_or_default()
    }
}

impl Hosts for LockManagerWorkflow {
    type Face = LockManagerFace;

    fn hosted(&self) -> &Hosted<LockManagerFace> {
        &self.hosted
    }

    fn hosted_mut(&mut self) -> &mut Hosted<LockManagerFace> {
        &mut self.hosted
    }
}

/// Under the name that the article gives it.
#[workflow]
#[derive(Debug, Default)]
pub(crate) struct PermitSlotWorkflow {
    released: bool,
}

#[workflow_methods]
impl PermitSlotWorkflow {
    #[run]
    pub(crate) async fn run(ctx: &mut WorkflowContext<Self>, input: RawValue) -> WorkflowResult<String> {
        let released = released_in_time(ctx, &input, |permit| permit.released).await?;
        Ok(if released { "released" } else { "lease_expired" }.into())
    }

    #[signal]
    pub(crate) fn release(&mut self, _ctx: &mut SyncWorkflowContext<Self>, _value: RawValue) {
        self.released = true;
    }
}

/// Under the name that it has in TypeScript.
#[workflow]
#[derive(Debug, Default)]
pub(crate) struct TypeScriptPermitSlotWorkflow {
    released: bool,
}

#[workflow_methods]
impl TypeScriptPermitSlotWorkflow {
    #[run(name = "permitSlotWorkflow")]
    pub(crate) async fn run(ctx: &mut WorkflowContext<Self>, input: RawValue) -> WorkflowResult<String> {
        let released = released_in_time(ctx, &input, |permit| permit.released).await?;
        Ok(if released { "released" } else { "lease-expired" }.into())
    }

    #[signal]
    pub(crate) fn release(&mut self, _ctx: &mut SyncWorkflowContext<Self>, _value: RawValue) {
        self.released = true;
    }
}

/// Waits for the release of a permit, or the end of its lease.
async fn released_in_time<W: 'static>(
    ctx: &WorkflowContext<W>,
    input: &RawValue,
    is_released: impl Fn(&W) -> bool,
) -> WorkflowResult<bool> {
    let lease =
        permit::lease(argument(input)).map_err(|why| failed(format!("the start input cannot be used: {why}")))?;
    let mut released = Box::pin(ctx.wait_condition(is_released));
    let Some(lease) = lease else {
        released.await?;
        return Ok(true);
    };
    let mut timer = ctx.timer(lease);
    select! {
        done = released => {
            done?;
            Ok(true)
        }
        _ = timer => Ok(false),
    }
}

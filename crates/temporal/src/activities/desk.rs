//! What Temporal's SDK calls when an activity begins.

use std::sync::Arc;

use serde_json::Value;
use temporalio_common::data_converters::RawValue;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tenure_core::Reply;
use tenure_proto::v1;
use tenure_server::front;

use super::asking::Asking;
use super::caller::Caller;
use super::{Activities, No, object};

/// What the SDK calls.
pub(super) struct Desk {
    pub(super) activities: Arc<Activities>,
}

#[activities]
impl Desk {
    #[activity(name = "tenure.acquire")]
    async fn acquire(self: Arc<Self>, context: ActivityContext, input: RawValue) -> Result<Value, ActivityError> {
        self.ask(&context, input, false)
    }

    #[activity(name = "tenure.try_acquire")]
    async fn try_acquire(self: Arc<Self>, context: ActivityContext, input: RawValue) -> Result<Value, ActivityError> {
        self.ask(&context, input, true)
    }

    #[activity(name = "tenure.renew")]
    async fn renew(self: Arc<Self>, _context: ActivityContext, input: RawValue) -> Result<v1::Renewed, ActivityError> {
        self.activities.count();
        let command = front::message(Value::Object(object(input)?)).and_then(front::renew).map_err(No::for_good)?;
        match self.activities.call(command).await? {
            Reply::Renewed { token, ttl, deadline } => Ok(front::renewed(token, ttl, deadline)),
            other => unreachable!("a renewal is answered otherwise: {other:?}"),
        }
    }

    #[activity(name = "tenure.release")]
    async fn release(
        self: Arc<Self>,
        context: ActivityContext,
        input: RawValue,
    ) -> Result<v1::Released, ActivityError> {
        self.activities.count();
        let command = front::message(Value::Object(object(input)?)).and_then(front::release).map_err(No::for_good)?;
        match self.activities.call(command).await {
            Ok(Reply::Released { token }) => Ok(front::released(token)),
            Ok(other) => unreachable!("a release is answered otherwise: {other:?}"),
            // Most likely an earlier attempt has released it, and its answer was lost.
            Err(no) if no.told.code == "not_held" && context.info().attempt > 1 => Ok(v1::Released::default()),
            Err(no) => Err(no.into()),
        }
    }
}

impl Desk {
    /// Whether it waits or not, the answer is given later: only so is it known whether it was received.
    fn ask(&self, context: &ActivityContext, input: RawValue, only_try: bool) -> Result<Value, ActivityError> {
        self.activities.count();
        let caller = Caller::of(context.info()).map_err(No::for_good)?;
        let asking = Asking::new(self.activities.clone(), caller, object(input)?, only_try)?;
        tokio::spawn(asking.carry());
        Err(ActivityError::WillCompleteAsync)
    }
}

//! What must be known before an engine may be used: that nobody else keeps the same pools.

use futures_util::{StreamExt, stream};
use temporalio_common::protos::temporal::api::enums::v1::WorkflowExecutionStatus;

use super::{Keepers, Shared};
use crate::keeper::KEEPERS_MAX;
use crate::keeper::workflow::Start;
use crate::link::{CallError, Link};

/// How many questions Temporal is asked at a time.
const QUESTIONS_AT_ONCE: usize = 8;

/// Why an engine must not be used.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    #[error("pools are spread over {there} keeper{} here, not over {wanted}", if *.there == 1 { "" } else { "s" })]
    SpreadOtherwise { there: usize, wanted: usize },
    #[error("Temporal does not say whether there are keepers")]
    Unknown,
}

impl Keepers {
    /// Makes sure that no others keep the same pools: with another number of keepers, each of two could grant the same
    /// lock. To be awaited before anything is asked.
    pub async fn begin(&self) -> Result<(), BeginError> {
        self.check_alone().await?;
        let Shared { link, keepers, .. } = &*self.shared;
        let start = Start::New(self.shared.settings(0));
        link.start_keeper(&keepers[0].workflow_id, &start).await.map_err(unknown)?;
        // Of two that begin at once, each finds the other now.
        self.check_alone().await
    }

    async fn check_alone(&self) -> Result<(), BeginError> {
        let Shared { link, options, .. } = &*self.shared;
        let numbers = 1..=usize::try_from(KEEPERS_MAX).expect("it is 64");
        let others = stream::iter(numbers.filter(|number| *number != options.keepers));
        let first = |there: usize| async move { (there, is_running(link, &options.keeper_id_of(0, there)).await) };
        let mut looked = others.map(first).buffer_unordered(QUESTIONS_AT_ONCE);
        while let Some((there, found)) = looked.next().await {
            if found.map_err(unknown)? {
                return Err(BeginError::SpreadOtherwise { there, wanted: options.keepers });
            }
        }
        Ok(())
    }
}

async fn is_running(link: &Link, id: &str) -> Result<bool, CallError> {
    match link.describe(id, "").await {
        Ok(found) => {
            Ok(found.workflow_execution_info.is_some_and(|info| info.status() == WorkflowExecutionStatus::Running))
        }
        Err(CallError::NotFound) => Ok(false),
        Err(unknown) => Err(unknown),
    }
}

fn unknown(_: CallError) -> BeginError {
    BeginError::Unknown
}

//! Who calls: the activity and the workflow behind it, and by which names Tenure knows them.

use std::time::Duration;

use ring::digest::{Context, SHA256};
use serde_json::{Map, Value};
use temporalio_sdk::activities::ActivityInfo;
use tenure_core::{META_VALUE_BYTES_MAX, NAME_BYTES_MAX, RequestId};
use tenure_proto::v1;
use tenure_server::front;

/// What Temporal takes for the priority of whoever says nothing; smaller numbers come first there.
const PRIORITY_KEY_USUAL: i64 = 3;

#[derive(Debug)]
pub(super) struct Caller {
    pub(super) workflow_id: String,
    pub(super) run_id: String,
    pub(super) workflow_type: String,
    pub(super) activity_id: String,
    /// From 1.
    pub(super) attempt: i64,
    pub(super) task_token: Vec<u8>,
    pub(super) heartbeat_timeout: Option<Duration>,
    pub(super) priority: i64,
}

/// The chain of runs that a run belongs to.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) first_run_id: String,
    /// The run that this one was before it was reset, else itself.
    pub(super) original_run_id: String,
}

impl Caller {
    pub(super) fn of(info: &ActivityInfo) -> Result<Self, Box<v1::Refusal>> {
        let (Some(workflow_id), Some(run_id)) = (&info.workflow_id, &info.workflow_run_id) else {
            return Err(front::invalid(None, "the activity is for workflows: without one there is nobody to hold"));
        };
        let key = info.priority.priority_key.filter(|key| *key > 0);
        Ok(Self {
            workflow_id: workflow_id.clone(),
            run_id: run_id.clone(),
            workflow_type: info.workflow_type.clone().unwrap_or_default(),
            activity_id: info.activity_id.clone(),
            attempt: info.attempt.into(),
            task_token: info.task_token.clone(),
            heartbeat_timeout: info.heartbeat_timeout.filter(|timeout| !timeout.is_zero()),
            priority: key.map_or(0, |key| PRIORITY_KEY_USUAL - i64::from(key)).max(tenure_core::PRIORITY_MIN.into()),
        })
    }

    /// What is not said in a request.
    pub(super) fn complete(&self, request: &mut Map<String, Value>) {
        request.entry("holder").or_insert_with(|| within(&self.workflow_id, NAME_BYTES_MAX).into());
        request.entry("priority").or_insert_with(|| self.priority.into());
        let meta = request.entry("meta").or_insert_with(|| Map::new().into());
        if let Value::Object(meta) = meta {
            let workflow_type = || within(&self.workflow_type, META_VALUE_BYTES_MAX).into();
            meta.entry("workflow_type").or_insert_with(workflow_type);
            meta.entry("run_id").or_insert_with(|| self.run_id.clone().into());
        }
    }

    /// The same for every attempt of the activity. Whoever knows it can have the key of the hold, so there is something
    /// in it that listings do not tell: the number of the namespace.
    pub(super) fn request(&self, namespace_id: &str, run_id: &str) -> RequestId {
        let mut digest = Context::new(&SHA256);
        for part in [namespace_id, &self.workflow_id, run_id, &self.activity_id] {
            digest.update(&(part.len() as u64).to_le_bytes());
            digest.update(part.as_bytes());
        }
        let request = format!("temporal:{}", hex(&digest.finish().as_ref()[..20]));
        RequestId::parse(&request).expect("it is short and has only letters and digits")
    }
}

/// A name that can be shown, from one that may be longer or have control characters: its beginning, and by what it
/// differs from others with the same beginning.
fn within(name: &str, bytes_max: usize) -> String {
    if !name.is_empty() && name.len() <= bytes_max && !name.contains(char::is_control) {
        return name.to_owned();
    }
    let digest = ring::digest::digest(&SHA256, name.as_bytes());
    let mark = format!("~{}", hex(&digest.as_ref()[..8]));
    let beginning = name.floor_char_boundary(bytes_max - mark.len());
    name[..beginning].replace(char::is_control, "_") + mark.as_str()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_told_from_others_with_the_same_beginning_and_is_not_too_long() {
        let [one, other] = ["a", "b"].map(|end| within(&("ö".repeat(400) + end), NAME_BYTES_MAX));
        assert_ne!(one, other);
        assert!(one.len() <= NAME_BYTES_MAX && one.starts_with("öö"));
        assert_eq!(within("order-7", NAME_BYTES_MAX), "order-7");
        assert!(!within("a\nb", NAME_BYTES_MAX).contains('\n'));
    }
}

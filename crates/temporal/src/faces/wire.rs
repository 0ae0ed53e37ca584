//! What the public samples' workflows say to their pools and hear from them, as JSON. Fields are declared in the order of
//! their names, which is the order in which the samples write them; what others add is ignored, and what is ours to add
//! may be left out.

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A signal's or a start's argument, if there is one and it is what it should be. Never fails loudly: anybody may send
/// anything to a pool, and a pool that chokes on it is lost for all.
pub(crate) fn read<T: DeserializeOwned>(argument: Option<&[u8]>) -> Result<T, String> {
    let bytes = argument.ok_or("has no argument")?;
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

pub(crate) fn write<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers are JSON")
}

/// `acquire_resource`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct AcquireResource {
    pub(crate) workflow_id: String,
    /// The lock manager's users say it; their locks belong to a run.
    pub(crate) run_id: Option<String>,
    pub(crate) priority: Option<i64>,
    pub(crate) request_id: Option<String>,
    pub(crate) select: Option<String>,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) wait_ms: Option<u64>,
}

/// `release_resource`, as either sample's users say it. The key alone is enough.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ReleaseResource {
    pub(crate) release_key: Option<String>,
    pub(crate) resource: Option<String>,
    pub(crate) workflow_id: Option<String>,
    pub(crate) run_id: Option<String>,
}

/// `handoff_resource`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct HandoffResource {
    pub(crate) resource: String,
    pub(crate) workflow_id: String,
    pub(crate) old_run_id: String,
    pub(crate) new_run_id: String,
}

/// `owner_gone`: ends what a workflow has and waits for, as far as it asked before a certain time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct OwnerGone {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asked_until_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<String>,
    pub(crate) workflow_id: String,
}

/// `withdraw_request`: ends what a workflow waits for, all of it or one request.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct WithdrawRequest {
    pub(crate) workflow_id: String,
    pub(crate) request_id: Option<String>,
}

/// `assign_resource…`, to a workflow that asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Assigned {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) release_key: String,
    pub(crate) resource: String,
    pub(crate) token: u64,
}

/// One who has or wants something of a face, for whoever watches over workflows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub(crate) struct Owner {
    pub(crate) workflow_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<String>,
    /// When it asked; a workflow of the same id that began later is not the one that asked.
    pub(crate) asked_ms: u64,
}

/// What a face carries into its next run, and what a pool of the samples starts with: who has what, who waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) counters: Counters,
    /// In the order in which they are handed out.
    pub(crate) resources: Vec<(String, Option<Held>)>,
    /// In the order in which they came.
    pub(crate) waiters: Vec<Waiting>,
}

/// Numbers that must not be given twice, and the time that must not run back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Counters {
    pub(crate) now_ms: u64,
    pub(crate) token_next: u64,
    pub(crate) waiter_next: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Held {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asked_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline_ms: Option<u64>,
    /// The release key.
    pub(crate) release_signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_ms: Option<u64>,
    /// The workflow has yet to be told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) untold: bool,
    pub(crate) workflow_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Waiting {
    /// Its number, by which it keeps its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) arrival: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asked_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<i64>,
    /// The release key that it will have.
    pub(crate) release_signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) select: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) workflow_id: String,
}

/// The start input of a resource pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct PoolInput {
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) counters: Counters,
    /// How long anybody waits who does not say how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_wait_ms: Option<u64>,
    #[serde(default)]
    pub(crate) resources: Ordered<Option<Held>>,
    /// The run whose holds and waits are taken over before anything else is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) takes_over: Option<TakesOver>,
    #[serde(default)]
    pub(crate) waiters: Vec<Waiting>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct TakesOver {
    pub(crate) run_id: String,
    pub(crate) workflow_id: String,
}

/// The start input of a lock manager: the head of each list holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct LockManagerInput {
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) counters: Counters,
    #[serde(default)]
    pub(crate) resource_queues: Ordered<Vec<Held>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) takes_over: Option<TakesOver>,
    /// Those who wait for any of them. (The sample puts each into one resource's list.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) waiters: Vec<Waiting>,
}

/// The start input of a permit.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct PermitInput {
    #[serde(alias = "leaseSeconds")]
    pub(crate) lease_seconds: Option<f64>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A JSON object whose order counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ordered<T>(pub(crate) Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Serialize> Serialize for Ordered<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Entries(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_sample_starts_a_pool_with_is_read_in_its_order() {
        let text = br#"{"resources": {"b": null, "a": {"workflow_id": "w", "release_signal": "k"}}, "waiters": []}"#;
        let input: PoolInput = read(Some(text)).unwrap();
        assert_eq!(input.resources.0.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(input.resources.0[1].1.as_ref().unwrap().release_signal.as_deref(), Some("k"));
        let again: PoolInput = read(Some(&write(&input))).unwrap();
        assert_eq!(again, input);
    }

    #[test]
    fn an_assignment_has_its_fields_in_the_order_of_their_names() {
        let assigned = Assigned { deadline_ms: None, release_key: "k".into(), resource: "r".into(), token: 7 };
        assert_eq!(write(&assigned), br#"{"release_key":"k","resource":"r","token":7}"#);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        assert_eq!(read::<ReleaseResource>(None).unwrap_err(), "has no argument");
        assert!(read::<AcquireResource>(Some(br#"{"workflow_id": 7}"#)).unwrap_err().contains("expected a string"));
        assert!(read::<AcquireResource>(Some(b"\x00\xff")).is_err());
    }
}

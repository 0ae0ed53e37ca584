//! Which workflows have or want something of the faces that run in this process, for whoever watches over workflows. A face
//! says so as often as it changes; of those that run elsewhere, or are not in memory, it is known by asking them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use tokio::sync::watch;

use super::wire::Owner;

/// A face: namespace and workflow id.
pub(crate) type FaceId = (String, String);
pub(crate) type Roster = BTreeMap<FaceId, Entry>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) owners: Arc<[Owner]>,
    /// How often it was said.
    pub(crate) version: u64,
}

static ROSTER: LazyLock<watch::Sender<Roster>> = LazyLock::new(|| watch::Sender::new(Roster::new()));

/// Says who has or wants something of a face now.
pub(crate) fn publish(face: FaceId, owners: Vec<Owner>) {
    ROSTER.send_if_modified(|roster| set(roster.entry(face).or_default(), owners));
}

/// Says what was learnt by asking, unless the face itself has said something since it was asked.
pub(crate) fn learn(face: FaceId, asked_at: u64, owners: Vec<Owner>) {
    ROSTER.send_if_modified(|roster| {
        let entry = roster.entry(face).or_default();
        entry.version == asked_at && set(entry, owners)
    });
}

/// Those of a namespace, by workflow id.
pub(crate) fn ids(namespace: &str) -> impl Iterator<Item = String> + use<> {
    let of_namespace = |(own, _): &&FaceId| own == namespace;
    let ids: Vec<_> = ROSTER.borrow().keys().filter(of_namespace).map(|(_, id)| id.clone()).collect();
    ids.into_iter()
}

/// They are not there any more.
pub(crate) fn forget(namespace: &str, ids: BTreeSet<String>) {
    ROSTER.send_if_modified(|roster| {
        let removed = ids.into_iter().filter_map(|id| roster.remove(&(namespace.to_owned(), id)));
        removed.count() > 0
    });
}

pub(crate) fn version(face: &FaceId) -> u64 {
    ROSTER.borrow().get(face).map_or(0, |entry| entry.version)
}

pub(crate) fn watch() -> watch::Receiver<Roster> {
    ROSTER.subscribe()
}

fn set(entry: &mut Entry, owners: Vec<Owner>) -> bool {
    entry.version += 1;
    let changed = *entry.owners != *owners;
    if changed {
        entry.owners = owners.into();
    }
    changed
}

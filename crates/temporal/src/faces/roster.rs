//! Which workflows have or want something of the faces that run in this process, for whoever watches over workflows. A face
//! says so as often as it changes; what the process has forgotten, or never ran, is asked by a query instead.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::wire::Owner;

/// A face: namespace and workflow id.
pub(crate) type FaceId = (String, String);
pub(crate) type Roster = BTreeMap<FaceId, Arc<[Owner]>>;

static ROSTER: Mutex<Option<watch::Sender<Roster>>> = Mutex::new(None);

/// Says who has or wants something of a face now.
pub(crate) fn publish(face: FaceId, owners: Vec<Owner>) {
    let mut roster = roster();
    sender(&mut roster).send_if_modified(|roster| {
        let owners: Arc<[Owner]> = owners.into();
        let before = roster.insert(face, owners.clone());
        before.is_none_or(|before| before != owners)
    });
}

/// The face has ended, or moved to where it is not known.
pub(crate) fn forget(face: &FaceId) {
    let mut roster = roster();
    sender(&mut roster).send_if_modified(|roster| roster.remove(face).is_some());
}

pub(crate) fn watch() -> watch::Receiver<Roster> {
    let mut roster = roster();
    sender(&mut roster).subscribe()
}

/// A panic elsewhere leaves the roster as it was, which is as good as any.
fn roster() -> MutexGuard<'static, Option<watch::Sender<Roster>>> {
    ROSTER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sender(roster: &mut Option<watch::Sender<Roster>>) -> &watch::Sender<Roster> {
    roster.get_or_insert_with(|| watch::Sender::new(Roster::new()))
}

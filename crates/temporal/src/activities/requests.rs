//! The requests that this process carries, by id. The same one may be carried twice for a moment, when an activity is
//! tried again or its workflow was reset; then what came of one says what may be done with the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::{Namespace, RequestId};
use tokio::sync::Notify;

type Id = (Namespace, RequestId);

#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    carried: Mutex<HashMap<Id, Carried>>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Carried {
    times: usize,
    /// Whether the grant has reached somebody.
    delivered: bool,
}

/// One request, carried once, until it is dropped.
#[derive(Debug)]
pub(super) struct Carrying {
    shared: Arc<Shared>,
    id: Id,
}

impl Requests {
    pub(super) fn carry(&self, namespace: Namespace, request: RequestId) -> Carrying {
        let id = (namespace, request);
        self.shared.lock().entry(id.clone()).or_default().times += 1;
        Carrying { shared: self.shared.clone(), id }
    }

    pub(super) fn len(&self) -> usize {
        self.shared.lock().len()
    }

    /// Resolves when none is carried.
    pub(super) async fn ended(&self) {
        loop {
            let ended = self.shared.ended.notified();
            if self.len() == 0 {
                return;
            }
            ended.await;
        }
    }
}

impl Carrying {
    pub(super) fn delivered(&self) {
        if let Some(carried) = self.shared.lock().get_mut(&self.id) {
            carried.delivered = true;
        }
    }

    /// Whether nobody else has received the grant, or can still.
    pub(super) fn is_last(&self) -> bool {
        self.shared.lock().get(&self.id).is_none_or(|carried| carried.times == 1 && !carried.delivered)
    }
}

impl Drop for Carrying {
    fn drop(&mut self) {
        let mut all = self.shared.lock();
        if let Some(carried) = all.get_mut(&self.id) {
            carried.times -= 1;
            if carried.times == 0 {
                all.remove(&self.id);
            }
        }
        if all.is_empty() {
            self.shared.ended.notify_waiters();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Carried>> {
        self.carried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

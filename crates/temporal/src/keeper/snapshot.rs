//! A keeper as bytes, to be carried from one run of its workflow into the next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tenure_core::{Machine, Numbering, SessionId, Token, Ttl, WaiterId};
use tenure_engine::{Audience, Desk};

use super::wire::{self, Happened, ServerId};
use super::{Keeper, REQUESTS_REMEMBERED_MAX, Remote, Seeded, Server, Settings, lock, numbers};

/// Everything a keeper knows.
#[derive(Serialize, Deserialize)]
pub(super) struct Snapshot {
    settings: Settings,
    /// As rows.
    state: Vec<u8>,
    listeners: Vec<(WaiterId, Vec<Remote>)>,
    carriers: Vec<(SessionId, u64, Remote)>,
    told: Vec<(Token, usize)>,
    seeded: Seeded,
    servers: Vec<(ServerId, Server)>,
    gone: Vec<ServerId>,
    passed_millis: u64,
    happened: Vec<Happened>,
}

impl Keeper {
    pub(crate) fn snapshot(&self) -> Vec<u8> {
        let Audience { listeners, carriers, told } = self.desk.audience();
        wire::encode(&Snapshot {
            settings: self.settings,
            state: tenure_engine::snapshot(self.desk.state()),
            listeners,
            carriers,
            told,
            seeded: lock(&self.nonces).clone(),
            servers: self.servers.iter().map(|(id, server)| (*id, server.clone())).collect(),
            gone: self.gone.iter().copied().collect(),
            passed_millis: self.passed.as_millis(),
            happened: self.happened.iter().map(|(_, happened)| happened.clone()).collect(),
        })
    }

    /// How much of it there is without what happened, which is bounded by itself.
    pub(super) fn snapshot_bytes(&self) -> usize {
        self.snapshot().len().saturating_sub(self.happened_bytes)
    }

    /// Reads what [`Keeper::snapshot`] wrote.
    pub(crate) fn restore(bytes: &[u8]) -> Result<Self, String> {
        let snapshot: Snapshot = wire::decode(bytes).map_err(|error| error.to_string())?;
        let Snapshot { settings, listeners, carriers, told, .. } = snapshot;
        let mut state =
            tenure_engine::restore(&snapshot.state, settings.limits.pool_idle).map_err(|error| error.to_string())?;
        state.remember_at_most(REQUESTS_REMEMBERED_MAX);
        state.number(Numbering { index: settings.index, of: settings.of });
        let nonces = Arc::new(Mutex::new(snapshot.seeded));
        let machine = Machine::restored(state, settings.limits);
        let desk = Desk::moved(machine, numbers(&nonces), Audience { listeners, carriers, told });
        let happened: Vec<_> = snapshot.happened.into_iter().map(|it| (wire::encode(&it).len(), it)).collect();
        let mut keeper = Self {
            settings,
            desk,
            nonces,
            servers: snapshot.servers.into_iter().collect::<BTreeMap<_, _>>(),
            house: Vec::new(),
            gone: snapshot.gone.into(),
            passed: Ttl::from_millis(snapshot.passed_millis),
            happened_bytes: happened.iter().map(|(bytes, _)| bytes).sum(),
            happened: happened.into(),
            state_bytes: 0,
            unmeasured: 0,
            grown_bytes: 0,
            commands: 0,
        };
        keeper.state_bytes = keeper.snapshot_bytes();
        Ok(keeper)
    }
}

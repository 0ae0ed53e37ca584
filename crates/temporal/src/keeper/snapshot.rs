//! A keeper as bytes, to be carried from one run of its workflow into the next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tenure_core::{Numbering, SessionId, Token, Ttl, WaiterId};
use tenure_engine::{Audience, Desk};

use super::wire::{self, Happened, ServerId};
use super::workflow::Start;
use super::{Keeper, REQUESTS_REMEMBERED_MAX, Remote, Seeded, Server, Settings, lock, numbers};

/// Of what is carried into the next run, which may have 2 MiB: what a full keeper has, and some answers.
const SNAPSHOT_BYTES_MAX: usize = 1_600_000;

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
    /// Takes up what a run begins with.
    pub(super) fn begin(bytes: &[u8]) -> Result<Self, String> {
        match wire::decode(bytes).map_err(|error| error.to_string())? {
            Start::New(settings) => settings.check().map(|()| Self::new(settings)),
            Start::Moved(snapshot) => Self::restore(&snapshot),
        }
    }

    pub(crate) fn snapshot(&self) -> Vec<u8> {
        let Audience { listeners, carriers, told } = self.desk.audience();
        let mut snapshot = Snapshot {
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
        };
        let bytes = wire::encode(&snapshot);
        if bytes.len() <= SNAPSHOT_BYTES_MAX {
            return bytes;
        }
        // Last answers are carried in case they got lost. Without them a server that has not heard one begins again, but a
        // run that cannot begin is the end of everything.
        for lane in snapshot.servers.iter_mut().flat_map(|(_, server)| &mut server.lanes) {
            lane.said = None;
        }
        let bytes = wire::encode(&snapshot);
        if bytes.len() <= SNAPSHOT_BYTES_MAX {
            return bytes;
        }
        // The same goes for whoever follows what happened: a single event, that of a pool with many resources, may be as large
        // as all the rest.
        snapshot.happened.clear();
        wire::encode(&snapshot)
    }

    /// How much of it there is without what happened, which is bounded by itself.
    pub(super) fn snapshot_bytes(&self) -> usize {
        self.snapshot().len().saturating_sub(self.happened_bytes)
    }

    /// Reads what [`Keeper::snapshot`] wrote.
    pub(crate) fn restore(bytes: &[u8]) -> Result<Self, String> {
        let snapshot: Snapshot = wire::decode(bytes).map_err(|error| error.to_string())?;
        let Snapshot { settings, listeners, carriers, told, .. } = snapshot;
        settings.check()?;
        let mut state =
            tenure_engine::restore(&snapshot.state, settings.limits.pool_idle).map_err(|error| error.to_string())?;
        state.remember_at_most(REQUESTS_REMEMBERED_MAX);
        state.number(Numbering { index: settings.index, of: settings.of });
        let nonces = Arc::new(Mutex::new(snapshot.seeded));
        let machine = super::machine(state, settings.limits);
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
            unmeasured_bytes: 0,
            may_have_shrunk: false,
            commands: 0,
        };
        keeper.state_bytes = keeper.snapshot_bytes();
        Ok(keeper)
    }
}

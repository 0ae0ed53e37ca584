//! The servers of a run, those that are needed and can be had, and one measurement on one of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::etcd::Etcd;
use crate::ldlm::Ldlm;
use crate::load::{self, Connection, Outcome};
use crate::pace::{self, Latencies};
use crate::peer::{self, Missing};
use crate::plan::{CROWD_WAITING, MACHINES, On, SEMAPHORE_UNITS, Server, WINDOWS, Way, Work};
use crate::redis::{self, Redis};
use crate::tenure;

/// Many times what it takes.
const QUEUEING_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Rig {
    servers: BTreeMap<Server, Result<peer::Server, Missing>>,
}

impl Rig {
    /// Each with a folder of its own in `folder`. LDLM is built in `tools`, unless there is a program already.
    pub(crate) async fn start(
        needed: impl Iterator<Item = On>,
        folder: &Path,
        tools: &Path,
        ldlm: Option<PathBuf>,
    ) -> Outcome<Self> {
        let mut servers = BTreeMap::new();
        let mut ldlm = ldlm.map(Ok);
        for on in needed {
            let On::Server(server, _) = on else { continue };
            if servers.contains_key(&server) {
                continue;
            }
            let started = match server {
                Server::Tenure => Ok(peer::tenure(Some(&folder.join("tenure"))).await?),
                Server::TenureInMemory => Ok(peer::tenure(None).await?),
                Server::Bare => Ok(peer::bare(&folder.join("bare")).await?),
                Server::Redis => peer::redis(Some(&folder.join("redis"))).await?,
                Server::RedisInMemory => peer::redis(None).await?,
                Server::Etcd => peer::etcd(&folder.join("etcd")).await?,
                Server::Ldlm | Server::LdlmInMemory => {
                    let program = match ldlm.take() {
                        Some(known) => known,
                        None => peer::build_ldlm(&tools.join("go")).await,
                    };
                    ldlm = Some(program.clone());
                    let state_file = folder.join("ldlm.state");
                    match program {
                        Ok(program) => {
                            peer::ldlm(&program, (server == Server::Ldlm).then_some(state_file.as_path())).await?
                        }
                        Err(missing) => Err(missing),
                    }
                }
            };
            if let Err(missing) = &started {
                eprintln!("{missing}; its figures are left out");
            }
            servers.insert(server, started);
        }
        Ok(Self { servers })
    }

    pub(crate) fn address(&self, server: Server) -> Result<&str, Missing> {
        match self.servers.get(&server) {
            Some(Ok(server)) => Ok(&server.address),
            Some(Err(missing)) => Err(missing.clone()),
            None => Err("nobody asked for it".to_owned()),
        }
    }
}

/// A closed loop. `run` is different for each.
pub(crate) async fn closed(
    tools: &Path,
    address: &str,
    way: Way,
    work: Work,
    run: usize,
    span: Duration,
) -> Outcome<f64> {
    prepare(address, way, work, run).await?;
    match way {
        Way::Unary => closed_by::<tenure::Unary>(address, way, work, run, span).await,
        Way::Stream => closed_by::<tenure::Stream>(address, way, work, run, span).await,
        Way::Client => closed_by::<tenure::Client>(address, way, work, run, span).await,
        Way::Ldlm => closed_by::<Ldlm>(address, way, work, run, span).await,
        Way::Redis => closed_by::<Redis>(address, way, work, run, span).await,
        Way::Etcd => closed_by::<Etcd>(address, way, work, run, span).await,
        Way::Program(program) => program.measure(tools, address, span).await,
    }
}

async fn closed_by<C: Connection>(address: &str, way: Way, work: Work, run: usize, span: Duration) -> Outcome<f64> {
    let shape = work.shape(way);
    let what = |connection, task| work.what(run, connection, task);
    let running = load::start::<C>(&[address.to_owned()], shape, what).await?;
    if work == Work::Crowd {
        until_waiting(address, &work.pool(run)).await?;
    }
    let _crowd = if work == Work::OwnDeepCrowded { Some(load::Crowd::start()?) } else { None };
    running.measure(span, work.then()).await
}

/// Until the queue is as long as it is meant to be.
async fn until_waiting(address: &str, pool: &str) -> Outcome<()> {
    let started = Instant::now();
    while tenure::waiters(address, pool).await.unwrap_or(0) < CROWD_WAITING {
        if started.elapsed() > QUEUEING_MAX {
            return Err(format!("there are not {CROWD_WAITING} waiters after {QUEUEING_MAX:?}").into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// An open loop of pairs of own names.
pub(crate) async fn open(address: &str, way: Way, rate: f64, span: Duration) -> Outcome<Latencies> {
    let connections = Work::of_own_names(way).shape(way).connections;
    match way {
        Way::Unary => pace::run::<tenure::Unary>(address, connections, rate, span).await,
        Way::Stream => pace::run::<tenure::Stream>(address, connections, rate, span).await,
        Way::Client => pace::run::<tenure::Client>(address, connections, rate, span).await,
        Way::Ldlm => pace::run::<Ldlm>(address, connections, rate, span).await,
        Way::Redis => pace::run::<Redis>(address, connections, rate, span).await,
        Way::Etcd => pace::run::<Etcd>(address, connections, rate, span).await,
        Way::Program(program) => Err(format!("{program:?} makes a load of its own, which waits").into()),
    }
}

/// Declares what a workload takes from.
async fn prepare(address: &str, way: Way, work: Work, run: usize) -> Outcome<()> {
    let pool = work.pool(run);
    match (work, way) {
        (Work::Hot, Way::Redis) => redis::declare(address, &pool, 1).await,
        (Work::Semaphore, Way::Redis) => redis::declare(address, &pool, SEMAPHORE_UNITS).await,
        // Whoever locks in LDLM says for how many.
        (Work::Semaphore, Way::Ldlm) => Ok(()),
        (Work::Semaphore, _) => tenure::declare_units(address, &pool, SEMAPHORE_UNITS).await,
        (Work::Machines, _) => tenure::declare_machines(address, &pool, MACHINES).await,
        (Work::Window, Way::Stream) => {
            for window in 0..WINDOWS {
                tenure::declare_window(address, &format!("{pool}-{window}")).await?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

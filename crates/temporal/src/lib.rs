//! Temporal: pools that live in keeper workflows, the workflows of others that Tenure stands in for, and workflows as
//! callers. The only crate that knows Temporal's SDK, which takes minutes to build.

mod activities;
mod engine;
mod faces;
mod host;
mod keeper;
mod link;
mod owners;

use std::sync::Arc;
use std::time::Duration;

use tenure_engine::Engine;
use tokio::task::JoinHandle;

pub use activities::TASK_QUEUE;
pub use engine::{BeginError, Keepers, Options};
pub use faces::{PoolType, StartPool, StartPoolError, TASK_QUEUE as POOL_TASK_QUEUE};
pub use host::Host;
pub use link::{Error, Link, Settings};
pub use owners::WorkflowOwner;

use activities::Activities;
use owners::Owners;

/// How long a stop waits for activities to be told that the server stops, and for workers to end. Those that are not
/// told are started again by Temporal when they have been silent for too long.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// What a server does in Temporal while it runs: it carries out activities, hosts the pools of others' workflows, and watches
/// over the owners of holds.
#[derive(Debug)]
pub struct Temporal {
    host: Host,
    /// Hosts pools, which the engine may have to ask until it has stopped.
    pools: Host,
    activities: Arc<Activities>,
    watching: [JoinHandle<()>; 2],
}

impl Temporal {
    /// Takes activities, and hosts pools on these task queues, from now on. Should Temporal be away later, the server goes
    /// on without it until it is back.
    pub fn start(link: Arc<Link>, engine: Arc<dyn Engine>, pool_queues: &[String]) -> Self {
        let owners = Owners::new(link.clone(), engine.clone());
        let activities = Arc::new(Activities::new(link.clone(), engine, owners.clone()));
        let host = Host::new(link.clone());
        host.run(TASK_QUEUE, activities::worker(&activities), activities.worn_out());
        let pools = Host::new(link.clone());
        let faces = faces::start(&pools, &link, pool_queues);
        Self { host, pools, activities, watching: [tokio::spawn(owners.watch()), tokio::spawn(faces)] }
    }

    /// Takes no more activities. To be called before the engine is stopped.
    pub fn stop_taking(&self) {
        self.host.stop();
        self.watching.iter().for_each(JoinHandle::abort);
    }

    /// Ends when whoever waited has been told, or has had time to be. To be called when the engine has stopped.
    pub async fn stop(self) {
        self.stop_taking();
        self.pools.stop();
        let all_ended = async {
            self.activities.ended().await;
            self.host.ended().await;
            self.pools.ended().await;
        };
        if tokio::time::timeout(STOP_GRACE, all_ended).await.is_err() {
            tracing::warn!("not every activity could be told that the server stops");
        }
    }
}

//! Pairs and hand-overs by LDLM's own interface: the same calls by the same client, whichever server answers them.

use std::error::Error;
use std::time::Duration;

use tenure_proto::ldlm::ldlm_client::LdlmClient;
use tenure_proto::ldlm::{LockRequest, UnlockRequest};
use tonic::transport::{Channel, Endpoint};

use crate::load::{Meter, Shape};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Each task locks and unlocks a name of its own.
    Own(Shape),
    /// All wait for the same name.
    Hot(Shape),
}

pub(crate) async fn run(address: &str, work: Work, span: Duration) -> Result<f64, Box<dyn Error>> {
    let meter = Meter::default();
    let (Work::Own(shape) | Work::Hot(shape)) = work;
    let mut tasks = Vec::new();
    for connection in 0..shape.connections {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).connect().await?;
        for task in 0..shape.tasks {
            let name = match work {
                Work::Own(_) => format!("lock-{connection}-{task}"),
                Work::Hot(_) => "hot".to_owned(),
            };
            tasks.push(tokio::spawn(take_turns(LdlmClient::new(channel.clone()), name, meter.clone())));
        }
    }
    let figure = meter.measure(span).await;
    for task in tasks {
        task.await??;
    }
    Ok(figure)
}

/// A grant counts once it is given back, so that a pair is two calls that were answered.
async fn take_turns(mut client: LdlmClient<Channel>, name: String, meter: Meter) -> Result<(), tonic::Status> {
    while !meter.is_over() {
        let locked = client.lock(LockRequest { name: name.clone(), ..Default::default() }).await?.into_inner();
        assert!(locked.locked, "{name} is not locked: {:?}", locked.error);
        let unlocked = client.unlock(UnlockRequest { name: name.clone(), key: locked.key }).await?.into_inner();
        assert!(unlocked.unlocked, "{name} is not unlocked: {:?}", unlocked.error);
        meter.count();
    }
    Ok(())
}

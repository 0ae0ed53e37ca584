//! An engine inside of another program, with policies in Rust: a pool's texts are names of functions here.
//!
//! `cargo run -p tenure-engine --example own_policy`

use std::error::Error;
use std::sync::Arc;

use tenure_core::*;
use tenure_engine::{Calls, Embedded, Engine, MemoryStore, Options, SystemClock};

/// What the texts of this program's pools mean.
struct OwnPolicies;

impl Policies for OwnPolicies {
    fn compile(&self, which: Which, text: &str) -> Result<Arc<dyn Policy>, Fault> {
        match (which, text) {
            (Which::Place, "near") => Ok(Arc::new(Near)),
            _ => Err(Fault::new(format!("`{text}` is not one of: near"))),
        }
    }
}

/// Prefers what is in the zone of whoever asks.
struct Near;

impl Policy for Near {
    fn score(&self, request: &Request<'_>, resource: Option<&Offer<'_>>, _: &mut Budget) -> Result<i64, Fault> {
        let wanted = request.holder.meta().find(|(name, _)| *name == "zone").map(|(_, zone)| zone);
        let zone = resource.and_then(|resource| resource.labels.get("zone"));
        Ok(i64::from(wanted == zone))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let granted = run().await?;
    println!("whoever is in `west` gets {granted}");
    Ok(())
}

async fn run() -> Result<String, Box<dyn Error>> {
    let state = State::new(Limits::default().pool_idle);
    let clock = Arc::new(SystemClock::start(state.counters().now));
    let options = Options { policies: Some(Arc::new(OwnPolicies)), ..Options::default() };
    let engine: Arc<dyn Engine> = Arc::new(Embedded::start(state, MemoryStore::new(), clock, options));

    let machine = |name: &str, zone: &str| -> Result<ResourceSpec, Invalid> {
        let labels = Labels::parse([("zone", zone)])?;
        Ok(ResourceSpec { name: ResourceName::parse(name)?, labels, properties: Labels::default() })
    };
    let resources = vec![machine("m-1", "east")?, machine("m-2", "west")?, machine("m-3", "east")?];
    let pool = PoolPath::new(Namespace::default(), PoolName::parse("machines")?);
    let spec = PoolSpec {
        capacity: Capacity::Resources { placement: Placement::First, resources },
        order: Order::Strict,
        window: None,
        declared: true,
        cleaning: false,
        fair: None,
        scripts: Scripts { place: Some(Script::parse("near")?), order: None },
    };
    engine.call(Command::SetPool(SetPool { pool: pool.clone(), spec })).await?;

    let acquire = Acquire {
        pool,
        demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
        size: None,
        lifetime: None,
        wait: Wait::Try,
        priority: Priority::default(),
        holder: Arc::new(Holder::parse("job-1", [("zone", "west")])?),
        session: None,
        request: None,
        also: Box::default(),
        holds_on: false,
    };
    let reply = engine.acquire(acquire)?.settle().await?;
    engine.stop().await;
    match reply {
        Reply::Granted(grant) => Ok(grant.resources[0].name.to_string()),
        other => Err(format!("{other:?}").into()),
    }
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn the_policy_of_the_program_chooses() {
        assert_eq!(super::run().await.expect("it runs"), "m-2");
    }
}

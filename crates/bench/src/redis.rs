//! The lock that Redis's documentation describes: `SET key value NX PX`, and a script that deletes the key if
//! the value is still ours.

use std::error::Error;
use std::time::Duration;

use redis::{AsyncCommands, Client, ExistenceCheck, Script, SetExpiry, SetOptions};

use crate::load::{Meter, Shape};

const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

pub(crate) async fn pairs(address: &str, shape: Shape, span: Duration) -> Result<f64, Box<dyn Error>> {
    let meter = Meter::default();
    let mut tasks = Vec::new();
    for connection in 0..shape.connections {
        let client = Client::open(format!("redis://{address}"))?;
        // One connection that its tasks share, as Redis's fast clients do.
        let shared = client.get_multiplexed_async_connection().await?;
        for task in 0..shape.tasks {
            let (meter, mut shared) = (meter.clone(), shared.clone());
            tasks.push(tokio::spawn(async move {
                let (name, value) = (format!("lock-{connection}-{task}"), format!("{connection}-{task}"));
                let unlock = Script::new(COMPARE_AND_DELETE);
                let lease =
                    SetOptions::default().conditional_set(ExistenceCheck::NX).with_expiration(SetExpiry::PX(30_000));
                while !meter.is_over() {
                    let taken: bool = shared.set_options(&name, &value, lease.clone()).await?;
                    let freed: bool = unlock.key(&name).arg(&value).invoke_async(&mut shared).await?;
                    assert!(taken && freed, "nobody else uses this name");
                    meter.count();
                }
                Ok::<_, redis::RedisError>(())
            }));
        }
    }
    let figure = meter.measure(span).await;
    for task in tasks {
        task.await??;
    }
    Ok(figure)
}

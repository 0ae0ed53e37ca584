//! What people build on Redis: the lock of its documentation (`SET key value NX PX`, and a script that deletes the key if
//! the value is still ours), a list of tokens that is popped from, and a sorted set of times as a rate window.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, AsyncConnectionConfig, Client, ExistenceCheck, Script, SetExpiry, SetOptions};

use crate::load::{Connection, Outcome, What};

const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
/// Forgets what is older than the window, and notes the newcomer if there is room.
const ENTER_WINDOW: &str = "\
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
redis.call('zremrangebyscore', KEYS[1], '-inf', now - ARGV[1] * 1000)
if redis.call('zcard', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('zadd', KEYS[1], now, ARGV[3])
redis.call('pexpire', KEYS[1], ARGV[1])
return 1";
/// Different from those of all who enter windows.
static ENTRANTS: AtomicU64 = AtomicU64::new(0);

/// One connection that its tasks share, as Redis's fast clients do. Whoever waits for a token has it for themselves:
/// nothing else is answered meanwhile.
#[derive(Clone)]
pub(crate) struct Redis {
    shared: MultiplexedConnection,
    scripts: Arc<(Script, Script)>,
}

pub(crate) enum Taken {
    Lock { name: String, value: String },
    Token { list: String, token: String },
    Place,
}

impl Connection for Redis {
    type Taken = Taken;

    async fn open(address: &str) -> Outcome<Self> {
        let client = Client::open(format!("redis://{address}"))?;
        // Who waits for a token may wait for long.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let shared = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self { shared, scripts: Arc::new((Script::new(COMPARE_AND_DELETE), Script::new(ENTER_WINDOW))) })
    }

    async fn take(&mut self, what: &What) -> Outcome<Taken> {
        match what {
            What::Own(name) => {
                let (name, value) = (name.clone(), "bench".to_owned());
                let lease =
                    SetOptions::default().conditional_set(ExistenceCheck::NX).with_expiration(SetExpiry::PX(30_000));
                let taken: bool = self.shared.set_options(&name, &value, lease).await?;
                if taken { Ok(Taken::Lock { name, value }) } else { Err("somebody else uses this name".into()) }
            }
            What::Shared { name: list, .. } => {
                let popped: Option<[String; 2]> = self.shared.blpop(list, 0.0).await?;
                let [list, token] = popped.ok_or("there is no end to this wait")?;
                Ok(Taken::Token { list, token })
            }
            What::Place(window) => {
                let (length, places) = (crate::plan::WINDOW_MILLIS, crate::plan::WINDOW_PLACES);
                let entrant = ENTRANTS.fetch_add(1, Ordering::Relaxed);
                let mut enter = self.scripts.1.key(window);
                let entered: bool = enter.arg(length).arg(places).arg(entrant).invoke_async(&mut self.shared).await?;
                if entered { Ok(Taken::Place) } else { Err("the window was meant to have room".into()) }
            }
            What::Chosen { .. } => Err("Redis has nothing to choose from".into()),
        }
    }

    async fn give_back(&mut self, taken: Taken) -> Outcome<()> {
        match taken {
            Taken::Lock { name, value } => {
                let freed: bool = self.scripts.0.key(name).arg(value).invoke_async(&mut self.shared).await?;
                if freed { Ok(()) } else { Err("the lock was not there any more".into()) }
            }
            Taken::Token { list, token } => Ok(self.shared.rpush::<_, _, ()>(list, token).await?),
            Taken::Place => Ok(()),
        }
    }
}

/// Puts the tokens into a list.
pub(crate) async fn declare(address: &str, list: &str, tokens: u32) -> Outcome<()> {
    let mut redis = Redis::open(address).await?;
    for token in 0..tokens {
        redis.shared.rpush::<_, _, ()>(list, token).await?;
    }
    Ok(())
}

/// Takes this many names, by pipelines.
pub(crate) async fn hold(address: &str, count: usize) -> Outcome<()> {
    const PIPELINE: usize = 10_000;
    let mut redis = Redis::open(address).await?;
    for start in (0..count).step_by(PIPELINE) {
        let mut pipeline = redis::pipe();
        for number in start..count.min(start + PIPELINE) {
            let set = pipeline.cmd("SET").arg(format!("held-{number}")).arg("bench");
            set.arg("NX").arg("PX").arg(crate::plan::LONG_LEASE_MILLIS).ignore();
        }
        pipeline.query_async::<()>(&mut redis.shared).await?;
    }
    Ok(())
}

/// Once its data is loaded.
pub(crate) async fn answers(address: &str) -> Outcome<()> {
    let mut redis = Redis::open(address).await?;
    Ok(redis.shared.set::<_, _, ()>("answers", "yes").await?)
}

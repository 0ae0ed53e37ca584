//! A million holds, a `kill -9`, and how long it takes until the server answers again.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::load::Outcome;
use crate::report::Row;
use crate::{peer, redis, tenure};

const HOLDS: usize = 1_000_000;
/// Many times what it takes.
const LOADING_MAX: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Restart {
    /// In seconds, one per round.
    pub(crate) restarts: Row,
    /// How long it took to make the holds, in seconds.
    pub(crate) made: f64,
    pub(crate) data_bytes: u64,
    /// After the last restart.
    pub(crate) resident_bytes: u64,
}

/// Ours, and Redis's if it is installed.
pub(crate) async fn run(folder: &Path, rounds: usize) -> Outcome<Vec<Restart>> {
    let mut measured = vec![tenure_restarts(&folder.join("restart-tenure"), rounds).await?];
    measured.extend(redis_restarts(&folder.join("restart-redis"), rounds).await?);
    Ok(measured)
}

async fn tenure_restarts(data: &Path, rounds: usize) -> Outcome<Restart> {
    eprintln!("making {HOLDS} holds on Tenure");
    let mut server = peer::tenure(Some(data)).await?;
    let started = Instant::now();
    tenure::hold(&server.address, HOLDS).await?;
    let made = started.elapsed().as_secs_f64();
    let data_bytes = bytes_in(data)?;
    let mut restarts = Row::new("Tenure");
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}: restart of Tenure with {HOLDS} holds");
        server.kill().await?;
        let started = Instant::now();
        server = peer::tenure(Some(data)).await?;
        tenure::answers(&server.address).await?;
        restarts.figures.push(started.elapsed().as_secs_f64());
    }
    Ok(Restart { restarts, made, data_bytes, resident_bytes: server.resident_bytes()? })
}

async fn redis_restarts(data: &Path, rounds: usize) -> Outcome<Option<Restart>> {
    let Ok(mut server) = peer::redis(Some(data)).await? else { return Ok(None) };
    eprintln!("making {HOLDS} holds on Redis");
    let started = Instant::now();
    redis::hold(&server.address, HOLDS).await?;
    let made = started.elapsed().as_secs_f64();
    let data_bytes = bytes_in(data)?;
    let mut restarts = Row::new("Redis");
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}: restart of Redis with {HOLDS} holds");
        server.kill().await?;
        let started = Instant::now();
        server = peer::redis(Some(data)).await??;
        // It listens before it has loaded its data, and refuses until then.
        while let Err(error) = redis::answers(&server.address).await {
            if started.elapsed() > LOADING_MAX {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        restarts.figures.push(started.elapsed().as_secs_f64());
    }
    Ok(Some(Restart { restarts, made, data_bytes, resident_bytes: server.resident_bytes()? }))
}

fn bytes_in(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { bytes_in(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

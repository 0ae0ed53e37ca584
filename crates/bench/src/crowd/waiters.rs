//! Many connections with a waiter each, for one lock: then it goes down the line.

use std::sync::Arc;

use tenure_proto::v1::{AcquireRequest, ReleaseRequest, client_request::Request, server_answer::Answer};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::asking::{Line, connect};
use super::prober::Others;
use super::server::Server;
use super::{Outcome, Scale, Told, eventually};

const POOL: &str = "crowd";
/// How many connect at a time.
const AT_ONCE: usize = 64;
/// A connection with a session and a waiter, in KiB, at most; and what a server takes in any case.
const EACH: u64 = 128;
const ANYWAY: u64 = 64 * 1024;

pub(crate) async fn run(server: &Server, scale: Scale, others: &Others) -> Outcome<Told> {
    let mut told = Told { growth_max: ANYWAY + EACH * scale.waiters as u64, ..Told::default() };
    told.asked = format!("{} connections, each with a session and a waiter for one lock", scale.waiters);
    let mut holder = connect(&server.grpc).await?;
    let first = AcquireRequest { ttl_ms: Some(3_600_000), ..acquire() };
    let grant = holder.acquire(first).await?.into_inner();

    let (queued, mut positions) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut crowd = JoinSet::new();
    for number in 0..scale.waiters {
        let (address, queued, room) = (server.grpc.clone(), queued.clone(), room.clone());
        crowd.spawn(async move {
            let permit = room.acquire().await?;
            let mut line = Line::open(&address, &format!("waiter-{number}")).await?;
            line.say(vec![(1, Request::Acquire(Box::new(acquire())))])?;
            let (_, Answer::Queued(place)) = line.hear().await? else { return Err("not queued".into()) };
            queued.send(place.position)?;
            drop(permit);
            wait(line, place.position).await
        });
    }
    let mut places = Vec::new();
    while places.len() < scale.waiters {
        tokio::select! {
            place = positions.recv() => places.push(place.ok_or("the crowd has gone")?),
            Some(ended) = crowd.join_next() => { ended??; return Err("one was served too early".into()) }
        }
    }
    places.sort_unstable();
    told.check("each has a place of its own in the queue", places == (1..=scale.waiters as u64).collect::<Vec<_>>());
    let mut extra = Line::open(&server.grpc, "one too many").await?;
    extra.say(vec![(1, Request::Acquire(Box::new(acquire())))])?;
    match extra.hear().await? {
        (_, Answer::Refused(refusal)) => {
            told.refused(&refusal.code);
            let is_clear = refusal.limit.as_deref() == Some("waiters_per_pool_max");
            told.check("one more is refused, by the limit's name", refusal.code == "limit_reached" && is_clear);
        }
        other => told.check(format!("one more is refused, not {other:?}"), false),
    }
    extra.end().await?;
    told.check_others(others, "while all wait").await;

    holder.release(ReleaseRequest { key: grant.key, ..Default::default() }).await?;
    let mut served = Vec::new();
    while let Some(ended) = crowd.join_next().await {
        served.push(ended??);
    }
    served.sort_unstable_by_key(|served| served.place);
    told.check("every waiter was granted it, once", served.iter().all(|served| served.grants == 1));
    let in_order = served.windows(2).all(|two| two[0].token < two[1].token);
    told.check("in the order of their places", in_order && served.len() == scale.waiters);
    told.check("no session is left", eventually(|| async { Ok(server.metric("tenure_sessions").await? == 0) }).await?);
    told.check("nobody is left in the queue", server.metric("tenure_waiters").await? == 0);
    Ok(told)
}

struct Served {
    place: u64,
    token: u64,
    grants: usize,
}

/// The turn of one: granted, released, gone.
async fn wait(mut line: Line, place: u64) -> Outcome<Served> {
    let (1, Answer::Granted(grant)) = line.hear().await? else { return Err("not granted".into()) };
    line.say(vec![(2, Request::Release(Box::new(ReleaseRequest { key: grant.key, ..Default::default() })))])?;
    let (2, Answer::Released(_)) = line.hear().await? else { return Err("not released".into()) };
    let more = line.end().await?;
    let again = more.iter().filter(|answer| matches!(answer, Answer::Granted(_))).count();
    Ok(Served { place, token: grant.token, grants: 1 + again })
}

fn acquire() -> AcquireRequest {
    AcquireRequest { pool: POOL.into(), holder: "crowd".into(), wait_forever: true, ..Default::default() }
}

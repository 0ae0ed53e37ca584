//! Many sessions, each with a hold: half are ended, half run out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure_proto::v1::{AcquireRequest, EndSessionRequest, OpenSessionRequest};
use tokio::task::JoinSet;

use super::asking::{code, connect};
use super::prober::Others;
use super::server::Server;
use super::{Outcome, Scale, Told, eventually};

const CONNECTIONS: usize = 8;
const TASKS: usize = 64;
/// A session with a hold in a pool of its own, in KiB, at most; and what a server takes in any case.
const EACH: u64 = 4;
const ANYWAY: u64 = 96 * 1024;

pub(crate) async fn run(server: &Server, scale: Scale, others: &Others) -> Outcome<Told> {
    let count = scale.sessions;
    let mut told = Told { growth_max: ANYWAY + EACH * count as u64, ..Told::default() };
    told.asked = format!(
        "{count} sessions with a hold each, by calls over {CONNECTIONS} connections; half are ended, half run out"
    );
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let client = connect(&server.grpc).await?;
        for _ in 0..TASKS {
            let (mut client, next) = (client.clone(), next.clone());
            tasks.spawn(async move {
                let mut keys = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return Outcome::Ok(keys);
                    }
                    // Long enough for all to be opened before the first runs out.
                    let grace_ms = if number % 2 == 0 { 3_600_000 } else { scale.lapse_ms };
                    let open = OpenSessionRequest {
                        holder: format!("session-{number}"),
                        grace_ms: Some(grace_ms),
                        ..Default::default()
                    };
                    let key = client.open_session(open).await?.into_inner().session_key;
                    let acquire = AcquireRequest {
                        pool: format!("lock-{number}"),
                        holder: format!("session-{number}"),
                        session_key: Some(key.clone()),
                        ..Default::default()
                    };
                    client.acquire(acquire).await?;
                    if number % 2 == 0 {
                        keys.push(key);
                    }
                }
            });
        }
    }
    let mut keys = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        keys.extend(ended??);
    }
    let mut client = connect(&server.grpc).await?;
    let there = server.metric("tenure_sessions").await?;
    told.check(format!("all are there at once ({there})"), there == count as u64);
    told.check_others(others, "while all are there").await;
    match client.open_session(OpenSessionRequest { holder: "one too many".into(), ..Default::default() }).await {
        Ok(_) => told.check("one more is refused", false),
        Err(status) => {
            told.refused(&code(&status));
            let limit = tenure_proto::refusal_of(&status).and_then(|refusal| refusal.limit);
            told.check("one more is refused, by the limit's name", limit.as_deref() == Some("sessions_max"));
        }
    }
    let (first, last) = keys.split_at(keys.len() / 2);
    for half in [first, last] {
        for some in half.chunks(CONNECTIONS * TASKS) {
            let mut ends = JoinSet::new();
            for session_key in some.iter().cloned() {
                let mut client = client.clone();
                ends.spawn(
                    async move { client.end_session(EndSessionRequest { session_key, ..Default::default() }).await },
                );
            }
            while let Some(ended) = ends.join_next().await {
                ended??;
            }
        }
        told.check_others(others, "while they end").await;
    }
    let all_gone = || async { Ok(server.metric("tenure_sessions").await? == 0) };
    told.check("all have ended, by call or by themselves", eventually(all_gone).await?);
    // The prober has one now and then.
    let all_free = || async { Ok(server.metric("tenure_holds").await? <= 1) };
    told.check("and their holds with them", eventually(all_free).await?);
    let ends = server.metric("tenure_other_ends_total").await?;
    told.check(format!("each hold ended with its session, once ({ends})"), ends == count as u64);
    Ok(told)
}

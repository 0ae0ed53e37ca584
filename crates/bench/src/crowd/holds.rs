//! Very many holds, asked for over a few streams: a third is released, a third expires, a third ends with its session.

use tenure_proto::v1::{AcquireRequest, ReleaseRequest, client_request::Request, server_answer::Answer};

use super::asking::Line;
use super::prober::Others;
use super::server::Server;
use super::{Outcome, Scale, Told, eventually};

/// Requests in one message, and how many may be unanswered: less than the server lets be.
const BATCH: usize = 256;
const UNANSWERED_MAX: usize = 2_048;
/// A hold in a pool of its own, and its place in the log, in KiB, at most; and what a server takes in any case.
const EACH: u64 = 2;
const ANYWAY: u64 = 128 * 1024;

pub(crate) async fn run(server: &Server, scale: Scale, others: &Others) -> Outcome<Told> {
    // What does not go into three expires too.
    let third = scale.holds / 3;
    let rest = scale.holds - 2 * third;
    let mut told = Told { growth_max: ANYWAY + EACH * scale.holds as u64, ..Told::default() };
    told.asked = format!(
        "{} holds over 3 streams; a third is released, a third expires, a third ends with its session",
        scale.holds
    );
    let mut released = Line::open(&server.grpc, "released").await?;
    let mut ended = Line::open(&server.grpc, "ended").await?;
    let mut expired = Line::open(&server.grpc, "expired").await?;
    let (keys, of_session, lapsing) = tokio::try_join!(
        ask(&mut released, third, |number| acquire(format!("released-{number}"), Some(3_600_000))),
        ask(&mut ended, third, |number| acquire(format!("ended-{number}"), None)),
        // Long enough for all to be there before the first is over.
        ask(&mut expired, rest, |number| acquire(format!("expired-{number}"), Some(scale.lapse_ms))),
    )?;
    let there = server.metric("tenure_holds").await?;
    let all = scale.holds as u64;
    told.check(format!("all are there at once ({there})"), there == all || there == all + 1);
    told.check("each was granted", [&keys, &of_session, &lapsing].map(Vec::len) == [third, third, rest]);
    told.check_others(others, "while all are held").await;

    let mut keys = keys.into_iter();
    let release = |_| {
        let key = keys.next().expect("there are as many as are asked for");
        Request::Release(Box::new(ReleaseRequest { key, ..Default::default() }))
    };
    ask(&mut released, third, release).await?;
    told.check_others(others, "when a third is released").await;
    released.end().await?;
    ended.end().await?;
    let counted = || async { Ok(server.metric("tenure_expiries_total").await? == rest as u64) };
    told.check("a third expired", eventually(counted).await?);
    let ends = server.metric("tenure_other_ends_total").await?;
    told.check(format!("a third ended with its session ({ends})"), ends == third as u64);
    let left = server.metric("tenure_holds").await?;
    told.check(format!("none is left ({left})"), left <= 1);
    Ok(told)
}

fn acquire(pool: String, ttl_ms: Option<u64>) -> Request {
    Request::Acquire(Box::new(AcquireRequest { pool, ttl_ms, ..Default::default() }))
}

/// Asks so many times, and gives the keys of what was granted.
async fn ask(line: &mut Line, count: usize, mut request: impl FnMut(usize) -> Request) -> Outcome<Vec<String>> {
    let (mut asked, mut answered, mut keys) = (0, 0, Vec::new());
    while answered < count {
        while asked < count && asked - answered + BATCH <= UNANSWERED_MAX {
            let batch = asked..count.min(asked + BATCH);
            asked = batch.end;
            line.say(batch.map(|number| (number as u64 + 1, request(number))).collect())?;
        }
        match line.hear().await?.1 {
            Answer::Granted(grant) => keys.push(grant.key),
            Answer::Released(_) => {}
            // The first may be over by now.
            Answer::Lost(_) => continue,
            other => return Err(format!("neither granted nor released: {other:?}").into()),
        }
        answered += 1;
    }
    Ok(keys)
}

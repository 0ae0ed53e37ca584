//! Clients that ask as fast as they can and wait for nothing. A server with room for what it has to do at once lets them wait for each other;
//! one that has little room refuses what does not fit.

use std::collections::BTreeMap;

use tenure_proto::v1::{AcquireRequest, Grant, client_request::Request, server_answer::Answer};
use tokio::task::JoinSet;

use super::asking::Line;
use super::prober::{Meanwhile, Others};
use super::server::Server;
use super::{Outcome, Scale, Told};
use crate::calls::Channel;

const BATCH: usize = 1_000;
/// So that they do not pile up.
const TTL_MS: u64 = 3_000;
/// Each connection, with what it has asked and not heard, in KiB, at most; and what a server takes in any case.
const EACH: u64 = 4 * 1024;
const ANYWAY: u64 = 256 * 1024;

/// For fewer commands than a server takes of one stream before it looks whether there are too many, and for more than a few streams have
/// under way when there are.
pub(crate) const LITTLE_ROOM: &str = "500";
const STREAMS_IN_LITTLE_ROOM: usize = 4;
const UNITS: u32 = 1_000_000_000;

type Answers = BTreeMap<String, u64>;

/// By streams and by calls, far more than is done at once.
pub(crate) async fn run(server: &Server, scale: Scale, others: &Others) -> Outcome<Told> {
    let mut told = Told { growth_max: ANYWAY + EACH * 2 * scale.flooders as u64, ..Told::default() };
    told.asked = format!(
        "{0} streams, each {1} acquires at once, and {0} connections, each {2} calls at once",
        scale.flooders, scale.flood_each, scale.flood_calls
    );
    let meanwhile = others.meanwhile();
    let mut flooders = streams(server, scale, &meanwhile).await?;
    for number in 0..scale.flooders {
        let channel = Channel::open(&server.grpc).await?;
        flooders.spawn(call(channel, number, scale, meanwhile.clone()));
    }
    let (all, mut answers) = gather(flooders).await?;
    told.check("others are served while it goes on", meanwhile.were_served());
    let granted = answers.remove("granted").unwrap_or_default();
    told.check(format!("everything is done, once ({granted} of {all})"), granted == all);
    told.check("nobody is refused", answers.is_empty());
    told.refused = answers;
    Ok(told)
}

/// By streams, at a server with room for a part of what they ask at once.
pub(crate) async fn cramped(server: &Server, scale: Scale, others: &Others) -> Outcome<Told> {
    let scale = Scale { flooders: STREAMS_IN_LITTLE_ROOM, ..scale };
    // It may go on for long, and so have as many holds as are taken until the first have ended.
    let mut told = Told { growth_max: 2 * ANYWAY + EACH * scale.flooders as u64, ..Told::default() };
    told.asked = format!(
        "{} streams, each {} acquires at once, of a server with room for {}",
        scale.flooders, scale.flood_each, LITTLE_ROOM
    );
    told.others_may_be_refused = true;
    let meanwhile = others.meanwhile();
    let flooders = streams(server, scale, &meanwhile).await?;
    let (all, mut answers) = gather(flooders).await?;
    told.check("others are served while it goes on", meanwhile.were_served());
    told.check("every request was answered, once", answers.values().sum::<u64>() == all);
    let granted = answers.remove("granted").unwrap_or_default();
    told.check(format!("what fits is done ({granted} of {all})"), granted > 0);
    told.check("what does not fit is refused as `overloaded`", answers.keys().eq(["overloaded"]));
    told.refused = answers;
    Ok(told)
}

type Flooders = JoinSet<Outcome<(u64, Answers)>>;

async fn streams(server: &Server, scale: Scale, meanwhile: &Meanwhile) -> Outcome<Flooders> {
    let mut lines = Vec::new();
    for number in 0..scale.flooders {
        lines.push(Line::open(&server.grpc, &format!("flooder-{number}")).await?);
    }
    let mut flooders = JoinSet::new();
    for (number, line) in lines.into_iter().enumerate() {
        flooders.spawn(stream(line, number, scale.flood_each, meanwhile.clone()));
    }
    Ok(flooders)
}

async fn gather(mut flooders: Flooders) -> Outcome<(u64, Answers)> {
    let (mut all, mut answers) = (0, Answers::new());
    while let Some(ended) = flooders.join_next().await {
        let (asked, answered) = ended??;
        all += asked;
        for (answer, count) in answered {
            *answers.entry(answer).or_default() += count;
        }
    }
    Ok((all, answers))
}

/// Says everything, and then listens; again, if others were not served meanwhile. How much it has asked, and what the answers were.
async fn stream(mut line: Line, flooder: usize, each: usize, meanwhile: Meanwhile) -> Outcome<(u64, Answers)> {
    let (mut rounds, mut answers) = (0, Answers::new());
    loop {
        let round = rounds * each..(rounds + 1) * each;
        for begin in round.clone().step_by(BATCH) {
            let batch = begin..round.end.min(begin + BATCH);
            let request = |number| (number as u64 + 1, Request::Acquire(Box::new(acquire(flooder))));
            line.say(batch.map(request).collect())?;
        }
        let mut heard = 0;
        while heard < each {
            let answer = match line.hear().await?.1 {
                Answer::Granted(_) => "granted".to_owned(),
                Answer::Refused(refusal) if refusal.retry && !refusal.advice.is_empty() => refusal.code,
                Answer::Lost(_) => continue,
                other => return Err(format!("neither granted nor told to come back: {other:?}").into()),
            };
            meanwhile.begins();
            *answers.entry(answer).or_default() += 1;
            heard += 1;
        }
        rounds += 1;
        if !meanwhile.goes_on(rounds) {
            return Ok(((rounds * each) as u64, answers));
        }
    }
}

/// Makes all calls at once, and waits for their answers; again, if others were not served meanwhile.
async fn call(channel: Channel, flooder: usize, scale: Scale, meanwhile: Meanwhile) -> Outcome<(u64, Answers)> {
    let (mut rounds, mut granted) = (0, 0);
    loop {
        let mut calls = JoinSet::new();
        for _ in 0..scale.flood_calls {
            let (channel, meanwhile) = (channel.clone(), meanwhile.clone());
            calls.spawn(async move {
                channel.call::<Grant>("/tenure.v1.Tenure/Acquire", &acquire(flooder)).await?;
                meanwhile.begins();
                Outcome::Ok(())
            });
        }
        while let Some(called) = calls.join_next().await {
            called??;
            granted += 1;
        }
        rounds += 1;
        if !meanwhile.goes_on(rounds) {
            let asked = (rounds * scale.flood_calls) as u64;
            return Ok((asked, Answers::from([("granted".to_owned(), granted)])));
        }
    }
}

/// Of a pool of its own, with room for all of it.
fn acquire(flooder: usize) -> AcquireRequest {
    let (pool, size) = (format!("flood-{flooder}"), Some(UNITS));
    AcquireRequest { pool, size, holder: "flooder".into(), ttl_ms: Some(TTL_MS), ..Default::default() }
}

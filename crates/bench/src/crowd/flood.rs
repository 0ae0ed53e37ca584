//! Clients that ask as fast as they can and wait for nothing: more at once than the server takes in.

use std::collections::BTreeMap;

use tenure_proto::v1::{AcquireRequest, client_request::Request, server_answer::Answer};
use tokio::task::JoinSet;

use super::asking::Line;
use super::prober::{Meanwhile, Others};
use super::server::Server;
use super::{Outcome, Scale, Told};

const BATCH: usize = 1_000;
/// So that they do not pile up.
const TTL_MS: u64 = 3_000;
/// Each connection, with what it has asked and not heard, in KiB, at most; and what a server takes in any case.
const EACH: u64 = 8 * 1024;
const ANYWAY: u64 = 256 * 1024;

pub(crate) async fn run(server: &Server, scale: Scale, others: &Others) -> Outcome<Told> {
    let mut told = Told { growth_max: ANYWAY + EACH * scale.flooders as u64, ..Told::default() };
    told.asked = format!("{} streams, each {} acquires at once", scale.flooders, scale.flood_each);
    // Beyond the mailbox everybody is told to come back.
    told.others_may_be_refused = true;
    let mut lines = Vec::new();
    for number in 0..scale.flooders {
        lines.push(Line::open(&server.grpc, &format!("flooder-{number}")).await?);
    }
    let mut flooders = JoinSet::new();
    let meanwhile = others.meanwhile();
    for (number, line) in lines.into_iter().enumerate() {
        flooders.spawn(flood(line, number, scale.flood_each, meanwhile.clone()));
    }
    let (mut all, mut answers) = (0, BTreeMap::<_, u64>::new());
    while let Some(ended) = flooders.join_next().await {
        let (asked, answered) = ended??;
        all += asked;
        for (answer, count) in answered {
            *answers.entry(answer).or_default() += count;
        }
    }
    told.check("others are served while it goes on", meanwhile.were_served());
    told.check("every request was answered, once", answers.values().sum::<u64>() == all);
    let granted = answers.remove("granted").unwrap_or_default();
    told.check(format!("what fits is done ({granted} of {all})"), granted > 0);
    told.check("what does not fit is refused as `overloaded`", answers.keys().eq(["overloaded"]));
    told.refused = answers;
    Ok(told)
}

/// Says everything, and then listens; again, if others were not served meanwhile. How much it has asked, and what the answers were.
async fn flood(
    mut line: Line,
    flooder: usize,
    each: usize,
    meanwhile: Meanwhile,
) -> Outcome<(u64, BTreeMap<String, u64>)> {
    let (mut rounds, mut answers) = (0, BTreeMap::new());
    loop {
        let round = rounds * each..(rounds + 1) * each;
        for begin in round.clone().step_by(BATCH) {
            let batch = begin..round.end.min(begin + BATCH);
            let request = |number| {
                let pool = format!("flood-{flooder}-{number}");
                Request::Acquire(Box::new(AcquireRequest { pool, ttl_ms: Some(TTL_MS), ..Default::default() }))
            };
            line.say(batch.map(|number| (number as u64 + 1, request(number))).collect())?;
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

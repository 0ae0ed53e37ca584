//! Messages and headers that are too large, from many at once.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_proto::v1::AcquireRequest;
use tokio::task::JoinSet;

use super::asking::{code, connect};
use super::prober::Others;
use super::raw;
use super::server::Server;
use super::{Outcome, Scale, Told};

/// The server takes 4 MiB.
const TOO_LARGE: usize = 5 * 1024 * 1024;
const LARGE: usize = 4 * 1024 * 1024 - 1_024;
/// What one connection may make the server grow by, in KiB: a message as it came and as it is understood.
const EACH: u64 = 16 * 1024;
const ANYWAY: u64 = 64 * 1024;

pub(crate) async fn run(server: &Server, scale: Scale, others: &Others) -> Outcome<Told> {
    let mut told = Told { growth_max: ANYWAY + EACH * scale.huge as u64, ..Told::default() };
    told.asked = format!(
        "{} connections at once, each with a message just below 4 MiB and one above, by gRPC and by HTTP/1.1, and 1 MiB of headers",
        scale.huge
    );
    let mut guests = JoinSet::new();
    let meanwhile = others.meanwhile();
    for _ in 0..scale.huge {
        let (grpc, http, meanwhile) = (server.grpc.clone(), server.http.clone(), meanwhile.clone());
        guests.spawn(async move {
            let mut visits = Vec::new();
            loop {
                visits.push(visit(&grpc, &http).await?);
                meanwhile.begins();
                if !meanwhile.goes_on(visits.len()) {
                    return Outcome::Ok(visits);
                }
            }
        });
    }
    let mut all = Vec::new();
    while let Some(visits) = guests.join_next().await {
        all.extend(visits??);
    }
    told.check("others are served meanwhile", meanwhile.were_served());
    let expected = ["invalid_argument", "OutOfRange", "400 invalid_argument", "413 body_too_large", "431"];
    let wrong = all.iter().find(|codes| codes.as_slice() != expected);
    told.check(format!("each is refused for what it is ({wrong:?})"), wrong.is_none());
    for code in all.iter().flatten() {
        told.refused(code);
    }
    Ok(told)
}

/// Says all that is too large. How each was refused.
async fn visit(grpc: &str, http: &str) -> Outcome<Vec<String>> {
    let mut client = connect(grpc).await?;
    let mut codes = Vec::new();
    for size in [LARGE, TOO_LARGE] {
        let meta = BTreeMap::from([("reason".to_owned(), "x".repeat(size))]);
        let acquire = AcquireRequest { pool: "a".into(), holder: "b".into(), meta, ..Default::default() };
        match client.acquire(acquire).await {
            Ok(_) => codes.push("granted".to_owned()),
            Err(status) => codes.push(code(&status)),
        }
    }
    let http = http.to_owned();
    let http = tokio::task::spawn_blocking(move || [LARGE, TOO_LARGE, 0].map(|size| by_http(&http, size))).await?;
    for code in http {
        codes.push(code?);
    }
    Ok(codes)
}

/// A body of this size, or headers that are too large. Gives the status, and the code of the refusal if there is one.
fn by_http(address: &str, size: usize) -> Outcome<String> {
    let words = if size > 0 {
        let body = format!("{{\"pool\":\"a\",\"holder\":\"{}\"}}", "x".repeat(size));
        let (kind, length) = ("application/json", body.len());
        let close = "connection: close";
        format!(
            "POST /api/v1/acquire HTTP/1.1\r\nhost: localhost\r\n{close}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    } else {
        format!(
            "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncookie: {}\r\n\r\n",
            "x".repeat(1024 * 1024)
        )
    };
    let heard = raw::say_once(address, words.as_bytes(), Duration::from_secs(60))?;
    let heard = String::from_utf8_lossy(&heard);
    let status = heard.split(' ').nth(1).unwrap_or("no answer");
    let code = heard.split_once("\"code\":\"").and_then(|(_, rest)| rest.split('"').next());
    Ok(code.map_or_else(|| status.to_owned(), |code| format!("{status} {code}")))
}

//! Clients that never read what they are answered, in every way that there is to be answered.

use std::time::Duration;

use tenure_proto::v1::{
    AcquireRequest, ClientMessage, ClientRequest, OpenSessionRequest, Ping, ReleaseRequest, WatchRequest,
    client_request::Request,
};

use super::asking::Line;
use super::prober::{Meanwhile, Others};
use super::raw;
use super::server::Server;
use super::{Outcome, Scale, Told, eventually};

/// What all of them together may make the server grow by, in KiB. Up to 70 MiB of it is the program itself, whose pages come in as they
/// are used; the rest depends on how the system lets them take turns, and 110 to 250 MiB were seen. A server that keeps every answer grows
/// by some GiB.
const GROWTH_MAX: u64 = 512 * 1024;
/// More than the system keeps for both ends of a connection and the server reads ahead; less than any of them has to say.
const TAKEN_MAX: usize = 40 * 1024 * 1024;
/// Of a stream of HTTP/2: what a client may send on it that has not heard of more.
const WINDOW: usize = 60 * 1024;
const STREAMS: u32 = 100;
/// What watchers are to be told: more than the system would keep for one that does not read.
const HISTORY: usize = 20_000;
const EVENTS: &[u8] = b"GET /api/v1/watch?after=0 HTTP/1.1\r\nhost: localhost\r\n\r\n";
/// How the server's log begins to tell why.
const REASON: &str = "a connection is closed because its answers are not read";

pub(crate) async fn run(server: &Server, scale: Scale, others: &Others) -> Outcome<Told> {
    let mut told = Told { growth_max: GROWTH_MAX, ..Told::default() };
    make_history(server).await?;
    // The prober's among them; that of whoever made the history ends soon.
    let mut before = server.sockets()?;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        before = before.min(server.sockets()?);
    }
    let (grpc, http, most) = (&server.grpc, &server.http, scale.unread_bytes);
    let meanwhile = others.meanwhile();
    let speaker = |address, words| speaker(address, words, meanwhile.clone());
    let speakers: [(&str, Speaker); 6] = [
        ("calls", speaker(grpc, Box::new(move || Box::new(calls(most))))),
        ("calls on the HTTP port", speaker(http, Box::new(move || Box::new(calls(most))))),
        ("a hundred streams of sessions", speaker(grpc, Box::new(|| Box::new(streams())))),
        ("requests of HTTP/1.1", speaker(http, Box::new(move || Box::new(requests(most))))),
        ("a watch over gRPC", speaker(grpc, Box::new(|| Box::new(once(watch()))))),
        ("a watch as server-sent events", speaker(http, Box::new(|| Box::new(once(EVENTS.to_vec()))))),
    ];
    let names: Vec<_> = speakers.iter().map(|(name, _)| *name).collect();
    told.asked = format!("one of each, and none reads: {}", names.join(", "));
    for (name, speaker) in speakers {
        let bytes = speaker.await??;
        told.check(format!("{name}: not all was listened to ({} MiB were)", bytes >> 20), bytes < TAKEN_MAX);
    }
    told.check("others are served meanwhile", meanwhile.were_served());
    // Whoever reads nothing need not hear of it: the system keeps the end behind what comes before it.
    let all_gone = eventually(|| async { Ok(server.sockets()? <= before) }).await?;
    told.check("all are hung up on", all_gone);
    if all_gone {
        told.refused.insert("hung up on".to_owned(), names.len() as u64);
    }
    told.check("the log says why", server.log()?.contains(REASON));
    Ok(told)
}

type Speaker = tokio::task::JoinHandle<Outcome<usize>>;

/// What is said on one connection, piece by piece.
type Words = Box<dyn FnMut() -> Option<Vec<u8>>>;

/// Says it, on another connection again if others were not served meanwhile. Gives the most that was taken of one.
fn speaker(address: &str, words: Box<dyn Fn() -> Words + Send>, meanwhile: Meanwhile) -> Speaker {
    let address = address.to_owned();
    tokio::task::spawn_blocking(move || {
        let (mut rounds, mut most) = (0, 0);
        loop {
            let (mut words, mut pieces) = (words(), 0);
            let words = || {
                pieces += 1;
                // The server has taken some, and has something to say that nobody reads.
                if pieces > 1 {
                    meanwhile.begins();
                }
                words()
            };
            most = raw::speak(&address, words)?.max(most);
            rounds += 1;
            if !meanwhile.goes_on(rounds) {
                return Ok(most);
            }
        }
    })
}

fn once(words: Vec<u8>) -> impl FnMut() -> Option<Vec<u8>> {
    let mut words = Some(words);
    move || words.take()
}

/// Calls that are refused at once, a stream of HTTP/2 each.
fn calls(most: usize) -> impl FnMut() -> Option<Vec<u8>> {
    let (mut stream, mut said) = (1, 0);
    move || {
        let mut bytes = if stream == 1 { raw::opening() } else { Vec::new() };
        for _ in 0..200 {
            raw::call(&mut bytes, stream, "Release");
            raw::message(&mut bytes, stream, &ReleaseRequest { key: "nobody's".into(), ..Default::default() }, true);
            stream += 2;
        }
        said += bytes.len();
        (said < most).then_some(bytes)
    }
}

/// Streams of sessions, one beside the other, each full of pings. What one may keep in the server has a bound; how many a
/// connection has is not bounded, because each caller that waits has one.
fn streams() -> impl FnMut() -> Option<Vec<u8>> {
    let mut stream = 1;
    move || {
        let mut bytes = if stream == 1 { raw::opening() } else { Vec::new() };
        raw::call(&mut bytes, stream, "Session");
        let begin = bytes.len();
        let open = OpenSessionRequest { holder: "deaf".into(), grace_ms: Some(1_000), ..Default::default() };
        let open = ClientRequest { id: 0, request: Some(Request::Open(Box::new(open))) };
        raw::message(&mut bytes, stream, &ClientMessage { requests: vec![open] }, false);
        let ping = |id| ClientRequest { id, request: Some(Request::Ping(Ping {})) };
        let pings = ClientMessage { requests: (1..=1_000).map(ping).collect() };
        while bytes.len() - begin < WINDOW - 16 * 1024 {
            raw::message(&mut bytes, stream, &pings, false);
        }
        stream += 2;
        (stream < 2 * STREAMS).then_some(bytes)
    }
}

fn requests(most: usize) -> impl FnMut() -> Option<Vec<u8>> {
    let mut said = 0;
    move || {
        let bytes = b"GET /api/v1/pools HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(500);
        said += bytes.len();
        (said < most).then_some(bytes)
    }
}

fn watch() -> Vec<u8> {
    let mut bytes = raw::opening();
    raw::call(&mut bytes, 1, "Watch");
    raw::message(&mut bytes, 1, &WatchRequest { after: Some(0), ..Default::default() }, true);
    bytes
}

async fn make_history(server: &Server) -> Outcome<()> {
    let mut line = Line::open(&server.grpc, "history").await?;
    for begin in (0..HISTORY).step_by(1_000) {
        let request = |number| {
            let acquire = AcquireRequest { pool: format!("history-{number}"), ttl_ms: Some(1), ..Default::default() };
            (number as u64 + 1, Request::Acquire(Box::new(acquire)))
        };
        line.say((begin..begin + 1_000).map(request).collect())?;
        let mut answered = 0;
        while answered < 1_000 {
            let (id, _) = line.hear().await?;
            // What is lost is told under the session's own id.
            answered += usize::from(id != 0);
        }
    }
    line.end().await?;
    Ok(())
}

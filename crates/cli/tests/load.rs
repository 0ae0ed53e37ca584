//! What `cargo xtask load` does, with hundreds instead of thousands; and the calls of `cargo xtask bench`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use prost::Message;
use tenure_bench::calls::Channel;
use tenure_bench::crowd::{Scale, run, table};
use tenure_proto::v1::client_request::Request;
use tenure_proto::v1::server_answer::Answer;
use tenure_proto::v1::{
    AcquireRequest, ClientRequest, EndSession, Grant, ListHoldsRequest, ListHoldsResponse, OpenSessionRequest,
    PoolSpec, ReleaseRequest, Released, ServerMessage, SetPoolRequest, SetPoolResponse,
};
use tenure_server::{Config, Server, Storage};

#[tokio::test]
async fn crowds_and_bad_guests_are_served_or_refused_and_others_do_not_notice() {
    let program = Path::new(env!("CARGO_BIN_EXE_tenure"));
    let rows = run(program, Scale::SMALL, &[]).await.unwrap();
    let broken: Vec<_> = rows.iter().flat_map(|row| row.broken()).collect();
    println!("{}", table(&rows));
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

const TASKS: usize = 64;
const PAIRS_EACH: usize = 100;

/// More than the server takes before it has said that it takes more, and from many tasks at once.
#[tokio::test]
async fn the_calls_of_the_load_generator_are_answered_or_refused_each_by_itself() {
    let server = Server::start(Storage::default().start_engine().unwrap(), Config::any_ports()).await.unwrap();
    let channel = Channel::open(&server.grpc_addr().to_string()).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let channel = channel.clone();
        tasks.spawn(async move {
            for pair in 0..PAIRS_EACH {
                let pool = format!("lock-{task}");
                let holder = format!("holder {task}, pair {pair}");
                let acquire = AcquireRequest { pool: pool.clone(), holder, ttl_ms: Some(30_000), ..Default::default() };
                let grant: Grant = channel.call("/tenure.v1.Tenure/Acquire", &acquire).await.unwrap();
                let held: ListHoldsResponse = channel
                    .call("/tenure.v1.Tenure/ListHolds", &ListHoldsRequest { pool: Some(pool), ..Default::default() })
                    .await
                    .unwrap();
                assert_eq!(held.holds.iter().map(|hold| hold.token).collect::<Vec<_>>(), [grant.token]);
                let release = ReleaseRequest { key: grant.key, ..Default::default() };
                let released: Released = channel.call("/tenure.v1.Tenure/Release", &release).await.unwrap();
                assert_eq!(released.token, grant.token);
                let again = channel.call::<Released>("/tenure.v1.Tenure/Release", &release).await;
                assert_eq!(again.unwrap_err().to_string(), "/tenure.v1.Tenure/Release was refused");
            }
        });
    }
    tasks.join_all().await;
    // An answer may be empty, and is not a refusal.
    let spec = PoolSpec { units: Some(2), ..Default::default() };
    let pool = SetPoolRequest { pool: "gpus".into(), spec: Some(spec), ..Default::default() };
    for created in [true, false] {
        let set: SetPoolResponse = channel.call("/tenure.v1.Tenure/SetPool", &pool).await.unwrap();
        assert_eq!(set.created, created);
    }
    drop(channel);
    server.stop().await;
}

const TALKED: u64 = 5_000;

/// In several messages, and more than the server takes before it has said that it takes more.
#[tokio::test]
async fn a_stream_of_the_load_generator_is_answered_whatever_goes_into_a_message() {
    let server = Server::start(Storage::default().start_engine().unwrap(), Config::any_ports()).await.unwrap();
    let channel = Channel::open(&server.grpc_addr().to_string()).await.unwrap();
    let (heard, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let talk = channel.talk("/tenure.v1.Tenure/Session", 1_024, move |message| {
        // Whoever listens may have heard enough.
        let _ = heard.send(message.map(|message| ServerMessage::decode(message).unwrap()));
    });
    let say = |id, request| talk.say(&ClientRequest { id, request: Some(request) }).unwrap();
    say(0, Request::Open(Box::new(OpenSessionRequest { holder: "talker".into(), ..Default::default() })));
    for id in 1..=TALKED {
        say(id, Request::Acquire(Box::new(AcquireRequest { pool: format!("talk-{id}"), ..Default::default() })));
    }
    let mut granted = std::collections::BTreeSet::new();
    while granted.len() as u64 != TALKED {
        for answered in answers.recv().await.unwrap().unwrap().answers {
            match answered.answer.unwrap() {
                Answer::Granted(_) => assert!(granted.insert(answered.id)),
                Answer::Opened(_) => assert_eq!(answered.id, 0),
                other => panic!("{other:?}"),
            }
        }
    }
    say(TALKED + 1, Request::End(EndSession {}));
    while answers.recv().await.unwrap().is_some() {}
    assert!(talk.say(&ClientRequest::default()).is_err());
    server.stop().await;
}

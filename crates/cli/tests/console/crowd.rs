//! A crowd on one stream: many pools that are held, and one that everybody waits for.

use tenure_proto::v1::{self, client_request::Request, server_answer::Answer};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;

use crate::support::Process;

/// A message of a stream holds at most so many requests, and so many may be unanswered.
const TOGETHER: usize = 4_000;

/// Those who hold and wait. They leave when it is dropped, after the grace of their session.
pub(crate) struct Crowd {
    requests: mpsc::UnboundedSender<v1::ClientMessage>,
    answers: Streaming<v1::ServerMessage>,
}

pub(crate) async fn gather(server: &Process, pools: usize, waiters: usize) -> Crowd {
    let (requests, sent) = mpsc::unbounded_channel();
    let open = v1::OpenSessionRequest { holder: "crowd".into(), ..Default::default() };
    let open = v1::ClientRequest { id: 0, request: Some(Request::Open(Box::new(open))) };
    requests.send(v1::ClientMessage { requests: vec![open] }).unwrap();
    let mut client = server.client().await;
    let answers = client.session(UnboundedReceiverStream::new(sent)).await.unwrap().into_inner();
    let mut crowd = Crowd { requests, answers };
    crowd.hear(1).await;
    let hold = |pool: String, holder: String| v1::AcquireRequest { pool, holder, ..Default::default() };
    crowd.ask((0..pools).map(|at| hold(format!("pool-{at:05}"), format!("holder-{}", at % 100)))).await;
    crowd.ask([hold("busiest".into(), "slow".into())].into_iter()).await;
    let wait = |at| v1::AcquireRequest { wait_forever: true, ..hold("busiest".into(), format!("job-{at}")) };
    crowd.ask((0..waiters).map(wait)).await;
    crowd
}

impl Crowd {
    async fn ask(&mut self, acquires: impl Iterator<Item = v1::AcquireRequest>) {
        let requests = acquires.enumerate().map(|(at, acquire)| v1::ClientRequest {
            id: at as u64 + 1_000_000,
            request: Some(Request::Acquire(Box::new(acquire))),
        });
        let mut requests = requests.peekable();
        while requests.peek().is_some() {
            let together: Vec<_> = requests.by_ref().take(TOGETHER).collect();
            let count = together.len();
            self.requests.send(v1::ClientMessage { requests: together }).unwrap();
            self.hear(count).await;
        }
    }

    async fn hear(&mut self, count: usize) {
        let mut heard = 0;
        while heard < count {
            let message = self.answers.message().await.unwrap().expect("the stream goes on");
            for answer in &message.answers {
                let is_well = matches!(answer.answer, Some(Answer::Opened(_) | Answer::Granted(_) | Answer::Queued(_)));
                assert!(is_well, "{answer:?}");
            }
            heard += message.answers.len();
        }
    }
}

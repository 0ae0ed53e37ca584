//! A client of the bidirectional stream.

use std::collections::VecDeque;

use tenure_proto::v1::{self, client_request::Request, server_answer::Answer};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;

use crate::fixture::{Fixture, acquire, within};

/// A client's end of the stream.
pub(crate) struct Talk {
    pub(crate) requests: mpsc::UnboundedSender<v1::ClientMessage>,
    pub(crate) answers: Streaming<v1::ServerMessage>,
    heard: VecDeque<v1::ServerAnswer>,
}

pub(crate) fn message(id: u64, request: Option<Request>) -> v1::ClientMessage {
    v1::ClientMessage { requests: vec![v1::ClientRequest { id, request }] }
}

impl Talk {
    /// On a connection of its own, with its first message.
    pub(crate) async fn start(fixture: &Fixture, first: Request) -> Self {
        let (requests, sent) = mpsc::unbounded_channel();
        requests.send(message(0, Some(first))).unwrap();
        let mut client = fixture.grpc().await;
        let answers = client.session(UnboundedReceiverStream::new(sent)).await.unwrap().into_inner();
        Self { requests, answers, heard: VecDeque::new() }
    }

    pub(crate) async fn open(fixture: &Fixture, holder: &str) -> (Self, v1::SessionOpened) {
        let open = v1::OpenSessionRequest { holder: holder.into(), grace_ms: Some(5_000), ..Default::default() };
        let mut talk = Self::start(fixture, Request::Open(Box::new(open))).await;
        match talk.hear().await {
            (0, Answer::Opened(opened)) => (talk, opened),
            other => panic!("{other:?}"),
        }
    }

    /// Without saying who it is: the session knows.
    pub(crate) async fn resume(fixture: &Fixture, opened: &v1::SessionOpened) -> Self {
        let resume = v1::ResumeSession { session_key: opened.session_key.clone(), ..Default::default() };
        let mut talk = Self::start(fixture, Request::Resume(resume.into())).await;
        match talk.hear().await {
            (0, Answer::Opened(again)) => assert_eq!(again.session, opened.session),
            other => panic!("{other:?}"),
        }
        talk
    }

    pub(crate) fn say(&self, id: u64, request: Request) {
        self.requests.send(message(id, Some(request))).unwrap();
    }

    pub(crate) async fn hear(&mut self) -> (u64, Answer) {
        while self.heard.is_empty() {
            let message = within(self.answers.message()).await.unwrap().expect("the stream goes on");
            self.heard.extend(message.answers);
        }
        let heard = self.heard.pop_front().expect("it was just seen");
        (heard.id, heard.answer.expect("every answer says something"))
    }

    pub(crate) async fn hear_granted(&mut self, id: u64) -> v1::Grant {
        match self.hear().await {
            (heard, Answer::Granted(grant)) if heard == id => grant,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn hear_refused(&mut self, id: u64) -> v1::Refusal {
        match self.hear().await {
            (heard, Answer::Refused(refusal)) if heard == id => *refusal,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn hear_lost(&mut self) -> v1::HoldLost {
        match self.hear().await {
            (0, Answer::Lost(lost)) => lost,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn hear_the_end(&mut self) {
        assert_eq!(within(self.answers.message()).await.unwrap(), None);
    }
}

/// An acquire that leaves it to the stream who asks.
pub(crate) fn in_stream(pool: &str) -> v1::AcquireRequest {
    acquire(pool, "")
}

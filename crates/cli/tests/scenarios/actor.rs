//! Somebody who talks to the server: the calls they wait with, their session and the connection that carries it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Poll;

use tenure_proto::v1::{self, client_request::Request, server_answer::Answer};
use tenure_scenario::Outcome;

use crate::face::{Called, Carrier, Face};
use crate::host::PATIENCE;
use crate::wire;

pub(crate) struct Actor<F: Face> {
    pub(crate) calls: Vec<Call>,
    pub(crate) session: Option<OwnSession>,
    /// The connection that carries the session, where there is such a thing.
    pub(crate) stream: Option<Connection<F::Stream>>,
    /// Where there is not, it is kept alive as a client would.
    pub(crate) kept_alive: bool,
    /// Connections that the actor has given up, though the server does not know.
    pub(crate) old: Vec<Connection<F::Stream>>,
    pub(crate) late: VecDeque<Outcome>,
}

pub(crate) struct Call {
    pub(crate) in_session: bool,
    pub(crate) answer: Pin<Box<dyn Future<Output = Called<v1::Grant>>>>,
}

#[derive(Clone)]
pub(crate) struct OwnSession {
    pub(crate) namespace: String,
    pub(crate) key: String,
}

pub(crate) struct Connection<S> {
    pub(crate) stream: S,
    last_id: u64,
    /// Acquires in the queue.
    pub(crate) waiting: usize,
}

impl<F: Face> Default for Actor<F> {
    fn default() -> Self {
        let (calls, old, late) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { calls, session: None, stream: None, kept_alive: false, old, late }
    }
}

pub(crate) fn outcome<T>(called: Called<T>, done: impl FnOnce(T) -> Outcome) -> Outcome {
    called.map_or_else(|refusal| wire::refused(&refusal), done)
}

impl<S: Carrier> Connection<S> {
    /// Says something and waits for its first answer. Others that come before it are late ones.
    pub(crate) async fn ask(&mut self, request: Request, late: &mut VecDeque<Outcome>) -> Answer {
        self.last_id += 1;
        let id = self.last_id;
        self.stream.send(v1::ClientRequest { id, request: Some(request) }).await;
        loop {
            let message = tokio::time::timeout(PATIENCE, self.stream.receive()).await.expect("the stream answers");
            let v1::ServerAnswer { id: answered, answer } = message.expect("the stream does not end unasked");
            let answer = answer.expect("an answer says something");
            if answered == id {
                self.waiting += usize::from(matches!(answer, Answer::Queued(_)));
                return answer;
            }
            // Not every face has somebody to tell that a hold was lost, so scenarios do not ask for it.
            if !matches!(answer, Answer::Lost(_)) {
                self.waiting -= 1;
                late.push_back(told(&answer));
            }
        }
    }

    /// What came of one of the waits.
    async fn late(&mut self) -> Outcome {
        loop {
            let message = self.stream.receive().await.expect("the stream does not end unasked");
            let answer = message.answer.expect("an answer says something");
            if !matches!(answer, Answer::Lost(_)) {
                self.waiting -= 1;
                return told(&answer);
            }
        }
    }
}

pub(crate) fn told(answer: &Answer) -> Outcome {
    match answer {
        Answer::Opened(opened) => wire::session(opened),
        Answer::Queued(queued) => wire::queued(queued.position, queued.deadline_ms),
        Answer::Granted(grant) => wire::granted(grant),
        Answer::Renewed(renewed) => wire::renewed(renewed),
        Answer::Released(released) => wire::released(released),
        Answer::Withdrawn(v1::Withdrawn {}) => Outcome::new("withdrawn"),
        Answer::Pong(_) | Answer::Ended(v1::SessionEnded {}) => Outcome::new("done"),
        Answer::Refused(refusal) => wire::refused(refusal),
        Answer::Lost(_) => unreachable!("it is no answer to anything that was asked"),
    }
}

impl<F: Face> Actor<F> {
    /// Opens or resumes a session through a connection, which carries it from then on.
    pub(crate) async fn carry(&mut self, stream: F::Stream, first: Request) -> Outcome {
        let mut connection = Connection { stream, last_id: 0, waiting: 0 };
        let answer = connection.ask(first, &mut self.late).await;
        if let Answer::Opened(_) = answer {
            self.stream = Some(connection);
        }
        told(&answer)
    }

    /// The next outcome of a wait, whenever it comes.
    pub(crate) async fn hear(&mut self) -> Outcome {
        let Self { calls, stream, .. } = self;
        let from_stream = async {
            match stream {
                Some(stream) if stream.waiting > 0 => stream.late().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            outcome = from_calls(calls) => outcome,
            outcome = from_stream => outcome,
        }
    }

    pub(crate) fn waits(&self) -> bool {
        !self.calls.is_empty() || self.stream.as_ref().is_some_and(|stream| stream.waiting > 0)
    }
}

/// What a future has to give already.
pub(crate) async fn now_or_never<T>(
    future: &mut Pin<impl std::ops::DerefMut<Target = impl Future<Output = T> + ?Sized>>,
) -> Option<T> {
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

pub(crate) async fn from_calls(calls: &mut Vec<Call>) -> Outcome {
    std::future::poll_fn(|cx| {
        for at in 0..calls.len() {
            if let Poll::Ready(called) = calls[at].answer.as_mut().poll(cx) {
                calls.remove(at);
                return Poll::Ready(outcome(called, |grant| wire::granted(&grant)));
            }
        }
        Poll::Pending
    })
    .await
}

//! How the crowd asks: calls, and the stream of a session on a connection of its own.

use std::collections::VecDeque;

use tenure_proto::v1::tenure_client::TenureClient;
use tenure_proto::v1::{
    ClientMessage, ClientRequest, OpenSessionRequest, ServerAnswer, ServerMessage, client_request::Request,
    server_answer::Answer,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use super::{Outcome, PATIENCE};

pub(crate) async fn connect(address: &str) -> Outcome<TenureClient<Channel>> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
    Ok(TenureClient::new(tokio::time::timeout(PATIENCE, endpoint.connect()).await??))
}

/// Why not, as a stable name.
pub(crate) fn code(status: &Status) -> String {
    tenure_proto::refusal_of(status).map_or_else(|| format!("{:?}", status.code()), |refusal| refusal.code)
}

/// A session on its stream.
pub(crate) struct Line {
    /// None once all has been said.
    requests: mpsc::UnboundedSender<ClientMessage>,
    answers: Streaming<ServerMessage>,
    heard: VecDeque<ServerAnswer>,
}

impl Line {
    pub(crate) async fn open(address: &str, holder: &str) -> Outcome<Self> {
        let mut client = connect(address).await?;
        let (requests, sent) = mpsc::unbounded_channel();
        let open = OpenSessionRequest { holder: holder.into(), ..Default::default() };
        requests.send(message(vec![(0, Request::Open(Box::new(open)))]))?;
        let answers = client.session(UnboundedReceiverStream::new(sent)).await?.into_inner();
        let mut line = Self { requests, answers, heard: VecDeque::new() };
        match line.hear().await? {
            (0, Answer::Opened(_)) => Ok(line),
            (_, other) => Err(format!("not opened: {other:?}").into()),
        }
    }

    pub(crate) fn say(&self, requests: Vec<(u64, Request)>) -> Outcome<()> {
        Ok(self.requests.send(message(requests))?)
    }

    pub(crate) async fn hear(&mut self) -> Outcome<(u64, Answer)> {
        loop {
            if let Some(ServerAnswer { id, answer }) = self.heard.pop_front() {
                return Ok((id, answer.ok_or("an answer that says nothing")?));
            }
            let message = tokio::time::timeout(PATIENCE, self.answers.message()).await??;
            self.heard.extend(message.ok_or("the stream has ended")?.answers);
        }
    }

    /// Ends the session, and tells of what is heard before that.
    pub(crate) async fn end(mut self) -> Outcome<Vec<Answer>> {
        self.say(vec![(u64::MAX, Request::End(tenure_proto::v1::EndSession {}))])?;
        let mut heard = Vec::new();
        loop {
            match self.hear().await? {
                (_, Answer::Ended(_)) => return Ok(heard),
                (_, other) => heard.push(other),
            }
        }
    }
}

fn message(requests: Vec<(u64, Request)>) -> ClientMessage {
    let requests = requests.into_iter().map(|(id, request)| ClientRequest { id, request: Some(request) }).collect();
    ClientMessage { requests }
}

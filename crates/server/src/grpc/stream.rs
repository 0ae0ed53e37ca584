//! The bidirectional stream: one session, and the pipelined requests of many tasks.
//!
//! The whole stream is one state machine that gRPC polls for the next answer. It makes no task and no channel per
//! request: everything the engine answers comes back through one channel, by the id that the client chose. When the
//! client does not read its answers, this is not polled and reads no requests either.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use prost::Message;
use tenure_core::{Command, Reply, SessionId};
use tenure_engine::{Answered, Engine, Failure, ReplyTo, Ticket, answers};
use tenure_proto::v1::{self, client_request::Request, server_answer::Answer};
use tokio::sync::watch;
use tokio_stream::Stream;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Status, Streaming};

use crate::convert::{self, Caller};
use crate::error::Error;

/// Requests of one stream that nobody has answered yet; beyond it no more are read. Waits do not count once they
/// are known to be queued: if they did, a client could not send the release that ends them.
const UNANSWERED_MAX: usize = 4_096;
/// Those of them that are handed over while the engine is crowded: a few bytes may end a message with thousands of requests, so it is not
/// enough that little is heard of each connection then. The rest waits here.
const HANDED_OVER_IN_CROWD_MAX: usize = 64;
/// So many are handed over at once, and then it is looked again whether there is a crowd.
const HANDED_OVER_AT_ONCE_MAX: usize = 512;
/// Requests in one message. More could not be taken in at once anyway, and would lie here unread: an empty request is
/// two bytes on the wire and many more in memory.
const REQUESTS_PER_MESSAGE_MAX: usize = UNANSWERED_MAX;
/// Answers that go into one message, if there are so many: what a commit of the engine brings at most.
const ANSWERS_PER_MESSAGE_MAX: usize = 1_024;
/// No answer is added to a message of this size: a refusal that names many holders has tens of kilobytes, and clients
/// take messages of 4 MiB.
const MESSAGE_BYTES: usize = 256 * 1024;
/// About what an answer takes in which nothing can be long but a name.
const ANSWER_BYTES: usize = 128;

pub(crate) struct SessionStream {
    engine: Arc<dyn Engine>,
    /// Whether the engine is crowded, and whether it was when it was last looked.
    crowd: watch::Receiver<bool>,
    in_crowd: bool,
    /// None once the client has said all it wants to say.
    requests: Option<Streaming<v1::ClientMessage>>,
    /// Requests of a message that was read, and not yet looked at.
    unread: VecDeque<v1::ClientRequest>,
    /// Commands that were read, and are handed over when nothing more can be read, with the ids of their requests.
    outgoing: Vec<(Command, ReplyTo)>,
    /// Those that wait until there is no crowd any more, or others of this stream are answered; in order.
    held_back: VecDeque<(Command, ReplyTo)>,
    reply_to: answers::Sender,
    answers: answers::Receiver,
    /// Answers that needed no engine.
    ready: VecDeque<v1::ServerAnswer>,
    in_flight: HashMap<u64, InFlight>,
    unanswered: usize,
    stage: Stage,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
}

enum Stage {
    /// Nothing was said yet.
    New,
    /// The engine has been asked for the session.
    Opening(Caller),
    Open(Open),
    /// No more is said by either side.
    Closed,
}

struct Open {
    /// The request by which it was opened. After that it is answered with what is lost; a refusal is the end of it.
    id: u64,
    caller: Caller,
    session: SessionId,
    attachment: u64,
}

struct InFlight {
    /// None until it is handed over.
    ticket: Option<Ticket>,
    /// Known to be in the queue.
    waiting: bool,
    /// It can be made again by its request id, and finds its place or its grant.
    returns: bool,
}

impl SessionStream {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        requests: Streaming<v1::ClientMessage>,
        closing: WaitForCancellationFutureOwned,
    ) -> Self {
        let (reply_to, answers) = answers::channel();
        let crowd = engine.crowd();
        Self {
            engine,
            crowd,
            in_crowd: false,
            requests: Some(requests),
            unread: VecDeque::new(),
            outgoing: Vec::new(),
            held_back: VecDeque::new(),
            reply_to,
            answers,
            ready: VecDeque::new(),
            in_flight: HashMap::new(),
            unanswered: 0,
            stage: Stage::New,
            closing: Box::pin(closing),
        }
    }

    /// Takes in what has arrived. What comes back ends the stream.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<(), Status> {
        self.in_crowd = *self.crowd.borrow();
        let read = self.read_all(cx);
        while self.hand_over() && !self.held_back.is_empty() {}
        read
    }

    fn read_all(&mut self, cx: &mut Context<'_>) -> Result<(), Status> {
        while !matches!(self.stage, Stage::Opening(_) | Stage::Closed)
            && self.unanswered + self.ready.len() < UNANSWERED_MAX
        {
            if self.outgoing.len() >= HANDED_OVER_AT_ONCE_MAX {
                self.hand_over();
            }
            if let Some(request) = self.unread.pop_front() {
                self.request(request);
                continue;
            }
            let Some(requests) = &mut self.requests else { break };
            match Pin::new(requests).poll_next(cx) {
                Poll::Ready(Some(Ok(message))) if message.requests.len() > REQUESTS_PER_MESSAGE_MAX => {
                    let count = message.requests.len();
                    let message = format!("{count} requests in one message; at most {REQUESTS_PER_MESSAGE_MAX} can be");
                    return Err(Error::invalid("requests", message).into());
                }
                Poll::Ready(Some(Ok(message))) => {
                    self.outgoing.reserve(message.requests.len());
                    self.unread.extend(message.requests);
                }
                Poll::Ready(Some(Err(status))) => return Err(status),
                Poll::Ready(None) => self.requests = None,
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    fn request(&mut self, message: v1::ClientRequest) {
        let id = message.id;
        let submitted = if self.in_flight.contains_key(&id) {
            Err(Error::invalid("id", format!("request {id} is not answered yet: its id cannot be used for another")))
        } else {
            self.handle(id, message.request)
        };
        if let Err(error) = submitted {
            self.refuse(id, &error);
        }
    }

    fn refuse(&mut self, id: u64, error: &Error) {
        self.ready.push_back(v1::ServerAnswer { id, answer: Some(Answer::Refused(Box::new(error.tell()))) });
        if !matches!(self.stage, Stage::Open(_)) {
            self.stage = Stage::Closed;
        }
    }

    fn handle(&mut self, id: u64, request: Option<Request>) -> Result<(), Error> {
        let request =
            request.ok_or_else(|| Error::invalid("request", "the message has no request, or an unknown one"))?;
        let Stage::Open(Open { caller, .. }) = &self.stage else {
            return self.open(id, request);
        };
        let command = match request {
            Request::Open(_) | Request::Resume(_) => {
                return Err(Error::invalid("request", "the stream has its session already"));
            }
            Request::Acquire(request) => {
                let acquire = convert::acquire(*request, caller)?;
                let returns = acquire.request.is_some() && acquire.session == caller.session;
                self.submit(id, Command::Acquire(acquire), returns);
                return Ok(());
            }
            Request::Renew(request) => convert::renew(*request, caller)?,
            Request::Release(request) => convert::release(*request, caller)?,
            Request::Withdraw(request) => convert::withdraw(*request, caller)?,
            Request::Ping(v1::Ping {}) => {
                let pong = v1::Pong { at_ms: self.engine.now().as_millis() };
                self.ready.push_back(v1::ServerAnswer { id, answer: Some(Answer::Pong(pong)) });
                return Ok(());
            }
            Request::End(v1::EndSession {}) => {
                let session = caller.session.expect("an open stream has a session");
                let command = Command::EndSession { namespace: caller.namespace.clone(), session };
                // Whatever is said after it is not listened to.
                self.requests = None;
                self.unread.clear();
                command
            }
        };
        self.submit(id, command, false);
        Ok(())
    }

    fn open(&mut self, id: u64, request: Request) -> Result<(), Error> {
        let (caller, command) = match request {
            Request::Open(request) => {
                let open = convert::open_session(*request, true)?;
                let holder = Some(open.holder.clone());
                let caller = Caller { namespace: open.namespace.clone(), session: None, holder };
                (caller, Command::OpenSession(open))
            }
            Request::Resume(request) => {
                let caller = convert::resume(&request)?;
                let session = caller.session.expect("it was just read");
                let command = Command::AttachSession { namespace: caller.namespace.clone(), session };
                (caller, command)
            }
            _ => return Err(Error::invalid("request", "the first message must open or resume a session")),
        };
        self.submit(id, command, false);
        self.stage = Stage::Opening(caller);
        Ok(())
    }

    fn submit(&mut self, id: u64, command: Command, returns: bool) {
        // What is held must not be lost because of what is asked for, and to give it back is no burden.
        let passes = matches!(command, Command::Renew(_) | Command::Release(_));
        let command = (command, ReplyTo { id, answers: self.reply_to.clone(), returns });
        if passes || !self.in_crowd && self.held_back.is_empty() {
            self.outgoing.push(command);
        } else {
            self.held_back.push_back(command);
        }
        self.in_flight.insert(id, InFlight { ticket: None, waiting: false, returns });
        self.unanswered += 1;
    }

    /// All that was read at once is handed over at once, and shares a commit. Whether there was anything: if not, and something is held back,
    /// so much is under way that this is called again with the next answer.
    fn hand_over(&mut self) -> bool {
        self.in_crowd = *self.crowd.borrow();
        let most = if self.in_crowd { HANDED_OVER_IN_CROWD_MAX } else { UNANSWERED_MAX };
        let under_way = self.unanswered - self.held_back.len();
        let more = most.saturating_sub(under_way).min(HANDED_OVER_AT_ONCE_MAX.saturating_sub(self.outgoing.len()));
        self.outgoing.extend(self.held_back.drain(..more.min(self.held_back.len())));
        if self.held_back.is_empty() {
            // With its memory.
            self.held_back = VecDeque::new();
        }
        // With its memory, as below, also if there is nothing in it.
        let commands = std::mem::take(&mut self.outgoing);
        if commands.is_empty() {
            return false;
        }
        let ids: Vec<_> = commands.iter().map(|(_, reply_to)| reply_to.id).collect();
        for (id, submitted) in ids.into_iter().zip(self.engine.submit_all(commands)) {
            match submitted {
                Ok(ticket) => {
                    if let Some(request) = self.in_flight.get_mut(&id) {
                        request.ticket = Some(ticket);
                    }
                }
                Err(failure) => {
                    self.in_flight.remove(&id);
                    self.unanswered -= 1;
                    self.refuse(id, &Error::Failed(failure));
                }
            }
        }
        // It may have been made by these.
        self.in_crowd = *self.crowd.borrow();
        true
    }

    /// What the client is told, and what that means for the stream.
    fn answer(&mut self, answered: Answered) -> v1::ServerAnswer {
        let Answered { id, reply } = answered;
        self.settle(id, &reply);
        let answer = match reply {
            Ok(Reply::Session(open)) => {
                self.opened(id, &open);
                Answer::Opened(convert::session_opened(&open))
            }
            Ok(Reply::Lost(lost)) => Answer::Lost(convert::hold_lost(&lost)),
            Ok(Reply::Queued(queued)) => Answer::Queued(convert::queued(&queued)),
            Ok(Reply::Granted(grant)) => Answer::Granted(convert::grant(&grant)),
            Ok(Reply::Renewed { token, deadline, ttl }) => Answer::Renewed(convert::renewed(token, ttl, deadline)),
            Ok(Reply::Released { token }) => Answer::Released(convert::released(token)),
            Ok(Reply::Withdrawn) => Answer::Withdrawn(v1::Withdrawn {}),
            Ok(Reply::Done) => {
                // The session has ended, so there is nothing to detach from.
                self.stage = Stage::Closed;
                Answer::Ended(v1::SessionEnded {})
            }
            Ok(Reply::Refused(refusal)) => self.refused(id, Error::Refused(refusal)),
            Err(failure) => self.refused(id, Error::Failed(failure)),
            Ok(other) => unreachable!("a stream never asks for what is answered with {other:?}"),
        };
        v1::ServerAnswer { id, answer: Some(answer) }
    }

    fn settle(&mut self, id: u64, reply: &Result<Reply, Failure>) {
        let Entry::Occupied(mut request) = self.in_flight.entry(id) else { return };
        if !request.get().waiting {
            self.unanswered -= 1;
        }
        match reply {
            Ok(Reply::Queued(_) | Reply::Session(_) | Reply::Lost(_)) => request.get_mut().waiting = true,
            _ => {
                request.remove();
            }
        }
    }

    fn opened(&mut self, id: u64, open: &tenure_core::SessionOpen) {
        if let Stage::Opening(caller) = std::mem::replace(&mut self.stage, Stage::Closed) {
            let holder = caller.holder.or_else(|| Some(open.holder.clone()));
            let caller = Caller { session: Some(open.key), holder, ..caller };
            self.stage = Stage::Open(Open { id, caller, session: open.id, attachment: open.attachment });
        }
    }

    fn refused(&mut self, id: u64, error: Error) -> Answer {
        // It was not opened; or it was, and has ended or been taken over.
        if matches!(&self.stage, Stage::Opening(_)) || matches!(&self.stage, Stage::Open(open) if open.id == id) {
            self.stage = Stage::Closed;
        }
        Answer::Refused(Box::new(error.tell()))
    }

    fn is_over(&self) -> bool {
        let all_read = self.requests.is_none() && self.unread.is_empty();
        matches!(self.stage, Stage::Closed) || all_read && self.unanswered == 0
    }
}

impl Stream for SessionStream {
    type Item = Result<v1::ServerMessage, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = &mut *self;
        if let Err(status) = stream.read(cx) {
            stream.requests = None;
            return Poll::Ready(Some(Err(status)));
        }
        // With its memory: a stream that was asked much once would keep it, and a connection may have many streams.
        let mut answers = Vec::from(std::mem::take(&mut stream.ready));
        answers.reserve(stream.answers.len().min(ANSWERS_PER_MESSAGE_MAX));
        let mut bytes = 0;
        while answers.len() < ANSWERS_PER_MESSAGE_MAX
            && bytes < MESSAGE_BYTES
            && !matches!(stream.stage, Stage::Closed)
            && let Poll::Ready(Some(answered)) = stream.answers.poll_recv(cx)
        {
            let answer = stream.answer(answered);
            bytes += length(&answer);
            answers.push(answer);
        }
        if !answers.is_empty() {
            return Poll::Ready(Some(Ok(v1::ServerMessage { answers })));
        }
        if stream.is_over() {
            return Poll::Ready(None);
        }
        // Everything the engine had to say has been passed on, and it has stopped.
        stream.closing.as_mut().poll(cx).map(|()| None)
    }
}

/// About how long it is in a message: to count what most are costs as much as to encode them.
fn length(answer: &v1::ServerAnswer) -> usize {
    match &answer.answer {
        Some(Answer::Granted(grant)) if grant.resources.is_empty() && grant.also.is_empty() => ANSWER_BYTES,
        Some(Answer::Released(_) | Answer::Renewed(_)) => ANSWER_BYTES,
        _ => answer.encoded_len(),
    }
}

/// The client is gone, or done. Its waits are given up unless they can be taken up again, and so are grants that
/// were not sent yet.
impl Drop for SessionStream {
    fn drop(&mut self) {
        if let Stage::Opening(_) = self.stage {
            return self.detach_once_open();
        }
        self.answers.close();
        while let Some(answered) = self.answers.try_recv() {
            if let Ok(Reply::Granted(grant)) = &answered.reply
                && let Some(InFlight { ticket: Some(ticket), returns, .. }) = self.in_flight.get(&answered.id)
                && !(*returns && grant.ends_by_itself())
            {
                self.engine.hang_up(*ticket, Some(grant.token));
            }
            self.settle(answered.id, &answered.reply);
        }
        for ticket in self.in_flight.values().filter_map(|request| request.ticket) {
            self.engine.hang_up(ticket, None);
        }
        if let Stage::Open(Open { session, attachment, .. }) = self.stage {
            self.engine.detach(session, attachment);
        }
    }
}

impl SessionStream {
    /// The engine is about to open a session for somebody who is gone: it must not be attached for ever.
    fn detach_once_open(&mut self) {
        let (_, closed) = answers::channel();
        let mut answers = std::mem::replace(&mut self.answers, closed);
        self.reply_to = answers::channel().0;
        let engine = self.engine.clone();
        spawn(async move {
            if let Some(Answered { reply: Ok(Reply::Session(open)), .. }) = answers.recv().await {
                engine.detach(open.id, open.attachment);
            }
        });
    }
}

/// Streams are also dropped while the runtime shuts down, and then there is nobody to tell.
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(task);
    }
}

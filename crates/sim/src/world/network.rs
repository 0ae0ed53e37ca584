//! Connections and what the server's front ends do with them: a call has one of its own, a session a lasting one in which
//! nothing overtakes anything. What is done when one is gone is what `crates/server` does.

use std::collections::BTreeMap;

use tenure_core::{Command, Reply, SessionId};
use tenure_engine::{Answered, Failure, ReplyTo, Ticket, answers};

use super::{Happening, Violation, World};
use crate::model::Heard;
use crate::plan::{Fate, Micros};
use crate::random::Random;
use crate::sabotage::Sabotage;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: usize,
    /// Carries a session; else a single call.
    pub(super) is_stream: bool,
    /// The calls that were made through it.
    pub(super) calls: Vec<u64>,
    fate: Fate,
    luck: Random,
    /// The network between the two ends is gone.
    cut: bool,
    /// When the last message of each direction arrives: later ones do not come before.
    to_server: Micros,
    to_client: Micros,

    // The server's end.
    answers: answers::Sender,
    /// None when the server has let go of it.
    receiver: Option<answers::Receiver>,
    in_flight: BTreeMap<u64, InFlight>,
    /// All that it ever had, and whether their caller returns.
    tickets: BTreeMap<u64, bool>,
    stage: Stage,
}

#[derive(Debug)]
struct InFlight {
    call: u64,
    returns: bool,
    is_acquire: bool,
}

/// How far the session of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New,
    Opening,
    Open {
        ticket: u64,
        session: SessionId,
        attachment: u64,
    },
    /// The client was gone before the session was there: it is detached as soon as it is.
    Orphaned,
    Closed,
}

impl Connection {
    pub(super) fn new(client: usize, is_stream: bool, fate: Fate, luck: Random) -> Self {
        let (answers, receiver) = answers::channel();
        Self {
            client,
            is_stream,
            calls: Vec::new(),
            fate,
            luck,
            cut: false,
            to_server: 0,
            to_client: 0,
            answers,
            receiver: Some(receiver),
            in_flight: BTreeMap::new(),
            tickets: BTreeMap::new(),
            stage: Stage::New,
        }
    }
}

impl World<'_> {
    /// Sends a request on its way.
    pub(super) fn send(&mut self, connection: usize, call: u64, command: &Command) {
        let line = &mut self.connections[connection];
        line.calls.push(call);
        let delay = 50 + line.luck.below(3_000);
        line.to_server = (self.time + delay).max(line.to_server);
        let (at, fate) = (line.to_server, line.fate);
        self.sent += 1;
        let sent = self.sent;
        let arrive = || Happening::Arrive { connection, call, command: Box::new(command.clone()), sent };
        match fate {
            Fate::RequestLost => self.counts.fault("request lost"),
            Fate::Fine | Fate::AnswerLost => self.at(at, arrive()),
            Fate::Delayed { micros } => {
                self.counts.fault("request delayed");
                let at = at + u64::from(micros);
                self.connections[connection].to_server = at;
                self.at(at, arrive());
            }
            Fate::Doubled { micros } => {
                self.counts.fault("request doubled");
                self.at(at, arrive());
                let (client, luck) = (self.connections[connection].client, Random::new(call));
                self.connections.push(Connection::new(client, false, Fate::Fine, luck));
                let connection = self.connections.len() - 1;
                let command = Box::new(command.clone());
                self.at(at + u64::from(micros), Happening::Arrive { connection, call, command, sent });
            }
            Fate::Broken { micros } => {
                self.counts.fault("call broken");
                self.at(at, arrive());
                self.at(self.time + u64::from(micros), Happening::Missed { connection });
                self.at(self.time + u64::from(micros), Happening::Broken { connection });
            }
        }
    }

    pub(super) fn arrive(&mut self, connection: usize, call: u64, command: Command, sent: u64) {
        if self.connections[connection].cut || self.connections[connection].receiver.is_none() {
            return;
        }
        let stopping = self.process.as_ref().is_none_or(|process| process.is_stopping());
        if stopping {
            // Nobody is there: the connection is refused.
            self.later(200, Happening::Broken { connection });
            return;
        }
        self.counts.overtaken += u64::from(sent < self.newest_arrived);
        self.newest_arrived = self.newest_arrived.max(sent);
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let line = &mut self.connections[connection];
        if line.is_stream && line.stage == Stage::New {
            line.stage = Stage::Opening;
        }
        let (is_acquire, returns) = match &command {
            Command::Acquire(acquire) => {
                (true, line.is_stream && acquire.request.is_some() && acquire.session.is_some())
            }
            _ => (false, false),
        };
        line.tickets.insert(ticket.0, returns);
        line.in_flight.insert(ticket.0, InFlight { call, returns, is_acquire });
        let reply_to = ReplyTo { id: ticket.0, answers: line.answers.clone(), returns };
        self.post(Heard::Command { ticket, command, returns }, Some(reply_to));
    }

    /// After a commit: the front ends have something to pass on, each when it gets to it.
    pub(super) fn schedule_passing_on(&mut self) {
        for connection in 0..self.connections.len() {
            let line = &mut self.connections[connection];
            if line.receiver.as_ref().is_some_and(|receiver| !receiver.is_empty()) {
                let wait = if line.luck.one_in(4) { line.luck.below(2_000) } else { line.luck.below(50) };
                self.later(wait, Happening::PassOn { connection });
            }
        }
    }

    pub(super) fn pass_on_everything(&mut self) -> Result<(), Violation> {
        (0..self.connections.len()).try_for_each(|connection| self.pass_on(connection))
    }

    pub(super) fn pass_on(&mut self, connection: usize) -> Result<(), Violation> {
        let line = &self.connections[connection];
        let paused_until = self.clients[line.client].paused_until;
        // A client that does not read stops the stream's writer too.
        if line.is_stream && paused_until > self.time && self.process.is_some() && line.stage != Stage::Orphaned {
            self.at(paused_until, Happening::PassOn { connection });
            return Ok(());
        }
        while let Some(receiver) = &mut self.connections[connection].receiver
            && let Some(Answered { id, reply }) = receiver.try_recv()
        {
            if self.options.sabotage == Some(Sabotage::LosesAnswers) && id % 16 == 0 {
                continue;
            }
            self.answered(Ticket(id), &reply)?;
            self.pass_on_one(connection, id, reply);
        }
        let line = &self.connections[connection];
        if line.is_there() {
            line.tickets.keys().try_for_each(|ticket| self.check_nothing_is_missing(*ticket))?;
        }
        Ok(())
    }

    fn pass_on_one(&mut self, connection: usize, ticket: u64, reply: Result<Reply, Failure>) {
        let line = &mut self.connections[connection];
        if line.stage == Stage::Orphaned {
            if let Ok(Reply::Session(open)) = &reply {
                let (session, attachment) = (open.id, open.attachment);
                line.stage = Stage::Closed;
                line.receiver = None;
                self.post(Heard::Detach { session, attachment }, None);
            }
            return;
        }
        let Some(call) = line.in_flight.get(&ticket).map(|it| it.call) else { return };
        line.settle(ticket, &reply);
        match (&reply, line.stage) {
            (Ok(Reply::Session(open)), Stage::Opening) => {
                line.stage = Stage::Open { ticket, session: open.id, attachment: open.attachment };
            }
            (Ok(Reply::Refused(_)) | Err(_), Stage::Opening) => line.stage = Stage::Closed,
            (Ok(Reply::Refused(_)) | Err(_), Stage::Open { ticket: opened, .. }) if opened == ticket => {
                line.stage = Stage::Closed;
            }
            // Only the end of a session is answered so on a stream.
            (Ok(Reply::Done), Stage::Open { .. }) => line.stage = Stage::Closed,
            _ => {}
        }
        let is_final = !matches!(reply, Ok(Reply::Queued(_) | Reply::Session(_) | Reply::Lost(_)));
        if line.fate == Fate::AnswerLost && is_final {
            self.counts.fault("answer lost");
        } else if !line.cut {
            let delay = 50 + line.luck.below(3_000);
            line.to_client = (self.time + delay).max(line.to_client);
            let at = line.to_client;
            self.at(at, Happening::Deliver { connection, call, reply: Box::new(reply) });
        }
        let line = &mut self.connections[connection];
        if !line.is_stream && line.in_flight.is_empty() {
            // The call is over, and so is its connection.
            line.receiver = None;
            return;
        }
        if self.connections[connection].stage == Stage::Closed {
            let at = self.connections[connection].to_client + 1;
            self.miss(connection);
            self.at(at, Happening::Broken { connection });
        }
    }

    /// The network between the two ends breaks; each notices in its own time.
    pub(super) fn cut(&mut self, connection: usize, mut luck: Random) {
        self.connections[connection].cut = true;
        let (server, client) = (luck.below(200_000), luck.below(200_000));
        self.later(server, Happening::Missed { connection });
        self.later(client, Happening::Broken { connection });
    }

    /// The server lets go of a connection: waits are given up, and grants that were not passed on are taken back.
    pub(super) fn miss(&mut self, connection: usize) {
        let line = &mut self.connections[connection];
        if line.stage == Stage::Orphaned {
            return;
        }
        if line.stage == Stage::Opening {
            line.stage = Stage::Orphaned;
            // The answer may have come.
            self.later(0, Happening::PassOn { connection });
            return;
        }
        let Some(mut receiver) = line.receiver.take() else { return };
        line.cut = true;
        receiver.close();
        let mut letters = Vec::new();
        let mut unheard = Vec::new();
        while let Some(Answered { id, reply }) = receiver.try_recv() {
            if let (Ok(Reply::Granted(grant)), Some(request)) = (&reply, line.in_flight.get(&id))
                && !(request.returns && grant.ends_by_itself())
            {
                letters.push(Heard::HangUp { ticket: Ticket(id), unreceived: Some(grant.token) });
            }
            unheard.push(id);
            line.settle(id, &reply);
        }
        // A call that is not an acquire has nothing to give up.
        let waiting = line.in_flight.iter().filter(|(_, request)| request.is_acquire || line.is_stream);
        letters.extend(waiting.map(|(ticket, _)| Heard::HangUp { ticket: Ticket(*ticket), unreceived: None }));
        if let Stage::Open { session, attachment, .. } = line.stage {
            letters.push(Heard::Detach { session, attachment });
        }
        line.in_flight.clear();
        line.stage = Stage::Closed;
        for letter in letters {
            self.post(letter, None);
        }
    }

    /// The server is gone, and with it its end of every connection.
    pub(super) fn disconnect_everybody(&mut self) {
        for connection in 0..self.connections.len() {
            let line = &mut self.connections[connection];
            if line.receiver.take().is_some() {
                line.stage = Stage::Closed;
                line.in_flight.clear();
                let wait = line.luck.below(50_000);
                self.later(wait, Happening::Broken { connection });
            }
        }
    }
}

impl Connection {
    /// Whether the server knows of the call.
    pub(super) fn has_call(&self, call: u64) -> bool {
        self.in_flight.values().any(|request| request.call == call)
    }

    pub(super) fn has_ticket(&self, ticket: Ticket) -> bool {
        self.tickets.contains_key(&ticket.0)
    }

    pub(super) fn returns(&self, ticket: Ticket) -> bool {
        self.tickets.get(&ticket.0).is_some_and(|returns| *returns)
    }

    /// Whether somebody at the server's end still listens for answers.
    pub(super) fn is_there(&self) -> bool {
        self.receiver.is_some()
    }

    fn settle(&mut self, ticket: u64, reply: &Result<Reply, Failure>) {
        if !matches!(reply, Ok(Reply::Queued(_) | Reply::Session(_) | Reply::Lost(_))) {
            self.in_flight.remove(&ticket);
        }
    }
}

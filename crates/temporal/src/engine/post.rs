//! The post to one keeper: what callers want is sent in batches, one at a time, and what the keeper says is handed to
//! whoever it is for. A second message waits there for news, and for the keeper it is a sign of life.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Command, Refusal, Reply, Seq, SessionId, View};
use tenure_engine::{Failure, ReplyTo, Room};
use tokio::sync::{mpsc, oneshot};

use super::call::UpdateError;
use super::gather::{Gather, Gathered, Known};
use super::line::Line;
use super::{Shared, random};
use crate::keeper::wire::{self, Answer, Batch, Lane, Mail, Said, ServerId};
use crate::keeper::workflow::{PARKED_MAX, Start};

/// The most in one message, which may have 2 MiB: an oversized one would wedge the keeper for everybody.
const BATCH_BYTES_MAX: usize = 500_000;
const BATCH_MAILS_MAX: usize = 2_000;
/// One command alone may have more than a batch of them, but not so much that its message is oversized.
const COMMAND_BYTES_MAX: usize = 1_000_000;
/// What the answer to a question may take, which comes in the same message as all others.
const VIEW_BYTES: usize = 120_000;
/// So many must have asked at once for the next message to wait for them, and for how long at most.
const COMPANY_MIN: usize = 16;
const COMPANY_WAIT_MAX: Duration = Duration::from_millis(20);
/// How long a message waits for news. Less than half of what a keeper takes for silence.
const PARK: Duration = Duration::from_secs(4);
/// How long after an answer that had nothing to say news is asked for again, where the keeper does not let it wait: there,
/// all servers together ask no more than fifty times a second.
const NEWS_AGAIN: Duration = Duration::from_millis(100);
/// The same for a server at which nobody waits for anything, and what happens is only followed.
const NEWS_AGAIN_IDLE: Duration = Duration::from_secs(1);
/// How long a call may take. A message that waits is answered in time.
const CALL_TIMEOUT: Duration = Duration::from_secs(8);
/// A keeper that begins another run turns everybody away for a moment.
const RETRY_FIRST: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_millis(200);

/// What is handed to the post.
pub(super) enum Letter {
    Command {
        ticket: u64,
        command: Box<Command>,
        nonce: Option<u128>,
        listener: Listener,
    },
    HangUp {
        ticket: u64,
        unreceived: Option<tenure_core::Token>,
    },
    Detach {
        session: SessionId,
        attachment: u64,
    },
    Query {
        query: tenure_core::Query,
        answer: oneshot::Sender<Result<View, Refusal>>,
    },
    /// Answered when all that has happened is known here.
    Follow(oneshot::Sender<()>),
    Advance {
        millis: u64,
        done: oneshot::Sender<()>,
    },
    /// Those who wait are told so, and the keeper too.
    Stop,
    /// There is nobody at the other end any more.
    Gone,
}

/// Who is told what came of a command.
#[derive(Debug)]
pub(super) enum Listener {
    One {
        reply_to: ReplyTo,
        carries: bool,
    },
    Many(Arc<Gather>),
    /// A session that a keeper knows is made known to a face: what it loses there is told to the connection that
    /// carries it, if one does, which is known by what the first keeper calls it.
    Introduced {
        carried: SessionId,
        attachment: u64,
        is_carried: bool,
    },
    Done(oneshot::Sender<()>),
}

impl Listener {
    fn returns(&self) -> bool {
        match self {
            Self::One { reply_to, .. } => reply_to.returns,
            Self::Many(gather) => gather.reply_to.returns,
            Self::Introduced { .. } | Self::Done(_) => false,
        }
    }

    /// Gives where a session has been opened in vain.
    fn fail(&self, failure: &Failure) -> Vec<Known> {
        match self {
            // Whoever does not listen need not know.
            Self::One { reply_to, .. } => drop(reply_to.send(Err(failure.clone()))),
            Self::Many(gather) => return gather.fail(failure.clone()),
            Self::Introduced { .. } | Self::Done(_) => {}
        }
        Vec::new()
    }

    /// Whether there is more to hear after this reply.
    fn hears_more_after(&self, reply: &Reply) -> bool {
        let carries = match self {
            Self::One { carries, .. } => *carries,
            Self::Many(gather) => gather.carries,
            Self::Introduced { is_carried, .. } => *is_carried,
            Self::Done(_) => false,
        };
        match reply {
            Reply::Queued(_) | Reply::Lost(_) => true,
            Reply::Session(_) => carries,
            _ => false,
        }
    }
}

/// The post's own end of the line.
pub(super) struct Post {
    pub(super) shared: Arc<Shared>,
    pub(super) line: Arc<Line>,
    pub(super) letters: mpsc::UnboundedReceiver<Letter>,
    /// For commands that have not been sent yet, of all posts.
    pub(super) room: Arc<Room>,
    server: ServerId,
    sequences: [u64; 2],
    unsent: VecDeque<(usize, Mail)>,
    listeners: HashMap<u64, Listener>,
    views: HashMap<u64, oneshot::Sender<Result<View, Refusal>>>,
    /// Those who want to know all that has happened.
    followers: Vec<oneshot::Sender<()>>,
    tickets_own: u64,
    /// By which command a connection came to carry a session, with which attachment.
    carriers: HashMap<(SessionId, u64), u64>,
    /// What was said later than what has not arrived yet, and to what.
    early: BTreeMap<u64, (Said, Arc<Batch>)>,
    heard: u64,
    /// How many there are before the same keeper.
    servers: u32,
    /// How far what happened is known here, and how far anything has.
    followed: Seq,
    last: Seq,
    sent_at: Instant,
    company: Company,
    stopping: bool,
    /// Whether the keeper has heard that this server stops, and forgotten it.
    left: bool,
    gone: bool,
}

impl Post {
    pub(super) fn new(
        shared: Arc<Shared>,
        line: Arc<Line>,
        letters: mpsc::UnboundedReceiver<Letter>,
        room: Arc<Room>,
    ) -> Self {
        Self {
            shared,
            line,
            letters,
            room,
            server: ServerId(u64::from_le_bytes(random())),
            sequences: [0; 2],
            unsent: VecDeque::new(),
            listeners: HashMap::new(),
            views: HashMap::new(),
            followers: Vec::new(),
            tickets_own: 0,
            carriers: HashMap::new(),
            early: BTreeMap::new(),
            heard: 0,
            servers: 1,
            followed: Seq(0),
            last: Seq(0),
            sent_at: Instant::now(),
            company: Company { count: 0, until: Instant::now() },
            stopping: false,
            left: false,
            gone: false,
        }
    }

    /// Runs until it is told to stop.
    pub(super) async fn run(mut self) {
        let (mut mail, mut news) = (None, None);
        let mut nothing_new: Option<Instant> = None;
        loop {
            while let Ok(letter) = self.letters.try_recv() {
                self.take(letter);
            }
            if self.gone {
                return self.end();
            }
            // An earlier answer may still be under way, in the other lane.
            let heard_all = self.early.is_empty() || news.is_none();
            if self.left && heard_all {
                // What comes before them was lost with whom it was said to.
                for (said, _) in std::mem::take(&mut self.early).into_values() {
                    self.hand_out(said);
                }
                self.answer_everybody(&Failure::Stopping);
                if !self.unsent.iter().any(|(_, mail)| is_take_back(mail)) {
                    return;
                }
                // A grant was said together with the farewell and found nobody: somebody has to take it back.
                self.begin_again();
            }
            let gathered = self.unsent.len() >= self.company.count || Instant::now() >= self.company.until;
            let something = !self.unsent.is_empty() || !self.followers.is_empty();
            if mail.is_none() && something && gathered && !self.left {
                mail = Some(self.send(Lane::Mail));
            }
            let news_at = nothing_new.map_or_else(Instant::now, |at| at + self.news_again());
            if news.is_none() && self.heard > 0 && !self.stopping && Instant::now() >= news_at {
                news = Some(self.send(Lane::News));
            }
            let pause = news_at.saturating_duration_since(Instant::now());
            let gathering = self.company.until.saturating_duration_since(Instant::now());
            tokio::select! {
                biased;
                (sent, answer) = answered(&mut mail) => {
                    mail = None;
                    self.company = Company::after(&sent, self.sent_at);
                    if matches!(answer, Err(Undelivered::Gone)) {
                        return self.end();
                    }
                    self.hear(sent, answer);
                }
                (sent, answer) = answered(&mut news) => {
                    news = None;
                    if matches!(answer, Err(Undelivered::Gone)) {
                        return self.end();
                    }
                    nothing_new = (!self.hear(sent, answer)).then(Instant::now);
                }
                letter = self.letters.recv(), if !self.stopping => match letter {
                    Some(letter) => self.take(letter),
                    // The engine was dropped without a word.
                    None => return,
                },
                () = tokio::time::sleep(pause), if news.is_none() && !pause.is_zero() => {}
                () = tokio::time::sleep(gathering), if mail.is_none() && something && !gathering.is_zero() => {}
            }
        }
    }

    fn take(&mut self, letter: Letter) {
        if self.stopping {
            // The keeper has been told that nobody here wants anything any more.
            if let Letter::Command { listener, .. } = letter {
                self.room.leave(1);
                listener.fail(&Failure::Stopping);
            }
            return;
        }
        match letter {
            Letter::Command { ticket, command, nonce, listener } => {
                let returns = listener.returns();
                self.listeners.insert(ticket, listener);
                self.put(Mail::Command { ticket, command: *command, returns, nonce });
                if self.unsent.back().is_some_and(|(bytes, _)| *bytes > COMMAND_BYTES_MAX) {
                    self.unsent.pop_back();
                    self.room.leave(1);
                    let limit = "command_bytes_max".into();
                    let refused = Refusal::LimitReached { limit, max: COMMAND_BYTES_MAX };
                    self.hand(ticket, Reply::Refused(Box::new(refused)));
                }
            }
            // A grant that is on its way still finds that nobody listens.
            Letter::HangUp { ticket, unreceived } => self.put(Mail::HangUp { ticket, unreceived }),
            Letter::Detach { session, attachment } => {
                if let Some(ticket) = self.carriers.remove(&(session, attachment)) {
                    self.listeners.remove(&ticket);
                }
                self.put(Mail::Detach { session, attachment });
            }
            Letter::Query { query, answer } => {
                if self.line.face.is_some() {
                    self.forget_unasked();
                }
                let ticket = self.own_ticket();
                self.views.insert(ticket, answer);
                self.put(Mail::Query { ticket, query });
            }
            Letter::Follow(follower) => {
                self.followers.retain(|follower| !follower.is_closed());
                self.followers.push(follower);
            }
            Letter::Advance { millis, done } => {
                let ticket = self.own_ticket();
                self.listeners.insert(ticket, Listener::Done(done));
                self.put(Mail::Advance { ticket, millis });
            }
            Letter::Stop => {
                self.stopping = true;
                self.put(Mail::Farewell);
            }
            Letter::Gone => self.gone = true,
        }
    }

    /// The face has ended, and its pool with it. It is not known what came of what was sent.
    fn end(mut self) {
        tracing::info!(face = self.line.workflow_id, "a face has ended");
        self.shared.forget(&self.line);
        self.letters.close();
        while let Ok(letter) = self.letters.try_recv() {
            self.take(letter);
        }
        self.begin_again();
    }

    /// Drops questions that nobody waits for any more: a face that is stuck would gather them until there is no room for
    /// anything else.
    fn forget_unasked(&mut self) {
        self.views.retain(|_, answer| !answer.is_closed());
        let before = self.unsent.len();
        self.unsent.retain(|(_, mail)| !matches!(mail, Mail::Query { ticket, .. } if !self.views.contains_key(ticket)));
        self.room.leave(before - self.unsent.len());
    }

    /// From the other end than those of callers.
    fn own_ticket(&mut self) -> u64 {
        self.tickets_own += 1;
        u64::MAX - self.tickets_own
    }

    fn put(&mut self, mail: Mail) {
        let bytes = if let Mail::Query { .. } = mail { VIEW_BYTES } else { wire::encode(&mail).len() };
        self.unsent.push_back((bytes, mail));
    }

    /// Makes the next message of a lane and sends it, for as long as it takes.
    fn send(&mut self, lane: Lane) -> Sent {
        let mut mail = Vec::new();
        if lane == Lane::Mail {
            let mut bytes_all = 0;
            while let Some((bytes, _)) = self.unsent.front()
                && mail.len() < BATCH_MAILS_MAX
                && (mail.is_empty() || bytes_all + bytes <= BATCH_BYTES_MAX)
            {
                bytes_all += bytes;
                mail.extend(self.unsent.pop_front().map(|(_, mail)| mail));
            }
            let counted = mail.iter().filter(|it| matches!(it, Mail::Command { .. } | Mail::Query { .. })).count();
            self.room.leave(counted);
            self.sent_at = Instant::now();
        }
        self.sequences[lane as usize] += 1;
        let follows = !self.followers.is_empty() || self.shared.is_watched();
        let batch = Batch {
            server: self.server,
            name: self.shared.options.name.clone(),
            lane,
            sequence: self.sequences[lane as usize],
            seed: random(),
            mail,
            follow: follows.then_some(self.followed),
            park_millis: if lane == Lane::News { u64::try_from(PARK.as_millis()).unwrap_or(0) } else { 0 },
        };
        let sent = Arc::new(batch);
        Box::pin(deliver(self.shared.clone(), self.line.clone(), sent))
    }

    /// Hands on what was said. False if there was nothing.
    fn hear(&mut self, sent: Arc<Batch>, answer: Result<Answer, Undelivered>) -> bool {
        if sent.server != self.server {
            // Of the life before this one, whose callers have been told that it is lost: its numbers mean nothing any
            // more, but grants that came too late do.
            if let Ok(Answer::Said(said)) = answer {
                for (ticket, token) in wire::unheard(&said.answers) {
                    self.put(Mail::HangUp { ticket, unreceived: Some(token) });
                }
            }
            return false;
        }
        match answer {
            Ok(Answer::Said(said)) => {
                let something = !said.answers.is_empty() || !said.happened.is_empty();
                // A question that did not fit is asked again.
                let mut unseen: Vec<_> = sent.mail.iter().filter_map(question).collect();
                for (ticket, view) in &said.views {
                    unseen.retain(|(unseen, _)| unseen != ticket);
                    if let Some(answer) = self.views.remove(ticket) {
                        // Whoever does not listen need not know.
                        let _ = answer.send(view.clone());
                    }
                }
                for (ticket, query) in unseen {
                    self.room.enter_anyway(1);
                    self.put(Mail::Query { ticket, query });
                }
                self.left |= sent.mail.iter().any(|mail| matches!(mail, Mail::Farewell));
                if said.number > self.heard {
                    self.early.insert(said.number, (said, sent));
                }
                while let Some((said, sent)) = self.early.remove(&(self.heard + 1)) {
                    self.heard += 1;
                    self.hand_out(said);
                    // Nothing more is said to those who have hung up.
                    for mail in &sent.mail {
                        if let Mail::HangUp { ticket, .. } = mail {
                            self.listeners.remove(ticket);
                        }
                    }
                }
                something
            }
            // It was told farewell before it came to this.
            Ok(Answer::Unknown) if self.stopping && sent.lane == Lane::News => false,
            Ok(Answer::Unknown) => {
                tracing::warn!(keeper = self.line.workflow_id, "the keeper does not know this server any more");
                // What nobody has received is taken back all the same.
                for mail in sent.mail.iter().filter(|mail| is_take_back(mail)) {
                    self.put(mail.clone());
                }
                self.begin_again();
                true
            }
            Err(Undelivered::Gone) => false,
            Err(Undelivered::Refused(why)) => {
                tracing::error!(keeper = self.line.workflow_id, why, "the keeper refuses what this server says");
                self.begin_again();
                if self.stopping {
                    // It would refuse a farewell too.
                    self.unsent.clear();
                    self.left = true;
                }
                false
            }
        }
    }

    fn news_again(&self) -> Duration {
        let places = u32::try_from(PARKED_MAX).expect("there are few");
        match self.servers {
            servers if servers <= places => NEWS_AGAIN,
            _ if self.listeners.is_empty() => NEWS_AGAIN_IDLE,
            servers => NEWS_AGAIN * servers / places,
        }
    }

    fn hand_out(&mut self, said: Said) {
        self.shared.clock.hear(said.at);
        self.servers = said.servers;
        if !said.happened.is_empty() {
            let last = said.happened.iter().map(wire::Happened::last).max().unwrap_or_default();
            self.shared.record(&self.line, self.followed, said.happened);
            self.followed = self.followed.max(last);
        }
        self.shared.announce(&self.line, said.last);
        if said.last != self.last {
            self.last = said.last;
            self.shared.changes.send_modify(|count| count.0 += 1);
        }
        if !self.followers.is_empty() && self.followed >= said.last {
            for follower in self.followers.drain(..) {
                // Whoever does not listen need not know.
                let _ = follower.send(());
            }
        }
        for (ticket, reply) in said.answers {
            self.hand(ticket, reply);
        }
    }

    fn hand(&mut self, ticket: u64, reply: Reply) {
        let Some(listener) = self.listeners.remove(&ticket) else {
            // Its connection is gone, and the keeper hears of it with the next message.
            return;
        };
        let more = listener.hears_more_after(&reply);
        if let (Reply::Session(open), true) = (&reply, more) {
            self.carriers.insert((open.id, open.attachment), ticket);
        }
        if matches!(reply, Reply::Refused(_)) {
            // It carries nothing any more.
            for carried in self.carriers.extract_if(|_, carrier| *carrier == ticket) {
                self.shared.carry_no_more(&self.line, carried.0);
            }
        }
        let unreceived = match &listener {
            Listener::One { reply_to, carries } => {
                if let (true, Reply::Session(open)) = (*carries, &reply) {
                    self.shared.carry(open, reply_to.clone(), Vec::new());
                }
                reply_to.send(Ok(reply))
            }
            Listener::Many(gather) => match gather.take(self.line.index, reply) {
                Gathered::NotYet => None,
                Gathered::Later(reply) => gather.reply_to.send(Ok(reply)),
                Gathered::Said => None,
                Gathered::All(reply, sessions) => self.shared.conclude(gather, reply, sessions),
                Gathered::InVain(known) => {
                    self.shared.detach_all([known]);
                    None
                }
            },
            Listener::Introduced { carried, attachment, is_carried: true } => {
                let carried = (*carried, *attachment);
                match reply {
                    Reply::Session(open) => {
                        self.shared.carry_too(carried, (self.line.index, open.id, open.attachment));
                    }
                    lost @ Reply::Lost(_) => self.shared.tell_carrier(carried, lost),
                    _ => {}
                }
                None
            }
            Listener::Introduced { .. } | Listener::Done(_) => None,
        };
        if let Some(token) = unreceived {
            self.put(Mail::HangUp { ticket, unreceived: Some(token) });
        } else if more {
            self.listeners.insert(ticket, listener);
        } else if let Listener::Done(done) = listener {
            if self.unsent.is_empty() {
                // Whoever does not listen need not know.
                let _ = done.send(());
            } else {
                // What came of it has still to be said: that a grant found nobody, perhaps.
                self.listeners.insert(ticket, Listener::Done(done));
                self.put(Mail::Advance { ticket, millis: 0 });
            }
        }
    }

    /// As another server, whom the keeper has never heard of. It is not known what came of what was sent.
    fn begin_again(&mut self) {
        self.answer_everybody(&Failure::Lost);
        if let Some(face) = &self.line.face {
            face.forget_sessions();
        }
        self.server = ServerId(u64::from_le_bytes(random()));
        self.sequences = [0; 2];
        self.early.clear();
        for (carried, _) in self.carriers.drain() {
            self.shared.carry_no_more(&self.line, carried);
        }
        self.heard = 0;
        let unsent = std::mem::take(&mut self.unsent);
        let counted = unsent.iter().filter(|(_, it)| matches!(it, Mail::Command { .. } | Mail::Query { .. })).count();
        self.room.leave(counted);
        self.unsent.extend(unsent.into_iter().filter(|(_, mail)| is_take_back(mail)));
        self.left = false;
        if self.stopping {
            self.put(Mail::Farewell);
        }
    }

    fn answer_everybody(&mut self, failure: &Failure) {
        for listener in std::mem::take(&mut self.listeners).into_values() {
            match &listener {
                Listener::Many(gather) if self.line.face.is_some() => self.shared.without(gather, &self.line),
                listener => self.shared.detach_all(listener.fail(failure)),
            }
        }
        self.views.clear();
        self.followers.clear();
    }
}

/// What the next message waits for: those who have just been answered ask again within moments, and Temporal's work for a
/// message grows little with what is in it.
struct Company {
    count: usize,
    until: Instant,
}

impl Company {
    /// An eighth of a round trip at most, and nothing where few ask.
    fn after(sent: &Batch, sent_at: Instant) -> Self {
        let count = sent.mail.len();
        let wait = if count < COMPANY_MIN { Duration::ZERO } else { sent_at.elapsed() / 8 };
        Self { count, until: Instant::now() + wait.min(COMPANY_WAIT_MAX) }
    }
}

type Outcome = (Arc<Batch>, Result<Answer, Undelivered>);
type Sent = std::pin::Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Why a message has no answer.
enum Undelivered {
    Refused(String),
    /// There is no such face any more.
    Gone,
}

/// The answer of a message that is under way, if one is.
async fn answered(sent: &mut Option<Sent>) -> Outcome {
    match sent {
        Some(sent) => sent.await,
        None => std::future::pending().await,
    }
}

/// Sends a message until it is known what came of it.
async fn deliver(shared: Arc<Shared>, line: Arc<Line>, batch: Arc<Batch>) -> Outcome {
    let message = wire::encode(&*batch);
    let update_id = format!("{:016x}-{}-{}", batch.server.0, batch.lane as usize, batch.sequence);
    let id = &line.workflow_id;
    let mut pause = RETRY_FIRST;
    loop {
        match shared.link.update_keeper(id, update_id.clone(), message.clone(), CALL_TIMEOUT).await {
            Ok(said) => return (batch, wire::decode(&said).map_err(|error| Undelivered::Refused(error.to_string()))),
            Err(UpdateError::Refused(why)) => return (batch, Err(Undelivered::Refused(why))),
            Err(UpdateError::NotFound) if line.face.is_some() => {
                // It may have begun another run this moment.
                if let Ok(false) = crate::faces::is_running(&shared.link, id).await {
                    return (batch, Err(Undelivered::Gone));
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY_MAX);
            }
            Err(UpdateError::NotFound) => {
                match shared.link.start_keeper(id, &Start::New(shared.settings(line.index))).await {
                    // Nobody but an operator ends a keeper.
                    Ok(true) if batch.sequence > 1 => tracing::warn!(
                        keeper = id,
                        "the keeper was ended from outside, and what it held is forgotten: another is started"
                    ),
                    Ok(true) => tracing::info!(keeper = id, "a keeper is started"),
                    // Another server was faster, or it has begun another run.
                    Ok(false) => {}
                    Err(_) => {
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(RETRY_MAX);
                    }
                }
            }
            Err(UpdateError::Unknown(why)) => {
                tracing::debug!(keeper = id, why, "a message is sent again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY_MAX);
            }
        }
    }
}

fn is_take_back(mail: &Mail) -> bool {
    matches!(mail, Mail::HangUp { unreceived: Some(_), .. })
}

fn question(mail: &Mail) -> Option<(u64, tenure_core::Query)> {
    match mail {
        Mail::Query { ticket, query } => Some((*ticket, query.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

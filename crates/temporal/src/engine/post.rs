//! The post to one keeper: what callers want is sent in batches, one at a time, and what the keeper says is handed to
//! whoever it is for. A second message waits there for news, while anybody here waits for some.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tenure_core::{Command, Refusal, Reply, Seq, SessionId, View};
use tenure_engine::{Failure, ReplyTo};
use tokio::sync::{mpsc, oneshot};

use super::call::UpdateError;
use super::gather::{Gather, Gathered};
use super::line::Line;
use super::{Shared, random};
use crate::keeper::wire::{self, Answer, Batch, Lane, Mail, Said, ServerId};
use crate::keeper::workflow::Start;

/// The most in one message, which may have 2 MiB: an oversized one would wedge the keeper for everybody.
const BATCH_BYTES_MAX: usize = 500_000;
const BATCH_MAILS_MAX: usize = 2_000;
/// What the answer to a question may take, which comes in the same message as all others.
const VIEW_BYTES: usize = 120_000;
/// How long a message waits for news. Less than half of what a keeper takes for silence.
const PARK: Duration = Duration::from_secs(4);
/// How long after an answer that had nothing to say news is asked for again, where the keeper does not let it wait.
const NEWS_AGAIN: Duration = Duration::from_millis(100);
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

    fn fail(&self, failure: &Failure) {
        match self {
            // Whoever does not listen need not know.
            Self::One { reply_to, .. } => drop(reply_to.send(Err(failure.clone()))),
            Self::Many(gather) => gather.fail(failure.clone()),
            Self::Introduced { .. } | Self::Done(_) => {}
        }
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
    /// Commands that have not been sent yet, of all posts.
    pub(super) depth: Arc<AtomicUsize>,
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
    /// How far what happened is known here.
    followed: Seq,
    stopping: bool,
    gone: bool,
}

impl Post {
    pub(super) fn new(
        shared: Arc<Shared>,
        line: Arc<Line>,
        letters: mpsc::UnboundedReceiver<Letter>,
        depth: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            shared,
            line,
            letters,
            depth,
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
            followed: Seq(0),
            stopping: false,
            gone: false,
        }
    }

    /// Runs until it is told to stop.
    pub(super) async fn run(mut self) {
        let (mut mail, mut news) = (None, None);
        let mut news_at = Instant::now();
        loop {
            while let Ok(letter) = self.letters.try_recv() {
                self.take(letter);
            }
            if self.gone {
                return self.end();
            }
            if mail.is_none() && (!self.unsent.is_empty() || !self.followers.is_empty()) {
                mail = Some(self.send(Lane::Mail));
            }
            // An earlier answer may still be under way, in the other lane.
            let heard_all = self.early.is_empty() || news.is_none();
            if self.stopping && mail.is_none() && self.unsent.is_empty() && heard_all {
                self.answer_everybody(&Failure::Stopping);
                return;
            }
            let waits = !self.listeners.is_empty() || self.shared.is_watched();
            if news.is_none() && waits && self.heard > 0 && !self.stopping && Instant::now() >= news_at {
                news = Some(self.send(Lane::News));
            }
            let pause = news_at.saturating_duration_since(Instant::now());
            tokio::select! {
                biased;
                (sent, answer) = answered(&mut mail) => {
                    mail = None;
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
                    if !self.hear(sent, answer) {
                        news_at = Instant::now() + NEWS_AGAIN;
                    }
                }
                letter = self.letters.recv(), if !self.stopping => match letter {
                    Some(letter) => self.take(letter),
                    // The engine was dropped without a word.
                    None => return,
                },
                () = tokio::time::sleep(pause), if waits && news.is_none() && !pause.is_zero() => {}
                () = self.shared.watched(), if !waits => {}
            }
        }
    }

    fn take(&mut self, letter: Letter) {
        if self.stopping {
            // The keeper has been told that nobody here wants anything any more.
            if let Letter::Command { listener, .. } = letter {
                self.depth.fetch_sub(1, Ordering::AcqRel);
                listener.fail(&Failure::Stopping);
            }
            return;
        }
        match letter {
            Letter::Command { ticket, command, nonce, listener } => {
                let returns = listener.returns();
                self.listeners.insert(ticket, listener);
                self.put(Mail::Command { ticket, command: *command, returns, nonce });
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
                let ticket = self.own_ticket();
                self.views.insert(ticket, answer);
                self.put(Mail::Query { ticket, query });
            }
            Letter::Follow(follower) => self.followers.push(follower),
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
            self.depth.fetch_sub(counted, Ordering::AcqRel);
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
                    self.depth.fetch_add(1, Ordering::AcqRel);
                    self.put(Mail::Query { ticket, query });
                }
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
                self.begin_again();
                true
            }
            Err(Undelivered::Gone) => false,
            Err(Undelivered::Refused(why)) => {
                tracing::error!(keeper = self.line.workflow_id, why, "the keeper refuses what this server says");
                self.begin_again();
                false
            }
        }
    }

    fn hand_out(&mut self, said: Said) {
        self.shared.clock.hear(said.at);
        if !said.happened.is_empty() {
            let last = said.happened.iter().map(wire::Happened::last).max().unwrap_or_default();
            self.shared.record(&self.line, self.followed, said.happened);
            self.followed = self.followed.max(last);
        }
        self.shared.announce(&self.line, said.last);
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
                Gathered::All(reply, sessions) => {
                    if let (true, Reply::Session(open)) = (gather.carries, &reply) {
                        self.shared.carry(open, gather.reply_to.clone(), sessions);
                    }
                    gather.reply_to.send(Ok(reply))
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
        self.depth.fetch_sub(counted, Ordering::AcqRel);
        if self.stopping {
            self.put(Mail::Farewell);
        }
    }

    fn answer_everybody(&mut self, failure: &Failure) {
        for listener in std::mem::take(&mut self.listeners).into_values() {
            match &listener {
                Listener::Many(gather) if self.line.face.is_some() => self.shared.without(gather, &self.line),
                listener => listener.fail(failure),
            }
        }
        self.views.clear();
        self.followers.clear();
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

fn question(mail: &Mail) -> Option<(u64, tenure_core::Query)> {
    match mail {
        Mail::Query { ticket, query } => Some((*ticket, query.clone())),
        _ => None,
    }
}

//! A keeper: the rules for some of the pools, and the servers that ask on behalf of their callers. Knows nothing of
//! Temporal; a workflow tells it the time and keeps it alive.

#[cfg(test)]
mod fuzzing;
mod house;
mod snapshot;
pub(crate) mod wire;
pub(crate) mod workflow;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tenure_core::{
    Change, Command, HoldView, Limits, Machine, Numbering, Refusal, Reply, Seq, State, Timestamp, Ttl, View,
};
use tenure_engine::{Audience, Caller, Desk, Nonces};
use tenure_script::RhaiPolicies;

use wire::{Answer, Batch, Happened, Lane, Mail, Said, ServerId};

/// A server that was not heard of for so long is gone: its sessions have lost their connections.
const SILENCE_MAX: Ttl = Ttl::from_millis(10_000);
/// Of a message, which may have 2 MiB: room is left for one more command's answer.
const ANSWER_BYTES_MAX: usize = 1_400_000;
/// Of what may be carried into the next run, which may be 2 MiB: room is left for what is under way.
pub(crate) const STATE_BYTES_MAX: usize = 1_200_000;
/// How much of what happened is kept for those who follow it.
const HAPPENED_BYTES_MAX: usize = 256_000;
/// The size of the state is reckoned anew after so many bytes of commands that may have made it larger.
const BYTES_UNMEASURED_MAX: usize = 64_000;
/// What such a command leaves in the state besides what it says.
const ENTRY_BYTES: usize = 200;
/// How much is told of those who are in the way, in all refusals that one message is answered with: what has not been said yet
/// is carried into the next run too.
const DETAILS_BYTES_MAX: usize = 100_000;
/// Fewer than on a disk: each is carried from run to run.
const REQUESTS_REMEMBERED_MAX: usize = 2_048;

/// How many servers that are gone are remembered.
const GONE_MAX: usize = 64;

/// What does not change in the life of a keeper, however often it is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) limits: Limits,
    /// Which of how many it is.
    pub(crate) index: u64,
    pub(crate) of: u64,
    /// What the keys of a face's holds end with. A face has one pool, which people's workflows ask for by signals.
    pub(crate) face: Option<u16>,
    /// From when on time passes only as it is told, if it does.
    pub(crate) time_told_from: Option<Timestamp>,
}

/// At most so many keepers: which of them made a key is in its last six bits.
pub(crate) const KEEPERS_MAX: u64 = 64;

impl Settings {
    /// Whether it is one of as many keepers as there may be.
    fn check(self) -> Result<(), String> {
        let Self { index, of, .. } = self;
        if index < of && of <= KEEPERS_MAX { Ok(()) } else { Err(format!("there is no keeper {index} of {of}")) }
    }

    /// What the keys of its holds end with. A single keeper leaves no mark.
    fn mark(self) -> Option<Mark> {
        let face = self.face.map(|mark| Mark { of: FACE_MARKS, mark: u128::from(mark) });
        let keeper = || Mark { of: u128::from(KEEPERS_MAX), mark: u128::from(self.index % KEEPERS_MAX) };
        face.or_else(|| (self.of > 1).then(keeper))
    }
}

/// The last sixteen bits of a key say which face made it, if one did.
pub(crate) const FACE_MARKS: u128 = 1 << 16;

/// A number's rest, divided by `of`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Mark {
    of: u128,
    mark: u128,
}

/// A caller of some server, or of the house.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Remote {
    server: ServerId,
    ticket: u64,
    returns: bool,
}

impl Caller for Remote {
    type Id = (ServerId, u64);

    fn id(&self) -> Self::Id {
        (self.server, self.ticket)
    }

    fn returns(&self) -> bool {
        self.returns
    }
}

pub(crate) struct Keeper {
    settings: Settings,
    desk: Desk<Remote>,
    nonces: Arc<Mutex<Seeded>>,
    servers: BTreeMap<ServerId, Server>,
    /// What the house has yet to hear.
    house: Vec<(u64, Reply)>,
    /// Those who were here last: a message of theirs may have been under way when they were forgotten.
    gone: VecDeque<ServerId>,
    /// How much time has passed, if it is told.
    passed: Ttl,
    happened: VecDeque<(usize, Happened)>,
    happened_bytes: usize,
    /// As of the last time it was reckoned.
    state_bytes: usize,
    /// What has come to it since, at most.
    unmeasured_bytes: usize,
    /// Whether something may have ended since then.
    may_have_shrunk: bool,
    /// Since this run began.
    commands: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Server {
    name: String,
    heard: Timestamp,
    /// How many answers it has been given.
    answers: u64,
    /// What is to be told it with the next one.
    news: Vec<(u64, Reply)>,
    lanes: [LaneState; 2],
    follows: Option<Seq>,
    /// How much is in the news about those who are in the way.
    #[serde(skip)]
    details_bytes: usize,
}

/// The last message of a lane and what was said to it, in case that is asked again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct LaneState {
    sequence: u64,
    said: Option<Said>,
}

/// With scripts: they give the same whenever the workflow is played again, wherever that is.
fn machine(state: State, limits: Limits) -> Machine {
    Machine::restored(state, limits).with_policies(Arc::new(RhaiPolicies::new()))
}

impl Keeper {
    pub(crate) fn new(settings: Settings) -> Self {
        let mut state = State::new(settings.limits.pool_idle);
        state.remember_at_most(REQUESTS_REMEMBERED_MAX);
        state.number(Numbering { index: settings.index, of: settings.of });
        Self::with_state(settings, state, Audience { listeners: Vec::new(), carriers: Vec::new(), told: Vec::new() })
    }

    fn with_state(settings: Settings, state: State, audience: Audience<Remote>) -> Self {
        let nonces = Arc::new(Mutex::new(Seeded { mark: settings.mark(), ..Seeded::default() }));
        let desk = Desk::moved(machine(state, settings.limits), numbers(&nonces), audience);
        Self {
            settings,
            desk,
            nonces,
            servers: BTreeMap::new(),
            house: Vec::new(),
            gone: VecDeque::new(),
            passed: Ttl::from_millis(0),
            happened: VecDeque::new(),
            happened_bytes: 0,
            state_bytes: 0,
            unmeasured_bytes: 0,
            may_have_shrunk: false,
            commands: 0,
        }
    }

    /// Since this run began.
    pub(crate) fn commands(&self) -> usize {
        self.commands
    }

    /// When [`Keeper::tick`] has something to do, by the workflow's clock.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        let silent = self.servers.values().map(|server| server.heard + SILENCE_MAX).min();
        let due = [self.desk.next_deadline(), silent].into_iter().flatten().min()?;
        // Where time is told, nothing comes due by itself.
        self.settings.time_told_from.is_none().then_some(due)
    }

    /// Ends what is due, and whoever was silent for too long.
    pub(crate) fn tick(&mut self, clock: Timestamp) {
        let at = self.time(clock);
        self.open(at);
        let silent = |server: &Server| server.heard + SILENCE_MAX <= at;
        let gone: Vec<_> = self.servers.iter().filter(|(_, it)| silent(it)).map(|(id, _)| *id).collect();
        for id in gone {
            self.forget(id);
        }
        self.finish();
    }

    /// Does what a message asks for, and answers it.
    pub(crate) fn batch(&mut self, clock: Timestamp, batch: Batch) -> Answer {
        let at = self.time(clock);
        let lane = batch.lane as usize;
        if !self.servers.contains_key(&batch.server) {
            // The house has no need of messages, and its numbers for those who wait are its own.
            let may_come = batch.server != ServerId::HOUSE && !self.gone.contains(&batch.server);
            let is_new = batch.lane == Lane::Mail && batch.sequence == 1 && may_come;
            if !is_new {
                return Answer::Unknown;
            }
            self.welcome(at, &batch);
        }
        let server = self.servers.get_mut(&batch.server).expect("it is known or welcome");
        server.heard = at;
        server.follows = batch.follow;
        if server.lanes[lane].sequence == batch.sequence
            && let Some(said) = server.lanes[lane].said.clone()
        {
            // It was handled, and the answer got lost. What it asked to see, it sees as it is now.
            let views = self.look(&batch.mail, at, ANSWER_BYTES_MAX);
            return Answer::Said(Said { views, ..said });
        }
        if server.lanes[lane].sequence.checked_add(1) != Some(batch.sequence) {
            return Answer::Unknown;
        }
        lock(&self.nonces).mix(&batch.seed);
        self.may_have_shrunk = true;
        self.open(at);
        for mail in &batch.mail {
            self.make_room();
            self.handle(batch.server, mail);
        }
        self.finish();
        let said = self.say(&batch);
        if batch.mail.iter().any(|mail| matches!(mail, Mail::Farewell)) {
            self.open(self.desk.now());
            self.forget(batch.server);
            self.finish();
        }
        Answer::Said(said)
    }

    /// Whether a message of this server, which waits for news, should wait no longer.
    pub(crate) fn has_news(&self, id: ServerId) -> bool {
        let Some(server) = self.servers.get(&id) else { return true };
        let last = self.desk.state().counters().seq;
        !server.news.is_empty() || server.follows.is_some_and(|follows| follows < last)
    }

    /// Whether the message is one that waits, and has reason to. Whoever sent it has been heard.
    pub(crate) fn is_patient(&mut self, clock: Timestamp, batch: &Batch) -> bool {
        let at = self.time(clock);
        if let Some(server) = self.servers.get_mut(&batch.server) {
            server.heard = at;
            server.follows = batch.follow;
        }
        batch.park_millis > 0 && batch.mail.is_empty() && !self.has_news(batch.server)
    }

    /// By the workflow's clock, or as it is told; never earlier than before.
    fn time(&self, clock: Timestamp) -> Timestamp {
        let time = self.settings.time_told_from.map_or(clock, |from| from + self.passed);
        time.max(self.desk.now())
    }

    fn welcome(&mut self, at: Timestamp, batch: &Batch) {
        self.open(at);
        let former: Vec<_> = self.servers.iter().filter(|(_, it)| it.name == batch.name).map(|(id, _)| *id).collect();
        for id in former {
            self.forget(id);
        }
        self.finish();
        // Nobody could be heard meanwhile: sessions get their time again. But the workflows that wait at a face are
        // still there, whatever became of the servers.
        if self.servers.is_empty() && self.settings.face.is_none() {
            self.desk.restart(at);
            self.finish();
        }
        let lanes = [LaneState::default(), LaneState::default()];
        let (name, news) = (batch.name.clone(), Vec::new());
        let server = Server { name, heard: at, answers: 0, news, lanes, follows: None, details_bytes: 0 };
        self.servers.insert(batch.server, server);
    }

    /// Its connections are gone, and nobody waits on its behalf.
    fn forget(&mut self, id: ServerId) {
        let forgotten = self.servers.remove(&id);
        self.gone.push_back(id);
        if self.gone.len() > GONE_MAX {
            self.gone.pop_front();
        }
        let audience = self.desk.audience();
        for (session, attachment, caller) in audience.carriers {
            if caller.server == id {
                self.make_room();
                self.desk.detach(session, attachment);
            }
        }
        for caller in audience.listeners.into_iter().flat_map(|(_, callers)| callers) {
            if caller.server == id {
                self.make_room();
                self.desk.lose(caller.id());
            }
        }
        // Only now, when no other caller of the same server can be next.
        for (ticket, token) in forgotten.map(|server| wire::unheard(&server.news)).unwrap_or_default() {
            self.make_room();
            self.desk.hang_up((id, ticket), Some(token));
        }
    }

    fn handle(&mut self, server: ServerId, mail: &Mail) {
        match mail {
            Mail::Command { ticket, command, returns, nonce } => {
                self.commands += 1;
                let caller = Remote { server, ticket: *ticket, returns: *returns };
                if let Some(refused) = self.refused_by_face(command) {
                    self.tell(caller, Reply::Refused(Box::new(refused)));
                    return;
                }
                if is_new_work(command) && self.is_heavy() {
                    let limit = "keeper_bytes_max".into();
                    let refused = Refusal::LimitReached { limit, max: STATE_BYTES_MAX };
                    self.tell(caller, Reply::Refused(Box::new(refused)));
                    return;
                }
                self.unmeasured_bytes += growth(command);
                lock(&self.nonces).next = *nonce;
                self.desk.command(self.once(command.clone(), *nonce), caller);
            }
            Mail::HangUp { ticket, unreceived } => self.desk.hang_up((server, *ticket), *unreceived),
            Mail::Detach { session, attachment } => self.desk.detach(*session, *attachment),
            // Looked up when all has been done.
            Mail::Query { .. } => {}
            // Said farewell to when it has its answers.
            Mail::Farewell => {}
            Mail::Advance { ticket, millis } => {
                if let Some(from) = self.settings.time_told_from {
                    self.passed = Ttl::from_millis(self.passed.as_millis().saturating_add(*millis));
                    self.advance(from + self.passed);
                }
                // After all that came of it.
                self.close();
                self.desk.begin(self.desk.now());
                self.tell(Remote { server, ticket: *ticket, returns: false }, Reply::Done);
            }
        }
    }

    fn advance(&mut self, at: Timestamp) {
        // Those who are silent only because time was told are not gone.
        for server in self.servers.values_mut() {
            server.heard = at;
        }
        loop {
            self.close();
            self.desk.begin(at);
            if self.desk.next_deadline().is_none_or(|deadline| deadline > at) {
                return;
            }
        }
    }

    /// Ends the desk's batch: what happened is kept, and answers wait to be said.
    /// Opens a batch in which nothing is due any more: it may be too much for one.
    fn open(&mut self, at: Timestamp) {
        self.desk.begin(at);
        self.make_room();
    }

    /// Nothing can be done in a batch that is full, and more may be due than it had room for.
    fn make_room(&mut self) {
        while self.desk.is_full() {
            let at = self.desk.batch_time();
            self.close();
            self.desk.begin(at);
        }
    }

    /// Closes the batch when nothing is due any more: between two messages a run may end, and what is due is not handed on.
    fn finish(&mut self) {
        self.make_room();
        self.close();
    }

    fn close(&mut self) {
        let batch = self.desk.finish();
        for (caller, reply) in batch.answers {
            self.tell(caller, reply);
        }
        if !batch.events.is_empty() {
            let happened = Happened { first: batch.first, at: batch.at, events: batch.events };
            let bytes = wire::encode(&happened).len();
            self.happened_bytes += bytes;
            self.happened.push_back((bytes, happened));
            while self.happened_bytes > HAPPENED_BYTES_MAX && self.happened.len() > 1 {
                self.happened_bytes -= self.happened.pop_front().map_or(0, |(bytes, _)| bytes);
            }
        }
    }

    fn tell(&mut self, caller: Remote, mut reply: Reply) {
        if caller.server == ServerId::HOUSE {
            self.house.push((caller.ticket, reply));
            return;
        }
        // Nobody is told who is gone.
        if let Some(server) = self.servers.get_mut(&caller.server) {
            if let Reply::Refused(refusal) = &mut reply
                && let Some(details) = details(refusal)
            {
                if server.details_bytes > DETAILS_BYTES_MAX {
                    details.clear();
                }
                server.details_bytes += wire::encode(details).len();
            }
            server.news.push((caller.ticket, reply));
        }
    }

    /// Says all there is to say to a server, as the answer to this message.
    fn say(&mut self, batch: &Batch) -> Said {
        let last = self.desk.state().counters().seq;
        let (at, servers) = (self.desk.now(), u32::try_from(self.servers.len()).unwrap_or(u32::MAX));
        let Some(server) = self.servers.get_mut(&batch.server) else {
            let nothing = Vec::new();
            return Said { number: 0, at, answers: Vec::new(), views: Vec::new(), last, happened: nothing, servers };
        };
        let server_heard = server.heard;
        let mut bytes = 0;
        let fitting = server.news.iter().take_while(|it| {
            bytes += wire::encode(it).len();
            bytes <= ANSWER_BYTES_MAX
        });
        let fitting = fitting.count().max(1).min(server.news.len());
        let answers: Vec<_> = server.news.drain(..fitting).collect();
        server.answers += 1;
        server.details_bytes = 0;
        let number = server.answers;
        let mut said = Said { number, at, answers, views: Vec::new(), last, happened: Vec::new(), servers };
        server.lanes[batch.lane as usize] = LaneState { sequence: batch.sequence, said: Some(said.clone()) };
        // Longer ago than this server was heard of, perhaps, if nothing has happened since.
        let asked = server_heard.max(at);
        said.views = self.look(&batch.mail, asked, ANSWER_BYTES_MAX.saturating_sub(bytes));
        if let Some(follow) = batch.follow {
            said.happened = self.happened_since(follow, ANSWER_BYTES_MAX.saturating_sub(bytes) / 2);
            // Its other message is not to bring the same.
            if let (Some(last), Some(server)) = (said.happened.last(), self.servers.get_mut(&batch.server)) {
                server.follows = Some(last.last());
            }
        }
        said
    }

    fn look(&self, mail: &[Mail], at: Timestamp, mut bytes_max: usize) -> Vec<(u64, Result<View, Refusal>)> {
        let mut views = Vec::new();
        for mail in mail {
            if let Mail::Query { ticket, query } = mail {
                let mut view = self.desk.query_at(query, at);
                let mut bytes = wire::encode(&view).len();
                if bytes > ANSWER_BYTES_MAX {
                    let limit = "answer_bytes_max".into();
                    view = Err(Refusal::LimitReached { limit, max: ANSWER_BYTES_MAX });
                    bytes = 0;
                }
                if bytes > bytes_max {
                    // Asked again, in a message of its own.
                    break;
                }
                bytes_max -= bytes;
                views.push((*ticket, view));
            }
        }
        views
    }

    fn happened_since(&self, after: Seq, bytes_max: usize) -> Vec<Happened> {
        let mut bytes_all = 0;
        let news = self.happened.iter().filter(|(_, happened)| happened.last() > after);
        let fitting = news.take_while(|(bytes, _)| {
            bytes_all += bytes;
            bytes_all <= bytes_max
        });
        fitting.map(|(_, happened)| happened.clone()).collect()
    }

    /// Whether there is no room for more.
    pub(crate) fn is_heavy(&mut self) -> bool {
        let is_doubtful = self.state_bytes + self.unmeasured_bytes > STATE_BYTES_MAX;
        if is_doubtful && (self.may_have_shrunk || self.unmeasured_bytes >= BYTES_UNMEASURED_MAX) {
            self.unmeasured_bytes = 0;
            self.may_have_shrunk = false;
            self.state_bytes = self.snapshot_bytes();
        }
        self.state_bytes + self.unmeasured_bytes > STATE_BYTES_MAX
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// How much larger the state may be after it.
fn growth(command: &Command) -> usize {
    match command {
        // What it says may be there twice: with a pool, and with a hold.
        Command::SetCondition(_) | Command::ChangeSeen { .. } | Command::Reserve(_) | Command::Steal(_) => {
            ENTRY_BYTES + 2 * wire::encode(command).len()
        }
        _ if is_new_work(command) => ENTRY_BYTES + 2 * wire::encode(command).len(),
        _ => 0,
    }
}

/// Whether it is refused where there is no room for more.
fn is_new_work(command: &Command) -> bool {
    let changes_pool = matches!(command, Command::ChangeSeen { change: Change::Pool(_), .. });
    changes_pool || matches!(command, Command::Acquire(_) | Command::OpenSession(_) | Command::SetPool(_))
}

/// Who is in the way, as a refusal tells it.
fn details(refusal: &mut Refusal) -> Option<&mut Vec<HoldView>> {
    match refusal {
        Refusal::Busy(room) | Refusal::TimedOut(room) => Some(&mut room.holders),
        Refusal::MovedOn { now, .. } => Some(now),
        _ => None,
    }
}

/// Numbers that nobody can guess who does not know all seeds: what servers send is mixed in, and never taken out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Seeded {
    seed: [u8; 32],
    count: u64,
    /// What each ends with.
    mark: Option<Mark>,
    /// The next one, if it was told.
    next: Option<u128>,
}

impl Seeded {
    fn mix(&mut self, seed: &[u8; 32]) {
        let mixed = ring::digest::digest(&ring::digest::SHA256, &[self.seed, *seed].concat());
        self.seed.copy_from_slice(mixed.as_ref());
        self.count = 0;
    }

    fn next(&mut self) -> u128 {
        self.next.take().unwrap_or_else(|| {
            self.count += 1;
            let drawn =
                ring::digest::digest(&ring::digest::SHA256, &[&self.seed[..], &self.count.to_le_bytes()].concat());
            let half = drawn.as_ref().first_chunk().expect("32 bytes have 16");
            let drawn = u128::from_le_bytes(*half);
            self.mark.map_or(drawn, |Mark { of, mark }| drawn - drawn % of + mark)
        })
    }
}

fn numbers(seeded: &Arc<Mutex<Seeded>>) -> Nonces {
    let seeded = seeded.clone();
    Box::new(move || lock(&seeded).next())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

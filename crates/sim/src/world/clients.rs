//! What clients do by themselves: ask again when they hear nothing, come back when their connection is gone, renew what they
//! use, and let go of it.

use tenure_core::{Acquire, Command, Key, Lifetime, Namespace, Release, Renew, Reply};
use tenure_engine::Failure;

use super::network::Connection;
use super::{Happening, World};
use crate::client::{Call, Held, command};
use crate::model::Heard;
use crate::plan::{Ask, AskAcquire, Fate, Lie, Life, Micros, Then};
use crate::random::Random;

/// How often a call is made again.
const TRIES_MAX: u8 = 3;

#[derive(Clone, Copy, Debug)]
pub(super) enum Timer {
    /// No answer has come.
    Timeout {
        call: u64,
        tries: u8,
    },
    /// A connection is gone: once more.
    Again {
        call: u64,
    },
    Resume {
        session: Key,
    },
    Renew {
        held: usize,
        every: Micros,
        until: Micros,
    },
    Release {
        held: usize,
    },
}

impl World<'_> {
    pub(super) fn ask(&mut self, client: usize, ask: &Ask, fate: Fate, luck: Random) {
        if let Ask::Lie(Lie::StaleDetach) = ask {
            let known = self.clients.iter().flat_map(|client| &client.sessions).next_back();
            if let Some(open) = known.filter(|open| open.attachment > 0) {
                let (session, attachment) = (open.id, open.attachment - 1);
                self.counts.client("client lied");
                self.post(Heard::Detach { session, attachment }, None);
            }
            return;
        }
        if let Ask::Crowd { pool, count } = ask {
            self.counts.client("crowd");
            let mut luck = luck;
            for _ in 0..*count {
                let one = Ask::Acquire(AskAcquire::plain(*pool, Life::Leased(1 + luck.small(5_000))));
                self.ask(client, &one, fate, Random::new(luck.next()));
            }
            return;
        }
        let Some(command) = command(&mut self.clients, client, ask) else { return };
        if matches!(ask, Ask::Lie(_)) {
            self.counts.client("client lied");
        }
        let then = match ask {
            Ask::Acquire(AskAcquire { then, .. }) => *then,
            _ => Then::Forget,
        };
        let opens_stream = match &command {
            Command::OpenSession(open) => open.attached,
            Command::AttachSession { .. } => true,
            _ => false,
        };
        self.calls += 1;
        let call = Call { command, opens_stream, then, tries: 0, waiting: false, luck };
        let id = self.calls;
        self.note(|| format!("client {client} call {id}: {:?} {fate:?}", call.command));
        self.clients[client].calls.insert(id, call);
        self.make(client, id, fate);
    }

    /// Makes a call, for the first time or again.
    fn make(&mut self, client: usize, id: u64, fate: Fate) {
        let paused_until = self.clients[client].paused_until;
        if paused_until > self.time {
            self.at(paused_until, Happening::Timer { client, timer: Timer::Again { call: id } });
            return;
        }
        let Some(call) = self.clients[client].calls.get_mut(&id) else { return };
        call.tries += 1;
        call.waiting = false;
        let (command, opens_stream, tries) = (call.command.clone(), call.opens_stream, call.tries);
        let luck = Random::new(call.luck.next());
        let patience = call.luck.between(500_000, 3_000_000);
        let carried = self.clients[client].stream.filter(|(_, session)| match &command {
            Command::Acquire(acquire) => acquire.session.is_some() && acquire.session == *session,
            Command::EndSession { session: ended, .. } => Some(*ended) == *session,
            Command::Renew(_) | Command::Release(_) | Command::Withdraw { .. } => {
                session.is_some() && !id.is_multiple_of(4)
            }
            _ => false,
        });
        let connection = match carried {
            Some((connection, _)) => connection,
            None => {
                let fate = if opens_stream { Fate::Fine } else { fate };
                self.connections.push(Connection::new(client, opens_stream, fate, luck));
                self.connections.len() - 1
            }
        };
        if opens_stream && let Some((before, _)) = self.clients[client].stream.replace((connection, None)) {
            // A client has one at a time, and closes the one before.
            self.cut(before, Random::new(id));
        }
        self.later(patience, Happening::Timer { client, timer: Timer::Timeout { call: id, tries } });
        self.send(connection, id, &command);
    }

    pub(super) fn deliver(&mut self, connection: usize, id: u64, reply: Result<Reply, Failure>) {
        let client = self.connections[connection].client;
        let paused_until = self.clients[client].paused_until;
        if paused_until > self.time {
            self.at(paused_until, Happening::Deliver { connection, call: id, reply: Box::new(reply) });
            return;
        }
        self.note(|| format!("client {client} hears of call {id}"));
        let me = &mut self.clients[client];
        let Some(call) = me.calls.get_mut(&id) else { return };
        match reply {
            Ok(Reply::Queued(queued)) => {
                call.waiting = true;
                if let Command::Acquire(acquire) = &call.command {
                    let pool = acquire.pool.clone();
                    me.waits.push((pool, queued.waiter));
                }
            }
            Ok(Reply::Granted(grant)) => {
                let then = call.then;
                me.calls.remove(&id);
                if me.held.iter().any(|held| held.key == grant.key) {
                    return;
                }
                let held = me.held.len();
                me.held.push(Held { pool: grant.pool, token: grant.token, key: grant.key });
                let Then::Use(millis) = then else { return };
                let until = self.time + u64::from(millis) * 1_000;
                self.at(until, Happening::Timer { client, timer: Timer::Release { held } });
                // A lease much shorter than its use is renewed some times, and lost in between.
                if let Lifetime::Leased(ttl) | Lifetime::Session(Some(ttl)) = grant.lifetime {
                    let every = (ttl.as_millis() * 1_000 / 3).max(u64::from(millis) * 1_000 / 8).max(1_000);
                    self.renew_later(client, held, every, until);
                }
            }
            Ok(Reply::Session(open)) => {
                call.waiting = true;
                let opens_stream = call.opens_stream;
                if let Some((_, session)) = me.stream.as_mut().filter(|(at, _)| *at == connection) {
                    *session = Some(open.key);
                }
                match me.sessions.iter_mut().find(|session| session.key == open.key) {
                    Some(known) => *known = open,
                    None => me.sessions.push(open),
                }
                if !opens_stream {
                    me.calls.remove(&id);
                }
            }
            Ok(Reply::Lost(_)) => {}
            Err(Failure::Stopping) => self.again_later(client, id),
            Ok(_) | Err(_) => {
                me.calls.remove(&id);
            }
        }
    }

    fn renew_later(&mut self, client: usize, held: usize, every: Micros, until: Micros) {
        if self.time + every < until {
            self.later(every, Happening::Timer { client, timer: Timer::Renew { held, every, until } });
        }
    }

    /// A call is made again if that is safe.
    fn again_later(&mut self, client: usize, id: u64) {
        let Some(call) = self.clients[client].calls.get_mut(&id) else { return };
        let safe = match &call.command {
            Command::Acquire(Acquire { request, .. }) => request.is_some(),
            _ => !call.opens_stream,
        };
        if !safe || call.tries >= TRIES_MAX {
            self.clients[client].calls.remove(&id);
            return;
        }
        let wait = call.luck.below(300_000);
        self.later(wait, Happening::Timer { client, timer: Timer::Again { call: id } });
    }

    /// A client notices that a connection is gone.
    pub(super) fn broken(&mut self, connection: usize) {
        let client = self.connections[connection].client;
        let me = &mut self.clients[client];
        if let Some((_, session)) = me.stream.take_if(|(at, _)| *at == connection)
            && let Some(session) = session
        {
            let wait = self.random.below(500_000);
            self.later(wait, Happening::Timer { client, timer: Timer::Resume { session } });
        }
        let calls = std::mem::take(&mut self.connections[connection].calls);
        for id in calls {
            self.again_later(client, id);
        }
    }

    /// A client gives up a call: the server hears of it.
    pub(super) fn hang_up(&mut self, client: usize, which: u8, mut luck: Random) {
        let call = self.clients[client].calls.keys().rev().nth(usize::from(which)).copied();
        let Some(call) = call else { return };
        let own = |(_, line): &(usize, &Connection)| !line.is_stream && line.has_call(call);
        let Some((connection, _)) = self.connections.iter().enumerate().find(own) else { return };
        self.counts.client("client hung up");
        self.clients[client].calls.remove(&call);
        let wait = luck.below(3_000);
        self.later(wait, Happening::Missed { connection });
    }

    pub(super) fn timer(&mut self, client: usize, timer: Timer) {
        let paused_until = self.clients[client].paused_until;
        if paused_until > self.time {
            self.at(paused_until, Happening::Timer { client, timer });
            return;
        }
        match timer {
            Timer::Timeout { call: id, tries } => {
                let silent =
                    self.clients[client].calls.get(&id).is_some_and(|call| !call.waiting && call.tries == tries);
                if silent {
                    self.again_later(client, id);
                }
            }
            Timer::Again { call } => {
                if self.clients[client].calls.get(&call).is_some_and(|call| call.tries > 0) {
                    self.counts.client("call made again");
                    self.note(|| format!("client {client} makes call {call} again"));
                }
                self.make(client, call, Fate::Fine);
            }
            Timer::Resume { session } => {
                if self.clients[client].stream.is_none() {
                    self.counts.client("session resumed");
                    let command = Command::AttachSession { namespace: Namespace::default(), session };
                    self.say(client, command);
                }
            }
            Timer::Renew { held, every, until } => {
                let Held { pool, key, .. } = self.clients[client].held[held].clone();
                let namespace = pool.namespace().clone();
                self.say(client, Command::Renew(Renew { namespace, key, pool: None, ttl: None }));
                self.renew_later(client, held, every, until);
            }
            Timer::Release { held } => {
                let Held { pool, key, .. } = self.clients[client].held[held].clone();
                let (namespace, name) = (pool.namespace().clone(), Some(pool.name().clone()));
                self.say(client, Command::Release(Release { namespace, key, pool: name }));
            }
        }
    }

    fn say(&mut self, client: usize, command: Command) {
        self.calls += 1;
        let opens_stream = matches!(command, Command::AttachSession { .. });
        let luck = Random::new(self.plan.seed ^ self.calls);
        let call = Call { command, opens_stream, then: Then::Forget, tries: 0, waiting: false, luck };
        let id = self.calls;
        self.clients[client].calls.insert(id, call);
        self.make(client, id, Fate::Fine);
    }
}

//! The rules as a stage: no engine, no store, no thread. What an engine adds to them is played here in the
//! simplest way: it ends what is due, knows who listens for which wait, and keeps all events.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tenure_core::{Command, Event, Limits, Machine, Reply, Stamp, State, Timestamp, WaiterId};
use tenure_script::RhaiPolicies;

use crate::action::{Action, InSession};
use crate::outcome::Outcome;
use crate::parse::Scenario;
use crate::stage::Stage;
use crate::text::Millis;
use crate::translate::{self, OwnSession};

#[derive(Debug)]
pub struct Rules {
    machine: Machine,
    limits: Limits,
    running: bool,
    now: Timestamp,
    nonce: u128,
    log: Vec<(Timestamp, Event)>,
    sessions: BTreeMap<String, OwnSession>,
    listeners: Vec<Listener>,
    late: VecDeque<(String, Outcome)>,
}

/// Somebody who waits for what comes of a wait.
#[derive(Debug)]
struct Listener {
    waiter: WaiterId,
    actor: String,
    in_session: bool,
    /// Whether the grant can be asked for again, and so is kept if it does not arrive.
    reclaimable: bool,
    /// Gone, and nobody has noticed.
    deaf: bool,
}

impl Rules {
    pub fn new(scenario: &Scenario) -> Self {
        let limits = translate::limits(&scenario.limits);
        Self {
            machine: Machine::new(limits).with_policies(Arc::new(RhaiPolicies::new())),
            limits,
            running: true,
            now: translate::START,
            nonce: 0,
            log: Vec::new(),
            sessions: BTreeMap::new(),
            listeners: Vec::new(),
            late: VecDeque::new(),
        }
    }

    /// Applies a command after what is due, and then what became due by it.
    fn apply(&mut self, command: Command) -> Reply {
        self.expire();
        let reply = self.apply_only(command);
        self.expire();
        reply
    }

    fn expire(&mut self) {
        while self.machine.next_deadline().is_some_and(|deadline| deadline <= self.now) {
            self.apply_only(Command::Expire);
        }
    }

    fn apply_only(&mut self, command: Command) -> Reply {
        // Different for every command, and different in all its bits, as a random number would be.
        self.nonce += 1;
        let nonce = self.nonce.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let outcome = self.machine.apply(Stamp { at: self.now, nonce }, command);
        self.log.extend(outcome.events.into_iter().map(|event| (self.now, event)));
        for (waiter, reply) in outcome.settled {
            self.settle(waiter, &reply);
        }
        outcome.reply
    }

    fn settle(&mut self, waiter: WaiterId, reply: &Reply) {
        let (told, others) =
            std::mem::take(&mut self.listeners).into_iter().partition(|listener| listener.waiter == waiter);
        self.listeners = others;
        let told: Vec<Listener> = told;
        if let Reply::Granted(grant) = reply
            && !told.is_empty()
            && told.iter().all(|listener| listener.deaf && !listener.reclaimable)
        {
            self.apply(Command::TakeBack { token: grant.token });
            return;
        }
        let heard = told.into_iter().filter(|listener| !listener.deaf);
        self.late.extend(heard.map(|listener| (listener.actor, translate::reply(reply))));
    }

    /// Whoever may return is one whose connection was lost, not one who gave up.
    fn lose(&mut self, may_return: bool, lost: impl Fn(&Listener) -> bool) {
        let (gone, others) = std::mem::take(&mut self.listeners).into_iter().partition(lost);
        self.listeners = others;
        let gone: Vec<Listener> = gone;
        for Listener { waiter, .. } in gone {
            if self.listeners.iter().all(|listener| listener.waiter != waiter) {
                self.apply(Command::Abandon { waiter, may_return });
            }
        }
    }

    fn stop(&mut self) {
        self.listeners.clear();
        self.running = false;
    }

    /// Everything is rebuilt from the events, as after a crash.
    fn start(&mut self) {
        let mut state = State::new(self.limits.pool_idle);
        for (at, event) in &self.log {
            state.evolve(*at, event);
        }
        assert!(state == *self.machine.state(), "replaying the events gives the state they came from");
        let machine = Machine::restored(state, self.limits);
        self.machine = machine.with_policies(Arc::new(RhaiPolicies::new()));
        self.running = true;
        self.apply_only(Command::Restart);
        self.expire();
    }

    fn command(&mut self, actor: &str, action: &Action, command: Command) -> Outcome {
        // Whoever resumes a session listens through the new connection only.
        if let Action::DropSession | Action::ResumeSession = action {
            self.lose(true, |listener| listener.in_session && listener.actor == actor);
        }
        let reply = self.apply(command);
        match (&reply, action) {
            (Reply::Queued(queued), Action::Acquire(acquire)) => {
                let in_session = acquire.session == InSession::Own;
                self.listeners.push(Listener {
                    waiter: queued.waiter,
                    actor: actor.to_owned(),
                    in_session,
                    reclaimable: in_session && acquire.request.is_some(),
                    deaf: false,
                });
            }
            (Reply::Session(opened), Action::OpenSession(open)) => {
                let namespace = tenure_core::Namespace::parse(&open.namespace).expect("it was just used");
                self.sessions.insert(actor.to_owned(), OwnSession { namespace, opened: opened.clone() });
            }
            (Reply::Session(opened), _) => {
                let session = self.sessions.get_mut(actor).expect("it was just used");
                session.opened = opened.clone();
            }
            _ => {}
        }
        translate::reply(&reply)
    }

    fn history(&self, namespace: &str, pool: Option<&str>, holder: Option<&str>) -> Outcome {
        let events = self.log.iter().map(|(_, event)| event).filter(|event| {
            event.namespace().is_some_and(|it| it.as_str() == namespace)
                && pool.is_none_or(|pool| event.pools().any(|it| it.name().as_str() == pool))
                && holder.is_none_or(|holder| event.holder().is_some_and(|it| it.as_str() == holder))
        });
        translate::history(events)
    }
}

impl Stage for Rules {
    async fn advance(&mut self, to: Millis) {
        self.now = translate::instant(to);
        if self.running {
            self.expire();
        }
    }

    async fn act(&mut self, actor: &str, action: &Action, key: Option<&str>) -> Outcome {
        match action {
            Action::Stop => self.stop(),
            Action::Start => self.start(),
            Action::Restart => {
                self.stop();
                self.start();
            }
            Action::HangUp => self.lose(false, |listener| listener.actor == actor),
            Action::StopListening => {
                self.listeners.iter_mut().filter(|it| it.actor == actor).for_each(|it| it.deaf = true);
            }
            Action::History { namespace, pool, holder } => {
                return self.history(namespace, pool.as_deref(), holder.as_deref());
            }
            _ => {
                let command = match translate::command(actor, action, key, self.sessions.get(actor)) {
                    Ok(command) => command,
                    Err(error) => return translate::invalid(&error),
                };
                if let Some(command) = command {
                    return self.command(actor, action, command);
                }
                match translate::query(action) {
                    Ok(Some(query)) => {
                        return match self.machine.query_at(&query, self.now) {
                            Ok(view) => translate::view(action, &view),
                            Err(refusal) => translate::refused(&refusal),
                        };
                    }
                    Ok(None) => {}
                    Err(error) => return translate::invalid(&error),
                }
            }
        }
        Outcome::new("done")
    }

    async fn late(&mut self, actor: &str) -> Option<Outcome> {
        let at = self.late.iter().position(|(it, _)| it == actor)?;
        self.late.remove(at).map(|(_, outcome)| outcome)
    }

    async fn left_over(&mut self) -> Vec<(String, Outcome)> {
        self.late.drain(..).collect()
    }
}

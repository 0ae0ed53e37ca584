//! The scenarios on the embedded engine, with a clock that the scenario moves. Those with a restart run on disk;
//! for the others opening a data directory would take fifty times as long as the scenario.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use tempfile::TempDir;
use tenure_core::{Command, HolderId, Limits, Namespace, PoolName, Reply, State};
use tenure_engine::{
    Answered, DiskOptions, DiskStore, Durability, Embedded, Engine, EventFilter, EventQuery, ManualClock, MemoryStore,
    Options, ReplyTo, Ticket,
};
use tenure_scenario::translate::{self, OwnSession};
use tenure_scenario::{Action, InSession, Millis, Outcome, Scenario, Stage, run_tests, trials};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

fn main() -> ExitCode {
    run_tests(trials("engine", |_| true, async |scenario| OnEngine::new(scenario)))
}

struct OnEngine {
    /// None while the server is stopped.
    engine: Option<Embedded>,
    clock: Arc<ManualClock>,
    limits: Limits,
    sessions: BTreeMap<String, OwnSession>,
    callers: Vec<Caller>,
    /// None: nothing has to outlive the engine.
    data: Option<TempDir>,
}

/// Somebody who waits for what comes of a wait.
struct Caller {
    actor: String,
    ticket: Ticket,
    /// None once nobody listens there any more.
    answers: Option<UnboundedReceiver<Answered>>,
    in_session: bool,
}

impl OnEngine {
    fn new(scenario: &Scenario) -> Self {
        let mut stage = Self {
            engine: None,
            clock: Arc::new(ManualClock::new(translate::START)),
            limits: translate::limits(&scenario.limits),
            sessions: BTreeMap::new(),
            callers: Vec::new(),
            data: scenario.restarts().then(|| TempDir::new().expect("a directory for one test")),
        };
        stage.start();
        stage
    }

    fn start(&mut self) {
        let options = Options { limits: self.limits, ..Options::default() };
        let (clock, pool_idle) = (self.clock.clone(), self.limits.pool_idle);
        self.engine = Some(match &self.data {
            None => Embedded::start(State::new(pool_idle), MemoryStore::new(), clock, options),
            Some(data) => {
                // What survives a loss of power is for the store's own tests; here the process goes on.
                let disk = DiskOptions { durability: Durability::Os, pool_idle, ..DiskOptions::default() };
                let (store, state) = DiskStore::open(data.path(), disk).expect("the data of this test can be opened");
                Embedded::start(state, store, clock, options)
            }
        });
    }

    fn kill(&mut self) {
        self.engine = None;
        self.callers.clear();
    }

    fn engine(&self) -> &Embedded {
        self.engine.as_ref().expect("nothing is asked of a server that is stopped")
    }

    /// Until everything that was set off has happened. A grant that finds nobody comes back to the engine as
    /// mail, which the second tick finds handled.
    async fn settle(&self) {
        if let Some(engine) = &self.engine {
            engine.tick().await;
            engine.tick().await;
        }
    }

    async fn command(&mut self, actor: &str, action: &Action, command: Command) -> Outcome {
        let (answers, mut received) = unbounded_channel();
        let returns = matches!(action, Action::Acquire(acquire)
            if acquire.session == InSession::Own && acquire.request.is_some() && self.is_carried(actor));
        let reply_to = ReplyTo { id: 0, answers, returns };
        let ticket = self.engine().submit(command, reply_to).expect("the mailbox has room");
        let reply = received.recv().await.expect("the engine answers").reply.expect("the engine does not fail");
        match (&reply, action) {
            (Reply::Queued(_), Action::Acquire(acquire)) => {
                let in_session = acquire.session == InSession::Own;
                let (actor, answers) = (actor.to_owned(), Some(received));
                self.callers.push(Caller { actor, ticket, answers, in_session });
            }
            (Reply::Session(opened), Action::OpenSession(open)) => {
                let namespace = Namespace::parse(&open.namespace).expect("it was just used");
                self.sessions.insert(actor.to_owned(), OwnSession { namespace, opened: opened.clone() });
            }
            (Reply::Session(opened), _) => {
                self.sessions.get_mut(actor).expect("it was just used").opened = opened.clone();
            }
            _ => {}
        }
        translate::reply(&reply)
    }

    /// Whether a connection carries the actor's session.
    fn is_carried(&self, actor: &str) -> bool {
        self.sessions.get(actor).is_some_and(|session| session.opened.deadline.is_none())
    }

    fn lose(&mut self, lost: impl Fn(&Caller) -> bool) {
        let (gone, others) = std::mem::take(&mut self.callers).into_iter().partition(lost);
        self.callers = others;
        let gone: Vec<Caller> = gone;
        for caller in &gone {
            self.engine().hang_up(caller.ticket, None);
        }
    }

    async fn history(&self, namespace: &str, pool: Option<&str>, holder: Option<&str>) -> Outcome {
        let filter = EventFilter {
            namespace: Some(Namespace::parse(namespace).expect("a scenario names it well")),
            pool: pool.map(|pool| PoolName::parse(pool).expect("a scenario names it well")),
            holder: holder.map(|holder| HolderId::parse(holder).expect("a scenario names it well")),
            ..EventFilter::default()
        };
        let mut query = EventQuery { filter, limit: 1_000, ..EventQuery::default() };
        let mut events = Vec::new();
        loop {
            let page = self.engine().events(query.clone()).await.expect("the log can be read");
            let page = page.expect("a short history is kept as a whole");
            events.extend(page.items.into_iter().map(|recorded| recorded.event));
            query.after = page.reached;
            if page.done {
                return translate::history(&events);
            }
        }
    }

    async fn ask(&self, action: &Action) -> Outcome {
        match translate::query(action) {
            Ok(Some(query)) => match self.engine().query(query).await.expect("the engine does not fail") {
                Ok(view) => translate::view(action, &view),
                Err(refusal) => translate::refused(&refusal),
            },
            Ok(None) => Outcome::new("done"),
            Err(error) => translate::invalid(&error),
        }
    }
}

impl Stage for OnEngine {
    async fn advance(&mut self, to: Millis) {
        self.clock.advance_to(translate::instant(to));
        self.settle().await;
    }

    async fn act(&mut self, actor: &str, action: &Action, key: Option<&str>) -> Outcome {
        let outcome = match action {
            Action::Stop => {
                self.kill();
                return Outcome::new("done");
            }
            Action::Start => {
                self.start();
                Outcome::new("done")
            }
            Action::Restart => {
                self.kill();
                self.start();
                Outcome::new("done")
            }
            Action::HangUp => {
                let gone = std::mem::take(&mut self.callers);
                let (gone, others) = gone.into_iter().partition(|caller| caller.actor == actor);
                self.callers = others;
                let gone: Vec<Caller> = gone;
                gone.iter().for_each(|caller| self.engine().hang_up(caller.ticket, None));
                Outcome::new("done")
            }
            Action::StopListening => {
                let own = self.callers.iter_mut().filter(|caller| caller.actor == actor);
                own.for_each(|caller| caller.answers = None);
                Outcome::new("done")
            }
            Action::History { namespace, pool, holder } => {
                self.history(namespace, pool.as_deref(), holder.as_deref()).await
            }
            _ => {
                if let Action::DropSession | Action::ResumeSession = action {
                    self.lose(|caller| caller.in_session && caller.actor == actor);
                }
                match translate::command(actor, action, key, self.sessions.get(actor)) {
                    Ok(Some(command)) => self.command(actor, action, command).await,
                    Ok(None) => self.ask(action).await,
                    Err(error) => translate::invalid(&error),
                }
            }
        };
        self.settle().await;
        outcome
    }

    async fn late(&mut self, actor: &str) -> Option<Outcome> {
        let own = self.callers.iter_mut().filter(|caller| caller.actor == actor);
        own.filter_map(|caller| caller.answers.as_mut()).find_map(arrived)
    }

    async fn left_over(&mut self) -> Vec<(String, Outcome)> {
        let mut left = Vec::new();
        for caller in &mut self.callers {
            let outcome = caller.answers.as_mut().and_then(arrived);
            left.extend(outcome.map(|outcome| (caller.actor.clone(), outcome)));
        }
        left
    }
}

fn arrived(answers: &mut UnboundedReceiver<Answered>) -> Option<Outcome> {
    let answered = answers.try_recv().ok()?;
    Some(translate::reply(&answered.reply.expect("the engine does not fail")))
}

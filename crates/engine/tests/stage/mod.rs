//! The scenarios on an engine, whatever it is made of.

use std::collections::BTreeMap;

use tenure_core::{Command, HolderId, Namespace, PoolName, Reply};
use tenure_engine::{Engine, EventFilter, EventQuery, ReplyTo, Ticket, answers};
use tenure_scenario::translate::{self, OwnSession};
use tenure_scenario::{Action, InSession, Millis, Outcome, Stage};

/// Where an engine is, and what passes for time there.
pub(crate) trait World: Send {
    /// It is asked nothing while it is stopped.
    fn engine(&self) -> &dyn Engine;

    async fn start(&mut self);

    /// Without a word to anybody.
    async fn kill(&mut self);

    /// Time goes on, also while the engine is stopped.
    async fn advance(&mut self, to: Millis);

    /// Until everything that was set off has happened.
    async fn settle(&self);
}

pub(crate) struct OnEngine<W> {
    world: W,
    sessions: BTreeMap<String, OwnSession>,
    callers: Vec<Caller>,
}

/// Somebody who waits for what comes of a wait.
struct Caller {
    actor: String,
    ticket: Ticket,
    /// None once nobody listens there any more.
    answers: Option<answers::Receiver>,
    in_session: bool,
}

impl<W: World> OnEngine<W> {
    pub(crate) async fn new(mut world: W) -> Self {
        world.start().await;
        Self { world, sessions: BTreeMap::new(), callers: Vec::new() }
    }

    async fn kill(&mut self) {
        self.world.kill().await;
        self.callers.clear();
    }

    fn engine(&self) -> &dyn Engine {
        self.world.engine()
    }

    async fn command(&mut self, actor: &str, action: &Action, command: Command) -> Outcome {
        let (answers, mut received) = answers::channel();
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

impl<W: World> Stage for OnEngine<W> {
    async fn advance(&mut self, to: Millis) {
        self.world.advance(to).await;
    }

    async fn act(&mut self, actor: &str, action: &Action, key: Option<&str>) -> Outcome {
        let outcome = match action {
            Action::Stop => {
                self.kill().await;
                return Outcome::new("done");
            }
            Action::Start => {
                self.world.start().await;
                Outcome::new("done")
            }
            Action::Restart => {
                self.kill().await;
                self.world.start().await;
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
        self.world.settle().await;
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

fn arrived(answers: &mut answers::Receiver) -> Option<Outcome> {
    let answered = answers.try_recv()?;
    Some(translate::reply(&answered.reply.expect("the engine does not fail")))
}

//! The server under test: it can be killed and started again on its data, and it tells when a command or a
//! hang-up has reached its engine, so that nobody has to guess how long that takes.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tenure_core::{Command, Limits, Policies, Query, Refusal, Seq, SessionId, State, Timestamp, Token, View};
use tenure_engine::{
    Answer, DiskOptions, DiskStore, Durability, Embedded, Engine, EventPage, EventQuery, EventsGone, Failure,
    ManualClock, MemoryStore, Options, ReplyTo, StoreError, Ticket,
};
use tenure_scenario::{Millis, Scenario, translate};
use tenure_script::RhaiPolicies;
use tenure_server::{Config, Server};
use tokio::sync::watch;

/// Far longer than anything takes; only a failing test waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Host {
    pub(crate) server: Server,
    pub(crate) engine: Arc<Observed>,
}

/// What outlives the server.
pub(crate) struct Site {
    clock: Arc<ManualClock>,
    limits: Limits,
    /// None: nothing has to outlive it.
    data: Option<TempDir>,
}

/// Opens the data that the server before has let go of. A process that another test starts at this moment has all open
/// files of this one until it becomes what it is to be, the lock of the data too.
async fn open(data: &TempDir, disk: DiskOptions) -> (DiskStore, State) {
    for _ in 0..1_000 {
        match DiskStore::open(data.path(), disk) {
            Err(StoreError::InUse(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            opened => return opened.expect("the data of this test can be opened"),
        }
    }
    panic!("somebody keeps the data of this test open");
}

impl Site {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            clock: Arc::new(ManualClock::new(translate::START)),
            limits: translate::limits(&scenario.limits),
            data: scenario.restarts().then(|| TempDir::new().expect("a directory for one test")),
        }
    }

    pub(crate) fn set_clock(&self, to: Millis) {
        self.clock.advance_to(translate::instant(to));
    }

    pub(crate) async fn start(&self) -> Host {
        let policies: Option<Arc<dyn Policies>> = Some(Arc::new(RhaiPolicies::new()));
        let options = Options { limits: self.limits, policies, ..Options::default() };
        let (clock, pool_idle) = (self.clock.clone(), self.limits.pool_idle);
        let inner = match &self.data {
            None => Embedded::start(State::new(pool_idle), MemoryStore::new(), clock, options),
            Some(data) => {
                let disk = DiskOptions { durability: Durability::Os, pool_idle, ..DiskOptions::default() };
                let (store, state) = open(data, disk).await;
                Embedded::start(state, store, clock, options)
            }
        };
        let engine = Arc::new(Observed { inner, commands: watch::Sender::new(0), hang_ups: watch::Sender::new(0) });
        let server = Server::start(engine.clone(), Config::any_ports()).await.expect("a server on loopback");
        Host { server, engine }
    }
}

impl Host {
    /// As a crash would: the engine first, so that nothing the server still does has an effect.
    pub(crate) fn kill(self) {
        self.engine.inner.kill();
    }

    /// Until everything that was set off has happened. A grant that finds nobody comes back to the engine as
    /// mail, which the second tick finds handled.
    pub(crate) async fn settle(&self) {
        self.engine.inner.tick().await;
        self.engine.inner.tick().await;
    }
}

/// An engine that counts what reaches it.
pub(crate) struct Observed {
    inner: Embedded,
    commands: watch::Sender<u64>,
    hang_ups: watch::Sender<u64>,
}

impl Observed {
    pub(crate) fn commands(&self) -> Counted {
        Counted::new(&self.commands)
    }

    pub(crate) fn hang_ups(&self) -> Counted {
        Counted::new(&self.hang_ups)
    }
}

/// A count as it was when somebody began to look.
pub(crate) struct Counted {
    count: watch::Receiver<u64>,
    before: u64,
}

impl Counted {
    fn new(count: &watch::Sender<u64>) -> Self {
        let count = count.subscribe();
        let before = *count.borrow();
        Self { count, before }
    }

    /// By how many it has grown.
    #[allow(dead_code, reason = "for those who ask from another process")]
    pub(crate) fn grown(&self) -> u64 {
        *self.count.borrow() - self.before
    }

    /// Waits until it has grown by so many.
    pub(crate) async fn grown_by(&mut self, more: u64) {
        let wanted = self.before + more;
        let grown = self.count.wait_for(|count| *count >= wanted);
        tokio::time::timeout(PATIENCE, grown).await.expect("the server hears of it").expect("the server is there");
    }
}

impl Engine for Observed {
    fn submit(&self, command: Command, reply_to: ReplyTo) -> Result<Ticket, Failure> {
        let submitted = self.inner.submit(command, reply_to);
        self.commands.send_modify(|count| *count += 1);
        submitted
    }

    fn hang_up(&self, ticket: Ticket, unreceived: Option<Token>) {
        self.inner.hang_up(ticket, unreceived);
        self.hang_ups.send_modify(|count| *count += 1);
    }

    fn detach(&self, session: SessionId, attachment: u64) {
        self.inner.detach(session, attachment);
        self.commands.send_modify(|count| *count += 1);
    }

    fn query(&self, query: Query) -> Answer<Result<View, Refusal>> {
        self.inner.query(query)
    }

    fn events(&self, query: EventQuery) -> Answer<Result<EventPage, EventsGone>> {
        self.inner.events(query)
    }

    fn last_event(&self) -> watch::Receiver<Seq> {
        self.inner.last_event()
    }

    fn crowd(&self) -> watch::Receiver<bool> {
        self.inner.crowd()
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.inner.stop()
    }
}

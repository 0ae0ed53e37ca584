//! A machine under random commands, a store beside it, and everything that happened, to compare with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure_core::*;
use tenure_engine::*;

/// Nothing comes from outside, so a seed is a whole test.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { Some(&from[self.below(from.len())]) }
    }
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) machine: Machine,
    pub(crate) rows: Rows,
    pub(crate) store: Option<DiskStore>,
    pub(crate) dir: PathBuf,
    pub(crate) options: DiskOptions,
    /// Whether it waits for what is done beside the commits, so that the files can be looked at.
    pub(crate) settles: bool,
    pub(crate) now: Timestamp,
    /// Everything that was committed.
    pub(crate) events: Vec<Recorded>,
    /// The number of the last event of each entry.
    pub(crate) ends: Vec<u64>,
    /// Happened, but not yet committed.
    pub(crate) pending: Vec<Event>,
    keys: Vec<(Key, Token, PoolPath, HolderId)>,
    sessions: Vec<(Key, SessionId)>,
    waiters: Vec<WaiterId>,
    /// Acquires that can be made again.
    requests: Vec<Acquire>,
}

impl World {
    pub(crate) fn new(seed: u64, dir: &Path, options: DiskOptions) -> Self {
        let (store, state) = DiskStore::open(dir, options).expect("a new directory opens");
        assert_eq!(state, State::new(options.pool_idle));
        Self {
            random: Random::new(seed),
            rows: Rows::new(&state),
            machine: Machine::restored(state, Limits::default()),
            store: Some(store),
            dir: dir.to_owned(),
            options,
            settles: true,
            now: Timestamp::from_millis(1_700_000_000_000),
            events: Vec::new(),
            ends: Vec::new(),
            pending: Vec::new(),
            keys: Vec::new(),
            sessions: Vec::new(),
            waiters: Vec::new(),
            requests: Vec::new(),
        }
    }

    pub(crate) fn apply(&mut self, command: Command) -> Reply {
        let nonce = u128::from(self.random.next()) << 64 | u128::from(self.random.next());
        let outcome = self.machine.apply(Stamp { at: self.now, nonce }, command);
        for event in outcome.events {
            self.rows.note(&event);
            match &event {
                Event::Granted { token, hold, .. } => {
                    self.keys.push((hold.key, *token, hold.pool.clone(), hold.holder.id.clone()));
                }
                Event::SessionOpened { id, key, .. } => self.sessions.push((*key, *id)),
                Event::Queued { id, .. } => self.waiters.push(*id),
                _ => {}
            }
            self.pending.push(event);
        }
        outcome.reply
    }

    /// Commits what happened, with the rows if they are asked for.
    pub(crate) fn commit(&mut self, with_rows: bool) {
        let first = Seq(self.events.len() as u64 + 1);
        let events = std::mem::take(&mut self.pending);
        for (seq, event) in (first.0..).zip(&events) {
            self.events.push(Recorded { seq: Seq(seq), at: self.now, event: event.clone() });
        }
        if !events.is_empty() {
            self.ends.push(self.events.len() as u64);
        }
        let entry = (!events.is_empty()).then(|| Arc::new(Entry { first, at: self.now, events }));
        let rows = with_rows.then(|| self.rows.drain(self.machine.state()));
        let store = self.store.as_mut().expect("it is open");
        store.commit(Commit { entry, rows }).expect("a commit succeeds");
        store.follow().expect("the database follows");
        if self.settles {
            store.settle().expect("so does all else");
        }
    }

    /// Ends what is due.
    pub(crate) fn expire(&mut self) {
        while self.machine.next_deadline().is_some_and(|deadline| deadline <= self.now) {
            self.apply(Command::Expire);
        }
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        assert!(self.pending.is_empty(), "a batch has one time");
        self.now = Timestamp::from_millis(self.now.as_millis() + millis);
        self.expire();
    }

    /// Closes the store and opens it again. What it remembers must be what is.
    pub(crate) fn reopen(&mut self) {
        assert!(self.pending.is_empty());
        drop(self.store.take());
        let (store, state) = DiskStore::open(&self.dir, self.options).expect("it opens again");
        assert_eq!(&state, self.machine.state());
        assert_eq!(&state, &self.state_after(self.events.len()));
        self.store = Some(store);
        self.rows = Rows::new(&state);
        self.machine = Machine::restored(state, Limits::default());
        self.apply(Command::Restart);
        self.expire();
        self.commit(false);
    }

    /// The state after so many events, by replaying them.
    pub(crate) fn state_after(&self, events: usize) -> State {
        let mut state = State::new(self.options.pool_idle);
        for recorded in &self.events[..events] {
            state.evolve(recorded.at, &recorded.event);
        }
        state
    }

    pub(crate) fn reader(&self) -> Arc<dyn LogReader> {
        self.store.as_ref().expect("it is open").reader()
    }

    /// Some commands, batches and drains.
    pub(crate) fn live(&mut self, steps: usize) {
        for _ in 0..steps {
            let command = self.command();
            self.apply(command);
            self.expire();
            if self.random.one_in(4) {
                let with_rows = self.random.one_in(8);
                self.commit(with_rows);
                let passed = match self.random.below(200) {
                    // Long enough for requests to be forgotten, and pools to vanish.
                    0 => 11 * 60 * 1_000,
                    1..20 => self.random.next() % 30_000,
                    20..60 => 0,
                    _ => self.random.next() % 500,
                };
                self.pass(passed);
            }
        }
        self.commit(false);
    }

    fn command(&mut self) -> Command {
        let namespace = self.namespace();
        match self.random.below(100) {
            0..36 => {
                let acquire = self.acquire();
                if acquire.request.is_some() {
                    self.requests.push(acquire.clone());
                }
                Command::Acquire(acquire)
            }
            36..40 => {
                let again = self.away().or_else(|| self.random.pick(&self.requests).cloned());
                again.map_or(Command::Expire, Command::Acquire)
            }
            40..60 => match self.random.pick(&self.keys).cloned() {
                Some((key, _, pool, _)) => Command::Release(Release {
                    namespace: pool.namespace().clone(),
                    key,
                    pool: Some(pool.name().clone()),
                }),
                None => Command::Expire,
            },
            60..68 => match self.of_the_missing().or_else(|| self.random.pick(&self.keys).cloned()) {
                Some((key, _, pool, _)) => {
                    let ttl = self.random.one_in(2).then(|| Ttl::from_millis(1 + self.random.next() % 60_000));
                    Command::Renew(Renew { namespace: pool.namespace().clone(), key, pool: None, ttl })
                }
                None => Command::Expire,
            },
            68..71 => Command::Withdraw { namespace, request: self.request() },
            71 => match self.random.pick(&self.keys).cloned() {
                Some((_, token, pool, holder)) => Command::ForceRelease(ForceRelease {
                    pool,
                    holder,
                    token,
                    reason: Note::parse("stuck").expect("valid"),
                }),
                None => Command::Expire,
            },
            72 => Command::OwnerGone { namespace, owner: self.owner() },
            73..77 => {
                let holder = self.holder();
                let grace = 1 + self.random.next() % 60_000;
                Command::OpenSession(OpenSession {
                    namespace,
                    holder,
                    grace: Ttl::from_millis(grace),
                    attached: self.random.one_in(2),
                    outlasts_holds: grace.is_multiple_of(2),
                })
            }
            77..86 => {
                let Some((key, id)) = self.random.pick(&self.sessions).copied() else { return Command::Expire };
                let namespace = self.machine.state().session(id).map_or(namespace, |session| session.namespace.clone());
                match self.random.below(6) {
                    0 | 1 => Command::KeepAlive { namespace, session: key },
                    2 | 3 => Command::AttachSession { namespace, session: key },
                    4 => {
                        let attachment = self.machine.state().session(id).map_or(1, |session| session.attachments);
                        Command::DetachSession { session: id, attachment }
                    }
                    _ => Command::EndSession { namespace, session: key },
                }
            }
            86..91 => Command::SetPool(SetPool { pool: self.pool(), spec: self.spec() }),
            91..94 => {
                let resource = self.random.one_in(2).then(|| resource_name(self.random.below(6)));
                let condition = match self.random.below(4) {
                    0 => Condition::Drained(None),
                    1 => Condition::Quarantined(Note::parse("smells").expect("valid")),
                    _ => Condition::InService,
                };
                let lasts = self.random.one_in(2).then(|| Ttl::from_millis(1 + self.random.next() % 20_000));
                Command::SetCondition(SetCondition { pool: self.pool(), resource, condition, lasts })
            }
            94 => Command::RemovePool { pool: self.pool() },
            95 | 96 => match self.random.pick(&self.waiters) {
                Some(waiter) => Command::Abandon { waiter: *waiter, may_return: waiter.0 % 2 == 0 },
                None => Command::Expire,
            },
            97 => match self.random.pick(&self.keys) {
                Some((_, token, ..)) => Command::TakeBack { token: *token },
                None => Command::Expire,
            },
            _ => self.operator(),
        }
    }

    /// A hold whose session is away.
    fn of_the_missing(&self) -> Option<(Key, Token, PoolPath, HolderId)> {
        let state = self.machine.state();
        let away = |id| state.session(id).is_some_and(|session| session.away);
        let is_missing = |token| state.hold(token).is_some_and(|hold| hold.session.is_some_and(away));
        self.keys.iter().find(|(_, token, ..)| is_missing(*token)).cloned()
    }

    /// The acquire of somebody whose connection broke.
    fn away(&self) -> Option<Acquire> {
        let state = self.machine.state();
        let mut away = self.waiters.iter().filter_map(|id| state.waiter(*id)).filter(|(_, present)| !present);
        let (waiter, _) = away.next()?;
        self.requests.iter().rfind(|it| it.request == waiter.request && it.pool == waiter.pool).cloned()
    }

    pub(crate) fn acquire(&mut self) -> Acquire {
        // The newest are the likeliest still to be there.
        let newest = self.sessions.len().saturating_sub(if self.random.one_in(2) { 4 } else { usize::MAX });
        let session = self.random.one_in(3).then(|| self.random.pick(&self.sessions[newest..]).copied()).flatten();
        let mut pool = self.pool();
        if let Some(session) = session.and_then(|(_, id)| self.machine.state().session(id)) {
            pool = PoolPath::new(session.namespace.clone(), pool.name().clone());
        }
        let selector = ["fast", "mem >= 40 && !slow", "name == r2 || \"odd label\" == \"a b\""];
        Acquire {
            pool,
            demand: Demand {
                amount: if self.random.one_in(6) {
                    Amount::All
                } else {
                    Amount::Count(1 + self.random.below(2) as u32)
                },
                selector: self
                    .random
                    .one_in(5)
                    .then(|| Selector::parse(selector[self.random.below(selector.len())]).expect("valid")),
                dirty: self.random.one_in(8),
            },
            size: None,
            lifetime: match self.random.below(6) {
                0 => Some(Lifetime::Kept),
                1 => Some(Lifetime::Bound(self.owner())),
                2 if session.is_some() => Some(Lifetime::Session(
                    self.random.one_in(2).then(|| Ttl::from_millis(1 + self.random.next() % 20_000)),
                )),
                3 => None,
                _ => Some(Lifetime::Leased(Ttl::from_millis(1 + self.random.next() % 20_000))),
            },
            wait: match self.random.below(3) {
                0 => Wait::Try,
                1 => Wait::For(Ttl::from_millis(1 + self.random.next() % 20_000)),
                _ => Wait::Forever,
            },
            priority: Priority::parse(self.random.below(3) as i64 - 1).expect("valid"),
            holder: self.holder(),
            session: session.map(|(key, _)| key),
            request: self.random.one_in(3).then(|| self.request()),
            also: Box::default(),
            holds_on: false,
        }
    }

    fn namespace(&mut self) -> Namespace {
        if self.random.one_in(3) { Namespace::parse("other").expect("valid") } else { Namespace::default() }
    }

    pub(crate) fn pool(&mut self) -> PoolPath {
        let name = PoolName::parse(&format!("pool/{}", self.random.below(12))).expect("valid");
        PoolPath::new(self.namespace(), name)
    }

    fn holder(&mut self) -> Arc<Holder> {
        let id = format!("holder-{}", self.random.below(20));
        let meta: &[_] = if self.random.one_in(2) { &[("host", "a.example"), ("why", "äöü\n")] } else { &[] };
        Arc::new(Holder::parse(&id, meta.iter().copied()).expect("valid"))
    }

    fn request(&mut self) -> RequestId {
        RequestId::parse(&format!("request-{}", self.random.below(400))).expect("valid")
    }

    fn owner(&mut self) -> OwnerId {
        OwnerId::parse(&format!("workflow-{}", self.random.below(5))).expect("valid")
    }

    /// What operators do, some of it to what is there.
    fn operator(&mut self) -> Command {
        let reason = Note::parse("because").expect("valid");
        let (pool, resource) = (self.pool(), resource_name(self.random.below(6)));
        let holder = HolderId::parse(&format!("h{}", self.random.below(3))).expect("valid");
        match self.random.below(4) {
            0 => {
                let lasts = self.random.one_in(2).then(|| Ttl::from_millis(1 + self.random.next() % 20_000));
                Command::Reserve(Reserve { pool, resource, holder, lasts, instead_of: None, reason })
            }
            1 => Command::Unreserve(Unreserve { pool, resource, holder, reason }),
            2 => {
                let found = self.random.pick(&self.keys).map(|(_, token, ..)| *token);
                let state = self.machine.state();
                let Some((token, hold)) = found.and_then(|token| Some((token, state.hold(token)?))) else {
                    return Command::Expire;
                };
                Command::Steal(Steal {
                    pool: hold.pool.clone(),
                    holder: hold.holder.id.clone(),
                    token,
                    to: hold.holder.clone(),
                    lifetime: None,
                    request: None,
                    reason,
                })
            }
            _ => {
                let found = self.random.pick(&self.waiters).copied();
                let other = self.random.pick(&self.waiters).copied().filter(|_| self.random.one_in(2));
                let Some((waiter, _)) = found.and_then(|id| self.machine.state().waiter(id)) else {
                    return Command::Expire;
                };
                let (pool, holder) = (waiter.pool.clone(), waiter.holder.id.clone());
                let waiter = found.expect("it was just seen");
                Command::MoveWaiter(MoveWaiter { pool, waiter, holder, before: other, reason })
            }
        }
    }

    fn spec(&mut self) -> PoolSpec {
        let capacity = if self.random.one_in(2) {
            Capacity::Units(self.random.below(5) as u32)
        } else {
            let placement = match self.random.below(5) {
                0 => Placement::First,
                1 => Placement::LeastRecentlyUsed,
                2 => Placement::MostRecentlyUsed,
                3 => Placement::Random,
                _ => Placement::Spread(LabelName::parse("mem").expect("valid")),
            };
            let count = self.random.below(6);
            let from = self.random.below(3);
            let resources = (from..from + count).map(|n| ResourceSpec {
                name: resource_name(n),
                labels: Labels::parse([
                    ("mem", ["40", "80"][n % 2]),
                    (["fast", "slow"][n % 2], ""),
                    ("odd label", "a b"),
                ])
                .expect("valid"),
                properties: Labels::parse([("url", "https://example/")]).expect("valid"),
            });
            Capacity::Resources { placement, resources: resources.collect() }
        };
        let cleaning = matches!(capacity, Capacity::Resources { .. }) && self.random.one_in(3);
        PoolSpec {
            capacity,
            cleaning,
            fair: self.random.one_in(3).then(|| FairShare::parse("holder", [("h1", 3)]).expect("valid")),
            order: if self.random.one_in(2) { Order::Strict } else { Order::Backfill },
            window: self.random.one_in(6).then(|| Ttl::from_millis(1 + self.random.next() % 10_000)),
            declared: !self.random.one_in(4),
            scripts: Scripts::default(),
        }
    }
}

fn resource_name(n: usize) -> ResourceName {
    ResourceName::parse(&format!("r{n}")).expect("valid")
}

/// The directory as it would be found if the process had died now, or without some of it.
pub(crate) fn copy(from: &Path, but: impl Fn(&Path) -> bool) -> tempfile::TempDir {
    let to = tempfile::tempdir().expect("a directory");
    let mut folders = vec![from.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("lists") {
            let path = entry.expect("lists").path();
            let target = to.path().join(path.strip_prefix(from).expect("inside"));
            if path.is_dir() {
                std::fs::create_dir_all(target).expect("makes");
                folders.push(path);
            } else if !but(&path) {
                std::fs::copy(path, target).expect("copies");
            }
        }
    }
    to
}

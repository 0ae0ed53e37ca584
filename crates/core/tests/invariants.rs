//! Random commands from seeds, and what must hold after every one of them. The machine's own assertions are
//! part of the check: none may fail, whatever callers send.

#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenure_core::*;

const SEEDS: u64 = 300;
const COMMANDS: usize = 400;

#[test]
fn whatever_callers_send_the_promises_hold() {
    let (mut adopted, mut outlasted) = (0, 0);
    for seed in 1..=SEEDS {
        let mut world = World::new(seed);
        for step in 0..COMMANDS {
            world.step();
            world.check(&format!("seed {seed}, step {step}"));
        }
        adopted += world.adopted.len();
        outlasted += world.outlasted;
    }
    assert!(adopted > 0, "some holds have been renewed while their session was away");
    assert!(outlasted > 0, "some sessions have outlived their grace for what they held");
}

struct World {
    random: u64,
    now: u64,
    machine: Machine,
    replayed: State,
    token_last: u64,
    hold_keys: Vec<Key>,
    session_keys: Vec<Key>,
    waiting: BTreeMap<WaiterId, Option<u64>>,
    /// Holds that have left their session.
    adopted: BTreeSet<Token>,
    /// How often a session was given more than its grace for what it held.
    outlasted: usize,
    /// Every place in a rate window that was ever granted: pool, from, until.
    windows: Vec<(PoolName, u64, u64)>,
}

const POOLS: [&str; 5] = ["mutex", "semaphore", "gpus", "rate", "backfill"];

impl World {
    fn new(seed: u64) -> Self {
        let limits = Limits { pool_idle: Ttl::from_millis(20), ..Limits::default() };
        let mut world = Self {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            now: 1_000,
            replayed: State::new(limits.pool_idle),
            machine: Machine::new(limits),
            token_last: 0,
            hold_keys: Vec::new(),
            session_keys: Vec::new(),
            waiting: BTreeMap::new(),
            adopted: BTreeSet::new(),
            outlasted: 0,
            windows: Vec::new(),
        };
        world.apply(Command::SetPool(SetPool { pool: path("backfill"), spec: units(4, Order::Backfill) }));
        world.apply(Command::SetPool(SetPool { pool: path("gpus"), spec: gpus(&[0, 1, 2], Placement::First) }));
        world
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    fn step(&mut self) {
        self.now += [0, 0, 1, 3, 30][self.below(5) as usize];
        while self.machine.next_deadline().is_some_and(|deadline| deadline.as_millis() <= self.now) {
            self.apply(Command::Expire);
        }
        let command = self.command();
        self.apply(command);
        while self.machine.next_deadline().is_some_and(|deadline| deadline.as_millis() <= self.now) {
            self.apply(Command::Expire);
        }
    }

    fn command(&mut self) -> Command {
        let namespace = Namespace::default();
        match self.below(100) {
            0..50 => Command::Acquire(self.acquire()),
            50..66 => match self.pick(self.hold_keys.clone()) {
                Some(key) => Command::Release(Release { namespace, key, pool: None }),
                None => Command::Expire,
            },
            66..74 => match self.held_by_the_missing().or_else(|| self.pick(self.hold_keys.clone())) {
                Some(key) => {
                    let ttl = (self.below(2) == 0).then(|| Ttl::from_millis(1 + self.below(50)));
                    Command::Renew(Renew { namespace, key, pool: None, ttl })
                }
                None => Command::Expire,
            },
            74..77 => Command::Withdraw { namespace, request: self.request_id() },
            77 => match self.pick(self.session_keys.clone()) {
                Some(session) => Command::KeepAlive { namespace, session },
                None => Command::Expire,
            },
            78..80 => Command::OpenSession(OpenSession {
                namespace,
                holder: holder("session"),
                grace: Ttl::from_millis(1 + if self.below(2) == 0 { self.below(5) } else { self.below(200) }),
                attached: self.below(2) == 0,
                outlasts_holds: self.below(2) == 0,
            }),
            80..82 => match self.pick(self.session_keys.clone()) {
                Some(session) => Command::AttachSession { namespace, session },
                None => Command::Expire,
            },
            82..84 => {
                let earlier = self.below(2);
                let mut sessions = self.machine.state().sessions();
                let attached = sessions.find(|(_, session)| session.attached).map(|(id, it)| (id, it.attachments));
                match attached {
                    // Sometimes that of a connection before.
                    Some((session, latest)) => Command::DetachSession { session, attachment: latest - earlier },
                    None => Command::Expire,
                }
            }
            84..86 => match self.pick(self.session_keys.clone()) {
                Some(session) => Command::EndSession { namespace, session },
                None => Command::Expire,
            },
            86..88 => Command::OwnerGone { namespace, owner: OwnerId::parse("flow").expect("a name") },
            88..91 => {
                let size = self.below(5) as u32;
                let order = if self.below(2) == 0 { Order::Strict } else { Order::Backfill };
                let name = ["semaphore", "backfill"][self.below(2) as usize];
                Command::SetPool(SetPool { pool: path(name), spec: units(size, order) })
            }
            91..93 => {
                let placement = [Placement::LeastRecentlyUsed, Placement::MostRecentlyUsed, Placement::Random];
                let placement = placement[self.below(3) as usize].clone();
                let numbers: Vec<u64> = (0..6).filter(|_| self.below(2) == 0).collect();
                Command::SetPool(SetPool { pool: path("gpus"), spec: gpus(&numbers, placement) })
            }
            93..96 => {
                let resource = (self.below(2) == 0).then(|| resource_name(self.below(6)));
                let condition = match self.below(3) {
                    0 => Condition::Drained(None),
                    1 => Condition::Quarantined(Note::parse("smells").expect("a note")),
                    _ => Condition::InService,
                };
                let pool = path(if resource.is_some() { "gpus" } else { POOLS[self.below(5) as usize] });
                Command::SetCondition(SetCondition { pool, resource, condition, lasts: None })
            }
            96 => Command::RemovePool { pool: path(POOLS[self.below(5) as usize]) },
            97 => match self.waiting.keys().next() {
                Some(waiter) => Command::Abandon { waiter: *waiter, may_return: waiter.0 % 2 == 0 },
                None => Command::Expire,
            },
            98 => Command::TakeBack { token: Token(self.below(self.token_last + 2)) },
            _ => Command::Restart,
        }
    }

    fn acquire(&mut self) -> Acquire {
        let name = POOLS[self.below(5) as usize];
        let amount = if self.below(6) == 0 { Amount::All } else { Amount::Count(1 + self.below(3) as u32) };
        let selectors = ["gpu", "mem >= 80", "name == gpu-1", "gpu && !old", "nothing"];
        let selector = (name == "gpus" && self.below(3) > 0)
            .then(|| Selector::parse(selectors[self.below(5) as usize]).expect("a selector"));
        let lifetime = match (name, self.below(6)) {
            ("rate", 0..5) => Some(Lifetime::Window(Ttl::from_millis(25))),
            (_, 0) => Some(Lifetime::Kept),
            (_, 1) => Some(Lifetime::Bound(OwnerId::parse("flow").expect("a name"))),
            (_, 2) => Some(Lifetime::Session((self.below(2) == 0).then(|| Ttl::from_millis(1 + self.below(50))))),
            (_, 3) => None,
            _ => Some(Lifetime::Leased(Ttl::from_millis(1 + self.below(50)))),
        };
        let in_session = self.below(3) == 0 || matches!(lifetime, Some(Lifetime::Session(_)));
        let size = match name {
            "rate" => Some(3),
            "mutex" if self.below(10) == 0 => Some(2),
            _ => None,
        };
        Acquire {
            pool: path(name),
            demand: Demand { amount, selector, dirty: false },
            size,
            lifetime,
            wait: match self.below(3) {
                0 => Wait::Try,
                1 => Wait::For(Ttl::from_millis(1 + self.below(40))),
                _ => Wait::Forever,
            },
            priority: Priority::parse(self.below(3) as i64 - 1).expect("small"),
            holder: holder("somebody"),
            session: if in_session { self.pick(self.session_keys.clone()) } else { None },
            request: (self.below(3) == 0).then(|| self.request_id()),
            also: Box::default(),
            holds_on: false,
        }
    }

    fn request_id(&mut self) -> RequestId {
        RequestId::parse(&format!("r-{}", self.below(40))).expect("a request id")
    }

    /// A hold whose session is away.
    fn held_by_the_missing(&self) -> Option<Key> {
        let state = self.machine.state();
        let away = |hold: &&Hold| hold.session.and_then(|id| state.session(id)).is_some_and(|session| session.away);
        (1..=self.token_last).filter_map(|token| state.hold(Token(token))).find(away).map(|hold| hold.key)
    }

    /// Half the time one of the newest, which are the likeliest still to be there.
    fn pick(&mut self, mut keys: Vec<Key>) -> Option<Key> {
        if self.below(2) == 0 {
            keys.drain(..keys.len().saturating_sub(4));
        }
        (!keys.is_empty()).then(|| keys[self.below(keys.len() as u64) as usize])
    }

    fn apply(&mut self, command: Command) {
        let at = Timestamp::from_millis(self.now);
        let nonce = u128::from(self.below(u64::MAX)) << 64 | u128::from(self.below(u64::MAX));
        let outcome = self.machine.apply(Stamp { at, nonce }, command);
        match &outcome.reply {
            Reply::Granted(grant) => self.hold_keys.push(grant.key),
            Reply::Session(session) => self.session_keys.push(session.key),
            _ => {}
        }
        for event in &outcome.events {
            self.replayed.evolve(at, event);
            match event {
                Event::Queued { id, waiter } => {
                    self.waiting.insert(*id, waiter.deadline.map(Timestamp::as_millis));
                }
                Event::Granted { token, hold, waiter } => {
                    assert!(token.0 > self.token_last, "tokens rise");
                    self.token_last = token.0;
                    self.hold_keys.push(hold.key);
                    if let Some(id) = waiter {
                        let deadline = self.waiting.remove(id).expect("only who waits is served");
                        assert!(deadline.is_none_or(|deadline| deadline > self.now), "nobody is served too late");
                    }
                    if let Lifetime::Window(window) = hold.lifetime {
                        for _ in 0..hold.taken.units {
                            self.windows.push((hold.pool.name().clone(), self.now, self.now + window.as_millis()));
                        }
                    }
                }
                Event::Renewed { token, adopted_from: Some(_), .. } => {
                    assert!(self.adopted.insert(*token), "a hold leaves its session once");
                }
                Event::Ended { token, how: HoldEnd::SessionEnded, .. } => {
                    assert!(!self.adopted.contains(token), "what has left its session does not end with it");
                }
                Event::WaitEnded { id, .. } => {
                    self.waiting.remove(id).expect("a wait ends once");
                }
                Event::Restarted | Event::SessionDetached { .. } | Event::SessionKept { .. } => {
                    self.check_lost_sessions(event);
                }
                _ => {}
            }
        }
        let settled: BTreeSet<_> = outcome.settled.iter().map(|(id, _)| *id).collect();
        assert_eq!(settled.len(), outcome.settled.len(), "a wait is settled once");
        for (id, lost) in &outcome.lost {
            let ended = outcome.events.iter().filter(|event| {
                matches!(event, Event::Ended { token, session, how, .. }
                    if (*token, *session, how) == (lost.token, Some(*id), &lost.how))
            });
            assert_eq!(ended.count(), 1, "what is lost has ended, and is lost once");
        }
    }

    /// A session that has just been left without a connection has its grace and, if it is to outlast what it holds, that
    /// long; no longer.
    fn check_lost_sessions(&mut self, event: &Event) {
        let state = &self.replayed;
        for (id, session) in state.sessions().filter(|(_, session)| !session.closing) {
            if let Event::SessionDetached { id: one, .. } | Event::SessionKept { id: one, .. } = event
                && *one != id
            {
                continue;
            }
            let holds = (1..=self.token_last).filter_map(|token| state.hold(Token(token)));
            let own = holds.filter(|hold| hold.session == Some(id) && matches!(hold.lifetime, Lifetime::Session(_)));
            let last = own.filter_map(|hold| hold.deadline).max().filter(|_| session.outlasts_holds);
            let grace = Timestamp::from_millis(self.now) + session.grace;
            assert_eq!(session.deadline, Some(last.map_or(grace, |last| last.max(grace))), "{event:?}");
            self.outlasted += usize::from(session.deadline > Some(grace));
        }
    }

    fn check(&self, when: &str) {
        assert_eq!(&self.replayed, self.machine.state(), "{when}: replay equals state");
        let state = self.machine.state();
        let page = |query| match state.query(&query) {
            Ok(View::Pools(page)) => page.items,
            other => panic!("{other:?}"),
        };
        let pools =
            page(Query::Pools { namespace: Namespace::default(), prefix: String::new(), after: None, limit: 100 });
        for pool in &pools {
            let Ok(View::Pool(detail)) = state.query(&Query::Pool { pool: pool.pool.clone() }) else {
                panic!("{when}")
            };
            let Ok(View::Holds(holds)) = state.query(&Query::Holds {
                namespace: Namespace::default(),
                pool: Some(pool.pool.name().clone()),
                holder: None,
                after: None,
                limit: 1_000,
            }) else {
                panic!("{when}")
            };
            let used: u32 = holds.items.iter().map(|hold| hold.units).sum();
            assert_eq!(used, pool.used, "{when}: what is held is what is used");
            let names: Vec<_> = holds.items.iter().flat_map(|hold| &hold.resources).collect();
            assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len(), "{when}: one holder per resource");
            for hold in &holds.items {
                assert!(
                    hold.deadline.is_none_or(|deadline| deadline.as_millis() > self.now),
                    "{when}: nothing outlives"
                );
            }
            self.check_nobody_waits_in_vain(&detail, when);
        }
        self.check_sessions_have_what_ends_with_them(when);
        // In any window of its length a rate pool lets at most its size through.
        for (name, from, until) in &self.windows {
            let within =
                self.windows.iter().filter(|(other, start, _)| other == name && (from..until).contains(&start));
            assert!(within.count() <= 3, "{when}: rate {name} exceeded");
        }
    }

    fn check_sessions_have_what_ends_with_them(&self, when: &str) {
        let (state, namespace) = (self.machine.state(), Namespace::default());
        let query = Query::Holds { namespace, pool: None, holder: None, after: None, limit: 1_000 };
        let Ok(View::Holds(holds)) = state.query(&query) else { panic!("{when}") };
        let mut of_sessions = BTreeMap::new();
        for hold in &holds.items {
            if let Lifetime::Session(ttl) = hold.lifetime {
                let id = hold.session.unwrap_or_else(|| panic!("{when}: of no session"));
                assert_eq!(ttl.is_some(), hold.deadline.is_some(), "{when}: a time is a deadline");
                *of_sessions.entry(id).or_insert(0) += 1;
            }
        }
        let query = Query::Sessions { namespace: Namespace::default(), after: None, limit: 1_000 };
        let Ok(View::Sessions(sessions)) = state.query(&query) else { panic!("{when}") };
        let known = sessions.items.iter().filter(|session| session.holds > 0);
        assert_eq!(of_sessions, known.map(|session| (session.id, session.holds)).collect(), "{when}");
    }

    /// The head of the queue does not fit what is free; in a backfill pool nobody does.
    fn check_nobody_waits_in_vain(&self, detail: &PoolDetail, when: &str) {
        let pool = &detail.summary;
        if pool.condition != Condition::InService || pool.removing || pool.named {
            return;
        }
        let query = Query::Queue { pool: pool.pool.clone(), after: None, limit: 1_000 };
        let Ok(View::Queue(queue)) = self.machine.state().query(&query) else { panic!("{when}") };
        let exclusive = pool.used >= pool.size;
        let free = if exclusive { 0 } else { pool.size - pool.used };
        let mut present = queue.items.iter().filter(|waiter| waiter.position.is_some());
        let fits = |waiter: &WaiterView| match waiter.demand.amount {
            Amount::Count(count) => count <= free,
            Amount::All => pool.used == 0 && pool.size > 0,
        };
        let served = match detail.spec.order {
            Order::Strict => present.next().is_some_and(fits),
            Order::Backfill => present.any(fits),
        };
        // Somebody who took all of a pool that has grown since still has all of it.
        let all_taken = pool.holds == 1 && free > 0;
        assert!(!served || all_taken, "{when}: {} is free and a fitting waiter waits", pool.pool.name());
    }
}

fn path(name: &str) -> PoolPath {
    PoolPath::new(Namespace::default(), PoolName::parse(name).expect("a name"))
}

fn holder(id: &str) -> Arc<Holder> {
    Arc::new(Holder::parse(id, []).expect("a holder"))
}

fn resource_name(number: u64) -> ResourceName {
    ResourceName::parse(&format!("gpu-{number}")).expect("a name")
}

fn units(size: u32, order: Order) -> PoolSpec {
    PoolSpec {
        capacity: Capacity::Units(size),
        order,
        window: None,
        declared: true,
        cleaning: false,
        fair: None,
        scripts: Scripts::default(),
    }
}

fn gpus(numbers: &[u64], placement: Placement) -> PoolSpec {
    let resources = numbers
        .iter()
        .map(|number| {
            let mem = format!("{}", number * 40);
            let labels = [("gpu", ""), ("mem", mem.as_str()), ("old", "")];
            let labels = Labels::parse(labels.into_iter().take(if number % 2 == 0 { 2 } else { 3 })).expect("labels");
            ResourceSpec { name: resource_name(*number), labels, properties: Labels::default() }
        })
        .collect();
    let capacity = Capacity::Resources { placement, resources };
    PoolSpec {
        capacity,
        order: Order::Strict,
        window: None,
        declared: true,
        cleaning: false,
        fair: None,
        scripts: Scripts::default(),
    }
}

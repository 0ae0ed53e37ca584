//! From one run to the next, and from the samples' start input, with what is ours added to it, and back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use tenure_core::{
    Capacity, Command, Counters, Hold, Key, Lifetime, Pool, PoolPath, RequestId, ResourceName, Seq, SetPool, Stamp,
    State, TTL_MAX, Taken, Timestamp, Token, Waiter, WaiterId,
};

use super::{Book, Terms, key_of, path, resource, run_of, settings, spec, workflow_of};
use crate::faces::wire::{self, Carried, Held, Waiting};
use crate::keeper::{Keeper, wire as keeper_wire};

/// Of the numbers that others say. Those that follow are below what can be stored, however many there are.
pub(in crate::faces) const NUMBER_MAX: u64 = 1 << 60;
/// The end of the year 9998, in milliseconds: the last for which there is a year to come.
const TIME_MAX: u64 = 253_370_764_800_000;

/// A book as one run hands it to the next.
#[derive(Serialize, Deserialize)]
struct Moved {
    keeper: Vec<u8>,
    waiting: BTreeMap<u64, WaiterId>,
    asked_last: u64,
    held: BTreeSet<Token>,
    /// As JSON, in which what is not said is left out.
    parked: Vec<u8>,
    untold: Vec<Token>,
    runs: BTreeMap<Token, String>,
    foreign_keys: BTreeMap<Key, String>,
    max_wait_ms: Option<u64>,
}

/// Whether a start input is what a run of ours has handed on, and not JSON.
pub(crate) fn is_moved(input: Option<&[u8]>) -> bool {
    input.and_then(<[u8]>::first) == Some(&keeper_wire::VERSION)
}

impl Book {
    /// Takes up what was carried. `mint` gives numbers that nobody can guess, for those who have no key yet.
    pub(crate) fn open(
        workflow_id: &str,
        carried: Carried,
        at: Timestamp,
        mint: &mut dyn FnMut() -> u128,
    ) -> Result<Self, String> {
        let pool = path(workflow_id);
        let mut reader = Reader::new(&carried, at, mint)?;
        let mut resources = Vec::new();
        let mut holds = Vec::new();
        let mut untold = VecDeque::new();
        let mut names = BTreeSet::new();
        for (name, held) in &carried.resources {
            let name = ResourceName::parse(name).map_err(|error| error.to_string())?;
            if !names.insert(name.clone()) {
                return Err(format!("resource `{name}` is there twice"));
            }
            if let Some(held) = held {
                let (token, hold) = reader.hold(&pool, &name, held)?;
                untold.extend(held.untold.then_some(token));
                holds.push((token, hold));
            }
            resources.push(resource(name));
        }
        let mut parked = VecDeque::new();
        let mut waiters = Vec::new();
        for waiting in carried.waiters {
            match resources.is_empty() {
                true => parked.push_back(reader.parked(waiting)?),
                false => waiters.push(reader.waiter(&pool, &waiting)?),
            }
        }

        let settings = settings(workflow_id);
        let mut state = State::new(settings.limits.pool_idle);
        state.restore_counters(Counters {
            now: reader.now,
            token_next: reader.token_next,
            waiter_next: reader.waiter_next,
            session_next: 1,
            seq: Seq(0),
            requests_forgotten: 0,
        });
        let spec = spec(resources);
        state.restore_pool(pool.clone(), Pool::new(&spec));
        let waiting: BTreeMap<_, _> = (1..).zip(waiters.iter().map(|(id, _)| *id)).collect();
        let held = holds.iter().map(|(token, _)| *token).collect();
        holds.into_iter().for_each(|(token, hold)| state.restore_hold(token, hold));
        waiters.into_iter().for_each(|(id, waiter)| state.restore_waiter(id, waiter, true));
        let stamp = Stamp { at: reader.now, nonce: (reader.mint)() };
        let mut book = Self {
            keeper: Keeper::of_house(settings, state, waiting.iter().map(|(ticket, id)| (*ticket, *id))),
            pool,
            asked_last: waiting.len() as u64,
            waiting,
            held,
            parked,
            untold,
            telling: BTreeSet::new(),
            runs: BTreeMap::new(),
            foreign_keys: reader.foreign_keys,
            carried_bytes: 0,
        };
        book.carried_bytes = book.measure();
        // Whoever can be served is: a pool that was moved may have both free resources and waiters.
        book.apply(stamp, Command::SetPool(SetPool { pool: book.pool.clone(), spec }))?;
        Ok(book)
    }

    /// Takes up what [`Book::hand_on`] gave, with the longest wait.
    pub(crate) fn moved(workflow_id: &str, input: Option<&[u8]>) -> Result<(Self, Option<u64>), String> {
        let bytes = input.ok_or("has no argument")?;
        let moved: Moved = keeper_wire::decode(bytes).map_err(|error| error.to_string())?;
        let keeper = Keeper::restore(&moved.keeper)?;
        let state = keeper.state();
        // A server can have set others beside it; and whoever takes it over does not go by its name.
        let own = Some(path(workflow_id)).filter(|own| state.pool(own).is_some());
        let pool = own.or_else(|| state.pools().next().cloned()).ok_or("has no pool")?;
        let is_named = |pool: &Pool| matches!(pool.spec().capacity, Capacity::Resources { .. });
        if !state.pool(&pool).is_some_and(is_named) || moved.waiting.values().any(|id| state.waiter(*id).is_none()) {
            return Err("tells of what is not there".into());
        }
        let mut book = Self {
            keeper,
            pool,
            waiting: moved.waiting,
            asked_last: moved.asked_last,
            held: moved.held,
            parked: wire::read(Some(&moved.parked))?,
            untold: moved.untold.into(),
            telling: BTreeSet::new(),
            runs: moved.runs,
            foreign_keys: moved.foreign_keys,
            carried_bytes: 0,
        };
        book.carried_bytes = book.measure();
        Ok((book, moved.max_wait_ms))
    }

    /// The start input of the next run.
    pub(crate) fn hand_on(&self, max_wait_ms: Option<u64>) -> Vec<u8> {
        keeper_wire::encode(&Moved {
            keeper: self.keeper.snapshot(),
            waiting: self.waiting.clone(),
            asked_last: self.asked_last,
            held: self.held.clone(),
            parked: wire::write(&self.parked),
            untold: self.telling.iter().chain(&self.untold).copied().collect(),
            runs: self.runs.clone(),
            foreign_keys: self.foreign_keys.clone(),
            max_wait_ms,
        })
    }

    /// Everything as a pool of the samples would start with it.
    pub(crate) fn carry(&self) -> Carried {
        let counters = self.keeper.state().counters();
        let waiters = self.waiters().map(|(id, waiter)| carried_waiter(id, waiter));
        Carried {
            counters: wire::Counters {
                now_ms: counters.now.as_millis(),
                token_next: counters.token_next,
                waiter_next: counters.waiter_next,
            },
            resources: self.holders(),
            waiters: waiters.chain(self.parked.iter().cloned()).collect(),
        }
    }

    /// Each resource and who has it, in the order in which they are handed out.
    pub(crate) fn holders(&self) -> Vec<(String, Option<Held>)> {
        let mut held: BTreeMap<_, _> = self
            .holds()
            .flat_map(|(token, hold)| hold.taken.resources.iter().map(move |name| (name, (token, hold))))
            .map(|(name, (token, hold))| (name.clone(), self.carried_hold(token, hold)))
            .collect();
        let resources = self.resources().into_iter();
        resources.map(|it| (it.name.to_string(), held.remove(&it.name))).collect()
    }

    fn carried_hold(&self, token: Token, hold: &Hold) -> Held {
        Held {
            asked_ms: Some(hold.asked.as_millis()),
            deadline_ms: hold.deadline.map(Timestamp::as_millis),
            release_signal: Some(self.key_text(hold.key)),
            request_id: hold.request.as_ref().map(RequestId::to_string),
            run_id: self.run_of(token, hold),
            since_ms: Some(hold.since.as_millis()),
            token: Some(token.0),
            ttl_ms: ttl_of(&hold.lifetime),
            untold: self.untold.contains(&token) || self.telling.contains(&token),
            workflow_id: workflow_of(&hold.holder),
        }
    }
}

fn carried_waiter(id: WaiterId, waiter: &Waiter) -> Waiting {
    Waiting {
        arrival: Some(id.0),
        asked_ms: Some(waiter.since.as_millis()),
        deadline_ms: waiter.deadline.map(Timestamp::as_millis),
        priority: Some(i64::from(waiter.priority.get())).filter(|priority| *priority != 0),
        release_signal: Some(waiter.key.to_string()),
        request_id: waiter.request.as_ref().map(RequestId::to_string),
        run_id: run_of(&waiter.holder).map(str::to_owned),
        select: waiter.demand.selector.as_ref().map(|selector| selector.as_str().to_owned()),
        ttl_ms: ttl_of(&waiter.lifetime),
        workflow_id: workflow_of(&waiter.holder),
    }
}

fn ttl_of(lifetime: &Lifetime) -> Option<u64> {
    match lifetime {
        Lifetime::Leased(ttl) => Some(ttl.as_millis()),
        _ => None,
    }
}

/// Reads what was carried. What a pool of the samples does not say (tokens, times, a waiter's place) is made up in order.
struct Reader<'a> {
    mint: &'a mut dyn FnMut() -> u128,
    now: Timestamp,
    token_next: u64,
    waiter_next: u64,
    numbers: BTreeSet<u64>,
    arrivals: BTreeSet<u64>,
    keys: BTreeSet<Key>,
    foreign_keys: BTreeMap<Key, String>,
}

impl<'a> Reader<'a> {
    fn new(carried: &Carried, at: Timestamp, mint: &'a mut dyn FnMut() -> u128) -> Result<Self, String> {
        let held = || carried.resources.iter().filter_map(|(_, held)| held.as_ref());
        let waiting = || carried.waiters.iter();
        let counters = &carried.counters;
        let since = held().filter_map(|held| held.since_ms.max(held.asked_ms));
        let asked = waiting().filter_map(|waiting| waiting.asked_ms);
        let latest = since.chain(asked).chain([counters.now_ms]).max().unwrap_or_default();
        let token_last = held().filter_map(|held| held.token).max().unwrap_or_default();
        let arrival_last = waiting().filter_map(|waiting| waiting.arrival).max().unwrap_or_default();
        let (token_next, waiter_next) = (counters.token_next.max(1), counters.waiter_next.max(1));
        if [token_next, waiter_next, token_last, arrival_last].iter().any(|number| *number > NUMBER_MAX) {
            return Err("a token or the number of a waiter is impossibly high".into());
        }
        if latest > TIME_MAX {
            return Err("somebody has asked in a time that nobody will see".into());
        }
        Ok(Self {
            mint,
            now: at.max(Timestamp::from_millis(latest)),
            token_next: token_next.max(token_last + 1),
            waiter_next: waiter_next.max(arrival_last + 1),
            numbers: BTreeSet::new(),
            arrivals: BTreeSet::new(),
            keys: BTreeSet::new(),
            foreign_keys: BTreeMap::new(),
        })
    }

    /// Nothing lasts longer from now on than anybody may ask for: a timer that is set for it must be one that Temporal takes.
    fn deadline(&self, millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).min(self.now + TTL_MAX)
    }

    /// One who waits for a resource to be there.
    fn parked(&self, waiting: Waiting) -> Result<Waiting, String> {
        Terms::read(&waiting)?;
        let deadline_ms = waiting.deadline_ms.map(|deadline| self.deadline(deadline).as_millis());
        Ok(Waiting { deadline_ms, ..waiting })
    }

    fn hold(&mut self, pool: &PoolPath, name: &ResourceName, held: &Held) -> Result<(Token, Hold), String> {
        let asked = Waiting {
            run_id: held.run_id.clone(),
            request_id: held.request_id.clone(),
            ttl_ms: held.ttl_ms,
            workflow_id: held.workflow_id.clone(),
            ..Waiting::default()
        };
        let terms = Terms::read(&asked)?;
        let since = held.since_ms.map_or(self.now, Timestamp::from_millis);
        let deadline = match &terms.lifetime {
            Lifetime::Leased(ttl) => Some(held.deadline_ms.map_or(since + *ttl, |deadline| self.deadline(deadline))),
            _ => None,
        };
        let hold = Hold {
            pool: pool.clone(),
            key: self.key(held.release_signal.as_deref()),
            holder: terms.holder,
            taken: Taken { units: 1, resources: [name.clone()].into(), all: false, dirty: false },
            lifetime: terms.lifetime,
            asked: held.asked_ms.map_or(since, Timestamp::from_millis),
            since,
            deadline,
            session: None,
            request: terms.request,
            also: Box::default(),
        };
        let token = number(&mut self.numbers, held.token, &mut self.token_next);
        Ok((Token(token), hold))
    }

    fn waiter(&mut self, pool: &PoolPath, waiting: &Waiting) -> Result<(WaiterId, Waiter), String> {
        let terms = Terms::read(waiting)?;
        let waiter = Waiter {
            pool: pool.clone(),
            key: self.key(waiting.release_signal.as_deref()),
            holder: terms.holder,
            demand: terms.demand,
            lifetime: terms.lifetime,
            priority: terms.priority,
            since: waiting.asked_ms.map_or(self.now, Timestamp::from_millis),
            deadline: waiting.deadline_ms.map(|deadline| self.deadline(deadline)),
            session: None,
            request: terms.request,
            also: Box::default(),
            holds_on: false,
            rank: None,
        };
        let id = number(&mut self.arrivals, waiting.arrival, &mut self.waiter_next);
        Ok((WaiterId(id), waiter))
    }

    fn key(&mut self, text: Option<&str>) -> Key {
        if let Some(text) = text
            && self.keys.insert(key_of(text))
        {
            let key = key_of(text);
            if key.to_string() != text {
                self.foreign_keys.insert(key, text.to_owned());
            }
            return key;
        }
        let key = Key::from_nonce((self.mint)());
        self.keys.insert(key);
        key
    }
}

/// The number it had, or the next if it had none or shares it with another.
fn number(taken: &mut BTreeSet<u64>, own: Option<u64>, next: &mut u64) -> u64 {
    match own.filter(|own| taken.insert(*own)) {
        Some(own) => own,
        None => {
            *next += 1;
            *next - 1
        }
    }
}

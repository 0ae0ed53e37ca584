//! The book that a face keeps: a keeper with one pool of named resources in it, which servers may ask too, whom of the
//! workflows to tell of a grant, and how all that is carried into the next run. No SDK, no clock and no randomness here: they come in with the stamps.

mod carry;

pub(super) use carry::NUMBER_MAX;
pub(crate) use carry::is_moved;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tenure_core::{
    Acquire, Amount, Capacity, Command, Demand, ForceRelease, Hold, Holder, Key, Labels, Lifetime, Limits, Namespace,
    Note, Order, OwnerId, Placement, PoolName, PoolPath, PoolSpec, Priority, RESOURCES_PER_POOL_MAX, Release, Reply,
    RequestId, ResourceName, ResourceSpec, Scripts, Selector, SetPool, Stamp, Timestamp, Token, Ttl, Wait, Waiter,
    WaiterId,
};

use crate::keeper::wire::{Answer, Batch};
use crate::keeper::{FACE_MARKS, Keeper, Settings};

use super::wire::{AcquireResource, Assigned, Owner, OwnerGone, Waiting, WithdrawRequest};

/// A run starts with one payload, of at most 2 MiB, and a start that is larger wedges the pool for good.
const CARRIED_BYTES_MAX: usize = 1_500_000;
/// What a hold or a wait takes up there at most, besides its texts.
const ENTRY_BYTES: usize = 300;
/// The metadata in which the rules keep what does not fit into a holder's id.
const RUN_ID: &str = "run_id";
const ID_REST: &str = "workflow_id_rest";

#[derive(Debug)]
pub(crate) struct Book {
    keeper: Keeper,
    pool: PoolPath,
    /// The waits that workflows have, by the numbers of what they asked; each hears of its grant by a signal.
    waiting: BTreeMap<u64, WaiterId>,
    asked_last: u64,
    /// The holds that workflows have. All others are those of servers' callers.
    held: BTreeSet<Token>,
    /// Asked before there was any resource, which the rules would refuse: the samples let them wait.
    parked: VecDeque<Waiting>,
    untold: VecDeque<Token>,
    telling: BTreeSet<Token>,
    /// Holds that were handed over to a later run of their workflow.
    runs: BTreeMap<Token, String>,
    /// Keys that others made, in forms of their own.
    foreign_keys: BTreeMap<Key, String>,
    /// At most so much is carried into the next run; less if something has ended since.
    carried_bytes: usize,
}

/// Somebody to be told that a resource is theirs. The hold stands already; it is taken back if they cannot be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tell {
    pub(crate) token: Token,
    pub(crate) workflow_id: String,
    pub(crate) run_id: Option<String>,
    pub(crate) assigned: Assigned,
}

/// Why something that was asked is not done. For the log: the samples' users expect no answer.
pub(crate) type Dropped = String;

impl Book {
    pub(crate) fn acquire(
        &mut self,
        stamp: Stamp,
        asked: AcquireResource,
        max_wait: Option<u64>,
    ) -> Result<(), Dropped> {
        let at = self.now(stamp);
        let waiting = Waiting {
            arrival: None,
            asked_ms: Some(at.as_millis()),
            deadline_ms: asked.wait_ms.or(max_wait).map(|wait| at.as_millis().saturating_add(wait)),
            priority: asked.priority,
            release_signal: None,
            request_id: asked.request_id.map(|request| request_of(&asked.workflow_id, &request)),
            run_id: asked.run_id,
            select: asked.select,
            ttl_ms: asked.ttl_ms,
            workflow_id: asked.workflow_id,
        };
        self.check_size(&waiting)?;
        // Who is parked may not be able to ask later either, and until then is carried from run to run.
        Terms::read(&waiting)?;
        self.wait(&waiting, at)?;
        if self.resources().is_empty() {
            self.parked.push_back(waiting);
            return Ok(());
        }
        self.ask(stamp, &waiting)
    }

    /// Ends the hold with this key; of this resource, if one is named.
    pub(crate) fn release_by_key(&mut self, stamp: Stamp, key: &str, resource: Option<&str>) -> Result<(), Dropped> {
        let key = key_of(key);
        let held = self.holds().find(|(_, hold)| hold.key == key);
        let Some((token, hold)) = held else { return Err("no hold has this release_key".into()) };
        if resource.is_some_and(|name| hold.taken.resources.iter().all(|taken| taken.as_str() != name)) {
            return Err(format!("the hold with this release_key (token {}) is of another resource", token.0));
        }
        self.release(stamp, key)
    }

    /// Ends the hold of this resource, if this run of this workflow has it.
    pub(crate) fn release_by_party(
        &mut self,
        stamp: Stamp,
        resource: &str,
        workflow_id: &str,
        run_id: Option<&str>,
    ) -> Result<(), Dropped> {
        let (_, key) = self.held_by(resource, workflow_id, run_id)?;
        self.release(stamp, key)
    }

    /// The holder goes on as another run, which is told.
    pub(crate) fn hand_over(
        &mut self,
        resource: &str,
        workflow_id: &str,
        old_run: &str,
        new_run: &str,
    ) -> Result<(), Dropped> {
        let (token, _) = self.held_by(resource, workflow_id, Some(old_run))?;
        // Whoever goes on from here reads it as a holder's.
        holder(workflow_id, Some(new_run)).map_err(|error| error.to_string())?;
        self.check_room(new_run.len())?;
        self.runs.insert(token, new_run.to_owned());
        self.untold.push_back(token);
        Ok(())
    }

    /// Adds resources after those there are; known names are left alone.
    pub(crate) fn add_resources(&mut self, stamp: Stamp, names: &[String]) -> Result<(), Dropped> {
        let mut resources = self.resources();
        let known = resources.len();
        for name in names {
            let name = ResourceName::parse(name).map_err(|error| error.to_string())?;
            if resources.iter().all(|known| known.name != name) {
                resources.push(resource(name));
            }
        }
        if resources.len() > RESOURCES_PER_POOL_MAX {
            return Err(format!("a pool has at most {RESOURCES_PER_POOL_MAX} resources"));
        }
        self.check_room(resources[known..].iter().map(resource_bytes).sum())?;
        let set = SetPool { pool: self.pool.clone(), spec: spec(resources) };
        self.apply(stamp, Command::SetPool(set))?;
        self.ask_parked(stamp)
    }

    /// Asks on behalf of those who came when there was nothing to ask for.
    fn ask_parked(&mut self, stamp: Stamp) -> Result<(), Dropped> {
        let parked = std::mem::take(&mut self.parked);
        let asked = parked.into_iter().zip(1_u128..).filter_map(|(parked, n)| {
            // Each has a key of its own, which is made from the nonce.
            let nonce = digest(&format!("{:032x}/{n}", stamp.nonce));
            self.ask(Stamp { nonce, ..stamp }, &parked).err().map(|why| format!("`{}`: {why}", parked.workflow_id))
        });
        let dropped: Vec<_> = asked.collect();
        if dropped.is_empty() { Ok(()) } else { Err(dropped.join("; ")) }
    }

    /// Ends what a workflow has and waits for, as far as it asked for it by then. Often that is nothing any more: it may have
    /// released it just before it ended.
    pub(crate) fn owner_gone(&mut self, stamp: Stamp, gone: &OwnerGone) -> Result<(), Dropped> {
        let until = Timestamp::from_millis(gone.asked_until_ms.unwrap_or(u64::MAX));
        let is_meant = |workflow_id: &str, run_id: Option<&str>, asked: Timestamp| {
            workflow_id == gone.workflow_id
                && asked <= until
                && gone.run_id.as_deref().is_none_or(|run| run_id == Some(run))
        };
        self.parked.retain(|parked| {
            let asked = Timestamp::from_millis(parked.asked_ms.unwrap_or_default());
            !is_meant(&parked.workflow_id, parked.run_id.as_deref(), asked)
        });
        self.end_waits(stamp, |waiter| is_meant(&workflow_of(&waiter.holder), run_of(&waiter.holder), waiter.since));
        // A wait that ended may have let another of the same workflow through, so the holds are looked at only now.
        let held = self.holds_of_workflows().filter(|(token, hold)| {
            is_meant(&workflow_of(&hold.holder), self.run_of(*token, hold).as_deref(), hold.asked)
        });
        let held: Vec<_> = held.map(|(token, hold)| (token, hold.holder.id.clone())).collect();
        for (token, holder) in held {
            let reason = Note::parse("its workflow is gone").expect("a short sentence");
            let force = ForceRelease { pool: self.pool.clone(), holder, token, reason };
            self.apply(stamp, Command::ForceRelease(force))?;
        }
        Ok(())
    }

    /// Ends what a workflow waits for: everything, or one request.
    pub(crate) fn withdraw(&mut self, stamp: Stamp, asked: &WithdrawRequest) -> Result<(), Dropped> {
        let request = asked.request_id.as_deref().map(|request| request_of(&asked.workflow_id, request));
        let is_meant = |workflow: &str, own: Option<&str>| {
            workflow == asked.workflow_id && request.as_deref().is_none_or(|request| own == Some(request))
        };
        self.parked.retain(|parked| !is_meant(&parked.workflow_id, parked.request_id.as_deref()));
        self.end_waits(stamp, |waiter| {
            is_meant(&workflow_of(&waiter.holder), waiter.request.as_ref().map(RequestId::as_str))
        });
        Ok(())
    }

    /// Does what a server asks for, and answers it.
    pub(crate) fn batch(&mut self, at: Timestamp, batch: Batch) -> Answer {
        let answer = self.keeper.batch(at, batch);
        self.hear_keeper(at);
        if !self.parked.is_empty() && !self.resources().is_empty() {
            // The server has added resources. Its seed has been mixed into what keys are made from.
            let stamp = Stamp { at, nonce: 0 };
            // Those who cannot ask are those whose time is over.
            let _ = self.ask_parked(stamp);
        }
        answer
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    pub(crate) fn keeper_mut(&mut self) -> &mut Keeper {
        &mut self.keeper
    }

    /// Ends what is due.
    pub(crate) fn tick(&mut self, stamp: Stamp) {
        let at = self.now(stamp);
        self.parked.retain(|parked| parked.deadline_ms.is_none_or(|deadline| deadline > at.as_millis()));
        self.keeper.tick(at);
        self.hear_keeper(at);
    }

    /// When [`Book::tick`] is to be called next.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        let parked = self.parked.iter().filter_map(|parked| parked.deadline_ms).map(Timestamp::from_millis);
        self.keeper.next_deadline().into_iter().chain(parked).min()
    }

    /// Whom to tell now. Each is to be answered with [`Book::told`].
    pub(crate) fn tells(&mut self) -> Vec<Tell> {
        let untold = std::mem::take(&mut self.untold);
        let tells: Vec<_> = untold.into_iter().filter_map(|token| self.tell(token)).collect();
        self.telling.extend(tells.iter().map(|tell| tell.token));
        tells
    }

    pub(crate) fn has_tells(&self) -> bool {
        !self.untold.is_empty()
    }

    /// What came of telling. A grant that could not be told goes to the next.
    pub(crate) fn told(&mut self, stamp: Stamp, token: Token, heard: bool) {
        self.telling.remove(&token);
        if !heard {
            self.apply(stamp, Command::TakeBack { token }).expect("what is not there is not taken back");
        }
    }

    /// Every workflow that has or wants something.
    pub(crate) fn owners(&self) -> Vec<Owner> {
        let holders = self.holds_of_workflows().map(|(token, hold)| Owner {
            workflow_id: workflow_of(&hold.holder),
            run_id: self.run_of(token, hold),
            asked_ms: hold.asked.as_millis(),
        });
        let waiters = self.waiters().map(|(_, waiter)| Owner {
            workflow_id: workflow_of(&waiter.holder),
            run_id: run_of(&waiter.holder).map(str::to_owned),
            asked_ms: waiter.since.as_millis(),
        });
        let parked = self.parked.iter().map(|parked| Owner {
            workflow_id: parked.workflow_id.clone(),
            run_id: parked.run_id.clone(),
            asked_ms: parked.asked_ms.unwrap_or_default(),
        });
        holders.chain(waiters).chain(parked).collect()
    }

    fn tell(&self, token: Token) -> Option<Tell> {
        // It may have ended since.
        let hold = self.keeper.state().hold(token)?;
        let assigned = Assigned {
            deadline_ms: hold.deadline.map(Timestamp::as_millis),
            release_key: self.key_text(hold.key),
            resource: hold.taken.resources.first()?.to_string(),
            token: token.0,
        };
        Some(Tell { token, workflow_id: workflow_of(&hold.holder), run_id: self.run_of(token, hold), assigned })
    }

    fn ask(&mut self, stamp: Stamp, asked: &Waiting) -> Result<(), Dropped> {
        let wait = self.wait(asked, self.now(stamp))?;
        let terms = Terms::read(asked)?;
        let acquire = Acquire {
            pool: self.pool.clone(),
            demand: terms.demand,
            size: None,
            lifetime: Some(terms.lifetime),
            wait,
            priority: terms.priority,
            holder: terms.holder,
            session: None,
            request: terms.request,
            also: Box::default(),
            holds_on: false,
        };
        self.apply(stamp, Command::Acquire(acquire))
    }

    /// How long it waits from now on.
    fn wait(&self, asked: &Waiting, at: Timestamp) -> Result<Wait, Dropped> {
        match asked.deadline_ms.map(|deadline| deadline.saturating_sub(at.as_millis())) {
            None => Ok(Wait::Forever),
            Some(0) => Err("its wait is over".into()),
            Some(left) => Ttl::parse("wait_ms", left).map(Wait::For).map_err(|error| error.to_string()),
        }
    }

    fn release(&mut self, stamp: Stamp, key: Key) -> Result<(), Dropped> {
        let namespace = self.pool.namespace().clone();
        self.apply(stamp, Command::Release(Release { namespace, key, pool: None }))
    }

    fn end_waits(&mut self, stamp: Stamp, is_meant: impl Fn(&Waiter) -> bool) {
        let state = self.keeper.state();
        let is_meant = |id| state.waiter(id).is_some_and(|(waiter, _)| is_meant(waiter));
        let meant = self.waiting.iter().filter(|(_, id)| is_meant(**id)).map(|(ticket, _)| *ticket);
        for ticket in meant.collect::<Vec<_>>() {
            // One that ended may have let the next through.
            if self.waiting.remove(&ticket).is_some() {
                self.keeper.hang_up(stamp.at, ticket);
                self.hear_keeper(stamp.at);
            }
        }
    }

    /// Time does not run back, whatever the workflow's clock says after it has moved to another host.
    fn now(&self, stamp: Stamp) -> Timestamp {
        stamp.at.max(self.keeper.state().counters().now)
    }

    fn apply(&mut self, stamp: Stamp, command: Command) -> Result<(), Dropped> {
        self.asked_last += 1;
        let ticket = self.asked_last;
        self.keeper.ask(stamp.at, stamp.nonce, ticket, command);
        let heard = self.hear_keeper(stamp.at);
        let answer = heard.into_iter().find(|(asked, _)| *asked == ticket);
        match answer.expect("every command is answered").1 {
            Reply::Refused(refusal) => Err(refusal.to_string()),
            _ => Ok(()),
        }
    }

    /// Notes what the keeper says to workflows.
    fn hear_keeper(&mut self, at: Timestamp) -> Vec<(u64, Reply)> {
        let heard = self.keeper.heard();
        for (ticket, reply) in &heard {
            match reply {
                // The same request again: it is told with the first.
                Reply::Queued(queued) if self.waiting.values().any(|waiter| *waiter == queued.waiter) => {
                    self.keeper.hang_up(at, *ticket);
                }
                Reply::Queued(queued) => {
                    self.waiting.insert(*ticket, queued.waiter);
                }
                Reply::Granted(grant) => {
                    self.waiting.remove(ticket);
                    self.held.insert(grant.token);
                    self.untold.push_back(grant.token);
                }
                _ => {
                    self.waiting.remove(ticket);
                }
            }
        }
        let state = self.keeper.state();
        self.held.retain(|token| state.hold(*token).is_some());
        self.runs.retain(|token, _| state.hold(*token).is_some());
        if !self.foreign_keys.is_empty() {
            let known: BTreeSet<_> = self.holds().map(|(_, hold)| hold.key).collect();
            self.foreign_keys.retain(|key, _| known.contains(key));
        }
        heard
    }

    fn held_by(&self, resource: &str, workflow_id: &str, run_id: Option<&str>) -> Result<(Token, Key), Dropped> {
        let held = self.holds().find(|(_, hold)| hold.taken.resources.iter().any(|name| name.as_str() == resource));
        let Some((token, hold)) = held else { return Err(format!("resource `{resource}` is not held")) };
        if workflow_of(&hold.holder) != workflow_id || self.run_of(token, hold).as_deref() != run_id {
            return Err(format!("resource `{resource}` is held by another workflow, or another run of it"));
        }
        Ok((token, hold.key))
    }

    fn resources(&self) -> Vec<ResourceSpec> {
        let pool = self.keeper.state().pool(&self.pool).expect("the pool is declared");
        match pool.spec().capacity {
            Capacity::Resources { resources, .. } => resources,
            Capacity::Units(_) => unreachable!("the pool has named resources"),
        }
    }

    /// Those of this pool, by resource, in the order of their names.
    fn holds(&self) -> impl Iterator<Item = (Token, &Hold)> {
        let state = self.keeper.state();
        let pool = state.pool(&self.pool).expect("the pool is declared");
        let held = pool.resources().filter_map(|(_, resource)| resource.hold());
        held.map(|token| (token, state.hold(token).expect("what is held has a hold")))
    }

    fn holds_of_workflows(&self) -> impl Iterator<Item = (Token, &Hold)> {
        self.holds().filter(|(token, _)| self.held.contains(token))
    }

    /// Those that workflows have, in the order in which they asked.
    fn waiters(&self) -> impl Iterator<Item = (WaiterId, &Waiter)> {
        let state = self.keeper.state();
        // All are in the queue, unless what the run before has handed on was not a run's.
        self.waiting.values().filter_map(|id| Some((*id, state.waiter(*id)?.0)))
    }

    fn run_of(&self, token: Token, hold: &Hold) -> Option<String> {
        self.runs.get(&token).cloned().or_else(|| run_of(&hold.holder).map(str::to_owned))
    }

    fn key_text(&self, key: Key) -> String {
        self.foreign_keys.get(&key).cloned().unwrap_or_else(|| key.to_string())
    }

    /// Refuses what would not fit into the next run.
    fn check_size(&mut self, more: &Waiting) -> Result<(), Dropped> {
        let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let texts = [&more.request_id, &more.run_id, &more.select].map(optional);
        let own = ENTRY_BYTES + more.workflow_id.len() + texts.iter().sum::<usize>();
        if self.keeper.is_heavy() {
            return Err(self.is_full());
        }
        self.check_room(own)
    }

    /// Takes the room that there is for so many bytes.
    fn check_room(&mut self, bytes: usize) -> Result<(), Dropped> {
        if self.carried_bytes + bytes > CARRIED_BYTES_MAX {
            // Much may have ended since it was last looked at.
            self.carried_bytes = self.measure();
        }
        if self.carried_bytes + bytes > CARRIED_BYTES_MAX {
            return Err(self.is_full());
        }
        self.carried_bytes += bytes;
        Ok(())
    }

    fn is_full(&self) -> Dropped {
        let entries = self.waiting.len() + self.parked.len();
        format!("{entries} are waiting already, and more would not fit into the next run")
    }

    pub(super) fn measure(&self) -> usize {
        let text = |holder: &Holder, request: Option<&RequestId>| {
            let meta = holder.meta().map(|(_, value)| value.len());
            let request = request.map_or(0, |request| request.as_str().len());
            ENTRY_BYTES + holder.id.as_str().len() + meta.sum::<usize>() + request
        };
        let select = |demand: &Demand| demand.selector.as_ref().map_or(0, |selector| selector.as_str().len());
        let resources: usize = self.resources().iter().map(resource_bytes).sum();
        let runs: usize = self.runs.values().map(String::len).sum();
        let held = self.holds().map(|(_, hold)| text(&hold.holder, hold.request.as_ref()));
        let waiting =
            self.waiters().map(|(_, waiter)| text(&waiter.holder, waiter.request.as_ref()) + select(&waiter.demand));
        let parked = self.parked.iter().map(|parked| 2 * ENTRY_BYTES + parked.workflow_id.len());
        resources + runs + held.chain(waiting).chain(parked).sum::<usize>()
    }
}

/// Whether the rules can take what a workflow asks for.
pub(crate) fn is_usable(asked: &Waiting) -> bool {
    Terms::read(asked).is_ok()
}

/// What an asking workflow says, as the rules take it.
struct Terms {
    demand: Demand,
    holder: Arc<Holder>,
    lifetime: Lifetime,
    priority: Priority,
    request: Option<RequestId>,
}

impl Terms {
    fn read(asked: &Waiting) -> Result<Self, Dropped> {
        let invalid = |error: tenure_core::Invalid| error.to_string();
        let selector = asked.select.as_deref().map(Selector::parse).transpose().map_err(|error| error.to_string())?;
        let lifetime = match asked.ttl_ms {
            Some(ttl) => Lifetime::Leased(Ttl::parse("ttl_ms", ttl).map_err(invalid)?),
            None => Lifetime::Bound(OwnerId::parse(&asked.workflow_id).map_err(invalid)?),
        };
        Ok(Self {
            demand: Demand { amount: Amount::Count(1), selector, dirty: false },
            holder: Arc::new(holder(&asked.workflow_id, asked.run_id.as_deref()).map_err(invalid)?),
            lifetime,
            priority: Priority::parse(asked.priority.unwrap_or_default()).map_err(invalid)?,
            request: asked.request_id.as_deref().map(RequestId::parse).transpose().map_err(invalid)?,
        })
    }
}

/// A workflow as a holder. Temporal's ids may be longer than a holder's.
fn holder(workflow_id: &str, run_id: Option<&str>) -> Result<Holder, tenure_core::Invalid> {
    let cut = workflow_id.floor_char_boundary(tenure_core::NAME_BYTES_MAX);
    let (id, rest) = workflow_id.split_at(cut);
    let rest = Some(rest).filter(|rest| !rest.is_empty());
    Holder::parse(id, run_id.map(|run| (RUN_ID, run)).into_iter().chain(rest.map(|rest| (ID_REST, rest))))
}

fn workflow_of(holder: &Holder) -> String {
    let rest = holder.meta().find(|(name, _)| *name == ID_REST).map_or("", |(_, rest)| rest);
    format!("{}{rest}", holder.id)
}

fn run_of(holder: &Holder) -> Option<&str> {
    holder.meta().find(|(name, _)| *name == RUN_ID).map(|(_, run)| run)
}

/// A workflow's own name for a request, made unlike everybody else's.
fn request_of(workflow_id: &str, request: &str) -> String {
    let text = format!("{workflow_id}/{request}");
    if text.len() <= tenure_core::REQUEST_ID_BYTES_MAX { text } else { Key::from_bits(digest(&text)).to_string() }
}

/// A key as the rules know it, whatever it looks like.
fn key_of(text: &str) -> Key {
    Key::parse(text).unwrap_or_else(|_| Key::from_nonce(digest(text)))
}

pub(super) fn digest(text: &str) -> u128 {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    u128::from_be_bytes(*digest.as_ref().first_chunk().expect("32 bytes begin with 16"))
}

fn resource(name: ResourceName) -> ResourceSpec {
    ResourceSpec { name, labels: Labels::default(), properties: Labels::default() }
}

/// What one takes up in the next run's start.
fn resource_bytes(resource: &ResourceSpec) -> usize {
    resource.name.as_str().len() + ENTRY_BYTES / 10
}

fn spec(resources: Vec<ResourceSpec>) -> PoolSpec {
    let capacity = Capacity::Resources { placement: Placement::First, resources };
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

/// A face's pool is named after its workflow.
fn path(workflow_id: &str) -> PoolPath {
    let cut = workflow_id.floor_char_boundary(tenure_core::NAME_BYTES_MAX);
    let name = PoolName::parse(&workflow_id[..cut]);
    PoolPath::new(Namespace::default(), name.unwrap_or_else(|_| PoolName::parse("face").expect("a short name")))
}

fn settings(workflow_id: &str) -> Settings {
    let face = Some(mark(workflow_id));
    Settings { limits: Limits::default(), index: 0, of: 1, face, time_told_from: None }
}

/// What the keys of a face end with.
pub(crate) fn mark(workflow_id: &str) -> u16 {
    let bits = digest(workflow_id) % FACE_MARKS;
    u16::try_from(bits).expect("it is a rest of a division by as many")
}

//! What is chosen by the scores of a pool's scripts, and what becomes of scripts that give none. Only looks; the machine
//! turns a choice into events.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

use crate::command::{Capacity, Demand, PoolSpec, ResourceSpec};
use crate::handout::Handout;
use crate::limits::*;
use crate::mutation::Mistake;
use crate::names::{Holder, HolderId, PoolPath, Priority, ResourceName};
use crate::placement::{self, Candidate, Fit, choose_for, take_units};
use crate::policy::{Budget, Fault, Offer, Policies, Policy, Request, Scripts, Sight, Which};
use crate::pool::{Kind, Pool, Resources, Taken};
use crate::state::State;
use crate::time::Timestamp;
use crate::view::Place;

/// What a pool's scripts have come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scripting {
    pub(crate) scripts: Scripts,
    /// How often they have failed since they were set.
    pub(crate) faults: u32,
}

impl Scripting {
    pub(crate) fn set_aside(&self) -> bool {
        self.faults >= SCRIPT_FAULTS_MAX
    }
}

/// Compiles a text once, and remembers it for the pool that has it.
pub(crate) struct Compiler {
    policies: Option<Arc<dyn Policies>>,
    compiled: BTreeMap<PoolPath, Arc<Compiled>>,
}

/// The policies of one pool, or why there is none.
pub(crate) struct Compiled {
    scripts: Scripts,
    place: Option<Result<Scorer, Fault>>,
    order: Option<Result<Scorer, Fault>>,
}

/// One of them, and what it looks at.
struct Scorer {
    policy: Arc<dyn Policy>,
    sight: Sight,
}

impl Compiler {
    pub(crate) fn new(policies: Option<Arc<dyn Policies>>) -> Self {
        Self { policies, compiled: BTreeMap::new() }
    }

    pub(crate) fn compile(&self, scripts: &Scripts) -> Compiled {
        let compile = |which| {
            let script = scripts.get(which)?;
            Some(match &self.policies {
                Some(policies) => policies.compile(which, script.as_str()).map(|policy| {
                    let sight = policy.sight();
                    Scorer { policy, sight }
                }),
                None => Err(Fault::new("cannot be used here: this engine was started without policies")),
            })
        };
        Compiled { scripts: scripts.clone(), place: compile(Which::Place), order: compile(Which::Order) }
    }

    /// Those of a pool that has scripts which have not been set aside.
    pub(crate) fn of(&mut self, path: &PoolPath, pool: &Pool) -> Option<Arc<Compiled>> {
        let scripting = pool.scripting.as_deref().filter(|scripting| !scripting.set_aside())?;
        match self.compiled.get(path) {
            Some(known) if known.scripts == scripting.scripts => Some(known.clone()),
            // After a restart nothing has been compiled yet.
            _ => {
                let compiled = Arc::new(self.compile(&scripting.scripts));
                self.compiled.insert(path.clone(), compiled.clone());
                Some(compiled)
            }
        }
    }

    /// The same for somebody who only looks.
    pub(crate) fn look(&self, path: &PoolPath, pool: &Pool) -> Option<Arc<Compiled>> {
        let scripting = pool.scripting.as_deref().filter(|scripting| !scripting.set_aside())?;
        let known = self.compiled.get(path).filter(|known| known.scripts == scripting.scripts);
        Some(known.cloned().unwrap_or_else(|| Arc::new(self.compile(&scripting.scripts))))
    }

    pub(crate) fn remember(&mut self, path: &PoolPath, compiled: Compiled) {
        if compiled.scripts.is_empty() {
            self.forget(path);
        } else {
            self.compiled.insert(path.clone(), Arc::new(compiled));
        }
    }

    pub(crate) fn forget(&mut self, path: &PoolPath) {
        self.compiled.remove(path);
    }
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler").field("compiled", &self.compiled.keys()).finish_non_exhaustive()
    }
}

impl Compiled {
    pub(crate) fn orders(&self) -> bool {
        self.order.is_some()
    }

    /// Asks about made-up requests, and about the first of the pool's resources.
    pub(crate) fn probe(&self, spec: &PoolSpec) -> Result<(), (Which, Fault)> {
        let holder = Holder::parse("probe", []).expect("it is a holder's name");
        let request = Request {
            holder: &holder,
            units: 1,
            priority: Priority::default(),
            selector: None,
            dirty: false,
            waited_ms: 0,
        };
        let waiting = Request { waited_ms: PROBE_WAITED_MS, ..request };
        let offers: Vec<_> = match &spec.capacity {
            Capacity::Units(_) => Vec::new(),
            Capacity::Resources { resources, .. } => {
                fn offer(resource: &ResourceSpec) -> Offer<'_> {
                    Offer { name: &resource.name, labels: &resource.labels }
                }
                resources.iter().take(PROBED_RESOURCES_MAX).map(offer).collect()
            }
        };
        for (which, policy) in [(Which::Place, &self.place), (Which::Order, &self.order)] {
            let Some(policy) = policy else { continue };
            let policy = &policy.as_ref().map_err(|fault| (which, fault.clone()))?.policy;
            let mut budget = Budget::of_a_decision();
            for request in [&request, &waiting] {
                let probed = match &spec.capacity {
                    Capacity::Units(_) => policy.score(request, None, &mut budget).map(drop),
                    Capacity::Resources { .. } => policy.scores(request, &offers, &mut budget).map(drop),
                };
                probed.map_err(|fault| (which, fault))?;
            }
        }
        Ok(())
    }
}

/// Which scripts failed, and why.
pub(crate) type Faults = Vec<(Which, Fault)>;

/// One decision of a pool that has scripts: what was chosen, what failed meanwhile, and what it cost.
pub(crate) struct Decision<'a> {
    state: &'a State,
    path: &'a PoolPath,
    pool: &'a Pool,
    now: Timestamp,
    nonce: u128,
    compiled: &'a Compiled,
    handout: &'a mut Handout,
    pub(crate) faults: Faults,
    pub(crate) budget: Budget,
}

/// Somebody who comes now, and is not in the queue yet.
#[derive(Clone, Copy)]
pub(crate) struct Newcomer<'a> {
    pub(crate) place: Place,
    pub(crate) demand: &'a Demand,
    pub(crate) holder: &'a Holder,
}

impl<'a> Decision<'a> {
    pub(crate) fn new(
        state: &'a State,
        path: &'a PoolPath,
        pool: &'a Pool,
        now: Timestamp,
        nonce: u128,
        compiled: &'a Compiled,
        handout: &'a mut Handout,
    ) -> Self {
        let budget = handout.budget(now);
        Self { state, path, pool, now, nonce, compiled, handout, faults: Vec::new(), budget }
    }

    /// What failed, and what it cost.
    pub(crate) fn close(self) -> (Faults, u64) {
        self.handout.pay(&self.budget);
        (self.faults, self.budget.spent())
    }

    /// Who is next, and what it gets: the one with the highest score of those that fit, if a script orders them.
    pub(crate) fn next(&mut self, newcomer: Option<Newcomer<'a>>) -> Option<(Place, Taken)> {
        if !self.pool.hands_out() {
            return None;
        }
        let first = match self.compiled.orders() {
            // Nobody who waits fits, or it would have been served: there is nothing to be ordered.
            true if newcomer.is_none() => self.first_by_score(),
            _ => None,
        };
        match &self.pool.kind {
            Kind::Units(units) => match first {
                Some(place) => Some((place, take_units(units, self.demand(place).amount)?)),
                None => placement::next(self.pool, newcomer.map(Newcomer::candidate), self.nonce),
            },
            Kind::Resources(resources) => {
                let fit = match first {
                    Some(place) => self.fit(resources, (place, self.demand(place), Some(&self.holder(place).id)))?,
                    None => placement::first_fitting(self.pool, resources, newcomer.map(Newcomer::candidate))?,
                };
                Some((fit.place, self.choose(resources, &fit, newcomer)))
            }
        }
    }

    /// The waiter with the highest score of those that fit, of the highest priority of which one fits. None of too few
    /// to choose from, or if they cannot be told apart: then the first is served.
    fn first_by_score(&mut self) -> Option<Place> {
        let fitting = self.fitting();
        if fitting.len() < 2 {
            return None;
        }
        if Mistake::IgnoresScores.is_made() {
            return None;
        }
        let scored: Result<Vec<_>, Fault> =
            fitting.into_iter().map(|(place, found)| Ok((place, self.order_score(place, found)?))).collect();
        match scored {
            Ok(scored) => {
                let last = Mistake::TiesGoLast.is_made();
                let best = scored.iter().max_by_key(|(place, score)| {
                    (*score, if last { (Some(*place), None) } else { (None, Some(Reverse(*place))) })
                });
                best.map(|(place, _)| *place)
            }
            Err(fault) => {
                self.faults.push((Which::Order, fault));
                None
            }
        }
    }

    /// Those of the first in the queue that could be served now and have the highest priority of these, each with the free
    /// resource that is first for it by the pool's own placement.
    fn fitting(&self) -> Vec<(Place, Option<Found<'a>>)> {
        let pool = self.pool;
        let places = pool.queue.after(None).filter(|place| !pool.queue.is_away(*place)).take(ORDER_LOOKED_AT_MAX);
        let mut fitting: Vec<(Place, Option<Found<'a>>)> = Vec::new();
        // Many want the same, so the answer is kept.
        let mut known: BTreeMap<(&Demand, Option<&HolderId>), Option<Option<Found<'a>>>> = BTreeMap::new();
        for place in places {
            if fitting.first().is_some_and(|(first, _)| first.priority() > place.priority()) {
                break;
            }
            let (demand, holder) = (self.demand(place), &self.holder(place).id);
            let found = known.entry((demand, pool.expected(holder))).or_insert_with(|| self.first_open(demand, holder));
            fitting.extend(found.map(|found| (place, found)));
        }
        fitting
    }

    /// None if it does not fit.
    fn first_open(&self, demand: &Demand, holder: &HolderId) -> Option<Option<Found<'a>>> {
        match &self.pool.kind {
            Kind::Units(units) => take_units(units, demand.amount).map(|_| None),
            Kind::Resources(resources) => {
                let fit = self.fit(resources, (Place::end_of(Priority::default()), demand, Some(holder)))?;
                let first = choose_for(resources, &fit.open, 1, Some(holder), self.nonce);
                Some(first.first().map(|name| found(resources, name)))
            }
        }
    }

    /// Where nobody further ahead has a claim.
    fn fit<'b>(&self, resources: &Resources, candidate: Candidate<'b>) -> Option<Fit<'b>> {
        let (_, demand, holder) = candidate;
        let matching = self.pool.matching(resources, demand);
        let open = resources.only_for(resources.open.and(&matching), demand, holder);
        Fit::of(&matching, candidate, open).ok()
    }

    /// How much somebody who waits deserves what is free.
    fn order_score(&mut self, place: Place, found: Option<Found<'a>>) -> Result<i64, Fault> {
        let request = self.request_of(place);
        let Scorer { policy, sight } =
            self.compiled.order.as_ref().expect("it orders").as_ref().map_err(Fault::clone)?;
        let known = &mut self.handout.order;
        let request_kind = known.request(place.arrival(), &request, sight);
        let kind = found.map(|(ordinal, offer)| known.resource(ordinal, offer.labels, sight));
        if let Some(score) = known.get(request_kind, kind) {
            self.budget.spend(KNOWN_OPERATIONS)?;
            return Ok(score);
        }
        self.budget.spend(CALL_OPERATIONS)?;
        let score = policy.score(&request, found.map(|(_, offer)| offer).as_ref(), &mut self.budget)?;
        known.keep(request_kind, kind, score);
        Ok(score)
    }

    /// Its score as things stand, if it could be served now.
    pub(crate) fn score_of(&mut self, place: Place) -> Option<(Option<&'a ResourceName>, Result<i64, Fault>)> {
        let found = self.first_open(self.demand(place), &self.holder(place).id)?;
        Some((found.map(|(_, offer)| offer.name), self.order_score(place, found)))
    }

    fn choose(&mut self, resources: &'a Resources, fit: &Fit<'_>, newcomer: Option<Newcomer<'a>>) -> Taken {
        let holder = match newcomer.filter(|it| it.place == fit.place) {
            Some(newcomer) => newcomer.holder,
            None => self.holder(fit.place),
        };
        // Whatever is left is taken, where all of it is wanted.
        let choosy = self.compiled.place.is_some() && fit.wanted < fit.open.len() && !Mistake::IgnoresScores.is_made();
        // Who is served may have taken all that the decision may: that has been noted.
        if !choosy || self.budget.is_exceeded() {
            return fit.taken(choose_for(resources, &fit.open, fit.wanted, Some(&holder.id), self.nonce));
        }
        // First what is reserved for it, as always, and all in the order that decides where scores do not.
        let looked_at = fit.open.len().min(PLACE_LOOKED_AT_MAX.max(fit.wanted));
        let preferred = choose_for(resources, &fit.open, looked_at, Some(&holder.id), self.nonce);
        let request = match newcomer.filter(|it| it.place == fit.place) {
            Some(newcomer) => self.request(newcomer.holder, newcomer.demand, newcomer.place, 0),
            None => self.request_of(fit.place),
        };
        match self.place_scores(resources, fit.place, &request, &preferred) {
            Ok(scores) => {
                let own = resources.reserved_for(&holder.id);
                let is_own = |name: &ResourceName| own.is_some_and(|own| own.contains(resources.all[name].ordinal));
                let mut ranked: Vec<_> = scores
                    .into_iter()
                    .map(Some)
                    .chain(core::iter::repeat(None))
                    .zip(preferred)
                    .map(|(score, name)| (Reverse(is_own(&name)), Reverse(score), name))
                    .collect();
                ranked.sort_by_key(|(own, score, _)| (*own, *score));
                fit.taken(ranked.into_iter().map(|(_, _, name)| name).take(fit.wanted).collect())
            }
            Err(fault) => {
                self.faults.push((Which::Place, fault));
                fit.taken(preferred.into_iter().take(fit.wanted).collect())
            }
        }
    }

    /// Of the first so many.
    fn place_scores(
        &mut self,
        resources: &'a Resources,
        place: Place,
        request: &Request<'_>,
        names: &[ResourceName],
    ) -> Result<Vec<i64>, Fault> {
        let Scorer { policy, sight } =
            self.compiled.place.as_ref().expect("it places").as_ref().map_err(Fault::clone)?;
        let known = &mut self.handout.place;
        let request_kind = known.request(place.arrival(), request, sight);
        let mut kinds = Vec::with_capacity(names.len().min(PLACE_LOOKED_AT_MAX));
        // One of each kind that it has not been asked about.
        let mut unknown = BTreeMap::new();
        for name in names.iter().take(PLACE_LOOKED_AT_MAX) {
            let (ordinal, offer) = found(resources, name);
            let kind = known.resource(ordinal, offer.labels, sight);
            kinds.push(kind);
            if known.get(request_kind, Some(kind)).is_none() {
                unknown.entry(kind).or_insert(offer);
            }
        }
        let offers: Vec<_> = unknown.values().copied().collect();
        let (asked, not_asked) = (offers.len() as u64, (kinds.len() - offers.len()) as u64);
        self.budget.spend(asked.saturating_mul(CALL_OPERATIONS) + not_asked.saturating_mul(KNOWN_OPERATIONS))?;
        let scores = policy.scores(request, &offers, &mut self.budget)?;
        if scores.len() != offers.len() {
            return Err(Fault::new(format!("gives {} scores for {} resources", scores.len(), offers.len())));
        }
        for (kind, score) in unknown.into_keys().zip(scores) {
            known.keep(request_kind, Some(kind), score);
        }
        Ok(kinds.into_iter().map(|kind| known.get(request_kind, Some(kind)).expect("it was asked for")).collect())
    }

    fn request_of(&self, place: Place) -> Request<'a> {
        let waiter = &self.state.waiters[&place.arrival()];
        self.request(&waiter.holder, self.demand(place), place, self.now.millis_since(waiter.since))
    }

    fn request<'b>(&self, holder: &'b Holder, demand: &'b Demand, place: Place, waited_ms: u64) -> Request<'b> {
        Request {
            holder,
            units: self.pool.asked(demand),
            priority: place.priority(),
            selector: demand.selector.as_ref().map(|selector| selector.as_str()),
            dirty: demand.dirty,
            waited_ms,
        }
    }

    fn demand(&self, place: Place) -> &'a Demand {
        self.state.waiters[&place.arrival()].part(self.path).0
    }

    fn holder(&self, place: Place) -> &'a Holder {
        &self.state.waiters[&place.arrival()].holder
    }
}

/// A free resource, and its number in the pool.
type Found<'a> = (u64, Offer<'a>);

fn found<'a>(resources: &'a Resources, name: &ResourceName) -> Found<'a> {
    let (name, resource) = resources.all.get_key_value(name).expect("what is free is there");
    (resource.ordinal, Offer { name, labels: &resource.labels })
}

impl<'a> Newcomer<'a> {
    pub(crate) fn candidate(self) -> Candidate<'a> {
        (self.place, self.demand, Some(&self.holder.id))
    }
}

//! One pool: its capacity, who has what of it, and who waits. It keeps count; it decides nothing.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::command::*;
use crate::fair::Turns;
use crate::mutation::Mistake;
use crate::names::*;
use crate::queue::{Listed, Ordinals, Queue};
use crate::record::Waiter;
use crate::scores::Scripting;
use crate::time::{Timestamp, Ttl};
use crate::view::{Place, Reservation};

#[derive(Debug, PartialEq, Eq)]
pub struct Pool {
    pub(crate) kind: Kind,
    pub(crate) order: Order,
    pub(crate) window: Option<Ttl>,
    pub(crate) declared: bool,
    pub(crate) condition: Condition,
    /// Takes nobody any more and vanishes with its last hold.
    pub(crate) removing: bool,
    pub(crate) holds: Holds,
    pub(crate) queue: Queue,
    /// Since when an undeclared pool has had neither holds nor waiters.
    pub(crate) idle_since: Option<Timestamp>,
    /// When it returns to service by itself.
    pub(crate) until: Option<Timestamp>,
    /// How waiters take turns, if not in the order in which they came.
    pub(crate) turns: Option<Box<Turns>>,
    /// The user's own code, if it has any.
    pub(crate) scripting: Option<Box<Scripting>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Units(Units),
    /// Boxed, because most pools have units.
    Resources(Box<Resources>),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Units {
    pub(crate) total: u32,
    /// More than `total` after a shrink, until enough is released. Wider, so that it cannot overflow.
    pub(crate) used: u64,
    /// Whether somebody has all of it. Growing the pool then frees nothing for others.
    pub(crate) exclusive: bool,
}

impl Units {
    pub(crate) fn free(&self) -> u32 {
        if self.exclusive {
            return 0;
        }
        let mistake = u64::from(Mistake::MiscountsUnits.is_made());
        u32::try_from((u64::from(self.total) + mistake).saturating_sub(self.used)).expect("at most the total")
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    pub(crate) placement: Placement,
    pub(crate) all: BTreeMap<ResourceName, Resource>,
    /// What could be handed out, in the order in which the placement prefers it.
    pub(crate) free: BTreeSet<Slot>,
    /// The same as a set, and those that belong to the pool, free or not.
    pub(crate) open: Ordinals,
    pub(crate) own: Ordinals,
    /// What was held is dirty until it has been cleaned.
    pub(crate) cleaning: bool,
    pub(crate) dirty: Ordinals,
    reserved: BTreeMap<HolderId, Ordinals>,
    /// Rises with every resource declared, and with every use of one.
    ordinal_next: u64,
    use_next: u64,
}

/// A place in the order of preference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot {
    rank: u64,
    pub(crate) ordinal: u64,
    pub(crate) name: ResourceName,
}

/// A named resource and how it fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Shared with the pool's queue.
    pub labels: Arc<Labels>,
    pub properties: Labels,
    pub condition: Condition,
    /// No longer part of the pool; vanishes when it is let go.
    pub leaving: bool,
    /// The order of declaration.
    pub ordinal: u64,
    /// The order of last use; 0 if never.
    pub used: u64,
    pub used_at: Option<Timestamp>,
    /// When it returns to service by itself.
    pub until: Option<Timestamp>,
    /// It has to be cleaned before it is handed out again, or is being cleaned.
    pub dirty: bool,
    /// Not of one that is leaving.
    pub reserved: Option<Box<Reservation>>,
    pub(crate) hold: Option<Token>,
}

/// See [`Pool::next`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    pub ordinal: u64,
    pub used: u64,
}

impl Resource {
    /// For recovery; whether it is held is told by the holds.
    pub fn new(spec: &ResourceSpec, ordinal: u64) -> Self {
        Self {
            labels: Arc::new(spec.labels.clone()),
            properties: spec.properties.clone(),
            condition: Condition::InService,
            leaving: false,
            ordinal,
            used: 0,
            used_at: None,
            until: None,
            dirty: false,
            reserved: None,
            hold: None,
        }
    }

    pub fn hold(&self) -> Option<Token> {
        self.hold
    }

    fn is_free(&self) -> bool {
        let in_service = self.condition == Condition::InService || Mistake::IgnoresConditions.is_made();
        let nobody_has_it = self.hold.is_none() || Mistake::HandsOutTwice.is_made();
        nobody_has_it && !self.leaving && in_service
    }
}

impl Resources {
    fn slot(&self, name: &ResourceName, resource: &Resource) -> Slot {
        let rank = match self.placement {
            Placement::First | Placement::Random | Placement::Spread(_) => 0,
            Placement::LeastRecentlyUsed => resource.used,
            Placement::MostRecentlyUsed => u64::MAX - resource.used,
        };
        Slot { rank, ordinal: resource.ordinal, name: name.clone() }
    }

    /// Changes one resource and keeps the order of the free ones.
    fn change(&mut self, name: &ResourceName, change: impl FnOnce(&mut Resource)) {
        let mut resource = self.all.remove(name).expect("a resource that is changed is there");
        self.free.remove(&self.slot(name, &resource));
        self.open.remove(resource.ordinal);
        self.dirty.remove(resource.ordinal);
        if let Some(reservation) = &resource.reserved {
            let own = self.reserved.get_mut(&reservation.holder).expect("what is reserved is known by its holder");
            own.remove(resource.ordinal);
            if own.is_empty() {
                self.reserved.remove(&reservation.holder);
            }
        }
        change(&mut resource);
        if resource.leaving && resource.hold.is_none() {
            return;
        }
        self.index(name, &resource);
        self.all.insert(name.clone(), resource);
    }

    fn index(&mut self, name: &ResourceName, resource: &Resource) {
        if resource.is_free() {
            self.free.insert(self.slot(name, resource));
            self.open.insert(resource.ordinal);
        }
        if resource.dirty {
            self.dirty.insert(resource.ordinal);
        }
        if let Some(reservation) = &resource.reserved {
            self.reserved.entry(reservation.holder.clone()).or_default().insert(resource.ordinal);
        }
    }

    /// What is reserved for a holder.
    pub(crate) fn reserved_for(&self, holder: &HolderId) -> Option<&Ordinals> {
        self.reserved.get(holder)
    }

    /// Takes out what somebody must not have: what is dirty, unless that is what it wants, and what is kept for others.
    pub(crate) fn only_for(&self, mut open: Ordinals, demand: &Demand, holder: Option<&HolderId>) -> Ordinals {
        if demand.dirty {
            // Whoever cleans it does so for the one it is reserved for.
            return if Mistake::HandsOutDirty.is_made() { open } else { open.and(&self.dirty) };
        }
        if !Mistake::HandsOutDirty.is_made() {
            open.subtract(&self.dirty);
        }
        if !Mistake::IgnoresReservations.is_made() {
            for (other, reserved) in &self.reserved {
                if Some(other) != holder {
                    open.subtract(reserved);
                }
            }
        }
        open
    }

    fn insert(&mut self, name: ResourceName, resource: Resource) {
        self.ordinal_next = self.ordinal_next.max(resource.ordinal + 1);
        self.use_next = self.use_next.max(resource.used + 1);
        self.index(&name, &resource);
        if !resource.leaving {
            self.own.insert(resource.ordinal);
        }
        self.all.insert(name, resource);
    }

    fn set(&mut self, placement: &Placement, specs: &[ResourceSpec], cleaning: bool) {
        let mut before = core::mem::take(&mut self.all);
        self.free.clear();
        self.open = Ordinals::default();
        self.own = Ordinals::default();
        self.dirty = Ordinals::default();
        self.reserved.clear();
        self.placement = placement.clone();
        self.cleaning = cleaning;
        // Declared order is the order of the list, also for those that were there.
        for spec in specs {
            let ordinal = self.ordinal_next;
            let kept = before.remove(&spec.name);
            let mut resource = Resource::new(spec, ordinal);
            if let Some(kept) = kept {
                resource.condition = kept.condition;
                resource.used = kept.used;
                resource.used_at = kept.used_at;
                resource.hold = kept.hold;
                resource.until = kept.until;
                resource.dirty = kept.dirty && cleaning;
                resource.reserved = kept.reserved;
            }
            self.insert(spec.name.clone(), resource);
        }
        for (name, mut resource) in before {
            if resource.hold.is_some() {
                resource.leaving = true;
                resource.dirty &= cleaning;
                resource.reserved = None;
                self.insert(name, resource);
            }
        }
    }

    /// Those that belong to the pool.
    pub(crate) fn staying(&self) -> impl Iterator<Item = (&ResourceName, &Resource)> {
        self.all.iter().filter(|(_, resource)| !resource.leaving)
    }

    /// Those that belong to the pool, for its queue.
    fn listed(&self) -> Box<[Listed]> {
        let listed = self.staying().map(|(name, resource)| Listed {
            ordinal: resource.ordinal,
            name: name.clone(),
            labels: resource.labels.clone(),
        });
        let mut listed: Box<[_]> = listed.collect();
        listed.sort_unstable_by_key(|it| it.ordinal);
        listed
    }
}

/// Whether a resource is one that the demand could use.
pub(crate) fn fits(demand: &Demand, name: &ResourceName, labels: &Labels) -> bool {
    demand.selector.as_ref().is_none_or(|selector| selector.matches(name, labels))
}

impl Pool {
    pub fn new(spec: &PoolSpec) -> Self {
        let mut pool = Self {
            kind: match spec.capacity {
                Capacity::Units(total) => Kind::Units(Units { total, used: 0, exclusive: false }),
                Capacity::Resources { .. } => Kind::Resources(Box::default()),
            },
            order: spec.order,
            window: spec.window,
            declared: spec.declared,
            condition: Condition::InService,
            removing: false,
            holds: Holds::default(),
            queue: Queue::default(),
            idle_since: None,
            until: None,
            turns: None,
            scripting: None,
        };
        pool.set(spec);
        pool
    }

    /// For recovery: a pool as it was, apart from its holds and waiters.
    pub fn restore(
        spec: &PoolSpec,
        condition: Condition,
        removing: bool,
        idle_since: Option<Timestamp>,
        resources: impl IntoIterator<Item = (ResourceName, Resource)>,
        next: Next,
    ) -> Self {
        let mut pool = Self { condition, removing, idle_since, ..Self::new(spec) };
        if let Kind::Resources(kept) = &mut pool.kind {
            let (placement, cleaning) = (core::mem::take(&mut kept.placement), kept.cleaning);
            **kept = Resources { placement, cleaning, ..Resources::default() };
            for (name, resource) in resources {
                kept.insert(name, resource);
            }
            // Those that had the highest numbers may be gone.
            kept.ordinal_next = kept.ordinal_next.max(next.ordinal);
            kept.use_next = kept.use_next.max(next.used);
            pool.queue.list(kept.listed());
        }
        pool
    }

    /// Makes the pool what `spec` says. Holds stay; what is too much drains.
    pub(crate) fn set(&mut self, spec: &PoolSpec) {
        self.order = spec.order;
        self.window = spec.window;
        self.declared = spec.declared;
        let cleaning = spec.cleaning;
        match (&mut self.kind, &spec.capacity) {
            (Kind::Units(units), Capacity::Units(total)) => units.total = *total,
            (Kind::Resources(kept), Capacity::Resources { placement, resources }) => {
                kept.set(placement, resources, cleaning);
            }
            (kind, capacity) => {
                assert!(self.holds.is_empty(), "the kind of a pool changes only while nobody holds any of it");
                *kind = match capacity {
                    Capacity::Units(total) => Kind::Units(Units { total: *total, used: 0, exclusive: false }),
                    Capacity::Resources { placement, resources } => {
                        let mut kept: Box<Resources> = Box::default();
                        kept.set(placement, resources, cleaning);
                        Kind::Resources(kept)
                    }
                };
            }
        }
        self.queue.list(match &self.kind {
            Kind::Units(_) => Box::default(),
            Kind::Resources(kept) => kept.listed(),
        });
        self.queue.serve_in_turn(spec.fair.is_some());
        let scripts = (!spec.scripts.is_empty()).then(|| spec.scripts.clone());
        self.scripting = scripts.map(|scripts| Box::new(Scripting { scripts, faults: 0 }));
        // Who waits is told by the state, which knows the waiters.
        self.turns = match (self.turns.take(), &spec.fair) {
            (_, None) => None,
            (Some(turns), Some(share)) if turns.share == *share => Some(turns),
            (before, Some(share)) => {
                let mut turns = Turns::new(share.clone());
                for (priority, turn) in before.iter().flat_map(|turns| turns.clock()) {
                    turns.set_clock(priority, turn);
                }
                Some(Box::new(turns))
            }
        };
    }

    pub fn spec(&self) -> PoolSpec {
        let capacity = match &self.kind {
            Kind::Units(units) => Capacity::Units(units.total),
            Kind::Resources(kept) => {
                let mut staying: Vec<_> = kept.staying().collect();
                staying.sort_by_key(|(_, resource)| resource.ordinal);
                let resources = staying
                    .into_iter()
                    .map(|(name, resource)| ResourceSpec {
                        name: name.clone(),
                        labels: Labels::clone(&resource.labels),
                        properties: resource.properties.clone(),
                    })
                    .collect();
                Capacity::Resources { placement: kept.placement.clone(), resources }
            }
        };
        let cleaning = matches!(&self.kind, Kind::Resources(kept) if kept.cleaning);
        let fair = self.turns.as_ref().map(|turns| turns.share.clone());
        let scripts = self.scripting.as_ref().map(|scripting| scripting.scripts.clone()).unwrap_or_default();
        PoolSpec { capacity, order: self.order, window: self.window, declared: self.declared, cleaning, fair, scripts }
    }

    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    pub fn is_removing(&self) -> bool {
        self.removing
    }

    /// When it returns to service by itself.
    pub fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// Of a pool that serves its waiters in turn: the turn that was served last, by priority.
    pub fn turns_served(&self) -> impl Iterator<Item = (Priority, i64)> {
        self.turns.iter().flat_map(|turns| turns.clock())
    }

    /// For recovery, before its waiters come.
    pub fn restore_turn_served(&mut self, priority: Priority, turn: i64) {
        if let Some(turns) = &mut self.turns {
            turns.set_clock(priority, turn);
        }
    }

    /// How often its scripts have failed since they were set.
    pub fn script_faults(&self) -> u32 {
        self.scripting.as_ref().map_or(0, |scripting| scripting.faults)
    }

    /// For recovery.
    pub fn restore_script_faults(&mut self, faults: u32) {
        if let Some(scripting) = &mut self.scripting {
            scripting.faults = faults;
        }
    }

    /// For recovery.
    pub fn restore_until(&mut self, until: Option<Timestamp>) {
        self.until = until;
    }

    /// Whom it is in the queue's lanes, if something is reserved for it.
    pub(crate) fn expected<'a>(&self, holder: &'a HolderId) -> Option<&'a HolderId> {
        match &self.kind {
            Kind::Resources(kept) if kept.reserved.contains_key(holder) => Some(holder),
            _ => None,
        }
    }

    pub(crate) fn has_reservations(&self) -> bool {
        matches!(&self.kind, Kind::Resources(kept) if !kept.reserved.is_empty())
    }

    /// For whom something is reserved.
    pub(crate) fn expects(&self) -> Vec<HolderId> {
        match &self.kind {
            Kind::Units(_) => Vec::new(),
            Kind::Resources(kept) => kept.reserved.keys().cloned().collect(),
        }
    }

    /// The place of somebody who comes now.
    pub(crate) fn place_of_newcomer(
        &self,
        priority: Priority,
        holder: &Holder,
        demand: &Demand,
        arrival: WaiterId,
    ) -> Place {
        match &self.turns {
            None => self.queue.place_of_arrival(priority, arrival),
            Some(turns) => {
                let turn = turns.turn(priority, holder, self.asked(demand));
                Place::ranked(priority, self.queue.rank_at(priority, turn), arrival)
            }
        }
    }

    /// `demand` is what it wants of this pool.
    pub(crate) fn enter(&mut self, place: Place, waiter: &Waiter, demand: &Demand, present: bool) {
        if !present {
            self.queue.enter_away(place);
        } else if waiter.is_set() {
            self.queue.enter_set(place, demand);
        } else {
            let expected = self.expected(&waiter.holder.id);
            self.queue.enter(place, demand, expected);
        }
    }

    pub(crate) fn leave(&mut self, place: Place, waiter: &Waiter, demand: &Demand) {
        let expected = self.expected(&waiter.holder.id);
        self.queue.leave(place, demand, expected);
    }

    /// After a change of what is reserved for whom.
    pub(crate) fn sort_into_lanes(&mut self, waiters: &BTreeMap<WaiterId, Box<Waiter>>) {
        let in_lane = |place: &Place| !self.queue.is_away(*place) && !waiters[&place.arrival()].is_set();
        let here: Vec<_> = self.queue.after(None).filter(in_lane).collect();
        let Self { queue, kind, .. } = self;
        queue.sort_into_lanes(here.into_iter().map(|place| {
            let waiter = &waiters[&place.arrival()];
            let expected = matches!(kind, Kind::Resources(kept) if kept.reserved.contains_key(&waiter.holder.id));
            (place, &waiter.demand, expected.then_some(&waiter.holder.id))
        }));
    }

    /// How much a demand asks for, as the pool is.
    pub(crate) fn asked(&self, demand: &Demand) -> u32 {
        match demand.amount {
            Amount::Count(count) => count,
            Amount::All => self.most_for(demand),
        }
    }

    pub fn idle_since(&self) -> Option<Timestamp> {
        self.idle_since
    }

    /// All resources, those that are leaving too.
    pub fn resources(&self) -> impl Iterator<Item = (&ResourceName, &Resource)> {
        match &self.kind {
            Kind::Units(_) => None,
            Kind::Resources(kept) => Some(kept.all.iter()),
        }
        .into_iter()
        .flatten()
    }

    /// The numbers that the next resource declared, and the next use of one, will get.
    pub fn next(&self) -> Next {
        match &self.kind {
            Kind::Units(_) => Next::default(),
            Kind::Resources(kept) => Next { ordinal: kept.ordinal_next, used: kept.use_next },
        }
    }

    pub fn has_holds(&self) -> bool {
        !self.holds.is_empty()
    }

    pub fn has_waiters(&self) -> bool {
        !self.queue.is_empty()
    }

    pub fn resource(&self, name: &ResourceName) -> Option<(&ResourceName, &Resource)> {
        match &self.kind {
            Kind::Units(_) => None,
            Kind::Resources(kept) => kept.all.get_key_value(name),
        }
    }

    /// Gives when it would have returned by itself until now.
    pub(crate) fn set_condition(
        &mut self,
        resource: Option<&ResourceName>,
        condition: &Condition,
        until: Option<Timestamp>,
    ) -> Option<Timestamp> {
        match (resource, &mut self.kind) {
            (None, _) => {
                self.condition = condition.clone();
                core::mem::replace(&mut self.until, until)
            }
            (Some(name), Kind::Resources(kept)) => {
                let mut before = None;
                kept.change(name, |it| {
                    it.condition = condition.clone();
                    before = core::mem::replace(&mut it.until, until);
                });
                before
            }
            (Some(_), Kind::Units(_)) => unreachable!("a pool of units has no resource to set"),
        }
    }

    /// Gives the reservation there was until now.
    pub(crate) fn set_reserved(
        &mut self,
        resource: &ResourceName,
        reserved: Option<Reservation>,
    ) -> Option<Box<Reservation>> {
        let Kind::Resources(kept) = &mut self.kind else { unreachable!("a pool of units has no resource to reserve") };
        let mut before = None;
        kept.change(resource, |it| before = core::mem::replace(&mut it.reserved, reserved.map(Box::new)));
        before
    }

    pub(crate) fn take(&mut self, token: Token, taken: &Taken) {
        assert!(self.holds.insert(token), "a token is granted once");
        match &mut self.kind {
            Kind::Units(units) => {
                units.used += u64::from(taken.units);
                units.exclusive |= taken.all;
            }
            Kind::Resources(kept) => {
                for name in &taken.resources {
                    kept.change(name, |it| {
                        let before = it.hold.replace(token);
                        // This must not come before what the simulator has to say of it.
                        assert!(before.is_none() || Mistake::HandsOutTwice.is_made(), "a resource has one holder");
                    });
                }
            }
        }
    }

    /// `dirty` is what its resources are from now on, if that changes.
    pub(crate) fn give_back(&mut self, at: Timestamp, token: Token, taken: &Taken, dirty: Option<bool>) {
        assert!(self.holds.remove(token), "only what is held is given back");
        match &mut self.kind {
            Kind::Units(units) => {
                units.used -= u64::from(taken.units);
                units.exclusive &= !taken.all;
            }
            Kind::Resources(kept) => {
                let dirty = dirty.filter(|_| kept.cleaning);
                for name in &taken.resources {
                    let used = kept.use_next;
                    kept.use_next += 1;
                    kept.change(name, |it| {
                        assert_eq!(it.hold.take(), Some(token), "a resource is given back by its holder");
                        it.used = if Mistake::ForgetsUse.is_made() { it.used } else { used };
                        it.used_at = Some(at);
                        it.dirty = dirty.unwrap_or(it.dirty);
                    });
                }
            }
        }
    }

    /// Units, or resources that belong to the pool.
    pub(crate) fn size(&self) -> u32 {
        match &self.kind {
            Kind::Units(units) => units.total,
            Kind::Resources(kept) => count(kept.own.len()),
        }
    }

    pub(crate) fn used(&self) -> u32 {
        match &self.kind {
            Kind::Units(units) => u32::try_from(units.used).unwrap_or(u32::MAX),
            Kind::Resources(kept) => count(kept.all.values().filter(|resource| resource.hold.is_some()).count()),
        }
    }

    pub(crate) fn free(&self) -> u32 {
        match &self.kind {
            Kind::Units(units) => units.free(),
            Kind::Resources(kept) => count(kept.free.len() - kept.open.and(&kept.dirty).len()),
        }
    }

    /// Resources that nobody holds, and that would be free if they were clean.
    pub(crate) fn dirty(&self) -> u32 {
        match &self.kind {
            Kind::Units(_) => 0,
            Kind::Resources(kept) => count(kept.open.and(&kept.dirty).len()),
        }
    }

    /// The most that a request like this could ever be given, as the pool is.
    pub(crate) fn most_for(&self, demand: &Demand) -> u32 {
        match &self.kind {
            Kind::Units(units) => units.total,
            Kind::Resources(kept) => count(self.matching(kept, demand).len()),
        }
    }

    /// Which of its resources a demand could use.
    pub(crate) fn matching<'a>(&'a self, kept: &'a Resources, demand: &Demand) -> Cow<'a, Ordinals> {
        match demand.selector {
            None => Cow::Borrowed(&kept.own),
            Some(_) => self.queue.matching(demand),
        }
    }

    pub(crate) fn hands_out(&self) -> bool {
        self.condition == Condition::InService && !self.removing
    }
}

fn count(resources: usize) -> u32 {
    u32::try_from(resources).expect("resources of a pool are bounded")
}

/// What a hold has of its pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Taken {
    /// Units, or the number of resources.
    pub units: u32,
    pub resources: Box<[ResourceName]>,
    /// Everything was asked for.
    pub all: bool,
    /// It was taken in order to be cleaned.
    pub dirty: bool,
}

/// The holds of a pool, oldest first. Most pools are mutexes, and a set's first node is as large as a pool.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Holds {
    #[default]
    None,
    One(Token),
    Many(BTreeSet<Token>),
}

impl Holds {
    fn insert(&mut self, token: Token) -> bool {
        match self {
            Self::None => *self = Self::One(token),
            Self::One(first) => *self = Self::Many(BTreeSet::from([*first, token])),
            Self::Many(tokens) => return tokens.insert(token),
        }
        true
    }

    fn remove(&mut self, token: Token) -> bool {
        match self {
            Self::One(only) if *only == token => *self = Self::None,
            Self::None | Self::One(_) => return false,
            Self::Many(tokens) => {
                let removed = tokens.remove(&token);
                // One form for one set, so that a recovered state equals the one that was lost.
                if let (1, Some(last)) = (tokens.len(), tokens.first()) {
                    *self = Self::One(*last);
                }
                return removed;
            }
        }
        true
    }

    pub(crate) fn contains(&self, token: Token) -> bool {
        self.from(token).next() == Some(token)
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Many(tokens) => tokens.len(),
        }
    }

    /// Those with this token and later.
    pub(crate) fn from(&self, token: Token) -> impl Iterator<Item = Token> {
        let (one, many) = match self {
            Self::None => (None, None),
            Self::One(only) => ((*only >= token).then_some(*only), None),
            Self::Many(tokens) => (None, Some(tokens.range(token..).copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

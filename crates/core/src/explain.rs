//! Why somebody waits and what would let it in, as sentences for people. Every front end shows the same ones, so they are
//! made here, where everything that matters is known. Reads only.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::command::{Amount, Condition, Demand, Lifetime, Order};
use crate::handout::Handout;
use crate::limits::{EXPLAINED_MAX, HOLDERS_TOLD_MAX, LOOKED_AT_MAX};
use crate::names::*;
use crate::pool::{Kind, Pool, Resource, Resources, Taken, Units};
use crate::record::{Hold, RequestStage, Waiter};
use crate::refusal::Refusal;
use crate::scores::{Compiled, Decision};
use crate::state::State;
use crate::time::Timestamp;
use crate::view::{Explanation, Place, WaiterExplained, Whom};

impl State {
    pub(crate) fn explain(
        &self,
        path: &PoolPath,
        who: Option<&Whom>,
        limit: usize,
        now: Timestamp,
        compiled: Option<&Compiled>,
    ) -> Result<Explanation, Refusal> {
        let pool = self.known_pool(path)?;
        let telling = Telling { state: self, path, pool, now };
        // One for all of them, so that all together cost no more than a decision does.
        let mut handout = Handout::default();
        let asked = compiled.filter(|_| telling.orders_by_script());
        let mut decision = asked.map(|asked| Decision::new(self, path, pool, now, 0, asked, &mut handout));
        let places: Vec<_> = match who {
            None => pool.queue.after(None).take(limit.clamp(1, EXPLAINED_MAX)).collect(),
            Some(whom) => alloc::vec![telling.find(whom)?],
        };
        let explained = places.into_iter().map(|place| {
            let position = (!pool.queue.is_away(place)).then(|| pool.queue.ahead_of(place) + 1);
            let sentences = telling.waiter(place, position, decision.as_mut());
            WaiterExplained { waiter: self.waiter_view(path, place, position), sentences }
        });
        Ok(Explanation { pool: telling.pool(), waiters: explained.collect() })
    }
}

struct Telling<'a> {
    state: &'a State,
    path: &'a PoolPath,
    pool: &'a Pool,
    now: Timestamp,
}

impl Telling<'_> {
    fn find(&self, whom: &Whom) -> Result<Place, Refusal> {
        let gone = |why| Refusal::Changed { pool: self.path.clone(), why };
        let id = match whom {
            Whom::Waiter(id) => *id,
            Whom::Request(request) => match self.state.request_stage(self.path.namespace(), request, self.now) {
                Some(RequestStage::Waiting(id)) => id,
                Some(RequestStage::Held(Token(token))) => {
                    return Err(gone(format!("request `{request}` does not wait: it holds, with token {token}")));
                }
                Some(RequestStage::Ended { .. }) => return Err(gone(format!("request `{request}` is over"))),
                None => return Err(gone(format!("request `{request}` is unknown"))),
            },
        };
        let waiter = self.state.waiters.get(&id).filter(|waiter| waiter.parts().any(|(pool, _)| pool == self.path));
        waiter.map(|waiter| waiter.place(id)).ok_or_else(|| gone(format!("number {} does not wait for it", id.0)))
    }

    fn pool(&self) -> Vec<String> {
        let (name, waiters) = (self.path.name(), self.pool.queue.len());
        let what = match &self.pool.kind {
            Kind::Units(_) => "unit",
            Kind::Resources(_) => "resource",
        };
        let mut first = format!("pool `{name}` has {}, {} held", count(self.pool.size(), what), self.pool.used());
        if self.pool.dirty() > 0 {
            first += &format!(" and {} to be cleaned", self.pool.dirty());
        }
        first += &match waiters {
            0 => "; nobody waits".into(),
            1 => "; 1 waits".into(),
            many => format!("; {many} wait"),
        };
        let mut sentences = alloc::vec![first];
        sentences.extend(self.out_of_service());
        if let Some(turns) = &self.pool.turns {
            sentences.push(format!("those who wait are served in turn by `{}`", turns.share.by()));
        }
        sentences.extend(self.scripts());
        sentences
    }

    fn scripts(&self) -> Option<String> {
        let scripting = self.pool.scripting.as_deref()?;
        if scripting.set_aside() {
            let again = "the pool does without them until it is set again";
            return Some(format!("its scripts have failed {} times: {again}", scripting.faults));
        }
        let what = match (&scripting.scripts.place, &scripting.scripts.order) {
            (_, None) => "a script chooses which free resource is granted",
            (None, _) => "a script says who is served first of those that fit, within a priority",
            (Some(_), Some(_)) => {
                "scripts choose which free resource is granted, and who is served first of those that fit, within a priority"
            }
        };
        Some(match scripting.faults {
            0 => what.into(),
            1 => format!("{what}, or the default where that fails, as it did once"),
            faults => format!("{what}, or the default where that fails, as it did {faults} times"),
        })
    }

    fn orders_by_script(&self) -> bool {
        self.pool.scripting.as_deref().is_some_and(|it| it.scripts.order.is_some() && !it.set_aside())
    }

    fn out_of_service(&self) -> Option<String> {
        if self.pool.removing {
            return Some("the pool is being removed: nobody gets anything of it any more".into());
        }
        let condition = self.condition(&self.pool.condition, self.pool.until)?;
        Some(format!("nothing of the pool is handed out: it is {condition}"))
    }

    /// None for what is in service.
    fn condition(&self, condition: &Condition, until: Option<Timestamp>) -> Option<String> {
        let what = match condition {
            Condition::InService => return None,
            Condition::Drained(None) => "drained".into(),
            Condition::Drained(Some(note)) => format!("drained ({note})"),
            Condition::Quarantined(note) => format!("quarantined ({note})"),
        };
        Some(match until {
            Some(until) => format!("{what}, and returns by itself in {}", self.time_left(until)),
            None => format!("{what}, until an operator returns it"),
        })
    }

    fn waiter(&self, place: Place, position: Option<usize>, decision: Option<&mut Decision<'_>>) -> Vec<String> {
        let waiter = &self.state.waiters[&place.arrival()];
        let mut sentences = alloc::vec![self.who(waiter, position)];
        if position.is_none() {
            let away = "its session is away: it is passed over until its client comes back and asks again, and keeps its place";
            sentences.push(away.into());
        }
        sentences.extend(self.out_of_service());
        sentences.extend(self.ahead(place, waiter));
        sentences.extend(self.turn(waiter));
        sentences.extend(decision.map(|decision| score(decision, place)));
        match &self.pool.kind {
            Kind::Units(units) => self.units(units, self.demand(waiter), &mut sentences),
            Kind::Resources(resources) => self.resources(resources, place, waiter, &mut sentences),
        }
        if waiter.is_set() {
            let others = waiter.parts().filter(|(pool, _)| *pool != self.path);
            let others: Vec<_> = others.map(|(pool, _)| format!("`{}`", pool.name())).collect();
            sentences.push(format!("it is served when {} can give it what it wants too", others.join(" and ")));
        }
        sentences
    }

    /// What it wants of this pool.
    fn demand<'a>(&self, waiter: &'a Waiter) -> &'a Demand {
        waiter.part(self.path).0
    }

    /// What it has of this pool.
    fn taken<'a>(&self, hold: &'a Hold) -> &'a Taken {
        hold.parts().find(|(pool, _)| *pool == self.path).map_or(&hold.taken, |(_, taken)| taken)
    }

    fn who(&self, waiter: &Waiter, position: Option<usize>) -> String {
        let mut text = format!("`{}` waits for {}", waiter.holder.id, self.wanted(self.demand(waiter)));
        if let Some(position) = position {
            text += &format!(", at place {position}");
        }
        if waiter.priority != Priority::default() {
            text += &format!(" with priority {}", waiter.priority.get());
        }
        text += &format!(", since {}", span(self.now.millis_since(waiter.since)));
        if let Some(deadline) = waiter.deadline {
            text += &format!(", and gives up in {}", self.time_left(deadline));
        }
        text
    }

    fn wanted(&self, demand: &Demand) -> String {
        let what = match &self.pool.kind {
            Kind::Units(_) => "unit",
            Kind::Resources(_) if demand.dirty => "dirty resource",
            Kind::Resources(_) => "resource",
        };
        let amount = match demand.amount {
            Amount::Count(wanted) => count(wanted, what),
            Amount::All => format!("every {what}"),
        };
        match &demand.selector {
            Some(selector) => format!("{amount} with `{}`", selector.as_str()),
            None => amount,
        }
    }

    /// Who is served before it.
    fn ahead(&self, place: Place, waiter: &Waiter) -> Option<String> {
        let queue = &self.pool.queue;
        let mut ahead =
            queue.after(None).take_while(|it| *it < place).filter(|it| !queue.is_away(*it)).take(LOOKED_AT_MAX);
        let first =
            ahead.find(|it| self.compete(self.demand(&self.state.waiters[&it.arrival()]), self.demand(waiter)))?;
        let others = ahead
            .filter(|it| self.compete(self.demand(&self.state.waiters[&it.arrival()]), self.demand(waiter)))
            .count();
        let first = &self.state.waiters[&first.arrival()];
        let next = format!("`{}`, who wants {}, is served before it", first.holder.id, self.wanted(self.demand(first)));
        let next = if others == 0 { next } else { format!("{next}, and so are {others} more") };
        Some(match self.pool.order {
            _ if self.orders_by_script() => {
                let ahead =
                    format!("`{}`, who wants {}, came before it", first.holder.id, self.wanted(self.demand(first)));
                let ahead = if others == 0 { ahead } else { format!("{ahead}, and so did {others} more") };
                format!("{ahead}; the script says who of those that fit is served first")
            }
            Order::Strict => next,
            Order::Backfill => format!("{next}, unless it fits and they do not"),
        })
    }

    /// Whether both could use the same.
    fn compete(&self, one: &Demand, other: &Demand) -> bool {
        match &self.pool.kind {
            Kind::Units(_) => true,
            Kind::Resources(kept) => {
                let both = self.pool.matching(kept, one).and(&self.pool.matching(kept, other));
                one.dirty == other.dirty && !both.is_empty()
            }
        }
    }

    fn turn(&self, waiter: &Waiter) -> Option<String> {
        let turns = self.pool.turns.as_ref()?;
        let group = turns.share.group(&waiter.holder);
        let waiting = turns.waiting(waiter.priority, group);
        let of = if group.is_empty() { "of no group".into() } else { format!("of `{group}`") };
        Some(format!(
            "it takes its turn as one {of}, which has weight {} and {waiting} waiting",
            turns.share.weight(group)
        ))
    }

    fn units(&self, units: &Units, demand: &Demand, sentences: &mut Vec<String>) {
        let free = units.free();
        let missing = match demand.amount {
            Amount::All if units.used == 0 => 0,
            Amount::All => u64::from(units.total),
            Amount::Count(wanted) => {
                let taken = if units.exclusive { u64::from(units.total) } else { units.used };
                (u64::from(wanted) + taken).saturating_sub(u64::from(units.total))
            }
        };
        if missing == 0 {
            sentences.push(format!("{} free, which would be enough for it", are(free, "unit")));
            return;
        }
        sentences.push(match demand.amount {
            Amount::All => "it wants everything, so all that is held has to end first".into(),
            Amount::Count(_) => format!("{} free: {missing} more must be let go for it", are(free, "unit")),
        });
        let mut holds: Vec<_> = self.pool.holds.from(Token(0)).take(LOOKED_AT_MAX).collect();
        // What ends first by itself comes first.
        holds.sort_by_key(|token| {
            let deadline = self.state.holds[token].deadline;
            (deadline.is_none(), deadline, *token)
        });
        for token in holds.iter().take(HOLDERS_TOLD_MAX) {
            let hold = &self.state.holds[token];
            let held = count(self.taken(hold).units, "unit");
            let how = self.until(hold);
            sentences.push(match self.pool.window {
                Some(_) => format!("{held} of the rate, taken by `{}`, {how}", hold.holder.id),
                None => format!("`{}` holds {held} with token {}, {how}", hold.holder.id, token.0),
            });
        }
        if self.pool.holds.len() > HOLDERS_TOLD_MAX {
            sentences.push(format!("and {} more hold", self.pool.holds.len() - HOLDERS_TOLD_MAX));
        }
        sentences.extend(self.earliest(&holds, demand, missing));
    }

    /// When enough would be free if nobody renewed and nobody let go early.
    fn earliest(&self, holds: &[Token], demand: &Demand, missing: u64) -> Option<String> {
        let mut ended = 0;
        let mut holds = holds.iter().map(|token| &self.state.holds[token]);
        let all = demand.amount == Amount::All;
        let enough = if all { holds.next_back() } else { None };
        let last = enough.or_else(|| {
            holds.find(|hold| {
                ended += u64::from(self.taken(hold).units);
                ended >= missing
            })
        });
        let deadline = last?.deadline?;
        let condition = if self.pool.window.is_some() { "" } else { " if nobody renews" };
        Some(format!("that is enough in {}{condition}", self.time_left(deadline)))
    }

    fn until(&self, hold: &Hold) -> String {
        let left = hold.deadline.map(|deadline| self.time_left(deadline));
        match (&hold.lifetime, left) {
            (Lifetime::Window(_), Some(left)) => format!("opens again in {left}"),
            (Lifetime::Session(_), Some(left)) => format!("for {left} unless renewed, and no longer than its session"),
            (Lifetime::Session(_), None) => "until it is released or its session ends".into(),
            (Lifetime::Bound(owner), _) => format!("until it is released or its owner `{owner}` is gone"),
            (Lifetime::Kept, _) => "until it is released".into(),
            (_, Some(left)) => format!("for {left} unless renewed"),
            (_, None) => "until it is released".into(),
        }
    }

    fn resources(&self, resources: &Resources, place: Place, waiter: &Waiter, sentences: &mut Vec<String>) {
        let matching = self.pool.matching(resources, self.demand(waiter));
        let mut candidates: Vec<_> = resources.staying().filter(|(_, it)| matching.contains(it.ordinal)).collect();
        // What is held ends before what needs somebody's doing; then in the order of declaration.
        candidates.sort_by_key(|(_, it)| {
            let deadline = it.hold.and_then(|token| self.state.holds[&token].deadline);
            (it.hold.is_none(), deadline.is_none(), deadline, it.ordinal)
        });
        sentences.push(match candidates.len() {
            1 => "one resource is what it asks for".into(),
            many => format!("{many} resources are what it asks for"),
        });
        for (name, resource) in candidates.iter().take(HOLDERS_TOLD_MAX) {
            sentences.push(format!("`{name}` {}", self.resource(resource, place, waiter)));
        }
        if candidates.len() > HOLDERS_TOLD_MAX {
            sentences.push(format!("and so on, {} more", candidates.len() - HOLDERS_TOLD_MAX));
        }
    }

    /// What keeps a resource from somebody.
    fn resource(&self, resource: &Resource, place: Place, waiter: &Waiter) -> String {
        let mut reasons = Vec::new();
        if let Some(token) = resource.hold {
            let hold = &self.state.holds[&token];
            let does = if self.taken(hold).dirty { "is being cleaned by" } else { "is held by" };
            reasons.push(format!("{does} `{}` with token {}, {}", hold.holder.id, token.0, self.until(hold)));
        }
        if let Some(condition) = self.condition(&resource.condition, resource.until) {
            reasons.push(format!("is {condition}"));
        }
        match (resource.dirty, self.demand(waiter).dirty, resource.hold) {
            (true, false, None) => {
                reasons.push("has to be cleaned: whoever acquires it as dirty and releases it returns it".into())
            }
            (false, true, None) => reasons.push("is clean".into()),
            _ => {}
        }
        if let Some(reserved) =
            resource.reserved.as_ref().filter(|it| it.holder != waiter.holder.id && !self.demand(waiter).dirty)
        {
            let until = match reserved.until {
                Some(until) => format!("for another {}", self.time_left(until)),
                None => "until it comes or an operator ends that".into(),
            };
            reasons.push(format!("is reserved for `{}` ({}), {until}", reserved.holder, reserved.reason));
        }
        if !reasons.is_empty() {
            return reasons.join(", and ");
        }
        match self.claimant(resource, place) {
            Some(holder) => format!("is free, and kept for `{holder}`, who is before it"),
            None => "is free: it needs others besides".into(),
        }
    }

    /// Who in front of it could use the resource.
    fn claimant(&self, resource: &Resource, place: Place) -> Option<&HolderId> {
        let Kind::Resources(kept) = &self.pool.kind else { return None };
        let ahead = self.pool.queue.after(None).take_while(|it| *it < place && self.pool.order == Order::Strict);
        let ahead = ahead.filter(|it| !self.pool.queue.is_away(*it)).take(LOOKED_AT_MAX);
        let mut ahead = ahead.map(|it| &self.state.waiters[&it.arrival()]);
        let could = |waiter: &&alloc::boxed::Box<Waiter>| {
            self.demand(waiter).dirty == resource.dirty
                && self.pool.matching(kept, self.demand(waiter)).contains(resource.ordinal)
                && resource.reserved.as_ref().is_none_or(|reserved| reserved.holder == waiter.holder.id)
        };
        ahead.find(could).map(|waiter| &waiter.holder.id)
    }

    fn time_left(&self, at: Timestamp) -> String {
        span(at.millis_since(self.now))
    }
}

fn count(number: u32, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn are(number: u32, what: &str) -> String {
    if number == 1 { format!("1 {what} is") } else { format!("{number} {what}s are") }
}

/// For people: two units of time at most.
fn span(millis: u64) -> String {
    let seconds = millis / 1_000;
    let pair = |large: u64, one: &str, small: u64, other: &str| {
        if small == 0 { format!("{large} {one}") } else { format!("{large} {one} {small} {other}") }
    };
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds} s"),
        60..3_600 => pair(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => pair(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// What the script that orders would give somebody now.
fn score(decision: &mut Decision<'_>, place: Place) -> String {
    match decision.score_of(place) {
        None => "nothing that is free is enough for it, so the script gives it no score now".into(),
        Some(_) if decision.budget.is_exceeded() => {
            "no operations were left to ask the script about it: one explanation may take as many as one decision"
                .into()
        }
        Some((_, Err(fault))) => format!("the script fails for it: {fault}"),
        Some((None, Ok(score))) => format!("the script gives it a score of {score} now"),
        Some((Some(name), Ok(score))) => format!("the script gives it a score of {score} for `{name}` now"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_two_units_at_most() {
        let spans = [0, 999, 1_000, 59_999, 60_000, 61_500, 3_600_000, 5_400_000, 90_000_000];
        let said: Vec<_> = spans.into_iter().map(span).collect();
        assert_eq!(said, ["0 ms", "999 ms", "1 s", "59 s", "1 min", "1 min 1 s", "1 h", "1 h 30 min", "1 d 1 h"]);
    }
}

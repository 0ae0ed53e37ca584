//! Between a scenario's words and the messages of the wire, which both faces carry.

use std::collections::BTreeMap;

use tenure_proto::v1;
use tenure_scenario::translate::START;
use tenure_scenario::{
    Acquire, Amount, Capacity, Condition, Lifetime, Outcome, Part, Placement, Pool, SetPool, State, Wait, duration_text,
};

/// The wire's way to name `default` is to say nothing.
pub(crate) fn namespace(namespace: &str) -> String {
    if namespace == "default" { String::new() } else { namespace.to_owned() }
}

pub(crate) fn acquire(acquire: &Acquire, session_key: Option<String>) -> v1::AcquireRequest {
    let mut request = v1::AcquireRequest {
        namespace: namespace(&acquire.pool.namespace),
        pool: acquire.pool.name.clone(),
        select: acquire.select.clone().or_else(|| acquire.resource.as_deref().map(by_name)),
        size: acquire.size,
        priority: i32::try_from(acquire.priority).expect("a scenario's priority is small"),
        holder: acquire.holder.clone(),
        session_key,
        request_id: acquire.request.clone(),
        also: acquire.also.iter().map(part).collect(),
        holds_on: acquire.holds_on,
        dirty: acquire.dirty,
        meta: acquire.meta.iter().cloned().collect(),
        ..v1::AcquireRequest::default()
    };
    match acquire.amount {
        Amount::Count(1) => {}
        Amount::Count(count) => request.units = Some(count),
        Amount::All => request.all = true,
    }
    match &acquire.lifetime {
        None => {}
        Some(Lifetime::Leased(ttl)) => request.ttl_ms = Some(*ttl),
        Some(Lifetime::Session(ttl)) => {
            request.lifetime = v1::Lifetime::Session.into();
            request.ttl_ms = *ttl;
        }
        Some(Lifetime::Window(window)) => {
            request.lifetime = v1::Lifetime::Window.into();
            request.ttl_ms = Some(*window);
        }
        Some(Lifetime::Kept) => request.lifetime = v1::Lifetime::Kept.into(),
        Some(Lifetime::Bound(owner)) => request.owner = Some(owner.clone()),
    }
    match acquire.wait {
        Wait::Try => {}
        Wait::For(wait) => request.wait_ms = Some(wait),
        Wait::Forever => request.wait_forever = true,
    }
    request
}

fn part(part: &Part) -> v1::Part {
    v1::Part {
        pool: part.pool.clone(),
        units: match part.amount {
            Amount::Count(count) => Some(count),
            Amount::All => None,
        },
        all: part.amount == Amount::All,
        select: part.select.clone().or_else(|| part.resource.as_deref().map(by_name)),
        size: part.size,
    }
}

fn by_name(name: &str) -> String {
    format!("name == \"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

pub(crate) fn set_pool(set: &SetPool) -> v1::SetPoolRequest {
    let mut spec = v1::PoolSpec { window_ms: set.window, cleaning: set.cleaning, ..v1::PoolSpec::default() };
    spec.fair = set
        .fair
        .as_ref()
        .map(|fair| v1::FairShare { by: fair.by.clone(), weights: fair.weights.iter().cloned().collect() });
    spec.scripts = (set.place_by.is_some() || set.order_by.is_some())
        .then(|| v1::Scripts { place: set.place_by.clone(), order: set.order_by.clone() });
    if set.backfill {
        spec.order = v1::Order::Backfill.into();
    }
    match &set.capacity {
        Capacity::Units(units) => spec.units = Some(*units),
        Capacity::Resources { placement, resources } => {
            spec.resources = resources
                .iter()
                .map(|resource| v1::Resource {
                    name: resource.name.clone(),
                    labels: resource.labels.iter().cloned().collect(),
                    properties: resource.properties.iter().cloned().collect(),
                })
                .collect();
            let placement = match placement {
                Placement::First => v1::Placement::First,
                Placement::LeastRecentlyUsed => v1::Placement::LeastRecentlyUsed,
                Placement::MostRecentlyUsed => v1::Placement::MostRecentlyUsed,
                Placement::Random => v1::Placement::Random,
                Placement::Spread(label) => {
                    spec.spread_label = Some(label.clone());
                    v1::Placement::Spread
                }
            };
            spec.placement = placement.into();
        }
    }
    let Pool { namespace, name } = &set.pool;
    v1::SetPoolRequest {
        namespace: self::namespace(namespace),
        pool: name.clone(),
        spec: Some(spec),
        size_was: set.size_was,
    }
}

pub(crate) fn condition(condition: &Condition) -> v1::Condition {
    let (state, note) = match condition {
        Condition::InService => (v1::ConditionState::InService, None),
        Condition::Drained(note) => (v1::ConditionState::Drained, note.clone()),
        Condition::Quarantined(note) => (v1::ConditionState::Quarantined, Some(note.clone())),
    };
    v1::Condition { state: state.into(), note }
}

pub(crate) fn state(state: State) -> v1::ConditionState {
    match state {
        State::InService => v1::ConditionState::InService,
        State::Drained => v1::ConditionState::Drained,
        State::Quarantined => v1::ConditionState::Quarantined,
    }
}

// Outcomes, with the same words as those of the rules.

fn time(at_ms: u64) -> String {
    duration_text(at_ms - START.as_millis())
}

fn time_or_none(at_ms: Option<u64>) -> String {
    at_ms.map_or_else(|| "none".into(), time)
}

fn or_none<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "none".into(), |value| value.to_string())
}

/// `LIFETIME_KEPT` is `kept`.
fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}

pub(crate) fn granted(grant: &v1::Grant) -> Outcome {
    let mut outcome = Outcome::new("granted")
        .with("pool", &grant.pool)
        .with("token", grant.token)
        .with("units", grant.units)
        .with_list("resources", grant.resources.iter().map(|resource| &resource.name))
        .with("lifetime", word(grant.lifetime().as_str_name(), "LIFETIME_"))
        .with("since", time(grant.since_ms))
        .with("until", time_or_none(grant.deadline_ms))
        .with_list("also", grant.also.iter().map(|part| format!("{}:{}", part.pool, part.units)))
        .with_list("also-resources", grant.also.iter().flat_map(|part| &part.resources).map(|resource| &resource.name))
        .with_list(
            "windows",
            grant.also.iter().filter_map(|part| Some(format!("{}:{}", part.pool, time(part.deadline_ms?)))),
        )
        .with_key(&grant.key);
    for resource in grant.resources.iter().chain(grant.also.iter().flat_map(|part| &part.resources)) {
        for (name, value) in resource.labels.iter().chain(&resource.properties) {
            outcome = outcome.with(format!("{}.{name}", resource.name), value);
        }
    }
    outcome
}

pub(crate) fn queued(position: u64, deadline_ms: Option<u64>) -> Outcome {
    Outcome::new("queued").with("position", position).with("until", time_or_none(deadline_ms))
}

pub(crate) fn renewed(renewed: &v1::Renewed) -> Outcome {
    Outcome::new("renewed")
        .with("token", renewed.token)
        .with("ttl", duration_text(renewed.ttl_ms))
        .with("until", time(renewed.deadline_ms))
}

pub(crate) fn released(released: &v1::Released) -> Outcome {
    Outcome::new("released").with("token", released.token)
}

pub(crate) fn session(opened: &v1::SessionOpened) -> Outcome {
    Outcome::new("open")
        .with("grace", duration_text(opened.grace_ms))
        .with("until", time_or_none(opened.deadline_ms))
        .with_key(&opened.session_key)
}

pub(crate) fn refused(refusal: &v1::Refusal) -> Outcome {
    let mut outcome = Outcome::refused(&refusal.code).with("retry", refusal.retry);
    let numbers = [
        ("most", refusal.most.map(u64::from)),
        ("size", refusal.size.map(u64::from)),
        ("free", refusal.free.map(u64::from)),
        ("dirty", refusal.dirty.map(u64::from)),
        ("max", refusal.max),
        ("position", refusal.position),
        ("holders-total", refusal.holders_total),
        ("token", refusal.token),
        ("line", refusal.line.map(u64::from)),
        ("column", refusal.column.map(u64::from)),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            outcome = outcome.with(name, number);
        }
    }
    let texts = [
        ("field", &refusal.field),
        ("pool", &refusal.pool),
        ("resource", &refusal.resource),
        ("limit", &refusal.limit),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            outcome = outcome.with(name, text);
        }
    }
    if let Some(deadline) = refusal.deadline_ms {
        outcome = outcome.with("until", time(deadline));
    }
    match refusal.code.as_str() {
        "request_ended" => outcome.with("token", or_none(refusal.token)),
        "window_mismatch" => outcome.with("window", or_none(refusal.window_ms.map(duration_text))),
        "out_of_service" | "pool_changed" => with_condition(outcome, refusal.condition.as_ref()),
        "busy" | "timed_out" => {
            let reserved = refusal.reserved.iter().map(|it| format!("{}:{}", it.resource, it.holder));
            with_holders(outcome, &refusal.holders)
                .with_list("reserved", reserved)
                .with_list("also", refusal.also.iter().map(|room| &room.pool))
        }
        "moved_on" => with_holders(outcome, &refusal.holders),
        "deadlock" => outcome.with_list("cycle", refusal.cycle.iter().map(|it| format!("{}>{}", it.holder, it.pool))),
        _ => outcome,
    }
}

fn with_holders(outcome: Outcome, holds: &[v1::Hold]) -> Outcome {
    let outcome = outcome
        .with_list("holders", holds.iter().map(|hold| &hold.holder))
        .with_list("tokens", holds.iter().map(|hold| hold.token));
    match holds.first() {
        Some(first) => outcome.with("since", time(first.since_ms)).with("until", time_or_none(first.deadline_ms)),
        None => outcome,
    }
}

fn with_condition(outcome: Outcome, condition: Option<&v1::Condition>) -> Outcome {
    let condition = condition.expect("a pool, a resource and a refusal for it have a condition");
    outcome
        .with("condition", word(condition.state().as_str_name(), "CONDITION_STATE_"))
        .with("note", or_none(condition.note.as_ref()))
}

pub(crate) fn shown(detail: &v1::PoolDetail) -> Outcome {
    let summary = detail.summary.as_ref().expect("a shown pool is summed up");
    let spec = detail.spec.as_ref().expect("a shown pool has its specification");
    let leaving = detail.resources.iter().filter(|resource| resource.leaving);
    let outcome = with_condition(Outcome::new("shown"), summary.condition.as_ref())
        .with("size", summary.size)
        .with("used", summary.used)
        .with("holds", summary.holds)
        .with("waiters", summary.waiters)
        .with("waiting-since", time_or_none(summary.waiting_since_ms))
        .with("removing", summary.removing)
        .with("declared", summary.declared)
        .with("window", or_none(summary.window_ms.map(duration_text)))
        .with("order", word(spec.order().as_str_name(), "ORDER_"))
        .with_list("leaving", leaving.map(|resource| &resource.name))
        .with("returns", time_or_none(summary.returns_at_ms))
        .with("dirty", summary.dirty)
        .with("cleaning", spec.cleaning)
        .with("fair", spec.fair.as_ref().map_or("none", |fair| fair.by.as_str()))
        .with("place-by", or_none(spec.scripts.as_ref().and_then(|scripts| scripts.place.as_ref())))
        .with("order-by", or_none(spec.scripts.as_ref().and_then(|scripts| scripts.order.as_ref())))
        .with("script-faults", detail.script_faults)
        .with("scripts-set-aside", detail.scripts_set_aside);
    if !summary.named {
        return outcome;
    }
    let mut placement = word(spec.placement().as_str_name(), "PLACEMENT_").replace('_', "-");
    if let Some(label) = &spec.spread_label {
        placement = format!("{placement}:{label}");
    }
    outcome.with("placement", placement).with_list("resources", spec.resources.iter().map(|resource| &resource.name))
}

pub(crate) fn shown_resource(detail: &v1::PoolDetail, name: &str) -> Outcome {
    match detail.resources.iter().find(|resource| resource.name == name) {
        Some(resource) => with_condition(Outcome::new("shown"), resource.condition.as_ref())
            .with("leaving", resource.leaving)
            .with("token", or_none(resource.token))
            .with("last-used", time_or_none(resource.last_used_at_ms))
            .with("returns", time_or_none(resource.returns_at_ms))
            .with("dirty", resource.dirty)
            .with("reserved", resource.reserved.as_ref().map_or("none", |it| it.holder.as_str()))
            .with("reserved-until", time_or_none(resource.reserved.as_ref().and_then(|it| it.deadline_ms))),
        None => Outcome::refused("unknown_resource"),
    }
}

pub(crate) fn queue(waiters: &[v1::Waiter]) -> Outcome {
    let away = waiters.iter().filter(|waiter| waiter.position.is_none());
    Outcome::new("shown")
        .with_list("order", waiters.iter().map(|waiter| &waiter.holder))
        .with_list("numbers", waiters.iter().map(|waiter| waiter.waiter))
        .with_list("away", away.map(|waiter| &waiter.holder))
        .with_list("also", waiters.first().map_or(&[][..], |first| &first.also).iter().map(wanted))
}

fn wanted(part: &v1::Part) -> String {
    format!("{}:{}", part.pool, part.units.map_or_else(|| "all".into(), |units| units.to_string()))
}

pub(crate) fn explained(explained: &v1::ExplainResponse) -> Outcome {
    let waiters = explained.waiters.iter().filter_map(|it| it.waiter.as_ref());
    let first = explained.waiters.first().map(|it| it.sentences.join("; "));
    Outcome::new("shown")
        .with("pool", explained.pool.join("; "))
        .with_list("order", waiters.map(|waiter| &waiter.holder))
        .with("why", or_none(first))
}

pub(crate) fn holds(holds: &[v1::Hold]) -> Outcome {
    let outcome = with_holders(Outcome::new("shown"), holds);
    match holds.first() {
        Some(first) => outcome
            .with("units", first.units)
            .with("lifetime", word(first.lifetime().as_str_name(), "LIFETIME_"))
            .with_list("resources", &first.resources)
            .with_list("also", first.also.iter().map(|part| format!("{}:{}", part.pool, part.units.unwrap_or(0)))),
        None => outcome,
    }
}

pub(crate) fn pools(pools: &[v1::Pool]) -> Outcome {
    Outcome::new("shown").with_list("pools", pools.iter().map(|pool| &pool.pool))
}

pub(crate) fn sessions(sessions: &[v1::Session]) -> Outcome {
    let attached = sessions.iter().filter(|session| session.attached);
    let outcome = Outcome::new("shown")
        .with_list("holders", sessions.iter().map(|session| &session.holder))
        .with_list("attached", attached.map(|session| &session.holder));
    match sessions.first() {
        Some(first) => outcome
            .with("until", time_or_none(first.deadline_ms))
            .with("holds", first.holds)
            .with("waiters", first.waiters),
        None => outcome,
    }
}

pub(crate) fn history(events: &[v1::Event]) -> Outcome {
    let names = events.iter().map(|event| {
        let kind = word(event.kind().as_str_name(), "EVENT_KIND_");
        match event.how() {
            v1::How::Unspecified => kind,
            how => format!("{kind}:{}", word(how.as_str_name(), "HOW_")),
        }
    });
    let note = events.iter().rev().find_map(|event| event.note.as_deref());
    Outcome::new("shown").with_list("events", names).with("note", note.unwrap_or("none"))
}

/// Waiters by number, with what a caller who is queued would be told.
pub(crate) fn places(waiters: &[v1::Waiter]) -> BTreeMap<u64, Outcome> {
    let told = |waiter: &v1::Waiter| Some((waiter.waiter, queued(waiter.position?, waiter.deadline_ms)));
    waiters.iter().filter_map(told).collect()
}

//! Pools: what they are meant to be, and how they stand.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::*;
use tenure_proto::v1;

use super::request::{Caller, path, ttl};
use crate::error::{Error, InField};

pub(crate) fn set_pool(request: v1::SetPoolRequest) -> Result<Command, Error> {
    let spec = request.spec.ok_or_else(|| Error::invalid("spec", "spec is missing"))?;
    let pool = path(&request.namespace, &request.pool, &Caller::default())?;
    let set = SetPool { pool: pool.clone(), spec: parse_spec(spec)? };
    Ok(match request.size_was {
        None => Command::SetPool(set),
        Some(size) => Command::ChangeSeen {
            seen: Seen { pool, resource: None, size: Some(size), state: None },
            change: Change::Pool(set),
        },
    })
}

pub(crate) fn set_condition(request: v1::SetConditionRequest) -> Result<Command, Error> {
    let condition = request.condition.ok_or_else(|| Error::invalid("condition", "condition is missing"))?;
    let lasts = match (request.lasts_ms, condition.state()) {
        (Some(_), v1::ConditionState::InService) => {
            return Err(Error::invalid("lasts_ms", "what is in service does not return"));
        }
        (lasts, _) => lasts.map(|millis| ttl("lasts_ms", millis)).transpose()?,
    };
    let pool = path(&request.namespace, &request.pool, &Caller::default())?;
    let resource = request.resource.map(|text| ResourceName::parse(&text).in_field("resource")).transpose()?;
    let state = match v1::ConditionState::try_from(request.state_was) {
        Ok(v1::ConditionState::Unspecified) => None,
        Ok(v1::ConditionState::InService) => Some(ConditionState::InService),
        Ok(v1::ConditionState::Drained) => Some(ConditionState::Drained),
        Ok(v1::ConditionState::Quarantined) => Some(ConditionState::Quarantined),
        Err(_) => return Err(Error::invalid("state_was", format!("state_was {} is unknown", request.state_was))),
    };
    let condition = parse_condition(condition)?;
    let set = SetCondition { pool: pool.clone(), resource: resource.clone(), condition, lasts };
    Ok(match state {
        None => Command::SetCondition(set),
        Some(state) => Command::ChangeSeen {
            seen: Seen { pool, resource, size: None, state: Some(state) },
            change: Change::Condition(set),
        },
    })
}

pub(crate) fn remove_pool(request: &v1::RemovePoolRequest) -> Result<Command, Error> {
    Ok(Command::RemovePool { pool: path(&request.namespace, &request.pool, &Caller::default())? })
}

fn parse_spec(spec: v1::PoolSpec) -> Result<PoolSpec, Error> {
    let named = spec.named || !spec.resources.is_empty();
    let capacity = match spec.units {
        Some(_) if named => return Err(Error::invalid("units", "units and resources exclude each other")),
        Some(units @ ..=UNITS_MAX) => {
            if spec.placement != 0 || spec.spread_label.is_some() {
                return Err(Error::invalid("placement", "units are all alike: only resources have a placement"));
            }
            Capacity::Units(units)
        }
        Some(units) => {
            return Err(Error::invalid("units", format!("units is {units}; the most is {UNITS_MAX}")));
        }
        None if named => {
            Capacity::Resources { placement: parse_placement(&spec)?, resources: parse_resources(spec.resources)? }
        }
        None => return Err(Error::invalid("units", "either units or resources must be given")),
    };
    let order = match v1::Order::try_from(spec.order) {
        Ok(v1::Order::Unspecified | v1::Order::Strict) => Order::Strict,
        Ok(v1::Order::Backfill) => Order::Backfill,
        Err(_) => return Err(Error::invalid("order", format!("order {} is unknown", spec.order))),
    };
    let window = spec.window_ms.map(|millis| ttl("window_ms", millis)).transpose()?;
    let fair = spec.fair.map(|fair| {
        let weights = fair.weights.iter().map(|(group, weight)| (group.as_str(), *weight));
        FairShare::parse(&fair.by, weights).in_field("fair")
    });
    if spec.cleaning && matches!(capacity, Capacity::Units(_)) {
        return Err(Error::invalid("cleaning", "units are all alike: only resources are cleaned"));
    }
    let scripts = parse_scripts(spec.scripts.unwrap_or_default())?;
    let (cleaning, fair) = (spec.cleaning, fair.transpose()?);
    Ok(PoolSpec { capacity, order, window, declared: true, cleaning, fair, scripts })
}

/// Whether they can be used is for the rules to say.
fn parse_scripts(scripts: v1::Scripts) -> Result<Scripts, Error> {
    let parse =
        |text: Option<String>, which: Which| text.map(|text| Script::parse(&text).in_field(which.field())).transpose();
    Ok(Scripts { place: parse(scripts.place, Which::Place)?, order: parse(scripts.order, Which::Order)? })
}

fn parse_placement(spec: &v1::PoolSpec) -> Result<Placement, Error> {
    let placement = match v1::Placement::try_from(spec.placement) {
        Ok(v1::Placement::Unspecified | v1::Placement::First) => Placement::First,
        Ok(v1::Placement::LeastRecentlyUsed) => Placement::LeastRecentlyUsed,
        Ok(v1::Placement::MostRecentlyUsed) => Placement::MostRecentlyUsed,
        Ok(v1::Placement::Random) => Placement::Random,
        Ok(v1::Placement::Spread) => {
            let label = spec.spread_label.as_deref();
            let label = label.ok_or_else(|| Error::invalid("spread_label", "to spread, a label is needed"))?;
            return Ok(Placement::Spread(LabelName::parse(label).in_field("spread_label")?));
        }
        Err(_) => return Err(Error::invalid("placement", format!("placement {} is unknown", spec.placement))),
    };
    match spec.spread_label {
        None => Ok(placement),
        Some(_) => Err(Error::invalid("spread_label", "only the placement `spread` has a label")),
    }
}

fn parse_resources(resources: Vec<v1::Resource>) -> Result<Vec<ResourceSpec>, Error> {
    if resources.len() > RESOURCES_PER_POOL_MAX {
        let message = format!("there are {} resources; the most is {RESOURCES_PER_POOL_MAX}", resources.len());
        return Err(Error::invalid("resources", message));
    }
    let mut names = BTreeSet::new();
    let parse = |(n, resource): (usize, v1::Resource)| {
        let name = ResourceName::parse(&resource.name).in_field(&format!("resources[{n}].name"))?;
        if !names.insert(name.clone()) {
            let message = format!("resource `{name}` is there twice");
            return Err(Error::invalid(&format!("resources[{n}].name"), message));
        }
        let labels = Labels::parse(pairs(&resource.labels)).in_field(&format!("resources[{n}].labels"))?;
        let properties = Labels::parse(pairs(&resource.properties)).in_field(&format!("resources[{n}].properties"))?;
        Ok(ResourceSpec { name, labels, properties })
    };
    resources.into_iter().enumerate().map(parse).collect()
}

fn parse_condition(condition: v1::Condition) -> Result<Condition, Error> {
    let note = condition.note.map(|text| Note::parse(&text).in_field("note")).transpose()?;
    match (v1::ConditionState::try_from(condition.state), note) {
        (Ok(v1::ConditionState::InService), None) => Ok(Condition::InService),
        (Ok(v1::ConditionState::InService), Some(_)) => Err(Error::invalid("note", "what is in service has no note")),
        (Ok(v1::ConditionState::Drained), note) => Ok(Condition::Drained(note)),
        (Ok(v1::ConditionState::Quarantined), Some(note)) => Ok(Condition::Quarantined(note)),
        (Ok(v1::ConditionState::Quarantined), None) => {
            Err(Error::invalid("note", "a quarantine needs a note that says why"))
        }
        (Ok(v1::ConditionState::Unspecified), _) => Err(Error::invalid("state", "state is missing")),
        (Err(_), _) => Err(Error::invalid("state", format!("state {} is unknown", condition.state))),
    }
}

pub(crate) fn spec(spec: &PoolSpec) -> v1::PoolSpec {
    let told = v1::PoolSpec {
        order: match spec.order {
            Order::Strict => v1::Order::Strict,
            Order::Backfill => v1::Order::Backfill,
        }
        .into(),
        window_ms: spec.window.map(Ttl::as_millis),
        cleaning: spec.cleaning,
        fair: spec.fair.as_ref().map(|share| v1::FairShare {
            by: share.by().to_owned(),
            weights: share.weights().map(|(group, weight)| (group.to_owned(), weight)).collect(),
        }),
        scripts: (!spec.scripts.is_empty()).then(|| v1::Scripts {
            place: spec.scripts.place.as_ref().map(|script| script.as_str().to_owned()),
            order: spec.scripts.order.as_ref().map(|script| script.as_str().to_owned()),
        }),
        ..v1::PoolSpec::default()
    };
    match &spec.capacity {
        Capacity::Units(units) => v1::PoolSpec { units: Some(*units), ..told },
        Capacity::Resources { placement, resources } => {
            let (placement, spread_label) = match placement {
                Placement::First => (v1::Placement::First, None),
                Placement::LeastRecentlyUsed => (v1::Placement::LeastRecentlyUsed, None),
                Placement::MostRecentlyUsed => (v1::Placement::MostRecentlyUsed, None),
                Placement::Random => (v1::Placement::Random, None),
                Placement::Spread(label) => (v1::Placement::Spread, Some(label.to_string())),
            };
            let resources = resources.iter().map(resource).collect();
            v1::PoolSpec { resources, named: true, placement: placement.into(), spread_label, ..told }
        }
    }
}

pub(super) fn resource(resource: &ResourceSpec) -> v1::Resource {
    v1::Resource {
        name: resource.name.to_string(),
        labels: owned(resource.labels.iter()),
        properties: owned(resource.properties.iter()),
    }
}

pub(crate) fn condition(condition: &Condition) -> v1::Condition {
    let (state, note) = match condition {
        Condition::InService => (v1::ConditionState::InService, None),
        Condition::Drained(note) => (v1::ConditionState::Drained, note.as_ref()),
        Condition::Quarantined(note) => (v1::ConditionState::Quarantined, Some(note)),
    };
    v1::Condition { state: state.into(), note: note.map(ToString::to_string) }
}

pub(crate) fn summary(view: &PoolView) -> v1::Pool {
    v1::Pool {
        namespace: view.pool.namespace().to_string(),
        pool: view.pool.name().to_string(),
        named: view.named,
        size: view.size,
        used: view.used,
        holds: view.holds as u64,
        waiters: view.waiters as u64,
        waiting_since_ms: view.waiting_since.map(Timestamp::as_millis),
        condition: Some(condition(&view.condition)),
        removing: view.removing,
        declared: view.declared,
        window_ms: view.window.map(Ttl::as_millis),
        returns_at_ms: view.until.map(Timestamp::as_millis),
        dirty: view.dirty,
    }
}

pub(crate) fn pool_detail(detail: &PoolDetail) -> v1::PoolDetail {
    let resource_state = |view: &ResourceView| v1::ResourceState {
        name: view.spec.name.to_string(),
        condition: Some(condition(&view.condition)),
        leaving: view.leaving,
        token: view.hold.map(|token| token.0),
        last_used_at_ms: view.last_used.map(Timestamp::as_millis),
        returns_at_ms: view.until.map(Timestamp::as_millis),
        dirty: view.dirty,
        reserved: view.reserved.as_ref().map(|reserved| v1::Reservation {
            holder: reserved.holder.to_string(),
            deadline_ms: reserved.until.map(Timestamp::as_millis),
            reason: reserved.reason.to_string(),
        }),
    };
    v1::PoolDetail {
        summary: Some(summary(&detail.summary)),
        spec: Some(spec(&detail.spec)),
        resources: detail.resources.iter().map(resource_state).collect(),
        script_faults: detail.script_faults,
        scripts_set_aside: detail.script_faults >= SCRIPT_FAULTS_MAX,
    }
}

fn pairs(map: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    map.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

pub(super) fn owned<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

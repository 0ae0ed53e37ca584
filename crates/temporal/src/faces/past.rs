//! What a run of somebody else's pool had when it ended, worked out from its history: whom it has told and who has released
//! since, who has asked and was not told. A resource that the sample has lost by its own mistake is free again.

use std::collections::BTreeMap;

use serde::Deserialize;
use tenure_core::{RESOURCES_PER_POOL_MAX, ResourceName};

use super::book::{NUMBER_MAX, digest, is_usable};
use super::lock_manager::HANDOFF;
use super::pool::{ACQUIRE, ADD, RELEASE};
use super::wire::{
    self, AcquireResource, Carried, HandoffResource, Held, LockManagerInput, PoolInput, ReleaseResource, Waiting,
};

/// One thing that happened in a run, as far as it matters here.
#[derive(Clone, Debug)]
pub(crate) enum Past {
    Signaled {
        name: String,
        argument: Vec<u8>,
        at_ms: u64,
    },
    /// It signalled a workflow. The number is that of the event.
    Told {
        event: i64,
        name: String,
        workflow_id: String,
        run_id: String,
        argument: Vec<u8>,
        at_ms: u64,
    },
    /// The signal of that event did not arrive.
    Undelivered {
        event: i64,
    },
}

/// What remains of a run that began with what was carried into it.
pub(crate) fn replay(mut carried: Carried, is_assign: impl Fn(&str) -> bool, past: Vec<Past>) -> Carried {
    // By event, what was told: the resource.
    let mut told = BTreeMap::new();
    for past in past {
        match past {
            Past::Signaled { name, argument, at_ms } => hear(&mut carried, &name, &argument, at_ms),
            Past::Told { event, name, workflow_id, run_id, argument, at_ms } if is_assign(&name) => {
                let Ok(mut assigned) = wire::read::<Told>(Some(&argument)) else { continue };
                assigned.token = assigned.token.filter(|token| *token <= NUMBER_MAX);
                let workflow_id = usable(workflow_id);
                let is_one = |run: &String| !run.is_empty() && is_usable(&of(&workflow_id, Some(run)));
                let run_id = Some(run_id).filter(is_one);
                let resource = assigned.resource.clone();
                if tell(&mut carried, assigned, workflow_id, run_id, at_ms) {
                    told.insert(event, resource);
                }
            }
            Past::Told { .. } => {}
            Past::Undelivered { event } => {
                if let Some(held) = told.get(&event).and_then(|resource| held_mut(&mut carried, resource)) {
                    *held = None;
                }
            }
        }
    }
    carried
}

/// The start input of a pool, with what it takes over put in.
pub(crate) fn pool_input(own: PoolInput, before: PoolInput, past: Vec<Past>) -> PoolInput {
    let carried = Carried { counters: before.counters, resources: before.resources.0, waiters: before.waiters };
    let after = replay(carried, |name| name.starts_with(super::pool::ASSIGN_PREFIX), past);
    let mut resources = after.resources;
    for (name, held) in own.resources.0 {
        if resources.iter().all(|(known, _)| *known != name) {
            resources.push((name, held));
        }
    }
    PoolInput {
        counters: after.counters,
        max_wait_ms: own.max_wait_ms,
        resources: wire::Ordered(resources),
        takes_over: None,
        waiters: after.waiters,
    }
}

/// The same for a lock manager.
pub(crate) fn lock_manager_input(before: LockManagerInput, past: Vec<Past>) -> LockManagerInput {
    let carried = super::lock_manager::carried(before);
    let after = replay(carried, |name| name == super::lock_manager::ASSIGN, past);
    let queues = after.resources.into_iter().map(|(name, held)| (name, held.into_iter().collect()));
    LockManagerInput {
        counters: after.counters,
        resource_queues: wire::Ordered(queues.collect()),
        takes_over: None,
        waiters: after.waiters,
    }
}

/// What a workflow was told. The samples say neither token nor deadline.
#[derive(Deserialize)]
struct Told {
    deadline_ms: Option<u64>,
    release_key: Option<String>,
    resource: String,
    token: Option<u64>,
}

/// Notes who has been told; false if there is no such resource.
fn tell(carried: &mut Carried, told: Told, workflow_id: String, run_id: Option<String>, at_ms: u64) -> bool {
    let Some(held) = held_mut(carried, &told.resource) else { return false };
    let known = held.as_ref().filter(|held| held.workflow_id == workflow_id && held.release_signal == told.release_key);
    if let Some(known) = known.cloned() {
        // It is told again: as a later run, or because its request was repeated.
        *held = Some(Held { run_id, ..known });
        return true;
    }
    let asked = carried.waiters.iter().position(|waiting| waiting.workflow_id == workflow_id);
    let asked = asked.map(|asked| carried.waiters.remove(asked)).unwrap_or_default();
    carried.counters.token_next = carried.counters.token_next.max(told.token.map_or(0, |token| token + 1));
    let hold = Held {
        asked_ms: asked.asked_ms,
        deadline_ms: told.deadline_ms,
        release_signal: told.release_key,
        request_id: asked.request_id,
        run_id,
        since_ms: Some(at_ms),
        token: told.token,
        ttl_ms: asked.ttl_ms,
        untold: false,
        workflow_id,
    };
    *held_mut(carried, &told.resource).expect("it was just there") = Some(hold);
    true
}

/// What makes no sense is left out: by now the run that heard it has ended, and all that it had would be lost over it.
fn hear(carried: &mut Carried, name: &str, argument: &[u8], at_ms: u64) {
    match name {
        ACQUIRE => {
            let Ok(asked) = wire::read::<AcquireResource>(Some(argument)) else { return };
            let waiting = Waiting {
                asked_ms: Some(at_ms),
                deadline_ms: asked.wait_ms.map(|wait| at_ms.saturating_add(wait)),
                priority: asked.priority,
                run_id: asked.run_id,
                select: asked.select,
                ttl_ms: asked.ttl_ms,
                workflow_id: asked.workflow_id,
                ..Waiting::default()
            };
            carried.waiters.extend(is_usable(&waiting).then_some(waiting));
        }
        RELEASE => {
            let Ok(release) = wire::read::<ReleaseResource>(Some(argument)) else { return };
            let is_meant = |name: &str, held: &Held| match &release.release_key {
                Some(key) => held.release_signal.as_ref() == Some(key),
                None => {
                    release.resource.as_deref() == Some(name)
                        && release.workflow_id.as_ref() == Some(&held.workflow_id)
                        && release.run_id == held.run_id
                }
            };
            for (name, held) in &mut carried.resources {
                held.take_if(|held| is_meant(name, held));
            }
        }
        HANDOFF => {
            let Ok(handoff) = wire::read::<HandoffResource>(Some(argument)) else { return };
            if let Some(Some(held)) = held_mut(carried, &handoff.resource)
                && held.workflow_id == handoff.workflow_id
                && held.run_id.as_ref() == Some(&handoff.old_run_id)
                && is_usable(&of(&handoff.workflow_id, Some(&handoff.new_run_id)))
            {
                held.run_id = Some(handoff.new_run_id);
            }
        }
        ADD => {
            let Ok(names) = wire::read::<Vec<String>>(Some(argument)) else { return };
            for name in names.into_iter().filter(|name| ResourceName::parse(name).is_ok()) {
                let has_room = carried.resources.len() < RESOURCES_PER_POOL_MAX;
                if has_room && carried.resources.iter().all(|(known, _)| *known != name) {
                    carried.resources.push((name, None));
                }
            }
        }
        _ => {}
    }
}

/// A workflow that asks for nothing in particular.
fn of(workflow_id: &str, run_id: Option<&str>) -> Waiting {
    Waiting { run_id: run_id.map(str::to_owned), workflow_id: workflow_id.to_owned(), ..Waiting::default() }
}

/// The workflow, or a name for one that the rules cannot have: it has what it was told that it has.
fn usable(workflow_id: String) -> String {
    match is_usable(&of(&workflow_id, None)) {
        true => workflow_id,
        false => format!("workflow-{:032x}", digest(&workflow_id)),
    }
}

fn held_mut<'a>(carried: &'a mut Carried, resource: &str) -> Option<&'a mut Option<Held>> {
    carried.resources.iter_mut().find(|(name, _)| name == resource).map(|(_, held)| held)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::faces::Face;
    use crate::faces::pool::PoolFace;
    use tenure_core::Timestamp;

    fn signaled(name: &str, argument: &Value) -> Past {
        Past::Signaled { name: name.into(), argument: serde_json::to_vec(argument).unwrap(), at_ms: 5 }
    }

    fn told(event: i64, workflow: &str, resource: &str, key: &str) -> Past {
        Past::Told {
            event,
            name: "assign_resource_pool".into(),
            workflow_id: workflow.into(),
            run_id: String::new(),
            argument: serde_json::to_vec(&json!({"resource": resource, "release_key": key})).unwrap(),
            at_ms: 6,
        }
    }

    fn after(start: &Value, past: Vec<Past>) -> PoolInput {
        let before = serde_json::from_value(start.clone()).unwrap();
        pool_input(PoolInput::default(), before, past)
    }

    fn holders(input: &PoolInput) -> Vec<(&str, Option<&str>)> {
        input
            .resources
            .0
            .iter()
            .map(|(name, held)| (name.as_str(), held.as_ref().map(|held| held.workflow_id.as_str())))
            .collect()
    }

    fn waiters(input: &PoolInput) -> Vec<&str> {
        input.waiters.iter().map(|waiting| waiting.workflow_id.as_str()).collect()
    }

    #[test]
    fn those_who_were_told_hold_and_the_others_wait() {
        let start = json!({
            "resources": {"a": {"workflow_id": "w0", "release_signal": "k0"}, "b": null},
            "waiters": [{"workflow_id": "w1", "release_signal": null}],
        });
        let past = vec![
            told(7, "w1", "b", "k1"),
            signaled(ACQUIRE, &json!({"workflow_id": "w2"})),
            signaled(ACQUIRE, &json!({"workflow_id": "w3"})),
            signaled(RELEASE, &json!({"release_key": "k0", "resource": "a"})),
            told(15, "w2", "a", "k2"),
            signaled(ADD, &json!(["b", "c"])),
            signaled(ACQUIRE, &json!("nonsense")),
        ];
        let input = after(&start, past);
        assert_eq!(holders(&input), [("a", Some("w2")), ("b", Some("w1")), ("c", None)]);
        assert_eq!(waiters(&input), ["w3"]);
        assert_eq!(input.resources.0[0].1.as_ref().unwrap().release_signal.as_deref(), Some("k2"));
    }

    #[test]
    fn what_makes_no_sense_does_not_stand_in_the_way_of_the_rest() {
        let start = json!({"resources": {"a": {"workflow_id": "w0", "release_signal": "k0"}}, "waiters": []});
        let past = vec![
            signaled(ADD, &json!(["", "b", "new\nline"])),
            signaled(ACQUIRE, &json!({"workflow_id": "w1", "priority": 100_000})),
            signaled(ACQUIRE, &json!({"workflow_id": "w2", "select": "mem >>"})),
            signaled(ACQUIRE, &json!({"workflow_id": "w3", "ttl_ms": 0})),
            signaled(ACQUIRE, &json!({"workflow_id": ""})),
            signaled(ACQUIRE, &json!({"workflow_id": "w4"})),
        ];
        let input = after(&start, past);
        assert_eq!(holders(&input), [("a", Some("w0")), ("b", None)]);
        assert_eq!(waiters(&input), ["w4"]);
        PoolFace::open("pool", Some(&wire::write(&input)), Timestamp::default(), &mut || 7).unwrap();
    }

    #[test]
    fn what_was_told_stands_whatever_it_says() {
        let start = json!({"resources": {"a": null, "b": null}, "waiters": []});
        let high = json!({"resource": "a", "release_key": "k1", "token": u64::MAX, "deadline_ms": u64::MAX});
        let assign = Past::Told {
            event: 7,
            name: "assign_resource_pool".into(),
            workflow_id: "w1".into(),
            run_id: "r1".into(),
            argument: serde_json::to_vec(&high).unwrap(),
            at_ms: 6,
        };
        let input = after(&start, vec![assign, told(9, "w\n2", "b", "k2")]);
        let mut face =
            PoolFace::open("pool", Some(&wire::write(&input)), Timestamp::default(), &mut || 7).unwrap().face;
        assert_eq!(face.holders()["a"].as_ref().unwrap().workflow_id, "w1");
        // It has no name that the rules could have, but what it was told is not free.
        let stamp = tenure_core::Stamp { at: Timestamp::from_millis(7), nonce: 1 };
        face.hear(stamp, RELEASE, Some(br#"{"release_key": "k2", "resource": "b"}"#)).unwrap();
        let started = face.hand_on();
        PoolFace::open("pool", Some(&started), Timestamp::default(), &mut || 8).unwrap();
    }

    #[test]
    fn what_the_sample_lost_is_free_again() {
        let start = json!({"resources": {"a": null, "b": null}, "waiters": []});
        let past = vec![
            signaled(ACQUIRE, &json!({"workflow_id": "w1"})),
            signaled(ACQUIRE, &json!({"workflow_id": "gone"})),
            told(7, "w1", "a", "k1"),
            // It comes with the confirmation, and the sample drops it.
            signaled(RELEASE, &json!({"release_key": "k1", "resource": "a"})),
            told(9, "gone", "b", "k2"),
            Past::Undelivered { event: 9 },
        ];
        let input = after(&start, past);
        assert_eq!(holders(&input), [("a", None), ("b", None)]);
        assert_eq!(waiters(&input), [""; 0]);
    }

    #[test]
    fn a_lock_that_was_handed_over_belongs_to_the_later_run() {
        let party = |run: &str| json!({"workflow_id": "w", "run_id": run});
        let before = serde_json::from_value(json!({"resource_queues": {"a": [party("r1"), party("r9")]}})).unwrap();
        let handoff = json!({"resource": "a", "workflow_id": "w", "old_run_id": "r1", "new_run_id": "r2"});
        let assign = Past::Told {
            event: 9,
            name: "assign_resource".into(),
            workflow_id: "w".into(),
            run_id: "r2".into(),
            argument: br#"{"resource": "a"}"#.to_vec(),
            at_ms: 6,
        };
        let input = lock_manager_input(before, vec![signaled(HANDOFF, &handoff), assign]);
        assert_eq!(input.resource_queues.0[0].1[0].run_id.as_deref(), Some("r2"));
        assert_eq!(input.waiters.len(), 1, "the other still waits");
    }
}

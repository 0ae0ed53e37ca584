use serde_json::{Value, json};
use tenure_core::{Stamp, Timestamp};

use super::*;

fn open(input: &Value) -> LockManagerFace {
    open_bytes(&serde_json::to_vec(input).unwrap())
}

fn open_bytes(input: &[u8]) -> LockManagerFace {
    let mut minted = 0;
    let mut mint = || {
        minted += 1;
        minted << 80
    };
    LockManagerFace::open("lock_manager", Some(input), Timestamp::from_millis(1_000), &mut mint).unwrap().face
}

fn hear(manager: &mut LockManagerFace, nonce: u128, signal: &str, argument: &Value) -> Result<(), String> {
    let stamp = Stamp { at: Timestamp::from_millis(1_000), nonce: nonce << 90 };
    manager.hear(stamp, signal, Some(&serde_json::to_vec(argument).unwrap()))
}

/// Whom it tells: workflow, run and resource.
fn told(manager: &mut LockManagerFace) -> Vec<(String, String, String)> {
    let tells = manager.book_mut().tells();
    for tell in &tells {
        let stamp = Stamp { at: Timestamp::from_millis(1_000), nonce: 0 };
        manager.book_mut().told(stamp, tell.token, true);
    }
    tells.into_iter().map(|tell| (tell.workflow_id, tell.run_id.unwrap(), tell.assigned.resource)).collect()
}

fn triple(workflow: &str, run: &str, resource: &str) -> (String, String, String) {
    (workflow.into(), run.into(), resource.into())
}

#[test]
fn a_lock_is_released_by_the_run_that_has_it_and_by_no_other() {
    let mut manager = open(&json!({"resource_queues": {"a": []}}));
    hear(&mut manager, 1, ACQUIRE, &json!({"workflow_id": "w1", "run_id": "r1"})).unwrap();
    hear(&mut manager, 2, ACQUIRE, &json!({"workflow_id": "w2", "run_id": "r2"})).unwrap();
    assert_eq!(manager.assign_signal(), "assign_resource");
    assert_eq!(told(&mut manager), [triple("w1", "r1", "a")]);
    let other = json!({"resource": "a", "workflow_id": "w1", "run_id": "r9"});
    assert!(hear(&mut manager, 3, RELEASE, &other).unwrap_err().contains("another run"));
    hear(&mut manager, 4, RELEASE, &json!({"resource": "a", "workflow_id": "w1", "run_id": "r1"})).unwrap();
    assert_eq!(told(&mut manager), [triple("w2", "r2", "a")]);
}

#[test]
fn a_lock_is_not_handed_over_to_what_cannot_be_a_run() {
    let mut manager = open(&json!({"resource_queues": {"a": []}}));
    hear(&mut manager, 1, ACQUIRE, &json!({"workflow_id": "w1", "run_id": "r1"})).unwrap();
    told(&mut manager);
    for run in ["x".repeat(1_000_000), "r\u{0}".into()] {
        let handoff = json!({"resource": "a", "workflow_id": "w1", "old_run_id": "r1", "new_run_id": run});
        assert!(hear(&mut manager, 2, HANDOFF, &handoff).is_err());
    }
    // Whoever takes it over could not read it.
    let mut manager = open_bytes(&manager.as_started());
    hear(&mut manager, 3, RELEASE, &json!({"resource": "a", "workflow_id": "w1", "run_id": "r1"})).unwrap();
}

#[test]
fn a_lock_is_handed_over_to_the_next_run_which_is_told_again() {
    let mut manager = open(&json!({"resource_queues": {"a": []}}));
    hear(&mut manager, 1, ACQUIRE, &json!({"workflow_id": "w1", "run_id": "r1"})).unwrap();
    told(&mut manager);
    let handoff = json!({"resource": "a", "workflow_id": "w1", "old_run_id": "r1", "new_run_id": "r2"});
    hear(&mut manager, 2, HANDOFF, &handoff).unwrap();
    assert_eq!(told(&mut manager), [triple("w1", "r2", "a")]);
    assert!(hear(&mut manager, 3, HANDOFF, &handoff).is_err(), "that run has it no more");
    let mut manager = open_bytes(&manager.hand_on());
    assert_eq!(serde_json::to_value(manager.holders()).unwrap()["a"]["run_id"], "r2");
    hear(&mut manager, 4, RELEASE, &json!({"resource": "a", "workflow_id": "w1", "run_id": "r2"})).unwrap();
    assert_eq!(serde_json::to_value(manager.holders()).unwrap(), json!({"a": null}));
}

#[test]
fn a_live_lock_manager_moves_over_with_those_who_wait() {
    let party = |workflow: &str| json!({"workflow_id": workflow, "run_id": format!("{workflow}-run")});
    let input = json!({"resource_queues": {
        "a": [party("w1"), party("w3"), party("w5")],
        "b": [party("w2"), party("w4")],
    }});
    let mut manager = open(&input);
    assert_eq!(told(&mut manager), []);
    hear(&mut manager, 1, RELEASE, &json!({"resource": "b", "workflow_id": "w2", "run_id": "w2-run"})).unwrap();
    assert_eq!(told(&mut manager), [triple("w3", "w3-run", "b")], "they wait for any");
    hear(&mut manager, 2, RELEASE, &json!({"resource": "a", "workflow_id": "w1", "run_id": "w1-run"})).unwrap();
    assert_eq!(told(&mut manager), [triple("w4", "w4-run", "a")]);
    let again: Value = serde_json::from_slice(&manager.as_started()).unwrap();
    let mut manager = open(&again);
    hear(&mut manager, 3, OWNER_GONE, &json!({"workflow_id": "w4", "run_id": "w4-run"})).unwrap();
    assert_eq!(told(&mut manager), [triple("w5", "w5-run", "a")]);
}

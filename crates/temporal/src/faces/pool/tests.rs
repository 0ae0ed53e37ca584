use serde_json::{Value, json};
use tenure_core::{
    Acquire, Amount, Command, Demand, Holder, Lifetime, Namespace, PoolName, PoolPath, Priority, Release, Reply,
    SetPool, Stamp, Timestamp, Wait,
};

use super::*;
use crate::faces::book::Tell;
use crate::faces::wire::Assigned;
use crate::keeper::wire::{Answer, Batch, Lane, Mail, ServerId};

/// A pool with its clock and its randomness.
struct Scene {
    face: PoolFace,
    now: u64,
    minted: u128,
}

impl Scene {
    fn start(input: Value) -> Self {
        Self::open(&serde_json::to_vec(&input).unwrap(), 1_000, 0)
    }

    /// With resources `b` and `a`, in this order.
    fn b_and_a() -> Self {
        Self::open(br#"{"resources": {"b": null, "a": null}, "waiters": []}"#, 1_000, 0)
    }

    fn open(input: &[u8], now: u64, mut minted: u128) -> Self {
        let mut mint = || {
            minted += 1;
            minted << 80
        };
        let opened = PoolFace::open("pool", Some(input), Timestamp::from_millis(now), &mut mint);
        let Start { face, takes_over: None } = opened.unwrap() else { panic!("nothing is to be taken over") };
        Self { face, now, minted }
    }

    /// The next run.
    fn continued(self) -> Self {
        Self::open(&self.face.hand_on(), self.now, self.minted)
    }

    fn stamp(&mut self) -> Stamp {
        self.minted += 1;
        Stamp { at: Timestamp::from_millis(self.now), nonce: self.minted << 80 }
    }

    fn hear(&mut self, signal: &str, argument: Value) -> Result<(), String> {
        let stamp = self.stamp();
        self.face.hear(stamp, signal, Some(&serde_json::to_vec(&argument).unwrap()))
    }

    fn acquire(&mut self, workflow: &str) {
        self.hear(ACQUIRE, json!({"workflow_id": workflow})).unwrap();
    }

    fn release(&mut self, tell: &Tell) {
        let Assigned { release_key, resource, .. } = &tell.assigned;
        self.hear(RELEASE, json!({"release_key": release_key, "resource": resource})).unwrap();
    }

    fn tells(&mut self) -> Vec<Tell> {
        self.face.book_mut().tells()
    }

    /// Whom it tells, and all of them hear it.
    fn told(&mut self) -> Vec<(String, String)> {
        let tells = self.tells();
        for tell in &tells {
            let stamp = self.stamp();
            self.face.book_mut().told(stamp, tell.token, true);
        }
        tells.into_iter().map(|tell| (tell.workflow_id, tell.assigned.resource)).collect()
    }

    fn undeliverable(&mut self, tell: &Tell) {
        let stamp = self.stamp();
        self.face.book_mut().told(stamp, tell.token, false);
    }

    /// A server asks, and is answered.
    fn asked(&mut self, sequence: u64, mail: Vec<Mail>) -> Vec<(u64, Reply)> {
        let batch = Batch {
            server: ServerId(7),
            name: "server".to_owned(),
            lane: Lane::Mail,
            sequence,
            seed: [7; 32],
            mail,
            follow: None,
            park_millis: 0,
        };
        match self.face.book_mut().batch(Timestamp::from_millis(self.now), batch) {
            Answer::Said(said) => said.answers,
            Answer::Unknown => panic!("it does not know the server"),
        }
    }

    fn holders(&self) -> Value {
        serde_json::to_value(self.face.holders()).unwrap()
    }

    fn holder(&self, resource: &str) -> Option<String> {
        self.holders()[resource]["workflow_id"].as_str().map(str::to_owned)
    }
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(workflow, resource)| ((*workflow).to_owned(), (*resource).to_owned())).collect()
}

#[test]
fn the_first_free_resource_goes_to_whoever_asks_first() {
    let mut pool = Scene::b_and_a();
    for workflow in ["w1", "w2", "w3", "w4"] {
        pool.acquire(workflow);
    }
    let tells = pool.tells();
    assert_eq!(tells.iter().map(|tell| &*tell.assigned.resource).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(tells.iter().map(|tell| &*tell.workflow_id).collect::<Vec<_>>(), ["w1", "w2"]);
    assert_eq!(pool.face.assign_signal(), "assign_resource_pool");
    pool.release(&tells[1]);
    assert_eq!(pool.told(), pairs(&[("w3", "a")]));
    pool.release(&tells[0]);
    assert_eq!(pool.told(), pairs(&[("w4", "b")]));
}

#[test]
fn a_release_that_comes_before_the_confirmation_is_heard() {
    let mut pool = Scene::start(json!({"resources": {"a": null}}));
    pool.acquire("w1");
    pool.acquire("w2");
    let tells = pool.tells();
    pool.release(&tells[0]);
    let stamp = pool.stamp();
    pool.face.book_mut().told(stamp, tells[0].token, true);
    assert_eq!(pool.told(), pairs(&[("w2", "a")]));
}

#[test]
fn a_key_alone_releases_and_a_key_of_another_resource_does_not() {
    let mut pool = Scene::start(json!({"resources": {"a": null, "b": null}}));
    pool.acquire("w1");
    let key = pool.tells()[0].assigned.release_key.clone();
    assert!(pool.hear(RELEASE, json!({"release_key": key, "resource": "b"})).unwrap_err().contains("another resource"));
    pool.hear(RELEASE, json!({"release_key": key})).unwrap();
    assert_eq!(pool.holder("a"), None);
    assert!(pool.hear(RELEASE, json!({"release_key": key})).is_err(), "it is over");
}

#[test]
fn what_cannot_be_told_goes_to_the_next() {
    let mut pool = Scene::start(json!({"resources": {"a": null}}));
    for workflow in ["closed", "full", "w3"] {
        pool.acquire(workflow);
    }
    for gone in ["closed", "full"] {
        let tells = pool.tells();
        assert_eq!(tells[0].workflow_id, gone);
        pool.undeliverable(&tells[0]);
    }
    assert_eq!(pool.told(), pairs(&[("w3", "a")]));
    assert_eq!(pool.holder("a").as_deref(), Some("w3"));
}

#[test]
fn what_was_released_meanwhile_is_not_taken_from_the_next_holder() {
    let mut pool = Scene::start(json!({"resources": {"a": null}}));
    pool.acquire("w1");
    pool.acquire("w2");
    let first = pool.tells();
    pool.release(&first[0]);
    assert_eq!(pool.told(), pairs(&[("w2", "a")]));
    pool.undeliverable(&first[0]);
    assert_eq!(pool.holder("a").as_deref(), Some("w2"));
}

#[test]
fn nonsense_is_dropped_and_changes_nothing() {
    let mut pool = Scene::start(json!({"resources": {"a": null}}));
    let nonsense = [
        (ACQUIRE, json!({})),
        (ACQUIRE, json!({"workflow_id": ""})),
        (ACQUIRE, json!({"workflow_id": "w\u{0}"})),
        (ACQUIRE, json!({"workflow_id": "w", "select": "((("})),
        (ACQUIRE, json!({"workflow_id": "w", "select": "name == nowhere"})),
        (ACQUIRE, json!({"workflow_id": "w", "priority": 100_000})),
        (ACQUIRE, json!({"workflow_id": "w", "ttl_ms": 0})),
        (ACQUIRE, json!([1, 2])),
        (RELEASE, json!({"resource": "a"})),
        (RELEASE, json!("a")),
        (ADD, json!({"a": 1})),
        (ADD, json!(["b", ""])),
        (OWNER_GONE, json!({"workflow_id": null})),
    ];
    for (signal, argument) in nonsense {
        assert!(pool.hear(signal, argument.clone()).is_err(), "{signal} {argument}");
    }
    let stamp = pool.stamp();
    assert!(pool.face.hear(stamp, ACQUIRE, None).is_err());
    assert!(pool.face.hear(stamp, ACQUIRE, Some(b"\xff\x00")).is_err());
    assert_eq!(pool.holders(), json!({"a": null}));
    assert_eq!(pool.tells(), []);
}

#[test]
fn resources_are_added_behind_those_there_are_and_known_names_are_left_alone() {
    let mut pool = Scene::start(json!({"resources": {"b": null}}));
    for workflow in ["w1", "w2", "w3"] {
        pool.acquire(workflow);
    }
    assert_eq!(pool.told(), pairs(&[("w1", "b")]));
    pool.hear(ADD, json!(["b", "z", "a", "a"])).unwrap();
    assert_eq!(pool.told(), pairs(&[("w2", "z"), ("w3", "a")]));
}

#[test]
fn a_pool_without_resources_lets_everybody_wait() {
    let mut pool = Scene::start(json!({"resources": {}, "waiters": [{"workflow_id": "w0", "release_signal": null}]}));
    pool.acquire("w1");
    let mut pool = pool.continued();
    pool.acquire("w2");
    assert_eq!(pool.told(), []);
    pool.hear(ADD, json!(["a", "b"])).unwrap();
    let tells = pool.tells();
    assert_eq!(tells.iter().map(|tell| &*tell.workflow_id).collect::<Vec<_>>(), ["w0", "w1"]);
    assert_ne!(tells[0].assigned.release_key, tells[1].assigned.release_key);
    pool.release(&tells[0]);
    assert_eq!(pool.told(), pairs(&[("w2", "a")]));
}

#[test]
fn the_next_run_goes_on_with_every_hold_key_token_and_place() {
    let mut pool = Scene::b_and_a();
    for workflow in ["w1", "w2", "w3", "w4"] {
        pool.acquire(workflow);
    }
    pool.hear(ACQUIRE, json!({"workflow_id": "w5", "priority": 5, "ttl_ms": 9_000, "wait_ms": 60_000})).unwrap();
    let tells = pool.tells();
    for tell in &tells {
        let stamp = pool.stamp();
        pool.face.book_mut().told(stamp, tell.token, true);
    }
    let (before, carried) = (pool.holders(), pool.face.hand_on());
    let mut pool = pool.continued().continued();
    assert_eq!(pool.holders(), before);
    assert_eq!(pool.face.hand_on(), carried, "nothing is lost, made up or moved");
    assert_eq!(pool.tells(), [], "nobody is told twice");
    pool.release(&tells[0]);
    let next = pool.tells();
    assert_eq!((&*next[0].workflow_id, &*next[0].assigned.resource), ("w5", "b"));
    assert_eq!(next[0].token.0, 3, "tokens rise over runs");
    assert_eq!(next[0].assigned.deadline_ms, Some(10_000));
    pool.release(&tells[1]);
    assert_eq!(pool.told(), pairs(&[("w3", "a")]));
}

#[test]
fn whoever_was_not_told_in_one_run_is_told_in_the_next() {
    let mut pool = Scene::start(json!({"resources": {"a": null}}));
    pool.acquire("w1");
    let mut pool = pool.continued();
    assert_eq!(pool.told(), pairs(&[("w1", "a")]));
    let mut pool = pool.continued();
    assert_eq!(pool.told(), []);
}

#[test]
fn a_live_pool_of_the_sample_moves_over_with_its_keys_and_its_waiters() {
    let uuid = "7d9f2f6e-6c1c-4a55-9d3c-0a6d3c8a5b11";
    let mut pool = Scene::start(json!({
        "resources": {
            "a": {"workflow_id": "w1", "release_signal": uuid},
            "b": {"workflow_id": "w2", "release_signal": "a key of another kind"},
            "c": null,
        },
        "waiters": [{"workflow_id": "w3", "release_signal": null}, {"workflow_id": "w4", "release_signal": null}],
    }));
    assert_eq!(pool.told(), pairs(&[("w3", "c")]), "what is free is given to whoever waits");
    assert_eq!(pool.holders()["a"]["release_signal"], uuid);
    assert_eq!(pool.holders()["b"]["release_signal"], "a key of another kind");
    let mut pool = pool.continued();
    pool.hear(RELEASE, json!({"release_key": "a key of another kind", "resource": "b"})).unwrap();
    assert_eq!(pool.told(), pairs(&[("w4", "b")]));
    pool.hear(RELEASE, json!({"release_key": uuid})).unwrap();
    assert_eq!(pool.holder("a"), None);
}

#[test]
fn the_answer_to_the_query_is_sorted_and_starts_another_pool() {
    let mut pool = Scene::b_and_a();
    pool.acquire("w1");
    pool.told();
    let answer = serde_json::to_string(&pool.face.holders()).unwrap();
    assert!(answer.starts_with(r#"{"a":null,"b":{"asked_ms":1000,"release_signal":""#), "{answer}");
    let holders: Value = serde_json::from_str(&answer).unwrap();
    let mut other = Scene::start(json!({"resources": holders}));
    assert_eq!(other.holders(), holders);
    other.hear(RELEASE, json!({"release_key": holders["b"]["release_signal"]})).unwrap();
    assert_eq!(other.holder("b"), None);
}

#[test]
fn a_workflow_that_is_gone_leaves_nothing_behind() {
    let mut pool = Scene::start(json!({"resources": {"a": null, "b": null}}));
    for workflow in ["gone", "w2", "gone", "w3", "gone"] {
        pool.acquire(workflow);
    }
    assert_eq!(pool.told(), pairs(&[("gone", "a"), ("w2", "b")]));
    pool.hear(OWNER_GONE, json!({"workflow_id": "gone"})).unwrap();
    assert_eq!(pool.told(), pairs(&[("w3", "a")]));
    assert!(pool.face.book().owners().iter().all(|owner| owner.workflow_id != "gone"));
}

#[test]
fn a_later_workflow_of_the_same_id_keeps_what_it_asked_for() {
    let mut pool = Scene::start(json!({"resources": {"a": null, "b": null}}));
    pool.acquire("w");
    pool.now = 2_000;
    pool.acquire("w");
    pool.told();
    pool.hear(OWNER_GONE, json!({"workflow_id": "w", "asked_until_ms": 1_500})).unwrap();
    assert_eq!((pool.holder("a"), pool.holder("b").as_deref()), (None, Some("w")));
}

#[test]
fn a_wait_ends_when_its_time_is_over_or_it_is_withdrawn() {
    let mut pool = Scene::start(json!({"resources": {"a": null}, "max_wait_ms": 5_000}));
    pool.acquire("w1");
    let first = pool.tells();
    pool.acquire("patient");
    pool.hear(ACQUIRE, json!({"workflow_id": "leaves", "wait_ms": 60_000, "request_id": "r"})).unwrap();
    pool.hear(ACQUIRE, json!({"workflow_id": "w4", "wait_ms": 60_000})).unwrap();
    assert_eq!(pool.face.book().next_deadline(), Some(Timestamp::from_millis(6_000)));
    pool.hear(WITHDRAW, json!({"workflow_id": "leaves", "request_id": "r"})).unwrap();
    pool.now = 6_000;
    let stamp = pool.stamp();
    pool.face.book_mut().tick(stamp);
    pool.release(&first[0]);
    assert_eq!(pool.told(), pairs(&[("w4", "a")]));
}

#[test]
fn a_hold_with_a_time_ends_by_itself() {
    let mut pool = Scene::start(json!({"resources": {"a": null}}));
    pool.hear(ACQUIRE, json!({"workflow_id": "w1", "ttl_ms": 3_000})).unwrap();
    pool.told();
    pool.acquire("w2");
    let mut pool = pool.continued();
    pool.now = 4_000;
    let stamp = pool.stamp();
    pool.face.book_mut().tick(stamp);
    assert_eq!(pool.told(), pairs(&[("w2", "a")]));
}

#[test]
fn the_same_request_again_gets_the_same_hold() {
    let mut pool = Scene::start(json!({"resources": {"a": null, "b": null}}));
    for _ in 0..2 {
        pool.hear(ACQUIRE, json!({"workflow_id": "w", "request_id": "r"})).unwrap();
    }
    assert_eq!(pool.told(), pairs(&[("w", "a"), ("w", "a")]));
    assert_eq!(pool.holder("b"), None);
}

#[test]
fn a_workflow_id_of_any_length_that_temporal_takes_is_told_whole() {
    let long = "ü".repeat(500);
    let mut pool = Scene::start(json!({"resources": {"a": null}}));
    pool.acquire(&long);
    assert_eq!(pool.told(), [(long.clone(), "a".to_owned())]);
    let mut pool = pool.continued();
    pool.hear(OWNER_GONE, json!({"workflow_id": long})).unwrap();
    assert_eq!(pool.holder("a"), None);
}

#[test]
fn nobody_is_let_in_who_would_not_fit_into_the_next_run() {
    let mut pool = Scene::start(json!({"resources": {"a": null}}));
    let refused = (0..10_000).find_map(|n| pool.hear(ACQUIRE, json!({"workflow_id": format!("workflow-{n}")})).err());
    assert!(refused.unwrap().contains("would not fit"));
    let carried = pool.face.hand_on();
    assert!((500_000..1_500_000).contains(&carried.len()), "{}", carried.len());
}

#[test]
fn a_start_that_makes_no_sense_says_why() {
    let open = |input: &[u8]| {
        let opened = PoolFace::open("pool", Some(input), Timestamp::from_millis(0), &mut || 1);
        opened.map(|_| ()).unwrap_err()
    };
    assert!(open(br#"{"resources": {"a": null, "a": null}}"#).contains("twice"));
    assert!(open(br#"{"resources": {"": null}}"#).contains("resource name"));
    assert!(open(br#"{"resources": []}"#).contains("expected an object"));
}

/// By a script, whose hold is kept until it is released.
fn acquired_by_script(ticket: u64) -> Mail {
    let acquire = Acquire {
        pool: PoolPath::new(Namespace::default(), PoolName::parse("pool").unwrap()),
        demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
        size: None,
        lifetime: Some(Lifetime::Kept),
        wait: Wait::Forever,
        priority: Priority::default(),
        holder: Holder::parse("script", []).unwrap().into(),
        session: None,
        request: None,
        also: Box::default(),
        holds_on: false,
    };
    Mail::Command { ticket, command: Command::Acquire(acquire), returns: false, nonce: None }
}

#[test]
fn workflows_and_the_callers_of_servers_wait_in_one_queue_over_runs() {
    let mut pool = Scene::start(json!({"resources": {"a": null}}));
    pool.acquire("w1");
    let first = pool.tells();
    let queued = pool.asked(1, vec![acquired_by_script(1)]);
    assert!(matches!(&*queued, [(1, Reply::Queued(_))]), "{queued:?}");
    pool.acquire("w2");
    let mut pool = pool.continued();
    assert_eq!(pool.told(), pairs(&[("w1", "a")]), "it was not known whether that was heard");
    pool.release(&first[0]);
    assert_eq!(pool.told(), [], "it is the script's turn");
    let granted = pool.asked(2, Vec::new());
    let [(1, Reply::Granted(grant))] = &*granted else { panic!("{granted:?}") };
    assert_eq!(pool.holder("a").as_deref(), Some("script"));
    assert_eq!(grant.key.as_bits() % (1 << 16), u128::from(crate::faces::mark("pool")), "its key says whose it is");

    // It is no workflow, so none of that name is watched, and none that ends has an effect.
    assert_eq!(pool.face.book().owners().iter().map(|owner| &*owner.workflow_id).collect::<Vec<_>>(), ["w2"]);
    pool.hear(OWNER_GONE, json!({"workflow_id": "script"})).unwrap();
    assert_eq!(pool.holder("a").as_deref(), Some("script"));
    let release = Release { namespace: Namespace::default(), key: grant.key, pool: None };
    let released = Mail::Command { ticket: 2, command: Command::Release(release), returns: false, nonce: None };
    assert!(matches!(&*pool.asked(3, vec![released]), [(2, Reply::Released { .. })]));
    assert_eq!(pool.told(), pairs(&[("w2", "a")]));
}

#[test]
fn a_server_cannot_take_the_pool_away_from_its_workflow() {
    let mut pool = Scene::start(json!({"resources": {"a": null}}));
    let path = PoolPath::new(Namespace::default(), PoolName::parse("pool").unwrap());
    let command = Command::RemovePool { pool: path };
    let answers = pool.asked(1, vec![Mail::Command { ticket: 1, command, returns: false, nonce: None }]);
    let [(1, Reply::Refused(refusal))] = &*answers else { panic!("{answers:?}") };
    let why = "pool `pool` belongs to a workflow of Temporal, and goes when that ends";
    assert_eq!(refusal.to_string(), why);
    pool.acquire("w1");
    assert_eq!(pool.told(), pairs(&[("w1", "a")]));
}

#[test]
fn resources_that_a_server_adds_go_to_those_who_came_when_there_were_none() {
    let mut pool = Scene::start(json!({"resources": {}}));
    pool.acquire("w1");
    let path = PoolPath::new(Namespace::default(), PoolName::parse("pool").unwrap());
    let spec = Scene::b_and_a().face.book().keeper().state().pool(&path).unwrap().spec();
    let command = Command::SetPool(SetPool { pool: path, spec });
    pool.asked(1, vec![Mail::Command { ticket: 1, command, returns: false, nonce: None }]);
    assert_eq!(pool.told(), pairs(&[("w1", "b")]));
}

#[test]
fn the_wait_of_a_server_that_is_silent_ends_and_those_of_workflows_do_not() {
    let mut pool = Scene::start(json!({"resources": {"a": null}}));
    pool.acquire("w1");
    let first = pool.tells();
    pool.asked(1, vec![acquired_by_script(1)]);
    pool.acquire("w2");
    pool.now += 60_000;
    let stamp = pool.stamp();
    pool.face.book_mut().tick(stamp);
    pool.release(&first[0]);
    assert_eq!(pool.told(), pairs(&[("w2", "a")]));
}

#[test]
fn names_that_would_not_fit_into_the_next_run_are_dropped() {
    let mut pool = Scene::start(json!({"resources": {"a": null}}));
    let mut added = 0;
    let dropped = (0..40).find_map(|round| {
        let names: Vec<_> = (0..200).map(|name| format!("{round}-{name}-{}", "x".repeat(480))).collect();
        added += names.len();
        pool.hear(ADD, json!(names)).err()
    });
    assert!(dropped.unwrap().contains("would not fit"), "{added} were added");
    assert!(pool.face.hand_on().len() < 2 * 1_024 * 1_024);
    pool.acquire("w1");
    assert_eq!(pool.continued().told(), pairs(&[("w1", "a")]));
}

#[test]
fn whoever_could_never_ask_does_not_wait_for_the_first_resource() {
    let mut pool = Scene::start(json!({}));
    let long = "x".repeat(1_000_000);
    for asked in [
        json!({"workflow_id": "w1", "run_id": long}),
        json!({"workflow_id": "w1", "wait_ms": u64::MAX}),
        json!({"workflow_id": "w1", "priority": 100_000}),
    ] {
        assert!(pool.hear(ACQUIRE, asked).is_err());
    }
    pool.acquire("w2");
    assert_eq!(pool.face.book().next_deadline(), None);
    assert!(pool.face.hand_on().len() < 1_000);
    pool.hear(ADD, json!(["a"])).unwrap();
    assert_eq!(pool.told(), pairs(&[("w2", "a")]));
}

#[test]
fn numbers_that_could_not_be_carried_on_are_refused_at_the_start() {
    let open = |input: Value| {
        let input = serde_json::to_vec(&input).unwrap();
        PoolFace::open("pool", Some(&input), Timestamp::from_millis(1_000), &mut || 1 << 80).map(|_| ())
    };
    let held = |field: &str, value: u64| json!({"resources": {"a": {"workflow_id": "w", "release_signal": "k", field: value}}});
    let waiting = |field: &str, value: u64| json!({"resources": {"a": null}, "waiters": [{"workflow_id": "w", "release_signal": null, field: value}]});
    for value in [u64::MAX, u64::MAX - 1, 1 << 62] {
        for impossible in [
            held("token", value),
            held("since_ms", value),
            waiting("arrival", value),
            waiting("asked_ms", value),
            json!({"counters": {"token_next": value}}),
            json!({"counters": {"waiter_next": value}}),
            json!({"counters": {"now_ms": value}}),
        ] {
            assert!(open(impossible.clone()).is_err(), "{impossible}");
        }
        // What lasts for ever lasts as long as it may.
        let mut pool = Scene::open(&serde_json::to_vec(&waiting("deadline_ms", value)).unwrap(), 1_000, 0).continued();
        assert_eq!(pool.told(), pairs(&[("w", "a")]));
    }
}

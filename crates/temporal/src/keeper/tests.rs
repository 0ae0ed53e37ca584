use std::sync::Arc;

use tenure_core::{
    Acquire, Amount, Capacity, Demand, Holder, Key, Labels, Lifetime, Namespace, Order, Placement, PoolName, PoolPath,
    PoolSpec, Priority, Release, ResourceName, ResourceSpec, Script, Scripts, SetPool, Token, Wait,
};

use super::*;

/// What Temporal lets a run begin with.
const RUN_BYTES_MAX: usize = 2 * 1_024 * 1_024;

const META: [&str; 8] = ["host", "user", "reason", "link", "team", "branch", "commit", "step"];

/// A keeper and the servers that ask it, at one time.
struct Scene {
    keeper: Keeper,
    now: Timestamp,
    sequences: BTreeMap<u64, u64>,
    tickets: u64,
}

impl Scene {
    fn new() -> Self {
        let settings = Settings { limits: Limits::default(), index: 0, of: 1, face: None, time_told_from: None };
        let now = Timestamp::from_millis(1_000_000);
        Self { keeper: Keeper::new(settings), now, sequences: BTreeMap::new(), tickets: 0 }
    }

    fn say(&mut self, server: u64, commands: impl IntoIterator<Item = Command>) -> Vec<Reply> {
        let sequence = self.sequences.entry(server).or_default();
        *sequence += 1;
        let mail = commands.into_iter().map(|command| {
            self.tickets += 1;
            Mail::Command { ticket: self.tickets, command, returns: false, nonce: None }
        });
        let batch = Batch {
            server: ServerId(server),
            name: format!("server {server}"),
            lane: Lane::Mail,
            sequence: *sequence,
            seed: [7; 32],
            mail: mail.collect(),
            follow: None,
            park_millis: 0,
        };
        match self.keeper.batch(self.now, batch) {
            Answer::Said(said) => said.answers.into_iter().map(|(_, reply)| reply).collect(),
            Answer::Unknown => panic!("the keeper does not know server {server}"),
        }
    }

    fn holds(&self) -> Vec<Token> {
        self.keeper.state().holds().collect()
    }
}

fn acquire(pool: &str, size: u32, wait: Wait, meta_bytes: usize) -> Command {
    let meta = "x".repeat(meta_bytes);
    Command::Acquire(Acquire {
        pool: PoolPath::new(Namespace::default(), PoolName::parse(pool).unwrap()),
        demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
        size: Some(size),
        lifetime: Some(Lifetime::Kept),
        wait,
        priority: Priority::parse(0).unwrap(),
        holder: Arc::new(Holder::parse("job", META.map(|name| (name, &*meta))).unwrap()),
        session: None,
        request: None,
        also: Box::default(),
        holds_on: false,
    })
}

fn key(replies: &[Reply]) -> Key {
    match replies {
        [Reply::Granted(grant)] => grant.key,
        other => panic!("not granted: {other:?}"),
    }
}

#[test]
fn a_grant_that_a_server_has_not_heard_of_when_it_is_gone_is_taken_back() {
    let mut scene = Scene::new();
    let key = key(&scene.say(1, [acquire("db", 1, Wait::Try, 0)]));
    let queued = scene.say(2, [acquire("db", 1, Wait::Forever, 0)]);
    assert!(matches!(queued[..], [Reply::Queued(_)]), "{queued:?}");
    let release = Release { namespace: Namespace::default(), key, pool: None };
    scene.say(1, [Command::Release(release)]);
    assert_eq!(scene.holds().len(), 1, "the waiter of the second has it");
    scene.now = scene.now + SILENCE_MAX;
    scene.keeper.tick(scene.now);
    assert_eq!(scene.holds(), []);
}

#[test]
fn a_message_in_the_name_of_the_house_is_nobodys() {
    let mut scene = Scene::new();
    let batch = |sequence| Batch {
        server: ServerId::HOUSE,
        name: "house".into(),
        lane: Lane::Mail,
        sequence,
        seed: [7; 32],
        mail: vec![Mail::Command { ticket: 1, command: acquire("db", 1, Wait::Try, 0), returns: false, nonce: None }],
        follow: None,
        park_millis: 0,
    };
    assert!(matches!(scene.keeper.batch(scene.now, batch(1)), Answer::Unknown));
    assert_eq!(scene.holds(), []);
    assert_eq!(scene.keeper.heard().len(), 0);
}

#[test]
fn a_storm_of_refusals_can_be_carried_into_the_next_run() {
    let mut scene = Scene::new();
    scene.say(1, (0..8).map(|_| acquire("db", 8, Wait::Try, 100)));
    for server in 1..=3 {
        let refused = scene.say(server, (0..2_000).map(|_| acquire("db", 8, Wait::Try, 100)));
        assert!(refused.iter().all(|reply| matches!(reply, Reply::Refused(_))));
    }
    let snapshot = scene.keeper.snapshot();
    assert!(snapshot.len() < RUN_BYTES_MAX, "{}", snapshot.len());
    assert_eq!(Keeper::restore(&snapshot).unwrap().state().holds().count(), 8);
}

#[test]
fn large_requests_fill_a_keeper_only_as_far_as_it_can_be_carried_into_the_next_run() {
    let mut scene = Scene::new();
    let asked = (0..520).map(|n| scene.say(1, [acquire(&format!("pool {n}"), 1, Wait::Try, 512)]).remove(0));
    let refused = asked.filter(|reply| matches!(reply, Reply::Refused(_))).count();
    assert!(refused > 0, "all of it fits");
    let snapshot = scene.keeper.snapshot();
    assert!(snapshot.len() < RUN_BYTES_MAX, "{}", snapshot.len());
}

#[test]
fn no_command_adds_more_to_the_state_than_it_is_reckoned_to() {
    let kinds: [(&str, &dyn Fn(usize) -> Command); 4] = [
        ("holds of own names", &|name| acquire(&format!("pool-{name}"), 1, Wait::Try, 0)),
        ("waits for one name", &|_| acquire("same", 1, Wait::Forever, 0)),
        ("long names", &|name| acquire(&format!("{}-{name}", "x".repeat(200)), 1, Wait::Try, 0)),
        ("metadata", &|name| acquire(&format!("pool-{name}"), 1, Wait::Try, 300)),
    ];
    for (kind, command) in kinds {
        let mut scene = Scene::new();
        scene.say(1, []);
        let before = scene.keeper.snapshot_bytes();
        scene.say(1, (0..200).map(command));
        // What was said is kept for one message.
        scene.say(1, []);
        let added = scene.keeper.snapshot_bytes() - before;
        let reckoned = scene.keeper.unmeasured_bytes;
        assert!((1..=reckoned).contains(&added), "{kind}: {added} bytes, reckoned {reckoned}");
    }
}

#[test]
fn what_is_too_much_for_a_batch_is_done_before_anything_else_and_before_a_run_ends() {
    let mut scene = Scene::new();
    let resource = |n| ResourceSpec {
        name: ResourceName::parse(&format!("r{n}")).unwrap(),
        labels: Labels::default(),
        properties: Labels::default(),
    };
    // Dear, and different for each pair, so that it is asked about each.
    let place = "let n = 0; for i in 0..50 { n += 1 } n + request.holder.len() + resource.name.len()";
    let spec = PoolSpec {
        capacity: Capacity::Resources { placement: Placement::First, resources: (0..300).map(resource).collect() },
        order: Order::Strict,
        window: None,
        declared: true,
        cleaning: false,
        fair: None,
        scripts: Scripts { place: Some(Script::parse(place).unwrap()), order: None },
    };
    let pool = PoolPath::new(Namespace::default(), PoolName::parse("gpus").unwrap());
    let set = scene.say(1, [Command::SetPool(SetPool { pool, spec })]);
    assert!(!matches!(set[..], [Reply::Refused(_)]), "{set:?}");
    let want = |name: String, amount, wait| match acquire("gpus", 1, wait, 0) {
        Command::Acquire(acquire) => Command::Acquire(Acquire {
            demand: Demand { amount, ..acquire.demand },
            size: None,
            holder: Arc::new(Holder::parse(&name, []).unwrap()),
            ..acquire
        }),
        other => other,
    };
    let key = key(&scene.say(1, [want("all".into(), Amount::All, Wait::Try)]));
    for n in 0..300 {
        scene.say(1, [want(format!("job-{n}"), Amount::Count(1), Wait::Forever)]);
    }
    let release = Release { namespace: Namespace::default(), key, pool: None };
    let before = scene.keeper.happened.len();
    scene.say(1, [Command::Release(release), acquire("other", 1, Wait::Try, 0)]);
    assert!(scene.keeper.happened.len() > before + 1, "it took more than one batch");
    assert_eq!(scene.holds().len(), 301, "all resources are handed out, and the other command was heard");
    assert_eq!(scene.keeper.desk.next_deadline(), None, "and nothing is left to be done");
}

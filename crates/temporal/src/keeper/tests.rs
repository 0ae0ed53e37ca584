//! How a keeper reckons what it has, so that it always fits into the next run.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use tenure_core::{
    Acquire, Amount, Demand, Holder, Key, Lifetime, Namespace, OpenSession, PoolName, PoolPath, Priority, Release,
    RequestId, Wait,
};

use super::*;

const NAMES: usize = 500;

#[test]
fn no_command_adds_more_to_the_state_than_it_is_reckoned_to() {
    let long = "x".repeat(100);
    let own = |name: usize| acquire(&format!("{name}"), "h", &[], None);
    let same = |_: usize| acquire("same", "h", &[], None);
    let asked = |name: usize| acquire(&format!("{name}"), "h", &[], RequestId::parse(&format!("request-{name}")).ok());
    let wordy = |name: usize| acquire(&format!("{long}-{name}"), &long, &[("why", &long)], None);
    let open = |_: usize| {
        let holder = Arc::new(Holder::parse("h", []).unwrap());
        let (namespace, grace) = (Namespace::default(), Ttl::from_millis(10_000));
        Command::OpenSession(OpenSession { namespace, holder, grace, attached: true, outlasts_holds: false })
    };
    let kinds: [(&str, &dyn Fn(usize) -> Command); 5] = [
        ("holds of own names", &own),
        ("waits for one name", &same),
        ("with request ids", &asked),
        ("long names and metadata", &wordy),
        ("sessions", &open),
    ];
    for (kind, command) in kinds {
        let (mut keeper, mut server) = (keeper(), Sender::new(1, 1_000_000));
        server.send(&mut keeper, vec![]);
        let before = keeper.snapshot_bytes();
        server.send(&mut keeper, (0..NAMES).map(command).collect());
        // What was said is kept for one message.
        server.send(&mut keeper, vec![]);
        let added = keeper.snapshot_bytes() - before;
        assert!(added <= keeper.grown_bytes, "{kind}: {added} bytes, reckoned {}", keeper.grown_bytes);
    }
}

#[test]
fn a_keeper_that_is_full_refuses_new_work_and_goes_on_when_there_is_room_again() {
    let (mut keeper, mut server) = (keeper(), Sender::new(1, 1_000_000));
    let mut keys = Vec::new();
    let mut name = 0;
    let full = loop {
        let next = (name..name + NAMES).map(|name| acquire(&format!("{name}"), "holder", &[], None));
        let said = server.send(&mut keeper, next.collect());
        name += NAMES;
        let granted =
            said.iter().filter_map(|(_, reply)| if let Reply::Granted(it) = reply { Some(it.key) } else { None });
        keys.extend(granted);
        if let Some(refused) = said.iter().find(|(_, reply)| matches!(reply, Reply::Refused(_))) {
            break refused.clone();
        }
        assert!(keeper.snapshot_bytes() < 2 * STATE_BYTES_MAX, "it never refuses");
    };
    let Reply::Refused(refused) = full.1 else { panic!("not refused") };
    assert!(matches!(&*refused, Refusal::LimitReached { max: STATE_BYTES_MAX, .. }), "{refused:?}");
    server.send(&mut keeper, vec![]);
    let slack = COMMANDS_UNMEASURED_MIN * 1_000;
    assert!(keeper.snapshot_bytes() < STATE_BYTES_MAX + slack, "{} bytes", keeper.snapshot_bytes());
    assert!(Keeper::restore(&keeper.snapshot()).is_ok());

    for keys in keys.chunks(NAMES) {
        let release = |key: &Key| Command::Release(Release { namespace: Namespace::default(), key: *key, pool: None });
        let said = server.send(&mut keeper, keys.iter().map(release).collect());
        assert!(said.iter().all(|(_, reply)| !matches!(reply, Reply::Refused(_))), "releases are never refused");
    }
    // Their pools vanish after a while.
    let later = Timestamp::from_millis(1_000_000_000);
    keeper.tick(later);
    let mut server = Sender::new(2, later.as_millis());
    let granted =
        (0..2 * COMMANDS_UNMEASURED_MIN).map(|name| acquire(&format!("{name}"), "holder", &[], None)).collect();
    let said = server.send(&mut keeper, granted);
    assert!(matches!(said.last(), Some((_, Reply::Granted(_)))), "{:?}", said.last());
}

struct Sender {
    id: ServerId,
    at: Timestamp,
    sequence: u64,
    tickets: u64,
}

impl Sender {
    fn new(id: u64, at: u64) -> Self {
        Self { id: ServerId(id), at: Timestamp::from_millis(at), sequence: 0, tickets: 0 }
    }

    fn send(&mut self, keeper: &mut Keeper, commands: Vec<Command>) -> Vec<(u64, Reply)> {
        self.sequence += 1;
        let mail = commands.into_iter().map(|command| {
            self.tickets += 1;
            Mail::Command { ticket: self.tickets, command, returns: false, nonce: None }
        });
        let mail = mail.collect();
        let (server, sequence) = (self.id, self.sequence);
        let (name, seed) = (format!("server {}", server.0), [7; 32]);
        let batch = Batch { server, name, lane: Lane::Mail, sequence, seed, mail, follow: None, park_millis: 0 };
        match keeper.batch(self.at, batch) {
            Answer::Said(said) => said.answers,
            Answer::Unknown => panic!("it does not know the server"),
        }
    }
}

fn keeper() -> Keeper {
    Keeper::new(Settings { limits: Limits::default(), index: 0, of: 1, face: None, time_told_from: None })
}

fn acquire(pool: &str, holder: &str, meta: &[(&str, &str)], request: Option<RequestId>) -> Command {
    Command::Acquire(Acquire {
        pool: PoolPath::new(Namespace::default(), PoolName::parse(pool).unwrap()),
        demand: Demand { amount: Amount::Count(1), selector: None },
        size: None,
        lifetime: Some(Lifetime::Kept),
        wait: Wait::Forever,
        priority: Priority::default(),
        holder: Arc::new(Holder::parse(holder, meta.iter().copied()).unwrap()),
        session: None,
        request,
    })
}

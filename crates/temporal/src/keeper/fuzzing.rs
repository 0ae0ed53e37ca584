//! What servers and keepers say to each other, with whatever bytes: refused or understood, the same again after a round trip,
//! and a keeper that is told any of it goes on and can be carried into the next run.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::*;
use tenure_fuzz::{fuzz, word};

use super::wire::{Answer, Batch, Lane, Mail, Said, ServerId, VERSION, decode, encode};
use super::workflow::Start;
use super::{Keeper, Settings};

/// What Temporal lets a run begin with, and a message have.
const BYTES_MAX: usize = 2 * 1_024 * 1_024;
const BEGUN: u64 = 1_000_000;
/// What the first byte of an input says about the keeper, and about those who ask it.
const TIME_IS_TOLD: u8 = 1;
const IN_ORDER: u8 = 2;
const CONTINUES: u8 = 4;
const ONE_OF_MANY: u8 = 8;

const WORDS: &[&str] =
    &["default", "db", "gpu", "gpu && mem >= 80", "job", "a", "r1", "\0", "\u{1}", "tenant", "request.units"];

fn settings(flags: u8) -> Settings {
    let time_told_from = (flags & TIME_IS_TOLD != 0).then_some(Timestamp::from_millis(BEGUN));
    let (index, of) = if flags & ONE_OF_MANY != 0 { (2, 4) } else { (0, 1) };
    Settings { limits: Limits::default(), index, of, face: None, time_told_from }
}

/// The same after a round trip.
fn round<T: Serialize + DeserializeOwned + Debug>(message: &T) {
    let bytes = encode(message);
    let again: T = decode(&bytes).unwrap_or_else(|error| panic!("{error}: {message:?}"));
    assert_eq!(format!("{again:?}"), format!("{message:?}"));
    assert_eq!(encode(&again), bytes);
}

fn understood<T: Serialize + DeserializeOwned + Debug>(bytes: &[u8]) -> Result<T, String> {
    let message = decode(bytes).map_err(|error| word(&error))?;
    round(&message);
    Ok(message)
}

fn pool(name: &str) -> PoolPath {
    PoolPath::new(Namespace::default(), PoolName::parse(name).unwrap())
}

fn holder() -> Arc<Holder> {
    Arc::new(Holder::parse("job", [("host", "a"), ("tenant", "t")]).unwrap())
}

fn acquire(name: &str) -> Acquire {
    Acquire {
        pool: pool(name),
        demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
        size: None,
        lifetime: None,
        wait: Wait::Forever,
        priority: Priority::default(),
        holder: holder(),
        session: None,
        request: None,
        also: Box::default(),
        holds_on: false,
    }
}

fn resources(placement: Placement) -> PoolSpec {
    let named = |name: &str| ResourceSpec {
        name: ResourceName::parse(name).unwrap(),
        labels: Labels::parse([("gpu", ""), ("mem", "80"), ("zone", "b")]).unwrap(),
        properties: Labels::parse([("url", "tcp://example.com:1")]).unwrap(),
    };
    PoolSpec {
        capacity: Capacity::Resources { placement, resources: vec![named("a"), named("b")] },
        order: Order::Backfill,
        window: None,
        declared: true,
        cleaning: true,
        fair: Some(FairShare::parse("tenant", [("t", 3)]).unwrap()),
        scripts: Scripts { place: None, order: Some(Script::parse("request.units").unwrap()) },
    }
}

/// One of each kind, some twice so that somebody waits.
fn commands() -> Vec<Command> {
    let namespace = Namespace::default;
    let (key, request) = (Key::from_nonce(7), RequestId::parse("r1").unwrap());
    let (job, reason) = (HolderId::parse("job").unwrap(), Note::parse("stuck").unwrap());
    let resource = ResourceName::parse("a").unwrap();
    let seen = Seen { pool: pool("db"), resource: None, size: Some(1), state: Some(ConditionState::InService) };
    let of_gpu = Acquire {
        demand: Demand {
            amount: Amount::Count(1),
            selector: Some(Selector::parse("gpu && mem >= 80").unwrap()),
            dirty: false,
        },
        lifetime: Some(Lifetime::Session(None)),
        session: Some(key),
        request: Some(request.clone()),
        also: Box::new([Part {
            pool: pool("db"),
            demand: Demand { amount: Amount::Count(1), selector: None, dirty: false },
            size: Some(1),
        }]),
        holds_on: true,
        ..acquire("gpu")
    };
    let open = OpenSession {
        namespace: namespace(),
        holder: holder(),
        grace: LEASE_DEFAULT,
        attached: true,
        outlasts_holds: true,
    };
    let lease = Lifetime::Leased(LEASE_DEFAULT);
    vec![
        Command::SetPool(SetPool {
            pool: pool("gpu"),
            spec: resources(Placement::Spread(LabelName::parse("zone").unwrap())),
        }),
        Command::OpenSession(open),
        Command::Acquire(Acquire { lifetime: Some(lease.clone()), ..acquire("db") }),
        Command::Acquire(of_gpu),
        Command::Acquire(Acquire { lifetime: Some(Lifetime::Bound(OwnerId::parse("o").unwrap())), ..acquire("gpu") }),
        Command::Acquire(Acquire { wait: Wait::For(LEASE_DEFAULT), ..acquire("db") }),
        Command::Acquire(Acquire { wait: Wait::Try, priority: Priority::parse(-3).unwrap(), ..acquire("db") }),
        Command::Renew(Renew { namespace: namespace(), key, pool: None, ttl: Some(TTL_MAX) }),
        Command::KeepAlive { namespace: namespace(), session: key },
        Command::AttachSession { namespace: namespace(), session: key },
        Command::MoveWaiter(MoveWaiter {
            pool: pool("db"),
            waiter: WaiterId(2),
            holder: job.clone(),
            before: Some(WaiterId(1)),
            reason: reason.clone(),
        }),
        Command::Reserve(Reserve {
            pool: pool("gpu"),
            resource: resource.clone(),
            holder: job.clone(),
            lasts: Some(LEASE_DEFAULT),
            instead_of: None,
            reason: reason.clone(),
        }),
        Command::Unreserve(Unreserve {
            pool: pool("gpu"),
            resource: resource.clone(),
            holder: job.clone(),
            reason: reason.clone(),
        }),
        Command::SetCondition(SetCondition {
            pool: pool("gpu"),
            resource: Some(resource),
            condition: Condition::Quarantined(reason.clone()),
            lasts: Some(LEASE_DEFAULT),
        }),
        Command::Steal(Steal {
            pool: pool("db"),
            holder: job.clone(),
            token: Token(1),
            to: holder(),
            lifetime: Some(lease),
            request: None,
            reason: reason.clone(),
        }),
        Command::ChangeSeen {
            seen,
            change: Change::Pool(SetPool { pool: pool("db"), spec: resources(Placement::First) }),
        },
        Command::ForceRelease(ForceRelease { pool: pool("db"), holder: job, token: Token(1), reason }),
        Command::Release(Release { namespace: namespace(), key, pool: None }),
        Command::Withdraw { namespace: namespace(), request },
        Command::OwnerGone { namespace: namespace(), owner: OwnerId::parse("o").unwrap() },
        Command::EndSession { namespace: namespace(), session: key },
        Command::RemovePool { pool: pool("gpu") },
        Command::TakeBack { token: Token(2) },
        Command::Abandon { waiter: WaiterId(1), may_return: true },
        Command::DetachSession { session: SessionId(1), attachment: 1 },
        Command::Expire,
        Command::Restart,
    ]
}

fn queries() -> Vec<Query> {
    let namespace = Namespace::default;
    let (name, job) = (PoolName::parse("db").ok(), HolderId::parse("job").ok());
    vec![
        Query::Pools { namespace: namespace(), prefix: "d".into(), after: None, limit: 2 },
        Query::Pool { pool: pool("gpu") },
        Query::Holds { namespace: namespace(), pool: name, holder: job.clone(), after: Some(Token(0)), limit: 2 },
        Query::Queue { pool: pool("db"), after: Some(Place::new(Priority::default(), WaiterId(0))), limit: 2 },
        Query::Sessions { namespace: namespace(), after: Some(SessionId(0)), limit: 2 },
        Query::Owners { after: None, limit: 2 },
        Query::Stats,
        Query::Explain { pool: pool("db"), who: Some(Whom::Waiter(WaiterId(1))), limit: 2 },
        Query::Waits { namespace: namespace(), holder: job, after: Some(WaiterId(0)), limit: 2 },
        Query::Search { namespace: namespace(), text: "d".into(), after: None, limit: 2 },
    ]
}

fn batch(sequence: u64, mail: Vec<Mail>) -> Batch {
    Batch {
        server: ServerId(9),
        name: "server".into(),
        lane: Lane::Mail,
        sequence,
        seed: [7; 32],
        mail,
        follow: Some(Seq(0)),
        park_millis: 0,
    }
}

/// What a server may have to say in its life.
fn batches() -> Vec<Batch> {
    let said = (1..).zip(commands()).map(|(ticket, command)| {
        // The session has the key by which it is called.
        let nonce = matches!(command, Command::OpenSession(_)).then_some(7);
        Mail::Command { ticket, command, returns: ticket % 2 == 0, nonce }
    });
    let asked = (100..).zip(queries()).map(|(ticket, query)| Mail::Query { ticket, query });
    let said: Vec<_> = said.collect();
    let (early, late) = said.split_at(7);
    let farewell = vec![
        Mail::HangUp { ticket: 5, unreceived: Some(Token(1)) },
        Mail::Detach { session: SessionId(1), attachment: 1 },
        Mail::Farewell,
    ];
    let advance = vec![Mail::Advance { ticket: 90, millis: 40_000 }];
    let mails = [early.to_vec(), asked.collect(), late.to_vec(), advance, farewell];
    (1..).zip(mails).map(|(sequence, mail)| batch(sequence, mail)).collect()
}

/// A keeper that hears all of it, and what it says.
fn keep(flags: u8, batches: Vec<Batch>) -> (Keeper, Vec<Answer>) {
    let mut keeper = Keeper::new(settings(flags));
    let mut now = BEGUN;
    let mut answers = Vec::new();
    for (sequence, mut batch) in (1..).zip(batches.into_iter().take(32)) {
        now += 1_000;
        let at = Timestamp::from_millis(now);
        if flags & IN_ORDER != 0 {
            (batch.server, batch.lane, batch.sequence) = (ServerId(9), Lane::Mail, sequence);
        }
        let _ = (keeper.is_patient(at, &batch), keeper.has_news(batch.server), keeper.next_deadline());
        let answer = keeper.batch(at, batch);
        assert!(encode(&answer).len() < BYTES_MAX);
        round(&answer);
        answers.push(answer);
        keeper.tick(at);
        if flags & CONTINUES != 0 {
            keeper = carried(&keeper);
        }
    }
    keeper.tick(Timestamp::from_millis(now + 20_000));
    // Nobody of this house hears anything: there is none.
    assert_eq!(keeper.heard().len(), 0);
    (keeper, answers)
}

/// The keeper in its next run, which has the same.
fn carried(keeper: &Keeper) -> Keeper {
    let snapshot = keeper.snapshot();
    assert!(snapshot.len() < BYTES_MAX, "{} bytes", snapshot.len());
    let again = Keeper::restore(&snapshot).expect("what was carried is taken up");
    assert_eq!(again.snapshot(), snapshot, "the same is carried on");
    again
}

fn numbered(number: u8, bytes: Vec<u8>) -> Vec<u8> {
    [vec![number], bytes].concat()
}

#[test]
fn any_bytes_are_refused_or_understood_as_an_envelope_of_a_keeper() {
    let (keeper, mut answers) = keep(IN_ORDER, batches()[..2].to_vec());
    let answer = answers.pop().expect("each is answered");
    let Answer::Said(Said { views, happened, .. }) = &answer else { panic!("the server is known") };
    assert!(!views.is_empty() && !happened.is_empty(), "{answer:?}");
    let mut samples: Vec<_> = batches().iter().map(|batch| numbered(0, encode(batch))).collect();
    samples.push(numbered(1, encode(&answer)));
    samples.push(numbered(1, encode(&Answer::Unknown)));
    samples.push(numbered(2, encode(&Start::New(settings(0)))));
    samples.push(numbered(2, encode(&Start::Moved(keeper.snapshot()))));
    samples.push(numbered(0, vec![VERSION + 1]));
    fuzz("keeper_envelope", &samples, WORDS, |input| {
        let Some((kind, bytes)) = input.split_first() else { return "empty".into() };
        let heard = match kind % 3 {
            0 => understood::<Batch>(bytes).map(|batch| format!("batch of {:?}", batch.mail.len().min(3))),
            1 => understood::<Answer>(bytes).map(|answer| match answer {
                Answer::Said(said) => {
                    assert!(said.happened.iter().all(|it| it.first <= it.last() || it.events.is_empty()));
                    format!("{} answers, {} views", said.answers.len().min(3), said.views.len().min(3))
                }
                Answer::Unknown => "unknown".into(),
            }),
            _ => Keeper::begin(bytes).map(|mut keeper| {
                keeper.tick(Timestamp::from_millis(BEGUN));
                carried(&keeper);
                "begun".into()
            }),
        };
        heard.unwrap_or_else(|why| format!("{} {}", kind % 3, word(&why)))
    });
}

#[test]
fn any_words_of_servers_leave_a_keeper_that_goes_on() {
    let bytes = encode(&batches());
    let flags = [IN_ORDER, IN_ORDER | TIME_IS_TOLD, IN_ORDER | CONTINUES, 0, IN_ORDER | ONE_OF_MANY | CONTINUES];
    let mut samples: Vec<_> = flags.iter().map(|flags| numbered(*flags, bytes.clone())).collect();
    for of_two in batches().windows(2) {
        samples.push(numbered(IN_ORDER | TIME_IS_TOLD, encode(&of_two.to_vec())));
    }
    fuzz("keeper_batches", &samples, WORDS, |input| {
        let Some((flags, bytes)) = input.split_first() else { return "empty".into() };
        let batches = match understood::<Vec<Batch>>(bytes) {
            Ok(batches) => batches,
            Err(why) => return why,
        };
        let (keeper, answers) = keep(*flags, batches);
        carried(&keeper);
        let stats = keeper.state().stats();
        let answers = answers.iter().flat_map(|answer| match answer {
            Answer::Said(said) => &said.answers[..],
            Answer::Unknown => &[],
        });
        let heard: BTreeSet<String> = answers
            .map(|(_, reply)| match reply {
                Reply::Refused(refusal) => word(refusal),
                reply => format!("{reply:?}").chars().take_while(char::is_ascii_alphabetic).collect(),
            })
            .collect();
        format!("{} {} {} {heard:?}", stats.pools.min(3), stats.holds.min(3), stats.waiters.min(3))
    });
}

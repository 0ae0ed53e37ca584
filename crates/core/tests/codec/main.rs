//! Everything that is said to a machine, and everything that it says, as bytes and back. A variant that has no line here
//! does not compile.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fuzzing;
mod samples;

use std::fmt::Debug;
use std::sync::Arc;

use samples::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::*;

/// Makes the round trip with samples of every variant of an enum.
macro_rules! round_trips {
    ($type:ident { $($variant:ident: $($sample:expr),+;)+ }) => {{
        let _exhaustive = |value: &$type| match value { $($type::$variant { .. } => ()),+ };
        $($({
            let sample = $sample;
            assert!(matches!(sample, $type::$variant { .. }), "{sample:?} is not {}", stringify!($variant));
            round_trip(&sample);
        })+)+
    }};
}

/// The bytes and the debug text must both be the same again: some types cannot be compared, and the debug text of a key
/// does not show it.
fn round_trip<T: Serialize + DeserializeOwned + Debug>(value: &T) {
    let bytes = postcard::to_stdvec(value).unwrap();
    let (back, rest) = postcard::take_from_bytes::<T>(&bytes).unwrap_or_else(|error| panic!("{value:?}: {error}"));
    assert_eq!(format!("{back:?}"), format!("{value:?}"));
    assert_eq!(postcard::to_stdvec(&back).unwrap(), bytes, "{value:?}");
    assert_eq!(rest, [], "{value:?}");
}

#[test]
fn every_command_makes_the_round_trip() {
    round_trips!(Command {
        Acquire: Command::Acquire(acquire()), Command::Acquire(bare_acquire());
        Renew:
            Command::Renew(Renew { namespace: namespace(), key: key(), pool: Some(name()), ttl: Some(TTL_MAX) }),
            Command::Renew(Renew { namespace: namespace(), key: key(), pool: None, ttl: None });
        Release: Command::Release(Release { namespace: namespace(), key: key(), pool: Some(name()) });
        Withdraw: Command::Withdraw { namespace: namespace(), request: request() };
        ForceRelease: Command::ForceRelease(ForceRelease {
            pool: pool(), holder: holder().id.clone(), token: Token(7), reason: note(),
        });
        OwnerGone: Command::OwnerGone { namespace: namespace(), owner: owner() };
        OpenSession: Command::OpenSession(OpenSession {
            namespace: namespace(), holder: holder(), grace: GRACE_DEFAULT, attached: true, outlasts_holds: false,
        });
        KeepAlive: Command::KeepAlive { namespace: namespace(), session: key() };
        AttachSession: Command::AttachSession { namespace: namespace(), session: key() };
        DetachSession: Command::DetachSession { session: SessionId(3), attachment: 2 };
        EndSession: Command::EndSession { namespace: namespace(), session: key() };
        SetPool: Command::SetPool(SetPool { pool: pool(), spec: named_pool() });
        SetCondition:
            Command::SetCondition(SetCondition {
                pool: pool(), resource: Some(resource().name), condition: Condition::Quarantined(note()),
                lasts: Some(TTL_MIN),
            }),
            Command::SetCondition(SetCondition {
                pool: pool(), resource: None, condition: Condition::InService, lasts: None,
            });
        RemovePool: Command::RemovePool { pool: pool() };
        Expire: Command::Expire;
        Restart: Command::Restart;
        Abandon: Command::Abandon { waiter: WaiterId(5), may_return: true };
        TakeBack: Command::TakeBack { token: Token(u64::MAX) };
        Steal: Command::Steal(Steal {
            pool: pool(), holder: holder().id.clone(), token: Token(7), to: holder(),
            lifetime: Some(Lifetime::Kept), request: Some(request()), reason: note(),
        });
        MoveWaiter: Command::MoveWaiter(MoveWaiter {
            pool: pool(), waiter: WaiterId(5), holder: holder().id.clone(), before: Some(WaiterId(4)), reason: note(),
        });
        Reserve: Command::Reserve(Reserve {
            pool: pool(), resource: resource().name, holder: holder().id.clone(), lasts: Some(TTL_MAX),
            instead_of: Some(holder().id.clone()), reason: note(),
        });
        Unreserve: Command::Unreserve(Unreserve {
            pool: pool(), resource: resource().name, holder: holder().id.clone(), reason: note(),
        });
        ChangeSeen: Command::ChangeSeen {
            seen: Seen {
                pool: pool(), resource: Some(resource().name), size: Some(2), state: Some(ConditionState::Drained),
            },
            change: Change::Pool(SetPool { pool: pool(), spec: named_pool() }),
        };
    });
}

#[test]
fn every_choice_within_a_command_makes_the_round_trip() {
    round_trips!(Amount {
        Count: Amount::Count(UNITS_MAX);
        All: Amount::All;
    });
    round_trips!(Lifetime {
        Leased: Lifetime::Leased(TTL_MIN);
        Session: Lifetime::Session(Some(LEASE_DEFAULT)), Lifetime::Session(None);
        Window: Lifetime::Window(TTL_MAX);
        Kept: Lifetime::Kept;
        Bound: Lifetime::Bound(owner());
    });
    round_trips!(Wait {
        Try: Wait::Try;
        For: Wait::For(TTL_MAX);
        Forever: Wait::Forever;
    });
    round_trips!(Capacity {
        Units: Capacity::Units(3);
        Resources: named_pool().capacity;
    });
    round_trips!(Placement {
        First: Placement::First;
        LeastRecentlyUsed: Placement::LeastRecentlyUsed;
        MostRecentlyUsed: Placement::MostRecentlyUsed;
        Random: Placement::Random;
        Spread: Placement::Spread(LabelName::parse("zone").unwrap());
    });
    round_trips!(Order {
        Strict: Order::Strict;
        Backfill: Order::Backfill;
    });
    round_trips!(Condition {
        InService: Condition::InService;
        Drained: Condition::Drained(Some(note())), Condition::Drained(None);
        Quarantined: Condition::Quarantined(note());
    });
}

#[test]
fn every_reply_makes_the_round_trip() {
    round_trips!(Reply {
        Granted: Reply::Granted(Box::new(Grant {
            pool: pool(), token: Token(7), key: key(), units: 1, resources: vec![resource()],
            lifetime: Lifetime::Kept, since: at(1), deadline: Some(at(2)),
            also: vec![GrantedPart { pool: other_pool(), units: 5, resources: vec![resource()], until: Some(at(3)) }],
        }));
        Queued: Reply::Queued(Queued { waiter: WaiterId(5), position: 2, deadline: None });
        Renewed: Reply::Renewed { token: Token(7), deadline: at(9), ttl: LEASE_DEFAULT };
        Released: Reply::Released { token: Token(7) };
        Withdrawn: Reply::Withdrawn;
        OwnerGone: Reply::OwnerGone { holds: usize::MAX };
        Session: Reply::Session(SessionOpen {
            id: SessionId(3), key: key(), holder: holder(), grace: GRACE_DEFAULT, deadline: Some(at(9)), attachment: 1,
        });
        Lost: Reply::Lost(Arc::new(HoldLost { token: Token(7), how: HoldEnd::Forced(note()) }));
        Done: Reply::Done;
        PoolSet: Reply::PoolSet { created: true };
        PoolRemoved: Reply::PoolRemoved { holds_left: 1 };
        Refused: Reply::Refused(Box::new(Refusal::NotHeld));
    });
}

#[test]
fn every_refusal_makes_the_round_trip() {
    let room = || {
        let room = NoRoom {
            pool: pool(),
            at: at(3),
            holders: vec![hold_view()],
            holders_total: 2,
            position: 1,
            free: 0,
            dirty: 1,
            reserved: vec![(resource().name, holder().id.clone())],
            also: Vec::new(),
        };
        Box::new(NoRoom { also: vec![room.clone()], ..room })
    };
    round_trips!(Refusal {
        UnknownSession: Refusal::UnknownSession;
        SessionTakenOver: Refusal::SessionTakenOver;
        RequestEnded: Refusal::RequestEnded { request: request(), token: Some(Token(7)) };
        RequestReused: Refusal::RequestReused { request: request() };
        UnknownPool: Refusal::UnknownPool { pool: pool() };
        UnknownResource: Refusal::UnknownResource { pool: pool(), resource: resource().name };
        WrongKind: Refusal::WrongKind { pool: pool(), why: "has anonymous units".into() };
        SizeMismatch: Refusal::SizeMismatch { pool: pool(), size: 1, asked: 2 };
        WindowMismatch: Refusal::WindowMismatch { pool: pool(), window: Some(LEASE_DEFAULT) };
        PoolRemoving: Refusal::PoolRemoving { pool: pool() };
        NeverFits: Refusal::NeverFits { pool: pool(), asked: 2, most: 1 };
        LimitReached: Refusal::LimitReached { limit: "holds_max".into(), max: 4_000_000 };
        PoolsApart: Refusal::PoolsApart { pool: pool(), other: other_pool() };
        Deadlock: Refusal::Deadlock { cycle: vec![
            Blocked { holder: holder().id.clone(), session: Some(SessionId(3)), pool: pool(), token: Some(Token(7)) },
            Blocked { holder: holder().id.clone(), session: None, pool: other_pool(), token: None },
        ] };
        OutOfService: Refusal::OutOfService { pool: pool(), condition: Condition::Drained(None) };
        Busy: Refusal::Busy(room());
        TimedOut: Refusal::TimedOut(room());
        Withdrawn: Refusal::Withdrawn { request: Some(request()) }, Refusal::Withdrawn { request: None };
        NotHeld: Refusal::NotHeld;
        NotRenewable: Refusal::NotRenewable { token: Token(7), why: "is kept".into(), advice: "nothing".into() };
        NotReleasable: Refusal::NotReleasable { token: Token(7), deadline: at(9) };
        MovedOn: Refusal::MovedOn { pool: pool(), expected: Token(7), now: vec![hold_view(), hold_view()] };
        Changed: Refusal::Changed { pool: pool(), why: "nobody waits".into() };
        PoolChanged: Refusal::PoolChanged {
            pool: pool(), resource: Some(resource().name), size: 2, condition: Condition::Drained(Some(note())),
        };
        BadScript: Refusal::BadScript { pool: pool(), which: Which::Place, at: Some((2, 5)), why: "has a mistake".into() };
    });
}

#[test]
fn every_query_and_every_view_makes_the_round_trip() {
    let place = Place::new(Priority::parse(-1_000).unwrap(), WaiterId(5));
    let holder_id = Some(holder().id.clone());
    round_trips!(Query {
        Pools: Query::Pools { namespace: namespace(), prefix: "db/".into(), after: Some(name()), limit: PAGE_MAX };
        Pool: Query::Pool { pool: pool() };
        Holds:
            Query::Holds {
                namespace: namespace(), pool: Some(name()), holder: holder_id, after: Some(Token(7)), limit: 1,
            },
            Query::Holds { namespace: namespace(), pool: None, holder: None, after: None, limit: 0 };
        Queue: Query::Queue { pool: pool(), after: Some(place), limit: 1 };
        Sessions: Query::Sessions { namespace: namespace(), after: Some(SessionId(3)), limit: 1 };
        Owners: Query::Owners { after: Some((namespace(), owner())), limit: 1 };
        Stats: Query::Stats;
        Explain:
            Query::Explain { pool: pool(), who: Some(Whom::Request(request())), limit: 1 },
            Query::Explain { pool: pool(), who: Some(Whom::Waiter(WaiterId(5))), limit: 1 };
        Waits: Query::Waits {
            namespace: namespace(), holder: Some(holder().id.clone()), after: Some(WaiterId(5)), limit: 1,
        };
        Search: Query::Search {
            namespace: namespace(),
            text: "gpu".into(),
            after: Some(FoundAt::Pool(name(), Some(resource().name))),
            limit: 1,
        };
    });

    let summary = PoolView {
        pool: pool(),
        named: true,
        size: 2,
        used: 1,
        holds: 1,
        waiters: 1,
        waiting_since: Some(at(2)),
        condition: Condition::InService,
        removing: false,
        declared: true,
        window: Some(LEASE_DEFAULT),
        until: Some(at(9)),
        dirty: 1,
    };
    let resources = vec![ResourceView {
        spec: resource(),
        condition: Condition::Quarantined(note()),
        leaving: true,
        hold: Some(Token(7)),
        last_used: Some(at(1)),
        until: Some(at(9)),
        dirty: true,
        reserved: Some(Reservation { holder: holder().id.clone(), until: Some(at(9)), reason: note() }),
    }];
    let waiter = WaiterView {
        id: WaiterId(5),
        place,
        position: Some(1),
        holder: holder(),
        demand: demand(),
        since: at(2),
        deadline: Some(at(9)),
        session: Some(SessionId(3)),
        request: Some(request()),
        also: vec![(other_pool(), demand())],
    };
    let session = SessionView {
        id: SessionId(3),
        holder: holder(),
        grace: GRACE_DEFAULT,
        attached: false,
        deadline: Some(at(9)),
        holds: 1,
        waiters: 1,
    };
    let explained = WaiterExplained { waiter: waiter.clone(), sentences: vec!["why".into()] };
    round_trips!(View {
        Pools: View::Pools(Page { items: vec![summary.clone()], next: Some(name()) });
        Pool: View::Pool(Box::new(PoolDetail { summary, spec: named_pool(), resources, script_faults: 3 }));
        Holds: View::Holds(Page { items: vec![hold_view()], next: Some(Token(7)) });
        Queue: View::Queue(Page { items: vec![waiter.clone()], next: Some(place) });
        Sessions: View::Sessions(Page { items: vec![session], next: None });
        Owners: View::Owners(Page { items: vec![(namespace(), owner())], next: None });
        Stats: View::Stats(Stats { pools: 1, holds: 2, waiters: 3, sessions: 4, seq: Seq(5) });
        Explained: View::Explained(Box::new(Explanation { pool: vec!["it is".into()], waiters: vec![explained] }));
        Waits: View::Waits(Page { items: vec![WaitView { pool: pool(), waiter }], next: Some(WaiterId(5)) });
        Search: View::Search(Page {
            items: vec![Found {
                at: FoundAt::Hold(Token(7)),
                pool: Some(name()),
                holder: Some(holder()),
                because: Some(("host".into(), "rack-7".into())),
            }],
            next: Some(FoundAt::Session(SessionId(3))),
        });
    });
}

#[test]
fn every_event_makes_the_round_trip() {
    let holder_id = || holder().id.clone();
    let (token, id, session) = (Token(7), WaiterId(5), SessionId(3));
    round_trips!(Event {
        Queued: Event::Queued { id, waiter: Box::new(waiter()) };
        Granted:
            Event::Granted { token, hold: Box::new(hold()), waiter: Some(id) },
            Event::Granted { token, hold: Box::new(hold()), waiter: None };
        Renewed: Event::Renewed {
            token, pool: pool(), holder: holder_id(), ttl: TTL_MIN, deadline: at(9), adopted_from: Some(session),
        };
        Ended: Event::Ended {
            token, pool: pool(), holder: holder_id(), session: Some(session), since: at(1), how: HoldEnd::Released,
            also: Box::new([other_pool()]),
        };
        WaitEnded: Event::WaitEnded {
            id, pool: pool(), holder: holder_id(), since: at(1), how: WaitEnd::TimedOut, also: Box::new([other_pool()]),
        };
        WaiterAway: Event::WaiterAway { id, pool: pool(), holder: holder_id() };
        WaiterBack: Event::WaiterBack { id, pool: pool(), holder: holder_id() };
        RequestWithdrawn: Event::RequestWithdrawn { namespace: namespace(), request: request() };
        SessionOpened: Event::SessionOpened {
            id: session, namespace: namespace(), key: key(), holder: holder(), grace: GRACE_DEFAULT,
            attached: false, outlasts_holds: true,
        };
        SessionKept: Event::SessionKept { id: session, deadline: at(9) };
        SessionAttached: Event::SessionAttached { id: session, namespace: namespace(), holder: holder_id() };
        SessionDetached: Event::SessionDetached {
            id: session, namespace: namespace(), holder: holder_id(), deadline: at(9),
        };
        SessionClosing: Event::SessionClosing { id: session, namespace: namespace(), holder: holder_id() };
        SessionEnded: Event::SessionEnded { id: session, namespace: namespace(), holder: holder_id() };
        PoolSet: Event::PoolSet { pool: pool(), spec: named_pool(), created: true };
        ConditionSet: Event::ConditionSet {
            pool: pool(), resource: None, condition: Condition::InService, until: Some(at(9)), automatic: true,
        };
        PoolRemoving: Event::PoolRemoving { pool: pool() };
        PoolGone: Event::PoolGone { pool: pool() };
        Restarted: Event::Restarted;
        Reserved: Event::Reserved {
            pool: pool(), resource: resource().name, holder: holder_id(), until: Some(at(9)), reason: note(),
        };
        ReservationEnded:
            Event::ReservationEnded {
                pool: pool(), resource: resource().name, holder: holder_id(), how: ReservationEnd::Expired,
            },
            Event::ReservationEnded {
                pool: pool(), resource: resource().name, holder: holder_id(), how: ReservationEnd::Cancelled(note()),
            };
        WaiterMoved: Event::WaiterMoved {
            id, pool: pool(), holder: holder_id(), before: Some(WaiterId(4)), priority: Priority::default(),
            rank: Rank { turn: -1, within: 3 }, reason: note(),
        };
        PolicyFailed: Event::PolicyFailed { pool: pool(), which: Which::Order, why: note(), set_aside: true };
    });
}

#[test]
fn every_end_makes_the_round_trip() {
    round_trips!(HoldEnd {
        Released: HoldEnd::Released;
        Expired: HoldEnd::Expired;
        SessionEnded: HoldEnd::SessionEnded;
        OwnerGone: HoldEnd::OwnerGone;
        Forced: HoldEnd::Forced(note());
        Withdrawn: HoldEnd::Withdrawn;
        Unreceived: HoldEnd::Unreceived;
        Stolen: HoldEnd::Stolen { to: holder().id.clone(), reason: note() };
    });
    round_trips!(WaitEnd {
        TimedOut: WaitEnd::TimedOut;
        Withdrawn: WaitEnd::Withdrawn;
        SessionEnded: WaitEnd::SessionEnded;
        OwnerGone: WaitEnd::OwnerGone;
        CallerGone: WaitEnd::CallerGone;
        NeverFits: WaitEnd::NeverFits;
        PoolRemoved: WaitEnd::PoolRemoved;
    });
}

#[test]
fn limits_make_the_round_trip() {
    round_trip(&Limits::default());
}

#[test]
fn a_key_arrives_whole_though_its_debug_text_does_not_show_it() {
    let bytes = postcard::to_stdvec(&key()).unwrap();
    let back: Key = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(back.as_bits(), key().as_bits());
    assert_eq!(format!("{back:?}"), "Key(secret)");
}

#[test]
fn a_selector_still_chooses_after_the_round_trip() {
    let hostile = ResourceName::parse(&"\\\"".repeat(NAME_BYTES_MAX / 2)).unwrap();
    for selector in [Selector::named(&hostile), Selector::parse("gpu && (mem >= 80 || !old)").unwrap()] {
        round_trip(&selector);
    }
    let bytes = postcard::to_stdvec(&Selector::named(&hostile)).unwrap();
    let back: Selector = postcard::from_bytes(&bytes).unwrap();
    assert!(back.matches(&hostile, &Labels::default()));
    assert!(!back.matches(&resource().name, &Labels::default()));
}

#[test]
fn what_could_not_be_parsed_is_refused() {
    fn refused<T: DeserializeOwned + Debug>(value: impl Serialize + Debug) {
        let bytes = postcard::to_stdvec(&value).unwrap();
        let error = postcard::from_bytes::<T>(&bytes).expect_err(&format!("{value:?}"));
        assert_eq!(error, postcard::Error::SerdeDeCustom, "{value:?}");
    }
    let long = "x".repeat(4_096);
    for text in ["", "two\nlines", &long] {
        refused::<Namespace>(text);
        refused::<PoolName>(text);
        refused::<ResourceName>(text);
        refused::<HolderId>(text);
        refused::<RequestId>(text);
        refused::<OwnerId>(text);
        refused::<Note>(text);
        refused::<LabelName>(text);
        refused::<Selector>(text);
        refused::<PoolPath>(("default", text));
        refused::<Holder>((text, Vec::<(&str, &str)>::new()));
        refused::<Holder>(("alice", vec![(text, "")]));
        refused::<Labels>(vec![(text, "")]);
    }
    refused::<Holder>(("alice", vec![("host", "a\0b")]));
    refused::<Holder>(("alice", vec![("host", "a"), ("host", "b")]));
    refused::<Labels>(vec![("zone", long.as_str())]);
    refused::<Selector>("a &&");
    refused::<Selector>("(".repeat(SELECTOR_DEPTH_MAX + 1));
    refused::<Priority>(PRIORITY_MAX + 1);
    refused::<Priority>(PRIORITY_MIN - 1);
    refused::<Ttl>(0u64);
    refused::<Ttl>(TTL_MAX.as_millis() + 1);
}

#[test]
fn bytes_that_end_early_are_refused() {
    let bytes = postcard::to_stdvec(&Command::Acquire(acquire())).unwrap();
    for end in 0..bytes.len() {
        assert!(postcard::from_bytes::<Command>(&bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
    }
}

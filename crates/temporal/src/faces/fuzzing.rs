//! Everything that anybody may say to a face, with whatever bytes: heard or dropped, but a face never chokes on it, and what it
//! has afterwards can be carried into the next run. An input is what it starts with, and a line for each thing that happens.

use tenure_core::{Stamp, Timestamp};
use tenure_fuzz::{fuzz, word};

use super::book::is_moved;
use super::lock_manager::{self, HANDOFF, LockManagerFace};
use super::past::{self, Past};
use super::pool::{ACQUIRE, ADD, ASSIGN_PREFIX, OWNER_GONE, PoolFace, RELEASE, WITHDRAW};
use super::wire::{self, LockManagerInput, PoolInput};
use super::{Face, Start, permit};

/// What a run may begin with.
const RUN_BYTES_MAX: usize = 2 * 1024 * 1024;
const BEGUN: u64 = 1_700_000_000_000;

/// Besides signals.
const TELL: &str = "tell";
const TELL_IN_VAIN: &str = "tell_in_vain";
const PASS: &str = "pass";
const CONTINUE: &str = "continue";
/// Of a run that is taken over.
const TOLD: &str = "told";
const UNDELIVERED: &str = "undelivered";

const WORDS: &[&str] = &[
    "\n",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "true",
    "\"a\"",
    "\"w1\"",
    "\"k\"",
    "18446744073709551615",
    "18446744073709551614",
    "9223372036854775807",
    "1e400",
    "-1",
    "0.5",
    "\\u0000",
    "\\ud800",
    "\"workflow_id\":",
    "\"run_id\":",
    "\"request_id\":",
    "\"priority\":",
    "\"select\":",
    "\"ttl_ms\":",
    "\"wait_ms\":",
    "\"release_key\":",
    "\"resource\":",
    "\"resources\":",
    "\"waiters\":",
    "\"counters\":",
    "\"token_next\":",
    "\"waiter_next\":",
    "\"now_ms\":",
    "\"token\":",
    "\"arrival\":",
    "\"asked_ms\":",
    "\"since_ms\":",
    "\"deadline_ms\":",
    "\"untold\":true",
    "\"max_wait_ms\":",
    "\nacquire_resource {\"workflow_id\":\"w9\"}",
    "\nrelease_resource {\"release_key\":\"k\"}",
    "\nadd_resources [\"z\"]",
    "\nowner_gone {\"workflow_id\":\"w1\"}",
    "\nwithdraw_request {\"workflow_id\":\"w2\"}",
    "\nhandoff_resource ",
    "\ntell",
    "\ntell_in_vain",
    "\npass 1000",
    "\ncontinue",
    "\ntold 5 assign_resource w1 r1 {\"resource\":\"a\",\"release_key\":\"k\"}",
    "\nundelivered 5",
];

const POOL: &str = r#"{"resources": {"b": null, "a": {"workflow_id": "w0", "release_signal": "k", "token": 3, "ttl_ms": 5000, "since_ms": 1699999999000}}, "waiters": [{"workflow_id": "w5", "release_signal": null}], "max_wait_ms": 60000}
acquire_resource {"workflow_id": "w1"}
acquire_resource {"workflow_id": "w2", "request_id": "r", "priority": 3, "select": "name == a", "ttl_ms": 2000, "wait_ms": 500}
tell
acquire_resource {"workflow_id": "w2", "request_id": "r"}
release_resource {"release_key": "k", "resource": "a"}
tell_in_vain
add_resources ["c", "d"]
pass 1000
withdraw_request {"workflow_id": "w2", "request_id": "r"}
continue
owner_gone {"workflow_id": "w1", "asked_until_ms": 1800000000000}
tell"#;

const EMPTY_POOL: &str = r#"{}
acquire_resource {"workflow_id": "w1", "wait_ms": 700}
acquire_resource {"workflow_id": "w2"}
withdraw_request {"workflow_id": "w1"}
continue
pass 700
add_resources ["a"]
tell"#;

const LOCK_MANAGER: &str = r#"{"resource_queues": {"a": [{"workflow_id": "w1", "run_id": "r1", "release_signal": null}, {"workflow_id": "w2", "run_id": "r2", "release_signal": null}], "b": []}}
acquire_resource {"workflow_id": "w3", "run_id": "r3"}
tell
handoff_resource {"resource": "a", "workflow_id": "w1", "old_run_id": "r1", "new_run_id": "r1b"}
tell
release_resource {"resource": "a", "workflow_id": "w1", "run_id": "r1b"}
continue
owner_gone {"workflow_id": "w2", "run_id": "r2"}
add_resources ["c"]
tell"#;

const POOL_PAST: &str = r#"{"resources": {"b": null, "a": {"workflow_id": "w0", "release_signal": "k0"}}, "waiters": []}
acquire_resource {"workflow_id": "w1", "wait_ms": 5000}
acquire_resource {"workflow_id": "w2", "ttl_ms": 5000, "priority": 7}
told 5 assign_resource_pool w1 r1 {"resource": "b", "release_key": "k1"}
release_resource {"release_key": "k0", "resource": "a"}
told 9 assign_resource_pool w2 r2 {"resource": "a", "release_key": "k2", "token": 8, "deadline_ms": 1700000005000}
undelivered 9
add_resources ["c"]"#;

const LOCK_MANAGER_PAST: &str = r#"{"resource_queues": {"a": [], "b": [{"workflow_id": "w9", "run_id": "r9", "release_signal": null}]}}
acquire_resource {"workflow_id": "w1", "run_id": "r1"}
told 5 assign_resource w1 r1 {"resource": "a"}
handoff_resource {"resource": "a", "workflow_id": "w1", "old_run_id": "r1", "new_run_id": "r2"}
told 9 assign_resource w1 r2 {"resource": "a"}
release_resource {"resource": "b", "workflow_id": "w9", "run_id": "r9"}"#;

/// A face with its clock and its randomness.
struct Life<F> {
    face: F,
    now: u64,
    minted: u128,
}

fn open<F: Face>(input: &[u8], now: u64, minted: &mut u128) -> Result<Start<F>, String> {
    let mut mint = || {
        *minted += 1;
        *minted << 80
    };
    F::open("pool", Some(input), Timestamp::from_millis(now), &mut mint)
}

impl<F: Face> Life<F> {
    fn begin(input: &[u8]) -> Result<Self, String> {
        let mut minted = 0;
        let Start { face, .. } = open(input, BEGUN, &mut minted)?;
        Ok(Self { face, now: BEGUN, minted })
    }

    fn stamp(&mut self) -> Stamp {
        self.minted += 1;
        Stamp { at: Timestamp::from_millis(self.now), nonce: self.minted << 80 }
    }

    fn happens(&mut self, line: &str) -> String {
        let (name, argument) = line.split_once(' ').unwrap_or((line, ""));
        let stamp = self.stamp();
        match name {
            TELL | TELL_IN_VAIN => {
                let tells = self.face.book_mut().tells();
                for tell in &tells {
                    // It is what Temporal is told.
                    let _ = wire::write(&tell.assigned);
                    self.face.book_mut().told(stamp, tell.token, name == TELL);
                }
                format!("{} told", tells.len().min(3))
            }
            PASS => {
                let passed = argument.parse().unwrap_or(1);
                self.now = self.now.saturating_add(passed);
                let stamp = self.stamp();
                self.face.book_mut().tick(stamp);
                "passed".into()
            }
            CONTINUE => {
                self.continues();
                "continued".into()
            }
            signal => match self.face.hear(stamp, signal, Some(argument.as_bytes())) {
                Ok(()) => "heard".into(),
                Err(why) => word(&why),
            },
        }
    }

    /// The next run has the same.
    fn continues(&mut self) {
        let handed_on = self.face.hand_on();
        assert!(handed_on.len() < RUN_BYTES_MAX, "{} bytes", handed_on.len());
        let again = open::<F>(&handed_on, self.now, &mut self.minted).expect("what was handed on is taken up").face;
        assert_eq!(again.hand_on(), handed_on, "the same is handed on again");
        assert_eq!(text(&again.as_started()), text(&self.face.as_started()));
        self.face = again;
    }

    /// And so has one that begins as the samples do.
    fn is_taken_over(&mut self) {
        let started = self.face.as_started();
        // Its time is that of the last thing that happened.
        let again = open::<F>(&started, 0, &mut self.minted);
        let again = again.unwrap_or_else(|why| panic!("{why}: {}", text(&started))).face;
        assert_eq!(again.holders(), self.face.holders(), "{}", text(&started));
        // It may be later there, but not later and later.
        let started = again.as_started();
        let again = open::<F>(&started, 0, &mut self.minted).unwrap_or_else(|why| panic!("{why}: {}", text(&started)));
        assert_eq!(text(&again.face.as_started()), text(&started));
    }
}

fn text(json: &[u8]) -> &str {
    str::from_utf8(json).expect("JSON is text")
}

fn live<F: Face>(input: &[u8]) -> String {
    let (start, rest) = split(input);
    let mut life = match Life::<F>::begin(start) {
        Ok(life) => life,
        Err(why) => return format!("not begun: {}", word(&why)),
    };
    let mut heard: Vec<_> = rest.lines().take(40).map(|line| life.happens(line)).collect();
    let _ = (life.face.book().owners(), life.face.book().next_deadline());
    life.continues();
    life.is_taken_over();
    heard.sort();
    heard.dedup();
    heard.truncate(3);
    heard.join(",")
}

/// The first line, and the rest as text.
fn split(input: &[u8]) -> (&[u8], String) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    (&input[..end], String::from_utf8_lossy(&input[end..]).trim_start().to_owned())
}

fn pasts(lines: &str) -> Vec<Past> {
    let past = lines.lines().take(40).filter_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        Some(match name {
            TOLD => {
                let mut parts = rest.splitn(5, ' ');
                Past::Told {
                    event: parts.next()?.parse().ok()?,
                    name: parts.next()?.to_owned(),
                    workflow_id: parts.next()?.to_owned(),
                    run_id: parts.next()?.to_owned(),
                    argument: parts.next()?.into(),
                    at_ms: BEGUN,
                }
            }
            UNDELIVERED => Past::Undelivered { event: rest.parse().ok()? },
            signal => Past::Signaled { name: signal.to_owned(), argument: rest.into(), at_ms: BEGUN },
        })
    });
    past.collect()
}

/// A run that could begin can be taken over, whatever happened in it.
fn take_over<F: Face>(input: &[u8], after: impl Fn(&[u8], Vec<Past>) -> Option<Vec<u8>>) -> String {
    let (start, rest) = split(input);
    if let Err(why) = Life::<F>::begin(start) {
        return format!("not begun: {}", word(&why));
    }
    let Some(after) = after(start, pasts(&rest)) else { return "begun otherwise".into() };
    match Life::<F>::begin(&after) {
        Ok(mut life) => {
            life.continues();
            life.is_taken_over();
            let held = life.face.holders().values().flatten().count();
            format!("{held} of {}", life.face.holders().len())
        }
        Err(why) => panic!("{why}: {}", text(&after)),
    }
}

#[test]
fn any_words_are_dropped_or_heard_by_a_resource_pool() {
    for signal in [ACQUIRE, RELEASE, ADD, OWNER_GONE, WITHDRAW] {
        assert!(POOL.contains(&format!("\n{signal} ")), "{signal}");
    }
    let samples = [POOL, EMPTY_POOL].map(|text| text.as_bytes().to_vec());
    fuzz("face_pool", &samples, WORDS, live::<PoolFace>);
}

#[test]
fn any_words_are_dropped_or_heard_by_a_lock_manager() {
    assert!(LOCK_MANAGER.contains(&format!("\n{HANDOFF} ")));
    fuzz("face_lock_manager", &[LOCK_MANAGER.into()], WORDS, live::<LockManagerFace>);
}

#[test]
fn any_bytes_are_refused_or_understood_as_what_a_run_hands_on() {
    let mut samples = Vec::new();
    for text in [POOL, EMPTY_POOL] {
        let (start, rest) = split(text.as_bytes());
        let mut life = Life::<PoolFace>::begin(start).expect("a sample");
        for line in rest.lines() {
            life.happens(line);
            samples.push(life.face.hand_on());
        }
    }
    fuzz("face_moved", &samples, WORDS, |input| {
        if !is_moved(Some(input)) {
            return "not moved".into();
        }
        let mut life = match Life::<PoolFace>::begin(input) {
            Ok(life) => life,
            Err(why) => return word(&why),
        };
        let (_, rest) = split(POOL.as_bytes());
        // It need not be what a run has handed on, so it may not be able to hand it on either.
        for line in rest.lines().filter(|line| *line != CONTINUE) {
            life.happens(line);
        }
        let _ = life.face.hand_on();
        let (holders, owners) = (life.face.holders().len(), life.face.book().owners().len());
        format!("{} {}", holders.min(4), owners.min(4))
    });
}

#[test]
fn any_past_of_a_resource_pool_can_be_taken_over() {
    assert!(POOL_PAST.contains(&format!(" {ASSIGN_PREFIX}pool ")));
    fuzz("past_pool", &[POOL_PAST.into()], WORDS, |input| {
        take_over::<PoolFace>(input, |start, past| {
            let before: PoolInput = wire::read(Some(start)).ok()?;
            Some(wire::write(&past::pool_input(PoolInput::default(), before, past)))
        })
    });
}

#[test]
fn any_past_of_a_lock_manager_can_be_taken_over() {
    assert!(LOCK_MANAGER_PAST.contains(&format!(" {} ", lock_manager::ASSIGN)));
    fuzz("past_lock_manager", &[LOCK_MANAGER_PAST.into()], WORDS, |input| {
        take_over::<LockManagerFace>(input, |start, past| {
            let before: LockManagerInput = wire::read(Some(start)).ok()?;
            Some(wire::write(&past::lock_manager_input(before, past)))
        })
    });
}

#[test]
fn any_bytes_are_refused_or_understood_as_the_input_of_a_permit() {
    let samples =
        [br#"{"resource": "gpu", "slot": "0", "lease_seconds": 1.5}"#.to_vec(), b"{\"leaseSeconds\": 30}".into()];
    let words = [
        "1e308",
        "-0.0",
        "1e-400",
        "3162240000",
        "3162240001",
        "null",
        "\"lease_seconds\":",
        "NaN",
        "18446744073709551615",
    ];
    fuzz("permit", &samples, &words, |input| match permit::lease(Some(input)) {
        Ok(lease) => format!("{:?}", lease.map(|lease| lease.as_secs().checked_ilog2())),
        Err(why) => word(&why),
    });
}

//! A writer, in a process of its own: takes the lock, reads the set, thinks, writes it back with one element more, and
//! lets go. It is not told what is done to it, but at times to think for longer.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use tenure_client::{Client, Guard};
use tenure_proto::v1::tenure_client::TenureClient;
use tenure_proto::v1::{AcquireRequest, Grant, Lifetime, ReleaseRequest, RenewRequest};
use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint};

use crate::LEASE;
use crate::report::{Outcome, Report};
use crate::shelf::{Answer, COPIES, Elements, FENCED, Request, Visitor};

/// After this nobody is believed to be there; the next try is over a new connection.
const PATIENCE: Duration = Duration::from_secs(8);
/// Between tries.
const BREATH: Duration = Duration::from_millis(30);
/// The longest that a writer thinks between reading and writing: short beside the lease, so that it takes a fault to
/// be late.
const THOUGHT_MAX_MS: u64 = 300;

/// Said to a writer: to stay between reading and writing from its next turn on, and to go on.
pub(crate) const STAY: &str = "stay";
pub(crate) const GO_ON: &str = "go on";

/// How a writer gets the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// With the Rust client, which renews in the background.
    Client,
    /// With plain calls: a lease, renewed once at most.
    Calls,
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Calls => "calls",
        }
    }
}

/// Its arguments: way, name, pool, server, shelf, and the number that its elements follow. Ends after the turn in which
/// its input ends.
pub(crate) fn process(arguments: &[String]) {
    let [way, name, pool, server, shelf, first] = arguments else { panic!("no writer: {arguments:?}") };
    let ended = Arc::new(AtomicBool::new(false));
    let at_end = ended.clone();
    let (told, stays) = watch::channel(false);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            told.send_replace(line == STAY);
        }
        at_end.store(true, Ordering::SeqCst);
        told.send_replace(false);
    });
    let element = first.parse().unwrap();
    let writer = Writer { pool: pool.clone(), shelf: Visitor::at(shelf), element, random: element, ended, stays };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if way == Way::Client.name() {
        runtime.block_on(with_client(writer, server, name));
    } else {
        runtime.block_on(with_calls(writer, server, name));
    }
}

struct Writer {
    pool: String,
    shelf: Visitor,
    element: u64,
    random: u64,
    ended: Arc<AtomicBool>,
    stays: watch::Receiver<bool>,
}

impl Writer {
    fn goes_on(&self) -> bool {
        !self.ended.load(Ordering::SeqCst)
    }

    /// What it does while it has the lock. `is_sure` says whether it still has it, as far as it can know.
    async fn turn(&mut self, token: u64, is_sure: impl Fn() -> bool, half_way: impl AsyncFnOnce()) {
        self.element += 1;
        say(&Report::Adding { element: self.element });
        // Each of the copies is at times the one whose bytes are on their way when something happens.
        let mut copies = COPIES;
        copies.rotate_left(self.below(COPIES.len() as u64).try_into().unwrap());
        let read = copies.map(|copy| self.read(copy, token));
        let thought = Duration::from_millis(self.below(THOUGHT_MAX_MS) / 2);
        tokio::time::sleep(thought).await;
        half_way().await;
        tokio::time::sleep(thought).await;
        // Only if there is something to write back.
        if *self.stays.borrow() && read.iter().all(Result::is_ok) {
            say(&Report::Staying);
            let _ = self.stays.wait_for(|stays| !stays).await;
        }
        for (copy, read) in copies.into_iter().zip(read) {
            let outcome = match read {
                Ok(elements) if copy != "careful" || is_sure() => self.write(copy, token, elements),
                Ok(_) => Outcome::Forgone,
                Err(outcome) => outcome,
            };
            say(&Report::Added { copy: copy.to_owned(), element: self.element, outcome });
        }
    }

    fn read(&mut self, copy: &str, token: u64) -> Result<Elements, Outcome> {
        match self.shelf.ask(&Request::Read { copy: copy.to_owned(), token }) {
            Some(Answer::Elements(elements)) => Ok(elements),
            Some(_) if copy == FENCED => Err(Outcome::Refused),
            // Nothing was written.
            _ => Err(Outcome::Forgone),
        }
    }

    fn write(&mut self, copy: &str, token: u64, mut elements: Elements) -> Outcome {
        elements.insert(self.element);
        match self.shelf.ask(&Request::Write { copy: copy.to_owned(), token, elements }) {
            Some(Answer::Written) => Outcome::Acknowledged,
            Some(_) => Outcome::Refused,
            None => Outcome::Unknown,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound
    }
}

async fn with_client(mut writer: Writer, server: &str, name: &str) {
    let client = loop {
        match Client::builder(server).holder(name).connect().await {
            Ok(client) => break client,
            Err(_) => tokio::time::sleep(BREATH).await,
        }
    };
    while writer.goes_on() {
        let called = now();
        let Ok(guard) = client.acquire(&writer.pool).ttl(LEASE).await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        let token = guard.token();
        say(&Report::Granted { called, answered: now(), token });
        writer.turn(token, || !guard.is_lost(), async || ()).await;
        release(guard, token).await;
    }
    let _ = client.close().await;
}

async fn release(guard: Guard, token: u64) {
    say(&Report::Releasing { called: now(), token });
    // A refusal tells nothing: the client may have asked twice, and the first time may have counted.
    if guard.release().await.is_ok() {
        say(&Report::Answered { answered: now(), held: true });
    }
}

async fn with_calls(mut writer: Writer, server: &str, name: &str) {
    let mut caller = Caller { server: server.to_owned(), line: None };
    while writer.goes_on() {
        let (called, asked) = (now(), Instant::now());
        let request = AcquireRequest {
            pool: writer.pool.clone(),
            holder: name.to_owned(),
            lifetime: Lifetime::Leased.into(),
            ttl_ms: Some(LEASE.as_millis().try_into().unwrap()),
            wait_forever: true,
            request_id: Some(format!("{name}-{}", writer.element)),
            ..Default::default()
        };
        let Some(grant) = caller.acquire(request).await else {
            // It was granted, and is over already. The next request is another one.
            writer.element += 1;
            continue;
        };
        let token = grant.token;
        say(&Report::Granted { called, answered: now(), token });
        let renews = writer.below(2) == 0;
        let half_way = async || {
            if renews {
                say(&Report::Renewing { called: now(), token });
                caller.renew(&grant.key).await;
            }
        };
        // As it was granted: that a renewal prolongs it is a pleasure.
        writer.turn(token, || asked.elapsed() < LEASE, half_way).await;
        say(&Report::Releasing { called: now(), token });
        caller.release(&grant.key).await;
    }
}

/// Plain calls over a connection that is made anew when it is broken.
struct Caller {
    server: String,
    line: Option<TenureClient<Channel>>,
}

impl Caller {
    /// None if the request is over for good.
    async fn acquire(&mut self, request: AcquireRequest) -> Option<Grant> {
        loop {
            match self.call(async |line| line.acquire(request.clone()).await).await {
                Some(Ok(grant)) => return Some(grant.into_inner()),
                Some(Err(refusal)) if refusal == "request_ended" => return None,
                _ => tokio::time::sleep(BREATH).await,
            }
        }
    }

    async fn renew(&mut self, key: &str) {
        let request = RenewRequest { key: key.to_owned(), ..Default::default() };
        report(self.call(async |line| line.renew(request).await.map(drop)).await);
    }

    /// Asked once: if it was asked twice, nobody could tell what a refusal means.
    async fn release(&mut self, key: &str) {
        let request = ReleaseRequest { key: key.to_owned(), ..Default::default() };
        report(self.call(async |line| line.release(request).await.map(drop)).await);
    }

    /// None if there was no answer, or one that tells nothing; else what came, or the code of the refusal.
    async fn call<T>(
        &mut self,
        what: impl AsyncFnOnce(&mut TenureClient<Channel>) -> Result<T, tonic::Status>,
    ) -> Option<Result<T, String>> {
        let line = match &mut self.line {
            Some(line) => line,
            none => {
                let endpoint = Endpoint::from_shared(format!("http://{}", self.server)).unwrap();
                let channel = endpoint.connect_timeout(PATIENCE).connect().await.ok()?;
                none.insert(TenureClient::new(channel))
            }
        };
        let answer = tokio::time::timeout(PATIENCE, what(line)).await;
        match answer {
            Ok(Ok(answer)) => Some(Ok(answer)),
            Ok(Err(status)) => match tenure_proto::refusal_of(&status) {
                Some(refusal) => Some(Err(refusal.code)),
                None => {
                    self.line = None;
                    None
                }
            },
            Err(_) => {
                self.line = None;
                None
            }
        }
    }
}

fn report(answer: Option<Result<(), String>>) {
    let held = match answer {
        Some(Ok(())) => true,
        Some(Err(code)) if code == "not_held" => false,
        _ => return,
    };
    say(&Report::Answered { answered: now(), held });
}

/// One write each, so that a line is there or not.
fn say(report: &Report) {
    let mut line = serde_json::to_string(report).unwrap();
    line.push('\n');
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// The same clock in all processes, which goes on while one is stopped.
fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    u64::try_from(time.tv_sec()).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap()
}

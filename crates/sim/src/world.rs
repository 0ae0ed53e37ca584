//! One run of a plan: a queue of things that happen at their times, and everything they happen to. The same plan gives the
//! same run, to the last byte.

mod clients;
mod judge;
mod network;
mod process;
mod start;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tenure_core::{Command, Limits, Reply, Seq, State, Ttl};
use tenure_engine::{Entry, Failure};

use self::clients::Timer;
use self::network::Connection;
use self::process::Process;
use crate::client::Client;
use crate::counts::Counts;
use crate::disk::Disk;
use crate::invariants::{self, Invariant, Ledger};
use crate::model::Model;
use crate::plan::{Fault, Left, Micros, Plan, What};
use crate::random::Random;
use crate::sabotage::Sabotage;

/// When a run begins by the wall clock, in milliseconds.
const START_MILLIS: u64 = 1_800_000_000_000;
/// How long a run goes on after its last step: until every lease, wait and grace of a plan is over.
const AFTERWARDS: Micros = 180_000_000;
/// A plan cannot make a run longer than this by what follows from its steps.
const EVENTS_MAX: u64 = 400_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether there is a trace, step by step.
    pub trace: bool,
    pub sabotage: Option<Sabotage>,
    /// Only the invariant of this name judges, and not the model either.
    pub only: Option<&'static str>,
    /// The power is lost during this sync, counted from 1, besides what the plan has.
    pub lose_power_at: Option<(u64, Left)>,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    pub violation: Option<Violation>,
    pub trace: String,
    pub counts: Counts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant, or what else was found to be wrong.
    pub what: String,
    pub how: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.how)
    }
}

fn wrong(what: &str, how: impl Into<String>) -> Violation {
    Violation { what: what.into(), how: how.into() }
}

/// Bounds that some plans come up against.
pub(crate) fn limits(tight: bool) -> Limits {
    let pool_idle = Ttl::from_millis(5_000);
    if !tight {
        return Limits { pool_idle, ..Limits::default() };
    }
    Limits { pools_max: 4, holds_max: 8, sessions_max: 3, waiters_per_pool_max: 4, waiters_max: 6, pool_idle }
}

/// Runs a plan to its end, or to the first thing that is wrong.
pub fn run(plan: &Plan, options: Options) -> Ended {
    let mut world = World::new(plan, options);
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run()));
    let violation = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(violation)) => Some(violation),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(wrong("an assertion", text.unwrap_or_default()))
        }
    };
    if let Some(violation) = &violation {
        world.note(|| format!("VIOLATION {violation}"));
    }
    world.counts.seeds = 1;
    world.counts.micros = world.time;
    (world.counts.segments, world.counts.torn) = world.disk.counts();
    Ended { violation, trace: world.trace, counts: world.counts }
}

/// What happens next.
#[derive(Debug)]
enum Happening {
    Step(usize),
    /// A request arrives at the server.
    Arrive {
        connection: usize,
        call: u64,
        command: Box<Command>,
        /// Which message of all it is.
        sent: u64,
    },
    /// The server notices that a connection is gone.
    Missed {
        connection: usize,
    },
    /// A front end passes on what the engine has answered.
    PassOn {
        connection: usize,
    },
    /// An answer arrives at the client.
    Deliver {
        connection: usize,
        call: u64,
        reply: Box<Result<Reply, Failure>>,
    },
    /// A client notices that a connection is gone.
    Broken {
        connection: usize,
    },
    Timer {
        client: usize,
        timer: Timer,
    },
    /// The writer looks into its mailbox.
    Work {
        incarnation: u64,
    },
    /// The sync of the batch that is being written returns.
    Synced {
        incarnation: u64,
    },
    Start,
}

struct World<'a> {
    plan: &'a Plan,
    options: Options,
    limits: Limits,
    time: Micros,
    queue: BTreeMap<(Micros, u64), Happening>,
    queued: u64,
    happened: u64,
    random: Random,

    wall_offset_millis: i64,
    disk: Disk,
    disk_slow: Option<(Micros, u32)>,
    /// Counts processes.
    incarnation: u64,
    process: Option<Process>,
    /// How long the server stays down after its next end.
    down_millis: u32,
    /// The power will be gone during the next sync.
    lose_power: Option<Left>,

    clients: Vec<Client>,
    connections: Vec<Connection>,
    tickets: u64,
    calls: u64,
    /// Requests that were sent, and the last sent of those that have arrived.
    sent: u64,
    newest_arrived: u64,

    model: Model,
    /// What a crash may go back to: models, and the last event of each.
    durable_model: (Seq, Model),
    written_model: Option<(Seq, Model)>,
    /// What all durable events make.
    durable: State,
    observed: Seq,
    /// Batches that were made, and those that were committed, by number.
    batches: u64,
    committed: u64,
    /// The answers to each ticket that are to come: in which batch, and on which event they rest.
    rests: BTreeMap<u64, Vec<(u64, Seq)>>,
    ledger: Ledger,
    invariants: Vec<Box<dyn Invariant>>,

    counts: Counts,
    trace: String,
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, options: Options) -> Self {
        let limits = limits(plan.tight);
        Self {
            plan,
            options,
            limits,
            time: 0,
            queue: BTreeMap::new(),
            queued: 0,
            happened: 0,
            random: Random::new(plan.seed ^ 0x5eed),
            wall_offset_millis: 0,
            disk: Disk::new(limits.pool_idle, options.sabotage),
            disk_slow: None,
            incarnation: 0,
            process: None,
            down_millis: 0,
            lose_power: None,
            clients: (0..plan.clients).map(Client::new).collect(),
            connections: Vec::new(),
            tickets: 0,
            calls: 0,
            sent: 0,
            newest_arrived: 0,
            model: Model::new(limits),
            durable_model: (Seq(0), Model::new(limits)),
            written_model: None,
            durable: State::new(limits.pool_idle),
            observed: Seq(0),
            batches: 0,
            committed: 0,
            rests: BTreeMap::new(),
            ledger: Ledger::default(),
            invariants: invariants::all()
                .into_iter()
                .filter(|it| options.only.is_none_or(|only| only == it.name()))
                .collect(),
            counts: Counts::default(),
            trace: String::new(),
        }
    }

    fn run(&mut self) -> Result<(), Violation> {
        self.later(0, Happening::Start);
        for (at, step) in self.plan.steps.iter().enumerate() {
            self.at(step.at + 1, Happening::Step(at));
        }
        let end = self.plan.steps.last().map_or(0, |step| step.at) + AFTERWARDS;
        while let Some(((at, _), happening)) = self.queue.pop_first() {
            if at > end || self.happened > EVENTS_MAX {
                break;
            }
            self.time = at;
            self.happened += 1;
            self.happen(happening)?;
            self.check_idle()?;
        }
        Ok(())
    }

    fn at(&mut self, time: Micros, happening: Happening) {
        self.queued += 1;
        self.queue.insert((time.max(self.time), self.queued), happening);
    }

    fn later(&mut self, micros: Micros, happening: Happening) {
        self.at(self.time + micros, happening);
    }

    fn happen(&mut self, happening: Happening) -> Result<(), Violation> {
        match happening {
            Happening::Step(at) => self.step(at),
            Happening::Arrive { connection, call, command, sent } => {
                self.arrive(connection, call, *command, sent);
                Ok(())
            }
            Happening::Missed { connection } => {
                self.miss(connection);
                Ok(())
            }
            Happening::PassOn { connection } => self.pass_on(connection),
            Happening::Deliver { connection, call, reply } => {
                self.deliver(connection, call, *reply);
                Ok(())
            }
            Happening::Broken { connection } => {
                self.broken(connection);
                Ok(())
            }
            Happening::Timer { client, timer } => {
                self.timer(client, timer);
                Ok(())
            }
            Happening::Work { incarnation } => self.work(incarnation),
            Happening::Synced { incarnation } => self.synced(incarnation),
            Happening::Start => self.start(),
        }
    }

    fn step(&mut self, at: usize) -> Result<(), Violation> {
        let step = &self.plan.steps[at];
        let luck = Random::new(self.plan.seed ^ u64::from(step.luck));
        match &step.what {
            What::Fault(fault) => return self.fault(*fault),
            What::Ask { client, ask, fate } => self.ask(usize::from(*client), ask, *fate, luck),
            What::Pause { client, millis } => {
                self.counts.client("client paused");
                let until = self.time + u64::from(*millis) * 1_000;
                let client = &mut self.clients[usize::from(*client)];
                client.paused_until = client.paused_until.max(until);
            }
            What::Cut { client } => {
                if let Some((connection, _)) = self.clients[usize::from(*client)].stream {
                    self.counts.fault("connection cut");
                    self.cut(connection, luck);
                }
            }
            What::HangUp { client, which } => self.hang_up(usize::from(*client), *which, luck),
        }
        Ok(())
    }

    fn fault(&mut self, fault: Fault) -> Result<(), Violation> {
        self.note(|| format!("{fault:?}"));
        match fault {
            Fault::Crash { left, down_millis } => {
                self.down_millis = down_millis;
                self.crash(left)?;
            }
            Fault::CrashAtSync { left, down_millis } => {
                self.down_millis = down_millis;
                self.lose_power = Some(left);
            }
            Fault::DiskFails { left, down_millis } => {
                self.down_millis = down_millis;
                self.disk.fail_next(left);
            }
            Fault::Restart { down_millis } => {
                self.down_millis = down_millis;
                self.stop_process()?;
            }
            Fault::DiskSlow { sync_micros, for_millis } => {
                self.counts.fault("slow disk");
                self.disk_slow = Some((self.time + u64::from(for_millis) * 1_000, sync_micros));
            }
            Fault::WallClock { by_seconds } => {
                self.counts.fault(if by_seconds < 0 { "clock set back" } else { "clock set forward" });
                self.wall_offset_millis += i64::from(by_seconds) * 1_000;
            }
        }
        Ok(())
    }

    /// What the wall clock of the server shows.
    fn wall_millis(&self) -> u64 {
        (START_MILLIS + self.time / 1_000).saturating_add_signed(self.wall_offset_millis)
    }

    /// A line of the trace. It is made only if somebody is going to read it.
    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.options.trace {
            let (seconds, micros) = (self.time / 1_000_000, self.time % 1_000_000);
            // Writing to a string does not fail.
            let _ = writeln!(self.trace, "{seconds:>6}.{micros:06}  {}", line());
        }
    }
}

/// An entry as a line.
fn brief(entry: Option<&Arc<Entry>>) -> String {
    let Some(entry) = entry else { return "nothing happened".into() };
    let mut line =
        format!("at {} events {}..", entry.at.as_millis() - START_MILLIS.min(entry.at.as_millis()), entry.first.0);
    for event in &entry.events {
        let _ = write!(line, "\n                 {event:?}");
    }
    line
}

//! A server, a set and its writers, and what is done to them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::LEASE;
use crate::network::Line;
use crate::report::Record;
use crate::shelf::{self, Answer, COPIES, Elements, Request, Shelf, Visitor};
use crate::support::Process;
use crate::support::job::until;
use crate::writer::{GO_ON, STAY, Way};

const WRITERS: usize = 4;
/// How often each kind of fault happens at least.
const ROUNDS: usize = 2;
/// So many get the lock after each fault before the next comes: nobody is stuck.
pub(crate) const TURNS_AFTER_FAULT: usize = 4;
const POOL: &str = "guard";
/// The elements of each writer follow a number of its own.
const ELEMENTS_MAX: u64 = 1_000_000;

/// Where the set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Of a process to which nothing happens.
    Memory,
    /// In a file that another process keeps, which is killed too.
    Store,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Store => "a store",
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Fault {
    HolderPaused,
    /// Between reading and writing, until somebody else has written: what it writes then comes too late, however fast the machine is.
    HolderPausedUntilOthersWrote,
    HolderCutOff,
    SomebodyPaused,
    ServerKilled,
    HolderPausedAndServerKilled,
    HolderWritesLate,
    HolderKilled,
    StoreKilled,
}

const FAULTS: [Fault; 10] = [
    Fault::HolderPaused,
    Fault::HolderPausedUntilOthersWrote,
    Fault::HolderCutOff,
    Fault::SomebodyPaused,
    Fault::ServerKilled,
    Fault::HolderPaused,
    Fault::HolderPausedAndServerKilled,
    Fault::HolderWritesLate,
    Fault::HolderKilled,
    Fault::StoreKilled,
];

pub(crate) struct Run {
    way: Way,
    data: tempfile::TempDir,
    server: Process,
    shelf: Kept,
    writers: Vec<Writer>,
    /// Those that were killed are counted.
    begun: usize,
    record: Arc<Mutex<Record>>,
    faults: BTreeMap<Fault, usize>,
    random: u64,
}

impl Run {
    pub(crate) fn start(way: Way, place: Place) -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = Process::serve(&data.path().join("server"), &[]);
        let shelf = match place {
            Place::Memory => Kept::Here(shelf::serve(Shelf::default())),
            Place::Store => Kept::There(Keeper::start(&data)),
        };
        let (faults, record) = (BTreeMap::new(), Arc::default());
        let mut run = Self { way, data, server, shelf, writers: Vec::new(), begun: 0, record, faults, random: 6 };
        for _ in 0..WRITERS {
            let writer = run.writer();
            run.writers.push(writer);
        }
        run
    }

    fn writer(&mut self) -> Writer {
        self.begun += 1;
        Writer::start(self.begun, self.way, &self.server.grpc, self.shelf.address(), &self.record)
    }

    /// One fault after another, until there were some of each kind and the time is over.
    pub(crate) fn suffer(&mut self, time: Duration) {
        let begun = Instant::now();
        let mut round = 0;
        while round < ROUNDS || begun.elapsed() < time {
            for fault in FAULTS {
                if fault == Fault::StoreKilled && matches!(self.shelf, Kept::Here(_)) {
                    continue;
                }
                self.inflict(fault);
                *self.faults.entry(fault).or_default() += 1;
                let enough = self.turns() + TURNS_AFTER_FAULT;
                until(&format!("they go on after {fault:?}"), || self.turns() >= enough);
            }
            round += 1;
        }
    }

    fn inflict(&mut self, fault: Fault) {
        let longer_than_lease = LEASE + Duration::from_millis(300 + self.below(1_500));
        match fault {
            Fault::HolderPaused => {
                let holder = self.holder();
                self.pause(holder, longer_than_lease);
            }
            Fault::HolderPausedUntilOthersWrote => {
                let somebody: usize = self.below(WRITERS as u64).try_into().unwrap();
                let writer = &self.writers[somebody];
                let staying = || self.record.lock().unwrap().staying == Some(writer.number);
                writer.say(STAY);
                until("it stays between reading and writing", staying);
                writer.signal(Signal::SIGSTOP);
                until("somebody else has written", || {
                    let record = self.record.lock().unwrap();
                    record.token_written > record.tokens[&writer.number]
                });
                writer.signal(Signal::SIGCONT);
                writer.say(GO_ON);
                until("it has written, too late", || !staying());
            }
            Fault::SomebodyPaused => {
                let somebody = self.below(WRITERS as u64).try_into().unwrap();
                self.pause(somebody, longer_than_lease);
            }
            Fault::HolderCutOff => {
                let holder = self.holder();
                self.writers[holder].to_server.cut();
                thread::sleep(longer_than_lease);
                self.writers[holder].to_server.mend();
            }
            Fault::HolderWritesLate => {
                let holder = self.holder();
                self.writers[holder].to_shelf.delay();
                thread::sleep(longer_than_lease);
                self.writers[holder].to_shelf.mend();
            }
            Fault::HolderKilled => {
                let holder = self.holder();
                self.writers[holder].kill();
                self.writers[holder] = self.writer();
            }
            Fault::ServerKilled => self.restart(),
            Fault::HolderPausedAndServerKilled => {
                let holder = self.holder();
                self.writers[holder].signal(Signal::SIGSTOP);
                self.restart();
                thread::sleep(longer_than_lease);
                self.writers[holder].signal(Signal::SIGCONT);
            }
            Fault::StoreKilled => {
                if let Kept::There(keeper) = &mut self.shelf {
                    keeper.kill();
                    *keeper = Keeper::start(&self.data);
                    self.writers.iter().for_each(|writer| writer.to_shelf.leads_to(&keeper.address));
                }
            }
        }
    }

    fn restart(&mut self) {
        self.server.kill();
        self.server = Process::serve(&self.data.path().join("server"), &[]);
        self.writers.iter().for_each(|writer| writer.to_server.leads_to(&self.server.grpc));
    }

    fn pause(&self, writer: usize, time: Duration) {
        self.writers[writer].signal(Signal::SIGSTOP);
        thread::sleep(time);
        self.writers[writer].signal(Signal::SIGCONT);
    }

    /// Who has it, as soon as somebody says so.
    fn holder(&self) -> usize {
        let mut holder = None;
        until("somebody holds", || {
            let last = self.record.lock().unwrap().holder;
            holder = self.writers.iter().position(|writer| Some(writer.number) == last);
            holder.is_some()
        });
        holder.unwrap()
    }

    fn turns(&self) -> usize {
        self.record.lock().unwrap().turns
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound
    }

    /// Lets the writers finish. What they have told, and what the set has at last.
    pub(crate) fn end(&mut self) -> (Record, BTreeMap<&'static str, Elements>) {
        self.writers.iter_mut().for_each(|writer| drop(writer.stdin.take()));
        for mut writer in self.writers.drain(..) {
            until("a writer ends", || writer.child.try_wait().unwrap().is_some());
            assert!(writer.child.wait().unwrap().success(), "a writer has failed");
            writer.listener.take().unwrap().join().unwrap();
        }
        let record = std::mem::take(&mut *self.record.lock().unwrap());
        let mut visitor = Visitor::at(self.shelf.address());
        let sets = COPIES.map(|copy| {
            let Some(Answer::Elements(elements)) =
                visitor.ask(&Request::Read { copy: copy.to_owned(), token: u64::MAX })
            else {
                panic!("the set cannot be read")
            };
            (copy, elements)
        });
        (record, sets.into())
    }

    pub(crate) fn faults(&self) -> String {
        let mut text = format!("{} faults:", self.faults_total());
        for (fault, times) in &self.faults {
            write!(text, " {fault:?} {times}").unwrap();
        }
        text
    }

    /// How many writes came too late at least.
    pub(crate) fn late(&self) -> usize {
        self.faults[&Fault::HolderPausedUntilOthersWrote]
    }

    pub(crate) fn faults_total(&self) -> usize {
        self.faults.values().sum()
    }
}

enum Kept {
    Here(String),
    There(Keeper),
}

impl Kept {
    fn address(&self) -> &str {
        match self {
            Self::Here(address) => address,
            Self::There(keeper) => &keeper.address,
        }
    }
}

/// The process that keeps the set in a file.
struct Keeper {
    child: Child,
    address: String,
}

impl Keeper {
    fn start(data: &tempfile::TempDir) -> Self {
        let mut child = this_program().arg("--shelf").arg(data.path().join("set")).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { child, address: address.trim().to_owned() }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Writer {
    number: usize,
    child: Child,
    stdin: Option<ChildStdin>,
    listener: Option<JoinHandle<()>>,
    to_server: Line,
    to_shelf: Line,
}

impl Writer {
    fn start(number: usize, way: Way, server: &str, shelf: &str, record: &Arc<Mutex<Record>>) -> Self {
        let (to_server, to_shelf) = (Line::to(server), Line::to(shelf));
        let (name, first) = (format!("writer-{number}"), (number as u64 * ELEMENTS_MAX).to_string());
        let arguments = ["--writer", way.name(), &name, POOL, &to_server.address, &to_shelf.address, &first];
        let mut child = this_program().args(arguments).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let record = record.clone();
        let listener = thread::spawn(move || {
            for line in stdout.split(b'\n').map(Result::unwrap) {
                // One that is killed may leave half a line.
                if let Ok(report) = serde_json::from_slice(&line) {
                    record.lock().unwrap().note(number, report, LEASE);
                }
            }
        });
        Self { number, child, stdin, listener: Some(listener), to_server, to_shelf }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    fn say(&self, what: &str) {
        writeln!(self.stdin.as_ref().unwrap(), "{what}").unwrap();
    }

    /// `kill -9`. What it has told is heard before it is gone.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.listener.take().unwrap().join().unwrap();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This test again, in another role.
fn this_program() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

//! The guard: the parent of the command, between it and the wrapper. It knows no network and waits for nobody, so that
//! the command ends in time although the wrapper is paused or dead.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::clock::{Alarm, Boottime};
use super::message::{self, Order, Report};
use super::spawn::Launch;
use super::terms::Terms;
use super::tree::Tree;

/// How the wrapper calls the guard: with the number of the descriptor that is the command's standard input, and the
/// command. Its own standard input is the line to the wrapper.
pub(super) const NAME: &str = "__guard";

/// How the wrapper, at its end, calls what it becomes: a process without handlers, which a signal can end.
pub(super) const END_NAME: &str = "__end";

/// The release is a kindness to those who wait: without it the lease runs out.
const RELEASE_MAX: Duration = Duration::from_secs(5);

/// Whether these are the arguments of one of the two.
pub(crate) fn is_called(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|name| name == NAME || name == END_NAME)
}

pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    let number = arguments.get(2).and_then(|number| number.to_str()?.parse().ok());
    let (Some(number), Some(command)) = (number, arguments.get(3..)) else {
        eprintln!("error: `{}` is for `tenure run` to use", arguments[1].display());
        return ExitCode::from(64);
    };
    if command.is_empty() {
        return end(number);
    }
    match guard(number, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: the guard of `{}` failed: {error}", command[0].display());
            ExitCode::from(70)
        }
    }
}

/// Ends by the signal; if it is ignored, with the code by which shells tell it.
fn end(signal: i32) -> ExitCode {
    let _ = Signal::try_from(signal).and_then(raise);
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}

fn guard(stdin: RawFd, command: &[OsString]) -> io::Result<()> {
    // Nothing but SIGKILL and SIGSTOP keeps it from its work. What it would do on SIGTERM, the wrapper does.
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    // As it was started, it would be called `exe`.
    prctl::set_name(c"tenure-guard")?;
    prctl::set_child_subreaper(true)?;
    let line = io::stdin().as_fd().try_clone_to_owned()?;
    let Some(terms) = begin(&line)? else { return Ok(()) };
    let launch = Launch {
        program: &command[0],
        arguments: command,
        // As the wrapper made it.
        environment: &std::env::vars_os().collect::<Vec<_>>(),
        moves: &[(stdin, 0)],
        close: Some(stdin),
        mask,
        // This language ignores it.
        usual: &[Signal::SIGPIPE],
    };
    // Whoever sent the order may have been paused since the grant.
    if terms.is_over(Boottime::now()) {
        // If nobody hears it, nobody needs to.
        let _ = message::say(&line, &Report::Stopping.encode());
        let _ = message::say(&line, &Report::Gone.encode());
        return Ok(());
    }
    let child = match launch.start() {
        Ok(child) => child,
        Err(error) => return Ok(message::say(&line, &Report::CannotStart(error as i32).encode())?),
    };
    let mut tree = Tree::below(Pid::this());
    tree.command(Some(child));
    let guard = Guard {
        line,
        wrapper_gone: false,
        alarm: Alarm::new()?,
        ended: SignalFd::with_flags(
            &SigSet::from_iter([Signal::SIGCHLD]),
            SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
        )?,
        tree,
        child,
        result: None,
        phase: Phase::Holding,
        terms,
    };
    // Whoever waits for the other end of the command's input must not wait for the guard.
    nix::unistd::close(stdin)?;
    guard.say(&Report::Started(child.as_raw()));
    guard.watch()
}

/// The first order, or nothing if the wrapper is gone.
fn begin(line: &OwnedFd) -> io::Result<Option<Terms>> {
    poll(&mut [PollFd::new(line.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE)?;
    match message::hear(line)?.as_deref().map(Order::decode) {
        Some(Some(Order::Begin(terms))) => Ok(Some(terms)),
        Some(_) => Err(io::ErrorKind::InvalidData.into()),
        None => Ok(None),
    }
}

#[derive(Debug)]
struct Guard {
    line: OwnedFd,
    wrapper_gone: bool,
    alarm: Alarm,
    ended: SignalFd,
    tree: Tree,
    child: Pid,
    /// How the command itself ended, if it has.
    result: Option<Report>,
    phase: Phase,
    terms: Terms,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Holding,
    /// All have been asked to end.
    Stopping {
        kill_at: Boottime,
    },
    Killing {
        since: Boottime,
        next: Boottime,
    },
}

impl Guard {
    fn watch(mut self) -> io::Result<()> {
        loop {
            // Time comes first: what ended after the hold was lost ended too late to leave anything behind.
            self.keep_time();
            let nobody_left = self.reap()?;
            match (self.phase, &self.result) {
                (Phase::Holding, Some(result)) => {
                    self.say(result);
                    return Ok(());
                }
                (Phase::Stopping { .. } | Phase::Killing { .. }, _) if nobody_left => {
                    self.say(&Report::Gone);
                    if self.wrapper_gone {
                        self.release();
                    }
                    return Ok(());
                }
                _ => {}
            }
            self.alarm.set(self.next())?;
            self.wait()?;
            self.obey()?;
        }
    }

    fn keep_time(&mut self) {
        let now = Boottime::now();
        if let Phase::Holding = self.phase
            && self.terms.is_over(now)
        {
            self.stop();
        }
        if let Phase::Stopping { kill_at } = self.phase
            && now >= kill_at
        {
            self.phase = Phase::Killing { since: now, next: now };
        }
        if let Phase::Killing { since, next } = self.phase
            && now >= next
        {
            self.signal_all(&[Signal::SIGKILL]);
            self.phase = Phase::Killing { since, next: now.plus(self.terms.round(since, now)) };
        }
    }

    /// When the clock alone gives it something to do.
    fn next(&self) -> Option<Boottime> {
        match self.phase {
            Phase::Holding => self.terms.deadline.map(|deadline| self.terms.stop_at(deadline)),
            Phase::Stopping { kill_at } => Some(kill_at),
            Phase::Killing { next, .. } => Some(next),
        }
    }

    /// There is no way back from here: somebody has been told to end.
    fn stop(&mut self) {
        if let Phase::Holding = self.phase {
            // A stopped process would not hear it.
            self.signal_all(&[Signal::SIGTERM, Signal::SIGCONT]);
            self.phase = Phase::Stopping { kill_at: self.terms.kill_at(Boottime::now(), self.terms.deadline) };
            self.say(&Report::Stopping);
        }
    }

    fn signal_all(&self, signals: &[Signal]) {
        // How many there were is of no interest: it is by reaping that nobody is found to be left.
        let _ = self.tree.signal(signals);
    }

    /// Takes notice of all who have ended. Whether nobody is left is exact: whoever descends from this process is its
    /// child, or descends from one.
    fn reap(&mut self) -> io::Result<bool> {
        loop {
            let child = self.child;
            match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
                Ok(WaitStatus::Exited(id, code)) if id == child => self.child_ended(Report::Exited(code)),
                Ok(WaitStatus::Signaled(id, signal, _)) if id == child => {
                    self.child_ended(Report::Signaled(signal as i32));
                }
                Ok(WaitStatus::Stopped(id, signal)) if id == child => self.say(&Report::Paused(signal as i32)),
                Ok(WaitStatus::StillAlive) => return Ok(false),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::ECHILD) => return Ok(true),
                // Ended by a real-time signal, which has no name here. Whose end it was shows by who is left.
                Err(Errno::EINVAL) => {
                    if self.result.is_none() && nix::sys::signal::kill(child, None) == Err(Errno::ESRCH) {
                        self.child_ended(Report::Signaled(SIGNAL_REAL_TIME));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn child_ended(&mut self, result: Report) {
        self.tree.command(None);
        self.result = Some(result);
    }

    fn wait(&self) -> io::Result<()> {
        let mut sources = vec![
            PollFd::new(self.alarm.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.ended.as_fd(), PollFlags::POLLIN),
        ];
        if !self.wrapper_gone {
            sources.push(PollFd::new(self.line.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut sources, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        while self.ended.read_signal()?.is_some() {}
        Ok(())
    }

    fn obey(&mut self) -> io::Result<()> {
        while !self.wrapper_gone {
            match message::hear(&self.line) {
                Ok(Some(order)) => match Order::decode(&order) {
                    Some(Order::Deadline(deadline)) => self.terms.deadline = Some(deadline),
                    Some(Order::Stop) => self.stop(),
                    Some(Order::Signal(signal)) => self.forward(signal),
                    Some(Order::Begin(_)) | None => return Err(io::ErrorKind::InvalidData.into()),
                },
                Ok(None) => {
                    self.wrapper_gone = true;
                    self.stop();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn forward(&self, signal: i32) {
        // Once the command has been reaped, its number may be somebody else's.
        if let (None, Ok(signal)) = (&self.result, Signal::try_from(signal)) {
            let _ = killpg(self.child, signal);
        }
    }

    fn say(&self, report: &Report) {
        // A wrapper that does not hear it is dead, or will learn it when it finds the line closed.
        let _ = message::say(&self.line, &report.encode());
    }

    /// Lets the next in line have the hold at once. The key is in the environment, where other users cannot see it.
    fn release(&self) {
        if self.terms.release.is_empty() {
            return;
        }
        let mut release = Command::new("/proc/self/exe");
        release.arg("release").envs(self.terms.release.iter().map(|(name, value)| (name, value)));
        release.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut release) = release.spawn() else { return };
        let give_up_at = Boottime::now().plus(RELEASE_MAX);
        while matches!(release.try_wait(), Ok(None)) && Boottime::now() < give_up_at {
            if self.alarm.set(Some(give_up_at)).and_then(|()| self.wait().map_err(|_| Errno::EIO)).is_err() {
                break;
            }
        }
        let _ = release.kill();
    }
}

/// The first of them.
const SIGNAL_REAL_TIME: i32 = 34;

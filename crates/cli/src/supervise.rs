//! A command that must be gone before its hold can be somebody else's. Between the wrapper (this process) and the
//! command stands a guard, `guard.rs`; each of the two sees to the deadline, so that either may be paused or killed.

mod clock;
pub(crate) mod guard;
mod message;
mod signals;
mod spawn;
mod terminal;
mod terms;
mod tree;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::io::Interest;
use tokio::net::UnixStream;

pub(crate) use signals::Signals;

use clock::{Boottime, Moment};
use message::{Order, Report};
use spawn::Launch;
use terminal::Terminal;
use terms::Terms;
use tree::Tree;

/// How long the wrapper sleeps at most, by a clock that does not know of suspended hosts.
const NAP_MAX: Duration = Duration::from_secs(1);
/// Between two looks at whether those who were asked to end have done so.
const LOOK: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The program and its arguments, at least the program.
    pub(crate) command: Vec<OsString>,
    /// All that the command finds in its environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// From SIGTERM to SIGKILL. With the margin it must be less than what is left of a lease when it is renewed.
    pub(crate) grace: Duration,
    /// How long before the deadline all are gone.
    pub(crate) margin: Duration,
    /// The environment, with the key, in which `tenure release` releases the hold: the guard does it if it had to end
    /// the command of a wrapper that died. Empty: nobody does.
    pub(crate) release: Vec<(OsString, OsString)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Exited(i32),
    Signaled(i32),
    CannotStart {
        not_found: bool,
        why: String,
    },
    /// The hold was lost, or would have been. The command and all it started are gone.
    Stopped,
    /// The guard was killed, and nobody would have kept the promise if this process had been paused. The command and
    /// all it started are gone. The hold may still be there.
    Unguarded,
}

/// A command that runs. Dropping it stops the command.
///
/// ```text
/// wrapper ── guard ── command, in a process group of its own
///    │          │
///    │          ├ deadline − margin − grace:  SIGTERM to the command and all that descends from it
///    │          └ deadline − margin:          SIGKILL, until none is left
///    └ the same a part of the margin later, if the guard has not done it, and in its place if it is paused or dead
/// ```
///
/// All time counts, a suspended host's too. What the command leaves running when it ends by itself is left alone, as
/// `flock` does. Out of reach are processes that another service starts for the command (a container engine, `at`, a
/// service manager) and those of another user; and nobody sees to the deadline if both wrapper and guard are killed, or
/// the whole host stands still.
///
/// With a terminal the command's group is in its foreground, and gets Ctrl-C and Ctrl-Z from it directly. When it is
/// stopped so, the wrapper stops too, and the lease runs down unless both are continued in time.
#[derive(Debug)]
pub(crate) struct Supervised {
    /// Not a stream, which to the runtime makes no difference.
    line: UnixStream,
    guard: Pid,
    /// The line is closed without a last word: the guard was killed.
    guard_gone: bool,
    command: Option<Pid>,
    tree: Tree,
    terms: Terms,
    /// When the deadline was told.
    known: Moment,
    /// There is no way back from it.
    stopping: Option<Stopping>,
    /// What it is when all are gone.
    why: Outcome,
    terminal: Option<Terminal>,
    signals: Signals,
    outcome: Option<Outcome>,
}

#[derive(Clone, Copy, Debug)]
struct Stopping {
    /// When all were to be asked to end.
    since: Boottime,
    /// Whether they have been: by the guard, which said so, or by this process.
    asked: bool,
    kill_at: Boottime,
    /// Since when this process has killed them.
    killing: Option<Boottime>,
}

impl Supervised {
    /// Starts the command. A hold without a deadline does not end by itself. Needs to be inside a runtime.
    pub(crate) fn start(plan: Plan, deadline: Option<Instant>, mut signals: Signals) -> io::Result<Self> {
        let known = Moment::now();
        let terms = Terms {
            grace: plan.grace,
            margin: plan.margin,
            deadline: deadline.map(|deadline| known.boottime(deadline)),
            release: plan.release,
        };
        signals.listen_for_a_command()?;
        // Should the guard die, the command becomes a child of this process.
        prctl::set_child_subreaper(true)?;
        let mut tree = Tree::new_below(Pid::this())?;

        let (line, guards_end) = message::line()?;
        // Its number is free in the guard, which is told it.
        let stdin = io::stdin().as_fd().try_clone_to_owned()?;
        let mut arguments = vec!["tenure".into(), guard::NAME.into(), stdin.as_raw_fd().to_string().into()];
        arguments.extend(plan.command);
        let launch = Launch {
            // Also if the file has been replaced since.
            program: OsStr::new("/proc/self/exe"),
            arguments: &arguments,
            environment: &plan.environment,
            moves: &[(0, stdin.as_raw_fd()), (guards_end.as_raw_fd(), 0)],
            close: None,
            mask: SigSet::thread_get_mask()?,
            // A guard that ignored it would not learn how the command ended.
            usual: &[Signal::SIGCHLD],
        };
        let guard = launch.start()?;
        tree.spare(Some(guard));
        message::say(&line, &Order::Begin(terms.clone()).encode())?;
        Ok(Self {
            line: UnixStream::from_std(line.into())?,
            guard,
            guard_gone: false,
            command: None,
            tree,
            terms,
            known,
            stopping: None,
            why: Outcome::Stopped,
            terminal: Terminal::find(),
            signals,
            outcome: None,
        })
    }

    /// The hold was renewed, and now ends then.
    pub(crate) fn extend(&mut self, deadline: Instant) {
        // It was reckoned since the last one was told, so whatever the host has slept since then counts.
        let deadline = self.known.boottime(deadline);
        self.known = Moment::now();
        self.terms.deadline = Some(deadline);
        self.order(&Order::Deadline(deadline));
    }

    /// The hold is lost: the command is asked to end now, and killed after the grace, or when the hold would have ended
    /// if that is sooner.
    pub(crate) fn stop(&mut self) {
        self.order(&Order::Stop);
        self.stop_since(Boottime::now());
    }

    /// How it ended. Passes signals on and sees to the deadline meanwhile, so it must be awaited all the time; it may
    /// be dropped and called again.
    pub(crate) async fn next(&mut self) -> Outcome {
        loop {
            self.catch_up();
            if let Some(outcome) = &self.outcome {
                return outcome.clone();
            }
            let nap = self.enforce(Boottime::now());
            if self.outcome.is_some() {
                continue;
            }
            let guard_gone = self.guard_gone;
            tokio::select! {
                _ = self.line.readable(), if !guard_gone => {}
                signal = self.signals.next() => self.pass_on(signal),
                () = tokio::time::sleep(nap) => {}
            }
        }
    }

    /// Learns what the guard has said, before judging what it has not done: this process may have been paused.
    fn catch_up(&mut self) {
        while self.outcome.is_none() && !self.guard_gone {
            let no_more = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
            let heard = match message::hear(&self.line) {
                // Asked again in a way that tells the runtime that there is no more, and when to wake this up.
                Err(error) if no_more(&error) => self.line.try_io(Interest::READABLE, || message::hear(&self.line)),
                heard => heard,
            };
            match heard {
                Err(error) if no_more(&error) => break,
                heard => self.learn(heard.ok().flatten().as_deref().and_then(Report::decode)),
            }
        }
    }

    /// Does what the guard should have done by now, and tells when to look again.
    fn enforce(&mut self, now: Boottime) -> Duration {
        let late = if self.guard_gone { Duration::ZERO } else { self.terms.margin / 4 };
        let since = match (self.stopping, self.terms.deadline) {
            (Some(stopping), _) => stopping.since,
            (None, Some(deadline)) => self.terms.stop_at(deadline),
            (None, None) => return NAP_MAX,
        };
        let asked = self.stopping.is_some_and(|stopping| stopping.asked);
        if !asked && now < since.plus(late) {
            return since.plus(late).since(now).min(NAP_MAX);
        }
        if !asked {
            // Whether it reaches anybody shows when they are killed.
            let _ = self.tree.signal(&[Signal::SIGTERM, Signal::SIGCONT]);
            self.stop_since(since).asked = true;
        }
        let kill_at = self.stop_since(since).kill_at.plus(late * 2);
        if self.guard_gone && self.reap() {
            self.end(self.why.clone());
            Duration::ZERO
        } else if now >= kill_at {
            self.kill(now)
        } else if self.guard_gone {
            LOOK
        } else {
            kill_at.since(now).min(NAP_MAX)
        }
    }

    /// A round of killing, and when to look again.
    fn kill(&mut self, now: Boottime) -> Duration {
        let found = self.tree.signal(&[Signal::SIGKILL]);
        if !self.guard_gone {
            // Nobody is gone until the guard, which reaps them, says so. While it cannot, they are reaped here.
            if tree::is_stopped(self.guard) {
                self.take_over();
            }
        } else if self.tree.has_foreign() && matches!(found, Ok(0)) {
            // Also exact: what was a child of this process then still is, dead or alive, as nobody was reaped since.
            self.end(self.why.clone());
        }
        let since = *self.stop_since(now).killing.get_or_insert(now);
        self.terms.round(since, now)
    }

    /// From `since` on the command has to end, or from before if that was known.
    fn stop_since(&mut self, since: Boottime) -> &mut Stopping {
        let kill_at = self.terms.kill_at(since, self.terms.deadline);
        self.stopping.get_or_insert(Stopping { since, asked: false, kill_at, killing: None })
    }

    /// Does without the guard, which is dead or is killed now: its orphans become children of this process.
    fn take_over(&mut self) {
        let _ = kill(self.guard, Signal::SIGKILL);
        self.tree.spare(None);
        self.guard_gone = true;
        if self.stopping.is_none() {
            self.why = Outcome::Unguarded;
            self.stop_since(Boottime::now());
        }
    }

    /// Takes notice of all who have ended. Whether nobody is left is exact: orphans came to this process before their
    /// parent could be reaped, the guard's too. Children from before this program count as somebody.
    fn reap(&mut self) -> bool {
        loop {
            match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return false,
                Ok(ended) if ended.pid() == self.command => self.tree.command(None),
                Err(Errno::ECHILD) => return true,
                // One more; by a real-time signal, which has no name here, it is EINVAL.
                _ => {}
            }
        }
    }

    fn learn(&mut self, report: Option<Report>) {
        match report {
            Some(Report::Started(id)) => {
                let command = Pid::from_raw(id);
                self.command = Some(command);
                self.tree.command(Some(command));
                if let Some(terminal) = &mut self.terminal {
                    terminal.begin(command);
                }
            }
            Some(Report::CannotStart(error)) => {
                let error = Errno::from_raw(error);
                let not_found = error == Errno::ENOENT;
                self.end(Outcome::CannotStart { not_found, why: io::Error::from(error).to_string() });
            }
            Some(Report::Paused(signal)) => self.paused(signal),
            Some(Report::Exited(code)) => self.end(Outcome::Exited(code)),
            Some(Report::Signaled(signal)) => self.end(Outcome::Signaled(signal)),
            Some(Report::Stopping) => self.stop_since(Boottime::now()).asked = true,
            Some(Report::Gone) => self.end(Outcome::Stopped),
            None => self.take_over(),
        }
    }

    fn pass_on(&mut self, signal: i32) {
        if signal == Signal::SIGCONT as i32
            && let (Some(terminal), Some(command)) = (&mut self.terminal, self.command)
        {
            terminal.begin(command);
        }
        self.order(&Order::Signal(signal));
    }

    /// The command was stopped by the terminal, or as if: because it is not in the foreground, or with Ctrl-Z.
    fn paused(&mut self, signal: i32) {
        let (Some(terminal), Some(command), Ok(signal)) = (&mut self.terminal, self.command, Signal::try_from(signal))
        else {
            return;
        };
        let goes_on = match signal {
            // It may have been quicker than the wrapper, or the first to want the terminal.
            Signal::SIGTTIN | Signal::SIGTTOU => {
                let given = terminal.give(command);
                if !given {
                    terminal.pause(command);
                }
                given
            }
            // Where nobody could continue it, Ctrl-Z has no effect without a wrapper either.
            Signal::SIGTSTP => !terminal.pause(command),
            // Somebody stopped the command alone, and will know why.
            _ => false,
        };
        if goes_on {
            self.order(&Order::Signal(Signal::SIGCONT as i32));
        }
    }

    fn order(&self, order: &Order) {
        // A guard that does not hear it is gone, or paused: then this process does it.
        let _ = message::say(&self.line, &order.encode());
    }

    fn end(&mut self, outcome: Outcome) {
        self.give_back_terminal(&outcome);
        let _ = waitpid(self.guard, Some(WaitPidFlag::WNOHANG));
        self.outcome = Some(outcome);
    }

    fn give_back_terminal(&mut self, outcome: &Outcome) {
        let (Some(terminal), Some(command)) = (&mut self.terminal, self.command) else { return };
        if terminal.take(command)
            && let Outcome::Signaled(signal) = outcome
            && let Ok(signal @ (Signal::SIGINT | Signal::SIGQUIT)) = Signal::try_from(*signal)
        {
            Terminal::interrupt(signal);
        }
    }
}

/// Ends this process by SIGINT, as the command did: a shell that runs a script goes on unless it sees that. Returns
/// only if it cannot.
pub(crate) fn end_by_interrupt() -> io::Error {
    // A handler cannot be taken away in safe code, but no handler outlives this.
    let mut end = Command::new("/proc/self/exe");
    end.arg0("tenure").args([guard::END_NAME, &(Signal::SIGINT as i32).to_string()]).exec()
}

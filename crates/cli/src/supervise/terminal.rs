//! The terminal, which belongs to one process group at a time: to the command's while it runs, so that Ctrl-C, Ctrl-Z
//! and what is typed go to it, and back to the wrapper's. Without a controlling terminal there is nothing to do.

use std::fs::File;
use std::io::{self, IsTerminal};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, killpg, raise};
use nix::unistd::{Pid, getpgrp, getppid, getsid, tcgetpgrp, tcsetpgrp};

use super::tree::{self, Process};

#[derive(Debug)]
pub(super) struct Terminal {
    file: File,
    /// The command gets it from the start. In a pipe to a pager the pager needs it more, until the command asks.
    at_once: bool,
    given: bool,
}

impl Terminal {
    pub(super) fn find() -> Option<Self> {
        let file = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let at_once = io::stdin().is_terminal() && io::stdout().is_terminal();
        Some(Self { file, at_once, given: false })
    }

    /// The command has begun, or goes on.
    pub(super) fn begin(&mut self, command: Pid) {
        if self.at_once || self.given {
            self.give(command);
        }
    }

    /// Gives it to the command, if it is this process's to give. Whether the command has it.
    pub(super) fn give(&mut self, command: Pid) -> bool {
        self.given |= match tcgetpgrp(&self.file) {
            Ok(group) if group == command => true,
            Ok(group) if group == getpgrp() => self.set(command).is_ok(),
            _ => return false,
        };
        self.given
    }

    /// Takes it back, unless somebody else has it by now: a shell that has noticed before. Whether it was given.
    pub(super) fn take(&mut self, command: Pid) -> bool {
        if self.given
            && let Ok(group) = tcgetpgrp(&self.file)
            && (group == command || killpg(group, None) == Err(Errno::ESRCH))
        {
            let _ = self.set(getpgrp());
        }
        self.given
    }

    /// Stops this process's group as the command was stopped, until somebody continues it. False if nobody would.
    pub(super) fn pause(&mut self, command: Pid) -> bool {
        let Ok(processes) = tree::processes() else { return false };
        let is_a_job = is_a_job(&processes);
        if is_a_job {
            self.take(command);
            let (own, group) = (Pid::this().as_raw(), getpgrp().as_raw());
            for process in processes.iter().filter(|process| process.group == group && process.id != own) {
                let _ = kill(Pid::from_raw(process.id), Signal::SIGTSTP);
            }
            let _ = raise(Signal::SIGSTOP);
        }
        is_a_job
    }

    /// Tells those who share this group that the user pressed Ctrl-C, as the terminal would have without a wrapper:
    /// else a script would go on after its interrupted command.
    pub(super) fn interrupt(signal: Signal) {
        let _ = killpg(getpgrp(), signal);
    }

    fn set(&self, group: Pid) -> nix::Result<()> {
        // Whoever is not in the foreground is stopped for trying, unless the signal is blocked.
        let before = SigSet::from_iter([Signal::SIGTTOU]).thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let done = tcsetpgrp(&self.file, group);
        before.thread_set_mask()?;
        done
    }
}

/// Whether a shell of the same session will continue this group, as a job of its own.
fn is_a_job(processes: &[Process]) -> bool {
    let group = getpgrp().as_raw();
    let mut ancestor = getppid().as_raw();
    // A script that runs this process is part of the job.
    while let Some(process) = processes.iter().find(|process| process.id == ancestor && process.group == group) {
        ancestor = process.parent;
    }
    ancestor > 0 && getsid(Some(Pid::from_raw(ancestor))) == getsid(None)
}

//! Starts a process in a group of its own, with its file descriptors, signals and environment exactly as told.
//! `std::process` can neither give a process the signal mask that its grandparent had nor move descriptors about.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

#[derive(Debug)]
pub(super) struct Launch<'a> {
    /// Looked for in `PATH` if it is a bare name.
    pub(super) program: &'a OsStr,
    /// With the program's name as it shall see it.
    pub(super) arguments: &'a [OsString],
    pub(super) environment: &'a [(OsString, OsString)],
    /// Which descriptor becomes which, one after another.
    pub(super) moves: &'a [(RawFd, RawFd)],
    pub(super) close: Option<RawFd>,
    pub(super) mask: SigSet,
    /// Signals that are handled as usual even if they were ignored here.
    pub(super) usual: &'a [Signal],
}

impl Launch<'_> {
    pub(super) fn start(&self) -> nix::Result<Pid> {
        let mut actions = PosixSpawnFileActions::init()?;
        for (from, to) in self.moves {
            actions.add_dup2(*from, *to)?;
        }
        if let Some(descriptor) = self.close {
            actions.add_close(descriptor)?;
        }
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_flags(
            PosixSpawnFlags::POSIX_SPAWN_SETPGROUP
                | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
                | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK,
        )?;
        // Zero: the group that it leads.
        attributes.set_pgroup(Pid::from_raw(0))?;
        attributes.set_sigmask(&self.mask)?;
        attributes.set_sigdefault(&self.usual.iter().copied().collect())?;

        let arguments: Vec<_> = self.arguments.iter().map(|argument| text(argument)).collect::<Result<_, _>>()?;
        let environment: Vec<_> = self.environment.iter().map(variable).collect::<Result<_, _>>()?;
        posix_spawnp(&text(self.program)?, &actions, &attributes, &arguments, &environment)
    }
}

fn text(text: &OsStr) -> nix::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| Errno::EINVAL)
}

fn variable((name, value): &(OsString, OsString)) -> nix::Result<CString> {
    let mut variable = name.clone();
    variable.push("=");
    variable.push(value);
    text(&variable)
}

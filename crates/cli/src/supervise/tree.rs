//! Everything that descends from a process, found in `/proc` and signalled. A subreaper inherits the orphans below it,
//! daemons in sessions of their own too, so nothing that was started leaves the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::{fs, io};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgrp};

#[derive(Debug)]
pub(super) struct Tree {
    root: i32,
    /// Belongs to somebody else, with all below it.
    foreign: BTreeSet<i32>,
    /// Not signalled itself, while what is below it is.
    spared: Option<i32>,
    /// The command's group, which can be signalled without looking for it.
    group: Option<Pid>,
}

impl Tree {
    /// Everything below `root`.
    pub(super) fn below(root: Pid) -> Self {
        Self { root: root.as_raw(), foreign: BTreeSet::new(), spared: None, group: None }
    }

    /// Everything that will be below `root` and is not yet: a process may have been given children by the program that
    /// it was before.
    pub(super) fn new_below(root: Pid) -> io::Result<Self> {
        let mut tree = Self::below(root);
        tree.foreign = tree.members(&processes()?).map(|process| process.id).collect();
        Ok(tree)
    }

    /// Whether `root` has had children who do not belong to the tree.
    pub(super) fn has_foreign(&self) -> bool {
        !self.foreign.is_empty()
    }

    pub(super) fn spare(&mut self, process: Option<Pid>) {
        self.spared = process.map(Pid::as_raw);
    }

    /// The group of the command, until that has been reaped and its number may be somebody else's.
    pub(super) fn command(&mut self, group: Option<Pid>) {
        self.group = group;
    }

    /// Sends all of them the signals, and tells how many there were, with those who are dead and not yet reaped. Those
    /// that come to be meanwhile may be missed: look again. If it cannot be seen who there is, the command's group gets
    /// the signals, and whoever asked must not take it that nobody is left.
    pub(super) fn signal(&self, signals: &[Signal]) -> io::Result<usize> {
        let processes = match processes() {
            Ok(processes) => processes,
            Err(error) => {
                for (group, signal) in self.group.iter().flat_map(|group| signals.iter().map(move |it| (group, it))) {
                    let _ = killpg(*group, *signal);
                }
                return Err(error);
            }
        };
        let members: Vec<_> = self.members(&processes).filter(|process| Some(process.id) != self.spared).collect();
        let ids: BTreeSet<_> = members.iter().map(|process| process.id).collect();

        // A group is signalled as one, so that a process cannot get away by forking. Not if strangers are in it.
        let mut shared: BTreeSet<_> =
            processes.iter().filter(|process| !ids.contains(&process.id)).map(|process| process.group).collect();
        shared.insert(getpgrp().as_raw());
        let own = |group: i32| group > 1 && !shared.contains(&group);
        let groups: BTreeSet<_> = members.iter().map(|process| process.group).filter(|group| own(*group)).collect();
        for signal in signals {
            // It may be gone by now; and what belongs to another user cannot be signalled.
            for group in &groups {
                let _ = killpg(Pid::from_raw(*group), *signal);
            }
            for process in members.iter().filter(|process| !own(process.group)) {
                let _ = kill(Pid::from_raw(process.id), *signal);
            }
        }
        Ok(members.len())
    }

    fn members<'a>(&self, processes: &'a [Process]) -> impl Iterator<Item = &'a Process> + use<'a> {
        let mut children: BTreeMap<i32, Vec<&Process>> = BTreeMap::new();
        for process in processes.iter().filter(|process| !self.foreign.contains(&process.id)) {
            children.entry(process.parent).or_default().push(process);
        }
        let mut members = Vec::new();
        let mut parents = vec![self.root];
        while let Some(parent) = parents.pop() {
            // Taken out, so that even a table that was read while it changed has no circle.
            for child in children.remove(&parent).unwrap_or_default() {
                parents.push(child.id);
                members.push(child);
            }
        }
        members.into_iter()
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    state: char,
}

/// All there are, or an error: for want of a file descriptor nobody must look dead.
pub(super) fn processes() -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        if entry.file_name().as_bytes().first().is_some_and(u8::is_ascii_digit) {
            match fs::read(entry.path().join("stat")) {
                Ok(stat) => processes.extend(process(&stat)),
                Err(error) if hides_nobody(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(processes)
}

/// Whether that process has ended meanwhile, or is another user's on a host that does not show those: it could not be
/// signalled either.
fn hides_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

/// Whether it is stopped, by SIGSTOP or by a debugger. What cannot be seen is not taken for stopped.
pub(super) fn is_stopped(id: Pid) -> bool {
    let stat = fs::read(format!("/proc/{id}/stat")).unwrap_or_default();
    process(&stat).is_some_and(|process| matches!(process.state, 'T' | 't'))
}

/// `7 (name) S 1 7 …`, where the name may be anything.
fn process(stat: &[u8]) -> Option<Process> {
    let id = stat.iter().position(|byte| *byte == b' ')?;
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let id = str::from_utf8(&stat[..id]).ok()?.parse().ok()?;
    let fields: Vec<_> = str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace().collect();
    Some(Process {
        id,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        state: fields.first()?.chars().next()?,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_may_look_like_the_rest_of_the_line() {
        let stat = b"12 (a) R 1 (\xff) S 3 4 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 2 0 100 0 0";
        assert_eq!(process(stat), Some(Process { id: 12, parent: 3, group: 4, state: 'S' }));
        assert_eq!(process(b""), None);
    }

    #[test]
    fn those_in_other_groups_and_sessions_who_refuse_to_end_are_killed_too() {
        let script = "trap '' TERM
            sh -c 'trap \"\" TERM; echo $$; while :; do sleep 100; done' &
            setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 100; done' &
            echo $$
            while :; do sleep 100; done";
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let ids: Vec<i32> = said.lines().take(3).map(|line| line.unwrap().parse().unwrap()).collect();
        // Without the shell itself nobody would inherit the others: it stays until they are gone.
        let shell = Pid::from_raw(child.id().try_into().unwrap());
        let tree = Tree::below(shell);
        assert!(tree.signal(&[Signal::SIGTERM]).unwrap() >= 2);
        assert!(!is_stopped(shell));
        kill(shell, Signal::SIGSTOP).unwrap();
        let alive = |id: &i32| {
            let stat = fs::read(format!("/proc/{id}/stat")).unwrap_or_default();
            process(&stat).is_some_and(|process| process.state != 'Z')
        };
        while ids.iter().any(|id| *id != shell.as_raw() && alive(id)) {
            tree.signal(&[Signal::SIGKILL]).unwrap();
        }
        while !is_stopped(shell) {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn children_that_were_there_before_are_left_alone() {
        let mut before = Command::new("sleep").arg("100").spawn().unwrap();
        let tree = Tree::new_below(Pid::this()).unwrap();
        // Only looked at: other tests of this process have children too.
        let members: Vec<_> = tree.members(&processes().unwrap()).map(|process| process.id).collect();
        assert!(!members.contains(&before.id().try_into().unwrap()));
        before.kill().unwrap();
        before.wait().unwrap();
    }
}

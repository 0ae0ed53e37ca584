//! Everything that descends from a process, found in `/proc` and signalled. A subreaper inherits the orphans below it,
//! daemons in sessions of their own too, so nothing that was started leaves the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgrp};

#[derive(Debug)]
pub(super) struct Tree {
    root: i32,
    /// Belongs to somebody else, with all below it.
    foreign: BTreeSet<i32>,
    /// Not signalled itself, while what is below it is.
    spared: Option<i32>,
}

impl Tree {
    /// Everything below `root`.
    pub(super) fn below(root: Pid) -> Self {
        Self { root: root.as_raw(), foreign: BTreeSet::new(), spared: None }
    }

    /// Everything that will be below `root` and is not yet: a process may have been given children by the program that
    /// it was before.
    pub(super) fn new_below(root: Pid) -> Self {
        let mut tree = Self::below(root);
        tree.foreign = tree.members(&processes()).map(|process| process.id).collect();
        tree
    }

    pub(super) fn spare(&mut self, process: Pid) {
        self.spared = Some(process.as_raw());
    }

    /// Sends all of them the signals, and tells how many there were alive. Those that come to be meanwhile may be
    /// missed, and a process that moves to another parent just now may not be counted: look again.
    pub(super) fn signal(&self, signals: &[Signal]) -> usize {
        let processes = processes();
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
        members.iter().filter(|process| process.alive).count()
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
    alive: bool,
}

pub(super) fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_bytes().first().is_some_and(u8::is_ascii_digit))
        // One that ends meanwhile has no file any more.
        .filter_map(|entry| process(&fs::read(entry.path().join("stat")).ok()?))
        .collect()
}

/// `7 (name) S 1 7 …`, where the name may be anything.
fn process(stat: &[u8]) -> Option<Process> {
    let id = stat.iter().position(|byte| *byte == b' ')?;
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let id = str::from_utf8(&stat[..id]).ok()?.parse().ok()?;
    let fields: Vec<_> = str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace().collect();
    let threads: i32 = fields.get(17)?.parse().ok()?;
    Some(Process {
        id,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        // One whose first thread has ended looks dead while the others go on.
        alive: !matches!(*fields.first()?, "Z" | "X") || threads > 1,
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
        assert_eq!(process(stat), Some(Process { id: 12, parent: 3, group: 4, alive: true }));
        let stat = b"12 (a) Z 3 4 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 100 0 0";
        assert_eq!(process(stat), Some(Process { id: 12, parent: 3, group: 4, alive: false }));
        let stat = b"12 (a) Z 3 4 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 2 0 100 0 0";
        assert_eq!(process(stat), Some(Process { id: 12, parent: 3, group: 4, alive: true }));
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
        assert!(tree.signal(&[Signal::SIGTERM]) >= 2);
        kill(shell, Signal::SIGSTOP).unwrap();
        while tree.signal(&[Signal::SIGKILL]) > 0 {
            std::thread::yield_now();
        }
        for id in ids.into_iter().filter(|id| *id != shell.as_raw()) {
            let stat = fs::read(format!("/proc/{id}/stat")).ok().and_then(|stat| process(&stat));
            assert!(stat.is_none_or(|process| !process.alive), "{id} is alive");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn children_that_were_there_before_are_left_alone() {
        let mut before = Command::new("sleep").arg("100").spawn().unwrap();
        let tree = Tree::new_below(Pid::this());
        // Only looked at: other tests of this process have children too.
        let members: Vec<_> = tree.members(&processes()).map(|process| process.id).collect();
        assert!(!members.contains(&before.id().try_into().unwrap()));
        before.kill().unwrap();
        before.wait().unwrap();
    }
}

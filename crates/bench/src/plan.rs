//! What is measured on what, as data: the workloads, who does them, and what we aim for.

use crate::load::{Shape, Then, What};
use crate::program::Program;

/// A workload. Its rows that are durable are compared with each other, and so are those that are not; the first of each is ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Work {
    Disk,
    OwnDeep,
    /// The same, while others want the processors too.
    OwnDeepCrowded,
    OwnWide,
    Hot,
    Semaphore,
    Machines,
    Window,
    Crowd,
    Clients,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Server {
    Tenure,
    TenureInMemory,
    Redis,
    RedisInMemory,
    Etcd,
    Ldlm,
    LdlmInMemory,
    /// One that does nothing but to sync and to answer.
    Bare,
}

/// How it is spoken to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Unary,
    Stream,
    Client,
    /// LDLM's interface, which we have too.
    Ldlm,
    Redis,
    Etcd,
    /// By a program in another language.
    Program(Program),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum On {
    Disk,
    Server(Server, Way),
}

pub(crate) const STREAM: On = On::Server(Server::Tenure, Way::Stream);
pub(crate) const UNARY: On = On::Server(Server::Tenure, Way::Unary);
const CLIENT: On = On::Server(Server::Tenure, Way::Client);
const BY_LDLM: On = On::Server(Server::Tenure, Way::Ldlm);
const IN_PYTHON: On = On::Server(Server::Tenure, Way::Program(Program::Python));
const IN_TYPESCRIPT: On = On::Server(Server::Tenure, Way::Program(Program::TypeScript));
const IN_GO: On = On::Server(Server::Tenure, Way::Program(Program::Go));
const BY_PY_LDLM: On = On::Server(Server::Tenure, Way::Program(Program::PyLdlm));
const STREAM_IN_MEMORY: On = On::Server(Server::TenureInMemory, Way::Stream);
const UNARY_IN_MEMORY: On = On::Server(Server::TenureInMemory, Way::Unary);
pub(crate) const REDIS: On = On::Server(Server::Redis, Way::Redis);
const REDIS_IN_MEMORY: On = On::Server(Server::RedisInMemory, Way::Redis);
pub(crate) const ETCD: On = On::Server(Server::Etcd, Way::Etcd);
pub(crate) const LDLM: On = On::Server(Server::Ldlm, Way::Ldlm);
pub(crate) const LDLM_IN_MEMORY: On = On::Server(Server::LdlmInMemory, Way::Ldlm);
pub(crate) const BARE: On = On::Server(Server::Bare, Way::Stream);
pub(crate) const BARE_UNARY: On = On::Server(Server::Bare, Way::Unary);
const LDLM_BY_PY_LDLM: On = On::Server(Server::Ldlm, Way::Program(Program::PyLdlm));

pub(crate) const ROWS: &[(Work, On)] = &[
    (Work::Disk, On::Disk),
    (Work::OwnDeep, STREAM),
    (Work::OwnDeep, CLIENT),
    (Work::OwnDeep, BY_LDLM),
    (Work::OwnDeep, REDIS),
    (Work::OwnDeep, ETCD),
    (Work::OwnDeep, LDLM),
    (Work::OwnDeep, BARE),
    (Work::OwnDeep, STREAM_IN_MEMORY),
    (Work::OwnDeep, REDIS_IN_MEMORY),
    (Work::OwnDeep, LDLM_IN_MEMORY),
    (Work::OwnDeepCrowded, STREAM),
    (Work::OwnDeepCrowded, REDIS),
    (Work::OwnWide, UNARY),
    (Work::OwnWide, BY_LDLM),
    (Work::OwnWide, REDIS),
    (Work::OwnWide, ETCD),
    (Work::OwnWide, LDLM),
    (Work::OwnWide, BARE_UNARY),
    (Work::OwnWide, UNARY_IN_MEMORY),
    (Work::OwnWide, REDIS_IN_MEMORY),
    (Work::OwnWide, LDLM_IN_MEMORY),
    (Work::Hot, STREAM),
    (Work::Hot, BY_LDLM),
    (Work::Hot, REDIS),
    (Work::Hot, ETCD),
    (Work::Hot, LDLM),
    (Work::Hot, STREAM_IN_MEMORY),
    (Work::Hot, REDIS_IN_MEMORY),
    (Work::Hot, LDLM_IN_MEMORY),
    (Work::Semaphore, STREAM),
    (Work::Semaphore, BY_LDLM),
    (Work::Semaphore, REDIS),
    (Work::Semaphore, LDLM),
    (Work::Semaphore, STREAM_IN_MEMORY),
    (Work::Semaphore, REDIS_IN_MEMORY),
    (Work::Semaphore, LDLM_IN_MEMORY),
    (Work::Machines, STREAM),
    (Work::Machines, STREAM_IN_MEMORY),
    (Work::Window, STREAM),
    (Work::Window, REDIS),
    (Work::Window, STREAM_IN_MEMORY),
    (Work::Window, REDIS_IN_MEMORY),
    (Work::Crowd, STREAM),
    (Work::Clients, CLIENT),
    (Work::Clients, IN_PYTHON),
    (Work::Clients, IN_TYPESCRIPT),
    (Work::Clients, IN_GO),
    (Work::Clients, BY_PY_LDLM),
    (Work::Clients, LDLM_BY_PY_LDLM),
];

/// A ratio that is told by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aim {
    pub(crate) what: &'static str,
    /// Nothing where the ratio is only to be known.
    pub(crate) aim: &'static str,
    pub(crate) ours: (Work, On),
    pub(crate) theirs: (Work, On),
}

pub(crate) const AIMS: &[Aim] = &[
    Aim {
        what: "stream / Redis, own names, 4 x 64",
        aim: "≥ 1.5",
        ours: (Work::OwnDeep, STREAM),
        theirs: (Work::OwnDeep, REDIS),
    },
    Aim {
        what: "stream / Redis, the same, beside threads that compute",
        aim: "",
        ours: (Work::OwnDeepCrowded, STREAM),
        theirs: (Work::OwnDeepCrowded, REDIS),
    },
    Aim {
        what: "stream / etcd, own names, 4 x 64",
        aim: "≥ 20",
        ours: (Work::OwnDeep, STREAM),
        theirs: (Work::OwnDeep, ETCD),
    },
    Aim {
        what: "unary / LDLM in memory, own names, 32",
        aim: "≥ 2",
        ours: (Work::OwnWide, UNARY),
        theirs: (Work::OwnWide, LDLM_IN_MEMORY),
    },
    Aim {
        what: "nothing but the sync, unary / LDLM in memory, own names, 32",
        aim: "",
        ours: (Work::OwnWide, BARE_UNARY),
        theirs: (Work::OwnWide, LDLM_IN_MEMORY),
    },
    Aim {
        what: "LDLM's interface / LDLM in memory, own names, 32",
        aim: "≥ 1.5",
        ours: (Work::OwnWide, BY_LDLM),
        theirs: (Work::OwnWide, LDLM_IN_MEMORY),
    },
    Aim {
        what: "LDLM's interface / LDLM with state file, own names, 32",
        aim: "≥ 10",
        ours: (Work::OwnWide, BY_LDLM),
        theirs: (Work::OwnWide, LDLM),
    },
    Aim {
        what: "hand-overs / syncs of the disk",
        aim: "≥ 0.7",
        ours: (Work::Hot, STREAM),
        theirs: (Work::Disk, On::Disk),
    },
    Aim {
        what: "hand-overs with 100,000 waiting / with 31",
        aim: "",
        ours: (Work::Crowd, STREAM),
        theirs: (Work::Hot, STREAM),
    },
    Aim {
        what: "Python client / py-ldlm, both on Tenure",
        aim: "",
        ours: (Work::Clients, IN_PYTHON),
        theirs: (Work::Clients, BY_PY_LDLM),
    },
    Aim {
        what: "Python client / py-ldlm on LDLM with state file",
        aim: "",
        ours: (Work::Clients, IN_PYTHON),
        theirs: (Work::Clients, LDLM_BY_PY_LDLM),
    },
];

pub(crate) const DEEP: Shape = Shape { connections: 4, tasks: 64 };
const WIDE: Shape = Shape { connections: 32, tasks: 1 };
/// As many who want the same, on few streams.
const DEEP_HOT: Shape = Shape { connections: 4, tasks: 8 };
/// One holds and a few are about to ask again; the others wait.
const CROWD: Shape = Shape { connections: 4, tasks: 25_050 };
pub(crate) const CROWD_WAITING: u64 = 100_000;
pub(crate) const SEMAPHORE_UNITS: u32 = 8;
pub(crate) const MACHINES: u32 = 1_000;
/// Of a length in which they do not fill up.
pub(crate) const WINDOWS: usize = 64;
pub(crate) const WINDOW_MILLIS: u64 = 1_000;
pub(crate) const WINDOW_PLACES: u32 = 10_000;
/// Longer than any run.
pub(crate) const LONG_LEASE_MILLIS: u64 = 3_600_000;

impl On {
    /// The pairs or syncs a second that count as what this can do.
    pub(crate) fn capacity(self) -> Work {
        match self {
            Self::Disk => Work::Disk,
            Self::Server(_, way) => Work::of_own_names(way),
        }
    }

    /// Whether what it says is on the disk when it says it.
    pub(crate) fn is_durable(self) -> bool {
        match self {
            Self::Disk => true,
            Self::Server(server, _) => match server {
                Server::Tenure | Server::Redis | Server::Etcd | Server::Ldlm | Server::Bare => true,
                Server::TenureInMemory | Server::RedisInMemory | Server::LdlmInMemory => false,
            },
        }
    }
}

impl Work {
    pub(crate) const ALL: [Self; 10] = [
        Self::Disk,
        Self::OwnDeep,
        Self::OwnDeepCrowded,
        Self::OwnWide,
        Self::Hot,
        Self::Semaphore,
        Self::Machines,
        Self::Window,
        Self::Crowd,
        Self::Clients,
    ];

    /// With as many connections as go with a way to ask.
    pub(crate) fn of_own_names(way: Way) -> Self {
        if way == Way::Unary { Self::OwnWide } else { Self::OwnDeep }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Disk => "The disk alone: append 256 bytes and sync",
            Self::OwnDeep => "Own names, 4 connections x 64 tasks",
            Self::OwnDeepCrowded => {
                "Own names, 4 connections x 64 tasks, beside a thread that computes for each processor"
            }
            Self::OwnWide => "Own names, 32 connections",
            Self::Hot => "One hot name, 32 tasks",
            Self::Semaphore => "Semaphore of 8 units, 32 tasks",
            Self::Machines => "Pool of 1,000 labelled resources, 4 connections x 64 tasks",
            Self::Window => "Rate windows of 1 s, 4 connections x 64 tasks",
            Self::Crowd => "One hot name, 100,000 waiting",
            Self::Clients => "Clients: own names, 256 tasks in one process",
        }
    }

    /// What is counted, a second.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Disk => "syncs/s",
            Self::Hot | Self::Crowd => "hand-overs/s",
            Self::Window => "places/s",
            Self::Clients => "holds/s",
            _ => "pairs/s",
        }
    }

    /// What waits for a unit occupies a connection of its own, except in our stream.
    pub(crate) fn shape(self, way: Way) -> Shape {
        if let Way::Program(program) = way {
            return program.shape();
        }
        match self {
            Self::Disk => Shape { connections: 1, tasks: 1 },
            Self::OwnDeep | Self::OwnDeepCrowded | Self::Machines | Self::Window | Self::Clients => DEEP,
            Self::OwnWide => WIDE,
            Self::Hot | Self::Semaphore if way == Way::Stream => DEEP_HOT,
            Self::Hot | Self::Semaphore => WIDE,
            Self::Crowd => CROWD,
        }
    }

    pub(crate) fn then(self) -> Then {
        if self == Self::Crowd { Then::Leave } else { Then::Finish }
    }

    /// The pool that all share in this run: a new one each time, where nothing is left of another run.
    pub(crate) fn pool(self, run: usize) -> String {
        format!("shared-{run}")
    }

    pub(crate) fn what(self, run: usize, connection: usize, task: usize) -> What {
        match self {
            Self::Disk | Self::OwnDeep | Self::OwnDeepCrowded | Self::OwnWide | Self::Clients => {
                What::Own(format!("lock-{connection}-{task}"))
            }
            Self::Hot | Self::Crowd => What::Shared { name: self.pool(run), units: 1 },
            Self::Semaphore => What::Shared { name: self.pool(run), units: SEMAPHORE_UNITS },
            Self::Machines => What::Chosen { pool: self.pool(run), select: selector(connection, task) },
            Self::Window => What::Place(format!("{}-{}", self.pool(run), task % WINDOWS)),
        }
    }
}

/// Each fits 10 to 100 machines, and what all ask for together is there.
fn selector(connection: usize, task: usize) -> String {
    let zone = task % 10;
    match connection {
        0 => format!("zone == z{zone}"),
        1 => format!("zone == z{zone} && mem >= 48"),
        2 => format!("zone == z{zone} && !gpu"),
        _ => format!("(zone == z{zone} || zone == z{}) && mem <= 40 && mem > 8", (zone + 5) % 10),
    }
}

impl On {
    pub(crate) fn who(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Server(Server::Tenure, Way::Unary) => "Tenure, unary calls",
            Self::Server(Server::Tenure, Way::Stream) => "Tenure, stream",
            Self::Server(Server::Tenure, Way::Client) => "Tenure, Rust client",
            Self::Server(Server::Tenure, Way::Program(Program::Python)) => "Tenure, Python client",
            Self::Server(Server::Tenure, Way::Program(Program::TypeScript)) => "Tenure, TypeScript client",
            Self::Server(Server::Tenure, Way::Program(Program::Go)) => "Tenure, Go client",
            Self::Server(Server::Tenure, Way::Program(Program::PyLdlm)) => "Tenure, py-ldlm",
            Self::Server(Server::Ldlm, Way::Program(_)) => "LDLM with state file, py-ldlm",
            Self::Server(Server::Tenure, _) => "Tenure, LDLM's interface",
            Self::Server(Server::TenureInMemory, Way::Unary) => "Tenure in memory, unary calls",
            Self::Server(Server::TenureInMemory, _) => "Tenure in memory, stream",
            Self::Server(Server::Redis, _) => "Redis",
            Self::Server(Server::RedisInMemory, _) => "Redis in memory",
            Self::Server(Server::Etcd, _) => "etcd",
            Self::Server(Server::Ldlm, _) => "LDLM with state file",
            Self::Server(Server::LdlmInMemory, _) => "LDLM in memory",
            Self::Server(Server::Bare, Way::Unary) => "nothing but the sync, unary calls",
            Self::Server(Server::Bare, _) => "nothing but the sync",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::LOADS;

    #[test]
    fn the_capacity_of_whatever_is_loaded_is_measured() {
        for load in LOADS {
            for on in [load.on, load.of] {
                assert!(ROWS.contains(&(on.capacity(), on)), "{load:?}");
            }
        }
    }

    #[test]
    fn both_sides_of_every_ratio_are_measured() {
        for aim in AIMS {
            assert!([aim.ours, aim.theirs].iter().all(|side| ROWS.contains(side)), "{aim:?}");
        }
    }

    #[test]
    fn rows_of_a_table_have_names_of_their_own() {
        for (number, &(work, on)) in ROWS.iter().enumerate() {
            let is_same = |&&(its_work, its_on): &&(Work, On)| its_work == work && its_on.who() == on.who();
            assert_eq!(ROWS[number..].iter().filter(is_same).count(), 1, "{work:?} {on:?}");
        }
    }
}

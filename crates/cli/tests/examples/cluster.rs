//! A PostgreSQL of one test's own: its data and its socket are in a folder, and go with it.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::job::{Job, until};
use crate::support::tools;

/// The one who owns nothing. PostgreSQL refuses to be run by root.
const NOBODY: u32 = 65534;

pub(crate) struct Cluster {
    server: Child,
    folder: tempfile::TempDir,
    programs: PathBuf,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let programs = tools::postgresql();
        let folder = tempfile::tempdir().unwrap();
        let is_root = fs::metadata(folder.path()).unwrap().uid() == 0;
        if is_root {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let command = |program: &str| {
            let program = programs.join(program);
            if !is_root {
                return Command::new(program);
            }
            let mut command = Command::new("setpriv");
            command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups"]).arg(program);
            command
        };
        let data = folder.path().join("data");
        // What is lost with the machine need not be synced.
        let mut made = command("initdb");
        made.args(["--username=tenure", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--pgdata"]);
        let made = made.arg(&data).current_dir(folder.path()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        // No port: those who may use the folder may use the socket in it.
        let mut server = command("postgres");
        server.args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=8MB", "-D"]).arg(&data);
        server.arg("-k").arg(folder.path()).current_dir(folder.path());
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut cluster = Self { server, folder, programs };
        until("PostgreSQL is ready", || {
            let log = || fs::read_to_string(cluster.folder.path().join("log")).unwrap();
            assert!(cluster.server.try_wait().unwrap().is_none(), "PostgreSQL has ended: {}", log());
            let mut ready = Command::new(cluster.programs.join("pg_isready"));
            ready.arg("--quiet").envs(cluster.environment()).status().unwrap().success()
        });
        cluster
    }

    /// What tells its clients where it is.
    pub(crate) fn environment(&self) -> [(&'static str, String); 3] {
        let folder = self.folder.path().to_str().unwrap().to_owned();
        [("PGHOST", folder), ("PGUSER", "tenure".to_owned()), ("PGDATABASE", "postgres".to_owned())]
    }

    /// A connection that says what comes of each statement: rows, a tag, or what went wrong with its code.
    pub(crate) fn connect(&self) -> Job {
        let mut psql = Command::new("psql");
        psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--set=VERBOSITY=sqlstate"]).envs(self.environment());
        Job::start(&psql)
    }

    /// All that is said by a connection that is told this, errors last.
    pub(crate) fn says(&self, sql: &str) -> String {
        let mut connection = self.connect();
        connection.hears(sql);
        connection.hears("\n");
        connection.hears_no_more();
        let ended = connection.ends();
        (ended.stdout + &ended.stderr).trim_end().to_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Those that serve its connections end with it.
        let id = Pid::from_raw(self.server.id().try_into().expect("process ids are positive"));
        let _ = kill(id, Signal::SIGINT);
        let _ = self.server.wait();
    }
}

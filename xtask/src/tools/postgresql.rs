//! A link to the programs of PostgreSQL's server, which Debian keeps where no `PATH` leads.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use super::{install, succeeds};
use crate::root;

/// Makes the way to them, or gives false where there are none and none can be installed.
pub(super) fn make() -> Result<bool, String> {
    let link = root().join("target/tools/postgresql");
    let has_client = succeeds(Command::new("psql").arg("--version"));
    if has_client && link.join("initdb").exists() {
        return Ok(true);
    }
    let mut found = programs();
    if found.is_none() || !has_client {
        if let Err(problem) = install("postgresql", &["postgresql"]) {
            eprintln!("xtask: {problem}: the tests of fencing with PostgreSQL are skipped");
            return Ok(false);
        }
        found = programs();
    }
    let found = found.ok_or("PostgreSQL is installed, and its initdb is nowhere to be found")?;
    let problem = |error| format!("{}: {error}", link.display());
    // It may lead to a version that has been removed.
    if link.is_symlink() {
        fs::remove_file(&link).map_err(problem)?;
    }
    fs::create_dir_all(link.parent().expect("it lies in a folder")).map_err(problem)?;
    symlink(found, &link).map_err(problem)?;
    Ok(true)
}

/// Where `initdb` and `postgres` are: in the `PATH` or, with Debian, in a folder of their version, of which the newest counts.
fn programs() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|folder| Some((folder.file_name().to_str()?.parse().ok()?, folder.path().join("bin"))))
        .collect();
    debian.sort();
    let newest_first = debian.into_iter().rev().map(|(_, folder)| folder);
    env::split_paths(&path)
        .chain(newest_first)
        .find(|folder| ["initdb", "postgres", "pg_isready"].iter().all(|program| folder.join(program).exists()))
}

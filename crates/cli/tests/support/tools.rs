//! What `cargo xtask tools` has put into `target/tools`: the libraries of LDLM's clients and of Temporal's, as they
//! are published.

use std::path::{Path, PathBuf};

/// A Python that has py-ldlm, and Temporal's SDK.
pub(crate) fn python() -> PathBuf {
    made("python/bin/python")
}

/// Temporal's command line, which is its development server too.
pub(crate) fn temporal() -> PathBuf {
    made("python/bin/temporal")
}

/// Where an older py-ldlm lies, for `PYTHONPATH`.
pub(crate) fn older_python() -> PathBuf {
    made("python/older")
}

/// Where Node finds the libraries for gRPC, for `NODE_PATH`.
pub(crate) fn node() -> PathBuf {
    made("node/node_modules")
}

/// Where Node finds what moves a browser, for `NODE_PATH`.
pub(crate) fn browser() -> PathBuf {
    made("browser/node_modules")
}

/// The client in TypeScript with its helpers for workflows, and what uses them, built.
pub(crate) fn typescript(path: &str) -> PathBuf {
    made("typescript/built").join(path)
}

/// The folder with the programs of PostgreSQL's server, which are not where others are.
pub(crate) fn postgresql() -> PathBuf {
    made("postgresql")
}

/// A program that was built from Go.
pub(crate) fn go(program: &str) -> PathBuf {
    made(&format!("go/{program}"))
}

/// The same for those who can do without.
pub(crate) fn go_if_made(program: &str) -> Option<PathBuf> {
    Some(tool(&format!("go/{program}"))).filter(|path| path.exists())
}

fn tool(path: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("it lies in the workspace");
    workspace.join("target/tools").join(path)
}

fn made(path: &str) -> PathBuf {
    let path = tool(path);
    assert!(path.exists(), "{} is missing: `cargo xtask tools` makes it", path.display());
    path
}

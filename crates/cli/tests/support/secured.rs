//! A server that wants a password and a client's certificate. For test binaries that have `certificates` too.

use tempfile::TempDir;

use crate::certificates::Authority;
use crate::support::{Process, command};

pub(crate) const PASSWORD: &str = "s3:cret";

/// With a folder of what a client needs for it.
pub(crate) fn secured() -> (Process, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (authority, clients) = (Authority::new("ours"), Authority::new("our clients"));
    authority.write(folder.path(), "ca.crt");
    clients.write(folder.path(), "clients.crt");
    authority.sign().write(folder.path(), "server");
    clients.sign().write(folder.path(), "client");
    let mut serve = command(&folder.path().join("data"));
    serve.args(["--durability", "memory", "--tls-cert", "server.crt", "--tls-key", "server.key"]);
    serve.args(["--client-ca", "clients.crt"]).env("TENURE_PASSWORD", PASSWORD).current_dir(folder.path());
    (Process::spawn(&mut serve), folder)
}

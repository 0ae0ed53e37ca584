//! A server that wants a password and a client's certificate, and the TypeScript client at its door.

use tempfile::TempDir;

use crate::certificates::Authority;
use crate::script;
use crate::support::job::Job;
use crate::support::tool::Ended;
use crate::support::{Process, command};

#[test]
fn the_client_in_typescript_is_let_in_by_a_password_and_a_certificate() {
    let (server, folder) = secured();
    let mut script = script("client/secure.js", &[]);
    script.env("SERVER", server.grpc.trim_start_matches("https://")).env("PASSWORD", PASSWORD);
    let Ended { code, stdout, stderr } = Job::start(script.env("FOLDER", folder.path())).ends();
    assert_eq!((code, stdout.as_str()), (Some(0), "all is as it should be\n"), "{stderr}");
}

const PASSWORD: &str = "s3:cret";

/// With a folder of what a client needs for it.
fn secured() -> (Process, TempDir) {
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

//! A server that wants a password and a client's certificate, and the Python client at its door.

use crate::python;
use crate::secured::{PASSWORD, secured};
use crate::support::job::Job;
use crate::support::tool::Ended;

#[test]
fn the_client_in_python_is_let_in_by_a_password_and_a_certificate() {
    let (server, folder) = secured();
    let mut script = python("clients/python/tests/client/secure.py", &[]);
    script.env("SERVER", server.grpc.trim_start_matches("https://")).env("PASSWORD", PASSWORD);
    let Ended { code, stdout, stderr } = Job::start(script.env("FOLDER", folder.path())).ends();
    assert_eq!((code, stdout.as_str()), (Some(0), "all is as it should be\n"), "{stderr}");
}

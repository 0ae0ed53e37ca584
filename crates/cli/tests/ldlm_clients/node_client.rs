//! Node over the public proto, as LDLM's documentation shows it.

use std::process::Command;

use crate::support::tools;
use crate::{assert_sees, file, proto, server};

#[test]
fn every_call_works_and_an_error_is_there_only_if_there_is_one() {
    let (server, _data) = server();
    let mut script = Command::new("node");
    script.arg(file("node/calls.js")).arg(&server.grpc).arg(proto()).env("NODE_PATH", tools::node());
    let facts = [
        "Lock and TryLock",
        "Renew, RefreshLock and Unlock",
        "errors are there only if there is one, with their names",
        "a connection that is closed frees what it held",
    ];
    assert_sees(&script, &facts);
}

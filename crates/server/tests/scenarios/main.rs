//! The scenarios through the gRPC API and through the REST API of a server within the test, whose clock the
//! scenario moves.

mod actor;
mod face;
mod grpc;
mod host;
mod rest;
mod stage;
mod wire;

use std::process::ExitCode;

use tenure_scenario::{run_tests, trials};

fn main() -> ExitCode {
    let mut all = trials("grpc", async |scenario| stage::OnServer::<grpc::Grpc>::new(scenario).await);
    all.extend(trials("rest", async |scenario| stage::OnServer::<rest::Rest>::new(scenario).await));
    run_tests(all)
}

//! The scenarios through the gRPC API, the REST API and the command line of a server within the test, whose clock the
//! scenario moves.

mod actor;
mod cli;
mod face;
mod grpc;
mod host;
mod rest;
mod stage;
mod wire;

use std::process::ExitCode;

use tenure_scenario::{Scenario, run_tests, trials};

fn main() -> ExitCode {
    let mut all = trials("grpc", |_| true, async |scenario| stage::OnServer::<grpc::Grpc>::new(scenario).await);
    all.extend(trials("rest", |_| true, async |scenario| stage::OnServer::<rest::Rest>::new(scenario).await));
    // A command is over when it is done, so it has no session to speak of; `run` and `elect` have tests of their own.
    let sessionless = |scenario: &Scenario| !scenario.has_sessions();
    all.extend(trials("cli", sessionless, async |scenario| stage::OnServer::<cli::Cli>::new(scenario).await));
    run_tests(all)
}

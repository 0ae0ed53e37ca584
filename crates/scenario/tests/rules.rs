//! The scenarios on the rules themselves.

use std::process::ExitCode;

use tenure_scenario::{Rules, run_tests, trials};

fn main() -> ExitCode {
    run_tests(trials("rules", |_| true, async |scenario| Rules::new(scenario)))
}

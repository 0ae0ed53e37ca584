//! Scenarios: behaviour as text with time as a column, run against the rules, every engine and every face.
//!
//! The format is described in `scenarios/README.md`. Here are its parser, the runner, the trait [`Stage`] that
//! each face implements, and the stage of the rules themselves. Stages that need an engine or a server live in
//! those crates' tests.

mod action;
mod harness;
mod outcome;
mod parse;
mod rules;
mod runner;
mod stage;
mod text;
pub mod translate;

pub use action::*;
pub use harness::{run_tests, run_waiting_tests, trials};
pub use outcome::{Expected, Outcome};
pub use parse::{Scenario, Step, What, parse};
pub use rules::Rules;
pub use runner::run;
pub use stage::Stage;
pub use text::{Millis, duration_text};

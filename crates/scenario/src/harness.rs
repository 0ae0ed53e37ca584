//! Every scenario of the folder as a test of its own.

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::parse::{Scenario, parse};
use crate::runner::run;
use crate::stage::Stage;

/// More do not get done faster on two cores.
const WAITING_TESTS: usize = 8;

/// One test per scenario that this face can play, each on a stage of its own.
pub fn trials<S: Stage>(
    face: &'static str,
    can_play: fn(&Scenario) -> bool,
    stage: impl AsyncFn(&Scenario) -> S + Copy + Send + 'static,
) -> Vec<Trial> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder `scenarios` is part of the repository")
        .map(|entry| entry.expect("its entries can be listed").path())
        .filter(|path| path.extension().is_some_and(|it| it == "txt"))
        .collect();
    files.sort();
    files.iter().flat_map(|file| of_file(file, face, can_play, stage)).collect()
}

fn of_file<S: Stage>(
    file: &Path,
    face: &'static str,
    can_play: fn(&Scenario) -> bool,
    stage: impl AsyncFn(&Scenario) -> S + Copy + Send + 'static,
) -> Vec<Trial> {
    let topic = file.file_stem().unwrap_or_default().to_string_lossy();
    let text = std::fs::read_to_string(file).expect("a scenario file is readable text");
    let scenarios = match parse(&topic, &text) {
        Ok(scenarios) => scenarios,
        Err(why) => return vec![Trial::test(topic, || Err(why.into())).with_kind(face)],
    };
    scenarios
        .into_iter()
        .filter(|scenario| scenario.only.as_ref().is_none_or(|faces| faces.iter().any(|it| it == face)))
        .filter(can_play)
        .map(|scenario| {
            let name = format!("{}: {}", scenario.topic, scenario.claim);
            Trial::test(name, move || play(&scenario, face, stage).map_err(Into::into)).with_kind(face)
        })
        .collect()
}

fn play<S: Stage>(scenario: &Scenario, face: &str, stage: impl AsyncFn(&Scenario) -> S) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime for one test").block_on(async {
        let mut stage = stage(scenario).await;
        run(scenario, face, &mut stage).await
    })
}

/// The `main` of a test without the usual harness; takes the usual arguments.
pub fn run_tests(trials: Vec<Trial>) -> ExitCode {
    run_tests_with(Arguments::from_args(), trials)
}

/// The same for tests that mostly wait for somebody else: many at a time, unless told otherwise.
pub fn run_waiting_tests(trials: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(WAITING_TESTS);
    run_tests_with(arguments, trials)
}

fn run_tests_with(arguments: Arguments, trials: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&arguments, trials).exit_code()
}

//! The project's own commands: `cargo xtask test`, `tools`, `sim`, `fencing`, `fuzz`, `fix`, `bench`, `load`. Only the standard
//! library, so that it builds in a second.

mod tools;

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

const HELP: &str = "\
Usage: cargo xtask <COMMAND>

Commands:
  test              Check formatting, lints and documentation, then run every test (what CI runs)
  tools             Put what the tests need besides Rust into target/tools; `test` begins with it
  sim               Run the simulator for a while; `cargo xtask sim --help` has the options
  fencing           Stop, cut off and kill the writers of sets that a lock guards, and count what is lost; --minutes N (10)
  fuzz              Feed every decoder with what it does not expect; --minutes N (10), of each
  fix               Format, and apply what clippy can fix
  bench [NAME…]     Measure the server beside its peers, and its clients; --write puts it into docs/benchmarks.md; --help has more
  bench rules       Measure the rules alone: a release-and-grant with many waiting, the memory of a million holds
  load [NAME…]      Load the server with crowds and bad guests, check what it does, and print a table; --small is quick
  bench --temporal  Measure pools in Temporal beside one that is asked by signals; needs what `tools` makes
";

/// One binary for all tests.
const TEMPORAL: &str = "tenure/temporal";
/// Not in release, so that an overflow is seen.
const FUZZING: &[&[&str]] = &[
    &[
        "test",
        "--locked",
        "--package",
        "tenure-core",
        "--features",
        "serde",
        "--test",
        "fuzzing",
        "--test",
        "codec",
        "any_",
    ],
    &["test", "--locked", "--package", "tenure-scenario", "--package", "tenure-server", "--lib", "any_"],
    &["test", "--locked", "--package", "tenure-script", "--test", "scripts", "any_"],
    &["test", "--locked", "--package", "tenure-engine", "--test", "storage", "any_"],
    &["test", "--locked", "--package", "tenure", "--bins", "any_"],
    &["test", "--locked", "--package", "tenure-temporal", "--lib", "any_"],
];
const FENCING: &[&str] = &["test", "--release", "--locked", "--package", "tenure", "--test", "fencing"];

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let done = match arguments.next().as_deref() {
        Some("test") => test(),
        Some("tools") => tools::make().map(drop),
        Some("fencing") => for_minutes("TENURE_FENCING_MINUTES", &arguments.collect::<Vec<_>>(), &[FENCING]),
        Some("fuzz") => for_minutes("TENURE_FUZZ_MINUTES", &arguments.collect::<Vec<_>>(), FUZZING),
        Some("fix") => fix(),
        Some("sim") => sim(&arguments.collect::<Vec<_>>()),
        Some("bench") => bench(&arguments.collect::<Vec<_>>()),
        // The same program, which knows the word.
        Some("load") => bench(&std::iter::once("load".to_owned()).chain(arguments).collect::<Vec<_>>()),
        Some("--help" | "-h" | "help") => {
            print!("{HELP}");
            Ok(())
        }
        other => {
            if let Some(other) = other {
                eprintln!("xtask: there is no command `{other}`\n");
            }
            eprint!("{HELP}");
            return ExitCode::from(64);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(step) => {
            eprintln!("xtask: failed: {step}");
            ExitCode::FAILURE
        }
    }
}

fn test() -> Result<(), String> {
    let missing = tools::make()?;
    cargo(&["fmt", "--all", "--check"])?;
    // What people build first is built without Temporal.
    cargo(&["clippy", "--package", "tenure", "--locked", "--", "-D", "warnings"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--features", TEMPORAL, "--locked", "--", "-D", "warnings"])?;
    cargo(&["test", "--workspace", "--features", TEMPORAL, "--locked", "--doc"])?;
    let mut run = vec!["test", "--workspace", "--features", TEMPORAL, "--locked"];
    run.extend(["--lib", "--bins", "--tests", "--exclude", "xtask"]);
    run.push("--");
    if missing.go {
        run.extend(["--skip", "go_client::", "--skip", "porcupine", "--skip", "h2spec"]);
    }
    if missing.postgresql {
        run.extend(["--skip", "postgresql::"]);
    }
    cargo(&run)
}

/// Tests that go on for as long as a variable says.
fn for_minutes(variable: &str, arguments: &[String], tests: &[&[&str]]) -> Result<(), String> {
    let minutes = match arguments {
        [] => "10",
        [option, minutes] if option == "--minutes" && minutes.parse::<f64>().is_ok() => minutes,
        _ => return Err("the only option is --minutes N".into()),
    };
    let run = |test: &&[&str]| cargo_with(test, &[(variable, minutes)]);
    tests.iter().try_for_each(run)
}

fn fix() -> Result<(), String> {
    let clippy = ["clippy", "--workspace", "--all-targets", "--features", TEMPORAL];
    cargo(&[&clippy[..], &["--fix", "--allow-dirty", "--allow-staged"]].concat())?;
    cargo(&["fmt", "--all"])
}

fn sim(arguments: &[String]) -> Result<(), String> {
    let mut run = vec!["run", "--quiet", "--release", "--locked", "--package", "tenure-sim", "--"];
    run.extend(arguments.iter().map(String::as_str));
    cargo(&run)
}

fn bench(arguments: &[String]) -> Result<(), String> {
    if arguments == ["rules"] {
        return cargo(&["bench", "--locked", "--package", "tenure-core"]);
    }
    let mut build = vec!["build", "--release", "--locked", "--package", "tenure", "--package", "tenure-bench"];
    if arguments.iter().any(|argument| argument == "--temporal") {
        build.extend(["--features", TEMPORAL]);
    }
    cargo(&build)?;
    // Not by cargo, which would build what both packages need once more for the one.
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let folder = this.parent().and_then(Path::parent).ok_or("xtask is not in cargo's target folder")?;
    let program = folder.join("release/tenure-bench");
    match Command::new(&program).args(arguments).current_dir(root()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} ({status})", program.display())),
        Err(error) => Err(format!("{} ({error})", program.display())),
    }
}

/// Runs cargo in the workspace's root and shows what is being done.
fn cargo(arguments: &[&str]) -> Result<(), String> {
    cargo_with(arguments, &[])
}

fn cargo_with(arguments: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
    let shown = format!("cargo {}", arguments.join(" "));
    eprintln!("xtask: {shown}");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(arguments).envs(variables.iter().copied()).current_dir(root()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown} ({status})")),
        Err(error) => Err(format!("{shown} ({error})")),
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

//! `cargo xtask sim`: many seeds, one after another, until the time is up or one of them fails.

use std::fs::File;
use std::io::Write as _;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure_sim::{Counts, Options, Plan, run, shrink};

const HELP: &str = "\
Usage: cargo xtask sim [OPTIONS]

Options:
  --minutes N  How long to go on [default: 1]
  --seeds N    How many seeds at most
  --from N     The first seed [default: the time in milliseconds]
  --seed N     Only this seed, with a trace of every step
  --file PATH  Only this plan, with a trace of every step
";

struct Arguments {
    minutes: f64,
    seeds: u64,
    from: u64,
    seed: Option<u64>,
    file: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("sim: {error}\n\n{HELP}");
            return ExitCode::from(64);
        }
    };
    // A run that panics says so in its outcome; the hook would say it again for every attempt to shorten it.
    std::panic::set_hook(Box::new(|_| {}));
    let done = match (&arguments.seed, &arguments.file) {
        (Some(seed), _) => Ok(show(&Plan::from_seed(*seed))),
        (None, Some(file)) => read(file).map(|plan| show(&plan)),
        (None, None) => Ok(search(&arguments)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sim: {error}");
            ExitCode::from(66)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let from = u64::try_from(now.as_millis()).expect("milliseconds since 1970 fit in 64 bits");
    let mut parsed = Arguments { minutes: 1.0, seeds: u64::MAX, from, seed: None, file: None };
    while let Some(option) = arguments.next() {
        if option == "--help" || option == "-h" {
            return Ok(None);
        }
        let value = arguments.next().ok_or_else(|| format!("`{option}` needs a value"))?;
        let number = || value.parse().map_err(|_| format!("`{value}` is no number"));
        match option.as_str() {
            "--minutes" => parsed.minutes = value.parse().map_err(|_| format!("`{value}` is no number"))?,
            "--seeds" => parsed.seeds = number()?,
            "--from" => parsed.from = number()?,
            "--seed" => parsed.seed = Some(number()?),
            "--file" => parsed.file = Some(value.into()),
            _ => return Err(format!("there is no option `{option}`")),
        }
    }
    Ok(Some(parsed))
}

fn read(file: &Path) -> Result<Plan, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Plan::from_text(&text).map_err(|error| format!("{}: {error}", file.display()))
}

/// One plan, step by step. Gives whether all was well.
fn show(plan: &Plan) -> bool {
    let ended = run(plan, Options { trace: true, ..Options::default() });
    print!("{}", ended.trace);
    println!("{}", ended.counts);
    ended.violation.is_none()
}

/// Seeds one after another, on every core there is.
fn search(arguments: &Arguments) -> bool {
    let started = Instant::now();
    let enough = Duration::from_secs_f64(arguments.minutes * 60.0);
    let taken = AtomicU64::new(0);
    let failed = Mutex::new(None);
    let total = Mutex::new(Counts::default());
    let work = || {
        let mut counts = Counts::default();
        while started.elapsed() < enough && lock(&failed).is_none() {
            let number = taken.fetch_add(1, Ordering::Relaxed);
            if number >= arguments.seeds {
                break;
            }
            let plan = Plan::from_seed(arguments.from.wrapping_add(number));
            let ended = run(&plan, Options::default());
            counts.add(&ended.counts);
            if let Some(violation) = ended.violation {
                lock(&failed).get_or_insert((plan, violation));
            }
            if number > 0 && number.is_multiple_of(10_000) {
                eprintln!("{number} seeds in {} s", started.elapsed().as_secs());
            }
        }
        lock(&total).add(&counts);
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    println!("from seed {}, {} s on {threads} cores", arguments.from, started.elapsed().as_secs());
    print!("{}", lock(&total));
    match lock(&failed).take() {
        None => true,
        Some((plan, violation)) => {
            eprintln!("seed {} fails: {violation}\nshortening it…", plan.seed);
            report(&plan);
            false
        }
    }
}

/// What is locked here is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is left of a failing plan when everything needless is gone, with a trace, and as text to be kept.
fn report(plan: &Plan) {
    let Some((shorter, violation)) = shrink(plan, Options::default()) else { return };
    let ended = run(&shorter, Options { trace: true, ..Options::default() });
    println!("{}", ended.trace);
    println!("{violation}");
    match keep(&shorter) {
        Ok(file) => {
            println!("\nthe tests play it from now on, and docs/reliability.md is to tell of it: {}", file.display());
        }
        Err(why) => println!("\n{why}; keep this as a file in crates/sim/tests/seeds:\n\n{}", shorter.to_text()),
    }
}

/// Puts it among the plans that the tests play for ever. There are none if the program is not where it was built.
fn keep(plan: &Plan) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds");
    let file = folder.join(format!("seed-{}.json", plan.seed));
    // One that is there is another plan, of the generator as it was or of another bug.
    let mut new = File::create_new(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    new.write_all(plan.to_text().as_bytes()).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

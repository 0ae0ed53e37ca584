//! Feeds a decoder with what it does not expect: inputs of a corpus in the repository, and mutations of them. A panic, an
//! overflow, a hang or a mountain of memory is a failure; the input is shrunk and put into the corpus, so that it is tried
//! for ever.
//!
//! There is no instrumentation, so it works with any stable compiler. Instead a decoder tells in a word what it made of the
//! input, and an input with a new word is mutated further: error messages lead the way into it. `cargo xtask fuzz --minutes N`
//! goes on for longer than the tests do.

mod mutate;

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub use mutate::Random;
use mutate::mutate;

/// Goes on for so long with each decoder, from another seed each time, instead of for a number of inputs.
const MINUTES: &str = "TENURE_FUZZ_MINUTES";
/// If set, some of the inputs that a decoder had a new word for are put into the corpus, without what it says the same word
/// without.
const KEEP: &str = "TENURE_FUZZ_KEEP";
/// What the tests have time for.
const INPUTS: u64 = 30_000;
/// Larger ones only take longer: what is bounded by size is tested by size elsewhere.
const BYTES_MAX: usize = 32 * 1024;
/// Of a whole test process. A decoder that makes a few bytes into gigabytes is found, and nothing else is.
const PEAK_KB_MAX: u64 = 1024 * 1024;
/// No input takes a second, even on a busy machine.
const HANG: Duration = Duration::from_secs(60);
/// Of those that are put into the corpus at once: people look through it.
const KEPT_MAX: usize = 24;
/// Of one of them: some batches of a journal, or entries of the log, are a few hundred bytes each.
const KEPT_BYTES_MAX: usize = 4 * 1024;
const SHRINKS_MAX: usize = 2_000;
const WORDS_MAX: usize = 20_000;

/// Tries the decoder with its corpus and with mutations of that. `samples` join the corpus; `dictionary` is what its
/// inputs are made of. The decoder tells in a word what it made of the input, without what the input says.
pub fn fuzz(name: &str, samples: &[Vec<u8>], dictionary: &[&str], decoder: impl Fn(&[u8]) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let budget = match std::env::var(MINUTES) {
        Ok(minutes) => Budget::Time(Duration::from_secs_f64(60.0 * minutes.parse::<f64>().expect("minutes"))),
        Err(_) => Budget::Inputs(INPUTS),
    };
    let seed = match budget {
        Budget::Time(_) => std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()),
        Budget::Inputs(_) => 6,
    };
    let mut fuzzer = Fuzzer::new(name, &folder, samples, dictionary, seed);
    fuzzer.keeps = std::env::var_os(KEEP).is_some();
    if let Err(found) = fuzzer.run(budget, &decoder) {
        panic!("{name} panics with the input in {} (seed {seed})", found.display());
    }
    eprintln!("{name}: {} inputs, {} outcomes, seed {seed}", fuzzer.tried, fuzzer.words.len());
    if let Some(peak) = peak_kb() {
        assert!(peak < PEAK_KB_MAX, "{name} took up to {peak} kB");
    }
}

/// For how long.
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    Inputs(u64),
    Time(Duration),
}

/// One decoder's inputs.
#[derive(Debug)]
struct Fuzzer<'a> {
    name: &'a str,
    folder: &'a Path,
    dictionary: &'a [&'a str],
    inputs: Vec<Vec<u8>>,
    /// The first so many are samples, and those behind them are in the corpus already.
    samples: usize,
    /// What was heard so far.
    words: HashSet<String>,
    random: Random,
    tried: u64,
    keeps: bool,
    last: Arc<Mutex<Last>>,
}

/// Where an input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Samples,
    Corpus,
    Mutation,
}

/// What is being tried.
#[derive(Debug)]
struct Last {
    input: Vec<u8>,
    since: Instant,
    over: bool,
}

impl<'a> Fuzzer<'a> {
    fn new(name: &'a str, folder: &'a Path, samples: &[Vec<u8>], dictionary: &'a [&'a str], seed: u64) -> Self {
        let mut files: Vec<_> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        // The same inputs in the same order on every machine.
        files.sort();
        let files = files.iter().map(|file| fs::read(file).expect("the corpus can be read"));
        let inputs: Vec<_> = samples.iter().cloned().chain(files).collect();
        assert!(!inputs.is_empty(), "{name} has nothing to begin with");
        let last = Arc::new(Mutex::new(Last { input: Vec::new(), since: Instant::now(), over: false }));
        let (words, random) = (HashSet::new(), Random::new(seed));
        let samples = samples.len();
        Self { name, folder, dictionary, inputs, samples, words, random, tried: 0, keeps: false, last }
    }

    /// The file with an input that makes it panic, if there is one.
    fn run(&mut self, budget: Budget, decoder: &impl Fn(&[u8]) -> String) -> Result<(), PathBuf> {
        self.watch_for_hangs();
        let done = self.try_all(budget, decoder);
        self.last.lock().expect("nobody panics with it").over = true;
        done
    }

    fn try_all(&mut self, budget: Budget, decoder: &impl Fn(&[u8]) -> String) -> Result<(), PathBuf> {
        let begun = Instant::now();
        for at in 0..self.inputs.len() {
            let origin = if at < self.samples { Origin::Samples } else { Origin::Corpus };
            self.attempt(self.inputs[at].clone(), origin, decoder)?;
        }
        while match budget {
            Budget::Inputs(inputs) => self.tried < inputs,
            Budget::Time(time) => begun.elapsed() < time,
        } {
            let mut input = self.inputs[self.random.below(self.inputs.len())].clone();
            for _ in 0..=self.random.below(4) {
                mutate(&mut self.random, &mut input, &self.inputs, self.dictionary);
            }
            input.truncate(BYTES_MAX);
            self.attempt(input, Origin::Mutation, decoder)?;
        }
        Ok(())
    }

    fn attempt(&mut self, input: Vec<u8>, origin: Origin, decoder: &impl Fn(&[u8]) -> String) -> Result<(), PathBuf> {
        self.tried += 1;
        {
            let mut last = self.last.lock().expect("nobody panics with it");
            last.input.clone_from(&input);
            last.since = Instant::now();
        }
        // None if it panics.
        let hear = |input: &[u8]| catch_unwind(AssertUnwindSafe(|| decoder(input))).ok();
        let Some(heard) = hear(&input) else {
            let input = shrink(input, |less| hear(less).is_none());
            return Err(save(self.folder, "found", &input));
        };
        if self.words.len() < WORDS_MAX && self.words.insert(heard.clone()) {
            if self.keeps && self.words.len() <= KEPT_MAX && origin != Origin::Corpus {
                let mut kept = input.clone();
                // A sample is what somebody may well say, and stays that.
                if origin == Origin::Mutation {
                    kept = shrink(kept, |less| hear(less).as_ref() == Some(&heard));
                }
                if kept.len() <= KEPT_BYTES_MAX {
                    save(self.folder, "new", &kept);
                }
            }
            if origin == Origin::Mutation {
                self.inputs.push(input);
            }
        }
        Ok(())
    }

    /// Nothing can end a decoder that does not end, but the input can be told.
    fn watch_for_hangs(&self) {
        let (last, name, folder) = (self.last.clone(), self.name.to_owned(), self.folder.to_owned());
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let last = last.lock().expect("nobody panics with it");
                if last.over {
                    return;
                }
                if last.since.elapsed() > HANG {
                    eprintln!("{name} hangs with the input in {}", save(&folder, "found", &last.input).display());
                    std::process::abort();
                }
            }
        });
    }
}

/// Leaves out what it is the same without.
fn shrink(mut input: Vec<u8>, is_the_same: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut tries = SHRINKS_MAX;
    let mut length = input.len() / 2;
    while length > 0 {
        let mut at = 0;
        while at + length <= input.len() && tries > 0 {
            tries -= 1;
            let less = [&input[..at], &input[at + length..]].concat();
            if is_the_same(&less) {
                input = less;
            } else {
                at += length;
            }
        }
        length /= 2;
    }
    input
}

/// A word for an error: its letters, without numbers, up to where it quotes the input.
pub fn word(error: &impl ToString) -> String {
    let text = error.to_string();
    let own = text.split(['`', '"', '\'']).next().unwrap_or_default();
    own.chars().filter(|letter| letter.is_ascii_alphabetic() || *letter == ' ').take(80).collect()
}

fn save(folder: &Path, kind: &str, input: &[u8]) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let file = folder.join(format!("{kind}-{:016x}", hasher.finish()));
    fs::create_dir_all(folder).expect("the corpus can be written");
    fs::write(&file, input).expect("the corpus can be written");
    file
}

/// The most memory that this process ever had; none if the system does not tell.
fn peak_kb() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Understands `set KEY VALUE`, and has a mistake in a corner.
    fn decoder(input: &[u8]) -> String {
        let Ok(text) = std::str::from_utf8(input) else { return "not text".into() };
        let Some(rest) = text.strip_prefix("set ") else { return "no command".into() };
        let Some((key, value)) = rest.split_once(' ') else { return "no value".into() };
        if key.len() > 8 {
            return "long key".into();
        }
        match value.parse::<i8>() {
            Ok(number) => assert_ne!(number, -128, "it has no positive"),
            Err(_) => return "no number".into(),
        }
        "set".into()
    }

    fn fuzzer(folder: &Path) -> Fuzzer<'_> {
        Fuzzer::new("test", folder, &[b"set a 1".to_vec()], &["-128", "set "], 1)
    }

    #[test]
    fn a_mistake_in_a_corner_is_found_shrunk_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let found = fuzzer(folder.path()).run(Budget::Inputs(200_000), &decoder).unwrap_err();
        assert_eq!(fs::read(&found).unwrap(), b"set  -128");
        // From now on it is tried first.
        let again = fuzzer(folder.path());
        assert_eq!(again.inputs.len(), 2);
        let mut again = again;
        assert_eq!(again.run(Budget::Inputs(2), &decoder).unwrap_err(), found);
    }

    #[test]
    fn every_outcome_is_reached_and_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let mut fuzzer = fuzzer(folder.path());
        fuzzer.keeps = true;
        let careful = |input: &[u8]| catch_unwind(|| decoder(input)).unwrap_or_else(|_| "panicked".into());
        fuzzer.run(Budget::Inputs(200_000), &careful).unwrap();
        assert_eq!(fuzzer.words.len(), 7, "{:?}", fuzzer.words);
        let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
        let mut kept: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
        kept.sort();
        // The sample as it is, and of the others what it takes.
        assert!(kept.contains(&b"set a 1".to_vec()), "{kept:?}");
        assert!(kept.contains(&b"set  -128".to_vec()), "{kept:?}");
        assert_eq!(kept.len(), 7, "{kept:?}");
    }

    #[test]
    fn the_same_seed_tries_the_same_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let inputs_of = || {
            let inputs = std::cell::RefCell::new(Vec::new());
            let note = |input: &[u8]| {
                inputs.borrow_mut().push(input.to_vec());
                String::new()
            };
            fuzzer(folder.path()).run(Budget::Inputs(500), &note).unwrap();
            inputs.into_inner()
        };
        assert_eq!(inputs_of(), inputs_of());
    }

    #[test]
    fn a_word_is_what_an_error_says_without_what_the_input_said() {
        assert_eq!(word(&"unknown field `foo` at line 3"), "unknown field ");
        assert_eq!(word(&"unknown field `bar` at line 12"), word(&"unknown field `foo` at line 3"));
    }
}

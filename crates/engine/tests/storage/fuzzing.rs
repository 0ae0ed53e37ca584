//! What a start reads, with whatever bytes: the files before it opens the database, of which what is damaged is never taken for
//! what was written; then rows and log entries with right checksums, which are a state or an error.

use std::fs;
use std::ops::Range;
use std::path::Path;

use tenure_core::{Seq, State};
use tenure_engine::fuzzing;
use tenure_engine::*;
use tenure_fuzz::fuzz;

use crate::world::World;

/// Small, so that much of an input is entries.
const SEGMENT_BYTES: u64 = 8 * 1024;
/// Whether checksums are made right, so that what lies behind them is reached.
const RESEALED: u8 = 1;
/// Whether the zeros between what begins a segment and its first entry are left out, so that an input is nothing but what is read.
const DENSE: u8 = 2;
/// Where they begin and end.
const ZEROS: Range<usize> = 48..4_096;
/// What no input could be made again with, if it were made anew for each segment.
const SALT: Range<usize> = 32..40;

/// The files of a server that was not stopped, of one kind.
fn files(seed: u64, commands: usize, folder: &str, extension: &str) -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a directory");
    let options =
        DiskOptions { segment_bytes: Some(SEGMENT_BYTES), durability: Durability::Os, ..DiskOptions::default() };
    let mut world = World::new(seed, dir.path(), options);
    world.live(commands);
    let has_extension = |path: &Path| path.extension().is_some_and(|it| it == extension);
    let listed = dir.path().join(folder).read_dir().expect("lists").map(|it| it.expect("lists").path());
    let mut paths: Vec<_> = listed.filter(|path| has_extension(path)).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("reads")).collect()
}

#[test]
fn any_bytes_are_refused_or_understood_as_a_segment() {
    let mut samples = Vec::new();
    for (seed, commands) in [(60, 12), (61, 150), (62, 400)] {
        for file in files(seed, commands, "db/log", "log") {
            // The next one may just have been made.
            if file.iter().any(|byte| *byte != 0) {
                let read = fuzzing::segment(&file).expect("was begun");
                assert!(!read.is_damaged && !read.entries.is_empty());
                let mut file = file;
                file[SALT].fill(7);
                fuzzing::reseal_segment(&mut file);
                let end = file.iter().rposition(|byte| *byte != 0).expect("it was begun") + 1;
                let (begin, entries) = (&file[..ZEROS.start], &file[ZEROS.end..end.next_multiple_of(8)]);
                samples.push([&[0], &file[..]].concat());
                samples.push([&[RESEALED], &file[..]].concat());
                samples.push([&[DENSE], begin, entries].concat());
                samples.push([&[DENSE | RESEALED], begin, entries].concat());
            }
        }
    }
    assert!(samples.len() > 12, "some are not the first");
    fuzz("segment", &samples, &["tenure l", "\0\0\0\0", "\0\0\0\u{1}"], |input| {
        let Some((flags, bytes)) = input.split_first() else { return "empty".into() };
        let (mut bytes, is_resealed) = (bytes.to_vec(), flags & RESEALED != 0);
        if flags & DENSE != 0 {
            let begin = bytes.len().min(ZEROS.start);
            bytes.splice(begin..begin, [0; ZEROS.end - ZEROS.start]);
        }
        if is_resealed {
            fuzzing::reseal_segment(&mut bytes);
        }
        let Some(read) = fuzzing::segment(&bytes) else { return "not begun".into() };
        let mut next = read.base;
        let mut understood = 0;
        for (first, value) in &read.entries {
            // Nobody else says how many events it has, so that one too many or too few ends the segment there.
            assert!(*first >= next, "entries follow each other");
            match fuzzing::decode_entry(*first, value) {
                Ok(entry) => {
                    let again = fuzzing::encode_entry(&entry);
                    assert_eq!(fuzzing::decode_entry(*first, &again).expect("was just written"), entry);
                    // A damaged one could not be the same: the checksum of what it says is in it.
                    assert!(is_resealed || again == *value, "an entry is what was written");
                    understood += 1;
                }
                Err(error) => {
                    assert!(is_resealed && matches!(error, StoreError::Damaged(_)), "{error}");
                }
            }
            next = Seq(first.0.saturating_add(1));
        }
        format!("{} of {} entries, {}", understood, read.entries.len(), read.is_damaged)
    });
}

#[test]
fn any_bytes_are_refused_or_understood_as_a_journal() {
    let mut samples = Vec::new();
    for (seed, commands) in [(63, 10), (64, 60)] {
        for file in files(seed, commands, "db", "jnl") {
            let (valid, is_damaged) = fuzzing::journal(&file);
            assert!(valid > 0 && !is_damaged);
            // Without most of the zeros behind it.
            samples.push(file[..file.len().min(valid + 700)].to_vec());
        }
    }
    assert!(samples.iter().any(|sample| sample.len() < 16 * 1024), "some are small enough");
    fuzz("journal", &samples, &["FJL\u{3}", "\u{1}", "\u{3}", "\0"], |input| {
        let (valid, is_damaged) = fuzzing::journal(input);
        assert_eq!(fuzzing::journal(&input[..valid]), (valid, false), "what is whole is whole by itself");
        if valid > 0 {
            let (less, _) = fuzzing::journal(&input[..valid - 1]);
            assert!(less < valid, "what is cut short is not whole");
        }
        format!("{} {is_damaged}", valid.checked_ilog2().unwrap_or_default())
    });
}

/// What begins a watermark, a row, its message, and a log entry. Nothing that is stored has such words in it, so that whatever is put in
/// or left out stays within the one.
const WATERMARK: &[u8] = b"|watermark|";
const ROW: &[u8] = b"|row|";
const IS: &[u8] = b"|is|";
const ENTRY: &[u8] = b"|entry|";

/// Everything that a start reads from the database and the log, without the checksums.
#[derive(Debug, Default, PartialEq)]
struct Stored {
    watermark: Vec<u8>,
    rows: Vec<fuzzing::Row>,
    entries: Vec<Vec<u8>>,
}

impl Stored {
    /// Of a server that was not stopped: so many commands ago its rows were written.
    fn of_a_server(seed: u64, before: usize, after: usize) -> (Self, State) {
        let dir = tempfile::tempdir().expect("a directory");
        let options =
            DiskOptions { pool_idle: fuzzing::POOL_IDLE, durability: Durability::Os, ..DiskOptions::default() };
        let mut world = World::new(seed, dir.path(), options);
        let mut all = Rows::new(&State::new(options.pool_idle));
        world.live(before);
        let from = world.events.len();
        world.events.iter().for_each(|recorded| all.note(&recorded.event));
        let (watermark, mut rows) = fuzzing::rows(&all.drain(&world.state_after(from)));
        // As the database has them, and the same each time.
        rows.sort_by_cached_key(|(key, _)| (b"pshwe".iter().position(|kind| key.first() == Some(kind)), key.clone()));
        world.live(after);
        let (mut entries, mut first) = (Vec::new(), from);
        for end in world.ends.iter().map(|end| *end as usize).filter(|end| *end > from) {
            let events = world.events[first..end].iter().map(|it| it.event.clone()).collect();
            entries.push(fuzzing::entry(&Entry { first: world.events[first].seq, at: world.events[first].at, events }));
            first = end;
        }
        (Self { watermark, rows, entries }, world.state_after(world.events.len()))
    }

    fn written(&self) -> Vec<u8> {
        let rows = self.rows.iter().flat_map(|(key, message)| [ROW, key, IS, message]);
        let entries = self.entries.iter().flat_map(|message| [ENTRY, message]);
        [WATERMARK, &self.watermark].into_iter().chain(rows).chain(entries).collect::<Vec<_>>().concat()
    }

    /// What is in none of them is nothing. A row without a message has an empty one.
    fn read(mut input: &[u8]) -> Self {
        let mut stored = Self::default();
        let mut kind = None;
        loop {
            let starts = |at: &usize| [WATERMARK, ROW, ENTRY].into_iter().find(|it| input[*at..].starts_with(it));
            let end = (0..input.len()).find(|at| starts(at).is_some()).unwrap_or(input.len());
            let message = input[..end].to_vec();
            match kind {
                Some(WATERMARK) => stored.watermark = message,
                Some(ROW) => {
                    let at = message.windows(IS.len()).position(|it| it == IS).unwrap_or(message.len());
                    let value = message.get(at + IS.len()..).unwrap_or_default().to_vec();
                    stored.rows.push((message[..at].to_vec(), value));
                }
                Some(ENTRY) => stored.entries.push(message),
                _ => {}
            }
            let Some(next) = starts(&end) else { return stored };
            input = &input[end + next.len()..];
            kind = Some(next);
        }
    }

    fn recover(&self) -> Result<State, StoreError> {
        fuzzing::recover(&self.watermark, &self.rows, &self.entries)
    }
}

/// What is wrong, and with what kind of thing: which one it is, is no news.
fn without_names(why: &str) -> String {
    if why.starts_with("a row has the key") {
        return "no key".into();
    }
    let is_own = |part: &&str| part.chars().all(|letter| letter.is_ascii_alphabetic() || ".:,".contains(letter));
    why.split(' ').filter(is_own).collect::<Vec<_>>().join(" ")
}

#[test]
fn any_messages_are_refused_or_understood_as_what_is_stored() {
    let mut samples = Vec::new();
    for (seed, before, after) in [(30, 0, 12), (31, 20, 0), (32, 40, 12), (33, 150, 30)] {
        let (stored, state) = Stored::of_a_server(seed, before, after);
        assert_eq!(stored.recover().expect("it was not broken"), state);
        samples.push(stored.written());
        assert_eq!(Stored::read(samples.last().expect("it was just put there")), stored);
    }
    let words = ["|watermark|", "|row|", "|is|", "|entry|", "p\0pool/1", "pother\0pool/2", "\0\0\0\0\0\0\0\u{1}"];
    fuzz("rows", &samples, &words, |input| match Stored::read(input).recover() {
        Ok(state) => {
            let again = restore(&snapshot(&state), fuzzing::POOL_IDLE).expect("it is a state");
            assert_eq!(again, state, "what is understood can be written again");
            let size = |count: usize| count.checked_ilog2().unwrap_or_default();
            format!("a state of {} pools and {} holds", size(state.pools().count()), size(state.holds().count()))
        }
        Err(StoreError::Damaged(why)) => without_names(&why),
        Err(other) => panic!("{other}"),
    });
}

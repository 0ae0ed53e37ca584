//! The files that a start reads before it opens the database, with whatever bytes: what is damaged is never taken for
//! what was written.

use std::fs;
use std::path::Path;

use tenure_core::Seq;
use tenure_engine::fuzzing;
use tenure_engine::*;
use tenure_fuzz::fuzz;

use crate::world::World;

/// Small, so that much of an input is entries.
const SEGMENT_BYTES: u64 = 8 * 1024;
/// Whether checksums are made right, so that what lies behind them is reached.
const RESEALED: u8 = 1;

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
                samples.push([&[0], &file[..]].concat());
                samples.push([&[RESEALED], &file[..]].concat());
            }
        }
    }
    assert!(samples.len() > 6, "some are not the first");
    fuzz("segment", &samples, &["tenure l", "\0\0\0\0", "\0\0\0\u{1}"], |input| {
        let Some((flags, bytes)) = input.split_first() else { return "empty".into() };
        let (mut bytes, is_resealed) = (bytes.to_vec(), flags & RESEALED != 0);
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

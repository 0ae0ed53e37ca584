//! Every example says how it is used, and what is wrong when it is used otherwise.

use std::fs;
use std::process::Command;

use crate::stage::{Stage, examples};
use crate::support::tools;

#[test]
fn every_script_says_how_it_is_used() {
    let stage = Stage::new();
    let scripts = programs("sh");
    assert_eq!(scripts.len(), 6);
    for script in scripts {
        let help = stage.shell(&script, &["--help"]).ends();
        assert_eq!((help.code, &*help.stderr), (Some(0), ""), "{script}");
        let (_, name) = script.split_once('/').unwrap();
        assert!(help.stdout.starts_with(&format!("Usage: {name} ")), "{script}: {}", help.stdout);
        let wrong = stage.shell(&script, &["--nonsense"]).ends();
        assert_eq!((wrong.code, &*wrong.stdout), (Some(64), ""), "{script}");
        assert!(wrong.stderr.starts_with("error: there is no option --nonsense"), "{script}: {}", wrong.stderr);
    }
}

#[test]
fn every_program_in_python_says_how_it_is_used_and_what_it_needs() {
    let stage = Stage::new();
    let scripts = programs("py");
    assert_eq!(scripts.len(), 10);
    for script in scripts {
        let help = stage.python(&script, &["--help"]).ends();
        assert_eq!((help.code, &*help.stderr), (Some(0), ""), "{script}");
        assert!(help.stdout.starts_with("usage: with_"), "{script}: {}", help.stdout);
        let needed = match &script {
            script if script.ends_with("with_ldlm.py") => "py-ldlm",
            script if script.starts_with("temporal-") => "temporalio or tenure",
            _ => continue,
        };
        // Without the packages that are installed.
        let bare = Command::new(tools::python()).arg("-S").arg(examples().join(&script)).output().unwrap();
        let said = String::from_utf8(bare.stderr).unwrap();
        assert!(said.starts_with(&format!("error: {needed} is not installed\nhint: ")), "{script}: {said}");
    }
}

/// All with this ending, below `examples/`.
fn programs(ending: &str) -> Vec<String> {
    let folders = fs::read_dir(examples()).unwrap().map(|entry| entry.unwrap()).filter(|entry| entry.path().is_dir());
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).unwrap()).map(|file| file.unwrap().path());
    let mut wanted: Vec<String> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == ending))
        .map(|file| file.strip_prefix(examples()).unwrap().to_str().unwrap().to_owned())
        .collect();
    wanted.sort();
    wanted
}

//! A holder stops between reading and writing, for longer than its lease, and wakes up when another has written.

use nix::sys::signal::Signal;

use crate::stage::Stage;
use crate::support::job::Job;
use crate::support::tool::Ended;

#[test]
fn a_holder_that_wakes_up_late_is_refused_by_sqlite() {
    let stage = Stage::new();
    let writer = sqlite(&stage);
    late_write_is_refused(&writer);
    // Whoever comes next finds what the second one wrote.
    let ended = writer(&["--ttl", "60", "gamma"]).ends();
    assert_eq!(ended.stdout.lines().next(), Some("gamma: holds with token 3 and has read 'beta'"), "{}", ended.stderr);
}

#[test]
fn a_holder_that_wakes_up_late_destroys_what_does_not_look_at_the_token() {
    let stage = Stage::new();
    let writer = sqlite(&stage);
    late_write_destroys(&writer);
}

fn sqlite(stage: &Stage) -> impl Fn(&[&str]) -> Job {
    let options = ["--api".to_owned(), stage.api(), "--file".to_owned(), stage.path("report.db")];
    move |arguments| {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        stage.python("fencing-stale-writer/with_sqlite.py", &[&options[..], arguments].concat())
    }
}

/// One that writes is told who it is, and how.
pub(crate) fn late_write_is_refused(writer: &dyn Fn(&[&str]) -> Job) {
    let (alpha, beta) = late_write(writer, &[]);
    assert_eq!((beta.code, &*beta.stdout), (Some(0), BETA), "{}", beta.stderr);
    assert_eq!((alpha.code, &*alpha.stderr), (Some(1), "alpha: refused: its token is stale\n"));
    assert!(alpha.stdout.ends_with("alpha: is awake and still thinks that it holds\n"), "{}", alpha.stdout);
}

pub(crate) fn late_write_destroys(writer: &dyn Fn(&[&str]) -> Job) {
    let (alpha, beta) = late_write(writer, &["--unchecked"]);
    assert_eq!((beta.code, &*beta.stdout), (Some(0), BETA), "{}", beta.stderr);
    assert_eq!(alpha.code, Some(0), "{}", alpha.stderr);
    assert!(alpha.stdout.contains("alpha: has written 'alpha'\n"), "{}", alpha.stdout);
    let ended = writer(&["--ttl", "60", "gamma"]).ends();
    let read = ended.stdout.lines().next();
    assert_eq!(
        read,
        Some("gamma: holds with token 3 and has read 'alpha'"),
        "what beta wrote is gone: {}",
        ended.stderr
    );
}

const BETA: &str = "beta: holds with token 2 and has read ''\nbeta: has written 'beta'\n";

/// Gives how both ended.
fn late_write(writer: &dyn Fn(&[&str]) -> Job, options: &[&str]) -> (Ended, Ended) {
    let mut alpha = writer(&[options, &["--ttl", "1", "--pause", "alpha"]].concat());
    alpha.says("alpha: holds with token 1 and has read ''\nalpha: stops for a while;");
    // It is served when alpha's lease is over.
    let beta = writer(&[options, &["--ttl", "60", "beta"]].concat()).ends();
    // It may have said that it stops and not have done it: then it is woken until it has been.
    crate::support::job::until("alpha is awake", || {
        alpha.signal(Signal::SIGCONT);
        alpha.said().contains("alpha: is awake")
    });
    (alpha.ends(), beta)
}

//! The same question, whether a history is linearizable, put to Porcupine: a checker that others made and many use, in Go. Only the
//! model of the lock (`porcupine/main.go`) is ours.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::history::{Operation, What};
use crate::support::tools;

/// Whether each of them is; none where nothing could be built from Go.
pub(crate) fn check(histories: &[&[Operation]], slack: Duration) -> Option<Vec<bool>> {
    let mut program = Command::new(tools::go_if_made("porcupine")?);
    let mut running = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = running.stdin.take().unwrap();
    let told: Vec<_> = histories.iter().map(|history| tell(history, slack).to_string()).collect();
    // It answers while it is told.
    let telling = std::thread::spawn(move || stdin.write_all(told.join("\n").as_bytes()));
    let heard = running.wait_with_output().unwrap();
    telling.join().unwrap().unwrap();
    assert!(heard.status.success(), "Porcupine does not know");
    let verdicts: Vec<_> = String::from_utf8(heard.stdout).unwrap().lines().map(|line| line == "right").collect();
    assert_eq!(verdicts.len(), histories.len());
    Some(verdicts)
}

fn tell(history: &[Operation], slack: Duration) -> Value {
    let operations = history.iter().map(|Operation { called, answered, what }| {
        let (what, token, lease) = match *what {
            What::Granted { token, lease } => ("granted", token, lease),
            What::Renewed { token, lease } => ("renewed", token, lease),
            What::Released { token } => ("released", token, Duration::ZERO),
            What::NotHeld { token } => ("not_held", token, Duration::ZERO),
        };
        json!({"what": what, "token": token, "lease": nanos(lease), "called": called, "answered": answered})
    });
    json!({"slack": nanos(slack), "operations": operations.collect::<Vec<_>>()})
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

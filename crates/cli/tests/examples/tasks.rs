//! Two workers go through the same list of tasks.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::stage::{Stage, With};
use crate::support::job::{Job, until};

const TASKS: [&str; 12] = ["t01", "t02", "t03", "t04", "t05", "t06", "t07", "t08", "t09", "t10", "t11", "t12"];

#[test]
fn two_workers_do_all_tasks_and_none_twice() {
    none_twice([With::Tenure, With::Tenure]);
}

#[test]
fn two_workers_with_the_client_of_ldlm_do_all_tasks_and_none_twice() {
    none_twice([With::Ldlm, With::Ldlm]);
}

#[test]
fn two_workers_of_either_kind_do_all_tasks_and_none_twice() {
    none_twice([With::Ldlm, With::Tenure]);
}

#[test]
fn the_task_of_a_killed_worker_is_done_by_the_other() {
    taken_over(With::Tenure);
}

#[test]
fn the_task_of_a_killed_worker_with_the_client_of_ldlm_is_done_by_the_other() {
    taken_over(With::Ldlm);
}

fn none_twice([first, second]: [With; 2]) {
    let stage = Stage::new();
    let mut workers = [worker(&stage, first, "alpha", "0.05"), worker(&stage, second, "beta", "0.05")];
    for worker in &mut workers {
        let ended = worker.ends();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    let log = stage.lines("log");
    assert_eq!(log.len(), 2 * TASKS.len(), "each begins once and ends once: {log:?}");
    for task in TASKS {
        let lines: Vec<&String> = log.iter().filter(|line| line.ends_with(task)).collect();
        let who = lines[0].split(' ').next().unwrap();
        assert_eq!(lines, [&format!("{who} begin {task}"), &format!("{who} end {task}")]);
        let mark = fs::read_to_string(stage.path("done") + "/" + task).unwrap();
        assert!(mark.starts_with(who), "{who} did it, and the mark says {mark}");
    }
}

fn taken_over(with: With) {
    let stage = Stage::new();
    let alpha = worker(&stage, with, "alpha", "3600");
    until("alpha has begun", || stage.lines("log") == ["alpha begin t01"]);
    let mut beta = worker(&stage, with, "beta", "0");
    // It has done all others, and now waits for what alpha is doing.
    stage.until_waiting("task/t01", 1);
    assert_eq!(finished(&stage), TASKS[1..]);

    // With the shell's command, which would else finish its task; the shell first, so that it does not go on.
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", alpha.id())).unwrap_or_default();
    alpha.signal(Signal::SIGKILL);
    for child in children.split_whitespace() {
        kill(Pid::from_raw(child.parse().unwrap()), Signal::SIGKILL).unwrap();
    }
    let ended = beta.ends();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(finished(&stage), TASKS);
    let log = stage.lines("log");
    let first: Vec<&String> = log.iter().filter(|line| line.ends_with("t01")).collect();
    assert_eq!(first, ["alpha begin t01", "beta begin t01", "beta end t01"]);
}

fn worker(stage: &Stage, with: With, who: &str, seconds: &str) -> Job {
    let (done, log) = (stage.path("done"), stage.path("log"));
    let options = ["--done", &done, "--log", &log, "--seconds", seconds, who];
    stage.start("task-locking", with, &[&options[..], &TASKS].concat())
}

/// The tasks that have a mark.
fn finished(stage: &Stage) -> Vec<String> {
    let marks = fs::read_dir(stage.path("done")).unwrap();
    let mut marks: Vec<String> = marks.map(|mark| mark.unwrap().file_name().into_string().unwrap()).collect();
    marks.sort();
    marks
}

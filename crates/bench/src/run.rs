//! A whole run: round by round everything once, then what takes a server of its own.

use std::path::PathBuf;
use std::time::Duration;

use crate::latency::{self, LOADS, Latency, Load};
use crate::load::Outcome;
use crate::plan::{AIMS, Aim, On, ROWS, Work};
use crate::report::{self, Ratio, Row, Table};
use crate::restart::{self, Restart};
use crate::rig::{self, Rig};
use crate::{disk, is_wanted, machine, target_folder, temporal};

const RESTART: &str = "restart with a million holds";
const LATENCY: &str = "latency";

#[derive(Debug)]
pub(crate) struct Measured {
    machine: String,
    /// In the order of the plan.
    pub(crate) tables: Vec<Table>,
    ratios: Vec<Ratio>,
    /// The disk's own syncs first.
    pub(crate) latencies: Vec<Latency>,
    restarts: Vec<Restart>,
    rounds: usize,
    span: Duration,
}

pub(crate) async fn run(rounds: usize, span: Duration, names: &[String], ldlm: Option<PathBuf>) -> Outcome<Measured> {
    let mut loaded: Vec<_> = LOADS.map(|load| (load, Latency::of_load(load))).into();
    let is_asked_for = |latency: &Latency| is_wanted(&format!("{LATENCY}: {}", latency.who), names);
    let with_latency = loaded.iter().any(|(_, latency)| is_asked_for(latency));
    // The disk is what all others are compared with.
    loaded.retain(|(load, latency)| is_asked_for(latency) || with_latency && load.on == On::Disk);
    let is_needed = |(work, on): (Work, On)| {
        // What is loaded must be there, and its capacity be known.
        let capacity = loaded.iter().any(|(load, _)| [load.on, load.of].contains(&on) && work == on.capacity());
        let disk = with_latency && on == On::Disk;
        capacity || disk || is_wanted(&name(work, on), names)
    };
    let mut rows: Vec<_> =
        ROWS.iter().filter(|&&row| is_needed(row)).map(|&(work, on)| (work, on, Row::new(on.who()))).collect();
    let mut syncs = Latency::of_idle_disk();

    let folder = tempfile::Builder::new().prefix("tenure-bench").tempdir_in(target_folder())?;
    let tools = target_folder().join("../tools");
    let is_ldlm_given = ldlm.is_some();
    let rig = Rig::start(rows.iter().map(|row| row.1), folder.path(), &tools, ldlm).await?;
    // Beside what is missing, which was just told.
    temporal::hint(names).into_iter().for_each(|hint| eprintln!("{hint}"));
    let mut runs = 0;
    for round in 1..=rounds {
        let say = |what: &str| eprintln!("round {round} of {rounds}: {what}");
        for (work, on, row) in rows.iter_mut().filter(|row| row.2.missing.is_none()) {
            runs += 1;
            let figure = match *on {
                On::Server(server, way) => match rig.address(server) {
                    Ok(address) => {
                        say(&name(*work, *on));
                        let figure = rig::closed(&tools, address, way, *work, runs, span).await;
                        figure.map_err(|error| format!("{}: {error}", name(*work, *on)))
                    }
                    Err(missing) => Err(missing),
                },
                On::Disk => {
                    say(work.title());
                    let (figure, latencies) = disk::syncs(folder.path(), span)?;
                    syncs.rounds.push(latencies);
                    Ok(figure)
                }
            };
            match figure {
                Ok(figure) => row.figures.push(figure),
                Err(why) => {
                    eprintln!("not measured: {why}");
                    row.missing = Some(why);
                }
            }
        }
        for (Load { on, percent, of }, latency) in loaded.iter_mut().filter(|load| load.1.missing.is_none()) {
            let capacity = rows.iter().find(|row| (row.0, row.1) == (of.capacity(), *of)).map(|row| &row.2);
            let Some(&capacity) = capacity.and_then(|row| row.figures.get(round - 1)) else {
                latency.missing = capacity.and_then(|row| row.missing.clone());
                continue;
            };
            say(&latency.who);
            let rate = capacity * f64::from(*percent) / 100.0;
            let latencies = match *on {
                On::Server(server, way) => rig::open(rig.address(server)?, way, rate, span).await,
                On::Disk => Ok(disk::paced_syncs(folder.path(), rate, span)?),
            };
            match latencies {
                Ok(latencies) => latency.rounds.push(latencies),
                Err(why) => latency.missing = Some(format!("{}: {why}", latency.who)),
            }
        }
    }
    let machine = machine::describe(folder.path(), is_ldlm_given, |server| rig.address(server).is_ok());
    // Nothing else runs from here on.
    drop(rig);
    let restarts = match is_wanted(RESTART, names) {
        true => restart::run(folder.path(), rounds).await?,
        false => Vec::new(),
    };
    let loaded = loaded.into_iter().map(|(_, latency)| latency);
    let latencies = if with_latency { std::iter::once(syncs).chain(loaded).collect() } else { Vec::new() };
    let ratios = [ratios(&rows), latency::ratios(&latencies)].concat();
    let tables = tables(rows);
    Ok(Measured { machine, tables, ratios, latencies, restarts, rounds, span })
}

fn name(work: Work, on: On) -> String {
    format!("{}: {}", title(work, on.is_durable()), on.who())
}

fn title(work: Work, is_durable: bool) -> String {
    format!("{}{}", work.title(), if is_durable { "" } else { ", not durable" })
}

fn tables(rows: Vec<(Work, On, Row)>) -> Vec<Table> {
    let table = |(work, is_durable): (Work, bool)| {
        let is_here = |row: &&(Work, On, Row)| (row.0, row.1.is_durable()) == (work, is_durable);
        let rows: Vec<_> = rows.iter().filter(is_here).map(|row| row.2.clone()).collect();
        (!rows.is_empty()).then(|| Table { title: title(work, is_durable), unit: work.unit(), rows })
    };
    // Durable or not is told apart, since only one of them waits for the disk.
    Work::ALL.into_iter().flat_map(|work| [(work, true), (work, false)]).filter_map(table).collect()
}

/// Those of which at least one side was asked for. Where the other was not, or could not be measured, that is told.
fn ratios(rows: &[(Work, On, Row)]) -> Vec<Ratio> {
    let row = |(work, on): (Work, On)| {
        let row = rows.iter().find(|row| (row.0, row.1) == (work, on)).map(|row| &row.2);
        row.ok_or_else(|| format!("nobody asked for `{}`", name(work, on)))
    };
    let is_asked_for = |aim: &&Aim| row(aim.ours).is_ok() || row(aim.theirs).is_ok();
    let ratio = |&Aim { what, aim, ours, theirs }: &Aim| {
        let ratio = row(ours).and_then(|ours| ours.ratio(row(theirs)?));
        Ratio { what: what.to_owned(), aim, ratio }
    };
    AIMS.iter().filter(is_asked_for).map(ratio).collect()
}

impl Measured {
    /// Why what is missing is not there.
    fn missing(&self) -> impl Iterator<Item = &String> {
        let rows = self.tables.iter().flat_map(|table| &table.rows).filter_map(|row| row.missing.as_ref());
        let latencies = self.latencies.iter().filter_map(|latency| latency.missing.as_ref());
        rows.chain(latencies).chain(self.ratios.iter().filter_map(|ratio| ratio.ratio.as_ref().err()))
    }

    /// With the plots, if they are beside it.
    pub(crate) fn markdown(&self, with_plots: bool) -> String {
        let (rounds, seconds) = (self.rounds, self.span.as_secs_f64());
        let mut text = format!("{}{}", self.machine, report::not_measured(self.missing()));
        text += &format!("\nRounds: {rounds}, of {seconds} s for each figure.\n");
        if !self.ratios.is_empty() {
            text += &format!("\n### What we aim for\n\n{}", report::ratios(&self.ratios));
        }
        if with_plots {
            text += "\n![Throughput beside the peers](benchmarks/throughput.svg)\n";
        }
        for table in &self.tables {
            text += &format!("\n{}", table.markdown());
        }
        if !self.latencies.is_empty() {
            text += "\n### Latency of an uncontended acquire, under a load that does not wait\n\n";
            text += &latency::markdown(&self.latencies);
            text += &format!("\nWe aim for at most 3 syncs at 50 % load.\n\n{}", latency::in_syncs(&self.latencies));
            if with_plots {
                text += "\n![Latencies](benchmarks/latency.svg)\n";
            }
        }
        if !self.restarts.is_empty() {
            text += &format!("\n### Restart with a million holds\n\n{}", restarts(&self.restarts));
        }
        text
    }
}

fn restarts(restarts: &[Restart]) -> String {
    let head = ["", "until it answers", "from – to", "made in", "on the disk", "in memory"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for it in restarts {
        let Some(spread) = it.restarts.spread() else { continue };
        let seconds = |seconds: f64| format!("{seconds:.2} s");
        let bytes = |bytes: u64| format!("{:.0} MB", bytes as f64 / 1e6);
        let [median, range] = spread.say(seconds);
        let rest = [seconds(it.made), bytes(it.data_bytes), bytes(it.resident_bytes)];
        lines.push([it.restarts.who.clone(), median, range].into_iter().chain(rest).collect());
    }
    report::table(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ETCD, LDLM, REDIS, STREAM};

    fn row(work: Work, on: On, figures: &[f64]) -> (Work, On, Row) {
        (work, on, Row { figures: figures.to_vec(), ..Row::new(on.who()) })
    }

    #[test]
    fn a_ratio_that_cannot_be_told_says_why() {
        let mut rows: Vec<_> = ROWS.iter().map(|&(work, on)| row(work, on, &[30.0])).collect();
        for (_, _, row) in rows.iter_mut().filter(|row| row.1 == ETCD) {
            row.missing = Some("etcd is not installed".to_owned());
        }
        let ratios = ratios(&rows);
        assert_eq!(ratios.len(), AIMS.len());
        let missing: Vec<_> =
            ratios.iter().filter_map(|it| Some((it.aim, it.ratio.as_ref().err()?.as_str()))).collect();
        assert_eq!(missing, [("≥ 20", "etcd is not installed")]);
    }

    #[test]
    fn a_ratio_of_what_was_asked_for_with_something_else_says_so() {
        let ratios = ratios(&[row(Work::OwnDeep, REDIS, &[10.0]), row(Work::Hot, LDLM, &[10.0])]);
        let [ratio] = ratios.as_slice() else { panic!("{ratios:?}") };
        let why = format!("nobody asked for `{}`", name(Work::OwnDeep, STREAM));
        assert_eq!(ratio.ratio, Err(why));
    }
}

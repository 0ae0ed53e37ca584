//! Latencies under a load that does not wait: what is asked of whom, and how it is told.

use hdrhistogram::Histogram;

use crate::pace::{self, Latencies};
use crate::plan::{BARE, BARE_UNARY, ETCD, LDLM, LDLM_IN_MEMORY, On, REDIS, STREAM, UNARY};
use crate::report::{self, NO_ROUND, NOT_MEASURED, Ratio, Spread};

/// How much is asked, and of whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) on: On,
    pub(crate) percent: u32,
    /// Of the pairs or syncs a second that this did in the same round.
    pub(crate) of: On,
}

/// The disk by itself first, for those that rest on it. LDLM at half load only, which tells enough of it.
pub(crate) const LOADS: [Load; 13] = [
    Load { on: On::Disk, percent: 50, of: On::Disk },
    Load { on: STREAM, percent: 50, of: STREAM },
    Load { on: STREAM, percent: 90, of: STREAM },
    Load { on: BARE, percent: 50, of: STREAM },
    Load { on: UNARY, percent: 50, of: UNARY },
    Load { on: UNARY, percent: 90, of: UNARY },
    Load { on: BARE_UNARY, percent: 50, of: UNARY },
    Load { on: REDIS, percent: 50, of: REDIS },
    Load { on: REDIS, percent: 90, of: REDIS },
    Load { on: ETCD, percent: 50, of: ETCD },
    Load { on: ETCD, percent: 90, of: ETCD },
    Load { on: LDLM, percent: 50, of: LDLM },
    Load { on: LDLM_IN_MEMORY, percent: 50, of: LDLM_IN_MEMORY },
];
/// What is told, and the first of these is plotted from.
pub(crate) const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];
const P99: f64 = 0.99;
/// Of those whose p99 at half load we aim for: how many times that of the disk's own sync.
const AIM: &str = "≤ 3";
const AIMED_FOR: [On; 2] = [STREAM, UNARY];

#[derive(Debug)]
pub(crate) struct Latency {
    pub(crate) who: String,
    pub(crate) on: On,
    /// Of the capacity. None where one thing is done after another, and nothing is due.
    pub(crate) percent: Option<u32>,
    /// One per round.
    pub(crate) rounds: Vec<Latencies>,
    pub(crate) missing: Option<String>,
}

impl Latency {
    pub(crate) fn of_idle_disk() -> Self {
        let who = "append and sync of the idle disk".to_owned();
        Self { who, on: On::Disk, percent: None, rounds: Vec::new(), missing: None }
    }

    pub(crate) fn of_load(Load { on, percent, of }: Load) -> Self {
        // Ours is the only one that others are measured at.
        let whose = if on == of { "its" } else { "Tenure's" };
        let who = format!("{}, at {percent} % of {whose} capacity", on.who());
        Self { who, on, percent: Some(percent), rounds: Vec::new(), missing: None }
    }

    /// All rounds together.
    pub(crate) fn all(&self) -> Histogram<u64> {
        let mut all = pace::histogram(pace::DIGITS);
        for round in &self.rounds {
            all.add(&round.all).expect("all have the same bounds");
        }
        all
    }

    /// The p99 of this divided by that of the other, round by round.
    fn p99_ratio(&self, other: &Self, p99: impl Fn(&Latencies) -> f64) -> Result<Spread, String> {
        if let Some(why) = self.missing.as_ref().or(other.missing.as_ref()) {
            return Err(why.clone());
        }
        let ratios = self.rounds.iter().zip(&other.rounds).map(|(this, other)| p99(this) / p99(other));
        Spread::of(ratios).ok_or_else(|| NO_ROUND.to_owned())
    }
}

/// With all pauses in it.
fn p99(latencies: &Latencies) -> f64 {
    latencies.all.value_at_quantile(P99) as f64
}

/// That of the median slice: pauses that are rarer than slices are not in it.
fn p99_of_slices(latencies: &Latencies) -> f64 {
    Spread::of(latencies.of_slices(P99)).map_or(f64::NAN, |p99s| p99s.median)
}

pub(crate) fn markdown(latencies: &[Latency]) -> String {
    let head = ["", "p50", "p90", "p99", "p99.9", "most", "p99 in rounds", "p99 of the median tenth of a second"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for latency in latencies {
        let mut line = vec![latency.who.clone()];
        let spread = |p99: fn(&Latencies) -> f64| Spread::of(latency.rounds.iter().map(p99));
        match (&latency.missing, spread(p99).zip(spread(p99_of_slices))) {
            (Some(_), _) => line.push(NOT_MEASURED.to_owned()),
            (None, None) => continue,
            (None, Some((p99, p99_of_slices))) => {
                let all = latency.all();
                line.extend(QUANTILES.map(|quantile| report::duration(all.value_at_quantile(quantile) as f64)));
                line.push(format!("{} – {}", report::duration(p99.least), report::duration(p99.most)));
                line.push(report::duration(p99_of_slices.median));
            }
        }
        lines.push(line);
    }
    report::table(&lines)
}

/// What we aim for, of whole rounds with all their pauses, beside the disk, which is first, idle and then under load.
pub(crate) fn ratios(latencies: &[Latency]) -> Vec<Ratio> {
    let [idle, half_loaded, ..] = latencies else { return Vec::new() };
    let is_aimed_for = |it: &&Latency| AIMED_FOR.contains(&it.on) && it.percent == Some(50);
    let of_syncs = |ours: &Latency| {
        [(idle, "of the idle disk"), (half_loaded, "of the disk at 50 %")].map(|(disk, which)| Ratio {
            what: format!("{}: p99 of an acquire at 50 % load / of a sync {which}", ours.on.who()),
            aim: AIM,
            ratio: ours.p99_ratio(disk, p99),
        })
    };
    latencies.iter().filter(is_aimed_for).flat_map(of_syncs).collect()
}

/// The p99 of all as so many times that of the disk, which is first, idle and then under load.
pub(crate) fn in_syncs(latencies: &[Latency]) -> String {
    let [idle, half_loaded, ..] = latencies else { return String::new() };
    let head = ["p99, as a multiple of", "the idle disk's", "median tenth", "the disk's at 50 %", "median tenth"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for latency in &latencies[1..] {
        let mut line = vec![latency.who.clone()];
        line.extend(latency.missing.as_ref().map(|_| NOT_MEASURED.to_owned()));
        for disk in [idle, half_loaded].into_iter().filter(|_| latency.missing.is_none()) {
            for p99 in [p99, p99_of_slices] {
                let ratio = latency.p99_ratio(disk, p99).ok().filter(|_| latency.who != disk.who);
                let say = |ratio: Spread| ratio.say(report::factor);
                line.push(ratio.map(say).map_or_else(String::new, |[median, range]| format!("{median} ({range})")));
            }
        }
        lines.push(line);
    }
    report::table(&lines)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn measured(latency: Latency, micros: &[u64]) -> Latency {
        let began = Instant::now();
        let round = |&micros: &u64| {
            let mut latencies = Latencies::since(began);
            latencies.record(began, Duration::from_micros(micros));
            latencies
        };
        Latency { rounds: micros.iter().map(round).collect(), ..latency }
    }

    #[test]
    fn the_aim_is_told_for_the_stream_and_for_unary_calls_beside_both_of_the_disk() {
        let loaded = LOADS.map(|load| match load.on {
            On::Disk => measured(Latency::of_load(load), &[200, 200]),
            UNARY => Latency { missing: Some("no answer".to_owned()), ..Latency::of_load(load) },
            _ => measured(Latency::of_load(load), &[400, 800]),
        });
        let disk = measured(Latency::of_idle_disk(), &[100, 100]);
        let latencies: Vec<_> = std::iter::once(disk).chain(loaded).collect();
        let ratios = ratios(&latencies);
        let told: Vec<_> = ratios.iter().map(|it| (it.what.as_str(), it.aim)).collect();
        assert_eq!(
            told,
            [
                ("Tenure, stream: p99 of an acquire at 50 % load / of a sync of the idle disk", "≤ 3"),
                ("Tenure, stream: p99 of an acquire at 50 % load / of a sync of the disk at 50 %", "≤ 3"),
                ("Tenure, unary calls: p99 of an acquire at 50 % load / of a sync of the idle disk", "≤ 3"),
                ("Tenure, unary calls: p99 of an acquire at 50 % load / of a sync of the disk at 50 %", "≤ 3"),
            ]
        );
        let medians: Vec<_> = ratios.iter().map(|it| it.ratio.as_ref().map(|it| it.median.round())).collect();
        let none = "no answer".to_owned();
        assert_eq!(medians, [Ok(6.0), Ok(3.0), Err(&none), Err(&none)]);
    }
}

//! Figures for Prometheus.
//!
//! How things stand is asked of the engine when somebody scrapes. What happened is counted by the engine when it
//! is durable, refusals where they are told.

mod histogram;

use std::sync::{Arc, OnceLock};

use metrics::{Key, KeyName, Metadata, Recorder, SharedString, Unit, counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use tenure_core::{Query, View};

use self::histogram::Histogram;
use crate::error::Error;
use crate::service::Service;

/// From a hand-over within a commit to a job that runs for a day.
const SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0, 86_400.0];
/// From the fastest disk to one in trouble.
const COMMIT_SECONDS: &[f64] = &[0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0];
/// Powers of four up to the largest batch.
const COMMANDS: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0];

/// Counters and gauges as the exporter keeps them, and histograms of our own.
pub(crate) struct Figures {
    exporter: PrometheusHandle,
    histograms: [Arc<Histogram>; 4],
}

/// The process has one recorder, whoever starts a server in it.
pub(crate) fn figures() -> &'static Figures {
    static FIGURES: OnceLock<Figures> = OnceLock::new();
    FIGURES.get_or_init(|| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let histograms = [
            Histogram::new("tenure_wait_seconds", "How long granted requests had waited in a queue", SECONDS),
            Histogram::new("tenure_hold_seconds", "How long holds lasted", SECONDS),
            Histogram::new("tenure_commit_seconds", "How long it took to make a batch durable", COMMIT_SECONDS),
            Histogram::new("tenure_commit_commands", "Commands in a batch", COMMANDS),
        ];
        let figures = Figures { exporter: recorder.handle(), histograms: histograms.map(Arc::new) };
        // Somebody who embeds the server may have their own; then theirs is filled, and ours stays empty.
        let _ = metrics::set_global_recorder(Recording { counts: recorder, histograms: figures.histograms.clone() });
        describe();
        count_from_zero();
        figures
    })
}

/// Where all of the process finds what to count in.
struct Recording {
    counts: PrometheusRecorder,
    histograms: [Arc<Histogram>; 4],
}

impl Recorder for Recording {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.counts.describe_counter(key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.counts.describe_gauge(key, unit, description);
    }

    /// Ours come with their descriptions.
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> metrics::Counter {
        self.counts.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> metrics::Gauge {
        self.counts.register_gauge(key, metadata)
    }

    /// None but ours are shown.
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        let ours = self.histograms.iter().find(|histogram| histogram.name == key.name());
        ours.map_or_else(metrics::Histogram::noop, |histogram| histogram.clone().into())
    }
}

fn describe() {
    describe_gauge!("tenure_pools", "Pools there are");
    describe_gauge!("tenure_holds", "Holds there are");
    describe_gauge!("tenure_waiters", "Requests in queues");
    describe_gauge!("tenure_sessions", "Sessions there are");
    describe_counter!("tenure_grants_total", "Holds granted");
    describe_counter!("tenure_releases_total", "Holds released by their holders");
    describe_counter!("tenure_expiries_total", "Holds whose deadline passed");
    describe_counter!("tenure_forced_total", "Holds ended by operators");
    describe_counter!("tenure_other_ends_total", "Holds ended with their session, owner or request, or never received");
    describe_counter!("tenure_wait_timeouts_total", "Waits that ended without a grant because their time was over");
    describe_counter!("tenure_refusals_total", "Requests not done, by reason");
    describe_counter!("tenure_crowds_total", "Times at which more was asked at once than makes full batches");
    describe_counter!("tenure_policy_failures_total", "Decisions made without a pool's script because it failed");
}

/// A counter that has counted nothing yet is 0, not absent: alerts compare with what was before.
fn count_from_zero() {
    for name in [
        "tenure_grants_total",
        "tenure_releases_total",
        "tenure_expiries_total",
        "tenure_forced_total",
        "tenure_other_ends_total",
        "tenure_wait_timeouts_total",
        "tenure_crowds_total",
    ] {
        counter!(name).increment(0);
    }
    for script in ["place", "order"] {
        counter!("tenure_policy_failures_total", "script" => script).increment(0);
    }
}

pub(crate) async fn render(service: &Service) -> Result<String, Error> {
    if let View::Stats(stats) = service.query(Query::Stats).await? {
        gauge!("tenure_pools").set(stats.pools as f64);
        gauge!("tenure_holds").set(stats.holds as f64);
        gauge!("tenure_waiters").set(stats.waiters as f64);
        gauge!("tenure_sessions").set(stats.sessions as f64);
    }
    let figures = figures();
    let mut text = figures.exporter.render();
    for histogram in &figures.histograms {
        histogram.render(&mut text).expect("there is room in memory");
    }
    Ok(text)
}

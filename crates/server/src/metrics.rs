//! Figures for Prometheus.
//!
//! How things stand is asked of the engine when somebody scrapes. What happened is counted by the engine when it
//! is durable, refusals where they are told.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tenure_core::{Query, View};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::service::Service;

/// At a million measurements a second, some megabytes.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(1);

/// From a hand-over within a commit to a job that runs for a day.
const SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0, 86_400.0];
/// From the fastest disk to one in trouble.
const COMMIT_SECONDS: &[f64] = &[0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0];
/// Powers of four up to the largest batch.
const COMMANDS: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0];

/// The process has one recorder, whoever starts a server in it.
pub(crate) fn recorder() -> &'static PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_wait_seconds".into()), SECONDS)
            .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_hold_seconds".into()), SECONDS))
            .and_then(|builder| {
                builder.set_buckets_for_metric(Matcher::Suffix("_commit_seconds".into()), COMMIT_SECONDS)
            })
            .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_commit_commands".into()), COMMANDS))
            .expect("no list of buckets is empty")
            .build_recorder();
        let handle = recorder.handle();
        // Somebody who embeds the server may have their own; then theirs is filled, and ours stays empty.
        let _ = metrics::set_global_recorder(recorder);
        describe();
        count_from_zero();
        handle
    })
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
    describe_counter!("tenure_policy_failures_total", "Decisions made without a pool's script because it failed");
    describe_histogram!("tenure_wait_seconds", "How long granted requests had waited in a queue");
    describe_histogram!("tenure_hold_seconds", "How long holds lasted");
    describe_histogram!("tenure_commit_seconds", "How long it took to make a batch durable");
    describe_histogram!("tenure_commit_commands", "Commands in a batch");
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
    ] {
        counter!(name).increment(0);
    }
    for script in ["place", "order"] {
        counter!("tenure_policy_failures_total", "script" => script).increment(0);
    }
}

/// The recorder keeps every single measurement until somebody looks; where nobody scrapes, this does.
pub(crate) async fn keep_small(closing: CancellationToken) {
    while closing.run_until_cancelled(tokio::time::sleep(UPKEEP_INTERVAL)).await.is_some() {
        recorder().run_upkeep();
    }
}

pub(crate) async fn render(service: &Service) -> Result<String, Error> {
    if let View::Stats(stats) = service.query(Query::Stats).await? {
        gauge!("tenure_pools").set(stats.pools as f64);
        gauge!("tenure_holds").set(stats.holds as f64);
        gauge!("tenure_waiters").set(stats.waiters as f64);
        gauge!("tenure_sessions").set(stats.sessions as f64);
    }
    Ok(recorder().render())
}

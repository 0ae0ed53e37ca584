//! Figures for Prometheus.
//!
//! How things stand is asked of the engine when somebody scrapes. What happened is counted in one place, by
//! following the log as any watcher could; commits are measured by the engine, refusals where they are told.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tenure_core::{Event, HoldEnd, PAGE_MAX, Query, Seq, Timestamp, Token, View, WaitEnd, WaiterId};
use tenure_engine::{EventQuery, Recorded};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::service::Service;

/// Scrapers come every few seconds; until then events are cheaper to read by the page.
const PACE: Duration = Duration::from_millis(250);

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

/// Counts what happens from now on, until the server stops.
pub(crate) async fn follow(service: Service, closing: CancellationToken) {
    let mut grown = service.engine.last_event();
    let mut after = *grown.borrow_and_update();
    let mut counted = Counted::default();
    while let Some(Ok(())) = closing.run_until_cancelled(grown.changed()).await {
        tokio::time::sleep(PACE).await;
        after = count_from(&service, after, &mut counted).await;
    }
}

async fn count_from(service: &Service, mut after: Seq, counted: &mut Counted) -> Seq {
    loop {
        let query = EventQuery { after: Some(after), limit: PAGE_MAX, ..EventQuery::default() };
        let page = match service.engine.events(query).await {
            Ok(Ok(page)) => page,
            // Cut off before it was counted: the figures have a gap, and go on.
            Ok(Err(gone)) => {
                after = Seq(gone.oldest.0.saturating_sub(1));
                continue;
            }
            Err(failure) => {
                tracing::warn!(%failure, "events were not counted");
                return after;
            }
        };
        page.items.iter().for_each(|recorded| counted.count(recorded));
        after = page.reached.unwrap_or(after);
        if page.done {
            return after;
        }
    }
}

/// Since when those waits and holds last whose beginning was seen.
#[derive(Default)]
struct Counted {
    waits: HashMap<WaiterId, Timestamp>,
    holds: HashMap<Token, Timestamp>,
}

impl Counted {
    fn count(&mut self, recorded: &Recorded) {
        let seconds_since = |since: Timestamp| recorded.at.millis_since(since) as f64 / 1_000.0;
        match &recorded.event {
            Event::Queued { id, .. } => {
                self.waits.insert(*id, recorded.at);
            }
            Event::Granted { token, waiter, .. } => {
                counter!("tenure_grants_total").increment(1);
                if let Some(since) = waiter.and_then(|waiter| self.waits.remove(&waiter)) {
                    histogram!("tenure_wait_seconds").record(seconds_since(since));
                }
                self.holds.insert(*token, recorded.at);
            }
            Event::Ended { token, how, .. } => {
                counter!(ended(how)).increment(1);
                if let Some(since) = self.holds.remove(token) {
                    histogram!("tenure_hold_seconds").record(seconds_since(since));
                }
            }
            Event::WaitEnded { id, how, .. } => {
                self.waits.remove(id);
                if *how == WaitEnd::TimedOut {
                    counter!("tenure_wait_timeouts_total").increment(1);
                }
            }
            _ => {}
        }
    }
}

fn ended(how: &HoldEnd) -> &'static str {
    match how {
        HoldEnd::Released => "tenure_releases_total",
        HoldEnd::Expired => "tenure_expiries_total",
        HoldEnd::Forced(_) => "tenure_forced_total",
        HoldEnd::SessionEnded | HoldEnd::OwnerGone | HoldEnd::Withdrawn | HoldEnd::Unreceived => {
            "tenure_other_ends_total"
        }
    }
}

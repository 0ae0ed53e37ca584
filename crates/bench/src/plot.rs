//! Two plots as SVG: bars of throughput beside each other, and curves of latency on logarithmic axes, a panel for each load. They carry their own
//! background, so that they can be read on a light page and on a dark one.

use std::fmt::Write;

use hdrhistogram::Histogram;

use crate::latency::Latency;
use crate::plan::{On, Server, Way};
use crate::report::{self, Table};

const WIDTH: f64 = 760.0;
const STYLE: &str = "\
<style>
  .page { fill: #ffffff } .text { fill: #1f2328 } .faint { fill: #59636e } .line { stroke: #d1d9e0 }
  .ours { fill: #0969da } .peer { fill: #8c959f } .range { stroke: #1f2328 }
  .disk-line { stroke: #1a7f37 } .ours-line { stroke: #0969da } .bare-line { stroke: #8250df }
  .redis-line { stroke: #cf222e } .etcd-line { stroke: #d4a72c } .ldlm-line { stroke: #bf3989 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .text { fill: #f0f6fc } .faint { fill: #9198a1 } .line { stroke: #3d444d }
    .ours { fill: #4493f8 } .peer { fill: #656c76 } .range { stroke: #f0f6fc }
    .disk-line { stroke: #3fb950 } .ours-line { stroke: #4493f8 } .bare-line { stroke: #ab7df8 }
    .redis-line { stroke: #f85149 } .etcd-line { stroke: #d29922 } .ldlm-line { stroke: #db61a2 }
  }
  text { font: 12px system-ui, sans-serif } .head { font-weight: 600 } .curve { fill: none; stroke-width: 2 }
</style>
";

/// A group of bars for each table, each with a scale of its own. A thin line shows the range of the rounds.
pub(crate) fn bars(tables: &[Table]) -> String {
    const LEFT: f64 = 210.0;
    const RIGHT: f64 = 620.0;
    const ROW: f64 = 22.0;
    const GAP: f64 = 34.0;
    let mut body = String::new();
    let mut y = 24.0;
    for table in tables {
        let rows: Vec<_> = table.rows.iter().filter_map(|row| Some((row, row.spread()?))).collect();
        // Nothing to compare.
        if rows.len() < 2 {
            continue;
        }
        text(&mut body, 12.0, y, "head text", "start", &format!("{}, {}", table.title, table.unit));
        let most = rows.iter().map(|(_, spread)| spread.most).fold(f64::MIN_POSITIVE, f64::max);
        let x = |figure: f64| LEFT + (RIGHT - LEFT) * figure / most;
        for (row, spread) in rows {
            y += ROW;
            let class = if row.who.starts_with("Tenure") { "ours" } else { "peer" };
            text(&mut body, LEFT - 8.0, y, "text", "end", &row.who);
            let (top, width, middle) = (y - 12.0, x(spread.median) - LEFT, y - 4.0);
            let _ = writeln!(
                body,
                r#"<rect class="{class}" x="{LEFT}" y="{top}" width="{width:.1}" height="15" rx="2"/>
<path class="range" d="M{:.1} {middle}H{:.1}"/>"#,
                x(spread.least),
                x(spread.most)
            );
            text(&mut body, x(spread.most) + 8.0, y, "faint", "start", &report::count(spread.median));
        }
        y += GAP;
    }
    page(y - 12.0, "Throughput beside the peers", &body)
}

/// The loads, which have a panel each, as parts of the capacity.
const PANELS: [u32; 2] = [50, 90];

/// From the median to the slowest of ten thousand, to the right ever rarer. What has no load is in all panels.
pub(crate) fn curves(latencies: &[Latency]) -> String {
    let all: Vec<_> = latencies.iter().map(|it| (it, it.all())).filter(|(_, all)| !all.is_empty()).collect();
    let at = |quantile| all.iter().map(move |(_, all)| all.value_at_quantile(quantile).max(1) as f64);
    // The panels have the same scale.
    let low = at(FIRST).fold(f64::MAX, f64::min).log10().floor();
    let high = at(LAST).fold(10_f64.powf(low + 1.0), f64::max).log10().ceil();
    let mut body = String::new();
    let mut top = 0.0;
    for percent in PANELS {
        let shown: Vec<_> = all.iter().filter(|(it, _)| is_in(it, percent)).collect();
        top = panel(&mut body, top, percent, (low, high), &shown);
    }
    page(top, "Latencies", &body)
}

fn is_in(latency: &Latency, panel: u32) -> bool {
    latency.percent.is_none_or(|percent| percent == panel)
}

/// Where the curves begin and end.
const FIRST: f64 = 0.5;
const LAST: f64 = 0.9999;

/// Gives where it ends. The scale is of powers of ten.
fn panel(
    body: &mut String,
    top: f64,
    percent: u32,
    (low, high): (f64, f64),
    shown: &[&(&Latency, Histogram<u64>)],
) -> f64 {
    const LEFT: f64 = 70.0;
    const RIGHT: f64 = 740.0;
    const HEIGHT: f64 = 300.0;
    const LINE: f64 = 18.0;
    let (first, last) = (top + 40.0, top + 40.0 + HEIGHT);
    let rarity = |quantile: f64| -(1.0 - quantile).log10();
    let x = |quantile| LEFT + (RIGHT - LEFT) * (rarity(quantile) - rarity(FIRST)) / (rarity(LAST) - rarity(FIRST));
    let y = |nanos: f64| last - HEIGHT * (nanos.max(1.0).log10() - low) / (high - low);

    let title = format!("Latency of an uncontended acquire, from when it was due, at {percent} % of the capacity");
    text(body, 12.0, top + 20.0, "head text", "start", &title);
    let mut decade = low;
    while decade <= high {
        let nanos = 10_f64.powf(decade);
        let _ = writeln!(body, r#"<path class="line" d="M{LEFT} {0:.1}H{RIGHT}"/>"#, y(nanos));
        text(body, LEFT - 8.0, y(nanos) + 4.0, "faint", "end", &label(nanos));
        decade += 1.0;
    }
    for (quantile, name) in [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")] {
        let _ = writeln!(body, r#"<path class="line" d="M{0:.1} {first}V{last}"/>"#, x(quantile));
        let anchor = if quantile == LAST { "end" } else { "middle" };
        text(body, x(quantile), last + LINE, "faint", anchor, name);
    }
    let mut line = last + 44.0;
    for (latency, all) in shown {
        let mut path = String::new();
        for step in 0..=150 {
            let rare = rarity(FIRST) + (rarity(LAST) - rarity(FIRST)) * f64::from(step) / 150.0;
            let quantile = 1.0 - 10_f64.powf(-rare);
            let to = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{to}{:.1} {:.1}", x(quantile), y(all.value_at_quantile(quantile) as f64));
        }
        let (colour, dashes) = look(latency);
        let curve = format!(r#"<path class="curve {colour}" stroke-dasharray="{dashes}""#);
        let _ = writeln!(body, r#"{curve} d="{path}"/>"#);
        let _ = writeln!(body, r#"{curve} d="M{LEFT} {0}h36"/>"#, line - 4.0);
        text(body, LEFT + 46.0, line, "text", "start", &latency.who);
        line += LINE;
    }
    line
}

/// A colour for each server. What is called without a stream is dashed, what waits for no disk and what has no load is dotted.
fn look(Latency { on, percent, .. }: &Latency) -> (&'static str, &'static str) {
    let colour = match on {
        On::Disk => "disk-line",
        On::Server(Server::Tenure | Server::TenureInMemory, _) => "ours-line",
        On::Server(Server::Redis | Server::RedisInMemory, _) => "redis-line",
        On::Server(Server::Etcd, _) => "etcd-line",
        On::Server(Server::Ldlm | Server::LdlmInMemory, _) => "ldlm-line",
        On::Server(Server::Bare, _) => "bare-line",
    };
    let dashes = match on {
        _ if !on.is_durable() => "2 3",
        On::Server(_, Way::Unary) => "6 4",
        On::Disk if percent.is_none() => "2 3",
        _ => "none",
    };
    (colour, dashes)
}

/// Whole powers of ten.
fn label(nanos: f64) -> String {
    match nanos {
        ..900.0 => format!("{nanos:.0} ns"),
        ..900_000.0 => format!("{:.0} µs", nanos / 1e3),
        ..900_000_000.0 => format!("{:.0} ms", nanos / 1e6),
        _ => format!("{:.0} s", nanos / 1e9),
    }
}

fn text(body: &mut String, x: f64, y: f64, class: &str, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(body, r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#);
}

fn page(height: f64, title: &str, body: &str) -> String {
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">
{STYLE}<rect class="page" width="100%" height="100%"/>
{body}</svg>
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::LOADS;

    #[test]
    fn curves_of_a_panel_can_be_told_apart() {
        let latencies: Vec<_> = std::iter::once(Latency::of_idle_disk()).chain(LOADS.map(Latency::of_load)).collect();
        for panel in PANELS {
            let mut looks: Vec<_> = latencies.iter().filter(|it| is_in(it, panel)).map(look).collect();
            let curves = looks.len();
            looks.sort_unstable();
            looks.dedup();
            assert_eq!(looks.len(), curves, "{looks:?}");
        }
    }

    #[test]
    fn every_load_has_a_panel() {
        assert!(LOADS.iter().all(|load| PANELS.contains(&load.percent)));
    }
}

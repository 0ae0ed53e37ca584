//! Two plots as SVG: bars of throughput beside each other, and curves of latency on logarithmic axes. They carry their own
//! background, so that they can be read on a light page and on a dark one.

use std::fmt::Write;

use crate::latency::Latency;
use crate::report::{self, Table};

const WIDTH: f64 = 760.0;
const STYLE: &str = "\
<style>
  .page { fill: #ffffff } .text { fill: #1f2328 } .faint { fill: #59636e } .line { stroke: #d1d9e0 }
  .ours { fill: #0969da } .peer { fill: #8c959f } .range { stroke: #1f2328 }
  .disk-line { stroke: #1a7f37 } .ours-line { stroke: #0969da } .redis-line { stroke: #cf222e } .bare-line { stroke: #8250df }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .text { fill: #f0f6fc } .faint { fill: #9198a1 } .line { stroke: #3d444d }
    .ours { fill: #4493f8 } .peer { fill: #656c76 } .range { stroke: #f0f6fc }
    .disk-line { stroke: #3fb950 } .ours-line { stroke: #4493f8 } .redis-line { stroke: #f85149 } .bare-line { stroke: #ab7df8 }
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

/// From the median to the slowest of ten thousand, to the right ever rarer.
pub(crate) fn curves(latencies: &[Latency]) -> String {
    const LEFT: f64 = 70.0;
    const RIGHT: f64 = 740.0;
    const TOP: f64 = 40.0;
    const BOTTOM: f64 = 340.0;
    const FIRST: f64 = 0.5;
    const LAST: f64 = 0.9999;
    let all: Vec<_> = latencies.iter().map(|it| (it, it.all())).filter(|(_, all)| !all.is_empty()).collect();
    let rarity = |quantile: f64| -(1.0 - quantile).log10();
    let x = |quantile| LEFT + (RIGHT - LEFT) * (rarity(quantile) - rarity(FIRST)) / (rarity(LAST) - rarity(FIRST));
    let at = |quantile| all.iter().map(move |(_, all)| all.value_at_quantile(quantile).max(1) as f64);
    let low = at(FIRST).fold(f64::MAX, f64::min).log10().floor();
    let high = at(LAST).fold(10_f64.powf(low + 1.0), f64::max).log10().ceil();
    let y = |nanos: f64| BOTTOM - (BOTTOM - TOP) * (nanos.max(1.0).log10() - low) / (high - low);

    let mut body = String::new();
    text(&mut body, 12.0, 20.0, "head text", "start", "Latency of an uncontended acquire, from when it was due");
    let mut decade = low;
    while decade <= high {
        let nanos = 10_f64.powf(decade);
        let _ = writeln!(body, r#"<path class="line" d="M{LEFT} {0:.1}H{RIGHT}"/>"#, y(nanos));
        text(&mut body, LEFT - 8.0, y(nanos) + 4.0, "faint", "end", &label(nanos));
        decade += 1.0;
    }
    for (quantile, name) in [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")] {
        let _ = writeln!(body, r#"<path class="line" d="M{0:.1} {TOP}V{BOTTOM}"/>"#, x(quantile));
        let anchor = if quantile == LAST { "end" } else { "middle" };
        text(&mut body, x(quantile), BOTTOM + 18.0, "faint", anchor, name);
    }
    for (number, (latency, all)) in all.iter().enumerate() {
        let mut path = String::new();
        for step in 0..=150 {
            let rare = rarity(FIRST) + (rarity(LAST) - rarity(FIRST)) * f64::from(step) / 150.0;
            let quantile = 1.0 - 10_f64.powf(-rare);
            let to = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{to}{:.1} {:.1}", x(quantile), y(all.value_at_quantile(quantile) as f64));
        }
        // What is under more load is dashed.
        let dashes = if latency.who.contains("90 %") { r#" stroke-dasharray="6 4""# } else { "" };
        let colour = colour(&latency.who);
        let _ = writeln!(body, r#"<path class="curve {colour}"{dashes} d="{path}"/>"#);
        let line = BOTTOM + 44.0 + 18.0 * number as f64;
        let _ = writeln!(body, r#"<path class="curve {colour}"{dashes} d="M{LEFT} {0}h36"/>"#, line - 4.0);
        text(&mut body, LEFT + 46.0, line, "text", "start", &latency.who);
    }
    page(BOTTOM + 44.0 + 18.0 * all.len() as f64, "Latencies", &body)
}

fn colour(who: &str) -> &'static str {
    match who {
        _ if who.starts_with("Tenure") => "ours-line",
        _ if who.starts_with("Redis") => "redis-line",
        _ if who.starts_with("nothing but") => "bare-line",
        _ => "disk-line",
    }
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

//! Measurements, counted where they belong as they come. The exporter's own histograms keep every single one until somebody looks, which at
//! hundreds of thousands a second takes memory all the time and then milliseconds at once.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::HistogramFn;

#[derive(Debug)]
pub(super) struct Histogram {
    pub(super) name: &'static str,
    description: &'static str,
    /// Up to which value a measurement is counted here, in rising order; what is larger than all is counted behind them.
    bounds: &'static [f64],
    counts: Vec<AtomicU64>,
    /// The bits of a floating-point number.
    sum: AtomicU64,
}

impl Histogram {
    pub(super) fn new(name: &'static str, description: &'static str, bounds: &'static [f64]) -> Self {
        let counts = std::iter::repeat_with(AtomicU64::default).take(bounds.len() + 1).collect();
        Self { name, description, bounds, counts, sum: AtomicU64::new(0.0_f64.to_bits()) }
    }

    /// As Prometheus reads it. What is measured meanwhile may be in one line and not in another.
    pub(super) fn render(&self, text: &mut String) -> std::fmt::Result {
        let Self { name, description, .. } = self;
        writeln!(text, "# HELP {name} {description}\n# TYPE {name} histogram")?;
        let mut total = 0;
        let bounds = self.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {total}")?;
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        writeln!(text, "{name}_sum {sum}\n{name}_count {total}\n")
    }
}

impl HistogramFn for Histogram {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        let place = self.bounds.iter().take_while(|bound| value > **bound).count();
        self.counts[place].fetch_add(count as u64, Ordering::Relaxed);
        let more = |sum| Some((f64::from_bits(sum) + value * count as f64).to_bits());
        // It is tried until it succeeds.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_counted_where_it_belongs_and_in_all_that_is_larger() {
        let histogram = Histogram::new("taken_seconds", "How long it took", &[0.5, 1.0, 60.0]);
        for value in [0.0, 0.5, 0.75, 60.0, 60.5] {
            histogram.record(value);
        }
        histogram.record_many(2.0, 3);
        let mut text = String::new();
        histogram.render(&mut text).unwrap();
        let expected = "# HELP taken_seconds How long it took\n\
                        # TYPE taken_seconds histogram\n\
                        taken_seconds_bucket{le=\"0.5\"} 2\n\
                        taken_seconds_bucket{le=\"1\"} 3\n\
                        taken_seconds_bucket{le=\"60\"} 7\n\
                        taken_seconds_bucket{le=\"+Inf\"} 8\n\
                        taken_seconds_sum 127.75\n\
                        taken_seconds_count 8\n\n";
        assert_eq!(text, expected);
    }
}

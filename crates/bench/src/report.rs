//! The rows of the table, and what is printed at the end of a run.

/// One row of the table.
pub(crate) struct Workload<R> {
    pub(crate) name: &'static str,
    unit: &'static str,
    pub(crate) run: R,
    /// In units a second, one per round.
    pub(crate) figures: Vec<f64>,
    /// Why there are none.
    pub(crate) missing: Option<String>,
}

/// What it says, and the names of the two rows.
pub(crate) type Ratio = (&'static str, &'static str, &'static str);

impl<R> Workload<R> {
    pub(crate) fn new(name: &'static str, unit: &'static str, run: R) -> Self {
        Self { name, unit, run, figures: Vec::new(), missing: None }
    }

    /// Whether its name contains one of these, if there are any.
    pub(crate) fn is_wanted(&self, names: &[String]) -> bool {
        names.is_empty() || names.iter().any(|name| self.name.contains(name))
    }

    fn median(&self) -> f64 {
        self.figures[self.figures.len() / 2]
    }
}

pub(crate) fn print<R>(workloads: &mut [Workload<R>], ratios: &[Ratio]) {
    println!("{:<58} {:>8} {:>8} {:>8}  unit", "workload", "median", "least", "most");
    for workload in workloads.iter_mut() {
        if let Some(why) = &workload.missing {
            println!("{:<58} not measured: {why}", workload.name);
            continue;
        }
        workload.figures.sort_by(f64::total_cmp);
        let (least, most) = (workload.figures[0], workload.figures[workload.figures.len() - 1]);
        let median = workload.median();
        let digits = usize::from(median < 100.0);
        print!("{:<58} {median:>8.digits$} {least:>8.digits$} {most:>8.digits$}", workload.name);
        println!("  {}", workload.unit);
    }
    let median = |name| workloads.iter().find(|it| it.name == name && it.missing.is_none()).map(Workload::median);
    println!();
    for &(what, ours, theirs) in ratios {
        if let (Some(ours), Some(theirs)) = (median(ours), median(theirs)) {
            println!("{what:<58} {:>8.2}", ours / theirs);
        }
    }
}

//! Figures with their spread, as Markdown that can be read as it is.

use std::collections::BTreeSet;

/// In place of figures.
pub(crate) const NOT_MEASURED: &str = "not measured";
pub(crate) const NO_ROUND: &str = "there was no round";

/// The figures of one thing that was measured.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) who: String,
    /// One per round.
    pub(crate) figures: Vec<f64>,
    /// Why there are none.
    pub(crate) missing: Option<String>,
}

/// What is compared with each other: the first row with each of the others.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) rows: Vec<Row>,
}

/// A ratio that is told by itself.
#[derive(Clone, Debug)]
pub(crate) struct Ratio {
    pub(crate) what: String,
    pub(crate) aim: &'static str,
    /// Or why there is none.
    pub(crate) ratio: Result<Spread, String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Row {
    pub(crate) fn new(who: impl Into<String>) -> Self {
        Self { who: who.into(), figures: Vec::new(), missing: None }
    }

    /// None if it could not be measured, be it in one round.
    pub(crate) fn spread(&self) -> Option<Spread> {
        Spread::of(self.figures.iter().copied().filter(|_| self.missing.is_none()))
    }

    /// This divided by the other, round by round, or why it cannot be told.
    pub(crate) fn ratio(&self, other: &Self) -> Result<Spread, String> {
        if let Some(why) = self.missing.as_ref().or(other.missing.as_ref()) {
            return Err(why.clone());
        }
        let ratios = self.figures.iter().zip(&other.figures).map(|(this, other)| this / other);
        Spread::of(ratios).ok_or_else(|| NO_ROUND.to_owned())
    }
}

impl Spread {
    /// None of nothing.
    pub(crate) fn of(figures: impl Iterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<_> = figures.collect();
        figures.sort_by(f64::total_cmp);
        let (&least, &most) = (figures.first()?, figures.last()?);
        let middle = figures.len() / 2;
        let median = match figures.len() % 2 {
            0 => (figures[middle - 1] + figures[middle]) / 2.0,
            _ => figures[middle],
        };
        Some(Self { median, least, most })
    }

    /// The median, and what it lies between.
    pub(crate) fn say(self, figure: impl Fn(f64) -> String) -> [String; 2] {
        [figure(self.median), format!("{} – {}", figure(self.least), figure(self.most))]
    }
}

impl Table {
    pub(crate) fn markdown(&self) -> String {
        let first = self.rows.first();
        let mut lines = vec![["", self.unit, "from – to", "first / this", "from – to"].map(str::to_owned).to_vec()];
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = vec![row.who.clone()];
            match (row.spread(), &row.missing) {
                (Some(spread), None) => line.extend(spread.say(count)),
                (_, Some(_)) => line.extend([NOT_MEASURED.to_owned(), String::new()]),
                (None, None) => continue,
            }
            let ratio = first.filter(|_| number > 0 && row.missing.is_none()).and_then(|first| first.ratio(row).ok());
            line.extend(ratio.map_or_else(Default::default, |ratio| ratio.say(factor)));
            lines.push(line);
        }
        if self.rows.len() == 1 {
            lines.iter_mut().for_each(|line| line.truncate(3));
        }
        format!("### {}\n\n{}", self.title, table(&lines))
    }
}

pub(crate) fn ratios(ratios: &[Ratio]) -> String {
    let mut lines = vec![["ratio, round by round", "aim", "median", "from – to"].map(str::to_owned).to_vec()];
    for Ratio { what, aim, ratio } in ratios {
        let mut line = vec![what.clone(), (*aim).to_owned()];
        match ratio {
            Ok(spread) => line.extend(spread.say(factor)),
            Err(_) => line.push(NOT_MEASURED.to_owned()),
        }
        lines.push(line);
    }
    table(&lines)
}

/// A line for each reason. What can be done about it, which follows, was told during the run.
pub(crate) fn not_measured<'a>(reasons: impl Iterator<Item = &'a String>) -> String {
    let mut told: Vec<_> = reasons.map(|why| why.split(';').next().unwrap_or_default()).collect();
    let mut before = BTreeSet::new();
    told.retain(|why| before.insert(*why));
    told.into_iter().map(|why| format!("\nNot measured: {why}.\n")).collect()
}

/// The first line is the head. The first column is text, the others are figures.
pub(crate) fn table(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let lengths = |column: usize| lines.iter().filter_map(move |line| Some(line.get(column)?.chars().count()));
    let widths: Vec<_> = (0..columns).map(|column| lengths(column).max().unwrap_or(0).max(3)).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (column, &width) in widths.iter().enumerate() {
            let cell = line.get(column).map_or("", String::as_str);
            text += &if column == 0 { format!("| {cell:<width$} ") } else { format!("| {cell:>width$} ") };
        }
        text += "|\n";
        if number == 0 {
            for (column, &width) in widths.iter().enumerate() {
                text += &if column == 0 { format!("|-{:-<width$}-", "") } else { format!("|-{:-<width$}:", "") };
            }
            text += "|\n";
        }
    }
    text
}

/// With a comma at the thousands, and decimals where they say something.
pub(crate) fn count(figure: f64) -> String {
    if figure < 100.0 {
        return format!("{figure:.1}");
    }
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (number, digit) in digits.chars().enumerate() {
        if number > 0 && (digits.len() - number).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn factor(ratio: f64) -> String {
    if ratio < 100.0 { format!("{ratio:.2}") } else { count(ratio) }
}

/// Nanoseconds.
pub(crate) fn duration(nanos: f64) -> String {
    let micros = nanos / 1e3;
    match micros {
        ..1_000.0 => format!("{micros:.0} µs"),
        1_000.0..10_000.0 => format!("{:.2} ms", micros / 1e3),
        10_000.0..1_000_000.0 => format!("{:.1} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        let row = |figures: &[f64]| Row { figures: figures.to_vec(), ..Row::new("it") };
        let ratio = row(&[10.0, 40.0, 30.0]).ratio(&row(&[10.0, 10.0, 20.0]));
        assert_eq!(ratio, Ok(Spread { median: 1.5, least: 1.0, most: 4.0 }));
        assert_eq!(row(&[]).ratio(&row(&[1.0])), Err(NO_ROUND.to_owned()));
    }

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!([count(1_234_567.8), count(999.6), count(12.34)], ["1,234,568", "1,000", "12.3"]);
        assert_eq!([duration(45_600.0), duration(1_234_000.0), duration(2.5e9)], ["46 µs", "1.23 ms", "2.50 s"]);
    }

    #[test]
    fn what_is_missing_is_told_in_the_table() {
        let missing = Row { missing: Some("not installed".into()), ..Row::new("peer") };
        let ours = Row { figures: vec![200.0], ..Row::new("ours") };
        let theirs = Row { figures: vec![100.0], ..Row::new("theirs") };
        let table = Table { title: "Names".into(), unit: "pairs/s", rows: vec![ours, theirs, missing] };
        let text = table.markdown();
        assert!(text.contains("| theirs |          100 | 100 – 100 |         2.00 | 2.00 – 2.00 |"), "{text}");
        assert!(text.contains("| peer   | not measured |           |              |             |"), "{text}");
    }

    #[test]
    fn what_is_aimed_for_and_not_measured_is_told_with_its_aim() {
        let missing = Row { missing: Some("not installed; do install it".into()), ..Row::new("peer") };
        let ours = Row { figures: vec![200.0], ..Row::new("ours") };
        let ratio = |what: &str, aim, other| Ratio { what: what.to_owned(), aim, ratio: ours.ratio(other) };
        let text = ratios(&[ratio("ours / ours", "≤ 3", &ours), ratio("ours / peer", "≥ 2", &missing)]);
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| ours / ours           | ≤ 3 |         1.00 | 1.00 – 1.00 |",
                "| ours / peer           | ≥ 2 | not measured |             |",
            ]
        );
    }

    #[test]
    fn a_reason_is_told_once() {
        let reasons =
            ["it is not installed; do install it", "other: no answer", "it is not installed"].map(str::to_owned);
        let text = not_measured(reasons.iter());
        assert_eq!(text, "\nNot measured: it is not installed.\n\nNot measured: other: no answer.\n");
    }
}

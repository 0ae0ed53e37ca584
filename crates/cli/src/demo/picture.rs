//! The picture as lines: who holds what and who waits, from what the server listed. How lines get to a terminal is the
//! screen's business.

use tenure_client::v1;
use unicode_width::UnicodeWidthChar;

use crate::{look, output};

/// Enough to see a tenth of what usually happens.
const BAR: usize = 24;
/// What a full bar stands for, unless somebody has been there for longer.
const BAR_MS: u64 = 5_000;
/// One long name does not push the rest out of sight.
const NAME_MAX: usize = 16;

/// How things stand, as the server listed them.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) pool: v1::PoolDetail,
    pub(super) holds: Vec<v1::Hold>,
    pub(super) queue: Vec<v1::Waiter>,
}

/// Who holds and who waits, and for how long by the server's clock.
pub(super) fn state(seen: &Seen, now_ms: u64) -> Vec<Line> {
    let layout = Layout::of(seen, now_ms);
    let summary = seen.pool.summary.clone().unwrap_or_default();
    let held = format!("HOLD ({} of {})", summary.used, summary.size);
    let mut lines = vec![Line::heading(&held)];
    lines.extend(seen.pool.resources.iter().map(|resource| layout.resource(resource, seen)));
    lines.extend([Line::default(), Line::heading(&format!("WAIT ({})", seen.queue.len()))]);
    lines.extend(seen.queue.iter().map(|waiter| layout.waiter(waiter)));
    lines
}

/// Where the columns are.
struct Layout {
    now_ms: u64,
    first: usize,
    who: usize,
    token: usize,
    bar_ms: u64,
}

impl Layout {
    fn of(seen: &Seen, now_ms: u64) -> Self {
        let widest = |names: &mut dyn Iterator<Item = &String>| {
            names.map(|name| output::width(&output::clean(name)).min(NAME_MAX)).max().unwrap_or(0).max(4)
        };
        let holders = seen.holds.iter().map(|hold| &hold.holder);
        let since = seen.holds.iter().map(|hold| hold.since_ms).chain(seen.queue.iter().map(|waiter| waiter.since_ms));
        Self {
            now_ms,
            first: widest(&mut seen.pool.resources.iter().map(|resource| &resource.name)),
            who: widest(&mut holders.chain(seen.queue.iter().map(|waiter| &waiter.holder))),
            token: seen.holds.iter().map(|hold| hold.token).max().unwrap_or(0).to_string().len().max(3),
            bar_ms: since.map(|since| now_ms.saturating_sub(since)).max().unwrap_or(0).max(BAR_MS),
        }
    }

    fn resource(&self, resource: &v1::ResourceState, seen: &Seen) -> Line {
        let mut line = Line::default().cell(Style::Strong, &resource.name, self.first);
        match seen.holds.iter().find(|hold| hold.resources.contains(&resource.name)) {
            Some(hold) => {
                let silence = self.silence(hold);
                let style = if silence.is_some() { Style::Bad } else { Style::Good };
                line = line.cell(style, &hold.holder, self.who);
                line = line.and(Style::Faint, &format!("token {:<width$}  ", hold.token, width = self.token));
                line = self.lasting(line, style, '█', hold.since_ms);
                line = line.and(Style::Bad, &silence.unwrap_or_default());
            }
            None => line = line.cell(Style::Faint, "free", self.who),
        }
        let in_service = resource.condition.as_ref().is_none_or(|condition| {
            matches!(condition.state(), v1::ConditionState::Unspecified | v1::ConditionState::InService)
        });
        if in_service { line } else { line.and(Style::Bad, &look::condition(resource.condition.as_ref())) }
    }

    fn waiter(&self, waiter: &v1::Waiter) -> Line {
        // Whoever is away keeps its place in the list, but is not counted.
        let place = waiter.position.map_or_else(|| "away".to_owned(), |position| position.to_string());
        let line = Line::default().cell(Style::Strong, &format!("{place:>width$}", width = self.first), self.first);
        let line = line.cell(Style::Plain, &waiter.holder, self.who);
        let gap = " ".repeat("token ".len() + self.token + 2);
        self.lasting(line.and(Style::Plain, &gap), Style::Faint, '░', waiter.since_ms)
    }

    /// For how long, as a number and as a bar.
    fn lasting(&self, line: Line, style: Style, block: char, since_ms: u64) -> Line {
        // The server's time is known only roughly: what seems to lie ahead has just begun.
        let lasted = self.now_ms.saturating_sub(since_ms);
        let long = usize::try_from(lasted * BAR as u64 / self.bar_ms).unwrap_or(BAR).min(BAR);
        let bar: String = std::iter::repeat_n(block, long).collect();
        line.and(Style::Plain, &format!("{:>7}  ", seconds(lasted))).cell(style, &bar, BAR)
    }

    /// A lease is renewed at a third of it: of one that half is gone of, nothing was heard.
    fn silence(&self, hold: &v1::Hold) -> Option<String> {
        let left = hold.deadline_ms?.saturating_sub(self.now_ms);
        (left < hold.ttl_ms? / 2).then(|| format!("silent: its lease ends in {}", seconds(left)))
    }
}

/// With one digit, so that it does not jump about as it counts.
pub(super) fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1_000, millis % 1_000 / 100)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
}

impl Style {
    /// Of the sixteen colours that people can choose themselves.
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "\x1b[1m",
            Self::Faint => "\x1b[2m",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
        }
    }
}

/// A line of text in several styles. What it says is the same without them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line(Vec<(Style, String)>);

impl Line {
    pub(crate) fn text(text: &str) -> Self {
        Self::default().and(Style::Plain, text)
    }

    pub(crate) fn heading(text: &str) -> Self {
        Self::default().and(Style::Strong, text)
    }

    pub(crate) fn faint(text: &str) -> Self {
        Self::default().and(Style::Faint, text)
    }

    pub(crate) fn bad(text: &str) -> Self {
        Self::default().and(Style::Bad, text)
    }

    pub(super) fn and(mut self, style: Style, text: &str) -> Self {
        self.0.push((style, output::clean(text).into_owned()));
        self
    }

    /// A column, and the gap after it.
    fn cell(self, style: Style, text: &str, width: usize) -> Self {
        let mut cell = String::new();
        output::pad(&mut cell, &cropped(&output::clean(text), width), width);
        self.and(style, &cell)
    }

    /// Cut off where the terminal ends.
    pub(crate) fn render(&self, columns: usize, colour: bool) -> String {
        let length = self.0.iter().rposition(|(_, text)| !text.trim_end().is_empty()).map_or(0, |last| last + 1);
        let mut line = String::new();
        let mut left = columns;
        for (number, (style, text)) in self.0[..length].iter().enumerate() {
            let text = if number + 1 == length { text.trim_end() } else { text };
            // What does not fit shows that by its end, and nothing comes after it.
            let fits = output::width(text) <= left;
            let text = cropped(text, left);
            left = if fits { left - output::width(&text) } else { 0 };
            match style.code() {
                code if colour && !code.is_empty() => line.push_str(&format!("{code}{text}\x1b[0m")),
                _ => line.push_str(&text),
            }
        }
        line
    }
}

/// As much of it as takes so many columns.
fn cropped(text: &str, columns: usize) -> String {
    if output::width(text) <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let fits = |c: &char| {
        let width = c.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    if columns > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn hold(holder: &str, token: u64, since_ms: u64, left_ms: u64) -> v1::Hold {
        v1::Hold {
            holder: holder.into(),
            token,
            resources: vec![format!("gpu-{token}")],
            ttl_ms: Some(3_000),
            since_ms,
            deadline_ms: Some(NOW + left_ms),
            ..v1::Hold::default()
        }
    }

    fn seen() -> Seen {
        let resource = |number: u32| v1::ResourceState { name: format!("gpu-{number}"), ..Default::default() };
        let waiter = |holder: &str, position, since_ms| v1::Waiter {
            holder: holder.into(),
            position,
            since_ms,
            ..v1::Waiter::default()
        };
        let mut drained = resource(3);
        let condition = drained.condition.get_or_insert_default();
        condition.set_state(v1::ConditionState::Drained);
        condition.note = Some("new fan".into());
        Seen {
            pool: v1::PoolDetail {
                summary: Some(v1::Pool { size: 3, used: 2, ..v1::Pool::default() }),
                resources: vec![resource(1), resource(2), drained],
                ..v1::PoolDetail::default()
            },
            holds: vec![hold("ada", 1, NOW - 1_250, 2_500), hold("dan", 2, NOW - 5_000, 1_100)],
            queue: vec![waiter("bob", Some(1), NOW - 2_500), waiter("東京\u{1b}[2J", None, NOW + 10)],
        }
    }

    #[test]
    fn it_shows_who_holds_for_how_long_who_waits_and_who_is_silent() {
        let lines: Vec<_> = state(&seen(), NOW).iter().map(|line| line.render(100, false)).collect();
        assert_eq!(
            lines,
            [
                "HOLD (2 of 3)",
                "gpu-1  ada            token 1      1.2 s  ██████",
                "gpu-2  dan            token 2      5.0 s  ████████████████████████  silent: its lease ends in 1.1 s",
                "gpu-3  free           drained: new fan",
                "",
                "WAIT (2)",
                "    1  bob                         2.5 s  ░░░░░░░░░░░░",
                " away  東京\\u{1b}[2J               0.0 s",
            ]
        );
    }

    #[test]
    fn a_line_ends_where_the_terminal_does_whatever_its_colours() {
        let line = Line::heading("東京 holds").and(Style::Good, " gpu-1");
        assert_eq!(line.render(80, false), "東京 holds gpu-1");
        assert_eq!(line.render(4, false), "東…");
        assert_eq!(line.render(12, false), "東京 holds …");
        assert_eq!(line.render(12, true), "\x1b[1m東京 holds\x1b[0m\x1b[32m …\x1b[0m");
        assert_eq!(line.render(0, false), "");
    }
}

//! What is printed: JSON and text on stdout, notes on stderr. A reader that has gone away is not an error, and nothing
//! that a server tells reaches the terminal as a control character.

use std::borrow::Cow;
use std::io::{ErrorKind, Write};

use serde::Serialize;
use tenure_client::v1;
use unicode_width::UnicodeWidthStr;

use crate::arguments::Output;
use crate::exit::Exit;
use crate::look;

/// Prints it at once. False if nobody reads any more: then there is no reason to go on.
pub(crate) fn print(text: &str) -> Result<bool, Exit> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Exit::Output(error)),
    }
}

/// Prints a message of the API as one line of JSON.
pub(crate) fn json(message: &impl Serialize) -> Result<bool, Exit> {
    // A newer server may use words that this program does not know, which have no JSON form here.
    let unknown = |error: serde_json::Error| tenure_client::Error::Foreign {
        address: "the server's address".to_owned(),
        why: error.to_string(),
    };
    let mut line = serde_json::to_string(message).map_err(unknown)?;
    line.push('\n');
    print(&line)
}

/// A refusal as a program reads it, in the form that REST gives it.
pub(crate) fn error(refusal: &v1::Refusal) {
    #[derive(Serialize)]
    struct Told<'a> {
        error: &'a v1::Refusal,
    }
    // It is told on stderr too.
    let _ = json(&Told { error: refusal });
}

/// Tells that something was done: in one line, or with the answer of the API.
pub(crate) fn done(output: &Output, said: &str, answer: &impl Serialize) -> Result<(), Exit> {
    let printed = if output.json { json(answer) } else { print(&format!("{}\n", clean(said))) };
    printed.map(|_| ())
}

/// The answer of the API if JSON was asked for. People see from the exit code that it is done.
pub(crate) fn for_programs(asked: bool, answer: &impl Serialize) -> Result<(), Exit> {
    if asked { json(answer).map(|_| ()) } else { Ok(()) }
}

/// A hold as whoever has just got it wants to see it, with its key.
pub(crate) fn grant(grant: &v1::Grant) -> String {
    let resources: Vec<_> = grant.resources.iter().map(|resource| resource.name.clone()).collect();
    let mut facts = vec![
        ("pool", grant.pool.clone()),
        ("token", grant.token.to_string()),
        ("key", grant.key.clone()),
        ("has", look::taken(grant.units, &resources)),
    ];
    let also = grant.also.iter().map(|part| {
        let names: Vec<_> = part.resources.iter().map(|resource| resource.name.clone()).collect();
        format!("{} of {}", look::taken(part.units, &names), part.pool)
    });
    facts.push(("also", also.collect::<Vec<_>>().join(", ")));
    facts.extend(grant.deadline_ms.map(|deadline| ("until", look::moment(deadline))));
    list(&facts)
}

/// Facts, a line each.
pub(crate) fn list(facts: &[(&str, String)]) -> String {
    let widest = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
        pad(&mut text, name, widest);
        text.push_str(&clean(fact));
        text.push('\n');
    }
    text
}

/// Says on stderr what is not data.
pub(crate) fn note(text: &str) {
    // Whether anybody listens there changes nothing.
    let _ = writeln!(std::io::stderr(), "{}", clean(text));
}

/// The text with whatever could steer a terminal, or turn its writing around, made visible instead.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let steers = |c: char| {
        let invisible =
            matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        c.is_control() || invisible
    };
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if steers(c) { cleaned.extend(c.escape_default()) } else { cleaned.push(c) }
    }
    Cow::Owned(cleaned)
}

/// Columns under their headings, aligned. A column that has nothing to tell is left out.
pub(crate) struct Table<const N: usize> {
    heads: [&'static str; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(heads: [&'static str; N]) -> Self {
        Self { heads, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| match clean(&cell) {
            Cow::Owned(cleaned) => cleaned,
            Cow::Borrowed(_) => cell,
        }));
    }

    pub(crate) fn text(&self) -> String {
        let mut widths = [0; N];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        let mut text = String::new();
        let heads = self.heads.map(str::to_owned);
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, width), head) in row.iter().zip(widths).zip(self.heads).filter(|((_, width), _)| *width > 0) {
                let cell = if cell.is_empty() { "-" } else { cell };
                pad(&mut line, cell, width.max(head.len()));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// How many columns of a terminal it takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Adds a cell, and the gap after it.
pub(crate) fn pad(line: &mut String, cell: &str, width: usize) {
    line.push_str(cell);
    line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width()) + 2));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_turned_writing_do_not_reach_the_terminal() {
        assert_eq!(clean("\u{1b}[31mred\nline"), "\\u{1b}[31mred\\nline");
        assert_eq!(clean("\u{9b}2J\u{7f}\u{202e}txt.exe"), "\\u{9b}2J\\u{7f}\\u{202e}txt.exe");
        assert_eq!(clean("Müller 東京 `x` \\n"), "Müller 東京 `x` \\n");
    }

    #[test]
    fn columns_align_by_what_is_seen_and_empty_ones_are_left_out() {
        let mut table = Table::new(["POOL", "NOTE", "WAITERS"]);
        table.row(["東京".into(), String::new(), "12".into()]);
        table.row(["gpus-in-use".into(), String::new(), String::new()]);
        assert_eq!(table.text(), "POOL         WAITERS\n東京         12\ngpus-in-use  -\n");
    }
}

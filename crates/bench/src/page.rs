//! Puts what was measured into `docs/benchmarks.md`, between its marks, and the plots beside it. What people have written
//! around the marks stays.

use std::path::{Path, PathBuf};

use crate::load::Outcome;

/// The part of the page that a run writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Servers,
    Temporal,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Servers => "bench",
            Self::Temporal => "bench --temporal",
        }
    }
}

pub(crate) fn write(part: Part, text: &str) -> Outcome<()> {
    let page = docs().join("benchmarks.md");
    let written = replace(&std::fs::read_to_string(&page)?, part.name(), text)?;
    Ok(std::fs::write(page, written)?)
}

/// An SVG in `docs/benchmarks`.
pub(crate) fn write_plot(name: &str, svg: &str) -> Outcome<()> {
    let folder = docs().join("benchmarks");
    std::fs::create_dir_all(&folder)?;
    Ok(std::fs::write(folder.join(name), svg)?)
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn replace(page: &str, name: &str, text: &str) -> Result<String, String> {
    let (begin, end) =
        (format!("<!-- written by `cargo xtask {name} --write` -->\n"), format!("<!-- end of `{name}` -->"));
    let parts = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = parts.ok_or_else(|| format!("benchmarks.md has no marks for `{name}`"))?;
    Ok(format!("{before}{begin}\n{}\n\n{end}{after}", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let page = "before\n<!-- written by `cargo xtask bench --write` -->\nold\n<!-- end of `bench` -->\nafter\n";
        let written = replace(page, "bench", "new\n").unwrap();
        assert_eq!(
            written,
            "before\n<!-- written by `cargo xtask bench --write` -->\n\nnew\n\n<!-- end of `bench` -->\nafter\n"
        );
        assert_eq!(replace(&written, "bench", "new\n").unwrap(), written);
    }

    #[test]
    fn a_page_without_marks_is_left_alone() {
        assert!(replace("before\nafter\n", "bench", "new").is_err());
    }

    #[test]
    fn the_page_has_marks_for_every_part() {
        let page = std::fs::read_to_string(docs().join("benchmarks.md")).unwrap();
        for part in [Part::Servers, Part::Temporal] {
            assert!(replace(&page, part.name(), "").is_ok(), "{part:?}");
        }
    }
}

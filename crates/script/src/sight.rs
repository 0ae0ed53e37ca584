//! What a script looks at, as far as its text shows it. Whatever is in doubt is looked at: to take too much for seen costs
//! time, to take too little would give wrong scores.

use tenure_core::Sight;

/// Nothing is seen but by the names `request` and `resource`, so each place where one of them is written tells what is.
pub(crate) fn of(text: &str) -> Sight {
    let mut sight = Sight { meta: Some(Vec::new()), waited: false, labels: Some(Vec::new()) };
    for rest in after_each(text, "request") {
        match field(rest) {
            Some(("meta", rest)) => note(&mut sight.meta, entry(rest)),
            Some(("waited_ms", _)) => sight.waited = true,
            // These are always taken for seen.
            Some(("units" | "priority" | "selector" | "dirty", _)) => {}
            _ => (sight.meta, sight.waited) = (None, true),
        }
    }
    for rest in after_each(text, "resource") {
        match field(rest) {
            Some(("labels", rest)) => note(&mut sight.labels, entry(rest)),
            _ => sight.labels = None,
        }
    }
    sight
}

fn after_each<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(name).map(move |(at, _)| &text[at + name.len()..])
}

/// One more name, or all of them.
fn note(names: &mut Option<Vec<String>>, name: Option<&str>) {
    match (&mut *names, name) {
        (Some(known), Some(name)) if known.iter().all(|it| it != name) => known.push(name.into()),
        (Some(_), Some(_)) | (None, _) => {}
        (Some(_), None) => *names = None,
    }
}

/// The name after a dot, and what comes after it, unless it may be that of a function.
fn field(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('.')?;
    let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_').unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let next = rest.trim_start();
    let called = next.starts_with('(') || next.starts_with('!') && !next.starts_with("!=");
    let commented = next.starts_with("//") || next.starts_with("/*");
    (!name.is_empty() && !called && !commented).then_some((name, rest))
}

/// The name of an entry: after a dot, or as a plain text in brackets.
fn entry(text: &str) -> Option<&str> {
    if let Some((name, _)) = field(text) {
        return Some(name);
    }
    let (name, rest) = text.strip_prefix("[\"")?.split_once('"')?;
    (rest.starts_with(']') && !name.contains('\\')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_a_script_names_is_what_it_sees() {
        let sight = |meta: &[&str], waited, labels: &[&str]| Sight { meta: names(meta), waited, labels: names(labels) };
        assert_eq!(of("1"), sight(&[], false, &[]));
        assert_eq!(of("request.units + request.priority"), sight(&[], false, &[]));
        assert_eq!(of("request.waited_ms / 60000"), sight(&[], true, &[]));
        assert_eq!(of("request.meta.need != resource.labels.mem"), sight(&["need"], false, &["mem"]));
        assert_eq!(of("request.meta[\"my data\"].len() + request.meta.a"), sight(&["my data", "a"], false, &[]));
        assert_eq!(of("`${resource.labels.a}` == resource.labels.a"), sight(&[], false, &["a"]));
    }

    #[test]
    fn what_is_in_doubt_is_seen() {
        for text in [
            "request.holder == \"x\"",
            "let r = request; r.meta.a",
            "fn f(r) { r.holder } f(request) == \"x\"",
            "request [\"meta\"]",
            "request/**/.meta.a",
            "request.units/**/()",
            "request.units() ",
            "request .meta.a",
            "request.meta",
            "request.meta.keys()",
            "request.meta.keys ()",
            "request.meta.keys/**/()",
            "request.meta.f!()",
            "request.meta[\"a\" + \"b\"]",
            "request.meta[\"a\\u0062\"]",
            "request?.meta?.a",
            "request.meta?.a",
            "\"a\" in request.meta",
            "is_def_var(\"request\")",
            "request",
        ] {
            assert_eq!(of(text).meta, None, "{text}");
        }
        for text in ["resource == ()", "resource.name", "resource.labels", "resource.labels.keys()", "f(resource)"] {
            assert_eq!(of(text).labels, None, "{text}");
        }
    }
}

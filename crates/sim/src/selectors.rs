//! The selectors of plans, each as text for the engine and as a question in Rust for those who check it: the reference model
//! and the invariants do not rely on the evaluation that they judge.

use tenure_core::{Labels, ResourceName, Selector};

type Question = fn(&str, &dyn Fn(&str) -> Option<String>) -> bool;

/// In their canonical form.
const SELECTORS: [(&str, Question); 7] = [
    ("zone == a", |_, label| label("zone").as_deref() == Some("a")),
    ("mem >= 2", |_, label| number(label("mem")).is_some_and(|mem| mem >= 2)),
    ("name == a1", |name, _| name == "a1"),
    ("fast && !old", |_, label| label("fast").is_some() && label("old").is_none()),
    ("zone == b || old", |_, label| label("zone").as_deref() == Some("b") || label("old").is_some()),
    ("nothing", |_, label| label("nothing").is_some()),
    ("mem < 2 || zone == c", |_, label| {
        number(label("mem")).is_some_and(|mem| mem < 2) || label("zone").as_deref() == Some("c")
    }),
];

fn number(label: Option<String>) -> Option<i64> {
    label?.parse().ok()
}

pub(crate) fn selector(at: u8) -> Selector {
    Selector::parse(SELECTORS[usize::from(at)].0).expect("a selector")
}

/// Whether a resource is one that a selector asks for; without one, any is.
pub(crate) fn chosen(selector: Option<&Selector>, name: &ResourceName, labels: &Labels) -> bool {
    let Some(selector) = selector else { return true };
    let known = SELECTORS.iter().find(|(text, _)| *text == selector.as_str());
    let (_, question) = known.expect("plans have no other selectors");
    question(name.as_str(), &|label| labels.get(label).map(str::to_owned))
}

//! The scripts that pools of a plan have, and their scores, asked for one by one.

use std::sync::{Arc, LazyLock};

use tenure_core::{Budget, Fault, Offer, Policies, Request, Script, Scripts, Which};
use tenure_script::RhaiPolicies;

static POLICIES: LazyLock<Arc<RhaiPolicies>> = LazyLock::new(Arc::default);

/// By number, 0 for none. Some fail for some.
const ORDER: [&str; 5] = [
    "request.holder == \"client-1\"",
    "-request.units",
    "request.waited_ms / 10 - request.units * 3",
    "if request.holder == \"client-0\" { throw \"not this one\" } else { request.units }",
    "let mem = if resource == () { 1 } else { number(resource.labels.mem, 0) }; mem * request.units % 5",
];
const PLACE: [&str; 3] = [
    "number(resource.labels.mem, 0)",
    "if request.holder == \"client-2\" { throw \"not this one\" } else { -number(resource.labels.mem, 0) }",
    "\"old\" in resource.labels",
];

/// How many there are to choose from.
pub(crate) const COUNT: u8 = 6 * 4;

/// What a pool has by number. One of units has nothing to place.
pub(crate) fn of_pool(number: u8, named: bool) -> Scripts {
    let pick = |texts: &[&str], number: u8| {
        let text = texts.get(usize::from(number).checked_sub(1)?)?;
        Some(Script::parse(text).expect("a script"))
    };
    Scripts { order: pick(&ORDER, number % 6), place: pick(&PLACE, number / 6 % 4).filter(|_| named) }
}

pub(crate) fn policies() -> Arc<dyn Policies> {
    POLICIES.clone()
}

/// Compiled anew each time.
pub(crate) fn score(
    which: Which,
    script: &Script,
    request: &Request<'_>,
    resource: Option<&Offer<'_>>,
) -> Result<i64, Fault> {
    POLICIES.compile(which, script.as_str())?.score(request, resource, &mut Budget::of_a_decision())
}

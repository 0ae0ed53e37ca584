//! How things are said to people: times, sizes, conditions, what a hold has and when it ends.

use std::collections::BTreeMap;
use std::time::SystemTime;

use tenure_client::v1;

/// By this machine's clock; listings do not tell the server's time.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How long ago. Clocks differ: what seems to lie ahead has just happened.
pub(crate) fn ago(now_ms: u64, then_ms: u64) -> String {
    match now_ms.saturating_sub(then_ms) / 1_000 {
        0 => "just now".to_owned(),
        seconds => format!("{} ago", span(seconds * 1_000)),
    }
}

/// How far ahead, rounded up. What seems to be over ends any moment.
pub(crate) fn ahead(now_ms: u64, then_ms: u64) -> String {
    match then_ms.saturating_sub(now_ms).div_ceil(1_000) {
        0 => "now".to_owned(),
        seconds => format!("in {}", span(seconds * 1_000)),
    }
}

/// A measured time, in its two largest units.
pub(crate) fn span(millis: u64) -> String {
    let seconds = millis / 1_000;
    let two = |large: u64, unit: &str, small: u64, of: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit} {small}{of}"),
    };
    match seconds {
        0 => format!("{millis}ms"),
        1..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// A time that somebody chose, exactly and as it can be typed.
pub(crate) fn exact(millis: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.iter().find(|(size, _)| millis >= *size && millis.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{}{unit}", millis / size),
        None => format!("{millis}ms"),
    }
}

/// A point in time, in UTC with milliseconds.
pub(crate) fn moment(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    at.map_or_else(|| format!("{at_ms} ms"), |at| format!("{at:.3}"))
}

/// `1 unit`, `3 units`.
pub(crate) fn count(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// Metadata, as far as there is any: `reason="nightly backup" host=db-3`.
pub(crate) fn meta(meta: &BTreeMap<String, String>) -> String {
    // Why is asked before where.
    let (first, rest): (Vec<_>, Vec<_>) = meta.iter().partition(|(name, _)| *name == "reason");
    let pair = |(name, value): (&String, &String)| format!("{name}={}", quoted(value));
    first.into_iter().chain(rest).map(pair).collect::<Vec<_>>().join(" ")
}

/// Labels and properties in the form in which `pool set` takes them.
pub(crate) fn labels(labels: &BTreeMap<String, String>, sign: &str) -> String {
    let label = |(name, value): (&String, &String)| match value.as_str() {
        "" => format!("{sign}{name}"),
        value => format!("{sign}{name}={}", quoted(value)),
    };
    labels.iter().map(label).collect::<Vec<_>>().join(" ")
}

fn quoted(value: &str) -> String {
    let plain = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c == '"');
    if plain { value.to_owned() } else { format!("\"{}\"", value.replace('"', "\\\"")) }
}

/// `drained: moving house`.
pub(crate) fn condition(condition: Option<&v1::Condition>) -> String {
    let Some(condition) = condition else { return String::new() };
    let state = word(condition.state().as_str_name(), "CONDITION_STATE_").replace('_', " ");
    match &condition.note {
        Some(note) => format!("{state}: {note}"),
        None => state,
    }
}

/// The lower-case word of an enumeration's value, as JSON has it.
pub(crate) fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}

/// What a pool is made of.
pub(crate) fn many(named: bool, size: u64) -> String {
    count(size, if named { "resource" } else { "unit" })
}

/// What a hold has.
pub(crate) fn taken(units: u32, resources: &[String]) -> String {
    if resources.is_empty() { count(units.into(), "unit") } else { resources.join(", ") }
}

/// What a waiter wants; whether that is units or resources only its pool knows.
pub(crate) fn wanted(units: Option<u32>, all: bool, select: Option<&str>, dirty: bool) -> String {
    let many = match units {
        _ if all => "all".to_owned(),
        units => units.unwrap_or(1).to_string(),
    };
    let many = if dirty { format!("{many} dirty") } else { many };
    match select {
        Some(select) => format!("{many} of {select}"),
        None => many,
    }
}

/// What a hold has, in all its pools.
pub(crate) fn held(hold: &v1::Hold) -> String {
    let also = hold.also.iter();
    let also = also.map(|part| format!(" + {} of {}", taken(part.units.unwrap_or(0), &part.resources), part.pool));
    std::iter::once(taken(hold.units, &hold.resources)).chain(also).collect()
}

/// What a waiter wants, in all its pools.
pub(crate) fn waited_for(waiter: &v1::Waiter) -> String {
    let also = waiter.also.iter();
    let also =
        also.map(|part| format!(" + {} {}", part.pool, wanted(part.units, part.all, part.select.as_deref(), false)));
    std::iter::once(wanted(waiter.units, waiter.all, waiter.select.as_deref(), waiter.dirty)).chain(also).collect()
}

/// When a hold ends if nothing is done.
pub(crate) fn ends(now_ms: u64, hold: &v1::Hold) -> String {
    match (hold.lifetime(), hold.deadline_ms) {
        (v1::Lifetime::Session, Some(deadline_ms)) => {
            format!("{} or {}", ahead(now_ms, deadline_ms), with_session(hold))
        }
        (_, Some(deadline_ms)) => ahead(now_ms, deadline_ms),
        (v1::Lifetime::Session, None) => with_session(hold),
        (v1::Lifetime::Bound, None) => format!("with {}", hold.owner.as_deref().unwrap_or("its owner")),
        (v1::Lifetime::Kept, None) => "when released".to_owned(),
        (v1::Lifetime::Leased | v1::Lifetime::Window | v1::Lifetime::Unspecified, None) => String::new(),
    }
}

fn with_session(hold: &v1::Hold) -> String {
    match hold.session {
        Some(session) => format!("with session {session}"),
        None => "with its session".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_their_two_largest_units() {
        for (millis, said) in [
            (0, "0ms"),
            (999, "999ms"),
            (59_999, "59s"),
            (60_000, "1m"),
            (200_000, "3m 20s"),
            (7_500_000, "2h 5m"),
            (86_400_000, "1d"),
            (356_400_000, "4d 3h"),
        ] {
            assert_eq!(span(millis), said);
        }
    }

    #[test]
    fn clocks_that_differ_make_no_nonsense() {
        assert_eq!(ago(1_000, 9_000), "just now");
        assert_eq!(ago(14_900, 1_000), "13s ago");
        assert_eq!(ahead(9_000, 1_000), "now");
        assert_eq!(ahead(1_000, 1_001), "in 1s");
    }

    #[test]
    fn chosen_times_can_be_typed_as_they_are_said() {
        for (millis, said) in
            [(0, "0ms"), (1_500, "1500ms"), (90_000, "90s"), (60_000, "1m"), (7_200_000, "2h"), (604_800_000, "7d")]
        {
            assert_eq!(exact(millis), said);
            assert_eq!(crate::units::duration(said).map(crate::units::millis), Ok(millis));
        }
    }

    #[test]
    fn metadata_that_would_be_ambiguous_is_quoted() {
        let pairs = [("host", "db-3"), ("reason", "nightly \"backup\""), ("tag", "")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(meta(&pairs), r#"reason="nightly \"backup\"" host=db-3 tag="""#);
    }

    #[test]
    fn whatever_may_end_a_hold_is_said() {
        let mut hold = v1::Hold { session: Some(3), ..v1::Hold::default() };
        hold.set_lifetime(v1::Lifetime::Session);
        assert_eq!(ends(1_000, &hold), "with session 3");
        hold.deadline_ms = Some(9_000);
        assert_eq!(ends(1_000, &hold), "in 8s or with session 3");
        hold.set_lifetime(v1::Lifetime::Leased);
        assert_eq!(ends(1_000, &hold), "in 8s", "a lease outlives the session in which it was acquired");
    }

    #[test]
    fn points_in_time_are_rfc_3339_in_utc() {
        assert_eq!(moment(1_763_203_327_123), "2025-11-15T10:42:07.123Z");
        assert_eq!(moment(u64::MAX), format!("{} ms", u64::MAX));
    }
}

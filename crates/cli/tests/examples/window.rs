//! Whether a rate was kept, judged from when clients asked and were allowed to, and from when the server says that it
//! granted what they asked for.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// How far the server's clock may be from the one that clients read. It is the same machine's, but does not follow it if that
/// is set while the server runs.
const APART: u64 = 500;

/// A request that was allowed: somewhere between these, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) asked: u64,
    pub(crate) allowed: u64,
}

impl Request {
    /// As the examples print it: `request 3: asked 1700000000000, allowed 1700000000003`.
    pub(crate) fn parse(line: &str) -> Self {
        let number = |word: &str| line.split(&format!("{word} ")).nth(1)?.split(',').next()?.parse().ok();
        let parsed = || Some(Self { asked: number("asked")?, allowed: number("allowed")? });
        parsed().unwrap_or_else(|| panic!("{line:?} tells of a request"))
    }
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// Why this is neither too strict nor too lax, however slow the machine is:
/// - When a client learns that it may, and when it asked, may both be far from when it was granted. So windows are counted by
///   the times of the grants, which the server tells, to the millisecond.
/// - The server could tell what it likes. So each request must have a grant of its own in the history, and one that was
///   made between its asking and its being allowed. There may be more grants than requests (an answer that a killed server
///   did not send), which only makes the check stricter.
/// - A slow machine may take longer than a window for a restart, and then no window spans it. So no place may have ended before
///   its time was over, or by anything else than that.
pub(crate) fn check(limit: usize, window: u64, requests: &[Request], history: &[Value]) {
    let time = |event: &Value, field: &str| event[field].as_u64().unwrap_or_else(|| panic!("no {field} in {event}"));
    let of_kind = |kind: &'static str| history.iter().filter(move |event| event["kind"] == kind);
    let grants: Vec<u64> = of_kind("granted").map(|event| time(event, "at_ms")).collect();
    assert!(grants.is_sorted());
    for span in grants.windows(limit + 1) {
        assert!(span[limit] >= span[0] + window, "more than {limit} in {window} ms: {span:?}");
    }

    // Whoever was allowed first takes the earliest grant that it can; if that fails, so does every other assignment.
    let mut unclaimed = grants;
    let mut requests = requests.to_vec();
    requests.sort_by_key(|request| request.allowed);
    for request in requests {
        let fits = |at: &u64| at + APART >= request.asked && *at <= request.allowed + APART;
        let found = unclaimed.iter().position(fits);
        unclaimed.remove(found.unwrap_or_else(|| panic!("no grant for {request:?} among {unclaimed:?}")));
    }

    for ended in of_kind("ended") {
        assert_eq!(ended["how"], "expired", "{ended}");
        assert!(time(ended, "at_ms") >= time(ended, "since_ms") + window, "{ended}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const REQUESTS: [Request; 3] = [
        Request { asked: 10_000, allowed: 10_001 },
        Request { asked: 10_000, allowed: 10_002 },
        Request { asked: 10_002, allowed: 13_005 },
    ];

    fn history(grants: [u64; 3]) -> Vec<Value> {
        grants.map(|at| json!({"kind": "granted", "at_ms": at})).to_vec()
    }

    #[test]
    fn a_rate_that_was_kept_passes() {
        check(2, 3000, &REQUESTS, &history([10_000, 10_001, 13_000]));
    }

    #[test]
    #[should_panic(expected = "more than 2 in 3000 ms")]
    fn one_more_in_a_window_fails() {
        check(2, 3000, &REQUESTS, &history([10_000, 10_001, 12_999]));
    }

    #[test]
    #[should_panic(expected = "no grant for")]
    fn a_grant_that_was_not_made_when_it_was_asked_for_fails() {
        check(2, 3000, &REQUESTS, &history([10_000, 10_001, 20_000]));
    }

    #[test]
    #[should_panic(expected = "session_ended")]
    fn a_place_that_was_given_back_fails() {
        let ended = json!({"kind": "ended", "how": "session_ended", "at_ms": 12_000, "since_ms": 10_000});
        check(2, 3000, &REQUESTS, &[history([10_000, 10_001, 13_000]), vec![ended]].concat());
    }
}

//! What scripts see, what they can say, and what they cannot do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use tenure_core::*;
use tenure_fuzz::{fuzz, word};
use tenure_script::RhaiPolicies;

const WHO: [(&str, &str); 2] = [("data", "cats"), ("need", "30")];

fn score(text: &str) -> Result<i64, Fault> {
    let holder = Holder::parse("alice", WHO).unwrap();
    let request = Request {
        holder: &holder,
        units: 2,
        priority: Priority::parse(5).unwrap(),
        selector: Some("mem >= 40"),
        dirty: false,
        waited_ms: 61_000,
    };
    let (name, labels) = (ResourceName::parse("gpu-1").unwrap(), Labels::parse([("mem", "80"), ("fast", "")]).unwrap());
    let offer = Offer { name: &name, labels: &labels };
    let policy = RhaiPolicies::new().compile(Which::Place, text)?;
    let mut budget = Budget::of_a_decision();
    let scores = policy.scores(&request, &[offer, offer], &mut budget)?;
    assert_eq!(scores, [scores[0]; 2], "the second time is as the first");
    assert_eq!(policy.score(&request, Some(&offer), &mut budget)?, scores[0]);
    Ok(scores[0])
}

fn fault(text: &str) -> String {
    score(text).expect_err(text).to_string()
}

#[test]
fn a_script_sees_the_request_and_the_resource() {
    let all = "request.holder == \"alice\" && request.meta.data == \"cats\" && request.units == 2 && request.priority == 5 \
               && request.selector == \"mem >= 40\" && !request.dirty && request.waited_ms == 61000 \
               && resource.name == \"gpu-1\" && resource.labels.mem == \"80\" && resource.labels[\"fast\"] == \"\"";
    assert_eq!(score(all), Ok(1));
    assert_eq!(score("resource.labels.nothing == () && request.meta.nothing == ()"), Ok(1));
    assert_eq!(score("if \"fast\" in resource.labels { 7 } else { 8 }"), Ok(7));
}

#[test]
fn a_score_is_the_last_value() {
    assert_eq!(score("let a = 2; let b = 3; a * b - 10"), Ok(-4));
    assert_eq!(score("fn twice(n) { n * 2 } twice(twice(3))"), Ok(12));
    assert_eq!(score("let sum = 0; for n in 0..10 { sum += n } sum"), Ok(45));
    assert_eq!(score("max(3, min(9, 5)) + abs(-2)"), Ok(7));
    assert_eq!(score("number(resource.labels.mem, 0) - number(request.meta.need, 0)"), Ok(50));
    assert_eq!(score("number(resource.labels.fast, 4) + number(request.meta.nothing, 5) + number(6, 0)"), Ok(15));
    assert_eq!(score("\"gpu-1\" in [\"gpu-1\", 2] && 2 in [\"gpu-1\", 2] && !(3 in [\"3\"])"), Ok(1));
    assert_eq!(score("resource.name.starts_with(\"gpu\") && \"CATS\".to_lower() == request.meta.data"), Ok(1));
}

#[test]
fn what_is_no_score_is_a_fault() {
    assert_eq!(fault("\"text\""), "gives a text in the end, and not a whole number or a truth value");
    assert_eq!(fault("let a = 1;"), "gives nothing in the end, and not a whole number or a truth value");
    assert_eq!(fault("1 / 0"), "line 1, column 3: division by zero: 1 / 0");
    assert_eq!(fault("let a = 1;\n\n  throw \"no\""), "line 3, column 3: runtime error: no");
    assert!(fault("fn f() { throw 1 }\nf()").starts_with("line 1, column 10: "));
}

#[test]
fn a_script_cannot_reach_anything_else() {
    for text in [
        "eval(\"1\")",
        "print(1); 1",
        "debug(1); 1",
        "import \"x\" as x; 1",
        "timestamp().elapsed; 1",
        "sleep(1); 1",
        "sleep(0); 1",
        "parse_json(\"1\")",
        "rand()",
        "0.5 * 2",
        "let s = \"x\"; s.replace(\"\", \"xx\"); 1",
        "let s = \"x\"; s.pad(1000000000, 'x'); 1",
        "blob(1000000000, 0).len()",
        "request.units = 9; 1",
        "request = 1",
        "nowhere",
    ] {
        fault(text);
    }
}

#[test]
fn a_script_that_takes_too_long_or_too_much_is_ended() {
    for text in [
        "loop { }",
        "let n = 0; while true { n += 1 } n",
        "fn f(n) { f(n + 1) } f(0)",
        "let s = \"x\"; loop { s += s } 1",
        "let a = [1]; loop { a = [a, a] } 1",
        "let x = 0; for n in 0..1000000000000 { x = n } x",
    ] {
        fault(text);
    }
    let entries = |count: usize| (0..count).map(|n| format!("a{n}:1")).collect::<Vec<_>>().join(",");
    let map = |count, then: &str| format!("let m = #{{{}}}; {then} m.len()", entries(count));
    assert_eq!(score(&map(256, "")), Ok(256));
    assert_eq!(score(&map(255, "m.b = 1;")), Ok(256));
    for text in [map(257, ""), map(256, "m.b = 1;"), map(256, "m[\"b\"] = 1;")] {
        assert!(fault(&text).contains("too large") || fault(&text).contains("exceeds"), "{}", fault(&text));
    }
    let list = |entries: usize| format!("let a = [{}]; a.len()", vec!["1"; entries].join(","));
    assert_eq!(score(&list(255)), Ok(255));
    assert!(fault(&list(257)).contains("exceeds"), "{}", fault(&list(257)));
    assert_eq!(fault("loop { }"), "line 1, column 6: takes more than the 10000 operations that one score may take");
    let deep = format!("{}1{}", "(".repeat(100), ")".repeat(100));
    fault(&deep);
}

/// In one operation it could look at as much as a text, a list or a map can have, and keep the server from everything else for
/// long. Each is tried on what is as long as it can be, more often than it may be.
#[test]
fn what_works_on_a_whole_text_list_or_map_counts_as_more() {
    let text = "let s = \"ΣΣΣΣΣΣΣΣΣΣΣΣΣΣΣΣ\"; for i in 0..6 { s += s }";
    let list = format!("let a = [{}];", vec!["1"; 200].join(","));
    let map = "let m = #{}; for n in 0..60 { m[n.to_string()] = 1; }";
    let (text_times, list_times, map_times) = (300, 100, 300);
    assert_eq!(score(&format!("{text} s.len()")), Ok(1_024));
    for (made, times, what) in [
        (text, text_times, "s - \"x\""),
        (text, text_times, "s - 'x'"),
        (text, text_times, "let t = s; t -= \"x\""),
        (text, text_times, "s + \"\""),
        (text, text_times, "let t = s; t += \"\""),
        (text, text_times, "s == s"),
        (text, text_times, "s != s"),
        (text, text_times, "s < s"),
        (text, text_times, "s >= \"Σ\""),
        (text, text_times, "\"x\" in s"),
        (text, text_times, "s.contains(\"ΣΣx\")"),
        (text, text_times, "s.starts_with(s)"),
        (text, text_times, "s.ends_with(s)"),
        (text, text_times, "s.len()"),
        (text, text_times, "s.to_lower()"),
        (text, text_times, "s.to_string()"),
        (text, text_times, "`${s}`"),
        (text, text_times, "number(s, 1)"),
        (text, text_times, "s[1000]"),
        (text, text_times, "s[1000] = 'x'"),
        (text, text_times, "s[0..1000]"),
        (text, text_times, "for c in s { break; }"),
        (text, text_times, "for c in s.chars(900) { break; }"),
        (text, text_times, "switch s { \"x\" => 1, _ => 2 }"),
        (text, text_times, "f(s)"),
        (&list, list_times, "let b = a"),
        (&list, list_times, "2 in a"),
        (&list, list_times, "a.len()"),
        (&list, list_times, "a[7] = 3"),
        (&list, list_times, "for x in a { break; }"),
        (&list, list_times, "switch a { 1 => 1, _ => 2 }"),
        (&list, list_times, "let b = if i >= 0 { a } else { 1 }"),
        (&list, list_times, "f(a)"),
        (map, map_times, "let b = m"),
        (map, map_times, "m.keys()"),
        (map, map_times, "\"7\" in m"),
        (map, map_times, "m.len()"),
        (map, map_times, "m[\"7\"] = 2"),
        (map, map_times, "f(m)"),
    ] {
        let script = |times: usize| format!("fn f(x) {{ 1 }} {made} for i in 0..{times} {{ {what}; }} 1");
        assert_eq!(score(&script(3)), Ok(1), "{what}");
        let why = fault(&script(times));
        assert!(why.contains("takes more than the 10000 operations that one score may take"), "{what}: {why}");
    }
    assert_eq!(score(&format!("{text} for i in 0..25 {{ s.to_lower(); }} 1")), Ok(1));
    fault(&format!("{text} for i in 0..50 {{ s.to_lower(); }} 1"));
    assert!(fault(&format!("{text} (s + s).len()")).contains("too large"));
    let zeros = "let z = \"0\"; for i in 0..11 { z += z }";
    for what in ["z.parse_int()", "parse_int(z, 2)", "z.to_debug()"] {
        let why = fault(&format!("{zeros} for i in 0..50 {{ {what}; }} 1"));
        assert!(
            why.contains("takes more than") || what == "z.to_debug()" && why.contains("too large"),
            "{what}: {why}"
        );
    }
}

#[test]
fn what_would_take_longer_than_it_counts_is_not_there() {
    for text in ["[1].to_string(); 1", "#{a: 1}.to_debug(); 1"] {
        assert!(fault(text).contains("cannot be made a text"), "{text}");
    }
    for text in [
        "#{a: 1} == #{a: 1}",
        "[1] == [1]",
        "let m = #{a: 1} + #{b: 1}; 1",
        "let m = #{a: 1}; m += #{b: 1}; 1",
        "#{a: 1}.values(); 1",
        "#{a: 1}.filter(|k, v| true); 1",
        "\"a b\".split(\" \"); 1",
        "\"a\".to_upper(); 1",
        "\"a\".index_of(\"a\")",
        "fn f() { let b = this; 1 } 1.f()",
        "fn f(x, y) { 1 } Fn(\"f\").curry([1]).call(1)",
    ] {
        fault(text);
    }
}

/// Showing them takes longer than most scripts do.
#[test]
fn what_a_script_is_shown_counts_too() {
    let texts: Vec<_> = (0..64).map(|n| format!("label-{n}")).collect();
    let holder = Holder::parse("alice", []).unwrap();
    let request = plain(&holder);
    let name = ResourceName::parse("gpu-1").unwrap();
    let policy = RhaiPolicies::new().compile(Which::Place, "1").unwrap();
    let [few, many] = [2, 64].map(|count| {
        let labels = Labels::parse(texts[..count].iter().map(|name| (name.as_str(), "x"))).unwrap();
        let mut budget = Budget::of_a_decision();
        policy.score(&request, Some(&Offer { name: &name, labels: &labels }), &mut budget).unwrap();
        Budget::of_a_decision().left() - budget.left()
    });
    assert_eq!(many - few, 62);
}

#[test]
fn all_scores_of_a_decision_have_one_budget() {
    let policy = RhaiPolicies::new().compile(Which::Order, "let n = 0; for i in 0..1000 { n += i } n").unwrap();
    let holder = Holder::parse("alice", []).unwrap();
    let request = plain(&holder);
    let mut budget = Budget::of_a_decision();
    let scored = (0..1_000).map_while(|_| policy.score(&request, None, &mut budget).ok()).count();
    assert!((10..200).contains(&scored), "{scored} scores");
    let exceeded = policy.score(&request, None, &mut budget).unwrap_err();
    assert_eq!(exceeded.why, "takes more than the 200000 operations that one decision may take");
}

#[test]
fn any_text_is_refused_or_understood_as_a_script() {
    let samples = [
        "let need = number(request.meta.need, 0); if number(resource.labels.mem, 0) < need { -1 } else { 1000 }",
        "request.waited_ms / 60000 + if request.meta.data == resource.labels[\"data\"] { 5 } else { 0 }",
        "fn f(n) { if n <= 1 { 1 } else { n * f(n - 1) } } f(request.units)",
        "let m = #{a: 1, b: [1, 2]}; for k in m.keys() { } switch m.a { 1 => 2, _ => `x${3}`.len() }",
    ];
    let words = [
        "request",
        "resource",
        ".meta",
        ".labels",
        "if ",
        "else ",
        "loop ",
        "while ",
        "for ",
        " in ",
        "fn ",
        "let ",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "#{",
        "=>",
        "..",
        "..=",
        "?.",
        "??",
        "!",
        "-",
        "<<",
        ">>",
        "**",
        "%",
        "|x|",
        "this",
        "Fn(",
        "call",
        "curry",
        "try",
        "catch",
        "throw",
        "switch ",
        "return ",
        "break",
        "`${",
        "\"",
        "'",
        "9223372036854775807",
        "number(",
    ];
    let pool = PoolPath::new(Namespace::default(), PoolName::parse("gpus").unwrap());
    let resource = |name, mem| ResourceSpec {
        name: ResourceName::parse(name).unwrap(),
        labels: Labels::parse([("mem", mem)]).unwrap(),
        properties: Labels::default(),
    };
    let resources = vec![resource("a", "80"), resource("b", "16")];
    let policies: Arc<dyn Policies> = Arc::new(RhaiPolicies::new());
    fuzz("rhai", &samples.map(|text| text.as_bytes().to_vec()), &words, |input| {
        let Ok(text) = str::from_utf8(input) else { return "not UTF-8".into() };
        let script = match Script::parse(text) {
            Ok(script) => script,
            Err(error) => return word(&error),
        };
        let spec = PoolSpec {
            capacity: Capacity::Resources { placement: Placement::First, resources: resources.clone() },
            order: Order::Backfill,
            window: None,
            declared: true,
            cleaning: false,
            fair: None,
            scripts: Scripts { place: Some(script.clone()), order: Some(script) },
        };
        let mut machine = Machine::new(Limits::default()).with_policies(policies.clone());
        let stamp = Stamp { at: Timestamp::from_millis(1), nonce: 1 };
        match machine.apply(stamp, Command::SetPool(SetPool { pool: pool.clone(), spec })).reply {
            Reply::PoolSet { .. } => "understood".into(),
            Reply::Refused(refusal) => match *refusal {
                Refusal::BadScript { why, .. } => word(&why),
                other => panic!("{other}"),
            },
            other => panic!("{other:?}"),
        }
    });
}

/// One unit for somebody who has only come.
fn plain(holder: &Holder) -> Request<'_> {
    Request { holder, units: 1, priority: Priority::default(), selector: None, dirty: false, waited_ms: 0 }
}

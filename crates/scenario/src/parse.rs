//! A file of scenarios, read line by line. Mistakes in the text are errors with their line, never skipped.

use crate::action::{Action, InSession, Lifetime};
use crate::outcome::Expected;
use crate::text::{Millis, duration, words};

#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file's name without folder and ending.
    pub topic: String,
    /// Where it starts.
    pub line: usize,
    /// Its name: what it shows to be true.
    pub claim: String,
    /// The faces it can be played on; none: all.
    pub only: Option<Vec<String>>,
    /// Bounds of the server, lower than usual so that they can be reached.
    pub limits: Vec<(String, u64)>,
    pub steps: Vec<Step>,
}

impl Scenario {
    /// Whether the server stops and has to find everything again.
    pub fn restarts(&self) -> bool {
        self.does(|action| matches!(action, Action::Restart | Action::Stop))
    }

    /// Whether anybody has a session, or asks for what only a session can have.
    pub fn has_sessions(&self) -> bool {
        self.does(|action| match action {
            Action::OpenSession(_) => true,
            Action::Acquire(acquire) => {
                acquire.session != InSession::No || matches!(acquire.lifetime, Some(Lifetime::Session(_)))
            }
            _ => false,
        })
    }

    fn does(&self, wanted: impl Fn(&Action) -> bool) -> bool {
        self.steps.iter().any(|step| matches!(&step.what, What::Does(action, _) if wanted(action)))
    }
}

#[derive(Clone, Debug)]
pub struct Step {
    pub line: usize,
    /// As it stands in the file, for errors.
    pub text: String,
    pub at: Millis,
    pub actor: String,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    Does(Box<Action>, Option<Expected>),
    /// Is told what came of a wait.
    Hears(Expected),
}

/// Reads all scenarios of a file. `topic` is its name without folder and ending.
pub fn parse(topic: &str, text: &str) -> Result<Vec<Scenario>, String> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    // A second `#` line right after the claim goes on explaining it.
    let mut in_claim = false;
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let fail = |why: String| format!("scenarios/{topic}.txt:{number}: {why}\n    {line}");
        if let Some(claim) = line.strip_prefix('#') {
            if !in_claim {
                let claim = claim.trim().trim_end_matches('.').to_owned();
                if claim.is_empty() {
                    return Err(fail("a scenario needs a claim".into()));
                }
                scenarios.push(Scenario {
                    topic: topic.to_owned(),
                    line: number,
                    claim,
                    only: None,
                    limits: Vec::new(),
                    steps: Vec::new(),
                });
            }
            in_claim = true;
            continue;
        }
        in_claim = false;
        if line.trim().is_empty() {
            continue;
        }
        let scenario = scenarios.last_mut().ok_or_else(|| fail("a scenario starts with `# claim`".into()))?;
        if line.starts_with(char::is_whitespace) {
            let before = scenario.steps.last().map_or(0, |step| step.at);
            scenario.steps.push(step(line, number, before).map_err(fail)?);
        } else {
            directive(scenario, line).map_err(fail)?;
        }
    }
    if let Some(empty) = scenarios.iter().find(|scenario| scenario.steps.is_empty()) {
        return Err(format!("scenarios/{topic}.txt:{}: a claim without steps", empty.line));
    }
    Ok(scenarios)
}

fn step(line: &str, number: usize, before: Millis) -> Result<Step, String> {
    let mut words = words(line)?;
    let at = match duration(&words[0]) {
        Some(at) if at < before => return Err("time runs forward".into()),
        Some(at) => {
            words.remove(0);
            at
        }
        None => before,
    };
    let arrow = words.iter().position(|word| word == "->" || word == "<-");
    let (arrives, expected) = match arrow {
        Some(arrow) => {
            let mut outcome = words.split_off(arrow);
            (outcome.remove(0) == "<-", Some(Expected::parse(outcome)?))
        }
        None => (false, None),
    };
    if words.is_empty() {
        return Err("an actor is missing".into());
    }
    let actor = words.remove(0);
    let what = match expected {
        Some(expected) if arrives => {
            if !words.is_empty() {
                return Err("what arrives with `<-` has no verb".into());
            }
            What::Hears(expected)
        }
        expected => {
            let action = Action::parse(&actor, words)?;
            if action.has_outcome() != expected.is_some() {
                return Err(if expected.is_some() { "nobody is answered here" } else { "`->` is missing" }.into());
            }
            What::Does(Box::new(action), expected)
        }
    };
    Ok(Step { line: number, text: line.trim().to_owned(), at, actor, what })
}

/// `only: rules engine -- why`, or `limits: pools_max=2`.
fn directive(scenario: &mut Scenario, line: &str) -> Result<(), String> {
    if !scenario.steps.is_empty() {
        return Err("a directive stands between the claim and the first step".into());
    }
    match line.split_once(':') {
        Some(("only", rest)) => {
            let (faces, why) = rest.split_once("--").ok_or("say why after `--`")?;
            if why.trim().is_empty() {
                return Err("say why after `--`".into());
            }
            scenario.only = Some(faces.split_whitespace().map(str::to_owned).collect());
        }
        Some(("limits", rest)) => {
            for word in rest.split_whitespace() {
                let (name, value) = word.split_once('=').ok_or_else(|| format!("`{word}` should be `name=number`"))?;
                let value = duration(value).map_or_else(|| value.parse(), Ok);
                scenario.limits.push((name.to_owned(), value.map_err(|_| format!("`{word}` has no number"))?));
            }
        }
        _ => return Err("a line is `# claim`, `only:`, `limits:`, or a step, which is indented".into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_reported_with_their_line() {
        for (text, why) in [
            ("  0s alice acquire db -> granted", "starts with `# claim`"),
            ("# x\n 0s alice acquire db", "`->` is missing"),
            ("# x\n 0s alice acquire db tll=3s -> granted", "`tll=` is not expected"),
            ("# x\n 0s alice acquire db ttl=3 -> granted", "not a duration"),
            ("# x\n 0s alice acquire db ttl=3s kept -> granted", "one lifetime"),
            ("# x\n 0s alice acquire db until-session-ends kept -> granted", "one lifetime"),
            ("# x\n 0s alice frobs db -> granted", "not a verb"),
            ("# x\n 0s alice acquire db -> refused", "needs its code"),
            ("# x\n 0s alice acquire db ->", "outcome is missing"),
            ("# x\n 5s a acquire db -> granted\n 4s a acquire db -> granted", "time runs forward"),
            ("# x\n 5s a release db <- granted", "has no verb"),
            ("# x\n 0s a show 'db -> used=1", "quote is not closed"),
            ("# x\nonly: rules\n 0s server restart", "say why"),
            ("# x\n\n# y\n 0s server restart", "without steps"),
        ] {
            let error = parse("topic", text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}

#[cfg(test)]
mod fuzzing {
    use tenure_fuzz::{fuzz, word};

    use super::*;

    #[test]
    fn any_bytes_are_refused_or_understood_as_a_script() {
        let samples = [
            include_bytes!("../../../scenarios/regressions.txt").to_vec(),
            include_bytes!("../../../scenarios/resources.txt").to_vec(),
            b"# x\nlimits: pools_max=2 pool_idle=1m\n 0s a acquire db ttl=3s -> granted token=1\n".to_vec(),
        ];
        let words = [
            "# ",
            "\n",
            "    ",
            " -> ",
            " <- ",
            "'",
            "=",
            "|",
            ",",
            "only: rules -- x",
            "limits: ",
            "ttl=",
            "99999999999999999999d",
            "0s",
            "server restart",
            "acquire db",
            "units=all",
            "select='a && b'",
            "resource='a b=c @d=e'",
            "placement=spread:",
        ];
        fuzz("script", &samples, &words, |input| match str::from_utf8(input).map(|text| parse("topic", text)) {
            Ok(Ok(scenarios)) => format!("{} understood", scenarios.len().min(9)),
            // What comes after the place is about the script.
            Ok(Err(error)) => {
                word(&error.split_once(": ").map_or("", |(_, why)| why.lines().next().unwrap_or_default()))
            }
            Err(_) => "not UTF-8".into(),
        });
    }
}

//! Plays a scenario on a stage and says where they differ.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::action::{Action, KeyOf};
use crate::outcome::{Expected, Outcome};
use crate::parse::{Scenario, Step, What};
use crate::stage::Stage;
use crate::text::{Millis, duration_text};

/// A key in the right form that nobody was ever given.
const KEY_OF_NOBODY: &str = "00000000-0000-4000-8000-000000000000";

/// Plays all steps. The error is a page for a person to read.
pub async fn run(scenario: &Scenario, face: &str, stage: &mut impl Stage) -> Result<(), String> {
    let mut run = Run { stage, now: 0, keys: BTreeMap::new(), heard: BTreeMap::new() };
    for step in &scenario.steps {
        run.step(step).await.map_err(|why| page(scenario, face, Some(step), &why))?;
    }
    run.nothing_left_over().await.map_err(|why| page(scenario, face, None, &why))
}

struct Run<'a, S> {
    stage: &'a mut S,
    now: Millis,
    /// Keys by token, and who was given them.
    keys: BTreeMap<u64, (String, Vec<String>)>,
    /// Late outcomes that were fetched for an actor but are not those of the line at hand.
    heard: BTreeMap<String, Vec<Outcome>>,
}

impl<S: Stage> Run<'_, S> {
    async fn step(&mut self, step: &Step) -> Result<(), String> {
        self.pass_time(step.at).await?;
        match &step.what {
            What::Does(action, expected) => {
                let key = self.key_for(action)?;
                let outcome = self.stage.act(&step.actor, action, key.as_deref()).await;
                self.learn(&step.actor, &outcome)?;
                match expected {
                    Some(expected) if !expected.matches(&outcome) => Err(differ(expected, &outcome.to_string())),
                    _ => Ok(()),
                }
            }
            What::Hears(expected) => self.hear(&step.actor, expected).await,
        }
    }

    /// Second by second, as it passes for a real server, so that what comes due in between comes due then. The
    /// last millisecond alone: nothing may arrive before the time at which it is listed.
    async fn pass_time(&mut self, to: Millis) -> Result<(), String> {
        if to == self.now {
            return Ok(());
        }
        self.nothing_left_over().await?;
        while self.now + 1 < to {
            let second = (self.now / 1_000 + 1) * 1_000;
            self.now = second.min(to - 1);
            self.stage.advance(self.now).await;
            self.nothing_left_over().await?;
        }
        self.now = to;
        self.stage.advance(to).await;
        Ok(())
    }

    async fn hear(&mut self, actor: &str, expected: &Expected) -> Result<(), String> {
        loop {
            let heard = self.heard.entry(actor.to_owned()).or_default();
            if let Some(at) = heard.iter().position(|outcome| expected.matches(outcome)) {
                heard.remove(at);
                return Ok(());
            }
            match self.stage.late(actor).await {
                Some(outcome) => {
                    self.learn(actor, &outcome)?;
                    self.heard.entry(actor.to_owned()).or_default().push(outcome);
                }
                None => {
                    let heard = &self.heard[actor];
                    let actual = heard.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                    return Err(differ(expected, if actual.is_empty() { "nothing has arrived" } else { &actual }));
                }
            }
        }
    }

    async fn nothing_left_over(&mut self) -> Result<(), String> {
        let fetched = std::mem::take(&mut self.heard)
            .into_iter()
            .flat_map(|(actor, outcomes)| outcomes.into_iter().map(move |outcome| (actor.clone(), outcome)));
        let left: Vec<_> = fetched.chain(self.stage.left_over().await).collect();
        if left.is_empty() {
            return Ok(());
        }
        let mut why = format!("by {}, not listed in the scenario:", duration_text(self.now));
        for (actor, outcome) in left {
            let _ = write!(why, "\n      {actor} <- {outcome}");
        }
        Err(why)
    }

    /// One token, one key; whoever is told again is told the same.
    fn learn(&mut self, actor: &str, outcome: &Outcome) -> Result<(), String> {
        let (Some(token), Some(key)) = (outcome.fields.get("token"), &outcome.key) else { return Ok(()) };
        let token = token.parse().map_err(|_| format!("token `{token}` is not a number"))?;
        if self.keys.iter().any(|(other, (known, _))| (known == key) != (*other == token)) {
            return Err(format!("token {token} came with the key of another token, or with another key than before"));
        }
        let (_, knowers) = self.keys.entry(token).or_insert_with(|| (key.clone(), Vec::new()));
        knowers.push(actor.to_owned());
        Ok(())
    }

    fn key_for(&self, action: &Action) -> Result<Option<String>, String> {
        let (Action::Renew { hold, .. } | Action::Release { hold }) = action else { return Ok(None) };
        match &hold.key {
            KeyOf::Wrong => Ok(Some(KEY_OF_NOBODY.into())),
            KeyOf::Grant { token, actor } => match self.keys.get(token) {
                Some((key, knowers)) if knowers.contains(actor) => Ok(Some(key.clone())),
                _ => Err(format!("{actor} was never granted token {token}")),
            },
        }
    }
}

fn differ(expected: &Expected, actual: &str) -> String {
    format!("expected: {expected}\n      actual:   {actual}")
}

fn page(scenario: &Scenario, face: &str, failed: Option<&Step>, why: &str) -> String {
    let line = failed.map_or(scenario.line, |step| step.line);
    let mut page = format!("\nscenarios/{}.txt:{line}: {} [{face}]\n", scenario.topic, scenario.claim);
    for step in &scenario.steps {
        let here = failed.is_some_and(|failed| failed.line == step.line);
        let _ = writeln!(page, "{} {:>5}  {}", if here { ">>>" } else { "   " }, duration_text(step.at), step.text);
        if here {
            let _ = writeln!(page, "      {why}");
        }
    }
    if failed.is_none() {
        let _ = writeln!(page, ">>> at the end {why}");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use crate::rules::Rules;

    /// What the runner says of a scenario on the rules.
    fn played(text: &str) -> Result<(), String> {
        let scenario = parse("test", text).expect("it can be read").remove(0);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime for one test");
        runtime.block_on(run(&scenario, "rules", &mut Rules::new(&scenario)))
    }

    const WAIT: &str = "# Somebody waits.
          0s alice acquire db ttl=10s         -> granted token=1
          1s bob   acquire db ttl=1m  wait=1m -> queued position=1
    ";

    #[test]
    fn what_arrives_must_be_listed_at_its_time() {
        assert_eq!(played(&format!("{WAIT}\n 10s bob <- granted token=2")), Ok(()));
        for (rest, why) in [
            ("10s bob <- granted token=3", "actual:   granted"),
            ("10s bob <- refused timed_out", "actual:   granted"),
            ("10s alice <- granted token=2", "nothing has arrived"),
            ("9s bob <- granted token=2", "nothing has arrived"),
            ("11s bob <- granted token=2", "by 10s, not listed"),
            ("10s ops show db -> used=1", "at the end by 10s, not listed"),
            ("10s bob <- granted token=2\n bob <- granted token=2", "nothing has arrived"),
        ] {
            let page = played(&format!("{WAIT}\n {rest}")).expect_err(rest);
            assert!(page.contains(why), "{rest}: {page}");
        }
    }

    #[test]
    fn an_outcome_differs_by_its_word_its_code_or_a_listed_field() {
        for (line, why) in [
            ("0s alice acquire db -> queued", "expected: queued"),
            ("0s alice acquire db -> granted token=2", "expected: granted token=2"),
            ("0s alice acquire db -> granted colour=red", "expected: granted colour=red"),
            ("0s alice show db -> refused unknown_session", "actual:   refused unknown_pool"),
            ("0s alice show db -> used=0", "actual:   refused unknown_pool"),
            ("0s alice release db token=1 -> released", "never granted"),
        ] {
            let page = played(&format!("# One line.\n {line}")).expect_err(line);
            assert!(page.contains(why), "{line}: {page}");
        }
        assert_eq!(played("# One line.\n 0s alice acquire db ttl=1m -> granted until=60s|61s units=1"), Ok(()));
    }
}

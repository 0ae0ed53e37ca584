//! What the server's events add up to: who is in the queue, how many were granted, and whether anybody was overtaken.

use std::collections::{BTreeMap, VecDeque};

use tenure_client::v1::{self, EventKind};

use super::picture::{Line, Style, seconds};
use crate::look;

/// No screen shows more of them.
const RECENT_MAX: usize = 12;

#[derive(Default)]
pub(super) struct Tally {
    /// When the first and the last event happened, by the server's clock.
    begun_ms: Option<u64>,
    last_ms: u64,
    /// In the order in which they came.
    queue: Vec<Waiting>,
    /// What each token holds.
    holds: BTreeMap<u64, String>,
    grants: u64,
    token_max: u64,
    wait_max_ms: u64,
    held_max: usize,
    queue_max: usize,
    overtaken: u64,
    expired: u64,
    recent: VecDeque<Line>,
}

struct Waiting {
    waiter: u64,
    priority: i32,
    /// It wants one of anything, so whatever is granted to another it could have used.
    easy: bool,
    /// Its connection is lost: it is passed over, and keeps its place.
    away: bool,
}

impl Tally {
    /// Takes an event in, and says it if it is worth a line.
    pub(super) fn hear(&mut self, event: &v1::Event) -> Option<&Line> {
        let begun = *self.begun_ms.get_or_insert(event.at_ms);
        self.last_ms = event.at_ms;
        let (style, said) = self.told(event)?;
        let at = format!("{:>8}  ", seconds(event.at_ms.saturating_sub(begun)));
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Line::default().and(Style::Faint, &at).and(style, &said));
        self.recent.back()
    }

    fn told(&mut self, event: &v1::Event) -> Option<(Style, String)> {
        let who = event.holder.as_deref().unwrap_or("somebody");
        let lasted = || seconds(event.at_ms.saturating_sub(event.since_ms.unwrap_or(event.at_ms)));
        Some(match event.kind() {
            EventKind::Queued => (Style::Plain, format!("{who} waits, place {}", self.queued(event))),
            EventKind::Granted => {
                let has = self.granted(event);
                let waited = event.since_ms.map_or_else(|| "at once".to_owned(), |_| format!("waited {}", lasted()));
                (Style::Good, format!("{who} holds {has} (token {}), {waited}", event.token.unwrap_or_default()))
            }
            EventKind::Ended => {
                let had = self.holds.remove(&event.token.unwrap_or_default()).unwrap_or_default();
                match event.how() {
                    v1::How::Released => (Style::Plain, format!("{who} releases {had} after {}", lasted())),
                    v1::How::Expired => {
                        self.expired += 1;
                        (Style::Bad, format!("{who} was silent for too long: its lease of {had} has run out"))
                    }
                    how => (Style::Bad, format!("{who} loses {had}: {}", why(how, event.note.as_deref()))),
                }
            }
            EventKind::WaitEnded => {
                self.queue.retain(|waiting| Some(waiting.waiter) != event.waiter);
                (Style::Plain, format!("{who} leaves the queue: {}", why(event.how(), None)))
            }
            EventKind::WaiterAway => {
                self.set_away(event, true);
                (Style::Bad, format!("{who} has lost its connection and is passed over, but keeps its place"))
            }
            EventKind::WaiterBack => {
                self.set_away(event, false);
                (Style::Plain, format!("{who} is back in its place"))
            }
            EventKind::ConditionSet => {
                let what = event.resource.as_deref().unwrap_or("the pool");
                let back = event.condition.as_ref().is_some_and(|it| it.state() == v1::ConditionState::InService);
                let style = if back { Style::Plain } else { Style::Bad };
                (style, format!("{what} is {}", look::condition(event.condition.as_ref())))
            }
            _ => return None,
        })
    }

    /// The place it has.
    fn queued(&mut self, event: &v1::Event) -> usize {
        let priority = event.priority.unwrap_or(0);
        let easy = event.units == Some(1) && event.all != Some(true) && event.select.is_none();
        self.queue.push(Waiting { waiter: event.waiter.unwrap_or_default(), priority, easy, away: false });
        self.queue_max = self.queue_max.max(self.queue.len());
        self.queue.iter().filter(|waiting| !waiting.away && waiting.priority >= priority).count()
    }

    /// What was granted.
    fn granted(&mut self, event: &v1::Event) -> String {
        self.grants += 1;
        let token = event.token.unwrap_or_default();
        self.token_max = self.token_max.max(token);
        self.wait_max_ms = self.wait_max_ms.max(event.at_ms.saturating_sub(event.since_ms.unwrap_or(event.at_ms)));

        let place = self.queue.iter().position(|waiting| Some(waiting.waiter) == event.waiter);
        let priority = place.map(|place| self.queue.remove(place).priority);
        // Who came later is ahead only with a higher priority. Whoever did not have to wait came last.
        let is_ahead = |(other, waiting): (usize, &Waiting)| match (place, priority) {
            (Some(place), Some(priority)) => (waiting.priority, place) > (priority, other),
            _ => true,
        };
        let ahead = |entry: &(usize, &Waiting)| entry.1.easy && !entry.1.away && is_ahead(*entry);
        self.overtaken += self.queue.iter().enumerate().filter(ahead).count() as u64;

        let has = look::taken(event.units.unwrap_or(1), &event.resources);
        self.holds.insert(token, has.clone());
        self.held_max = self.held_max.max(self.holds.len());
        has
    }

    fn set_away(&mut self, event: &v1::Event, away: bool) {
        let waiting = self.queue.iter_mut().find(|waiting| Some(waiting.waiter) == event.waiter);
        if let Some(waiting) = waiting {
            waiting.away = away;
        }
    }

    /// The last of what happened, as much as fits into so many lines.
    pub(super) fn recent(&self, lines: usize) -> impl Iterator<Item = Line> {
        self.recent.iter().skip(self.recent.len().saturating_sub(lines)).cloned()
    }

    pub(super) fn figures(&self) -> Line {
        let grants = look::count(self.grants, "grant");
        let wait = seconds(self.wait_max_ms);
        let line = Line::text(&format!("{grants}, highest token {}, longest wait {wait}, ", self.token_max));
        match self.overtaken {
            0 => line.and(Style::Plain, "nobody overtaken"),
            many => line.and(Style::Bad, &format!("{many} overtaken")),
        }
    }

    pub(super) fn summary(&self) -> String {
        let lasted = seconds(self.last_ms.saturating_sub(self.begun_ms.unwrap_or(self.last_ms)));
        let order = match self.overtaken {
            0 => "nobody was overtaken".to_owned(),
            many => format!("waiters were OVERTAKEN {many} times, which must not happen: please report it"),
        };
        let expired = match self.expired {
            0 => String::new(),
            many => format!("; {} ran out", look::count(many, "lease")),
        };
        format!(
            "{} in {lasted}, highest token {}, {order}; longest wait {}; at most {} held and {} waited at once{expired}",
            look::count(self.grants, "grant"),
            self.token_max,
            seconds(self.wait_max_ms),
            self.held_max,
            self.queue_max,
        )
    }
}

fn why(how: v1::How, note: Option<&str>) -> String {
    let how = match how {
        v1::How::Unspecified => "the server does not say why",
        v1::How::Released => "released",
        v1::How::Expired => "its time ran out",
        v1::How::SessionEnded => "its session has ended",
        v1::How::OwnerGone => "its owner is gone",
        v1::How::Forced => "an operator took it",
        v1::How::Withdrawn => "withdrawn",
        v1::How::Unreceived | v1::How::CallerGone => "it hung up",
        v1::How::TimedOut => "it would not wait longer",
        v1::How::NeverFits => "the pool has become too small",
        v1::How::PoolRemoved => "the pool was removed",
        v1::How::Stolen => "an operator gave it to somebody else",
        v1::How::Cancelled => "an operator ended it",
    };
    match note {
        Some(note) => format!("{how}: {note}"),
        None => how.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, at_ms: u64, holder: &str) -> v1::Event {
        v1::Event { at_ms, kind: kind.into(), holder: Some(holder.into()), ..v1::Event::default() }
    }

    fn queued(at_ms: u64, holder: &str, waiter: u64, priority: i32) -> v1::Event {
        let queued = event(EventKind::Queued, at_ms, holder);
        v1::Event { waiter: Some(waiter), units: Some(1), priority: Some(priority), ..queued }
    }

    fn granted(at_ms: u64, holder: &str, token: u64, waiter: Option<u64>) -> v1::Event {
        let resources = vec![format!("gpu-{token}")];
        let since_ms = waiter.map(|_| 1_000);
        v1::Event { token: Some(token), waiter, since_ms, resources, ..event(EventKind::Granted, at_ms, holder) }
    }

    fn heard(events: &[v1::Event]) -> Tally {
        let mut tally = Tally::default();
        for event in events {
            tally.hear(event);
        }
        tally
    }

    #[test]
    fn what_was_granted_in_order_is_counted() {
        let released = v1::Event {
            token: Some(1),
            how: v1::How::Released.into(),
            since_ms: Some(1_000),
            ..event(EventKind::Ended, 2_500, "ada")
        };
        let tally = heard(&[
            granted(1_000, "ada", 1, None),
            queued(1_000, "bob", 7, 0),
            queued(1_100, "cleo", 8, 0),
            released,
            granted(2_500, "bob", 2, Some(7)),
        ]);
        let summary = "2 grants in 1.5 s, highest token 2, nobody was overtaken; longest wait 1.5 s; \
                       at most 1 held and 2 waited at once";
        assert_eq!(tally.summary(), summary);
        let lines: Vec<_> = tally.recent(3).map(|line| line.render(80, false)).collect();
        assert_eq!(
            lines,
            [
                "   0.1 s  cleo waits, place 2",
                "   1.5 s  ada releases gpu-1 after 1.5 s",
                "   1.5 s  bob holds gpu-2 (token 2), waited 1.5 s",
            ]
        );
    }

    #[test]
    fn an_overtaken_waiter_does_not_go_unnoticed() {
        let waits = [queued(1_000, "ada", 1, 0), queued(1_000, "bob", 2, 0)];
        let later_first = [&waits[..], &[granted(2_000, "bob", 1, Some(2))]].concat();
        assert_eq!(heard(&later_first).overtaken, 1);
        let newcomer_first = [&waits[..], &[granted(2_000, "cleo", 1, None)]].concat();
        assert_eq!(heard(&newcomer_first).overtaken, 2);
        assert!(heard(&newcomer_first).summary().contains("OVERTAKEN 2 times"));
    }

    #[test]
    fn to_be_served_before_the_absent_the_choosy_and_those_of_lower_priority_is_fair() {
        let away = v1::Event { waiter: Some(1), ..event(EventKind::WaiterAway, 1_200, "ada") };
        let choosy = v1::Event { select: Some("mem >= 80".into()), ..queued(1_000, "bob", 2, 0) };
        let tally = heard(&[
            queued(1_000, "ada", 1, 0),
            choosy,
            queued(1_100, "cleo", 3, 0),
            queued(1_100, "dan", 4, 5),
            away,
            granted(2_000, "dan", 1, Some(4)),
            granted(2_000, "cleo", 2, Some(3)),
        ]);
        assert_eq!(tally.overtaken, 0);
        let unfair =
            heard(&[queued(1_000, "dan", 4, 5), queued(1_000, "ada", 1, 0), granted(2_000, "ada", 1, Some(1))]);
        assert_eq!(unfair.overtaken, 1);
    }
}

//! An event as a line of text.

use tenure_client::v1::{self, EventKind};

use super::{pools, say};
use crate::output;

/// Lines whose columns stay aligned as they come: a column is as wide as the widest so far, within reason.
#[derive(Default)]
pub(super) struct Lines {
    widths: [usize; 4],
}

/// One long name does not push everything after it to the right for ever.
const WIDTH_MAX: usize = 32;

impl Lines {
    /// The lines of events that are known at once.
    pub(super) fn of<'a>(&mut self, events: impl Iterator<Item = &'a v1::Event> + Clone) -> String {
        for event in events.clone() {
            self.widen(&cells(event));
        }
        events.map(|event| self.line(event)).collect()
    }

    pub(super) fn line(&mut self, event: &v1::Event) -> String {
        let cells = cells(event);
        self.widen(&cells);
        let mut line = format!("{}  ", say::moment(event.at_ms));
        for (cell, width) in cells.iter().zip(self.widths).filter(|(_, width)| *width > 0) {
            output::pad(&mut line, cell, width);
        }
        line.push_str(&output::clean(&details(event).join(", ")));
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }

    fn widen(&mut self, cells: &[String; 4]) {
        for (width, cell) in self.widths.iter_mut().zip(cells) {
            *width = output::width(cell).min(WIDTH_MAX).max(*width);
        }
    }
}

fn cells(event: &v1::Event) -> [String; 4] {
    let kind = match EventKind::try_from(event.kind) {
        Ok(kind) => say::word(kind.as_str_name(), "EVENT_KIND_"),
        // Of a newer server.
        Err(_) => format!("kind {}", event.kind),
    };
    let text = |text: &Option<String>| output::clean(text.as_deref().unwrap_or_default()).into_owned();
    [format!("#{}", event.seq), kind, text(&event.pool), text(&event.holder)]
}

/// What else there is to tell, the most important first.
fn details(event: &v1::Event) -> Vec<String> {
    let mut said = Vec::new();
    said.extend(event.token.map(|token| format!("token {token}")));
    match event.kind() {
        EventKind::Queued => {
            let dirty = event.dirty == Some(true);
            let wanted = say::wanted(event.units, event.all == Some(true), event.select.as_deref(), dirty);
            said.push(format!("wants {wanted}"));
            said.extend(
                event.priority.filter(|priority| *priority != 0).map(|priority| format!("priority {priority}")),
            );
            said.extend(until(event, "gives up"));
        }
        EventKind::Granted => {
            said.push(say::taken(event.units.unwrap_or(1), &event.resources));
            said.extend((event.dirty == Some(true)).then(|| "to be cleaned".to_owned()));
            said.extend(lifetime(event));
            said.extend(lasted(event, "waited"));
        }
        EventKind::Renewed => {
            said.extend(lifetime(event).or_else(|| until(event, "ends")));
            // It was away when somebody else renewed the hold.
            said.extend(session(event).map(|session| format!("no longer with {session}")));
        }
        EventKind::Ended => {
            said.extend(how(event));
            said.extend(event.to.as_ref().map(|to| format!("given to {to}")));
            said.extend(lasted(event, "held"));
        }
        EventKind::WaitEnded => {
            said.extend(how(event));
            said.extend(lasted(event, "waited"));
        }
        EventKind::PoolSet => {
            said.extend(event.spec.as_ref().map(pools::spec));
            said.push(if event.created == Some(true) { "created" } else { "changed" }.to_owned());
        }
        EventKind::ConditionSet => {
            let condition = say::condition(event.condition.as_ref());
            said.push(match &event.resource {
                Some(resource) => format!("{resource} {condition}"),
                None => condition,
            });
            said.extend((event.automatic == Some(true)).then(|| "by itself".to_owned()));
            said.extend(until(event, "returns"));
        }
        EventKind::Reserved => {
            said.extend(event.resource.clone());
            said.extend(event.note.clone());
            said.extend(until(event, "ends"));
        }
        EventKind::ReservationEnded => {
            said.extend(event.resource.clone());
            said.extend(how(event));
        }
        EventKind::WaiterMoved => {
            said.push(
                event.before.map_or_else(|| "to the front".to_owned(), |before| format!("before number {before}")),
            );
            said.extend(event.note.clone());
        }
        EventKind::PolicyFailed => {
            said.extend(event.script.as_ref().map(|script| format!("{script} script")));
            said.extend(event.note.clone());
            said.extend((event.set_aside == Some(true)).then(|| "set aside until the pool is set again".to_owned()));
        }
        EventKind::SessionOpened => {
            said.extend(session(event));
            said.extend(event.ttl_ms.map(|grace| format!("grace {}", say::exact(grace))));
        }
        EventKind::SessionDetached => {
            said.extend(session(event));
            said.extend(until(event, "ends"));
        }
        _ => said.extend(session(event)),
    }
    if !event.meta.is_empty() {
        said.push(say::meta(&event.meta));
    }
    said
}

fn session(event: &v1::Event) -> Option<String> {
    event.session.map(|session| format!("session {session}"))
}

/// Relative to the event: lines are read later.
fn until(event: &v1::Event, what: &str) -> Option<String> {
    event.deadline_ms.map(|deadline| format!("{what} {}", say::ahead(event.at_ms, deadline)))
}

fn lasted(event: &v1::Event, what: &str) -> Option<String> {
    event.since_ms.map(|since| format!("{what} {}", say::span(event.at_ms.saturating_sub(since))))
}

fn lifetime(event: &v1::Event) -> Option<String> {
    let ttl = event.ttl_ms.map(say::exact);
    match event.lifetime() {
        v1::Lifetime::Unspecified | v1::Lifetime::Leased => ttl.map(|ttl| format!("lease {ttl}")),
        v1::Lifetime::Window => ttl.map(|ttl| format!("window {ttl}")),
        v1::Lifetime::Session => match (session(event), ttl) {
            (Some(session), Some(ttl)) => Some(format!("{session} or {ttl}")),
            (session, _) => session,
        },
        v1::Lifetime::Kept => Some("kept".to_owned()),
        v1::Lifetime::Bound => event.owner.as_ref().map(|owner| format!("bound to {owner}")),
    }
}

/// `forced: stuck since noon`.
fn how(event: &v1::Event) -> Option<String> {
    let how = match event.how() {
        v1::How::Unspecified => return None,
        how => say::word(how.as_str_name(), "HOW_").replace('_', " "),
    };
    Some(match &event.note {
        Some(note) => format!("{how}: {note}"),
        None => how,
    })
}

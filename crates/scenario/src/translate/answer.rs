//! Replies, refusals, views and events as outcomes. Times are those of the scenario's column.

use tenure_core::*;

use super::START;
use crate::action::Action;
use crate::outcome::Outcome;
use crate::text::duration_text;

fn time(at: Timestamp) -> String {
    duration_text(at.millis_since(START))
}

fn time_or_none(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "none".into(), time)
}

fn lifetime_word(lifetime: &Lifetime) -> &'static str {
    match lifetime {
        Lifetime::Leased(_) => "leased",
        Lifetime::Session(_) => "session",
        Lifetime::Window(_) => "window",
        Lifetime::Kept => "kept",
        Lifetime::Bound(_) => "bound",
    }
}

pub fn invalid(invalid: &Invalid) -> Outcome {
    Outcome::refused("invalid_argument").with("field", invalid.what)
}

pub fn reply(reply: &Reply) -> Outcome {
    match reply {
        Reply::Granted(grant) => granted(grant),
        Reply::Queued(queued) => {
            Outcome::new("queued").with("position", queued.position).with("until", time_or_none(queued.deadline))
        }
        Reply::Renewed { token, deadline, ttl } => Outcome::new("renewed")
            .with("token", token.0)
            .with("ttl", duration_text(ttl.as_millis()))
            .with("until", time(*deadline)),
        Reply::Released { token } => Outcome::new("released").with("token", token.0),
        Reply::Withdrawn => Outcome::new("withdrawn"),
        Reply::OwnerGone { holds } => Outcome::new("done").with("holds", holds),
        Reply::Session(session) => Outcome::new("open")
            .with("grace", duration_text(session.grace.as_millis()))
            .with("until", time_or_none(session.deadline)),
        Reply::Lost(lost) => Outcome::new("lost").with("token", lost.token.0),
        Reply::Done => Outcome::new("done"),
        Reply::PoolSet { created } => Outcome::new("done").with("created", created),
        Reply::PoolRemoved { holds_left } => Outcome::new("done").with("holds-left", holds_left),
        Reply::Refused(refusal) => refused(refusal),
    }
}

fn granted(grant: &Grant) -> Outcome {
    let mut outcome = Outcome::new("granted")
        .with("pool", grant.pool.name())
        .with("token", grant.token.0)
        .with("units", grant.units)
        .with_list("resources", grant.resources.iter().map(|resource| &resource.name))
        .with("lifetime", lifetime_word(&grant.lifetime))
        .with("since", time(grant.since))
        .with("until", time_or_none(grant.deadline))
        .with_list("also", grant.also.iter().map(|part| format!("{}:{}", part.pool.name(), part.units)))
        .with_list("also-resources", grant.also.iter().flat_map(|part| &part.resources).map(|resource| &resource.name))
        .with_list(
            "windows",
            grant.also.iter().filter_map(|part| Some(format!("{}:{}", part.pool.name(), time(part.until?)))),
        )
        .with_key(grant.key);
    for resource in grant.resources.iter().chain(grant.also.iter().flat_map(|part| &part.resources)) {
        for (name, value) in resource.labels.iter().chain(resource.properties.iter()) {
            outcome = outcome.with(format!("{}.{name}", resource.name), value);
        }
    }
    outcome
}

pub fn refused(refusal: &Refusal) -> Outcome {
    let outcome = Outcome::refused(refusal.code()).with("retry", refusal.retry() == Retry::Later);
    match refusal {
        Refusal::RequestEnded { token, .. } => {
            outcome.with("token", token.map_or_else(|| "none".into(), |token| token.0.to_string()))
        }
        Refusal::UnknownPool { pool }
        | Refusal::WrongKind { pool, .. }
        | Refusal::PoolRemoving { pool }
        | Refusal::Changed { pool, .. } => outcome.with("pool", pool.name()),
        Refusal::UnknownResource { pool, resource } => outcome.with("pool", pool.name()).with("resource", resource),
        Refusal::SizeMismatch { pool, size, .. } => outcome.with("pool", pool.name()).with("size", size),
        Refusal::WindowMismatch { pool, window } => outcome
            .with("pool", pool.name())
            .with("window", window.map_or_else(|| "none".into(), |window| duration_text(window.as_millis()))),
        Refusal::NeverFits { pool, most, .. } => outcome.with("pool", pool.name()).with("most", most),
        Refusal::LimitReached { limit, max } => outcome.with("limit", limit).with("max", max),
        Refusal::PoolsApart { pool, .. } => outcome.with("pool", pool.name()),
        Refusal::Deadlock { cycle } => {
            outcome.with_list("cycle", cycle.iter().map(|it| format!("{}>{}", it.holder, it.pool.name())))
        }
        Refusal::OutOfService { pool, condition } => with_condition(outcome.with("pool", pool.name()), condition),
        Refusal::Busy(room) | Refusal::TimedOut(room) => with_holders(outcome, &room.holders)
            .with("pool", room.pool.name())
            .with("holders-total", room.holders_total)
            .with("position", room.position)
            .with("free", room.free)
            .with("dirty", room.dirty)
            .with_list("reserved", room.reserved.iter().map(|(resource, holder)| format!("{resource}:{holder}")))
            .with_list("also", room.also.iter().map(|room| room.pool.name())),
        Refusal::NotRenewable { token, .. } => outcome.with("token", token.0),
        Refusal::NotReleasable { token, deadline } => outcome.with("token", token.0).with("until", time(*deadline)),
        Refusal::MovedOn { pool, expected, now } => {
            with_holders(outcome, now).with("pool", pool.name()).with("token", expected.0)
        }
        Refusal::PoolChanged { pool, size, condition, .. } => {
            with_condition(outcome.with("pool", pool.name()).with("size", size), condition)
        }
        Refusal::BadScript { pool, which, at, .. } => {
            let outcome = outcome.with("pool", pool.name()).with("field", which.field());
            at.iter().fold(outcome, |outcome, (line, column)| outcome.with("line", line).with("column", column))
        }
        Refusal::UnknownSession
        | Refusal::SessionTakenOver
        | Refusal::RequestReused { .. }
        | Refusal::Withdrawn { .. }
        | Refusal::NotHeld => outcome,
    }
}

/// Who holds, those longest there first; since when and until when the first of them.
fn with_holders(outcome: Outcome, holds: &[HoldView]) -> Outcome {
    let outcome = outcome
        .with_list("holders", holds.iter().map(|hold| &hold.holder.id))
        .with_list("tokens", holds.iter().map(|hold| hold.token.0));
    match holds.first() {
        Some(first) => outcome.with("since", time(first.since)).with("until", time_or_none(first.deadline)),
        None => outcome,
    }
}

fn with_condition(outcome: Outcome, condition: &Condition) -> Outcome {
    let (word, note) = match condition {
        Condition::InService => ("in_service", None),
        Condition::Drained(note) => ("drained", note.as_ref()),
        Condition::Quarantined(note) => ("quarantined", Some(note)),
    };
    outcome.with("condition", word).with("note", note.map_or("none", |note| note.as_str()))
}

pub fn view(action: &Action, view: &View) -> Outcome {
    let outcome = Outcome::new("shown");
    match (view, action) {
        (View::Pool(detail), Action::Show { resource: Some(name), .. }) => {
            match detail.resources.iter().find(|it| it.spec.name.as_str() == name) {
                Some(resource) => with_condition(outcome, &resource.condition)
                    .with("leaving", resource.leaving)
                    .with("token", resource.hold.map_or_else(|| "none".into(), |token| token.0.to_string()))
                    .with("last-used", time_or_none(resource.last_used))
                    .with("returns", time_or_none(resource.until))
                    .with("dirty", resource.dirty)
                    .with("reserved", resource.reserved.as_ref().map_or("none", |it| it.holder.as_str()))
                    .with("reserved-until", time_or_none(resource.reserved.as_ref().and_then(|it| it.until))),
                None => Outcome::refused("unknown_resource"),
            }
        }
        (View::Pool(detail), _) => with_pool(outcome, detail),
        (View::Pools(page), _) => outcome.with_list("pools", page.items.iter().map(|pool| pool.pool.name())),
        (View::Holds(page), _) => with_holds(outcome, &page.items),
        (View::Queue(page), _) => {
            let away = page.items.iter().filter(|waiter| waiter.position.is_none());
            let also = page.items.first().map_or(&[][..], |first| &first.also);
            outcome
                .with_list("order", page.items.iter().map(|waiter| &waiter.holder.id))
                .with_list("numbers", page.items.iter().map(|waiter| waiter.id.0))
                .with_list("away", away.map(|waiter| &waiter.holder.id))
                .with_list("also", also.iter().map(|(pool, demand)| wanted(pool, demand)))
        }
        (View::Sessions(page), _) => {
            let attached = page.items.iter().filter(|session| session.attached);
            let outcome = outcome
                .with_list("holders", page.items.iter().map(|session| &session.holder.id))
                .with_list("attached", attached.map(|session| &session.holder.id));
            match page.items.first() {
                Some(first) => outcome
                    .with("until", time_or_none(first.deadline))
                    .with("holds", first.holds)
                    .with("waiters", first.waiters),
                None => outcome,
            }
        }
        (View::Explained(explained), _) => {
            let first = explained.waiters.first().map(|it| it.sentences.join("; "));
            outcome
                .with("pool", explained.pool.join("; "))
                .with_list("order", explained.waiters.iter().map(|it| &it.waiter.holder.id))
                .with("why", first.unwrap_or_else(|| "none".into()))
        }
        (View::Owners(_) | View::Stats(_) | View::Waits(_) | View::Search(_), _) => outcome,
    }
}

fn with_pool(outcome: Outcome, detail: &PoolDetail) -> Outcome {
    let summary = &detail.summary;
    let leaving = detail.resources.iter().filter(|resource| resource.leaving);
    let outcome = with_condition(outcome, &summary.condition)
        .with("size", summary.size)
        .with("used", summary.used)
        .with("holds", summary.holds)
        .with("waiters", summary.waiters)
        .with("waiting-since", time_or_none(summary.waiting_since))
        .with("removing", summary.removing)
        .with("declared", summary.declared)
        .with("window", summary.window.map_or_else(|| "none".into(), |window| duration_text(window.as_millis())))
        .with("order", if detail.spec.order == Order::Backfill { "backfill" } else { "strict" })
        .with_list("leaving", leaving.map(|resource| &resource.spec.name))
        .with("returns", time_or_none(summary.until))
        .with("dirty", summary.dirty)
        .with("cleaning", detail.spec.cleaning)
        .with("fair", detail.spec.fair.as_ref().map_or("none", |share| share.by()))
        .with("place-by", detail.spec.scripts.place.as_ref().map_or("none", |script| script.as_str()))
        .with("order-by", detail.spec.scripts.order.as_ref().map_or("none", |script| script.as_str()))
        .with("script-faults", detail.script_faults)
        .with("scripts-set-aside", detail.script_faults >= SCRIPT_FAULTS_MAX);
    match &detail.spec.capacity {
        Capacity::Units(_) => outcome,
        Capacity::Resources { placement, resources } => {
            let placement = match placement {
                Placement::First => "first".into(),
                Placement::LeastRecentlyUsed => "least-recently-used".into(),
                Placement::MostRecentlyUsed => "most-recently-used".into(),
                Placement::Random => "random".into(),
                Placement::Spread(label) => format!("spread:{label}"),
            };
            outcome.with("placement", placement).with_list("resources", resources.iter().map(|it| &it.name))
        }
    }
}

fn with_holds(outcome: Outcome, holds: &[HoldView]) -> Outcome {
    let outcome = with_holders(outcome, holds);
    match holds.first() {
        Some(first) => outcome
            .with("units", first.units)
            .with("lifetime", lifetime_word(&first.lifetime))
            .with_list("resources", &first.resources)
            .with_list("also", first.also.iter().map(|part| format!("{}:{}", part.pool.name(), part.taken.units))),
        None => outcome,
    }
}

fn wanted(pool: &PoolPath, demand: &Demand) -> String {
    match demand.amount {
        Amount::Count(count) => format!("{}:{count}", pool.name()),
        Amount::All => format!("{}:all", pool.name()),
    }
}

/// What happened, oldest first; and the last reason given.
pub fn history<'a>(events: impl IntoIterator<Item = &'a Event>) -> Outcome {
    let mut names = Vec::new();
    let mut note = "none";
    for event in events {
        names.push(event_name(event));
        if let Event::Ended { how: HoldEnd::Forced(reason) | HoldEnd::Stolen { reason, .. }, .. }
        | Event::Reserved { reason, .. }
        | Event::ReservationEnded { how: ReservationEnd::Cancelled(reason), .. }
        | Event::WaiterMoved { reason, .. }
        | Event::PolicyFailed { why: reason, .. } = event
        {
            note = reason.as_str();
        }
    }
    Outcome::new("shown").with_list("events", names).with("note", note)
}

fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Queued { .. } => "queued",
        Event::Granted { .. } => "granted",
        Event::Renewed { .. } => "renewed",
        Event::Ended { how, .. } => match how {
            HoldEnd::Released => "ended:released",
            HoldEnd::Expired => "ended:expired",
            HoldEnd::SessionEnded => "ended:session_ended",
            HoldEnd::OwnerGone => "ended:owner_gone",
            HoldEnd::Forced(_) => "ended:forced",
            HoldEnd::Withdrawn => "ended:withdrawn",
            HoldEnd::Unreceived => "ended:unreceived",
            HoldEnd::Stolen { .. } => "ended:stolen",
        },
        Event::WaitEnded { how, .. } => match how {
            WaitEnd::TimedOut => "wait_ended:timed_out",
            WaitEnd::Withdrawn => "wait_ended:withdrawn",
            WaitEnd::SessionEnded => "wait_ended:session_ended",
            WaitEnd::OwnerGone => "wait_ended:owner_gone",
            WaitEnd::CallerGone => "wait_ended:caller_gone",
            WaitEnd::NeverFits => "wait_ended:never_fits",
            WaitEnd::PoolRemoved => "wait_ended:pool_removed",
        },
        Event::WaiterAway { .. } => "waiter_away",
        Event::WaiterBack { .. } => "waiter_back",
        Event::RequestWithdrawn { .. } => "request_withdrawn",
        Event::SessionOpened { .. } => "session_opened",
        Event::SessionKept { .. } => "session_kept",
        Event::SessionAttached { .. } => "session_attached",
        Event::SessionDetached { .. } => "session_detached",
        Event::SessionClosing { .. } => "session_closing",
        Event::SessionEnded { .. } => "session_ended",
        Event::PoolSet { .. } => "pool_set",
        Event::ConditionSet { .. } => "condition_set",
        Event::PoolRemoving { .. } => "pool_removing",
        Event::PoolGone { .. } => "pool_gone",
        Event::Restarted => "restarted",
        Event::Reserved { .. } => "reserved",
        Event::ReservationEnded { how: ReservationEnd::Expired, .. } => "reservation_ended:expired",
        Event::ReservationEnded { how: ReservationEnd::Cancelled(_), .. } => "reservation_ended:cancelled",
        Event::WaiterMoved { .. } => "waiter_moved",
        Event::PolicyFailed { .. } => "policy_failed",
    }
}

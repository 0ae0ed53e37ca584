//! Holds: until when they are certain, when they are renewed, how they are lost and let go.

use std::time::{Duration, Instant};

use tenure_proto::v1;
use tokio::sync::{oneshot, watch};

use super::request::{Request, What};
use super::time::certain;
use super::{CALL_PATIENCE, Due, Session};
use crate::error::{Error, has_no_time};
use crate::guard::Lost;

/// A renewal that the server had no time for is repeated after a tenth of the lease, or this.
const RENEW_AGAIN_MAX: Duration = Duration::from_secs(1);
const RENEW_AGAIN_MIN: Duration = Duration::from_millis(50);

/// Names a guard's hold: its token, and the acquire it came from. The same hold can be granted to two acquires that share
/// a request id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HoldId {
    pub(crate) token: u64,
    pub(crate) ask: u64,
}

/// What an acquire is answered with.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) hold: HoldId,
    pub(crate) grant: Box<v1::Grant>,
    pub(crate) standing: watch::Receiver<Standing>,
}

/// How a hold stands, as its guard sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Until when it is certainly ours; none if it does not end by time.
    pub(crate) until: Option<Instant>,
    lost: Option<Lost>,
    /// Ends by time whatever is done.
    fixed: bool,
}

impl Standing {
    /// Looks at the clock too: after a pause of the whole process it is the first to know.
    pub(crate) fn lost(&self) -> Option<Lost> {
        let over = || self.until.is_some_and(|until| until <= crate::clock::now());
        self.lost.clone().or_else(|| over().then(|| self.lost_by_time()))
    }

    /// Whatever the clock says.
    #[cfg(test)]
    pub(super) fn lost_for_good(&self) -> Option<Lost> {
        self.lost.clone()
    }

    fn lost_by_time(&self) -> Lost {
        if self.fixed { Lost::Expired } else { Lost::Unreachable }
    }
}

pub(super) struct Hold {
    key: String,
    pool: String,
    lifetime: v1::Lifetime,
    /// Of the lease or window, or of a session's hold that ends by time too.
    length: Option<Duration>,
    /// Until when it is certainly ours by its length, whatever becomes of the session.
    timed_until: Option<Instant>,
    renew_at: Option<Instant>,
    /// A renewal is on its way.
    pub(super) renewing: bool,
    standing: watch::Sender<Standing>,
    /// Its entry in the agenda.
    due: Option<Instant>,
}

impl Hold {
    /// How long a renewal lasts; none if there is nothing to renew.
    pub(super) fn renewed_for(&self) -> Option<Duration> {
        self.length.filter(|_| self.lifetime != v1::Lifetime::Window)
    }

    fn is_lost(&self) -> bool {
        self.standing.borrow().lost.is_some()
    }

    fn is_releasable(&self) -> bool {
        self.lifetime != v1::Lifetime::Window
    }

    fn lose(&self, now: Option<Instant>, how: Lost) {
        self.standing.send_if_modified(|standing| {
            let news = standing.lost.is_none();
            if news {
                standing.lost = Some(how);
                standing.until = standing.until.into_iter().chain(now).min();
            }
            news
        });
    }
}

impl Session {
    /// Until when a grant is certainly ours by its length, counted from before it was asked for or, if it was waited for, by
    /// the server's deadline on the server's clock. None if it does not end by time.
    pub(super) fn timed_until(&self, now: Instant, asked: Option<Instant>, grant: &v1::Grant) -> Option<Instant> {
        let length = Duration::from_millis(grant.ttl_ms?);
        let by_length = asked.map(|asked| certain(asked, length));
        let by_deadline = self.server_time.and_then(|time| time.before(grant.deadline_ms?));
        Some(by_length.max(by_deadline).unwrap_or(now))
    }

    /// Until when the session is certainly there.
    pub(super) fn session_until(&self, now: Instant) -> Instant {
        self.certain.unwrap_or(now)
    }

    pub(super) fn hold(&mut self, now: Instant, ask: u64, grant: v1::Grant, timed_until: Option<Instant>) -> Granted {
        let id = HoldId { token: grant.token, ask };
        let length = grant.ttl_ms.map(Duration::from_millis);
        let lifetime = grant.lifetime();
        let fixed = lifetime == v1::Lifetime::Window;
        let until = certain_until(lifetime, timed_until, self.session_until(now));
        let (sender, standing) = watch::channel(Standing { until, lost: None, fixed });
        let mut hold = Hold {
            key: grant.key.clone(),
            pool: grant.pool.clone(),
            lifetime,
            length,
            timed_until,
            renew_at: None,
            renewing: false,
            standing: sender,
            due: None,
        };
        if let (Some(until), Some(length)) = (timed_until, hold.renewed_for()) {
            hold.renew_at = Some(renew_at(now, until, length));
            self.ping_for(now, length);
        }
        self.holds.insert(id, hold);
        self.schedule_hold(id);
        Granted { hold: id, grant: Box::new(grant), standing }
    }

    fn schedule_hold(&mut self, id: HoldId) {
        let Some(hold) = self.holds.get_mut(&id) else { return };
        // That the session may be over is looked after for all at once.
        let due = if hold.is_lost() { None } else { hold.timed_until.into_iter().chain(hold.renew_at).min() };
        if let Some(before) = std::mem::replace(&mut hold.due, due) {
            self.agenda.remove(&(before, Due::Hold(id)));
        }
        if let Some(due) = due {
            self.agenda.insert((due, Due::Hold(id)));
        }
    }

    pub(super) fn hold_due(&mut self, now: Instant, id: HoldId) {
        let open = self.is_open();
        let Some(hold) = self.holds.get_mut(&id) else { return };
        hold.due = None;
        if hold.timed_until.is_some_and(|until| until <= now) {
            let how = hold.standing.borrow().lost_by_time();
            hold.lose(Some(now), how);
        } else if hold.renew_at.is_some_and(|at| at <= now) {
            hold.renew_at = None;
            // Without a connection it is renewed as soon as there is one.
            if open && !std::mem::replace(&mut hold.renewing, true) {
                let key = hold.key.clone();
                self.request(Request::new(What::Renew { hold: id, key }));
            }
        }
        self.schedule_hold(id);
    }

    /// After a reconnect: what was lost meanwhile was told to nobody. A renewal tells, also of what cannot be renewed.
    pub(super) fn ask_about_holds(&mut self) {
        let mut there = Vec::new();
        for (id, hold) in self.holds.iter_mut().filter(|(_, hold)| !hold.is_lost()) {
            (hold.renewing, hold.renew_at) = (true, None);
            there.push((*id, hold.key.clone()));
        }
        for (hold, key) in there {
            self.schedule_hold(hold);
            self.request(Request::new(What::Renew { hold, key }));
        }
    }

    pub(super) fn renewed(&mut self, now: Instant, id: HoldId, said: Instant, renewed: v1::Renewed) {
        let session_until = self.session_until(now);
        let Some(hold) = self.holds.get_mut(&id) else { return };
        hold.renewing = false;
        if hold.is_lost() {
            return;
        }
        let length = Duration::from_millis(renewed.ttl_ms);
        let timed_until = certain(said, length);
        // Without a time it could not be renewed: while we were away somebody with its key has made it a lease.
        if hold.length.is_none() {
            hold.lifetime = v1::Lifetime::Leased;
        }
        hold.length = Some(length);
        hold.timed_until = Some(timed_until);
        hold.renew_at = Some(renew_at(now, timed_until, length));
        let until = certain_until(hold.lifetime, hold.timed_until, session_until);
        hold.standing.send_modify(|standing| standing.until = until);
        self.schedule_hold(id);
    }

    pub(super) fn not_renewed(&mut self, now: Instant, id: HoldId, refusal: &v1::Refusal) {
        let Some(hold) = self.holds.get_mut(&id) else { return };
        hold.renewing = false;
        match refusal.code.as_str() {
            "not_held" => hold.lose(Some(now), Lost::Released),
            // It is there, and that was the question.
            "not_renewable" => {}
            _ if has_no_time(refusal) => {
                let pause = hold.length.map_or(RENEW_AGAIN_MAX, |length| length / 10);
                hold.renew_at = Some(now + pause.clamp(RENEW_AGAIN_MIN, RENEW_AGAIN_MAX));
            }
            _ => hold.renew_at = Some(now + RENEW_AGAIN_MAX),
        }
        self.schedule_hold(id);
    }

    /// The session is certain until then, and so is what lives as long as it.
    pub(super) fn session_holds_until(&mut self, session_until: Instant) {
        let of_session = self.holds.values().filter(|hold| hold.lifetime == v1::Lifetime::Session && !hold.is_lost());
        for hold in of_session {
            let until = certain_until(hold.lifetime, hold.timed_until, session_until);
            hold.standing.send_modify(|standing| standing.until = until);
        }
    }

    pub(super) fn lose_token(&mut self, now: Instant, token: u64, how: &Lost) {
        let all = HoldId { token, ask: 0 }..=HoldId { token, ask: u64::MAX };
        let ids: Vec<_> = self.holds.range(all).map(|(id, _)| *id).collect();
        for id in ids {
            self.holds[&id].lose(Some(now), how.clone());
            self.schedule_hold(id);
        }
    }

    pub(super) fn lose_all_of_session(&mut self, now: Instant, how: &Lost) {
        for hold in self.holds.values().filter(|hold| hold.lifetime == v1::Lifetime::Session) {
            hold.lose(Some(now), how.clone());
        }
    }

    /// Nobody looks after the holds any more.
    pub(super) fn lose_all(&mut self) {
        for hold in std::mem::take(&mut self.holds).into_values() {
            hold.lose(None, Lost::Closed);
        }
        self.agenda.retain(|(_, due)| !matches!(due, Due::Hold(_)));
    }

    pub(super) fn drop_hold(&mut self, id: HoldId) -> Option<Hold> {
        let hold = self.holds.remove(&id)?;
        if let Some(due) = hold.due {
            self.agenda.remove(&(due, Due::Hold(id)));
        }
        Some(hold)
    }

    /// Whoever still watches hears `how` it ends.
    pub(super) fn release(
        &mut self,
        now: Instant,
        id: HoldId,
        answer: Option<oneshot::Sender<Result<(), Error>>>,
        how: Lost,
    ) {
        // Closing has released it.
        let Some(hold) = self.drop_hold(id) else {
            answer.map(|answer| answer.send(Ok(())));
            return;
        };
        let lost = hold.standing.borrow().lost.clone();
        hold.lose(Some(now), how);
        match lost {
            _ if !hold.is_releasable() => {
                answer.map(|answer| answer.send(Ok(())));
            }
            // It may be there all the same.
            None | Some(Lost::Unreachable) => {
                let give_up = answer.is_some().then(|| now + CALL_PATIENCE);
                self.request(Request::new(What::Release { key: hold.key, answer }).until(give_up));
            }
            Some(lost) => {
                answer.map(|answer| answer.send(Err(not_held(&hold.pool, &lost))));
            }
        }
    }

    /// Looks after it no more.
    pub(super) fn keep(&mut self, id: HoldId) {
        if let Some(hold) = self.drop_hold(id) {
            hold.lose(None, Lost::LetGo);
        }
    }

    pub(super) fn release_all(&mut self, now: Instant) {
        let ids: Vec<_> = self.holds.keys().copied().collect();
        for id in ids {
            self.release(now, id, None, Lost::Closed);
        }
    }
}

/// Until when a hold is certainly ours: by its length, and if it ends with the session, no longer than that.
pub(super) fn certain_until(
    lifetime: v1::Lifetime,
    timed_until: Option<Instant>,
    session_until: Instant,
) -> Option<Instant> {
    let session_until = (lifetime == v1::Lifetime::Session).then_some(session_until);
    timed_until.into_iter().chain(session_until).min()
}

/// A third of the lease after it began.
fn renew_at(now: Instant, until: Instant, length: Duration) -> Instant {
    until.checked_sub(length * 2 / 3).unwrap_or(now)
}

/// What the server would say.
fn not_held(pool: &str, lost: &Lost) -> Error {
    Error::Refused(Box::new(v1::Refusal {
        code: "not_held".into(),
        message: format!("pool `{pool}` is no longer held: {lost}"),
        advice: "stop using what it protected".into(),
        pool: Some(pool.to_owned()),
        ..v1::Refusal::default()
    }))
}

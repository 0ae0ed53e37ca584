//! Pings: whether the connection is there, until when the session certainly is, and what time the server has.

use std::time::{Duration, Instant};

use tenure_proto::v1;

use super::holds::Hold;
use super::request::{Request, What};
use super::time::{ServerTime, certain};
use super::{Session, Stage};

/// A connection is asked whether it is there at least this often, and at a sixth of the shortest lifetime there is: so a
/// dead one is noticed when two thirds of it are left. Below the least, a slow machine would look like a dead one.
const PING_INTERVAL_MAX: Duration = Duration::from_secs(5);
const PING_INTERVAL_MIN: Duration = Duration::from_millis(500);
/// A session's grace may be less than that, and its holds are certain no longer than for a grace after a ping: then there
/// are three in it, but not so many that nothing else is done.
const PING_INTERVAL_LEAST: Duration = Duration::from_millis(20);
/// How long an answer to a ping may take, at least.
const PONG_PATIENCE_MIN: Duration = Duration::from_secs(1);

/// A connection on which the session is open.
pub(super) struct Open {
    /// The request that opened or resumed the session: what happens to it is told under this id.
    pub(super) id: u64,
    /// Between two pings.
    pub(super) interval: Duration,
    pub(super) ping_at: Instant,
    /// Since when a ping is not answered.
    pub(super) pinged: Option<Instant>,
    pub(super) heard_at: Instant,
}

impl Open {
    /// When a connection that has not answered its ping is given up.
    pub(super) fn silent_at(&self) -> Option<Instant> {
        self.pinged.map(|since| since.max(self.heard_at) + self.interval.max(PONG_PATIENCE_MIN))
    }
}

impl Session {
    pub(super) fn pong(&mut self, now: Instant, said: Instant, pong: v1::Pong) {
        let time = ServerTime { asked: said, at_ms: pong.at_ms };
        self.server_time = Some(self.server_time.map_or(time, |known| known.or_sharper(time)));
        self.session_is_certain(said);
        let interval = self.ping_interval();
        if let Stage::Open(open) = &mut self.stage {
            open.pinged = None;
            open.interval = interval;
            open.ping_at = (said + interval).max(now);
        }
    }

    pub(super) fn ping(&mut self, now: Instant) {
        self.request(Request::new(What::Ping));
        if let Stage::Open(open) = &mut self.stage {
            open.pinged = Some(now);
        }
    }

    /// Looks after the connection as closely as a hold of this length needs.
    pub(super) fn ping_for(&mut self, now: Instant, length: Duration) {
        let interval = interval_for(length);
        if let Stage::Open(open) = &mut self.stage
            && interval < open.interval
        {
            open.interval = interval;
            open.ping_at = open.ping_at.min(now + interval);
        }
    }

    pub(super) fn ping_interval(&self) -> Duration {
        let lengths = self.holds.values().filter_map(Hold::renewed_for);
        let shortest = lengths.min().unwrap_or(self.identity.grace).min(self.identity.grace);
        interval_for(shortest)
    }

    /// The server had the session no earlier than `said`, so it keeps it for its grace from then at least.
    pub(super) fn session_is_certain(&mut self, said: Instant) {
        let until = certain(said, self.identity.grace);
        if self.certain.is_none_or(|before| before < until) {
            self.certain = Some(until);
            self.session_holds_until(until);
        }
    }
}

fn interval_for(length: Duration) -> Duration {
    let least = PING_INTERVAL_MIN.min(length / 3).max(PING_INTERVAL_LEAST);
    (length / 6).clamp(least, PING_INTERVAL_MAX)
}

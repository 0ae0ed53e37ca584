"""Pings: whether the connection is there, until when the session certainly is, and what time the server has."""

from __future__ import annotations

from . import wire
from ._requests import Ping
from ._table import Open, Table, earliest
from ._time import ServerTime, certain

PING_INTERVAL_MAX = 5.0
"""A connection is asked whether it is there at least this often, and at a sixth of the shortest lifetime there is: so a dead
one is noticed when two thirds of it are left. Below the least, a slow machine would look like a dead one."""
PING_INTERVAL_MIN = 0.5
PING_INTERVAL_LEAST = 0.02


class Heartbeat(Table):
    def _ping(self, now: float) -> None:
        self._request(Ping())
        if isinstance(self.stage, Open):
            self.stage.pinged = now

    def _pong(self, now: float, said: float, at_ms: int) -> None:
        time = ServerTime(said, at_ms)
        self._server_time = time if self._server_time is None else self._server_time.or_sharper(time)
        self._session_is_certain(said)
        if isinstance(self.stage, Open):
            self.stage.pinged = None
            self.stage.interval = self._ping_interval()
            self.stage.ping_at = max(said + self.stage.interval, now)

    def _ping_interval(self) -> float:
        shortest = self.identity.grace
        for hold in self._holds.values():
            length = hold.renewed_for()
            if length is not None and length < shortest:
                shortest = length
        return interval_for(shortest)

    def _ping_for(self, now: float, length: float) -> None:
        """Looks after the connection as closely as a hold of this length needs."""
        interval = interval_for(length)
        if isinstance(self.stage, Open) and interval < self.stage.interval:
            self.stage.interval = interval
            self.stage.ping_at = min(self.stage.ping_at, now + interval)

    def _session_is_certain(self, said: float) -> None:
        """The server had the session no earlier than `said`, so it keeps it for its grace from then at least."""
        until = certain(said, self.identity.grace)
        if self._certain is None or self._certain < until:
            self._certain = until
            for hold in self._holds.values():
                if hold.lifetime == wire.LIFETIME_SESSION and hold.standing.reason is None:
                    hold.standing.until = certain_until(hold.lifetime, hold.timed_until, until)


def interval_for(length: float) -> float:
    least = max(min(PING_INTERVAL_MIN, length / 3), PING_INTERVAL_LEAST)
    return min(max(length / 6, least), PING_INTERVAL_MAX)


def certain_until(lifetime: int, timed_until: float | None, session_until: float) -> float | None:
    """Until when a hold is certainly ours: by its length, and if it ends with the session, no longer than that."""
    return earliest(timed_until, session_until if lifetime == wire.LIFETIME_SESSION else None)

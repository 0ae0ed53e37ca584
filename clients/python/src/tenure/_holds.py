"""Holds: when they are renewed, how they are lost and let go."""

from __future__ import annotations

from . import wire
from ._heartbeat import Heartbeat, certain_until
from ._requests import Release, Renew
from ._table import CALL_PATIENCE, Done, Hold, HoldId, earliest
from ._time import certain
from .errors import HoldLost, LostReason, has_no_time

RENEW_AGAIN_MAX = 1.0
"""A renewal that the server had no time for is repeated after a tenth of the lease, or this."""
RENEW_AGAIN_MIN = 0.05


class Holds(Heartbeat):
    def _schedule_hold(self, id: HoldId, hold: Hold) -> None:
        # That the session may be over is looked after for all at once.
        hold.due = None if hold.standing.reason is not None else earliest(hold.timed_until, hold.renew_at)
        if hold.due is not None:
            self._put_in_agenda(hold.due, id)

    def _hold_due(self, now: float, id: HoldId) -> None:
        hold = self._holds[id]
        if hold.timed_until is not None and hold.timed_until <= now:
            hold.standing.lose(now, hold.standing.lost_by_time())
        elif hold.renew_at is not None and hold.renew_at <= now:
            hold.renew_at = None
            # Without a connection it is renewed as soon as there is one.
            if self.is_open and not hold.renewing:
                hold.renewing = True
                self._request(Renew(id, hold.key))
        self._schedule_hold(id, hold)

    def _ask_about_holds(self) -> None:
        """After a reconnect: what was lost meanwhile was told to nobody. A renewal tells, also of what cannot be renewed."""
        for id, hold in self._holds.items():
            if hold.standing.reason is None:
                hold.renewing, hold.renew_at = True, None
                self._schedule_hold(id, hold)
                self._request(Renew(id, hold.key))

    def _renewed(self, now: float, id: HoldId, said: float, renewed: wire.Renewed) -> None:
        hold = self._holds.get(id)
        if hold is None:
            return
        hold.renewing = False
        if hold.standing.reason is not None:
            return
        # Without a time it could not be renewed: while we were away somebody with its key has made it a lease.
        if hold.length is None:
            hold.lifetime = wire.LIFETIME_LEASED
        hold.length = renewed.ttl_ms / 1000
        hold.timed_until = certain(said, hold.length)
        hold.renew_at = max(now, hold.timed_until - hold.length * 2 / 3)
        session_until = self._certain if self._certain is not None else now
        hold.standing.until = certain_until(hold.lifetime, hold.timed_until, session_until)
        self._schedule_hold(id, hold)

    def _not_renewed(self, now: float, id: HoldId, refusal: wire.Refusal) -> None:
        hold = self._holds.get(id)
        if hold is None:
            return
        hold.renewing = False
        if refusal.code == "not_held":
            hold.standing.lose(now, LostReason.RELEASED)
        elif refusal.code == "not_renewable":
            # It is there, and that was the question.
            pass
        elif has_no_time(refusal) and hold.length is not None:
            hold.renew_at = now + min(max(hold.length / 10, RENEW_AGAIN_MIN), RENEW_AGAIN_MAX)
        else:
            hold.renew_at = now + RENEW_AGAIN_MAX
        self._schedule_hold(id, hold)

    def _lose_all_of_session(self, now: float, reason: LostReason) -> None:
        for hold in list(self._holds.values()):
            if hold.lifetime == wire.LIFETIME_SESSION:
                hold.standing.lose(now, reason)
                hold.due = None

    def release(self, now: float, id: HoldId, answer: Done | None, reason: LostReason = LostReason.LET_GO) -> None:
        """Whoever still listens hears the `reason`."""
        hold = self._drop_hold(id)
        if hold is None:
            # Closing has released it.
            if answer is not None:
                answer(None)
            return
        lost, note = hold.standing.reason, hold.standing.note
        hold.standing.lose(now, reason)
        if hold.lifetime == wire.LIFETIME_WINDOW:
            if answer is not None:
                answer(None)
        elif lost is None or lost is LostReason.UNREACHABLE:
            # It may be there all the same.
            request = Release(hold.key, answer)
            request.give_up = None if answer is None else now + CALL_PATIENCE
            self._request(request)
        elif answer is not None:
            answer(HoldLost(hold.pool, lost, note))

    def keep(self, id: HoldId) -> None:
        """Looks after it no more."""
        hold = self._drop_hold(id)
        if hold is not None:
            hold.standing.lose(None, LostReason.LET_GO)

    def _drop_hold(self, id: HoldId) -> Hold | None:
        hold = self._holds.pop(id, None)
        if hold is not None:
            same = self._holds_by_token[id[0]]
            same.remove(id)
            if not same:
                del self._holds_by_token[id[0]]
        return hold

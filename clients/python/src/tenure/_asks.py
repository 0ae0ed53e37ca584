"""Acquires: how long they wait, what their answers mean, how they are given up."""

from __future__ import annotations

from . import wire
from ._heartbeat import certain_until
from ._holds import Holds
from ._requests import Acquire, Ask, Release, Request, Withdraw
from ._standing import Granted, Standing
from ._table import CALL_PATIENCE, Broken, Hold
from ._time import certain
from .errors import ClosedError, TenureError, refused

ACQUIRE_BYTES_MAX = 64 * 1024
"""More than anything with names within the server's limits takes, and little enough that a message of many stays within what
the server reads at once. What it does not read ends the stream, and would do so again after each reconnect."""
GRANTS_OVER_MAX = 3
"""How many grants in a row may be over when they are heard of. After that a lease is too short for the way to the server, and
the next one is handed out as it is: lost."""


class Asks(Holds):
    def ask(self, now: float, ask: Ask) -> None:
        if self._ending is not None or self.is_over:
            ask.answer(ClosedError())
            return
        size = ask.request.ByteSize()
        if size > ACQUIRE_BYTES_MAX:
            message = f"the request has {size} bytes; the most is {ACQUIRE_BYTES_MAX}"
            advice = "use shorter names and less metadata"
            ask.answer(refused(wire.Refusal(code="invalid_argument", message=message, advice=advice)))
            return
        request = Acquire(ask)
        request.give_up = now + CALL_PATIENCE if ask.tries else ask.end
        self._request_with_id(ask.id, request)

    def forget(self, id: int) -> None:
        """Nobody awaits it any more. If the server may know of it, it must not be granted."""
        request = self._requests.get(id)
        if isinstance(request, Acquire):
            self._take_request(id)
            self._withdraw_if_said(request)

    def _withdraw_if_said(self, request: Acquire) -> None:
        if request.first_said is not None:
            self._request(Withdraw(request.request_id))

    def _fail_acquire(self, id: int, error: TenureError) -> None:
        request = self._take_request(id)
        if isinstance(request, Acquire):
            self._withdraw_if_said(request)
            request.answer(error)

    def _ask_anew(self, id: int, request: Acquire) -> None:
        self._withdraw_if_said(request)
        self._request_with_id(id, request.anew())

    def _granted(self, now: float, id: int, request: Acquire, grant: wire.Grant) -> None:
        # Under an id that others may have, it may be older than what was said here.
        asked = request.first_said if request.own_id else None
        timed_until = self._timed_until(now, asked, grant)
        session_until = self._certain if self._certain is not None else now
        until = certain_until(grant.lifetime, timed_until, session_until)
        # Granted while nobody could be told, and over by now. Handing it out would be no use to anybody.
        if until is not None and until <= now and self._may_do_better(now, request, grant):
            request.grants_over += 1
            self._ask_anew(id, request)
            return
        standing = Standing(until, fixed=grant.lifetime == wire.LIFETIME_WINDOW)
        hold = Hold(grant, timed_until, standing)
        hold_id = (grant.token, id)
        self._holds[hold_id] = hold
        self._holds_by_token.setdefault(grant.token, []).append(hold_id)
        length = hold.renewed_for()
        if timed_until is not None and length is not None:
            hold.renew_at = max(now, timed_until - length * 2 / 3)
            self._ping_for(now, length)
        self._schedule_hold(hold_id, hold)
        request.answer(Granted(hold_id, grant, standing, self._release))

    def _timed_until(self, now: float, asked: float | None, grant: wire.Grant) -> float | None:
        """Until when a grant is certainly ours by its length, counted from before it was asked for or, if it was waited for,
        by the server's deadline on the server's clock. None if it does not end by time."""
        if not grant.HasField("ttl_ms"):
            return None
        by_length = None if asked is None else certain(asked, grant.ttl_ms / 1000)
        by_deadline = None
        if self._server_time is not None and grant.HasField("deadline_ms"):
            by_deadline = self._server_time.before(grant.deadline_ms)
        known = [at for at in (by_length, by_deadline) if at is not None]
        return max(known, default=now)

    def _may_do_better(self, now: float, request: Acquire, grant: wire.Grant) -> bool:
        """Whether another grant instead of this one, which is over, may be of use. Not if nothing can be certain that is so
        short: each place in a short rate window would be used up for nothing."""
        can_be_certain = not grant.HasField("ttl_ms") or certain(now, grant.ttl_ms / 1000) > now
        often = not request.may_have_happened and request.grants_over >= GRANTS_OVER_MAX
        return request.own_id and can_be_certain and not often

    def _acquire_refused(self, id: int, request: Acquire, refusal: wire.Refusal) -> None:
        # The session is over, and the stream is about to be told.
        if refusal.code == "unknown_session" and request.own_id:
            self._ask_anew(id, request)
            raise Broken(refusal.message)
        # It was granted while nobody could be told, and is over by now.
        if refusal.code == "request_ended" and request.own_id and request.may_have_happened:
            self._ask_anew(id, request)
            return
        request.answer(refused(refusal))

    def _refuse_all_asks(self) -> None:
        for id, request in list(self._requests.items()):
            if isinstance(request, Acquire):
                self._fail_acquire(id, ClosedError())

    def _request_due(self, now: float, id: int) -> None:
        request = self._requests[id]
        if request.retry_at is not None and request.retry_at <= now:
            request.retry_at = None
            self._queue(id, request.is_urgent)
        if request.give_up is not None and request.give_up <= now:
            self._give_up(now, id, request)
        if id in self._requests:
            self._schedule(id, request)

    def _give_up(self, now: float, id: int, request: Request) -> None:
        request.give_up = None
        if isinstance(request, Acquire):
            later = request.later_end(now) if self.is_open else None
            # The server is about to say that the time is up, and who holds it.
            if later is not None:
                request.give_up = later
            else:
                self._fail_acquire(id, self._unreachable())
        elif isinstance(request, Release) and request.answer is not None:
            # It goes on trying, though nobody listens.
            answer, request.answer = request.answer, None
            answer(self._unreachable())

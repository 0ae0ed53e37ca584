"""What a session has to remember, and the line of requests that are to be said or answered.

The session is built in layers, of which each uses only those below it: this, `_heartbeat`, `_holds`, `_asks`, `_session`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from . import wire
from ._requests import Request
from ._standing import Standing
from ._time import ServerTime, pause
from .errors import TenureError, Unreachable

CALL_PATIENCE = 10.0
"""How long a call that does not wait for room waits for the server: a try, a release, a close."""
UNANSWERED_MAX = 4_000
"""The server reads no more from a stream with 4,096 unanswered requests. Below that, pings always reach it."""
ASKS_UNANSWERED_MAX = 2_048
"""Acquires leave room for the renewals and releases of what is held."""
PONG_PATIENCE_MIN = 1.0
RETRY_FIRST = 0.1
"""The pause before something is asked again that the server had no time for."""
RETRY_MOST = 2.0

HoldId = tuple[int, int]
"""Names a hold: its token, and the acquire it came from. The same hold can be granted to two acquires that share a request
id."""
Done = Callable[[TenureError | None], None]


class Broken(Exception):
    """The connection cannot be used any more, for this reason."""


@dataclass
class Identity:
    """Whose session it is."""

    address: str
    holder: str
    meta: dict[str, str]
    namespace: str
    grace: float
    connect_timeout: float


class Hold:
    __slots__ = ("due", "key", "length", "lifetime", "pool", "renew_at", "renewing", "standing", "timed_until")

    def __init__(self, grant: wire.Grant, timed_until: float | None, standing: Standing) -> None:
        self.key = grant.key
        self.pool = grant.pool
        self.lifetime = grant.lifetime
        self.length = grant.ttl_ms / 1000 if grant.HasField("ttl_ms") else None
        self.timed_until = timed_until
        """Until when it is certainly ours by its length, whatever becomes of the session."""
        self.renew_at: float | None = None
        self.renewing = False
        """A renewal is on its way."""
        self.standing = standing
        self.due: float | None = None

    def renewed_for(self) -> float | None:
        """How long a renewal lasts; none if there is nothing to renew."""
        return None if self.lifetime == wire.LIFETIME_WINDOW else self.length


@dataclass
class Open:
    """A connection on which the session is open."""

    id: int
    """The request that opened or resumed the session: what happens to it is told under this id."""
    interval: float
    ping_at: float
    heard_at: float
    pinged: float | None = None
    """Since when a ping is not answered."""

    def silent_at(self) -> float | None:
        """When a connection that has not answered its ping is given up."""
        if self.pinged is None:
            return None
        return max(self.pinged, self.heard_at) + max(self.interval, PONG_PATIENCE_MIN)


@dataclass
class Opening:
    id: int
    said: float


@dataclass
class Ending:
    give_up: float
    said: bool = False
    answers: list[Done] = field(default_factory=list)


class Table:
    def __init__(
        self,
        identity: Identity,
        greeting: Done,
        release: Callable[[HoldId], None],
    ) -> None:
        self.identity = identity
        self.stage: Opening | Open | None = None
        self.is_over = False
        self.key: str | None = None
        """The session's, if there is one to resume."""
        self._release = release
        self._greeting: Done | None = greeting
        self._last_id = 0
        self._certain: float | None = None
        """Until when the session, and what lives as long as it, is certainly there."""
        self._taken_over: float | None = None
        self._requests: dict[int, Request] = {}
        self._urgent: deque[int] = deque()
        """What is to be said next: what holds depend on, and after it the acquires."""
        self._asks: deque[int] = deque()
        self._unanswered = 0
        """Said on this connection and not answered at all."""
        self._holds: dict[HoldId, Hold] = {}
        self._holds_by_token: dict[int, list[HoldId]] = {}
        self._agenda: list[tuple[float, int, int | HoldId]] = []
        """A heap. What is no longer due at that time is left in it, and passed over."""
        self._agenda_number = 0
        self._server_time: ServerTime | None = None
        self._ending: Ending | None = None
        self._why = "not connected yet"

    @property
    def is_open(self) -> bool:
        return isinstance(self.stage, Open)

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _request(self, request: Request) -> None:
        self._request_with_id(self.next_id(), request)

    def _request_with_id(self, id: int, request: Request) -> None:
        self._requests[id] = request
        self._schedule(id, request)
        if request.is_ready:
            self._queue(id, request.is_urgent)

    def _queue(self, id: int, urgent: bool) -> None:
        """While there is no connection nothing stands in line: the next one starts with everything there is."""
        if self.is_open:
            (self._urgent if urgent else self._asks).append(id)

    def _take_request(self, id: int) -> Request | None:
        request = self._requests.pop(id, None)
        if request is not None and request.said and not request.answered:
            self._unanswered = max(0, self._unanswered - 1)
        return request

    def _schedule(self, id: int, request: Request) -> None:
        request.due = earliest(request.give_up, request.retry_at)
        if request.due is not None:
            self._put_in_agenda(request.due, id)

    def _again(self, now: float, id: int, request: Request) -> None:
        """Asks again after a pause: the server had no time for it."""
        request.said = request.answered = False
        request.failures += 1
        request.retry_at = now + pause(request.failures, RETRY_FIRST, RETRY_MOST)
        self._request_with_id(id, request)

    def _next_to_say(self) -> int | None:
        if not self.is_open:
            return None
        if self._urgent and self._unanswered < UNANSWERED_MAX:
            return self._urgent.popleft()
        if self._asks and self._unanswered < ASKS_UNANSWERED_MAX:
            return self._asks.popleft()
        return None

    def _is_current(self, at: float, what: int | HoldId) -> bool:
        entry = self._requests.get(what) if isinstance(what, int) else self._holds.get(what)
        return entry is not None and entry.due == at

    def _put_in_agenda(self, at: float, what: int | HoldId) -> None:
        self._agenda_number += 1
        heapq.heappush(self._agenda, (at, self._agenda_number, what))
        # Most holds end long before they would be renewed.
        if len(self._agenda) > 1_000 + 4 * (len(self._requests) + len(self._holds)):
            self._agenda = [entry for entry in self._agenda if self._is_current(entry[0], entry[2])]
            heapq.heapify(self._agenda)

    def _unreachable(self) -> Unreachable:
        return Unreachable(self.identity.address, "it does not answer" if self.is_open else self._why)


def earliest(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)

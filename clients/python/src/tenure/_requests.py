"""Requests: kept until they are answered for good, said again after a reconnect, and tried again when the server has no time
for them."""

from __future__ import annotations

import math
from collections.abc import Callable

from . import wire
from ._standing import Granted
from ._time import random_id
from .errors import TenureError

_LAST_WORD_PATIENCE = 2.0
"""How long the server may take to say that a wait is over, and who stands in its way."""


class Request:
    __slots__ = ("answered", "due", "failures", "first_said", "give_up", "last_said", "may_have_happened", "retry_at", "said")

    is_urgent = True

    def __init__(self) -> None:
        self.said = False
        """On this connection."""
        self.answered = False
        """Known to the server, such as a wait that is in the queue."""
        self.first_said: float | None = None
        """On whichever connection."""
        self.last_said: float | None = None
        self.may_have_happened = False
        """It was said, and whether it was done is not known: the line broke, or the server itself cannot tell."""
        self.failures = 0
        """How often in a row the server had no time for it."""
        self.give_up: float | None = None
        """Until when somebody waits for the answer."""
        self.retry_at: float | None = None
        """Not to be said before."""
        self.due: float | None = None
        """Its entry in the agenda."""

    @property
    def is_ready(self) -> bool:
        return not self.said and self.retry_at is None

    def say(self, now: float, id: int) -> wire.ClientRequest:
        self.said, self.answered = True, False
        if self.first_said is None:
            self.first_said = now
        self.last_said = now
        return self.message(now, id)

    def message(self, now: float, id: int) -> wire.ClientRequest:
        raise NotImplementedError


class Ask:
    """An acquire as it comes from the application."""

    __slots__ = ("answer", "end", "id", "own_id", "request", "tell_queued", "tries")

    def __init__(
        self,
        request: wire.AcquireRequest,
        answer: Callable[[Granted | TenureError], None],
        tell_queued: Callable[[int], None] | None,
    ) -> None:
        self.id = 0
        self.request = request
        self.own_id = not request.HasField("request_id")
        """Whether the request id is made here, and another will do."""
        if self.own_id:
            request.request_id = random_id()
        self.tries = not request.wait_forever and not request.HasField("wait_ms")
        self.end: float | None = None
        """Of the wait, if it has one."""
        self.answer = answer
        self.tell_queued = tell_queued


class Acquire(Request):
    __slots__ = ("ask", "end", "grants_over", "own_id")

    is_urgent = False

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self.ask = ask
        self.own_id = ask.own_id
        self.end = ask.end
        self.grants_over = 0
        """How many grants were over when they were heard of."""

    def message(self, now: float, id: int) -> wire.ClientRequest:
        """With what is left of its wait. One that is over still has a moment: it is told who stands in its way."""
        said = wire.ClientRequest(id=id, acquire=self.ask.request)
        if self.end is not None:
            # Never more than was asked for, which may be the most the server takes.
            said.acquire.wait_ms = max(1, min(self.ask.request.wait_ms, math.ceil((self.end - now) * 1000)))
        return said

    def later_end(self, now: float) -> float | None:
        """Until when the server may take to say that a wait is over; none if that has passed too."""
        later = None if self.end is None else self.end + _LAST_WORD_PATIENCE
        return later if later is not None and later > now else None

    def tell_queued(self, position: int) -> None:
        if self.ask.tell_queued is not None:
            self.ask.tell_queued(position)

    def answer(self, answer: Granted | TenureError) -> None:
        self.ask.answer(answer)

    def anew(self) -> Acquire:
        """The same under another request id, as if it had not been asked yet."""
        self.ask.request.request_id = random_id()
        again = Acquire(self.ask)
        again.grants_over, again.give_up = self.grants_over, self.give_up
        return again

    @property
    def request_id(self) -> str:
        return self.ask.request.request_id


class Renew(Request):
    __slots__ = ("hold", "key")

    def __init__(self, hold: tuple[int, int], key: str) -> None:
        super().__init__()
        self.hold = hold
        self.key = key

    def message(self, now: float, id: int) -> wire.ClientRequest:
        # The namespace is that of the session.
        return wire.ClientRequest(id=id, renew=wire.RenewRequest(key=self.key))


class Release(Request):
    __slots__ = ("answer", "key")

    def __init__(self, key: str, answer: Callable[[TenureError | None], None] | None) -> None:
        super().__init__()
        self.key = key
        self.answer = answer

    def message(self, now: float, id: int) -> wire.ClientRequest:
        return wire.ClientRequest(id=id, release=wire.ReleaseRequest(key=self.key))


class Withdraw(Request):
    __slots__ = ("request_id",)

    def __init__(self, request_id: str) -> None:
        super().__init__()
        self.request_id = request_id

    def message(self, now: float, id: int) -> wire.ClientRequest:
        return wire.ClientRequest(id=id, withdraw=wire.WithdrawRequest(request_id=self.request_id))


class Ping(Request):
    __slots__ = ()

    def message(self, now: float, id: int) -> wire.ClientRequest:
        return wire.ClientRequest(id=id, ping=wire.Ping())


class End(Request):
    __slots__ = ()

    def message(self, now: float, id: int) -> wire.ClientRequest:
        return wire.ClientRequest(id=id, end=wire.EndSession())

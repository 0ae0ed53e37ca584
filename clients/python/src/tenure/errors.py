"""Why something was not done. A refusal is the server's normal answer; the others are about reaching it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from . import wire

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Busy",
    "ClosedError",
    "Deadlock",
    "ForeignServer",
    "HoldLost",
    "LostReason",
    "Refused",
    "TenureError",
    "Unauthenticated",
    "Unreachable",
    "Unusable",
    "WaitTimedOut",
]


class TenureError(Exception):
    """All of them."""

    code: str = "error"
    """A stable name for programs: the refusal's code, or `unreachable`, `foreign_server`, `unauthenticated`, `unusable`,
    `closed`."""
    retry: bool = False
    """Whether the same may succeed later."""
    may_have_happened: bool = False
    """Whether what was asked may have taken effect all the same. An acquire that failed so is withdrawn as soon as the
    server can be reached."""


class Refused(TenureError):
    """The server would not do it, and says why."""

    def __init__(self, refusal: wire.Refusal) -> None:
        super().__init__(refusal.message or refusal.code)
        self.refusal = refusal
        """All that the server says about it; [docs/api.md](../../../docs/api.md) lists the codes and their fields."""
        self.code = refusal.code
        self.retry = refusal.retry
        self.may_have_happened = refusal.may_have_happened

    @property
    def advice(self) -> str:
        """What to do now."""
        return self.refusal.advice

    @property
    def holders(self) -> Sequence[wire.Hold]:
        """Who is in the way, those longest there first, if it is for lack of room."""
        return self.refusal.holders


class Busy(Refused):
    """There was no room, and it was not to be waited for."""


class WaitTimedOut(Refused, TimeoutError):
    """There was no room for as long as it was to be waited for."""


class Deadlock(Refused):
    """A wait that could never end: those who could let it in wait, in the end, for what its holder has. Let go of something, or
    ask for all of it at once."""

    @property
    def cycle(self) -> Sequence[wire.Blocked]:
        """Who waits for whom, from the one who asked on: its `holder`, the `pool` it waits for and the `token` of the hold that
        is in its way. The last waits for the first."""
        return self.refusal.cycle


class LostReason(enum.Enum):
    """How a hold was lost."""

    EXPIRED = "its time ran out"
    FORCED = "an operator ended it"
    SESSION_ENDED = "its session is over"
    OWNER_GONE = "its owner is gone"
    RELEASED = "somebody else released it"
    LET_GO = "it was let go"
    """Released or kept by its holder: nobody took it away."""
    UNREACHABLE = "the server could not be reached in time"
    """It may be there, or somebody else's."""
    CLOSED = "the client was closed"
    FORKED = "it belongs to the process that this one was forked from"
    OTHER = "the server ended it"
    """In a way that this client does not know: the server is newer."""


class HoldLost(Refused):
    """The hold was over before its block was: stop using what it protected."""

    def __init__(self, pool: str, reason: LostReason, note: str = "") -> None:
        why = f"{reason.value}: {note}" if note else reason.value
        message = f"pool `{pool}` is no longer held: {why}"
        super().__init__(wire.Refusal(code="not_held", message=message, advice="stop using what it protected", pool=pool))
        self.reason = reason
        """How it was lost."""
        self.note = note
        """What the operator said who ended it."""


class Unreachable(TenureError, ConnectionError):
    """Nobody answered, or not in time."""

    code = "unreachable"

    def __init__(self, address: str, why: str, *, asked: bool = True) -> None:
        super().__init__(f"no server can be reached at {address}: {why}")
        self.address = address
        self.why = why
        self.retry = self.may_have_happened = asked


class ForeignServer(TenureError):
    """Something else listens there, or a server of another version."""

    code = "foreign_server"

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"what answers at {address} is not a Tenure server of this version: {why}")
        self.address = address
        self.why = why


class Unauthenticated(TenureError, PermissionError):
    """The server wants a password, or another one."""

    code = "unauthenticated"

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"the server at {address} does not let us in: {why}")
        self.address = address
        self.why = why


class Unusable(TenureError, ValueError):
    """The address, the password or the certificates are not what they should be. Nothing was sent."""

    code = "unusable"

    def __init__(self, why: str) -> None:
        super().__init__(f"no connection can be made with this: {why}")
        self.why = why


class ClosedError(TenureError):
    """The client was closed."""

    code = "closed"

    def __init__(self) -> None:
        super().__init__("the client is closed")


def refused(refusal: wire.Refusal) -> Refused:
    """The exception for a refusal."""
    kinds: dict[str, type[Refused]] = {"busy": Busy, "timed_out": WaitTimedOut, "deadlock": Deadlock}
    return kinds.get(refusal.code, Refused)(refusal)


def has_no_time(refusal: wire.Refusal) -> bool:
    """Nothing is wrong with the request: asked again, it may well be answered."""
    return refusal.code in ("stopping", "overloaded", "lost")

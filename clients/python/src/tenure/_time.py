"""Durations and deadlines: what the server promises in its time, as it can be relied upon in ours."""

from __future__ import annotations

import math
import secrets
import time
from dataclasses import dataclass
from datetime import timedelta

_ROUNDING = 0.005
"""The server counts in whole milliseconds and gives commands that it stores together one time, so that a lease may end two
milliseconds before it was asked for; and our own timer wakes up to two late."""
_DRIFT = 1e-3
"""Two clocks may run at different speeds. One part in a thousand is more than any that is kept in step differs."""
NAP_MAX = 1.0
"""The clock is looked at at least this often: timers stand still while the host sleeps, and would notice only that much
later."""

Seconds = float | timedelta
"""A duration: a number of seconds, or a `timedelta`."""

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Goes on while the host is suspended, as the server's clock does."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def now() -> float:
        return time.monotonic()


def seconds(duration: Seconds) -> float:
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


def millis(duration: Seconds) -> int:
    """As the wire has it. What is less than a millisecond and not nothing is one."""
    return max(0, math.ceil(round(seconds(duration) * 1000, 6)))


def certain(since: float, length: float) -> float:
    """Until when something is certainly there that lasts for `length` and began no earlier than `since`."""
    return since + max(0.0, length - length * _DRIFT - _ROUNDING)


@dataclass(frozen=True)
class ServerTime:
    """The server's clock against ours: it said `at_ms` no earlier than `asked`."""

    asked: float
    at_ms: int

    def before(self, deadline_ms: int) -> float | None:
        """A moment of ours that is certainly not after the server's `deadline_ms`."""
        left = deadline_ms - self.at_ms
        return None if left < 0 else certain(self.asked, left / 1000)

    def or_sharper(self, newer: ServerTime) -> ServerTime:
        """Whichever of the two lets a deadline be relied upon for longer. A newer answer that took long, because the server
        was paused or the network was, says less than an older one that came at once."""
        before = self.before(newer.at_ms)
        return self if before is not None and before > newer.asked else newer


def pause(failures: int, first: float, most: float) -> float:
    """How long to pause after so many failures in a row: doubling, and a random half of it less, so that many clients do not
    come back at the same moment."""
    whole = min(first * 2.0 ** min(max(failures - 1, 0), 32), most)
    return whole * (1 - secrets.randbelow(512) / 1024)


def random_id() -> str:
    """128 random bits as text: an id for a request. It is as good as a key to whoever knows it."""
    return secrets.token_hex(16)

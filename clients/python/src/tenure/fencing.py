"""The protected side: refuses a holder that was paused for longer than its lease and comes too late.

    guard = Fence()

    def write(report: bytes, token: int) -> None:
        guard.check("report", token)
        ...

A process can be stopped for longer than its lease lasts, and wake up believing that it still holds. No lock service can
prevent that; whatever the hold protects can, by remembering the highest token it has seen.
"""

from __future__ import annotations

import threading
from collections.abc import MutableMapping

__all__ = ["Fence", "StaleToken"]


class StaleToken(Exception):
    """Somebody came with a lower token than another before: their hold is over, and what they want to do is not to be done."""

    def __init__(self, name: str, token: int, highest: int) -> None:
        super().__init__(f"token {token} for `{name}` is stale: {highest} was here before")
        self.name = name
        self.token = token
        self.highest = highest


class Fence:
    """Remembers the highest token for each name, and refuses lower ones. For any number of threads.

    Check before reading what will be written back, too: otherwise a late write may come between another's read and write, and
    be lost. Check and write must be one step for others: hold a lock of your own around both, or use a store that can compare
    and set, with the token beside what is protected.
    """

    def __init__(self, highest: MutableMapping[str, int] | None = None) -> None:
        """With a mapping that outlives the process, so does what was seen."""
        self._highest: MutableMapping[str, int] = {} if highest is None else highest
        self._lock = threading.Lock()

    def check(self, name: str, token: int) -> None:
        """Lets the token pass and remembers it.

        Raises:
            StaleToken: A higher one was here before.
        """
        with self._lock:
            highest = self._highest.get(name)
            if highest is not None and token < highest:
                raise StaleToken(name, token, highest)
            if token != highest:
                self._highest[name] = token

    def highest(self, name: str) -> int | None:
        """The highest token that was seen; none if there was none."""
        with self._lock:
            return self._highest.get(name)

"""How a hold stands, as the connection's thread knows it and any other thread may ask."""

from __future__ import annotations

from collections.abc import Callable

from . import _time, wire
from .errors import LostReason


class Standing:
    """Written by the connection's thread only. There is no lock: a reason is set once, and a listener is told by whoever takes
    it out of the list, which only one can."""

    __slots__ = ("_listeners", "fixed", "note", "reason", "until")

    def __init__(self, until: float | None, fixed: bool) -> None:
        self.until = until
        """Until when it is certainly ours; none if it does not end by time."""
        self.fixed = fixed
        """Ends by time whatever is done."""
        self.reason: LostReason | None = None
        self.note = ""
        self._listeners: list[Callable[[], None]] = []

    def lost(self) -> LostReason | None:
        """Looks at the clock too: after a pause of the whole process it is the first to know."""
        if self.reason is None and self.until is not None and self.until <= _time.now():
            return self.lost_by_time()
        return self.reason

    def lost_by_time(self) -> LostReason:
        return LostReason.EXPIRED if self.fixed else LostReason.UNREACHABLE

    def lose(self, now: float | None, reason: LostReason, note: str = "") -> None:
        if self.reason is not None:
            return
        self.note = note
        self.reason = reason
        if now is not None:
            self.until = now if self.until is None else min(self.until, now)
        self._tell()

    def listen(self, listener: Callable[[], None]) -> None:
        """Calls it once when the hold is lost, at once if it is: from whichever thread, so it must be quick."""
        self._listeners.append(listener)
        if self.reason is not None:
            self._tell()

    def listen_no_more(self, listener: Callable[[], None]) -> None:
        try:
            self._listeners.remove(listener)
        except ValueError:
            pass

    def _tell(self) -> None:
        while True:
            try:
                listener = self._listeners.pop()
            except IndexError:
                return
            listener()


class Granted:
    """A hold in the hands of this process. When nobody has it any more it is released in the background, so that a grant
    which is lost on its way to whoever asked is not held for ever."""

    __slots__ = ("done", "grant", "id", "release", "standing")

    def __init__(
        self,
        id: tuple[int, int],
        grant: wire.Grant,
        standing: Standing,
        release: Callable[[tuple[int, int]], None],
    ) -> None:
        self.id = id
        self.grant = grant
        self.standing = standing
        self.release = release
        self.done = False
        """It was released, or given up."""

    def __del__(self) -> None:
        if not self.done:
            self.done = True
            self.release(self.id)

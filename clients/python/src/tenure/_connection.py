"""One client's connection: one stream after another, and between it and the session whatever either has for the other.

It lives on the loop of `_thread`, so that renewals go on however busy the application's threads and loops are. All decisions
are the session's.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from . import _thread, _time, wire
from ._http2 import Call, LinkBroken
from ._link import Line, LinkFailure, Target, server_of
from ._requests import Ask
from ._session import Broken, Done, HoldId, Identity, Session, earliest
from .errors import TenureError, Unreachable

_PAUSE_FIRST = 0.05
"""The pause before the next attempt to connect."""
_PAUSE_MOST = 2.0

_log = logging.getLogger("tenure")

Loop = asyncio.AbstractEventLoop


class Connection:
    """`post_…` and `tell` may be called from any thread, all else from the loop it lives on."""

    def __init__(self, loop: Loop, target: Target, identity: Identity) -> None:
        self.loop = loop
        self.forked = False
        """This is the copy of it in another process: of no use there, and not to be touched."""
        self.trouble: TenureError | None = None
        """Why there is no connection to the server just now, although one is being made."""
        self._target = target
        self._mailbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._woken = False
        self._outbox: dict[Loop, list[tuple[Callable[[Any, Any], None], Any, Any]]] = {}
        self._greeted: asyncio.Future[None] = loop.create_future()
        self.session = Session(identity, self._greet, self.post_release)
        self._line: Line | None = None
        self._carrying: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._something_to_say = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._dial_at: float | None = 0.0
        self._failures = 0
        """Attempts in a row that came to nothing, or not for long."""
        self._paused = 0.0
        self._opened: float | None = None
        """Since when the session is open on this connection."""

    async def connect(self) -> None:
        """Until the session is open. Fails at once if nobody listens, or somebody else; only connections that break later are
        mended."""
        self._tick()
        await asyncio.shield(self._greeted)

    def _greet(self, error: TenureError | None) -> None:
        if self._greeted.done():
            return
        if error is None:
            self._greeted.set_result(None)
        else:
            self._greeted.set_exception(error)

    # What the application's side says.

    def post_ask(self, ask: Ask) -> None:
        self._post(self._ask, ask)

    def post_forget(self, ask: Ask) -> None:
        self._post(self._forget, ask)

    def post_release(self, hold: HoldId, answer: Done | None = None) -> None:
        self._post(self._release, hold, answer)

    def post_keep(self, hold: HoldId) -> None:
        self._post(self._keep, hold)

    def post_close(self, answer: Done | None = None) -> None:
        self._post(self._close, answer)

    def _post(self, note: Callable[..., None], *arguments: Any) -> None:
        if self.forked:
            return
        self._mailbox.append((note, arguments))
        if not self._woken:
            self._woken = True
            try:
                self.loop.call_soon_threadsafe(self._read_mailbox)
            except RuntimeError:
                # The interpreter is about to end, and the loop has.
                pass

    def _read_mailbox(self) -> None:
        self._woken = False
        while self._mailbox:
            note, arguments = self._mailbox.popleft()
            note(*arguments)
        self._after()

    def _ask(self, ask: Ask) -> None:
        ask.id = self.session.next_id()
        self.session.ask(_time.now(), ask)

    def _forget(self, ask: Ask) -> None:
        self.session.forget(ask.id)

    def _release(self, hold: HoldId, answer: Done | None) -> None:
        self.session.release(_time.now(), hold, answer)

    def _keep(self, hold: HoldId) -> None:
        self.session.keep(hold)

    def _close(self, answer: Done | None) -> None:
        self.session.close(_time.now(), answer)

    # What it is told.

    def tell(self, loop: Loop, callback: Callable[[Any, Any], None], about: Any, what: Any) -> None:
        """Calls it on that loop, soon. What a message brings for one loop is brought there at once."""
        if loop is self.loop:
            callback(about, what)
        else:
            self._outbox.setdefault(loop, []).append((callback, about, what))

    def _send_outbox(self) -> None:
        outbox, self._outbox = self._outbox, {}
        for loop, letters in outbox.items():
            try:
                loop.call_soon_threadsafe(_deliver, letters)
            except RuntimeError:
                # It was closed, and nobody waits there any more. A grant is released when it is thrown away.
                letters.clear()

    # The stream.

    def _due(self) -> None:
        """What was heard comes first: after a pause of this process it may have what the clock says is missing."""
        self._timer = None
        self.loop.call_soon(self._tick)

    def _tick(self) -> None:
        if self.session.is_over:
            return
        now = _time.now()
        if self._dial_at is not None and self._dial_at <= now:
            self._dial_at = None
            first = self.session.connecting(now)
            self._carrying = self.loop.create_task(self._carry(first))
        try:
            self.session.tick(now)
        except Broken as error:
            self._broken(self._target.unreachable(str(error)))
        self._after()

    def _after(self) -> None:
        """Whatever happened: says what there is to say, and looks when there is something to do again."""
        self._send_outbox()
        if self.session.is_over:
            return self._over()
        if self.session.has_to_say():
            self._something_to_say.set()
        due = earliest(self.session.next_due(), self._dial_at)
        if due is None:
            return
        delay = min(max(due - _time.now(), 0.0), _time.NAP_MAX)
        at = self.loop.time() + delay
        if self._timer is not None:
            if self._timer_at <= at + 0.0005:
                return
            self._timer.cancel()
        self._timer, self._timer_at = self.loop.call_at(at, self._due), at

    def _over(self) -> None:
        for task in (self._carrying, self._writing):
            if task is not None:
                task.cancel()
        self._carrying = self._writing = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._line is not None:
            self._line.close()
            self._line = None
        _thread.CONNECTIONS.discard(self)

    async def _carry(self, first: wire.ClientMessage) -> None:
        """From the dialing to the end of one stream."""
        failure: TenureError
        call: Call | None = None
        heard = False
        try:
            self._line = await self._target.line()
            call = await self._line.open("Session")
            await call.send(first.SerializeToString())
            while (message := await call.receive()) is not None:
                if not heard:
                    heard = True
                    self._writing = self.loop.create_task(self._write(call))
                self._hear(wire.ServerMessage.FromString(message))
                self._after()
            raise LinkBroken("the server ended the stream")
        except Broken as error:
            failure = self._target.unreachable(str(error))
        except (*LinkFailure, TenureError) as error:
            failure = await self._target.diagnose(error, server_of(call), first=not heard)
        except Exception as error:
            # A stream that nobody reads any more would look as if all were well.
            _log.exception("the stream from %s cannot be read", self._target.address.given)
            failure = self._target.unreachable(f"its answers cannot be read: {error}")
        self._carrying = None
        self._broken(failure)
        self._after()

    async def _write(self, call: Call) -> None:
        try:
            while True:
                await self._something_to_say.wait()
                self._something_to_say.clear()
                while (message := self.session.say(_time.now())) is not None:
                    await call.send(message.SerializeToString())
        except LinkFailure:
            # Whoever reads hears of it too, and why.
            pass

    def _hear(self, message: wire.ServerMessage) -> None:
        now = _time.now()
        try:
            self.session.hear(now, message)
        finally:
            if self.session.is_open and self._opened is None:
                self._opened = now
                self.trouble = None
                if self._failures > 0:
                    _log.info("connected to %s again", self._target.address.given)

    def _broken(self, error: TenureError) -> None:
        now = _time.now()
        for task in (self._carrying, self._writing):
            if task is not None:
                task.cancel()
        self._carrying = self._writing = None
        if self._line is not None:
            self._line.close()
            self._line = None
        # A connection that lasted longer than it was waited for is no sign of trouble; one that never lasts is.
        if self._opened is not None and now >= self._opened + self._paused:
            self._failures = 0
        self._opened = None
        self._failures += 1
        self._paused = _time.pause(self._failures, _PAUSE_FIRST, _PAUSE_MOST)
        self.session.disconnected(now, error)
        # A server that is away is expected to come back; what keeps us out when it is there has to be mended by somebody.
        is_news = not isinstance(error, Unreachable) and str(error) != str(self.trouble)
        self.trouble = error
        if not self.session.is_over:
            level = logging.WARNING if self._failures == 1 or is_news else logging.DEBUG
            _log.log(level, "not connected, trying again: %s", error)
        self._dial_at = now + self._paused

    def abandon(self) -> None:
        """In a process that was forked."""
        self.forked = True
        if self._line is not None:
            self._line.abandon()


def _deliver(letters: list[tuple[Callable[[Any, Any], None], Any, Any]]) -> None:
    for callback, about, what in letters:
        callback(about, what)

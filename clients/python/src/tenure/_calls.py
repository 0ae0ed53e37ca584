"""Calls beside the session, over a connection of their own, which is made when it is first needed and mended by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from google.protobuf.message import Message

from . import wire
from ._http2 import Call
from ._link import Answer, Line, LinkFailure, Target, server_of
from ._session import CALL_PATIENCE
from .errors import TenureError


class Calls:
    """To be called on the loop of `_thread`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._line: Line | None = None

    async def call(self, name: str, request: Message, answer: type[Answer]) -> Answer:
        # An acquire takes as long as it waits.
        patience = None if name == "Acquire" else CALL_PATIENCE
        try:
            return await asyncio.wait_for((await self._connected()).call(name, request, answer), patience)
        except asyncio.TimeoutError as error:
            if isinstance(error, TenureError):
                raise
            raise self._target.unreachable("it does not answer") from error

    async def watch(self, request: wire.WatchRequest) -> AsyncGenerator[wire.Watched, None]:
        """Until the connection breaks."""
        line = await self._connected()
        call: Call | None = None
        try:
            call = await line.open("Watch")
            await call.send(request.SerializeToString(), end=True)
            while (message := await call.receive()) is not None:
                yield wire.Watched.FromString(message)
        except LinkFailure as error:
            line.failed(error)
            raise await self._target.diagnose(error, server_of(call)) from error
        finally:
            if call is not None:
                call.forget()

    async def _connected(self) -> Line:
        """What the password and the certificates are at the time."""
        if self._line is None or self._line.over:
            line = await self._target.line()
            # Somebody else may have been as quick.
            if self._line is not None and not self._line.over:
                line.close()
            else:
                self._line = line
        return self._line

    async def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def abandon(self) -> None:
        """In a process that was forked."""
        if self._line is not None:
            self._line.abandon()

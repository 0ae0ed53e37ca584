"""gRPC's calls over HTTP/2, as little of it as a client of one server needs: no compression, no balancing, no retries.

An answer that the server has finished is read to its end also if the server resets the stream right after it, as it may.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from base64 import b64decode
from collections import deque
from typing import cast
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

_WINDOW = 4 * 1024 * 1024
"""How much the server may send before it is read."""
_MESSAGE_MAX = 4 * 1024 * 1024
"""The server's own limit, and some: a longer one is not of our server."""

_FRAME_HEAD = 9
_FRAME_MAX = 16_384
"""We have not allowed more."""
_GOAWAY = 7

OK, CANCELLED, UNKNOWN, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, UNAUTHENTICATED = 0, 1, 2, 12, 13, 14, 16
DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED = 4, 8
_OF_HTTP = {401: UNAUTHENTICATED, 404: UNIMPLEMENTED, 429: UNAVAILABLE, 502: UNAVAILABLE, 503: UNAVAILABLE, 504: UNAVAILABLE}


class StatusError(Exception):
    """The server's answer is that it was not done."""

    def __init__(self, status: int, message: str, details: bytes = b"", *, is_grpc: bool = True) -> None:
        super().__init__(message or f"status {status}")
        self.status = status
        self.message = message
        self.details = details
        """A `google.rpc.Status`, if there is one."""
        self.is_grpc = is_grpc
        """Whether it was said as gRPC says it."""


class LinkBroken(ConnectionError):
    """The connection, or the stream, is gone."""


async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> Http2:
    loop = asyncio.get_running_loop()
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    scheme = "http" if tls is None else "https"
    _, protocol = await loop.create_connection(lambda: Http2(authority, scheme), host, port, ssl=tls)
    return protocol


class Http2(asyncio.Protocol):
    """One connection."""

    def __init__(self, authority: str, scheme: str) -> None:
        config = h2.config.H2Configuration(client_side=True, header_encoding="latin-1")
        self._connection = h2.connection.H2Connection(config)
        self._base = [(":method", "POST"), (":scheme", scheme), (":authority", authority)]
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        """Of a frame that is not whole yet."""
        self._calls: dict[int, Call] = {}
        self._writable = asyncio.Event()
        self._writable.set()
        self._window_opened = asyncio.Event()
        self.over: LinkBroken | None = None
        """No call can be made on it any more, for this reason."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connection.initiate_connection()
        self._connection.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW})
        self._connection.increment_flow_control_window(_WINDOW)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._received += data
        received, taken, at = self._received, 0, 0
        while len(received) - at >= _FRAME_HEAD:
            length = int.from_bytes(received[at : at + 3], "big")
            if length > _FRAME_MAX:
                # Whoever that is: the library says so.
                at = len(received)
                break
            end = at + _FRAME_HEAD + length
            if end > len(received):
                break
            if received[at + 3] == _GOAWAY:
                self._feed(bytes(received[taken:at]))
                self._stops(bytes(received[at + _FRAME_HEAD : end]))
                taken = end
            at = end
        self._feed(bytes(received[taken:at]))
        del received[:at]

    def _feed(self, frames: bytes) -> None:
        try:
            for event in self._connection.receive_data(frames) if frames else ():
                self._happened(event)
        except h2.exceptions.ProtocolError as error:
            self._flush()
            self._break(LinkBroken(f"it does not speak HTTP/2 as it should: {error}"))
            return
        self._flush()

    def _stops(self, goaway: bytes) -> None:
        """The server takes no more calls, and says which it will still answer. The library is not told, because it would take
        those answers for errors."""
        last, code = int.from_bytes(goaway[:4], "big") & 0x7FFFFFFF, int.from_bytes(goaway[4:8], "big")
        stops = LinkBroken("the server stops" if code == 0 else f"the server hangs up ({code})")
        if code != 0:
            self._break(stops)
            return
        if self.over is None:
            self.over = stops
        for id in [id for id in self._calls if id > last]:
            self._calls.pop(id).broken(stops)

    def connection_lost(self, error: BaseException | None) -> None:
        broken = LinkBroken("the connection was lost" if error is None else str(error) or type(error).__name__)
        broken.__cause__ = error
        self._break(broken)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # What callers call.

    async def call(self, path: str, headers: dict[str, str]) -> Call:
        await self._writable.wait()
        if self.over is not None:
            raise self.over
        try:
            id = self._connection.get_next_available_stream_id()
            said = [(":path", path), ("te", "trailers"), ("content-type", "application/grpc"), *headers.items()]
            self._connection.send_headers(id, [*self._base, *said])
        except h2.exceptions.ProtocolError as error:
            raise LinkBroken(f"no more calls can be made on this connection: {error}") from error
        call = self._calls[id] = Call(self, id)
        self._flush()
        return call

    def close(self) -> None:
        if self.over is None:
            try:
                self._connection.close_connection()
                self._flush()
            except h2.exceptions.ProtocolError:
                pass
        self._break(LinkBroken("the connection was closed"))

    def abandon(self) -> None:
        """In a process that was forked: lets go of the socket without a word on it, which would be the parent's. Its number
        stays taken, so that nothing else gets it while objects that believe in it are left."""
        socket = None if self._transport is None else self._transport.get_extra_info("socket")
        if socket is not None and socket.fileno() >= 0:
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, socket.fileno(), inheritable=False)
            os.close(nothing)

    # What calls call.

    async def send(self, id: int, data: bytes, end: bool) -> None:
        at = 0
        while True:
            await self._writable.wait()
            if id not in self._calls:
                raise self.over or LinkBroken("the server has ended the stream")
            try:
                window = self._connection.local_flow_control_window(id)
                if window <= 0 and at < len(data):
                    self._window_opened.clear()
                    await self._window_opened.wait()
                    continue
                piece = data[at : at + min(window, self._connection.max_outbound_frame_size)]
                at += len(piece)
                self._connection.send_data(id, piece, end_stream=end and at == len(data))
            except h2.exceptions.ProtocolError as error:
                raise LinkBroken("the server has ended the stream") from error
            self._flush()
            if at == len(data):
                return

    def taken(self, id: int, size: int) -> None:
        """So much of what came was read, and the server may send as much again."""
        # Also of a stream that is over: the connection has a bound of its own.
        if self._transport is not None and not self._transport.is_closing():
            try:
                self._connection.acknowledge_received_data(size, id)
            except h2.exceptions.ProtocolError:
                # Nothing more comes on this connection.
                pass
            self._flush()

    def forget(self, id: int) -> None:
        """Nobody wants to hear of it any more."""
        call = self._calls.pop(id, None)
        if call is not None:
            try:
                self._connection.reset_stream(id, h2.errors.ErrorCodes.CANCEL)
            except h2.exceptions.ProtocolError:
                # It is over already.
                pass
            self._flush()

    def _flush(self) -> None:
        data = self._connection.data_to_send()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _break(self, error: LinkBroken) -> None:
        if self.over is None:
            self.over = error
        if self._transport is not None:
            self._transport.close()
        self._writable.set()
        self._window_opened.set()
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.broken(self.over)

    def _happened(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.DataReceived():
                size = event.flow_controlled_length or 0
                call = self._calls.get(event.stream_id or 0)
                if call is not None:
                    call.heard(event.data or b"", size)
                elif size:
                    self._connection.acknowledge_received_data(size, event.stream_id or 0)
            case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                call = self._calls.get(event.stream_id or 0)
                if call is not None:
                    call.headers.update(cast("list[tuple[str, str]]", event.headers or []))
            case h2.events.StreamEnded():
                call = self._calls.pop(event.stream_id or 0, None)
                if call is not None:
                    call.ended()
            case h2.events.StreamReset():
                call = self._calls.pop(event.stream_id or 0, None)
                if call is not None:
                    call.broken(LinkBroken(f"the server has reset the stream ({event.error_code})"))
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                self._window_opened.set()


class Call:
    """One call: messages out, messages in, and what came of it."""

    def __init__(self, connection: Http2, id: int) -> None:
        self.headers: dict[str, str] = {}
        """All that the server has said, trailers too."""
        self._connection = connection
        self._id = id
        self._data = bytearray()
        self._pieces: deque[int] = deque()
        self._over = False
        self._error: LinkBroken | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def send(self, message: bytes, *, end: bool = False) -> None:
        await self._connection.send(self._id, b"\0" + len(message).to_bytes(4, "big") + message, end)

    async def receive(self) -> bytes | None:
        """The next message; none at the end.

        Raises:
            StatusError: At the end, if it did not end well.
            LinkBroken: The connection was lost before it ended.
        """
        while True:
            if self.headers and not self.headers.get("content-type", "").startswith("application/grpc"):
                # Whatever it is, it is told by its status.
                self._data.clear()
            if len(self._data) >= 5:
                length = int.from_bytes(self._data[1:5], "big")
                if self._data[0] != 0 or length > _MESSAGE_MAX + 64 * 1024:
                    raise LinkBroken("its answer is not one of our protocol")
                if len(self._data) >= 5 + length:
                    message = bytes(self._data[5 : 5 + length])
                    del self._data[: 5 + length]
                    self._taken()
                    return message
            if self._over:
                self._raise_for_status()
                if self._data:
                    raise LinkBroken("its answer is cut short")
                return None
            if self._error is not None:
                raise self._error
            self._taken()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def forget(self) -> None:
        self._taken()
        self._connection.forget(self._id)

    def heard(self, data: bytes, size: int) -> None:
        self._data += data
        self._pieces.append(size)
        self._wake()

    def ended(self) -> None:
        self._over = True
        self._wake()

    def broken(self, error: LinkBroken) -> None:
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _taken(self) -> None:
        """What lies here unread is not more than one message, and what makes it whole."""
        if self._pieces:
            size = sum(self._pieces)
            self._pieces.clear()
            self._connection.taken(self._id, size)

    def _raise_for_status(self) -> None:
        headers = self.headers
        told = headers.get("grpc-status")
        if told is not None and told.isdigit():
            if int(told) != OK:
                details = headers.get("grpc-status-details-bin", "")
                message = unquote(headers.get("grpc-message", ""), errors="replace")
                raise StatusError(int(told), message, b64decode(details + "=" * (-len(details) % 4)))
            return
        http = headers.get(":status", "")
        status = _OF_HTTP.get(int(http), UNKNOWN) if http.isdigit() else UNKNOWN
        raise StatusError(status, f"HTTP status {http}", is_grpc=False)

"""A server of another version: the real one, behind somebody who says more than it does, or knows less."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import h2.config
import h2.connection
import h2.events
from tenure import _http2, wire
from tenure._http2 import StatusError

Change = Callable[[str, bytes], list[bytes]]


class OtherVersion:
    """Passes calls on to a server and changes what it answers; does not know the calls in `unknown`."""

    def __init__(self, server: str, version: str, *, unknown: frozenset[str] = frozenset(), change: Change) -> None:
        self.server = server
        self.version = version
        self.unknown = unknown
        self.change = change
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        listening = self._loop.create_server(lambda: _Face(self), "127.0.0.1", 0)
        self._listener = asyncio.run_coroutine_threadsafe(listening, self._loop).result()
        self.address = "127.0.0.1:{}".format(self._listener.sockets[0].getsockname()[1])

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._listener.close)


class _Face(asyncio.Protocol):
    def __init__(self, other: OtherVersion) -> None:
        self.other = other
        config = h2.config.H2Configuration(client_side=False, header_encoding="latin-1")
        self.connection = h2.connection.H2Connection(config)
        self.said: dict[int, asyncio.Queue[bytes]] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.connection.initiate_connection()
        self.flush()

    def data_received(self, data: bytes) -> None:
        for event in self.connection.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                assert event.stream_id is not None
                self.said[event.stream_id] = asyncio.Queue()
                headers = {str(name): str(value) for name, value in event.headers or []}
                task = asyncio.ensure_future(self.carry(event.stream_id, headers[":path"]))
                self.tasks.add(task)
            elif isinstance(event, h2.events.DataReceived):
                assert event.stream_id is not None
                self.connection.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
                self.said[event.stream_id].put_nowait(event.data or b"")
        self.flush()

    def connection_lost(self, error: BaseException | None) -> None:
        for task in self.tasks:
            task.cancel()

    def flush(self) -> None:
        self.transport.write(self.connection.data_to_send())

    async def carry(self, id: int, path: str) -> None:
        name = path.rsplit("/", 1)[1]
        head = [(":status", "200"), ("content-type", "application/grpc"), ("server", f"tenure/{self.other.version}")]
        if name in self.other.unknown:
            self.connection.send_headers(id, [*head, ("grpc-status", "12")], end_stream=True)
            self.flush()
            return
        host, port = self.other.server.rsplit(":", 1)
        server = await _http2.connect(host, int(port), None)
        call = await server.call(path, {})
        passing = asyncio.ensure_future(self.pass_on(id, call, name != "Session"))
        self.connection.send_headers(id, head)
        status = ("grpc-status", "0")
        try:
            while (message := await call.receive()) is not None:
                for changed in self.other.change(name, message):
                    self.connection.send_data(id, b"\0" + len(changed).to_bytes(4, "big") + changed)
                self.flush()
        except StatusError as error:
            status = ("grpc-status", str(error.status))
        finally:
            passing.cancel()
            server.close()
        self.connection.send_headers(id, [status], end_stream=True)
        self.flush()

    async def pass_on(self, id: int, call: _http2.Call, says_one_thing: bool) -> None:
        heard = b""
        while True:
            heard += await self.said[id].get()
            while len(heard) >= 5 and len(heard) >= 5 + int.from_bytes(heard[1:5], "big"):
                length = int.from_bytes(heard[1:5], "big")
                await call.send(heard[5 : 5 + length], end=says_one_thing)
                heard = heard[5 + length :]


def with_unknown_fields(message: bytes) -> bytes:
    """The message with a number and a text in fields that nobody knows."""
    return message + _tag(4_000, 0) + b"\x07" + _tag(4_001, 2) + b"\x03new"


def newer(name: str, message: bytes) -> list[bytes]:
    """What a server of the future may say: unknown fields everywhere, and answers of an unknown kind."""
    if name != "Session":
        return [with_unknown_fields(message)]
    heard = wire.ServerMessage.FromString(message)
    changed = b""
    for answer in heard.answers:
        told = with_unknown_fields(answer.SerializeToString())
        changed += _tag(1, 2) + _varint(len(told)) + told
        # To the same request, and to one that nobody made: an answer of a kind that is not known.
        for id in (answer.id, 1 << 40):
            news = wire.ServerAnswer(id=id).SerializeToString() + _tag(900, 2) + b"\x00"
            changed = _tag(1, 2) + _varint(len(news)) + news + changed
    return [with_unknown_fields(changed)]


def _tag(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])

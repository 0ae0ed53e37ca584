"""A connection to the server, the stream and the calls on it; and, when there is none, why in words."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message

from . import wire
from ._access import Access, tls_reason
from ._address import PORT_DEFAULT, Address
from ._http2 import (
    CANCELLED,
    DEADLINE_EXCEEDED,
    INTERNAL,
    RESOURCE_EXHAUSTED,
    UNAUTHENTICATED,
    UNAVAILABLE,
    UNIMPLEMENTED,
    UNKNOWN,
    Call,
    Http2,
    LinkBroken,
    StatusError,
    connect,
)
from ._version import VERSION
from .errors import ForeignServer, TenureError, Unauthenticated, Unreachable, refused

_SERVICE = "/tenure.v1.Tenure/"
_PROBE_PATIENCE = 1.0
"""Whoever has something to say says it at once."""
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"
"""How an HTTP/2 client begins: its preface, and settings that are empty."""
_NOT_GRPC = f"it speaks HTTP and not gRPC; a server listens for gRPC on another port than for HTTP, by default {PORT_DEFAULT}"

_PASSING = (UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, RESOURCE_EXHAUSTED, UNKNOWN, INTERNAL)
"""Said by gRPC libraries and proxies on the way, or of the connection's end."""

Answer = TypeVar("Answer", bound=Message)
LinkFailure = (StatusError, OSError, asyncio.TimeoutError, DecodeError)
"""What a connection that cannot be used raises."""


def refusal_in(details: bytes) -> wire.Refusal | None:
    """The refusal in a status's details, which are a `google.rpc.Status`: its third field has any messages."""
    try:
        for detail in _details(details):
            if detail.type_url.endswith("/tenure.v1.Refusal"):
                return wire.Refusal.FromString(detail.value)
    except DecodeError:
        pass
    return None


def _details(data: bytes) -> Iterator[AnyMessage]:
    """As much of a `google.rpc.Status` as is of use here."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            _, at = _varint(data, at)
        elif tag & 7 == 2:
            length, at = _varint(data, at)
            if tag >> 3 == 3:
                yield AnyMessage.FromString(data[at : at + length])
            at += length
        else:
            raise DecodeError("not a google.rpc.Status")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise DecodeError("cut short")


@dataclass(frozen=True)
class Target:
    """A server: where it is, and how to be let in."""

    address: Address
    access: Access
    connect_timeout: float

    @property
    def tls(self) -> bool:
        return self.access.wants_tls if self.address.tls is None else self.address.tls

    async def line(self) -> Line:
        """A connection with what the files have now."""
        try:
            if self.access.has_files:
                # A file system that hangs is not to hold up what else the thread has to do.
                papers = await asyncio.get_running_loop().run_in_executor(None, self.access.papers, self.tls)
            else:
                papers = self.access.papers(self.tls)
            connected = connect(self.address.host, self.address.port, papers.tls)
            http = await asyncio.wait_for(connected, self.connect_timeout)
        except RuntimeError as error:
            # No more threads can be had for files and names.
            raise self.unreachable("this process is about to end") from error
        except LinkFailure as error:
            raise self.unreachable(_reason(error)) from error
        return Line(self, http, {"user-agent": f"tenure-python/{VERSION}", **papers.metadata})

    def unreachable(self, why: str) -> Unreachable:
        return Unreachable(self.address.given, why)

    async def diagnose(self, error: BaseException, server: str | None, first: bool = True) -> TenureError:
        """What a failure means; of the first call after a look at who is there."""
        found = self.of_failure(error, server)
        if not first or not isinstance(error, LinkBroken) or not isinstance(found, Unreachable):
            return found
        if self.tls:
            # A server of TLS 1.3 looks at our certificate when we believe to be through already; what it says then is often
            # lost with the connection.
            may = "not accept the client certificate" if self.access.identity else "want to see a client certificate"
            return self.unreachable(f"it hung up after the TLS handshake; it may {may}")
        stranger = await self._stranger()
        return found if stranger is None else ForeignServer(self.address.given, stranger)

    def of_failure(self, error: BaseException, server: str | None) -> TenureError:
        """What it means. `server` is what the server calls itself."""
        address = self.address.given
        if isinstance(error, TenureError):
            return error
        if not isinstance(error, StatusError):
            return self.unreachable(_reason(error))
        refusal = refusal_in(error.details)
        if refusal is not None:
            return refused(refusal)
        version = server.removeprefix("tenure/") if server is not None and server.startswith("tenure/") else None
        said = error.message or f"status {error.status}"
        if error.status == UNAUTHENTICATED and (
            version is not None or error.message in ("missing credentials", "invalid credentials")
        ):
            return Unauthenticated(address, said)
        if error.status == UNIMPLEMENTED and error.is_grpc:
            if version is None:
                return ForeignServer(address, f"it does not know this call ({said})")
            why = f"it has version {version} and does not know this call, this client has version {VERSION}"
            return ForeignServer(address, why)
        if not error.is_grpc and error.status not in (UNAVAILABLE, UNAUTHENTICATED):
            return ForeignServer(address, f"{_NOT_GRPC} ({said})")
        if error.status in _PASSING:
            return self.unreachable(said)
        return ForeignServer(address, f"it answers with status {error.status}: {said}")

    async def _stranger(self) -> str | None:
        """What the server is, unless it speaks HTTP/2 or says nothing."""
        try:
            heard = await asyncio.wait_for(self._first_words(), _PROBE_PATIENCE)
        except (OSError, asyncio.TimeoutError):
            return None
        return recognise(heard)

    async def _first_words(self) -> bytes:
        reader, writer = await asyncio.open_connection(self.address.host, self.address.port)
        try:
            writer.write(_GREETING)
            return await reader.read(128)
        finally:
            writer.close()


class Line:
    """One connection, and what is said on it with every call."""

    def __init__(self, target: Target, http: Http2, headers: dict[str, str]) -> None:
        self.target = target
        self._http = http
        self._headers = headers
        self._useless = False

    @property
    def over(self) -> bool:
        """It is gone, or is of no use."""
        return self._useless or self._http.over is not None

    async def open(self, name: str) -> Call:
        return await self._http.call(_SERVICE + name, self._headers)

    async def call(self, name: str, request: Message, answer: type[Answer]) -> Answer:
        call: Call | None = None
        try:
            call = await self.open(name)
            await call.send(request.SerializeToString(), end=True)
            message = await call.receive()
            # The answer is followed by the end, which says whether it is one.
            if message is None or await call.receive() is not None:
                raise LinkBroken("its answer is not one of our protocol")
            return answer.FromString(message)
        except LinkFailure as error:
            self.failed(error)
            raise await self.target.diagnose(error, server_of(call)) from error
        finally:
            if call is not None:
                call.forget()

    def failed(self, error: BaseException) -> None:
        # Behind a proxy the connection may have outlived the server that knew this password.
        if not isinstance(error, StatusError) or error.status == UNAUTHENTICATED:
            self._useless = True

    def close(self) -> None:
        self._http.close()

    def abandon(self) -> None:
        self._http.abandon()


def server_of(call: Call | None) -> str | None:
    """What the server calls itself; none if it did not answer."""
    return None if call is None else call.headers.get("server")


def recognise(heard: bytes) -> str | None:
    """Strangers are recognised by their first words."""
    if not heard or heard[3:4] == b"\x04":
        return None
    if heard[:1] in (b"\x15", b"\x16") and heard[1:2] == b"\x03":
        return "it wants TLS; write https://host:port"
    if heard.startswith(b"HTTP/"):
        return _NOT_GRPC
    line = (heard.decode("utf-8", "replace").splitlines() or [""])[0]
    return f"it says `{''.join(character for character in line if character.isprintable())[:40]}`"


def _reason(error: BaseException) -> str:
    if isinstance(error, LinkBroken) and error.__cause__ is not None:
        return _reason(error.__cause__)
    tls = tls_reason(error)
    if tls is not None:
        return tls
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "nothing listens there (connection refused)"
    if isinstance(error, asyncio.TimeoutError | TimeoutError):
        return "it does not answer (timed out)"
    if isinstance(error, socket.gaierror):
        return f"its name is not known ({(error.strerror or str(error)).lower()})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error).lower() or type(error).__name__

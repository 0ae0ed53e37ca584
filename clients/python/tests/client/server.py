"""The real server as a child process, and a door in front of it, so that it can be killed and started again where its clients
look for it. `TENURE_PROGRAM` is the program."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from tenure import Client, Refused, wire

PATIENCE = 60.0
"""Seconds that a slow machine may take for what happens at once."""


class Server:
    """`tenure serve` on ports that the system chooses. One that is durable may be killed and started again."""

    def __init__(self, *options: str, durable: bool = False) -> None:
        self._data = tempfile.TemporaryDirectory()
        self._options = [*options, *([] if durable else ["--durability", "memory"])]
        self.start()
        self.door = Door(self.grpc)

    @property
    def address(self) -> str:
        """That of the door, which stays the same."""
        return self.door.address

    def start(self) -> None:
        program = os.environ["TENURE_PROGRAM"]
        listen = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", self._data.name]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
        self._process = subprocess.Popen(
            [program, "serve", *listen, *self._options], stdout=subprocess.PIPE, text=True, env=environment
        )
        self.grpc = self._told("grpc ")
        self.http = self._told("http ")

    def _told(self, what: str) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(what):
                return line.removeprefix(what).strip()
        raise AssertionError("the server ended before it said where it listens")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def restart(self, *, politely: bool = False) -> None:
        if politely:
            self._process.terminate()
            self._process.wait(PATIENCE)
        self.kill()
        self.start()
        self.door.leads_to(self.grpc)

    def close(self) -> None:
        self.kill()
        self.door.close()
        self._data.cleanup()


class Door:
    """An address that passes on to a server, or to nobody."""

    def __init__(self, server: str) -> None:
        self._server: str | None = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:{}".format(self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def leads_to(self, server: str | None) -> None:
        """Whoever knocks from now on gets to this server; with none, is hung up on."""
        self._server = server

    @property
    def is_open(self) -> bool:
        return self._server is not None

    def cut(self) -> None:
        """Ends all connections there are."""
        sockets, self._open = self._open, []
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self) -> None:
        self.leads_to(None)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = self._server
            if server is None:
                client.close()
                continue
            host, port = server.rsplit(":", 1)
            try:
                inner = socket.create_connection((host, int(port)))
            except OSError:
                client.close()
                continue
            self._open += [client, inner]
            for source, sink in ((client, inner), (inner, client)):
                threading.Thread(target=_pass, args=(source, sink), daemon=True).start()


def _pass(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def until(what: str, condition: Callable[[], object]) -> None:
    """Waits until it is so, and fails if that takes absurdly long."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() < begun + PATIENCE, f"it does not come about that {what}"
        time.sleep(0.01)


def name(what: str) -> str:
    """A pool of this test alone."""
    return f"{what} {uuid.uuid4()}"


def holders(client: Client, pool: str) -> list[str]:
    return [hold.holder for hold in holds(client, pool)]


def holds(client: Client, pool: str) -> list[wire.Hold]:
    try:
        return list(client.api.list_holds(wire.ListHoldsRequest(pool=pool)).holds)
    except Refused as error:
        return _nobody(error)


def waiters(client: Client, pool: str) -> list[str]:
    """Those whose client is there."""
    try:
        queue = client.api.list_queue(wire.ListQueueRequest(pool=pool)).waiters
        return [waiter.holder for waiter in queue if waiter.HasField("position")]
    except Refused as error:
        return _nobody(error)


def _nobody(error: Refused) -> list[Any]:
    """A pool that nobody has asked for does not exist."""
    assert error.code == "unknown_pool", error
    return []


@contextlib.contextmanager
def in_thread(work: Callable[[], object]) -> Iterator[threading.Thread]:
    """Runs it beside the block, and waits for it."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield thread
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it ends"
    if failed:
        raise failed[0]

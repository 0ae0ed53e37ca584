"""The thread of all clients of a process, with an event loop of its own; and what becomes of them when the process forks or
ends."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from ._connection import Connection

_EXIT_PATIENCE = 2.0
"""How long the end of a process is held up to tell servers of it. What they are not told ends by itself."""

Result = TypeVar("Result")

CONNECTIONS: set[Connection] = set()
"""All that are alive."""
_FORKED: weakref.WeakSet[Any] = weakref.WeakSet()
"""Whoever has to begin anew in a process that was forked: clients."""
ABANDONED: list[object] = []
"""What belongs to the parent process. It is kept, because destroying it would do things with the parent's sockets."""

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_callbacks: SimpleQueue[Callable[[], object]] | None = None


def loop() -> asyncio.AbstractEventLoop:
    """The loop, which is started when it is first needed."""
    global _loop
    if _loop is None:
        with _lock:
            if _loop is None:
                started = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(started,), name="tenure", daemon=True).start()
                _loop = started
    return _loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


async def on_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs it on the thread's loop and waits for it on whichever this is."""
    target = loop()
    if asyncio.get_running_loop() is target:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, target))


def call_back(callback: Callable[[], object]) -> None:
    """Calls it on another thread, where it may take its time without holding up a renewal."""
    global _callbacks
    if _callbacks is None:
        with _lock:
            if _callbacks is None:
                queue: SimpleQueue[Callable[[], object]] = SimpleQueue()
                threading.Thread(target=_call, args=(queue,), name="tenure-callbacks", daemon=True).start()
                _callbacks = queue
    _callbacks.put(callback)


def _call(queue: SimpleQueue[Callable[[], object]]) -> None:
    while True:
        callback = queue.get()
        try:
            callback()
        except Exception as error:
            arguments = threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
            threading.excepthook(arguments)


def begins_anew(client: Any) -> None:
    """In a process that was forked, `client._forked()` is called."""
    _FORKED.add(client)


def _in_child() -> None:
    """Neither the thread nor what it did is here; its sockets are, and are the parent's."""
    global _lock, _loop, _callbacks
    for connection in CONNECTIONS:
        connection.abandon()
    ABANDONED.extend([*CONNECTIONS, _loop, _callbacks])
    CONNECTIONS.clear()
    _lock, _loop, _callbacks = threading.Lock(), None, None
    for client in list(_FORKED):
        client._forked()


def _at_exit() -> None:
    """Ends the sessions of clients that nobody has closed, so that nobody waits for what they held."""
    left = list(CONNECTIONS)
    if not left or _loop is None:
        return
    ended = threading.Semaphore(0)
    for connection in left:
        connection.post_close(lambda _: ended.release())
    deadline = time.monotonic() + _EXIT_PATIENCE
    for _ in left:
        if not ended.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)

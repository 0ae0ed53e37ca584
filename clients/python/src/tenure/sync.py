"""The client for code without asyncio: a thin face over `tenure.aio`, whose coroutines it runs on the thread that keeps holds
alive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import _thread, wire
from ._api import Api
from ._options import Access, Asked, HeldPart, HoldLoss, PoolSpec, Request, Resource, asked
from ._time import Seconds, now, seconds
from .aio import AsyncClient, AsyncHold, AsyncLoss, Place
from .errors import LostReason, TenureError

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = ["Client", "Hold", "Holding", "Loss"]

Result = TypeVar("Result")


class Client:
    """A connection to a server, with a session, for any number of threads.

        with Client("127.0.0.1:3144") as client:
            with client.hold("nightly-report", ttl=30) as h:
                write_report(h.token)

    It connects when it is first used, or by `connect`. A connection that breaks is mended by itself: holds and places in
    queues survive it, and a restart of the server, as long as the session's grace and the leases last. Holds are renewed on
    another thread, however busy or blocked this one is.

    In a process that was forked from the one that made it, it begins anew, with a session of its own.
    """

    def __init__(self, address: str, **access: Unpack[Access]) -> None:
        """The address is `host:port`, `host` (port 3144), `http://host:port` or, to speak TLS, `https://host:port`.

        Raises:
            Unusable: That is no address.
        """
        self._client = AsyncClient(address, **access)

    def connect(self) -> Self:
        """Connects and opens the session, if that is not so yet; see `AsyncClient.connect`."""
        _run(self._client.connect())
        return self

    def hold(self, pool: str, **request: Unpack[Request]) -> Holding:
        """Waits in the pool's queue, holds for the length of a `with`, and gives back.

        A pool that nobody declared comes to be: any name is a mutex, with `size` it is a semaphore. With `also` it is a hold
        over several pools, all or nothing.

        Raises:
            WaitTimedOut: There was no room for as long as `wait` says.
            Deadlock: With `holds_on`: the wait could never end.
            HoldLost: At the end of the block: the hold was over before it.
            Refused: The server would not do it, and says why.
        """
        return Holding(self, asked(pool, **request))

    def try_hold(self, pool: str, **request: Unpack[Request]) -> Holding:
        """As `hold`, but without waiting: if there is no room the block is not entered, and `Busy` is raised."""
        request["wait"] = 0.0
        return Holding(self, asked(pool, **request))

    def elect(self, pool: str, **request: Unpack[Request]) -> Holding:
        """Waits to become the leader, and leads for the length of a `with`. `h.token` is the number of the term.

        Leadership lives as long as this client's session: it outlives a lost connection by the session's grace.
        """
        if not {"ttl", "kept", "owner"} & request.keys():
            request["until_session_ends"] = True
        return Holding(self, asked(pool, **request))

    def leader(self, pool: str) -> wire.Hold | None:
        """Who leads now, if anybody: its `holder`, `meta` and `token`."""
        return _run(self._client.leader(pool))

    def acquire(self, pool: str, **request: Unpack[Request]) -> Hold:
        """As `hold`, without a block: call `Hold.release`. A hold that nobody refers to any more is released too."""
        return self._acquire(asked(pool, **request))

    def rate(
        self,
        pool: str,
        *,
        limit: int,
        per: Seconds,
        units: int = 1,
        wait: Seconds | None = None,
        priority: int = 0,
        holder: str = "",
    ) -> Place:
        """Takes a place in a rate window: at most `limit` of them in any time of length `per`. Waits for it; with `wait=0` it
        does not, and raises `Busy`. A place ends by itself, and cannot be given back."""
        return _run(
            self._client.rate(
                pool, limit=limit, per=per, units=units, wait=wait, priority=priority, holder=holder
            )
        )

    def watch(
        self, *, pool: str | None = None, holder: str | None = None, after: int | None = None
    ) -> Generator[wire.Event, None, None]:
        """What happens, as it does; see `AsyncClient.watch`."""
        events = self._client.watch(pool=pool, holder=holder, after=after)
        try:
            while True:
                yield _run(_next(events))
        finally:
            _run(events.aclose())

    def set_pool(self, pool: str, **spec: Unpack[PoolSpec]) -> bool:
        """Declares a pool, or changes it. No hold is dropped: what is too much drains. Says whether it had to be made."""
        return _run(self._client.set_pool(pool, **spec))

    @property
    def api(self) -> Api:
        """Every call of the server with its own messages; see `AsyncClient.api`."""
        return Api(_run, self._client.api)

    @property
    def holder(self) -> str:
        """Who asks, unless a request says otherwise."""
        return self._client.holder

    @property
    def address(self) -> str:
        """Where the server is, as it was given."""
        return self._client.address

    @property
    def trouble(self) -> TenureError | None:
        """Why there is no connection to the server just now, although one is being made; none if there is one."""
        return self._client.trouble

    def close(self) -> None:
        """Ends the session in good order; see `AsyncClient.close`."""
        _run(self._client.close())

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _run(self._client.__aexit__(kind, error, trace))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r}, holder={self.holder!r})"

    def _acquire(self, ask: Asked) -> Hold:
        ask.on_queued, ask.on_lost = _elsewhere(ask.on_queued), _elsewhere(ask.on_lost)
        return Hold(_run(self._client._acquire(ask)))


class Hold:
    """What is held. It is renewed in the background until it is released, or nobody refers to it any more."""

    def __init__(self, hold: AsyncHold) -> None:
        self._hold = hold

    @property
    def pool(self) -> str:
        """The pool it is of; of several, the first that is no rate window."""
        return self._hold.pool

    @property
    def namespace(self) -> str:
        """Whose pool that is."""
        return self._hold.namespace

    @property
    def token(self) -> int:
        """Rises with every grant. What the hold protects should refuse a lower one than the highest it has seen; see
        `tenure.fencing`."""
        return self._hold.token

    @property
    def key(self) -> str:
        """Secret: whoever has it may renew or release the hold."""
        return self._hold.key

    @property
    def units(self) -> int:
        """How many units, or how many resources."""
        return self._hold.units

    @property
    def resources(self) -> list[Resource]:
        """Which, if the pool is one of named resources."""
        return self._hold.resources

    @property
    def resource(self) -> Resource:
        """Which, if it is just one."""
        return self._hold.resource

    @property
    def parts(self) -> dict[str, HeldPart]:
        """What it has of each of its pools, by name, if it was asked for with `also`; else of its one pool."""
        return self._hold.parts

    @property
    def lost(self) -> Loss:
        """Whether the hold is gone, or cannot be known to be there."""
        return Loss(self._hold.lost)

    @property
    def certain_for(self) -> float | None:
        """How many seconds the hold is certainly ours for if nothing is heard of the server, counted from before it was asked;
        none if it does not end by time."""
        return self._hold.certain_for

    def check(self) -> None:
        """Raises `HoldLost` if the hold is lost. Looks at the clock: also if this process was paused and nothing else in it
        has noticed yet."""
        self._hold.check()

    def on_lost(self, callback: Callable[[HoldLoss], object]) -> None:
        """Calls it when the hold is lost, at once if it is: on a thread of its own. Not when it is released or kept."""
        self._hold._on_lost(lambda loss: _thread.call_back(lambda: callback(loss)))

    def release(self) -> None:
        """Ends the hold, and waits until the server has confirmed it; see `AsyncHold.release`."""
        _run(self._hold.release())

    def keep(self) -> str:
        """Gives up looking after the hold and not the hold; see `AsyncHold.keep`."""
        return self._hold.keep()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _run(self._hold._exit(error))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(pool={self.pool!r}, token={self.token})"


class Holding:
    """The `with` of `hold`, `try_hold` and `elect`. For one use."""

    def __init__(self, client: Client, ask: Asked) -> None:
        self._client = client
        self._ask: Asked | None = ask
        self._hold: Hold | None = None

    def __enter__(self) -> Hold:
        ask, self._ask = self._ask, None
        if ask is None:
            raise RuntimeError("this was used before; call `hold` again")
        self._hold = self._client._acquire(ask)
        return self._hold

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._hold is not None, "it was entered"
        self._hold.__exit__(kind, error, trace)


class Loss:
    """Whether a hold is lost, as an event."""

    def __init__(self, loss: AsyncLoss) -> None:
        self._loss = loss

    def is_set(self) -> bool:
        """Looks at the clock: true even if this process was paused and nothing else in it has noticed yet."""
        return self._loss.is_set()

    __bool__ = is_set

    @property
    def reason(self) -> LostReason | None:
        """How it was lost; none if it was not. `LET_GO` once it is released."""
        return self._loss.reason

    @property
    def note(self) -> str:
        """What the operator said who ended it."""
        return self._loss.note

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Waits until it is lost, or released, or the time is up; says whether it is."""
        told = threading.Event()
        end = None if timeout is None else now() + seconds(timeout)
        self._loss._standing.listen(told.set)
        try:
            # In pieces, so that a signal is heard everywhere.
            while not self.is_set() and (end is None or now() < end):
                told.wait(1.0 if end is None else min(1.0, max(0.0, end - now())))
        finally:
            self._loss._standing.listen_no_more(told.set)
        return self.is_set()


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs it on the thread that keeps holds alive, and waits for it."""
    loop = _thread.loop()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        work.close()
        raise RuntimeError("this would block the event loop it is called from; use AsyncClient there")
    running = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return running.result()
    except BaseException:
        # By a signal, while it goes on. What it brings all the same is thrown away, and a hold thereby released.
        running.cancel()
        raise


async def _next(events: AsyncGenerator[wire.Event, None]) -> wire.Event:
    return await events.__anext__()


def _elsewhere(callback: Callable[[Any], object] | None) -> Callable[[Any], object] | None:
    """The callback, called on a thread where it may take its time."""
    if callback is None:
        return None
    tell = callback
    return lambda what: _thread.call_back(lambda: tell(what))

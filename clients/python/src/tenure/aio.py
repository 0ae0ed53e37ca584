"""The client for asyncio. It can be used from any event loop, also from several: what keeps holds alive runs on a thread of
its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _access, _thread, _time, wire
from ._address import Address
from ._api import AsyncApi
from ._calls import Calls
from ._connection import Connection
from ._link import Target
from ._options import Access, Asked, HeldPart, HoldLoss, PoolSpec, Request, Resource, asked, default_holder, pool_spec
from ._requests import Ask
from ._session import Identity
from ._standing import Granted, Standing
from ._time import Seconds, seconds
from .errors import ClosedError, HoldLost, LostReason, Refused, TenureError, Unreachable

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = ["AsyncClient", "AsyncHold", "AsyncHolding", "AsyncLoss", "Place"]


class AsyncClient:
    """A connection to a server, with a session, for any number of tasks, loops and threads.

        async with AsyncClient("127.0.0.1:3144") as client:
            async with client.hold("nightly-report", ttl=30) as h:
                await write_report(h.token)

    It connects when it is first used, or by `connect`. A connection that breaks is mended by itself: holds and places in
    queues survive it, and a restart of the server, as long as the session's grace and the leases last.

    In a process that was forked from the one that made it, it begins anew, with a session of its own.
    """

    def __init__(self, address: str, **access: Unpack[Access]) -> None:
        """The address is `host:port`, `host` (port 3144), `http://host:port` or, to speak TLS, `https://host:port`.

        Raises:
            Unusable: That is no address.
        """
        self._target, self._identity = _prepare(address, **access)
        self._holder = access.get("holder")
        self._calls = Calls(self._target)
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        """On the thread's loop."""
        self._closed = False
        _thread.begins_anew(self)

    async def connect(self) -> Self:
        """Connects and opens the session, if that is not so yet.

        Raises:
            Unreachable: Nobody listens there, or does not answer within `connect_timeout`.
            ForeignServer: Somebody else does, or a server of another version.
            Unauthenticated: The server wants a password, or another one.
            Unusable: The password or the certificates cannot be used.
        """
        await self._connected()
        return self

    def hold(self, pool: str, *, interrupt: bool = False, **request: Unpack[Request]) -> AsyncHolding:
        """Waits in the pool's queue, holds for the length of an `async with`, and gives back.

        A pool that nobody declared comes to be: any name is a mutex, with `size` it is a semaphore. With `also` it is a hold
        over several pools, all or nothing. A task that is cancelled while it waits leaves the queue.

        With `interrupt` the task of the block is cancelled when the hold is lost, and the block ends with `HoldLost`.

        Raises:
            WaitTimedOut: There was no room for as long as `wait` says.
            Deadlock: With `holds_on`: the wait could never end.
            HoldLost: At the end of the block: the hold was over before it.
            Refused: The server would not do it, and says why.
        """
        return AsyncHolding(self, asked(pool, **request), interrupt)

    def try_hold(self, pool: str, *, interrupt: bool = False, **request: Unpack[Request]) -> AsyncHolding:
        """As `hold`, but without waiting: if there is no room the block is not entered, and `Busy` is raised."""
        request["wait"] = 0.0
        return AsyncHolding(self, asked(pool, **request), interrupt)

    def elect(self, pool: str, *, interrupt: bool = False, **request: Unpack[Request]) -> AsyncHolding:
        """Waits to become the leader, and leads for the length of an `async with`. `h.token` is the number of the term.

        Leadership lives as long as this client's session: it outlives a lost connection by the session's grace.
        """
        if not {"ttl", "kept", "owner"} & request.keys():
            request["until_session_ends"] = True
        return AsyncHolding(self, asked(pool, **request), interrupt)

    async def leader(self, pool: str) -> wire.Hold | None:
        """Who leads now, if anybody: its `holder`, `meta` and `token`."""
        try:
            holds = (await self.api.list_holds(wire.ListHoldsRequest(pool=pool, limit=1))).holds
        except Refused as error:
            if error.code == "unknown_pool":
                return None
            raise
        return holds[0] if holds else None

    async def acquire(self, pool: str, **request: Unpack[Request]) -> AsyncHold:
        """As `hold`, without a block: call `AsyncHold.release`. A hold that nobody refers to any more is released too."""
        return await self._acquire(asked(pool, **request))

    async def rate(
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
        ask = asked(pool, size=limit, window=per, units=units, wait=wait, priority=priority, holder=holder)
        hold = await self._acquire(ask)
        return hold._place()

    async def watch(
        self, *, pool: str | None = None, holder: str | None = None, after: int | None = None
    ) -> AsyncGenerator[wire.Event, None]:
        """What happens, as it does, to one pool or holder or in the whole namespace; with `after`, everything after the event
        of that number. Goes on by itself after a lost connection, without a gap.

        Raises:
            Refused: `events_gone`, if those events are no longer kept.
        """
        request = wire.WatchRequest(namespace=self._identity.namespace, pool=pool, holder=holder, after=after)
        failures = 0
        while not self._closed:
            watched = self._calls.watch(request)
            try:
                while True:
                    heard = await _thread.on_loop(_next(watched))
                    if heard is None:
                        break
                    failures, request.after = 0, heard.seq
                    if heard.HasField("event"):
                        yield heard.event
            except TenureError as error:
                if self._closed:
                    raise ClosedError from error
                if not isinstance(error, Unreachable):
                    raise
            finally:
                await _thread.on_loop(_close(watched))
            failures += 1
            await asyncio.sleep(_time.pause(failures, 0.05, 2.0))
        raise ClosedError

    async def set_pool(self, pool: str, **spec: Unpack[PoolSpec]) -> bool:
        """Declares a pool, or changes it. No hold is dropped: what is too much drains. Says whether it had to be made."""
        return (await self.api.set_pool(wire.SetPoolRequest(pool=pool, spec=pool_spec(**spec)))).created

    @property
    def api(self) -> AsyncApi:
        """Every call of the server with its own messages, over a connection of its own and without a session, which a client
        that only looks and changes never opens. They are not tried again: an error says whether what was asked may have
        happened."""
        return AsyncApi(self._call, self._identity.namespace)

    @property
    def holder(self) -> str:
        """Who asks, unless a request says otherwise."""
        return self._identity.holder

    @property
    def address(self) -> str:
        """Where the server is, as it was given."""
        return self._target.address.given

    @property
    def trouble(self) -> TenureError | None:
        """Why there is no connection to the server just now, although one is being made; none if there is one."""
        return None if self._connection is None else self._connection.trouble

    async def close(self) -> None:
        """Ends the session in good order: waits end with `ClosedError`, what is held is released and lost as
        `LostReason.CLOSED`. Places in rate windows go on until they end by themselves.

        Raises:
            Unreachable: The server could not be told; what was held ends with its lease or the session's grace.
        """
        self._closed = True
        await _thread.on_loop(self._calls.close())
        connection = self._connection
        if connection is None:
            return
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        connection.post_close(lambda error: connection.tell(loop, _settle, ended, error))
        await ended

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except TenureError:
            if error is None:
                raise

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None and not self._closed:
            connection.post_close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r}, holder={self.holder!r})"

    def _forked(self) -> None:
        self._calls.abandon()
        _thread.ABANDONED.append(self._calls)
        self._calls = Calls(self._target)
        self._connection = self._connecting = None
        if self._holder is None:
            self._identity.holder = default_holder()

    async def _connected(self) -> Connection:
        if self._closed:
            raise ClosedError
        connection = self._connection
        if connection is not None and not connection.session.is_over:
            return connection
        return await _thread.on_loop(self._connect())

    async def _connect(self) -> Connection:
        """On the thread's loop: one attempt for all who wait for it."""
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.ensure_future(self._connect_once())
        try:
            return await asyncio.shield(self._connecting)
        finally:
            if self._connecting is not None and self._connecting.done():
                self._connecting = None

    async def _connect_once(self) -> Connection:
        if self._connection is not None and not self._connection.session.is_over:
            return self._connection
        connection = Connection(asyncio.get_running_loop(), self._target, replace(self._identity))
        _thread.CONNECTIONS.add(connection)
        await connection.connect()
        self._connection = connection
        return connection

    async def _acquire(self, ask: Asked) -> AsyncHold:
        connection = await self._connected()
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[Granted] = loop.create_future()
        queued = None
        if ask.on_queued is not None:
            tell_queued = ask.on_queued

            def queued(position: int) -> None:
                connection.tell(loop, _call, tell_queued, position)

        request = Ask(ask.request, lambda answer: connection.tell(loop, _settle, granted, answer), queued)
        if ask.wait:
            request.end = _time.now() + ask.wait
        connection.post_ask(request)
        try:
            hold = AsyncHold(self, connection, await granted)
        except asyncio.CancelledError:
            connection.post_forget(request)
            raise
        if ask.on_lost is not None:
            hold.on_lost(ask.on_lost)
        return hold

    async def _call(self, name: str, request: Any, answer: Any) -> Any:
        if self._closed:
            raise ClosedError
        return await _thread.on_loop(self._calls.call(name, request, answer))


class AsyncHold:
    """What is held. It is renewed in the background until it is released, or nobody refers to it any more."""

    def __init__(self, client: AsyncClient, connection: Connection, granted: Granted) -> None:
        # The client is kept alive by what it holds.
        self._client = client
        self._connection = connection
        self._granted = granted
        self._grant = granted.grant

    @property
    def pool(self) -> str:
        """The pool it is of; of several, the first that is no rate window."""
        return self._grant.pool

    @property
    def namespace(self) -> str:
        """Whose pool that is."""
        return self._grant.namespace

    @property
    def token(self) -> int:
        """Rises with every grant. What the hold protects should refuse a lower one than the highest it has seen; see
        `tenure.fencing`."""
        return self._grant.token

    @property
    def key(self) -> str:
        """Secret: whoever has it may renew or release the hold."""
        return self._grant.key

    @property
    def units(self) -> int:
        """How many units, or how many resources."""
        return self._grant.units

    @property
    def resources(self) -> list[Resource]:
        """Which, if the pool is one of named resources."""
        return [Resource.of(resource) for resource in self._grant.resources]

    @property
    def resource(self) -> Resource:
        """Which, if it is just one."""
        return HeldPart.of(self._grant).resource

    @property
    def parts(self) -> dict[str, HeldPart]:
        """What it has of each of its pools, by name, if it was asked for with `also`; else of its one pool."""
        parts = [HeldPart.of(self._grant), *(HeldPart.of(part) for part in self._grant.also)]
        return {part.pool: part for part in parts}

    @property
    def lost(self) -> AsyncLoss:
        """Whether the hold is gone, or cannot be known to be there."""
        return AsyncLoss(self._connection, self._granted.standing)

    @property
    def certain_for(self) -> float | None:
        """How many seconds the hold is certainly ours for if nothing is heard of the server, counted from before it was asked;
        none if it does not end by time."""
        until = self._granted.standing.until
        return None if until is None else max(0.0, until - _time.now())

    def check(self) -> None:
        """Raises `HoldLost` if the hold is lost. Looks at the clock: also if this process was paused and nothing else in it
        has noticed yet."""
        reason = self.lost.reason
        if reason is not None:
            raise HoldLost(self.pool, reason, self._granted.standing.note)

    def on_lost(self, callback: Callable[[HoldLoss], object]) -> None:
        """Calls it when the hold is lost, at once if it is: on the loop from which this is called. Not when it is released or
        kept."""
        loop = asyncio.get_running_loop()
        self._on_lost(lambda loss: loop.call_soon_threadsafe(callback, loss))

    def _on_lost(self, tell: Callable[[HoldLoss], object]) -> None:
        standing, pool, token = self._granted.standing, self.pool, self.token

        def listener() -> None:
            if standing.reason is not None and standing.reason is not LostReason.LET_GO:
                try:
                    tell(HoldLoss(pool, token, standing.reason, standing.note))
                except RuntimeError:
                    # That loop was closed.
                    pass

        standing.listen(listener)

    async def release(self) -> None:
        """Ends the hold, and waits until the server has confirmed it. A place in a rate window cannot be given back, and is
        left to end by itself.

        Raises:
            HoldLost: It was over already.
            Unreachable: The server does not answer. It is told as soon as it does.
        """
        if self._connection.forked or self._granted.done:
            return
        self._granted.done = True
        lost = self._granted.standing.lost()
        note = self._granted.standing.note
        loop = asyncio.get_running_loop()
        released = loop.create_future()
        connection = self._connection
        connection.post_release(self._granted.id, lambda error: connection.tell(loop, _settle, released, error))
        try:
            await released
        except HoldLost:
            raise
        except Refused as error:
            if error.code == "not_held":
                raise HoldLost(self.pool, lost or LostReason.RELEASED, note) from error
            raise

    def keep(self) -> str:
        """Gives up looking after the hold and not the hold, which goes on as long as its lifetime says: a lease is no longer
        renewed. Gives the key: whoever has it may renew or release it."""
        if not self._connection.forked and not self._granted.done:
            self._granted.done = True
            self._connection.post_keep(self._granted.id)
        return self.key

    def _place(self) -> Place:
        certain_for = self.certain_for or 0.0
        self.keep()
        return Place(self.pool, self.token, self.units, certain_for)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit(error)

    async def _exit(self, error: BaseException | None) -> None:
        try:
            await self.release()
        except Unreachable:
            # The hold was good until now. The server is told as soon as it can be reached, or the lease ends it.
            pass
        except TenureError:
            if error is None:
                raise

    def __repr__(self) -> str:
        return f"{type(self).__name__}(pool={self.pool!r}, token={self.token})"


class AsyncHolding:
    """The `async with` of `hold`, `try_hold` and `elect`. For one use."""

    def __init__(self, client: AsyncClient, ask: Asked, interrupt: bool) -> None:
        self._client = client
        self._ask: Asked | None = ask
        self._hold: AsyncHold | None = None
        self._interrupt = interrupt
        self._task: asyncio.Task[Any] | None = None
        self._interrupted = False

    async def __aenter__(self) -> AsyncHold:
        ask, self._ask = self._ask, None
        if ask is None:
            raise RuntimeError("this was used before; call `hold` again")
        self._hold = await self._client._acquire(ask)
        if self._interrupt:
            self._task = asyncio.current_task()
            self._hold.on_lost(self._on_lost)
        return self._hold

    def _on_lost(self, _: HoldLoss) -> None:
        if self._task is not None:
            self._interrupted = True
            self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        hold, task, self._task = self._hold, self._task, None
        assert hold is not None, "it was entered"
        reason, note = hold._granted.standing.reason, hold._granted.standing.note
        others = 0
        if self._interrupted and task is not None and sys.version_info >= (3, 11):
            others = task.uncancel()
        await hold._exit(error)
        if self._interrupted and isinstance(error, asyncio.CancelledError) and others == 0:
            raise HoldLost(hold.pool, reason or LostReason.UNREACHABLE, note) from error


class AsyncLoss:
    """Whether a hold is lost, as an event."""

    def __init__(self, connection: Connection, standing: Standing) -> None:
        self._connection = connection
        self._standing = standing

    def is_set(self) -> bool:
        """Looks at the clock: true even if this process was paused and nothing else in it has noticed yet."""
        return self.reason is not None

    __bool__ = is_set

    @property
    def reason(self) -> LostReason | None:
        """How it was lost; none if it was not. `LET_GO` once it is released."""
        return LostReason.FORKED if self._connection.forked else self._standing.lost()

    @property
    def note(self) -> str:
        """What the operator said who ended it."""
        return self._standing.note

    async def wait(self) -> LostReason:
        """Waits until it is lost, or released."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[None] = loop.create_future()

        def listener() -> None:
            try:
                loop.call_soon_threadsafe(_settle, told, None)
            except RuntimeError:
                # That loop was closed.
                pass

        if not self._connection.forked:
            self._standing.listen(listener)
            try:
                await told
            finally:
                self._standing.listen_no_more(listener)
        return self.reason or LostReason.OTHER


class Place:
    """A place in a rate window, until it ends by itself."""

    def __init__(self, pool: str, token: int, units: int, certain_for: float) -> None:
        self.pool = pool
        self.token = token
        self.units = units
        self.certain_for = certain_for
        """For how many seconds the place was certainly taken when it was granted."""

    def __repr__(self) -> str:
        return f"Place(pool={self.pool!r}, token={self.token}, units={self.units})"


def _prepare(
    address: str,
    *,
    holder: str | None = None,
    meta: Any = None,
    namespace: str = "",
    session_grace: Seconds = 30.0,
    connect_timeout: Seconds = 5.0,
    password: str | None = None,
    password_file: Any = None,
    tls_ca: Any = None,
    tls_ca_file: Any = None,
    tls_identity: Any = None,
    tls_identity_files: Any = None,
) -> tuple[Target, Identity]:
    access = _access.Access.of(password, password_file, tls_ca, tls_ca_file, tls_identity, tls_identity_files)
    timeout = seconds(connect_timeout)
    identity = Identity(
        address=address,
        holder=default_holder() if holder is None else holder,
        meta=dict(meta or {}),
        namespace=namespace,
        grace=seconds(session_grace),
        connect_timeout=timeout,
    )
    return Target(Address.parse(address), access, timeout), identity


def _settle(future: asyncio.Future[Any], outcome: Any) -> None:
    # Whoever waited may have gone. A grant is released when it is thrown away.
    if future.done():
        return
    if isinstance(outcome, TenureError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _call(callback: Callable[[int], object], position: int) -> None:
    callback(position)


async def _next(watched: AsyncGenerator[wire.Watched, None]) -> wire.Watched | None:
    async for heard in watched:
        return heard
    return None


async def _close(watched: AsyncGenerator[wire.Watched, None]) -> None:
    await watched.aclose()

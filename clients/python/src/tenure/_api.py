"""Every call of the server with its own messages: for operators, and for what the client has no words of its own for.

A request that names no namespace means the client's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from . import wire

__all__ = ["Api", "AsyncApi"]

Answer = TypeVar("Answer")


class AsyncApi:
    """The calls of `AsyncClient.api`."""

    def __init__(self, call: Callable[[str, Any, Any], Awaitable[Any]], namespace: str) -> None:
        self._call = call
        self._namespace = namespace

    async def _ask(self, name: str, request: Any, answer: type[Answer]) -> Answer:
        if self._namespace and not request.namespace:
            named = type(request)()
            named.CopyFrom(request)
            named.namespace = self._namespace
            request = named
        answered: Answer = await self._call(name, request, answer)
        return answered

    async def acquire(self, request: wire.AcquireRequest) -> wire.Grant:
        """Asks for a hold outside the session, and waits for it inside the call. Nobody renews it, and `holder` must be said."""
        return await self._ask("Acquire", request, wire.Grant)

    async def renew(self, request: wire.RenewRequest) -> wire.Renewed:
        """Prolongs what ends by time; needs the key."""
        return await self._ask("Renew", request, wire.Renewed)

    async def release(self, request: wire.ReleaseRequest) -> wire.Released:
        """Ends a hold; needs the key."""
        return await self._ask("Release", request, wire.Released)

    async def withdraw(self, request: wire.WithdrawRequest) -> wire.Withdrawn:
        """Ends a request at whatever stage it is, by its request id."""
        return await self._ask("Withdraw", request, wire.Withdrawn)

    async def list_holds(self, request: wire.ListHoldsRequest) -> wire.ListHoldsResponse:
        """Who holds what, oldest first."""
        return await self._ask("ListHolds", request, wire.ListHoldsResponse)

    async def force_release(self, request: wire.ForceReleaseRequest) -> wire.Released:
        """Ends a hold as an operator, if that holder still has it with that token."""
        return await self._ask("ForceRelease", request, wire.Released)

    async def owner_gone(self, request: wire.OwnerGoneRequest) -> wire.OwnerGoneResponse:
        """Ends the holds that are bound to an outside owner."""
        return await self._ask("OwnerGone", request, wire.OwnerGoneResponse)

    async def open_session(self, request: wire.OpenSessionRequest) -> wire.SessionOpened:
        """Opens a session that lives by keep-alives. The client's own needs none."""
        return await self._ask("OpenSession", request, wire.SessionOpened)

    async def keep_alive(self, request: wire.KeepAliveRequest) -> wire.SessionOpened:
        """Moves the end of a session to its grace from now."""
        return await self._ask("KeepAlive", request, wire.SessionOpened)

    async def end_session(self, request: wire.EndSessionRequest) -> wire.SessionEnded:
        """Ends a session with its waits and holds."""
        return await self._ask("EndSession", request, wire.SessionEnded)

    async def list_sessions(self, request: wire.ListSessionsRequest) -> wire.ListSessionsResponse:
        """Sessions, oldest first."""
        return await self._ask("ListSessions", request, wire.ListSessionsResponse)

    async def set_pool(self, request: wire.SetPoolRequest) -> wire.SetPoolResponse:
        """Declares or changes a pool."""
        return await self._ask("SetPool", request, wire.SetPoolResponse)

    async def set_condition(self, request: wire.SetConditionRequest) -> wire.SetConditionResponse:
        """Drains, quarantines or returns a pool, or one of its resources."""
        return await self._ask("SetCondition", request, wire.SetConditionResponse)

    async def remove_pool(self, request: wire.RemovePoolRequest) -> wire.RemovePoolResponse:
        """Takes a pool away, as soon as its holds have ended."""
        return await self._ask("RemovePool", request, wire.RemovePoolResponse)

    async def list_pools(self, request: wire.ListPoolsRequest) -> wire.ListPoolsResponse:
        """Pools by name."""
        return await self._ask("ListPools", request, wire.ListPoolsResponse)

    async def get_pool(self, request: wire.GetPoolRequest) -> wire.PoolDetail:
        """How a pool stands, its `spec` (can be changed and set again), its resources."""
        return await self._ask("GetPool", request, wire.PoolDetail)

    async def list_queue(self, request: wire.ListQueueRequest) -> wire.ListQueueResponse:
        """Who waits for a pool, the next to be served first."""
        return await self._ask("ListQueue", request, wire.ListQueueResponse)

    async def history(self, request: wire.HistoryRequest) -> wire.HistoryResponse:
        """What happened."""
        return await self._ask("History", request, wire.HistoryResponse)

    async def steal(self, request: wire.StealRequest) -> wire.Grant:
        """Gives a hold to somebody else, if that holder still has it with that token."""
        return await self._ask("Steal", request, wire.Grant)

    async def move_waiter(self, request: wire.MoveWaiterRequest) -> wire.MoveWaiterResponse:
        """Puts a waiter in front of another, or of all."""
        return await self._ask("MoveWaiter", request, wire.MoveWaiterResponse)

    async def reserve(self, request: wire.ReserveRequest) -> wire.ReserveResponse:
        """Keeps a resource for a holder to come."""
        return await self._ask("Reserve", request, wire.ReserveResponse)

    async def unreserve(self, request: wire.UnreserveRequest) -> wire.UnreserveResponse:
        """Keeps a resource for nobody any more."""
        return await self._ask("Unreserve", request, wire.UnreserveResponse)

    async def explain(self, request: wire.ExplainRequest) -> wire.ExplainResponse:
        """Why those in a queue wait, and what would let them in, in plain sentences."""
        return await self._ask("Explain", request, wire.ExplainResponse)

    async def list_waits(self, request: wire.ListWaitsRequest) -> wire.ListWaitsResponse:
        """Who waits for what, over all pools."""
        return await self._ask("ListWaits", request, wire.ListWaitsResponse)

    async def search(self, request: wire.SearchRequest) -> wire.SearchResponse:
        """What has a text in its name, labels or metadata."""
        return await self._ask("Search", request, wire.SearchResponse)


class Api:
    """The calls of `Client.api`."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], api: AsyncApi) -> None:
        self._run = run
        self._api = api

    def _wait(self, answer: Coroutine[Any, Any, Answer]) -> Answer:
        answered: Answer = self._run(answer)
        return answered

    def acquire(self, request: wire.AcquireRequest) -> wire.Grant:
        """Asks for a hold outside the session, and waits for it inside the call. Nobody renews it, and `holder` must be said."""
        return self._wait(self._api.acquire(request))

    def renew(self, request: wire.RenewRequest) -> wire.Renewed:
        """Prolongs what ends by time; needs the key."""
        return self._wait(self._api.renew(request))

    def release(self, request: wire.ReleaseRequest) -> wire.Released:
        """Ends a hold; needs the key."""
        return self._wait(self._api.release(request))

    def withdraw(self, request: wire.WithdrawRequest) -> wire.Withdrawn:
        """Ends a request at whatever stage it is, by its request id."""
        return self._wait(self._api.withdraw(request))

    def list_holds(self, request: wire.ListHoldsRequest) -> wire.ListHoldsResponse:
        """Who holds what, oldest first."""
        return self._wait(self._api.list_holds(request))

    def force_release(self, request: wire.ForceReleaseRequest) -> wire.Released:
        """Ends a hold as an operator, if that holder still has it with that token."""
        return self._wait(self._api.force_release(request))

    def owner_gone(self, request: wire.OwnerGoneRequest) -> wire.OwnerGoneResponse:
        """Ends the holds that are bound to an outside owner."""
        return self._wait(self._api.owner_gone(request))

    def open_session(self, request: wire.OpenSessionRequest) -> wire.SessionOpened:
        """Opens a session that lives by keep-alives. The client's own needs none."""
        return self._wait(self._api.open_session(request))

    def keep_alive(self, request: wire.KeepAliveRequest) -> wire.SessionOpened:
        """Moves the end of a session to its grace from now."""
        return self._wait(self._api.keep_alive(request))

    def end_session(self, request: wire.EndSessionRequest) -> wire.SessionEnded:
        """Ends a session with its waits and holds."""
        return self._wait(self._api.end_session(request))

    def list_sessions(self, request: wire.ListSessionsRequest) -> wire.ListSessionsResponse:
        """Sessions, oldest first."""
        return self._wait(self._api.list_sessions(request))

    def set_pool(self, request: wire.SetPoolRequest) -> wire.SetPoolResponse:
        """Declares or changes a pool."""
        return self._wait(self._api.set_pool(request))

    def set_condition(self, request: wire.SetConditionRequest) -> wire.SetConditionResponse:
        """Drains, quarantines or returns a pool, or one of its resources."""
        return self._wait(self._api.set_condition(request))

    def remove_pool(self, request: wire.RemovePoolRequest) -> wire.RemovePoolResponse:
        """Takes a pool away, as soon as its holds have ended."""
        return self._wait(self._api.remove_pool(request))

    def list_pools(self, request: wire.ListPoolsRequest) -> wire.ListPoolsResponse:
        """Pools by name."""
        return self._wait(self._api.list_pools(request))

    def get_pool(self, request: wire.GetPoolRequest) -> wire.PoolDetail:
        """How a pool stands, its `spec` (can be changed and set again), its resources."""
        return self._wait(self._api.get_pool(request))

    def list_queue(self, request: wire.ListQueueRequest) -> wire.ListQueueResponse:
        """Who waits for a pool, the next to be served first."""
        return self._wait(self._api.list_queue(request))

    def history(self, request: wire.HistoryRequest) -> wire.HistoryResponse:
        """What happened."""
        return self._wait(self._api.history(request))

    def steal(self, request: wire.StealRequest) -> wire.Grant:
        """Gives a hold to somebody else, if that holder still has it with that token."""
        return self._wait(self._api.steal(request))

    def move_waiter(self, request: wire.MoveWaiterRequest) -> wire.MoveWaiterResponse:
        """Puts a waiter in front of another, or of all."""
        return self._wait(self._api.move_waiter(request))

    def reserve(self, request: wire.ReserveRequest) -> wire.ReserveResponse:
        """Keeps a resource for a holder to come."""
        return self._wait(self._api.reserve(request))

    def unreserve(self, request: wire.UnreserveRequest) -> wire.UnreserveResponse:
        """Keeps a resource for nobody any more."""
        return self._wait(self._api.unreserve(request))

    def explain(self, request: wire.ExplainRequest) -> wire.ExplainResponse:
        """Why those in a queue wait, and what would let them in, in plain sentences."""
        return self._wait(self._api.explain(request))

    def list_waits(self, request: wire.ListWaitsRequest) -> wire.ListWaitsResponse:
        """Who waits for what, over all pools."""
        return self._wait(self._api.list_waits(request))

    def search(self, request: wire.SearchRequest) -> wire.SearchResponse:
        """What has a text in its name, labels or metadata."""
        return self._wait(self._api.search(request))

"""Holds for Temporal workflows.

    from tenure.temporal import hold

    async with hold("gpu-pool", select="mem >= 80", max_wait=timedelta(minutes=10)) as h:
        await workflow.execute_activity(train, args=[h.resource.name, h.token], ...)

Everything here is to be called from workflow code. It talks to the server through the activities that
`tenure serve --temporal` offers, keeps no state outside the workflow, and is safe in the workflow sandbox. A hold ends
with its block, and at the latest when the workflow has closed, however it closed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal

from temporalio import exceptions, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception
from temporalio.workflow import ActivityCancellationType

__all__ = [
    "Busy",
    "DetachedHold",
    "Hold",
    "HoldLost",
    "Holding",
    "Refused",
    "Resource",
    "WaitTimedOut",
    "hold",
    "reattach",
    "try_hold",
]

TASK_QUEUE = "tenure"
"""Where a server offers its activities, unless it was told otherwise."""

_HEARTBEAT_TIMEOUT = timedelta(seconds=10)
"""After this long without a sign of the server the request is made again, and finds its place or its hold."""

_ANSWER_TIMEOUT = timedelta(seconds=10)
"""For what the server answers at once."""

_WAIT_LIMIT = timedelta(days=366)
"""One attempt waits so long at most; the next goes on where it was. The server's own limit of a wait."""

_WAIT_MARGIN = timedelta(seconds=5)
"""The server ends a wait and says who was in the way. Temporal ends it, so much later, only if the server cannot."""

_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=5), maximum_attempts=0
)
"""A server that is away comes back. What it refuses it refuses for good, and says so in its answer."""


def hold(
    pool: str,
    *,
    select: str | None = None,
    units: int | None = None,
    all: bool = False,
    size: int | None = None,
    max_wait: timedelta | None = None,
    ttl: timedelta | None = None,
    lifetime: Literal["bound", "leased", "window", "kept"] | None = None,
    priority: int | None = None,
    holder: str | None = None,
    meta: Mapping[str, str] | None = None,
    namespace: str | None = None,
    task_queue: str = TASK_QUEUE,
) -> Holding:
    """Waits in the pool's queue, holds for the length of an `async with`, and gives back.

    If the workflow is cancelled while it waits, it leaves the queue; while it holds, it gives back. Then the
    cancellation goes on.

    Args:
        pool: The pool's name. An unknown one becomes a pool of `size` units.
        select: Which resources, by their labels: `gpu && mem >= 80 && !old`.
        units: How many units or resources; 1 if left out.
        all: Everything there is: the writer of a read-write lock.
        size: The size the pool must have; an unknown pool is made with it.
        max_wait: How long to wait at most; for ever if left out. Then `WaitTimedOut` is raised.
        ttl: Makes the hold a lease of this length, renewed every third of it while the block runs; each renewal
            adds some eleven events to the workflow's history. Without it the hold is bound to the workflow.
        lifetime: What ends the hold besides its release, if it is not to be bound to the workflow, nor a lease.
        priority: Higher first, from -1000 to 1000.
        holder: Who holds, as others see it; the workflow's id if left out.
        meta: More about the holder.
        namespace: The server's namespace, which has nothing to do with that of Temporal.
        task_queue: Where the server offers its activities.

    Raises:
        WaitTimedOut: It was not granted within `max_wait`.
        Refused: The server would not do it, and says why.
    """
    body = _request(pool, select, units, all, size, ttl, lifetime, priority, holder, meta, namespace)
    if max_wait is None:
        return Holding(_Ask("tenure.acquire", body, task_queue, _WAIT_LIMIT, None))
    # Also if there is no time left to wait: then it is granted at once or not at all.
    body["wait_ms"] = max(1, _milliseconds(max_wait))
    limit = max(max_wait, timedelta()) + _WAIT_MARGIN
    return Holding(_Ask("tenure.acquire", body, task_queue, limit, limit))


def try_hold(
    pool: str,
    *,
    select: str | None = None,
    units: int | None = None,
    all: bool = False,
    size: int | None = None,
    ttl: timedelta | None = None,
    lifetime: Literal["bound", "leased", "window", "kept"] | None = None,
    priority: int | None = None,
    holder: str | None = None,
    meta: Mapping[str, str] | None = None,
    namespace: str | None = None,
    task_queue: str = TASK_QUEUE,
) -> Holding:
    """As `hold`, but does not wait in the queue: without room the block is not entered, and `Busy` is raised.

    A server that is away is waited for.
    """
    body = _request(pool, select, units, all, size, ttl, lifetime, priority, holder, meta, namespace)
    return Holding(_Ask("tenure.try_acquire", body, task_queue, _ANSWER_TIMEOUT, None))


def reattach(detached: DetachedHold | Mapping[str, Any]) -> Holding:
    """Goes on with what an earlier run of this workflow has detached, for the length of an `async with`."""
    return Holding(detached if isinstance(detached, DetachedHold) else DetachedHold.from_json(detached))


@dataclass(frozen=True)
class Resource:
    """A named thing in a pool."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DetachedHold:
    """A hold on its way to the next run of its workflow: an argument like any other, for `continue_as_new`.

    Whoever has the key can end the hold, so it should not be shown around.
    """

    pool: str
    token: int
    key: str
    namespace: str = "default"
    units: int = 1
    resources: list[Resource] = field(default_factory=list)
    lifetime: str = "bound"
    ttl_ms: int | None = None
    task_queue: str = TASK_QUEUE

    def __repr__(self) -> str:
        return f"DetachedHold(pool={self.pool!r}, token={self.token})"

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> DetachedHold:
        """From what it became on its way, if whoever received it did not say that it would be one."""
        known = {name: value[name] for name in DetachedHold.__dataclass_fields__ if name in value}
        known["resources"] = [_resource(resource) for resource in value.get("resources") or []]
        return DetachedHold(**known)


class Hold:
    """What is held."""

    def __init__(self, grant: DetachedHold) -> None:
        self._grant = grant
        self._detached = False

    @property
    def pool(self) -> str:
        return self._grant.pool

    @property
    def namespace(self) -> str:
        return self._grant.namespace

    @property
    def token(self) -> int:
        """Rises with every grant. What the hold protects should refuse a lower one than the highest it has seen."""
        return self._grant.token

    @property
    def key(self) -> str:
        """Secret: whoever has it may release the hold."""
        return self._grant.key

    @property
    def units(self) -> int:
        """How many units, or how many resources."""
        return self._grant.units

    @property
    def resources(self) -> list[Resource]:
        """Which, if the pool is one of named resources."""
        return list(self._grant.resources)

    @property
    def resource(self) -> Resource:
        """Which, if it is just one."""
        if len(self._grant.resources) != 1:
            held = len(self._grant.resources)
            raise LookupError(f"this hold on pool `{self.pool}` is one of {held} named resources")
        return self._grant.resources[0]

    def detach(self) -> DetachedHold:
        """Leaves the hold to the next run: its block no longer gives it back. See `reattach`.

            workflow.continue_as_new(State(held=h.detach()))

        If nobody goes on with it, it ends when the workflow has closed.
        """
        self._detached = True
        return self._grant

    def __repr__(self) -> str:
        return f"Hold(pool={self.pool!r}, token={self.token})"


class Refused(ApplicationError):
    """The server would not do it. If nobody catches it the workflow fails, with `code` as the type of the failure."""

    def __init__(self, code: str, message: str, refusal: Mapping[str, Any] | None = None) -> None:
        self.code = code
        """A stable name, such as `unknown_pool`."""
        self.refusal = dict(refusal or {})
        """All that the server says about it, as in its API."""
        # Whether it is worth trying again is for whoever retries the workflow, if anybody does.
        super().__init__(message, self.refusal, type=code, non_retryable=not self.retry)

    @property
    def retry(self) -> bool:
        """Whether the same may succeed later."""
        return bool(self.refusal.get("retry", self.code in ("busy", "timed_out")))

    @property
    def advice(self) -> str:
        """What to do now."""
        return str(self.refusal.get("advice", ""))


class Busy(Refused):
    """There was no room, and it was not to be waited for."""


class WaitTimedOut(Refused):
    """There was no room for as long as it was to be waited for. `refusal["holders"]` says who was in the way."""


class HoldLost(Refused):
    """The hold was over before its block was: an operator has ended it, or a lease could not be renewed in time.

    A block whose lease is lost is cancelled. Otherwise the loss is noticed at the end of the block.
    """


class Holding:
    """The `async with` of `hold`, `try_hold` and `reattach`. For one use."""

    def __init__(self, source: _Ask | DetachedHold) -> None:
        self._source: _Ask | DetachedHold | None = source
        self._hold: Hold | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._renewal_failed = False
        self._lost: HoldLost | None = None

    async def __aenter__(self) -> Hold:
        source, self._source = self._source, None
        if source is None:
            raise RuntimeError("this has been used already; ask for a new hold")
        grant = source if isinstance(source, DetachedHold) else await source.grant()
        self._hold = Hold(grant)
        if grant.lifetime == "leased" and grant.ttl_ms is not None:
            body = asyncio.current_task()
            assert body is not None, "workflow code runs in a task"
            # What comes from an earlier run may have little time left.
            at_once = isinstance(source, DetachedHold)
            ttl = timedelta(milliseconds=grant.ttl_ms)
            self._renewing = asyncio.create_task(self._renew(grant, ttl, body, at_once))
        return self._hold

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._hold is not None, "it was entered"
        if kind is GeneratorExit:
            # The process forgets a workflow that goes on elsewhere, or is over. Nothing can be done here any more.
            return
        if self._renewing is not None:
            self._renewing.cancel()
        late: asyncio.CancelledError | None = None
        if not self._hold._detached:
            try:
                self._lost = await _release(self._hold._grant) or self._lost
            except asyncio.CancelledError as cancelled:
                error = late = cancelled
        if self._lost is not None and error is None:
            raise self._lost
        # The renewal has cancelled the block, if nobody else has.
        if self._renewal_failed and error is not None and is_cancelled_exception(error) and _uncancel() == 0:
            assert self._lost is not None, "that is why it failed"
            raise self._lost from None
        if self._lost is not None:
            workflow.logger.warning("the hold on pool `%s` was lost before its block failed", self._hold.pool)
        if late is not None:
            raise late

    async def _renew(self, grant: DetachedHold, ttl: timedelta, body: asyncio.Task[Any], at_once: bool) -> None:
        request = {"namespace": grant.namespace, "pool": grant.pool, "key": grant.key}
        third = ttl / 3
        try:
            while True:
                if not at_once:
                    await asyncio.sleep(third.total_seconds())
                at_once = False
                # What was granted, or renewed, a third ago is over when two more have passed.
                await workflow.execute_activity(
                    "tenure.renew",
                    request,
                    task_queue=grant.task_queue,
                    start_to_close_timeout=min(2 * third, _ANSWER_TIMEOUT),
                    schedule_to_close_timeout=2 * third,
                    retry_policy=_RETRY_POLICY,
                    summary=f"renew {grant.pool}"[:200],
                )
        except ActivityError as error:
            if is_cancelled_exception(error):
                return
            self._renewal_failed = True
            self._lost = _loss(grant, _refusal(error), f"the hold on pool `{grant.pool}` could not be renewed in time")
            body.cancel()


@dataclass(frozen=True)
class _Ask:
    activity: str
    body: dict[str, Any]
    task_queue: str
    attempt_limit: timedelta
    limit: timedelta | None

    async def grant(self) -> DetachedHold:
        pool = self.body["pool"]
        asked = workflow.start_activity(
            self.activity,
            self.body,
            task_queue=self.task_queue,
            start_to_close_timeout=self.attempt_limit,
            schedule_to_close_timeout=self.limit,
            heartbeat_timeout=_HEARTBEAT_TIMEOUT,
            retry_policy=_RETRY_POLICY,
            # The queue is left before the cancellation goes on, and a grant that crosses it is not overlooked.
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=f"hold {pool}"[:200],
        )
        cancelled = await _ended(asked, give_up=True)
        try:
            answer: dict[str, Any] | None = asked.result()
        except ActivityError as error:
            if cancelled is not None:
                raise cancelled from None
            refused = _refusal(error)
            if refused is not None:
                raise refused from error
            if isinstance(error.cause, exceptions.TimeoutError) and self.limit is not None:
                message = f"pool `{pool}` was not granted in time, and its server did not say why"
                raise WaitTimedOut("timed_out", message) from error
            raise
        if answer is None:
            if cancelled is not None:
                raise cancelled
            raise Busy("busy", f"pool `{pool}` has no room")
        grant = DetachedHold.from_json({**answer, "task_queue": self.task_queue})
        if cancelled is not None:
            await _release(grant)
            raise cancelled
        return grant


async def _release(grant: DetachedHold) -> HoldLost | None:
    """Whatever is cancelled meanwhile. If the hold was over already, that is returned."""
    if grant.lifetime == "window":
        # It counts for its time, whether or not it is still wanted.
        return None
    request = {"namespace": grant.namespace, "pool": grant.pool, "key": grant.key}
    released = workflow.start_activity(
        "tenure.release",
        request,
        task_queue=grant.task_queue,
        start_to_close_timeout=_ANSWER_TIMEOUT,
        retry_policy=_RETRY_POLICY,
        summary=f"release {grant.pool}"[:200],
    )
    cancelled = await _ended(released, give_up=False)
    lost = None
    try:
        released.result()
    except ActivityError as error:
        refused = _refusal(error)
        if refused is None:
            raise
        if refused.code != "not_held":
            raise refused from error
        lost = _loss(grant, refused)
    if cancelled is not None:
        raise cancelled
    return lost


async def _ended(activity: workflow.ActivityHandle[Any], *, give_up: bool) -> asyncio.CancelledError | None:
    """Waits until the activity has ended, also if we are cancelled meanwhile, which is returned.

    To be cancelled asks the activity to `give_up`, or does nothing to it. Either way its outcome is the activity's own.
    """
    cancelled = None
    while not activity.done():
        try:
            await workflow.wait([activity])
        except asyncio.CancelledError as error:
            cancelled = error
            if give_up:
                # If its result has arrived together with the cancellation, it would be thrown away.
                await _everything_else_has_run()
                activity.cancel()
    return cancelled


async def _everything_else_has_run() -> None:
    while True:
        try:
            # Conditions are looked at when nothing else can run.
            return await workflow.wait_condition(lambda: True)
        except asyncio.CancelledError:
            pass


def _refusal(error: ActivityError) -> Refused | None:
    cause = error.cause
    if not isinstance(cause, ApplicationError) or cause.type is None:
        return None
    refusal = cause.details[0] if cause.details and isinstance(cause.details[0], dict) else {}
    kind = {"busy": Busy, "timed_out": WaitTimedOut}.get(cause.type, Refused)
    return kind(cause.type, cause.message, refusal)


def _loss(grant: DetachedHold, refused: Refused | None, otherwise: str = "") -> HoldLost:
    return HoldLost("not_held", refused.message if refused else otherwise, refused.refusal if refused else None)


def _uncancel() -> int:
    """Our own cancellation of the block is dealt with. How many others are there? Python counts them since 3.11."""
    uncancel: Callable[[], int] | None = getattr(asyncio.current_task(), "uncancel", None)
    return 0 if uncancel is None else uncancel()


def _resource(value: Resource | Mapping[str, Any]) -> Resource:
    if isinstance(value, Resource):
        return value
    return Resource(value["name"], dict(value.get("labels") or {}), dict(value.get("properties") or {}))


def _request(
    pool: str,
    select: str | None,
    units: int | None,
    all: bool,
    size: int | None,
    ttl: timedelta | None,
    lifetime: str | None,
    priority: int | None,
    holder: str | None,
    meta: Mapping[str, str] | None,
    namespace: str | None,
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "pool": pool,
        "select": select,
        "units": units,
        "all": all or None,
        "size": size,
        "ttl_ms": None if ttl is None else _milliseconds(ttl),
        "lifetime": lifetime,
        "priority": priority,
        "holder": holder,
        "meta": None if meta is None else dict(meta),
        "namespace": namespace,
    }
    # A field that says nothing is left out.
    return {name: value for name, value in fields.items() if value is not None}


def _milliseconds(duration: timedelta) -> int:
    return math.ceil(duration / timedelta(milliseconds=1))

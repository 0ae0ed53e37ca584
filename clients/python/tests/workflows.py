"""Workflows as users write them. They import the helpers as they are, in the sandbox."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError
from tenure.temporal import DetachedHold, Hold, Holding, Refused, hold, reattach, try_hold


@dataclass
class Ask:
    pool: str
    select: str | None = None
    max_wait: float | None = None
    ttl: float | None = None
    only_try: bool = False
    fails: bool = False
    """Once it has been told to go on."""
    stays: bool = False
    """Until it is told to go, after it was cancelled."""


@workflow.defn
class Uses:
    """Holds until it is told to go on, and says what it held."""

    def __init__(self) -> None:
        self.held: dict[str, Any] | None = None
        self.was_cancelled = False
        self.told: list[str] = []

    @workflow.run
    async def run(self, ask: Ask) -> dict[str, Any]:
        try:
            async with holding(ask) as h:
                self.held = facts(h)
                await workflow.wait_condition(lambda: "go on" in self.told)
                if ask.fails:
                    raise ApplicationError("the work failed", non_retryable=True)
            return self.held
        except asyncio.CancelledError:
            self.was_cancelled = True
            if not ask.stays:
                raise
            await workflow.wait_condition(lambda: "go" in self.told)
            return {"was": "cancelled"}

    @workflow.signal
    def tell(self, what: str) -> None:
        self.told.append(what)

    @workflow.query
    def now(self) -> dict[str, Any] | None:
        return self.held

    @workflow.query
    def cancelled(self) -> bool:
        return self.was_cancelled


@workflow.defn
class Catches:
    """Says what it was refused."""

    @workflow.run
    async def run(self, ask: Ask) -> dict[str, Any]:
        try:
            async with holding(ask):
                return {"kind": "none"}
        except Refused as refused:
            holders = [holder["holder"] for holder in refused.refusal.get("holders", [])]
            return {"kind": type(refused).__name__, "code": refused.code, "retry": refused.retry, "holders": holders}


@dataclass
class Round:
    pool: str
    left: int
    ttl: float | None = None
    held: DetachedHold | None = None
    tokens: list[int] | None = None


@workflow.defn
class Continues:
    """Keeps one hold over some runs."""

    @workflow.run
    async def run(self, now: Round) -> list[int]:
        tokens = now.tokens or []
        async with reattach(now.held) if now.held else holding(Ask(now.pool, ttl=now.ttl)) as h:
            tokens.append(h.token)
            if now.left > 0:
                workflow.continue_as_new(Round(now.pool, now.left - 1, now.ttl, h.detach(), tokens))
        return tokens


@workflow.defn
class Forgets:
    """Continues as new in the middle of its block, and does not take the hold along."""

    @workflow.run
    async def run(self, pool: str, again: bool) -> None:
        if again:
            async with hold(pool):
                workflow.continue_as_new(args=[pool, False])
        await workflow.wait_condition(lambda: False)


@workflow.defn
class Untyped:
    """Passes the hold on as plain JSON."""

    @workflow.run
    async def run(self, pool: str, held: dict[str, Any] | None) -> list[Any]:
        if held is None:
            async with hold(pool) as h:
                workflow.continue_as_new(args=[pool, h.detach()])
        async with reattach(held) as h:
            return [h.resource.name, h.resource.properties]


@workflow.defn
class GivesUp:
    """Does not wait for the whole time that it could, by means of asyncio alone."""

    @workflow.run
    async def run(self, pool: str) -> str:
        try:
            await asyncio.wait_for(self.use(pool), 1)
        except asyncio.TimeoutError:
            return "gave up"
        return "held"

    async def use(self, pool: str) -> None:
        async with hold(pool):
            pass


ALL: list[type] = [Catches, Continues, Forgets, GivesUp, Untyped, Uses]


def holding(ask: Ask) -> Holding:
    ttl = None if ask.ttl is None else timedelta(seconds=ask.ttl)
    if ask.only_try:
        return try_hold(ask.pool, select=ask.select, ttl=ttl)
    max_wait = None if ask.max_wait is None else timedelta(seconds=ask.max_wait)
    return hold(ask.pool, select=ask.select, ttl=ttl, max_wait=max_wait)


def facts(h: Hold) -> dict[str, Any]:
    return {
        "pool": h.pool,
        "namespace": h.namespace,
        "token": h.token,
        "key": h.key,
        "units": h.units,
        "resources": [resource.name for resource in h.resources],
        "properties": [resource.properties for resource in h.resources],
    }

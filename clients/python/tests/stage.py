"""A worker with the workflows of these tests, and the server as an operator sees it.

`TEMPORAL_ADDRESS` and `TENURE_API` (the REST interface) say where they are; the project's own tests start both.
"""

from __future__ import annotations

import asyncio
import json
import os
import unittest
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.worker import Replayer, Worker
from workflows import ALL, Uses

Handle = WorkflowHandle[Any, Any]

PATIENCE = 60.0
"""Seconds that a slow machine may take for what happens at once."""


class Stage(unittest.IsolatedAsyncioTestCase):
    client: Client
    worker: Worker
    workflows: list[Handle]

    async def asyncSetUp(self) -> None:
        # A slow machine is nothing to report.
        asyncio.get_running_loop().slow_callback_duration = PATIENCE
        self.pool = f"{self.id().rsplit('.')[-1]} {uuid.uuid4()}"
        self.workflows = []
        self.client = await Client.connect(
            os.environ["TEMPORAL_ADDRESS"], namespace=os.environ.get("TEMPORAL_NAMESPACE", "default")
        )
        await self.start_worker()

    async def asyncTearDown(self) -> None:
        await self.stop_worker()
        # Whatever a test did: the same commands come from the same history.
        replayer = Replayer(workflows=ALL)
        for handle in self.workflows:
            last = await handle.describe()
            for run in {handle.first_execution_run_id, last.run_id}:
                history = await self.client.get_workflow_handle(handle.id, run_id=run).fetch_history()
                await replayer.replay_workflow(history)
            if last.status is WorkflowExecutionStatus.RUNNING:
                await handle.terminate("the test is over")

    async def start_worker(self) -> None:
        # Nothing is cached, so that every workflow task is a replay.
        self.worker = Worker(self.client, task_queue=self.pool, workflows=ALL, max_cached_workflows=0)
        self.running = asyncio.create_task(self.worker.run())

    async def stop_worker(self) -> None:
        await self.worker.shutdown()
        await self.running

    async def start(self, workflow: Any, *arguments: Any, name: str | None = None) -> Handle:
        handle: Handle = await self.client.start_workflow(
            workflow, args=arguments, id=name or f"{self.pool} {len(self.workflows)}", task_queue=self.pool
        )
        self.workflows.append(handle)
        return handle

    async def start_holder(self, ask: Any) -> tuple[Handle, dict[str, Any]]:
        """One that holds."""
        handle = await self.start(Uses.run, ask)
        return handle, await self.holds_now(handle)

    async def holds_now(self, handle: Handle) -> dict[str, Any]:
        async def held() -> Any:
            return await handle.query(Uses.now)

        return dict(await self.until("it holds", held))

    async def start_waiter(self, ask: Any, *, place: int = 1) -> Handle:
        """One that waits."""
        handle = await self.start(Uses.run, ask)
        await self.until_waiting(place)
        return handle

    async def until_waiting(self, count: int) -> None:
        async def waiting() -> bool:
            return len(await self.queue()) == count

        await self.until(f"{count} wait", waiting)

    async def until_free(self) -> None:
        async def free() -> bool:
            return await self.holds() == []

        await self.until("nobody holds it", free)

    async def until_cancelled(self, handle: Handle) -> None:
        async def cancelled() -> bool:
            return bool(await handle.query(Uses.cancelled))

        await self.until("it was cancelled", cancelled)

    async def until(self, what: str, look: Callable[[], Awaitable[Any]]) -> Any:
        async def seen() -> Any:
            while not (answer := await look()):
                await asyncio.sleep(0.02)
            return answer

        try:
            return await asyncio.wait_for(seen(), PATIENCE)
        except asyncio.TimeoutError:
            self.fail(f"not within {PATIENCE} s: {what}")

    async def take(self) -> dict[str, Any]:
        """The whole pool, by somebody who has nothing to do with Temporal."""
        body = {"pool": self.pool, "holder": "operator", "lifetime": "kept", "all": True}
        return await self.api("POST", "acquire", body)

    async def give_back(self, grant: dict[str, Any]) -> None:
        await self.api("POST", "release", {"key": grant["key"]})

    async def holds(self) -> list[dict[str, Any]]:
        answer = await self.api("GET", f"holds?pool={quoted(self.pool)}")
        return list(answer.get("holds", []))

    async def holders(self) -> list[str]:
        return [hold["holder"] for hold in await self.holds()]

    async def queue(self) -> list[dict[str, Any]]:
        answer = await self.api("GET", f"pools/{quoted(self.pool)}/queue")
        return list(answer.get("waiters", []))

    async def history(self, kind: str) -> list[dict[str, Any]]:
        answer = await self.api("GET", f"history?pool={quoted(self.pool)}&limit=1000")
        return [event for event in answer["events"] if event["kind"] == kind]

    async def api(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{os.environ['TENURE_API']}/api/v1/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
            method=method,
        )

        def ask() -> dict[str, Any]:
            try:
                with DIRECTLY.open(request, timeout=PATIENCE) as answer:
                    return dict(json.load(answer))
            except urllib.error.HTTPError as refused:
                refusal = json.load(refused)["error"]
                # A pool comes to be with its first request.
                if refusal["code"] == "unknown_pool":
                    return {}
                raise AssertionError(refusal) from None

        return await asyncio.to_thread(ask)


DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""A proxy of whoever runs the tests has no business here."""


def quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")

"""Workflows that call Tenure's activities by name, with nothing of ours, and a client of Temporal's for the tests.

It takes commands as lines of JSON and answers each with one, in whatever order they are done.
"""

import asyncio
import json
import sys
from datetime import timedelta

from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest, ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker


@workflow.defn(name="Script")
class Script:
    """Does one step after another. Holds are kept by the name that a step gives them."""

    def __init__(self) -> None:
        self.heard: set = set()
        self.holds: dict = {}
        self.log: list = []

    @workflow.run
    async def run(self, steps: list, holds: dict) -> list:
        self.holds = dict(holds)
        while steps:
            step, steps = steps[0], steps[1:]
            await self.do(step, steps)
        return self.log

    async def do(self, step: dict, rest: list) -> None:
        kind = step["do"]
        if kind == "call":
            await self.call(step)
        elif kind == "release":
            held = self.holds.pop(step["hold"])
            self.log.append(await self.activity("tenure.release", {"key": held["key"]}, step))
        elif kind == "until":
            await workflow.wait_condition(lambda: step["signal"] in self.heard)
        elif kind == "continue":
            workflow.continue_as_new(args=[rest, self.holds])
        elif kind == "fail":
            raise ApplicationError("as told", non_retryable=True)
        elif kind == "many":
            self.log += await asyncio.gather(*(self.turn(step) for _ in range(step["count"])))
        elif kind == "cancel_wait":
            waiting = asyncio.create_task(self.activity("tenure.acquire", step["input"], step))
            await workflow.wait_condition(lambda: step["signal"] in self.heard)
            waiting.cancel()
            try:
                self.log.append(await waiting)
            except (ActivityError, asyncio.CancelledError) as error:
                cause = getattr(error, "cause", error)
                self.log.append({"cancelled": isinstance(cause, (CancelledError, asyncio.CancelledError))})

    async def turn(self, step: dict) -> object:
        held = await self.activity("tenure.acquire", step["input"], step)
        await self.activity("tenure.release", {"key": held["key"]}, step)
        return held

    async def call(self, step: dict) -> None:
        try:
            result = await self.activity(step["activity"], step["input"], step)
        except ActivityError as error:
            if not step.get("tolerate"):
                raise
            cause = error.cause
            if isinstance(cause, ApplicationError):
                told = {"type": cause.type, "message": cause.message, "final": cause.non_retryable}
                self.log.append({**told, "details": list(cause.details)})
            else:
                self.log.append({"type": type(cause).__name__})
            return
        if "hold" in step:
            self.holds[step["hold"]] = result
        self.log.append(result)

    async def activity(self, name: str, given: object, step: dict) -> object:
        options = step.get("options", {})
        seconds = lambda option, usual: timedelta(seconds=options.get(option, usual))
        return await workflow.execute_activity(
            name,
            args=given if isinstance(given, list) else [given],
            task_queue="tenure",
            start_to_close_timeout=seconds("start_to_close", 300),
            heartbeat_timeout=seconds("heartbeat", 10) or None,
            retry_policy=RetryPolicy(
                initial_interval=timedelta(milliseconds=200), maximum_attempts=options.get("attempts", 0)
            ),
            cancellation_type=workflow.ActivityCancellationType[options.get("cancellation", "WAIT_CANCELLATION_COMPLETED")],
        )

    @workflow.signal
    def go(self, what: str) -> None:
        self.heard.add(what)

    @workflow.query
    def so_far(self) -> list:
        return self.log


class Stage:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def start(self, id: str, steps: list, holds: dict = {}, timeout: float | None = None) -> str:
        limit = timedelta(seconds=timeout) if timeout else None
        handle = await self.client.start_workflow(
            "Script", args=[steps, holds], id=id, task_queue="scripts", execution_timeout=limit
        )
        return handle.first_execution_run_id

    async def result(self, id: str) -> object:
        try:
            return await self.client.get_workflow_handle(id).result()
        except WorkflowFailureError as error:
            return {"failed": type(error.cause).__name__}

    async def so_far(self, id: str) -> object:
        return await self.client.get_workflow_handle(id).query("so_far")

    async def signal(self, id: str, what: str) -> None:
        await self.client.get_workflow_handle(id).signal("go", what)

    async def terminate(self, id: str) -> None:
        await self.client.get_workflow_handle(id).terminate()

    async def cancel(self, id: str) -> None:
        await self.client.get_workflow_handle(id).cancel()

    async def delete(self, id: str) -> None:
        execution = WorkflowExecution(workflow_id=id)
        request = DeleteWorkflowExecutionRequest(namespace=self.client.namespace, workflow_execution=execution)
        await self.client.workflow_service.delete_workflow_execution(request)

    async def reset(self, id: str, to_activity: str | None) -> str:
        """To after the named activity was completed, or to the beginning."""
        handle = self.client.get_workflow_handle(id)
        event_id, scheduled, found = 0, {}, to_activity is None
        async for event in handle.fetch_history_events():
            if event.HasField("activity_task_scheduled_event_attributes"):
                scheduled[event.event_id] = event.activity_task_scheduled_event_attributes.activity_type.name
            if event.HasField("activity_task_completed_event_attributes"):
                done = scheduled[event.activity_task_completed_event_attributes.scheduled_event_id]
                found = found or done == to_activity
            if event.HasField("workflow_task_completed_event_attributes") and found:
                event_id = event.event_id
                break
        request = ResetWorkflowExecutionRequest(
            namespace=self.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=id),
            reason="as told",
            request_id=f"{id}-reset-{event_id}",
            workflow_task_finish_event_id=event_id,
        )
        return (await self.client.workflow_service.reset_workflow_execution(request)).run_id

    async def run_id(self, id: str) -> str:
        return (await self.client.get_workflow_handle(id).describe()).run_id

    async def attempts(self, id: str) -> int:
        description = await self.client.get_workflow_handle(id).describe()
        return max((pending.attempt for pending in description.raw_description.pending_activities), default=0)

    async def answer(self, command: dict) -> None:
        number, name = command.pop("number"), command.pop("do")
        try:
            answer = {"number": number, "answer": await getattr(self, name)(**command)}
        except Exception as error:
            answer = {"number": number, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


async def serve(stage: Stage) -> None:
    under_way = set()
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        task = asyncio.create_task(stage.answer(json.loads(line)))
        under_way.add(task)
        task.add_done_callback(under_way.discard)


async def main(address: str, namespace: str) -> None:
    client = await Client.connect(address, namespace=namespace)
    # The script is our own and touches nothing; the sandbox would only make each run slow.
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue="scripts", workflows=[Script], workflow_runner=runner, max_cached_workflows=2000):
        await serve(Stage(client))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

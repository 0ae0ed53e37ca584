"""Workflows that use pools by signals, as those do that were written for the public samples, and a pool that works as the
samples' own does. Nothing here knows of Tenure."""

import asyncio
import sys
from datetime import timedelta

from stage import Stage, serve
from temporalio import workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ChildWorkflowError, WorkflowAlreadyStartedError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.workflow import ParentClosePolicy


@workflow.defn(name="User")
class User:
    """Does one step after another. What it holds is handed to its next run as it is."""

    @workflow.init
    def __init__(self, steps: list, held: dict) -> None:
        self.heard: set = set()
        self.held = dict(held)
        self.assigned: dict = {}
        self.log: list = []

    @workflow.run
    async def run(self, steps: list, held: dict) -> list:
        while steps:
            step, steps = steps[0], steps[1:]
            await getattr(self, "do_" + step["do"])(step, steps)
        return self.log

    def listen(self, signal: str, pool: str) -> None:
        self.assigned.setdefault(pool, [])
        workflow.set_signal_handler(signal, lambda told: self.assigned[pool].append(told))

    async def told(self, pool: str, step: dict) -> dict | None:
        try:
            limit = timedelta(seconds=step.get("wait", 300))
            await workflow.wait_condition(lambda: bool(self.assigned[pool]), timeout=limit)
        except asyncio.TimeoutError:
            self.log.append("timeout")
            return None
        told = self.assigned[pool].pop(0)
        self.log.append(told)
        return told

    async def do_acquire(self, step: dict, rest: list) -> None:
        pool = step["pool"]
        self.listen(f"assign_resource_{pool}", pool)
        request = {"workflow_id": workflow.info().workflow_id, **step.get("more", {})}
        await workflow.get_external_workflow_handle(pool).signal("acquire_resource", request)
        if told := await self.told(pool, step):
            self.held[pool] = {"resource": told["resource"], "release_key": told["release_key"]}

    async def do_release(self, step: dict, rest: list) -> None:
        pool = step["pool"]
        await workflow.get_external_workflow_handle(pool).signal("release_resource", self.held.pop(pool))

    async def do_lock(self, step: dict, rest: list) -> None:
        manager = step["pool"]
        self.listen("assign_resource", manager)
        me = {"workflow_id": workflow.info().workflow_id, "run_id": workflow.info().run_id}
        await workflow.get_external_workflow_handle(manager).signal("acquire_resource", me)
        if told := await self.told(manager, step):
            self.held[manager] = {"resource": told["resource"], **me}

    async def do_unlock(self, step: dict, rest: list) -> None:
        manager = step["pool"]
        await workflow.get_external_workflow_handle(manager).signal("release_resource", self.held.pop(manager))

    async def do_handoff(self, step: dict, rest: list) -> None:
        """What the run before held is made this run's own."""
        manager = step["pool"]
        self.listen("assign_resource", manager)
        held, own = self.held[manager], workflow.info().run_id
        handoff = {"resource": held["resource"], "workflow_id": held["workflow_id"]}
        handoff |= {"old_run_id": held["run_id"], "new_run_id": own}
        await workflow.get_external_workflow_handle(manager).signal("handoff_resource", handoff)
        if await self.told(manager, step):
            held["run_id"] = own

    async def do_permit(self, step: dict, rest: list) -> None:
        """Takes the first free slot, by starting a workflow with its id."""
        for slot in range(step["slots"]):
            try:
                self.child = await workflow.start_child_workflow(
                    step["type"],
                    {"resource": step["resource"], "slot": str(slot), "lease_seconds": step["lease"]},
                    id=f"permit:{step['resource']}:{slot}",
                    task_queue="tenure-pools",
                    parent_close_policy=ParentClosePolicy.TERMINATE,
                )
                self.log.append(slot)
                return
            except WorkflowAlreadyStartedError:
                continue
        self.log.append("busy")

    async def do_permit_end(self, step: dict, rest: list) -> None:
        if step["release"]:
            await self.child.signal("release")
        try:
            self.log.append(await self.child)
        except ChildWorkflowError as error:
            self.log.append(str(error.cause))

    async def do_until(self, step: dict, rest: list) -> None:
        await workflow.wait_condition(lambda: step["signal"] in self.heard)

    async def do_continue(self, step: dict, rest: list) -> None:
        workflow.continue_as_new(args=[rest, self.held])

    async def do_fail(self, step: dict, rest: list) -> None:
        raise ApplicationError("as told", non_retryable=True)

    @workflow.signal
    def go(self, what: str) -> None:
        self.heard.add(what)

    @workflow.query
    def so_far(self) -> list:
        return self.log


@workflow.defn(name="ResourcePoolWorkflow")
class SignalPool:
    """A pool as people have it: it signals, waits until that is confirmed, and only then notes who holds."""

    @workflow.init
    def __init__(self, state: dict) -> None:
        self.resources, self.waiters = state["resources"], state["waiters"]

    @workflow.signal
    def acquire_resource(self, request: dict) -> None:
        self.waiters.append({"workflow_id": request["workflow_id"], "release_signal": None})

    @workflow.signal
    def release_resource(self, release: dict) -> None:
        holder = self.resources.get(release["resource"])
        if holder and holder["release_signal"] == release["release_key"]:
            self.resources[release["resource"]] = None

    @workflow.query
    def get_current_holders(self) -> dict:
        return self.resources

    def free(self) -> str | None:
        return next((name for name, holder in self.resources.items() if holder is None), None)

    @workflow.run
    async def run(self, state: dict) -> None:
        while True:
            await workflow.wait_condition(lambda: bool(self.waiters) and self.free() is not None)
            waiter, resource = self.waiters.pop(0), self.free()
            key = str(workflow.uuid4())
            user = workflow.get_external_workflow_handle(waiter["workflow_id"])
            name = f"assign_resource_{workflow.info().workflow_id}"
            await user.signal(name, {"release_key": key, "resource": resource})
            self.resources[resource] = {**waiter, "release_signal": key}


class Users(Stage):
    async def start(self, id: str, steps: list, held: dict = {}) -> str:
        handle = await self.client.start_workflow("User", args=[steps, held], id=id, task_queue="users")
        return handle.first_execution_run_id

    async def start_signal_pool(self, id: str, resources: list) -> None:
        state = {"resources": {name: None for name in resources}, "waiters": []}
        await self.client.start_workflow("ResourcePoolWorkflow", state, id=id, task_queue="signal-pools")

    async def holders(self, id: str) -> dict:
        return await self.client.get_workflow_handle(id).query("get_current_holders")

    async def asked(self, pool: str, id: str) -> bool:
        """Whether it has or waits for something of a pool of ours."""
        owners = await self.client.get_workflow_handle(pool).query("get_owners")
        return any(owner["workflow_id"] == id for owner in owners)

    async def sent(self, id: str) -> bool:
        """Whether its first signal to another workflow has arrived."""
        events = self.client.get_workflow_handle(id).fetch_history_events()
        signaled = "external_workflow_execution_signaled_event_attributes"
        return any([event.HasField(signaled) async for event in events])

    async def burst(self, count: int, steps: list) -> list:
        """So many workflows with these steps at once, and what came of each."""
        names = [f"burst-{number}" for number in range(count)]
        await asyncio.gather(*(self.start(name, steps) for name in names))
        return await asyncio.gather(*(self.result(name) for name in names))

    async def noise(self, id: str, count: int) -> None:
        for number in range(count):
            await self.client.get_workflow_handle(id).signal("noise", number)


async def main(address: str, namespace: str) -> None:
    client = await Client.connect(address, namespace=namespace)
    runner = UnsandboxedWorkflowRunner()
    options = {"workflow_runner": runner, "max_cached_workflows": 2000}
    async with (
        Worker(client, task_queue="users", workflows=[User], **options),
        Worker(client, task_queue="signal-pools", workflows=[SignalPool], **options),
    ):
        await serve(Users(client))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""A pool of resources as Temporal's samples build it: a workflow that is asked, and answers, by one signal each.

Many workflows take turns on it for a while; how many pairs (an acquire and a release) they did in a second is printed.
"""

import argparse
import asyncio
import os
import uuid

from temporalio import workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

POOL_QUEUE = "signal-pool"
REQUESTER_QUEUE = "signal-pool-requesters"

# By all requesters of this process, which are all there are.
pairs = 0


@workflow.defn(name="SignalPool")
class SignalPool:
    """Hands out the first free resource to whoever has waited longest, and tells one after another, as the sample does.

    With `at_once` it tells all for whom there is something and then waits for all of these signals, which is faster. Unlike the sample it notes a holder before it tells them, and looks whether to continue as new before it assigns.
    Otherwise a release that comes with the confirmation of its own grant is dropped, and a busy pool never continues: no
    run of any length would come to its end.
    """

    @workflow.init
    def __init__(self, holders: dict, waiters: list, at_once: bool) -> None:
        self.holders = holders
        self.waiters = waiters

    @workflow.run
    async def run(self, holders: dict, waiters: list, at_once: bool) -> None:
        while True:
            await workflow.wait_condition(lambda: self.can_assign() or self.is_worn_out())
            if self.is_worn_out():
                workflow.continue_as_new(args=[self.holders, self.waiters, at_once])
            free = sum(holder is None for holder in self.holders.values())
            count = min(free, len(self.waiters)) if at_once else 1
            await asyncio.gather(*(self.assign() for _ in range(count)))

    @workflow.signal
    def acquire_resource(self, request: dict) -> None:
        self.waiters.append(request["workflow_id"])

    @workflow.signal
    def release_resource(self, release: dict) -> None:
        holder = self.holders[release["resource"]]
        if holder is not None and holder["release_key"] == release["release_key"]:
            self.holders[release["resource"]] = None

    @workflow.query
    def get_current_holders(self) -> dict:
        return self.holders

    async def assign(self) -> None:
        resource = next(name for name, holder in self.holders.items() if holder is None)
        waiter = self.waiters.pop(0)
        key = str(workflow.uuid4())
        self.holders[resource] = {"workflow_id": waiter, "release_key": key}
        requester = workflow.get_external_workflow_handle(waiter)
        try:
            await requester.signal(
                f"assign_resource_{workflow.info().workflow_id}", {"release_key": key, "resource": resource}
            )
        except ApplicationError:
            self.holders[resource] = None

    def can_assign(self) -> bool:
        return bool(self.waiters) and any(holder is None for holder in self.holders.values())

    def is_worn_out(self) -> bool:
        return workflow.info().is_continue_as_new_suggested() and workflow.all_handlers_finished()


@workflow.defn(name="SignalRequester")
class SignalRequester:
    """Takes a resource and gives it back, again and again."""

    def __init__(self) -> None:
        self.assigned: dict | None = None

    @workflow.run
    async def run(self, pool_id: str) -> None:
        workflow.set_signal_handler(f"assign_resource_{pool_id}", self.assign)
        pool = workflow.get_external_workflow_handle(pool_id)
        while not workflow.info().is_continue_as_new_suggested():
            await pool.signal("acquire_resource", {"workflow_id": workflow.info().workflow_id})
            await workflow.wait_condition(lambda: self.assigned is not None)
            assigned, self.assigned = self.assigned, None
            await pool.signal("release_resource", assigned)
            if not workflow.unsafe.is_replaying():
                global pairs
                pairs += 1
        workflow.continue_as_new(args=[pool_id])

    def assign(self, assigned: dict) -> None:
        self.assigned = assigned


def worker(client: Client, task_queue: str, defined: type) -> Worker:
    # Without the sandbox, which only costs time.
    runner = UnsandboxedWorkflowRunner()
    return Worker(client, task_queue=task_queue, workflows=[defined], workflow_runner=runner)


async def measure(client: Client, options: argparse.Namespace) -> float:
    pool_id = f"signal-pool-{uuid.uuid4().hex}"
    holders = {f"resource-{number}": None for number in range(options.resources)}
    async with worker(client, REQUESTER_QUEUE, SignalRequester):
        start = [holders, [], options.at_once]
        await client.start_workflow("SignalPool", args=start, id=pool_id, task_queue=POOL_QUEUE)
        ids = [f"{pool_id}-requester-{number}" for number in range(options.requesters)]
        for workflow_id in ids:
            await client.start_workflow("SignalRequester", pool_id, id=workflow_id, task_queue=REQUESTER_QUEUE)
        await asyncio.sleep(options.seconds / 4)
        clock = asyncio.get_running_loop().time
        before, began = pairs, clock()
        await asyncio.sleep(options.seconds)
        figure = (pairs - before) / (clock() - began)
        for workflow_id in [*ids, pool_id]:
            await client.get_workflow_handle(workflow_id).terminate()
        return figure


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["pool", "requesters"])
    parser.add_argument("address")
    parser.add_argument("namespace")
    parser.add_argument("--requesters", type=int, default=10)
    parser.add_argument("--resources", type=int, default=10)
    parser.add_argument("--at-once", action="store_true")
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    client = await Client.connect(options.address, namespace=options.namespace)
    if options.role == "pool":
        await worker(client, POOL_QUEUE, SignalPool).run()
    else:
        print("pairs/s", await measure(client, options), flush=True)
        # Python has been seen to abort when it ends beside the threads of the SDK.
        os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())

#!/usr/bin/env python3
"""A workflow that holds a lock is terminated by an operator, and cannot give it back. The next one gets it."""

import argparse
import asyncio
import os
import sys
import uuid
from datetime import timedelta

try:
    from temporalio import activity, workflow
    from temporalio.client import Client, WorkflowHandle
    from temporalio.worker import Worker
    from tenure.temporal import hold
except ImportError:
    sys.exit("error: temporalio or tenure is not installed\nhint: pip install 'clients/python[temporal]'")


@workflow.defn
class Holder:
    @workflow.run
    async def run(self, pool: str, name: str, seconds: float) -> None:
        async with hold(pool) as h:
            text = f"{name} has the lock, token {h.token}"
            await workflow.execute_activity("report", text, start_to_close_timeout=timedelta(minutes=1))
            await asyncio.sleep(seconds)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--temporal", default="127.0.0.1:7233", help="where Temporal is [%(default)s]")
    parser.add_argument("--namespace", default="default", help="the namespace there [%(default)s]")
    parser.add_argument("--pool", default="the-lock", help="the lock [%(default)s]")
    return parser.parse_args()


async def main(options: argparse.Namespace) -> None:
    client = await Client.connect(options.temporal, namespace=options.namespace)
    queue = f"terminated-holder-{uuid.uuid4()}"
    reported = asyncio.Event()

    @activity.defn
    async def report(text: str) -> None:
        print(text, flush=True)
        reported.set()

    async def start(name: str, seconds: float) -> WorkflowHandle[Holder, None]:
        arguments = [options.pool, name, seconds]
        return await client.start_workflow(Holder.run, args=arguments, id=f"{name}-{queue}", task_queue=queue)

    async with Worker(client, task_queue=queue, workflows=[Holder], activities=[report]):
        first = await start("first", 3600)
        await reported.wait()
        second = await start("second", 0)
        while not await waits(second):
            await asyncio.sleep(0.05)
        print("second waits", flush=True)
        print("an operator terminates first", flush=True)
        await first.terminate("an operator wants it so")
        await second.result()
        print("second is done")


async def waits(handle: WorkflowHandle[Holder, None]) -> bool:
    """A wait is an activity that has begun and is not yet completed."""
    pending = (await handle.describe()).raw_description.pending_activities
    return any(asked.activity_type.name == "tenure.acquire" and asked.attempt > 0 for asked in pending)


if __name__ == "__main__":
    try:
        asyncio.run(main(options()))
    except KeyboardInterrupt:
        sys.exit(130)
    sys.stdout.flush()
    # Threads of Temporal's SDK may abort an interpreter that is about to end (temporalio/sdk-python#300).
    os._exit(0)

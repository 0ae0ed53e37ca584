#!/usr/bin/env python3
"""Four workflows share two machines. One fails, and one continues as new in the middle of its work."""

import argparse
import asyncio
import os
import sys
import uuid
from dataclasses import dataclass
from datetime import timedelta

try:
    from temporalio import activity, workflow
    from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
    from temporalio.exceptions import ApplicationError
    from temporalio.worker import Worker
    from tenure.temporal import DetachedHold, Hold, hold, reattach
except ImportError:
    sys.exit("error: temporalio or tenure is not installed\nhint: pip install 'clients/python[temporal]'")


@dataclass
class Work:
    pool: str
    user: str
    seconds: float
    fails: bool = False
    continues: bool = False
    held: DetachedHold | None = None
    """What the run before has left to this one."""


@workflow.defn
class User:
    @workflow.run
    async def run(self, work: Work) -> None:
        async with reattach(work.held) if work.held else hold(work.pool) as h:
            await use(work, h)
            if work.fails:
                raise ApplicationError("out of paper", non_retryable=True)
            if work.continues:
                # Without `detach` the machine would be given back here.
                workflow.continue_as_new(Work(work.pool, work.user, work.seconds, held=h.detach()))


async def use(work: Work, h: Hold) -> None:
    again = "again " if work.held else ""
    text = f"{work.user} {again}uses {h.resource.name}, token {h.token}"
    await workflow.execute_activity(report, args=[text, work.seconds], start_to_close_timeout=timedelta(minutes=1))


@activity.defn
async def report(text: str, seconds: float) -> None:
    print(text, flush=True)
    await asyncio.sleep(seconds)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--temporal", default="127.0.0.1:7233", help="where Temporal is [%(default)s]")
    parser.add_argument("--namespace", default="default", help="the namespace there [%(default)s]")
    parser.add_argument("--pool", default="machines", help="the pool of machines [%(default)s]")
    parser.add_argument("--work", type=float, default=0.5, help="how long the work takes, in seconds [%(default)s]")
    return parser.parse_args()


async def main(options: argparse.Namespace) -> None:
    client = await Client.connect(options.temporal, namespace=options.namespace)
    queue = f"resource-pool-{uuid.uuid4()}"

    async def start(user: str, *, fails: bool = False, continues: bool = False) -> WorkflowHandle[User, None]:
        work = Work(options.pool, user, options.work, fails, continues)
        return await client.start_workflow(User.run, work, id=f"{user}-{queue}", task_queue=queue)

    async with Worker(client, task_queue=queue, workflows=[User], activities=[report]):
        users = {
            "user-1": await start("user-1"),
            "user-2": await start("user-2", fails=True),
            "user-3": await start("user-3", continues=True),
            "user-4": await start("user-4"),
        }
        for user, handle in users.items():
            try:
                await handle.result()
                print(f"{user} is done")
            except WorkflowFailureError as failure:
                print(f"{user} has failed: {failure.cause}")


if __name__ == "__main__":
    try:
        asyncio.run(main(options()))
    except KeyboardInterrupt:
        sys.exit(130)
    sys.stdout.flush()
    # Threads of Temporal's SDK may abort an interpreter that is about to end (temporalio/sdk-python#300).
    os._exit(0)

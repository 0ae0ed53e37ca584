#!/usr/bin/env python3
"""Eight workflows want to work, and three may at once."""

import argparse
import asyncio
import os
import sys
import uuid
from dataclasses import dataclass
from datetime import timedelta

try:
    from temporalio import activity, workflow
    from temporalio.client import Client
    from temporalio.worker import Worker
    from tenure.temporal import hold
except ImportError:
    sys.exit("error: temporalio or tenure is not installed\nhint: pip install 'clients/python[temporal]'")


@dataclass
class Work:
    pool: str
    permits: int
    consumer: str
    seconds: float


@workflow.defn
class Consumer:
    @workflow.run
    async def run(self, work: Work) -> None:
        # The first who asks makes the pool. All must name the same size, and who names another is told so.
        async with hold(work.pool, size=work.permits) as h:
            await workflow.execute_activity(
                "consume", args=[work.consumer, h.token, work.seconds], start_to_close_timeout=timedelta(minutes=1)
            )


class Counter:
    """How many are at it, as seen by the activities of this worker."""

    now = most = 0

    @activity.defn
    async def consume(self, consumer: str, token: int, seconds: float) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        print(f"{consumer} consumes, token {token}", flush=True)
        await asyncio.sleep(seconds)
        self.now -= 1


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--temporal", default="127.0.0.1:7233", help="where Temporal is [%(default)s]")
    parser.add_argument("--namespace", default="default", help="the namespace there [%(default)s]")
    parser.add_argument("--pool", default="permits", help="the pool of permits [%(default)s]")
    parser.add_argument("--permits", type=int, default=3, help="how many may at once [%(default)s]")
    parser.add_argument("--consumers", type=int, default=8, help="how many want to [%(default)s]")
    parser.add_argument("--work", type=float, default=0.5, help="how long the work takes, in seconds [%(default)s]")
    return parser.parse_args()


async def main(options: argparse.Namespace) -> None:
    client = await Client.connect(options.temporal, namespace=options.namespace)
    queue = f"semaphore-{uuid.uuid4()}"
    counter = Counter()

    async def consumer(number: int) -> None:
        name = f"consumer-{number}"
        work = Work(options.pool, options.permits, name, options.work)
        await client.execute_workflow(Consumer.run, work, id=f"{name}-{queue}", task_queue=queue)

    async with Worker(client, task_queue=queue, workflows=[Consumer], activities=[counter.consume]):
        await asyncio.gather(*(consumer(number + 1) for number in range(options.consumers)))
    print(f"{options.consumers} consumers, at most {counter.most} at once, of {options.permits} permits")


if __name__ == "__main__":
    try:
        asyncio.run(main(options()))
    except KeyboardInterrupt:
        sys.exit(130)
    sys.stdout.flush()
    # Threads of Temporal's SDK may abort an interpreter that is about to end (temporalio/sdk-python#300).
    os._exit(0)

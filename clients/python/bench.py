"""How many holds a second: clients x tasks, each of which takes and gives back a mutex of its own. Prints one number.

    PYTHONPATH=clients/python/src python clients/python/bench.py 127.0.0.1:3144 [--clients 4] [--tasks 64] [--seconds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import time

from tenure import AsyncClient


async def measure(address: str, clients: int, tasks: int, seconds: float) -> float:
    count = 0
    begun = time.perf_counter()
    end = begun + seconds

    async def work(client: AsyncClient, pool: str) -> None:
        nonlocal count
        while time.perf_counter() < end:
            async with client.hold(pool):
                count += 1

    connected = [await AsyncClient(address).connect() for _ in range(clients)]
    await asyncio.gather(
        *(work(client, f"bench-{number}-{task}") for number, client in enumerate(connected) for task in range(tasks))
    )
    rate = count / (time.perf_counter() - begun)
    for client in connected:
        await client.close()
    return rate


def main() -> None:
    options = argparse.ArgumentParser(description="Holds per second of the Python client.")
    options.add_argument("address")
    options.add_argument("--clients", type=int, default=4)
    options.add_argument("--tasks", type=int, default=64)
    options.add_argument("--seconds", type=float, default=5.0)
    given = options.parse_args()
    print(round(asyncio.run(measure(given.address, given.clients, given.tasks, given.seconds))))


if __name__ == "__main__":
    main()

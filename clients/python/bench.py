"""How many holds a second: clients x tasks, each of which takes and gives back a mutex of its own. Prints one number.

    PYTHONPATH=clients/python/src python clients/python/bench.py 127.0.0.1:3144 [--clients 4] [--tasks 64] [--seconds 5]

`cargo xtask bench clients` runs it beside the clients in other languages.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenure import AsyncClient

Client = TypeVar("Client")


async def take(client: AsyncClient, name: str) -> None:
    async with client.hold(name):
        pass


async def measure(
    clients: list[Client], take: Callable[[Client, str], Awaitable[None]], tasks: int, seconds: float
) -> float:
    """How many times a second something is taken and given back."""
    count, over = 0, False

    async def work(client: Client, name: str) -> None:
        nonlocal count
        while not over:
            await take(client, name)
            count += 1

    working = asyncio.gather(
        *(work(client, f"bench-{number}-{task}") for number, client in enumerate(clients) for task in range(tasks))
    )
    # Until everything has been used once, and is warm.
    await asyncio.sleep(seconds / 4)
    before, begun = count, time.perf_counter()
    await asyncio.sleep(seconds)
    rate = (count - before) / (time.perf_counter() - begun)
    over = True
    await working
    return rate


def arguments(description: str) -> argparse.Namespace:
    options = argparse.ArgumentParser(description=description)
    options.add_argument("address")
    options.add_argument("--clients", type=int, default=4)
    options.add_argument("--tasks", type=int, default=64)
    options.add_argument("--seconds", type=float, default=5.0)
    return options.parse_args()


async def main() -> None:
    given = arguments("Holds per second of the Python client.")
    clients = [await AsyncClient(given.address).connect() for _ in range(given.clients)]
    print(round(await measure(clients, take, given.tasks, given.seconds)))
    for client in clients:
        await client.close()


if __name__ == "__main__":
    asyncio.run(main())

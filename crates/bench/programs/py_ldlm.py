"""What `clients/python/bench.py` measures, with py-ldlm, the Python client of LDLM: clients x tasks, each of which takes and gives
back a lock of its own. Prints how many a second.

    PYTHONPATH=clients/python:clients/python/src python crates/bench/programs/py_ldlm.py 127.0.0.1:3144 [--clients 4] [--tasks 64] [--seconds 5]
"""

from __future__ import annotations

import asyncio

from bench import arguments, measure
from ldlm import AsyncClient


async def take(client: AsyncClient, name: str) -> None:
    lock = await client.lock(name)
    await lock.unlock()


async def main() -> None:
    given = arguments("Locks per second of py-ldlm.")
    clients = [AsyncClient(given.address) for _ in range(given.clients)]
    print(round(await measure(clients, take, given.tasks, given.seconds)))
    for client in clients:
        await client.aclose()


if __name__ == "__main__":
    asyncio.run(main())

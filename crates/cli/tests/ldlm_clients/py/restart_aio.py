"""py-ldlm's client for asyncio does not ask again when the server restarts: its error reaches the application."""

import asyncio

import grpc
from facts import ADDRESS, fact, until_told
from ldlm import AsyncClient


async def again(call):
    """What an application has to do by itself."""
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE, error
            await asyncio.sleep(0.1)


async def main():
    client = AsyncClient(ADDRESS)
    held = await client.lock("held")
    timed = await client.lock("timed", lock_timeout_seconds=600)
    waiting = asyncio.create_task(client.lock("held"))
    try:
        await waiting
    except grpc.aio.AioRpcError as error:
        fact("AioRpcError: " + error.code().name)
    await asyncio.to_thread(until_told)
    await again(lambda: timed.renew(600))
    fact("renewed by its old key")
    assert not await again(lambda: client.try_lock("held"))
    await held.unlock()
    assert await client.lock("held")
    await timed.unlock()
    fact("unlocked by their old keys")


asyncio.run(main())

"""Every call of py-ldlm's client for asyncio, and every error that it tells apart. The server's HTTP address is given too."""

import asyncio
import gc
import json
import sys
import urllib.parse
import urllib.request

from facts import ADDRESS, ADDRESS_APART, fact, failure_aio
from ldlm import AsyncClient, exceptions


def waiters(name):
    """How many the server has in the queue. A proxy that the machine may have is not asked."""
    url = f"{sys.argv[2]}/api/v1/pools/{urllib.parse.quote(name)}/queue"
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url) as answer:
        return len(json.load(answer)["waiters"])


async def until_waiters(name, count):
    while await asyncio.to_thread(waiters, name) != count:
        await asyncio.sleep(0.01)


async def give_up(client, other):
    lock = await client.lock("given up")
    waiting = asyncio.create_task(client.lock("given up"))
    await until_waiters("given up", 1)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    await until_waiters("given up", 0)
    await lock.unlock()
    assert await other.lock("given up", wait_timeout_seconds=60)


async def main():
    client, other = AsyncClient(ADDRESS), AsyncClient(ADDRESS_APART)

    lock = await client.lock("x")
    assert lock and lock.locked and lock.name == "x" and len(lock.key) == 36
    assert not await other.try_lock("x")
    await lock.unlock()
    taken = await other.try_lock("x")
    assert taken.locked
    await other.unlock("x", taken.key)
    fact("lock, try_lock and unlock")

    async with client.lock_context("x", lock_timeout_seconds=600) as lock:
        assert lock
        async with other.try_lock_context("x") as held:
            assert not held
        async with other.lock_context("x", wait_timeout_seconds=1) as late:
            assert late.locked is False and late.key == ""
    async with other.try_lock_context("x") as lock:
        assert lock
    async with client.lock_context("x") as lock:
        assert lock
    fact("a context gives back what it took, and a wait that is over is no exception")

    lock = await client.lock("timed", lock_timeout_seconds=600)
    await lock.renew(1200)
    assert lock.locked
    assert (await other.renew("timed", lock.key, 600)).locked
    await client.unlock("timed", lock.key)
    fact("a key renews and unlocks from any connection")

    held = await client.lock("queue")
    waiting = [asyncio.create_task(client.lock("queue")) for _ in range(250)]
    # Answered although all of them wait on the same connection.
    assert await client.lock("something else")
    await held.unlock()
    for _ in waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == 1
        await done.pop().result().unlock()
        if not waiting:
            break
    fact("250 tasks that wait on one connection get it one after another")

    await give_up(client, other)
    fact("a task that is cancelled leaves the queue")

    lock, plain = await client.lock("y", lock_timeout_seconds=600), await client.lock("z")
    fact("LDLMError: " + await failure_aio(exceptions.LDLMError, client.try_lock("")))
    fact("LDLMError: " + await failure_aio(exceptions.LDLMError, client.lock("y", wait_timeout_seconds=-1)))
    fact("LDLMError: " + await failure_aio(exceptions.LDLMError, client.lock("y", lock_timeout_seconds=-1)))
    fact("LDLMError: " + await failure_aio(exceptions.LDLMError, lock.renew(0)))
    gone = exceptions.LockDoesNotExistError
    fact("LockDoesNotExistError: " + await failure_aio(gone, client.unlock("nobody", lock.key)))
    wrong = exceptions.InvalidLockKeyError
    fact("InvalidLockKeyError: " + await failure_aio(wrong, other.unlock("y", plain.key)))
    unknown = exceptions.LockDoesNotExistOrInvalidKeyError
    fact("LockDoesNotExistOrInvalidKeyError: " + await failure_aio(unknown, other.renew("y", plain.key, 600)))
    await failure_aio(unknown, plain.renew(600))
    fact("LockSizeMismatchError: " + await failure_aio(exceptions.LockSizeMismatchError, client.lock("y", size=2)))
    await lock.unlock()
    await failure_aio(wrong, lock.unlock())

    # A call that was cancelled keeps the connection open for as long as Python keeps the call.
    gc.collect()
    await client.close()
    assert await other.lock("z")
    fact("a connection that is closed gives back what it held")
    await other.aclose()


asyncio.run(main())

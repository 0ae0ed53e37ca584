"""A lock with a timeout is renewed by the library itself while its loop runs, also if the client names the timeout."""

import asyncio

from facts import ADDRESS, ADDRESS_APART, fact
from ldlm import AsyncClient

# The library renews after 10 s, so there are 10 s in which a slow machine may be late.
SECONDS = 20


async def main():
    client, other = AsyncClient(ADDRESS, lock_timeout_seconds=SECONDS), AsyncClient(ADDRESS_APART)
    careless = AsyncClient(ADDRESS, auto_renew_locks=False)
    renewed = await client.lock("renewed")
    # Granted later for as long, and never renewed: when it is over, the first would be over too.
    assert await careless.lock("left alone", lock_timeout_seconds=SECONDS)
    assert await other.lock("left alone")
    fact("a lock that nobody renews ends")
    assert not await other.try_lock("renewed")
    fact("a lock that the library renews stays")
    await renewed.unlock()
    assert await other.try_lock("renewed")
    fact("until it is unlocked")


asyncio.run(main())

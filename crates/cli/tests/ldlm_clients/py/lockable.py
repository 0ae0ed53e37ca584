"""Every name given can be locked."""

import sys

from facts import ADDRESS, fact
from ldlm import Client

client = Client(ADDRESS)
locks = [client.try_lock(name) for name in sys.argv[2:]]
assert all(locks), [lock.name for lock in locks if not lock]
fact(f"{len(locks)} locked")

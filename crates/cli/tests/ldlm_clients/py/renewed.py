"""A lock with a timeout is renewed by the library itself while its process lives."""

from facts import ADDRESS, ADDRESS_APART, fact
from ldlm import Client

# The library renews after 10 s, so there are 10 s in which a slow machine may be late.
SECONDS = 20

client, other = Client(ADDRESS), Client(ADDRESS_APART)
renewed = client.lock("renewed", lock_timeout_seconds=SECONDS)
# Granted later for as long, and never renewed: when it is over, the first would be over too.
Client(ADDRESS, auto_renew_locks=False).lock("left alone", lock_timeout_seconds=SECONDS)
assert other.lock("left alone")
fact("a lock that nobody renews ends")
assert not other.try_lock("renewed")
fact("a lock that the library renews stays")
renewed.unlock()
assert other.try_lock("renewed")
fact("until it is unlocked")

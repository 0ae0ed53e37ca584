"""py-ldlm 1.0.0, which calls `RefreshLock` what is `Renew` today."""

from facts import ADDRESS, fact, failure
from ldlm import Client, exceptions

client = Client(ADDRESS, auto_refresh_locks=False)
lock = client.lock("x", lock_timeout_seconds=600)
assert lock.locked and not client.try_lock("x").locked
assert client.refresh_lock("x", lock.key, 1200).locked
fact("refresh_lock")
unknown = exceptions.LockDoesNotExistOrInvalidKeyError
fact("LockDoesNotExistOrInvalidKeyError: " + failure(unknown, lambda: client.refresh_lock("x", "no key", 600)))
client.unlock("x", lock.key)
with client.lock_context("x") as lock:
    assert lock.locked
fact("unlock and lock_context")

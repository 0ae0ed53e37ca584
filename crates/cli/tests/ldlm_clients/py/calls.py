"""Every call of py-ldlm's blocking client, and every error that it tells apart."""

from facts import ADDRESS, ADDRESS_APART, fact, failure
from ldlm import Client, exceptions

client, other = Client(ADDRESS), Client(ADDRESS_APART)

lock = client.lock("x")
assert lock and lock.locked and lock.name == "x" and len(lock.key) == 36
assert not other.try_lock("x")
lock.unlock()
taken = other.try_lock("x")
assert taken.locked
other.unlock("x", taken.key)
fact("lock, try_lock and unlock")

with client.lock_context("x", lock_timeout_seconds=600) as lock:
    assert lock
    with other.try_lock_context("x") as held:
        assert not held
    with other.lock_context("x", wait_timeout_seconds=1) as late:
        assert late.locked is False and late.key == ""
with other.try_lock_context("x") as lock:
    assert lock
with client.lock_context("x") as lock:
    assert lock
fact("a context gives back what it took, and a wait that is over is no exception")

# Renewed by hand: the library would go on renewing what another client has unlocked.
lock = Client(ADDRESS, auto_renew_locks=False).lock("timed", lock_timeout_seconds=600)
lock.renew(1200)
assert lock.locked
assert other.renew("timed", lock.key, 600).locked
other.unlock("timed", lock.key)
fact("a key renews and unlocks from any connection")

seats = [client.lock("seats", size=3) for _ in range(3)]
assert all(seats) and len({seat.key for seat in seats}) == 3
assert not other.try_lock("seats", size=3)
seats[1].unlock()
assert other.try_lock("seats", size=3)
assert not client.try_lock("seats", size=3)
# The library keeps it to itself, so there is no InvalidLockSizeError to be had from it.
assert client.try_lock("size is not sent", size=-1)
fact("as many as the size have it at once")

lock, plain = client.lock("y", lock_timeout_seconds=600), client.lock("z")
fact("LDLMError: " + failure(exceptions.LDLMError, lambda: client.try_lock("")))
fact("LDLMError: " + failure(exceptions.LDLMError, lambda: client.lock("y", wait_timeout_seconds=-1)))
fact("LDLMError: " + failure(exceptions.LDLMError, lambda: client.lock("y", lock_timeout_seconds=-1)))
fact("LDLMError: " + failure(exceptions.LDLMError, lambda: lock.renew(0)))
gone = exceptions.LockDoesNotExistError
fact("LockDoesNotExistError: " + failure(gone, lambda: client.unlock("nobody", lock.key)))
wrong = exceptions.InvalidLockKeyError
fact("InvalidLockKeyError: " + failure(wrong, lambda: other.unlock("y", plain.key)))
unknown = exceptions.LockDoesNotExistOrInvalidKeyError
fact("LockDoesNotExistOrInvalidKeyError: " + failure(unknown, lambda: other.renew("y", plain.key, 600)))
failure(unknown, lambda: client.renew("nobody", lock.key, 600))
failure(unknown, lambda: plain.renew(600))
fact("LockSizeMismatchError: " + failure(exceptions.LockSizeMismatchError, lambda: client.lock("y", size=2)))
lock.unlock()
failure(wrong, lock.unlock)

one, two = Client(ADDRESS), Client(ADDRESS)
assert one.lock("shared") and two.lock("of the other") and not two.try_lock("shared")
one.close()
assert not two.try_lock("shared") and not other.try_lock("shared")
two.close()
client.close()
assert other.lock("shared") and other.lock("of the other")
fact("clients of one address in one process are one session, which ends with the last of them")
other.close()

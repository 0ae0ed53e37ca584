"""Holds locks over a restart of the server, and uses their old keys afterwards."""

from facts import ADDRESS, fact, until_told
from ldlm import Client

# Less than the usual 5 s between its tries, so that the test is soon over.
client = Client(ADDRESS, retry_delay_seconds=1)
held = client.lock("held")
timed = client.lock("timed", lock_timeout_seconds=600)
fact("holds")
until_told()
timed.renew(600)
fact("renewed by its old key")
timed.unlock()
held.unlock()
fact("unlocked by their old keys")

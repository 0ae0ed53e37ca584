"""Waits for a lock over a restart of the server: the library asks again by itself."""

from facts import ADDRESS, fact
from ldlm import Client

client = Client(ADDRESS, retry_delay_seconds=1)
with client.lock_context("held") as lock:
    assert lock
    fact("got it")

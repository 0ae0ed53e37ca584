"""An ordinary worker, which locks and unlocks until it is killed: one name of its own, and one that all want."""

import sys

from facts import ADDRESS, fact
from ldlm import Client

client, own = Client(ADDRESS), sys.argv[2]
for turn in range(1_000_000):
    with client.lock_context(own):
        with client.try_lock_context("wanted by all"):
            pass
    if turn == 3:
        fact("looping")

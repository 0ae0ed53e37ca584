"""Takes one lock when its turn comes, and gives it back when told to."""

import sys

from facts import ADDRESS, fact, until_told
from ldlm import Client

lock = Client(ADDRESS).lock(sys.argv[2])
assert lock
fact("locked")
until_told()
lock.unlock()
fact("unlocked")

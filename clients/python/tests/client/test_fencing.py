"""Fencing: a holder that wakes up late is refused by what it wants to write to."""

from __future__ import annotations

import unittest

from server import Server, holders, until
from tenure import Client
from tenure.fencing import Fence, StaleToken


class Fencing(unittest.TestCase):
    def test_a_lower_token_than_one_before_is_stale(self) -> None:
        fence = Fence()
        for token in (3, 3, 7, 7):
            fence.check("report", token)
        with self.assertRaises(StaleToken) as refused:
            fence.check("report", 6)
        error = refused.exception
        self.assertEqual((error.name, error.token, error.highest), ("report", 6, 7))
        self.assertEqual((fence.highest("report"), fence.highest("other")), (7, None))
        fence.check("other", 1)

    def test_what_was_seen_can_outlive_the_fence(self) -> None:
        stored: dict[str, int] = {}
        Fence(stored).check("report", 7)
        with self.assertRaises(StaleToken):
            Fence(stored).check("report", 6)

    def test_a_paused_holder_that_wakes_up_late_is_refused(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        fence, written = Fence(), []

        def write(text: str, token: int) -> None:
            fence.check("report", token)
            written.append(text)

        paused = Client(server.address, holder="paused")
        late = paused.acquire("report", ttl=0.3)
        write("first", late.token)
        # Nothing it says gets through from now on, as if it were stopped.
        server.door.leads_to(None)
        server.door.cut()
        with Client(server.grpc, holder="next") as other, other.hold("report") as h:
            until("the next one holds", lambda: holders(other, "report") == ["next"])
            write("second", h.token)
            with self.assertRaises(StaleToken):
                write("late", late.token)
        self.assertEqual(written, ["first", "second"])
        server.door.leads_to(server.grpc)
        paused.close()

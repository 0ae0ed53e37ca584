"""Forking: a child has a session of its own, and nothing it does touches what its parent holds."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
import unittest
from collections.abc import Callable

from server import Server, holders, name, until
from tenure import AsyncClient, Client, HoldLost, LostReason, wire

SERVER: Server


def setUpModule() -> None:
    global SERVER
    SERVER = Server()


def tearDownModule() -> None:
    SERVER.close()


def in_child(work: Callable[[], object]) -> int:
    """Runs it in a process that is forked from this one, and says how that ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@unittest.skipUnless(hasattr(os, "fork"), "this system does not fork")
class Forking(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client(SERVER.grpc)
        self.addCleanup(self.client.close)

    def test_a_child_holds_in_a_session_of_its_own(self) -> None:
        mine, theirs = name("mine"), name("theirs")
        with self.client.hold(mine) as h:

            def work() -> None:
                with self.client.hold(theirs):
                    assert holders(self.client, theirs) == [self.client.holder], holders(self.client, theirs)
                    assert str(os.getpid()) in self.client.holder, self.client.holder
                    sessions = self.client.api.list_sessions(wire.ListSessionsRequest()).sessions
                    assert len([it for it in sessions if it.holder.endswith(f":{os.getpid()}")]) == 1
                self.client.close()

            self.assertEqual(in_child(work), 0)
            h.check()
            self.assertEqual(holders(self.client, mine), [self.client.holder])
            self.assertEqual(holders(self.client, theirs), [])

    def test_a_child_that_leaves_its_parents_block_releases_nothing(self) -> None:
        pool = name("mine")
        with self.client.hold(pool) as h:
            h.on_lost(lambda loss: None)
            child = os.fork()
            if child == 0:
                try:
                    assert h.lost.reason is LostReason.FORKED
                    try:
                        h.check()
                    except HoldLost as error:
                        assert error.reason is LostReason.FORKED
                    else:
                        os._exit(2)
                    h.release()
                    h.__exit__(None, None, None)
                    del h
                    os._exit(0)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            h.check()
            self.assertEqual(holders(self.client, pool), [self.client.holder])

    def test_the_parents_connection_does_not_live_in_the_child(self) -> None:
        """Otherwise the server would take the session of a parent that was killed for alive as long as a child is."""
        pool = name("mine")
        script = f"""
import os, sys, time
from tenure import Client
client = Client({SERVER.grpc!r}, holder="parent", session_grace=0.1)
hold = client.acquire({pool!r}, until_session_ends=True)
child = os.fork()
if child == 0:
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), 9)
"""
        parent = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with parent:
            assert parent.stdout is not None and parent.stdin is not None
            child = int(parent.stdout.readline())
            until("the parent's hold is over", lambda: holders(self.client, pool) == [])
            os.kill(child, 0)
            parent.stdin.close()

    def test_a_client_that_was_made_before_the_fork_serves_both(self) -> None:
        client = AsyncClient(SERVER.grpc)

        def work() -> None:
            import asyncio

            async def hold() -> None:
                async with client, client.hold(name("any")):
                    pass

            asyncio.run(hold())

        self.assertEqual([in_child(work), in_child(work)], [0, 0])
        work()

    def test_a_process_that_ends_without_a_word_ends_its_session(self) -> None:
        pool = name("mine")
        script = f"""
from tenure import Client
client = Client({SERVER.grpc!r}, holder="short", session_grace=3600)
hold = client.acquire({pool!r}, ttl=3600)
"""
        subprocess.run([sys.executable, "-c", script], check=True)
        self.assertEqual(holders(self.client, pool), [])

"""Other versions: a newer server is understood as far as that goes, an older one is told apart from a broken one."""

from __future__ import annotations

import unittest

from other_versions import OtherVersion, newer
from server import PATIENCE, Server, name
from tenure import Busy, Client, ForeignServer, HoldLost, LostReason, Refused, __version__, wire
from tenure.errors import refused

SERVER: Server


def setUpModule() -> None:
    global SERVER
    SERVER = Server()


def tearDownModule() -> None:
    SERVER.close()


class Newer(unittest.TestCase):
    def test_what_a_newer_server_says_beyond_what_is_known_is_ignored(self) -> None:
        future = OtherVersion(SERVER.grpc, "9.9.9", change=newer)
        self.addCleanup(future.close)
        pool = name("gpus")
        with Client(future.address, holder="alice") as client, Client(SERVER.grpc, holder="bob") as operator:
            client.set_pool(pool, resources=["a", "b"])
            with client.hold(pool, select="a") as h, self.assertRaises(Busy) as busy:
                self.assertEqual(h.resource.name, "a")
                client.acquire(pool, select="a", wait=0)
            self.assertEqual(busy.exception.holders[0].holder, "alice")
            for event in client.watch(pool=pool, after=0):
                if event.kind == wire.EVENT_KIND_ENDED:
                    break
            with self.assertRaises(HoldLost), client.hold(pool) as h:
                request = wire.ForceReleaseRequest(pool=pool, holder="alice", token=h.token, reason="moving house")
                operator.api.force_release(request)
                self.assertTrue(h.lost.wait(PATIENCE))
                self.assertIs(h.lost.reason, LostReason.FORCED)

    def test_a_loss_of_an_unknown_kind_is_a_loss(self) -> None:
        def unknown_end(call: str, message: bytes) -> list[bytes]:
            if call != "Session":
                return [message]
            heard = wire.ServerMessage.FromString(message)
            for answer in heard.answers:
                if answer.HasField("lost"):
                    answer.lost.how = 99  # type: ignore[assignment]
            return [heard.SerializeToString()]

        future = OtherVersion(SERVER.grpc, "9.9.9", change=unknown_end)
        self.addCleanup(future.close)
        pool = name("db")
        with Client(future.address, holder="alice") as client, Client(SERVER.grpc) as operator:
            hold = client.acquire(pool)
            request = wire.ForceReleaseRequest(pool=pool, holder="alice", token=hold.token, reason="moving house")
            operator.api.force_release(request)
            self.assertTrue(hold.lost.wait(PATIENCE))
            self.assertIs(hold.lost.reason, LostReason.OTHER)

    def test_a_refusal_with_an_unknown_code_is_a_refusal(self) -> None:
        error = refused(wire.Refusal(code="out_of_tune", message="the piano is out of tune", retry=True))
        self.assertIs(type(error), Refused)
        self.assertEqual((error.code, str(error), error.retry), ("out_of_tune", "the piano is out of tune", True))


class Older(unittest.TestCase):
    def test_a_server_that_is_too_old_is_told_so_with_both_versions(self) -> None:
        past = OtherVersion(SERVER.grpc, "0.0.1", unknown=frozenset({"Session", "SetPool"}), change=lambda _, it: [it])
        self.addCleanup(past.close)
        client = Client(past.address)
        for ask in (client.connect, lambda: client.set_pool("db", units=1)):
            with self.subTest(ask), self.assertRaises(ForeignServer) as failed:
                ask()
            self.assertIn("it has version 0.0.1", str(failed.exception))
            self.assertIn(f"this client has version {__version__}", str(failed.exception))
            self.assertEqual((failed.exception.code, failed.exception.retry), ("foreign_server", False))
        self.assertEqual(list(client.api.list_pools(wire.ListPoolsRequest(prefix="nobody's")).pools), [])

"""Reconnecting: over lost connections and restarts of the server nothing is lost, and nothing is done twice."""

from __future__ import annotations

import threading
import unittest

from server import PATIENCE, Server, holders, holds, in_thread, until, waiters
from tenure import Client, ForeignServer, LostReason, TenureError, Unreachable, Unusable, WaitTimedOut, wire


class Reconnecting(unittest.TestCase):
    def setUp(self) -> None:
        self.server = Server(durable=True)
        self.addCleanup(self.server.close)
        self.client = Client(self.server.address, holder="alice")
        self.addCleanup(self.client.close)

    def looker(self) -> Client:
        """Somebody who is not behind the door."""
        looker = Client(self.server.grpc, holder="looker")
        self.addCleanup(looker.close)
        return looker

    def test_holds_survive_a_restart_of_the_server(self) -> None:
        self.client.set_pool("gpus", resources=["a", "b"])
        with (
            self.client.hold("leased", ttl=30) as leased,
            self.client.elect("leader") as leader,
            self.client.hold("gpus", select="b") as gpu,
        ):
            self.server.restart()
            looker = self.looker()
            until("it is back", lambda: looker.api.list_sessions(wire.ListSessionsRequest()).sessions[0].attached)
            self.client.rate("ping", limit=1000, per=1)
            for hold in (leased, leader, gpu):
                hold.check()
            self.assertEqual(holders(looker, "leased"), ["alice"])
            self.assertEqual([hold.token for hold in holds(looker, "leader")], [leader.token])
        for pool in ("leased", "leader", "gpus"):
            self.assertEqual(holders(looker, pool), [])

    def test_holds_and_waits_survive_a_server_that_stops_in_good_order(self) -> None:
        with self.client.hold("db") as h, Client(self.server.address, holder="bob") as bob:
            waiting = in_thread(lambda: bob.acquire("db").release())
            waiting.__enter__()
            until("bob waits", lambda: waiters(self.client, "db") == ["bob"])
            self.server.restart(politely=True)
            looker = self.looker()
            until("bob waits again", lambda: waiters(looker, "db") == ["bob"])
            h.check()
            h.release()
            waiting.__exit__(None, None, None)

    def test_a_place_in_the_queue_survives_a_restart_of_the_server(self) -> None:
        tokens: list[int] = []

        def wait() -> None:
            with bob.hold("db") as h:
                tokens.append(h.token)

        with Client(self.server.address, holder="bob") as bob:
            hold = self.client.acquire("db")
            with in_thread(wait):
                until("bob waits", lambda: waiters(self.client, "db") == ["bob"])
                self.server.restart()
                after = self.looker()
                until("bob waits again", lambda: waiters(after, "db") == ["bob"])
                hold.release()
        self.assertEqual(len(tokens), 1)

    def test_a_release_that_was_cut_off_is_done_once_the_server_is_back(self) -> None:
        with self.client.hold("db", ttl=3600):
            self.server.door.leads_to(None)
            self.server.door.cut()
            until("it is noticed", lambda: self.client.trouble is not None)
            threading.Timer(0.3, self.server.door.leads_to, [self.server.grpc]).start()
        self.assertEqual(holders(self.looker(), "db"), [])

    def test_an_acquire_that_was_cut_off_is_made_once(self) -> None:
        looker = self.looker()
        self.client.connect()
        for _ in range(10):
            self.server.door.cut()
            with self.client.hold("permits", size=100):
                self.assertEqual(len(holders(looker, "permits")), 1)

    def test_a_watcher_goes_on_after_a_lost_connection_without_a_gap(self) -> None:
        seen: list[int] = []
        with self.client.hold("db"):
            pass
        for event in self.client.watch(pool="db", after=0):
            seen.append(event.seq)
            if len(seen) >= 7:
                break
            if len(seen) in (1, 4):
                self.server.door.cut()
            if len(seen) in (3, 5):
                with Client(self.server.grpc) as other, other.hold("db"):
                    pass

        history = self.looker().api.history(wire.HistoryRequest(pool="db"))
        self.assertEqual(seen, [event.seq for event in history.events][:7])

    def test_a_session_that_ended_meanwhile_loses_what_lived_as_long_as_it(self) -> None:
        client = Client(self.server.address, session_grace=0.2)
        self.addCleanup(client.close)
        leader, leased = client.acquire("leader", until_session_ends=True), client.acquire("db", ttl=3600)
        self.server.door.leads_to(None)
        self.server.door.cut()
        looker = self.looker()
        until("its session is over", lambda: holders(looker, "leader") == [])
        self.server.door.leads_to(self.server.grpc)
        self.assertTrue(leader.lost.wait(PATIENCE))
        self.assertIn(leader.lost.reason, (LostReason.SESSION_ENDED, LostReason.UNREACHABLE))
        with client.hold("another"):
            leased.check()
        leased.release()

    def test_a_wait_ends_in_time_though_the_server_is_away(self) -> None:
        self.client.connect()
        self.server.door.leads_to(None)
        self.server.door.cut()
        with self.assertRaises((Unreachable, WaitTimedOut)) as failed:
            self.client.acquire("db", wait=0.3)
        self.assertTrue(failed.exception.retry)
        self.server.door.leads_to(self.server.grpc)
        looker = self.looker()
        with self.client.hold("other"):
            self.assertEqual((holders(looker, "db"), waiters(looker, "db")), ([], []))


class Connecting(unittest.TestCase):
    def test_nobody_there_is_said_at_once(self) -> None:
        server = Server()
        address = server.grpc
        server.close()
        with self.assertRaises(Unreachable) as failed:
            Client(address).connect()
        self.assertIn("nothing listens there", str(failed.exception))
        self.assertIsInstance(failed.exception, ConnectionError)

    def test_a_client_whose_first_attempt_failed_can_try_again(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        server.door.leads_to(None)
        client = Client(server.address)
        with self.assertRaises(TenureError):
            client.connect()
        server.door.leads_to(server.grpc)
        with client, client.hold("db"):
            pass

    def test_the_wrong_port_is_said_to_be_one(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        with self.assertRaises(ForeignServer) as failed:
            Client(server.http.removeprefix("http://")).connect()
        self.assertIn("3144", str(failed.exception))

    def test_what_is_no_address_is_said_to_be_none(self) -> None:
        for address in ("", "host:", "host:0", "host:99999", "ho st:1", "a/b:1", "https://", "ftp://host:1", "[::1", "[::1]x"):
            with self.subTest(address), self.assertRaises(Unusable):
                Client(address)

"""Losing: what a holder is told, and that nothing it does itself makes it lose."""

from __future__ import annotations

import asyncio
import threading
import time
import unittest

from server import PATIENCE, Server, in_thread, name, until
from tenure import AsyncClient, Client, HoldLoss, HoldLost, LostReason, wire

SERVER: Server


def setUpModule() -> None:
    global SERVER
    SERVER = Server()


def tearDownModule() -> None:
    SERVER.close()


def force(client: Client, pool: str, holder: str, token: int) -> None:
    client.api.force_release(wire.ForceReleaseRequest(pool=pool, holder=holder, token=token, reason="moving house"))


def kinds(client: Client, pool: str) -> list[str]:
    """What happened to holds of the pool."""
    told = {
        (wire.EVENT_KIND_GRANTED, wire.HOW_UNSPECIFIED): "granted",
        (wire.EVENT_KIND_RENEWED, wire.HOW_UNSPECIFIED): "renewed",
        (wire.EVENT_KIND_ENDED, wire.HOW_RELEASED): "released",
        (wire.EVENT_KIND_ENDED, wire.HOW_EXPIRED): "expired",
    }
    events = client.api.history(wire.HistoryRequest(pool=pool)).events
    return [told[event.kind, event.how] for event in events if (event.kind, event.how) in told]


class Losing(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client(SERVER.grpc, holder="alice")
        self.operator = Client(SERVER.grpc, holder="operator")
        self.addCleanup(self.client.close)
        self.addCleanup(self.operator.close)

    def test_holds_are_renewed_while_a_thread_is_blocked_one_computes_and_a_loop_is_blocked(self) -> None:
        """For longer than their leases last, all at the same time: it takes long enough once."""
        lease, pools = 8.0, [name("blocked"), name("computing"), name("loop")]
        end = time.monotonic() + 1.5 * lease

        def blocked() -> None:
            with self.client.hold(pools[0], ttl=lease) as h:
                time.sleep(end - time.monotonic())
                h.check()

        def computing() -> None:
            with self.client.hold(pools[1], ttl=lease) as h:
                while time.monotonic() < end:
                    sum(range(1_000))
                h.check()

        async def loop() -> None:
            async with AsyncClient(SERVER.grpc) as client, client.hold(pools[2], ttl=lease) as h:
                time.sleep(end - time.monotonic())
                h.check()
                leader = await client.leader(pools[2])
                self.assertEqual(leader and leader.token, h.token)

        with in_thread(blocked), in_thread(computing), in_thread(lambda: asyncio.run(loop())):
            pass
        for pool in pools:
            self.assertEqual(kinds(self.operator, pool)[0], "granted")
            self.assertIn("renewed", kinds(self.operator, pool))
            self.assertEqual(kinds(self.operator, pool)[-1], "released")

    def test_an_event_and_a_callback_tell_of_a_hold_that_an_operator_ended(self) -> None:
        pool, told = name("db"), threading.Event()
        losses: list[HoldLoss] = []

        def lost(loss: HoldLoss) -> None:
            losses.append(loss)
            told.set()

        with self.assertRaises(HoldLost) as refused, self.client.hold(pool, on_lost=lost) as h:
            force(self.operator, pool, "alice", h.token)
            self.assertTrue(h.lost.wait(PATIENCE))
            self.assertEqual((h.lost.reason, h.lost.note), (LostReason.FORCED, "moving house"))
            with self.assertRaises(HoldLost):
                h.check()
        self.assertTrue(told.wait(PATIENCE))
        self.assertEqual(losses, [HoldLoss(pool, h.token, LostReason.FORCED, "moving house")])
        error = refused.exception
        self.assertEqual((error.code, error.reason, error.note), ("not_held", LostReason.FORCED, "moving house"))

    def test_a_callback_that_takes_its_time_delays_no_renewal(self) -> None:
        pool, other, blocked = name("db"), name("other"), threading.Event()
        lost = self.client.acquire(pool, on_lost=lambda _: blocked.wait(PATIENCE))
        with self.client.hold(other, ttl=6):
            force(self.operator, pool, "alice", lost.token)
            self.assertTrue(lost.lost.wait(PATIENCE))
            until("it is renewed twice", lambda: kinds(self.operator, other).count("renewed") > 1)
        blocked.set()

    def test_a_callback_is_not_told_of_a_release(self) -> None:
        losses: list[HoldLoss] = []
        with self.client.hold(name("db"), on_lost=losses.append):
            pass
        self.client.leader("nobody")
        self.assertEqual(losses, [])

    def test_the_failure_of_a_block_is_not_hidden_by_the_loss(self) -> None:
        pool = name("db")
        with self.assertRaisesRegex(KeyError, "mine"), self.client.hold(pool) as h:
            force(self.operator, pool, "alice", h.token)
            self.assertTrue(h.lost.wait(PATIENCE))
            raise KeyError("mine")

    def test_a_hold_whose_server_is_gone_is_lost_when_it_is_no_longer_certain(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        client = Client(server.address)
        hold = client.acquire("db", ttl=1)
        server.door.leads_to(None)
        server.door.cut()
        self.assertTrue(hold.lost.wait(PATIENCE))
        self.assertIs(hold.lost.reason, LostReason.UNREACHABLE)
        until("the trouble is told", lambda: client.trouble is not None)
        server.door.leads_to(server.grpc)
        client.close()


class LosingInTasks(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        asyncio.get_running_loop().slow_callback_duration = PATIENCE
        self.client = await AsyncClient(SERVER.grpc, holder="alice").connect()
        self.addAsyncCleanup(self.client.close)

    async def force(self, pool: str, token: int) -> None:
        request = wire.ForceReleaseRequest(pool=pool, holder="alice", token=token, reason="moving house")
        await self.client.api.force_release(request)

    async def test_a_block_that_asked_for_it_is_interrupted(self) -> None:
        pool, reached = name("db"), []
        with self.assertRaises(HoldLost) as refused:
            async with self.client.hold(pool, interrupt=True) as h:
                forced = asyncio.create_task(self.force(pool, h.token))
                reached.append("before")
                await asyncio.Event().wait()
                reached.append("after")
        self.assertEqual((refused.exception.reason, reached), (LostReason.FORCED, ["before"]))
        await forced
        # The task goes on as if nobody had cancelled it.
        await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.sleep(0), PATIENCE)

    async def test_a_block_that_did_not_ask_for_it_goes_on_and_is_told_at_its_end(self) -> None:
        pool = name("db")
        with self.assertRaises(HoldLost):
            async with self.client.hold(pool) as h:
                await self.force(pool, h.token)
                self.assertIs(await asyncio.wait_for(h.lost.wait(), PATIENCE), LostReason.FORCED)
                await asyncio.sleep(0)

    async def test_a_cancelled_block_is_cancelled_though_its_hold_was_lost_too(self) -> None:
        pool, entered = name("db"), asyncio.Event()

        async def work() -> None:
            async with self.client.hold(pool):
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.wait_for(entered.wait(), PATIENCE)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertIsNone(await self.client.leader(pool))

    async def test_a_callback_is_called_on_the_loop(self) -> None:
        pool, here = name("db"), threading.get_ident()
        told: asyncio.Future[tuple[int, LostReason]] = asyncio.get_running_loop().create_future()
        hold = await self.client.acquire(pool, on_lost=lambda loss: told.set_result((threading.get_ident(), loss.reason)))
        await self.force(pool, hold.token)
        self.assertEqual(await asyncio.wait_for(told, PATIENCE), (here, LostReason.FORCED))

"""Holding: mutexes, semaphores, resources, rate windows, elections and watching, with and without asyncio."""

from __future__ import annotations

import asyncio
import gc
import threading
import unittest
from datetime import timedelta
from typing import Any

from server import PATIENCE, Server, holders, in_thread, name, until, waiters
from tenure import AsyncClient, Busy, Client, ClosedError, LostReason, Refused, Resource, WaitTimedOut, wire

SERVER: Server


def setUpModule() -> None:
    global SERVER
    SERVER = Server()


def tearDownModule() -> None:
    SERVER.close()


class Threads(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client(SERVER.grpc, holder="alice")
        self.other = Client(SERVER.grpc, holder="bob", meta={"job": "7"})
        self.addCleanup(self.client.close)
        self.addCleanup(self.other.close)

    def test_one_holds_and_the_other_waits_for_its_turn(self) -> None:
        pool = name("db")
        tokens: list[int] = []

        def wait() -> None:
            with self.other.hold(pool) as h:
                tokens.append(h.token)

        with self.client.hold(pool, ttl=30) as h:
            self.assertEqual((h.pool, h.units, h.namespace), (pool, 1, "default"))
            self.assertFalse(h.lost.is_set())
            self.assertGreater(h.certain_for or 0, 0)
            self.assertEqual(holders(self.client, pool), ["alice"])
            waiting = in_thread(wait)
            waiting.__enter__()
            until("bob waits", lambda: waiters(self.client, pool) == ["bob"])
            tokens.append(h.token)
        waiting.__exit__(None, None, None)
        self.assertEqual(len(tokens), 2)
        self.assertLess(tokens[0], tokens[1])
        self.assertIs(h.lost.reason, LostReason.LET_GO)
        self.assertEqual(holders(self.client, pool), [])

    def test_a_try_does_not_wait_and_says_who_holds(self) -> None:
        pool = name("db")
        with self.client.try_hold(pool) as h, self.assertRaises(Busy) as refused:
            with self.other.try_hold(pool):
                self.fail("there is no room")
        error = refused.exception
        self.assertEqual((error.code, error.retry, error.may_have_happened), ("busy", True, False))
        self.assertEqual([(hold.holder, hold.token) for hold in error.holders], [("alice", h.token)])
        self.assertIn("alice", str(error))
        self.assertTrue(error.advice)

    def test_a_wait_that_is_over_is_told_so(self) -> None:
        pool = name("db")
        places: list[int] = []
        with self.client.hold(pool), self.assertRaises(WaitTimedOut) as refused:
            self.other.acquire(pool, wait=timedelta(milliseconds=50), on_queued=places.append)
        self.assertIsInstance(refused.exception, TimeoutError)
        until("the place was told", lambda: places == [1])
        self.assertEqual(waiters(self.client, pool), [])

    def test_a_semaphore_is_as_large_as_was_said(self) -> None:
        pool = name("permits")
        with self.client.hold(pool, size=3, units=2), self.other.hold(pool, size=3), self.assertRaises(Busy):
            self.client.acquire(pool, size=3, wait=0)
        with self.client.hold(pool, all=True) as h, self.assertRaises(Refused) as refused:
            self.assertEqual(h.units, 3)
            self.other.acquire(pool, size=4)
        self.assertEqual((refused.exception.code, refused.exception.refusal.size), ("size_mismatch", 3))

    def test_resources_are_chosen_by_their_labels(self) -> None:
        pool = name("gpus")
        small, large = Resource("a", {"mem": "40"}), Resource("b", {"mem": "80"}, {"port": "99"})
        self.assertTrue(self.client.set_pool(pool, resources=[small, large]))
        self.assertFalse(self.client.set_pool(pool, resources=[small, large], placement="least_recently_used"))
        with self.client.hold(pool, select="mem >= 80") as h:
            self.assertEqual((h.resource, h.resources), (large, [large]))
            with self.other.hold(pool) as rest:
                self.assertEqual(rest.resource.name, "a")
        with self.client.hold(pool, units=2) as both, self.assertRaises(LookupError):
            self.assertEqual({resource.name for resource in both.resources}, {"a", "b"})
            _ = both.resource

    def test_a_rate_window_gives_so_many_places_and_no_more(self) -> None:
        pool = name("api")
        first, second = (self.client.rate(pool, limit=2, per=3600) for _ in range(2))
        self.assertLess(first.token, second.token)
        with self.assertRaises(Busy):
            self.other.rate(pool, limit=2, per=3600, wait=0)

    def test_a_place_in_a_rate_window_is_waited_for(self) -> None:
        pool = name("api")
        places = [self.client.rate(pool, limit=1, per=0.05) for _ in range(3)]
        self.assertEqual(sorted({place.token for place in places}), [place.token for place in places])

    def test_who_is_elected_leads_until_it_is_done(self) -> None:
        pool = name("scheduler")
        self.assertIsNone(self.client.leader(pool))
        with self.other.elect(pool) as term:
            leader = self.client.leader(pool)
            assert leader is not None
            self.assertEqual((leader.holder, leader.token, dict(leader.meta)), ("bob", term.token, {"job": "7"}))
            self.assertEqual(leader.lifetime, wire.LIFETIME_SESSION)
        self.assertIsNone(self.client.leader(pool))

    def test_a_watcher_is_told_what_happens_and_can_go_back(self) -> None:
        pool = name("db")
        with self.client.hold(pool):
            pass
        kinds = []
        events = self.other.watch(pool=pool, after=0)
        for event in events:
            kinds.append(wire.EventKind.Name(event.kind).removeprefix("EVENT_KIND_"))
            if kinds[-1] == "ENDED":
                self.assertEqual((event.holder, event.how), ("alice", wire.HOW_RELEASED))
                break
        events.close()
        self.assertEqual(kinds, ["POOL_SET", "GRANTED", "ENDED"])

    def test_a_connection_does_not_wear_out_with_what_was_read_and_what_was_not(self) -> None:
        """Each answer has more than 128 KiB, and all together more than a connection lets through that nobody reads."""
        prefix = name("long")
        for number in range(256):
            self.client.set_pool(f"{prefix} {number} ".ljust(512, "x"), units=1)
        for _ in range(48):
            pools = self.client.api.list_pools(wire.ListPoolsRequest(prefix=prefix, limit=256)).pools
            self.assertEqual(len(pools), 256)
        for _ in range(48):
            for event in self.client.watch(after=0):
                self.assertGreater(event.seq, 0)
                break

    def test_a_hold_without_a_block_is_released_by_its_end_or_by_being_forgotten(self) -> None:
        pool = name("db")
        hold = self.client.acquire(pool)
        hold.release()
        hold.release()
        self.assertEqual(holders(self.client, pool), [])
        hold = self.client.acquire(pool)
        self.assertEqual(holders(self.client, pool), ["alice"])
        del hold
        gc.collect()
        until("it is released", lambda: holders(self.client, pool) == [])

    def test_a_hold_that_is_kept_goes_on_without_its_client(self) -> None:
        pool = name("maintenance")
        with Client(SERVER.grpc, holder="carol") as carol:
            key = carol.acquire(pool, kept=True).keep()
        self.assertEqual(holders(self.client, pool), ["carol"])
        self.client.api.release(wire.ReleaseRequest(key=key))
        self.assertEqual(holders(self.client, pool), [])

    def test_the_same_request_id_gives_the_same_hold(self) -> None:
        pool, request = name("db"), name("request")
        with self.client.hold(pool, request_id=request) as h, self.client.hold(pool, request_id=request) as again:
            self.assertEqual((h.token, h.key), (again.token, again.key))
            again.keep()

    def test_many_threads_share_one_client(self) -> None:
        pool, inside, most = name("permits"), threading.Semaphore(3), 3
        seen: list[bool] = []

        def work() -> None:
            for _ in range(5):
                with self.client.hold(pool, size=most):
                    entered = inside.acquire(blocking=False)
                    seen.append(entered)
                    if entered:
                        inside.release()

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(seen, [True] * 40)

    def test_a_closed_client_lets_go_and_does_nothing_more(self) -> None:
        pool = name("db")
        carol = Client(SERVER.grpc, holder="carol").connect()
        hold = carol.acquire(pool)
        waiting = in_thread(lambda: self.assertRaises(ClosedError, carol.acquire, pool))
        waiting.__enter__()
        until("carol waits", lambda: waiters(self.client, pool) == ["carol"])
        carol.close()
        waiting.__exit__(None, None, None)
        self.assertIs(hold.lost.reason, LostReason.CLOSED)
        hold.release()
        self.assertEqual((holders(self.client, pool), waiters(self.client, pool)), ([], []))
        with self.assertRaises(ClosedError):
            carol.acquire(pool)

    def test_a_client_that_nobody_has_any_more_lets_go(self) -> None:
        pool = name("db")
        carol = Client(SERVER.grpc, holder="carol")
        hold = carol.acquire(pool)
        del carol
        gc.collect()
        self.assertEqual(holders(self.client, pool), ["carol"], "what it holds keeps the client")
        del hold
        gc.collect()
        until("it is released", lambda: holders(self.client, pool) == [])

    def test_namespaces_keep_teams_apart(self) -> None:
        pool = name("db")
        with Client(SERVER.grpc, namespace="team-b") as theirs, self.client.hold(pool), theirs.try_hold(pool) as h:
            self.assertEqual(h.namespace, "team-b")

    def test_what_contradicts_itself_is_not_asked(self) -> None:
        contradictions: list[dict[str, Any]] = [
            {"ttl": 3, "kept": True},
            {"kept": True, "owner": "x"},
            {"units": 2, "all": True},
        ]
        for request in contradictions:
            with self.subTest(request), self.assertRaises(ValueError):
                self.client.hold("db", **request)
        misspelt: dict[str, Any] = {"tll": 3}
        with self.assertRaises(TypeError):
            self.client.hold("db", **misspelt)
        with self.assertRaises(Refused) as refused:
            self.client.acquire("db", meta={"x" * 10_000: "y" * 100_000})
        self.assertEqual(refused.exception.code, "invalid_argument")

    def test_a_holding_is_for_one_use(self) -> None:
        holding = self.client.hold(name("db"))
        with holding:
            pass
        with self.assertRaises(RuntimeError), holding:
            pass


class Tasks(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        # A slow machine is nothing to report.
        asyncio.get_running_loop().slow_callback_duration = PATIENCE
        self.client = await AsyncClient(SERVER.grpc, holder="alice").connect()
        self.addAsyncCleanup(self.client.close)
        self.looker = Client(SERVER.grpc)
        self.addAsyncCleanup(asyncio.to_thread, self.looker.close)

    async def holders(self, pool: str) -> list[str]:
        listed = await self.client.api.list_holds(wire.ListHoldsRequest(pool=pool))
        return [hold.holder for hold in listed.holds]

    async def until_waiting(self, pool: str, count: int) -> None:
        await asyncio.to_thread(until, "it waits", lambda: len(waiters(self.looker, pool)) == count)

    async def test_tasks_take_turns(self) -> None:
        pool, inside = name("db"), 0

        async def work() -> None:
            nonlocal inside
            async with self.client.hold(pool):
                inside += 1
                self.assertEqual(inside, 1)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(work() for _ in range(20)))

    async def test_a_task_that_is_cancelled_while_it_waits_leaves_the_queue(self) -> None:
        pool = name("db")
        async with self.client.hold(pool):
            task = asyncio.create_task(self.client.acquire(pool))
            await self.until_waiting(pool, 1)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await self.until_waiting(pool, 0)
        self.assertEqual(await self.holders(pool), [])

    async def test_a_task_that_is_cancelled_when_it_is_granted_holds_nothing(self) -> None:
        pool = name("db")
        for delay in range(20):
            task = asyncio.create_task(self.client.acquire(pool))
            for _ in range(delay):
                await asyncio.sleep(0.0005)
            task.cancel()
            try:
                await (await task).release()
            except asyncio.CancelledError:
                pass
            del task
        gc.collect()
        async with self.client.hold(pool):
            self.assertEqual(await self.holders(pool), ["alice"])

    async def test_a_block_that_fails_gives_back_and_fails(self) -> None:
        pool = name("db")
        with self.assertRaisesRegex(KeyError, "mine"):
            async with self.client.hold(pool):
                raise KeyError("mine")
        self.assertEqual(await self.holders(pool), [])

    async def test_a_client_serves_several_loops(self) -> None:
        pool = name("db")

        async def elsewhere() -> int:
            async with self.client.hold(pool) as h:
                return h.token

        hold = await self.client.acquire(pool)
        there = asyncio.create_task(asyncio.to_thread(asyncio.run, elsewhere()))
        await self.until_waiting(pool, 1)
        await hold.release()
        self.assertGreater(await there, hold.token)

    async def test_watching_rates_and_elections_are_awaited(self) -> None:
        pool = name("api")
        place = await self.client.rate(pool, limit=1, per=3600)
        with self.assertRaises(Busy):
            await self.client.rate(pool, limit=1, per=3600, wait=0)
        async for event in self.client.watch(pool=pool, after=0):
            if event.kind == wire.EVENT_KIND_GRANTED:
                self.assertEqual(event.token, place.token)
                break
        async with self.client.elect(name("leader")) as term:
            leader = await self.client.leader(term.pool)
            self.assertEqual(leader and leader.token, term.token)

    async def test_a_thread_of_an_event_loop_is_not_blocked(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "AsyncClient"):
            self.looker.acquire("db")

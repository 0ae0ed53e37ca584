"""Several pools at once, waits that could never end, resources that have to be cleaned, and turns."""

from __future__ import annotations

import asyncio
import unittest
from typing import Any

from server import PATIENCE, Server, holders, in_thread, name, until, waiters
from tenure import AsyncClient, Busy, Client, Deadlock, HoldLost, LostReason, Part, Refused, Resource, WaitTimedOut, wire

SERVER: Server


def setUpModule() -> None:
    global SERVER
    SERVER = Server()


def tearDownModule() -> None:
    SERVER.close()


class Sets(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client(SERVER.grpc, holder="alice")
        self.other = Client(SERVER.grpc, holder="bob")
        self.addCleanup(self.client.close)
        self.addCleanup(self.other.close)

    def test_a_set_is_one_hold_of_all_its_pools(self) -> None:
        db, gpus, calls = name("db"), name("gpus"), name("calls")
        machines = [Resource("a", {"mem": "80"}), Resource("b", {"mem": "40"}), Resource("c", {"mem": "96"})]
        self.client.set_pool(gpus, resources=machines)
        self.client.set_pool(calls, units=10, window=3600)
        with self.client.hold(db, also=[Part(gpus, units=2, select="mem >= 80"), Part(calls, units=5)], ttl=30) as h:
            self.assertEqual((h.pool, h.units, h.resources), (db, 1, []))
            self.assertEqual(list(h.parts), [db, gpus, calls])
            self.assertEqual([resource.name for resource in h.parts[gpus].resources], ["a", "c"])
            self.assertEqual(h.parts[gpus].resources[1].labels, {"mem": "96"})
            self.assertEqual((h.parts[calls].units, h.parts[db].units), (5, 1))
            with self.assertRaises(LookupError):
                h.parts[gpus].resource
            for pool in (db, gpus):
                listed = self.other.api.list_holds(wire.ListHoldsRequest(pool=pool)).holds
                self.assertEqual([(hold.holder, hold.token) for hold in listed], [("alice", h.token)])
        self.assertEqual((holders(self.client, db), holders(self.client, gpus)), ([], []))
        # Its places are used up.
        self.assertEqual(holders(self.client, calls), ["alice"])

    def test_a_name_alone_is_one_unit_and_one_pool_is_a_part_too(self) -> None:
        one, two = name("one"), name("two")
        with self.client.acquire(one, also=[two]) as h:
            self.assertEqual({pool: part.units for pool, part in h.parts.items()}, {one: 1, two: 1})
        with self.client.acquire(one) as h:
            self.assertEqual(list(h.parts), [one])

    def test_a_set_has_nothing_until_it_has_all(self) -> None:
        one, two = name("one"), name("two")
        taken = self.other.acquire(two)
        with self.assertRaises(Busy) as busy:
            self.client.try_hold(one, also=[two]).__enter__()
        self.assertEqual((busy.exception.refusal.pool, busy.exception.holders[0].holder), (two, "bob"))
        with self.assertRaises(WaitTimedOut):
            self.client.acquire(one, also=[two], wait=0.01)
        held: list[int] = []

        def wait() -> None:
            with self.client.hold(one, also=[two]) as h:
                held.append(h.token)

        with in_thread(wait):
            until("it waits for both", lambda: waiters(self.other, one) == waiters(self.other, two) == ["alice"])
            self.assertEqual(holders(self.other, one), [])
            taken.release()
        self.assertEqual(len(held), 1)

    def test_a_set_is_lost_as_a_whole(self) -> None:
        one, two = name("one"), name("two")
        hold = self.client.acquire(one, also=[two])
        force = wire.ForceReleaseRequest(pool=two, holder="alice", token=hold.token, reason="it is broken")
        self.other.api.force_release(force)
        self.assertTrue(hold.lost.wait(PATIENCE))
        self.assertEqual((hold.lost.reason, hold.lost.note), (LostReason.FORCED, "it is broken"))
        with self.assertRaises(HoldLost):
            hold.release()
        self.assertEqual(holders(self.other, one), [])

    def test_what_contradicts_itself_is_refused_before_it_is_asked(self) -> None:
        with self.assertRaises(ValueError):
            self.client.hold("db", also=[Part("gpus", units=2, all=True)])
        # Each letter would be a pool.
        text: Any = "gpus"
        with self.assertRaises(TypeError):
            self.client.hold("db", also=text)
        with self.assertRaises(ValueError):
            self.client.set_pool("db", units=1, weights={"web": 3})
        with self.assertRaises(Refused) as refused:
            self.client.acquire(name("db"), also=[f"{number}" for number in range(20)])
        self.assertEqual(refused.exception.code, "invalid_argument")

    def test_a_stolen_hold_is_lost_to_an_operator(self) -> None:
        pool = name("db")
        hold = self.client.acquire(pool)
        steal = wire.StealRequest(pool=pool, holder="alice", token=hold.token, to="bob", reason="bob is on call")
        token = self.other.api.steal(steal).token
        self.assertTrue(hold.lost.wait(PATIENCE))
        self.assertEqual((hold.lost.reason, hold.lost.note), (LostReason.FORCED, "bob is on call"))
        self.assertGreater(token, hold.token)


class Rules(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client(SERVER.grpc, holder="alice")
        self.other = Client(SERVER.grpc, holder="bob")
        self.addCleanup(self.client.close)
        self.addCleanup(self.other.close)

    def test_a_wait_that_could_never_end_is_refused_with_the_cycle(self) -> None:
        one, two = name("one"), name("two")

        def wait() -> None:
            with self.other.hold(two), self.other.hold(one, holds_on=True):
                pass

        with self.client.hold(one) as h:
            with in_thread(wait):
                until("bob waits", lambda: waiters(self.client, one) == ["bob"])
                with self.assertRaises(Deadlock) as refused:
                    self.client.acquire(two, holds_on=True)
                cycle = refused.exception.cycle
                self.assertEqual([(it.holder, it.pool) for it in cycle], [("alice", two), ("bob", one)])
                self.assertEqual((refused.exception.code, cycle[1].token), ("deadlock", h.token))
                # Whoever lets go of something does not wait for itself.
                h.release()
        self.assertEqual(holders(self.client, one), [])

    def test_a_resource_is_handed_out_again_when_it_was_cleaned(self) -> None:
        pool = name("machines")
        self.client.set_pool(pool, resources=["a"], cleaning=True)
        with self.client.hold(pool):
            pass
        with self.assertRaises(Busy) as busy, self.other.try_hold(pool):
            pass
        self.assertEqual(busy.exception.refusal.dirty, 1)
        with self.other.hold(pool, dirty=True) as janitor:
            self.assertEqual(janitor.resource.name, "a")
        with self.client.try_hold(pool) as h:
            self.assertEqual(h.resource.name, "a")

    def test_a_script_says_which_resource_is_granted(self) -> None:
        pool = name("gpus")
        sizes = [Resource("a", {"mem": "80"}), Resource("b", {"mem": "24"}), Resource("c", {"mem": "40"})]
        enough = "let mem = number(resource.labels.mem, 0); if mem < number(request.meta.need, 0) { -1 } else { 1000 - mem }"
        self.client.set_pool(pool, resources=sizes, order="backfill", place_by=enough, order_by="request.priority")
        spec = self.client.api.get_pool(wire.GetPoolRequest(pool=pool)).spec
        self.assertEqual((spec.scripts.place, spec.scripts.order), (enough, "request.priority"))
        with self.client.hold(pool, meta={"need": "30"}) as h:
            self.assertEqual(h.resource.name, "c")
        with self.assertRaises(Refused) as refused:
            self.client.set_pool(pool, resources=sizes, place_by="1 +")
        self.assertEqual(refused.exception.code, "bad_script")

    def test_groups_are_served_in_turn(self) -> None:
        pool = name("workers")
        self.client.set_pool(pool, units=1, fair="tenant", weights={"web": 3})
        spec = self.client.api.get_pool(wire.GetPoolRequest(pool=pool)).spec
        self.assertEqual((spec.fair.by, dict(spec.fair.weights)), ("tenant", {"web": 3}))
        served: list[str] = []
        queue = wire.ListQueueRequest(pool=pool)

        async def wait(client: AsyncClient, tenant: str) -> None:
            async with client.hold(pool, meta={"tenant": tenant}):
                served.append(tenant)

        async def play() -> None:
            async with AsyncClient(SERVER.grpc, holder="carol") as client:
                first = await client.acquire(pool, meta={"tenant": "web"})
                waiting = []
                for tenant in ("batch", "batch", "batch", "mail"):
                    waiting.append(asyncio.create_task(wait(client, tenant)))
                    while len((await client.api.list_queue(queue)).waiters) < len(waiting):
                        await asyncio.sleep(0.001)
                await first.release()
                await asyncio.gather(*waiting)

        asyncio.run(play())
        self.assertEqual(served, ["batch", "mail", "batch", "batch"])


class Tasks(unittest.IsolatedAsyncioTestCase):
    async def test_sets_and_deadlocks_are_awaited(self) -> None:
        one, two = name("one"), name("two")
        async with AsyncClient(SERVER.grpc, holder="carol") as client:
            async with client.hold(one, also=[two]) as h:
                self.assertEqual(list(h.parts), [one, two])
                with self.assertRaises(Deadlock) as refused:
                    await client.acquire(two, holds_on=True)
                self.assertEqual([it.holder for it in refused.exception.cycle], ["carol"])

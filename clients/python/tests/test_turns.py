"""Who gets what, when, and what is at hand then."""

from __future__ import annotations

import asyncio
import unittest

from stage import Stage, quoted
from temporalio.client import WorkflowExecutionStatus
from workflows import Ask, Catches, Continues, Forgets, Round, Untyped, Uses


class Turns(Stage):
    async def test_workflows_get_it_in_the_order_in_which_they_came(self) -> None:
        outside = await self.take()
        waiters = [await self.start_waiter(Ask(self.pool), place=place) for place in (1, 2, 3)]
        for handle in waiters:
            await handle.signal(Uses.tell, "go on")
        await self.give_back(outside)
        tokens = [(await handle.result())["token"] for handle in waiters]
        self.assertEqual(tokens, sorted(tokens))
        granted = [event["holder"] for event in await self.history("granted")]
        self.assertEqual(granted, ["operator", *(handle.id for handle in waiters)])
        self.assertEqual(await self.holds(), [])

    async def test_what_is_held_is_at_hand_and_the_workflow_shows_as_its_holder(self) -> None:
        handle, held = await self.start_holder(Ask(self.pool))
        [shown] = await self.holds()
        self.assertEqual((held["pool"], held["namespace"], held["units"]), (self.pool, "default", 1))
        self.assertEqual((held["token"], held["resources"]), (shown["token"], []))
        self.assertEqual((shown["holder"], shown["lifetime"]), (handle.id, "bound"))
        self.assertTrue(held["key"])
        await handle.signal(Uses.tell, "go on")
        await handle.result()
        self.assertEqual(await self.holds(), [])

    async def test_a_selector_chooses_the_resource(self) -> None:
        small = {"name": "small", "labels": {"mem": "40"}}
        large = {"name": "large", "labels": {"mem": "80"}, "properties": {"host": "large.example"}}
        await self.api("PUT", f"pools/{quoted(self.pool)}", {"resources": [small, large]})
        handle, held = await self.start_holder(Ask(self.pool, select="mem >= 80"))
        self.assertEqual((held["resources"], held["properties"]), (["large"], [{"host": "large.example"}]))
        await handle.signal(Uses.tell, "go on")
        await handle.result()

    async def test_a_refusal_is_an_exception_with_its_code(self) -> None:
        handle = await self.start(Catches.run, Ask(self.pool, select="mem >="))
        refused = await handle.result()
        self.assertEqual((refused["kind"], refused["code"]), ("Refused", "invalid_argument"))
        self.assertFalse(refused["retry"])

    async def test_who_only_tries_is_told_that_it_is_busy(self) -> None:
        outside = await self.take()
        handle = await self.start(Catches.run, Ask(self.pool, only_try=True))
        refused = await handle.result()
        self.assertEqual((refused["kind"], refused["code"]), ("Busy", "busy"))
        await self.give_back(outside)
        handle = await self.start(Catches.run, Ask(self.pool, only_try=True))
        self.assertEqual((await handle.result())["kind"], "none")
        self.assertEqual(await self.holds(), [])

    async def test_a_wait_ends_when_its_time_has_passed_and_tells_who_was_in_the_way(self) -> None:
        await self.take()
        handle = await self.start(Catches.run, Ask(self.pool, max_wait=0.3))
        refused = await handle.result()
        self.assertEqual((refused["kind"], refused["code"]), ("WaitTimedOut", "timed_out"))
        self.assertEqual(refused["holders"], ["operator"])
        self.assertEqual(await self.queue(), [])

    async def test_no_time_to_wait_is_no_mistake(self) -> None:
        await self.take()
        handle = await self.start(Catches.run, Ask(self.pool, max_wait=-1))
        self.assertEqual((await handle.result())["kind"], "WaitTimedOut")

    async def test_one_hold_is_kept_over_many_runs(self) -> None:
        handle = await self.start(Continues.run, Round(self.pool, left=3))
        tokens = await handle.result()
        self.assertEqual((len(tokens), len(set(tokens))), (4, 1), tokens)
        self.assertEqual(len(await self.history("granted")), 1)
        self.assertEqual(await self.holds(), [])

    async def test_one_lease_is_kept_over_many_runs(self) -> None:
        handle = await self.start(Continues.run, Round(self.pool, left=2, ttl=60))
        tokens = await handle.result()
        self.assertEqual((len(tokens), len(set(tokens))), (3, 1), tokens)
        self.assertEqual(await self.holds(), [])

    async def test_a_hold_that_travels_as_plain_json_is_the_same(self) -> None:
        resource = {"name": "a", "properties": {"host": "a.example"}}
        await self.api("PUT", f"pools/{quoted(self.pool)}", {"resources": [resource]})
        handle = await self.start(Untyped.run, self.pool, None)
        self.assertEqual(await handle.result(), ["a", {"host": "a.example"}])
        self.assertEqual(await self.holds(), [])

    async def test_a_hold_that_is_not_taken_along_is_given_back(self) -> None:
        handle = await self.start(Forgets.run, self.pool, True)

        async def given_back() -> bool:
            return len(await self.history("ended")) == 1

        await self.until("it was given back", given_back)
        [ended] = await self.history("ended")
        self.assertEqual(ended["how"], "released")
        self.assertIs((await handle.describe()).status, WorkflowExecutionStatus.RUNNING)

    async def test_many_wait_at_once(self) -> None:
        outside = await self.take()
        handles = [await self.start(Uses.run, Ask(self.pool)) for _ in range(20)]
        await self.until_waiting(20)
        for handle in handles:
            await handle.signal(Uses.tell, "go on")
        await self.give_back(outside)
        tokens = await asyncio.gather(*(handle.result() for handle in handles))
        self.assertEqual(len({held["token"] for held in tokens}), 20)
        self.assertEqual(await self.holds(), [])


if __name__ == "__main__":
    unittest.main()

"""However a workflow ends, or what it does is given up: nothing stays held, and nobody stays in the queue."""

from __future__ import annotations

import unittest

from stage import Handle, Stage
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError
from workflows import Ask, GivesUp, Uses


class Ends(Stage):
    async def test_a_block_that_fails_gives_back(self) -> None:
        handle, _ = await self.start_holder(Ask(self.pool, fails=True))
        await handle.signal(Uses.tell, "go on")
        with self.assertRaises(WorkflowFailureError) as failed:
            await handle.result()
        self.assertIsInstance(failed.exception.cause, ApplicationError)
        self.assertEqual(str(failed.exception.cause), "the work failed")
        await self.assert_released()

    async def test_a_holder_that_is_cancelled_gives_back(self) -> None:
        handle, _ = await self.start_holder(Ask(self.pool))
        await handle.cancel()
        with self.assertRaises(WorkflowFailureError) as failed:
            await handle.result()
        self.assertIsInstance(failed.exception.cause, CancelledError)
        await self.assert_released()

    async def test_a_holder_that_goes_on_after_it_was_cancelled_has_given_back(self) -> None:
        handle, _ = await self.start_holder(Ask(self.pool, stays=True))
        await handle.cancel()
        await self.until_cancelled(handle)
        await self.assert_released()

    async def test_a_waiter_that_is_cancelled_leaves_the_queue(self) -> None:
        await self.take()
        handle = await self.start_waiter(Ask(self.pool))
        await handle.cancel()
        with self.assertRaises(WorkflowFailureError) as failed:
            await handle.result()
        self.assertIsInstance(failed.exception.cause, CancelledError)
        self.assertEqual(await self.queue(), [])

    async def test_a_waiter_that_goes_on_after_it_was_cancelled_has_left_the_queue(self) -> None:
        outside = await self.take()
        handle = await self.start_waiter(Ask(self.pool, stays=True))
        await handle.cancel()
        await self.until_cancelled(handle)
        self.assertEqual(await self.queue(), [])
        await self.give_back(outside)
        self.assertEqual(await self.holds(), [])

    async def test_who_waits_no_longer_by_means_of_asyncio_has_left_the_queue(self) -> None:
        await self.take()
        handle = await self.start(GivesUp.run, self.pool)
        await self.until_waiting(1)
        self.assertEqual(await handle.result(), "gave up")
        self.assertEqual(await self.queue(), [])

    async def test_a_grant_that_comes_before_the_cancellation_in_one_task_is_given_back(self) -> None:
        outside = await self.take()
        handle = await self.start_waiter(Ask(self.pool, stays=True))
        await self.stop_worker()
        await self.give_back(outside)
        await self.until_granted(handle)
        await handle.cancel()
        await self.start_worker()
        await self.until_cancelled(handle)
        await self.assert_released()

    async def test_a_grant_that_comes_after_the_cancellation_in_one_task_is_given_back(self) -> None:
        outside = await self.take()
        handle = await self.start_waiter(Ask(self.pool, stays=True))
        await self.stop_worker()
        await handle.cancel()
        await self.give_back(outside)
        await self.until_granted(handle)
        await self.start_worker()
        await self.until_cancelled(handle)
        await self.assert_released()

    async def test_grants_that_cross_cancellations_leave_nothing_held(self) -> None:
        for _ in range(5):
            outside = await self.take()
            handle = await self.start_waiter(Ask(self.pool, stays=True))
            await handle.cancel()
            await self.give_back(outside)
            await self.until_cancelled(handle)
            # It is given back, or was taken back because nobody was there to receive it.
            await self.until_free()

    async def test_of_a_holder_that_is_terminated_nothing_is_left(self) -> None:
        handle, _ = await self.start_holder(Ask(self.pool))
        waiter = await self.start_waiter(Ask(self.pool))
        await handle.terminate("by an operator")
        await self.holds_now(waiter)
        with self.assertRaises(WorkflowFailureError) as failed:
            await handle.result()
        self.assertIsInstance(failed.exception.cause, TerminatedError)
        [ended] = await self.history("ended")
        self.assertEqual((ended["holder"], ended["how"]), (handle.id, "owner_gone"))
        await waiter.signal(Uses.tell, "go on")
        await waiter.result()
        self.assertEqual(await self.holds(), [])

    async def test_of_a_waiter_that_is_terminated_nothing_is_left(self) -> None:
        outside = await self.take()
        handle = await self.start_waiter(Ask(self.pool))
        await handle.terminate("by an operator")
        await self.until_waiting(0)
        await self.give_back(outside)
        self.assertEqual(await self.holds(), [])

    async def test_a_refusal_that_nobody_catches_fails_the_workflow(self) -> None:
        await self.take()
        handle = await self.start(Uses.run, Ask(self.pool, only_try=True))
        with self.assertRaises(WorkflowFailureError) as failed:
            await handle.result()
        cause = failed.exception.cause
        assert isinstance(cause, ApplicationError)
        self.assertEqual((cause.type, cause.non_retryable), ("busy", False))

    async def test_a_lease_is_renewed_as_long_as_it_is_held(self) -> None:
        handle, held = await self.start_holder(Ask(self.pool, ttl=6))

        async def renewed_often() -> bool:
            return len(await self.history("renewed")) >= 2

        await self.until("it was renewed twice", renewed_often)
        [shown] = await self.holds()
        self.assertEqual((shown["token"], shown["lifetime"]), (held["token"], "leased"))
        await handle.signal(Uses.tell, "go on")
        await handle.result()
        await self.assert_released()

    async def test_a_lease_that_is_lost_ends_its_block(self) -> None:
        handle, held = await self.start_holder(Ask(self.pool, ttl=3))
        await self.force(handle.id, held["token"])
        with self.assertRaises(WorkflowFailureError) as failed:
            await handle.result()
        cause = failed.exception.cause
        assert isinstance(cause, ApplicationError)
        self.assertEqual(cause.type, "not_held")

    async def test_a_hold_that_an_operator_has_ended_is_told_at_the_end_of_the_block(self) -> None:
        handle, held = await self.start_holder(Ask(self.pool))
        await self.force(handle.id, held["token"])
        await handle.signal(Uses.tell, "go on")
        with self.assertRaises(WorkflowFailureError) as failed:
            await handle.result()
        cause = failed.exception.cause
        assert isinstance(cause, ApplicationError)
        self.assertEqual(cause.type, "not_held")

    async def assert_released(self) -> None:
        self.assertEqual(await self.holds(), [])
        self.assertEqual((await self.history("ended"))[-1]["how"], "released")

    async def until_granted(self, handle: Handle) -> None:
        """And its workflow could know, if there were a worker."""

        async def granted() -> bool:
            events = (await handle.fetch_history()).events
            return any(event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED for event in events)

        await self.until("it was granted", granted)
        self.assertEqual(await self.holders(), [handle.id])

    async def force(self, holder: str, token: int) -> None:
        body = {"pool": self.pool, "holder": holder, "token": token, "reason": "a test"}
        await self.api("POST", "force-release", body)


if __name__ == "__main__":
    unittest.main()

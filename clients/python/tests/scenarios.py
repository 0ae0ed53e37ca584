"""Plays the project's scenario files through the Python client.

The server is in the test that starts this, `crates/cli/tests/python_client`, because its clock is moved from here: a line of
JSON on stdout asks for something, a line on stdin answers. `python scenarios.py FOLDER [words of a claim]`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "client"))

from scenario_text import Outcome, Scenario, Step, duration_text, read  # noqa: E402
from scenario_words import UnknownWord, Words  # noqa: E402
from server import Door  # noqa: E402
from tenure import AsyncClient, AsyncHold, TenureError, _thread, _time, wire  # noqa: E402
from tenure._options import asked  # noqa: E402
from tenure._session import Open  # noqa: E402
from tenure.errors import Refused  # noqa: E402

PATIENCE = 60.0
"""Far longer than anything takes; only a failing scenario waits for it."""
KEY_OF_NOBODY = "00000000-0000-4000-8000-000000000000"
SESSION_OF_NOBODY = "00000000-0000-4000-8000-000000000001"

_ONE_CONNECTION = "the client gives up a connection before it makes the next, so that a session never has two"
_ASKS_ABOUT_HOLDS = "a client that comes back asks whether it still has what it held, which renews it"
LEFT_OUT = {
    "curator 1121: after a reconnect the old and the new connection of a session do not both get the lock": _ONE_CONNECTION,
    "The old connection of a resumed session may be missed late without harm": _ONE_CONNECTION,
    "A waiter keeps its place though the old connection is missed only after the session was resumed": _ONE_CONNECTION,
    "A restart neither shortens nor restarts the time of a session's hold": _ASKS_ABOUT_HOLDS,
    "A session's hold that has a time is still its session's after a restart": _ASKS_ABOUT_HOLDS,
    "A hold that became a lease after a restart does not end with its session": _ASKS_ABOUT_HOLDS,
    "A hold that became a lease is still what its request was granted": _ASKS_ABOUT_HOLDS,
    "A session that has ended cannot be resumed, and nothing can be done in it": (
        "a client whose session has ended opens another and goes on in that"
    ),
    "A session that is ended refuses its waits at once": (
        "a client that is closed ends its waits itself, with an error of its own"
    ),
    "A waiter whose connection is lost leaves the queue if it cannot say later which request it was": (
        "every request of the client has an id, so its wait keeps its place"
    ),
    "A waiter that comes back to a free pool is granted at once": (
        "a client that comes back makes its requests again by itself, before the operator can look"
    ),
    "A waiter that is away leaves with its session": (
        "a client whose session has ended makes its requests again in the next, and hears what came of them"
    ),
}
"""Claims that are not played, and why. `only:` in the files keeps others off every socket."""


class Theatre:
    """The test that has the server."""

    def ask(self, what: str, **more: Any) -> Any:
        print(json.dumps({"do": what, **more}), flush=True)
        return json.loads(sys.stdin.readline())

    def tell(self, what: str, **more: Any) -> None:
        print(json.dumps({"do": what, **more}), flush=True)


class Call:
    """An acquire that somebody waits with."""

    def __init__(self, answer: Awaitable[Outcome], request: str | None, client: AsyncClient | None) -> None:
        self.task = asyncio.ensure_future(answer)
        self.request = request
        self.client = client
        """The client whose session it is made in, if one is carried by a stream."""


class Actor:
    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.client: AsyncClient | None = None
        self.door: Door | None = None
        self.holds: dict[int, AsyncHold] = {}
        self.session_key = ""
        self.namespace = ""

    @property
    def is_carried(self) -> bool:
        """Whether a connection carries its session."""
        return self.client is not None and self.door is not None and self.door.is_open


class Stage:
    """A server and its clients."""

    def __init__(self, theatre: Theatre, scenario: Scenario) -> None:
        self.theatre = theatre
        self.actors: dict[str, Actor] = {}
        self.waiters: dict[tuple[str, str], int] = {}
        """Which waiter a request became: a call that joins it makes no new one."""
        self.is_running = True
        self.grpc: str = theatre.ask("scenario", limits=scenario.limits, restarts=scenario.restarts)["grpc"]
        self.face = AsyncClient(self.grpc)
        self.words = Words(self)

    async def close(self) -> None:
        for actor in self.actors.values():
            for call in actor.calls:
                call.task.cancel()
            if actor.door is not None:
                actor.door.close()
            if actor.client is not None:
                abandon(actor.client)
        await self.face.close()

    def actor(self, name: str) -> Actor:
        return self.actors.setdefault(name, Actor())

    # Time.

    async def advance(self, to: int) -> None:
        self.theatre.ask("clock", to=to)

    def settle(self) -> None:
        if self.is_running:
            self.theatre.ask("settle")

    def counts(self) -> tuple[int, int]:
        """Commands and hang-ups that have reached the engine."""
        told = self.theatre.ask("counts")
        return told["commands"], told["hang_ups"]

    async def until_grown(self, before: tuple[int, int], commands: int, hang_ups: int) -> None:
        def grown() -> bool:
            now = self.counts()
            return now[0] >= before[0] + commands and now[1] >= before[1] + hang_ups

        await until(grown)

    # Requests.

    async def acquire(self, actor: str, request: wire.AcquireRequest, in_session: str | None) -> Outcome:
        own = self.actor(actor)
        client = own.client if in_session == "own" and own.is_carried else None
        if in_session == "own" and client is None:
            request.session_key = own.session_key
        elif in_session == "wrong":
            request.session_key = SESSION_OF_NOBODY
        pool, namespace, id = request.pool, request.namespace, request.request_id or None
        again = next((call for call in own.calls if client is not None and id is not None and call.request == id), None)
        if again is not None:
            # A client that comes back makes its requests again by itself.
            own.calls.remove(again)
            return await self._outcome_or_place(own, again, pool, namespace, {})
        before, grown = await self.places(pool, namespace), self.counts()
        call = Call(self._ask(own, client, request), id, client)
        await until(lambda: call.task.done() or self.counts()[0] > grown[0])
        return await self._outcome_or_place(own, call, pool, namespace, before)

    async def _outcome_or_place(
        self, own: Actor, call: Call, pool: str, namespace: str, before: dict[int, Outcome]
    ) -> Outcome:
        self.settle()
        after = await self.places(pool, namespace)
        joined = self.waiters.get((namespace, call.request or ""))
        made = next((waiter for waiter in after if waiter not in before), None)
        waiter = joined if made is None else made
        # An answer that was given gets time to come here.
        for _ in range(4):
            await self.round_trip(own)
            if call.task.done():
                return await call.task
        if waiter is None or waiter not in after:
            return await asyncio.wait_for(call.task, PATIENCE)
        if call.request is not None:
            self.waiters[namespace, call.request] = waiter
        own.calls.append(call)
        return after[waiter]

    async def _ask(self, own: Actor, client: AsyncClient | None, request: wire.AcquireRequest) -> Outcome:
        if client is None:
            return await self.outcome(self.face.api.acquire(request), self.words.granted)
        ask = asked(request.pool)
        ask.wait = None if request.wait_forever else request.wait_ms / 1000
        ask.request.CopyFrom(request)
        # The stream's own session has its namespace, and needs no naming.
        ask.request.ClearField("namespace")
        try:
            hold = await client._acquire(ask)
        except TenureError as error:
            return self.words.failed(error)
        own.holds[hold.token] = hold
        return self.words.granted(hold._grant)

    async def places(self, pool: str, namespace: str) -> dict[int, Outcome]:
        """Who waits, by number, and what they would be told."""
        try:
            queue = await self.face.api.list_queue(wire.ListQueueRequest(pool=pool, namespace=namespace))
        except Refused:
            return {}
        return {
            waiter.waiter: self.words.queued(waiter) for waiter in queue.waiters if waiter.HasField("position")
        }

    async def outcome(self, call: Awaitable[Any], done: Callable[[Any], Outcome]) -> Outcome:
        try:
            return done(await call)
        except TenureError as error:
            return self.words.failed(error)

    async def release(self, actor: str, token: int | None, request: wire.ReleaseRequest) -> Outcome:
        """By the hold, if it is one of this actor's own client; else by its key."""
        own = self.actor(actor)
        hold = own.holds.pop(token, None) if token is not None else None
        if hold is None or hold.key != request.key or hold.pool != request.pool or not own.is_carried:
            return await self.outcome(self.face.api.release(request), self.words.released)
        try:
            await hold.release()
        except TenureError as error:
            return self.words.failed(error)
        return Outcome("released", {"token": str(hold.token)})

    # Sessions.

    async def open_session(self, actor: str, namespace: str, grace_ms: int, polled: bool) -> Outcome:
        own = self.actor(actor)
        own.namespace = namespace
        if polled:
            request = wire.OpenSessionRequest(namespace=namespace, holder=actor, grace_ms=grace_ms)
            return await self.outcome(self.face.api.open_session(request), lambda opened: self.opened(own, opened))
        own.door = Door(self.grpc)
        client = AsyncClient(
            own.door.address, holder=actor, namespace=namespace, session_grace=grace_ms / 1000, connect_timeout=60
        )
        try:
            await client.connect()
        except TenureError as error:
            return self.words.failed(error)
        own.client = client
        own.session_key = session_key(client)
        return Outcome("open", {"grace": duration_text(grace_ms), "until": "none"})

    def opened(self, own: Actor, opened: wire.SessionOpened) -> Outcome:
        own.session_key = opened.session_key
        return self.words.session_opened(opened)

    async def keep_alive(self, actor: str) -> Outcome:
        own = self.actor(actor)
        request = wire.KeepAliveRequest(namespace=own.namespace, session_key=own.session_key)
        return await self.outcome(self.face.api.keep_alive(request), self.words.session_opened)

    async def drop_session(self, actor: str) -> None:
        """Waits until both ends have heard of what is lost, but not for what the server makes of it."""
        own, before = self.actor(actor), self.counts()
        if own.door is not None and own.is_carried:
            own.door.leads_to(None)
            own.door.cut()
            await self.until_grown(before, 1, 0)
            await until_cut(own)

    async def resume_session(self, actor: str) -> Outcome:
        own = self.actor(actor)
        if own.client is None or own.door is None:
            raise LeftOut("a session that lives by keep-alives is not resumed by this client")
        if own.door.is_open:
            raise LeftOut("this client gives up a connection before it makes the next")
        key = session_key(own.client)
        own.door.leads_to(self.grpc)
        await until(lambda: own.client is not None and is_open(own.client))
        await self.round_trip(own)
        self.settle()
        if session_key(own.client) != key:
            return Outcome("refused unknown_session", {})
        grace = own.client._connection.session.identity.grace  # type: ignore[union-attr]
        return Outcome("open", {"grace": duration_text(round(grace * 1000)), "until": "none"})

    async def end_session(self, actor: str) -> Outcome:
        own = self.actor(actor)
        if own.client is not None and own.is_carried:
            # What does not end with the session is not the client's business any more.
            for hold in own.holds.values():
                hold.keep()
            await own.client.close()
            own.client = None
            return Outcome("done", {})
        request = wire.EndSessionRequest(namespace=own.namespace, session_key=own.session_key)
        return await self.outcome(self.face.api.end_session(request), lambda _: Outcome("done", {}))

    async def hang_up(self, actor: str) -> None:
        own, before = self.actor(actor), self.counts()
        gone = [call for call in own.calls if call.client is None]
        own.calls = [call for call in own.calls if call.client is not None]
        for call in gone:
            call.task.cancel()
        await self.until_grown(before, 0, len(gone))

    # The server.

    async def stop(self) -> None:
        for actor in self.actors.values():
            if actor.door is not None:
                actor.door.leads_to(None)
        self.theatre.ask("kill")
        self.is_running = False
        for actor in self.actors.values():
            if actor.door is not None:
                actor.door.cut()
                await until_cut(actor)
            # What was asked beside a session is gone with its connection.
            for call in [call for call in actor.calls if call.client is None]:
                actor.calls.remove(call)
                call.task.cancel()
        await self.face.close()

    async def start(self) -> None:
        self.grpc = self.theatre.ask("start")["grpc"]
        self.is_running = True
        self.face = AsyncClient(self.grpc)

    # What comes late.

    async def late(self, actor: str) -> Outcome | None:
        own = self.actor(actor)
        if not own.calls:
            return None
        done, _ = await asyncio.wait(
            [call.task for call in own.calls], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED
        )
        for call in own.calls:
            if call.task in done:
                own.calls.remove(call)
                return await call.task
        return None

    async def left_over(self) -> list[tuple[str, Outcome]]:
        left = []
        for name, actor in self.actors.items():
            if actor.calls:
                await self.round_trip(actor)
            for call in list(actor.calls):
                if call.task.done():
                    actor.calls.remove(call)
                    left.append((name, await call.task))
        return left

    async def round_trip(self, actor: Actor) -> None:
        """Whatever the server has said by now is here afterwards."""
        if not self.is_running:
            return
        await self.face.api.list_pools(wire.ListPoolsRequest())
        if actor.client is not None and actor.is_carried and is_open(actor.client):
            await _thread.on_loop(ping(actor.client))
        for _ in range(5):
            await asyncio.sleep(0)


class LeftOut(Exception):
    """This cannot be played; it must be listed."""


async def ping(client: AsyncClient) -> None:
    """To the server and back through the stream, on the client's own thread."""
    connection = client._connection
    assert connection is not None
    connection.session._ping(_time.now())
    connection._after()
    for _ in range(10_000):
        stage = connection.session.stage
        if not isinstance(stage, Open) or stage.pinged is None:
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the stream answers")


def abandon(client: AsyncClient) -> None:
    """Its server is about to be gone: nobody is to be told of its end."""
    client._closed = True
    if client._connection is not None:
        connection = client._connection
        connection.loop.call_soon_threadsafe(connection.session.end, None)
        connection.loop.call_soon_threadsafe(connection._after)


def session_key(client: AsyncClient) -> str:
    connection = client._connection
    return "" if connection is None else connection.session.key or ""


def is_open(client: AsyncClient) -> bool:
    return client._connection is not None and client._connection.session.is_open


async def until_cut(own: Actor) -> None:
    """Until the client has heard of it too: it would still look open to whoever waits for it to be so again."""
    await until(lambda: own.client is None or not is_open(own.client))


async def until(condition: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE
    while not condition():
        if loop.time() > end:
            raise AssertionError("what is waited for does not come about")
        await asyncio.sleep(0.001)


class Run:
    """One scenario."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.now = 0
        self.keys: dict[int, tuple[str, list[str]]] = {}
        """Keys by token, and who was given them."""
        self.heard: dict[str, deque[Outcome]] = {}

    async def step(self, step: Step) -> None:
        await self.pass_time(step.at)
        if step.hears:
            await self.hear(step)
            return
        outcome = await self.stage.words.act(step, self.key_of)
        self.stage.settle()
        self.learn(step.actor, outcome)
        if step.expected is not None and not step.expected.matches(outcome):
            raise AssertionError(f"expected: {step.expected}\n      actual:   {outcome}")

    async def pass_time(self, to: int) -> None:
        """Second by second, as it passes for a real server; the last millisecond alone."""
        if to == self.now:
            return
        await self.nothing_left_over()
        while self.now + 1 < to:
            self.now = min((self.now // 1000 + 1) * 1000, to - 1)
            await self.stage.advance(self.now)
            await self.nothing_left_over()
        self.now = to
        await self.stage.advance(to)

    async def hear(self, step: Step) -> None:
        assert step.expected is not None
        heard = self.heard.setdefault(step.actor, deque())
        while True:
            for outcome in heard:
                if step.expected.matches(outcome):
                    heard.remove(outcome)
                    return
            late = await self.stage.late(step.actor)
            if late is None:
                actual = "; ".join(map(str, heard)) or "nothing has arrived"
                raise AssertionError(f"expected: {step.expected}\n      actual:   {actual}")
            self.learn(step.actor, late)
            heard.append(late)

    async def nothing_left_over(self) -> None:
        fetched = [(actor, outcome) for actor, outcomes in self.heard.items() for outcome in outcomes]
        self.heard.clear()
        left = fetched + await self.stage.left_over()
        if left:
            told = "\n".join(f"      {actor} <- {outcome}" for actor, outcome in left)
            raise AssertionError(f"by {duration_text(self.now)}, not listed in the scenario:\n{told}")

    def learn(self, actor: str, outcome: Outcome) -> None:
        """One token, one key; whoever is told again is told the same."""
        if outcome.key is None or "token" not in outcome.fields:
            return
        token = int(outcome.fields["token"])
        for other, (key, _) in self.keys.items():
            if (key == outcome.key) != (other == token):
                raise AssertionError(f"token {token} came with the key of another, or with another key than before")
        self.keys.setdefault(token, (outcome.key, []))[1].append(actor)

    def key_of(self, token: int | None, actor: str) -> str:
        if token is None:
            return KEY_OF_NOBODY
        key, knowers = self.keys.get(token, ("", []))
        if actor not in knowers:
            raise AssertionError(f"{actor} was never granted token {token}")
        return key


async def play(theatre: Theatre, scenario: Scenario) -> str | None:
    """What is wrong, as a page for a person to read."""
    stage = Stage(theatre, scenario)
    run, at = Run(stage), None
    try:
        for at in scenario.steps:
            await run.step(at)
        await run.nothing_left_over()
        return None
    except (LeftOut, UnknownWord):
        raise
    except Exception as error:
        why = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
        lines = [f"{scenario.topic}.txt:{at.line if at else scenario.line}: {scenario.claim}"]
        for step in scenario.steps:
            lines.append(f"{'>>>' if step is at else '   '} {step.text}")
            if step is at:
                lines.append(f"      {why}")
        return "\n".join(lines)
    finally:
        await stage.close()


async def main() -> None:
    theatre, folder, wanted = Theatre(), Path(sys.argv[1]), " ".join(sys.argv[2:])
    known = set()
    for scenario in (it for file in sorted(folder.glob("*.txt")) for it in read(file)):
        known.add(scenario.claim)
        if wanted not in scenario.claim:
            continue
        name = f"{scenario.topic}: {scenario.claim}"
        if scenario.only is not None and "grpc" not in scenario.only:
            theatre.tell("left_out", name=name, why=scenario.why)
            continue
        if scenario.claim in LEFT_OUT and not wanted:
            theatre.tell("left_out", name=name, why=LEFT_OUT[scenario.claim])
            continue
        try:
            page = await play(theatre, scenario)
        except UnknownWord as word:
            # Newer than this runner. How many there may be is the test's business.
            theatre.tell("left_out", name=name, why=f"the runner does not know {word}")
            continue
        except LeftOut as reason:
            page = f"{name}: left out without being listed: {reason}"
        if page is None:
            theatre.tell("played", name=name)
        else:
            theatre.tell("failed", name=name, why=page)
    for claim in LEFT_OUT.keys() - known:
        theatre.tell("failed", name=claim, why="it is left out, and there is no such scenario")
    theatre.tell("end")


if __name__ == "__main__":
    asyncio.run(main())

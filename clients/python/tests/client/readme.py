"""Runs the programs of the README against the server at `SERVER`, and sees that they do what it says."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from server import PATIENCE, holders, until, waiters
from tenure import AsyncClient, Client, ClosedError, Resource, wire

SERVER = os.environ["SERVER"]
README = Path(__file__).resolve().parents[2] / "README.md"
PROGRAMS = dict(re.findall(r"<!-- runs: (.+?) -->\n```python\n(.+?)```", README.read_text(encoding="utf-8"), re.DOTALL))


def program(name: str, **around: Any) -> dict[str, Any]:
    """Runs it with what it leaves to the reader."""
    source = PROGRAMS.pop(name).replace("127.0.0.1:3144", SERVER)
    exec(compile(source, name, "exec"), around)
    return around


def says(name: str, check: Callable[[], None]) -> None:
    check()
    print(f"{name}: as it says", flush=True)


def threads() -> None:
    written: list[tuple[int, list[str]]] = []
    looker = Client(SERVER)
    program("threads", write_report=lambda token: written.append((token, holders(looker, "nightly-report"))))
    assert len(written) == 1 and len(written[0][1]) == 1, written
    assert holders(looker, "nightly-report") == []
    looker.close()


def tasks() -> None:
    written: list[int] = []

    async def write_report(token: int) -> None:
        written.append(token)

    body = "".join(f"    {line}\n" for line in PROGRAMS.pop("tasks").replace("127.0.0.1:3144", SERVER).splitlines())
    around: dict[str, Any] = {"write_report": write_report, "AsyncClient": AsyncClient}
    exec(f"async def main():\n{body}", around)
    asyncio.run(around["main"]())
    assert len(written) == 1, written


def failover() -> None:
    terms: list[int] = []
    leads, may_stop = threading.Event(), threading.Event()

    def first(token: int) -> None:
        terms.append(token)
        leads.set()
        may_stop.wait(PATIENCE)
        raise InterruptedError

    def serve(around: dict[str, Any]) -> None:
        with contextlib.suppress(InterruptedError):
            around["serve"]()

    source = PROGRAMS["failover"]
    one = program("failover", process_next_order=first)
    PROGRAMS["failover"] = source
    other = program("failover", process_next_order=first)
    looker = Client(SERVER)
    running = [threading.Thread(target=serve, args=[around], daemon=True) for around in (one, other)]
    running[0].start()
    assert leads.wait(PATIENCE)
    leads.clear()
    running[1].start()
    until("the other waits", lambda: waiters(looker, "orders-primary") != [])
    assert terms == [terms[0]]
    may_stop.set()
    for thread in running:
        thread.join(PATIENCE)
    assert len(terms) == 2 and terms[0] < terms[1], terms
    for client in (one["client"], other["client"], looker):
        client.close()


def task_lock() -> None:
    written: list[int] = []
    around = program("task lock", write_report=written.append)
    printed = io.StringIO()
    with Client(SERVER, holder="worker-7") as other:
        with other.hold("nightly-report"), contextlib.redirect_stdout(printed):
            around["nightly_report"]()
        assert (written, printed.getvalue()) == ([], "worker-7 does it\n"), printed.getvalue()
        around["nightly_report"]()
    assert len(written) == 1, written
    around["client"].close()


def utilisation_limit() -> None:
    inside: list[str] = []
    most: list[int] = []
    lock = threading.Lock()
    together = threading.Barrier(3)

    def resized(image: str) -> str:
        with lock:
            inside.append(image)
            most.append(len(inside))
        # All three that may are in it at the same time.
        together.wait(PATIENCE)
        with lock:
            inside.remove(image)
        return image.upper()

    around = program("utilisation limit", resized=resized)
    results: list[str] = []
    running = [
        threading.Thread(target=lambda image=image: results.append(around["resize"](image)), daemon=True)
        for image in "abcdef"
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(PATIENCE)
    assert (sorted(results), max(most)) == (list("ABCDEF"), 3), (results, most)
    around["client"].close()


def client_side() -> None:
    answered: list[str] = []

    def partner_answers(request: str) -> str:
        answered.append(request)
        return request.upper()

    around = program("client-side rate limit", partner_answers=partner_answers)
    assert [around["call_partner"](str(number)) for number in range(30)] == [str(number) for number in range(30)]

    def late() -> None:
        with contextlib.suppress(ClosedError):
            around["call_partner"]("late")

    waiting = threading.Thread(target=late, daemon=True)
    waiting.start()
    looker = Client(SERVER)
    until("one more waits", lambda: waiters(looker, "partner-api") != [])
    assert "late" not in answered
    looker.close()
    # It would wait for most of a minute.
    around["client"].close()
    waiting.join(PATIENCE)
    assert "late" not in answered


def server_side() -> None:
    around = program("server-side rate limit")
    # In any second, so a slow machine may let more through.
    for _ in range(1_000):
        if around["handle"]("alice") == 429:
            break
    else:
        raise AssertionError("a thousand requests were let through")
    assert around["handle"]("bob") == 200
    around["client"].close()


def several() -> None:
    trained: list[tuple[list[str], int]] = []
    around = program("several at once", train_on=lambda machines, token: trained.append((machines, token)))
    with Client(SERVER) as other:
        machines = [Resource("a", {"mem": "80"}), Resource("b", {"mem": "40"}), Resource("c", {"mem": "96"})]
        other.set_pool("gpus", resources=machines)
        other.set_pool("api-calls", units=100, window=60)
        around["train"]()
        assert [names for names, _ in trained] == [["a", "c"]], trained
        assert not other.api.list_holds(wire.ListHoldsRequest(pool="gpus")).holds
    around["client"].close()


def main() -> None:
    says("threads", threads)
    says("tasks", tasks)
    says("failover", failover)
    says("task lock", task_lock)
    says("utilisation limit", utilisation_limit)
    says("client-side rate limit", client_side)
    says("server-side rate limit", server_side)
    says("several at once", several)
    assert not PROGRAMS, f"{list(PROGRAMS)} are not run"


main()

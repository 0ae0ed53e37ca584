"""The session without a socket: what it says, what it makes of answers, and what it does when time passes."""

from __future__ import annotations

import subprocess
import sys
import unittest

from tenure import wire
from tenure._address import Address
from tenure._link import recognise, refusal_in
from tenure._options import asked
from tenure._requests import Ask
from tenure._session import CALL_PATIENCE, UNANSWERED_MAX, Broken, Identity, Session
from tenure._standing import Granted
from tenure._time import ServerTime, certain, millis, pause
from tenure.errors import ClosedError, LostReason, TenureError, Unreachable

AT_MS = 1_000_000
"""The server's clock when ours is at 0."""


class Play:
    """A session and what it was told to tell."""

    def __init__(self, grace: float = 30.0) -> None:
        self.now = 0.0
        self.greeted: list[TenureError | None] = []
        self.heard: list[Granted | TenureError] = []
        identity = Identity("127.0.0.1:3144", "alice", {}, "", grace, 5.0)
        self.session = Session(identity, self.greeted.append, lambda hold: None)

    def connect(self, key: str = "the-key") -> wire.ClientRequest:
        first = self.session.connecting(self.now).requests[0]
        opened = wire.SessionOpened(session=1, session_key=key, grace_ms=int(self.session.identity.grace * 1000))
        self.hear(wire.ServerAnswer(id=first.id, opened=opened))
        return first

    def hear(self, *answers: wire.ServerAnswer) -> None:
        self.session.hear(self.now, wire.ServerMessage(answers=answers))

    def say(self) -> list[wire.ClientRequest]:
        """What it says, with pings answered."""
        said: list[wire.ClientRequest] = []
        while (message := self.session.say(self.now)) is not None:
            for request in message.requests:
                if request.HasField("ping"):
                    at_ms = AT_MS + int(self.now * 1000)
                    self.hear(wire.ServerAnswer(id=request.id, pong=wire.Pong(at_ms=at_ms)))
                else:
                    said.append(request)
        return said

    def ask(self, wait: float | None = None, request_id: str | None = None) -> None:
        asks = asked("db", wait=wait, request_id=request_id)
        ask = Ask(asks.request, self.heard.append, None)
        ask.id = self.session.next_id()
        ask.end = self.now + wait if wait else None
        self.session.ask(self.now, ask)

    def grant(self, request: wire.ClientRequest, token: int = 1, ttl: float = 30.0) -> Granted:
        ttl_ms = int(ttl * 1000)
        deadline_ms = AT_MS + int(self.now * 1000) + ttl_ms
        grant = wire.Grant(
            pool="db", token=token, key=f"k{token}", units=1, lifetime=request.acquire.lifetime, ttl_ms=ttl_ms, deadline_ms=deadline_ms
        )
        self.hear(wire.ServerAnswer(id=request.id, granted=grant))
        granted = self.heard[-1]
        assert isinstance(granted, Granted), granted
        granted.done = True
        return granted

    def held(self, **more: float) -> Granted:
        self.ask()
        return self.grant(self.say()[0], **more)  # type: ignore[arg-type]

    def pass_time(self, to: float) -> None:
        """As the connection would, with the server there."""
        while (due := self.session.next_due()) is not None and due <= to:
            self.now = max(self.now, due)
            self.session.tick(self.now)
            for request in self.say():
                if request.HasField("renew"):
                    renewed = wire.Renewed(token=1, ttl_ms=30_000, deadline_ms=0)
                    self.hear(wire.ServerAnswer(id=request.id, renewed=renewed))
        self.now = to

    def cut(self) -> None:
        self.session.disconnected(self.now, Unreachable("127.0.0.1:3144", "cut"))


class Sessions(unittest.TestCase):
    def test_the_first_connection_opens_and_the_next_resumes(self) -> None:
        play = Play()
        self.assertTrue(play.connect().HasField("open"))
        self.assertEqual(play.greeted, [None])
        play.cut()
        again = play.connect()
        self.assertEqual(again.resume.session_key, "the-key")

    def test_a_first_connection_that_fails_is_the_end(self) -> None:
        play = Play()
        play.session.connecting(0)
        play.cut()
        self.assertIsInstance(play.greeted[0], Unreachable)
        self.assertTrue(play.session.is_over)

    def test_what_is_not_answered_is_said_again_under_the_same_request_id(self) -> None:
        play = Play()
        play.connect()
        play.ask()
        first = play.say()[0].acquire
        play.cut()
        play.connect()
        again = play.say()[0].acquire
        self.assertEqual((first.request_id, first.pool), (again.request_id, again.pool))
        self.assertEqual(len(first.request_id), 32)

    def test_a_wait_that_is_said_again_has_only_what_is_left_of_it(self) -> None:
        play = Play()
        play.connect()
        play.ask(wait=10)
        self.assertEqual(play.say()[0].acquire.wait_ms, 10_000)
        play.now = 4
        play.cut()
        play.connect()
        self.assertEqual(play.say()[0].acquire.wait_ms, 6_000)

    def test_a_lease_is_counted_from_before_it_was_asked_and_a_little_less(self) -> None:
        play = Play()
        play.connect()
        play.ask()
        request = play.say()[0]
        play.now = 0.5
        until = play.grant(request).standing.until
        assert until is not None
        self.assertLess(until, 30.5)
        self.assertGreater(until, 29)

    def test_a_lease_is_renewed_at_a_third_and_moves_on(self) -> None:
        play = Play()
        play.connect()
        hold = play.held()
        play.pass_time(100)
        self.assertIsNone(hold.standing.reason)
        self.assertGreater(hold.standing.until or 0, 110)

    def test_a_lease_that_cannot_be_renewed_is_lost_before_the_server_ends_it(self) -> None:
        play = Play()
        play.connect()
        hold = play.held()
        play.cut()
        play.session.tick(29)
        self.assertIsNone(hold.standing.reason)
        play.session.tick(29.99)
        self.assertIs(hold.standing.reason, LostReason.UNREACHABLE)

    def test_after_a_reconnect_every_hold_is_asked_about(self) -> None:
        play = Play()
        play.connect()
        kept, lost = play.held(token=1), play.held(token=2)
        play.cut()
        play.connect()
        renewals = {request.renew.key: request.id for request in play.say()}
        self.assertEqual(renewals.keys(), {"k1", "k2"})
        play.hear(
            wire.ServerAnswer(id=renewals["k1"], renewed=wire.Renewed(token=1, ttl_ms=30_000)),
            wire.ServerAnswer(id=renewals["k2"], refused=wire.Refusal(code="not_held")),
        )
        self.assertEqual((kept.standing.reason, lost.standing.reason), (None, LostReason.RELEASED))

    def test_a_session_that_is_gone_is_opened_anew_and_its_requests_get_new_ids(self) -> None:
        play = Play()
        play.connect()
        play.ask()
        first = play.say()[0].acquire.request_id
        play.cut()
        resume = play.session.connecting(play.now).requests[0]
        with self.assertRaises(Broken):
            play.hear(wire.ServerAnswer(id=resume.id, refused=wire.Refusal(code="unknown_session")))
        play.cut()
        self.assertTrue(play.connect(key="another").HasField("open"))
        said = play.say()
        self.assertEqual([request.withdraw.request_id for request in said if request.HasField("withdraw")], [first])
        anew = [request.acquire.request_id for request in said if request.HasField("acquire")]
        self.assertEqual((len(anew), first in anew), (1, False))

    def test_a_release_whose_answer_was_lost_may_find_that_it_was_done(self) -> None:
        play = Play()
        play.connect()
        hold = play.held()
        answers: list[TenureError | None] = []
        play.session.release(play.now, hold.id, answers.append)
        play.say()
        play.cut()
        play.connect()
        release = next(request for request in play.say() if request.HasField("release"))
        play.hear(wire.ServerAnswer(id=release.id, refused=wire.Refusal(code="not_held")))
        self.assertEqual(answers, [None])

    def test_a_release_of_what_somebody_else_released_is_refused(self) -> None:
        play = Play()
        play.connect()
        hold = play.held()
        answers: list[TenureError | None] = []
        play.session.release(play.now, hold.id, answers.append)
        play.hear(wire.ServerAnswer(id=play.say()[0].id, refused=wire.Refusal(code="not_held")))
        self.assertEqual([error and error.code for error in answers], ["not_held"])

    def test_a_server_without_time_is_asked_again_later(self) -> None:
        play = Play()
        play.connect()
        play.ask()
        request = play.say()[0]
        play.hear(wire.ServerAnswer(id=request.id, refused=wire.Refusal(code="overloaded", retry=True)))
        self.assertEqual((play.heard, play.say()), ([], []))
        play.now = 0.2
        play.session.tick(play.now)
        self.assertEqual(play.say()[0].acquire.request_id, request.acquire.request_id)

    def test_a_request_that_nobody_waits_for_is_withdrawn_if_it_was_said(self) -> None:
        play = Play()
        play.connect()
        play.ask()
        play.session.forget(play.session._last_id)
        self.assertEqual(play.say(), [], "the server does not know of it")
        play.ask()
        said = play.say()[0]
        play.session.forget(said.id)
        self.assertEqual(play.say()[0].withdraw.request_id, said.acquire.request_id)

    def test_a_try_is_given_up_when_nobody_answers(self) -> None:
        play = Play()
        play.connect()
        play.ask(wait=0)
        play.say()
        play.cut()
        play.session.tick(CALL_PATIENCE + 0.1)
        self.assertIsInstance(play.heard[0], Unreachable)

    def test_a_silent_connection_is_given_up(self) -> None:
        play = Play()
        play.connect()
        play.say()
        play.now = 5.1
        play.session.tick(play.now)
        self.assertIsNotNone(play.session.say(play.now))
        with self.assertRaises(Broken):
            play.session.tick(play.now + 6)

    def test_no_more_is_said_than_the_server_reads(self) -> None:
        play = Play()
        play.connect()
        play.say()
        for _ in range(5_000):
            play.ask()
        said = play.say()
        self.assertLess(len(said), UNANSWERED_MAX)
        for request in said:
            play.hear(wire.ServerAnswer(id=request.id, queued=wire.Queued(position=1)))
        self.assertGreater(len(play.say()), 0, "waits that are in the queue do not count")

    def test_the_end_is_said_last(self) -> None:
        play = Play()
        play.connect()
        hold = play.held()
        ended: list[TenureError | None] = []
        play.ask()
        play.session.close(play.now, ended.append)
        self.assertIsInstance(play.heard[-1], ClosedError)
        self.assertIs(hold.standing.reason, LostReason.CLOSED)
        release = play.say()
        self.assertEqual([request.WhichOneof("request") for request in release], ["release"])
        play.hear(wire.ServerAnswer(id=release[0].id, released=wire.Released(token=1)))
        end = play.say()
        self.assertEqual([request.WhichOneof("request") for request in end], ["end"])
        play.hear(wire.ServerAnswer(id=end[0].id, ended=wire.SessionEnded()))
        self.assertEqual((ended, play.session.is_over), ([None], True))

    def test_a_session_taken_over_twice_is_given_up(self) -> None:
        play = Play()
        for _ in range(2):
            first = play.connect()
            with self.assertRaises(Broken):
                play.hear(wire.ServerAnswer(id=first.id, refused=wire.Refusal(code="session_taken_over")))
            play.cut()
        self.assertTrue(play.connect(key="another").HasField("open"))

    def test_the_agenda_does_not_grow_with_holds_that_are_gone(self) -> None:
        play = Play()
        play.connect()
        for token in range(1, 3_000):
            hold = play.held(token=token)
            play.session.release(play.now, hold.id, None)
            play.hear(wire.ServerAnswer(id=play.say()[0].id, released=wire.Released(token=token)))
        self.assertLess(len(play.session._agenda), 1_100)


class Parts(unittest.TestCase):
    def test_what_is_certain_ends_a_little_early(self) -> None:
        self.assertLess(certain(0, 30), 30)
        self.assertGreater(certain(0, 30), 29)
        self.assertEqual(certain(7, 0.003), 7, "too short to be certain of")

    def test_an_answer_that_took_long_does_not_replace_one_that_came_at_once(self) -> None:
        quick, slow, newer = ServerTime(0, 1_000_000), ServerTime(1, 1_009_000), ServerTime(10, 1_010_000)
        self.assertIs(quick.or_sharper(slow), quick)
        self.assertIs(quick.or_sharper(newer), newer)
        self.assertIsNone(quick.before(999_999))

    def test_durations_are_not_rounded_to_nothing(self) -> None:
        self.assertEqual([millis(it) for it in (0, 0.000001, 0.007, 0.1, 30)], [0, 1, 7, 100, 30_000])

    def test_pauses_grow_to_the_most_and_no_further(self) -> None:
        for failures in range(100):
            self.assertTrue(0.025 <= pause(failures, 0.05, 2) <= 2)
        self.assertGreaterEqual(pause(20, 0.05, 2), 1)

    def test_addresses_are_read_as_people_write_them(self) -> None:
        for given, host, port, tls in (
            ("127.0.0.1:99", "127.0.0.1", 99, None),
            ("http://db.internal:99/", "db.internal", 99, False),
            ("https://db", "db", 3144, True),
            ("[::1]:99", "::1", 99, None),
            ("::1", "::1", 3144, None),
        ):
            address = Address.parse(given)
            self.assertEqual((address.host, address.port, address.tls), (host, port, tls), given)

    def test_strangers_are_recognised_by_their_first_words(self) -> None:
        self.assertIsNone(recognise(b""))
        self.assertIsNone(recognise(b"\0\0\x06\x04\0\0\0\0\0"), "this is HTTP/2")
        self.assertIn("HTTP", recognise(b"HTTP/1.1 400 Bad Request\r\n") or "")
        self.assertIn("TLS", recognise(b"\x15\x03\x01\0\x02\x02\x50") or "")
        self.assertEqual(recognise(b"SSH-2.0-Open\x07SSH\r\nmore"), "it says `SSH-2.0-OpenSSH`")

    def test_workflow_code_imports_nothing_of_the_client(self) -> None:
        """Temporal's sandbox imports it anew for every workflow, and would warn of sockets and threads."""
        script = "import sys, tenure; print(sorted(name for name in sys.modules if name.startswith(('tenure', 'h2', 'google'))))"
        said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
        self.assertEqual(said.strip(), "['tenure', 'tenure._version']")

    def test_details_that_cannot_be_read_are_no_refusal(self) -> None:
        for details in (b"", b"\xff", b"\x1a\xff", b"\x1a\x03abc", b"\x0d1234"):
            self.assertIsNone(refusal_in(details), details)

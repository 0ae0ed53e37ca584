"""The session as the client sees it: what there is to say, what an answer means, what is due when.

No sockets, no tasks and no clock here: time comes in with every call, messages go in and out, and `_connection` does the
rest. A request stays here until it is answered for good, so whatever is unanswered when a connection breaks is said again
on the next. `crates/client/src/session` is the same in Rust.
"""

from __future__ import annotations

import heapq

from . import _time, wire
from ._asks import Asks
from ._requests import Acquire, End, Ping, Release, Renew, Withdraw
from ._table import (
    ASKS_UNANSWERED_MAX,
    CALL_PATIENCE,
    UNANSWERED_MAX,
    Broken,
    Done,
    Ending,
    HoldId,
    Identity,
    Open,
    Opening,
    earliest,
)
from .errors import LostReason, TenureError, has_no_time, refused

__all__ = ["CALL_PATIENCE", "UNANSWERED_MAX", "Broken", "Done", "HoldId", "Identity", "Open", "Session", "earliest"]

REQUESTS_PER_MESSAGE_MAX = 1_024
MESSAGE_BYTES_MAX = 1024 * 1024
TAKEOVER_CALM = 60.0
"""A session that is taken over twice within this time has two clients, and one of them must give it up."""

_LOST = {
    wire.HOW_EXPIRED: LostReason.EXPIRED,
    wire.HOW_FORCED: LostReason.FORCED,
    wire.HOW_STOLEN: LostReason.FORCED,
    wire.HOW_OWNER_GONE: LostReason.OWNER_GONE,
    wire.HOW_SESSION_ENDED: LostReason.SESSION_ENDED,
    wire.HOW_RELEASED: LostReason.RELEASED,
}


class Session(Asks):
    def connecting(self, now: float) -> wire.ClientMessage:
        """The first message of a connection that is about to be made."""
        id = self.next_id()
        it = self.identity
        self.stage = Opening(id, now)
        if self.key is not None:
            resume = wire.ResumeSession(
                namespace=it.namespace, session_key=self.key, holder=it.holder, meta=it.meta
            )
            return wire.ClientMessage(requests=[wire.ClientRequest(id=id, resume=resume)])
        grace_ms = _time.millis(it.grace)
        opened = wire.OpenSessionRequest(namespace=it.namespace, holder=it.holder, meta=it.meta, grace_ms=grace_ms)
        return wire.ClientMessage(requests=[wire.ClientRequest(id=id, open=opened)])

    def disconnected(self, now: float, error: TenureError) -> None:
        """The connection is gone, or did not come about."""
        if self._greeting is not None:
            greeting, self._greeting = self._greeting, None
            self.end(None)
            greeting(error)
            return
        self._why = getattr(error, "why", str(error))
        if self.is_over:
            return
        self.stage = None
        self._unanswered = 0
        self._server_time = None
        self._urgent.clear()
        self._asks.clear()
        if self._ending is not None:
            self._ending.said = False
        # What is asked about holds and the connection is asked anew on the next one.
        for id, request in list(self._requests.items()):
            if isinstance(request, Renew | Ping | End):
                del self._requests[id]
                continue
            request.may_have_happened |= request.said
            request.said = request.answered = False
        for hold in self._holds.values():
            hold.renewing = False
        # Without a connection nobody says that a wait is over.
        for id, request in list(self._requests.items()):
            if isinstance(request, Acquire) and request.end is not None and request.end <= now:
                self._fail_acquire(id, self._unreachable())

    def say(self, now: float) -> wire.ClientMessage | None:
        """What there is to say, as much as fits into one message."""
        if self._may_end() and self._ending is not None:
            self._ending.said = True
            self._request(End())
        message = wire.ClientMessage()
        size = 0
        while len(message.requests) < REQUESTS_PER_MESSAGE_MAX and size < MESSAGE_BYTES_MAX:
            id = self._next_to_say()
            if id is None:
                break
            request = self._requests.get(id)
            # Forgotten meanwhile.
            if request is None or not request.is_ready:
                continue
            said = request.say(now, id)
            size += said.ByteSize()
            self._unanswered += 1
            message.requests.append(said)
        return message if message.requests else None

    def has_to_say(self) -> bool:
        urgent = bool(self._urgent) and self._unanswered < UNANSWERED_MAX
        asks = bool(self._asks) and self._unanswered < ASKS_UNANSWERED_MAX
        return self.is_open and (urgent or asks or self._may_end())

    def hear(self, now: float, message: wire.ServerMessage) -> None:
        if isinstance(self.stage, Open):
            self.stage.heard_at = now
        # The rest of a message is heard even if one of its answers ends the stream: it may have grants.
        broken: Broken | None = None
        for answer in message.answers:
            kind = answer.WhichOneof("answer")
            # A newer server may have something to say that is not known here.
            if kind is None:
                continue
            try:
                if isinstance(self.stage, Opening) and self.stage.id == answer.id:
                    self._opening(now, self.stage, kind, answer)
                elif isinstance(self.stage, Open) and self.stage.id == answer.id:
                    self._about_the_session(now, kind, answer)
                else:
                    self._about_a_request(now, kind, answer)
            except Broken as error:
                broken = broken or error
        if broken is not None:
            raise broken

    def _opening(self, now: float, opening: Opening, kind: str, answer: wire.ServerAnswer) -> None:
        if kind == "opened":
            self.key = answer.opened.session_key
            self.identity.grace = answer.opened.grace_ms / 1000
            self.stage = Open(opening.id, self._ping_interval(), ping_at=now, heard_at=now)
            self._session_is_certain(opening.said)
            unanswered = [(id, it.is_urgent) for id, it in self._requests.items() if it.is_ready]
            # First of all, so that the server's time is known when the first grant comes.
            self._ping(now)
            self._ask_about_holds()
            for id, urgent in unanswered:
                self._queue(id, urgent)
            if self._greeting is not None:
                greeting, self._greeting = self._greeting, None
                greeting(None)
            return
        if kind == "refused":
            if answer.refused.code == "unknown_session":
                self._session_ended(now)
            elif self._greeting is not None:
                greeting, self._greeting = self._greeting, None
                self.end(None)
                greeting(refused(answer.refused))
            raise Broken(answer.refused.message)
        # Not what it is: it may contain a key.
        raise Broken("the server gave an answer that does not fit")

    def _about_the_session(self, now: float, kind: str, answer: wire.ServerAnswer) -> None:
        if kind == "lost":
            reason = _LOST.get(answer.lost.how, LostReason.OTHER)
            for id in self._holds_by_token.get(answer.lost.token, ()):
                hold = self._holds[id]
                hold.standing.lose(now, reason, answer.lost.note)
                hold.due = None
        elif kind == "refused":
            if answer.refused.code == "session_taken_over":
                # Usually by an earlier connection of our own, whose words came late: then resuming mends it. Twice in a row
                # it is a copy of this process, and both would go on taking it from each other.
                if self._taken_over is not None and now < self._taken_over + TAKEOVER_CALM:
                    self._session_ended(now)
                self._taken_over = now
            elif answer.refused.code == "unknown_session":
                self._session_ended(now)
            raise Broken(answer.refused.message)

    def _session_ended(self, now: float) -> None:
        """The session is no more, and what lived as long as it. The next connection opens a new one."""
        self.key = None
        self._certain = None
        self._lose_all_of_session(now, LostReason.SESSION_ENDED)
        # Places in queues are lost. A grant that was on its way belongs to the old session, so the request is withdrawn.
        for id, request in list(self._requests.items()):
            if isinstance(request, Acquire) and request.own_id and request.first_said is not None:
                self._take_request(id)
                self._ask_anew(id, request)
        if self._ending is not None and self._is_settled():
            self.end(None)

    def _about_a_request(self, now: float, kind: str, answer: wire.ServerAnswer) -> None:
        id = answer.id
        if kind == "queued":
            queued = self._requests.get(id)
            if isinstance(queued, Acquire):
                queued.tell_queued(answer.queued.position)
                if not queued.answered:
                    queued.answered = True
                    self._unanswered = max(0, self._unanswered - 1)
            return
        request = self._take_request(id)
        # Forgotten meanwhile.
        if request is None:
            return
        if kind == "refused" and has_no_time(answer.refused) and not isinstance(request, Renew):
            request.may_have_happened |= answer.refused.code == "lost"
            self._again(now, id, request)
        elif isinstance(request, Acquire) and kind == "granted":
            self._granted(now, id, request, answer.granted)
        elif isinstance(request, Acquire) and kind == "refused":
            self._acquire_refused(id, request, answer.refused)
        elif isinstance(request, Renew) and kind == "renewed":
            self._renewed(now, request.hold, request.last_said or now, answer.renewed)
        elif isinstance(request, Renew) and kind == "refused":
            self._not_renewed(now, request.hold, answer.refused)
        elif isinstance(request, Release):
            if request.answer is not None:
                # An earlier attempt whose answer was lost may have done it.
                did = kind != "refused" or (request.may_have_happened and answer.refused.code == "not_held")
                request.answer(None if did else refused(answer.refused))
        elif isinstance(request, Ping) and kind == "pong":
            self._pong(now, request.last_said or now, answer.pong.at_ms)
        elif isinstance(request, End):
            # Or it ended by itself meanwhile, which is told to the stream too.
            if kind == "ended":
                self.end(None)
        elif not isinstance(request, Withdraw):
            # Not what it is: it may contain a key.
            raise Broken("the server gave an answer that does not fit")

    def next_due(self) -> float | None:
        """When `tick` has something to do, at the latest."""
        agenda = self._agenda
        while agenda and not self._is_current(agenda[0][0], agenda[0][2]):
            heapq.heappop(agenda)
        times = [agenda[0][0]] if agenda else []
        if self._ending is not None:
            times.append(self._ending.give_up)
        if isinstance(self.stage, Opening):
            times.append(self.stage.said + self.identity.connect_timeout)
        elif isinstance(self.stage, Open):
            silent = self.stage.silent_at()
            times.append(self.stage.ping_at if silent is None else silent)
        if self._certain is not None:
            times.append(self._certain)
        return min(times, default=None)

    def tick(self, now: float) -> None:
        """Does what is due."""
        while self._agenda and self._agenda[0][0] <= now:
            at, _, what = heapq.heappop(self._agenda)
            if self._is_current(at, what):
                if isinstance(what, int):
                    self._request_due(now, what)
                else:
                    self._hold_due(now, what)
        if self._certain is not None and self._certain <= now:
            self._certain = None
            self._lose_all_of_session(now, LostReason.UNREACHABLE)
        if self._ending is not None and self._ending.give_up <= now:
            self.end(self._unreachable())
        stage = self.stage
        if isinstance(stage, Opening):
            if stage.said + self.identity.connect_timeout <= now:
                raise Broken(f"it does not answer within {self.identity.connect_timeout:g} s")
        elif isinstance(stage, Open):
            silent = stage.silent_at()
            if silent is not None and silent <= now:
                raise Broken("the connection is silent")
            if stage.pinged is None and stage.ping_at <= now:
                self._ping(now)

    def close(self, now: float, answer: Done | None) -> None:
        """Lets go of everything and ends the session, as soon as the server can be told."""
        if self.is_over:
            if answer is not None:
                answer(None)
            return
        if self._ending is None:
            self._refuse_all_asks()
            for id in list(self._holds):
                self.release(now, id, None, LostReason.CLOSED)
            self._ending = Ending(now + CALL_PATIENCE)
        if answer is not None:
            self._ending.answers.append(answer)

    def end(self, error: TenureError | None) -> None:
        self.is_over = True
        self.stage = None
        self._refuse_all_asks()
        for hold in self._holds.values():
            hold.standing.lose(None, LostReason.CLOSED)
        self._holds.clear()
        self._holds_by_token.clear()
        self._requests.clear()
        ending, self._ending = self._ending, None
        for answer in ending.answers if ending is not None else []:
            answer(error)

    def _may_end(self) -> bool:
        """The end is said when everything else has been answered: the server listens to nothing after it."""
        return self._ending is not None and not self._ending.said and self.is_open and self._is_settled()

    def _is_settled(self) -> bool:
        """Nothing waits for an answer that anybody would miss."""
        return all(isinstance(request, Ping | Renew | End) for request in self._requests.values())

"""The session as the client sees it: what there is to say, what an answer means, what is due when.

No sockets, no tasks and no clock here: time comes in with every call, messages go in and out, and `_connection` does the
rest. A request stays here until it is answered for good, so whatever is unanswered when a connection breaks is said again
on the next. `crates/client/src/session` is the same in Rust.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from . import _time, wire
from ._requests import Acquire, Ask, End, Ping, Release, Renew, Request, Withdraw
from ._standing import Granted, Standing
from ._time import ServerTime, certain, pause
from .errors import ClosedError, HoldLost, LostReason, TenureError, Unreachable, has_no_time, refused

CALL_PATIENCE = 10.0
"""How long a call that does not wait for room waits for the server: a try, a release, a close."""
UNANSWERED_MAX = 4_000
"""The server reads no more from a stream with 4,096 unanswered requests. Below that, pings always reach it."""
ASKS_UNANSWERED_MAX = 2_048
"""Acquires leave room for the renewals and releases of what is held."""
REQUESTS_PER_MESSAGE_MAX = 1_024
MESSAGE_BYTES_MAX = 1024 * 1024
ACQUIRE_BYTES_MAX = 64 * 1024
"""More than anything with names within the server's limits takes, and little enough that a message of many stays within what
the server reads at once. What it does not read ends the stream, and would do so again after each reconnect."""
TAKEOVER_CALM = 60.0
"""A session that is taken over twice within this time has two clients, and one of them must give it up."""
PING_INTERVAL_MAX = 5.0
"""A connection is asked whether it is there at least this often, and at a sixth of the shortest lifetime there is: so a dead
one is noticed when two thirds of it are left. Below the least, a slow machine would look like a dead one."""
PING_INTERVAL_MIN = 0.5
PING_INTERVAL_LEAST = 0.02
PONG_PATIENCE_MIN = 1.0
RETRY_FIRST = 0.1
"""The pause before something is asked again that the server had no time for."""
RETRY_MOST = 2.0
RENEW_AGAIN_MAX = 1.0
"""A renewal that the server had no time for is repeated after a tenth of the lease, or this."""
RENEW_AGAIN_MIN = 0.05
GRANTS_OVER_MAX = 3
"""How many grants in a row may be over when they are heard of. After that a lease is too short for the way to the server, and
the next one is handed out as it is: lost."""

HoldId = tuple[int, int]
"""Names a hold: its token, and the acquire it came from. The same hold can be granted to two acquires that share a request
id."""
Done = Callable[[TenureError | None], None]

_LOST = {
    wire.HOW_EXPIRED: LostReason.EXPIRED,
    wire.HOW_FORCED: LostReason.FORCED,
    wire.HOW_OWNER_GONE: LostReason.OWNER_GONE,
    wire.HOW_SESSION_ENDED: LostReason.SESSION_ENDED,
    wire.HOW_RELEASED: LostReason.RELEASED,
}


class Broken(Exception):
    """The connection cannot be used any more, for this reason."""


@dataclass
class Identity:
    """Whose session it is."""

    address: str
    holder: str
    meta: dict[str, str]
    namespace: str
    grace: float
    connect_timeout: float


class Hold:
    __slots__ = ("due", "key", "length", "lifetime", "pool", "renew_at", "renewing", "standing", "timed_until")

    def __init__(self, grant: wire.Grant, timed_until: float | None, standing: Standing) -> None:
        self.key = grant.key
        self.pool = grant.pool
        self.lifetime = grant.lifetime
        self.length = grant.ttl_ms / 1000 if grant.HasField("ttl_ms") else None
        self.timed_until = timed_until
        """Until when it is certainly ours by its length, whatever becomes of the session."""
        self.renew_at: float | None = None
        self.renewing = False
        """A renewal is on its way."""
        self.standing = standing
        self.due: float | None = None

    def renewed_for(self) -> float | None:
        """How long a renewal lasts; none if there is nothing to renew."""
        return None if self.lifetime == wire.LIFETIME_WINDOW else self.length


@dataclass
class Open:
    """A connection on which the session is open."""

    id: int
    """The request that opened or resumed the session: what happens to it is told under this id."""
    interval: float
    ping_at: float
    heard_at: float
    pinged: float | None = None
    """Since when a ping is not answered."""

    def silent_at(self) -> float | None:
        """When a connection that has not answered its ping is given up."""
        if self.pinged is None:
            return None
        return max(self.pinged, self.heard_at) + max(self.interval, PONG_PATIENCE_MIN)


@dataclass
class Opening:
    id: int
    said: float


@dataclass
class Ending:
    give_up: float
    said: bool = False
    answers: list[Done] = field(default_factory=list)


class Session:
    def __init__(
        self,
        identity: Identity,
        greeting: Done,
        release: Callable[[HoldId], None],
    ) -> None:
        self.identity = identity
        self.stage: Opening | Open | None = None
        self.is_over = False
        self.key: str | None = None
        """The session's, if there is one to resume."""
        self._release = release
        self._greeting: Done | None = greeting
        self._last_id = 0
        self._certain: float | None = None
        """Until when the session, and what lives as long as it, is certainly there."""
        self._taken_over: float | None = None
        self._requests: dict[int, Request] = {}
        self._urgent: deque[int] = deque()
        """What is to be said next: what holds depend on, and after it the acquires."""
        self._asks: deque[int] = deque()
        self._unanswered = 0
        """Said on this connection and not answered at all."""
        self._holds: dict[HoldId, Hold] = {}
        self._holds_by_token: dict[int, list[HoldId]] = {}
        self._agenda: list[tuple[float, int, int | HoldId]] = []
        """A heap. What is no longer due at that time is left in it, and passed over."""
        self._agenda_number = 0
        self._server_time: ServerTime | None = None
        self._ending: Ending | None = None
        self._why = "not connected yet"

    @property
    def is_open(self) -> bool:
        return isinstance(self.stage, Open)

    # The connection.

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

    def _next_to_say(self) -> int | None:
        if not self.is_open:
            return None
        if self._urgent and self._unanswered < UNANSWERED_MAX:
            return self._urgent.popleft()
        if self._asks and self._unanswered < ASKS_UNANSWERED_MAX:
            return self._asks.popleft()
        return None

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

    # Time.

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

    def _is_current(self, at: float, what: int | HoldId) -> bool:
        entry = self._requests.get(what) if isinstance(what, int) else self._holds.get(what)
        return entry is not None and entry.due == at

    def _put_in_agenda(self, at: float, what: int | HoldId) -> None:
        self._agenda_number += 1
        heapq.heappush(self._agenda, (at, self._agenda_number, what))
        # Most holds end long before they would be renewed.
        if len(self._agenda) > 1_000 + 4 * (len(self._requests) + len(self._holds)):
            self._agenda = [entry for entry in self._agenda if self._is_current(entry[0], entry[2])]
            heapq.heapify(self._agenda)

    # Pings.

    def _ping(self, now: float) -> None:
        self._request(Ping())
        if isinstance(self.stage, Open):
            self.stage.pinged = now

    def _pong(self, now: float, said: float, at_ms: int) -> None:
        time = ServerTime(said, at_ms)
        self._server_time = time if self._server_time is None else self._server_time.or_sharper(time)
        self._session_is_certain(said)
        if isinstance(self.stage, Open):
            self.stage.pinged = None
            self.stage.interval = self._ping_interval()
            self.stage.ping_at = max(said + self.stage.interval, now)

    def _ping_interval(self) -> float:
        shortest = self.identity.grace
        for hold in self._holds.values():
            length = hold.renewed_for()
            if length is not None and length < shortest:
                shortest = length
        return interval_for(shortest)

    def _ping_for(self, now: float, length: float) -> None:
        """Looks after the connection as closely as a hold of this length needs."""
        interval = interval_for(length)
        if isinstance(self.stage, Open) and interval < self.stage.interval:
            self.stage.interval = interval
            self.stage.ping_at = min(self.stage.ping_at, now + interval)

    def _session_is_certain(self, said: float) -> None:
        """The server had the session no earlier than `said`, so it keeps it for its grace from then at least."""
        until = certain(said, self.identity.grace)
        if self._certain is None or self._certain < until:
            self._certain = until
            for hold in self._holds.values():
                if hold.lifetime == wire.LIFETIME_SESSION and hold.standing.reason is None:
                    hold.standing.until = certain_until(hold.lifetime, hold.timed_until, until)

    # Requests.

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _request(self, request: Request) -> None:
        self._request_with_id(self.next_id(), request)

    def _request_with_id(self, id: int, request: Request) -> None:
        self._requests[id] = request
        self._schedule(id, request)
        if request.is_ready:
            self._queue(id, request.is_urgent)

    def _queue(self, id: int, urgent: bool) -> None:
        """While there is no connection nothing stands in line: the next one starts with everything there is."""
        if self.is_open:
            (self._urgent if urgent else self._asks).append(id)

    def _take_request(self, id: int) -> Request | None:
        request = self._requests.pop(id, None)
        if request is not None and request.said and not request.answered:
            self._unanswered = max(0, self._unanswered - 1)
        return request

    def _schedule(self, id: int, request: Request) -> None:
        request.due = earliest(request.give_up, request.retry_at)
        if request.due is not None:
            self._put_in_agenda(request.due, id)

    def _request_due(self, now: float, id: int) -> None:
        request = self._requests[id]
        if request.retry_at is not None and request.retry_at <= now:
            request.retry_at = None
            self._queue(id, request.is_urgent)
        if request.give_up is not None and request.give_up <= now:
            self._give_up(now, id, request)
        if id in self._requests:
            self._schedule(id, request)

    def _give_up(self, now: float, id: int, request: Request) -> None:
        request.give_up = None
        if isinstance(request, Acquire):
            later = request.later_end(now) if self.is_open else None
            # The server is about to say that the time is up, and who holds it.
            if later is not None:
                request.give_up = later
            else:
                self._fail_acquire(id, self._unreachable())
        elif isinstance(request, Release) and request.answer is not None:
            # It goes on trying, though nobody listens.
            answer, request.answer = request.answer, None
            answer(self._unreachable())

    def _again(self, now: float, id: int, request: Request) -> None:
        """Asks again after a pause: the server had no time for it."""
        request.said = request.answered = False
        request.failures += 1
        request.retry_at = now + pause(request.failures, RETRY_FIRST, RETRY_MOST)
        self._request_with_id(id, request)

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

    # Acquires.

    def ask(self, now: float, ask: Ask) -> None:
        if self._ending is not None or self.is_over:
            ask.answer(ClosedError())
            return
        size = ask.request.ByteSize()
        if size > ACQUIRE_BYTES_MAX:
            message = f"the request has {size} bytes; the most is {ACQUIRE_BYTES_MAX}"
            advice = "use shorter names and less metadata"
            ask.answer(refused(wire.Refusal(code="invalid_argument", message=message, advice=advice)))
            return
        request = Acquire(ask)
        request.give_up = now + CALL_PATIENCE if ask.tries else ask.end
        self._request_with_id(ask.id, request)

    def forget(self, id: int) -> None:
        """Nobody awaits it any more. If the server may know of it, it must not be granted."""
        request = self._requests.get(id)
        if isinstance(request, Acquire):
            self._take_request(id)
            self._withdraw_if_said(request)

    def _withdraw_if_said(self, request: Acquire) -> None:
        if request.first_said is not None:
            self._request(Withdraw(request.request_id))

    def _fail_acquire(self, id: int, error: TenureError) -> None:
        request = self._take_request(id)
        if isinstance(request, Acquire):
            self._withdraw_if_said(request)
            request.answer(error)

    def _ask_anew(self, id: int, request: Acquire) -> None:
        self._withdraw_if_said(request)
        self._request_with_id(id, request.anew())

    def _granted(self, now: float, id: int, request: Acquire, grant: wire.Grant) -> None:
        # Under an id that others may have, it may be older than what was said here.
        asked = request.first_said if request.own_id else None
        timed_until = self._timed_until(now, asked, grant)
        session_until = self._certain if self._certain is not None else now
        until = certain_until(grant.lifetime, timed_until, session_until)
        # Granted while nobody could be told, and over by now. Handing it out would be no use to anybody.
        if until is not None and until <= now and self._may_do_better(now, request, grant):
            request.grants_over += 1
            self._ask_anew(id, request)
            return
        standing = Standing(until, fixed=grant.lifetime == wire.LIFETIME_WINDOW)
        hold = Hold(grant, timed_until, standing)
        hold_id = (grant.token, id)
        self._holds[hold_id] = hold
        self._holds_by_token.setdefault(grant.token, []).append(hold_id)
        length = hold.renewed_for()
        if timed_until is not None and length is not None:
            hold.renew_at = max(now, timed_until - length * 2 / 3)
            self._ping_for(now, length)
        self._schedule_hold(hold_id, hold)
        request.answer(Granted(hold_id, grant, standing, self._release))

    def _timed_until(self, now: float, asked: float | None, grant: wire.Grant) -> float | None:
        """Until when a grant is certainly ours by its length, counted from before it was asked for or, if it was waited for,
        by the server's deadline on the server's clock. None if it does not end by time."""
        if not grant.HasField("ttl_ms"):
            return None
        by_length = None if asked is None else certain(asked, grant.ttl_ms / 1000)
        by_deadline = None
        if self._server_time is not None and grant.HasField("deadline_ms"):
            by_deadline = self._server_time.before(grant.deadline_ms)
        known = [at for at in (by_length, by_deadline) if at is not None]
        return max(known, default=now)

    def _may_do_better(self, now: float, request: Acquire, grant: wire.Grant) -> bool:
        """Whether another grant instead of this one, which is over, may be of use. Not if nothing can be certain that is so
        short: each place in a short rate window would be used up for nothing."""
        can_be_certain = not grant.HasField("ttl_ms") or certain(now, grant.ttl_ms / 1000) > now
        often = not request.may_have_happened and request.grants_over >= GRANTS_OVER_MAX
        return request.own_id and can_be_certain and not often

    def _acquire_refused(self, id: int, request: Acquire, refusal: wire.Refusal) -> None:
        # The session is over, and the stream is about to be told.
        if refusal.code == "unknown_session" and request.own_id:
            self._ask_anew(id, request)
            raise Broken(refusal.message)
        # It was granted while nobody could be told, and is over by now.
        if refusal.code == "request_ended" and request.own_id and request.may_have_happened:
            self._ask_anew(id, request)
            return
        request.answer(refused(refusal))

    # Holds.

    def _schedule_hold(self, id: HoldId, hold: Hold) -> None:
        # That the session may be over is looked after for all at once.
        hold.due = None if hold.standing.reason is not None else earliest(hold.timed_until, hold.renew_at)
        if hold.due is not None:
            self._put_in_agenda(hold.due, id)

    def _hold_due(self, now: float, id: HoldId) -> None:
        hold = self._holds[id]
        if hold.timed_until is not None and hold.timed_until <= now:
            hold.standing.lose(now, hold.standing.lost_by_time())
        elif hold.renew_at is not None and hold.renew_at <= now:
            hold.renew_at = None
            # Without a connection it is renewed as soon as there is one.
            if self.is_open and not hold.renewing:
                hold.renewing = True
                self._request(Renew(id, hold.key))
        self._schedule_hold(id, hold)

    def _ask_about_holds(self) -> None:
        """After a reconnect: what was lost meanwhile was told to nobody. A renewal tells, also of what cannot be renewed."""
        for id, hold in self._holds.items():
            if hold.standing.reason is None:
                hold.renewing, hold.renew_at = True, None
                self._schedule_hold(id, hold)
                self._request(Renew(id, hold.key))

    def _renewed(self, now: float, id: HoldId, said: float, renewed: wire.Renewed) -> None:
        hold = self._holds.get(id)
        if hold is None:
            return
        hold.renewing = False
        if hold.standing.reason is not None:
            return
        # Without a time it could not be renewed: while we were away somebody with its key has made it a lease.
        if hold.length is None:
            hold.lifetime = wire.LIFETIME_LEASED
        hold.length = renewed.ttl_ms / 1000
        hold.timed_until = certain(said, hold.length)
        hold.renew_at = max(now, hold.timed_until - hold.length * 2 / 3)
        session_until = self._certain if self._certain is not None else now
        hold.standing.until = certain_until(hold.lifetime, hold.timed_until, session_until)
        self._schedule_hold(id, hold)

    def _not_renewed(self, now: float, id: HoldId, refusal: wire.Refusal) -> None:
        hold = self._holds.get(id)
        if hold is None:
            return
        hold.renewing = False
        if refusal.code == "not_held":
            hold.standing.lose(now, LostReason.RELEASED)
        elif refusal.code == "not_renewable":
            # It is there, and that was the question.
            pass
        elif has_no_time(refusal) and hold.length is not None:
            hold.renew_at = now + min(max(hold.length / 10, RENEW_AGAIN_MIN), RENEW_AGAIN_MAX)
        else:
            hold.renew_at = now + RENEW_AGAIN_MAX
        self._schedule_hold(id, hold)

    def _lose_all_of_session(self, now: float, reason: LostReason) -> None:
        for hold in list(self._holds.values()):
            if hold.lifetime == wire.LIFETIME_SESSION:
                hold.standing.lose(now, reason)
                hold.due = None

    def release(self, now: float, id: HoldId, answer: Done | None, reason: LostReason = LostReason.LET_GO) -> None:
        """Whoever still listens hears the `reason`."""
        hold = self._drop_hold(id)
        if hold is None:
            # Closing has released it.
            if answer is not None:
                answer(None)
            return
        lost, note = hold.standing.reason, hold.standing.note
        hold.standing.lose(now, reason)
        if hold.lifetime == wire.LIFETIME_WINDOW:
            if answer is not None:
                answer(None)
        elif lost is None or lost is LostReason.UNREACHABLE:
            # It may be there all the same.
            request = Release(hold.key, answer)
            request.give_up = None if answer is None else now + CALL_PATIENCE
            self._request(request)
        elif answer is not None:
            answer(HoldLost(hold.pool, lost, note))

    def _drop_hold(self, id: HoldId) -> Hold | None:
        hold = self._holds.pop(id, None)
        if hold is not None:
            same = self._holds_by_token[id[0]]
            same.remove(id)
            if not same:
                del self._holds_by_token[id[0]]
        return hold

    def keep(self, id: HoldId) -> None:
        """Looks after it no more."""
        hold = self._drop_hold(id)
        if hold is not None:
            hold.standing.lose(None, LostReason.LET_GO)

    # The end.

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

    def _refuse_all_asks(self) -> None:
        for id, request in list(self._requests.items()):
            if isinstance(request, Acquire):
                self._fail_acquire(id, ClosedError())

    def _may_end(self) -> bool:
        """The end is said when everything else has been answered: the server listens to nothing after it."""
        return self._ending is not None and not self._ending.said and self.is_open and self._is_settled()

    def _is_settled(self) -> bool:
        """Nothing waits for an answer that anybody would miss."""
        return all(isinstance(request, Ping | Renew | End) for request in self._requests.values())

    def _unreachable(self) -> Unreachable:
        return Unreachable(self.identity.address, "it does not answer" if self.is_open else self._why)


def interval_for(length: float) -> float:
    least = max(min(PING_INTERVAL_MIN, length / 3), PING_INTERVAL_LEAST)
    return min(max(length / 6, least), PING_INTERVAL_MAX)


def certain_until(lifetime: int, timed_until: float | None, session_until: float) -> float | None:
    """Until when a hold is certainly ours: by its length, and if it ends with the session, no longer than that."""
    return earliest(timed_until, session_until if lifetime == wire.LIFETIME_SESSION else None)


def earliest(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)

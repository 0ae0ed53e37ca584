"""Between a scenario's words and the client's: what an actor does, and what the answers are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from scenario_text import Outcome, Step, duration, duration_text
from tenure import TenureError, wire
from tenure.errors import Deadlock, Refused

if TYPE_CHECKING:
    from scenarios import Stage

START = 1_000_000_000_000
"""When scenarios start, by the server's clock."""


KNOWN = {
    "acquire": {"units", "size", "select", "resource", "ttl", "window", "owner", "wait", "priority", "request", "as", "session"}
    | {"also", "meta"},
    "renew": {"token", "key", "ttl"},
    "release": {"token", "key"},
    "withdraw": {"request"},
    "hangs-up": set(),
    "session": {"grace"},
    "pool": {"units", "resource", "placement", "order", "window", "fair", "weights", "size-was", "place-by", "order-by"},
    "drain": {"resource", "note", "for", "state-was"},
    "quarantine": {"resource", "note", "for", "state-was"},
    "return": {"resource", "note", "for", "state-was"},
    "force-release": {"holder", "token", "reason"},
    "steal": {"holder", "token", "to", "ttl", "request", "reason"},
    "move": {"waiter", "holder", "before", "reason"},
    "reserve": {"resource", "holder", "for", "instead-of", "reason"},
    "unreserve": {"resource", "holder", "reason"},
    "explain": {"request", "waiter"},
    "owner-gone": {"owner"},
    "show": {"resource"},
    "queue": set(),
    "holds": {"pool", "holder"},
    "ls": {"prefix"},
    "sessions": set(),
    "history": {"pool", "holder"},
    "restart": set(),
    "stop": set(),
    "start": set(),
    "passes": set(),
}
"""Verbs and the names of their arguments, besides `ns`."""


FLAGS = {
    "acquire": {"until-session-ends", "kept", "session", "holds-on", "dirty"},
    "session": {"polled"},
    "pool": {"cleaning"},
    "steal": {"kept"},
    "move": {"front"},
}
"""Their words without a value, after what is done and to which pool."""


class UnknownWord(Exception):
    """A verb or an argument that this runner has not learnt yet."""


class Words:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    async def act(self, step: Step, key_of: Callable[[int | None, str], str]) -> Outcome:
        stage, actor = self.stage, step.actor
        arguments = Arguments(step)
        verb = arguments.word()
        if verb not in KNOWN:
            raise UnknownWord(f"`{verb}`")
        for name in step.named.keys() - KNOWN[verb] - {"ns"}:
            raise UnknownWord(f"`{name}=` of `{verb}`")
        named = 3 if verb == "pool" else 2
        for name in set(step.words[named:]) - FLAGS.get(verb, set()):
            raise UnknownWord(f"`{name}` of `{verb}`")
        done = Outcome("done", {})
        match verb:
            case "acquire":
                return await stage.acquire(actor, acquire(actor, arguments), arguments.session)
            case "renew":
                pool, namespace, key, _ = hold(actor, arguments, key_of)
                ttl = arguments.duration("ttl")
                renew = wire.RenewRequest(pool=pool, namespace=namespace, key=key, ttl_ms=ttl)
                return await stage.outcome(stage.face.api.renew(renew), self.renewed)
            case "release":
                pool, namespace, key, token = hold(actor, arguments, key_of)
                return await stage.release(actor, token, wire.ReleaseRequest(pool=pool, namespace=namespace, key=key))
            case "withdraw":
                withdraw = wire.WithdrawRequest(namespace=arguments.namespace, request_id=arguments.must("request"))
                return await stage.outcome(stage.face.api.withdraw(withdraw), lambda _: Outcome("withdrawn", {}))
            case "hangs-up":
                await stage.hang_up(actor)
                return done
            case "session":
                return await self.session(actor, arguments)
            case "restart":
                await stage.stop()
                await stage.start()
                return done
            case "stop":
                await stage.stop()
                return done
            case "start":
                await stage.start()
                return done
            case "passes":
                return done
            case _:
                return await self.operate(verb, arguments)

    async def session(self, actor: str, arguments: Arguments) -> Outcome:
        stage = self.stage
        match arguments.word():
            case "open":
                grace = arguments.duration("grace") or 0
                return await stage.open_session(actor, arguments.namespace, grace, arguments.flag("polled"))
            case "keep-alive":
                return await stage.keep_alive(actor)
            case "drop":
                await stage.drop_session(actor)
                return Outcome("done", {})
            case "resume":
                return await stage.resume_session(actor)
            case "end":
                return await stage.end_session(actor)
            case other:
                from scenarios import LeftOut

                raise LeftOut(f"`session {other}` is not something that this client can do")

    async def operate(self, verb: str, arguments: Arguments) -> Outcome:
        """What an operator does or asks."""
        api, outcome, namespace = self.stage.face.api, self.stage.outcome, arguments.namespace
        match verb:
            case "force-release":
                force = wire.ForceReleaseRequest(
                    namespace=namespace,
                    pool=arguments.word(),
                    holder=arguments.must("holder"),
                    token=int(arguments.must("token")),
                    reason=arguments.must("reason"),
                )
                return await outcome(api.force_release(force), self.released)
            case "steal":
                return await outcome(api.steal(steal(arguments)), self.granted)
            case "move":
                before = arguments.get("before")
                move = wire.MoveWaiterRequest(
                    namespace=namespace,
                    pool=arguments.word(),
                    waiter=int(arguments.must("waiter")),
                    holder=arguments.must("holder"),
                    before=None if before is None else int(before),
                    reason=arguments.must("reason"),
                )
                return await outcome(api.move_waiter(move), lambda _: Outcome("done", {}))
            case "reserve":
                reserve = wire.ReserveRequest(
                    namespace=namespace,
                    pool=arguments.word(),
                    resource=arguments.must("resource"),
                    holder=arguments.must("holder"),
                    lasts_ms=arguments.duration("for"),
                    instead_of=arguments.get("instead-of"),
                    reason=arguments.must("reason"),
                )
                return await outcome(api.reserve(reserve), lambda _: Outcome("done", {}))
            case "unreserve":
                unreserve = wire.UnreserveRequest(
                    namespace=namespace,
                    pool=arguments.word(),
                    resource=arguments.must("resource"),
                    holder=arguments.must("holder"),
                    reason=arguments.must("reason"),
                )
                return await outcome(api.unreserve(unreserve), lambda _: Outcome("done", {}))
            case "explain":
                waiter = arguments.get("waiter")
                explain = wire.ExplainRequest(
                    namespace=namespace,
                    pool=arguments.word(),
                    waiter=None if waiter is None else int(waiter),
                    request_id=arguments.get("request"),
                )
                return await outcome(api.explain(explain), explained)
            case "owner-gone":
                gone = wire.OwnerGoneRequest(namespace=namespace, owner=arguments.must("owner"))
                return await outcome(api.owner_gone(gone), lambda it: Outcome("done", {"holds": str(it.holds)}))
            case "pool":
                return await self.pool(arguments)
            case "drain" | "quarantine" | "return":
                state = {
                    "drain": wire.CONDITION_STATE_DRAINED,
                    "quarantine": wire.CONDITION_STATE_QUARANTINED,
                    "return": wire.CONDITION_STATE_IN_SERVICE,
                }[verb]
                was = arguments.get("state-was")
                condition = wire.SetConditionRequest(
                    namespace=namespace,
                    pool=arguments.word(),
                    resource=arguments.get("resource"),
                    condition=wire.Condition(state=state, note=arguments.get("note")),
                    lasts_ms=arguments.duration("for"),
                    state_was=None if was is None else f"CONDITION_STATE_{was.replace('-', '_').upper()}",
                )
                return await outcome(api.set_condition(condition), lambda _: Outcome("done", {}))
            case "show":
                name = arguments.get("resource")
                shown = api.get_pool(wire.GetPoolRequest(namespace=namespace, pool=arguments.word()))
                return await outcome(shown, lambda detail: resource(detail, name) if name else pool(detail))
            case "queue":
                queue = api.list_queue(wire.ListQueueRequest(namespace=namespace, pool=arguments.word()))
                return await outcome(queue, lambda listed: waiters(listed.waiters))
            case "holds":
                request = wire.ListHoldsRequest(
                    namespace=namespace, pool=arguments.get("pool"), holder=arguments.get("holder")
                )
                return await outcome(api.list_holds(request), lambda listed: holds(listed.holds))
            case "ls":
                pools = wire.ListPoolsRequest(namespace=namespace, prefix=arguments.get("prefix"))
                return await outcome(
                    api.list_pools(pools), lambda listed: Outcome("shown", {"pools": many(it.pool for it in listed.pools)})
                )
            case "sessions":
                listed = api.list_sessions(wire.ListSessionsRequest(namespace=namespace))
                return await outcome(listed, lambda it: sessions(it.sessions))
            case "history":
                return await self.history(arguments)
            case other:
                raise AssertionError(f"`{other}` is not a verb that this runner knows")

    async def pool(self, arguments: Arguments) -> Outcome:
        api, outcome, namespace = self.stage.face.api, self.stage.outcome, arguments.namespace
        verb, name = arguments.word(), arguments.word()
        if verb == "rm":
            removed = api.remove_pool(wire.RemovePoolRequest(namespace=namespace, pool=name))
            return await outcome(removed, lambda it: Outcome("done", {"holds-left": str(it.holds_left)}))
        units = arguments.get("units")
        placement, _, label = (arguments.get("placement") or "").partition(":")
        order = arguments.get("order")
        spec = wire.PoolSpec(
            units=None if units is None else int(units),
            resources=[described(text) for text in arguments.all("resource")],
            placement=f"PLACEMENT_{placement.replace('-', '_').upper()}" if placement else None,
            spread_label=label or None,
            order=f"ORDER_{order.upper()}" if order else None,
            window_ms=arguments.duration("window"),
            cleaning=arguments.flag("cleaning"),
            fair=fair(arguments),
            scripts=scripts(arguments),
        )
        was = arguments.get("size-was")
        size_was = None if was is None else int(was)
        made = api.set_pool(wire.SetPoolRequest(namespace=namespace, pool=name, spec=spec, size_was=size_was))
        return await outcome(made, lambda it: Outcome("done", {"created": yes(it.created)}))

    async def history(self, arguments: Arguments) -> Outcome:
        request = wire.HistoryRequest(
            namespace=arguments.namespace, pool=arguments.get("pool"), holder=arguments.get("holder")
        )
        names, note = [], "none"
        while True:
            try:
                page = await self.stage.face.api.history(request)
            except TenureError as error:
                return self.failed(error)
            for event in page.events:
                kind = word(wire.EventKind, event.kind, "EVENT_KIND_")
                names.append(f"{kind}:{word(wire.How, event.how, 'HOW_')}" if event.how else kind)
                note = event.note if event.HasField("note") else note
            if page.done:
                return Outcome("shown", {"events": many(names), "note": note})
            request.after = page.next

    # Outcomes.

    def failed(self, error: TenureError) -> Outcome:
        if not isinstance(error, Refused):
            return Outcome(f"refused {error.code}", {"why": str(error)})
        refusal = error.refusal
        fields = {"retry": yes(refusal.retry)}
        names = {"holders-total": "holders_total"}
        numbers = ("most", "size", "free", "dirty", "max", "position", "holders-total", "token", "line", "column")
        for name in (*numbers, "field", "pool", "resource", "limit"):
            if refusal.HasField(names.get(name, name)):
                fields[name] = str(getattr(refusal, names.get(name, name)))
        if refusal.HasField("deadline_ms"):
            fields["until"] = time(refusal.deadline_ms)
        match refusal.code:
            case "request_ended":
                fields["token"] = or_none(refusal, "token")
            case "window_mismatch":
                fields["window"] = length_or_none(refusal, "window_ms")
            case "out_of_service" | "pool_changed":
                fields |= condition(refusal.condition)
            case "moved_on":
                fields |= holders(refusal.holders)
            case "busy" | "timed_out":
                fields |= holders(refusal.holders)
                fields["reserved"] = many(f"{it.resource}:{it.holder}" for it in refusal.reserved)
                fields["also"] = many(room.pool for room in refusal.also)
            case "deadlock":
                assert isinstance(error, Deadlock), error
                fields["cycle"] = many(f"{it.holder}>{it.pool}" for it in error.cycle)
        return Outcome(f"refused {refusal.code}", fields)

    def granted(self, grant: wire.Grant) -> Outcome:
        fields = {
            "pool": grant.pool,
            "token": str(grant.token),
            "units": str(grant.units),
            "resources": many(resource.name for resource in grant.resources),
            "lifetime": word(wire.Lifetime, grant.lifetime, "LIFETIME_"),
            "since": time(grant.since_ms),
            "until": time_or_none(grant, "deadline_ms"),
            "also": many(f"{part.pool}:{part.units}" for part in grant.also),
            "also-resources": many(resource.name for part in grant.also for resource in part.resources),
            "windows": many(
                f"{part.pool}:{time(part.deadline_ms)}" for part in grant.also if part.HasField("deadline_ms")
            ),
        }
        for resource in (*grant.resources, *(resource for part in grant.also for resource in part.resources)):
            for name, value in (*resource.labels.items(), *resource.properties.items()):
                fields[f"{resource.name}.{name}"] = value
        return Outcome("granted", fields, grant.key)

    def queued(self, waiter: wire.Waiter) -> Outcome:
        # A client asks for what is left of its wait by its own clock, of which some milliseconds may be gone by then.
        until = time(START - (START - waiter.deadline_ms) // 1000 * 1000) if waiter.HasField("deadline_ms") else "none"
        return Outcome("queued", {"position": str(waiter.position), "until": until})

    def renewed(self, renewed: wire.Renewed) -> Outcome:
        until, ttl = time(renewed.deadline_ms), duration_text(renewed.ttl_ms)
        return Outcome("renewed", {"token": str(renewed.token), "ttl": ttl, "until": until})

    def released(self, released: wire.Released) -> Outcome:
        return Outcome("released", {"token": str(released.token)})

    def session_opened(self, opened: wire.SessionOpened) -> Outcome:
        return Outcome("open", {"grace": duration_text(opened.grace_ms), "until": time_or_none(opened, "deadline_ms")})


class Arguments:
    """What follows a verb."""

    def __init__(self, step: Step) -> None:
        self._words = list(step.words)
        self._named = step.named

    def word(self) -> str:
        return self._words.pop(0)

    def flag(self, name: str) -> bool:
        return name in self._words

    def get(self, name: str) -> str | None:
        return self._named[name][0] if name in self._named else None

    def all(self, name: str) -> list[str]:
        return self._named.get(name, [])

    def must(self, name: str) -> str:
        return self._named[name][0]

    def duration(self, name: str) -> int | None:
        text = self.get(name)
        return None if text is None else duration(text)

    @property
    def namespace(self) -> str:
        """The wire's way to name `default` is to say nothing."""
        named = self.get("ns")
        return "" if named is None or named == "default" else named

    @property
    def session(self) -> str | None:
        return self.get("session") or ("own" if self.flag("session") else None)


def acquire(actor: str, arguments: Arguments) -> wire.AcquireRequest:
    pool = arguments.word()
    units, size = arguments.get("units"), arguments.get("size")
    wait, name = arguments.get("wait"), arguments.get("resource")
    select = selector(arguments.get("select"), name)
    window = arguments.duration("window")
    lifetime = wire.LIFETIME_UNSPECIFIED
    if arguments.flag("until-session-ends"):
        lifetime = wire.LIFETIME_SESSION
    elif window is not None:
        lifetime = wire.LIFETIME_WINDOW
    elif arguments.flag("kept"):
        lifetime = wire.LIFETIME_KEPT
    return wire.AcquireRequest(
        namespace=arguments.namespace,
        pool=pool,
        units=int(units) if units is not None and units not in ("1", "all") else None,
        all=units == "all",
        select=select,
        size=None if size is None else int(size),
        lifetime=lifetime,
        ttl_ms=arguments.duration("ttl") if window is None else window,
        owner=arguments.get("owner"),
        wait_ms=None if wait in (None, "forever") else arguments.duration("wait"),
        wait_forever=wait == "forever",
        priority=int(arguments.get("priority") or 0),
        holder=arguments.get("as") or actor,
        request_id=arguments.get("request"),
        also=[part(text) for text in arguments.all("also")],
        holds_on=arguments.flag("holds-on"),
        dirty=arguments.flag("dirty"),
        meta=pairs(arguments.all("meta")),
    )


def part(text: str) -> wire.Part:
    """`gpu units=2 select=big`: the pool, and what is wanted of it."""
    pool, *words = text.split()
    named = pairs(words)
    units = named.get("units", "1")
    return wire.Part(
        pool=pool,
        units=None if units == "all" else int(units),
        all=units == "all",
        select=selector(named.get("select"), named.get("resource")),
        size=int(named["size"]) if "size" in named else None,
    )


def selector(select: str | None, name: str | None) -> str | None:
    if name is None or select is not None:
        return select
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'name == "{quoted}"'


def pairs(words: Iterable[str]) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def fair(arguments: Arguments) -> wire.FairShare | None:
    by, weights = arguments.get("fair"), pairs((arguments.get("weights") or "").split())
    return None if by is None else wire.FairShare(by=by, weights={name: int(weight) for name, weight in weights.items()})


def scripts(arguments: Arguments) -> wire.Scripts | None:
    place, order = arguments.get("place-by"), arguments.get("order-by")
    return None if place is None and order is None else wire.Scripts(place=place, order=order)


def steal(arguments: Arguments) -> wire.StealRequest:
    return wire.StealRequest(
        namespace=arguments.namespace,
        pool=arguments.word(),
        holder=arguments.must("holder"),
        token=int(arguments.must("token")),
        to=arguments.must("to"),
        lifetime=wire.LIFETIME_KEPT if arguments.flag("kept") else wire.LIFETIME_UNSPECIFIED,
        ttl_ms=arguments.duration("ttl"),
        request_id=arguments.get("request"),
        reason=arguments.must("reason"),
    )


def hold(
    actor: str, arguments: Arguments, key_of: Callable[[int | None, str], str]
) -> tuple[str, str, str, int | None]:
    pool, token, key = arguments.word(), arguments.get("token"), arguments.get("key")
    whose = actor if key in (None, "wrong") else str(key)
    number = None if token is None else int(token)
    return pool, arguments.namespace, key_of(number, whose), number if whose == actor else None


def described(text: str) -> wire.Resource:
    """`a gpu mem=80 @port=3000`: the name, labels, and properties with an `@`."""
    name, *words = text.split() or [""]
    labels: dict[str, str] = {}
    properties: dict[str, str] = {}
    for each in words:
        key, _, value = each.removeprefix("@").partition("=")
        (properties if each.startswith("@") else labels)[key] = value
    return wire.Resource(name=name, labels=labels, properties=properties)


def pool(detail: wire.PoolDetail) -> Outcome:
    summary, spec = detail.summary, detail.spec
    fields = {
        **condition(summary.condition),
        "size": str(summary.size),
        "used": str(summary.used),
        "holds": str(summary.holds),
        "waiters": str(summary.waiters),
        "waiting-since": time_or_none(summary, "waiting_since_ms"),
        "removing": yes(summary.removing),
        "declared": yes(summary.declared),
        "window": length_or_none(summary, "window_ms"),
        "order": word(wire.Order, spec.order, "ORDER_"),
        "leaving": many(resource.name for resource in detail.resources if resource.leaving),
        "returns": time_or_none(summary, "returns_at_ms"),
        "dirty": str(summary.dirty),
        "cleaning": yes(spec.cleaning),
        "fair": spec.fair.by if spec.HasField("fair") else "none",
        "place-by": or_none(spec.scripts, "place"),
        "order-by": or_none(spec.scripts, "order"),
        "script-faults": str(detail.script_faults),
        "scripts-set-aside": yes(detail.scripts_set_aside),
    }
    if summary.named:
        placement = word(wire.Placement, spec.placement, "PLACEMENT_").replace("_", "-")
        fields["placement"] = f"{placement}:{spec.spread_label}" if spec.HasField("spread_label") else placement
        fields["resources"] = many(resource.name for resource in spec.resources)
    return Outcome("shown", fields)


def resource(detail: wire.PoolDetail, name: str) -> Outcome:
    for each in detail.resources:
        if each.name == name:
            fields = {
                "leaving": yes(each.leaving),
                "token": or_none(each, "token"),
                "last-used": time_or_none(each, "last_used_at_ms"),
                "returns": time_or_none(each, "returns_at_ms"),
                "dirty": yes(each.dirty),
                "reserved": each.reserved.holder if each.HasField("reserved") else "none",
                "reserved-until": time_or_none(each.reserved, "deadline_ms"),
            }
            return Outcome("shown", {**condition(each.condition), **fields})
    return Outcome("refused unknown_resource", {})


def waiters(queue: Iterable[wire.Waiter]) -> Outcome:
    listed = list(queue)
    away = [waiter.holder for waiter in listed if not waiter.HasField("position")]
    order, numbers = many(waiter.holder for waiter in listed), many(str(waiter.waiter) for waiter in listed)
    also = listed[0].also if listed else ()
    wanted = many(f"{part.pool}:{part.units if part.HasField('units') else 'all'}" for part in also)
    return Outcome("shown", {"order": order, "numbers": numbers, "away": many(away), "also": wanted})


def explained(told: wire.ExplainResponse) -> Outcome:
    why = "; ".join(told.waiters[0].sentences) if told.waiters else "none"
    order = many(it.waiter.holder for it in told.waiters)
    return Outcome("shown", {"pool": "; ".join(told.pool), "order": order, "why": why})


def holds(listed: Iterable[wire.Hold]) -> Outcome:
    held = list(listed)
    fields = holders(held)
    if held:
        fields["units"] = str(held[0].units)
        fields["lifetime"] = word(wire.Lifetime, held[0].lifetime, "LIFETIME_")
        fields["resources"] = many(held[0].resources)
        fields["also"] = many(f"{part.pool}:{part.units}" for part in held[0].also)
    return Outcome("shown", fields)


def sessions(listed: Iterable[wire.Session]) -> Outcome:
    there = list(listed)
    fields = {
        "holders": many(session.holder for session in there),
        "attached": many(session.holder for session in there if session.attached),
    }
    if there:
        fields["until"] = time_or_none(there[0], "deadline_ms")
        fields["holds"], fields["waiters"] = str(there[0].holds), str(there[0].waiters)
    return Outcome("shown", fields)


def holders(listed: Iterable[wire.Hold]) -> dict[str, str]:
    held = list(listed)
    fields = {"holders": many(hold.holder for hold in held), "tokens": many(str(hold.token) for hold in held)}
    if held:
        fields["since"], fields["until"] = time(held[0].since_ms), time_or_none(held[0], "deadline_ms")
    return fields


def condition(condition: wire.Condition) -> dict[str, str]:
    state = word(wire.ConditionState, condition.state, "CONDITION_STATE_")
    return {"condition": state, "note": condition.note if condition.HasField("note") else "none"}


def word(enum: Any, value: int, prefix: str) -> str:
    """`LIFETIME_KEPT` is `kept`."""
    return str(enum.Name(value)).removeprefix(prefix).lower()


def time(at_ms: int) -> str:
    return duration_text(at_ms - START)


def time_or_none(message: Any, name: str) -> str:
    return time(getattr(message, name)) if message.HasField(name) else "none"


def length_or_none(message: Any, name: str) -> str:
    return duration_text(getattr(message, name)) if message.HasField(name) else "none"


def or_none(message: Any, name: str) -> str:
    return str(getattr(message, name)) if message.HasField(name) else "none"


def many(items: Iterable[str]) -> str:
    return ",".join(items) or "none"


def yes(value: bool) -> str:
    return "true" if value else "false"

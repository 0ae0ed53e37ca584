"""What can be said of a client and of a request, and what the wire makes of it."""

from __future__ import annotations

import getpass
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from . import wire
from ._time import Seconds, millis, seconds
from .errors import LostReason

TTL_DEFAULT = 30.0
"""What a hold lasts for if nothing is said."""


class Access(TypedDict, total=False):
    """How a client connects, and as whom: the options of `Client` and `AsyncClient`."""

    holder: str
    """Who asks, as others see it; `user@host:pid` if left out."""
    meta: Mapping[str, str]
    """More about the holder, such as a host or a reason."""
    namespace: str
    """The team's namespace; `default` if left out."""
    session_grace: Seconds
    """How long the session outlives its connection; 30 s if left out."""
    connect_timeout: Seconds
    """How long an attempt to connect may take; 5 s if left out."""
    password: str
    """What the server wants to hear."""
    password_file: str | os.PathLike[str]
    """The same from a file, which is read for every connection that is made: it may be replaced while the client lives."""
    tls_ca: str | bytes
    """The certificate of the authority that the server's is signed by, in PEM form; the system's authorities if left out. An
    address without a scheme is then spoken to in TLS."""
    tls_ca_file: str | os.PathLike[str]
    """The same from a file."""
    tls_identity: tuple[str | bytes, str | bytes]
    """A certificate of this client's own and its private key, in PEM form, for servers that want to see one. An address
    without a scheme is then spoken to in TLS."""
    tls_identity_files: tuple[str | os.PathLike[str], str | os.PathLike[str]]
    """The same from two files."""


class Request(TypedDict, total=False):
    """What is asked of a pool: the options of `hold`, `try_hold` and `acquire`."""

    units: int
    """How many units or resources; 1 if left out."""
    all: bool
    """Everything there is: the writer of a read-write lock."""
    select: str
    """Which resources of a pool of named ones: `gpu && mem >= 80 && !old`."""
    size: int
    """The size the pool must have; a pool that is not known comes to be with it, 1 if left out."""
    dirty: bool
    """Resources that have to be cleaned, in order to clean them: releasing them returns them clean."""
    also: Iterable[Part | str]
    """Something of further pools too, at most 15: all of it is granted together, as one hold with one token, or none of it. A
    name alone is one unit of that pool. A place in a rate window ends by itself all the same."""
    ttl: Seconds
    """A lease of this length, renewed at a third of it in the background; 30 s if nothing else is said."""
    until_session_ends: bool
    """A hold that lives as long as this client's session: it outlives a lost connection by the session's grace. With `ttl`
    also no longer than that from one renewal to the next."""
    kept: bool
    """A hold that ends only by its release, whatever becomes of this process."""
    owner: str
    """A hold that ends when somebody says that this outside owner is gone."""
    wait: Seconds | None
    """How long to wait for room at most; for ever if left out or none, not at all if 0."""
    priority: int
    """Higher first, from -1000 to 1000."""
    holder: str
    """Who asks, if not the client's holder."""
    meta: Mapping[str, str]
    """More about the holder, instead of what the client says about it."""
    holds_on: bool
    """Says that the holder, under whose id nobody else works, lets go of nothing it holds while this waits. Then a wait that
    could never end, because others wait for what the holder has, raises `Deadlock` at once."""
    request_id: str
    """An id of your own, under which another process could ask for the same hold. If left out, a random one is made for every
    request, which already makes it safe to lose the connection. Should be as hard to guess as a key."""
    on_queued: Callable[[int], object]
    """Called with the place in the queue if the request has to wait, and again after a reconnect. On the loop that waits; with
    `Client` on a thread of its own."""
    on_lost: Callable[[HoldLoss], object]
    """Called when the hold is lost; see `Hold.on_lost`."""


@dataclass(frozen=True)
class Part:
    """What is asked of one more pool; see `Request.also`."""

    pool: str
    units: int | None = None
    """How many units or resources; 1 if left out."""
    all: bool = False
    """Everything there is."""
    select: str | None = None
    """Which resources of a pool of named ones."""
    size: int | None = None
    """The size the pool must have; a pool that is not known comes to be with it."""

    def _wire(self) -> wire.Part:
        _either(self.units, self.all)
        return wire.Part(pool=self.pool, units=self.units, all=self.all, select=self.select, size=self.size)


@dataclass(frozen=True)
class HoldLoss:
    """What a callback is told of a hold that is lost."""

    pool: str
    token: int
    reason: LostReason
    note: str


@dataclass(frozen=True)
class Resource:
    """A named thing in a pool."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """To choose by. An empty value is a flag."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Told to whoever is granted it."""

    @staticmethod
    def of(message: wire.Resource) -> Resource:
        return Resource(message.name, dict(message.labels), dict(message.properties))


@dataclass(frozen=True)
class HeldPart:
    """What a hold has of one pool."""

    pool: str
    units: int
    """How many units, or how many resources."""
    resources: list[Resource]
    """Which, if the pool is one of named resources."""

    @property
    def resource(self) -> Resource:
        """Which, if it is just one."""
        if len(self.resources) != 1:
            raise LookupError(f"this hold on pool `{self.pool}` is one of {len(self.resources)} named resources")
        return self.resources[0]

    @staticmethod
    def of(message: wire.Grant | wire.GrantedPart) -> HeldPart:
        return HeldPart(message.pool, message.units, [Resource.of(resource) for resource in message.resources])


class PoolSpec(TypedDict, total=False):
    """What a pool is meant to be: the options of `set_pool`. Either `units`, or `resources`."""

    units: int
    """How many anonymous units."""
    resources: Iterable[Resource | str]
    """The named resources, all of them: those left out leave the pool when they are let go."""
    placement: Literal["first", "least_recently_used", "most_recently_used", "random", "spread"]
    """Which free resource is granted; the first declared if left out."""
    spread_label: str
    """For the placement `spread`: the label to spread by."""
    order: Literal["strict", "backfill"]
    """Who may be served while the head of the queue cannot be; strict if left out."""
    window: Seconds
    """Makes it a rate window: every hold lasts exactly this long."""
    cleaning: bool
    """Only for named resources: what was held is dirty, and handed out again only when somebody has held it with `dirty` and
    released it."""
    fair: str
    """Groups waiters of the same priority by this piece of their metadata, or by `holder`, and serves the groups in turn."""
    weights: Mapping[str, int]
    """With `fair`: how often a group is served for once of the others, from 1 to 1000; those left out weigh 1."""
    place_by: str
    """Only for named resources: a script that scores a free resource for a request. See docs/placement.md."""
    order_by: str
    """A script that scores somebody who waits; needs the order `backfill`."""


def pool_spec(
    *,
    units: int | None = None,
    resources: Iterable[Resource | str] | None = None,
    placement: str | None = None,
    spread_label: str | None = None,
    order: str | None = None,
    window: Seconds | None = None,
    cleaning: bool = False,
    fair: str | None = None,
    weights: Mapping[str, int] | None = None,
    place_by: str | None = None,
    order_by: str | None = None,
) -> wire.PoolSpec:
    if weights and fair is None:
        raise ValueError("weights are of groups: say with fair what makes one")
    named = [Resource(resource) if isinstance(resource, str) else resource for resource in resources or ()]
    return wire.PoolSpec(
        units=units,
        resources=[
            wire.Resource(name=resource.name, labels=resource.labels, properties=resource.properties)
            for resource in named
        ],
        named=resources is not None,
        placement=None if placement is None else f"PLACEMENT_{placement.upper()}",
        spread_label=spread_label,
        order=None if order is None else f"ORDER_{order.upper()}",
        window_ms=None if window is None else millis(window),
        cleaning=cleaning,
        fair=None if fair is None else wire.FairShare(by=fair, weights=weights),
        scripts=None if place_by is None and order_by is None else wire.Scripts(place=place_by, order=order_by),
    )


@dataclass
class Asked:
    """A request with what is not the server's business."""

    request: wire.AcquireRequest
    wait: float | None
    on_queued: Callable[[int], object] | None
    on_lost: Callable[[HoldLoss], object] | None


def asked(
    pool: str,
    *,
    units: int | None = None,
    all: bool = False,
    select: str | None = None,
    size: int | None = None,
    dirty: bool = False,
    also: Iterable[Part | str] = (),
    ttl: Seconds | None = None,
    until_session_ends: bool = False,
    kept: bool = False,
    owner: str | None = None,
    window: Seconds | None = None,
    wait: Seconds | None = None,
    priority: int = 0,
    holder: str = "",
    meta: Mapping[str, str] | None = None,
    holds_on: bool = False,
    request_id: str | None = None,
    on_queued: Callable[[int], object] | None = None,
    on_lost: Callable[[HoldLoss], object] | None = None,
) -> Asked:
    lifetimes = [until_session_ends, kept, owner is not None, window is not None]
    if lifetimes.count(True) > 1 or (ttl is not None and (kept or owner is not None or window is not None)):
        raise ValueError("a hold has one lifetime: ttl, until_session_ends, kept, owner or window")
    _either(units, all)
    if isinstance(also, str):
        raise TypeError("also is a list of pools, or of parts of them")
    length: Seconds | None
    lifetime, length = wire.LIFETIME_LEASED, TTL_DEFAULT if ttl is None else ttl
    if until_session_ends:
        lifetime, length = wire.LIFETIME_SESSION, ttl
    elif kept:
        lifetime, length = wire.LIFETIME_KEPT, None
    elif owner is not None:
        lifetime, length = wire.LIFETIME_BOUND, None
    elif window is not None:
        lifetime, length = wire.LIFETIME_WINDOW, window
    waits = None if wait is None else max(0.0, seconds(wait))
    request = wire.AcquireRequest(
        pool=pool,
        units=units,
        all=all,
        select=select,
        size=size,
        lifetime=lifetime,
        ttl_ms=None if length is None else millis(length),
        owner=owner,
        wait_ms=millis(waits) if waits else None,
        wait_forever=waits is None,
        priority=priority,
        holder=holder,
        meta=meta,
        request_id=request_id,
        also=[(Part(part) if isinstance(part, str) else part)._wire() for part in also],
        holds_on=holds_on,
        dirty=dirty,
    )
    return Asked(request, waits, on_queued, on_lost)


def _either(units: int | None, all: bool) -> None:
    if all and units is not None:
        raise ValueError("units and all cannot both be given")


def default_holder() -> str:
    """Who this process is to others if it does not say: `user@host:pid`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = ""

    def part(text: str, otherwise: str) -> str:
        # Names of holders have a limit on the server; a made-up one keeps well below it.
        return "".join(character for character in text if character.isprintable())[:64] or otherwise

    return f"{part(user, 'somebody')}@{part(platform.node(), 'localhost')}:{os.getpid()}"

from __future__ import annotations

from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

CONDITION_STATE_DRAINED: ConditionState
CONDITION_STATE_IN_SERVICE: ConditionState
CONDITION_STATE_QUARANTINED: ConditionState
CONDITION_STATE_UNSPECIFIED: ConditionState
DESCRIPTOR: _descriptor.FileDescriptor
EVENT_KIND_CONDITION_SET: EventKind
EVENT_KIND_ENDED: EventKind
EVENT_KIND_GRANTED: EventKind
EVENT_KIND_POLICY_FAILED: EventKind
EVENT_KIND_POOL_GONE: EventKind
EVENT_KIND_POOL_REMOVING: EventKind
EVENT_KIND_POOL_SET: EventKind
EVENT_KIND_QUEUED: EventKind
EVENT_KIND_RENEWED: EventKind
EVENT_KIND_REQUEST_WITHDRAWN: EventKind
EVENT_KIND_RESERVATION_ENDED: EventKind
EVENT_KIND_RESERVED: EventKind
EVENT_KIND_RESTARTED: EventKind
EVENT_KIND_SESSION_ATTACHED: EventKind
EVENT_KIND_SESSION_CLOSING: EventKind
EVENT_KIND_SESSION_DETACHED: EventKind
EVENT_KIND_SESSION_ENDED: EventKind
EVENT_KIND_SESSION_KEPT: EventKind
EVENT_KIND_SESSION_OPENED: EventKind
EVENT_KIND_UNSPECIFIED: EventKind
EVENT_KIND_WAITER_AWAY: EventKind
EVENT_KIND_WAITER_BACK: EventKind
EVENT_KIND_WAITER_MOVED: EventKind
EVENT_KIND_WAIT_ENDED: EventKind
HOW_CALLER_GONE: How
HOW_CANCELLED: How
HOW_EXPIRED: How
HOW_FORCED: How
HOW_NEVER_FITS: How
HOW_OWNER_GONE: How
HOW_POOL_REMOVED: How
HOW_RELEASED: How
HOW_SESSION_ENDED: How
HOW_STOLEN: How
HOW_TIMED_OUT: How
HOW_UNRECEIVED: How
HOW_UNSPECIFIED: How
HOW_WITHDRAWN: How
LIFETIME_BOUND: Lifetime
LIFETIME_KEPT: Lifetime
LIFETIME_LEASED: Lifetime
LIFETIME_SESSION: Lifetime
LIFETIME_UNSPECIFIED: Lifetime
LIFETIME_WINDOW: Lifetime
ORDER_BACKFILL: Order
ORDER_STRICT: Order
ORDER_UNSPECIFIED: Order
PLACEMENT_FIRST: Placement
PLACEMENT_LEAST_RECENTLY_USED: Placement
PLACEMENT_MOST_RECENTLY_USED: Placement
PLACEMENT_RANDOM: Placement
PLACEMENT_SPREAD: Placement
PLACEMENT_UNSPECIFIED: Placement

class AcquireRequest(_message.Message):
    __slots__: list[str] = ["all", "also", "dirty", "holder", "holds_on", "lifetime", "meta", "namespace", "owner", "pool", "priority", "request_id", "select", "session_key", "size", "ttl_ms", "units", "wait_forever", "wait_ms"]
    class MetaEntry(_message.Message):
        __slots__: list[str] = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ALL_FIELD_NUMBER: _ClassVar[int]
    ALSO_FIELD_NUMBER: _ClassVar[int]
    DIRTY_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    HOLDS_ON_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SELECT_FIELD_NUMBER: _ClassVar[int]
    SESSION_KEY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FOREVER_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    all: bool
    also: _containers.RepeatedCompositeFieldContainer[Part]
    dirty: bool
    holder: str
    holds_on: bool
    lifetime: Lifetime
    meta: _containers.ScalarMap[str, str]
    namespace: str
    owner: str
    pool: str
    priority: int
    request_id: str
    select: str
    session_key: str
    size: int
    ttl_ms: int
    units: int
    wait_forever: bool
    wait_ms: int
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., units: _Optional[int] = ..., all: bool = ..., select: _Optional[str] = ..., size: _Optional[int] = ..., lifetime: _Optional[_Union[Lifetime, str]] = ..., ttl_ms: _Optional[int] = ..., owner: _Optional[str] = ..., wait_ms: _Optional[int] = ..., wait_forever: bool = ..., priority: _Optional[int] = ..., holder: _Optional[str] = ..., meta: _Optional[_Mapping[str, str]] = ..., session_key: _Optional[str] = ..., request_id: _Optional[str] = ..., also: _Optional[_Iterable[_Union[Part, _Mapping[str, object]]]] = ..., holds_on: bool = ..., dirty: bool = ...) -> None: ...

class Blocked(_message.Message):
    __slots__: list[str] = ["holder", "pool", "session", "token"]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    holder: str
    pool: str
    session: int
    token: int
    def __init__(self, holder: _Optional[str] = ..., session: _Optional[int] = ..., pool: _Optional[str] = ..., token: _Optional[int] = ...) -> None: ...

class ClientMessage(_message.Message):
    __slots__: list[str] = ["requests"]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[ClientRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[ClientRequest, _Mapping[str, object]]]] = ...) -> None: ...

class ClientRequest(_message.Message):
    __slots__: list[str] = ["acquire", "end", "id", "open", "ping", "release", "renew", "resume", "withdraw"]
    ACQUIRE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    acquire: AcquireRequest
    end: EndSession
    id: int
    open: OpenSessionRequest
    ping: Ping
    release: ReleaseRequest
    renew: RenewRequest
    resume: ResumeSession
    withdraw: WithdrawRequest
    def __init__(self, id: _Optional[int] = ..., open: _Optional[_Union[OpenSessionRequest, _Mapping[str, object]]] = ..., resume: _Optional[_Union[ResumeSession, _Mapping[str, object]]] = ..., acquire: _Optional[_Union[AcquireRequest, _Mapping[str, object]]] = ..., renew: _Optional[_Union[RenewRequest, _Mapping[str, object]]] = ..., release: _Optional[_Union[ReleaseRequest, _Mapping[str, object]]] = ..., withdraw: _Optional[_Union[WithdrawRequest, _Mapping[str, object]]] = ..., ping: _Optional[_Union[Ping, _Mapping[str, object]]] = ..., end: _Optional[_Union[EndSession, _Mapping[str, object]]] = ...) -> None: ...

class Condition(_message.Message):
    __slots__: list[str] = ["note", "state"]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    note: str
    state: ConditionState
    def __init__(self, state: _Optional[_Union[ConditionState, str]] = ..., note: _Optional[str] = ...) -> None: ...

class EndSession(_message.Message):
    __slots__: list[str] = []
    def __init__(self) -> None: ...

class EndSessionRequest(_message.Message):
    __slots__: list[str] = ["namespace", "session_key"]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SESSION_KEY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    session_key: str
    def __init__(self, namespace: _Optional[str] = ..., session_key: _Optional[str] = ...) -> None: ...

class Event(_message.Message):
    __slots__: list[str] = ["all", "also", "at_ms", "automatic", "before", "condition", "created", "deadline_ms", "dirty", "holder", "how", "kind", "lifetime", "meta", "namespace", "note", "owner", "pool", "priority", "resource", "resources", "script", "select", "seq", "session", "set_aside", "since_ms", "spec", "to", "token", "ttl_ms", "units", "waiter", "waits_also"]
    class MetaEntry(_message.Message):
        __slots__: list[str] = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ALL_FIELD_NUMBER: _ClassVar[int]
    ALSO_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    AUTOMATIC_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    DIRTY_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    SELECT_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    WAITER_FIELD_NUMBER: _ClassVar[int]
    WAITS_ALSO_FIELD_NUMBER: _ClassVar[int]
    all: bool
    also: _containers.RepeatedCompositeFieldContainer[HeldPart]
    at_ms: int
    automatic: bool
    before: int
    condition: Condition
    created: bool
    deadline_ms: int
    dirty: bool
    holder: str
    how: How
    kind: EventKind
    lifetime: Lifetime
    meta: _containers.ScalarMap[str, str]
    namespace: str
    note: str
    owner: str
    pool: str
    priority: int
    resource: str
    resources: _containers.RepeatedScalarFieldContainer[str]
    script: str
    select: str
    seq: int
    session: int
    set_aside: bool
    since_ms: int
    spec: PoolSpec
    to: str
    token: int
    ttl_ms: int
    units: int
    waiter: int
    waits_also: _containers.RepeatedCompositeFieldContainer[Part]
    def __init__(self, seq: _Optional[int] = ..., at_ms: _Optional[int] = ..., kind: _Optional[_Union[EventKind, str]] = ..., namespace: _Optional[str] = ..., pool: _Optional[str] = ..., holder: _Optional[str] = ..., meta: _Optional[_Mapping[str, str]] = ..., token: _Optional[int] = ..., waiter: _Optional[int] = ..., session: _Optional[int] = ..., how: _Optional[_Union[How, str]] = ..., note: _Optional[str] = ..., units: _Optional[int] = ..., all: bool = ..., resources: _Optional[_Iterable[str]] = ..., select: _Optional[str] = ..., lifetime: _Optional[_Union[Lifetime, str]] = ..., ttl_ms: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., priority: _Optional[int] = ..., owner: _Optional[str] = ..., spec: _Optional[_Union[PoolSpec, _Mapping[str, object]]] = ..., created: bool = ..., resource: _Optional[str] = ..., condition: _Optional[_Union[Condition, _Mapping[str, object]]] = ..., since_ms: _Optional[int] = ..., also: _Optional[_Iterable[_Union[HeldPart, _Mapping[str, object]]]] = ..., waits_also: _Optional[_Iterable[_Union[Part, _Mapping[str, object]]]] = ..., automatic: bool = ..., to: _Optional[str] = ..., before: _Optional[int] = ..., dirty: bool = ..., script: _Optional[str] = ..., set_aside: bool = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__: list[str] = ["limit", "namespace", "pool", "request_id", "waiter"]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    WAITER_FIELD_NUMBER: _ClassVar[int]
    limit: int
    namespace: str
    pool: str
    request_id: str
    waiter: int
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., waiter: _Optional[int] = ..., request_id: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__: list[str] = ["pool", "waiters"]
    POOL_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    pool: _containers.RepeatedScalarFieldContainer[str]
    waiters: _containers.RepeatedCompositeFieldContainer[WaiterExplained]
    def __init__(self, pool: _Optional[_Iterable[str]] = ..., waiters: _Optional[_Iterable[_Union[WaiterExplained, _Mapping[str, object]]]] = ...) -> None: ...

class FairShare(_message.Message):
    __slots__: list[str] = ["by", "weights"]
    class WeightsEntry(_message.Message):
        __slots__: list[str] = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    BY_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    by: str
    weights: _containers.ScalarMap[str, int]
    def __init__(self, by: _Optional[str] = ..., weights: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ForceReleaseRequest(_message.Message):
    __slots__: list[str] = ["holder", "namespace", "pool", "reason", "token"]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    holder: str
    namespace: str
    pool: str
    reason: str
    token: int
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., holder: _Optional[str] = ..., token: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Found(_message.Message):
    __slots__: list[str] = ["because", "holder", "pool", "resource", "session", "token", "waiter"]
    class BecauseEntry(_message.Message):
        __slots__: list[str] = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WAITER_FIELD_NUMBER: _ClassVar[int]
    because: _containers.ScalarMap[str, str]
    holder: str
    pool: str
    resource: str
    session: int
    token: int
    waiter: int
    def __init__(self, pool: _Optional[str] = ..., resource: _Optional[str] = ..., holder: _Optional[str] = ..., token: _Optional[int] = ..., waiter: _Optional[int] = ..., session: _Optional[int] = ..., because: _Optional[_Mapping[str, str]] = ...) -> None: ...

class GetPoolRequest(_message.Message):
    __slots__: list[str] = ["namespace", "pool"]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pool: str
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ...) -> None: ...

class Grant(_message.Message):
    __slots__: list[str] = ["also", "deadline_ms", "key", "lifetime", "namespace", "pool", "resources", "since_ms", "token", "ttl_ms", "units"]
    ALSO_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    also: _containers.RepeatedCompositeFieldContainer[GrantedPart]
    deadline_ms: int
    key: str
    lifetime: Lifetime
    namespace: str
    pool: str
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    since_ms: int
    token: int
    ttl_ms: int
    units: int
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., token: _Optional[int] = ..., key: _Optional[str] = ..., units: _Optional[int] = ..., resources: _Optional[_Iterable[_Union[Resource, _Mapping[str, object]]]] = ..., lifetime: _Optional[_Union[Lifetime, str]] = ..., ttl_ms: _Optional[int] = ..., since_ms: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., also: _Optional[_Iterable[_Union[GrantedPart, _Mapping[str, object]]]] = ...) -> None: ...

class GrantedPart(_message.Message):
    __slots__: list[str] = ["deadline_ms", "pool", "resources", "units"]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    deadline_ms: int
    pool: str
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    units: int
    def __init__(self, pool: _Optional[str] = ..., units: _Optional[int] = ..., resources: _Optional[_Iterable[_Union[Resource, _Mapping[str, object]]]] = ..., deadline_ms: _Optional[int] = ...) -> None: ...

class HeldPart(_message.Message):
    __slots__: list[str] = ["deadline_ms", "pool", "resources", "units"]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    deadline_ms: int
    pool: str
    resources: _containers.RepeatedScalarFieldContainer[str]
    units: int
    def __init__(self, pool: _Optional[str] = ..., units: _Optional[int] = ..., resources: _Optional[_Iterable[str]] = ..., deadline_ms: _Optional[int] = ...) -> None: ...

class HistoryRequest(_message.Message):
    __slots__: list[str] = ["after", "holder", "kind", "limit", "namespace", "newest_first", "pool", "since_ms", "until_ms"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    after: int
    holder: str
    kind: EventKind
    limit: int
    namespace: str
    newest_first: bool
    pool: str
    since_ms: int
    until_ms: int
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., holder: _Optional[str] = ..., since_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., after: _Optional[int] = ..., newest_first: bool = ..., limit: _Optional[int] = ..., kind: _Optional[_Union[EventKind, str]] = ...) -> None: ...

class HistoryResponse(_message.Message):
    __slots__: list[str] = ["done", "events", "next"]
    DONE_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    done: bool
    events: _containers.RepeatedCompositeFieldContainer[Event]
    next: int
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping[str, object]]]] = ..., next: _Optional[int] = ..., done: bool = ...) -> None: ...

class Hold(_message.Message):
    __slots__: list[str] = ["also", "deadline_ms", "holder", "lifetime", "meta", "namespace", "owner", "pool", "resources", "session", "since_ms", "token", "ttl_ms", "units"]
    class MetaEntry(_message.Message):
        __slots__: list[str] = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ALSO_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    also: _containers.RepeatedCompositeFieldContainer[HeldPart]
    deadline_ms: int
    holder: str
    lifetime: Lifetime
    meta: _containers.ScalarMap[str, str]
    namespace: str
    owner: str
    pool: str
    resources: _containers.RepeatedScalarFieldContainer[str]
    session: int
    since_ms: int
    token: int
    ttl_ms: int
    units: int
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., token: _Optional[int] = ..., holder: _Optional[str] = ..., meta: _Optional[_Mapping[str, str]] = ..., units: _Optional[int] = ..., resources: _Optional[_Iterable[str]] = ..., lifetime: _Optional[_Union[Lifetime, str]] = ..., ttl_ms: _Optional[int] = ..., owner: _Optional[str] = ..., since_ms: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., session: _Optional[int] = ..., also: _Optional[_Iterable[_Union[HeldPart, _Mapping[str, object]]]] = ...) -> None: ...

class HoldLost(_message.Message):
    __slots__: list[str] = ["how", "note", "token"]
    HOW_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    how: How
    note: str
    token: int
    def __init__(self, token: _Optional[int] = ..., how: _Optional[_Union[How, str]] = ..., note: _Optional[str] = ...) -> None: ...

class KeepAliveRequest(_message.Message):
    __slots__: list[str] = ["namespace", "session_key"]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SESSION_KEY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    session_key: str
    def __init__(self, namespace: _Optional[str] = ..., session_key: _Optional[str] = ...) -> None: ...

class ListHoldsRequest(_message.Message):
    __slots__: list[str] = ["after", "holder", "limit", "namespace", "pool"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    after: str
    holder: str
    limit: int
    namespace: str
    pool: str
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., holder: _Optional[str] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListHoldsResponse(_message.Message):
    __slots__: list[str] = ["holds", "next"]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    holds: _containers.RepeatedCompositeFieldContainer[Hold]
    next: str
    def __init__(self, holds: _Optional[_Iterable[_Union[Hold, _Mapping[str, object]]]] = ..., next: _Optional[str] = ...) -> None: ...

class ListPoolsRequest(_message.Message):
    __slots__: list[str] = ["after", "limit", "namespace", "prefix"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    after: str
    limit: int
    namespace: str
    prefix: str
    def __init__(self, namespace: _Optional[str] = ..., prefix: _Optional[str] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListPoolsResponse(_message.Message):
    __slots__: list[str] = ["next", "pools"]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    next: str
    pools: _containers.RepeatedCompositeFieldContainer[Pool]
    def __init__(self, pools: _Optional[_Iterable[_Union[Pool, _Mapping[str, object]]]] = ..., next: _Optional[str] = ...) -> None: ...

class ListQueueRequest(_message.Message):
    __slots__: list[str] = ["after", "limit", "namespace", "pool"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    after: str
    limit: int
    namespace: str
    pool: str
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListQueueResponse(_message.Message):
    __slots__: list[str] = ["next", "waiters"]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    next: str
    waiters: _containers.RepeatedCompositeFieldContainer[Waiter]
    def __init__(self, waiters: _Optional[_Iterable[_Union[Waiter, _Mapping[str, object]]]] = ..., next: _Optional[str] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__: list[str] = ["after", "limit", "namespace"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    after: str
    limit: int
    namespace: str
    def __init__(self, namespace: _Optional[str] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__: list[str] = ["next", "sessions"]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    next: str
    sessions: _containers.RepeatedCompositeFieldContainer[Session]
    def __init__(self, sessions: _Optional[_Iterable[_Union[Session, _Mapping[str, object]]]] = ..., next: _Optional[str] = ...) -> None: ...

class ListWaitsRequest(_message.Message):
    __slots__: list[str] = ["after", "holder", "limit", "namespace"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    after: str
    holder: str
    limit: int
    namespace: str
    def __init__(self, namespace: _Optional[str] = ..., holder: _Optional[str] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListWaitsResponse(_message.Message):
    __slots__: list[str] = ["next", "waits"]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    next: str
    waits: _containers.RepeatedCompositeFieldContainer[Wait]
    def __init__(self, waits: _Optional[_Iterable[_Union[Wait, _Mapping[str, object]]]] = ..., next: _Optional[str] = ...) -> None: ...

class MoveWaiterRequest(_message.Message):
    __slots__: list[str] = ["before", "holder", "namespace", "pool", "reason", "waiter"]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WAITER_FIELD_NUMBER: _ClassVar[int]
    before: int
    holder: str
    namespace: str
    pool: str
    reason: str
    waiter: int
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., waiter: _Optional[int] = ..., holder: _Optional[str] = ..., before: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class MoveWaiterResponse(_message.Message):
    __slots__: list[str] = []
    def __init__(self) -> None: ...

class NoRoom(_message.Message):
    __slots__: list[str] = ["free", "holders", "holders_total", "pool", "position"]
    FREE_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    free: int
    holders: _containers.RepeatedCompositeFieldContainer[Hold]
    holders_total: int
    pool: str
    position: int
    def __init__(self, pool: _Optional[str] = ..., holders: _Optional[_Iterable[_Union[Hold, _Mapping[str, object]]]] = ..., holders_total: _Optional[int] = ..., position: _Optional[int] = ..., free: _Optional[int] = ...) -> None: ...

class OpenSessionRequest(_message.Message):
    __slots__: list[str] = ["grace_ms", "holder", "meta", "namespace"]
    class MetaEntry(_message.Message):
        __slots__: list[str] = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    grace_ms: int
    holder: str
    meta: _containers.ScalarMap[str, str]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ..., holder: _Optional[str] = ..., meta: _Optional[_Mapping[str, str]] = ..., grace_ms: _Optional[int] = ...) -> None: ...

class OwnerGoneRequest(_message.Message):
    __slots__: list[str] = ["namespace", "owner"]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    owner: str
    def __init__(self, namespace: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class OwnerGoneResponse(_message.Message):
    __slots__: list[str] = ["holds"]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    holds: int
    def __init__(self, holds: _Optional[int] = ...) -> None: ...

class Part(_message.Message):
    __slots__: list[str] = ["all", "pool", "select", "size", "units"]
    ALL_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    SELECT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    all: bool
    pool: str
    select: str
    size: int
    units: int
    def __init__(self, pool: _Optional[str] = ..., units: _Optional[int] = ..., all: bool = ..., select: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class Ping(_message.Message):
    __slots__: list[str] = []
    def __init__(self) -> None: ...

class Pong(_message.Message):
    __slots__: list[str] = ["at_ms"]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    def __init__(self, at_ms: _Optional[int] = ...) -> None: ...

class Pool(_message.Message):
    __slots__: list[str] = ["condition", "declared", "dirty", "holds", "named", "namespace", "pool", "removing", "returns_at_ms", "size", "used", "waiters", "waiting_since_ms", "window_ms"]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    DECLARED_FIELD_NUMBER: _ClassVar[int]
    DIRTY_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    NAMED_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    REMOVING_FIELD_NUMBER: _ClassVar[int]
    RETURNS_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    WAITING_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_MS_FIELD_NUMBER: _ClassVar[int]
    condition: Condition
    declared: bool
    dirty: int
    holds: int
    named: bool
    namespace: str
    pool: str
    removing: bool
    returns_at_ms: int
    size: int
    used: int
    waiters: int
    waiting_since_ms: int
    window_ms: int
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., named: bool = ..., size: _Optional[int] = ..., used: _Optional[int] = ..., holds: _Optional[int] = ..., waiters: _Optional[int] = ..., waiting_since_ms: _Optional[int] = ..., condition: _Optional[_Union[Condition, _Mapping[str, object]]] = ..., removing: bool = ..., declared: bool = ..., window_ms: _Optional[int] = ..., returns_at_ms: _Optional[int] = ..., dirty: _Optional[int] = ...) -> None: ...

class PoolDetail(_message.Message):
    __slots__: list[str] = ["resources", "script_faults", "scripts_set_aside", "spec", "summary"]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    SCRIPTS_SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FAULTS_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[ResourceState]
    script_faults: int
    scripts_set_aside: bool
    spec: PoolSpec
    summary: Pool
    def __init__(self, summary: _Optional[_Union[Pool, _Mapping[str, object]]] = ..., spec: _Optional[_Union[PoolSpec, _Mapping[str, object]]] = ..., resources: _Optional[_Iterable[_Union[ResourceState, _Mapping[str, object]]]] = ..., script_faults: _Optional[int] = ..., scripts_set_aside: bool = ...) -> None: ...

class PoolSpec(_message.Message):
    __slots__: list[str] = ["cleaning", "fair", "named", "order", "placement", "resources", "scripts", "spread_label", "units", "window_ms"]
    CLEANING_FIELD_NUMBER: _ClassVar[int]
    FAIR_FIELD_NUMBER: _ClassVar[int]
    NAMED_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    SCRIPTS_FIELD_NUMBER: _ClassVar[int]
    SPREAD_LABEL_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_MS_FIELD_NUMBER: _ClassVar[int]
    cleaning: bool
    fair: FairShare
    named: bool
    order: Order
    placement: Placement
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    scripts: Scripts
    spread_label: str
    units: int
    window_ms: int
    def __init__(self, units: _Optional[int] = ..., resources: _Optional[_Iterable[_Union[Resource, _Mapping[str, object]]]] = ..., named: bool = ..., placement: _Optional[_Union[Placement, str]] = ..., spread_label: _Optional[str] = ..., order: _Optional[_Union[Order, str]] = ..., window_ms: _Optional[int] = ..., cleaning: bool = ..., fair: _Optional[_Union[FairShare, _Mapping[str, object]]] = ..., scripts: _Optional[_Union[Scripts, _Mapping[str, object]]] = ...) -> None: ...

class Queued(_message.Message):
    __slots__: list[str] = ["deadline_ms", "position"]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    deadline_ms: int
    position: int
    def __init__(self, position: _Optional[int] = ..., deadline_ms: _Optional[int] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__: list[str] = ["advice", "also", "at_ms", "code", "column", "condition", "cycle", "deadline_ms", "dirty", "field", "free", "holders", "holders_total", "limit", "line", "max", "may_have_happened", "message", "most", "namespace", "oldest", "other_pool", "pool", "position", "reserved", "resource", "retry", "size", "token", "window_ms"]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    ALSO_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    DIRTY_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    MAY_HAVE_HAPPENED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    OTHER_POOL_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WINDOW_MS_FIELD_NUMBER: _ClassVar[int]
    advice: str
    also: _containers.RepeatedCompositeFieldContainer[NoRoom]
    at_ms: int
    code: str
    column: int
    condition: Condition
    cycle: _containers.RepeatedCompositeFieldContainer[Blocked]
    deadline_ms: int
    dirty: int
    field: str
    free: int
    holders: _containers.RepeatedCompositeFieldContainer[Hold]
    holders_total: int
    limit: str
    line: int
    max: int
    may_have_happened: bool
    message: str
    most: int
    namespace: str
    oldest: int
    other_pool: str
    pool: str
    position: int
    reserved: _containers.RepeatedCompositeFieldContainer[ReservedFor]
    resource: str
    retry: bool
    size: int
    token: int
    window_ms: int
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., advice: _Optional[str] = ..., retry: bool = ..., may_have_happened: bool = ..., field: _Optional[str] = ..., namespace: _Optional[str] = ..., pool: _Optional[str] = ..., resource: _Optional[str] = ..., holders: _Optional[_Iterable[_Union[Hold, _Mapping[str, object]]]] = ..., holders_total: _Optional[int] = ..., position: _Optional[int] = ..., free: _Optional[int] = ..., token: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., size: _Optional[int] = ..., window_ms: _Optional[int] = ..., most: _Optional[int] = ..., limit: _Optional[str] = ..., max: _Optional[int] = ..., condition: _Optional[_Union[Condition, _Mapping[str, object]]] = ..., oldest: _Optional[int] = ..., at_ms: _Optional[int] = ..., also: _Optional[_Iterable[_Union[NoRoom, _Mapping[str, object]]]] = ..., cycle: _Optional[_Iterable[_Union[Blocked, _Mapping[str, object]]]] = ..., other_pool: _Optional[str] = ..., dirty: _Optional[int] = ..., reserved: _Optional[_Iterable[_Union[ReservedFor, _Mapping[str, object]]]] = ..., line: _Optional[int] = ..., column: _Optional[int] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__: list[str] = ["key", "namespace", "pool"]
    KEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    key: str
    namespace: str
    pool: str
    def __init__(self, namespace: _Optional[str] = ..., key: _Optional[str] = ..., pool: _Optional[str] = ...) -> None: ...

class Released(_message.Message):
    __slots__: list[str] = ["token"]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: int
    def __init__(self, token: _Optional[int] = ...) -> None: ...

class RemovePoolRequest(_message.Message):
    __slots__: list[str] = ["namespace", "pool"]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pool: str
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ...) -> None: ...

class RemovePoolResponse(_message.Message):
    __slots__: list[str] = ["holds_left"]
    HOLDS_LEFT_FIELD_NUMBER: _ClassVar[int]
    holds_left: int
    def __init__(self, holds_left: _Optional[int] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__: list[str] = ["key", "namespace", "pool", "ttl_ms"]
    KEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    key: str
    namespace: str
    pool: str
    ttl_ms: int
    def __init__(self, namespace: _Optional[str] = ..., key: _Optional[str] = ..., pool: _Optional[str] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class Renewed(_message.Message):
    __slots__: list[str] = ["deadline_ms", "token", "ttl_ms"]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    deadline_ms: int
    token: int
    ttl_ms: int
    def __init__(self, token: _Optional[int] = ..., ttl_ms: _Optional[int] = ..., deadline_ms: _Optional[int] = ...) -> None: ...

class Reservation(_message.Message):
    __slots__: list[str] = ["deadline_ms", "holder", "reason"]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    deadline_ms: int
    holder: str
    reason: str
    def __init__(self, holder: _Optional[str] = ..., deadline_ms: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class ReserveRequest(_message.Message):
    __slots__: list[str] = ["holder", "instead_of", "lasts_ms", "namespace", "pool", "reason", "resource"]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    INSTEAD_OF_FIELD_NUMBER: _ClassVar[int]
    LASTS_MS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    holder: str
    instead_of: str
    lasts_ms: int
    namespace: str
    pool: str
    reason: str
    resource: str
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., resource: _Optional[str] = ..., holder: _Optional[str] = ..., lasts_ms: _Optional[int] = ..., instead_of: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ReserveResponse(_message.Message):
    __slots__: list[str] = []
    def __init__(self) -> None: ...

class ReservedFor(_message.Message):
    __slots__: list[str] = ["holder", "resource"]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    holder: str
    resource: str
    def __init__(self, resource: _Optional[str] = ..., holder: _Optional[str] = ...) -> None: ...

class Resource(_message.Message):
    __slots__: list[str] = ["labels", "name", "properties"]
    class LabelsEntry(_message.Message):
        __slots__: list[str] = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class PropertiesEntry(_message.Message):
        __slots__: list[str] = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LABELS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    name: str
    properties: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ResourceState(_message.Message):
    __slots__: list[str] = ["condition", "dirty", "last_used_at_ms", "leaving", "name", "reserved", "returns_at_ms", "token"]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    DIRTY_FIELD_NUMBER: _ClassVar[int]
    LAST_USED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    RETURNS_AT_MS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    condition: Condition
    dirty: bool
    last_used_at_ms: int
    leaving: bool
    name: str
    reserved: Reservation
    returns_at_ms: int
    token: int
    def __init__(self, name: _Optional[str] = ..., condition: _Optional[_Union[Condition, _Mapping[str, object]]] = ..., leaving: bool = ..., token: _Optional[int] = ..., last_used_at_ms: _Optional[int] = ..., returns_at_ms: _Optional[int] = ..., dirty: bool = ..., reserved: _Optional[_Union[Reservation, _Mapping[str, object]]] = ...) -> None: ...

class ResumeSession(_message.Message):
    __slots__: list[str] = ["holder", "meta", "namespace", "session_key"]
    class MetaEntry(_message.Message):
        __slots__: list[str] = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SESSION_KEY_FIELD_NUMBER: _ClassVar[int]
    holder: str
    meta: _containers.ScalarMap[str, str]
    namespace: str
    session_key: str
    def __init__(self, namespace: _Optional[str] = ..., session_key: _Optional[str] = ..., holder: _Optional[str] = ..., meta: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Scripts(_message.Message):
    __slots__: list[str] = ["order", "place"]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    order: str
    place: str
    def __init__(self, place: _Optional[str] = ..., order: _Optional[str] = ...) -> None: ...

class SearchRequest(_message.Message):
    __slots__: list[str] = ["after", "limit", "namespace", "text"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    after: str
    limit: int
    namespace: str
    text: str
    def __init__(self, namespace: _Optional[str] = ..., text: _Optional[str] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__: list[str] = ["found", "next"]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    found: _containers.RepeatedCompositeFieldContainer[Found]
    next: str
    def __init__(self, found: _Optional[_Iterable[_Union[Found, _Mapping[str, object]]]] = ..., next: _Optional[str] = ...) -> None: ...

class ServerAnswer(_message.Message):
    __slots__: list[str] = ["ended", "granted", "id", "lost", "opened", "pong", "queued", "refused", "released", "renewed", "withdrawn"]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    ended: SessionEnded
    granted: Grant
    id: int
    lost: HoldLost
    opened: SessionOpened
    pong: Pong
    queued: Queued
    refused: Refusal
    released: Released
    renewed: Renewed
    withdrawn: Withdrawn
    def __init__(self, id: _Optional[int] = ..., opened: _Optional[_Union[SessionOpened, _Mapping[str, object]]] = ..., queued: _Optional[_Union[Queued, _Mapping[str, object]]] = ..., granted: _Optional[_Union[Grant, _Mapping[str, object]]] = ..., renewed: _Optional[_Union[Renewed, _Mapping[str, object]]] = ..., released: _Optional[_Union[Released, _Mapping[str, object]]] = ..., withdrawn: _Optional[_Union[Withdrawn, _Mapping[str, object]]] = ..., pong: _Optional[_Union[Pong, _Mapping[str, object]]] = ..., ended: _Optional[_Union[SessionEnded, _Mapping[str, object]]] = ..., refused: _Optional[_Union[Refusal, _Mapping[str, object]]] = ..., lost: _Optional[_Union[HoldLost, _Mapping[str, object]]] = ...) -> None: ...

class ServerMessage(_message.Message):
    __slots__: list[str] = ["answers"]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[ServerAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[ServerAnswer, _Mapping[str, object]]]] = ...) -> None: ...

class Session(_message.Message):
    __slots__: list[str] = ["attached", "deadline_ms", "grace_ms", "holder", "holds", "meta", "session", "waiters"]
    class MetaEntry(_message.Message):
        __slots__: list[str] = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    attached: bool
    deadline_ms: int
    grace_ms: int
    holder: str
    holds: int
    meta: _containers.ScalarMap[str, str]
    session: int
    waiters: int
    def __init__(self, session: _Optional[int] = ..., holder: _Optional[str] = ..., meta: _Optional[_Mapping[str, str]] = ..., grace_ms: _Optional[int] = ..., attached: bool = ..., deadline_ms: _Optional[int] = ..., holds: _Optional[int] = ..., waiters: _Optional[int] = ...) -> None: ...

class SessionEnded(_message.Message):
    __slots__: list[str] = []
    def __init__(self) -> None: ...

class SessionOpened(_message.Message):
    __slots__: list[str] = ["deadline_ms", "grace_ms", "session", "session_key"]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_KEY_FIELD_NUMBER: _ClassVar[int]
    deadline_ms: int
    grace_ms: int
    session: int
    session_key: str
    def __init__(self, session: _Optional[int] = ..., session_key: _Optional[str] = ..., grace_ms: _Optional[int] = ..., deadline_ms: _Optional[int] = ...) -> None: ...

class SetConditionRequest(_message.Message):
    __slots__: list[str] = ["condition", "lasts_ms", "namespace", "pool", "resource", "state_was"]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    LASTS_MS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    STATE_WAS_FIELD_NUMBER: _ClassVar[int]
    condition: Condition
    lasts_ms: int
    namespace: str
    pool: str
    resource: str
    state_was: ConditionState
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., resource: _Optional[str] = ..., condition: _Optional[_Union[Condition, _Mapping[str, object]]] = ..., lasts_ms: _Optional[int] = ..., state_was: _Optional[_Union[ConditionState, str]] = ...) -> None: ...

class SetConditionResponse(_message.Message):
    __slots__: list[str] = []
    def __init__(self) -> None: ...

class SetPoolRequest(_message.Message):
    __slots__: list[str] = ["namespace", "pool", "size_was", "spec"]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    SIZE_WAS_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pool: str
    size_was: int
    spec: PoolSpec
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., spec: _Optional[_Union[PoolSpec, _Mapping[str, object]]] = ..., size_was: _Optional[int] = ...) -> None: ...

class SetPoolResponse(_message.Message):
    __slots__: list[str] = ["created"]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    created: bool
    def __init__(self, created: bool = ...) -> None: ...

class StealRequest(_message.Message):
    __slots__: list[str] = ["holder", "lifetime", "meta", "namespace", "owner", "pool", "reason", "request_id", "to", "token", "ttl_ms"]
    class MetaEntry(_message.Message):
        __slots__: list[str] = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    holder: str
    lifetime: Lifetime
    meta: _containers.ScalarMap[str, str]
    namespace: str
    owner: str
    pool: str
    reason: str
    request_id: str
    to: str
    token: int
    ttl_ms: int
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., holder: _Optional[str] = ..., token: _Optional[int] = ..., to: _Optional[str] = ..., meta: _Optional[_Mapping[str, str]] = ..., lifetime: _Optional[_Union[Lifetime, str]] = ..., ttl_ms: _Optional[int] = ..., owner: _Optional[str] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class UnreserveRequest(_message.Message):
    __slots__: list[str] = ["holder", "namespace", "pool", "reason", "resource"]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    holder: str
    namespace: str
    pool: str
    reason: str
    resource: str
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., resource: _Optional[str] = ..., holder: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class UnreserveResponse(_message.Message):
    __slots__: list[str] = []
    def __init__(self) -> None: ...

class Wait(_message.Message):
    __slots__: list[str] = ["namespace", "pool", "waiter"]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    WAITER_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pool: str
    waiter: Waiter
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., waiter: _Optional[_Union[Waiter, _Mapping[str, object]]] = ...) -> None: ...

class Waiter(_message.Message):
    __slots__: list[str] = ["all", "also", "deadline_ms", "dirty", "holder", "meta", "position", "priority", "select", "session", "since_ms", "units", "waiter"]
    class MetaEntry(_message.Message):
        __slots__: list[str] = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ALL_FIELD_NUMBER: _ClassVar[int]
    ALSO_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    DIRTY_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SELECT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    WAITER_FIELD_NUMBER: _ClassVar[int]
    all: bool
    also: _containers.RepeatedCompositeFieldContainer[Part]
    deadline_ms: int
    dirty: bool
    holder: str
    meta: _containers.ScalarMap[str, str]
    position: int
    priority: int
    select: str
    session: int
    since_ms: int
    units: int
    waiter: int
    def __init__(self, waiter: _Optional[int] = ..., position: _Optional[int] = ..., holder: _Optional[str] = ..., meta: _Optional[_Mapping[str, str]] = ..., units: _Optional[int] = ..., all: bool = ..., select: _Optional[str] = ..., priority: _Optional[int] = ..., since_ms: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., session: _Optional[int] = ..., also: _Optional[_Iterable[_Union[Part, _Mapping[str, object]]]] = ..., dirty: bool = ...) -> None: ...

class WaiterExplained(_message.Message):
    __slots__: list[str] = ["sentences", "waiter"]
    SENTENCES_FIELD_NUMBER: _ClassVar[int]
    WAITER_FIELD_NUMBER: _ClassVar[int]
    sentences: _containers.RepeatedScalarFieldContainer[str]
    waiter: Waiter
    def __init__(self, waiter: _Optional[_Union[Waiter, _Mapping[str, object]]] = ..., sentences: _Optional[_Iterable[str]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__: list[str] = ["after", "holder", "namespace", "pool"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    after: int
    holder: str
    namespace: str
    pool: str
    def __init__(self, namespace: _Optional[str] = ..., pool: _Optional[str] = ..., holder: _Optional[str] = ..., after: _Optional[int] = ...) -> None: ...

class Watched(_message.Message):
    __slots__: list[str] = ["event", "seq"]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    event: Event
    seq: int
    def __init__(self, seq: _Optional[int] = ..., event: _Optional[_Union[Event, _Mapping[str, object]]] = ...) -> None: ...

class WithdrawRequest(_message.Message):
    __slots__: list[str] = ["namespace", "request_id"]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class Withdrawn(_message.Message):
    __slots__: list[str] = []
    def __init__(self) -> None: ...

class Placement(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []

class Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []

class ConditionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []

class Lifetime(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []

class EventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []

class How(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []

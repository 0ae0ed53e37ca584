"""Locks, semaphores, pools of named resources and rate windows from a Tenure server.

    from tenure import Client

    with Client("127.0.0.1:3144") as client:
        with client.hold("nightly-report", ttl=30) as h:
            write_report(h.token)

`AsyncClient` is the same for asyncio, `tenure.fencing` is for what a hold protects, and `tenure.temporal` for the code of
Temporal workflows. `tenure.wire` has the messages of the server's API.

What is here is imported when it is first used: workflow code, which needs only `tenure.temporal`, has no use for the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import VERSION as __version__

if TYPE_CHECKING:
    from ._api import Api, AsyncApi
    from ._options import Access, HeldPart, HoldLoss, Part, PoolSpec, Request, Resource
    from .aio import AsyncClient, AsyncHold, AsyncHolding, AsyncLoss, Place
    from .errors import (
        Busy,
        ClosedError,
        Deadlock,
        ForeignServer,
        HoldLost,
        LostReason,
        Refused,
        TenureError,
        Unauthenticated,
        Unreachable,
        Unusable,
        WaitTimedOut,
    )
    from .sync import Client, Hold, Holding, Loss

__all__ = [
    "Access",
    "Api",
    "AsyncApi",
    "AsyncClient",
    "AsyncHold",
    "AsyncHolding",
    "AsyncLoss",
    "Busy",
    "Client",
    "ClosedError",
    "Deadlock",
    "ForeignServer",
    "HeldPart",
    "Hold",
    "HoldLoss",
    "HoldLost",
    "Holding",
    "Loss",
    "LostReason",
    "Part",
    "Place",
    "PoolSpec",
    "Refused",
    "Request",
    "Resource",
    "TenureError",
    "Unauthenticated",
    "Unreachable",
    "Unusable",
    "WaitTimedOut",
    "__version__",
]

_WHERE = {
    "_api": ["Api", "AsyncApi"],
    "_options": ["Access", "HeldPart", "HoldLoss", "Part", "PoolSpec", "Request", "Resource"],
    "aio": ["AsyncClient", "AsyncHold", "AsyncHolding", "AsyncLoss", "Place"],
    "errors": [
        "Busy",
        "ClosedError",
        "Deadlock",
        "ForeignServer",
        "HoldLost",
        "LostReason",
        "Refused",
        "TenureError",
        "Unauthenticated",
        "Unreachable",
        "Unusable",
        "WaitTimedOut",
    ],
    "sync": ["Client", "Hold", "Holding", "Loss"],
}


def __getattr__(name: str) -> Any:
    for module, names in _WHERE.items():
        if name in names:
            found = globals()[name] = getattr(import_module(f".{module}", __name__), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "aio", "errors", "fencing", "sync", "temporal", "wire"]

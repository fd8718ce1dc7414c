"""Idempotent operations with Latchkey."""

from .aio import AsyncLatchkey
from .api import SavedRecord
from .cache import Cache
from .client import Latchkey
from .decorator import idempotent
from .errors import LatchkeyOutcomeError, LatchkeyRequestError, NothingHappened
from .options import AsyncOnceOptions, OnceOptions, Tracer
from .outcomes import (
    Busy,
    Outcome,
    Pending,
    Ran,
    Recovered,
    Recovery,
    Replayed,
    ReusedKey,
    TakenOver,
    Unavailable,
    UnavailableReason,
    Unknown,
    UnknownCommit,
    unwrap,
)
from .steps import Lock

__all__ = [
    "AsyncLatchkey",
    "AsyncOnceOptions",
    "Busy",
    "Cache",
    "Latchkey",
    "LatchkeyOutcomeError",
    "LatchkeyRequestError",
    "Lock",
    "NothingHappened",
    "OnceOptions",
    "Outcome",
    "Pending",
    "Ran",
    "Recovered",
    "Recovery",
    "Replayed",
    "ReusedKey",
    "SavedRecord",
    "TakenOver",
    "Tracer",
    "Unavailable",
    "UnavailableReason",
    "Unknown",
    "UnknownCommit",
    "idempotent",
    "unwrap",
]

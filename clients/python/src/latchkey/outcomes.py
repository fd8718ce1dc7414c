"""Outcomes of `once`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypedDict, TypeVar, Union

from .api import SavedRecord
from .errors import LatchkeyOutcomeError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

UnavailableReason = Literal["unreachable", "store_unavailable", "overloaded", "limit_exceeded"]
"""Reason of `Unavailable`."""


class _PendingAddress(TypedDict):
    scope: str
    key: str
    lockToken: str
    record: SavedRecord


class Pending(_PendingAddress, total=False):
    """Save that is not known to have succeeded. Can be stored as JSON and passed to `complete` later, also by another process and by the
    TypeScript library. Contains the result and the token of the lock, so store it like the result itself."""

    ttlSeconds: int


@dataclass(frozen=True)
class Ran(Generic[T_co]):
    """`work` ran in this call."""

    kind: ClassVar[Literal["ran"]] = "ran"
    value: T_co
    guarded: bool = True
    """Whether the result is saved. False if `work` ran without a lock, by `on_unavailable="run"`."""


@dataclass(frozen=True)
class Replayed(Generic[T_co]):
    """An earlier run's result, or one that `on_taken_over` recovered. `work` did not run in this call."""

    kind: ClassVar[Literal["replayed"]] = "replayed"
    value: T_co


@dataclass(frozen=True)
class Busy:
    """Another caller holds the lock. `work` did not run in this call."""

    kind: ClassVar[Literal["busy"]] = "busy"
    retry_after_ms: int


@dataclass(frozen=True)
class TakenOver:
    """A lock ended without a result, so whether the effect has happened is uncertain."""

    kind: ClassVar[Literal["taken_over"]] = "taken_over"
    phase: Literal["before", "during"]
    """`before`: an earlier caller's lock, and `work` did not run in this call. `during`: this caller's, and another one may run now."""


@dataclass(frozen=True)
class ReusedKey:
    """The key was used with another fingerprint. `work` did not run in this call."""

    kind: ClassVar[Literal["reused_key"]] = "reused_key"


@dataclass(frozen=True)
class Unknown(Generic[T_co]):
    """`work` ran, but whether its result is saved is not known."""

    kind: ClassVar[Literal["unknown"]] = "unknown"
    value: T_co
    pending: Pending = field(repr=False)
    """Pass it to `complete` to save the result later."""
    reason: Literal["no_answer", "refused"]
    """`refused`: the service refused to save the result, with `code` and `message`."""
    code: str | None = None
    message: str | None = None


@dataclass(frozen=True)
class Unavailable:
    """No lock could be acquired. `work` did not run in this call."""

    kind: ClassVar[Literal["unavailable"]] = "unavailable"
    reason: UnavailableReason
    retry_after_ms: int
    cause: Exception | None = field(default=None, compare=False, repr=False)
    """Exception of the transport, if there was no answer."""


@dataclass(frozen=True)
class UnknownCommit:
    """`with_transaction` could not find out whether the transaction was committed. Call again with the same key."""

    kind: ClassVar[Literal["unknown_commit"]] = "unknown_commit"
    error: BaseException
    """Exception of the commit."""


Outcome = Union[Ran[T], Replayed[T], Busy, TakenOver, ReusedKey, Unknown[T], Unavailable]
"""Result of `once`."""


def unwrap(outcome: Outcome[T] | UnknownCommit) -> T:
    """Returns the value of `Ran` and `Replayed`; raises `LatchkeyOutcomeError` for any other outcome."""
    if isinstance(outcome, (Ran, Replayed)):
        return outcome.value
    raise LatchkeyOutcomeError(outcome)


@dataclass(frozen=True)
class Returned(Generic[T_co]):
    """Result of a function of the caller."""

    value: T_co


@dataclass(frozen=True)
class Raised:
    """Exception of a function of the caller."""

    error: BaseException


Finished = Union[Outcome[T], Raised]
"""Result of the steps of `once`: an exception of the caller's function is raised by the driver, outside of the generator."""


@dataclass(frozen=True)
class Recovered(Generic[T_co]):
    """Decision of `on_taken_over`: the earlier caller had the effect, with this result."""

    value: T_co


Recovery = Union[Literal["run", "refuse"], Recovered[Any]]
"""Decision on an operation whose earlier caller ended without a result."""

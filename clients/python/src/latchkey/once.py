"""Steps of `once` and of the single calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, cast

from .acquire import Acquisition, Hit, Locked, acquire
from .api import SavedRecord
from .cache import RecordCache
from .errors import LatchkeyRequestError, NothingHappened
from .held import HeldLock
from .outcomes import (
    Finished,
    Outcome,
    Pending,
    Raised,
    Ran,
    Recovered,
    Recovery,
    Replayed,
    Returned,
    TakenOver,
    Unavailable,
    Unknown,
)
from .service import (
    CALL_S_MAX,
    Call,
    Failed,
    Ok,
    Refused,
    fetch_call,
    json_bytes,
    parse_record,
    remove_call,
    save_call,
)
from .steps import Environment, Hold, Lock, Steps, debug, repeat, run

T = TypeVar("T")
SAVE_MS_DEFAULT = 30_000
"""Default milliseconds to retry a save."""
CALL_MS_DEFAULT = 10_000
"""Milliseconds to retry a call of `fetch_record` and `remove_record`."""


@dataclass(frozen=True)
class Codec(Generic[T]):
    """Converts the result of `work` to a record, and a record of an earlier run to a result."""

    to_record: Callable[[T], SavedRecord]
    """An exception counts as an exception of `work`."""
    from_record: Callable[[SavedRecord], T]
    shortened: Callable[[SavedRecord], SavedRecord] | None = None
    """Returns the record that is saved instead of one that the service refuses. Default: none."""


VALUE_CODEC: Codec[Any] = Codec(
    to_record=lambda value: {"status": 200, "headers": {}, "body": value},
    from_record=lambda record: record["body"],
)
"""Codec of `once`: the value is the body."""


@dataclass(frozen=True)
class Settings:
    """Options of `once`, with their defaults."""

    fingerprint: str | None = None
    ttl_seconds: int | None = None
    lock_seconds: int = 60
    wait_ms: int = 10_000
    acquire_ms: int = 10_000
    save_ms: int = SAVE_MS_DEFAULT
    on_taken_over: Literal["run", "refuse"] | Callable[[Lock], Any] = "refuse"
    on_unavailable: Literal["run", "refuse"] = "refuse"

    def __post_init__(self) -> None:
        for name, minimum in (("wait_ms", 0), ("acquire_ms", 0), ("save_ms", 0), ("lock_seconds", 1)):
            value = getattr(self, name)
            if not value >= minimum:
                raise ValueError(f"Latchkey: `{name}` must be at least {minimum}, not {value}")


@dataclass
class Operation(Generic[T]):
    """One call of `once`."""

    scope: str
    key: str
    work: Callable[[Lock], Any]
    """Function or coroutine function that returns T."""
    settings: Settings
    codec: Codec[T]
    cache: RecordCache | None = None
    cancelled: type[BaseException] | None = None
    """Class of the exception by which the driver cancels `work` when the lock is lost."""
    environment: Environment = field(default_factory=Environment)
    attempts: int = 0
    """Number of calls that tried to acquire the lock."""

    def steps(self) -> Steps[Finished[T]]:
        """Runs `work` at most once per scope and key."""
        cached = self.cache.get(self.scope, self.key, self.settings.fingerprint) if self.cache else None
        if cached is not None:
            return Replayed(self.codec.from_record(cached))
        wanted = self._acquisition()
        acquired = yield from acquire(self.environment, wanted, self._count)
        if isinstance(acquired, Hit):
            self._keep(acquired.record)
            return Replayed(self.codec.from_record(acquired.record))
        if isinstance(acquired, Locked):
            lock = Lock(wanted.attempt_id, acquired.fence, acquired.taken_over, threading.Event())
            debug("lock acquired", scope=self.scope, attempt_id=lock.attempt_id, taken_over=lock.taken_over)
            acquired.held.on_lost.append(lock.cancelled.set)
            yield Hold(acquired.held)
            return (yield from self._run_locked(acquired.held, lock))
        if isinstance(acquired, Unavailable) and self.settings.on_unavailable == "run":
            result = yield from run(self.work, Lock(wanted.attempt_id, None, False, threading.Event()))
            return result if isinstance(result, Raised) else Ran(cast(T, result.value), guarded=False)
        return acquired

    def _acquisition(self) -> Acquisition:
        settings = self.settings
        return Acquisition(
            self.scope,
            self.key,
            self.environment.new_id(),
            settings.fingerprint,
            settings.ttl_seconds,
            settings.lock_seconds,
            settings.wait_ms,
            settings.acquire_ms,
        )

    def _count(self) -> None:
        self.attempts += 1

    def _keep(self, record: SavedRecord) -> None:
        if self.cache is not None:
            self.cache.set(self.scope, self.key, self.settings.fingerprint, record, self.settings.ttl_seconds)

    def _run_locked(self, held: HeldLock, lock: Lock) -> Steps[Finished[T]]:
        recovery = yield from self._decide(lock)
        if recovery == "run" and held.is_lost:
            # Another caller may work now.
            recovery = "refuse"
        if isinstance(recovery, Raised) or recovery == "refuse":
            # Also for an exception of the callback, since `work` did not run. The service keeps the mark of the takeover.
            is_explained = isinstance(recovery, Raised) and held.explains(recovery, self.cancelled)
            yield from held.release()
            return recovery if isinstance(recovery, Raised) and not is_explained else TakenOver("before")
        is_recovered = isinstance(recovery, Recovered)
        result = Returned(recovery.value) if isinstance(recovery, Recovered) else (yield from run(self.work, lock))
        unsaved = self._unsaved(held, result)
        if isinstance(unsaved, Raised):
            is_explained = held.explains(unsaved, self.cancelled)
            yield from (held.release() if isinstance(unsaved.error, NothingHappened) else held.shorten())
            return TakenOver("during") if is_explained else unsaved
        outcome = yield from self._save(unsaved)
        return Replayed(unsaved.value) if is_recovered and isinstance(outcome, Ran) else outcome

    def _decide(self, lock: Lock) -> Steps[Recovery | Raised]:
        decision = self.settings.on_taken_over
        if not lock.taken_over:
            return "run"
        if isinstance(decision, str):
            return decision
        result = yield from run(decision, lock)
        if isinstance(result, Raised):
            return result
        if isinstance(result.value, Recovered) or result.value in ("run", "refuse"):
            return cast(Recovery, result.value)
        return Raised(TypeError("Latchkey: `on_taken_over` must return 'run', 'refuse' or Recovered(value)"))

    def _unsaved(self, held: HeldLock, result: Returned[Any] | Raised) -> Unsaved[T] | Raised:
        if isinstance(result, Raised):
            return result
        try:
            value = cast(T, result.value)
            record = self.codec.to_record(value)
            pending = pending_of(self.scope, self.key, held.token, record, self.settings.ttl_seconds)
            return Unsaved(value, pending, save_body(pending))
        except Exception as error:
            return Raised(error)

    def _save(self, unsaved: Unsaved[T]) -> Steps[Outcome[T]]:
        save_ms = self.settings.save_ms
        outcome = yield from save(self.environment, unsaved, save_ms)
        if isinstance(outcome, Unknown) and outcome.reason == "refused" and self.codec.shortened is not None:
            pending = unsaved.pending
            pending = cast(Pending, {**pending, "record": self.codec.shortened(pending["record"])})
            unsaved = Unsaved(unsaved.value, pending, save_body(pending))
            outcome = yield from save(self.environment, unsaved, save_ms)
        if isinstance(outcome, Ran):
            self._keep(unsaved.pending["record"])
        return outcome


def pending_of(scope: str, key: str, token: str, record: SavedRecord, ttl_seconds: int | None) -> Pending:
    pending: Pending = {"scope": scope, "key": key, "lockToken": token, "record": record}
    if ttl_seconds is not None:
        pending["ttlSeconds"] = ttl_seconds
    return pending


@dataclass(frozen=True)
class Unsaved(Generic[T]):
    """Result that is to be saved."""

    value: T
    pending: Pending
    body: bytes
    """Encoded request, so that each retry sends the same bytes."""


_NOT_JSON = (
    "Latchkey: the result of the operation is not JSON, so it is not saved. The operation has run, but later calls with"
    " its key cannot know whether it had its effect"
)


def save_body(pending: Pending) -> bytes:
    """Returns the request that saves a record. Raises `TypeError` or `ValueError` if the record is not JSON."""
    ttl = {"ttlSeconds": pending["ttlSeconds"]} if "ttlSeconds" in pending else {}
    address = {"scope": pending["scope"], "key": pending["key"], "lockToken": pending["lockToken"]}
    try:
        return json_bytes({**address, **pending["record"], **ttl})
    except TypeError as error:
        raise TypeError(_NOT_JSON) from error
    except ValueError as error:
        raise ValueError(_NOT_JSON) from error


def save(environment: Environment, unsaved: Unsaved[T], save_ms: int) -> Steps[Outcome[T]]:
    """Saves a result, and retries a save without a usable answer for `save_ms`."""
    now = environment.now
    until_s = now() + save_ms / 1000

    def call() -> Call:
        left_s = CALL_S_MAX if save_ms == 0 else until_s - now()
        return save_call(unsaved.body, max(0.01, min(CALL_S_MAX, left_s)))

    reply = yield from repeat(environment, call, until_s)
    value, pending = unsaved.value, unsaved.pending
    if isinstance(reply, Ok):
        return Ran(value)
    if isinstance(reply, Failed):
        return Unknown(value, pending, "no_answer", reply.code)
    if reply.code in ("lock_lost", "record_exists"):
        return TakenOver("during")
    return Unknown(value, pending, "refused", reply.code, reply.message)


def complete(environment: Environment, pending: Pending, save_ms: int) -> Steps[Outcome[Any]]:
    """Saves the result of an earlier `Unknown`."""
    unsaved = Unsaved(pending["record"]["body"], pending, save_body(pending))
    return (yield from save(environment, unsaved, save_ms))


def fetch_record(environment: Environment, scope: str, key: str) -> Steps[SavedRecord | None]:
    """Returns the record, or None if there is none. Raises `LatchkeyRequestError` if the service refuses or does not answer."""
    body = yield from _answer(environment, lambda left_s: fetch_call(scope, key, left_s))
    return parse_record(body.get("record"))


def remove_record(environment: Environment, scope: str, key: str) -> Steps[bool]:
    """Removes the record and keeps a lock. Returns whether there was a record. Raises like `fetch_record`."""
    body = yield from _answer(environment, lambda left_s: remove_call(scope, key, None, left_s))
    return body.get("existed") is True


def _answer(environment: Environment, call: Callable[[float], Call]) -> Steps[Mapping[str, Any]]:
    now = environment.now
    until_s = now() + CALL_MS_DEFAULT / 1000
    reply = yield from repeat(environment, lambda: call(max(0.01, min(CALL_S_MAX, until_s - now()))), until_s)
    if isinstance(reply, Ok):
        return reply.body
    if isinstance(reply, Refused):
        raise reply.error()
    raise LatchkeyRequestError(reply.code, "The service gave no usable answer")

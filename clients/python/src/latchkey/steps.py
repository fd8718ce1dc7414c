"""Steps of the library, without I/O: generators that yield effects, which a driver performs."""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Union

from .errors import LatchkeyOutcomeError
from .outcomes import Raised, Returned, TakenOver
from .service import Call, Failed, Ok, Refused, Reply

if TYPE_CHECKING:
    import threading

    from .held import HeldLock

R = TypeVar("R")

_FIRST_PAUSE_S = 0.05
_PAUSE_S_MAX = 1.0
_logger = logging.getLogger("latchkey")


@dataclass(frozen=True)
class Send:
    """Sends one call; its result is a `Reply`."""

    call: Call


@dataclass(frozen=True)
class Pause:
    """Waits. The pause of an extension ends early if the extension of its lock is stopped."""

    seconds: float


@dataclass(frozen=True)
class Run:
    """Runs a function of the caller; its result is `Returned` or `Raised`."""

    function: Callable[[Lock], Any]
    lock: Lock


@dataclass(frozen=True)
class Hold:
    """Starts to extend a lock in the background."""

    held: HeldLock


@dataclass(frozen=True)
class Unhold:
    """Stops the extension of the lock, and waits for an extension under way."""


Effect = Union[Send, Pause, Run, Hold, Unhold]
Steps = Generator[Effect, Any, R]


@dataclass(frozen=True)
class Environment:
    """Time and randomness."""

    now: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())


@dataclass(frozen=True)
class Lock:
    """Context of `work`."""

    attempt_id: str
    """Identifies this call of `once`."""
    fence: int | None
    """Fencing token: grows with every lock of the tenant, so that a store can refuse a late writer. None if `work` runs without a lock."""
    taken_over: bool
    """An earlier caller's lock ended without a result, so the effect may have happened."""
    cancelled: threading.Event
    """Set when the lock is lost, or when its time has passed without an extension. A coroutine is cancelled then, too."""

    def raise_if_lost(self) -> None:
        """Raises `LatchkeyOutcomeError` if the lock is lost. If `work` lets it pass, the outcome is `TakenOver(phase="during")`."""
        if self.cancelled.is_set():
            raise LatchkeyOutcomeError(TakenOver("during"))


def debug(event: str, **fields: object) -> None:
    """Logs a constant text with fields, which never contain an API key, an idempotency key, a lock token or a body."""
    if _logger.isEnabledFor(logging.DEBUG):
        _logger.debug("%s %s", event, fields)


def send(call: Call) -> Steps[Reply]:
    reply = yield Send(call)
    assert isinstance(reply, (Ok, Refused, Failed))
    return reply


def run(function: Callable[[Lock], Any], lock: Lock) -> Steps[Returned[Any] | Raised]:
    result = yield Run(function, lock)
    assert isinstance(result, (Returned, Raised))
    return result


def pause_s(failures: int, retry_after_s: float | None, random_part: float) -> float:
    """Returns the pause before the next retry: 50 ms, doubled up to 1 s, ±50 % jitter, after the time of `Retry-After`, so that
    callers that got the same `Retry-After` do not return together."""
    # The exponent is bounded, since a float is not unlimited.
    seconds = min(_FIRST_PAUSE_S * 2.0 ** min(failures, 10), _PAUSE_S_MAX)
    return (retry_after_s or 0.0) + seconds * (0.5 + random_part)


def repeat(
    environment: Environment, call: Callable[[], Call], until_s: float, failing_s: float = float("inf")
) -> Steps[Reply]:
    """Retries a call without a usable answer. Starts no retry after `until_s`, or later than `failing_s` after the first failure. Returns the
    last reply."""
    failures = 0
    while True:
        reply = yield from send(call())
        if not isinstance(reply, Failed):
            return reply
        now = environment.now()
        if failures == 0:
            until_s = min(until_s, now + failing_s)
        seconds = pause_s(failures, reply.retry_after_s, environment.random())
        # Also ends for a bound that is NaN.
        if not now + seconds < until_s:
            return reply
        debug("call repeated", code=reply.code, pause_s=round(seconds, 3))
        yield Pause(seconds)
        failures += 1

"""Acquisition of a record or a lock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Union

from .api import CheckRequest, SavedRecord
from .held import HeldLock
from .outcomes import Busy, ReusedKey, Unavailable
from .service import CALL_S_MAX, Call, Failed, Ok, Refused, check_call, parse_check, remove_call
from .steps import Environment, Pause, Steps, debug, repeat, send

_SERVICE_WAIT_MS_MAX = 25_000
"""Maximum milliseconds that the service lets a call wait for a busy key."""
_INTERRUPTED_S_MAX = 1.0
"""Maximum seconds of each call that gives back a lock after an interruption."""
_RETRY_AFTER_S_DEFAULT = 1.0


@dataclass(frozen=True)
class Acquisition:
    """Parameters of one acquisition."""

    scope: str
    key: str
    attempt_id: str
    fingerprint: str | None
    ttl_seconds: int | None
    lock_seconds: int
    wait_ms: int
    acquire_ms: int

    def request(self, wait_ms: int) -> CheckRequest:
        request: CheckRequest = {
            "scope": self.scope,
            "key": self.key,
            "attemptId": self.attempt_id,
            "lockSeconds": self.lock_seconds,
        }
        if wait_ms > 0:
            request["waitMs"] = wait_ms
        if self.ttl_seconds is not None:
            request["ttlSeconds"] = self.ttl_seconds
        if self.fingerprint is not None:
            request["fingerprint"] = self.fingerprint
        return request


@dataclass(frozen=True)
class Hit:
    """The record of an earlier run."""

    record: SavedRecord


@dataclass(frozen=True)
class Locked:
    """The caller holds the lock."""

    held: HeldLock
    fence: int
    taken_over: bool


Acquired = Union[Hit, Locked, Busy, ReusedKey, Unavailable]


def acquire(environment: Environment, wanted: Acquisition, on_call: Callable[[], None]) -> Steps[Acquired]:
    """Gets the record or the lock of a key. Waits for a busy key, and retries calls without a usable answer. Takes at most `wait_ms` and
    `acquire_ms` together. Raises `LatchkeyRequestError` for a call that can never succeed."""
    try:
        return (yield from _acquire(environment, wanted, on_call))
    except GeneratorExit:
        raise
    except BaseException as error:
        # Cancellation of the coroutine, or Ctrl-C: the call under way may have acquired the lock.
        if not isinstance(error, Exception):
            yield from _give_back(wanted)
        raise


def _acquire(environment: Environment, wanted: Acquisition, on_call: Callable[[], None]) -> Steps[Acquired]:
    now = environment.now
    wait_until_s = now() + wanted.wait_ms / 1000
    until_s = wait_until_s + wanted.acquire_ms / 1000
    sent_at_s, wait_ms = 0.0, 0
    # The first call does not wait: most keys are not busy, and a call that does not wait is cheaper for the service.
    may_wait = False

    def check() -> Call:
        nonlocal sent_at_s, wait_ms
        sent_at_s = now()
        left_ms = max(0, int((wait_until_s - sent_at_s) * 1000)) if may_wait else 0
        wait_ms = min(_SERVICE_WAIT_MS_MAX, left_ms)
        on_call()
        call_s = wait_ms / 1000 + CALL_S_MAX
        timeout_s = call_s if wanted.acquire_ms == 0 else max(0.01, min(call_s, until_s - sent_at_s))
        return check_call(wanted.request(wait_ms), timeout_s)

    while True:
        reply = yield from repeat(environment, check, until_s, wanted.acquire_ms / 1000)
        if not isinstance(reply, Ok):
            return _explain(reply)
        body = parse_check(reply.body)
        assert body is not None
        if body["cached"]:
            return Hit(body["record"])
        if body["locked"]:
            # The lock may have been granted at any time during the call. If much of its time may be over, another call with the same attempt
            # id, which does not wait, renews it.
            if wait_ms == 0 or now() - sent_at_s < body["expiresInMs"] / 3000:
                address = (wanted.scope, wanted.key)
                lock = (body["lockToken"], wanted.lock_seconds)
                held = HeldLock(environment, address, *lock, sent_at_s, body["expiresInMs"])
                return Locked(held, body["fence"], body.get("takenOver") is True)
            wait_until_s = now()
        else:
            left_s = wait_until_s - now()
            if left_s <= 0:
                return Busy(body["retryAfterMs"])
            debug("key is busy", scope=wanted.scope, attempt_id=wanted.attempt_id)
            if may_wait:
                yield Pause(min(body["retryAfterMs"] / 1000, left_s))
            may_wait = True


def _give_back(wanted: Acquisition) -> Steps[None]:
    """Releases the lock that an interrupted call may have acquired, in at most one try: acquires it again by its attempt id, which returns
    the token, and releases it. If that fails, the lock expires."""
    reply = yield from send(check_call(wanted.request(0), _INTERRUPTED_S_MAX))
    body = parse_check(reply.body) if isinstance(reply, Ok) else None
    if body is not None and not body["cached"] and body["locked"]:
        yield from send(remove_call(wanted.scope, wanted.key, body["lockToken"], _INTERRUPTED_S_MAX))


def _explain(reply: Refused | Failed) -> Unavailable | ReusedKey:
    retry_after_s = _RETRY_AFTER_S_DEFAULT if reply.retry_after_s is None else reply.retry_after_s
    retry_after_ms = int(retry_after_s * 1000)
    if isinstance(reply, Failed):
        return Unavailable(reply.reason, retry_after_ms, reply.cause)
    if reply.code == "fingerprint_mismatch":
        return ReusedKey()
    if reply.status == 429:
        return Unavailable("limit_exceeded", retry_after_ms)
    raise reply.error()

"""Service for tests."""

from __future__ import annotations

import asyncio
import math
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Union

import httpx

from ..api import SavedRecord
from .calls import Limits, Operation, RecordCall, answer, parse_call, refusal
from .records import Acquired, Acquisition, Granted, Held, Hit, MemoryRecords, State

__all__ = ["Failure", "Operation", "State", "TestServer"]

_TTL_SECONDS_DEFAULT = 86_400
_RETRY_AFTER_MS_MAX = 1000


@dataclass(frozen=True)
class Failure:
    """Answer of the service instead of making the call: an error status, with the error code of the service."""

    status: int
    code: str
    retry_after_seconds: int | None = None


AnyFailure = Union[Literal["call_lost", "answer_lost"], Failure]


@dataclass
class _Fault:
    failure: AnyFailure
    operation: Operation | None
    times_left: int


class TestServer(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Keeps records in memory with the states and answers of the real service, behind the same HTTP interface: `Latchkey(server.url,
    server.api_key, transport=server)`, or `AsyncLatchkey` likewise. It keeps numbers as Python reads them, and has no limits of usage and no
    batches. Can be used by several threads and event loops."""

    __test__ = False
    """It is no test of pytest."""
    url = "http://latchkey.test"

    def __init__(
        self,
        *,
        api_key: str = "lk_test",
        record_body_bytes_max: int = 262_144,
        record_ttl_seconds_max: int = 2_592_000,
    ) -> None:
        """`api_key`: key that calls must present. The maxima are those of the service: bytes of a saved body as JSON, and seconds that a
        record is kept."""
        self.api_key = api_key
        self._limits = Limits(api_key, record_body_bytes_max, record_ttl_seconds_max)
        self._records = MemoryRecords(self._now_ms)
        self._faults: list[_Fault] = []
        self._waiters: set[Callable[[], object]] = set()
        """Called at each change."""
        self._mutex = threading.RLock()
        self._moved_ms = 0.0

    def advance(self, ms: float) -> None:
        """Moves the clock of the service, which otherwise runs with that of the process: locks end and records expire."""
        with self._mutex:
            self._moved_ms += ms
        self._wake()

    def fail_next(self, failure: AnyFailure, *, operation: Operation | None = None, times: int = 1) -> None:
        """Lets the next calls fail, by default of any operation: `call_lost` before a call has an effect, `answer_lost` after it, or a `Failure`
        instead of it. Failures take effect in the order in which they were added."""
        with self._mutex:
            self._faults.append(_Fault(failure, operation, times))

    def state_of(self, scope: str, key: str) -> State:
        """Returns the state of a key, and its record."""
        with self._mutex:
            return self._records.state_of((scope, key))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answers a request as the service does."""
        begun = self._begin(request)
        if isinstance(begun, httpx.Response):
            return begun
        until_ms = self._now_ms() + begun.wait_ms
        changed = threading.Event()
        with self._mutex:
            self._waiters.add(changed.set)
        try:
            while (pause_s := self._try(begun, until_ms)) is not None:
                changed.wait(pause_s)
                changed.clear()
        finally:
            with self._mutex:
                self._waiters.discard(changed.set)
        return begun.end()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answers a request as the service does."""
        begun = self._begin(request)
        if isinstance(begun, httpx.Response):
            return begun
        until_ms = self._now_ms() + begun.wait_ms
        changed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(changed.set)

        with self._mutex:
            self._waiters.add(wake)
        try:
            while (pause_s := self._try(begun, until_ms)) is not None:
                try:
                    await asyncio.wait_for(changed.wait(), pause_s)
                except asyncio.TimeoutError:
                    pass
                changed.clear()
        finally:
            with self._mutex:
                self._waiters.discard(wake)
        return begun.end()

    def close(self) -> None:
        """Does nothing: the records stay for the next client."""

    async def aclose(self) -> None:
        """Does nothing: the records stay for the next client."""

    def _begin(self, request: httpx.Request) -> _Begun | httpx.Response:
        call = parse_call(request, self._limits)
        if isinstance(call, httpx.Response):
            return call
        failure = self._take_failure(call.operation)
        if failure == "call_lost":
            raise httpx.ConnectError("TestServer: the call was lost")
        if isinstance(failure, Failure):
            return refusal(failure.status, failure.code, "Refused by fail_next", failure.retry_after_seconds)
        return _Begun(call, str(uuid.uuid4()), failure == "answer_lost")

    def _take_failure(self, operation: Operation) -> AnyFailure | None:
        with self._mutex:
            for fault in self._faults:
                if fault.operation in (None, operation):
                    fault.times_left -= 1
                    if fault.times_left <= 0:
                        self._faults.remove(fault)
                    return fault.failure
        return None

    def _try(self, begun: _Begun, until_ms: float) -> float | None:
        """Makes the call. Returns the seconds to wait before it is tried again, or None once it is answered."""
        call = begun.call
        with self._mutex:
            if call.operation != "acquire":
                begun.response = self._answer(call)
                changes = call.operation in ("save", "release", "remove")
            else:
                acquired = self._acquire(call, begun.lock_token)
                left_ms = until_ms - self._now_ms()
                if isinstance(acquired, Held) and left_ms > 0:
                    return min(left_ms, acquired.remaining_ms) / 1000
                begun.response = _acquired_answer(acquired)
                changes = False
        if changes:
            self._wake()
        return None

    def _acquire(self, call: RecordCall, lock_token: str) -> Acquired:
        ttl_ms = call.ms("ttlSeconds") or self._default_ttl_ms()
        lock_ms = min(call.lock_ms(), ttl_ms)
        asked = Acquisition(ttl_ms, lock_ms, lock_token, call.text("attemptId"), call.text("fingerprint"))
        return self._records.acquire(call.address, asked)

    def _answer(self, call: RecordCall) -> httpx.Response:
        token = call.text("lockToken")
        match call.operation:
            case "save":
                ttl_ms, default_ms = call.ms("ttlSeconds"), self._default_ttl_ms()
                saved = self._records.save(call.address, token, call.record(), ttl_ms, default_ms)
                if saved == "lost":
                    return _lock_lost()
                if saved == "exists":
                    message = "Another result was already saved for this scope and key"
                    return refusal(409, "record_exists", message)
                return _ok({})
            case "extend":
                held = self._records.extend(call.address, token, call.ms("lockSeconds"))
                if held is None:
                    return _lock_lost()
                return _ok({"fence": held.fence, "expiresInMs": math.floor(held.expires_in_ms)})
            case "fetch":
                state = self._records.state_of(call.address)
                return answer({"cached": False}) if state.record is None else _hit(state.record)
            case _:
                return _ok({"existed": self._records.remove(call.address, token)})

    def _wake(self) -> None:
        with self._mutex:
            waiters = list(self._waiters)
        for wake in waiters:
            wake()

    def _now_ms(self) -> float:
        return time.time() * 1000 + self._moved_ms

    def _default_ttl_ms(self) -> float:
        return min(_TTL_SECONDS_DEFAULT, self._limits.record_ttl_seconds_max) * 1000.0


@dataclass
class _Begun:
    """A call that is being answered."""

    call: RecordCall
    lock_token: str
    is_answer_lost: bool
    response: httpx.Response | None = None

    @property
    def wait_ms(self) -> float:
        waits: int = self.call.fields.get("waitMs", 0)
        return float(waits)

    def end(self) -> httpx.Response:
        if self.is_answer_lost:
            raise httpx.ReadError("TestServer: the answer was lost")
        assert self.response is not None
        return self.response


def _acquired_answer(acquired: Acquired) -> httpx.Response:
    match acquired:
        case Hit(record):
            return _hit(record)
        case Granted(lock_token, fence, expires_in_ms, taken_over):
            lock = {"lockToken": lock_token, "fence": fence, "expiresInMs": math.floor(expires_in_ms)}
            taken = {"takenOver": True} if taken_over else {}
            return answer({"cached": False, "locked": True, **lock, **taken})
        case Held(remaining_ms):
            retry_after_ms = max(1, min(math.ceil(remaining_ms), _RETRY_AFTER_MS_MAX))
            headers = {"Retry-After": str(math.ceil(retry_after_ms / 1000))}
            body = {"cached": False, "locked": False, "retryAfterMs": retry_after_ms}
            return answer(body, headers)
        case _:
            return refusal(422, "fingerprint_mismatch", "This scope and key were used with another fingerprint")


def _hit(record: SavedRecord) -> httpx.Response:
    return answer({"cached": True, "record": record}, {"Idempotent-Replayed": "true"})


def _ok(more: dict[str, Any]) -> httpx.Response:
    return answer({"ok": True, **more})


def _lock_lost() -> httpx.Response:
    return refusal(409, "lock_lost", "This lockToken does not own the lock any more")

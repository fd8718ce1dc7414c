"""Client for functions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import httpx

from . import once
from .api import SavedRecord
from .cache import Cache, RecordCache
from .held import HeldLock
from .once import SAVE_MS_DEFAULT, VALUE_CODEC, Codec, Operation, Settings
from .options import OnceOptions, Tracer
from .outcomes import Outcome, Pending, Raised, Returned
from .service import ANSWER_BYTES_MAX, Address, Call, Failed, Reply, reply_of
from .steps import Effect, Environment, Hold, Lock, Pause, Run, Send, Steps, Unhold, debug

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

E = TypeVar("E")
R = TypeVar("R")
T = TypeVar("T")

CONNECTIONS = httpx.Limits(max_connections=1000, max_keepalive_connections=20)
"""Callers that wait for a busy key have a connection each, so that extensions of locks must not wait for one."""


def request_of(address: Address, call: Call) -> httpx.Request:
    """Returns the request of a call. It is sent through the transport itself, because `httpx.Client` logs addresses, and those of some calls
    contain keys."""
    timeout = httpx.Timeout(call.timeout_s).as_dict()
    url = address.base + call.path
    return httpx.Request(
        call.method, url, headers=address.headers, content=call.body, extensions={"timeout": timeout}
    )


class Report:
    """Reports an operation to log and tracer. The caller sets `outcome`."""

    def __init__(self, tracer: Tracer | None, operation: Operation[Any]) -> None:
        self.outcome = "exception"
        self._operation = operation
        self._span_context = None if tracer is None else self._start(tracer)
        self._span: Any = None

    def _start(self, tracer: Tracer) -> AbstractContextManager[Any]:
        attributes = {"latchkey.scope": self._operation.scope}
        # The text of an exception may contain anything.
        return tracer.start_as_current_span(
            "latchkey.once", attributes=attributes, record_exception=False, set_status_on_exception=False
        )

    def __enter__(self) -> Self:
        if self._span_context is not None:
            self._span = self._span_context.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        attempts = self._operation.attempts
        debug("once ended", scope=self._operation.scope, outcome=self.outcome, attempts=attempts)
        if self._span_context is not None:
            self._span.set_attribute("latchkey.outcome", self.outcome)
            self._span.set_attribute("latchkey.attempts", attempts)
            self._span_context.__exit__(kind, error, trace)


class _Driver:
    """Performs the effects that steps yield in the caller's thread, and extends the lock in another thread."""

    def __init__(self, latchkey: Latchkey) -> None:
        self._latchkey = latchkey
        self._held: HeldLock | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def drive(self, steps: Steps[R]) -> R:
        perform: Callable[[Effect], Any] = self._perform
        try:
            return drive(steps, perform)
        finally:
            self._unhold()

    def _perform(self, effect: Effect) -> Any:
        match effect:
            case Send(call):
                return self._latchkey._send(call)
            case Pause(seconds):
                time.sleep(seconds)
            case Run(function, lock):
                try:
                    return Returned(function(lock))
                except BaseException as error:
                    return Raised(error)
            case Hold(held):
                self._held = held
                self._thread = threading.Thread(target=self._extend, args=(held,), name="latchkey lock", daemon=True)
                self._thread.start()
            case Unhold():
                self._unhold()
                if self._thread is not None:
                    self._thread.join()
        return None

    def _extend(self, held: HeldLock) -> None:
        def perform(effect: Effect) -> Any:
            if isinstance(effect, Send):
                return self._latchkey._send(effect.call)
            if isinstance(effect, Pause):
                self._stop.wait(effect.seconds)
            return None

        drive(held.extensions(), perform)

    def _unhold(self) -> None:
        if self._held is not None:
            self._held.stopped = True
        self._stop.set()


def drive(steps: Generator[E, Any, R], perform: Callable[[E], Any]) -> R:
    """Runs steps to their end."""
    try:
        effect = next(steps)
        while True:
            try:
                result = perform(effect)
            except BaseException as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(result)
    except StopIteration as stop:
        result_of_steps: R = stop.value
        return result_of_steps


class Latchkey:
    """Client of a Latchkey service for functions. Can be used by several threads. Create one per process, after a fork, and close it, or
    use it in a `with` statement."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        transport: httpx.BaseTransport | None = None,
        tracer: Tracer | None = None,
        cache: Cache | None = None,
    ) -> None:
        """`url`: address of the service. `api_key`: key of scope `records`. `transport`: for TLS settings or a proxy of your own, such as
        `httpx.HTTPTransport(verify=context)`. `tracer`: gets one span `latchkey.once` for each operation."""
        self._address = Address(url, api_key)
        self._transport = transport or httpx.HTTPTransport(limits=CONNECTIONS)
        self._tracer = tracer
        self._cache = RecordCache(cache) if cache else None
        self._environment = Environment()

    def once(
        self, scope: str, key: str, work: Callable[[Lock], T], **options: Unpack[OnceOptions]
    ) -> Outcome[T]:
        """Runs `work` at most once per scope and key, and returns an outcome. `work` returns a JSON value.

        Raises `LatchkeyRequestError` for a call that can never succeed, and any exception of `work` unchanged, after the lock was given up.
        """
        return self._run(scope, key, work, Settings(**options), VALUE_CODEC)

    def _run(
        self, scope: str, key: str, work: Callable[[Lock], T], settings: Settings, codec: Codec[T]
    ) -> Outcome[T]:
        operation = Operation(scope, key, work, settings, codec, self._cache, environment=self._environment)
        with Report(self._tracer, operation) as report:
            finished = _Driver(self).drive(operation.steps())
            if isinstance(finished, Raised):
                raise finished.error
            report.outcome = finished.kind
            return finished

    def complete(self, pending: Pending, *, save_ms: int = SAVE_MS_DEFAULT) -> Outcome[Any]:
        """Saves the result of an earlier `Unknown`. Returns `Ran`, `TakenOver` or `Unknown`. Repeating it is safe."""
        return self._drive(once.complete(self._environment, pending, save_ms))

    def fetch_record(self, scope: str, key: str) -> SavedRecord | None:
        """Returns the record, or None if there is none. Raises `LatchkeyRequestError` if the service refuses or does not answer."""
        return self._drive(once.fetch_record(self._environment, scope, key))

    def remove_record(self, scope: str, key: str) -> bool:
        """Removes the record, so that the operation can run again, and keeps a lock. Returns whether there was a record. Raises like
        `fetch_record`."""
        if self._cache is not None:
            self._cache.delete(scope, key)
        return self._drive(once.remove_record(self._environment, scope, key))

    def _drive(self, steps: Steps[R]) -> R:
        return _Driver(self).drive(steps)

    def _send(self, call: Call) -> Reply:
        try:
            response = self._transport.handle_request(request_of(self._address, call))
            try:
                return reply_of(call, response.status_code, response.headers, _read(response, call.timeout_s))
            finally:
                response.close()
        except httpx.TimeoutException as error:
            return Failed("unreachable", "timeout", cause=error)
        except (httpx.TransportError, httpx.StreamError, OSError) as error:
            return Failed("unreachable", "no_answer", cause=error)

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read(response: httpx.Response, timeout_s: float) -> bytes | None:
    """Returns the body, or None if it is too long."""
    content = bytearray()
    until_s = Environment().now() + timeout_s
    # Not `iter_raw`, which refuses a response that a transport made of bytes.
    for part in cast(httpx.SyncByteStream, response.stream):
        content += part
        if len(content) > ANSWER_BYTES_MAX:
            return None
        if Environment().now() > until_s:
            raise httpx.ReadTimeout("The answer took too long")
    return bytes(content)

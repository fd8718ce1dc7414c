"""Client for coroutines."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import httpx

from . import once
from .api import SavedRecord
from .cache import Cache, RecordCache
from .client import CONNECTIONS, Report, request_of
from .held import HeldLock
from .once import SAVE_MS_DEFAULT, VALUE_CODEC, Codec, Operation, Settings
from .options import AsyncOnceOptions, Tracer
from .outcomes import Outcome, Pending, Raised, Returned
from .service import ANSWER_BYTES_MAX, Address, Call, Failed, Reply, reply_of
from .steps import Effect, Environment, Hold, Lock, Pause, Run, Send, Steps, Unhold

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

E = TypeVar("E")
R = TypeVar("R")
T = TypeVar("T")


class _Driver:
    """Performs the effects that steps yield in the caller's task, extends the lock in a second task, and runs `work` in a third one, which is
    cancelled when the lock is lost."""

    def __init__(self, latchkey: AsyncLatchkey) -> None:
        self._latchkey = latchkey
        self._held: HeldLock | None = None
        self._extending: asyncio.Task[None] | None = None
        self._running: asyncio.Task[Any] | None = None
        self._stop = asyncio.Event()
        self._interruption: asyncio.CancelledError | None = None
        """Cancellation of the caller, to be raised when nothing is left to do for the lock."""
        self._completes_calls = False
        """Whether calls are completed despite a cancellation: those that save a result or give up a lock."""

    async def drive(self, steps: Steps[R]) -> R:
        try:
            result = await drive(steps, self._perform)
        finally:
            self._unhold()
            if self._extending is not None:
                # Its result no longer matters, and a task must not outlive its event loop.
                self._extending.cancel()
                await asyncio.wait({self._extending})
        if self._interruption is not None:
            raise self._interruption
        return result

    async def _perform(self, effect: Effect) -> Any:
        try:
            return await self._do(effect)
        except asyncio.CancelledError:
            self._completes_calls = True
            raise

    async def _do(self, effect: Effect) -> Any:
        match effect:
            case Send(call) if self._completes_calls:
                sending = asyncio.create_task(self._latchkey._send(call))
                await self._wait_for_end(sending)
                return sending.result()
            case Send(call):
                return await self._latchkey._send(call)
            case Pause(seconds):
                if self._interruption is not None:
                    raise self._interruption
                await asyncio.sleep(seconds)
            case Run(function, lock):
                return await self._run(function, lock)
            case Hold(held):
                self._held = held
                self._completes_calls = True
                held.on_lost.append(self._cancel_running)
                self._extending = asyncio.create_task(self._extend(held))
            case Unhold():
                self._unhold()
                if self._extending is not None:
                    await self._wait_for_end(self._extending)
        return None

    async def _run(self, function: Callable[[Lock], Any], lock: Lock) -> Returned[Any] | Raised:
        running = self._running = asyncio.create_task(_call(function, lock))
        # The result of a cancelled function is still saved, if it has one.
        await self._wait_for_end(running, running.cancel)
        try:
            return Returned(running.result())
        except BaseException as error:
            return Raised(error)

    async def _wait_for_end(self, task: asyncio.Task[Any], on_cancelled: Callable[[], object] = lambda: None) -> None:
        """Waits for the end of a task, also after cancellations of the caller."""
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                self._interruption = error
                on_cancelled()

    def _cancel_running(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def _extend(self, held: HeldLock) -> None:
        async def perform(effect: Effect) -> Any:
            if isinstance(effect, Send):
                return await self._latchkey._send(effect.call)
            if isinstance(effect, Pause):
                try:
                    await asyncio.wait_for(self._stop.wait(), effect.seconds)
                except asyncio.TimeoutError:
                    pass
            return None

        await drive(held.extensions(), perform)

    def _unhold(self) -> None:
        if self._held is not None:
            self._held.stopped = True
        self._stop.set()


async def _call(function: Callable[[Lock], Any], lock: Lock) -> Any:
    result = function(lock)
    return await result if inspect.isawaitable(result) else result


async def drive(steps: Generator[E, Any, R], perform: Callable[[E], Awaitable[Any]]) -> R:
    """Runs steps to their end."""
    try:
        effect = next(steps)
        while True:
            try:
                result = await perform(effect)
            except BaseException as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(result)
    except StopIteration as stop:
        result_of_steps: R = stop.value
        return result_of_steps


class AsyncLatchkey:
    """Client of a Latchkey service for coroutines of asyncio. Create one per event loop, and close it, or use it in an `async with`
    statement."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        tracer: Tracer | None = None,
        cache: Cache | None = None,
    ) -> None:
        """`url`: address of the service. `api_key`: key of scope `records`. `transport`: for TLS settings or a proxy of your own, such as
        `httpx.AsyncHTTPTransport(verify=context)`. `tracer`: gets one span `latchkey.once` for each operation."""
        self._address = Address(url, api_key)
        self._transport = transport or httpx.AsyncHTTPTransport(limits=CONNECTIONS)
        self._tracer = tracer
        self._cache = RecordCache(cache) if cache else None
        self._environment = Environment()

    async def once(
        self, scope: str, key: str, work: Callable[[Lock], Awaitable[T]], **options: Unpack[AsyncOnceOptions]
    ) -> Outcome[T]:
        """Runs `work` at most once per scope and key, and returns an outcome. `work` returns a JSON value. It runs in a task of its own,
        which is cancelled when the lock is lost.

        Raises `LatchkeyRequestError` for a call that can never succeed, and any exception of `work` unchanged, after the lock was given up.
        If the caller is cancelled, so is `work`, and the lock is given up.
        """
        return await self._run(scope, key, work, Settings(**options), VALUE_CODEC)

    async def _run(
        self, scope: str, key: str, work: Callable[[Lock], Awaitable[T]], settings: Settings, codec: Codec[T]
    ) -> Outcome[T]:
        operation = Operation(
            scope, key, work, settings, codec, self._cache, asyncio.CancelledError, self._environment
        )
        with Report(self._tracer, operation) as report:
            finished = await _Driver(self).drive(operation.steps())
            if isinstance(finished, Raised):
                raise finished.error
            report.outcome = finished.kind
            return finished

    async def complete(self, pending: Pending, *, save_ms: int = SAVE_MS_DEFAULT) -> Outcome[Any]:
        """Saves the result of an earlier `Unknown`. Returns `Ran`, `TakenOver` or `Unknown`. Repeating it is safe."""
        return await self._drive(once.complete(self._environment, pending, save_ms))

    async def fetch_record(self, scope: str, key: str) -> SavedRecord | None:
        """Returns the record, or None if there is none. Raises `LatchkeyRequestError` if the service refuses or does not answer."""
        return await self._drive(once.fetch_record(self._environment, scope, key))

    async def remove_record(self, scope: str, key: str) -> bool:
        """Removes the record, so that the operation can run again, and keeps a lock. Returns whether there was a record. Raises like
        `fetch_record`."""
        if self._cache is not None:
            self._cache.delete(scope, key)
        return await self._drive(once.remove_record(self._environment, scope, key))

    async def _drive(self, steps: Steps[R]) -> R:
        return await _Driver(self).drive(steps)

    async def _send(self, call: Call) -> Reply:
        try:
            return await asyncio.wait_for(self._exchange(call), call.timeout_s)
        except (httpx.TimeoutException, asyncio.TimeoutError) as error:
            return Failed("unreachable", "timeout", cause=error)
        except (httpx.TransportError, httpx.StreamError, OSError) as error:
            return Failed("unreachable", "no_answer", cause=error)

    async def _exchange(self, call: Call) -> Reply:
        response = await self._transport.handle_async_request(request_of(self._address, call))
        try:
            return reply_of(call, response.status_code, response.headers, await _read(response))
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def _read(response: httpx.Response) -> bytes | None:
    """Returns the body, or None if it is too long."""
    content = bytearray()
    async for part in cast(httpx.AsyncByteStream, response.stream):
        content += part
        if len(content) > ANSWER_BYTES_MAX:
            return None
    return bytes(content)

"""Middleware for ASGI: FastAPI, Starlette and other frameworks."""

from __future__ import annotations

import asyncio
import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, Union
from urllib.parse import quote

from .aio import AsyncLatchkey
from .errors import NothingHappened
from .idempotency_key import MalformedKey, parse_key_header
from .once import Codec, Settings
from .outcomes import Busy, Outcome, Replayed, ReusedKey, TakenOver, Unavailable, Unknown
from .problem import problem
from .steps import Lock
from .stored_response import CapturedResponse, from_record, keep_headers, kept_header_names, to_record, without_body

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_TTL_SECONDS_DEFAULT = 86_400
_HELD_MS_MAX = 2000
"""Maximum milliseconds that a response waits for its record to be saved. The save goes on after it."""
_SCOPE_CHARS_MAX = 100
_OPERATION = "latchkey.operation"


@dataclass
class Operation:
    """Operation of a running request: `operation_of(request.scope)`."""

    lock: Lock
    is_without_effect: bool = False

    def nothing_happened(self) -> None:
        """Declares that the handler had no effect: if its response is not saved, the next attempt runs the handler again."""
        self.is_without_effect = True


def operation_of(scope: Scope) -> Operation | None:
    """Returns the operation that runs for a request, or None if the request is not guarded."""
    operation = scope.get(_OPERATION)
    return operation if isinstance(operation, Operation) else None


class Bounds(TypedDict, total=False):
    """Options of `once` that the middleware takes."""

    ttl_seconds: int
    lock_seconds: int
    wait_ms: int
    acquire_ms: int
    save_ms: int
    on_taken_over: Literal["refuse", "run"]
    on_unavailable: Literal["refuse", "run"]


class _NotSaved(Exception):
    """Response that is not saved."""


class _NothingSaved(NothingHappened):
    """Response that is not saved, of a handler without an effect."""


class IdempotencyMiddleware:
    """Runs the handlers of requests with an `Idempotency-Key` at most once per caller and key:
    `app.add_middleware(IdempotencyMiddleware, latchkey=latchkey, principal=user_of)`. Must be inside the middleware that authenticates
    the caller or compresses responses."""

    def __init__(
        self,
        app: App,
        latchkey: AsyncLatchkey | Callable[[], AsyncLatchkey],
        principal: Literal["none"] | Callable[[Scope], Union[str, Awaitable[str]]],
        *,
        scope: str | Callable[[Scope], str] | None = None,
        required: bool = True,
        accept_unquoted: bool = False,
        methods: Iterable[str] = ("POST", "PATCH"),
        request_bytes_max: int = 1024 * 1024,
        response_bytes_max: int = 180 * 1024,
        headers_kept: Iterable[str] = (),
        save: Callable[[int], bool] = lambda status: status < 500,
        bounds: Bounds | None = None,
    ) -> None:
        """`latchkey`: a client, or a function that returns it, for a client that is created at start-up. `principal`: returns a text
        that identifies the caller, such as the id of the user, from the ASGI scope, so that callers never see each other's responses;
        `"none"` for an app without users, whose callers share their keys. `scope`: namespace of the keys, by default method and path.
        `required`: whether a request without a key is refused. `save`: whether a response of this status is saved, by default below 500;
        one that is not saved counts as an exception. `bounds`: options of `once`."""
        if principal != "none" and not callable(principal):
            raise TypeError("Latchkey: `principal` must be a function that identifies the caller, or 'none'")
        self._app = app
        self._latchkey = latchkey
        self._principal = principal
        self._scope = scope
        self._required = required
        self._accept_unquoted = accept_unquoted
        self._methods = frozenset(method.upper() for method in methods)
        self._request_bytes_max = request_bytes_max
        self._response_bytes_max = response_bytes_max
        names = kept_header_names(headers_kept)
        self._headers_kept = names
        self._save = save
        settings = Settings(**(bounds or {}))
        self._ttl_seconds = settings.ttl_seconds or _TTL_SECONDS_DEFAULT
        self._settings = replace(settings, save_ms=min(settings.save_ms, _HELD_MS_MAX))
        self._save_later_ms = settings.save_ms - _HELD_MS_MAX
        self._codec = Codec(to_record, lambda record: from_record(record, names), without_body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in self._methods:
            return await self._app(scope, receive, send)
        values = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"idempotency-key"]
        if not values and not self._required:
            return await self._app(scope, receive, send)
        try:
            key = parse_key_header(values, self._accept_unquoted)
        except MalformedKey as error:
            detail = f"Keys are kept for {self._ttl_seconds} seconds."
            name: Literal["idempotency_key_missing", "idempotency_key_malformed"] = (
                "idempotency_key_missing" if error.kind == "missing" else "idempotency_key_malformed"
            )
            return await _answer(send, problem(name, detail))
        caller = await self._hash_principal(scope)
        body = await self._read(receive)
        if body is None:
            return await _answer(send, problem("idempotency_request_too_large"))
        await self._guard(scope, _Handler(self, scope, body, receive, send), f"{caller}:{key}", body)

    async def _hash_principal(self, scope: Scope) -> str:
        if not callable(self._principal):
            return "-"
        text = self._principal(scope)
        if not isinstance(text, str):
            text = await text
        # Otherwise all callers whom `principal` does not know would share their responses.
        if not isinstance(text, str) or text == "":
            raise TypeError("Latchkey: `principal` must return a text that identifies the caller")
        return _short_hash(text)

    async def _read(self, receive: Receive) -> bytes | None:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError("Latchkey: the caller hung up before its request was complete")
            body += message.get("body", b"")
            if len(body) > self._request_bytes_max:
                return None
            if not message.get("more_body", False):
                return bytes(body)

    async def _guard(self, scope: Scope, handler: _Handler, key: str, body: bytes) -> None:
        method, path = scope["method"], _path_of(scope)
        target = path + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        named = self._scope(scope) if callable(self._scope) else self._scope
        name = _shorten(named if named is not None else f"{method} {path.decode('latin-1')}")
        fingerprint = hashlib.sha256(method.encode() + b"\n" + target + b"\n" + body).hexdigest()
        settings = replace(self._settings, fingerprint=fingerprint)
        latchkey = self._latchkey if isinstance(self._latchkey, AsyncLatchkey) else self._latchkey()
        try:
            try:
                outcome = await latchkey._run(name, key, handler.run, settings, self._codec)
            except (_NotSaved, _NothingSaved):
                return await handler.finish()
            if handler.has_run:
                # Even if the save failed: the handler has had its effect.
                await handler.finish()
                if isinstance(outcome, Unknown) and outcome.reason == "no_answer" and self._save_later_ms > 0:
                    await latchkey.complete(outcome.pending, save_ms=self._save_later_ms)
                return
        finally:
            await handler.close()
        if handler.is_streaming:
            # The server ends the connection, so that the caller sees that its response is cut off.
            raise RuntimeError("Latchkey: the lock was lost while the response was sent")
        await _answer(handler.send, _response_of(outcome))


class _Handler:
    """Calls the app, buffers its response, and sends it once it is saved."""

    def __init__(self, guard: IdempotencyMiddleware, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        self.send = send
        self.has_run = False
        self._guard = guard
        self._scope = scope
        self._body: bytes | None = body
        self._receive_next = receive
        self._held: list[Message] = []
        self._held_bytes = 0
        self.is_streaming = False
        self._is_complete = False
        self._is_decided = asyncio.Event()
        """Set when the response is complete, or the app has ended without one."""
        self._app: asyncio.Task[None] | None = None
        self._start: Message | None = None

    async def run(self, lock: Lock) -> CapturedResponse:
        operation = Operation(lock)
        # A task, since the app may go on after its response, such as with the background tasks of Starlette.
        app = self._app = asyncio.create_task(self._call_app({**self._scope, _OPERATION: operation}))
        while not self._is_decided.is_set():
            try:
                await self._is_decided.wait()
            except asyncio.CancelledError:
                app.cancel()
        if not self._is_complete:
            await app
        self.has_run = True
        response = self._captured()
        if self._guard._save(response.status):
            return response
        text = f"The response has status {response.status}"
        raise _NothingSaved(text) if operation.is_without_effect else _NotSaved(text)

    async def _call_app(self, scope: Scope) -> None:
        try:
            await self._guard._app(scope, self._receive, self._hold)
        finally:
            self._is_decided.set()

    async def finish(self) -> None:
        """Sends what is held back, and waits for the end of the app."""
        await self._send_held()
        if self._app is not None:
            await self._app

    async def close(self) -> None:
        """Cancels an app that still runs, for example after a cancellation by the server."""
        if self._app is not None and not self._app.done():
            self._app.cancel()
            await asyncio.wait({self._app})

    async def _send_held(self) -> None:
        held, self._held = self._held, []
        for message in held:
            await self.send(message)

    async def _receive(self) -> Message:
        if self._body is None:
            return await self._receive_next()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _hold(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            content_type = dict(_headers_of(message)).get("content-type", "")
            if content_type.lower().startswith("text/event-stream"):
                raise RuntimeError(f"Latchkey: {self._scope['path']} responds with an event stream, which cannot be guarded")
        elif message["type"] == "http.response.body":
            self._held_bytes += len(message.get("body", b""))
            # A flush of the headers alone: the app streams.
            is_flush = message.get("more_body", False) and not message.get("body", b"")
            self.is_streaming = self.is_streaming or is_flush or self._held_bytes > self._guard._response_bytes_max
            self._is_complete = not message.get("more_body", False)
        else:
            # The message has no body bytes, but for example the path of a file.
            self.is_streaming = self._is_complete = True
        self._held.append(message)
        if self.is_streaming:
            await self._send_held()
        if self._is_complete:
            self._is_decided.set()

    def _captured(self) -> CapturedResponse:
        # Frameworks end a stream early if the caller hangs up.
        if self._start is None or not self._is_complete:
            raise RuntimeError("Latchkey: the app ended before its response was complete")
        headers = keep_headers(_headers_of(self._start), self._guard._headers_kept)
        parts = (each.get("body", b"") for each in self._held if each["type"] == "http.response.body")
        return CapturedResponse(self._start["status"], headers, None if self.is_streaming else b"".join(parts))


def _headers_of(message: Message) -> list[tuple[str, str]]:
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in message.get("headers", [])]


def _response_of(outcome: Outcome[CapturedResponse]) -> CapturedResponse:
    match outcome:
        case Replayed(response):
            if response.body is None:
                return problem("idempotency_response_not_kept")
            headers = {**response.headers, "idempotent-replayed": "true"}
            return CapturedResponse(response.status, headers, response.body)
        case ReusedKey():
            return problem("idempotency_key_reused")
        case Busy(retry_after_ms):
            return problem("idempotency_key_in_use", retry_after_ms=retry_after_ms)
        case Unavailable(_, retry_after_ms):
            return problem("idempotency_unavailable", retry_after_ms=retry_after_ms)
        case TakenOver():
            return problem("idempotency_outcome_unknown")
        case _:
            raise AssertionError("a handler that ran has a response")


async def _answer(send: Send, response: CapturedResponse) -> None:
    body = response.body or b""
    headers = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in response.headers.items()]
    if response.status not in (204, 205, 304):
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _path_of(scope: Scope) -> bytes:
    """Returns the path as it was sent, percent-encoded, without the query. Not every server has it."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"], safe="/!$&'()*+,;=:@~").encode()
    return raw.partition(b"?")[0]


def _shorten(scope: str) -> str:
    """Replaces the part of a scope beyond 100 characters by its hash."""
    if len(scope) <= _SCOPE_CHARS_MAX:
        return scope
    return f"{scope[:_SCOPE_CHARS_MAX]}~{_short_hash(scope[_SCOPE_CHARS_MAX:])}"


def _short_hash(text: str) -> str:
    """Returns the first 22 characters of the base64url SHA-256 of a text: 132 bits."""
    return urlsafe_b64encode(hashlib.sha256(text.encode()).digest())[:22].decode()
